"""What comments and docstrings refer the reader to is there."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = [
    path
    for folder in ("tradewind", "router", "worker", "bench", "examples", "tools", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
# A page, and perhaps a heading of it: `docs/routing.md, By hand`.
PAGE = re.compile(r"(?<![\w/.-])([\w./-]+\.md)(?:, ([A-Z][\w ]*))?")
# Papers that readers do not have: what they said stands in the pages.
UNPUBLISHED = re.compile(r"\b(design|contract) sections? \d")
SUSPECT = re.compile(rf"\.md\b|{UNPUBLISHED.pattern}")
ELSEWHERE = {"spec/standard-webhooks.md", "FILE.md"}  # of a project named beside it; of anybody


def words(path: Path) -> Iterator[str]:
    """Its comments, each block of them as one text, and its docstrings."""
    source = path.read_text(encoding="utf-8")
    if not SUSPECT.search(source):
        return
    block: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            block.append(token.string.lstrip("#: "))
        elif token.type != tokenize.NL and block:
            yield " ".join(block)
            block = []
    yield " ".join(block)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield " ".join((ast.get_docstring(node) or "").split())


def cited() -> Iterator[tuple[str, str, str]]:
    for path in CODE:
        for text in words(path):
            for page, heading in PAGE.findall(text):
                yield str(path.relative_to(ROOT)), page, heading


@pytest.mark.parametrize(("where", "page", "heading"), sorted(set(cited())))
def test_a_page_that_the_code_cites_is_in_the_repository(
    where: str, page: str, heading: str
) -> None:
    if page in ELSEWHERE:
        return
    found = ROOT / page
    assert found.is_file(), f"{where} cites {page}"
    if heading:
        headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
        assert heading.strip() in headings, f"{where} cites {page}, {heading}"


def test_the_code_cites_no_paper_that_is_not_in_the_repository() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in CODE
        if path != Path(__file__)
        for text in words(path)
        if UNPUBLISHED.search(text)
    ]
    assert found == []

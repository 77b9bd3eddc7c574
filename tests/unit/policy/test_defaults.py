"""Every number of routing stands in one place, with its unit and its source."""

import ast
import re
from pathlib import Path

from tradewind.policy import defaults

POLICY = Path(defaults.__file__).parent
ROUTER = POLICY.parent.parent / "router"
LINE = re.compile(r"^#: (?P<unit>[^;]+); (?P<what>[^;]+); (?P<source>[^;]+)$")
UNITS = {
    *("seconds", "ms", "tasks/s", "tasks", "share", "share/s", "times", "entries"),
    *("seconds per second", "times the average by weight"),
}


def test_each_has_a_unit_a_meaning_and_a_source() -> None:
    lines = (POLICY / "defaults.py").read_text().splitlines()
    numbers = [i for i, line in enumerate(lines) if re.match(r"[A-Z][A-Z_0-9]+: Final = ", line)]
    assert len(numbers) > 20
    for index in numbers:
        found = LINE.match(lines[index - 1])
        assert found, lines[index]
        assert found["unit"] in UNITS, lines[index]


def numbers_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant | ast.BinOp):
            literal = ast.unparse(value)
            if re.search(r"\d", literal) and not isinstance(
                getattr(value, "value", 0), str | bytes
            ):
                found.add(f"{path.name}: {target.id}")
    return found


def test_no_other_module_of_routing_has_a_number() -> None:
    paths = [path for path in POLICY.glob("*.py") if path.name != "defaults.py"]
    paths += [ROUTER / "route.py", ROUTER / "pace.py"]
    found = set[str]().union(*map(numbers_of, paths))
    assert found == {"pace.py: _A_TRIFLE"}  # of rounding

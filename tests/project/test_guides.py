"""The examples of the guides run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def blocks(guide: str, language: str) -> list[str]:
    """The guide's examples in one language."""
    text = (DOCS / guide).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def examples(guide: str) -> dict[str, Any]:
    """Everything that the guide's examples define, one after the other."""
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n".join(blocks(guide, "python")), guide, "exec"), names)  # noqa: S102 - our own text
    return names


def test_the_testing_guide_runs_in_a_project_that_does_what_it_says(tmp_path: Path) -> None:
    (setup,) = blocks("testing.md", "toml")
    (tmp_path / "pyproject.toml").write_text(setup)
    (tmp_path / "test_app.py").write_text("\n".join(blocks("testing.md", "python")))
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "6 passed" in run.stdout


def test_the_examples_of_the_handlers_guide_load() -> None:
    assert {"tell", "count", "report", "build"} <= examples("handlers.md").keys()

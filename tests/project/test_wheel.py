import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Every file in a wheel built from this tree, without network."""
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def sources(pattern: str) -> set[str]:
    found = [p for d in ("tradewind", "router", "worker") for p in (ROOT / d).rglob(pattern)]
    return {p.relative_to(ROOT).as_posix() for p in found if "__pycache__" not in p.parts}


@pytest.mark.parametrize("pattern", ["*.py", "*.pyi", "*.lua", "*.json", "*.yaml", "py.typed"])
def test_everything_a_running_tradewind_reads_is_in_the_wheel(
    names: set[str], pattern: str
) -> None:
    expected = sources(pattern)
    assert expected, f"no {pattern} in the tree: the test looks in the wrong place"
    assert expected <= names


def test_each_package_says_that_it_is_typed(names: set[str]) -> None:
    assert {f"{package}/py.typed" for package in ("tradewind", "router", "worker")} <= names


def test_nothing_else_is_in_the_wheel(names: set[str]) -> None:
    tops = {name.split("/", 1)[0] for name in names}
    assert {t for t in tops if not t.endswith(".dist-info")} == {"tradewind", "router", "worker"}
    assert not [n for n in names if "test" in n.rsplit("/", 1)[-1] and n != "tradewind/testing.py"]


def test_the_wheel_carries_licence_and_command(names: set[str]) -> None:
    ends = {name.split(".dist-info/", 1)[1] for name in names if ".dist-info/" in name}
    assert {"licenses/LICENSE", "entry_points.txt"} <= ends

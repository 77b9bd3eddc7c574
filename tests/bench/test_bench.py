"""A row small enough to run with the suite, on real processes."""

import dataclasses
import json
from pathlib import Path

import psutil
import pytest

from bench import __main__ as main
from bench.rig.lab import QUICK

TINY = dataclasses.replace(QUICK, drain=200)


@pytest.mark.long
def test_a_small_drain_is_measured_beside_its_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "QUICK", TINY)
    out = tmp_path / "result.json"
    before = set(psutil.Process().children(recursive=True))  # servers of other tests
    assert main.main(["--quick", "--only", "drain", "--out", str(out)]) == 0, capsys.readouterr()
    result = json.loads(out.read_text())
    samples = {one["contender"]: one["metrics"] for one in result["rows"]["drain"]["samples"]}
    assert samples.keys() == {"tradewind", "tradewind, no key", "floor"}
    for metrics in samples.values():
        assert metrics["per_s"] > 0
        assert metrics["n"] == 200
    names = [figure["name"] for figure in result["rows"]["drain"]["figures"]]
    assert "rate / floor" in names
    assert "rate / prototype" not in names  # --quick runs no other queues
    assert "rate / floor" in capsys.readouterr().out
    assert set(psutil.Process().children(recursive=True)) <= before


@pytest.mark.parametrize(
    "wrong",
    [["--only", "drian"], ["--peers", "celery"], ["compare"], ["--reps", "many"]],
)
def test_a_slip_on_the_command_line_is_wrong_usage(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(wrong)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err

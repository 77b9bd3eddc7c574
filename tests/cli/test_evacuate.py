"""tradewind evacuate and tradewind moves."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.cli.conftest import TASK_ID, Run
from tradewind.cli.evacuate import leaves_later
from tradewind.client import Admin
from tradewind.client.moves import EvacuationStatus


def test_evacuate_says_what_moved_and_what_stays_and_why(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evacuate", "small", "--rate", "50", "--router", router) == 0
    out, _ = capsys.readouterr()
    assert out.splitlines() == ["small: 1,200 tasks moved", "  2 stay: pinned"]


def test_an_evacuation_that_left_what_may_leave_later_is_no_success(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evacuate", "eu-west", "--router", router) == 1
    out, err = capsys.readouterr()
    assert "  7 stay for now: us-east: full" in out.splitlines()
    assert "7 may leave later: the order stands; run it again in 3 min" in err


SMALL, LATELY = "us: not healthy", "moved less than 10 min ago"
LEFT: dict[str, tuple[dict[str, int], dict[str, int], int]] = {
    "moved a while ago": ({LATELY: 3, "pinned": 2}, {LATELY: 3}, 10),
    "other things first": ({LATELY: 3, SMALL: 1}, {LATELY: 3, SMALL: 1}, 3),
    "nothing will leave": ({"pinned": 2, "no other permitted region": 1}, {}, 10),
}


@pytest.mark.parametrize(("kept", "later", "minutes"), LEFT.values(), ids=LEFT)
def test_when_to_look_again_is_said(
    kept: dict[str, int], later: dict[str, int], minutes: int
) -> None:
    found = leaves_later(kept)
    assert found[0] == later
    assert not later or found[1] == minutes


def test_evacuate_as_json_is_the_last_word(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evacuate", "eu-west", "--router", router, "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert said["may_leave_later"] == {"us-east: full": 7}
    assert said["evacuation"] == {
        "moved": 1_200,
        "remaining": 0,
        "kept": {"pinned": 2, "us-east: full": 7},
        "done": True,
    }


def test_a_dry_run_says_what_would_move(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evacuate", "eu-west", "--dry-run", "--router", router) == 0
    out, err = capsys.readouterr()
    assert "eu-west: 1,200 tasks would move" in out
    assert "  7 stay for now: us-east: full" in out.splitlines()
    assert err == "", "nothing was ordered"


def test_a_dry_run_says_how_many_it_did_not_look_at(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evacuate", "huge", "--dry-run", "--router", router) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "  5 more: not looked at; ask again once some have moved"


def test_an_order_that_is_taken_back_is_no_success(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("evacuate", "taken-back", "--router", router) == 1
    assert "was ended: it is ordered no more" in capsys.readouterr().out


def test_an_interrupted_watch_says_that_the_order_stands(
    run: Run, router: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: Any, **__: Any) -> AsyncGenerator[EvacuationStatus, None]:
        yield EvacuationStatus(1, 2, {}, done=False)
        raise KeyboardInterrupt

    monkeypatch.setattr(Admin, "evacuate", interrupted)
    assert run("evacuate", "eu-west", "--router", router) == 130
    _, err = capsys.readouterr()
    assert "The order stands" in err
    assert "tradewind activate eu-west" in err


def test_moves_are_listed_with_where_they_lead(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("moves", "list", "--router", router) == 0
    out, _ = capsys.readouterr()
    for text in (TASK_ID, "eu-west", "us-east", "unserved", "SCHEDULED", "2023-11-14"):
        assert text in out
    assert run("moves", "list", "--router", router, "--json") == 0
    (move,) = json.loads(capsys.readouterr().out)["moves"]
    assert (move["task_id"], move["epoch"]) == (TASK_ID, 2)


def test_no_moves_and_who_was_silent(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("moves", "list", "--region", "ap-south", "--router", router) == 0
    assert capsys.readouterr().out == "nothing is on its way\n"
    assert run("moves", "list", "--region", "us-east", "--router", router) == 0
    out, err = capsys.readouterr()
    assert out == "", "nobody knows"
    assert "us-east" in err


def test_a_forced_end_says_that_the_task_may_run_twice(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("moves", "retarget", TASK_ID, "--router", router) == 1
    assert "no answer from region us-east" in capsys.readouterr().err
    assert run("moves", "retarget", TASK_ID, "--force", "--router", router) == 0
    out, err = capsys.readouterr()
    assert f"{TASK_ID}: the move was ended: it is PENDING in eu-west" in out
    assert "it runs twice" in err


def test_a_task_on_no_move_is_told_of(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("moves", "retarget", "another", "--router", router) == 0
    assert "another: it is on no move: COMPLETED in eu-west" in capsys.readouterr().out

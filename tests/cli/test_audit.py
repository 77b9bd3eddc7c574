"""tradewind audit."""

import json

import pytest

from tests.cli.conftest import Run


def test_audit_shows_who_did_what_and_what_was_asked_for(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("audit", "--router", router) == 0
    out, err = capsys.readouterr()
    for text in ("redrive", "mail: 1,200", "error_kind exhausted", "2023-11-14"):
        assert text in out
    assert "--page-token t2" in err
    assert "\x1b" not in out, "what callers call themselves is no command to a terminal"


def test_audit_as_json_is_what_the_router_said(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("audit", "--router", router, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["records"][0]["counts"] == {"mail": 1_200}
    assert said["next_page_token"] == "t2"


def test_audit_of_nothing_says_so_unless_somebody_was_silent(
    run: Run, router: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("audit", "--region", "ap-south", "--router", router) == 0
    assert capsys.readouterr().out == "nothing was done\n"
    assert run("audit", "--region", "us-east", "--router", router) == 0
    out, err = capsys.readouterr()
    assert out == "", "nobody knows"
    assert "us-east" in err

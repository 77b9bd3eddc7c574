"""tradewind policy diff: what a new file would change, and when somebody should look."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run

REGIONS = {
    "us-east": "{redis: 'redis://h:1', residency: [us]}",
    "eu-west": "{redis: 'redis://h:2', residency: [eu]}",
    "eu-north": "{redis: 'redis://h:3', residency: [eu]}",
}
RULES = [
    "{name: pii, match: {labels: {class: pii}}, residency: [eu]}",
    "{name: gpu, match: {names: ['gpu.*']}, prefer: [us-east]}",
]
RTT = "rtt: {us-east: {eu-west: 90ms, eu-north: 99ms}, eu-west: {eu-north: 20ms}}\n"
TASKS: list[dict[str, object]] = [
    {"name": "mail.send", "labels": {"class": "pii"}, "idempotency_key": "k"},
    {"name": "gpu.train", "args": {"epochs": 3}},
    {"name": "mail.send"},
]
Write = Callable[..., str]


def policy(regions: dict[str, str] = REGIONS, rules: list[str] = RULES, more: str = "") -> str:
    listed = "".join(f"  {name}: {region}\n" for name, region in regions.items())
    listed_rules = "rules:\n" + "".join(f"  - {rule}\n" for rule in rules) if rules else ""
    return f"version: 1\nregions:\n{listed}{listed_rules}{more}"


@pytest.fixture
def files(tmp_path: Path) -> Write:
    """Write old and new file and tasks; give the arguments of a diff."""

    def write(new: str, tasks: list[dict[str, object]] = TASKS, old: str = policy(more=RTT)) -> str:
        (tmp_path / "old.yaml").write_text(old)
        (tmp_path / "new.yaml").write_text(new)
        (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
        return str(tmp_path)

    return write


def diff(run: Run, where: str, *more: str) -> int:
    old, new = f"{where}/old.yaml", f"{where}/new.yaml"
    return run("policy", "diff", old, new, "--tasks", f"{where}/tasks.jsonl", *more)


def test_the_same_file_changes_nothing(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(run, files(policy(more=RTT + "# a comment\n"))) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "3 tasks, 9 routes: 9 stay, 0 move, 0 refused now, 0 no longer refused\n" in said.out
    assert said.out.endswith("No alarm: nothing is refused, opened or forgotten.\n")


def test_without_tasks_it_claims_nothing_about_them(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    where = files(policy(more=RTT))
    assert run("policy", "diff", f"{where}/old.yaml", f"{where}/new.yaml") == 0
    out = capsys.readouterr().out
    assert "refused" not in out
    assert "--tasks" in out.splitlines()[-1]


def test_tasks_that_only_move_are_counted_and_raise_no_alarm(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = [RULES[0], RULES[1].replace("us-east", "eu-west")]
    assert diff(run, files(policy(rules=rules, more=RTT))) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["us-east", "eu-west", "3", "task", "2", "(gpu.train)", "from", "us-east"] in lines
    assert "No alarm" in " ".join(lines[-1])


OPEN = policy(rules=[RULES[0].replace("[eu]", "[eu, us]"), RULES[1]], more=RTT)
UNFENCED = policy(rules=RULES[1:], more=RTT)
SHADOWED = policy(rules=["{name: all-mail, match: {names: ['mail.*']}}", *RULES], more=RTT)
MOVED = policy({**REGIONS, "us-east": "{redis: 'redis://h:9', residency: [us]}"}, more=RTT)
WITHOUT = policy({k: v for k, v in REGIONS.items() if k != "eu-north"})
ALARMS = {
    "a fence with a group more": (
        OPEN,
        "! rule pii [eu] -> [eu, us]: now lets in us-east",
        ["a fence lets more regions in", "repeats are forgotten"],
    ),
    "a fence that is gone": (
        UNFENCED,
        "! rule pii [eu] -> (not there): now lets in us-east",
        ["a fence lets more regions in", "repeats are forgotten"],
    ),
    "a rule that takes tasks before their fence": (
        SHADOWED,
        "! rule pii [eu] -> rule all-mail without a fence: 3 routes may now go to us-east, too, ",
        ["a fence lets more regions in", "repeats are forgotten"],
    ),
    "a region that leaves at once": (
        WITHOUT,
        "! eu-north leaves with a weight: first give it 0 for one window (24h)",
        ["the set of regions changes by more than a step"],
    ),
    "another Redis": (
        MOVED,
        "! us-east has another Redis: tasks that the old one holds are not in the new one",
        ["a region has another Redis"],
    ),
}


@pytest.mark.parametrize(("new", "said", "alarms"), ALARMS.values(), ids=ALARMS)
def test_somebody_should_look_at(
    run: Run,
    files: Write,
    capsys: pytest.CaptureFixture[str],
    new: str,
    said: str,
    alarms: list[str],
) -> None:
    where = files(new)
    assert diff(run, where) == 1
    assert said in capsys.readouterr().out
    assert diff(run, where, "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert set(alarms) <= set(shown["alarms"])


def test_what_is_refused_now_says_why(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks: list[dict[str, object]] = [{"name": "a", "pin_region": "eu-north"}, {"name": "b"}]
    where = files(WITHOUT, tasks)
    assert diff(run, where, "--origin", "us-east", "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["tasks"], shown["routes"], shown["stay"]) == (2, 2, 1)
    assert "a task is refused that was not" in shown["alarms"]
    (refused,) = shown["refused_now"]
    assert (refused["origin"], refused["target"], refused["routes"]) == ("eu-north", "refused", 1)
    assert "'eu-north' is not a region" in refused["why"]
    where = files(policy(more=RTT), tasks, old=WITHOUT)
    assert diff(run, where, "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert [each["target"] for each in shown["accepted_now"]] == ["eu-north"]
    assert shown["steps"] == ["eu-north is new: first mark it `new: true` for one window (24h)"]


def test_repeats_are_forgotten_where_no_home_is_left_in_common(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks: list[dict[str, object]] = [
        {"name": "mail.send", "idempotency_key": f"k{number}"} for number in range(30)
    ]
    assert diff(run, files(WITHOUT, tasks), "--origin", "us-east") == 1
    said = capsys.readouterr().out
    assert "Repeats\n! " in said
    assert "routes with an idempotency key or payload that was submitted before" in said
    announced = {**REGIONS, "eu-north": "{redis: 'redis://h:3', residency: [eu], new: true}"}
    where = files(policy(announced), tasks, old=WITHOUT)
    assert diff(run, where, "--origin", "us-east", "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["forgotten"], shown["steps"], shown["opened"]) == ("", [], [])
    # Whether the new region is where it says it is nobody but people can tell.
    assert shown["alarms"] == ["a fence lets more regions in"]


def test_repeats_are_forgotten_where_the_fence_changes_even_if_the_home_does_not(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [{**TASKS[0], "idempotency_key": f"k{number}"} for number in range(30)]
    assert diff(run, files(OPEN, tasks), "--origin", "us-east") == 1
    assert "! 30 routes with an idempotency key" in capsys.readouterr().out


UNUSABLE = {
    "other partitions": (policy(more="partitions: 128\n"), "partitions: 128"),
    "another deployment": (policy(more="deployment: other\n"), "deployment: 'other'"),
    "another fleet": (policy({"mars": "redis://h"}).replace("redis://h", "{redis: 'redis://h'}")
                      .replace("residency: [eu]", "prefer: [mars]").replace("us-east", "mars"),
                      "has no region in common with the old file"),
    "a mistake": (policy(more="rulse: []\n"), "rulse: unknown key (did you mean rules?)"),
}  # fmt: skip


@pytest.mark.parametrize(("new", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_new_file_is_unusable_for(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str], new: str, said: str
) -> None:
    assert diff(run, files(new)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Error: ")
    assert said in shown.err


def test_tasks_that_cannot_be_read_compare_nothing(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(run, files(policy(), [{"name": "a", "quue": "b"}])) == 2
    said = capsys.readouterr()
    assert (
        "line 1: no such option: quue (did you mean queue?); a line may have name, args, "
        in said.err
    )
    assert "TaskOptions" not in said.err
    assert "nothing was compared" in said.err
    assert diff(run, files(policy()), "--origin", "mars") == 2
    assert "--origin mars: both files must have it" in capsys.readouterr().err


def test_without_tasks_the_files_alone_are_compared(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    where = files(OPEN)
    assert run("policy", "diff", f"{where}/old.yaml", f"{where}/new.yaml") == 1
    said = capsys.readouterr().out
    assert "routes" not in said
    assert "now lets in us-east" in said


def test_names_of_tasks_cannot_steer_the_terminal(
    run: Run, files: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks: list[dict[str, object]] = [{"name": HOSTILE, "tenant": HOSTILE}]
    assert diff(run, files(OPEN, tasks)) == 1
    assert "\x1b" not in capsys.readouterr().out

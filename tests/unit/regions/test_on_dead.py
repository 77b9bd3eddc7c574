"""`on_dead` of a queue: what may stand there, what may not, and what never shows."""

import base64
from pathlib import Path

import pytest

from tradewind.errors import ConfigError, ConfigErrors
from tradewind.fleet import DeadTaskHandler, OnDead, Webhook
from tradewind.regions import loads, warnings

TWO = """\
version: 1
regions:
  eu: {redis: "redis://127.0.0.1:6401", residency: [eu]}
  us: {redis: "redis://127.0.0.1:6402", residency: [us]}
"""
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
SHORT = "whsec_" + base64.b64encode(bytes(23)).decode()
LONG = "whsec_" + base64.b64encode(bytes(65)).decode()
URL = "https://hooks.example.org/dead"
ENV = {"KEY": SECRET, "SHORT": SHORT, "LONG": LONG, "BARE": SECRET.removeprefix("whsec_"), "U": URL}


def mail(on_dead: str, default: str = "{}") -> str:
    return f"{TWO}queues:\n  default: {default}\n  mail:\n    on_dead: {on_dead}\n"


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        loads(text, "regions.yaml", ENV)
    return caught.value


HOOKS: dict[str, tuple[str, OnDead | None]] = {
    "a task": ("{task: ops.page}", DeadTaskHandler("ops.page", "default")),
    "a task of a queue": ("{task: t, queue: mail}", DeadTaskHandler("t", "mail")),
    "a webhook": (f"{{webhook: '{URL}', secret: '${{KEY}}'}}", Webhook(URL, SECRET, (), 15_000)),
    "a webhook in a group": (
        f"{{webhook: '{URL}', secret: '${{KEY}}', residency: [eu], timeout: 2s}}",
        Webhook(URL, SECRET, ("eu",), 2_000),
    ),
    "a webhook whose address is a secret": (
        "{webhook: '${U}', secret: '${KEY}'}",
        Webhook(URL, SECRET),
    ),
    "a webhook on this machine": (
        "{webhook: 'http://127.0.0.1:8080/x', secret: '${KEY}'}",
        Webhook("http://127.0.0.1:8080/x", SECRET),
    ),
    "a webhook on this machine, by IPv6": (
        "{webhook: 'http://[::1]:8080/x', secret: '${KEY}'}",
        Webhook("http://[::1]:8080/x", SECRET),
    ),
    "nobody": ("{}", None),
}


@pytest.mark.parametrize(("on_dead", "expected"), HOOKS.values(), ids=HOOKS)
def test_a_queue_tells(on_dead: str, expected: OnDead | None) -> None:
    assert loads(mail(on_dead), env=ENV).queue("mail").on_dead == expected


def test_a_secret_file_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET + "\n")
    text = mail(f"{{webhook: '{URL}', secret_file: key}}")
    assert loads(text, str(tmp_path / "regions.yaml"), {}).queue("mail").on_dead == Webhook(
        URL, SECRET
    )


def test_a_queue_takes_all_of_defaults_hook_or_none_of_it() -> None:
    default = f"{{on_dead: {{webhook: '{URL}', secret: '${{KEY}}'}}}}"
    fleet = loads(mail("{task: t}", default) + "  none: {on_dead: {}}\n  same: {}\n", env=ENV)
    assert fleet.queue("mail").on_dead == DeadTaskHandler("t")
    assert fleet.queue("none").on_dead is None
    assert fleet.queue("same").on_dead == fleet.queue("unnamed").on_dead == Webhook(URL, SECRET)
    assert fleet.hooked == {"": True, "default": True, "mail": True, "none": False, "same": True}
    assert fleet.sends_webhooks
    assert loads(TWO, env={}).hooked == {}


NOT: dict[str, tuple[str, str]] = {
    "both": (f"{{webhook: '{URL}', task: t}}", "8:14: queues.mail.on_dead: needs exactly one of"),
    "neither": ("{timeout: 1s}", "8:14: queues.mail.on_dead: needs exactly one of webhook and"),
    "an unknown key": ("{webhok: x}", "8:15: queues.mail.on_dead.webhok: unknown key (did you"),
    "a list": ("[t]", "8:14: queues.mail.on_dead: must be a mapping"),
    "a task with a secret": ("{task: t, secret_file: f}", "8:24: queues.mail.on_dead.secret_file"),
    "a task with a time-out": ("{task: t, timeout: 1s}", "timeout goes with webhook only"),
    "a task with a group": ("{task: t, residency: [eu]}", "residency goes with webhook only"),
    "an empty task": ("{task: ''}", "8:21: queues.mail.on_dead.task: task names are 1 to 200"),
    "a task with a space": ("{task: a b}", "on_dead.task: task names are 1 to 200 letters"),
    "a task of no queue": ("{task: t, queue: male}", "names no queue male (did you mean mail?)"),
    "a webhook with a queue": (
        f"{{webhook: '{URL}', secret: '${{KEY}}', queue: mail}}",
        "queue goes with task only",
    ),
    "a webhook without a secret": (f"{{webhook: '{URL}'}}", "a webhook needs secret_file"),
    "two secrets": (
        f"{{webhook: '{URL}', secret: '${{KEY}}', secret_file: f}}",
        "on_dead.secret_file: secret and secret_file are both given",
    ),
    "no such file": (f"{{webhook: '{URL}', secret_file: /no/such}}", "cannot be read: No such"),
    "a secret in the file": (
        f"{{webhook: '{URL}', secret: {SECRET}}}",
        "may not stand in the file",
    ),
    "a variable that is not set": (f"{{webhook: '{URL}', secret: '${{NO}}'}}", "NO is not set"),
    "a short secret": (f"{{webhook: '{URL}', secret: '${{SHORT}}'}}", "24 to 64 random bytes"),
    "a long secret": (f"{{webhook: '{URL}', secret: '${{LONG}}'}}", "24 to 64 random bytes"),
    "a secret without its mark": (f"{{webhook: '{URL}', secret: '${{BARE}}'}}", "must be whsec_"),
    "an unknown group": (
        f"{{webhook: '{URL}', secret: '${{KEY}}', residency: [ue]}}",
        "on_dead.residency[0]: no region is in group ue",
    ),
    "no URL": ("{webhook: hooks.example.org, secret: '${KEY}'}", "on_dead.webhook: is not a URL"),
    "another scheme": ("{webhook: 'ftp://h/x', secret: '${KEY}'}", "on_dead.webhook: is not a URL"),
    "a bad port": ("{webhook: 'https://h:99999/', secret: '${KEY}'}", "on_dead.webhook: is not a"),
    "a control character": ('{webhook: "https://h/\\n", secret: "${KEY}"}', "is not a URL"),
    "an open http": (
        "{webhook: 'http://hooks.example.org/', secret: '${KEY}'}",
        "http:// is for loopback hosts alone; use https://",
    ),
    "a host that begins like loopback": (
        "{webhook: 'http://127.0.0.1.example.org/', secret: '${KEY}'}",
        "http:// is for loopback hosts alone",
    ),
    "a password in the URL": (
        "{webhook: 'https://u:hunter2@h/', secret: '${KEY}'}",
        "may not hold user or password",
    ),
    "a time-out of nothing": (
        f"{{webhook: '{URL}', secret: '${{KEY}}', timeout: 0s}}",
        "on_dead.timeout: must be 1ms to 1m",
    ),
}


@pytest.mark.parametrize(("on_dead", "message"), NOT.values(), ids=NOT)
def test_a_queue_cannot_tell(on_dead: str, message: str) -> None:
    said = str(refused(mail(on_dead)))
    assert message in said
    for secret in (SECRET, SHORT, LONG, "hunter2", URL):
        assert secret not in said


def test_what_is_wrong_in_default_is_shown_there_once() -> None:
    error = refused(TWO + "queues:\n  default: {on_dead: {task: ''}}\n  a: {}\n  b: {}\n")
    assert not isinstance(error, ConfigErrors)
    assert "6:29: queues.default.on_dead.task" in str(error)


def test_nothing_shows_a_secret_or_an_address() -> None:
    fleet = loads(mail("{webhook: '${U}', secret: '${KEY}'}"), env=ENV)
    assert SECRET not in repr(fleet)
    assert URL not in repr(fleet)
    other = loads(
        mail("{webhook: '${U}', secret: '${KEY}'}"), env={**ENV, "KEY": SECRET[:-8] + "AAAAAAA="}
    )
    assert other.version == fleet.version
    assert loads(mail("{task: t}"), env=ENV).version != fleet.version


def test_a_receiver_that_may_be_anywhere_is_pointed_out_where_tasks_are_fenced() -> None:
    text = mail(f"{{webhook: '{URL}', secret: '${{KEY}}'}}")
    rules = "rules: [{name: r, match: {tenants: [a]}, residency: [eu]}]\n"
    said = [line for line in warnings(loads(text + rules, env=ENV)) if "webhook" in line]
    assert len(said) == 1
    assert said[0].startswith("the webhook of queue mail says no residency")
    inside = text.replace("secret:", "residency: [eu], secret:") + rules
    assert not [line for line in warnings(loads(inside, env=ENV)) if "webhook" in line]
    assert not [line for line in warnings(loads(text, env=ENV)) if "webhook" in line]

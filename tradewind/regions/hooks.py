"""From an `on_dead:` section to who hears of a dead task.

No message here quotes an address or a secret.
"""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tradewind.fleet import DeadTaskHandler, OnDead, Webhook
from tradewind.limits import MAX_NAME_BYTES
from tradewind.regions.hidden import ENV, expand, secret_in
from tradewind.regions.reader import MisfitError
from tradewind.regions.schema import OnDeadSection
from tradewind.regions.units import did_you_mean

_NAME = re.compile(rf"[A-Za-z0-9._:/-]{{1,{MAX_NAME_BYTES}}}")  # docs/limits.md
_LOOPBACK = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1")
_PREFIX = "whsec_"
_KEY_BYTES = range(24, 65)  # Standard Webhooks, "Signature scheme": 192 to 512 bits
_WEBHOOK_KEYS = ("secret", "secret_file", "residency", "timeout")


def on_dead(
    section: OnDeadSection,
    env: Mapping[str, str],
    base: Path,
    *,
    groups: Collection[str] | None,
    queues: frozenset[str],
) -> OnDead | None:
    """Resolve one section. `base`: what relative paths start from; the rest is what there is.

    Raises MisfitError with a path relative to the section.
    """
    given = section.model_fields_set
    forms = [form for form in ("webhook", "task") if form in given]
    if not given:
        return None
    if len(forms) != 1:
        raise MisfitError((), "needs exactly one of webhook and task; {} means nobody is told")
    if forms == ["task"]:
        for key in _WEBHOOK_KEYS:
            if key in given:
                raise MisfitError((key,), f"{key} goes with webhook only", at_key=True)
        return _task(section, queues)
    if "queue" in given:
        raise MisfitError(("queue",), "queue goes with task only", at_key=True)
    for index, group in enumerate(section.residency):
        if groups is not None and group not in groups:
            problem = f"no region is in group {group}{did_you_mean(group, groups)}"
            raise MisfitError(("residency", index), problem)
    return Webhook(
        url=_url(section.webhook, env),
        secret=_secret(section, env, base),
        residency=tuple(section.residency),
        timeout_ms=section.timeout,
    )


def _task(section: OnDeadSection, queues: frozenset[str]) -> DeadTaskHandler:
    if not _NAME.fullmatch(section.task):
        problem = f"task names are 1 to {MAX_NAME_BYTES} letters, digits and ._:-/"
        raise MisfitError(("task",), problem)
    known = queues | {"default"}
    if section.queue not in known:
        problem = f"this file names no queue {section.queue}{did_you_mean(section.queue, known)}"
        raise MisfitError(("queue",), problem)
    return DeadTaskHandler(section.task, section.queue)


def _url(given: str, env: Mapping[str, str]) -> str:
    at = ("webhook",)
    url = expand(given, env, at)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port  # the port is read for its bounds
    except ValueError:
        raise MisfitError(at, "is not a URL; write https://HOST/PATH") from None
    odd = not url.isascii() or not url.isprintable() or " " in url
    if odd or parts.scheme not in {"https", "http"} or not host or parts.fragment:
        raise MisfitError(at, "is not a URL; write https://HOST/PATH")
    if parts.username is not None or parts.password is not None:
        raise MisfitError(at, "may not hold user or password; the signature says who sends")
    if parts.scheme == "http" and not _LOOPBACK.fullmatch(host):
        raise MisfitError(at, "http:// is for loopback hosts alone; use https://")
    return url


def _secret(section: OnDeadSection, env: Mapping[str, str], base: Path) -> str:
    if section.secret and section.secret_file:
        raise MisfitError(("secret_file",), "secret and secret_file are both given; keep one")
    if section.secret_file:
        at = ("secret_file",)
        secret = secret_in(base / section.secret_file, at, "the secret")
    elif section.secret:
        at = ("secret",)
        if not ENV.fullmatch(section.secret):
            problem = "a secret may not stand in the file; write ${NAME} or use secret_file"
            raise MisfitError(at, problem)
        secret = expand(section.secret, env, at)
    else:
        raise MisfitError((), "a webhook needs secret_file, with what its receiver verifies by")
    if not _is_key(secret):
        problem = f"must be {_PREFIX} and the base64 of 24 to 64 random bytes (Standard Webhooks)"
        raise MisfitError(at, problem)
    return secret


def _is_key(secret: str) -> bool:
    encoded = secret.removeprefix(_PREFIX)
    if encoded == secret:
        return False
    try:
        return len(base64.b64decode(encoded, validate=True)) in _KEY_BYTES
    except (binascii.Error, ValueError):
        return False

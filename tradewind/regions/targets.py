"""From a `redis:` section to an address.

No message here quotes what it was given: it may be secret. A secret never stands in the file
itself: it comes from `password_file`, or as `${NAME}` from the environment, where NAME may also
stand for a whole URL.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from tradewind.fleet import RedisTarget, Tls
from tradewind.regions.hidden import ENV, expand, secret_in
from tradewind.regions.reader import MisfitError
from tradewind.regions.schema import RedisSection, TlsSection

_URL = re.compile(
    r"(?P<scheme>rediss?)://"
    r"(?:(?P<username>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._${}-]+)"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?:/(?P<database>[0-9]{0,5}))?"
)
_UNIX = re.compile(r"unix://(?P<path>/[^?#@]+)")
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+")
_NODE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_DEFAULT_PORT = "6379"  # Redis's own
_FORMS = "write redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH"
_NO_INLINE = "a password may not stand in the file; write ${NAME} or use password_file"


def target(section: RedisSection, env: Mapping[str, str], base: Path) -> RedisTarget:
    """Resolve one region's section. `base`: what relative paths start from.

    Raises MisfitError with a path relative to the section.
    """
    forms = [name for name in ("url", "cluster", "sentinel") if name in section.model_fields_set]
    if len(forms) != 1:
        raise MisfitError((), "needs exactly one of url, cluster and sentinel")
    if ("service" in section.model_fields_set) != (forms[0] == "sentinel"):
        raise MisfitError(("service",), "service (the master's name) goes with sentinel only")
    tls = _tls(section.tls, base) if section.tls else None
    if tls and bool(tls.cert) != bool(tls.key):
        raise MisfitError(("tls",), "a client certificate needs both cert and key")
    username = expand(section.username, env, ("username",))
    password = _password(section, env, base)
    if section.url:
        return _from_url(section.url, username, password, tls, env)
    kind: Literal["cluster", "sentinel"] = "cluster" if forms[0] == "cluster" else "sentinel"
    nodes = section.cluster if kind == "cluster" else section.sentinel
    if not nodes:
        raise MisfitError((kind,), "needs at least one HOST:PORT")
    for index, node in enumerate(nodes):
        found = _NODE.fullmatch(node)
        if not found or not _is_port(found[2]):
            raise MisfitError((kind, index), "is not HOST:PORT")
    if len(set(nodes)) < len(nodes):
        raise MisfitError((kind,), "names a node twice")
    return RedisTarget(kind, tuple(nodes), section.service, 0, username, password, tls)


def stand_in(region: str) -> RedisTarget:
    """Give an address for a region whose own is not known here. It leads nowhere (RFC 6761)."""
    return RedisTarget("standalone", (f"{region}.invalid:{_DEFAULT_PORT}",))


def _tls(section: TlsSection, base: Path) -> Tls:
    def path(given: str) -> str:
        return str(base / given) if given else ""

    return Tls(path(section.ca), path(section.cert), path(section.key))


def _from_url(
    url: str, username: str, password: str, tls: Tls | None, env: Mapping[str, str]
) -> RedisTarget:
    at = ("url",)
    from_env = ENV.fullmatch(url) is not None
    if from_env:
        url = expand(url, env, at)
    if unix := _UNIX.fullmatch(url):
        if tls:
            raise MisfitError(("tls",), "a unix socket has no TLS; remove it")
        return RedisTarget("unix", (unix["path"],), "", 0, username, password)
    parts = _URL.fullmatch(url)
    if parts is None:
        extra = " without options behind a ?" if "?" in url else ""
        raise MisfitError(at, f"is not a Redis URL; {_FORMS}{extra}")
    inline = parts["password"] or ""
    if inline and not from_env and not ENV.fullmatch(inline):
        raise MisfitError(at, _NO_INLINE)
    if (inline and password) or (parts["username"] and username):
        raise MisfitError(at, "user and password stand both in the URL and beside it; keep one")

    def read(text: str) -> str:
        # What the environment holds is literal; only a URL that came whole from it is encoded.
        return unquote(text) if from_env else expand(text, env, at)

    host = expand(parts["host"], env, at)
    port = parts["port"] or _DEFAULT_PORT
    if not _HOST.fullmatch(host) or not _is_port(port):
        raise MisfitError(at, f"is not a Redis URL; {_FORMS}")
    return RedisTarget(
        "standalone",
        (f"{host}:{port}",),
        "",
        int(parts["database"] or 0),
        username or read(parts["username"] or ""),
        password or read(inline),
        tls or (Tls() if parts["scheme"] == "rediss" else None),
    )


def _password(section: RedisSection, env: Mapping[str, str], base: Path) -> str:
    if section.password and section.password_file:
        raise MisfitError(("password_file",), "password and password_file are both given; keep one")
    if section.password:
        if not ENV.fullmatch(section.password):
            raise MisfitError(("password",), _NO_INLINE)
        return expand(section.password, env, ("password",))
    if not section.password_file:
        return ""
    at = ("password_file",)
    return secret_in(base / section.password_file, at, "the password")


def _is_port(text: str) -> bool:
    return 1 <= int(text) <= 65_535

"""What we ask of a Redis, command by command: what an ACL user of ours must be allowed.

`acl_rules` is what docs/doctor.md says of the login; a test runs every script and every call with a
user that has exactly these rights.
"""

from typing import Final, NamedTuple

from tradewind.store.link import Command, Reply

#: Keys and channels: all that we touch begins so.
PATTERN: Final = "tw:*"
_KEY: Final = "tw:{0}:acl"

#: A call of each command that scripts, or we ourselves, send. Some need no key.
COMMANDS: Final[dict[str, Command]] = {
    # --- in scripts
    "del": ["DEL", _KEY],
    "exists": ["EXISTS", _KEY],
    "get": ["GET", _KEY],
    "hdel": ["HDEL", _KEY, "f"],
    "hexists": ["HEXISTS", _KEY, "f"],
    "hget": ["HGET", _KEY, "f"],
    "hgetall": ["HGETALL", _KEY],
    "hincrby": ["HINCRBY", _KEY, "f", "1"],
    "hkeys": ["HKEYS", _KEY],
    "hlen": ["HLEN", _KEY],
    "hmget": ["HMGET", _KEY, "f"],
    "hrandfield": ["HRANDFIELD", _KEY],
    "hscan": ["HSCAN", _KEY, "0"],
    "hset": ["HSET", _KEY, "f", "v"],
    "hsetnx": ["HSETNX", _KEY, "f", "v"],
    "hstrlen": ["HSTRLEN", _KEY, "f"],
    "lindex": ["LINDEX", _KEY, "0"],
    "llen": ["LLEN", _KEY],
    "lpop": ["LPOP", _KEY],
    "lpush": ["LPUSH", _KEY, "v"],
    "lrange": ["LRANGE", _KEY, "0", "1"],
    "persist": ["PERSIST", _KEY],
    "pexpire": ["PEXPIRE", _KEY, "1"],
    "pttl": ["PTTL", _KEY],
    "rpush": ["RPUSH", _KEY, "v"],
    "set": ["SET", _KEY, "v"],
    "spublish": ["SPUBLISH", _KEY, "v"],
    "time": ["TIME"],
    "unlink": ["UNLINK", _KEY],
    "xadd": ["XADD", _KEY, "*", "f", "v"],
    "zadd": ["ZADD", _KEY, "1", "m"],
    "zcard": ["ZCARD", _KEY],
    "zcount": ["ZCOUNT", _KEY, "0", "1"],
    "zrange": ["ZRANGE", _KEY, "0", "1"],
    "zrangebyscore": ["ZRANGEBYSCORE", _KEY, "0", "1"],
    "zrem": ["ZREM", _KEY, "m"],
    "zscore": ["ZSCORE", _KEY, "m"],
    # --- by ourselves
    "asking": ["ASKING"],
    "blpop": ["BLPOP", _KEY, "1"],
    "client|id": ["CLIENT", "ID"],
    "client|setinfo": ["CLIENT", "SETINFO", "lib-name", "x"],
    "client|setname": ["CLIENT", "SETNAME", "x"],
    "client|unblock": ["CLIENT", "UNBLOCK", "1"],
    "cluster|info": ["CLUSTER", "INFO"],
    "cluster|slots": ["CLUSTER", "SLOTS"],
    "config|get": ["CONFIG", "GET", "appendfsync"],
    "dbsize": ["DBSIZE"],
    "eval": ["EVAL", "return 1", "1", _KEY],
    "evalsha": ["EVALSHA", "0" * 40, "1", _KEY],
    "info": ["INFO"],
    "ltrim": ["LTRIM", _KEY, "0", "0"],
    "ping": ["PING"],
    "role": ["ROLE"],
    "scan": ["SCAN", "0"],
    "ssubscribe": ["SSUBSCRIBE", _KEY],
    "wait": ["WAIT", "0", "1"],
    "waitaof": ["WAITAOF", "0", "0", "1"],
    "xrevrange": ["XREVRANGE", _KEY, "+", "-"],
    "zscan": ["ZSCAN", _KEY, "0"],
    # --- by doctor alone
    "acl|dryrun": ["ACL", "DRYRUN", "default", "PING"],
    "acl|whoami": ["ACL", "WHOAMI"],
    "cluster|nodes": ["CLUSTER", "NODES"],
    "ttl": ["TTL", _KEY],
    "type": ["TYPE", _KEY],
}
#: What calls can do without: only doctor, or only a newer or another form of Redis, has a use for.
OPTIONAL: Final = frozenset(
    {"acl|dryrun", "acl|whoami", "asking", "client|setinfo", "config|get", "role", "ttl", "type"}
    | {"cluster|info", "cluster|nodes", "cluster|slots", "waitaof"}
)
_FORBIDDEN: Final = ["FLUSHALL"]


def acl_rules() -> list[str]:
    """What follows ACL SETUSER NAME on >PASSWORD."""
    return ["resetkeys", "resetchannels", f"~{PATTERN}", f"&{PATTERN}", "-@all", *_allowed()]


def _allowed() -> list[str]:
    return [f"+{name}" for name in COMMANDS]


def trials(user: str) -> list[Command]:
    """What asks Redis whether `user` may do all that; read the answers with `verdict`."""
    return [["ACL", "DRYRUN", user, *command] for command in (*COMMANDS.values(), _FORBIDDEN)]


class Verdict(NamedTuple):
    """What Redis said of a user's rights."""

    missing: list[str]  # as ACL rules
    unknown: list[str]  # commands that this server does not have, or calls otherwise
    is_almighty: bool


def verdict(answers: list[Reply]) -> Verdict | None:
    """What the user lacks, and whether it may do everything. None: nobody can tell.

    Redis says OK, or in words what is missing: the command, the key or the channel. To a command
    that it does not have it answers with an error; any other says nothing of this one.
    """
    if any(isinstance(answer, Exception) and _is_denied(answer) for answer in answers):
        return None
    *of_ours, forbidden = answers
    missing: dict[str, None] = {}
    unknown: list[str] = []
    for name, answer in zip(COMMANDS, of_ours, strict=True):
        said = answer.decode() if isinstance(answer, bytes) else ""
        if said == "OK" or name in OPTIONAL:
            continue
        if not said:
            if "not found" in str(answer):
                unknown.append(name)
        elif said.endswith(" key"):
            missing[f"~{PATTERN}"] = None
        elif said.endswith(" channel"):
            missing[f"&{PATTERN}"] = None
        else:
            missing[f"+{name}"] = None
    return Verdict(list(missing), unknown, forbidden == b"OK")


def _is_denied(error: Exception) -> bool:
    text = str(error)
    return "NOPERM" in text or "permission" in text.lower()

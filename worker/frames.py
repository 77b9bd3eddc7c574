"""What a worker and its children say to each other, over a socket that only they have.

A frame is two lengths, a head in JSON and a body as it is: the stored task on the way down, the
result on the way up. Standard types only, so that no frame can do more than say something.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, cast

from tradewind.attempts import settle
from tradewind.attempts.settle import Success, Verdict
from tradewind.limits import MAX_MESSAGE_BYTES
from tradewind.task import Claim, Failure, Priority
from worker.run import Ran

LENGTHS: Final = struct.Struct("!II")  # of head and body, in bytes
_VERDICTS: Final[Mapping[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        settle.CalledOff,
        settle.Failed,
        settle.HandedBack,
        settle.Rejected,
        settle.RetryAsked,
        settle.Success,
        settle.TimedOut,
        settle.Unkeepable,
        settle.Unreadable,
    )
}


class NoFrame(Exception):
    """What came over the socket is no frame: somebody else has written to it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message, and what it says.

    Down: run, limit, cancel, stop, doubt. Up: ready, unable, started, progress, ended. All but
    `ready` and `unable` are `of` one attempt: a copy of a handler, or a thread that it has left
    behind, may speak when its child is at another.
    """

    say: str
    facts: Mapping[str, Any]
    body: bytes = b""


def pack(say: str, facts: Mapping[str, Any] | None = None, body: bytes = b"") -> bytes:
    """A frame as it is sent."""
    head = json.dumps({"say": say, **(facts or {})}, separators=(",", ":")).encode()
    return LENGTHS.pack(len(head), len(body)) + head + body


def mark_of(claim: Claim) -> str:
    """What an attempt is called by whoever speaks of it."""
    return f"{claim.task_id}/{claim.token}"


def of(mark: str, say: str, **facts: object) -> bytes:
    """A frame that speaks of the attempt `mark`."""
    return pack(say, {"of": mark, **facts})


def lengths(data: bytes) -> tuple[int, int]:
    """How long head and body are that follow. Raises NoFrame."""
    head, body = LENGTHS.unpack(data)
    if max(head, body) > MAX_MESSAGE_BYTES:
        raise NoFrame(f"a frame of {head} + {body} bytes")
    return head, body


def unpack(head: bytes, body: bytes) -> Frame:
    """The frame. Raises NoFrame."""
    try:
        facts: Any = json.loads(head)
        return Frame(facts.pop("say"), facts, body)
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise NoFrame("a head that is none") from error


# --- the two frames that carry more than a fact or two


def run(claim: Claim, timeout_ms: int, *, doubtful: bool = False) -> bytes:
    """Have the attempt made that `claim` stands for; its lease may be `doubtful` by now."""
    facts = claim._asdict()
    del facts["packed"], facts["hops"], facts["payload"]
    said = {"of": mark_of(claim), "claim": facts, "timeout_ms": timeout_ms, "doubt": doubtful}
    return pack("run", said, claim.packed)


def claim_in(frame: Frame) -> tuple[Claim, int]:
    """The claim of a `run`, without its past stays, and the attempt's time limit in ms."""
    facts: dict[str, Any] = {**frame.facts["claim"], "packed": frame.body, "hops": b""}
    facts["priority"] = Priority(facts["priority"])
    return Claim(**facts), int(frame.facts["timeout_ms"])


def ended(mark: str, ran: Ran) -> bytes:
    """How the attempt `mark` has ended."""
    verdict = ran.verdict
    if isinstance(verdict, Success):
        facts: dict[str, Any] = verdict._asdict()
    else:
        facts = {field.name: getattr(verdict, field.name) for field in fields(verdict)}
    body = facts.pop("result", b"")
    if "failure" in facts:
        facts["failure"] = asdict(facts["failure"])
    marks = {"error": ran.error, "where": ran.where, "late": ran.late}
    said = {"of": mark, "verdict": type(verdict).__name__, "facts": facts, **marks}
    return pack("ended", said, body)


def ran_in(frame: Frame) -> Ran:
    """The end that an `ended` tells of. Raises NoFrame."""
    try:
        kind, facts = _VERDICTS[frame.facts["verdict"]], dict(frame.facts["facts"])
        if "failure" in facts:
            facts["failure"] = Failure(**facts["failure"])
        if kind is Success:
            facts["result"] = frame.body
        verdict = cast("Verdict", kind(**facts))
        marks = frame.facts
        return Ran(verdict, error=marks["error"], where=marks["where"], late=marks["late"])
    except (KeyError, TypeError, ValueError) as error:
        raise NoFrame("an end that is none") from error

"""What makes a submit the same as an earlier one, and which region remembers it. Pure."""

from dataclasses import dataclass

from tradewind.fingerprint import (
    Body,
    done_key,
    fingerprint_of,
    ledger_key_business,
    ledger_key_request,
)
from tradewind.fleet import Fleet
from tradewind.ids import partition_of
from tradewind.limits import REQUEST_ID_WINDOW_MS
from tradewind.policy import affinity
from tradewind.task import Draft, LedgerMark

_TAG_BYTES = 16


@dataclass(frozen=True, slots=True)
class Identity:
    """The fingerprint, and the ledger entry if there is one."""

    fingerprint: bytes
    mark: LedgerMark | None = None
    home: str = ""  # region of the entry; empty: whichever region stores the task
    also: str = ""  # a second region of it, while the set of regions changes; business keys only
    spare: str = ""  # region of an entry that home did not take; only where `request_id` is all
    stand_ins: tuple[str, ...] = ()  # regions that may keep it while home is silent, in order

    @property
    def deduplicated(self) -> bool:
        """Whether the fingerprint may serve as an effect key (design section 4, done mark)."""
        return self.mark is not None and self.mark.business

    @property
    def done_key(self) -> bytes:
        """What a completion is known by to copies of this submit; empty if it has none."""
        if self.mark is None or not self.mark.business:
            return b""
        return done_key(self.mark.key, self.mark.digest)


def identify(draft: Draft, body: Body, fence: tuple[str, ...], fleet: Fleet) -> Identity:
    """Return who this submit is. Idempotency key goes before payload, payload before request_id.

    The home of a business key is the first region of the unweighted rendezvous order over the
    fence, see `homes`; that of a request_id is the caller's region where the fence allows, else the
    same. It is never the router's own region, which a repeat may not come through. The spare home
    of a request_id is the first other one of the order: while the set of regions changes, that is
    where routers with another file have its home.
    """
    dedup = fleet.queue(draft.queue).dedup
    by_key = bool(draft.idempotency_key)
    fingerprint = fingerprint_of(
        tenant=draft.tenant,
        queue=draft.queue,
        name=draft.name,
        identity=draft.idempotency_key if by_key else body,
    )
    request_key = ledger_key_request(draft.tenant, draft.request_id) if draft.request_id else b""
    if dedup.by == "payload" or (by_key and dedup.by != "none"):
        mark = LedgerMark(
            key=ledger_key_business(draft.tenant, draft.queue, draft.name, fence, fingerprint),
            business=True,
            digest=body.digest(),
            request_tag=request_key[:_TAG_BYTES],
            window_ms=dedup.window_ms,
        )
        if dedup.scope == "region":
            return Identity(fingerprint, mark)
        home, *also = homes(mark.key, fence, fleet)
        stand_ins: tuple[str, ...] = ()
        if dedup.on_home_unreachable == "accept":
            order = affinity.unweighted(mark.key, fleet.inside(fence))
            stand_ins = tuple(name for name in order if name not in {home, *also})
        return Identity(fingerprint, mark, home, also="".join(also), stand_ins=stand_ins)
    if request_key:
        mark = LedgerMark(
            key=request_key,
            business=False,
            digest=body.digest(),
            request_tag=request_key[:_TAG_BYTES],
            window_ms=REQUEST_ID_WINDOW_MS,
        )
        home, spare = request_homes(mark.key, draft.origin_region, fence, fleet)
        return Identity(fingerprint, mark, home, spare=spare)
    return Identity(fingerprint)


def partition(draft: Draft, identity: Identity, partitions: int, entropy: int) -> int:
    """Return the task's partition: by affinity key, else by ledger key, else anywhere."""
    if draft.affinity_key:
        return partition_of(draft.affinity_key.encode(), partitions)
    if identity.mark is not None:
        return partition_of(identity.mark.key, partitions)
    return entropy % partitions


def request_homes(
    key: bytes, origin_region: str, fence: tuple[str, ...], fleet: Fleet
) -> tuple[str, str]:
    """Return home and spare home of an entry that exists only for a request_id, see `identify`.

    Empty where there is none.
    """
    order = affinity.unweighted(key, fleet.inside(fence))
    first = origin_region if origin_region in order else "".join(homes(key, fence, fleet)[:1])
    return first, next((name for name in order if name != first), "")


def homes(key: bytes, fence: tuple[str, ...], fleet: Fleet) -> tuple[str, ...]:
    """Return where the entry of a business key is kept: one region, or two during a change.

    The first of the order over the lasting regions and the first of the order over all: each change
    of the file, in either direction, leaves one of them in common (docs/decisions/0005). Empty only
    if no region is inside the fence.
    """
    order = affinity.unweighted(key, fleet.inside(fence))
    if not order:
        return ()
    lasting = next((name for name in order if fleet.regions[name].is_lasting), order[0])
    return (lasting,) if lasting == order[0] else (lasting, order[0])

"""What makes a submit the same as an earlier one, and which region remembers it. Pure."""

from functools import lru_cache
from typing import Final, NamedTuple

from tradewind import request_ids
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


class Identity(NamedTuple):
    """The fingerprint, and the ledger entry if there is one."""

    fingerprint: bytes = b""  # of a deduplicated submit; of others nobody asks for it
    mark: LedgerMark | None = None
    home: str = ""  # region of the entry; empty: whichever region stores the task
    also: str = ""  # a second region of it, while the set of regions changes; business keys only
    may_spare: tuple[str, ...] = ()  # the fence's regions, where `request_id` is all there is
    stand_ins: tuple[str, ...] = ()  # regions that may keep it while home is silent, in order

    @property
    def spare(self) -> str:
        """Region of an entry that home did not take: few submits need to know it."""
        if self.mark is None or not self.may_spare:
            return ""
        return _spare(affinity.unweighted(self.mark.key, self.may_spare), self.home)

    @property
    def has_spare(self) -> bool:
        """Whether there is a spare home, without reckoning which: every repeat asks."""
        others = len(self.may_spare) - (self.home in self.may_spare)
        return self.mark is not None and others > 0

    @property
    def never_asked(self) -> set[str]:
        """Regions that keep no entry of this request_id, but may keep that of another one."""
        return {*self.may_spare} - {self.home, self.spare}

    @property
    def deduplicated(self) -> bool:
        """Whether the fingerprint may serve as an effect key (docs/dedup.md)."""
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
    request_key = ledger_key_request(draft.tenant, draft.request_id) if draft.request_id else b""
    if dedup.by == "payload" or (by_key and dedup.by != "none"):
        fingerprint = fingerprint_of(
            tenant=draft.tenant,
            queue=draft.queue,
            name=draft.name,
            identity=draft.idempotency_key if by_key else body,
        )
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
    if not request_key:
        return _NOBODY
    mark = LedgerMark(
        key=request_key,
        business=False,
        digest=body.digest(),
        request_tag=request_key[:_TAG_BYTES],
        window_ms=REQUEST_ID_WINDOW_MS,
    )
    permitted = fleet.inside(fence)
    home = _request_home(mark.key, draft.origin_region, permitted, fence, fleet)
    return Identity(b"", mark, home, may_spare=permitted)


def dedup_by(draft: Draft, fleet: Fleet) -> str:
    """Say what `identify` knows a repeat by: "key", "payload" or "request_id"; empty: nothing."""
    by = fleet.queue(draft.queue).dedup.by
    if by != "none" and draft.idempotency_key:
        return "key"
    if by == "payload":
        return "payload"
    return "request_id" if draft.request_id else ""


def partition(draft: Draft, identity: Identity, partitions: int, entropy: int) -> int:
    """Return the task's partition: by affinity key, else by ledger key, else anywhere.

    A request_id that names a group of submits leads to the group's partition: they come together,
    and are stored by one script call.
    """
    if draft.affinity_key:
        return partition_of(draft.affinity_key.encode(), partitions)
    if identity.mark is None:
        return entropy % partitions
    group = request_ids.group_of(draft.request_id) if not identity.mark.business else ""
    if group:
        return _group_partition(draft.tenant, group, partitions)
    return partition_of(identity.mark.key, partitions)


def request_homes(
    key: bytes, origin_region: str, fence: tuple[str, ...], fleet: Fleet
) -> tuple[str, str]:
    """Return home and spare home of an entry that exists only for a request_id, see `identify`.

    Empty where there is none.
    """
    permitted = fleet.inside(fence)
    home = _request_home(key, origin_region, permitted, fence, fleet)
    return home, _spare(affinity.unweighted(key, permitted), home)


def _request_home(
    key: bytes, origin_region: str, permitted: tuple[str, ...], fence: tuple[str, ...], fleet: Fleet
) -> str:
    return origin_region if origin_region in permitted else "".join(homes(key, fence, fleet)[:1])


def _spare(order: tuple[str, ...], home: str) -> str:
    return next((name for name in order if name != home), "")


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


@lru_cache(maxsize=64)  # a group's submits come together
def _group_partition(tenant: str, group: str, partitions: int) -> int:
    return partition_of(ledger_key_request(tenant, group), partitions)


_NOBODY: Final = Identity()  # nobody will ask whether this submit was made before

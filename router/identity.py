"""What makes a submit the same as an earlier one, and which region remembers it. Pure."""

from dataclasses import dataclass

from tradewind.fingerprint import Body, fingerprint_of, ledger_key_business, ledger_key_request
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
    spare: str = ""  # region of an entry that home did not take; only where `request_id` is all

    @property
    def deduplicated(self) -> bool:
        """Whether the fingerprint may serve as an effect key (design section 4, done mark)."""
        return self.mark is not None and self.mark.business


def identify(draft: Draft, body: Body, fence: tuple[str, ...], fleet: Fleet) -> Identity:
    """Return who this submit is. Idempotency key goes before payload, payload before request_id.

    The home of a business key is the first region of the unweighted rendezvous order over the
    fence; that of a request_id is the caller's region where the fence allows, else the same order.
    It is never the router's own region, which a repeat may not come through. The spare home of a
    request_id is the next one of the order.
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
        home = "" if dedup.scope == "region" else _first(mark.key, fence, fleet)
        return Identity(fingerprint, mark, home)
    if request_key:
        mark = LedgerMark(
            key=request_key,
            business=False,
            digest=body.digest(),
            request_tag=request_key[:_TAG_BYTES],
            window_ms=REQUEST_ID_WINDOW_MS,
        )
        order = affinity.unweighted(mark.key, fleet.inside(fence))
        home = draft.origin_region if draft.origin_region in order else order[0]
        spare = next((name for name in order if name != home), "")
        return Identity(fingerprint, mark, home, spare)
    return Identity(fingerprint)


def partition(draft: Draft, identity: Identity, partitions: int, entropy: int) -> int:
    """Return the task's partition: by affinity key, else by ledger key, else anywhere."""
    if draft.affinity_key:
        return partition_of(draft.affinity_key.encode(), partitions)
    if identity.mark is not None:
        return partition_of(identity.mark.key, partitions)
    return entropy % partitions


def _first(key: bytes, fence: tuple[str, ...], fleet: Fleet) -> str:
    return affinity.unweighted(key, fleet.inside(fence))[0]

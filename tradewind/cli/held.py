"""Says why nothing starts a task that waits, and what would end that."""

from tradewind.cli.text import one_line
from tradewind.policy.filters import DRAINING, PAUSED

_REMEDIES = {
    PAUSED: "`tradewind resume {queue}` lets it start",
    DRAINING: "nothing starts there until `tradewind activate {region}`",
}


def held_text(waits_for: str, *, queue: str, region: str, name: str) -> str:
    """Give the reason as a clause; empty if nothing but its turn or its time is waited for."""
    if not waits_for:
        return ""
    said = {
        PAUSED: f"queue {queue} is paused, in every region",
        DRAINING: f"region {region} is draining",
    }
    unserved = f"{waits_for}: nothing in {region} runs {name} from queue {queue}"
    return one_line(said.get(waits_for, unserved))


def remedy_text(waits_for: str, *, queue: str, region: str, pinned: bool) -> str:
    """Give what would end it, as a clause; empty if that is not the operator's to say.

    Whether somebody runs it, or its fence holds another region, is not known here.
    """
    said = _REMEDIES.get(waits_for, "").format(queue=queue, region=region)
    if waits_for == DRAINING and not pinned:
        said += f"; `tradewind evacuate {region}` moves what may go elsewhere"
    return one_line(said)

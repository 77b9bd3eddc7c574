"""Whether a region takes tasks whose home is another, and how many of them. Pure.

Such tasks are its guests. A pin, a rule's preference or a key names regions: that is no visit, and
none of these limits holds.
"""

import math
from collections.abc import Sequence
from typing import Final

from tradewind.policy import defaults, filters
from tradewind.policy.choose import HOME, TRIAL, Choice, Option, Wish, certain, home_of
from tradewind.policy.scores import capacity

_FILLING: Final = (filters.FILLING,)
_HALF_OPEN: Final = (filters.HALF_OPEN,)


def on_trial(options: Sequence[Option], wish: Wish) -> Choice | None:
    """Take a half-open region that may have a task now: that shows best whether it is well.

    Only tasks that live there, or that name it: so all routers that try it at the same time, and
    however many they are, send it no more than what always comes there. Where nobody lives, and to
    routers whose tasks live elsewhere, probes have to suffice. A task that prefers its key's region
    has others to go to.
    """
    half_open = [option for option in options if option.excluded == _HALF_OPEN]
    if not half_open:
        return None
    resolved = wish.resolved
    keyed, prefer = resolved.affinity, resolved.prefer
    if keyed is not None and keyed.mode == "preferred" and not resolved.pin:
        return None
    seen = _in_or_busy(wish) | {_HALF_OPEN}
    known = [option for option in options if option.excluded in seen]
    if resolved.pin or keyed is not None:
        lives_in: Option | None = half_open[0]
    elif prefer:
        named = [option for option in known if option.name in prefer]
        lives_in = min(named, key=lambda option: prefer.index(option.name), default=None)
    else:
        lives_in = home_of(known, wish)
    if lives_in is None or lives_in.excluded != _HALF_OPEN:
        return None
    return certain(lives_in, TRIAL)


def only_welcome(options: Sequence[Option], wish: Wish) -> Sequence[Option]:
    """Exclude regions that have their share of this router's guests, while home takes its tasks.

    Where home is out, recovers, or would keep a task waiting much longer, they are welcome: the
    limit protects the tasks that live there, and is no reason to refuse others. A region whose
    share is 0 has it before the first guest.
    """
    filled = {o.name for o in options if not o.region.limits.max_spill_in}
    filled.update(wish.memory.filled)
    if not filled or _is_named(wish):
        return options
    pool = [option for option in options if not option.excluded]
    home = home_of(pool, wish) if pool else None
    if home is None or home.view.ramp < 1:
        return options
    if home.wait_s > min(o.wait_s for o in pool) + defaults.SPILL_PATIENCE_S:
        return options
    return [
        option._replace(excluded=(filters.GUESTS,))
        if not option.excluded and option is not home and option.name in filled
        else option
        for option in options
    ]


def only_settled(options: Sequence[Option], wish: Wish) -> Sequence[Option]:
    """Exclude regions that came back and are busy, but for the tasks whose home they are.

    A region that has just failed takes no guests at first, unless home would keep them waiting much
    longer, and it fills up as fast as FILL says: not as fast as all the tasks come that wait
    elsewhere. While home is in, if only with a long queue.
    """
    back = [
        option
        for option in options
        if not option.excluded
        and (
            option.view.back_for_s < defaults.GUESTS_AFTER_S
            or option.wait_s > defaults.FILL_S + defaults.FILL * option.view.back_for_s
        )
    ]
    if not back or _is_named(wish):
        return options
    home = home_of([o for o in options if o.excluded in _in_or_busy(wish)], wish)
    filling = [
        option
        for option in back
        if option.wait_s > defaults.FILL_S + defaults.FILL * option.view.back_for_s
        or home.wait_s <= option.wait_s + defaults.SPILL_PATIENCE_S
    ]
    return [
        option._replace(excluded=_FILLING) if option in filling and option is not home else option
        for option in options
    ]


def rationed(
    choice: Choice, pool: Sequence[Option], options: Sequence[Option], wish: Wish
) -> tuple[Choice, Sequence[Option]]:
    """Send regions that came back so many guests as they can take of all that would come.

    `choice` is one from `pool`; returns both, the pool with home in it. Where tasks of several
    homes wait much longer than in such a region, all their routers see it almost empty, and see too
    late what the others have sent. So each sends the part of its tasks that makes, if all do so,
    one region's worth; the rest stays home, however long the queue there.
    """
    if not choice.home or all(o.view.back_for_s == math.inf for o in pool) or _is_named(wish):
        return choice, pool
    seen = _in_or_busy(wish)
    home = home_of([o for o in options if o.excluded in seen or o in pool], wish)
    known = [o for o in options if o.excluded in seen or o.excluded == _FILLING]
    shares = {
        option.name: min(choice.shares[option.name], _ration(option, known))
        for option in pool
        if option is not home and option.name in choice.shares
    }
    if all(share == choice.shares[name] for name, share in shares.items()):
        return choice, pool
    rest = 1 - sum(shares.values())
    reasons = {**dict.fromkeys(shares, "spill"), home.name: HOME}
    fewer = Choice({**shares, home.name: rest}, reasons, choice.best, home.name, leaves=True)
    return fewer, pool if home in pool else [*pool, home]


def _ration(option: Option, known: Sequence[Option]) -> float:
    """Return the share of a home's tasks that `option` takes."""
    if option.view.back_for_s == math.inf:
        return 1.0
    patience_s = option.wait_s + defaults.SPILL_PATIENCE_S
    homes = sum([capacity(o.view) for o in known if o.wait_s > patience_s])
    return min(1.0, capacity(option.view) / homes) if homes else 1.0


def _is_named(wish: Wish) -> bool:
    resolved = wish.resolved
    return bool(resolved.pin or resolved.prefer or resolved.affinity)


def _in_or_busy(wish: Wish) -> set[tuple[str, ...]]:
    """What speaks against a home that is one: nothing, or its queue, unless that is a refusal."""
    return {(), (filters.WAIT,)} if wish.fleet.panic_mode == "best_effort" else {()}

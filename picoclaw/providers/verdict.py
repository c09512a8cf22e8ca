"""What to do about a model's error: one table, total over whatever a provider raises. Pure: no clock, no network."""

from typing import Literal, NamedTuple

from picoclaw.errors import (
    ContextOverflow,
    DeadlinePassed,
    KnownDown,
    NotAsked,
    OverBudget,
    OwnersMatter,
    PicoclawError,
    ProviderError,
    Refused,
    TurnStopped,
    Unavailable,
)

Action = Literal["retry", "later", "next", "compact", "owner", "give up"]
"""Ask again in a moment; not before some seconds, and another model meanwhile; another model; the same with a shorter
request; the owner has to do something, and another model is asked meanwhile; end the turn."""

LONGEST_WAIT_S = 20.0
"""Nobody who waits for an answer is kept waiting for longer before a server is asked again."""

LONGEST_HOLD_S = 3600.0
OWNER_S = 60.0
"""After that a server is asked again, although nobody has told that its owner has done something."""

_FIRST_WAIT_S = 0.5
_TABLE: tuple[tuple[type[PicoclawError], Action], ...] = (
    (TurnStopped, "give up"),
    (DeadlinePassed, "give up"),
    (NotAsked, "next"),
    (KnownDown, "next"),
    (OverBudget, "next"),
    (ContextOverflow, "compact"),
    (OwnersMatter, "owner"),
    (Refused, "next"),
    (Unavailable, "retry"),
    (ProviderError, "next"),
    (PicoclawError, "give up"),
)
"""The first row that an error is one of, so the special ones come first."""


class Verdict(NamedTuple):
    """What to do, and in how many seconds that server may be asked again."""

    action: Action
    seconds: float = 0.0


def verdict(error: PicoclawError, failures: int = 0) -> Verdict:
    """Say what to do about an error after so many earlier `failures` of the same request at the same server.

    A server that has just failed and now answers no knock may be starting anew: it is asked again all the same.
    """
    action = next(action for kind, action in _TABLE if isinstance(error, kind))
    if failures and type(error) is KnownDown:
        action = "retry"
    if action == "owner":
        return Verdict(action, OWNER_S)
    if action != "retry":
        return Verdict(action)
    told = error.retry_after if isinstance(error, Unavailable) else 0.0
    wait = told if told > 0 else _FIRST_WAIT_S * 3.0 ** min(failures, 10)
    return Verdict("retry" if wait <= LONGEST_WAIT_S else "later", min(wait, LONGEST_HOLD_S))

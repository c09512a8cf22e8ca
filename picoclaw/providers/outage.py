"""Remembers that asking a server is no use: an Outage that it is silent, a Breaker what it has answered.

A request to a silent server takes minutes to fail, because a slow model is silent as well. A knock is a question that
a server answers at once, whatever its model does: one that answers nothing is away. One that answers, and says no or
not now, is let alone for as long as that takes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from picoclaw.errors import KnownDown, NotAsked, OverBudget, ProviderError, Unavailable
from picoclaw.providers import Zone
from picoclaw.providers.verdict import LONGEST_HOLD_S, verdict

KNOCK_S = 3.0
SAME_AGAIN = 10
"""So many times in a row the same error, and a server is asked less and less often."""

_RESTS = 3.0
_DAY_S = 20 * 3600.0
_FIRST_HOLD_S, _MOST_DOUBLED = 60.0, 6
_MINUTE_S = 60


class Outage:
    """Whether one server is away, and since when."""

    def __init__(
        self,
        knock: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        zone: Zone = lambda: None,
    ) -> None:
        """`knock` says what is wrong, '' when somebody answers; `clock` and `wall` give seconds."""
        self._knock, self._clock, self._wall, self._zone = knock, clock, wall, zone
        self._since: float | None = None
        self._again = 0.0
        self._error = ""

    def begins(self, error: Unavailable) -> None:
        """Note that the server did not answer a request."""
        if self._since is None:
            self._since, self._again = self._clock(), 0.0
        self._error = str(error)

    def ends(self) -> None:
        """Note that it has answered one."""
        self._since = None

    def heed(self) -> None:
        """Return when a request may be made; raises KnownDown while nobody answers a knock.

        Three times as long as a knock has taken, nobody waits for another.
        """
        if self._since is None:
            return
        begun = self._clock()
        if begun >= self._again:
            problem = self._knock()
            if not problem:
                return
            now, self._error = self._clock(), problem
            self._again = now + _RESTS * (now - begun)
        raise KnownDown(f"no answer since {self._moment(self._since)}: {self._error}")

    def _moment(self, since: float) -> str:
        """Word when it began, by the clock as it is now: it may have been set meanwhile."""
        age = self._clock() - since
        at = datetime.fromtimestamp(self._wall() - age, UTC).astimezone(self._zone())
        return f"{at:%H:%M}" if age < _DAY_S else f"{at:%d %b %H:%M}"


@dataclass(slots=True)
class _Held:
    """What came of the newest requests for one model: the same error so often, and when it may be asked again."""

    error: str = ""
    kind: str = ""
    times: int = 0
    until: float = 0.0


class Breaker:
    """Whether the models of one server are worth asking, by what was answered; "" stands for the usual one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._clock = clock
        self._models: dict[str, _Held] = {}

    def failed(self, model: str, error: ProviderError) -> None:
        """Learn from the error of a request for a model."""
        action, seconds = verdict(error)
        if isinstance(error, KnownDown | OverBudget) or action in {"give up", "compact"}:
            return
        held, kind = self._models.setdefault(model, _Held()), _kind(error)
        held.times = held.times + 1 if held.kind == kind else 1
        held.error, held.kind = str(error), kind
        hold = seconds if action in {"owner", "later"} else 0.0
        if held.times >= SAME_AGAIN:
            hold = max(hold, _FIRST_HOLD_S * 2 ** min(held.times - SAME_AGAIN, _MOST_DOUBLED))
        held.until = self._clock() + min(hold, LONGEST_HOLD_S)

    def worked(self, model: str) -> None:
        """Note that a request for a model was answered."""
        self._models.pop(model, None)

    def heed(self, model: str) -> None:
        """Return when a model may be asked; raises NotAsked before."""
        held = self._models.get(model)
        left = held.until - self._clock() if held else 0.0
        if held and left > 0:
            again = f"{left / _MINUTE_S:.0f} min" if left > 2 * _MINUTE_S else f"{left:.0f} s"
            often = f", {held.times} times in a row" if held.times >= SAME_AGAIN else ""
            raise NotAsked(f"not asked again for {again}{often}: {held.error}")


def _kind(error: ProviderError) -> str:
    """What makes two errors the same: our own words before the server's, in which numbers and ids differ."""
    return f"{type(error).__name__} {str(error).split(': ', 1)[0]}"

"""Remembers that a server does not answer, so that nobody waits for it again before it has answered a knock.

A request to a silent server takes minutes to fail, because a slow model is silent as well. A knock is a question that
a server answers at once, whatever its model does: one that answers nothing is away.
"""

import time
from collections.abc import Callable

from picoclaw.errors import Unavailable

KNOCK_S = 3.0
_RESTS = 3.0
_DAY_S = 20 * 3600.0


class KnownDown(Unavailable):
    """The server did not answer before, and does not answer a knock; nobody has waited for it."""


class Outage:
    """Whether one server is away, and since when."""

    def __init__(
        self,
        knock: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`knock` says what is wrong, '' when somebody answers; `clock` and `wall` give seconds."""
        self._knock, self._clock, self._wall = knock, clock, wall
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
        raise KnownDown(f"no model has answered since {self._moment(self._since)}: {self._error}")

    def _moment(self, since: float) -> str:
        """Word when it began, by the clock as it is now: it may have been set meanwhile."""
        age = self._clock() - since
        return time.strftime("%H:%M" if age < _DAY_S else "%d %b %H:%M", time.localtime(self._wall() - age))

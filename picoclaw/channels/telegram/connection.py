"""How the connection is, for those who ask: up or down since when, what is wrong, when Telegram was last heard."""

import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from picoclaw.channels.channel import ChannelStatus
from picoclaw.channels.telegram.api import BadToken, Busy, Conflict, Unreachable
from picoclaw.times import format_duration

_BAD_TOKEN_S, _CONFLICT_S = 600.0, 30.0
_SHORT_OUTAGE_S = 30.0


class Timing(NamedTuple):
    """How long things take, in seconds.

    `hold`: for how long Telegram may keep a poll that brings nothing, `grace`: how much later it is given up. `first`
    and `longest`: between two tries when it cannot be reached. `wait`: the longest of any other call. `between` and
    `in_groups`: from one message to the next to a person, and to a group (https://core.telegram.org/bots/faq, "My bot
    is hitting limits"). `album`: for the rest of the files that were sent together.
    """

    hold: int = 30
    grace: float = 10.0
    first: float = 1.0
    longest: float = 60.0
    wait: float = 20.0
    between: float = 1.0
    in_groups: float = 3.0
    album: float = 1.0


DEFAULT_TIMING = Timing()


class TelegramConnection:
    """The state of one bot's connection; any thread may ask and tell.

    Moments are kept by the monotonic clock: a board without a battery learns the date from the network that is down.
    """

    def __init__(
        self,
        timing: Timing,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Not connected yet. `wall` gives seconds since 1970, `clock` seconds; `note` hears of an outage in a line."""
        self._timing, self._wall, self._clock, self._note = timing, wall, clock, note
        self._guard = threading.Lock()
        self._error = "not connected yet"
        self._since = clock()
        self._contact: float | None = None
        self._noted: type[Exception] | None = None
        self._pause = self._timing.first

    @property
    def status(self) -> ChannelStatus:
        """How it is."""
        with self._guard:
            begun = self._wall() - self._clock()
            contact = 0.0 if self._contact is None else begun + self._contact
            return ChannelStatus(not self._error, begun + self._since, self._error, contact)

    def heard(self) -> None:
        """Telegram has answered as it should."""
        with self._guard:
            now, noted, self._noted = self._clock(), self._noted, None
            down = now - self._since
            if self._error:
                self._error, self._since = "", now
            self._contact, self._pause = now, self._timing.first
        if noted:
            self._note(f"telegram: back after {format_duration(down)}")

    def failed(self, error: Exception) -> float:
        """Note what went wrong; returns how long to wait before the next try, in seconds."""
        with self._guard:
            now = self._clock()
            if not self._error:
                self._since = now
            self._error = str(error)
            lasts = now - self._since >= _SHORT_OUTAGE_S or not isinstance(error, Unreachable)
            new = lasts and self._noted is not type(error)
            if new:
                self._noted = type(error)
            pause, self._pause = self._pause, min(self._pause * 2, self._timing.longest)
        if new:
            self._note(f"telegram: down: {error}")
        if isinstance(error, Busy):
            return error.seconds
        fixed = _BAD_TOKEN_S if isinstance(error, BadToken) else _CONFLICT_S if isinstance(error, Conflict) else pause
        return fixed * random.uniform(0.7, 1.0)  # noqa: S311 - many boards behind one router should not call at once

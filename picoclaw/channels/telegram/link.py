"""How the connection is, for those who ask: up or down since when, what is wrong, when Telegram was last heard."""

import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from picoclaw.channels.channel import ChannelStatus
from picoclaw.channels.telegram.api import BadToken, Busy, Conflict

_BAD_TOKEN_S, _CONFLICT_S = 600.0, 30.0


class Timing(NamedTuple):
    """How long things take, in seconds.

    `hold`: for how long Telegram may keep a poll that brings nothing, `grace`: how much later it is given up. `first`
    and `longest`: between two tries when it cannot be reached. `wait`: the longest of any other call. `between` and
    `in_groups`: from one message to the next to a person, and to a group (https://core.telegram.org/bots/faq, "My bot
    is hitting limits").
    """

    hold: int = 30
    grace: float = 10.0
    first: float = 1.0
    longest: float = 60.0
    wait: float = 20.0
    between: float = 1.0
    in_groups: float = 3.0


USUAL = Timing()


class Link:
    """The state of one bot's connection; any thread may ask and tell."""

    def __init__(self, timing: Timing, wall: Callable[[], float] = time.time) -> None:
        """Not connected yet. `wall` gives seconds since 1970."""
        self._timing, self._wall = timing, wall
        self._guard = threading.Lock()
        self._status = ChannelStatus(up=False, since=wall(), error="not connected yet")
        self._pause = self._timing.first

    @property
    def status(self) -> ChannelStatus:
        """How it is."""
        with self._guard:
            return self._status

    def heard(self) -> None:
        """Telegram has answered as it should."""
        with self._guard:
            now, before = self._wall(), self._status
            self._pause = self._timing.first
            self._status = ChannelStatus(up=True, since=before.since if before.up else now, last_contact=now)

    def failed(self, error: Exception) -> float:
        """Note what went wrong; returns how long to wait before the next try, in seconds."""
        with self._guard:
            before = self._status
            since = self._wall() if before.up else before.since
            self._status = ChannelStatus(up=False, since=since, error=str(error), last_contact=before.last_contact)
            pause, self._pause = self._pause, min(self._pause * 2, self._timing.longest)
        if isinstance(error, Busy):
            return error.seconds
        fixed = _BAD_TOKEN_S if isinstance(error, BadToken) else _CONFLICT_S if isinstance(error, Conflict) else pause
        return fixed * random.uniform(0.7, 1.0)  # noqa: S311 - many boards behind one router should not call at once

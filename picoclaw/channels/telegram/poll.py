"""Takes a bot's updates, one long poll after the other, and acknowledges each when it has been kept.

A poll that goes silent is given up a little after Telegram would have ended it. One that stays empty is held against
what Telegram says is waiting, asked over another connection: a poll can be answered and deaf.
"""

import threading
from collections.abc import Callable
from typing import Any

from picoclaw.channels.telegram.api import Api, Unreachable
from picoclaw.channels.telegram.link import Link, Timing
from picoclaw.channels.telegram.updates import Me, Said, Update, read, together
from picoclaw.errors import ChannelError, StoreError

_EMPTY_ROUNDS = 10
_AT_ONCE = 40  # messages of the longest kind, each in reply to another, stay below what an answer may have
_WANTED = ["message", "edited_message", "callback_query"]


class Poll:
    """Runs in a thread of its own until `ending` is set and the API is closed."""

    def __init__(
        self,
        apis: tuple[Api, Api],
        link: Link,
        receive: Callable[[Update], None],
        is_urgent: Callable[[Update], bool],
        ending: threading.Event,
        timing: Timing,
    ) -> None:
        """`apis`: the poll's own, which is begun anew when something goes wrong, and one to ask beside it.

        `receive` keeps an update durably, or raises StoreError; one that `is_urgent` comes before all others.
        """
        (self._api, self._other), self._link, self._receive, self._ending = apis, link, receive, ending
        self._timing, self._is_urgent = timing, is_urgent
        self._offset = 0
        self._heeded: set[int] = set()
        self._empty = 0
        self._waits = False
        self.me: Me | None = None

    def run(self) -> None:
        """Poll until the end; whatever goes wrong, it goes on later."""
        while not self._ending.is_set():
            try:
                self._round()
            except (ChannelError, StoreError) as error:
                self._waits = False
                if self._ending.is_set():
                    return
                pause = self._link.failed(error)
                if isinstance(error, Unreachable):
                    self._api.rebuild()
                self._ending.wait(pause)

    def _round(self) -> None:
        """Take what is there; the first time, and after a failure, without waiting for more."""
        me = self.me = self.me or who(self._api, self._timing.wait)
        raws = self._waiting(self._timing.hold if self._waits else 0)
        self._heed(raws, me)
        if raws and isinstance(last := read(raws[-1], me), Said) and last.album:
            self._ending.wait(self._timing.album)  # a poll ends with the first of its files
            raws = self._waiting(0)
            self._heed(raws, me)
        self._take(raws, me)
        self._waits = True
        self._link.heard()
        self._empty = 0 if raws else self._empty + 1
        if self._empty >= _EMPTY_ROUNDS:
            self._empty = 0
            self._probe()

    def _waiting(self, hold: int) -> list[Any]:
        """Ask for what is not acknowledged yet; Telegram may wait `hold` seconds for something to come."""
        fields = {"offset": self._offset, "timeout": hold, "limit": _AT_ONCE, "allowed_updates": _WANTED}
        raws = self._api.call("getUpdates", fields, hold + self._timing.grace)
        if not isinstance(raws, list):
            raise Unreachable("Telegram's updates are not a list")
        return raws

    def _take(self, raws: list[Any], me: Me) -> None:
        updates = [update for raw in raws if (update := read(raw, me))]
        if raws and not updates:
            raise Unreachable("Telegram's updates have no numbers")
        for update in together(updates):
            if update.update not in self._heeded:
                self._receive(update)
            self._offset = update.update + 1
        self._heeded = {number for number in self._heeded if number >= self._offset}

    def _heed(self, raws: list[Any], me: Me) -> None:
        """Receive at once what may not wait for the updates before it, of which one may not be kept."""
        for update in (read(raw, me) for raw in raws):
            if update and update.update not in self._heeded and self._is_urgent(update):
                self._receive(update)
                self._heeded.add(update.update)

    def _probe(self) -> None:
        """Raise Unreachable when messages wait at Telegram, and the poll is not given them."""
        told = self._other.call("getWebhookInfo", {}, self._timing.wait)
        waiting = told.get("pending_update_count") if isinstance(told, dict) else 0
        if isinstance(waiting, int) and waiting > 0:
            raise Unreachable(f"the poll was deaf: {waiting} messages waited at Telegram; it was begun anew")


def who(api: Api, wait: float = 20.0) -> Me:
    """Ask which bot this is, for at most `wait` seconds. Raises as Api.call."""
    told = api.call("getMe", {}, wait)
    number, name = (told.get("id"), told.get("username")) if isinstance(told, dict) else (0, "")
    if not isinstance(number, int) or not isinstance(name, str) or not name:
        raise Unreachable("Telegram does not say which bot this is")
    return Me(number, name)

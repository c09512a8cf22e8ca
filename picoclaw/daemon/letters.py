"""Takes the letters of the outbox to their channel: a thread for each, because a network may hang.

What a channel cannot send now stays, and is tried again; when much has gathered meanwhile it comes as one letter.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from picoclaw.channels.channel import Channel
from picoclaw.errors import ChannelDown, ChannelError, StoreError
from picoclaw.reflex.post import worded
from picoclaw.store.inbox import Inbox
from picoclaw.store.outbox import Letter, Outbox

FEW = 3
_MOST, _CHARS, _LEAST_CHARS = 40, 3500, 80
_FIRST_RETRY_S, _LONGEST_RETRY_S = 5.0, 60.0


class Boxes(NamedTuple):
    """What comes in and what goes out, over one connection; whoever uses either holds the `lock`."""

    inbox: Inbox
    outbox: Outbox
    lock: threading.RLock


class Postman:
    """Delivers the letters of one channel."""

    def __init__(
        self, channel: Channel, boxes: Boxes, mine: Callable[[str], bool], note: Callable[[str], None]
    ) -> None:
        """`mine` tells which sessions' letters go here; `note` is told what could not be delivered, and why."""
        self._channel, self._boxes, self._mine, self._note = channel, boxes, mine, note
        self._wake, self._ending = threading.Event(), threading.Event()
        self._retry_s, self._down, self._complaint = _FIRST_RETRY_S, False, ""
        self._thread = threading.Thread(target=self._run, name=f"{channel.name} letters", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Have it look; from any thread."""
        self._wake.set()

    def stop(self) -> None:
        """End, and wait a moment for the letter in hand."""
        self._ending.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            try:
                wait = self.deliver()
            except StoreError as error:
                wait = self._later(f"letters wait: {error}")
            self._wake.wait(wait)

    def deliver(self) -> float | None:
        """Send what waits; returns after how many seconds to try again, None when everything was sent."""
        with self._boxes.lock:
            waiting = [letter for letter in self._boxes.outbox.waiting() if self._mine(letter.session)]
        for letters in parcels(waiting, together=self._down):
            try:
                self._send(letters)
            except ChannelDown as error:
                return self._later(f"{self._channel.name}: {error}")
        self._retry_s, self._down, self._complaint = _FIRST_RETRY_S, False, ""
        return None

    def _later(self, why: str) -> float:
        self._down = True
        if why != self._complaint:
            self._complaint = why
            self._note(why)
        wait, self._retry_s = self._retry_s, min(self._retry_s * 2, _LONGEST_RETRY_S)
        return wait

    def _send(self, letters: Sequence[Letter]) -> None:
        """Send letters as one; those that the channel refuses for good are struck out, and that is noted."""
        outbox = self._boxes.outbox
        with self._boxes.lock:
            begun = [letter for letter in letters if outbox.begin(letter)]
        if not begun:
            return
        try:
            self._channel.send(together(begun, time.time()))
        except ChannelDown:
            with self._boxes.lock:
                for letter in begun:
                    outbox.put_back(letter)
            raise
        except ChannelError as error:
            self._note(f"{self._channel.name} refused a letter for {begun[0].session!r}, which is given up: {error}")
        with self._boxes.lock:
            for letter in begun:
                outbox.strike(letter)


def parcels(waiting: Sequence[Letter], *, together: bool) -> list[list[Letter]]:
    """Sort letters into what is sent at once: each alone, or with `together` all of a chat that has more than a few."""
    chats: dict[str, list[Letter]] = {}
    for letter in waiting:
        chats.setdefault(letter.session, []).append(letter)
    out: list[list[Letter]] = []
    for letters in chats.values():
        out += [letters] if together and len(letters) > FEW else [[letter] for letter in letters]
    return sorted(out, key=lambda parcel: parcel[0].number)


def together(letters: Sequence[Letter], now: float) -> Letter:
    """Word one letter, or make one of many: the newest in full or shortened, and how many came before them."""
    last = letters[-1]
    if len(letters) == 1:
        return last._replace(text=worded(last, last.session, now))
    shown = letters[-_MOST:]
    most = max(_LEAST_CHARS, _CHARS // len(shown))
    lines = [f"{len(letters)} messages from while this chat could not be reached:"]
    if earlier := len(letters) - len(shown):
        lines.append(f"({earlier} earlier ones are left out)")
    for letter in shown:
        at = time.strftime("%d %b %H:%M", time.localtime(letter.at))
        text = letter.text if len(letter.text) <= most else f"{letter.text[: most - 1]}…"
        lines.append(f"{at}: {text}")
    return last._replace(text="\n".join(lines))

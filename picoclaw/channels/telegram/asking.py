"""Shows calls that need the owner's yes, each with three buttons, and writes below it how it has ended.

Which message asks what is kept in `state.db`: the answer may come after a restart, and from somewhere else.
"""

import json
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from picoclaw.channels.channel import Approval, Kept, Word, outcome
from picoclaw.channels.telegram.pairing import Pairing
from picoclaw.channels.telegram.sender import MESSAGE_ROOM, Button, Place, Sender
from picoclaw.channels.telegram.updates import Pressed
from picoclaw.errors import ChannelDown, ChannelError, StoreError

_SHOWN, _MOST = "telegram.questions", 100
_DATA = re.compile(r"([yna])([0-9]{1,15}):([0-9a-f]{8,40})")
_WORDS: dict[str, Word] = {"y": "yes", "n": "no", "a": "always"}
_LABELS = {"y": "✅ Yes", "n": "❌ No", "a": "♾ Always"}
_TAKEN: dict[Word, str] = {"yes": "Yes, this once.", "no": "No.", "always": "Yes, and always for exactly this."}
OVER = "This question is no longer open."
NOT_YOURS = "Only the owner can answer this."


class Answer(NamedTuple):
    """What to say to whoever has pressed a button, and what the owner has said by it, if that counts."""

    text: str
    approval: Approval | None = None
    word: Word = "no"


class _Shown(NamedTuple):
    chat: int
    message: int
    text: str


class Asking:
    """The questions of one bot; any thread may come."""

    def __init__(self, sender: Sender, pairing: Pairing, kept: Kept, note: Callable[[str], None]) -> None:
        """`note` is told in a line what the disk did not take."""
        self._sender, self._pairing, self._kept, self._note = sender, pairing, kept, note
        self._guard = threading.RLock()
        self._shown: dict[int, _Shown] | None = None

    def show(self, place: Place, number: int, text: str) -> None:
        """Show a question whole, the buttons under its end. Raises ChannelError, and StoreError before it is shown."""
        approval = self._kept(number)
        if approval is None or approval.state != "waiting":
            ended = outcome(approval) if approval else ""
            self._sender.plain(place, "\n\n".join(filter(None, [text, ended])))
            return
        buttons = [Button(label, f"{sign}{number}:{approval.nonce}") for sign, label in _LABELS.items()]
        message, last = self._sender.plain(place, _measured(text), buttons)
        try:
            with self._guard:
                self._keep(dict([*self._open().items(), (number, _Shown(place.chat, message, last))][-_MOST:]))
        except StoreError as error:  # it was shown, and its buttons work; how it ends is written below until a restart
            self._note(f"telegram: which message asks about number {number} is not kept: {error}")
        self.settle()  # it may have ended meanwhile

    def pressed(self, button: Pressed) -> Answer:
        """Read a button that was pressed: it counts for the owner, in the chat that was asked, while it is open."""
        if not button.user or button.user != self._pairing.owner():
            return Answer(NOT_YOURS)
        found = _DATA.fullmatch(button.data)
        approval = self._kept(int(found[2])) if found else None
        if not found or approval is None or approval.nonce != found[3] or approval.state != "waiting":
            return Answer(OVER)
        with self._guard:
            shown = self._open().get(approval.number)
        if approval.chat.split(":")[:2] != ["telegram", str(button.chat)] and (not shown or shown.chat != button.chat):
            return Answer(OVER)
        word = _WORDS[found[1]]
        return Answer(_TAKEN[word], approval, word)

    def settle(self) -> None:
        """Write below the questions that are no longer open how they have ended, as far as Telegram can be reached."""
        with self._guard, suppress(ChannelDown):
            try:
                for number, shown in list(self._open().items()):
                    self._settle(number, shown)
            except StoreError as error:
                self._note(f"telegram: questions cannot be looked up: {error}")

    def _settle(self, number: int, shown: _Shown) -> None:
        approval = self._kept(number)
        ended = outcome(approval) if approval else "This is no longer known."
        if ended:
            self._end(shown, ended)
            self._keep({n: one for n, one in self._open().items() if n != number})

    def _end(self, shown: _Shown, ended: str) -> None:
        try:
            self._sender.edit(shown.chat, shown.message, f"{shown.text}\n\n{ended}")
        except ChannelDown:
            raise
        except ChannelError as error:  # the message may be gone, or be too old
            self._note(f"telegram: a question cannot be marked as ended: {error}")

    def _open(self) -> dict[int, _Shown]:
        if self._shown is None:
            with self._pairing.marks() as marks:
                self._shown = _loaded(marks.get(_SHOWN))
        return self._shown

    def _keep(self, shown: dict[int, _Shown]) -> None:
        self._shown = shown
        with self._pairing.marks() as marks:
            marks.set(_SHOWN, json.dumps(shown))


def _measured(text: str) -> str:
    """Say of a question that takes several messages how long it is."""
    return text if len(text) <= MESSAGE_ROOM else f"(A long question: {len(text):,} characters.)\n{text}"


def _loaded(text: str) -> dict[int, _Shown]:
    try:
        found: Any = json.loads(text or "{}")
        return {int(number): _Shown(int(one[0]), int(one[1]), str(one[2])) for number, one in found.items()}
    except (ValueError, TypeError, IndexError, AttributeError, KeyError, RecursionError):
        return {}

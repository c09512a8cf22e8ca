"""The questions of calls that need a yes, as they stand in chats: which message asks is kept in `state.db`.

The answer may come after a restart, and from somewhere else.
"""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from picoclaw.channels.channel import FindApproval, describe_outcome
from picoclaw.channels.pairing import Pairing
from picoclaw.errors import ChannelDown, ChannelError, StoreError
from picoclaw.records import NamedTuple
from picoclaw.store.approvals import Approval

_MAX_QUESTIONS = 100


class ShownQuestion(NamedTuple):
    """Where a question stands: the service's names of chat and message, that message's text, and the question's sign."""

    chat: str
    message: str
    text: str
    nonce: str = ""


class Questions:
    """The questions of one channel; any thread may come. A channel says how one is ended."""

    def __init__(self, pairing: Pairing, kept: FindApproval, note: Callable[[str], None]) -> None:
        """`note` is told in a line what the disk did not take."""
        self._pairing, self._kept, self._note = pairing, kept, note
        self._mark = f"{pairing.channel}.questions"
        self._guard = threading.RLock()
        self._known: dict[int, ShownQuestion] | None = None

    def end(self, shown: ShownQuestion, text: str) -> None:
        """Put a text in place of a question's message, which can be answered no more. Raises ChannelError."""
        raise NotImplementedError

    def find(self, number: int) -> Approval | None:
        """Look up a call that still waits for its yes. Raises StoreError."""
        approval = self._kept(number)
        return approval if approval and approval.state == "waiting" else None

    def describe_ended(self, number: int, text: str) -> str:
        """Word a question that is no longer open when it comes to be asked."""
        approval = self._kept(number)
        return "\n\n".join(filter(None, [text, describe_outcome(approval) if approval else ""]))

    def remember(self, number: int, shown: ShownQuestion) -> None:
        """Keep which message asks, and end it at once where that is over meanwhile."""
        try:
            with self._guard:
                self._save(dict(list((self._open() | {number: shown}).items())[-_MAX_QUESTIONS:]))
        except (
            StoreError
        ) as error:  # it was shown, and can be answered; how it ends is not written there after a restart
            self._note(f"{self._pairing.channel}: which message asks about number {number} is not kept: {error}")
        self.settle()

    def all(self) -> dict[int, ShownQuestion]:
        """List where the questions stand, by the number of each. Raises StoreError."""
        with self._guard:
            return dict(self._open())

    def settle(self) -> None:
        """Write below the questions that are no longer open how they have ended, as far as the service can be reached."""
        with self._guard, suppress(ChannelDown):
            try:
                for number, shown in list(self._open().items()):
                    approval = self._kept(number)
                    if ended := describe_outcome(approval) if approval else "This is no longer known.":
                        self._mark_ended(shown, ended)
                        self._save({n: one for n, one in self._open().items() if n != number})
            except StoreError as error:
                self._note(f"{self._pairing.channel}: questions cannot be looked up: {error}")

    def _mark_ended(self, shown: ShownQuestion, ended: str) -> None:
        try:
            self.end(shown, f"{shown.text}\n\n{ended}")
        except ChannelDown:
            raise
        except ChannelError as error:  # the message may be gone, or be too old
            self._note(f"{self._pairing.channel}: a question cannot be marked as ended: {error}")

    def _open(self) -> dict[int, ShownQuestion]:
        if self._known is None:
            with self._pairing.marks() as marks:
                text = marks.get(self._mark)
            try:
                found: Any = json.loads(text or "{}").items()
                self._known = {int(n): ShownQuestion(str(q[0]), str(q[1]), *map(str, q[2:4])) for n, q in found}
            except (ValueError, TypeError, IndexError, AttributeError, KeyError, RecursionError):
                self._known = {}
        return self._known

    def _save(self, shown: dict[int, ShownQuestion]) -> None:
        self._known = shown
        with self._pairing.marks() as marks:
            marks.set(self._mark, json.dumps(shown))

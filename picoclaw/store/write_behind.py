"""Turns that the disk did not take: a model is shown them as if they were kept, and they are kept as soon as it takes
them, in their order. A conversation that is new gives way while the last of the room is for what was promised.
"""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from picoclaw.errors import StoreDamaged, StoreError, StoreNewer
from picoclaw.files import DiskNearlyFull, check_reserve, explain_os_error
from picoclaw.messages import Message, Turn
from picoclaw.records import NamedTuple
from picoclaw.store.conversations import History

_MAX_UNSAVED = 50


class UnsavedTurn(NamedTuple):
    """A turn with all that History.keep is told of it."""

    session: str
    turn: Turn
    at: datetime
    acts: tuple[int, ...] = ()
    model: str = ""
    upto: int = 0
    inbox: int = 0
    prefix: str = ""


class TurnWriteBehind:
    """What one process owes to the disk; of more than 50 turns, the oldest are lost with the process."""

    def __init__(self, folder: Path, history: Callable[[], History]) -> None:
        """`history` opens the conversations, which lie in `folder`, or raises StoreError."""
        self._folder, self._history = folder, history
        self._unsaved: deque[UnsavedTurn] = deque(maxlen=_MAX_UNSAVED)

    def turns(self, session: str) -> list[tuple[Message, ...]]:
        """Return the unsaved turns of a conversation, the oldest first."""
        return [unsaved.turn.messages for unsaved in self._unsaved if unsaved.session == session]

    def heard(self, session: str) -> frozenset[str]:
        """Name the untrusted sources of a conversation's unsaved turns."""
        return frozenset(
            name for unsaved in self._unsaved if unsaved.session == session for name in unsaved.turn.taints
        )

    def keep(self, unsaved: UnsavedTurn) -> str:
        """Save a turn, after those that are unsaved; returns what History.keep does.

        Raises StoreError where the disk does not take it; then it is remembered.
        """
        try:
            self._spare(unsaved.session)
            self.settle()
            return self._history().keep(*unsaved)
        except (StoreDamaged, StoreNewer):
            raise
        except StoreError:
            self._unsaved.append(unsaved)
            raise

    def settle(self) -> None:
        """Save what is unsaved, as far as the disk takes it. Raises StoreError."""
        while self._unsaved:
            self._history().keep(*self._unsaved[0])
            self._unsaved.popleft()

    def __len__(self) -> int:
        """How many turns are unsaved."""
        return len(self._unsaved)

    def _spare(self, session: str) -> None:
        """Keep a new conversation from taking the room that is left. Raises StoreError."""
        try:
            check_reserve("new conversations", self._folder)
        except DiskNearlyFull as error:
            if not self._history().numbered(session):
                raise StoreError(explain_os_error(error)) from None

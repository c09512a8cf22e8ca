"""Tells what lies in the outbox, so that nothing is lost, and nothing comes twice without saying so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from picoclaw.errors import StoreError
from picoclaw.reflex.due import GRACE_S
from picoclaw.schedule import duration
from picoclaw.store.outbox import Letter, Outbox

Tell = Callable[[Letter], None]
"""Shows a letter; raises OSError when that cannot be done now."""


def deliver(outbox: Outbox, tell: Tell, session: str = "") -> list[Letter]:
    """Tell every letter that is waiting; what cannot be shown stays.

    Told in the chat `session`, those for a chat that another process has open are left to it, and are returned.
    """
    waiting = outbox.waiting()
    elsewhere = outbox.elsewhere() - {session} if session and waiting else frozenset()
    for letter in waiting:
        if letter.session not in elsewhere and outbox.begin(letter):
            try:
                tell(letter)
            except OSError:
                outbox.put_back(letter)
                break
            outbox.strike(letter)
    return [letter for letter in waiting if letter.session in elsewhere]


@contextmanager
def attending(outbox: Outbox, session: str, tell: Tell, ring: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Have a chat open; gives what delivers its letters, and those of chats that nobody has open.

    `ring` wakes the others on this home: once for each letter that is theirs, and when this chat is closed.
    """
    called: set[int] = set()

    def post() -> None:
        left = {letter.number for letter in deliver(outbox, tell, session)}
        if left - called:
            ring()
        called.intersection_update(left)
        called.update(left)

    with suppress(StoreError):  # then any chat may tell its letters, as if it were closed
        outbox.attend(session)
    try:
        yield post
    finally:
        with suppress(StoreError):  # it is void with the process
            outbox.leave()
        ring()


def worded(letter: Letter, session: str, wall: float) -> str:
    """Word a letter for the chat `session`, with a note when it comes late, again, or is for another chat."""
    whose = "" if letter.session == session else f"For chat {letter.session!r}: "
    late = wall - letter.at
    due = f" (was due {duration(late)} ago)" if late > GRACE_S else ""
    again = " (perhaps told before: picoclaw ended while it told this)" if letter.begun else ""
    apart = "\n" if due + again and letter.text.endswith(")") else ""  # the line of a file is one by itself
    return f"{whose}{letter.text}{apart}{due}{again}"

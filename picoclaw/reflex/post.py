"""Tells what lies in the outbox, so that nothing is lost, and nothing comes twice without saying so."""

from collections.abc import Callable

from picoclaw.reflex.due import GRACE_S
from picoclaw.schedule import duration
from picoclaw.store.outbox import Letter, Outbox

Tell = Callable[[Letter], None]
"""Shows a letter; raises OSError when that cannot be done now."""


def deliver(outbox: Outbox, tell: Tell) -> None:
    """Tell every letter that is waiting; what cannot be shown stays."""
    for letter in outbox.waiting():
        if outbox.begin(letter):
            try:
                tell(letter)
            except OSError:
                outbox.put_back(letter)
                return
            outbox.strike(letter)


def worded(letter: Letter, session: str, wall: float) -> str:
    """Word a letter for the chat `session`, with a note when it comes late, again, or is for another chat."""
    whose = "" if letter.session == session else f"For chat {letter.session!r}: "
    late = wall - letter.at
    due = f" (was due {duration(late)} ago)" if late > GRACE_S else ""
    again = " (perhaps told before: picoclaw ended while it told this)" if letter.begun else ""
    return f"{whose}{letter.text}{due}{again}"

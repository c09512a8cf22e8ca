"""What the person says while a turn runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from picoclaw.conversation import Conversation
from picoclaw.prompt import fill


@dataclass(slots=True)
class Steering:
    """Brings what was `typed` into a conversation, in the words of the template `wording`.

    `newest` is the user's newest message, `said` all that was taken in, and `unheard` what of it was handed back.
    """

    talk: Conversation
    typed: Callable[[], Sequence[str]]
    wording: str
    newest: str
    said: tuple[str, ...] = ()
    unheard: tuple[str, ...] = ()

    def heed(self) -> tuple[str, ...]:
        """Take in what was said since the last time; returns it."""
        said = tuple(self.typed())
        for text in said:
            self.newest = fill(self.wording or "{content}", {"content": text}, "content")
            self.talk.hear(self.newest)
        self.said += said
        return said

    def hand_back(self) -> None:
        """Take out again what still waits for an answer: none will come, so it is to be asked anew."""
        self.unheard = self.said[len(self.said) - len(self.talk.waiting) :]
        self.talk.waiting.clear()

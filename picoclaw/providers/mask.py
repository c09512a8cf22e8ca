"""Keeps the key out of everything that people see and that is kept, whatever a server sends back."""

from collections.abc import Iterator

from picoclaw.errors import ProviderError
from picoclaw.messages import Event, Text

_SHORTEST_SECRET = 8  # what a server without keys is given, such as "none", is no secret and a common word
_MASK = "[secret]"


def _with_error(events: Iterator[Event]) -> Iterator[Event | ProviderError]:
    """Give the error that ends events as the last of them."""
    try:
        yield from events
    except ProviderError as error:
        yield error


class Mask:
    """One secret. `whole` is for a text that is complete, `events` for one that comes in pieces."""

    def __init__(self, secret: str) -> None:
        """Nothing is masked when the secret is too short to be one."""
        self._secret = secret if len(secret) >= _SHORTEST_SECRET else ""

    def whole(self, text: str) -> str:
        """Return the text without the secret."""
        return text.replace(self._secret, _MASK) if self._secret else text

    def events(self, events: Iterator[Event]) -> Iterator[Event]:
        """Pass events on; of a text, the end that may be the beginning of the secret waits for what comes next."""
        held = ""
        for event in _with_error(events):
            if isinstance(event, Text):
                text = self.whole(held + event.text)
                held = self._begun(text)
                if shown := text[: len(text) - len(held)]:
                    yield Text(shown)
                continue
            if held:
                yield Text(self._ended(held))
                held = ""
            if isinstance(event, ProviderError):
                raise event
            yield event
        if held:
            yield Text(self._ended(held))

    def _begun(self, text: str) -> str:
        lengths = range(min(len(self._secret) - 1, len(text)), 0, -1)
        return next((text[-n:] for n in lengths if text.endswith(self._secret[:n])), "")

    @staticmethod
    def _ended(held: str) -> str:
        return _MASK if len(held) >= _SHORTEST_SECRET else held

"""A model that is let go of at once when somebody else wants it."""

from collections.abc import Iterator
from dataclasses import dataclass

from picoclaw.messages import Event, Request, Stop
from picoclaw.providers import Provider


@dataclass(frozen=True, slots=True)
class Yielding:
    """A provider whose answers end with TurnStopped when `stop` is said."""

    provider: Provider
    stop: Stop

    @property
    def name(self) -> str:
        """See Provider.name."""
        return self.provider.name

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events."""
        return self.provider.events(request._replace(stop=self.stop))

    def close(self) -> None:
        """See Provider.close."""
        self.provider.close()

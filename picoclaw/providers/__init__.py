"""The door to a model: ask with a Request, get events back. What stands behind it may be no model at all."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Protocol, cast

from picoclaw.messages import Event, Request

# httpx imports its command line whenever click and rich happen to be installed: 44 ms and 6 MB for nothing.
sys.modules.setdefault("httpx._main", cast("ModuleType", None))


class Provider(Protocol):
    """Something that answers requests."""

    @property
    def name(self) -> str:
        """What to call it in a reply's record, such as `openai:qwen2.5`."""
        ...

    def events(self, request: Request) -> Iterator[Event]:
        """Answer with pieces of text, tool calls, and one End as the last event.

        Whole answers and streamed ones give the same events. Closing the iterator hangs up. Raises Unavailable,
        Refused or ContextOverflow.
        """
        ...

    def close(self) -> None:
        """Let go of connections; may be called twice."""
        ...


class Fallback(Provider, Protocol):
    """A provider that needs no network and knows what it cannot answer."""

    def answers(self, text: str) -> bool:
        """Tell whether it can do what the text asks."""
        ...

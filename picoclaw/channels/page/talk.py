"""The conversation while it goes on: what a turn has said so far."""

import threading
import time
from typing import Any

from picoclaw.channels.page.feed import Feed
from picoclaw.messages import Event, Text, ToolRun
from picoclaw.window import without_hints

_LONGEST_RESULT = 300


class Talk:
    """What the browsers see of a turn; written by the desk's thread, read by those of the server."""

    def __init__(self, feed: Feed) -> None:
        """Nobody says anything yet."""
        self._feed = feed
        self._lock = threading.Lock()
        self._said: list[str] = []
        self._begun = 0.0

    def now(self) -> dict[str, Any]:
        """Give what a browser has to know that comes in the middle."""
        with self._lock:
            live = {"text": "".join(self._said), "since": self._begun} if self._begun else None
            return {"live": live}

    def begin(self, text: str) -> None:
        """A turn begins that answers this."""
        with self._lock:
            self._said, self._begun = [], time.time()
        self._feed.publish("begun", {"text": text})

    def listen(self, event: Event | ToolRun) -> None:
        """Pass on what a turn does."""
        if isinstance(event, Text):
            with self._lock:
                self._said.append(event.text)
            self._feed.publish("text", {"text": event.text})
        elif isinstance(event, ToolRun):
            result = " ".join(without_hints(event.result).split())
            cut = result if len(result) <= _LONGEST_RESULT else f"{result[:_LONGEST_RESULT]}…"
            self._feed.publish("tool", {"name": event.name, "arguments": str(event.arguments), "result": cut})

    def say(self, text: str) -> None:
        """Pass on a message that comes ahead of the answer."""
        self._feed.publish("said", {"role": "assistant", "text": text, "at": time.time()})

    def end(self, reply: str, problem: str) -> int:
        """A turn has ended; returns how many browsers were told."""
        with self._lock:
            self._said, self._begun = [], 0.0
        return self._feed.publish("ended", {"text": reply, "problem": problem, "at": time.time()})

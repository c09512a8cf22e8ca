"""The conversation while it goes on: what a turn has said so far, and what it asks the person's leave for."""

import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from picoclaw.channels.page.feed import Feed
from picoclaw.messages import Event, Stop, Text, ToolRun

_LONGEST_RESULT = 300
ASK_S = 300.0


class Talk:
    """What the browsers see of a turn; written by the desk's thread, read by those of the server."""

    def __init__(self, feed: Feed) -> None:
        """Nobody says anything yet."""
        self._feed = feed
        self._lock = threading.Lock()
        self._said: list[str] = []
        self._begun = 0.0
        self._question: dict[str, Any] | None = None
        self._answer: bool | None = None
        self._answered = threading.Event()

    def now(self) -> dict[str, Any]:
        """Give what a browser has to know that comes in the middle."""
        with self._lock:
            live = {"text": "".join(self._said), "since": self._begun} if self._begun else None
            return {"live": live, "question": self._question}

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
            result = " ".join(event.result.split())
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

    def ask(self, call: str, stop: Stop, seconds: float = ASK_S, clock: Callable[[], float] = time.time) -> bool:
        """Show the person a call, and wait for a yes to exactly that; no after some seconds, or when the turn ends."""
        with self._lock:
            self._answered.clear()
            self._answer = None
            self._question = {"id": secrets.token_hex(8), "call": call, "until": clock() + seconds}
            question = self._question
        self._feed.publish("question", question)
        with stop.ends(self._answered.set):
            if not stop:
                self._answered.wait(seconds)
        with self._lock:
            yes = bool(self._answer) and not stop
            self._question = None
        self._feed.publish("settled", {"id": question["id"], "yes": yes})
        return yes

    def answer(self, number: str, *, yes: bool) -> bool:
        """Take the person's word on a question; tells whether that is still open."""
        with self._lock:
            if self._question is None or not secrets.compare_digest(str(self._question["id"]), number):
                return False
            if self._answer is not None:
                return False
            self._answer = yes
            self._answered.set()
            return True

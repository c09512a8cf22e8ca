"""Asks for a yes with two buttons: it counts once, for the question that it stands under, from those who may."""

import os
import threading
from collections.abc import Callable
from typing import NamedTuple

from picoclaw.channels.telegram.updates import Pressed
from picoclaw.messages import Stop

PATIENCE_S = 600.0
"""How long a question waits for its answer."""


class Buttons(NamedTuple):
    """What a question is sent with: what Telegram sends back when they are pressed."""

    yes: str
    no: str


class _Question:
    def __init__(self, chat: int) -> None:
        """Nobody has answered."""
        self.chat = chat
        self.name = os.urandom(12).hex()
        self.wake = threading.Event()
        self.answer: bool | None = None


class Asking:
    """The questions that wait; asked in the desk's thread, answered in the poll's."""

    def __init__(self) -> None:
        """Nothing is asked."""
        self._guard = threading.Lock()
        self._waiting: dict[str, _Question] = {}

    def ask(self, chat: int, show: Callable[[Buttons], None], stop: Stop, patience: float = PATIENCE_S) -> bool | None:
        """Have the question shown, and wait; None when nobody has answered in time, or the turn is to end.

        Raises what `show` raises.
        """
        question = _Question(chat)
        with self._guard:
            self._waiting[question.name] = question
        try:
            show(Buttons(f"y{question.name}", f"n{question.name}"))
            with stop.ends(question.wake.set):
                if not stop:
                    question.wake.wait(patience)
        finally:
            with self._guard:
                self._waiting.pop(question.name, None)
        return question.answer

    def pressed(self, button: Pressed) -> str:
        """Heed a button; returns what to say to whoever has pressed it."""
        with self._guard:
            question = self._waiting.get(button.data[1:])
            if question is None or question.chat != button.chat or button.data[:1] not in {"y", "n"}:
                return "This question is no longer open."
            del self._waiting[question.name]
            question.answer = button.data[0] == "y"
        question.wake.set()
        return "Allowed." if question.answer else "Not allowed."

    def end(self) -> None:
        """Let nobody wait any more."""
        with self._guard:
            for question in self._waiting.values():
                question.wake.set()

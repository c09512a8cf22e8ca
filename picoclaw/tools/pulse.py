"""The `pulse` tool: the tasks that are open, across all conversations."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from picoclaw.errors import ToolError
from picoclaw.memory.notes.entries import FOREIGN
from picoclaw.messages import Caller
from picoclaw.ranking import folded
from picoclaw.schema import Span
from picoclaw.store.pulse import By, Change, Pulse, line
from picoclaw.tools.recall import source
from picoclaw.tools.toolset import Effect, tool

_NUMBER = re.compile(r"(?:\[?id:|#|task)?\s*(\d{1,18})\]?", re.IGNORECASE)


class PulseTool:
    """The pulse of one home."""

    def __init__(self, pulse: Callable[[], Pulse]) -> None:
        """`pulse()` opens the store when it is first needed."""
        self._pulse = pulse

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        return "read" if arguments["action"] == "list" else "write"

    @tool(effect=_effect)
    def pulse(
        self,
        action: Literal["add", "complete", "update", "list"],
        caller: Caller,
        text: str = "",
        task: Annotated[str, "number"] = "",
        priority: Annotated[int, Span(0, 10), "10: urgent"] = 0,
    ) -> str:
        """Keep the list of open tasks."""
        store = self._pulse()
        if action == "list":
            return "\n".join(map(line, store.items())) or "no task is open"
        number = 0 if action == "add" else self._meant(task, text if action == "complete" else "")
        words = "" if action == "complete" else text
        if action == "update" and not (words.strip() or priority):
            raise ToolError("nothing to update: give text or priority")
        known = {item.number for item in store.items()}
        change = Change(action, number, words, priority)
        heard = source(caller).partition(f"{FOREIGN}: ")[2]
        (item,) = store.apply([change], By(caller.session, caller.now, heard))
        if action == "add" and item.number in known:
            return f"open already: {line(item)}"
        return f"completed: {item.text}" if action == "complete" else line(item)

    def _meant(self, task: str, text: str) -> int:
        """The number that was given; a small model may repeat the task's words instead."""
        number = _NUMBER.fullmatch(task.strip())
        wanted = folded(" ".join((text or task).split()))
        items = self._pulse().items()
        if number and int(number[1]):
            return int(number[1])
        alike = [item.number for item in items if wanted and wanted in folded(item.text)]
        if len(alike) == 1:
            return alike[0]
        known = "; ".join(map(line, items[:5]))
        raise ToolError(f"task must be the number of one; {f'open: {known}' if known else 'none is open'}")

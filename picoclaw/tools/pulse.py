"""The `pulse` tool: the tasks that are open, across all conversations."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from picoclaw.errors import ToolError
from picoclaw.memory.files import FOREIGN, is_tainted
from picoclaw.messages import Caller
from picoclaw.records import replace
from picoclaw.schema import Span
from picoclaw.security import orders
from picoclaw.security.policy import Effect
from picoclaw.store.pulse import Pulse, PulseAuthor, PulseChange, format_item
from picoclaw.text import list_query_terms, list_terms, pattern
from picoclaw.tools.memory import describe_origin
from picoclaw.tools.registry import tool

_ENDS = {"complete": "completed", "remove": "removed"}
"""What takes a task from the list, and what is said of it."""
_NUMBER = pattern(r"(?:\[?id:|#|task)?\s*(\d{1,18})\]?", re.IGNORECASE)


class PulseTool:
    def __init__(self, pulse: Callable[[], Pulse]) -> None:
        self._pulse = pulse

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        return "read" if arguments["action"] == "list" else "remember"

    def _is_requested(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Whether the owner's own message says what is noted, or orders just this for the task it names."""
        action, text, task = arguments["action"], arguments["text"], arguments["task"]
        if action == "list":
            return False
        if action == "add":
            return orders.is_ordered_task(text, caller)
        words = "" if _NUMBER.fullmatch(task.strip()) else (action in _ENDS and text) or task
        number = self._find_number(task, text if action in _ENDS else "")
        known = [words, *(item.text for item in self._pulse().items() if item.number == number)]
        new = orders.find_order(action, "task", number, known, caller)
        if action in _ENDS:
            return new is not None
        if text:
            return bool(new) and orders.is_new_text(text, new or ()) and not arguments["priority"]
        weighed = orders.find_order("weigh", "task", number, known, caller) is not None
        return weighed or str(arguments["priority"]) in (new or ())

    def _explain(self, arguments: Mapping[str, Any]) -> str:
        number = _NUMBER.fullmatch(arguments["task"].strip()) if arguments["action"] != "add" else None
        known = (item for item in self._pulse().items() if number and item.number == int(number[1]))
        return next((f"task {item.number} is now: {item.text}" for item in known), "")

    def _is_private(self, arguments: Mapping[str, Any]) -> bool:
        return bool(arguments.get("action") != "add")

    @tool(effect=_effect, means=_explain, is_requested=_is_requested, private=_is_private)
    def pulse(
        self,
        action: Literal["add", "complete", "remove", "update", "list"],
        caller: Caller,
        text: str = "",
        task: Annotated[str, "its number"] = "",
        priority: Annotated[int, Span(0, 10), "1 (urgent) to 10; default 5"] = 0,
    ) -> str:
        """Keep the user's tasks (to-dos)."""
        store = self._pulse()
        if action == "list":
            listed = "\n".join(map(format_item, store.items()))
            if is_tainted(listed):
                caller.taints.add("pulse list")
            return listed or "no task is open"
        number = 0 if action == "add" else self._find_number(task, text if action in _ENDS else "")
        words = "" if action in _ENDS else text
        if action == "update" and not (words.strip() or priority):
            raise ToolError("nothing to update: give text or priority")
        known = {item.number for item in store.items()}
        change = PulseChange(action, number, words, priority)
        whose = replace(caller, taints=set()) if orders.is_ordered_task(words, caller) else caller
        heard = describe_origin(whose).partition(f"{FOREIGN}: ")[2]
        (item,) = store.apply([change], PulseAuthor(caller.session, caller.now, heard))
        if action == "add" and item.number in known:
            return f"open already: {format_item(item)}"
        return f"{_ENDS[action]}: {item.text}" if action in _ENDS else format_item(item)

    def _find_number(self, task: str, text: str) -> int:
        """The given number; a small model may repeat the task's words instead."""
        number = _NUMBER.fullmatch(task.strip())
        wanted = set(list_query_terms(text or task))
        items = self._pulse().items()
        if number and int(number[1]):
            return int(number[1])
        alike = [item.number for item in items if wanted and wanted <= set(list_terms(item.text))]
        if len(alike) == 1:
            return alike[0]
        known = "; ".join(map(format_item, items[:5]))
        raise ToolError(f"task must be the number of one; {f'open: {known}' if known else 'none is open'}")

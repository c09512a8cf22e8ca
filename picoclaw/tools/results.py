"""`read_result`: reads on in a tool's result that was cut for the conversation. `message`: tells the user something now."""

from collections.abc import Callable

from picoclaw.errors import StoreError, ToolError
from picoclaw.messages import Caller, is_other_person
from picoclaw.store.conversations import Results
from picoclaw.tools.registry import tool
from picoclaw.window import get_result_part


class ResultTool:
    """Stores results that are shown cut, and reads on in them."""

    def __init__(self, store: Callable[[], Results], longest: int) -> None:
        """`longest` is in characters, of what is shown at once."""
        self._store, self._longest = store, longest

    def keep(self, tool: str, text: str, caller: Caller) -> int:
        """Store a result; returns its number, 0 if the disk fails."""
        try:
            return self._store().keep(caller.session, tool, text, caller.now)
        except StoreError:
            return 0

    @tool(effect="read", brings=True, private=True)
    def read_result(self, number: int, caller: Caller, start: int = 0) -> str:
        """Read on in a result that was cut, as the cut says."""
        if is_other_person(caller.origin):  # in a group, the owner's are among them
            text = self._store().read_own(caller.session, number, caller.who, caller.now)
        else:
            text = self._store().read(caller.session, number)
        if text is None:
            raise ToolError(f"there is no result {number} in this chat; where one is cut, its number is told")
        if not 0 <= start < len(text):
            raise ToolError(f"result {number} has {len(text)} characters, from 0; there is none at {start}")
        return get_result_part(text, start, self._longest, number)


# `message`: something said to the person at once, before the turn's answer.


class MessageTool:
    @tool(effect="read")
    def message(self, text: str, caller: Caller) -> str:
        """Send the user a message now, before your answer."""
        if not text.strip():
            raise ToolError("text is empty")
        caller.say(text)
        return "sent"

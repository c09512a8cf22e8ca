"""`message`: something said to the person at once, before the turn's answer."""

from picoclaw.errors import ToolError
from picoclaw.messages import Caller
from picoclaw.tools.toolset import tool


class Messages:
    """Speaks in the chat that the turn belongs to, and in no other."""

    @tool(effect="read")
    def message(self, text: str, caller: Caller) -> str:
        """Send the user a message now, ahead of your answer."""
        if not text.strip():
            raise ToolError("text is empty")
        caller.say(text)
        return "sent"

"""`memory_store` and `memory_search`: notes that outlast the conversation."""

from pathlib import Path

from picoclaw.disk import explain
from picoclaw.errors import ToolError
from picoclaw.memory import notes
from picoclaw.messages import Caller
from picoclaw.tools.toolset import tool


class Recall:
    """The notes of one workspace."""

    def __init__(self, workspace: Path) -> None:
        """Touches nothing yet."""
        self._workspace = workspace

    @tool(effect="write")
    def memory_store(self, text: str, caller: Caller) -> str:
        """Add a line to today's note."""
        if not text.strip():
            raise ToolError("text is empty")
        try:
            path = notes.add(self._workspace, text, caller.now)
        except OSError as error:
            raise ToolError(f"the note cannot be written: {explain(error)}") from None
        return f"noted in {path.relative_to(self._workspace)}"

    @tool(effect="read")
    def memory_search(self, query: str) -> str:
        """Find notes by their words."""
        try:
            hits = notes.search(self._workspace, query)
        except OSError as error:
            raise ToolError(f"the notes cannot be read: {explain(error)}") from None
        return "\n".join(f"{hit.path}:{hit.line} {hit.text}" for hit in hits) or f"no note has any word of {query!r}"

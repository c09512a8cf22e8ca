"""What a heartbeat itself has changed of the files that the checklist names: that is no news to ask about.

A file counts as changed by a call when the call names it, and nobody else had changed it before the call.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from picoclaw.messages import ToolCall, ToolRun
from picoclaw.store.beats import Known


class Traces:
    """Hears the calls of a turn, and looks at the files before and after each."""

    def __init__(self, mark: Callable[[str], str], paths: Iterable[str]) -> None:
        """`mark` tells a file's state from another."""
        self._mark = mark
        self._before = {path: mark(path) for path in paths}
        self._left = dict(self._before)
        self._calls: set[str] = set()

    def hear(self, event: object) -> None:
        """Take note of a call that begins or has ended."""
        if isinstance(event, ToolCall):
            self._calls = {path for path in self._named(event) if self._mark(path) == self._left[path]}
        elif isinstance(event, ToolRun):
            self._left.update({path: self._mark(path) for path in self._calls})

    def _named(self, call: ToolCall) -> Iterable[str]:
        words = str(call.arguments)
        return (path for path in self._left if Path(path).name in words)

    def known(self, known: Known, named: Iterable[str]) -> Known:
        """What to remember of a line that names these files: those that were as it knows them, as they were left."""
        left = {path: self._left[path] for path in named if self._is_ours(path, known.seen)}
        return known._replace(seen={**known.seen, **left}) if left else known

    def _is_ours(self, path: str, seen: Mapping[str, float | str]) -> bool:
        before = self._before[path]
        return self._left[path] != before and seen.get(path, "") == before

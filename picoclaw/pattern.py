"""Regular expressions that are compiled when they are first used: a command needs few of the two hundred."""

import re
from typing import Any, cast


class _Pattern:
    """Stands in for a compiled expression; what has been asked of it once is there without detour."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        made = getattr(re.compile(self._text, self._flags), name)  # which re keeps
        if not name.startswith("__"):
            setattr(self, name, made)
        return made


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Write a regular expression as for re.compile; one that is none raises re.error where it is first used."""
    return cast("re.Pattern[str]", _Pattern(text, flags))

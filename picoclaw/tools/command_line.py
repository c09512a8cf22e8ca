"""Reads a command that a model wrote: a list of words, or a line without anything that only a shell understands."""

import re
import shlex
import shutil
from collections.abc import Sequence

from picoclaw.errors import ToolError
from picoclaw.pattern import pattern
from picoclaw.sandbox.walls import PATH

_QUOTED = pattern(r"'[^']*'|\"(?:\\.|[^\"\\$`])*\"|\\.", re.DOTALL)
_SYNTAX = pattern(r"[|&;<>()$`\n\"'*]|\[|(?<!\S)[#~!]|\{[^{}\s,.]*[,.][^{}\s]*\}|(?<![:/\w])\?|^\s*\w+=")
_SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"}
_WANTS_SHELL = "a line of shell is run with shell = true under [tools] in config.toml, the owner's to set"
_INSTEAD = "give argv, a program and its arguments; several commands are several calls"


def words_of(argv: Sequence[str], line: str, *, shell: bool) -> tuple[str, ...]:
    """Return the words to run; a line of shell is given to one where the owner lets it. Raises ToolError."""
    line = line.strip()
    if bool(argv) == bool(line):
        raise ToolError(
            "argv is missing: a program and its arguments" if not argv else "give argv or command, not both"
        )
    words: tuple[str, ...] = tuple(argv)
    if len(words) == 1 and re.search(r"\s", words[0].strip()):
        line, words = words[0].strip(), ()  # a whole command in one word
    if "\0" in line or any("\0" in word for word in words):
        raise ToolError("the command holds a NUL character")
    found = words or _split(line, shell=shell)
    if not found or not found[0].strip():
        raise ToolError("argv is missing: a program and its arguments")
    if not shell and _is_shell_line(found):
        raise ToolError(f"{found[0]} -c: {_WANTS_SHELL}; {_INSTEAD}")
    return found


def _split(line: str, *, shell: bool) -> tuple[str, ...]:
    syntax = _SYNTAX.search(_QUOTED.sub("q", line))
    if shell and (syntax or not shutil.which(line.split(maxsplit=1)[0], path=PATH)):
        return ("/bin/sh", "-c", line)  # such as `cd` and `exit`, which are no programs
    if syntax:
        raise ToolError(
            f"command holds what only a shell understands ({syntax[0].strip()!r}): {_INSTEAD}; {_WANTS_SHELL}"
        )
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise ToolError(f"command cannot be taken apart: {error}; {_INSTEAD}") from None


def _is_shell_line(words: Sequence[str]) -> bool:
    name = words[0].rpartition("/")[2]
    if name not in _SHELLS:
        return False
    value = False
    for word in words[1:]:
        if not value and word[:1] not in {"-", "+"}:
            return False  # a script; what comes after it is the script's own affair
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word):
            return True
        value = not value and bool(re.fullmatch(r"[-+][a-zA-Z]*[oO]", word))
    return False

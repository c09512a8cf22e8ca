"""The owner's pages as a model is shown them: without comments, without what was never filled in."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from picoclaw.errors import ConfigError
from picoclaw.markdown import visible
from picoclaw.pattern import pattern
from picoclaw.prompt import Page
from picoclaw.resources import shipped
from picoclaw.workspace.reading import Texts
from picoclaw.workspace.seeds import LARGEST, MEETING, SEEDS, Seeds, open_meeting

PAGES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "MEMORY.md")
"""What is shown in every turn, in this order; HEARTBEAT.md is for those who ask for it."""

LONGEST_VALUE = 200

_PLACES = {"MEMORY.md": ("memory/MEMORY.md", "MEMORY.md")}
_HEADING = pattern(r" {0,3}(#{1,6})(?:\s|$)")
_FENCE = pattern(r" {0,3}(```|~~~)")
_FIELD = pattern(r"[-*+] ++(?:\*\*)?+([^:*\n]{1,60}+)(?:\*\*)?:(?:\*\*)?(.*)")
_UNSAID = {"", "-"}
_TEXT = 99


class Pages:
    """The pages of one home, each read again when its file has changed."""

    def __init__(self, home: Path, templates: Path | None = None) -> None:
        """Reads nothing yet. `templates` are seeds other than the shipped ones."""
        workspace, source = home / "workspace", templates or shipped("templates") / "workspace"
        self._home, self._source = home, source
        self._seeds = Seeds(home, source)
        self._own = Texts(workspace, LARGEST, workspace, cleaned)
        self._templates = Texts(source, LARGEST, clean=cleaned)
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """Why pages that were asked for are not shown, as far as they still are not."""
        return list(self._problems.values())

    def pages(self, names: Sequence[str] = PAGES) -> list[Page]:
        """Return the pages that say something, by their path in the workspace; raises nothing for what a file is.

        MEMORY.md stands for memory/MEMORY.md and for one beside the other pages. A page that was never seeded reads
        as the template that it would be seeded from.
        """
        places = [place for name in names for place in _PLACES.get(name, (name,))]
        return [Page(place, text) for place in places if (text := self._text(place))]

    def meeting(self, *, tidy: bool = True) -> str:
        """Return what the first meeting is held by, '' when it is over. `tidy` deletes a page that ends it."""
        self._problems.pop(MEETING, None)
        try:
            return open_meeting(self._home, tidy=tidy, templates=self._source)
        except ConfigError as error:
            self._problems[MEETING] = str(error)
            return ""

    def _text(self, name: str) -> str:
        self._problems.pop(name, None)
        try:
            text = self._own.get(name)
            if text is None and name in SEEDS and name in self._seeds.waiting():
                text = self._templates.get(name)
        except ConfigError as error:
            self._problems[name] = str(error)
            return ""
        return text or ""


def fields(text: str) -> dict[str, str]:
    """Read the lines `- Name: Ada` of a page; values are cut to 200 characters, those that say nothing left out."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        match = _FIELD.fullmatch(line.strip())
        value = " ".join(match[2].split()) if match else ""
        if match and value not in _UNSAID:
            found.setdefault(match[1].rstrip(), value[:LONGEST_VALUE])
    return found


def cleaned(text: str) -> str:
    """Leave out comments, fields that are empty or '-', headings with nothing under them, and blank lines in a row."""
    lines = visible(text, trusting=True).split("\n")
    kept: list[str] = []
    below = _Line(0, 0)
    for line, in_code in zip(reversed(lines), reversed(_code(lines)), strict=True):
        blank = not line.strip()
        here = _Line(_TEXT if in_code else _depth(line), len(line) - len(line.lstrip()), in_code)
        if not in_code and (kept[-1:] in ([], [""]) if blank else _says_nothing(line, here, below)):
            continue
        kept.append("" if blank else line)
        below = below if blank else here
    return "\n".join(reversed(kept)).strip("\n")


class _Line(NamedTuple):
    """How deep in the page a line stands, as a heading's level, and in a list, as its indent; whether it is code."""

    depth: int
    indent: int
    in_code: bool = False


def _says_nothing(line: str, here: _Line, below: _Line) -> bool:
    """Whether it is a heading or a field that wants something behind it, and has nothing."""
    if here.depth < _TEXT:
        return below.depth <= here.depth
    field = _FIELD.fullmatch(line.strip())
    return field is not None and field[2].strip() in _UNSAID and below.indent <= here.indent and not below.in_code


def _depth(line: str) -> int:
    found = _HEADING.match(line)
    return len(found[1]) if found else _TEXT


def _code(lines: Sequence[str]) -> list[bool]:
    """Which lines are in a fenced block; a comment of a shell is no heading."""
    marks, fence = [], ""
    for line in lines:
        found = _FENCE.match(line)
        marks.append(bool(fence or found))
        if found and fence in {"", found[1]}:
            fence = "" if fence else found[1]
    return marks

"""What a model is told of the owner's files: the pages without what was never filled in, and the prompts."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from picoclaw.errors import ConfigError, StoreError
from picoclaw.files import explain_os_error
from picoclaw.markdown import blank_comments, describe_hidden, find_hidden, remove_hidden
from picoclaw.prompts import Page
from picoclaw.resources import find_shipped
from picoclaw.text import pattern, remove_invisible
from picoclaw.times import find_zone
from picoclaw.workspace.templates import (
    MAX_PAGE_BYTES,
    ONBOARDING_PAGE,
    TEMPLATE_PAGES,
    TextFiles,
    WorkspaceTemplates,
    read_onboarding,
    read_text,
)

PAGES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "MEMORY.md")
"""What is shown in every turn, in this order; HEARTBEAT.md is for those who ask for it."""

_NOTES_PAGES = ("memory/MEMORY.md", "MEMORY.md", "memory.md")
"""What each person has in their own workspace."""

_MAX_VALUE_CHARS = 200
_MAX_PROMPT_BYTES = 64_000
_PROMPT_NAME = pattern(r"[a-z_0-9]+")
_TOOL_PROMPT = pattern(r"tool_([a-z_0-9]+)\.md")

_PLACES = {"MEMORY.md": ("memory/MEMORY.md", "MEMORY.md", "memory.md")}
_HEADING = pattern(r" {0,3}(#{1,6})(?:\s|$)")
_FENCE = pattern(r" {0,3}(```|~~~)")
_FIELD = pattern(r"[-*+] +(?! )(?:\*\*)?([^:*\n]{1,60})(?:\*\*)?:(?:\*\*)?(.*)")
_EMPTY_VALUES = {"", "-"}
_BODY_LEVEL = 7  # below every heading
_UNFILLED = pattern(r"^[ \t]*[-*+] [^\n]*:(?:\*\*)?[ \t]*-?[ \t]*$", re.MULTILINE)


class OwnPages(Protocol):
    """The pages that are a person's own, by their `names`; those of `private` are never taken from the agent's."""

    names: frozenset[str]
    private: frozenset[str]

    def read(self, name: str) -> str | None:
        """Return what a page says, None when the person has none. Raises StoreError."""


class Pages:
    """The pages of one home, each read again when its file has changed."""

    def __init__(
        self,
        home: Path,
        templates: Path | None = None,
        shared: "Pages | None" = None,
        own: OwnPages | None = None,
    ) -> None:
        """Reads nothing yet. `templates` are seeds other than the shipped ones.

        With `shared`, `home` is a person's part of a home, or of an agent's folder, which has their notes; all other pages
        are the shared ones. Before either come those of `own`.
        """
        workspace, source = home / "workspace", templates or find_shipped("templates") / "workspace"
        self._home, self._workspace, self._source = home, workspace, source
        self._seeds = WorkspaceTemplates(home, source)
        self._own = TextFiles(workspace, MAX_PAGE_BYTES, workspace, self._clean)
        self._templates = TextFiles(source, MAX_PAGE_BYTES, clean=self._clean)
        self._problems: dict[str, str] = {}
        self._personal = own
        self.shared = shared

    @property
    def problems(self) -> list[str]:
        """Why pages that were asked for are not shown, as far as they still are not."""
        return list(self._problems.values())

    def pages(self, names: Sequence[str] = PAGES, *, for_all: bool = False) -> list[Page]:
        """Return the pages that say something, by their path in the workspace; raises nothing for what a file is.

        MEMORY.md stands for memory/MEMORY.md and for one beside the other pages. A page that was never seeded reads
        as the template that it would be seeded from. `for_all` leaves out what is a person's own.
        """
        places = [place for name in names for place in _PLACES.get(name, (name,))]
        return [Page(place, text) for place in places if (text := self.read(place, for_all=for_all))]

    def read_onboarding(self, *, tidy: bool = True) -> str:
        """Return the onboarding page, '' if onboarding is over. `tidy` deletes an empty page."""
        self._problems.pop(ONBOARDING_PAGE, None)
        try:
            if self._personal:
                return remove_hidden(self._read_own(ONBOARDING_PAGE) or "", trusting=True).strip()
            return read_onboarding(self._home, tidy=tidy, templates=self._source)
        except ConfigError as error:
            self._problems[ONBOARDING_PAGE] = str(error)
            return ""

    def is_shipped_onboarding(self) -> bool:
        """Whether onboarding is open with the unchanged shipped page."""
        try:
            shipped = read_text(self._source / ONBOARDING_PAGE, MAX_PAGE_BYTES) or ""
        except ConfigError:
            return False
        usual = remove_hidden(shipped, trusting=True).strip()
        return bool(usual) and self.read_onboarding(tidy=False) == usual

    def describe_left_out(self, names: Sequence[str] = PAGES) -> list[str]:
        """Describe what of the pages is left out: comments, invisible characters, and fields that are not filled in."""
        found: list[str] = []
        places = [place for name in names for place in _PLACES.get(name, (name,))]
        for name in places:
            try:
                text = self._read_own(name)
                if text is None:
                    text = read_text(self._workspace / name, MAX_PAGE_BYTES, self._workspace)
            except ConfigError:
                continue  # which `problems` says
            found += [f"{name} {what}" for what in _describe_left_out(text or "", self._fields(name, text or ""))]
        return found

    def _clean(self, name: str, text: str) -> str:
        return clean_page(text, self._fields(name, text))

    def _fields(self, name: str, text: str) -> frozenset[str]:
        """The fields of a page's template that its owner is to fill in; read only where one seems to be empty."""
        if name not in TEMPLATE_PAGES or not _UNFILLED.search(remove_hidden(text, trusting=True)):
            return frozenset()
        try:
            lines = (self._source / name).read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise ConfigError(
                f"{self._source / name} cannot be read: {explain_os_error(error)}; reinstall picoclaw"
            ) from None
        return frozenset(field[1].rstrip() for line in lines if (field := _FIELD.fullmatch(line.strip())))

    def _read_own(self, name: str) -> str | None:
        """What a person's own page says; raises ConfigError."""
        if not self._personal or name not in self._personal.names:
            return None
        try:
            return self._personal.read(name)
        except StoreError as error:
            raise ConfigError(f"{name} cannot be read: {error}") from None

    def read(self, name: str, *, for_all: bool = False) -> str:
        """Return what a page says, by its path in the workspace; '' for one that says nothing, or cannot be read."""
        self._problems.pop(name, None)
        try:
            if not for_all and (own := self._read_own(name)) is not None:
                return self._clean(name, own)
            private = self._personal.private if self._personal else ()
            if self.shared and name not in _NOTES_PAGES and name not in private:
                return self.shared.read(name)
            text = self._own.get(name)
            if text is None and name in TEMPLATE_PAGES and name in self._seeds.list_new():
                text = self._templates.get(name)
        except ConfigError as error:
            self._problems[name] = str(error)
            return ""
        return text or ""


class Prompts:
    """The owner's wording where there is one (`prompts/NAME.md` in the workspace), else the shipped one.

    Comments are for people and left out. A file of the owner's that changes is seen the next time it is asked for; the
    shipped ones are read once. In the place of one that cannot be read the shipped wording serves, so that no slip of the
    owner's ends a turn.
    """

    def __init__(self, workspace: Path, templates: Path | None = None) -> None:
        """Reads nothing yet. `templates` are others than the shipped ones."""
        self._folder = workspace / "prompts"
        self._source = templates or find_shipped("templates") / "prompts"
        self._own = TextFiles(self._folder, _MAX_PROMPT_BYTES, workspace, _clean_prompt)
        self._shipped = TextFiles(self._source, _MAX_PROMPT_BYTES, clean=_clean_prompt)
        self._shipped_texts: dict[str, str | None] = {}
        self._listed: frozenset[str] | None = None
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """Why files of the owner's that were asked for are not used, as far as they still are not."""
        return list(self._problems.values())

    @contextmanager
    def hold(self) -> Iterator[None]:
        """List the owner's files once for what is asked for inside, of which a turn asks dozens; a new one is seen later."""
        try:
            self._listed = frozenset(path.name for path in self._folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            self._listed = frozenset()
        except OSError:
            self._listed = None
        try:
            yield
        finally:
            self._listed = None  # also for another thread, which looks for each name then

    def __getitem__(self, name: str) -> str:
        """Return a template's text; raises ConfigError when there is none."""
        found = self.get(name)
        if found is None:
            raise ConfigError(f"the prompt template {name}.md is missing; reinstall picoclaw")
        return found

    def get(self, name: str) -> str | None:
        """Return a template's text, None when there is none of that name; raises ConfigError for what is no name."""
        if not _PROMPT_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be a prompt template's name; use small letters, digits and _")
        self._problems.pop(name, None)
        listed, file = self._listed, f"{name}.md"
        if listed is None or file in listed:
            try:
                if (own := self._own.get(file)) is not None:
                    return own
            except ConfigError as error:
                self._problems[name] = f"{error}; until then picoclaw's own wording is used"
        if name not in self._shipped_texts:
            self._shipped_texts[name] = self._shipped.get(file)
        return self._shipped_texts[name]

    def overridden(self) -> list[Path]:
        """List the owner's files; raises ConfigError when the folder cannot be read."""
        try:
            return sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be read: {explain_os_error(error)}") from None

    def unknown(self, tools: Collection[str] | None = None) -> list[Path]:
        """List those of the owner's files that nothing asks for: no template has that name, and none of the tools."""
        names = {path.name for path in self._source.iterdir()}
        others = [path for path in self.overridden() if path.name not in names]
        return [
            path
            for path in others
            if not (tool := _TOOL_PROMPT.fullmatch(path.name)) or (tools is not None and tool[1] not in tools)
        ]


def _clean_prompt(_: str, text: str) -> str:
    return remove_hidden(text, trusting=True).strip("\n")


def read_fields(text: str) -> dict[str, str]:
    """Read the lines `- Name: Ada` of a page; values are cut to 200 characters, those that say nothing left out."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        match = _FIELD.fullmatch(line.strip())
        value = " ".join(match[2].split()) if match else ""
        if match and value not in _EMPTY_VALUES:
            found.setdefault(match[1].rstrip(), value[:_MAX_VALUE_CHARS])
    return found


def get_owner_time(home: Path, at: float | None = None) -> datetime:
    """A moment in seconds since 1970, or now, in the time zone that USER.md names, else in the board's."""
    zone = find_zone(read_fields("\n".join(page.text for page in Pages(home).pages(["USER.md"]))))[0]
    return (datetime.now() if at is None else datetime.fromtimestamp(at)).astimezone(zone)  # noqa: DTZ005, DTZ006


def clean_page(text: str, template: Collection[str] = ()) -> str:
    """Leave out comments, blank lines in a row, and of the fields of the `template` those that are empty or '-'."""
    lines = remove_hidden(text, trusting=True).split("\n")
    return _join_lines(lines, set(_find_unfilled(lines, template)))


def remove_empty(text: str) -> str:
    """Leave out comments, blank lines in a row, every empty field, and the headings with nothing under them."""
    lines = remove_hidden(text, trusting=True).split("\n")
    empty, code, below = set(_find_unfilled(lines, None)), _mark_code(lines), 0
    for number in range(len(lines) - 1, -1, -1):
        heading = None if code[number] else _HEADING.match(lines[number])
        if heading and below <= len(heading[1]):
            empty.add(number)
        elif lines[number].strip() and number not in empty:
            below = len(heading[1]) if heading else _BODY_LEVEL
    return _join_lines(lines, empty)


def _join_lines(lines: Sequence[str], left_out: Collection[int]) -> str:
    code, kept = _mark_code(lines), list[str]()
    for number, line in enumerate(lines):
        blank = not line.strip()
        if number not in left_out and (code[number] or not blank or kept[-1:] not in ([], [""])):
            kept.append("" if blank else line)
    return "\n".join(kept).strip("\n")


def _find_unfilled(lines: Sequence[str], template: Collection[str] | None) -> Iterator[int]:
    """Find the fields of a template, None for all, that have no value, also none in the lines that follow."""
    code = _mark_code(lines)
    below = len(lines)
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        field = None if code[number] else _FIELD.fullmatch(line.strip())
        empty = field and field[2].strip() in _EMPTY_VALUES and _is_template_field(field, template)
        if empty and (below == len(lines) or (not code[below] and _ends_field(line, lines[below], template))):
            yield number
        if line.strip():
            below = number


def _is_template_field(field: re.Match[str], template: Collection[str] | None) -> bool:
    return template is None or field[1].rstrip() in template


def _ends_field(line: str, below: str, template: Collection[str] | None) -> bool:
    """Whether the next line that says something is a heading or a field of the template, and no value of this one."""
    if _HEADING.match(below):
        return True
    field = _FIELD.fullmatch(below.strip())
    indents = [len(text) - len(text.lstrip()) for text in (line, below)]
    return field is not None and _is_template_field(field, template) and indents[1] <= indents[0]


def _describe_left_out(text: str, template: Collection[str]) -> Iterator[str]:
    """Say what `cleaned` leaves out of a text, and in which lines."""
    ends = [number for number, char in enumerate(text) if char == "\n"]
    for start, end, what in find_hidden(text, trusting=True):
        first, last = (bisect_left(ends, at) + 1 for at in (start, end - 1))
        yield f"line {first}: {what}" if first == last else f"lines {first}-{last}: {what}"
    lines = remove_invisible(blank_comments(text)).split("\n")
    yield from (f"line {n + 1}: not filled in: {lines[n].strip()}" for n in sorted(_find_unfilled(lines, template)))
    yield from (what for what in describe_hidden(text, trusting=True) if "invisible" in what)


def _mark_code(lines: Sequence[str]) -> list[bool]:
    """Which lines are in a fenced block; a comment of a shell is no heading."""
    marks, fence = [], ""
    for line in lines:
        found = _FENCE.match(line)
        marks.append(bool(fence or found))
        if found and fence in {"", found[1]}:
            fence = "" if fence else found[1]
    return marks

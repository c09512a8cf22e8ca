"""The words sent to a model, put together from templates and values. Pure: no file, no clock, no network."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, get_args

from picoclaw.text import pattern

PromptMode = Literal["full", "coordinator", "minimal", "base", "none"]
PROMPT_MODES: tuple[PromptMode, ...] = get_args(PromptMode)
BYTES_A_TOKEN = 4.0
"""What a token takes in English with most vocabularies; used until a server's own figures are known."""

_CLOSING_TAG = pattern(r"</(?=\s*(?:file|skill|moment)\b)", re.IGNORECASE)
MIN_PAGE_CHARS = 64
"""Characters; a piece of a file that is shorter says nothing."""

_PLACEHOLDER = pattern(r"\{([a-z_]+)\}")


class Templates(Protocol):
    """The wording by name; a dict will do."""

    def __getitem__(self, name: str, /) -> str: ...


class Page(NamedTuple):
    """A file of the owner's that is shown to the model: its path in the workspace, and its text or a part of it."""

    name: str
    text: str


class Section(NamedTuple):
    """A part of the system text, by the name of its template; of a page, by the page's."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What a system text is made of. What is empty or false leaves its section out.

    `skills` are the lines of the listing, or `many_skills` how many there are when they have to be searched for.
    `pages` come in the order in which they are shown. `leave_to_helpers` are names of tools, `runtime` values of
    the template of that name.
    """

    name: str = "picoclaw"
    first_run: str = ""
    tools: bool = True
    skills: str = ""
    many_skills: int = 0
    memory: bool = False
    citations: bool = False
    workspace: str = ""
    owner: str = ""
    zone: str = ""
    extra: str = ""
    pages: Sequence[Page] = ()
    silent: bool = False
    heartbeat: bool = False
    helper: str = ""
    leave_to_helpers: Sequence[str] = ()
    runtime: Mapping[str, str] | None = None


_MODES_WITH_TEXT: frozenset[PromptMode] = frozenset({"full", "coordinator", "minimal", "base"})
_MODES_WITH_CONTEXT: frozenset[PromptMode] = _MODES_WITH_TEXT - {"base"}
_FULL_MODES: frozenset[PromptMode] = frozenset({"full", "coordinator"})
MINIMAL_PAGES = ("AGENTS.md", "TOOLS.md")
CHECKLIST_PAGE = "HEARTBEAT.md"

_Values = Mapping[str, str] | None


class _SectionSpec(NamedTuple):
    name: str
    modes: frozenset[PromptMode]
    values: Callable[[PromptFacts], _Values]  # None leaves the section out


def _make_field_section(field: str, shown_as: str = "content") -> Callable[[PromptFacts], _Values]:
    """A section that is there when a fact is, and shows it."""
    return lambda facts: {shown_as: str(value)} if (value := getattr(facts, field)) else None


def _make_flag_section(field: str) -> Callable[[PromptFacts], _Values]:
    """A section that is there when a fact is, and says nothing of it."""
    return lambda facts: {} if getattr(facts, field) else None


def _list_tools_of_helpers(facts: PromptFacts) -> _Values:
    return {"tools": ", ".join(facts.leave_to_helpers)} if facts.leave_to_helpers else None


_SECTIONS = (
    _SectionSpec("identity", _MODES_WITH_TEXT, _make_field_section("name", "name")),
    _SectionSpec("first_run", _FULL_MODES, _make_field_section("first_run")),
    _SectionSpec("tooling", _MODES_WITH_TEXT, _make_flag_section("tools")),
    _SectionSpec("tool_style", _MODES_WITH_TEXT, _make_flag_section("tools")),
    _SectionSpec("coordinator", frozenset({"coordinator"}), _list_tools_of_helpers),
    _SectionSpec("safety", _MODES_WITH_TEXT, lambda _: {}),
    _SectionSpec("skills", _FULL_MODES, _make_field_section("skills")),
    _SectionSpec("skills_search", _FULL_MODES, _make_field_section("many_skills", "count")),
    _SectionSpec("memory", _FULL_MODES, _make_flag_section("memory")),
    _SectionSpec("citations", _FULL_MODES, lambda f: {} if f.memory and f.citations else None),
    _SectionSpec("workspace", _MODES_WITH_TEXT, _make_field_section("workspace", "path")),
    _SectionSpec("owner", _FULL_MODES, _make_field_section("owner")),
    _SectionSpec("time", _MODES_WITH_CONTEXT, _make_field_section("zone", "zone")),
    _SectionSpec("extra", _MODES_WITH_CONTEXT, _make_field_section("extra")),
    _SectionSpec("context", _MODES_WITH_CONTEXT, lambda _: {}),
    _SectionSpec("silent", _MODES_WITH_CONTEXT, _make_flag_section("silent")),
    _SectionSpec("heartbeat", frozenset(PROMPT_MODES), _make_flag_section("heartbeat")),
    _SectionSpec("helper", frozenset({"minimal"}), _make_field_section("helper")),
    _SectionSpec("runtime", _MODES_WITH_TEXT, lambda f: f.runtime),
)


def build_sections(mode: PromptMode, facts: PromptFacts, templates: Templates) -> list[Section]:
    """Make the system text's sections, always in the same order; empty ones are not there."""
    made = []
    for row in _SECTIONS:
        values = row.values(facts) if mode in row.modes else None
        if values is None:
            continue
        if row.name == "context":
            made += _build_context(mode, facts.pages, templates)
        elif text := fill_template(templates[row.name], values, "content"):
            made.append(Section(row.name, text))
    return made


def _build_context(mode: PromptMode, pages: Sequence[Page], templates: Templates) -> list[Section]:
    """The owner's files in tagged blocks, behind the sentence that says what they may decide."""
    shown = [
        page for page in pages if page.text and (mode in _FULL_MODES or page.name in {*MINIMAL_PAGES, CHECKLIST_PAGE})
    ]
    if not shown:
        return []
    blocks = [Section(page.name, fill_block(templates["file"], page.name, page.text)) for page in shown]
    return [Section("context", templates["context"]), *blocks]


def fill_block(template: str, name: str, text: str) -> str:
    """Put a text into a tagged block that it cannot close by itself."""
    return fill_template(template or "{content}", {"name": name, "content": escape_closing(text)}, "content")


def escape_closing(text: str) -> str:
    """Break the closing tags of our blocks in a text, so that it cannot get out of the one that it is put into."""
    return _CLOSING_TAG.sub("< /", text)


def shorten_page(template: str, name: str, text: str, most: int) -> str:
    """Cut a file's text to `most` characters: 70 % from its head, 20 % from its tail, between them where to read on.

    Where so little is left that the mark would take half of it, only the head is kept.
    """
    if len(text) <= most:
        return text
    mark = fill_template(template, {"name": name})
    room = most - len(mark) - len("\n\n")
    if room < most // 2:
        return text[:most]
    head = min(most * 7 // 10, room)
    tail = min(most * 2 // 10, room - head)
    return "\n".join(filter(None, [text[:head], mark, text[len(text) - tail :]]))


def limit_pages(pages: Sequence[Page], template: str, per_file: int, total: int) -> tuple[list[Page], list[str]]:
    """Fit pages into a budget of characters, in their order; returns them, and the names of those that have no room.

    When fewer than 64 characters are left, the rest is left out.
    """
    shown, away = [], []
    for page in pages:
        if total < MIN_PAGE_CHARS:
            away.append(page.name)
            continue
        text = shorten_page(template, page.name, page.text, min(per_file, total))
        total -= len(text)
        shown.append(Page(page.name, text))
    return shown, away


def join_sections(parts: Sequence[Section]) -> str:
    return "\n\n".join(part.text for part in parts if part.text)


def fill_template(template: str, values: Mapping[str, str], must: str = "") -> str:
    """Put values in place of `{name}`; a brace that names no value stays as it is. Space around it goes.

    `must` is the placeholder whose value may not be lost: when the template does not have it, the value is added. An
    empty template says nothing at all.
    """
    if template and must in values and f"{{{must}}}" not in template:
        template = f"{template}\n{{{must}}}"
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template).strip()


def format_header(template: str, now: datetime, notes: Sequence[str] = (), blocks: Sequence[str] = ()) -> str:
    """The tagged head of a user message: local time with its zone, what is special just now, and whole texts."""
    facts = "; ".join([now.strftime("%A %Y-%m-%d %H:%M %Z (UTC%z)"), *filter(None, notes)])
    return fill_template(template, {"facts": "\n".join([facts, *blocks])}, "facts")


def add_header(head: str, text: str) -> str:
    return f"{head}\n{text}" if head else text


def count_bytes(value: Any) -> int:
    """Bytes of a value as it travels: UTF-8 text, or compact JSON."""
    return len(serialize_value(value).encode("utf-8", "replace"))


def cut_bytes(text: str, most: int) -> str:
    """Shorten a text to so many bytes: two thirds from its head, the rest from its tail."""
    if count_bytes(text) <= most:
        return text
    data, room = text.encode("utf-8", "replace"), max(0, most - len(" […] ".encode()))
    head = room * 2 // 3
    tail = data[len(data) - (room - head) :]
    return f"{data[:head].decode('utf-8', 'ignore')} […] {tail.decode('utf-8', 'ignore')}"


def serialize_value(value: Any) -> str:
    """Write a value as it travels: a text as it is, anything else as compact JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def estimate_tokens(size_bytes: int, bytes_a_token: float = BYTES_A_TOKEN) -> int:
    """Guess the tokens of a text from its bytes, by a ratio that was measured or the usual one."""
    return int(-(-size_bytes // bytes_a_token))

"""The words sent to a model, put together from templates and values. Pure: no file, no clock, no network."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol, get_args

from picoclaw.records import NamedTuple, dataclass
from picoclaw.text import pattern

PromptMode = Literal["full", "coordinator", "minimal", "base", "none"]
PROMPT_MODES: tuple[PromptMode, ...] = get_args(PromptMode)
BYTES_A_TOKEN = 4.0
"""What a token takes in English with most vocabularies; used until a server's own figures are known."""

MCP_JOINT = "__"
"""Stands for the dot in the name of a tool of an MCP server where a model is told of it: no server takes a dot."""

_CLOSING_TAG = pattern(r"</(?=\s*(?:file|skill|moment|system_context)\b)", re.IGNORECASE)
MIN_PAGE_CHARS = 64
"""Characters; a piece of a file that is shorter says nothing."""

_PLACEHOLDER = pattern(r"\{([a-z_]+)\}")


class Templates(Protocol):
    """The wording by name; a dict will do."""

    def __getitem__(self, name: str, /) -> str: ...


class Page(NamedTuple):
    """A file of the owner's that is shown to the model: its path in the workspace, and its text or a part of it.

    A section of the system text is one, too, by the name of its template, or of the page that it shows.
    """

    name: str
    text: str


@dataclass(frozen=True)
class PromptFacts:
    """What a system text is made of. What is empty or false leaves its section out.

    `skills` are the lines of the listing, or `many_skills` how many there are when they have to be searched for.
    `pages` come in the order in which they are shown; `virtual` ones are no files, but made of the settings. `leave_to_subagents` are names of tools, `runtime` values of
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
    virtual: Sequence[Page] = ()
    silent: bool = False
    heartbeat: bool = False
    subagent: str = ""
    leave_to_subagents: Sequence[str] = ()
    runtime: Mapping[str, str] | None = None


FULL_MODES: frozenset[PromptMode] = frozenset({"full", "coordinator"})
MINIMAL_PAGES = ("AGENTS.md", "TOOLS.md")
CHECKLIST_PAGE = "HEARTBEAT.md"


def build_sections(mode: PromptMode, facts: PromptFacts, templates: Templates) -> list[Page]:
    """Make the system text's sections, always in the same order; empty ones are not there."""
    full, context, text = mode in FULL_MODES, mode not in {"base", "none"}, mode != "none"
    only_names = ", ".join(facts.leave_to_subagents)
    rows: list[tuple[str, Any, Mapping[str, str]]] = [  # a section's name, whether it is shown, its values
        ("identity", text and facts.name, {"name": facts.name}),
        ("first_run", full and facts.first_run, {"content": facts.first_run}),
        ("tooling", text and facts.tools, {}),
        ("tool_style", text and facts.tools, {}),
        ("coordinator", mode == "coordinator" and only_names, {"tools": only_names}),
        ("safety", text, {}),
        ("skills", full and facts.skills, {"content": facts.skills}),
        ("skills_search", full and facts.many_skills, {"count": str(facts.many_skills)}),
        ("memory", full and facts.memory, {}),
        ("citations", full and facts.memory and facts.citations, {}),
        ("workspace", text and facts.workspace, {"path": facts.workspace}),
        ("owner", full and facts.owner, {"content": facts.owner}),
        ("time", context and facts.zone, {"zone": facts.zone}),
        ("extra", context and facts.extra, {"content": facts.extra}),
        ("system_context", context, {}),
        ("context", context, {}),
        ("silent", context and facts.silent, {}),
        ("heartbeat", facts.heartbeat, {}),
        ("subagent", mode == "minimal" and facts.subagent, {"content": facts.subagent}),
        ("runtime", text and facts.runtime is not None, facts.runtime or {}),
    ]
    sections = []
    for name, is_shown, values in rows:
        if name == "system_context":
            sections += [Page(p.name, fill_block(templates[name], *p)) for p in facts.virtual if is_shown]
        elif is_shown and name == "context":
            # the owner's files in tagged blocks, behind the sentence that says what they may decide
            pages = [page for page in facts.pages if page.text]
            pages = [page for page in pages if full or page.name in {*MINIMAL_PAGES, CHECKLIST_PAGE}]
            if pages:
                sections.append(Page("context", templates["context"]))
            sections += [Page(p.name, fill_block(templates["file"], p.name, p.text)) for p in pages]
        elif is_shown and (filled := fill_template(templates[name], values, "content")):
            sections.append(Page(name, filled))
    return sections


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


def join_sections(parts: Sequence[Page]) -> str:
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


_ENCODE_COMPACTLY = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def serialize_value(value: Any) -> str:
    """Write a value as it travels: a text as it is, anything else as compact JSON."""
    return value if isinstance(value, str) else _ENCODE_COMPACTLY(value)


def estimate_tokens(size_bytes: int, bytes_a_token: float = BYTES_A_TOKEN) -> int:
    """Guess the tokens of a text from its bytes, by a ratio that was measured or the usual one."""
    return int(-(-size_bytes // bytes_a_token))

"""The words sent to a model, put together from templates and values, and how many of them its window takes.

Pure: no file, no clock, no network.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import is_not
from typing import Any, Literal, Protocol, get_args

from picoclaw.messages import Message, Usage
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


# How a model's window of tokens is shared between the answer, what a turn begins with, results, and the conversation.

_ANSWER, _CONVERSATION, _RESERVE = 4, 3, 16  # so many parts of a window: at most, at least, and for a wrong estimate
_HEAD, _RESULT = 4, 2  # tokens of the window for a character
_BYTES_A_TOKEN, _FEWEST_BYTES_A_TOKEN = 4, 1.5
_TOOL_SHARE = 0.6  # of what a turn begins with
_HINT_CHARS = 100
_SUMMARY, _SHORTEST_SUMMARY, _LONGEST_SUMMARY = 3, 1000, 8000  # a byte for so many tokens of the window

READ_ON_TOOL = "read_result"
_READ_HINT = pattern(
    rf"(?:; |\n?\[)?{READ_ON_TOOL}\(number=\d+, start=\d+\) (?:(?:shows them|reads on)|shows the rest\])"
)
"""The tool that reads on in a result that was cut."""

_RESULT_NUMBER = pattern(r"\[[^\[\]\n]{0,80}read_result\(number=(\d{1,18}), start=\d{1,18}\) [a-z ]{1,20}\]")


class WindowBudget(NamedTuple):
    """What has room in a window.

    `answer` and `request` are tokens, with a reserve between them, because a request is only estimated. `told` is bytes
    of system text and tools, `tools` those of the tools alone; what is left is the conversation's, at least a third.
    `head` is characters of each text that comes with a message: notes, tasks, reports, a skill. `result` is characters
    of a tool's result.
    """

    answer: int
    request: int
    told: int
    tools: int
    head: int
    result: int


def split_window(window: int, answer: int = 0, result: int = 0) -> WindowBudget:
    """Share out a window of so many tokens; `answer` tokens and `result` characters are the most that is wanted."""
    answer = min(answer, window // _ANSWER)
    told = int((window - answer - window // _CONVERSATION) * _BYTES_A_TOKEN)
    request = window - answer - window // _RESERVE
    return WindowBudget(answer, request, told, int(told * _TOOL_SHARE), window // _HEAD, min(result, window // _RESULT))


def get_summary_bytes(window: int) -> int:
    """Return the most bytes that a summary may have, and that is shown of one made for a larger window."""
    return min(_LONGEST_SUMMARY, max(_SHORTEST_SUMMARY, window // _SUMMARY))


TOOL_DROP_ORDER = """
    spawn spawn_status delegate_search delegate message process memory_rank memory_share skill_update skill_create pulse
    sensor_add web_fetch list_dir fleet_list fleet_ask rule memory_update memory_forget memory_get edit_file write_file spi
    serial i2c sensor_excursions sensor_history memory_search memory_store skill_search read_file cron exec gpio fleet_read
    board_status sensor_list sensor_read first_run read_result
""".split()  # noqa: SIM905
"""The tools in the order in which a window that is too small for all of them is spared their descriptions."""


def choose_dropped(sizes: Mapping[str, int], most: int, order: Sequence[str] = TOOL_DROP_ORDER) -> frozenset[str]:
    """Name the tools that have to go, in that order, so that the rest fits; those that it does not name go first."""
    rank = {name: place for place, name in enumerate(order)}
    left, gone = sum(sizes.values()), set[str]()
    for name in sorted(sizes, key=lambda name: rank.get(name, -1)):
        if left <= most:
            break
        left -= sizes[name]
        gone.add(name)
    return frozenset(gone)


def cut_result(text: str, most: int, number: int) -> str:
    """Take out the middle of a result: three quarters of `most` characters from its head, the rest from its tail.

    `number` is where the whole is kept, 0 for nowhere.
    """
    tail = most // 4
    how = _format_read_call(number, most - tail, "shows them") if number else "ask for a smaller part"
    note = f"[cut: {len(text) - most} characters left out here; {how}]"
    return f"{text[: most - tail]}\n{note}\n{text[len(text) - tail :]}"


def get_result_part(text: str, start: int, most: int, number: int) -> str:
    """Show what follows in a result from a character on, in about `most` characters, and how to read on."""
    end = start + max(most - _HINT_CHARS, _HINT_CHARS)
    left = len(text) - end
    how = _format_read_call(number, end, "reads on")
    return f"{text[start:end]}\n[{left} more; {how}]" if left > 0 else text[start:]


def remove_mark(text: str) -> str:
    """Break in a text what only a result that was cut may say."""
    return text.replace(f"{READ_ON_TOOL}(number=", f"{READ_ON_TOOL} (number=")


def remove_hints(text: str) -> str:
    """Leave out of a result what tells a model how to read on: for a person, who has no tool to call."""
    return _READ_HINT.sub("", text)


def format_rest_hint(number: int, start: int) -> str:
    """Tell where a result goes on that is kept; nothing for number 0."""
    return f"[{_format_read_call(number, start, 'shows the rest')}]" if number else ""


def _format_read_call(number: int, start: int, does: str) -> str:
    return f"{READ_ON_TOOL}(number={number}, start={start}) {does}"


def find_result_number(text: str) -> int:
    """Find the number under which a result that is shown cut is kept whole, 0 for none."""
    found = _RESULT_NUMBER.findall(text)
    return int(found[-1]) if found else 0


def measure_bytes_a_token(bytes_a_token: float, usage: Usage) -> float:
    """Return the ratio to go on with in a turn: a server that counts more tokens than were expected is believed."""
    return min([bytes_a_token, *(max(_FEWEST_BYTES_A_TOKEN, sent / told) for sent, told in usage.counted if told)])


# How large a request is: one measure for the estimate before it is sent and for what is learned from it after.
#
# Most vocabularies have a token for each digit, often one more for the blank before it, and take four bytes of prose or
# JSON for one. A table of readings or a dump of registers has three times the tokens of a letter of that length.

_AROUND_A_MESSAGE, _AROUND_A_CALL, _AROUND_A_TOOL, _AROUND_A_DIGIT = 16, 60, 75, 5
_IMAGE_BYTES = 6400  # 1,600 tokens, the most that servers count for one they have scaled down
_measured: list[tuple[Sequence[Any], int]] = [((), 0)]
_NON_DIGITS = bytes(set(range(256)) - set(b"0123456789"))


class NewestResults:
    """What was made of each part of the newest request: the next one has the same parts, and a few more.

    Parts are told apart by identity, so that nothing has to be compared or hashed.
    """

    def __init__(self) -> None:
        self._results: dict[Any, tuple[tuple[Any, ...], Any]] = {}

    def renew(self, *how: Any) -> Callable[..., Any]:
        """Begin a request; gives a function that returns `make(*parts)`, known from the request before or made now.

        What else a result depends on is `how` for all of them, and `more` for one.
        """
        before, self._results = self._results, (now := dict[Any, tuple[tuple[Any, ...], Any]]())

        def get(parts: tuple[Any, ...], make: Callable[..., Any], *more: Any) -> Any:
            key = (*map(id, parts), *more, *how)
            kept = before.get(key)
            if kept is None or any(map(is_not, kept[0], parts)):
                kept = parts, make(*parts)
            now[key] = kept
            return kept[1]

        return get


_message_sizes = NewestResults()


def count_request_bytes(system: str, messages: Iterable[Message], tools: Sequence[Any]) -> int:
    """Bytes of what a model reads: the texts, digits for more, and about what a server's template puts around them."""
    size = _message_sizes.renew()
    sizes: int = sum(size((message,), count_message_bytes) for message in messages)
    return sizes + count_weighted_bytes(system) + count_tools_bytes(tools)


def count_message_bytes(message: Message) -> int:
    return (
        count_weighted_bytes(message.text)
        + _AROUND_A_MESSAGE
        + _IMAGE_BYTES * len(message.images)
        + sum(map(count_weighted_bytes, message.thought.parts))
        + sum(count_weighted_bytes(call.arguments) + _AROUND_A_CALL for call in message.calls)
    )


def count_tools_bytes(tools: Sequence[Any]) -> int:
    """Bytes of the tools of a request; the same ones go with each request of a turn, and are measured once."""
    known, total = _measured[0]
    if known is not tools:
        total = sum(map(count_tool_bytes, tools))
        _measured[0] = tools, total
    return total


def count_tool_bytes(definition: Any) -> int:
    return count_weighted_bytes(definition) + _AROUND_A_TOOL


def count_weighted_bytes(value: Any) -> int:
    """Bytes of a value as it travels, as many as its tokens suggest: a digit counts as six."""
    data = serialize_value(value).encode("utf-8", "replace")
    return len(data) + _AROUND_A_DIGIT * len(data.translate(None, _NON_DIGITS))

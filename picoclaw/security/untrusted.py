"""Text from outside: how it is cleaned and marked for models and people, and what taints a turn.

Pages, files, command output and chat names may hold invisible characters, a model's template tokens, or the end of the
tag that they are put into.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from picoclaw.messages import Message, ToolCall
from picoclaw.prompts import escape_closing, fill_template
from picoclaw.text import escape_control_tokens, pattern, remove_invisible, truncate

UNTRUSTED_TOOLS = frozenset(
    {"read_file", "list_dir", "read_result", "exec", "process", "serial", "spawn", "spawn_status", "delegate"}
    | {"web_fetch", "web_search", "subagent", "fleet_list", "fleet_read", "fleet_ask", "mcp_list", "mcp_read"}
)
"""The tools that are marked `brings`, also those that this set-up does not have any more.

Those of MCP servers are too: a dot in the name tells them.
"""

OWN_TEXT_MARK = "\x1e"
"""Stands in a tool's result before words of ours that had to be put there; no text from outside keeps it."""

GUEST_PREFIX = "what others have said: "
"""Begins the name of a guest's words among what a turn has heard."""

MAX_NAME_LENGTH = 64
_TAGGED_TOOLS = frozenset({"spawn", "spawn_status", "subagent", "delegate"})  # a report has its own tag
_MAX_TAINT_LENGTH, _MAX_TAINTS = 100, 12
_MIN_STEM = 8
_TAG = pattern(r"<(?=\s*(?:/\s*)?untrusted\b)", re.IGNORECASE)
_BLOCK = pattern(r"<untrusted\b.*?(?:</untrusted>|\Z)", re.DOTALL)
_ESCAPES = pattern(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), 127])
_SKILL_PATH = pattern(r"skills/[\w-]{1,64}/SKILL\.md")
_LINE_BREAKS = pattern(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_NUMBER = pattern(
    r"(?:0x[0-9a-f]{1,8}|[+~-]?[0-9]{1,20}(?:\.[0-9]{0,20})*(?:e[+-]?[0-9]{1,3}|T(?=[0-9]{2})[0-9]{2})?)", re.ASCII
)
_PREFIX = pattern("(?:[kmµnKMGT]i?)?")
_BASE_UNITS = frozenset({"V", "A", "W", "m", "s", "g", "l", "B", "Hz", "Pa", "Ω", "bar", "K", "M", "G", "T"})
_PLAIN_UNITS = frozenset({"°C", "%", "C", "F", "min", "h", "d", "Z", "dB", "cm"})
_SEPARATORS = pattern(r"[,;:=/|()\[\]<>!?*#@+~^-]+")
_PLAIN_NAME = pattern(r"[\w .,+@()&#~-]{1,80}")
_FILE_SUFFIX = pattern(r"(?:\.tar)?\.[A-Za-z0-9]{1,5}$")
_MOST_WORDS, _MOST_LETTERS = 2, 24
_MOST_MARKS, _MOST_SINGLE, _MOST_PIECES, _MOST_NAMES, _MOST_WRITTEN, _LONGEST_UNIT = 6, 2, 4, 2, 100, 40
_MAX_KNOWN_TEXT = 131_072
"""Characters of a text that is looked at, more than a command's output has: nobody can stop the look."""
_MAX_LOOKUPS = 1_000_000
_QUOTED = pattern(r"\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'")
_QUOTES = "\"'‘’`.,:;()[]<>"
_NOT_IN_A_NAME = pattern(r'[<>"`{}\[\]|]+')
_NOT_IN_A_FILE = pattern(r"[^\w .,+=@()-]+|(?<=\.)\.+")


def strip_invisible(text: str) -> str:
    r"""Remove what nobody sees: terminal escapes, control and direction characters, characters without width.

    Line ends become `\n`, and lone surrogates question marks.
    """
    plain = text.encode("utf-8", "replace").decode()
    if "\x1b" in plain or "\x9b" in plain:
        plain = _ESCAPES.sub("", plain)
    plain = _LINE_BREAKS.sub("\n", plain)
    return plain.translate(_CONTROLS) if plain.isascii() else remove_invisible(plain)


def wrap_untrusted(template: str, source: str, text: str) -> str:
    """Put a text from outside into a labelled block that it can neither close nor open.

    An empty `template` leaves out only the tag.
    """
    inner = _TAG.sub("< ", escape_closing(strip_invisible(text)))
    return fill_template(template or "{content}", {"name": sanitize_name(source), "content": inner}, "content")


def wrap_result(template: str, call: ToolCall, text: str) -> str:
    """Format a tool's result for a model: untrusted text in its block, our own words after it."""
    result, mark, ours = text.partition(OWN_TEXT_MARK)
    if not is_untrusted_call(call) or call.name in _TAGGED_TOOLS:
        return result + ours
    if mark:
        result, ours = result.removesuffix("\n"), f"\n{ours}"
    return wrap_untrusted(template, describe_source(call), result) + ours


def remove_untrusted(text: str) -> str:
    """A message without its untrusted blocks: a person's own words."""
    return _BLOCK.sub("", text) if "<untrusted" in text else text


def sanitize_name(text: str, most: int = MAX_NAME_LENGTH) -> str:
    """Make a name from outside one short line without invisible characters or markup; '' if nothing is left.

    For display names, labels of sensors and buses, titles.
    """
    line = " ".join(_NOT_IN_A_NAME.sub(" ", escape_control_tokens(strip_invisible(text))).split())
    return truncate(line, most)


def is_plain_name(text: str) -> bool:
    """Whether a file name is too short to hold a request: two words at most beside its suffix.

    A capital after a small letter begins a word, and so does every letter of a script without capitals.
    """
    stem = _FILE_SUFFIX.sub("", unicodedata.normalize("NFC", text))
    words, before = 0, ""
    for char in stem:
        if char.isalpha():
            caseless = char.lower() == char.upper() and unicodedata.category(char) != "Ll"
            words += not before.isalpha() or caseless or (char.isupper() and not before.isupper())
        before = char
    letters = sum(map(str.isalpha, stem))
    return bool(_PLAIN_NAME.fullmatch(text)) and words <= _MOST_WORDS and letters <= _MOST_LETTERS


def is_known_text(
    text: str,
    phrases: Iterable[str] = (),
    written: Iterable[str] = (),
    is_word: Callable[[str], bool] = lambda _: False,
    is_name: Callable[[str], bool] = lambda _: False,
    units: Collection[str] = (),
) -> bool:
    """Whether a text carries no instruction: numbers, known words, and a few known pieces in each line.

    Such a text, like the output of `wc` or of a program that the turn wrote itself, cannot ask for anything. Known pieces are
    whole `phrases`, file names, and whole lines or quoted texts of what was `written`, one in a line; a piece of one word
    stands alone in its line, so that no request can be put together. `units` may follow numbers, beside the usual ones.
    """
    return _KnownText(phrases, written, is_word, is_name, units).fits(text)


class _KnownText:
    """Matches a text against known pieces, in time proportional to its length."""

    def __init__(
        self,
        phrases: Iterable[str],
        written: Iterable[str],
        is_word: Callable[[str], bool],
        is_name: Callable[[str], bool],
        units: Collection[str],
    ) -> None:
        self._known_units = _PLAIN_UNITS.union(units, *(unit.split("/") for unit in units))
        self._is_word, self._is_name = is_word, is_name
        self._phrases = _index_by_first_word(phrases)
        self._written = _index_by_first_word(unit for one in written for unit in _list_quotable(one))
        self._marks: set[str] = set()
        self._single: set[str] = set()
        self._left = _MOST_WRITTEN
        self._looks = _MAX_LOOKUPS

    def fits(self, text: str) -> bool:
        return len(text) <= _MAX_KNOWN_TEXT and all(map(self._fits_line, text.splitlines()))

    def _fits_line(self, line: str) -> bool:
        tokens, at, pieces, names, written = line.split(), 0, 0, 0, 0
        words = [token.strip(_QUOTES) for token in tokens]
        while at < len(tokens):
            if count := self._find_longest(self._phrases, words, at):
                at, pieces = at + count, pieces + 1
            elif count := self._find_longest(self._written, words, at):
                at, pieces = at + count, pieces + (1 if count > 1 else _MOST_PIECES)
                written, self._left = written + 1, self._left - count
            elif self._is_plain(tokens[at], words[at]):
                at += 1
            elif self._is_name(words[at]) or self._is_name(tokens[at]):
                at, pieces, names = at + 1, pieces + 1, names + 1
            elif self._is_name(" ".join(tokens[at:]).strip(_QUOTES)):
                at, pieces, names = len(tokens), pieces + 1, names + 1
            else:
                return False
            if pieces > _MOST_PIECES or names > _MOST_NAMES or written > 1:
                return False
            if self._left < 0 or self._looks < 0:
                return False
        return len(self._marks) <= _MOST_MARKS and len(self._single) <= _MOST_SINGLE

    def _find_longest(
        self, units: Mapping[str, Mapping[int, set[tuple[str, ...]]]], words: Sequence[str], at: int
    ) -> int:
        """Count the words of the longest unit that begins at a place; 0 for none."""
        by_length = units.get(words[at], {})
        fitting = [count for count in by_length if count <= len(words) - at]
        self._looks -= sum(fitting)
        return max((count for count in fitting if tuple(words[at : at + count]) in by_length[count]), default=0)

    def _is_plain(self, token: str, word: str) -> bool:
        """Whether a token is a known word, or consists of numbers with units, single letters and known words."""
        if self._is_word(token) or self._is_number(word):
            return True
        return all(self._is_number(part) or self._is_word(part) for part in _SEPARATORS.split(word))

    def _is_number(self, part: str) -> bool:
        """Whether a part is a number, a unit, both, or one letter; only a few different ones, which could spell words."""
        number = _NUMBER.match(part)
        mark = part[number.end() :] if number else part
        if not number and len(mark) == 1 and mark.isascii() and mark.isalpha():
            self._single.add(mark)
            return True
        if not mark:
            return True
        prefix = _PREFIX.match(mark)
        bare = mark[prefix.end() :] if prefix else mark
        is_unit = mark in self._known_units or mark in _BASE_UNITS or bare in _BASE_UNITS
        self._marks |= {mark} if is_unit else set()
        return is_unit


def _list_quotable(text: str) -> Iterator[str]:
    yield from text.splitlines()
    yield from (one or another for one, another in _QUOTED.findall(text))


def _index_by_first_word(units: Iterable[str]) -> dict[str, dict[int, set[tuple[str, ...]]]]:
    found: dict[str, dict[int, set[tuple[str, ...]]]] = {}
    for unit in units:
        words = tuple(word.strip(_QUOTES) for word in unit.split())
        if 0 < len(words) <= _LONGEST_UNIT and any(map(str.isalnum, "".join(words))):
            found.setdefault(words[0], {}).setdefault(len(words), set()).add(words)
    return found


def sanitize_file_name(text: str) -> str:
    """Make a sent file name safe: no folder, no leading dot, its suffix kept; '' if nothing is left."""
    line = " ".join(strip_invisible(text).replace("/", "_").replace("\\", "_").split())
    plain = _NOT_IN_A_FILE.sub("_", line).strip(" ._-")
    stem, dot, ending = plain.rpartition(".")
    if len(plain) <= MAX_NAME_LENGTH or not dot or len(ending) > MAX_NAME_LENGTH - _MIN_STEM:
        return plain[:MAX_NAME_LENGTH].rstrip(" .")
    return f"{stem[: MAX_NAME_LENGTH - len(ending) - 1].rstrip(' .')}.{ending}"


def is_untrusted_call(call: ToolCall) -> bool:
    """Whether a call returns text from outside the chat; a skill's instructions are the owner's."""
    if "." in call.name:  # a tool of an MCP server
        return True
    skill = call.name == "read_file" and _SKILL_PATH.fullmatch(str(call.arguments.get("path", "")))
    return call.name in UNTRUSTED_TOOLS and not skill


def describe_source(call: ToolCall) -> str:
    return " ".join([call.name, *(str(value) for value in call.arguments.values() if value)])[:_MAX_TAINT_LENGTH]


def find_taints(messages: Iterable[Message]) -> Iterator[str]:
    """Name the untrusted text in a conversation, by the calls that returned it."""
    return (describe_source(call) for message in messages for call in message.calls if is_untrusted_call(call))


def limit_taints(heard: Iterable[str]) -> tuple[str, ...]:
    """Sort and shorten taints for storage: guests' words first, at most 12, then how many more."""
    names = sorted(
        {strip_invisible(one)[:_MAX_TAINT_LENGTH] for one in heard},
        key=lambda one: (not one.startswith(GUEST_PREFIX), one),
    )
    left = len(names) - _MAX_TAINTS
    return (*names[:_MAX_TAINTS], f"{left} more") if left > 0 else tuple(names)

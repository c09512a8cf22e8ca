"""What comes from outside, as a model and a person may be shown it: text, names, and whose word a turn rests on.

A page, a file, the output of a command or a name in a chat may hold what no eye sees, what a model's template takes for
a system message, and the end of the tag that it is put into.
"""

import re
from collections.abc import Iterable, Iterator

from picoclaw.chat_markup import neutral
from picoclaw.markdown import seen
from picoclaw.messages import Message, ToolCall
from picoclaw.pattern import pattern
from picoclaw.prompt import enclosed, fill

BRING = frozenset(
    {"read_file", "list_dir", "read_result", "exec", "process", "serial", "subagent", "spawn_status"}
    | {"web_fetch", "web_search"}
)
"""The tools that are marked `brings`, also those that this set-up does not have any more."""

OURS = "\x1e"
"""Stands in a tool's result before words of ours that had to be put there; no text from outside keeps it."""

OTHERS = "what others have said: "
"""Begins the name of a guest's words among what a turn has heard."""

LONGEST_NAME = 64
_TAGGED = frozenset({"subagent", "spawn_status"})  # a report has its own tag
_LONGEST_HEARD, _MOST_HEARD = 100, 12
_SHORTEST_STEM = 8
_TAG = pattern(r"<(?=\s*(?:/\s*)?untrusted\b)", re.IGNORECASE)
_BLOCK = pattern(r"<untrusted\b.*?(?:</untrusted>|\Z)", re.DOTALL)
_ESCAPES = pattern(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), 127])
_SKILL = pattern(r"skills/[\w-]{1,64}/SKILL\.md")
_BREAKS = pattern(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_NOT_IN_A_NAME = pattern(r'[<>"`{}\[\]|]+')
_NOT_IN_A_FILE = pattern(r"[^\w .,+=@()-]+|(?<=\.)\.+")


def shown(text: str) -> str:
    """Leave out of a text what no eye sees: terminals' orders, controls, direction marks, characters without width.

    Its lines end as ours do, and lone surrogates become question marks.
    """
    plain = text.encode("utf-8", "replace").decode()
    if "\x1b" in plain or "\x9b" in plain:
        plain = _ESCAPES.sub("", plain)
    plain = _BREAKS.sub("\n", plain)
    return plain.translate(_CONTROLS) if plain.isascii() else seen(plain)


def wrap(template: str, source: str, text: str) -> str:
    """Put a text from outside into a tagged block that it can neither close nor open, labelled with where it is from.

    An empty `template` leaves only the tag out.
    """
    inner = _TAG.sub("< ", enclosed(shown(text)))
    return fill(template or "{content}", {"name": name(source), "content": inner}, "content")


def wrapped(template: str, call: ToolCall, text: str) -> str:
    """Show a tool's result as it goes to a model: what is nobody's word within its block, words of ours behind it."""
    result, mark, ours = text.partition(OURS)
    if brings(call) and call.name not in _TAGGED:
        return (
            wrap(template, source(call), result.removesuffix("\n") if mark else result) + ("\n" if mark else "") + ours
        )
    return result + ours


def own(text: str) -> str:
    """Leave a person's own words of a message: without what was put into it within such blocks."""
    return _BLOCK.sub("", text) if "<untrusted" in text else text


def name(text: str, most: int = LONGEST_NAME) -> str:
    """Make of a name from outside one short line, in which nothing is hidden and nothing looks like markup.

    For display names, labels of sensors and buses, titles. '' when nothing of it is left; then the caller has to say
    who it is in another way.
    """
    line = " ".join(_NOT_IN_A_NAME.sub(" ", neutral(shown(text))).split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def file_name(text: str, most: int = LONGEST_NAME) -> str:
    """Make of a name that somebody has sent one that a file may have: no folder, no leading dot, its ending kept.

    '' when nothing of it is left.
    """
    line = " ".join(shown(text).replace("/", "_").replace("\\", "_").split())
    plain = _NOT_IN_A_FILE.sub("_", line).strip(" ._-")
    stem, dot, ending = plain.rpartition(".")
    if len(plain) <= most or not dot or len(ending) > most - _SHORTEST_STEM:
        return plain[:most].rstrip(" .")
    return f"{stem[: most - len(ending) - 1].rstrip(' .')}.{ending}"


def brings(call: ToolCall) -> bool:
    """Tell whether a call brings in what nobody in the chat has said; a skill's instructions are the owner's."""
    skill = call.name == "read_file" and _SKILL.fullmatch(str(call.arguments.get("path", "")))
    return call.name in BRING and not skill


def source(call: ToolCall) -> str:
    """Name what a call brings in."""
    return " ".join([call.name, *(str(value) for value in call.arguments.values() if value)])[:_LONGEST_HEARD]


def heard_in(messages: Iterable[Message]) -> Iterator[str]:
    """Name what a conversation holds that is nobody's word in it, by its calls."""
    return (source(call) for message in messages for call in message.calls if brings(call))


def fewer(heard: Iterable[str]) -> tuple[str, ...]:
    """Name what was heard as it is kept: others' words first, each once, and of very many how many more there are."""
    names = sorted({shown(one)[:_LONGEST_HEARD] for one in heard}, key=lambda one: (not one.startswith(OTHERS), one))
    left = len(names) - _MOST_HEARD
    return (*names[:_MOST_HEARD], f"{left} more") if left > 0 else tuple(names)

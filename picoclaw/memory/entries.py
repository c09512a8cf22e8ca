"""The entries of a memory file: items of lists, paragraphs and blocks of code, each with what is said around it. Pure.

What picoclaw writes is one line: `- 14:05 the fuse is 3 A` in a day's note, `- 2026-03-01: the fuse is 3 A` among what
is lasting. Where it is from stands before the words, (chat 42); what is not the owner's word is in quotation marks as
well, so that nothing in it can look like the end of it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from datetime import date

from picoclaw.markdown import find_hidden
from picoclaw.records import NamedTuple
from picoclaw.text import pattern, remove_invisible

FOREIGN = "not from the owner"
_OWN_TURNS = ("cron", "heartbeat", "rule", "subagent")  # turns of our own, which had read nothing
_TAINTED = pattern(rf"{FOREIGN}: (?!(?:{'|'.join(_OWN_TURNS)})[)\]])")
MAX_ENTRY_CHARS = 700
"""Characters of one entry: a chunk of the index takes it whole, with where it is from."""

_BULLET = r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?=\S)"
_ITEM = pattern(_BULLET)
_FENCE = pattern(rf"(?:{_BULLET})?\s*(`{{3,}}|~{{3,}})")
_ONLY_FENCE = pattern(r"\s*(?:`{3,}|~{3,})\s*")
_NO_ENTRY = pattern(r" {0,3}(?:#{1,6}(?:\s|$)|(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,}|=+[ \t]*)$)")
_ENTRY_PARTS = pattern(
    rf"(?P<bullet>{_BULLET})?(?P<stamp>\d\d:\d\d |\d{{4}}-\d\d-\d\d: )?"
    rf"(?:\((?P<source>(?:chat |{FOREIGN})[^()]*)\) )?(?P<body>.*?)(?: \(changed [\d-]+\))?",
    re.DOTALL,
)
_LINE = pattern(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_COMMENT_OPENING = pattern(r"\\*<(?=[!?])")
_BRACKETS = str.maketrans("()", "[]")
_HIDDEN_LINE = "\0"


class MemoryEntry(NamedTuple):
    """One thing that is remembered. Its lines count from 1, both included; `below` counts the entries in it.

    `bullet`, `stamp` and `source` are what stands before its words, as it was written; `code` is a block of code.
    """

    first: int
    last: int
    indent: int
    bullet: str
    stamp: str
    source: str
    body: str
    code: bool = False
    below: int = 0


def split_lines(text: str) -> list[str]:
    """Split a text into its lines, each with its end, as an editor counts them."""
    return _LINE.findall(text)


def parse_entries(text: str) -> list[MemoryEntry]:
    """Find the entries of a Markdown text; headings, front matter and what a viewer hides are none."""
    lines = _split_visible_lines(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    found = [_make_entry(first, last, lines[first - 1 : last], code=code) for first, last, code in _find_spans(lines)]
    below = _count_below(found)
    return [entry._replace(below=count) if count else entry for entry, count in zip(found, below, strict=True)]


def is_tainted(text: str) -> bool:
    """Tell whether anything in a text is marked as the word of another, or as made of what nobody has said."""
    return FOREIGN in text and bool(_TAINTED.search(text))


def remove_tainted(text: str) -> str:
    """Leave out the entries that are tainted, with those below them; nothing is left where that is not all of it."""
    if not is_tainted(text):
        return text
    original, found = split_lines(text), parse_entries(text)
    lines = list(original)
    for number, entry in enumerate(found):
        if is_tainted("".join(original[entry.first - 1 : entry.last])):
            last = max(each.last for each in found[number : number + 1 + entry.below])
            lines[entry.first - 1 : last] = [""] * (last - entry.first + 1)
    rest = "".join(lines)
    return "" if is_tainted(rest) else rest


def flatten(text: str) -> str:
    """Make one line of a text, of which a viewer shows every character, and which neither opens nor ends a comment."""
    line = " ".join(remove_invisible(" ".join(text.split())).split())
    return _COMMENT_OPENING.sub(r"\\<", line).replace("-->", r"--\>")


def format_memory_entry(bullet: str, stamp: str, source: str, body: str, changed: date | None = None) -> str:
    """Write an entry's line. `source` is where it is from, with FOREIGN in it if it is not the owner's word."""
    if FOREIGN in source:
        body = '"{}"'.format(body.replace('"', "'"))
    told = f"({flatten(source).translate(_BRACKETS)}) " if source else ""
    end = f" (changed {changed})" if changed else ""
    if not (stamp or told) and (_FENCE.match(body) or _NO_ENTRY.match(body) or _NO_ENTRY.match(f"{bullet}{body}{end}")):
        body = f"\\{body}"  # a viewer would take it for something else
    return f"{bullet}{stamp}{told}{body}{end}"


def make_comparison_key(text: str) -> str:
    """Write a text as it is compared: case, white space and the punctuation of sentences do not matter."""
    words = (word.lstrip("\"'([*_“‘¿¡").rstrip(".,;:!?\"')]*_”’…") for word in text.casefold().split())
    return " ".join(filter(None, words))


def _split_visible_lines(text: str) -> list[str]:
    """The lines without comments; those that a longer comment goes through, and front matter, are marked as hidden."""
    kept, at = [], 0
    for start, end, _ in find_hidden(text, trusting=True):
        count = text.count("\n", start, end)
        kept += [text[at:start], "\n".join([_HIDDEN_LINE] * (count + 1)) if count else ""]
        at = end
    lines = "".join([*kept, text[at:]]).split("\n")
    if lines[0].rstrip() == "---" and "---" in lines[1:]:
        end = lines.index("---", 1)
        lines[: end + 1] = [_HIDDEN_LINE] * (end + 1)
    return lines


def _find_spans(lines: list[str]) -> Iterator[tuple[int, int, bool]]:
    """The first and last line of each entry, and whether it is code; takes time in proportion to the lines."""
    fences = [at for at, line in enumerate(lines) if _ONLY_FENCE.fullmatch(line)]
    closing: dict[str, list[int]] = {}

    def is_text(line: str) -> bool:
        return bool(line.strip()) and _HIDDEN_LINE not in line and not _NO_ENTRY.match(line)

    def find_code_end(at: int) -> int:
        """The line that a block of code ends in which begins here; 0 where none begins, or it never ends."""
        fence = _FENCE.match(lines[at])
        if not fence:
            return 0
        mark = fence[1]
        if mark not in closing:
            closing[mark] = [i for i in fences if lines[i].strip().startswith(mark)]
        following = bisect_right(closing[mark], at)
        return closing[mark][following] + 1 if following < len(closing[mark]) else 0

    at = 0
    while at < len(lines):
        end = find_code_end(at)
        if end:
            yield at + 1, end, True
        elif is_text(lines[at]):
            end = at + 1
            while end < len(lines) and is_text(lines[end]) and not (_ITEM.match(lines[end]) or find_code_end(end)):
                end += 1
            yield at + 1, end, False
        at = max(end, at + 1)


def _make_entry(first: int, last: int, lines: list[str], *, code: bool) -> MemoryEntry:
    indent = len(lines[0]) - len(lines[0].lstrip())
    if code:
        return MemoryEntry(first, last, indent, "", "", "", "\n".join(lines), code=True)
    parts = _ENTRY_PARTS.fullmatch(f"{lines[0].rstrip()} {' '.join(' '.join(lines[1:]).split())}".rstrip())
    assert parts
    source, body = parts["source"] or "", parts["body"].strip()
    if FOREIGN in source and len(body) > 1 and body[0] == body[-1] == '"':
        body = body[1:-1]
    return MemoryEntry(first, last, indent, parts["bullet"] or "", parts["stamp"] or "", source, body)


def _count_below(found: list[MemoryEntry]) -> list[int]:
    """How many of the entries behind each belong to it, if it is an item."""
    counts, ends = [0] * len(found), list[int]()  # `ends` are entries behind, each indented less than the one before
    for at in range(len(found) - 1, -1, -1):
        while ends and found[ends[-1]].indent > found[at].indent:
            ends.pop()
        if found[at].bullet:
            counts[at] = (ends[-1] if ends else len(found)) - at - 1
        ends.append(at)
    return counts

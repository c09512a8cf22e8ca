"""Finds what belongs to the memory, reads it and tells its entries apart: files, and documents that are no files.

No link leads out of the workspace, and nothing is waited for. Entries are items of lists, paragraphs and blocks of code,
each with what is said around it. What picoclaw writes is one line: `- 14:05 the fuse is 3 A` in a day's note,
`- 2026-03-01: the fuse is 3 A` among what is lasting. Where it is from stands before the words, (chat 42); what is not
the owner's word is in quotation marks as well, so that nothing in it can look like the end of it.
"""

import os
import re
import stat
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import partial
from itertools import groupby
from pathlib import Path

from picoclaw import files
from picoclaw.errors import StoreError
from picoclaw.files import explain_os_error, explain_os_errors
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


MAX_READ_BYTES = 4_000_000
"""Bytes; of a larger file only its head is read."""

ROOT_FILE, MEMORY_FOLDER = "MEMORY.md", "memory"
SHARED_PREFIX = "shared/"
"""What the paths of the notes begin with that the household shares, where they stand beside a person's own."""

ROOT_FILES = (ROOT_FILE, "memory.md")
"""Beside the other pages; the second is what other projects call it."""

_PROGRAM_FOLDERS = frozenset({"node_modules", "site-packages", "venv", "__pycache__"})  # whose texts are no notes
_MAX_PROBLEMS = 20
_RACY_NS = 2_000_000_000  # two writes so near to each other may have the same time
_INT63 = (1 << 63) - 1  # what SQLite keeps of a number; times beyond 2262 and some inodes are larger


explain_failure = partial(explain_os_errors, StoreError)


class MemorySource(NamedTuple):
    """A file of the memory: its path in the workspace, and what tells that it has changed."""

    path: str
    mtime_ns: int
    size: int
    inode: int


class FileContent(NamedTuple):
    """A file as it was read; `problem` says what of it cannot be searched, `day` is that of a document."""

    source: MemorySource
    text: str
    problem: str
    day: str = ""


class Document(NamedTuple):
    """Something to be found that is no file: a path such as `chats/terminal/12`, never one in the memory's folder.

    `stamp` changes with the text, which `read` gives or raises StoreError; `day` is '' where it has none.
    """

    path: str
    stamp: int
    read: Callable[[], str]
    day: str


class MemoryFiles:
    """The memory files of one workspace and documents besides, and what was wrong with some of them."""

    def __init__(self, workspace: Path, documents: Iterable[Document] = ()) -> None:
        self.root = os.path.realpath(workspace)
        self.documents = {document.path: document for document in documents}
        self.problems: list[str] = []
        self.unread: list[str] = []  # folders that could not be listed

    def folders(self) -> Iterator[tuple[str, Iterator[MemorySource]]]:
        """Give each folder and the files of the memory in it, in no order: one stat each, none is opened.

        Take the files of a folder before the next: only then is it known which folders it holds.
        """
        top = {found.inode: found for path in reversed(ROOT_FILES) if (found := self.source(path))}
        yield "", iter(top.values())  # one only where a file system takes both names for the same
        waiting = [MEMORY_FOLDER] if self._is_inside(MEMORY_FOLDER) else []
        while waiting:
            folder = waiting.pop()
            yield folder, self._list_folder(folder, waiting)
        by_folder = sorted(path.rpartition("/") for path in self.documents)
        for folder, parts in groupby(by_folder, lambda part: part[0]):
            yield folder, filter(None, (self.source("".join(part)) for part in parts))

    def _list_folder(self, folder: str, waiting: list[str]) -> Iterator[MemorySource]:
        try:
            with os.scandir(f"{self.root}/{folder}") as entries:
                for entry in entries:
                    is_folder = entry.is_dir(follow_symlinks=False)  # links to folders may go in circles
                    is_note = is_folder or entry.name.endswith(".md")
                    if not is_note or entry.name.startswith(".") or entry.name in _PROGRAM_FOLDERS:
                        continue
                    path = f"{folder}/{entry.name}"
                    try:
                        path.encode()
                    except UnicodeEncodeError:
                        self.add_problem(path, "its name is not UTF-8; rename it")
                        continue
                    if is_folder:
                        waiting.append(path)
                    elif source := self.source(path):
                        yield source
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self.unread.append(f"{folder}/")
            self.add_problem(folder, f"it cannot be listed: {explain_os_error(error)}")

    def source(self, path: str) -> MemorySource | None:
        """Look at one file; None when there is none that belongs to the memory."""
        if document := self.documents.get(path):
            return MemorySource(path, document.stamp & _INT63, 0, 0)
        if path not in ROOT_FILES and not path.startswith(f"{MEMORY_FOLDER}/"):
            return None
        try:
            about = os.lstat(f"{self.root}/{path}")
            if stat.S_ISLNK(about.st_mode):
                if not self._is_inside(path):
                    self.add_problem(path, "it is a link that leads out of the workspace; put a copy in its place")
                    return None
                about = Path(f"{self.root}/{path}").stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.add_problem(path, f"it cannot be read: {explain_os_error(error)}")
            return None
        return _make_source(path, about) if stat.S_ISREG(about.st_mode) else None

    def read(self, path: str) -> FileContent | None:
        """Read a file as it is now; None when it is not there any more, or cannot be read just now."""
        if document := self.documents.get(path):
            try:
                text = document.read()[:MAX_READ_BYTES].replace("\0", " ").encode("utf-8", "replace").decode()
            except StoreError as error:
                self.add_problem(path, f"it cannot be read: {error}")
                return None
            return FileContent(MemorySource(path, document.stamp & _INT63, 0, 0), text, "", document.day)
        place = files.resolve_below(self.root, f"{self.root}/{path}")
        if place is None or not place.parts:
            return None
        try:
            with os.fdopen(files.open_rooted(place), "rb") as file:
                source = _make_source(path, os.fstat(file.fileno()))
                data = file.read(MAX_READ_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.add_problem(path, f"it cannot be read: {explain_os_error(error)}")
            return None
        if abs(time.time_ns() - source.mtime_ns) < _RACY_NS:  # just written: dated earlier, to be looked at again
            source = source._replace(mtime_ns=source.mtime_ns - 1)
        text, problem = data[:MAX_READ_BYTES].decode("utf-8-sig", "replace"), ""
        if b"\0" in data:
            text, problem = "", "it holds NUL bytes and is no text, so it is not searched"
        elif len(data) > MAX_READ_BYTES:
            problem = f"only its first {MAX_READ_BYTES // 1_000_000} MB are searched; split it"
        if problem:
            self.add_problem(path, problem)
        return FileContent(source, text, problem)

    def is_current(self, content: FileContent) -> bool:
        """Whether a file is still what was read."""
        now, was = self.source(content.source.path), content.source
        return now is not None and now[2:] == was[2:] and now.mtime_ns - was.mtime_ns in {0, 1}

    def add_problem(self, path: str, why: str) -> None:
        """Keep what was wrong with a file, the first of them."""
        problem = f"{path if path.isprintable() else ascii(path)}: {why}"
        if len(self.problems) < _MAX_PROBLEMS and problem not in self.problems:
            self.problems.append(problem)

    def _is_inside(self, path: str) -> bool:
        """Whether a path is in the workspace also when every link on the way is followed."""
        return os.path.realpath(f"{self.root}/{path}").startswith(f"{self.root}/")


def _make_source(path: str, about: os.stat_result) -> MemorySource:
    return MemorySource(path, about.st_mtime_ns & _INT63, about.st_size, about.st_ino & _INT63)

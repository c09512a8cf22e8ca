"""Finds what belongs to the memory and reads it: files of the workspace, and documents that are no files.

No link leads out of the workspace, and nothing is waited for.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from picoclaw import files
from picoclaw.errors import StoreError
from picoclaw.files import explain_os_error
from picoclaw.records import NamedTuple

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


@contextmanager
def explain_failure(what: str, advice: str = "") -> Iterator[None]:
    """Raise StoreError, which says what could not be done, in the place of OSError."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{what}: {explain_os_error(error)}{advice}") from None


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

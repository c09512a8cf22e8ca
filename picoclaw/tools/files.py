"""File tools: inside the workspace, in numbered lines, written whole and durably."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from picoclaw.disk import append, explain, make_folder, write_atomic
from picoclaw.errors import ToolError
from picoclaw.memory.index.files import FOLDER, ROOT_FILE
from picoclaw.messages import Caller
from picoclaw.schema import Span
from picoclaw.skills.library import FILE, Library
from picoclaw.tools.skills import standing
from picoclaw.tools.toolset import Effect, tool
from picoclaw.workspace.seeds import MEETING

_LONGEST_LINE = 2000
_LARGEST_EDIT = 4_000_000
_LONGEST_LISTING = 500
_CHUNK = 65_536
_CHECKLIST = "HEARTBEAT.md"


class Files:
    """Reading and writing below the workspace and any extra folder the owner allows, and reading of skills."""

    def __init__(
        self,
        workspace: Path,
        extra: Sequence[str] = (),
        *,
        library: Library | None = None,
        instructions: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        """Relative paths start at `workspace`.

        The files of a skill of the `library` are read as `skills/NAME/FILE` wherever they lie. `instructions` names the
        files, and folders of files, that are told to later turns just now: they are only written with a person's yes.
        """
        self._workspace = workspace.resolve()
        self._roots = (self._workspace, *(Path(folder).expanduser().resolve() for folder in extra))
        self._library = library or Library(())
        self._instructions = instructions

    def _effect(self, path: str) -> Effect:
        target = self._inside(path)
        told = any(target.is_relative_to(os.path.realpath(place)) for place in self._instructions())
        return "instruct" if told else "write"

    def _writing(self, arguments: Mapping[str, Any]) -> Effect:
        target = self._new(arguments["path"], overwrite=arguments["overwrite"])
        # an empty page ends the first meeting, and tells nobody anything
        ends = target == self._workspace / MEETING and not arguments["content"].strip()
        return "write" if ends else self._effect(arguments["path"])

    def _editing(self, arguments: Mapping[str, Any]) -> Effect:
        self._found(arguments["path"], arguments["old_text"])
        return self._effect(arguments["path"])

    def _appending(self, arguments: Mapping[str, Any]) -> Effect:
        self._own(arguments["path"])
        return self._effect(arguments["path"])

    @tool(effect="read", opens=("skill_update",), brings=True)
    def read_file(
        self,
        path: str,
        start_line: Annotated[int, Span(1, 10_000_000)] = 1,
        max_lines: Annotated[int, Span(1, 2000)] = 200,
    ) -> str:
        """Read a text file as numbered lines."""
        found = self._regular(path, self._readable(path))
        with _explained(path), self._opened(path, found) as file:
            if b"\0" in file.read(4096):
                raise ToolError(f"{path} is binary; only text can be read")
            file.seek(0)
            lines = [_shown(*line) for line in islice(_lines(file), start_line - 1, start_line - 1 + max_lines)]
            more = bool(file.read(1))
        if not lines:
            return f"[{path} is empty]" if start_line == 1 else f"[{path} ends before line {start_line}]"
        numbered = "\n".join(f"{start_line + i}\t{line}" for i, line in enumerate(lines))
        last = start_line + len(lines) - 1
        return numbered + (f"\n[more follows: read on with start_line={last + 1}]" if more else "")

    @tool(effect=_writing)
    def write_file(self, path: str, content: str, caller: Caller | None = None, *, overwrite: bool = False) -> str:
        """Write a new file; an existing one only with overwrite."""
        target = self._new(path, overwrite=overwrite)
        self._owners_word(target, path, caller)
        return f"wrote {path}: {self._put(target, path, content)} bytes{self._standing(target)}"

    @tool(effect=_editing)
    def edit_file(self, path: str, old_text: str, new_text: str, caller: Caller | None = None) -> str:
        """Replace text that occurs exactly once in a file."""
        target, before, after = self._found(path, old_text)
        self._owners_word(target, path, caller)
        self._put(target, path, before + new_text + after)
        line = before.count("\n") + 1
        return f"edited {path} at line {line}{self._standing(target)}"

    @tool(effect=_appending)
    def append_file(self, path: str, content: str, caller: Caller | None = None) -> str:
        """Add text to the end of a file, on a new line."""
        target = self._own(path)
        self._owners_word(target, path, caller)
        if not self._exists(target, path):
            return f"wrote {path}: {self._put(target, path, content)} bytes{self._standing(target)}"
        target = self._regular(path)
        data = content.encode("utf-8", "replace")
        with _explained(path):
            append(target, _missing_newline(target) + data)
        return f"added {len(data)} bytes to {path}{self._standing(target)}"

    @tool(effect="read")
    def list_dir(self, path: str = ".") -> str:
        """List a folder: sizes in bytes, folders with a slash."""
        folder = self._readable(path)
        with _explained(path):
            names = sorted(os.scandir(folder), key=lambda entry: entry.name)
            rows = [_row(entry) for entry in names[:_LONGEST_LISTING]]
        if len(names) > _LONGEST_LISTING:
            rows.append(f"[{len(names) - _LONGEST_LISTING} more not shown: list a folder below]")
        return "\n".join(rows) or f"[{path} is empty]"

    def _owners_word(self, target: Path, path: str, caller: Caller | None) -> None:
        """Refuse to write what is not the word of whoever asks where it has no mark: the memory, and the checklist."""
        remembered = target.suffix == ".md" and target.is_relative_to(self._workspace / FOLDER)
        own = (f"read_file {FOLDER}/", f"read_file {_CHECKLIST}")
        heard = [name for name in (caller.heard if caller else ()) if not name.startswith(own)]
        if not heard and not (caller and caller.origin != "owner"):
            return
        if remembered or target == self._workspace / ROOT_FILE:
            raise ToolError(f"{path} is read as the owner's word; memory_store notes this and says where it is from")
        if target == self._workspace / _CHECKLIST:
            raise ToolError(f"{path} is what is done unasked: only a person who asks for nothing else has it changed")

    def _inside(self, path: str) -> Path:
        """Resolve a path, links included, and refuse one that leaves the folders we may use."""
        if "\0" in path or not path:
            raise ToolError("path is empty or holds a NUL character")
        with _explained(path):
            found = (self._workspace / path).resolve()
        if not any(found.is_relative_to(root) for root in self._roots):
            raise ToolError(f"{path} is outside the workspace {self._workspace}; use a path below it")
        return found

    def _readable(self, path: str) -> Path:
        """Resolve a path that is only read: a skill's files are readable wherever the skill lies."""
        skills, (top, name, *rest) = self._library.skills, (*Path(path).parts, "", "")
        named = top == "skills" and name in skills
        if "\0" in path or not (named or Path(path).is_absolute()):
            return self._inside(path)
        with _explained(path):
            found = (skills[name].folder.joinpath(*rest) if named else Path(path)).resolve()
            near = [skills[name]] if named else skills.values()
            if any(found.is_relative_to(skill.folder.resolve()) for skill in near):
                return found
        return self._inside(path)

    def _opened(self, path: str, found: Path) -> BinaryIO:
        """Open a file; a skill's instructions as a triggered turn has them, without what only people are to see."""
        if found.name == f"{FILE}.bak":
            raise ToolError(f"{path} is kept for the owner; {FILE} beside it is what counts")
        if FILE in {Path(path).name, found.name}:
            for skill in self._library.skills.values():
                if (skill.folder / FILE).resolve() == found:
                    return BytesIO(self._library.text(skill.name).encode())
        return found.open("rb")

    def _new(self, path: str, *, overwrite: bool) -> Path:
        target = self._inside(path)
        if self._exists(target, path) and not overwrite:
            raise ToolError(f"{path} exists already; edit_file changes a part, overwrite=true replaces it all")
        return target

    def _own(self, path: str) -> Path:
        """Resolve a path that is changed; a skill that is only read there is not copied piece by piece."""
        target = self._inside(path)
        if not self._exists(target, path):
            shared = self._readable(path)
            if shared != target and self._exists(shared, path):
                raise ToolError(
                    f"{path} lies in {shared.parent} and is only read; skill_create writes a skill of yours"
                )
        return target

    def _found(self, path: str, old_text: str) -> tuple[Path, str, str]:
        """Find the one place of a text; returns the file, and what is before and behind it."""
        self._own(path)
        target = self._regular(path)
        with _explained(path):
            if target.stat().st_size > _LARGEST_EDIT:
                raise ToolError(f"{path} is larger than {_LARGEST_EDIT} bytes; it cannot be edited whole")
            text = _decoded(target.read_bytes(), path)
        count = _count(text, old_text)
        if count != 1:
            hint = "read the file and copy the text exactly" if count == 0 else "take in more of the lines around it"
            raise ToolError(f"old_text occurs {count} times in {path}, not once; {hint}")
        before, _, after = text.partition(old_text)
        return target, before, after

    def _standing(self, target: Path) -> str:
        """What a skill is now that its file was written; nothing for any other file."""
        if target.name != FILE:
            return ""
        self._library.look()
        said = standing(self._library, target)
        return f"; {said}" if said else ""

    def _regular(self, path: str, found: Path | None = None) -> Path:
        found = found or self._inside(path)
        with _explained(path):
            mode = found.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder; list_dir shows it" if stat.S_ISDIR(mode) else "not a regular file"
            raise ToolError(f"{path} is {kind}")
        return found

    def _exists(self, target: Path, path: str) -> bool:
        with _explained(path):
            return target.exists()

    def _put(self, target: Path, path: str, content: str) -> int:
        data = content.encode("utf-8", "replace")
        with _explained(path):
            make_folder(target.parent)
            write_atomic(target, data, 0o600)
        return len(data)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Put what the operating system refused into words for the model."""
    try:
        yield
    except OSError as error:
        raise ToolError(f"{path}: {explain(error)}") from None
    except UnicodeError:
        raise ToolError(f"{path} holds characters that no file name can hold") from None
    except RuntimeError:
        raise ToolError(f"{path}: its symbolic links go in a circle") from None


def _count(text: str, part: str) -> int:
    """Count the places where a part occurs, those that overlap as well; nothing occurs nowhere."""
    count, place = 0, text.find(part) if part else -1
    while place >= 0:
        count, place = count + 1, text.find(part, place + 1)
    return count


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is not UTF-8 text (byte {error.start}); it cannot be edited") from None


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The beginning of each line and its whole length; no more of it is held in memory, however long it is."""
    while line := file.readline(4 * _LONGEST_LINE):
        length, rest = len(line), line
        while not rest.endswith(b"\n") and (rest := file.readline(_CHUNK)):
            length += len(rest)
        yield line, length


def _shown(line: bytes, length: int) -> str:
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    whole = len(text) <= _LONGEST_LINE and length - len(line) <= len("\r\n")
    return text if whole else f"{text[:_LONGEST_LINE]} [line cut: {length} bytes]"


def _missing_newline(path: Path) -> bytes:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return b""
        file.seek(-1, os.SEEK_END)
        return b"" if file.read(1) == b"\n" else b"\n"


def _row(entry: "os.DirEntry[str]") -> str:
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    if entry.is_symlink():
        return f"{entry.name} -> (link)"
    return f"{entry.name}  {entry.stat(follow_symlinks=False).st_size}"

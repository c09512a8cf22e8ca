"""The file tools: `read_file`, `write_file`, `edit_file`, `append_file` and `list_dir` in the allowed folders."""

import errno
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

from picoclaw import files
from picoclaw.errors import StoreError, ToolError
from picoclaw.files import FileIdentity, RootedPath, append_bytes, explain_os_error, write_atomic
from picoclaw.hw.reading import QUANTITIES, UNITS
from picoclaw.memory.entries import FOREIGN
from picoclaw.memory.files import MEMORY_FOLDER, ROOT_FILE
from picoclaw.messages import Caller, is_owner
from picoclaw.schema import Span
from picoclaw.security.policy import Effect
from picoclaw.security.sandbox import running_commands
from picoclaw.security.untrusted import is_known_text, is_plain_name
from picoclaw.skills.library import SKILL_FILE, SkillLibrary
from picoclaw.store.foreign import ForeignFiles
from picoclaw.tools.registry import tool
from picoclaw.tools.skills import describe_state
from picoclaw.workspace.templates import ONBOARDING_PAGE

MAX_SCANNED = 64_000_000
"""Bytes of a file up to which lines are looked for."""

_MAX_LINE_CHARS = 2000
_CHUNK = 65_536


def count_overlapping(text: str, part: str) -> int:
    found, place = 0, text.find(part) if part else -1
    while place >= 0:
        found, place = found + 1, text.find(part, place + 1)
    return found


def decode_text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is not UTF-8 text (byte {error.start}); it cannot be edited") from None


def read_lines(file: BinaryIO) -> Iterator[str]:
    """Read lines; a long one is cut and its length told."""
    passed = 0
    while passed < MAX_SCANNED and (line := file.readline(4 * _MAX_LINE_CHARS)):
        length, rest = len(line), line
        while not rest.endswith(b"\n") and (rest := file.readline(min(_CHUNK, MAX_SCANNED - passed - length))):
            length += len(rest)
        passed += length
        yield _format_line(line, length, "" if passed < MAX_SCANNED else " or more")


def _format_line(line: bytes, length: int, more: str) -> str:
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    whole = len(text) <= _MAX_LINE_CHARS and length - len(line) <= len("\r\n")
    return text if whole else f"{text[:_MAX_LINE_CHARS]} [line cut: {length} bytes{more}]"


def get_missing_newline(file: int) -> bytes:
    size = os.fstat(file).st_size
    return b"" if size == 0 or os.pread(file, 1, size - 1) == b"\n" else b"\n"


def format_entry(entry: "os.DirEntry[str]") -> str:
    """One line for a folder's entry, whatever its name holds."""
    name = "".join(
        char if char.isprintable() or "\udc80" <= char <= "\udcff" else f"[U+{ord(char):04X}]" for char in entry.name
    )
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    if entry.is_symlink():
        return f"{name} -> (link)"
    return f"{name}  {entry.stat(follow_symlinks=False).st_size}"


# Which places the file tools may open, and what writing there does: a page that later turns are told is no mere file.
#
# Names are compared as disks do that know no small letters, and files by what they are, so that no spelling goes past it.

CHECKLIST = "HEARTBEAT.md"

_OWNER_PAGES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md")
_BLOCKED_FOLDERS = (Path("/etc/picoclaw"), Path("/proc"), Path(__file__).parents[1])
"""What is nobody's business besides the home: the machine's outputs, the kernel's files, and picoclaw itself."""


class AllowedFolders:
    """The folders that file tools may use: the workspace, and those the owner names."""

    def __init__(
        self,
        workspace: Path,
        extra: Sequence[str],
        told: Callable[[], Sequence[Path]],
        run: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """`told` lists the files and folders that instruct later turns; `run` gives the words of planned commands.

        The folder that holds the workspace is picoclaw's own; nothing else in it is ever reached, whatever `extra` has.
        """
        self.workspace = os.path.realpath(workspace)
        self._home = Path(self.workspace).parent
        self._instructions, self._command_words = told, run
        pairs = [(str(workspace.absolute()), self.workspace), (self.workspace, self.workspace)]
        for folder in extra:
            named = str(Path(folder).expanduser().absolute())
            pairs += [(named, os.path.realpath(named)), (os.path.realpath(named),) * 2]
        self._named = {os.path.normpath(named): root for named, root in pairs if self._is_usable(root)}
        self.roots = tuple(dict.fromkeys(self._named.values()))

    def _is_usable(self, root: str) -> bool:
        path = Path(root)
        return path.is_relative_to(self.workspace) or not path.is_relative_to(self._home)

    def _is_shut(self, place: RootedPath) -> bool:
        """Whether a path is shut by its name; one that does not exist yet has no other identity."""
        shut = place.root != self.workspace and any(
            place.path.is_relative_to(top) for top in (self._home, *_BLOCKED_FOLDERS)
        )
        return shut and not place.path.is_relative_to(self.workspace)

    @property
    def blocked(self) -> frozenset[FileIdentity]:
        """What is never entered from above, however it is spelt."""
        return files.list_identities([self._home, *_BLOCKED_FOLDERS])

    def normalize(self, path: str) -> str:
        """Make a path absolute from the workspace, without looking at links."""
        if "\0" in path or not path:
            raise ToolError("path is empty or holds a NUL character")
        return os.path.normpath(os.path.join(self.workspace, path))  # noqa: PTH118 - Path keeps what is above by a link

    def find(self, path: str) -> RootedPath:
        """Find a path in the allowed folders; raises ToolError for one outside."""
        whole = self.normalize(path)
        for name, root in self._named.items():
            if (found := files.split_path(name, whole)) and not self._is_shut(place := RootedPath(root, found.parts)):
                return place
        raise ToolError(f"{path} is outside the workspace {self.workspace}; use a path below it")

    def is_writable(self, place: RootedPath) -> bool:
        return any(files.split_path(root, str(place.path)) for root in self.roots)

    def workspace_path(self, place: RootedPath) -> str:
        """The path relative to the workspace, '' outside."""
        found = files.split_path(self.workspace, str(place.path))
        return "/".join(found.parts) if found else ""

    def is_memory(self, place: RootedPath) -> bool:
        name = _fold_name(self.workspace_path(place))
        return name == _fold_name(ROOT_FILE) or (name.startswith(f"{MEMORY_FOLDER}/") and name.endswith(".md"))

    def is_checklist(self, place: RootedPath) -> bool:
        return _fold_name(self.workspace_path(place)) == _fold_name(CHECKLIST)

    def effect(self, place: RootedPath) -> Effect:
        """The effect of writing there."""
        if self._is_among(place, [*self._instructions(), *self._list_hidden(place)]):
            return "instruct"
        pages = [Path(self.workspace, name) for name in _OWNER_PAGES]
        if self._is_among(place, pages) or self.is_memory(place) or self.is_checklist(place):
            return "remember"
        ran = {_fold_name(word.rpartition("/")[2]) for word in self._command_words()}
        busy = any(one.has_side_effects for one in list(running_commands))  # a command that may run what is written now
        return "exec" if busy or _fold_name(place.path.name) in ran else "write"

    def is_page(self, place: RootedPath) -> bool:
        """Whether a file is a page, note or skill, which tainted turns do not change."""
        if not self.is_writable(place) or self.is_memory(place) or self.is_checklist(place):
            return True
        whole = RootedPath("/", place.path.parts[1:])
        return self._is_among(whole, [*self._instructions(), *(Path(self.workspace, name) for name in _OWNER_PAGES)])

    @staticmethod
    def _is_among(place: RootedPath, meant: Sequence[Path]) -> bool:
        """Whether a path is one of some files or lies in one of some folders, however either is spelt."""
        on_the_way = [Path(place.root, *place.parts[:end]) for end in range(1, len(place.parts) + 1)]
        named = {_fold_name(name) for path in meant for name in (str(path), os.path.realpath(path))}
        spelt = {_fold_name(str(path)) for path in on_the_way}
        return not (
            spelt.isdisjoint(named) and files.list_identities(on_the_way).isdisjoint(files.list_identities(meant))
        )

    def _list_hidden(self, place: RootedPath) -> list[Path]:
        """Files that programs obey: .git anywhere; .bashrc, .ssh and the like in extra folders."""
        hidden = any(name.startswith(".") for name in place.parts) and place.root != self.workspace
        repository = ".git" in map(_fold_name, place.parts)
        return [place.path] if hidden or repository else []


def _fold_name(name: str) -> str:
    """Fold case and Unicode forms, as some file systems do."""
    return unicodedata.normalize("NFKC", name).casefold()


# File tools: inside the workspace, in numbered lines, written whole and durably.

_MAX_WRITE_BYTES = 4_000_000
_MAX_APPENDED_BYTES = 64_000_000
_MAX_LISTED = 500
_MAX_SCANNED_ENTRIES = 100_000
_SIZE = re.compile(r"(?:/|  \d+| -> \(link\))$")
_OUR_ROW = re.compile(r"\[(?:more than )?\d+ more not shown: list a folder below\]")


class FileTools:
    """Reads and writes below the workspace and extra folders, and reads skills."""

    def __init__(
        self,
        workspace: Path,
        extra: Sequence[str] = (),
        *,
        library: SkillLibrary | None = None,
        instructions: Callable[[], Sequence[Path]] = tuple,
        run: Callable[[], Collection[str]] = tuple,
        foreign: Callable[[], ForeignFiles] | None = None,
    ) -> None:
        """Relative paths start at `workspace`; a skill of the `library` is read as `skills/NAME/FILE`.

        `instructions` lists what instructs later turns and is written only with approval, `run` the words of planned commands;
        `foreign()` records what tainted turns write.
        """
        self._foreign = foreign
        self._folders = AllowedFolders(workspace, extra, instructions, run)
        self._library = library or SkillLibrary(())

    def _get_write_effect(self, arguments: Mapping[str, Any]) -> Effect:
        place = self._find_new(arguments["path"], overwrite=arguments["overwrite"])
        _encode_content(arguments["content"])
        # an empty page ends the first meeting, and tells nobody anything
        ends = self._folders.workspace_path(place) == ONBOARDING_PAGE and not arguments["content"].strip()
        return "write" if ends else self._folders.effect(place)

    def _get_edit_effect(self, arguments: Mapping[str, Any]) -> Effect:
        place, *_ = self._find_text(arguments["path"], arguments["old_text"])
        return self._folders.effect(place)

    def _get_append_effect(self, arguments: Mapping[str, Any]) -> Effect:
        place, _ = self._find_own(arguments["path"])
        _encode_content(arguments["content"])
        return self._folders.effect(place)

    def _is_untrusted_file(self, arguments: Mapping[str, Any], result: str, caller: Caller, good: bool) -> bool:  # noqa: FBT001
        """Whether a file may be somebody's text: no page or note of the owner's, and nothing new."""
        if not good:
            return False  # words of ours
        if self._folders.is_page(self._find_readable(arguments["path"])[0]):
            return FOREIGN in result
        return not is_known_text(result, (), caller.written, QUANTITIES.__contains__, units=UNITS)

    @tool(effect="read", opens=("skill_update",), brings=_is_untrusted_file, later=("max_lines",), private=True)
    def read_file(
        self,
        path: str,
        start_line: Annotated[int, Span(1, 10_000_000)] = 1,
        max_lines: Annotated[int, Span(1, 2000)] = 200,
    ) -> str:
        """Read a text file as numbered lines."""
        with _explain_errors(path), self._open_readable(path) as file:
            if b"\0" in (file.read(4096) or b""):
                raise ToolError(f"{path} is binary; only text can be read")
            file.seek(0)
            lines_ = list(islice(read_lines(file), start_line - 1, start_line - 1 + max_lines))
            more = bool(file.read(1))
            far = file.tell() >= MAX_SCANNED
        if far and not lines_:
            raise ToolError(f"line {start_line} of {path} lies behind its first {MAX_SCANNED} bytes; use exec")
        if not lines_:
            return f"[{path} is empty]" if start_line == 1 else f"[{path} ends before line {start_line}]"
        numbered = "\n".join(f"{start_line + i}\t{line}" for i, line in enumerate(lines_))
        last = start_line + len(lines_) - 1
        return numbered + (f"\n[more follows, from line {last + 1}]" if more else "")

    def _bind_replaced(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Bind an approval to the contents that are replaced."""
        import hashlib

        path = arguments["path"]
        place = self._find_new(path, overwrite=arguments["overwrite"])
        with (
            suppress(ToolError),
            _explain_errors(path),
        ):  # what cannot be read, a hard link say, is replaced by a file of its own
            if files.stat_rooted(place, self._folders.blocked) is None:
                return {}
            with self._open_plain(place) as file:
                return {f"sha256 of {place.path} before": hashlib.file_digest(cast("Any", file), "sha256").hexdigest()}
        return {}

    @tool(effect=_get_write_effect, binds=_bind_replaced)
    def write_file(self, path: str, content: str, caller: Caller | None = None, *, overwrite: bool = False) -> str:
        """Write a new file; an existing one only with overwrite."""
        place = self._find_new(path, overwrite=overwrite)
        self._refuse_tainted(place, path, caller)
        self._record_foreign(place, caller)
        size = _write_whole(place, path, content, self._folders)
        if self._foreign and not _is_tainted(caller):
            with suppress(StoreError):  # then it is asked about once more
                self._foreign().replaced(str(place.path))
        return f"wrote {path}: {size} bytes{self._describe_skill(place)}"

    @tool(effect=_get_edit_effect, private=True)
    def edit_file(self, path: str, old_text: str, new_text: str, caller: Caller | None = None) -> str:
        """Replace text that occurs exactly once in a file."""
        place, before, after = self._find_text(path, old_text)
        self._refuse_tainted(place, path, caller)
        self._record_foreign(place, caller)
        _write_whole(place, path, before + new_text + after, self._folders)
        return f"edited {path} at line {before.count(chr(10)) + 1}{self._describe_skill(place)}"

    @tool(effect=_get_append_effect)
    def append_file(self, path: str, content: str, caller: Caller | None = None) -> str:
        """Add lines to the end of a file."""
        place, there = self._find_own(path)
        self._refuse_tainted(place, path, caller)
        self._record_foreign(place, caller)
        if not there:
            return (
                f"wrote {path}: {_write_whole(place, path, content, self._folders)} bytes{self._describe_skill(place)}"
            )
        data = _encode_content(content)
        with _explain_errors(path), self._open_plain(place, adds=True) as file:
            if os.fstat(file.fileno()).st_size + len(data) > _MAX_APPENDED_BYTES:
                raise ToolError(f"{path} would have more than {_MAX_APPENDED_BYTES} bytes; begin a new file")
            append_bytes(file.fileno(), get_missing_newline(file.fileno()) + data)
        return f"added {len(data)} bytes to {path}{self._describe_skill(place)}"

    def _is_untrusted_listing(self, arguments: Mapping[str, Any], result: str, caller: Caller, good: bool) -> bool:  # noqa: FBT001
        """Whether a listing has a name that may hold a message and that the conversation does not know."""
        rows = result.split("\n") if good and result != f"[{arguments['path']} is empty]" else []
        said = "\n".join([*caller.said, *caller.written])
        names = (_SIZE.sub("", row) for row in rows if not _OUR_ROW.fullmatch(row))
        return not all(is_plain_name(name) or (name and name in said) for name in names)

    @tool(effect="read", brings=_is_untrusted_listing, private=True)
    def list_dir(self, path: str = ".") -> str:
        """List a folder, with sizes in bytes."""
        place, _ = self._find_readable(path)
        with (
            _explain_errors(path),
            files.open_folder(place, self._folders.blocked) as way,
            _scan_folder(way) as entries,
        ):
            names = sorted(islice(entries, _MAX_SCANNED_ENTRIES), key=lambda entry: entry.name)
            more = next(entries, None) is not None
            rows = [format_entry(entry) for entry in names[:_MAX_LISTED]]
        if len(names) > _MAX_LISTED:
            count = f"{'more than ' if more else ''}{len(names) - _MAX_LISTED}"
            rows.append(f"[{count} more not shown: list a folder below]")
        return "\n".join(rows) or f"[{path} is empty]"

    def _record_foreign(self, place: RootedPath, caller: Caller | None) -> None:
        """Record before writing that a tainted turn wrote this; without the record nothing is written."""
        if self._foreign and caller and _is_tainted(caller):
            try:
                self._foreign().add(str(place.path), caller.heard)
            except StoreError as error:
                raise ToolError(f"nothing was written, since it cannot be remembered what led to it: {error}") from None

    def _refuse_tainted(self, place: RootedPath, path: str, caller: Caller | None) -> None:
        """Refuse tainted text where it could not be marked: in the memory and the checklist."""
        if caller is None or (is_owner(caller.origin) and not caller.heard):
            return
        if self._folders.is_memory(place):
            raise ToolError(f"{path} is read as the owner's word; memory_store notes this and says where it is from")
        if self._folders.is_checklist(place):
            raise ToolError(f"{path} is what is done unasked: only a person who asks for nothing else has it changed")

    def _find_readable(self, path: str) -> tuple[RootedPath, bool]:
        """Find a path for reading; True for one of a skill, wherever the skill lies."""
        skills, (top, name, *rest) = self._library.skills, (*Path(path).parts, "", "")
        named = top == "skills" and name in skills
        if named or (Path(path).is_absolute() and "\0" not in path):
            base = os.path.realpath(skills[name].folder) if named else ""
            whole = f"{base}/{'/'.join(rest)}" if named else path
            folders = [base] if named else [str(skill.folder) for skill in skills.values()]
            for folder in folders:
                if "\0" not in whole and (found := files.split_path(folder, whole)):
                    return RootedPath(os.path.realpath(folder), found.parts), True
        return self._folders.find(path), False

    def _open_readable(self, path: str) -> BinaryIO:
        """Open a file; a skill's instructions without the parts for people."""
        place, shipped = self._find_readable(path)
        name = place.path.name
        if name == f"{SKILL_FILE}.bak":
            raise ToolError(f"{path} is kept for the owner; {SKILL_FILE} beside it is what counts")
        if name == SKILL_FILE:
            for skill in self._library.skills.values():
                if os.path.realpath(skill.folder) == str(place.above.path):
                    return BytesIO(self._library.text(skill.name).encode())
        return self._open_plain(place, foreign=shipped)

    def _open_plain(self, place: RootedPath, *, foreign: bool = False, adds: bool = False) -> BinaryIO:
        """Open a regular file; a `foreign` one, which is only read, may have hard links."""
        handle = files.open_rooted(place, self._folders.blocked, alone=not foreign, adds=adds)
        return os.fdopen(handle, "rb+", buffering=0) if adds else os.fdopen(handle, "rb")

    def _find_new(self, path: str, *, overwrite: bool) -> RootedPath:
        place = self._folders.find(path)
        if self._exists(place, path) and not overwrite:
            raise ToolError(f"{path} exists already; edit_file changes a part, overwrite=true replaces it all")
        return place

    def _find_own(self, path: str) -> tuple[RootedPath, bool]:
        """Find a path for changing, and whether it exists; shared skills are not copied piecemeal."""
        place = self._folders.find(path)
        there = self._exists(place, path)
        if not there:
            other, shared = self._find_readable(path)
            if shared and other.path != place.path and self._exists(other, path):
                folder = other.above.path
                raise ToolError(f"{path} lies in {folder} and is only read; skill_create writes a skill of yours")
        return place, there

    def _exists(self, place: RootedPath, path: str) -> bool:
        with _explain_errors(path):
            return files.stat_rooted(place, self._folders.blocked) is not None

    def _find_text(self, path: str, old_text: str) -> tuple[RootedPath, str, str]:
        """Find the only occurrence of a text; returns the file, and what precedes and follows."""
        place, _ = self._find_own(path)
        with _explain_errors(path), self._open_plain(place) as file:
            data = file.read(_MAX_WRITE_BYTES + 1)
        if len(data) > _MAX_WRITE_BYTES:
            raise ToolError(f"{path} is larger than {_MAX_WRITE_BYTES} bytes; it cannot be edited whole")
        text = decode_text(data, path)
        count_ = count_overlapping(text, old_text)
        if count_ != 1:
            hint = "read the file and copy the text exactly" if count_ == 0 else "take in more of the lines around it"
            raise ToolError(f"old_text occurs {count_} times in {path}, not once; {hint}")
        before, _, after = text.partition(old_text)
        return place, before, after

    def _describe_skill(self, place: RootedPath) -> str:
        """The state of a skill whose file was written; '' for other files."""
        if place.path.name != SKILL_FILE:
            return ""
        self._library.look()
        said = describe_state(self._library, place.path)
        return f"; {said}" if said else ""


def _is_tainted(caller: Caller | None) -> bool:
    return bool(caller and (caller.heard or caller.origin == "guest"))


def _write_whole(place: RootedPath, path: str, content: str, places: AllowedFolders) -> int:
    data = _encode_content(content)
    with _explain_errors(path), files.open_folder(place.above, places.blocked, make=True) as way:
        if not place.parts:
            raise IsADirectoryError(errno.EISDIR, "")
        write_atomic(Path(place.parts[-1]), data, 0o600, folder=way)
    return len(data)


def _encode_content(content: str) -> bytes:
    data = content.encode("utf-8", "replace")
    if len(data) > _MAX_WRITE_BYTES:
        raise ToolError(f"content has {len(data)} bytes, more than {_MAX_WRITE_BYTES}; write it in parts")
    return data


@contextmanager
def _scan_folder(way: int) -> "Iterator[Iterator[os.DirEntry[str]]]":
    handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=way)
    try:
        with os.scandir(handle) as entries:
            yield entries
    finally:
        os.close(handle)


@contextmanager
def _explain_errors(path: str) -> Iterator[None]:
    try:
        yield
    except IsADirectoryError:
        raise ToolError(f"{path} is a folder; list_dir shows it") from None
    except OSError as error:
        raise ToolError(f"{path}: {explain_os_error(error)}") from None
    except UnicodeError:
        raise ToolError(f"{path} holds characters that no file name can hold") from None

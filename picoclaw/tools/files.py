"""The file tools: `read_file`, `write_file`, `edit_file` and `list_dir` in the allowed folders."""

import errno
import os
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, cast

from picoclaw import files
from picoclaw.errors import StoreError, ToolError
from picoclaw.files import RootedPath, append_bytes, explain_os_error, write_atomic
from picoclaw.hw.reading import QUANTITIES, UNITS
from picoclaw.memory.files import FOREIGN, MEMORY_FOLDER, ROOT_FILE
from picoclaw.messages import Caller, is_outsider, is_resident
from picoclaw.schema import Span
from picoclaw.security.policy import Effect
from picoclaw.security.sandbox import running_commands
from picoclaw.security.untrusted import is_known_text, is_plain_name
from picoclaw.skills import SKILL_FILE, SkillLibrary
from picoclaw.store.inbox_outbox import ForeignFiles
from picoclaw.text import pattern
from picoclaw.tools.registry import tool
from picoclaw.tools.skills import describe_state
from picoclaw.workspace import ONBOARDING_PAGE

if TYPE_CHECKING:
    from picoclaw.agents import PersonalPages

WriteMode = Literal["create", "append", "replace"]
CHECKLIST = "HEARTBEAT.md"

_OWNER_PAGES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md")
_BLOCKED_FOLDERS = (Path("/etc/picoclaw"), Path("/proc"), Path(__file__).parents[1])
"""What no tool reaches besides the home: the machine's outputs, the kernel's files, and picoclaw itself."""

_MAX_SCANNED_BYTES = 64_000_000
"""Up to where lines are looked for in a file."""
_MAX_LINE_CHARS = 2000
_CHUNK = 65_536
_MAX_WRITE_BYTES = 4_000_000
_MAX_APPENDED_BYTES = 64_000_000
_MAX_LISTED = 500
_MAX_SCANNED_ENTRIES = 100_000
_NUMBERED = pattern(r"[ \t]*\d+\| ?(.*)", re.DOTALL)
_SIZE = pattern(r"(?:/|  \d+| -> \(link\))$")
_OUR_ROW = pattern(r"\[(?:more than )?\d+ more not shown: list a folder below\]")


class AllowedFolders:
    """The folders that file tools may use: the workspace, and those the owner names.

    Names are compared without case and Unicode forms, as some file systems do, and files by their identity, so that no
    spelling goes past it.
    """

    def __init__(
        self,
        workspace: Path,
        extra: Sequence[str],
        instructions: Callable[[], Sequence[Path]],
        run: Callable[[], Collection[str]],
        home: Path | None = None,
        virtual: Collection[str] = (),
    ) -> None:
        """`instructions` lists the files and folders that instruct later turns; `run` gives the words of planned commands.

        `home` and the folder that holds the workspace are picoclaw's own; nothing else in them is ever reached, whatever
        `extra` has. `virtual` names pages of the workspace that a model is told and that are no files.
        """
        self._virtual = {_fold_name(name): name for name in virtual}
        self.workspace = os.path.realpath(workspace)
        self._own = (Path(os.path.realpath(home or workspace.parent)), Path(self.workspace).parent)
        self._instructions, self._command_words = instructions, run
        self._owner_pages = [Path(self.workspace, name) for name in _OWNER_PAGES]
        self._named: dict[str, str] = {}
        for folder in (workspace, *(Path(name).expanduser() for name in extra)):
            named, root = str(folder.absolute()), os.path.realpath(folder)
            if Path(root).is_relative_to(self.workspace) or not any(map(Path(root).is_relative_to, self._own)):
                self._named |= {os.path.normpath(named): root, root: root}

    @property
    def blocked(self) -> frozenset[files.FileIdentity]:
        """What is never entered from above, however it is spelt."""
        return files.list_identities([*self._own, *_BLOCKED_FOLDERS])

    def find(self, path: str) -> RootedPath:
        """Find a path in the allowed folders, without looking at links; raises ToolError for one outside."""
        if "\0" in path or not path:
            raise ToolError("path is empty or holds a NUL character")
        whole = os.path.normpath(os.path.join(self.workspace, path))  # noqa: PTH118 - Path keeps what is above by a link
        for name, root in self._named.items():
            if found := files.split_path(name, whole):
                place = RootedPath(root, found.parts)
                # one that does not exist yet has no identity but its name
                blocked = any(place.path.is_relative_to(top) for top in (*self._own, *_BLOCKED_FOLDERS))
                if root == self.workspace or not blocked or place.path.is_relative_to(self.workspace):
                    if self._virtual and (page := self._virtual.get(_fold_name(self.get_workspace_path(place)))):
                        raise ToolError(f"{page} is no file: it is made of [links] and [teams] in config.toml")
                    return place
        raise ToolError(f"{path} is outside the workspace {self.workspace}; use a path below it")

    def get_workspace_path(self, place: RootedPath) -> str:
        """The path relative to the workspace, '' outside."""
        found = files.split_path(self.workspace, str(place.path))
        return "/".join(found.parts) if found else ""

    def is_memory(self, place: RootedPath) -> bool:
        name = _fold_name(self.get_workspace_path(place))
        return name == _fold_name(ROOT_FILE) or (name.startswith(f"{MEMORY_FOLDER}/") and name.endswith(".md"))

    def is_checklist(self, place: RootedPath) -> bool:
        return _fold_name(self.get_workspace_path(place)) == _fold_name(CHECKLIST)

    def get_effect(self, place: RootedPath) -> Effect:
        """The effect of writing there: a page that later turns are told is no mere file."""
        is_hidden = place.root != self.workspace and any(name.startswith(".") for name in place.parts)
        if is_hidden or ".git" in map(_fold_name, place.parts) or self._is_among(place, self._instructions()):
            return "instruct"  # programs obey .git anywhere, and .bashrc, .ssh and the like in extra folders
        if self._is_among(place, self._owner_pages) or self.is_memory(place) or self.is_checklist(place):
            return "remember"
        ran = {_fold_name(word.rpartition("/")[2]) for word in self._command_words()}
        busy = any(one.has_side_effects for one in list(running_commands))  # a command that may run what is written now
        return "exec" if busy or _fold_name(place.path.name) in ran else "write"

    def is_page(self, place: RootedPath) -> bool:
        """Whether a file is a page, note or skill, which tainted turns do not change."""
        writable = any(files.split_path(root, str(place.path)) for root in self._named.values())
        if not writable or self.is_memory(place) or self.is_checklist(place):
            return True
        whole = RootedPath("/", place.path.parts[1:])
        return self._is_among(whole, [*self._owner_pages, *self._instructions()])

    @staticmethod
    def _is_among(place: RootedPath, meant: Sequence[Path]) -> bool:
        """Whether a path is one of some files or lies in one of some folders, however either is spelt."""
        on_the_way = [Path(place.root, *place.parts[:end]) for end in range(1, len(place.parts) + 1)]
        folders = {folder: os.path.realpath(folder) for folder in {path.parent for path in meant}}
        real = [
            os.path.realpath(path) if path.is_symlink() else f"{folders[path.parent]}/{path.name}" for path in meant
        ]
        named = {_fold_name(name) for name in (*map(str, meant), *real)}
        spelt = {_fold_name(str(path)) for path in on_the_way}
        return not (
            spelt.isdisjoint(named) and files.list_identities(on_the_way).isdisjoint(files.list_identities(meant))
        )


def _fold_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


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
        home: Path | None = None,
        pages: "PersonalPages | None" = None,
        virtual: Collection[str] = (),
    ) -> None:
        """Relative paths start at `workspace`; a skill of the `library` is read as `skills/NAME/FILE`.

        `instructions` lists what instructs later turns and is written only with approval, `run` the words of planned commands;
        `foreign()` records what tainted turns write. `pages` are a person's own, which are no files and have the names of
        files; `virtual` names pages that are no files at all.
        """
        self._foreign, self._pages = foreign, pages
        self._folders = AllowedFolders(workspace, extra, instructions, run, home, virtual)
        self._library = library or SkillLibrary(())

    def _is_untrusted_file(self, arguments: Mapping[str, Any], result: str, caller: Caller, good: bool) -> bool:  # noqa: FBT001
        """Whether a file may be somebody's text: no page or note of the owner's, and nothing new."""
        if not good:
            return False
        if self._folders.is_page(self._find_readable(arguments["path"])[0]):
            return FOREIGN in result
        return not is_known_text(result, (), caller.model_texts, QUANTITIES.__contains__, units=UNITS)

    @tool(effect="read", brings=_is_untrusted_file, private=True)
    def read_file(
        self,
        path: str,
        start_line: Annotated[int, Span(1, 10_000_000)] = 1,
        max_lines: Annotated[int, Span(1, 2000)] = 200,
    ) -> str:
        """Read a text file. Lines come as `NUMBER| TEXT`; the number is not in the file."""
        with _explain_errors(path), self._open_readable(path) as file:
            if b"\0" in (file.read(4096) or b""):
                raise ToolError(f"{path} is binary; only text can be read")
            file.seek(0)
            lines = list(islice(_read_lines(file), start_line - 1, start_line - 1 + max_lines))
            more = bool(file.read(1))
            far = file.tell() >= _MAX_SCANNED_BYTES
        if far and not lines:
            raise ToolError(f"line {start_line} of {path} lies behind its first {_MAX_SCANNED_BYTES} bytes; use exec")
        if not lines:
            return f"[{path} is empty]" if start_line == 1 else f"[{path} ends before line {start_line}]"
        numbered = "\n".join(f"{number}| {line}" for number, line in enumerate(lines, start_line))
        return numbered + (f"\n[more follows, from line {start_line + len(lines)}]" if more else "")

    def _get_write_effect(self, arguments: Mapping[str, Any]) -> Effect:
        place, _ = self._find_target(arguments["path"], arguments["mode"])
        _encode_content(arguments["content"])
        page = self._find_page(place)
        # an empty page ends the first meeting, and tells nobody anything
        ends = self._folders.get_workspace_path(place) == ONBOARDING_PAGE and not arguments["content"].strip()
        ends = ends and arguments["mode"] != "append"
        if page and not ends and self._pages:
            self._pages.check_writable(page)
        return "write" if ends else self._folders.get_effect(place)

    def _bind_replaced(self, arguments: Mapping[str, Any]) -> Mapping[str, str]:
        """Bind an approval to the contents that are replaced."""
        import hashlib

        path, mode = arguments["path"], arguments["mode"]
        place, _ = self._find_target(path, mode)
        if mode == "append":
            return {}
        if page := self._find_page(place):
            before = hashlib.sha256(self._read_page(page, missing_ok=True).encode()).hexdigest()
            return {f"sha256 of {page} before": before}
        with suppress(ToolError), _explain_errors(path):  # what cannot be read, such as a hard link, is replaced whole
            if files.stat_rooted(place, self._folders.blocked) is None:
                return {}
            with self._open_plain(place) as file:
                return {f"sha256 of {place.path} before": hashlib.file_digest(cast("Any", file), "sha256").hexdigest()}
        return {}

    @tool(effect=_get_write_effect, binds=_bind_replaced)
    def write_file(
        self,
        path: str,
        content: str,
        mode: Annotated[
            WriteMode, "create (default): fails if it exists; append: add lines; replace: overwrite all"
        ] = "create",
        caller: Caller | None = None,
    ) -> str:
        """Write a text file."""
        place, exists = self._find_target(path, mode)
        self._check_taint(place, path, caller)
        if mode == "append" and exists:
            return f"added {self._append(place, path, content)} bytes to {path}{self._describe_skill(place)}"
        size = self._write_whole(place, path, content)
        if self._foreign and not _is_tainted(caller):
            with suppress(StoreError):  # then it is asked about once more
                self._foreign().replaced(str(place.path))
        return f"wrote {path}: {size} bytes{self._describe_skill(place)}"

    def _get_edit_effect(self, arguments: Mapping[str, Any]) -> Effect:
        place = self._find_text(**arguments)[0]
        if self._pages and (page := self._find_page(place)):
            self._pages.check_writable(page)
        return self._folders.get_effect(place)

    @tool(effect=_get_edit_effect, private=True)
    def edit_file(self, path: str, old_text: str, new_text: str, caller: Caller | None = None) -> str:
        """Replace text in a file. old_text must occur in it exactly once."""
        place, before, new_text, after = self._find_text(path, old_text, new_text)
        self._check_taint(place, path, caller)
        self._write_whole(place, path, before + new_text + after)
        return f"edited {path} at line {before.count(chr(10)) + 1}{self._describe_skill(place)}"

    def _append(self, place: RootedPath, path: str, content: str) -> int:
        """Add lines to the end of a file that exists; returns the bytes."""
        data = _encode_content(content)
        if self._pages and (page := self._find_page(place)):
            before = self._read_page(page)
            self._pages.write(page, f"{before}{'' if before.endswith(chr(10)) else chr(10)}{content}")
            return len(data)
        with _explain_errors(path), self._open_plain(place, adds=True) as file:
            handle = file.fileno()
            size = os.fstat(handle).st_size
            if size + len(data) > _MAX_APPENDED_BYTES:
                raise ToolError(f"{path} would have more than {_MAX_APPENDED_BYTES} bytes; begin a new file")
            newline = b"" if size == 0 or os.pread(handle, 1, size - 1) == b"\n" else b"\n"
            append_bytes(handle, newline + data)
        return len(data)

    def _is_untrusted_listing(self, arguments: Mapping[str, Any], result: str, caller: Caller, good: bool) -> bool:  # noqa: FBT001
        """Whether a listing has a name that may hold a message and that the conversation does not know."""
        rows = result.split("\n") if good and result != f"[{arguments['path']} is empty]" else []
        said = "\n".join([*caller.user_texts, *caller.model_texts])
        names = (_SIZE.sub("", row) for row in rows if not _OUR_ROW.fullmatch(row))
        return not all(is_plain_name(name) or (name and name in said) for name in names)

    @tool(effect="read", brings=_is_untrusted_listing, private=True)
    def list_dir(self, path: str = ".") -> str:
        """List a folder, with sizes in bytes."""
        place, _ = self._find_readable(path)
        own = self._pages.list_merged() if self._pages and place.path == Path(self._folders.workspace) else {}
        with _explain_errors(path), files.open_folder(place, self._folders.blocked) as way:
            handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=way)
            try:
                with os.scandir(handle) as entries:
                    names = sorted(islice(entries, _MAX_SCANNED_ENTRIES), key=lambda entry: entry.name)
                    more = next(entries, None) is not None
                    rows = [_format_entry(entry) for entry in names[:_MAX_LISTED] if entry.name not in own]
            finally:
                os.close(handle)
        rows = sorted([*(f"{name}  {size}" for name, size in own.items()), *rows]) if own else rows
        if len(names) > _MAX_LISTED:
            count = f"{'more than ' if more else ''}{len(names) - _MAX_LISTED}"
            rows.append(f"[{count} more not shown: list a folder below]")
        return "\n".join(rows) or f"[{path} is empty]"

    def _check_taint(self, place: RootedPath, path: str, caller: Caller | None) -> None:
        """Refuse tainted text where it could not be marked; elsewhere, record before writing that a tainted turn did.

        Without the record nothing is written.
        """
        if caller and (caller.taints or not is_resident(caller.origin)):
            if self._folders.is_memory(place):
                raise ToolError(
                    f"{path} is read as the owner's word; memory_store notes this and says where it is from"
                )
            if self._folders.is_checklist(place):
                raise ToolError(
                    f"{path} is what is done unasked: only a person who asks for nothing else has it changed"
                )
        if self._foreign and caller and _is_tainted(caller):
            try:
                self._foreign().add(str(place.path), caller.taints)
            except StoreError as error:
                raise ToolError(f"nothing was written, since it cannot be remembered what led to it: {error}") from None

    def _find_readable(self, path: str) -> tuple[RootedPath, bool]:
        """Find a path for reading; True for one of a skill, wherever the skill lies."""
        self._library.recheck()
        skills, (top, name, *rest) = self._library.skills, (*Path(path).parts, "", "")
        named = top == "skills" and name in skills
        if "\0" not in path and (named or Path(path).is_absolute()):
            base = os.path.realpath(skills[name].folder) if named else ""
            whole = f"{base}/{'/'.join(rest)}" if named else path
            for folder in [base] if named else [str(skill.folder) for skill in skills.values()]:
                if found := files.split_path(folder, whole):
                    return RootedPath(os.path.realpath(folder), found.parts), True
        return self._folders.find(path), False

    def _open_readable(self, path: str) -> BinaryIO:
        """Open a file; a skill's instructions without the parts for people."""
        place, is_skill = self._find_readable(path)
        name = place.path.name
        if name == f"{SKILL_FILE}.bak":
            raise ToolError(f"{path} is kept for the owner; {SKILL_FILE} beside it is what counts")
        if name == SKILL_FILE:
            for skill in self._library.skills.values():
                if os.path.realpath(skill.folder) == str(place.above.path):
                    return BytesIO(self._library.read_body(skill.name).encode())
        if not is_skill and (page := self._find_page(place)):
            return BytesIO(self._read_page(page).encode())
        return self._open_plain(place, alone=not is_skill)

    def _find_page(self, place: RootedPath) -> str:
        """The page of a person's own, or of their agent, that a path means; '' for a file."""
        return self._pages.find(self._folders.get_workspace_path(place)) if self._pages else ""

    def _read_page(self, name: str, *, missing_ok: bool = False) -> str:
        text = self._pages.read_merged(name) if self._pages else None
        if not text and (text is None or name == ONBOARDING_PAGE) and not missing_ok:
            raise ToolError(f"{name}: {explain_os_error(FileNotFoundError(errno.ENOENT, ''))}")
        return text or ""

    def _open_plain(self, place: RootedPath, *, alone: bool = True, adds: bool = False) -> BinaryIO:
        """Open a regular file; an `alone` one may have no hard links."""
        handle = files.open_rooted(place, self._folders.blocked, alone=alone, adds=adds)
        return os.fdopen(handle, "rb+", buffering=0) if adds else os.fdopen(handle, "rb")

    def _find_target(self, path: str, mode: WriteMode) -> tuple[RootedPath, bool]:
        """Find a path for writing, and whether it exists."""
        if mode == "append":
            return self._find_own(path)
        place = self._folders.find(path)
        exists = self._exists(place, path)
        if exists and mode == "create":
            raise ToolError(
                f"{path} exists already; edit_file changes a part, mode=append adds to its end, mode=replace replaces it all"
            )
        return place, exists

    def _find_own(self, path: str) -> tuple[RootedPath, bool]:
        """Find a path for changing, and whether it exists; shared skills are not copied piecemeal."""
        place = self._folders.find(path)
        exists = self._exists(place, path)
        if not exists:
            other, shared = self._find_readable(path)
            if shared and other.path != place.path and self._exists(other, path):
                folder = other.above.path
                raise ToolError(f"{path} lies in {folder} and is only read; skill_create writes a skill of yours")
        return place, exists

    def _exists(self, place: RootedPath, path: str) -> bool:
        if page := self._find_page(place):
            return bool(self._read_page(page, missing_ok=True))
        with _explain_errors(path):
            return files.stat_rooted(place, self._folders.blocked) is not None

    def _find_text(self, path: str, old_text: str, new_text: str) -> tuple[RootedPath, str, str, str]:
        """Find the only occurrence of a text; returns the file, what precedes, the new text and what follows.

        Line numbers that were copied with the text are left out where it is exact without them.
        """
        place, _ = self._find_own(path)
        if page := self._find_page(place):
            data = self._read_page(page).encode()
        else:
            with _explain_errors(path), self._open_plain(place) as file:
                data = file.read(_MAX_WRITE_BYTES + 1)
        if len(data) > _MAX_WRITE_BYTES:
            raise ToolError(f"{path} is larger than {_MAX_WRITE_BYTES} bytes; it cannot be edited whole")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise ToolError(f"{path} is not UTF-8 text (byte {error.start}); it cannot be edited") from None
        count, bare = _count_text(text, old_text), _remove_line_numbers(old_text)
        if count == 0 and bare:
            if (count := _count_text(text, bare)) != 1:
                raise ToolError(
                    f"old_text begins with line numbers, which are not in {path}; without them it occurs {count} times, not once"
                )
            old_text, new_text = bare, _remove_line_numbers(new_text) or new_text
        if count != 1:
            hint = "read the file and copy the text exactly" if count == 0 else "take in more of the lines around it"
            raise ToolError(f"old_text occurs {count} times in {path}, not once; {hint}")
        before, _, after = text.partition(old_text)
        return place, before, new_text, after

    def _write_whole(self, place: RootedPath, path: str, content: str) -> int:
        data = _encode_content(content)
        if self._pages and (page := self._find_page(place)):
            return self._pages.write(page, content)
        with _explain_errors(path), files.open_folder(place.above, self._folders.blocked, make=True) as way:
            if not place.parts:
                raise IsADirectoryError(errno.EISDIR, "")
            write_atomic(Path(place.parts[-1]), data, 0o600, folder=way)
        return len(data)

    def _describe_skill(self, place: RootedPath) -> str:
        """The state of a skill whose file was written; '' for other files."""
        if place.path.name != SKILL_FILE:
            return ""
        self._library.refresh()
        state = describe_state(self._library, place.path)
        return f"; {state}" if state else ""


def _is_tainted(caller: Caller | None) -> bool:
    return bool(caller and (caller.taints or is_outsider(caller.origin)))


def _count_text(text: str, sought: str) -> int:
    """Count the places of a text, also those that overlap."""
    count, at = 0, text.find(sought) if sought else -1
    while at >= 0:
        count, at = count + 1, text.find(sought, at + 1)
    return count


def _remove_line_numbers(text: str) -> str:
    """The lines without the numbers that `read_file` shows before them; '' where not each has one."""
    rows = [_NUMBERED.fullmatch(line) for line in text.removesuffix("\n").split("\n")]
    found = [row[1] for row in rows if row]
    return "\n".join(found) + "\n" * text.endswith("\n") if len(found) == len(rows) else ""


def _encode_content(content: str) -> bytes:
    data = content.encode("utf-8", "replace")
    if len(data) > _MAX_WRITE_BYTES:
        raise ToolError(f"content has {len(data)} bytes, more than {_MAX_WRITE_BYTES}; write it in parts")
    return data


def _read_lines(file: BinaryIO) -> Iterator[str]:
    """Read lines; a long one is cut and its length told."""
    passed = 0
    while passed < _MAX_SCANNED_BYTES and (line := file.readline(4 * _MAX_LINE_CHARS)):
        length, rest = len(line), line
        while not rest.endswith(b"\n") and (rest := file.readline(min(_CHUNK, _MAX_SCANNED_BYTES - passed - length))):
            length += len(rest)
        passed += length
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if len(text) > _MAX_LINE_CHARS or length - len(line) > len("\r\n"):
            more = "" if passed < _MAX_SCANNED_BYTES else " or more"
            text = f"{text[:_MAX_LINE_CHARS]} [line cut: {length} bytes{more}]"
        yield text


def _format_entry(entry: "os.DirEntry[str]") -> str:
    """One line for a folder's entry, whatever its name holds."""
    name = "".join(
        char if char.isprintable() or "\udc80" <= char <= "\udcff" else f"[U+{ord(char):04X}]" for char in entry.name
    )
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    if entry.is_symlink():
        return f"{name} -> (link)"
    return f"{name}  {entry.stat(follow_symlinks=False).st_size}"


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

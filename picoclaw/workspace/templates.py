"""The workspace's pages: made from templates, never overwritten, and shown what a newer template has more.

An owner may have put anything in the place of a text file: reading never waits, and takes no more memory than is allowed.
"""

import codecs
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from picoclaw.errors import ConfigError
from picoclaw.files import create_file, explain_os_error, make_folder, sync_folder, write_atomic
from picoclaw.markdown import remove_hidden
from picoclaw.records import NamedTuple
from picoclaw.resources import find_shipped
from picoclaw.text import pattern

MAX_WHOLE_BYTES = 1_000_000
"""Bytes; of a larger file only its head and its tail are read."""

_HEAD_BYTES, _TAIL_BYTES = 600_000, 200_000
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


class TextFiles:
    """The texts of the files below one folder, each read again when its file has changed.

    Files larger than `largest` bytes are refused, and links that lead out of `inside` if that is given. `clean` makes
    of a file's name and text what is kept.
    """

    def __init__(
        self,
        folder: Path,
        largest: int,
        inside: Path | None = None,
        clean: Callable[[str, str], str] = lambda _, text: text,
    ) -> None:
        self._folder, self._largest, self._inside, self._clean = folder, largest, inside, clean
        self._kept: dict[str, tuple[tuple[int, ...], str | ConfigError]] = {}
        self._paths: dict[str, Path] = {}

    def get(self, name: str) -> str | None:
        """Return a file's text, None when there is no such file; raises ConfigError saying why it cannot be read."""
        path = self._paths.get(name) or self._paths.setdefault(name, self._folder / name)
        found = _stat_target(path)
        if found is None:
            self._kept.pop(name, None)
            return None
        marks = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode)
        if name not in self._kept or self._kept[name][0] != marks:
            text: str | ConfigError
            try:
                text = self._clean(name, read_text(path, self._largest, self._inside) or "")
            except ConfigError as error:
                text = error
            self._kept[name] = marks, text
        kept = self._kept[name][1]
        if isinstance(kept, ConfigError):
            raise ConfigError(str(kept))
        return kept


def read_text(path: Path, largest: int, inside: Path | None = None) -> str | None:
    """Read a file's text without BOM and with plain line ends, None when there is none; raises ConfigError."""
    parts = _read_parts(path, largest, inside)
    if parts is None:
        return None
    if any(b"\0" in part for part in parts):
        raise _make_read_error(path, "it holds NUL bytes and is no text; save it as UTF-8 text")
    try:
        head = codecs.utf_8_decode(parts[0].removeprefix(codecs.BOM_UTF8), "strict", len(parts) == 1)[0]
        tail = "".join(f"\n{part.lstrip(_CONTINUATION_BYTES).decode()}" for part in parts[1:])
    except UnicodeDecodeError:
        raise _make_read_error(path, "it is not UTF-8; save it as UTF-8 text") from None
    return f"{head}{tail}".replace("\r\n", "\n").replace("\r", "\n")


def read_bytes(path: Path, largest: int, inside: Path | None = None) -> bytes | None:
    """Read a file's bytes, those of its head and tail if it is large, None when there is none; raises ConfigError."""
    parts = _read_parts(path, largest, inside)
    return None if parts is None else b"\n".join(parts)


def _read_parts(path: Path, largest: int, inside: Path | None) -> list[bytes] | None:
    found = _stat_target(path)
    if found is None:
        return None
    _check_file(path, found, largest, inside)
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
            status = os.fstat(file.fileno())
            _check_file(path, status, largest, None)
            if status.st_size <= MAX_WHOLE_BYTES:
                return [file.read(MAX_WHOLE_BYTES)]
            head = file.read(_HEAD_BYTES)
            file.seek(-_TAIL_BYTES, os.SEEK_END)
            return [head, file.read(_TAIL_BYTES)]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _make_read_error(path, explain_os_error(error)) from None


def _stat_target(path: Path) -> os.stat_result | None:
    """The state of what a name stands for in the end; None when nothing is there."""
    linked = False
    try:
        found = os.lstat(path)  # without the detour of Path.lstat: a turn looks at hundreds of names
        linked = stat.S_ISLNK(found.st_mode)
        return path.stat() if linked else found
    except (FileNotFoundError, NotADirectoryError):
        if not linked:
            return None
        raise _make_read_error(path, "it is a link that leads nowhere; correct or remove it") from None
    except OSError as error:
        raise _make_read_error(path, explain_os_error(error)) from None


def _check_file(path: Path, found: os.stat_result, largest: int, inside: Path | None) -> None:
    if inside is not None and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(inside)):
        raise _make_read_error(path, f"it is a link that leads out of {inside}; put a copy in its place")
    if stat.S_ISDIR(found.st_mode):
        raise _make_read_error(path, "it is a folder; move it aside")
    if not stat.S_ISREG(found.st_mode):
        raise _make_read_error(path, "it is not a regular file; move it aside")
    if found.st_size > largest:
        raise _make_read_error(path, f"it is larger than {largest // 1000} kB; shorten it")


def _make_read_error(path: Path, why: str) -> ConfigError:
    return ConfigError(f"{path} cannot be read: {why}")


_NO_NEWLINE = b"\n\\ No newline at end of file\n"


def _merge_template(page: bytes, old: bytes, new: bytes) -> bytes:
    """Bring into a page what a template has gained, and take out of it what the template has lost.

    Lines of the owner's own stay, also where the template says something else now, and blank ones; what the page has
    already is not added. So the result is the page itself when there is nothing to bring.
    """
    from difflib import SequenceMatcher

    mine = _split_lines(page)
    plain, before, after = ([line.rstrip(b"\r") for line in _split_lines(text)] for text in (page, old, new))
    found = SequenceMatcher(None, before, plain).get_matching_blocks()
    place = {block.a + i: block.b + i for block in found for i in range(block.size)}
    lost, gained = set[int](), dict[int, list[bytes]]()
    for tag, start, end, first, last in SequenceMatcher(None, before, after).get_opcodes():
        if tag != "equal":
            lost |= {place[i] for i in range(start, end) if i in place and before[i].strip()}
            if not _has_part(plain, after[first:last]):
                gained.setdefault(_find_position(place, start, end, len(mine)), []).extend(after[first:last])
    carriage = b"\r" if b"\r\n" in page else b""
    kept: list[bytes] = []
    for i in range(len(mine) + 1):
        kept += [line + carriage for line in gained.get(i, [])]
        kept += mine[i : i + 1] if i not in lost else []
    return b"\n".join(kept) + (b"\n" if kept and (page.endswith(b"\n") or not page) else b"")


def _find_position(place: Mapping[int, int], start: int, end: int, length: int) -> int:
    """Where in the page that stands which is at `start` in the template, by the lines of the template that it has."""
    if start in place and start < end:
        return place[start]
    if start - 1 in place:
        return place[start - 1] + 1
    if end in place:
        return place[end]
    earlier = [place[i] + 1 for i in range(start) if i in place]
    return earlier[-1] if earlier else 0 if place else length


def _has_part(lines: Sequence[bytes], part: Sequence[bytes]) -> bool:
    """Whether the lines of a part follow each other somewhere."""
    return b"".join(b"\n" + line for line in [*part, b""]) in b"".join(b"\n" + line for line in [*lines, b""])


def _split_lines(text: bytes) -> list[bytes]:
    """The lines as patch counts them, by nothing but line feeds."""
    return text.removesuffix(b"\n").split(b"\n") if text else []


TEMPLATE_PAGES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "memory/MEMORY.md")
ONBOARDING_PAGE = "BOOTSTRAP.md"
"""What the first meeting is held by; where it was, it never comes back by itself."""

MAX_PAGE_BYTES = 10_000_000
"""Bytes of a page; of one that is larger nothing is read."""

_DIGEST = pattern(r"[0-9a-f]{64}")


class CreatedFiles(NamedTuple):
    """The files that were made, and what ended the making, '' if nothing did."""

    made: list[Path]
    problem: str


class WorkspaceTemplates:
    """The templates of a home's pages, and what its owner knows of them.

    `seeds.json` in the home keeps, by the name of the page, the template that its owner knows: what it names is not
    created again, and what a newer template has more or less is offered.
    """

    def __init__(self, home: Path, templates: Path) -> None:
        self._workspace, self._home, self._templates = home / "workspace", home, templates
        self._list = home / "seeds.json"

    def list_new(self) -> list[str]:
        """Name the pages that were never created; raises ConfigError when that cannot be known."""
        known = self._read_known()
        return [name for name in TEMPLATE_PAGES if name not in known]

    def list_missing(self) -> list[str]:
        """Name those that were never created and are not there; raises ConfigError."""
        return [name for name in self.list_new() if not os.path.lexists(self._workspace / name)]

    def is_home_fresh(self) -> bool:
        """Tell whether nobody has used this home yet."""
        pages = (self._workspace / name for name in TEMPLATE_PAGES)
        return not any(map(os.path.lexists, (*pages, self._home / "state.db", self._list)))

    def create(self, names: Iterable[str]) -> CreatedFiles:
        """Create those of the pages whose name is not taken, up to the first that cannot be made."""
        made: list[Path] = []
        known: dict[str, str] = {}
        problem, path = "", self._workspace
        with suppress(ConfigError):
            known = self._read_known()
        after = dict(known)
        try:
            for name in names:
                path, template = self._workspace / name, self._read_template(name)
                if self._create_page(path, template):
                    made.append(path)
                    after[name] = template
                elif name not in known or self._is_known(name, known[name]):
                    after[name] = template
        except OSError as error:
            problem = f"{path} cannot be made: {explain_os_error(error)}"
        listed, unlisted = self._save_known(known, after)
        return CreatedFiles([*made, *listed], problem or unlisted)

    def list_changed(self) -> list[str]:
        """Name the owner's pages that lack something of a newer template; raises ConfigError."""
        known = self._read_known()
        pages = (*TEMPLATE_PAGES, ONBOARDING_PAGE)
        return [name for name in pages if name in known and self._is_known(name, known[name]) is False]

    def diff(self, name: str) -> bytes:
        """Show how a page would have what is new in its template, as `patch -p0` in the workspace takes it."""
        import difflib

        own = self._read_page(name) or b""
        texts = own, self._merge(own, name, self._read_known()[name])
        old, new = (re.findall(rb"[^\n]*\n|[^\n]+", text) for text in texts)  # the last line may have no end
        shown = difflib.diff_bytes(difflib.unified_diff, old, new, name.encode(), name.encode())
        return b"".join(line if line.endswith(b"\n") else line + _NO_NEWLINE for line in shown)

    def accept(self, names: Iterable[str]) -> CreatedFiles:
        """Mark the newest templates of these pages as known, so that their changes are not offered again."""
        known = self._read_known()
        return CreatedFiles(*self._save_known(known, known | {name: self._read_template(name) for name in names}))

    def _create_page(self, path: Path, template: str) -> bool:
        if not Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(self._workspace)):
            raise OSError(f"{path.parent} is a link that leads out of the workspace")
        make_folder(path.parent)
        return create_file(path, template.encode(errors="surrogateescape"))

    def _read_template(self, name: str) -> str:
        return (self._templates / name).read_bytes().decode(errors="surrogateescape")

    def _read_page(self, name: str) -> bytes | None:
        """The owner's page as it is, None when there is none that could be compared."""
        try:
            return read_bytes(self._workspace / name, MAX_WHOLE_BYTES)
        except ConfigError:
            return None

    def _is_known(self, name: str, known: str) -> bool | None:
        """Whether its owner knows what is new in the template, or the page has it; None without a page to compare."""
        if known == self._read_template(name):
            return True
        own = self._read_page(name)
        return None if own is None else self._merge(own, name, known) == own

    def _merge(self, own: bytes, name: str, known: str) -> bytes:
        return _merge_template(own, known.encode(errors="surrogateescape"), (self._templates / name).read_bytes())

    def _save_known(self, before: dict[str, str], after: dict[str, str]) -> tuple[list[Path], str]:
        try:
            if after == before:
                return [], ""
            write_atomic(self._list, json.dumps(after, indent=1).encode() + b"\n")
        except OSError as error:
            return [], f"{self._list} cannot be written: {explain_os_error(error)}"
        return [self._list], ""

    def _read_known(self) -> dict[str, str]:
        """The templates of what was created; raises ConfigError."""
        try:
            known = json.loads(read_bytes(self._list, MAX_WHOLE_BYTES) or b"{}")
        except (ValueError, RecursionError):
            known = None
        if not (isinstance(known, dict) and all(isinstance(text, str) for text in known.values())):
            raise ConfigError(f"{self._list} is damaged; `picoclaw init` rewrites it")
        pages = {*TEMPLATE_PAGES, ONBOARDING_PAGE}
        digests = [name for name in known if name in pages and _DIGEST.fullmatch(known[name])]
        return known | {name: self._read_template(name) for name in digests}  # an older list has no texts


def read_onboarding(home: Path, *, tidy: bool = True, templates: Path | None = None) -> str:
    """Return what the first meeting is held by, '' when it is over; raises ConfigError for a page that is none.

    A page that says nothing ends it, and is deleted by `tidy`. In a fresh home it is the template that will be seeded.
    """
    workspace, source = home / "workspace", templates or find_shipped("templates") / "workspace"
    path = workspace / ONBOARDING_PAGE
    found = read_text(path, MAX_PAGE_BYTES, workspace)
    if found is None and WorkspaceTemplates(home, source).is_home_fresh():
        found = read_text(source / ONBOARDING_PAGE, MAX_PAGE_BYTES)
    said = remove_hidden(found or "", trusting=True).strip()
    if found is not None and tidy and not said:
        # Where the disk does not let us, an empty page says as much as none. One that nobody may write keeps a command
        # that runs from making another, and goes with it.
        with suppress(OSError):
            if path.stat().st_mode & 0o200:
                path.unlink()
                sync_folder(path.parent)
    return said


def find_onboarding(home: Path, *, tidy: bool = True) -> str:
    """Return the onboarding page, '' if onboarding is over or the page cannot be read."""
    try:
        return read_onboarding(home, tidy=tidy)
    except ConfigError:
        return ""

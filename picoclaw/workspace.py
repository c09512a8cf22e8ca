"""The owner's folders, files and pages: seeded from templates, never overwritten, compared with newer templates, read for a model.

A model is told the pages without what was never filled in. An owner may have put anything in the place of a text file:
reading never waits, and takes no more memory than is allowed.
"""

import codecs
import json
import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from picoclaw.errors import ConfigError, StoreError, explain_syntax
from picoclaw.files import create_file, explain_os_error, find_shipped, make_folder, sync_folder, write_atomic
from picoclaw.markdown import blank_comments, describe_hidden, find_hidden, remove_hidden
from picoclaw.prompts import Page
from picoclaw.records import NamedTuple
from picoclaw.text import diff_texts, pattern, remove_invisible
from picoclaw.times import find_zone

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
            part, whole = (b"".join(b"\n" + line for line in [*one, b""]) for one in (after[first:last], plain))
            if part not in whole:
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

    def __init__(self, home: Path, templates: Path | None = None) -> None:
        self._workspace, self._home = home / "workspace", home
        self._templates = templates or find_shipped("templates") / "workspace"
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
        own = self._read_page(name) or b""
        new = self._merge(own, name, self._read_known()[name])
        old, merged = (text.decode(errors="surrogateescape") for text in (own, new))
        return diff_texts(old, merged, name, name).encode(errors="surrogateescape")

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


def read_onboarding(home: Path, *, tidy: bool = True) -> str:
    """Return what the first meeting is held by, '' when it is over; raises ConfigError for a page that is none.

    A page that says nothing ends it, and is deleted by `tidy`. In a fresh home it is the template that will be seeded.
    """
    path = home / "workspace" / ONBOARDING_PAGE
    found = read_text(path, MAX_PAGE_BYTES, path.parent)
    if found is None and WorkspaceTemplates(home).is_home_fresh():
        found = read_text(find_shipped("templates") / "workspace" / ONBOARDING_PAGE, MAX_PAGE_BYTES)
    if found is None:
        return ""
    said = remove_hidden(found, trusting=True).strip()
    if tidy and not said:
        # Where the disk does not let us, an empty page says as much as none. One that nobody may write keeps a command
        # that runs from making another, and goes with it.
        with suppress(OSError):
            if path.stat().st_mode & 0o200:
                path.unlink()
                sync_folder(path.parent)
    return said


def find_onboarding(home: Path) -> str:
    """Return the onboarding page, '' if onboarding is over or the page cannot be read."""
    try:
        return read_onboarding(home)
    except ConfigError:
        return ""


PAGES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "MEMORY.md")
"""What is shown in every turn, in this order; HEARTBEAT.md is for those who ask for it."""

_NOTES_PAGES = ("memory/MEMORY.md", "MEMORY.md", "memory.md")
"""What each person has in their own workspace."""

_MAX_VALUE_CHARS = 200
_MAX_PROMPT_BYTES = 64_000
_PROMPT_NAME = pattern(r"[a-z_0-9]+")
_TOOL_PROMPT = pattern(r"tool_([a-z_0-9]+)\.md")

_PLACES = {"MEMORY.md": ("memory/MEMORY.md", "MEMORY.md", "memory.md")}
_HEADING = pattern(r" {0,3}(#{1,6})(?:\s|$)")
_FENCE = pattern(r" {0,3}(```|~~~)")
_FIELD = pattern(r"[-*+] +(?! )(?:\*\*)?([^:*\n]{1,60})(?:\*\*)?:(?:\*\*)?(.*)")
_EMPTY_VALUES = {"", "-"}
_BODY_LEVEL = 7  # below every heading
_UNFILLED = pattern(r"^[ \t]*[-*+] [^\n]*:(?:\*\*)?[ \t]*-?[ \t]*$", re.MULTILINE)


class OwnPages(Protocol):
    """The pages that are a person's own, by their `names`; those of `private` are never taken from the agent's."""

    names: frozenset[str]
    private: frozenset[str]

    def read(self, name: str) -> str | None:
        """Return what a page says, None when the person has none. Raises StoreError."""


class Pages:
    """The pages of one home, each read again when its file has changed."""

    def __init__(self, home: Path, shared: "Pages | None" = None, own: OwnPages | None = None) -> None:
        """Reads nothing yet.

        With `shared`, `home` is a person's part of a home, or of an agent's folder, which has their notes; all other pages
        are the shared ones. Before either come those of `own`.
        """
        workspace, source = home / "workspace", find_shipped("templates") / "workspace"
        self._home, self._workspace, self._source = home, workspace, source
        self._seeds = WorkspaceTemplates(home)
        self._own = TextFiles(workspace, MAX_PAGE_BYTES, workspace, self._clean)
        self._templates = TextFiles(source, MAX_PAGE_BYTES, clean=self._clean)
        self._problems: dict[str, str] = {}
        self._personal = own
        self.shared = shared

    @property
    def problems(self) -> list[str]:
        """Why pages that were asked for are not shown, as far as they still are not."""
        return list(self._problems.values())

    def pages(self, names: Sequence[str] = PAGES, *, for_all: bool = False) -> list[Page]:
        """Return the pages that say something, by their path in the workspace; raises nothing for what a file is.

        MEMORY.md stands for memory/MEMORY.md and for one beside the other pages. A page that was never seeded reads
        as the template that it would be seeded from. `for_all` leaves out what is a person's own.
        """
        places = [place for name in names for place in _PLACES.get(name, (name,))]
        return [Page(place, text) for place in places if (text := self.read(place, for_all=for_all))]

    def read_onboarding(self, *, tidy: bool = True) -> str:
        """Return the onboarding page, '' if onboarding is over. `tidy` deletes an empty page."""
        self._problems.pop(ONBOARDING_PAGE, None)
        try:
            if self._personal:
                return remove_hidden(self._read_own(ONBOARDING_PAGE) or "", trusting=True).strip()
            return read_onboarding(self._home, tidy=tidy)
        except ConfigError as error:
            self._problems[ONBOARDING_PAGE] = str(error)
            return ""

    def is_shipped_onboarding(self) -> bool:
        """Whether onboarding is open with the unchanged shipped page."""
        try:
            shipped = read_text(self._source / ONBOARDING_PAGE, MAX_PAGE_BYTES) or ""
        except ConfigError:
            return False
        usual = remove_hidden(shipped, trusting=True).strip()
        return bool(usual) and self.read_onboarding(tidy=False) == usual

    def describe_left_out(self, names: Sequence[str] = PAGES) -> list[str]:
        """Describe what of the pages is left out: comments, invisible characters, and fields that are not filled in."""
        found: list[str] = []
        places = [place for name in names for place in _PLACES.get(name, (name,))]
        for name in places:
            try:
                text = self._read_own(name)
                if text is None:
                    text = read_text(self._workspace / name, MAX_PAGE_BYTES, self._workspace)
            except ConfigError:
                continue  # which `problems` says
            found += [f"{name} {what}" for what in _describe_left_out(text or "", self._fields(name, text or ""))]
        return found

    def _clean(self, name: str, text: str) -> str:
        return clean_page(text, self._fields(name, text))

    def _fields(self, name: str, text: str) -> frozenset[str]:
        """The fields of a page's template that its owner is to fill in; read only where one seems to be empty."""
        if name not in TEMPLATE_PAGES or not _UNFILLED.search(remove_hidden(text, trusting=True)):
            return frozenset()
        try:
            lines = (self._source / name).read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise ConfigError(
                f"{self._source / name} cannot be read: {explain_os_error(error)}; reinstall picoclaw"
            ) from None
        return frozenset(field[1].rstrip() for line in lines if (field := _FIELD.fullmatch(line.strip())))

    def _read_own(self, name: str) -> str | None:
        """What a person's own page says; raises ConfigError."""
        if not self._personal or name not in self._personal.names:
            return None
        try:
            return self._personal.read(name)
        except StoreError as error:
            raise ConfigError(f"{name} cannot be read: {error}") from None

    def read(self, name: str, *, for_all: bool = False) -> str:
        """Return what a page says, by its path in the workspace; '' for one that says nothing, or cannot be read."""
        self._problems.pop(name, None)
        try:
            if not for_all and (own := self._read_own(name)) is not None:
                return self._clean(name, own)
            private = self._personal.private if self._personal else ()
            if self.shared and name not in _NOTES_PAGES and name not in private:
                return self.shared.read(name)
            text = self._own.get(name)
            if text is None and name in TEMPLATE_PAGES and name in self._seeds.list_new():
                text = self._templates.get(name)
        except ConfigError as error:
            self._problems[name] = str(error)
            return ""
        return text or ""


class Prompts:
    """The owner's wording where there is one (`prompts/NAME.md` in the workspace), else the shipped one.

    Comments are for people and left out. A file of the owner's that changes is seen the next time it is asked for; the
    shipped ones are read once. In the place of one that cannot be read the shipped wording serves, so that no slip of the
    owner's ends a turn.
    """

    def __init__(self, workspace: Path) -> None:
        """Reads nothing yet."""
        self._folder = workspace / "prompts"
        self._source = find_shipped("templates") / "prompts"
        self._own = TextFiles(self._folder, _MAX_PROMPT_BYTES, workspace, _clean_prompt)
        self._shipped = TextFiles(self._source, _MAX_PROMPT_BYTES, clean=_clean_prompt)
        self._shipped_texts: dict[str, str | None] = {}
        self._listed: frozenset[str] | None = None
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """Why files of the owner's that were asked for are not used, as far as they still are not."""
        return list(self._problems.values())

    @contextmanager
    def hold(self) -> Iterator[None]:
        """List the owner's files once for what is asked for inside, of which a turn asks dozens; a new one is seen later."""
        try:
            self._listed = frozenset(path.name for path in self._folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            self._listed = frozenset()
        except OSError:
            self._listed = None
        try:
            yield
        finally:
            self._listed = None  # also for another thread, which looks for each name then

    def __getitem__(self, name: str) -> str:
        """Return a template's text; raises ConfigError when there is none."""
        found = self.get(name)
        if found is None:
            raise ConfigError(f"the prompt template {name}.md is missing; reinstall picoclaw")
        return found

    def get(self, name: str) -> str | None:
        """Return a template's text, None when there is none of that name; raises ConfigError for what is no name."""
        if not _PROMPT_NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be a prompt template's name; use small letters, digits and _")
        self._problems.pop(name, None)
        listed, file = self._listed, f"{name}.md"
        if listed is None or file in listed:
            try:
                if (own := self._own.get(file)) is not None:
                    return own
            except ConfigError as error:
                self._problems[name] = f"{error}; until then picoclaw's own wording is used"
        if name not in self._shipped_texts:
            self._shipped_texts[name] = self._shipped.get(file)
        return self._shipped_texts[name]

    def overridden(self) -> list[Path]:
        """List the owner's files; raises ConfigError when the folder cannot be read."""
        try:
            return sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be read: {explain_os_error(error)}") from None

    def unknown(self, tools: Collection[str] | None = None) -> list[Path]:
        """List those of the owner's files that nothing asks for: no template has that name, and none of the tools."""
        names = {path.name for path in self._source.iterdir()}
        others = [path for path in self.overridden() if path.name not in names]
        return [
            path
            for path in others
            if not (tool := _TOOL_PROMPT.fullmatch(path.name)) or (tools is not None and tool[1] not in tools)
        ]


def _clean_prompt(_: str, text: str) -> str:
    return remove_hidden(text, trusting=True).strip("\n")


def read_fields(text: str) -> dict[str, str]:
    """Read the lines `- Name: Ada` of a page; values are cut to 200 characters, those that say nothing left out."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        match = _FIELD.fullmatch(line.strip())
        value = " ".join(match[2].split()) if match else ""
        if match and value not in _EMPTY_VALUES:
            found.setdefault(match[1].rstrip(), value[:_MAX_VALUE_CHARS])
    return found


def get_owner_time(home: Path, at: float | None = None) -> datetime:
    """A moment in seconds since 1970, or now, in the time zone that USER.md names, else in the board's."""
    zone = find_zone(read_fields("\n".join(page.text for page in Pages(home).pages(["USER.md"]))))[0]
    return (datetime.now() if at is None else datetime.fromtimestamp(at)).astimezone(zone)  # noqa: DTZ005, DTZ006


def clean_page(text: str, template: Collection[str] = ()) -> str:
    """Leave out comments, blank lines in a row, and of the fields of the `template` those that are empty or '-'."""
    lines = remove_hidden(text, trusting=True).split("\n")
    return _join_lines(lines, set(_find_unfilled(lines, template)))


def remove_empty(text: str) -> str:
    """Leave out comments, blank lines in a row, every empty field, and the headings with nothing under them."""
    lines = remove_hidden(text, trusting=True).split("\n")
    empty, code, below = set(_find_unfilled(lines, None)), _mark_code(lines), 0
    for number in range(len(lines) - 1, -1, -1):
        heading = None if code[number] else _HEADING.match(lines[number])
        if heading and below <= len(heading[1]):
            empty.add(number)
        elif lines[number].strip() and number not in empty:
            below = len(heading[1]) if heading else _BODY_LEVEL
    return _join_lines(lines, empty)


def _join_lines(lines: Sequence[str], left_out: Collection[int]) -> str:
    code, kept = _mark_code(lines), list[str]()
    for number, line in enumerate(lines):
        blank = not line.strip()
        if number not in left_out and (code[number] or not blank or kept[-1:] not in ([], [""])):
            kept.append("" if blank else line)
    return "\n".join(kept).strip("\n")


def _find_unfilled(lines: Sequence[str], template: Collection[str] | None) -> Iterator[int]:
    """Find the fields of a template, None for all, that have no value, also none in the lines that follow."""
    code = _mark_code(lines)
    below = len(lines)
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        field = None if code[number] else _FIELD.fullmatch(line.strip())
        empty = field and field[2].strip() in _EMPTY_VALUES and _is_template_field(field, template)
        if empty and (below == len(lines) or (not code[below] and _ends_field(line, lines[below], template))):
            yield number
        if line.strip():
            below = number


def _is_template_field(field: re.Match[str], template: Collection[str] | None) -> bool:
    return template is None or field[1].rstrip() in template


def _ends_field(line: str, below: str, template: Collection[str] | None) -> bool:
    """Whether the next line that says something is a heading or a field of the template, and no value of this one."""
    if _HEADING.match(below):
        return True
    field = _FIELD.fullmatch(below.strip())
    indents = [len(text) - len(text.lstrip()) for text in (line, below)]
    return field is not None and _is_template_field(field, template) and indents[1] <= indents[0]


def _describe_left_out(text: str, template: Collection[str]) -> Iterator[str]:
    """Say what `cleaned` leaves out of a text, and in which lines."""
    ends = [number for number, char in enumerate(text) if char == "\n"]
    for start, end, what in find_hidden(text, trusting=True):
        first, last = (bisect_left(ends, at) + 1 for at in (start, end - 1))
        yield f"line {first}: {what}" if first == last else f"lines {first}-{last}: {what}"
    lines = remove_invisible(blank_comments(text)).split("\n")
    yield from (f"line {n + 1}: not filled in: {lines[n].strip()}" for n in sorted(_find_unfilled(lines, template)))
    yield from (what for what in describe_hidden(text, trusting=True) if "invisible" in what)


def _mark_code(lines: Sequence[str]) -> list[bool]:
    """Which lines are in a fenced block; a comment of a shell is no heading."""
    marks, fence = [], ""
    for line in lines:
        found = _FENCE.match(line)
        marks.append(bool(fence or found))
        if found and fence in {"", found[1]}:
            fence = "" if fence else found[1]
    return marks


MACHINE_OUTPUTS = Path("/etc/picoclaw/outputs.toml")
"""Wins entirely over the one in the home folder when it is there."""

_OWN_FILES = ("config.toml", "secrets.toml", "policy.toml", "outputs.toml", "seeds.json", "state.db")
_MAX_TABLE_BYTES = 1_000_000


def prepare_home(
    home: Path, *, restore: bool = False, meeting: bool = False, templates: Path | None = None
) -> CreatedFiles:
    """Make the home (mode 0700), the workspace, and the pages in it that were never seeded; returns what was made.

    `restore` makes the pages that the owner has deleted as well, and the commented config.toml and policy.toml; a home
    without them works, and starts faster. `meeting` brings the first meeting back. Raises ConfigError when there can be
    no home or no workspace; where only pages cannot be made, the templates serve and the problem is returned.
    """
    if is_namesakes_home(home):
        raise ConfigError(
            f"{home} is the home of another program of this name, sipeed/picoclaw: `picoclaw migrate --from picoclaw` moves"
            " it aside and takes over from it; or set PICOCLAW_HOME to another folder"
        )
    made = []
    for folder in (home, home / "workspace"):
        try:
            if not folder.is_dir():
                make_folder(folder)
                made.append(folder)
        except OSError as error:
            raise ConfigError(
                f"{folder} cannot be made: {explain_os_error(error)}; or set PICOCLAW_HOME to another folder"
            ) from None
    seeds = WorkspaceTemplates(home, templates)
    try:
        names = list(TEMPLATE_PAGES) if restore else seeds.list_new()
    except ConfigError as error:
        return CreatedFiles(made, str(error))
    if meeting:
        find_onboarding(home)
    if meeting or (names and seeds.is_home_fresh()):
        names.insert(0, ONBOARDING_PAGE)  # as long as it alone is there, the home is still a fresh one
    created = seeds.create(names) if names else CreatedFiles([], "")
    made += created.made
    for path in (home / "config.toml", home / "policy.toml") if restore else ():
        try:
            if create_file(path, (find_shipped("templates") / path.name).read_bytes()):
                made.append(path)
        except OSError as error:
            return CreatedFiles(made, created.problem or f"{path} cannot be made: {explain_os_error(error)}")
    return CreatedFiles(made, created.problem)


def prepare_folder(folder: Path, names: Collection[str] = TEMPLATE_PAGES) -> CreatedFiles:
    """Make the workspace of an agent, or of a member of the household, with those of these pages that were never made."""
    try:
        make_folder(folder / "workspace" / "memory")
    except OSError as error:
        raise ConfigError(f"{folder} cannot be made: {explain_os_error(error)}") from None
    seeds = WorkspaceTemplates(folder)
    new = [name for name in seeds.list_new() if name in names]
    return seeds.create(new) if new else CreatedFiles([], "")


def is_namesakes_home(home: Path) -> bool:
    """Whether a folder is sipeed/picoclaw's, which has the same name as ours, and nothing of ours is in it yet."""
    return os.path.lexists(home / "config.json") and not is_own_home(home)


def is_own_home(home: Path) -> bool:
    """Whether anything in a folder shows that it is a home of this picoclaw."""
    return any(os.path.lexists(home / name) for name in _OWN_FILES)


def examine_workspace(home: Path) -> Iterator[tuple[str, str]]:
    """List problems of the workspace and their fixes; changes nothing."""
    seeds, pages, prompts = WorkspaceTemplates(home), Pages(home), Prompts(home / "workspace")
    pages.pages((*PAGES, "HEARTBEAT.md", ONBOARDING_PAGE))
    yield from ((problem, "until then no model is shown it") for problem in pages.problems)
    try:
        if missing := seeds.list_missing():
            yield f"not created yet, so the built-in text is used for: {', '.join(missing)}", "picoclaw init"
        if changed := seeds.list_changed():
            yield (
                f"picoclaw's text has changed for {', '.join(changed)}",
                "picoclaw init --diff, or picoclaw init --keep",
            )
        unknown = prompts.unknown()
        for path in prompts.overridden():
            if path in unknown:
                yield f"{path} is not used: no template has that name", "rename or remove it"
            else:
                prompts.get(path.stem)
        yield from ((problem, "") for problem in prompts.problems)
    except ConfigError as error:
        yield str(error), ""


def diff_templates(home: Path, templates: Path | None = None) -> bytes:
    """Show what is new in the templates of the owner's pages, for `patch -p0`; raises ConfigError."""
    seeds = WorkspaceTemplates(home, templates)
    return b"".join(seeds.diff(name) for name in seeds.list_changed())


def keep_pages(home: Path) -> list[str]:
    """Keep the owner's pages, and offer the present changes of the templates no more; returns their names. Raises ConfigError."""
    seeds = WorkspaceTemplates(home)
    changed = seeds.list_changed()
    if problem := seeds.accept(changed).problem:
        raise ConfigError(problem)
    return changed


def list_intent_files(home: Path, language: str = "en") -> list[Path]:
    """List what the matcher knows in a language: the shipped files, then the owner's `intents/`. Raises ConfigError.

    The owner's `de.toml` and `mine.de.toml` are German; a name that ends in no language is English.
    """
    shipped = find_shipped("templates") / "intents"
    known = list_languages()
    endings = ((path, path.stem.rpartition(".")[2]) for path in _list_toml_files(home / "intents"))
    own = [path for path, ending in endings if (ending if ending in known else "en") == language]
    return [shipped / "en.toml", *([] if language == "en" else [shipped / f"{language}.toml"]), *own]


def list_languages() -> list[str]:
    return [path.stem for path in _list_toml_files(find_shipped("templates") / "intents")]


def read_intent_tables(files: Sequence[Path]) -> list[dict[str, Any]]:
    """Read the tables in files for the matcher. Raises ConfigError."""
    import tomllib

    tables = []
    for path in files:
        try:
            tables.append(tomllib.loads((read_bytes(path, _MAX_TABLE_BYTES) or b"").decode()))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} cannot be read: {explain_syntax(error)}") from None
    return tables


def _list_toml_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read: {explain_os_error(error)}") from None


def find_outputs_file(home: Path) -> Path:
    """Return the file that declares the outputs: the machine's, which root alone can write, or the home's."""
    return MACHINE_OUTPUTS if MACHINE_OUTPUTS.exists() else home / "outputs.toml"

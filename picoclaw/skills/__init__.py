"""Skills: folders with a SKILL.md that tell the model how to do something; found, checked, chosen.

What was read of the skills of every tier is kept in a cache, so that a start parses only what changed. Says also whether
this machine has what a skill needs, and which skills a turn is shown.
"""

import contextlib
import json
import os
import re
import shutil
import stat
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Any

from picoclaw import __version__, files
from picoclaw.errors import SkillError
from picoclaw.files import explain_os_error, find_shipped, make_folder, read_file, write_atomic
from picoclaw.markdown import describe_hidden, remove_hidden
from picoclaw.prompts import count_bytes, estimate_tokens
from picoclaw.records import NamedTuple, dataclass, field
from picoclaw.schema import find_nearest
from picoclaw.text import bm25, fold_case, pattern, remove_invisible


class SkillNeeds(NamedTuple):
    """What has to be there, all of it. In a name, `a|b` is one of these; so is an inner tuple of programs."""

    tools: tuple[str, ...] = ()
    programs: tuple[tuple[str, ...], ...] = ()
    devices: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """What nobody can check here, in words: a setting of another program, a kind of need that has no meaning."""


class Skill(NamedTuple):
    """A skill that can be read.

    `name` is its handle and unique among those in use, `tier` where it was found. A turn that one of its `triggers`
    brought it into is offered only its `tools`, and goes to its `model`. `notes` are remarks for people. `keywords` are
    the words that its text begins with, for the search alone. One that is not `listed` comes by its triggers only.
    """

    name: str
    description: str
    folder: Path
    tier: str
    triggers: tuple[str, ...] = ()
    needs: SkillNeeds = SkillNeeds()
    tools: tuple[str, ...] = ()
    model: str = ""
    notes: tuple[str, ...] = ()
    keywords: str = ""
    listed: bool = True


class BrokenSkill(NamedTuple):
    """A folder with a SKILL.md that cannot be used, and why."""

    folder: Path
    tier: str
    problem: str


class SkillContext(NamedTuple):
    """What this machine has: tools, names of the configured sensors' drivers, the environment that `exec` gives on."""

    tools: frozenset[str]
    parts: frozenset[str]
    environment: Mapping[str, str]
    root: str = "/"


def describe_unmet_needs(skill: Skill, here: SkillContext) -> str:
    """Say what the skill needs and this machine lacks; '' when it can be used."""
    needs, path, root = skill.needs, here.environment.get("PATH", os.defpath), Path(here.root)
    programs = tuple("|".join(names) for names in needs.programs)
    kinds: tuple[tuple[str, tuple[str, ...], Callable[[str], object]], ...] = (
        ("the tool", needs.tools, here.tools.__contains__),
        ("the program", programs, lambda name: which(name, path=path)),
        ("the device", needs.devices, lambda name: any(root.glob(name.lstrip("/")))),
        ("a sensor", needs.parts, here.parts.__contains__),
        ("the environment variable", needs.environment, here.environment.get),
        ("the system", ("|".join(needs.systems),) if needs.systems else (), "linux".__eq__),
    )
    lacking = [
        f"{kind} {name.replace('|', ' or ')}"
        for kind, names, there in kinds
        for name in names
        if not any(there(choice) for choice in name.split("|"))
    ]
    if needs.programs and "exec" not in here.tools and "exec" not in needs.tools:
        lacking.append("the tool exec to run programs with")
    lacking += needs.others
    return f"needs {', '.join(lacking)}" if lacking else ""


# A SKILL.md as text: where its front matter ends, and what of the rest a model reads.

_MAX_FRONT_CHARS = 16_384

_OPENING = pattern(r"---[ \t]*\n")
_CLOSING = pattern(r"^---[ \t]*$", re.MULTILINE)

_BASE_FOLDER = pattern(r"\{baseDir\}|\$\{CLAUDE_SKILL_DIR\}")


def split_skill(text: str) -> tuple[str, str]:
    """Split a SKILL.md into its front matter and its body. Raises SkillError."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    opening = _OPENING.match(text)
    if not opening:
        raise SkillError("it does not begin with front matter: a line ---, name and description, a line ---")
    closing = _CLOSING.search(text, opening.end())
    if not closing:
        raise SkillError("the front matter has no closing line ---")
    front = text[opening.end() : closing.start()]
    if len(front) > _MAX_FRONT_CHARS:
        raise SkillError(f"the front matter has {len(front)} characters; at most {_MAX_FRONT_CHARS} are read")
    return front, text[closing.end() :]


def extract_body(text: str, folder: Path) -> str:
    """Return what a model reads: no front matter, nothing that a person would not see, the folder's path put in."""
    return _BASE_FOLDER.sub(lambda _: str(folder), remove_hidden(split_skill(text)[1])).strip()


def describe_left_out(text: str) -> str:
    """Say what `extract_body` leaves out because a person would not see it; '' for nothing."""
    return ", ".join(describe_hidden(split_skill(text)[1]))


# Which skills a turn is shown: a listing of all, those whose trigger was said, or the best of a search.

_MAX_LISTING_BYTES = 30_720
_MAX_LISTED = 20
_MAX_LISTING_TOKENS = 3_500
_MAX_TRIGGERED = 3
_TEXT_WEIGHT = 0.3

_FIRST_UNSPACED_CHAR = "\u2e80"  # from here on are scripts that do not put spaces between words


def format_listing(skills: Iterable[Skill]) -> str:
    """List the skills a line each, as many as go into 30 KB."""
    lines: list[str] = []
    room = _MAX_LISTING_BYTES
    for line in _list_lines(skills):
        room -= count_bytes(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _list_lines(skills: Iterable[Skill]) -> list[str]:
    return [f"- {skill.name}: {skill.description}" for skill in skills if skill.listed]


def fits_prompt(skills: Sequence[Skill], bytes_a_token: float) -> bool:
    """Tell whether the listing may stand in the prompt; otherwise skills are searched for."""
    lines = _list_lines(skills)
    whole = sum(count_bytes(line) + 1 for line in lines)
    few = len(lines) <= _MAX_LISTED and whole <= _MAX_LISTING_BYTES
    return few and estimate_tokens(whole, bytes_a_token) <= _MAX_LISTING_TOKENS


def find_triggered(skills: Iterable[Skill], text: str) -> list[Skill]:
    """Find the skills of which a trigger is in the text in whole words; the longest trigger first, at most 3."""
    said = _fold_text(text)
    found = {
        skill: length
        for skill in skills
        if (length := max((len(one) for one in skill.triggers if _has_phrase(_fold_text(one), said)), default=0))
    }
    return sorted(found, key=lambda skill: (-found[skill], skill.name))[:_MAX_TRIGGERED]


def _fold_text(text: str) -> str:
    return " ".join(fold_case(text).split())


def _has_phrase(trigger: str, text: str) -> bool:
    at = text.find(trigger) if trigger else -1
    while at >= 0:
        end = at + len(trigger)
        if not _is_one_word(text[at - 1 : at], trigger[0]) and not _is_one_word(trigger[-1], text[end : end + 1]):
            return True
        at = text.find(trigger, at + 1)
    return False


def _is_one_word(before: str, after: str) -> bool:
    """Tell whether two neighbouring characters belong to one word."""
    return all(char.isalnum() and char < _FIRST_UNSPACED_CHAR for char in (before, after))


def search_skills(
    skills: Iterable[Skill],
    query: str,
    most: int = 5,
    combine: Callable[[str, Mapping[str, float]], Mapping[str, float]] = lambda _, words: words,
) -> list[tuple[Skill, float]]:
    """Find the listed skills that fit a query, the best first, with their scores.

    The words of a skill's text count for 0.3 of those of its name, description and triggers. `combine` makes one score of
    those of the words, by name, and of what else it knows.
    """
    listed = [skill for skill in skills if skill.listed]
    heads = bm25(query, [f"{skill.name} {skill.description} {' '.join(skill.triggers)}" for skill in listed])
    texts = bm25(query, [skill.keywords for skill in listed])
    scores = (head + _TEXT_WEIGHT * text for head, text in zip(heads, texts, strict=True))
    words = {skill.name: score for skill, score in zip(listed, scores, strict=True) if score > 0}
    found = combine(query, words)
    ranked = sorted(listed, key=lambda skill: (-found.get(skill.name, 0.0), skill.name))
    return [(skill, found[skill.name]) for skill in ranked if found.get(skill.name, 0.0) > 0][:most]


FileStamp = tuple[int, int, int]
"""Time of change in ns, size and inode of a SKILL.md."""

CachedSkill = tuple[FileStamp, Skill | str]
"""What a file of that stamp held: a skill, or the problem with it."""

_CACHE_VERSION = 3


def _load_cache(path: Path) -> dict[str, CachedSkill]:
    """Read what is known, by the paths of the files."""
    try:
        head, _, rows = read_file(path).partition(b"\n")
        if head != _make_cache_header(rows):
            return {}
        found = json.loads(rows)
        return {file: ((changed, size, inode), _unpack(one)) for file, (changed, size, inode), one in found}
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def _save_cache(path: Path, known: Mapping[str, CachedSkill]) -> None:
    """Save the cache; errors of the disk are ignored."""
    packed = [
        [file, stamp, found if isinstance(found, str) else found[:2] + found[4:]]  # without its folder and tier
        for file, (stamp, found) in known.items()
    ]
    rows = json.dumps(packed).encode()
    with contextlib.suppress(OSError):
        write_atomic(path, _make_cache_header(rows) + b"\n" + rows)


def _make_cache_header(rows: bytes) -> bytes:
    return f"picoclaw {__version__} skills {_CACHE_VERSION} {crc32(rows):08x}".encode()


def _unpack(record: Any) -> Skill | str:
    if isinstance(record, str):
        return record
    name, description, triggers, (needed_tools, programs, *rest), tools, model, notes, keywords, listed = record
    needs = SkillNeeds(tuple(needed_tools), tuple(map(tuple, programs)), *map(tuple, rest))
    texts = tuple(triggers), needs, tuple(tools), model, tuple(notes)
    return Skill(name, description, Path(), "", *texts, keywords, listed)


BUILT_IN, GRANTED = "built-in", "granted"
PINNED_FOLDER = "pinned"
"""In the home: the versions of skills that agents were granted, by agent and name."""

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 262_144
_MAX_SKILLS = 150
_MAX_FOLDERS = 500

_MISSPELT = ("skill.md", "Skill.md", "SKILL.MD", "SKILLS.md")
_LOOKALIKES = str.maketrans("01i", "oll", "_-")


def list_tiers(workspace: Path, home: Path, user: Path, built_in: Path) -> list[tuple[str, Path]]:
    """Name the folders of skills, the highest first; one that is the same as a higher one is left out."""
    named = [
        ("workspace", workspace / "skills"),
        ("workspace/.agents", workspace / ".agents/skills"),
        ("~/.agents", user / ".agents/skills"),
        ("home", home / "skills"),
        (BUILT_IN, built_in),
    ]
    folders = [folder for _, folder in named]
    return [row for i, row in enumerate(named) if row[1] not in folders[:i]]


def list_home_tiers(home: Path) -> list[tuple[str, Path]]:
    """Name the folders of skills of a home, of the user who runs this and of this picoclaw."""
    user = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() fails where nobody has a home
    return list_tiers(home / "workspace", home, user, find_shipped("templates") / "skills")


def read_skill(folder: Path, root: Path = Path("/")) -> Skill:
    """Read the skill in a folder below `root`; its tier is ''.

    Raises SkillError, and OSError when the disk does not give it.
    """
    from picoclaw.skills import frontmatter

    return frontmatter.parse_skill(_read_skill_file(folder / SKILL_FILE, root), folder)


def _read_skill_file(path: Path, root: Path) -> str:
    place = files.resolve_below(os.path.realpath(root), str(path))
    if place is None:
        raise SkillError(f"it is a symbolic link that leads out of {root}")
    about = files.stat_rooted(place)
    if about and not stat.S_ISREG(about.st_mode):
        raise SkillError(f"{SKILL_FILE} is not a regular file")
    if about and about.st_size > MAX_SKILL_BYTES:
        raise SkillError(f"{SKILL_FILE} has {about.st_size} bytes; at most {MAX_SKILL_BYTES} are read")
    with os.fdopen(files.open_rooted(place), "rb") as file:
        data = file.read(MAX_SKILL_BYTES)
    if b"\0" in data:
        raise SkillError(f"{SKILL_FILE} holds NUL characters: it is not text in UTF-8")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SkillError(f"{SKILL_FILE} is not UTF-8: byte 0x{data[error.start]:02x} at {error.start}") from None


MAX_SKILL_FILES, _MAX_PINNED_BYTES = 200, 5_000_000

SkillFile = tuple[str, bytes, int]
"""A file of a skill: its path there, what it holds, and its mode, of which the owner's bits count."""


def compute_version(folder: Path) -> str:
    """Name the version of a skill by all of its files. Raises SkillError, and OSError."""
    return name_version(read_skill_files(folder))


def find_version(folder: Path) -> str:
    """The version of the skill in a folder as it is now, '' where there is none that can be read."""
    try:
        return compute_version(folder)
    except (SkillError, OSError):
        return ""


def name_version(found: Iterable[SkillFile]) -> str:
    import hashlib

    digest = hashlib.sha256()
    for name, data, _ in sorted(found):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()[:8]


def pin_skill(skill: Skill, home: Path, agent: str) -> str:
    """Copy a skill as it is now for an agent, in the place of an earlier copy; returns its version.

    Raises SkillError, and OSError.
    """
    return pin_files(skill.name, read_skill_files(skill.folder), home, agent)


def pin_files(name: str, found: Iterable[SkillFile], home: Path, agent: str) -> str:
    """Make an agent's copy of a skill of its files; see pin_skill. Raises OSError."""
    folder = home / PINNED_FOLDER / agent
    unfinished = write_skill_files(folder, name, found)
    unpin_skill(home, agent, name)
    unfinished.rename(folder / name)
    return compute_version(folder / name)


def write_skill_files(folder: Path, name: str, found: Iterable[SkillFile]) -> Path:
    """Write files below a hidden folder, which no library looks into, to be renamed; returns it. Raises OSError."""
    unfinished = folder / f".{name}"
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(unfinished)
    for path, data, mode in found:
        make_folder((unfinished / path).parent)
        write_atomic(unfinished / path, data, mode)
    return unfinished


def unpin_skill(home: Path, agent: str, name: str) -> None:
    """Delete an agent's copy of a skill, if there is one. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(home / PINNED_FOLDER / agent / name)


def read_skill_files(folder: Path) -> list[SkillFile]:
    """Read a skill's files, in the order of their names, each with its mode; hidden ones and backups are left out."""
    found: list[SkillFile] = []
    size = 0
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in [*folders, *names]:
            path = Path(above, name)
            about = path.lstat()
            if stat.S_ISLNK(about.st_mode):
                raise SkillError(f"{path} is a symbolic link, which no version can hold; put a copy in its place")
            if name in folders or name.startswith(".") or name == f"{SKILL_FILE}.bak":
                continue
            size += about.st_size
            if len(found) >= MAX_SKILL_FILES or size > _MAX_PINNED_BYTES:
                raise SkillError(
                    f"{folder} has more than {MAX_SKILL_FILES} files or {_MAX_PINNED_BYTES // 1_000_000} MB; that is no skill to pin"
                )
            found.append((str(path.relative_to(folder)), read_file(path, _MAX_PINNED_BYTES), about.st_mode & 0o700))
    return sorted(found)


class SkillLibrary:
    """The skills of some tiers, as they were at the last `refresh`."""

    def __init__(
        self,
        tiers: Sequence[tuple[str, Path]],
        cache: Path | None = None,
        accessible: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        """Take the tiers by name, the highest first, and the file in which to keep what was parsed.

        `accessible` gives what SkillGrants.list_accessible does, for those who have nothing besides but what is built
        in; None for the owner.
        """
        self._accessible = accessible
        self.skills: dict[str, Skill] = {}
        self.broken: list[BrokenSkill] = []
        self.shadowed: list[Skill] = []
        self.notes: list[str] = []
        self._tiers = tuple(tiers)
        self._cache = cache
        self._known: Mapping[str, CachedSkill] | None = None

    def refresh(self) -> None:
        """Scan the tiers; costs a stat for each skill, and a read for each new or changed one. Raises StoreError."""
        if self._known is None:
            self._known = _load_cache(self._cache) if self._cache else {}
        search, built_in = _TierScan(self._known), dict(self._tiers).get(BUILT_IN)
        search.accessible = self._accessible() if self._accessible else None
        with contextlib.suppress(OSError):
            search.reserved = frozenset(name for name, _ in _list_folders(built_in)) if built_in else frozenset()
        for tier, root in self._tiers:
            search.walk(tier, root)
        if search.read and self._cache:
            _save_cache(self._cache, search.known)
        self._known = search.known
        self.broken, self.shadowed, self.notes = search.broken, search.shadowed, search.notes
        order = {tier: i for i, (tier, _) in enumerate(self._tiers, 1)} | {BUILT_IN: 0}
        trusted = sorted(search.skills.values(), key=lambda skill: (order[skill.tier], skill.name))
        self.skills = {skill.name: skill for skill in sorted(_add_remarks(trusted, self.shadowed))}

    def recheck(self) -> None:
        """Look again what may be used, where that is not everything: it may have been revoked. Raises StoreError."""
        if self._accessible is not None:
            self.refresh()

    def read_body(self, name: str) -> str:
        """Return what a model reads of a skill, as the file is now. Raises SkillError."""
        if name not in self.skills:
            raise SkillError(f"there is no skill {name!r}{find_nearest(name, self.skills) if self.skills else ''}")
        folder, root = self.skills[name].folder, dict(self._tiers)[self.skills[name].tier]
        try:
            return extract_body(_read_skill_file(folder / SKILL_FILE, root), folder)
        except SkillError as error:
            raise SkillError(f"the skill {name} cannot be used any more: {error}") from None
        except OSError as error:
            raise SkillError(
                f"the skill {name} cannot be read: {folder / SKILL_FILE}: {explain_os_error(error)}"
            ) from None


def _add_remarks(trusted: Iterable[Skill], shadowed: Iterable[Skill]) -> Iterator[Skill]:
    """Add remarks to skills, the most trusted first: which ones each hides, and which name it could be mistaken for."""
    hides: dict[str, list[str]] = {}
    for other in shadowed:
        note = f"it is used instead of the {other.tier} skill of this name, in {other.folder}"
        hides.setdefault(other.name, []).append(note)
    seen: dict[str, Skill] = {}
    for one in trusted:
        look = one.name.translate(_LOOKALIKES).replace("rn", "m").replace("vv", "w")  # as an eye in a hurry sees it
        first = seen.setdefault(look, one)
        alike = [] if first is one else [f"its name looks like that of the {first.tier} skill {first.name}"]
        yield one._replace(notes=(*one.notes, *hides.get(one.name, ()), *alike))


@dataclass
class _TierScan:
    """One scan of the tiers; `before` is what is known from the last one, by path."""

    before: Mapping[str, CachedSkill]
    known: dict[str, CachedSkill] = field(default_factory=dict)
    skills: dict[str, Skill] = field(default_factory=dict)
    broken: list[BrokenSkill] = field(default_factory=list)
    shadowed: list[Skill] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    looked: int = 0
    accessible: Mapping[str, str] | None = None
    reserved: frozenset[str] = frozenset()
    read: bool = False

    def walk(self, tier: str, root: Path) -> None:
        """Take the skills of a tier, as far as there is room; some is `reserved` for those that ship.

        Those of the same name come first, since they are used instead.
        """
        try:
            folders = sorted(_list_folders(root), key=lambda folder: (folder[0] not in self.reserved, folder))
        except FileNotFoundError:
            return
        except OSError as error:
            self.notes.append(f"the {tier} skills in {root} cannot be read: {explain_os_error(error)}")
            return
        for i, (name, linked) in enumerate(folders):
            kept = 0 if tier == BUILT_IN else len(self.reserved)
            if len(self.skills) >= _MAX_SKILLS - kept or self.looked >= _MAX_FOLDERS - kept:
                rest = f"{len(folders) - i} of the {len(folders)} folders in {root}"
                replaced = ", ".join(name for name, _ in folders[i:] if name in self.reserved)
                instead = f"; the built-in one is used instead of {replaced}" if replaced and tier != BUILT_IN else ""
                self.notes.append(f"{rest} are not looked at: at most {_MAX_SKILLS} skills are used{instead}")
                return
            self._take(tier, root, root / name, linked=linked)

    def _take(self, tier: str, root: Path, folder: Path, *, linked: bool) -> None:
        try:
            found = self._found(root, folder, linked=linked)
        except SkillError as error:
            found = str(error)
        except FileNotFoundError:
            found = _explain_missing(folder, linked=linked)
        except OSError as error:
            found = f"{SKILL_FILE} cannot be read: {explain_os_error(error)}"
        if not found:
            return
        self.looked += 1
        if not self._is_accessible(tier, found, folder):
            return
        if isinstance(found, str):
            self.broken.append(BrokenSkill(folder.with_name(_escape(folder.name)), tier, found))
            return
        skill = found._replace(folder=folder, tier=tier)
        if self.skills.setdefault(skill.name, skill) is not skill:
            self.shadowed.append(skill)

    def _is_accessible(self, tier: str, found: Skill | str, folder: Path) -> bool:
        """Whether a skill may be used; what is wrong with one that may not is nobody's business either.

        An agent's copy has to be what was granted, all of its files.
        """
        if self.accessible is None or tier == BUILT_IN:
            return True
        if isinstance(found, str) or found.name not in self.accessible:
            return False
        pinned = self.accessible[found.name]
        if tier != GRANTED or not pinned:
            return tier != GRANTED and not pinned
        return folder.name == found.name and find_version(folder) == pinned

    def _found(self, root: Path, folder: Path, *, linked: bool) -> Skill | str:
        """Read a skill, or know it from before; a text is what is wrong with it."""
        file = folder / SKILL_FILE
        about = file.lstat()
        if linked or stat.S_ISLNK(about.st_mode):
            about = file.stat()
        if _escape(folder.name) != folder.name:
            raise SkillError("the name of its folder holds characters that cannot be seen; give it another")
        stamp = about.st_mtime_ns, about.st_size, about.st_ino
        known = self.before.get(str(file))
        if known is None or known[0] != stamp:
            try:
                known = stamp, read_skill(folder, root)
            except SkillError as error:
                known = stamp, str(error)
            self.read = True  # not before: what the disk refuses is not kept, and asked for again
        self.known[str(file)] = known
        return known[1]


def _explain_missing(folder: Path, *, linked: bool) -> str:
    """Explain why a folder without a SKILL.md is no skill; '' if it is not meant to be one."""
    if linked:
        return f"there is no {SKILL_FILE} behind its symbolic link"
    misspelt = next((name for name in _MISSPELT if (folder / name).is_file()), "")
    return misspelt and f"its {misspelt} has to be called {SKILL_FILE}"


def _escape(name: str) -> str:
    """Write a folder's name so that nothing in it is hidden and none of it drives a terminal."""
    return name if name.isprintable() and remove_invisible(name) == name else ascii(name)[1:-1]


def _list_folders(root: Path) -> Iterator[tuple[str, bool]]:
    """List the names of the folders of a tier, and whether each is a symbolic link. Raises OSError."""
    with os.scandir(root) as entries:
        for entry in entries:
            linked = entry.is_symlink()
            if not entry.name.startswith(".") and (linked or entry.is_dir(follow_symlinks=False)):
                yield entry.name, linked

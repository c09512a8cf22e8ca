"""Skills between boards. Each board writes its own; one that arrives is no skill here until the owner has said yes to it.

A skill is a program. What arrives lies in state.db, where no library looks, and is written below the workspace by `agree`,
as it was shown. So do its grants: nobody may use anything because another board says so. Taking back is the other
way round: a grant that one board takes back ends on all that have taken it over.
"""

import base64
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from picoclaw.config import Config
from picoclaw.errors import SkillError
from picoclaw.files import exchange_paths, explain_os_errors, sync_folder
from picoclaw.records import NamedTuple
from picoclaw.skills import (
    MAX_SKILL_FILES,
    SKILL_FILE,
    Skill,
    SkillFile,
    SkillLibrary,
    find_version,
    list_home_tiers,
    name_version,
    pin_files,
    read_skill_files,
    write_skill_files,
)
from picoclaw.skills.frontmatter import parse_skill
from picoclaw.store.database import Database
from picoclaw.store.people import AGENT, EVERYONE, SkillGrant, SkillGrants
from picoclaw.text import pattern

MAX_SHARED_BYTES = 1_000_000
"""Bytes of a skill's files and of the versions that agents were granted; a larger one is not shared."""

MAX_PACKED_BYTES = 3_000_000
_MAX_ARRIVED, _MAX_GRANTS, _MAX_KNOWN = 150, 500, 200
_MAX_PATH_CHARS, _MAX_DEPTH = 200, 8
_SHARED_TIERS = frozenset({"workspace", "workspace/.agents", "home"})
_NAME = pattern(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_BOARD = pattern(r"[A-Za-z0-9_-]{1,64}")
_WORD = pattern(r"[\w.:@+ -]{0,80}")


class SkillContent(NamedTuple):
    """The files of a skill, and those of earlier versions that agents keep, by version."""

    files: tuple[SkillFile, ...]
    pinned: Mapping[str, tuple[SkillFile, ...]]

    @property
    def version(self) -> str:
        return name_version(self.files)


class ArrivedSkill(NamedTuple):
    """What another board has of a skill; `grants` are those of it that are new here and can be taken over."""

    board: str
    name: str
    version: str
    content: SkillContent
    grants: tuple[SkillGrant, ...]
    is_new: bool


def pack_skill(content: SkillContent) -> str:
    """Write a skill as JSON. Raises SkillError for one that is too large."""
    size = sum(len(data) for part in (content.files, *content.pinned.values()) for _, data, _ in part)
    if size > MAX_SHARED_BYTES:
        raise SkillError(f"it has {size} bytes with what agents keep of it; at most {MAX_SHARED_BYTES} are shared")
    pinned = {version: _pack_files(files) for version, files in content.pinned.items()}
    text = json.dumps({"files": _pack_files(content.files), "pinned": pinned}, ensure_ascii=False, sort_keys=True)
    if len(text.encode()) > MAX_PACKED_BYTES:
        raise SkillError(f"it takes {len(text.encode())} bytes as text; at most {MAX_PACKED_BYTES} are shared")
    return text


def _pack_files(files: Iterable[SkillFile]) -> dict[str, list[object]]:
    packed: dict[str, list[object]] = {}
    for path, data, mode in files:
        try:
            text = data.decode()
            packed[path] = [bool(mode & 0o100), text] if "\0" not in text else []
        except UnicodeDecodeError:
            packed[path] = []
        packed[path] = packed[path] or [bool(mode & 0o100), base64.b64encode(data).decode(), "base64"]
    return packed


def unpack_skill(name: str, text: str) -> SkillContent:
    """Read and check what another board has sent as a skill of this name. Raises SkillError."""
    if not _NAME.fullmatch(name):
        raise SkillError("that is no name for a skill")
    if len(text) > MAX_PACKED_BYTES:
        raise SkillError(f"it takes {len(text)} characters; at most {MAX_PACKED_BYTES} are taken")
    try:
        found = json.loads(text)
        files = _unpack_files(found["files"])
        pinned = {str(version): _unpack_files(one) for version, one in found["pinned"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise SkillError("it cannot be read") from None
    if sum(len(data) for part in (files, *pinned.values()) for _, data, _ in part) > MAX_SHARED_BYTES:
        raise SkillError(f"it has more than {MAX_SHARED_BYTES} bytes")
    if any(name_version(one) != version for version, one in pinned.items()):
        raise SkillError("a version that an agent keeps is not what it is called")
    for part in (files, *pinned.values()):
        _check_name(name, part)
    return SkillContent(files, pinned)


def _unpack_files(found: Mapping[str, Any]) -> tuple[SkillFile, ...]:
    if not 0 < len(found) <= MAX_SKILL_FILES:
        raise SkillError(f"it has {len(found)} files; a skill has 1 to {MAX_SKILL_FILES}")
    files = []
    for path, (is_executable, text, *coding) in found.items():
        parts = path.split("/")
        if (
            not all(part and not part.startswith(".") and part.isprintable() for part in parts)
            or "\\" in path
            or not 0 < len(path) <= _MAX_PATH_CHARS
            or len(parts) > _MAX_DEPTH
            or any("/".join(parts[:number]) in found for number in range(1, len(parts)))
        ):
            raise SkillError(f"{path!r} is no path of a skill's file")
        data = base64.b64decode(text, validate=True) if coding == ["base64"] else text.encode()
        files.append((path, data, 0o700 if is_executable else 0o600))
    return tuple(sorted(files))


def _check_name(name: str, files: Iterable[SkillFile]) -> None:
    """A skill is used by the name that it gives itself, which is to be the one that was agreed to."""
    data = next((data for path, data, _ in files if path == SKILL_FILE), None)
    if data is None:
        raise SkillError(f"it has no {SKILL_FILE}")
    try:
        called = parse_skill(data.decode(), Path(name)).name
    except UnicodeDecodeError:
        raise SkillError(f"its {SKILL_FILE} is not UTF-8") from None
    if called != name:
        raise SkillError(f"it calls itself {called!r}")


def list_shared_skills(config: Config) -> Iterator[tuple[Skill, str]]:
    """Give the skills of a home that are shared, each with a stamp that changes with its files."""
    tiers = [(tier, folder) for tier, folder in list_home_tiers(config.home) if tier in _SHARED_TIERS]
    library = SkillLibrary(tiers)
    library.refresh()
    for skill in library.skills.values():
        if _NAME.fullmatch(skill.name):
            yield skill, _stamp(skill.folder)


def _stamp(folder: Path) -> str:
    total = 0
    for above, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(above, name)
            try:
                about = path.lstat()
            except OSError:
                continue
            total = zlib.crc32(f"{path} {about.st_mtime_ns} {about.st_size} {about.st_ino} {about.st_mode}".encode(errors="replace"), total)  # fmt: skip
    return f"{total:08x}"


def read_content(skill: Skill, grants: Iterable[SkillGrant], home: Path) -> SkillContent:
    """Read a skill's files, and those versions that agents keep. Raises SkillError."""
    from picoclaw.skills import PINNED_FOLDER

    with explain_os_errors(SkillError, "it cannot be read"):
        files = tuple(read_skill_files(skill.folder))
        pinned = {
            grant.pinned: tuple(read_skill_files(home / PINNED_FOLDER / grant.grantee.removeprefix(AGENT) / skill.name))
            for grant in grants
            if grant.pinned and grant.pinned != name_version(files)
        }
    return SkillContent(files, {version: kept for version, kept in pinned.items() if name_version(kept) == version})


class ArrivedSkills:
    """The skills of other boards that are known to a home, and which of them wait for its owner."""

    def __init__(self, config: Config, database: Database) -> None:
        self._config, self._database = config, database

    # --- what arrives ---

    def take(self, board: str, name: str, text: str, at: float) -> None:
        """Keep what another board has of a skill, in the place of what it had. Raises SkillError and StoreError."""
        content = unpack_skill(name, text)
        if not _BOARD.fullmatch(board):
            raise SkillError("no board can be called so")
        sql = "SELECT count(*) FROM shared_skills WHERE (board, name) != (?, ?)"
        if self._database.select_value(sql, board, name) >= _MAX_ARRIVED:
            raise SkillError(f"more than {_MAX_ARRIVED} skills of other boards are not kept")
        packed = zlib.compress(text.encode())
        sql = "INSERT OR REPLACE INTO shared_skills VALUES (?, ?, ?, ?, ?)"
        self._database.write(sql, board, name, content.version, packed, at)

    def drop(self, board: str, name: str) -> None:
        """Forget what another board has of a skill, which it has deleted; one that was agreed to stays."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM shared_skills WHERE board = ? AND name = ?", (board, name))

    def take_grant(self, board: str, grant: SkillGrant) -> None:
        """Keep what another board says that it has granted. Raises SkillError and StoreError."""
        words = (board, grant.pinned, grant.granted_by, grant.granted_at, grant.grantee)
        if not (_NAME.fullmatch(grant.skill) and all(_WORD.fullmatch(word) for word in words)):
            raise SkillError("its grant cannot be read")
        sql = "SELECT count(*) FROM shared_skill_grants WHERE board = ?"
        if self._database.select_value(sql, board) >= _MAX_GRANTS:
            raise SkillError(f"more than {_MAX_GRANTS} of its grants are not kept")
        self._database.write("INSERT OR REPLACE INTO shared_skill_grants VALUES (?, ?, ?, ?, ?, ?)", board, *grant)

    def revoke(self, board: str, grant: SkillGrant) -> bool:
        """End a grant that another board has taken back, if it is the one that there is here; tells whether it was."""
        where = (board, grant.skill, grant.grantee)
        self._database.write("DELETE FROM shared_skill_grants WHERE board = ? AND skill = ? AND grantee = ?", *where)
        grants = SkillGrants(self._database)
        if not any(name_grant(one) == name_grant(grant) and one.skill == grant.skill for one in grants.all()):
            return False
        grants.revoke(grant.skill, grant.grantee)
        return True

    # --- what waits ---

    def list_waiting(self) -> list[ArrivedSkill]:
        """The skills that wait for the owner's yes, and those whose grants do. Raises StoreError."""
        found, here = [], {skill.name: skill for skill, _ in list_shared_skills(self._config)}
        rows = self._database.select("SELECT board, name, version, content FROM shared_skills ORDER BY name, at, board")
        for board, name, version, packed in rows:
            known = self.known(name)
            is_new = version not in known and version != _find_version(here.get(name))
            grants = self._list_new_grants(board, name, known) if is_new or name in here else ()
            if is_new or grants:
                content = unpack_skill(name, zlib.decompress(packed).decode())
                kept = {content.version, *content.pinned}
                usable = tuple(grant for grant in grants if not grant.pinned or grant.pinned in kept)
                found.append(ArrivedSkill(board, name, version, content, usable, is_new))
        return found

    def _list_new_grants(self, board: str, name: str, known: Iterable[str]) -> tuple[SkillGrant, ...]:
        sql = "SELECT skill, grantee, pinned, granted_by, granted_at FROM shared_skill_grants WHERE board = ? AND skill = ?"
        grants = (SkillGrant(*row) for row in self._database.select(sql, board, name))
        return tuple(one for one in grants if self._is_grantee(one) and name_grant(one) not in known)

    def _is_grantee(self, grant: SkillGrant) -> bool:
        """Whether there is such a member or agent here; an agent is only ever granted a version."""
        config, (kind, _, name) = self._config, grant.grantee.partition(":")
        if kind == "agent":
            return bool(grant.pinned) and name in {config.default_agent, *config.agents}
        if kind == "person":
            return not grant.pinned and name in config.people and config.people[name].role == "member"
        return not grant.pinned and grant.grantee == EVERYONE

    def known(self, name: str) -> list[str]:
        """The versions and grants of a skill that this home has had, or whose owner has said yes or no to."""
        return str(
            self._database.select_value("SELECT value FROM shared_state WHERE name = ?", f"skill {name}") or ""
        ).split()

    def note_known(self, name: str, *words: str) -> None:
        before = self.known(name)
        if new := [word for word in dict.fromkeys(words) if word and word not in before]:
            value = " ".join([*before, *new][-_MAX_KNOWN:])
            self._database.write("INSERT OR REPLACE INTO shared_state VALUES (?, ?)", f"skill {name}", value)

    def note_own_grants(self, grants: Iterable[SkillGrant]) -> None:
        """A grant that there was here is not offered again by a board that has taken it over."""
        for grant in grants:
            self.note_known(grant.skill, name_grant(grant))

    def find_origin(self, name: str) -> tuple[str, str]:
        """From which board a skill has come that was agreed to, and in which version; '' and '' for one's own."""
        sql = "SELECT value FROM shared_state WHERE name = ?"
        board, _, version = str(self._database.select_value(sql, f"skill-origin {name}") or "").partition(" ")
        return board, version

    # --- what the owner says ---

    def agree(self, arrived: ArrivedSkill) -> list[str]:
        """Use a skill as it was shown, and let those use it to whom it is granted; says what was done.

        What it takes the place of is kept beside it. Raises SkillError and StoreError.
        """
        done: list[str] = []
        with explain_os_errors(SkillError, f"{arrived.name} cannot be written"):
            if arrived.is_new:
                done += self._install(arrived)
            for grant in arrived.grants:
                if grant.pinned:
                    kept = arrived.content.pinned.get(grant.pinned, arrived.content.files)
                    pin_files(arrived.name, kept, self._config.home, grant.grantee.removeprefix(AGENT))
                SkillGrants(self._database).grant(grant._replace(granted_by=f"{grant.granted_by} at {arrived.board}"))
                done.append(f"{grant.grantee.replace(':', ' ')} may use it")
        self.decline(arrived)
        return done

    def _install(self, arrived: ArrivedSkill) -> Iterator[str]:
        folder = self._config.home / "workspace/skills"
        place = folder / arrived.name
        unfinished = write_skill_files(folder, arrived.name, arrived.content.files)
        here = {skill.name: skill for skill, _ in list_shared_skills(self._config)}
        self.note_known(arrived.name, _find_version(here.get(arrived.name)))
        if os.path.lexists(place):
            kept = _find_free(folder, f".{arrived.name}-before")
            if exchange_paths(unfinished, place):  # so that no cut leaves neither of both in place
                unfinished.rename(kept)
            else:
                place.rename(kept)
                unfinished.rename(place)
            yield f"what it takes the place of is kept in {kept}"
        else:
            unfinished.rename(place)
        sync_folder(folder)
        value = f"{arrived.board} {arrived.version}"
        self._database.write("INSERT OR REPLACE INTO shared_state VALUES (?, ?)", f"skill-origin {arrived.name}", value)
        yield f"it is in {place}"

    def decline(self, arrived: ArrivedSkill) -> None:
        """Ask no more about this version and these grants; another version asks again. Raises StoreError."""
        self.note_known(arrived.name, arrived.version if arrived.is_new else "", *map(name_grant, arrived.grants))


def _find_version(skill: Skill | None) -> str:
    return find_version(skill.folder) if skill else ""


def _find_free(folder: Path, name: str) -> Path:
    number = 1
    while os.path.lexists(folder / f"{name}-{number}"):
        number += 1
    return folder / f"{name}-{number}"


def name_grant(grant: SkillGrant) -> str:
    """What a grant is known by on every board: to whom it was given, and when."""
    return f"{grant.grantee}@{grant.granted_at}".replace(" ", "_")

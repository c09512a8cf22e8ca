"""The people of a household: who somebody is, by what a channel calls them, and what belongs to them in `state.db`.

That is their own pages with an agent, and the grants of skills, by whom and when. `telegram:12345` is what a channel calls one.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from picoclaw.config.tables import PersonConfig, PersonRole
from picoclaw.errors import StoreError
from picoclaw.messages import LOGIN_WAY
from picoclaw.records import NamedTuple
from picoclaw.store.database import Database, Marks, Table

_PAIRED_MARK = "people.paired"


class People:
    """Those of config.toml, and how they were paired."""

    def __init__(self, people: Mapping[str, PersonConfig], database: Database) -> None:
        """Reads nothing yet; of `database` only what was paired."""
        self._people, self._database = people, database
        self._ways = {way: name for name, person in people.items() for way in person.ways}

    def find(self, who: str) -> str:
        """Name the person whom a channel calls `who`, '' for nobody of the household. Raises StoreError."""
        name = who.removeprefix(LOGIN_WAY)
        if name != who:
            return name if name in self._people else ""
        return self._ways.get(who) or self._find_paired(who)

    def role(self, who: str) -> PersonRole | None:
        """The role of that person, None for nobody of the household. Raises StoreError."""
        name = self.find(who)
        return self._people[name].role if name else None

    def language(self, who: str) -> str:
        """The language of that person, '' where none is set, and for nobody of the household. Raises StoreError."""
        name = self.find(who)
        return self._people[name].language if name else ""

    def list_ways(self, name: str) -> list[str]:
        """What channels call a person, those of config.toml first. Raises StoreError."""
        paired = [way for way, known in self._read_paired().items() if known == name]
        return list(dict.fromkeys([*self._people[name].ways, *paired]))

    def pair(self, who: str, name: str) -> None:
        """Remember durably that `who` is that person. Raises StoreError."""
        Marks(self._database).set(_PAIRED_MARK, json.dumps(self._read_paired() | {who: name}))

    def forget(self, who: str) -> None:
        """Forget as whom `who` was paired. Raises StoreError."""
        paired = self._read_paired()
        if paired.pop(who, None):
            Marks(self._database).set(_PAIRED_MARK, json.dumps(paired))

    def unpair(self, name: str) -> list[str]:
        """Forget how a person was paired, and a code for them; returns what channels called them. Raises StoreError."""
        marks = Marks(self._database)
        for channel in ("telegram", "matrix"):
            with suppress(ValueError, RecursionError):
                if json.loads(marks.get(f"{channel}.code") or "[]")[4:] == [name]:
                    marks.set(f"{channel}.code", "")
        paired = self._read_paired()
        gone = [who for who, known in paired.items() if known == name]
        if gone:
            left = {who: known for who, known in paired.items() if known != name}
            Marks(self._database).set(_PAIRED_MARK, json.dumps(left))
        return gone

    def _find_paired(self, who: str) -> str:
        name = self._read_paired().get(who, "") if self._people and who else ""
        return name if name in self._people else ""

    def _read_paired(self) -> dict[str, str]:
        text = Marks(self._database).get(_PAIRED_MARK)
        try:
            found = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            raise StoreError("who was paired with the board cannot be read; pair them again") from None
        return {str(who): str(name) for who, name in found.items()} if isinstance(found, dict) else {}


class ContextFile(NamedTuple):
    """One page: `agent` is an agent's UUID, `person` a name of [people], '' for the owner.

    `version` counts the writes from 1, `at` is when the last one was, as an ISO date.
    """

    agent: str
    person: str
    name: str
    text: str
    version: int
    at: str


class ContextFiles(Table):
    def list_files(self, agent: str | None = None, person: str | None = None) -> list[ContextFile]:
        sql = (
            "SELECT agent, person, name, text, version, at FROM user_context_files"
            " WHERE agent = coalesce(?, agent) AND person = coalesce(?, person) ORDER BY agent, person, name"
        )
        return [ContextFile(*row) for row in self._database.select(sql, agent, person)]

    def read(self, agent: str, person: str, name: str) -> str | None:
        """Return what a page says, None when there is none."""
        sql = "SELECT text FROM user_context_files WHERE agent = ? AND person = ? AND name = ?"
        found = self._database.select_value(sql, agent, person, name)
        return None if found is None else str(found)

    def write(self, agent: str, person: str, name: str, text: str, at: datetime, version: int | None = None) -> bool:
        """Write a page durably; with a `version`, only where it is the present one, 0 for none. Tells whether it was."""
        with self._database.transaction() as connection:
            sql = "SELECT version FROM user_context_files WHERE agent = ? AND person = ? AND name = ?"
            before = connection.execute(sql, (agent, person, name)).get or 0
            if version not in {None, before}:
                return False
            connection.execute(
                "INSERT OR REPLACE INTO user_context_files VALUES (?, ?, ?, ?, ?, ?)",
                (agent, person, name, text, before + 1, at.isoformat(timespec="seconds")),
            )
            return True

    def seed(self, agent: str, person: str, texts: Mapping[str, str], at: datetime) -> list[str]:
        """Write those of the pages that are not there, and overwrite none; returns their names."""
        made = []
        with self._database.transaction() as connection:
            for name, text in texts.items():
                connection.execute(
                    "INSERT OR IGNORE INTO user_context_files VALUES (?, ?, ?, ?, 1, ?)",
                    (agent, person, name, text, at.isoformat(timespec="seconds")),
                )
                made += [name] * connection.changes()
        return made

    def delete(self, agent: str, person: str) -> None:
        self._database.write("DELETE FROM user_context_files WHERE agent = ? AND person = ?", agent, person)

    def rename_agent(self, old: str, new: str) -> None:
        """Give the pages with an agent to another one that has none, because its key has changed."""
        sql = "SELECT count(*) FROM user_context_files WHERE agent = ?"
        if self._database.select_value(sql, old) and not self._database.select_value(sql, new):
            self._database.write("UPDATE user_context_files SET agent = ? WHERE agent = ?", new, old)


EVERYONE = "everyone"
PERSON, AGENT = "person:", "agent:"


class SkillGrant(NamedTuple):
    """A skill that somebody may use: `everyone`, `person:NAME` or `agent:KEY`.

    `pinned` is the version that an agent was granted, '' where the text as it is now counts. `granted_at` is a local
    time with its offset, in ISO 8601.
    """

    skill: str
    grantee: str
    pinned: str
    granted_by: str
    granted_at: str


class SkillGrants(Table):
    def grant(self, grant: SkillGrant) -> None:
        """Keep a grant durably, in the place of an earlier one to the same."""
        with self._database.transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO skill_grants VALUES (?, ?, ?, ?, ?)", tuple(grant))

    def revoke(self, skill: str, grantee: str = "") -> list[SkillGrant]:
        """Take a grant back durably, or all of a skill's; returns those that there were."""
        with self._database.transaction() as connection:
            sql = "DELETE FROM skill_grants WHERE skill = ?1 AND ?2 IN ('', grantee) RETURNING *"
            return sorted(SkillGrant(*row) for row in connection.execute(sql, (skill, grantee)))

    def all(self) -> list[SkillGrant]:
        with self._database.reading() as connection:
            rows = connection.execute("SELECT * FROM skill_grants ORDER BY skill, grantee")
            return [SkillGrant(*row) for row in rows]

    def list_accessible(self, agent: str, person: str) -> dict[str, str]:
        """Name the granted skills that a member of the household may use with an agent, each with its pinned version.

        Where it is the person's or everyone's as well, the text as it is now counts: ''.
        """
        found: dict[str, str] = {}
        for grant in self.all():
            if grant.grantee in {EVERYONE, f"{PERSON}{person}"}:
                found[grant.skill] = ""
            elif grant.grantee == f"{AGENT}{agent}":
                found.setdefault(grant.skill, grant.pinned)
        return found

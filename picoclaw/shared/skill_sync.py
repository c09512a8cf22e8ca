"""Brings the skills and grants of a home into the store, and takes note of those of other boards."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from picoclaw.errors import SkillError
from picoclaw.shared.home import GONE, LocalRow, SharedHome
from picoclaw.shared.skills import ArrivedSkills, list_shared_skills, pack_skill, read_content
from picoclaw.shared.store import SharedStore
from picoclaw.shared.tables import Row, make_id
from picoclaw.store.skills import EVERYONE, SkillGrant, SkillGrants

_BATCH = 10
Put = Callable[[Mapping[str, Iterable[Row]]], Any]


class SkillSync:
    """One home and one store; the skills are the home's own agent's."""

    def __init__(self, home: SharedHome, store: SharedStore, put: Put, now: Callable[[], datetime]) -> None:
        self._home, self._store, self._put, self._now = home, store, put, now
        self._arrived = ArrivedSkills(home.config, home.database)
        self._grants = SkillGrants(home.database)
        self.problems: list[str] = []

    def run(self) -> int:
        """Synchronise once; returns how many rows were pushed. Raises StoreError."""
        self.problems.clear()
        if self._home.own not in self._home.agents:
            return 0
        self._arrived.note_own_grants(self._grants.all())
        self._pull("skill_grants", self._take_grant)
        pushed = self._push()
        self._pull("skills", self._take_skill)
        return pushed

    def list_news(self) -> tuple[str, ...]:
        """Say which skills wait for the owner."""
        waiting = self._arrived.list_waiting()
        return tuple(
            f"the skill {one.name} has arrived from {one.board}: picoclaw skills agree {one.name}" for one in waiting
        )

    # --- what comes ---

    def _pull(self, kind: str, take: Callable[[Row], None]) -> None:
        name = f"cursor {kind} {self._home.own}"
        while True:
            found = self._store.changes(kind, self._home.own, self._home.state(name), _BATCH)
            for row in found.rows:
                own = row["board"] == self._home.board
                if not own and row["id"] == self._make_id(kind, row["board"], row):
                    try:
                        take(row)
                    except SkillError as error:
                        named = row["name"] if kind == "skills" else row["skill"]
                        self.problems.append(f"the skill {named[:64]!r} of {row['board']} is not taken: {error}")
            self._home.set_state(name, found.cursor)
            if len(found.rows) < _BATCH:
                break

    def _take_skill(self, row: Row) -> None:
        self._arrived.drop(row["board"], row["name"])
        if not row["deleted"]:
            self._arrived.take(row["board"], row["name"], row["content"], row["at"])

    def _take_grant(self, row: Row) -> None:
        grant = SkillGrant(row["skill"], row["grantee"], row["pinned"], row["granted_by"], row["granted_at"])
        if row["deleted"]:
            self._arrived.revoke(row["board"], grant)
        else:
            self._arrived.take_grant(row["board"], grant)

    # --- what goes ---

    def _push(self) -> int:
        there = list(self._home.list_skills())
        here = {(row.kind, row.local) for row in there}
        known = self._home.known_rows("skills", "skill_grants")
        gone = [row for key, row in known.items() if key not in here and row.mark != GONE]
        changed = [row for row in there if known.get((row.kind, row.local), row._replace(mark="")).mark != row.mark]
        if not (gone or changed):
            return 0
        grants: dict[str, list[SkillGrant]] = {}
        for grant in self._grants.all():
            grants.setdefault(grant.skill, []).append(grant)
        skills = {skill.name: skill for skill, _ in list_shared_skills(self._home.config)}
        done = 0
        for row in [*gone, *changed]:
            try:
                if row.kind == "skills":
                    skill = skills.get(row.local)
                    made = self._make_skill(skill, grants.get(row.local, [])) if skill else {"name": row.local}
                else:
                    made = next(
                        (one._asdict() for some in grants.values() for one in some if _name_local(one) == row.local), {}
                    )
            except SkillError as error:
                self.problems.append(f"the skill {row.local} is not shared: {error}")
                continue
            done += self._push_row(row, made, is_gone=row in gone)
        return done

    def _push_row(self, row: LocalRow, made: Mapping[str, object], *, is_gone: bool) -> bool:
        """Write a row behind the one that is there; one that was deleted keeps what it said."""
        number = row.id or self._make_id(row.kind, self._home.board, made)
        before = next(iter(self._store.get(row.kind, [number])), None)
        if before and before["board"] != self._home.board:
            self.problems.append(f"{row.local} is not shared: the board {before['board']} has written in its place")
            return False
        if before or not is_gone:
            about = {} if is_gone and before else dict(made)
            if is_gone and row.kind == "skills":
                about = {"content": ""}
            written = {**(before or {}), **about, "id": number, "agent_id": self._home.own, "deleted": is_gone}
            written["at"] = max(self._now().timestamp(), before["at"] if before else 0.0)
            if row.kind == "skills":
                written["version"] = (before["version"] if before else 0) + 1
            self._put({row.kind: [written]})
        self._home.keep_rows([row._replace(id=number, mark=GONE)])  # a row may come again, unlike a conversation
        self._home.keep_rows([row._replace(id=number)] if not is_gone else [])
        return True

    def _make_skill(self, skill: Any, grants: list[SkillGrant]) -> dict[str, object]:
        content = read_content(skill, grants, self._home.config.home)
        self._arrived.note_known(skill.name, content.version)
        board, version = self._arrived.find_origin(skill.name)
        is_public = any(grant.grantee == EVERYONE for grant in grants)
        return {
            "name": skill.name,
            "owner": board if board and version == content.version else self._home.board,
            "visibility": "public" if is_public else "internal" if grants else "private",
            "content": pack_skill(content),
        }

    def _make_id(self, kind: str, board: object, row: Mapping[str, Any]) -> str:
        parts = (row["name"],) if kind == "skills" else (row["skill"], row["grantee"])
        return make_id(kind, self._home.own, board, *parts)


def _name_local(grant: SkillGrant) -> str:
    return f"{grant.skill} {grant.grantee}"

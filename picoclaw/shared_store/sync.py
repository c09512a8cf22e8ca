"""Brings a home and a shared store together: pulls what others have written, merges, and pushes what is new here.

The home is always right about its own conversations and costs, which are only pushed. Pages go both ways: one that was
changed on one side alone is taken over; of one that was changed on both, day notes are merged by their lines, and of
others the later stays and the earlier is kept as a version. Everything may be cut at any point and done again.
Skills and grants of this home are pushed, and those of other boards noted until the owner agrees.

A thread of the daemon does it after a turn, when others write, and at times. Nobody waits for it: what a turn reads and
writes is the home's own, also while the store does not answer.
"""

import contextlib
import os
import random
import select
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

from picoclaw.config import Config
from picoclaw.errors import PicoclawError, SkillError, StoreError
from picoclaw.files import explain_os_error
from picoclaw.memory import versions
from picoclaw.memory.files import explain_failure
from picoclaw.memory.notes import LASTING_FILE, get_lasting_file
from picoclaw.records import NamedTuple
from picoclaw.shared_store.home import DAY_NOTE, ERASED, GONE, LocalRow, SharedHome, SharedPage, merge_lines
from picoclaw.shared_store.skills import ArrivedSkills, list_shared_skills, pack_skill, read_content
from picoclaw.shared_store.store import (
    ChunksState,
    Row,
    SharedChunk,
    SharedStore,
    complete_row,
    make_id,
    open_shared_store,
)
from picoclaw.store.people import EVERYONE, SkillGrant, SkillGrants
from picoclaw.times import format_duration

_SKILLS_PER_BATCH = 10
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
            found = self._store.changes(kind, self._home.own, self._home.state(name), _SKILLS_PER_BATCH)
            for row in found.rows:
                own = row["board"] == self._home.board
                if not own and row["id"] == self._make_id(kind, row["board"], row):
                    try:
                        take(row)
                    except SkillError as error:
                        named = row["name"] if kind == "skills" else row["skill"]
                        self.problems.append(f"the skill {named[:64]!r} of {row['board']} is not taken: {error}")
            self._home.set_state(name, found.cursor)
            if len(found.rows) < _SKILLS_PER_BATCH:
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
                    every = (one for some in grants.values() for one in some)
                    made = next((one._asdict() for one in every if f"{one.skill} {one.grantee}" == row.local), {})
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


PAGE_KINDS = ("documents", "user_context_files")
OWN_KINDS = ("agents", "sessions", "turns", "summaries", "ledger")
_BATCH, _MAX_BATCH_CHARS = 100, 500_000
_MAX_ROUNDS = 4
_RESTORED = "the store is not as this board left it (restored from a backup?): everything was compared with it again"
_UNENDED = (
    "a transaction that was begun in the database more than ten minutes ago has not ended: until then no board is given what the"
    " others write (there: SELECT pid, datname, usename, xact_start FROM pg_stat_activity WHERE backend_xid IS NOT NULL)"
)
_LONG_S = 600.0
_NOT_GIVEN = (
    "the store does not give this board the agents {}, so nothing of theirs is shared: as the administrator,"
    " `picoclaw store setup --board {}` again"
)

_T = TypeVar("_T")


class SyncReport(NamedTuple):
    """What one synchronisation has done; `conflicts` were changed on both sides.

    `problems` are for the owner, as is what is in `news`: skills that wait for a yes. After one `is_early`, there may be
    something in the store already that is not given yet, and that nobody is told of again.
    """

    pulled: int = 0
    pushed: int = 0
    erased: int = 0
    conflicts: int = 0
    recovered: int = 0
    problems: tuple[str, ...] = ()
    news: tuple[str, ...] = ()
    is_early: bool = False

    @property
    def is_empty(self) -> bool:
        return not any(self[:5])


class StoreSync:
    def __init__(self, home: SharedHome, store: SharedStore, now: Callable[[], datetime]) -> None:
        self._home, self._store, self._now = home, store, now
        self._pages: dict[str, SharedPage] = {}
        self._pages_number = ""  # of the pages that are in memory, '' where they have to be read
        self._pushed_at = (
            0  # the home's data_version when all of its conversations and costs had been pushed, 0 for not yet
        )
        self._unkept: dict[str, SharedPage] = {}
        self._lost: list[Row] = []
        self._count: dict[str, int] = {}
        self._problems: list[str] = []
        self._unended = "", 0.0  # the oldest transaction of the store that had not ended, and when that was first seen

    def run(self, board: str = "") -> SyncReport:
        """Synchronise once; with a `board`, bring back the conversations and costs that it has there as well.

        Raises StoreError: what was done is done, and the next run goes on.
        """
        with self._home.locked():
            try:
                report = self._run(board)
            except BaseException:
                self._pages_number = ""
                raise
            self._pages_number = self._home.pages_number()
            return report

    def _run(self, board: str) -> SyncReport:
        self._count, self._problems = {}, []
        self._begin()
        if board:
            self._recover(board)
        if self._pages_number != self._home.pages_number():
            self._pages = self._home.known_pages()
        self._home.problems.clear()
        self._pull_new_places()
        for _ in range(_MAX_ROUNDS):
            self._pull()
            if not self._push_pages():
                break
        self._push_versions()
        self._erase_forgotten()
        self._push_own()
        skills = SkillSync(self._home, self._store, self._put, self._now)
        self._add("pushed", skills.run())
        problems = tuple(dict.fromkeys([*self._problems, *self._home.problems, *skills.problems]))
        return SyncReport(problems=problems, news=skills.list_news(), is_early=bool(self._unended[0]), **self._count)

    def _begin(self) -> None:
        """Take the board's name up, and find out whether the store is the one that was written to last."""
        if not (nonce := self._home.state("nonce")):
            nonce = uuid.uuid4().hex
            self._home.set_state("nonce", nonce)
        receipt, agents, unended = self._store.claim(self._home.board, nonce)
        # say so when one transaction in the database has kept what is new there from everybody for long
        now = self._now().timestamp()
        if unended != self._unended[0]:
            self._unended = unended, now
        if unended and now - self._unended[1] >= _LONG_S:
            self._problems.append(_UNENDED)
        if agents and (missing := self._home.restrict(agents)):
            self._problems.append(_NOT_GIVEN.format(", ".join(missing), self._home.board))
        known = self._home.state("receipt")
        if receipt not in {known, self._home.state("sent")}:
            self._home.forget_store()
            self._pushed_at = 0
            self._home.set_state("receipt", receipt)
            self._problems += [_RESTORED] if known else []
            self._recover(self._home.board)
        elif receipt != known:  # it was written, and the answer was lost
            self._home.set_state("receipt", receipt)

    def _recover(self, board: str) -> None:
        """Take back what a board has once pushed and this home has not: it is the older one, or a new one."""
        self._pushed_at = 0
        for kind in OWN_KINDS:
            for agent in self._home.agents:
                rows = iter_rows(self._store, kind, {"agent_id": agent, "board": board})
                for some in split_batches(rows, _BATCH):
                    self._add("recovered", self._home.take_rows(kind, some))

    def _add(self, what: str, count: int) -> None:
        self._count[what] = self._count.get(what, 0) + count

    # --- pages that come ---

    def _pull(self) -> None:
        for kind in PAGE_KINDS:
            for agent in self._home.agents:
                name = f"cursor {kind} {agent}"
                while True:
                    found = self._store.changes(kind, agent, self._home.state(name), _BATCH)
                    done = [self._apply(kind, row) for row in found.rows]
                    self._keep_pages()
                    if not all(done):
                        return  # a page is being written here; the next run comes to it
                    self._home.set_state(name, found.cursor)
                    if len(found.rows) < _BATCH:
                        break

    def _pull_new_places(self) -> None:
        """Take over the pages of people and agents that have come, which were passed over so far."""
        places = self._home.list_new_places()
        done = [
            self._apply(kind, row)
            for place in places
            for kind in PAGE_KINDS
            if self._home.state(f"cursor {kind} {place.agent_id}")  # or else all is asked for
            for row in iter_rows(self._store, kind, {"agent_id": place.agent_id, "person": place.person})
        ]
        self._keep_pages()
        if all(done):
            self._home.note_places()

    def _apply(self, kind: str, row: Row) -> bool:
        """Take over what the store has of a page; tells whether that could be done."""
        found = self._home.find_page(kind, row)
        if found is None:
            return True
        page = self._pages.get(found.id, found)
        if page.digest == row["digest"] and page.version >= row["version"]:
            return True
        theirs = None if row["deleted"] else str(row["content"])
        try:
            ours = self._home.read_page(page)
            mine = self._digest(page, ours)
            if mine == row["digest"] or (ours is None and theirs is None):
                text = theirs
            elif mine == page.digest or (not page.version and (ours is None or self._home.is_unfilled(page, ours))):
                text = theirs
                self._add("pulled", 1)
            else:
                text = self._merge(page, row, ours, theirs)
                self._add("conflicts", 1)
            if text != ours and not self._home.write_page(page, ours, text, row["at"]):
                return False
        except StoreError as error:
            self._problems.append(str(error))
            return True
        self._adopt(page, row)
        return True

    def _merge(self, page: SharedPage, row: Row, ours: str | None, theirs: str | None) -> str | None:
        """Decide what a page says that was changed on both sides."""
        if ours is None or theirs is None:  # what somebody has written stands against a deletion
            return theirs if ours is None else ours
        if DAY_NOTE.fullmatch(page.path):
            return merge_lines(page.base, ours, theirs)
        if self._home.written_at(page) > row["at"]:
            return ours  # the store keeps theirs as a version when ours is pushed
        self._lost.append(self._make_row(page, ours, 0, self._home.written_at(page)))
        folder = page.place.folder
        if page.path in {LASTING_FILE, get_lasting_file(page.place.workspace)}:
            with explain_failure(f"the earlier {page.path} cannot be kept"):
                versions.keep_version(folder, page.path, ours.encode(), theirs.encode(), self._now())
        return theirs

    def _adopt(self, page: SharedPage, row: Row, stamp: str = "", chunks: str = "") -> None:
        known = page._replace(
            version=row["version"],
            digest=row["digest"],
            base="" if row["deleted"] else row["content"],
            stamp=stamp,
            chunks=chunks,
        )
        self._pages[page.id] = self._unkept[page.id] = known

    def _keep_pages(self) -> None:
        self._home.keep_pages(self._unkept.values())
        self._unkept.clear()

    def _digest(self, page: SharedPage, text: str | None) -> str:
        return str(complete_row(page.kind, self._make_row(page, text, 0, 0.0), "")["digest"])

    @staticmethod
    def _make_row(page: SharedPage, text: str | None, version: int, at: float) -> Row:
        return {
            "id": page.id,
            "agent_id": page.place.agent_id,
            "at": at,
            "deleted": text is None,
            "person": page.place.person,
            "path": page.path,
            "content": text or "",
            "version": version,
        }

    # --- pages that go ---

    def _push_pages(self) -> int:
        """Push the pages that are new here; returns how many of them another board has changed meanwhile."""
        refused = 0
        for some in self._batch_pages(self._find_changed()):
            rows: dict[str, list[Row]] = {}
            chunks: dict[str, Sequence[SharedChunk]] = {}
            done = []
            # what the store has of the pages of which it has the text: chunks come with it from whoever wrote it
            same = [page.id for page, row, _ in some if page.kind == "documents" and row["version"] == page.version]
            there = {number: ChunksState() for number in same} | self._store.describe_chunks(same) if same else {}
            for page, row, stamp in some:
                parts, state = self._read_chunks(page, row)
                if page.id in there and has_chunks(there[page.id], parts, is_taken_over=not page.chunks):
                    self._adopt(page, complete_row(page.kind, row, self._home.board), stamp, state)
                    continue
                rows.setdefault(page.kind, []).append(row)
                if page.kind == "documents":
                    chunks[page.id] = parts
                done.append((page, complete_row(page.kind, row, self._home.board), stamp, state))
            conflicts = self._put(rows, chunks) if rows else {}
            for page, row, stamp, state in done:
                if page.id not in conflicts:
                    self._add("pushed", row["digest"] != page.digest)
                    self._adopt(page, row, stamp, state)
            for number, row in conflicts.items():
                refused += 1
                page = next(one for one, *_ in done if one.id == number)
                self._apply(page.kind, row)
            self._keep_pages()
        self._keep_pages()
        return refused

    def _find_changed(self) -> Iterator[tuple[SharedPage, Row, str]]:
        """Give each page that is not as the store has it, or whose vectors are new, with its row and its stamp."""
        seen = set()
        changed = self._find_reindexed()
        for page, stamp in list(self._home.iter_pages()):
            seen.add(page.id)
            known = self._pages.get(page.id, page)
            is_reindexed = page.kind == "documents" and page.place.name in changed
            if known.stamp == stamp and not (is_reindexed and self._home.read_chunks(page)[1] != known.chunks):
                continue
            try:
                text = self._home.read_page(page)
            except StoreError as error:
                self._problems.append(str(error))
                continue
            if text is None:
                continue  # it has gone while we looked
            if not known.version and self._home.is_unfilled(page, text):
                continue
            digest = self._digest(page, text)
            at = self._home.written_at(page) or self._now().timestamp()
            if digest != known.digest:
                yield known, self._make_row(page, text, known.version + 1, at), stamp
            elif page.kind == "documents" and self._home.read_chunks(page)[1] != known.chunks:
                yield known, self._make_row(page, text, known.version, at), stamp
            elif known.stamp != stamp:
                self._pages[page.id] = self._unkept[page.id] = known._replace(stamp=stamp)
        for name, state in changed.items():
            self._home.set_state(f"index {name}", state)
        # the places of which nothing can be said to be deleted, because their folder is not there
        unsure = {place.name for place in self._home.places.values() if not self._home.is_readable(place)}
        for page in list(self._pages.values()):
            is_gone = page.id not in seen and page.digest != self._digest(page, None)
            if is_gone and page.place.name not in unsure and self._home.read_page(page) is None:
                yield page, self._make_row(page, None, page.version + 1, self._now().timestamp()), ""

    def _find_reindexed(self) -> dict[str, str]:
        """The places whose notes have new chunks or vectors since the last run, and what tells that."""
        found = {}
        for place in self._home.places.values():
            state = self._home.index_state(place)
            if state != self._home.state(f"index {place.name}"):
                found[place.name] = state
        return found

    def _read_chunks(self, page: SharedPage, row: Row) -> tuple[list[SharedChunk], str]:
        return self._home.read_chunks(page) if page.kind == "documents" and not row["deleted"] else ([], "")

    @staticmethod
    def _batch_pages(pages: Iterable[tuple[SharedPage, Row, str]]) -> Iterator[list[tuple[SharedPage, Row, str]]]:
        """Put pages together that are pushed at once."""
        some: list[tuple[SharedPage, Row, str]] = []
        size = 0
        for one in pages:
            some.append(one)
            size += len(one[1]["content"])
            if size > _MAX_BATCH_CHARS or len(some) >= _BATCH:
                yield some
                some, size = [], 0
        if some:
            yield some

    def _push_versions(self) -> None:
        """Push what was replaced here by what others have written, as earlier versions."""
        rows = []
        for row in self._lost:
            number = make_id("replaced", row["id"], self._home.board, complete_row("documents", row, "")["digest"])
            rows.append(row | {"id": number, "document_id": row["id"]})
        if rows:
            self._put({"document_versions": rows})
        self._lost.clear()

    def _erase_forgotten(self) -> None:
        """Leave no earlier version in the store of notes in which something was forgotten."""
        for place in self._home.places.values():
            stamp = self._home.forgotten_at(place)
            if stamp and stamp != self._home.state(f"forgotten {place.name}"):
                equal = {"agent_id": place.agent_id, "person": place.person}
                kept = [row["id"] for row in iter_rows(self._store, "document_versions", equal)]
                self._add("erased", self._store.delete("document_versions", kept))
                self._home.set_state(f"forgotten {place.name}", stamp)

    # --- this board's own rows ---

    def _push_own(self) -> None:
        """Push what is new of this board's own. Conversations and costs are looked at when somebody has written here."""
        version = self._home.data_version()
        is_idle = version == self._pushed_at
        known = self._home.known_rows(*(("agents",) if is_idle else OWN_KINDS))
        there = [*([] if is_idle else self._home.list_talk()), *self._home.list_agents()]
        if not is_idle:
            self._erase_own(known, there)
        self._pushed_at, left = 0, 0
        ids = {place: one.id for place, one in known.items()}  # what is in the store already keeps its id
        new = [row._replace(id=ids.get((row.kind, row.local), row.id)) for row in there]
        changed = [row for row in new if known.get((row.kind, row.local), row._replace(mark="")).mark != row.mark]
        for kind in OWN_KINDS:
            for some in split_batches((row for row in changed if row.kind == kind), _BATCH):
                at = self._now().timestamp()
                made = [(row, found) for row in some if (found := self._home.make_row(row, at))]
                left += len(some) - len(made)
                if made:
                    self._put({kind: [found for _, found in made]})
                    self._home.keep_rows(row._replace(id=found["id"]) for row, found in made)
                    self._add("pushed", len(made))
        self._pushed_at = 0 if left else version

    def _erase_own(self, known: Mapping[tuple[str, str], LocalRow], there: Iterable[LocalRow]) -> None:
        """Delete what was deleted here. A turn that is only lost, by a damaged file, stays in the store."""
        here = {(row.kind, row.local) for row in there}
        for kind in ("summaries", "turns", "sessions"):
            gone = [
                row
                for key, row in known.items()
                if row.kind == kind
                and (row.mark == ERASED or (kind != "turns" and key not in here and row.mark != GONE))
            ]
            for some in split_batches(gone, _BATCH):
                self._add("erased", self._store.delete(kind, [row.id for row in some]))
                self._home.keep_rows(row._replace(mark=GONE) for row in some)

    def _put(
        self, rows: Mapping[str, Iterable[Row]], chunks: Mapping[str, Sequence[SharedChunk]] | None = None
    ) -> dict[str, Row]:
        """Write a batch under a receipt that this home has written down before."""
        receipt = uuid.uuid4().hex
        self._home.set_state("sent", receipt)
        conflicts = self._store.put(rows, chunks, receipt)
        self._home.set_state("receipt", receipt)
        return conflicts


def has_chunks(there: ChunksState, ours: Sequence[SharedChunk], *, is_taken_over: bool) -> bool:
    """Whether the store needs our chunks of a page no more; of one that was taken over, vectors of any model do."""
    mine = ChunksState(
        len(ours), sum(one.vector is not None for one in ours), max((one.model for one in ours), default="")
    )
    return there == mine or (is_taken_over and there.chunks == mine.chunks and there.vectors >= mine.vectors)


def split_batches(values: Iterable[_T], most: int) -> Iterator[list[_T]]:
    rest = iter(values)
    while some := list(islice(rest, most)):
        yield some


def count_missing(home: SharedHome, store: SharedStore, board: str) -> dict[str, int]:
    """Count what the store has of a board, and of its agents' pages, that this home has not, by table."""
    pages, known = home.known_pages(), {row.id for row in home.known_rows().values()}
    found: dict[str, int] = {}
    for kind in (*PAGE_KINDS, *OWN_KINDS[1:]):
        for agent in home.agents:
            for row in iter_rows(store, kind, {"agent_id": agent} | ({} if kind in PAGE_KINDS else {"board": board})):
                page = home.find_page(kind, row) if kind in PAGE_KINDS else None
                there = pages[page.id].digest == row["digest"] if page and page.id in pages else row["id"] in known
                is_ours = page is not None or kind not in PAGE_KINDS
                found[kind] = found.get(kind, 0) + (is_ours and not there and not row["deleted"])
    return found


def iter_rows(store: SharedStore, table: str, equal: Mapping[str, object]) -> Iterator[Row]:
    last = ""
    while found := store.list_rows(table, equal, last, _BATCH):
        yield from found
        last = found[-1]["id"]


_INTERVAL_S, _POLL_S = 300.0, 60.0
"""Seconds between two synchronisations without news: while the store tells of them, and while it cannot."""
_SETTLE_S = 2.0
"""Seconds after a change in which more may follow."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 120.0
_STOP_S = 5.0


class StoreWorker:
    """Synchronises in a thread of its own."""

    def __init__(
        self,
        config: Config,
        now: Callable[[], datetime],
        note: Callable[..., None],
        waits: tuple[float, float, float, float] = (_SETTLE_S, _FIRST_WAIT_S, _LONGEST_WAIT_S, _POLL_S),
    ) -> None:
        """`waits`: seconds after a change, after a first failure, the longest after many, and until asking without news."""
        self._config, self._now, self._note, self._waits = config, now, note, waits
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ended = threading.Event()
        self._since = time.time()
        self._synced_at = self._failed_at = 0.0
        self._error = ""
        self._problems: tuple[str, ...] = ()
        self._news: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something may have changed here; from any thread."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._write, b"\0")

    def stop(self) -> None:
        """End it within seconds; what it was about to push is pushed after the next start."""
        self._ended.set()
        self.wake()
        self._thread.join(_STOP_S)
        if not self._thread.is_alive():
            os.close(self._read)
            os.close(self._write)

    def status(self) -> dict[str, Any]:
        """How it is; from any thread."""
        return {
            "address": self._config.store.shown_url,
            "board": self._config.store.board_name,
            "synced": self._synced_at,
            "failed": self._failed_at,
            "error": self._error,
            "problems": list(self._problems),
            "news": list(self._news),
        }

    def _run(self) -> None:
        wait = 0.0
        home: SharedHome | None = None
        store: SharedStore | None = None
        sync: StoreSync | None = None
        try:
            while not self._ended.is_set():
                try:
                    if sync is None:
                        home = home or SharedHome(self._config, self._config.store.board_name)
                        store = open_shared_store(self._config.store.url, self._config.store_password)
                        sync = StoreSync(home, store, self._now)
                    if home and store:
                        report = sync.run()
                        self._report(report)
                        wait = 0.0
                        if store.can_wait():
                            store.wait(home.agents, self._waits[3] if report.is_early else _INTERVAL_S, self._read)
                        else:
                            store.close()
                            select.select([self._read], [], [], _spread(self._waits[3]))
                        self._pause(_spread(self._waits[0]))
                        self._drain()
                except (PicoclawError, OSError) as error:
                    self._fail(explain_os_error(error) if isinstance(error, OSError) else str(error))
                    wait = min(wait * 2 or self._waits[1], self._waits[2])
                    self._pause(_spread(wait))
        finally:
            for one in (store, home):
                if one:
                    with contextlib.suppress(PicoclawError):
                        one.close()

    def _pause(self, seconds: float) -> None:
        self._ended.wait(seconds)

    def _drain(self) -> None:
        while select.select([self._read], [], [], 0)[0] and not self._ended.is_set():
            os.read(self._read, 1024)

    def _report(self, report: SyncReport) -> None:
        self._synced_at = time.time()
        if self._error:
            away = format_duration(max(0.0, self._synced_at - self._failed_at))
            self._note(
                f"store: it answers again after {away}; {report.pushed} written there, {report.pulled} taken over",
                trouble=False,
            )
        self._error, self._failed_at = "", 0.0
        for problem in set(report.problems) - set(self._problems):
            self._note(f"store: {problem}")
        for news in set(report.news) - set(self._news):
            self._note(f"store: {news}", trouble=False)
        self._problems, self._news = report.problems, report.news

    def _fail(self, error: str) -> None:
        if not self._error:
            self._failed_at = time.time()
            self._note(f"store: {error}; this board goes on with what it has")
        elif error != self._error:
            self._note(f"store: {error}")
        self._error = error


def _spread(seconds: float) -> float:
    """About as long: many boards that have lost a store, or heard of the same note, are not to ask all at once."""
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311 - no secret

"""What of a home is shared, as rows of the shared tables: read from its files and `state.db`, and written back there.

Pages (notes, and the files that a person has of their own with an agent) go both ways. Conversations, summaries and the
ledger are one board's, and only come back where a home is moved. All methods raise StoreError.
"""

import fcntl
import json
import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import dropwhile
from pathlib import Path
from typing import Any

from picoclaw import files
from picoclaw.agents import AGENT_PAGES, agent_id
from picoclaw.config import Config
from picoclaw.config.tables import AgentConfig
from picoclaw.files import find_shipped
from picoclaw.memory.files import MEMORY_FOLDER, ROOT_FILES, MemoryFiles, explain_failure
from picoclaw.memory.index import IndexFile
from picoclaw.memory.notes import lock_notes, read_note_file, resolve_place, write_note_file
from picoclaw.memory.versions import FORGOTTEN_FILE
from picoclaw.records import NamedTuple, asdict, replace
from picoclaw.shared_store.skills import list_shared_skills
from picoclaw.shared_store.store import Row, SharedChunk, SharedStore, clean_text, make_digest, make_id
from picoclaw.store.database import Database, StoreConnection, insert
from picoclaw.store.people import SkillGrants
from picoclaw.text import pattern

MAX_AGENT_PAGE_CHARS = 200_000
_TEXTS = ("name", "description", "model", "type")


class SharedAgent(NamedTuple):
    """An agent as a board has described it at a time, in seconds since 1970: `table` has what is not as usual."""

    key: str
    board: str
    at: float
    table: Mapping[str, Any]
    pages: Mapping[str, str]


def read_agent(row: Row) -> SharedAgent | None:
    """Read an agent's row; None for one that is not what it is called, or cannot be read. Parts that cannot are left out."""
    if row["deleted"] or row["id"] != agent_id(row["key"]):
        return None
    try:
        found = json.loads(row["settings"])
        about, written = dict(found.get("table") or {}), dict(found.get("pages") or {})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    usual = AgentConfig()
    texts = {name: about.get(name) for name in _TEXTS}
    table: dict[str, Any] = {
        name: text for name, text in texts.items() if isinstance(text, str) and text != getattr(usual, name)
    }
    if (tools := about.get("tools")) and isinstance(tools, list) and all(isinstance(tool, str) for tool in tools):
        table["tools"] = tools
    pages = {
        name: text
        for name in AGENT_PAGES
        if isinstance(text := written.get(name), str) and 0 < len(text) <= MAX_AGENT_PAGE_CHARS
    }
    return SharedAgent(row["key"], row["board"], row["at"], table, pages)


def list_shared_agents(store: SharedStore) -> list[SharedAgent]:
    """The agents that this board may see in a store, by key. Raises StoreError."""
    found: list[SharedAgent] = []
    last = ""
    while rows := store.list_rows("agents", {}, last):
        found += filter(None, map(read_agent, rows))
        last = rows[-1]["id"]
    return sorted(found)


DAY_NOTE = pattern(r"memory/\d{6}/\d{8}\.md")
EVERYONE = "*"
"""Stands for the household where the store names a person; nobody in [people] can be called so."""

ERASED, GONE = "erased", "gone"
"""Marks of rows that were deleted here: not yet in the store, and there as well; they never come back."""

_MAX_PATH_CHARS = 300
_PAGES_NUMBER = "pages"
"""What the number of changes of `shared_pages` is called in `shared_state`."""
_TURN_NAMES = (
    *("provider", "steps", "prompt_tokens", "completion_tokens", "stopped"),
    *("undone", "heard", "asked_by"),
)
_LEDGER_KEY = ("day", "model", "cause", "channel", "agent", "person")
_LEDGER_COUNTS = ("requests", "prompt_tokens", "completion_tokens", "estimated", "money", "cached", "reasoning")


class Place(NamedTuple):
    """An agent, or what one person or the household has with it, and where that is."""

    agent_id: str
    key: str
    person: str
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.agent_id}/{self.person}"

    @property
    def workspace(self) -> Path:
        return self.folder if self.person == EVERYONE else self.folder / "workspace"


class SharedPage(NamedTuple):
    """A page by its table, place and path, and what is known of it in the store."""

    kind: str
    place: Place
    path: str
    version: int = 0
    digest: str = ""
    base: str = ""
    stamp: str = ""
    chunks: str = ""

    @property
    def id(self) -> str:
        return make_id(self.kind, self.place.agent_id, self.place.person, self.path)


class LocalRow(NamedTuple):
    """A row of one board's own: what it is called here and in the store, and what changes with what it says."""

    kind: str
    local: str
    mark: str
    id: str = ""


class SharedHome:
    """One home, and what the store knows of it."""

    def __init__(self, config: Config, board: str) -> None:
        """Open the home's database once more: for the thread that uses this."""
        self.config, self.board = config, board
        self.database = Database(config.home / "state.db")
        own = config.default_agent
        self.own = agent_id(own)
        self.ids = {key: agent_id(key) for key in dict.fromkeys([own, *config.agents])}
        self.places: dict[str, Place] = {}
        for key, number in self.ids.items():
            view = replace(config, agent="" if key == own else key)
            folders = {person: replace(view, person=person).folder for person in ("", *config.people)}
            if view.shared_folder:
                folders[EVERYONE] = view.shared_folder
            for person, folder in folders.items():
                place = Place(number, key, person, folder)
                self.places[place.name] = place
        self.agents = list(self.ids.values())
        self._indexes: dict[str, IndexFile] = {}
        self.problems: list[str] = []

    def close(self) -> None:
        for index in self._indexes.values():
            index.close()
        self.database.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process of this home synchronises, and hold the others off."""
        with explain_failure("the lock of the synchronisation cannot be taken"):
            handle = os.open(self.config.home / "store.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def restrict(self, agents: Collection[str]) -> list[str]:
        """Leave out the agents that the store does not give this board; returns their keys."""
        missing = [key for key, number in self.ids.items() if number not in agents]
        self.places = {name: place for name, place in self.places.items() if place.agent_id in agents}
        self.agents = [number for number in self.agents if number in agents]
        return missing

    # --- what is known of the store ---

    def state(self, name: str) -> str:
        return str(self.database.select_value("SELECT value FROM shared_state WHERE name = ?", name) or "")

    def set_state(self, name: str, value: str) -> None:
        if self.state(name) != value:
            self.database.write("INSERT OR REPLACE INTO shared_state VALUES (?, ?)", name, value)

    def list_new_places(self) -> list[Place]:
        """The places that have come since `note_places`: what the store has of them was passed over."""
        known = self.state("places").split()
        return [place for name, place in self.places.items() if known and name not in known]

    def note_places(self) -> None:
        self.set_state("places", " ".join(sorted(self.places)))

    def data_version(self) -> int:
        """A number that changes when another connection has written. https://sqlite.org/pragma.html#pragma_data_version"""
        return int(self.database.select_value("PRAGMA data_version"))

    def forget_store(self) -> None:
        """Know nothing of the store any more but the name that this board has there: all is compared again."""
        with self.database.transaction() as connection:
            connection.execute("DELETE FROM shared_state WHERE name GLOB 'cursor *' OR name IN ('receipt', 'sent')")
            connection.execute(
                "UPDATE shared_rows SET mark = CASE WHEN mark IN (?1, ?2) THEN ?1 ELSE '' END", (ERASED, GONE)
            )
            connection.execute("DELETE FROM shared_pages")
            _count_change(connection)

    def pages_number(self) -> str:
        """Changes with what `known_pages` gives: with each writing of it, by any process, and with the places."""
        return f"{self.state(_PAGES_NUMBER)} {len(self.places)}"

    def known_pages(self) -> dict[str, SharedPage]:
        rows = self.database.select(
            "SELECT id, kind, place, path, version, digest, base, stamp, chunks FROM shared_pages"
        )
        found = {}
        for number, kind, place, path, version, digest, base, stamp, chunks in rows:
            if place in self.places:
                text = zlib.decompress(base).decode()
                found[number] = SharedPage(kind, self.places[place], path, version, digest, text, stamp, chunks)
        return found

    def keep_pages(self, pages: Iterable[SharedPage]) -> None:
        """Remember what the store has of some pages; durable when this returns."""
        if not (pages := list(pages)):
            return
        with self.database.transaction() as connection:
            for page in pages:
                values = (page.kind, page.place.name, page.path, page.version, page.digest)
                base = zlib.compress(page.base.encode())
                connection.execute(
                    "INSERT OR REPLACE INTO shared_pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (page.id, *values, base, page.stamp, page.chunks),
                )
            _count_change(connection)

    # --- pages ---

    def iter_pages(self) -> Iterator[tuple[SharedPage, str]]:
        """Give every page that there is, and a stamp that changes when it is written."""
        for place in self.places.values():
            notes = MemoryFiles(place.workspace)
            for _, sources in notes.folders():
                for source in sources:
                    stamp = f"{source.mtime_ns} {source.size} {source.inode}"
                    yield SharedPage("documents", place, source.path), stamp
            self.problems += notes.problems
        rows = self.database.select("SELECT agent, person, name, version, at FROM user_context_files")
        for agent, person, name, version, at in rows:
            if own := self.places.get(f"{agent}/{person}"):
                yield SharedPage("user_context_files", own, name), f"{version} {at}"

    def read_page(self, page: SharedPage) -> str | None:
        """Return a page's text, None where there is none."""
        if page.kind == "documents":
            text = read_note_file(page.place.workspace, page.path)
            return None if text is None else clean_text(text)
        where = (page.place.agent_id, page.place.person, page.path)
        sql = "SELECT text FROM user_context_files WHERE agent = ? AND person = ? AND name = ?"
        found = self.database.select_value(sql, *where)
        return None if found is None else clean_text(found)

    def is_unfilled(self, page: SharedPage, text: str | None) -> bool:
        """Whether a page says only what every new home has in it, or what a person is given to begin with."""
        if text is None:
            return False
        folders = [find_shipped("templates") / "workspace"]
        if page.kind == "user_context_files":
            folders += [one.workspace for one in self.places.values() if one.name == f"{page.place.agent_id}/"]
        for folder in folders:
            with suppress(OSError, UnicodeDecodeError):
                if text == clean_text((folder / page.path).read_text("utf-8")):
                    return True
        return False

    def written_at(self, page: SharedPage) -> float:
        """When a page was written, in seconds since 1970; 0 where it is not there."""
        if page.kind == "documents":
            with suppress(OSError):
                return (page.place.workspace / page.path).stat().st_mtime
            return 0.0
        sql = "SELECT at FROM user_context_files WHERE agent = ? AND person = ? AND name = ?"
        found = self.database.select_value(sql, page.place.agent_id, page.place.person, page.path)
        return parse_moment(found) if found else 0.0

    def write_page(self, page: SharedPage, expected: str | None, text: str | None, at: float) -> bool:
        """Write a page, or delete it for None, if it still says what was expected; tells whether it did."""
        if page.kind != "documents":
            return self._write_context_file(page, expected, text, at)
        workspace = page.place.workspace
        with explain_failure(f"{workspace} cannot be made"):
            files.make_folder(workspace)
        with lock_notes(workspace):
            if self.read_page(page) != expected:
                return False
            place = resolve_place(workspace, page.path)
            with explain_failure(f"{page.path} cannot be written"):
                if text is None:
                    with suppress(FileNotFoundError), files.open_folder(place.above) as folder:
                        os.unlink(place.parts[-1], dir_fd=folder)
                        files.sync_folder(Path(), folder=folder)
                else:
                    with files.open_folder(place.above, make=True):
                        pass
                    write_note_file(workspace, page.path, text)
        return True

    def _write_context_file(self, page: SharedPage, expected: str | None, text: str | None, at: float) -> bool:
        where = (page.place.agent_id, page.place.person, page.path)
        with self.database.transaction() as connection:
            condition = "agent = ? AND person = ? AND name = ?"
            row = connection.execute(f"SELECT text FROM user_context_files WHERE {condition}", where).fetchone()
            if (clean_text(row[0]) if row else None) != expected:
                return False
            if text is None:
                connection.execute(f"DELETE FROM user_context_files WHERE {condition}", where)
            else:
                moment = datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
                connection.execute(
                    "INSERT INTO user_context_files (agent, person, name, text, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT"
                    " DO UPDATE SET text = excluded.text, version = version + 1, at = excluded.at",
                    (*where, text, moment),
                )
        return True

    def find_page(self, kind: str, row: Row) -> SharedPage | None:
        """Find the page that a row of the store is of; None where it is not for this home, or no name for a page."""
        if not (place := self.places.get(f"{row['agent_id']}/{row['person']}")):
            return None
        page = SharedPage(kind, place, row["path"])
        return page if page.id == row["id"] and is_page_name(kind, page.path) else None

    def read_chunks(self, page: SharedPage) -> tuple[list[SharedChunk], str]:
        """The chunks of a note as this home has indexed it, and what changes with them."""
        index = self._index(page.place)
        model, dims = index.model()
        found = [
            SharedChunk(chunk.start, chunk.end, chunk.heading, chunk.text, vector, model if vector else "")
            for chunk, vector in index.chunks_of(page.path)
        ]
        return found, f"{len(found)} {sum(one.vector is not None for one in found)} {model} {dims}"

    def index_state(self, place: Place) -> str:
        """Bring a place's index up to its files; returns what changes with its chunks and vectors."""
        if not place.workspace.is_dir():
            return ""
        index = self._index(place)
        index.sync()
        counted = index.stats()
        return " ".join(str(part) for part in (counted["chunks"], counted["vectors"], *index.model()))

    def _index(self, place: Place) -> IndexFile:
        if place.name not in self._indexes:
            self._indexes[place.name] = IndexFile(place.folder / "memory.db", place.workspace)
        return self._indexes[place.name]

    def is_readable(self, place: Place) -> bool:
        """Whether what is missing below a place's folder was deleted, and is not only out of reach."""
        notes = MemoryFiles(place.workspace)
        for _, sources in notes.folders():
            list(sources)
        return place.workspace.is_dir() and not notes.unread

    def forgotten_at(self, place: Place) -> str:
        """When something was forgotten in a place's notes, '' for never."""
        with suppress(OSError):
            return str((place.folder / FORGOTTEN_FILE).stat().st_mtime_ns)
        return ""

    # --- rows of this board's own ---

    def list_own(self) -> Iterator[LocalRow]:
        """Give the rows of this board by what they are called here."""
        yield from self.list_talk()
        yield from self.list_agents()
        if self.own in self.agents:
            yield from self.list_skills()

    def list_talk(self) -> Iterator[LocalRow]:
        """Give the conversations and costs of this board."""
        whose = "iif(agent || person = '', '', ' ' || agent || ' ' || person)"
        yield from self._list(
            "sessions", f"SELECT id, begun || ' ' || ended || ' ' || key || {whose} FROM sessions WHERE begun != ''"
        )
        talk = "iif(agent = '', '', ' ' || agent)"
        yield from self._list(
            "turns", f"SELECT turns.id, undone || {talk} FROM turns JOIN sessions ON sessions.id = session"
        )
        yield from self._list("summaries", "SELECT id, '' FROM summaries")
        yield from self._list(
            "ledger",
            f"SELECT json_array({', '.join(_LEDGER_KEY)}), concat_ws(' ', {', '.join(_LEDGER_COUNTS)}) FROM ledger",
        )

    def list_agents(self) -> Iterator[LocalRow]:
        """Give the agents of this home; an agent's mark changes with its table and pages."""
        for place in self.places.values():
            if not place.person:
                yield LocalRow("agents", place.agent_id, make_digest({"": self._describe_agent(place)}))

    def list_skills(self) -> Iterator[LocalRow]:
        """Give the skills and grants of this home; a skill's mark changes with its files and with who may use it."""
        grants = SkillGrants(self.database).all()
        for skill, stamp in list_shared_skills(self.config):
            given = " ".join(f"{grant.grantee} {grant.pinned}" for grant in grants if grant.skill == skill.name)
            yield LocalRow("skills", skill.name, f"is {stamp} {given}")
        for grant in grants:
            yield LocalRow("skill_grants", f"{grant.skill} {grant.grantee}", f"is {grant.pinned} {grant.granted_at}")

    def count_unsynced(self) -> dict[str, int]:
        """Count what the store has not, or not as it is here, by table."""
        pages, rows = self.known_pages(), self.known_rows()
        found: dict[str, int] = {}
        for page, stamp in self.iter_pages():
            known = pages.get(page.id)
            if not known and self.is_unfilled(page, self.read_page(page)):
                continue
            is_new = not known or (known.stamp != stamp and known.base != (self.read_page(page) or ""))
            found[page.kind] = found.get(page.kind, 0) + is_new
        for row in self.list_own():
            there = rows.get((row.kind, row.local))
            found[row.kind] = found.get(row.kind, 0) + (not there or there.mark != row.mark)
        return found

    def _list(self, kind: str, sql: str) -> Iterator[LocalRow]:
        for local, mark in self.database.select(sql):
            yield LocalRow(kind, str(local), f"is {mark}")

    def known_rows(self, *kinds: str) -> dict[tuple[str, str], LocalRow]:
        """What is known of the rows of some kinds, of all without any."""
        where = f" WHERE kind IN ({', '.join('?' * len(kinds))})" if kinds else ""
        rows = self.database.select(f"SELECT kind, local, mark, id FROM shared_rows{where}", *kinds)
        return {(kind, local): LocalRow(kind, local, mark, number) for kind, local, mark, number in rows}

    def keep_rows(self, rows: Iterable[LocalRow]) -> None:
        with self.database.transaction() as connection:
            for row in rows:
                self._keep_row(connection, row)

    @staticmethod
    def _keep_row(connection: StoreConnection, row: LocalRow) -> None:
        connection.execute(
            "INSERT INTO shared_rows (kind, local, id, mark) VALUES (?, ?, ?, ?) ON CONFLICT (kind, local) DO UPDATE SET"
            " id = excluded.id, mark = CASE WHEN mark = 'erased' AND excluded.mark != 'gone' THEN mark ELSE excluded.mark END",
            (row.kind, row.local, row.id, row.mark),
        )

    def make_row(self, row: LocalRow, now: float) -> Row | None:
        """Make the store's row of what is called `local` here; None where it has gone meanwhile, or is not for the store."""
        found: Row | None = getattr(self, f"_make_{row.kind}")(row.local)
        if not found:
            return None
        made = {"agent_id": self.own, "at": now, "deleted": False} | found | ({"id": row.id} if row.id else {})
        return made if made["agent_id"] in self.agents else None

    def _make_sessions(self, local: str) -> Row | None:
        rows = self.database.select("SELECT key, begun, ended, agent, person FROM sessions WHERE id = ?", int(local))
        for key, begun, ended, agent, person in rows:
            found = {"person": person, "number": int(local), "key": key, "begun": begun, "ended": ended}
            number = make_id("session", self.board, local, key, begun)
            return found | {"id": number, "agent_id": self._find_agent_id(agent)}
        return None

    def _make_turns(self, local: str) -> Row | None:
        rows = self.database.select(
            f"SELECT id, session, at, {', '.join(_TURN_NAMES)} FROM turns WHERE id = ?", int(local)
        )
        for number, session, at, *values in rows:
            messages = self.database.select(
                "SELECT role, text, calls, call_id FROM messages WHERE turn = ? ORDER BY id", number
            )
            said = json.dumps(messages, ensure_ascii=False)
            about = dict(zip(_TURN_NAMES, values, strict=True))
            talk = self.find_id("sessions", str(session)) or (self._make_sessions(str(session)) or {}).get("id")
            agent = self.database.select_value("SELECT agent FROM sessions WHERE id = ?", session)
            return {
                "id": make_id("turn", self.board, number, at, said),
                "session_id": talk or make_id("session", self.board, session, "", ""),
                "number": number,
                "said_at": at,
                "messages": said,
                **about,
                "undone": bool(about["undone"]),
                "agent_id": self._find_agent_id(agent),
            }
        return None

    def _make_summaries(self, local: str) -> Row | None:
        for session, upto, at, text in self.database.select(
            "SELECT session, upto, at, text FROM summaries WHERE id = ?", int(local)
        ):
            talk, turn = self.find_id("sessions", str(session)), self.find_id("turns", str(upto))
            if not talk or not turn:
                return None
            number = make_id("summary", self.board, local, at, text)
            return {"id": number, "session_id": talk, "upto": turn, "said_at": at, "text": text}
        return None

    def _make_ledger(self, local: str) -> Row | None:
        names = (*_LEDGER_KEY, *_LEDGER_COUNTS)
        sql = f"SELECT {', '.join(names)} FROM ledger WHERE json_array({', '.join(_LEDGER_KEY)}) = ?"
        for row in self.database.select(sql, local):
            *place, agent, person = row[: len(_LEDGER_KEY)]
            number = make_id("ledger", self.board, *place, *([agent, person] if agent or person else []))
            found = dict(zip(names, row, strict=True))
            return {"id": number, "agent_id": self._find_agent_id(found.pop("agent")), **found}
        return None

    def _make_agents(self, local: str) -> Row | None:
        place = next(one for one in self.places.values() if one.agent_id == local and not one.person)
        return {"id": local, "agent_id": local, "key": place.key, "settings": self._describe_agent(place)}

    def _describe_agent(self, place: Place) -> str:
        """An agent's table and pages, for people who look into the store, and for a home that is moved."""
        table = self.config.agents.get(place.key)
        pages = {}
        for name in AGENT_PAGES:
            with suppress(OSError, UnicodeDecodeError):
                pages[name] = files.read_file(place.folder / "workspace" / name).decode()
        about = {name: value for name, value in asdict(table).items() if name != "workspace"} if table else {}
        return json.dumps({"table": about, "pages": pages}, ensure_ascii=False, sort_keys=True, default=str)

    def _find_agent_id(self, key: str) -> str:
        """The id of an agent by its key here, '' for the home's own; one that is gone counts as that."""
        return self.ids.get(key, self.own)

    def _find_agent_key(self, number: str) -> str:
        """What state.db calls an agent: its key, '' for the home's own."""
        return next((key for key, known in self.ids.items() if known == number != self.own), "")

    def find_id(self, kind: str, local: str) -> str:
        """What a row of this home is called in the store, '' where it is not there."""
        sql = "SELECT id FROM shared_rows WHERE kind = ? AND local = ?"
        return str(self.database.select_value(sql, kind, local) or "")

    # --- rows that come back ---

    def take_rows(self, kind: str, rows: Iterable[Row]) -> int:
        """Write rows of the store that this home has not; in one transaction with what they are called there."""
        count = 0
        with self.database.transaction() as connection:
            known = {
                number: local
                for local, number in connection.execute("SELECT local, id FROM shared_rows WHERE kind = ?", (kind,))
            }
            for row in rows:
                if row["deleted"] or (row["id"] in known and kind != "ledger"):
                    continue
                local = getattr(self, f"_take_{kind}")(connection, row)
                if local:
                    self._keep_row(connection, LocalRow(kind, local, "", row["id"]))
                    count += 1
        return count

    def _find_local(self, connection: StoreConnection, kind: str, number: str) -> int:
        sql = "SELECT local FROM shared_rows WHERE kind = ? AND id = ?"
        return int(connection.execute(sql, (kind, number)).get or 0)

    def _take_sessions(self, connection: StoreConnection, row: Row) -> str:
        is_open = not row["ended"]
        if is_open and connection.execute("SELECT 1 FROM sessions WHERE key = ? AND ended = ''", (row["key"],)).get:
            row = row | {"ended": row["begun"]}  # a chat has one open conversation
        agent = self._find_agent_key(row["agent_id"])
        talk = {name: row[name] for name in ("key", "begun", "ended", "person")}
        return str(insert(connection, "sessions", agent=agent, **talk))

    def _take_turns(self, connection: StoreConnection, row: Row) -> str:
        session = self._find_local(connection, "sessions", row["session_id"])
        if not session:
            return ""
        about = {name: row[name] for name in _TURN_NAMES}
        turn = insert(connection, "turns", session=session, at=row["said_at"], **about)
        connection.executemany(
            "INSERT INTO messages (turn, role, text, calls, call_id) VALUES (?, ?, ?, ?, ?)",
            [(turn, *message) for message in json.loads(row["messages"])],
        )
        return str(turn)

    def _take_summaries(self, connection: StoreConnection, row: Row) -> str:
        session = self._find_local(connection, "sessions", row["session_id"])
        upto = self._find_local(connection, "turns", row["upto"])
        if not session or not upto:
            return ""
        return str(insert(connection, "summaries", session=session, upto=upto, at=row["said_at"], text=row["text"]))

    def _take_ledger(self, connection: StoreConnection, row: Row) -> str:
        """Take a day's sum where there is none, or a smaller one."""
        row = row | {"agent": self._find_agent_key(row["agent_id"])}
        place = [row[name] for name in _LEDGER_KEY]
        where = " AND ".join(f"{name} = ?" for name in _LEDGER_KEY)
        there = connection.execute(f"SELECT requests FROM ledger WHERE {where}", place).get
        if there is not None and there >= row["requests"]:
            return ""
        names = (*_LEDGER_KEY, *_LEDGER_COUNTS)
        connection.execute(
            f"INSERT OR REPLACE INTO ledger ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
            [row[name] for name in names],
        )
        return json.dumps(place, ensure_ascii=False, separators=(",", ":"))

    def _take_agents(self, _: StoreConnection, row: Row) -> str:
        """Bring back the pages of an agent that are not here; never over one that is."""
        place = next((one for one in self.places.values() if one.agent_id == row["id"] and not one.person), None)
        agent = read_agent(row)
        done = write_agent_pages(place.folder / "workspace", agent.pages) if place and agent else 0
        return row["id"] if done else ""


def write_agent_pages(workspace: Path, pages: Mapping[str, str]) -> int:
    """Write the pages of an agent that are not there; returns how many. Raises StoreError."""
    done = 0
    for name, text in pages.items():
        with explain_failure(f"{name} cannot be written"):
            files.make_folder(workspace)
            done += files.create_file(workspace / name, text.encode())
    return done


def is_page_name(kind: str, path: str) -> bool:
    """Whether a path that another board gave may be a page here: a note, or a plain name."""
    parts = path.split("/")
    plain = all(part and not part.startswith(".") and part.isprintable() for part in parts)
    if not plain or "\\" in path or not path.endswith(".md") or len(path) > _MAX_PATH_CHARS:
        return False
    if kind == "documents":
        return path in ROOT_FILES or (parts[0] == MEMORY_FOLDER and len(parts) > 1)
    return len(parts) == 1


def _count_change(connection: StoreConnection) -> None:
    connection.execute(
        "INSERT INTO shared_state VALUES (?, '1') ON CONFLICT (name) DO UPDATE SET value = value + 1", (_PAGES_NUMBER,)
    )


def parse_moment(text: str) -> float:
    """A date of `state.db` in seconds since 1970, 0 for one that cannot be read."""
    with suppress(ValueError):
        return datetime.fromisoformat(text).timestamp()
    return 0.0


def merge_lines(base: str, ours: str, theirs: str) -> str:
    """Merge two texts line by line: what either took out of `base` is gone, what either added is there, theirs first."""
    import difflib

    old, ours_lines, theirs_lines = (text.splitlines(keepends=True) for text in (base, ours, theirs))
    gone: dict[str, int] = {}
    added: dict[int, list[str]] = {}  # by how many of base's lines are before them
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, ours_lines, autojunk=False).get_opcodes():
        if tag in {"delete", "replace"}:
            for line in old[i1:i2]:
                gone[line] = gone.get(line, 0) + 1
        if tag in {"insert", "replace"}:
            added.setdefault(i1, []).extend(ours_lines[j1:j2])
    result: list[str] = []
    known = set(theirs_lines)
    matcher = difflib.SequenceMatcher(None, old, theirs_lines, autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            for offset, line in enumerate(theirs_lines[j1:j2]):
                result += _fresh(added.pop(i1 + offset, []), known)
                if gone.get(line, 0):
                    gone[line] -= 1
                else:
                    result.append(line)
            continue
        result += theirs_lines[j1:j2]
        for at in [at for at in added if i1 <= at < i2]:
            result += _fresh(added.pop(at), known)
    for lines in added.values():
        result += _fresh(lines, known)
    return "".join(line if line.endswith("\n") or line is result[-1] else f"{line}\n" for line in result)


def _fresh(lines: Iterable[str], known: set[str]) -> list[str]:
    """Leave out what the other has added as well, and blank lines that parted it from the rest."""
    lines = list(lines)
    said = [line for line in lines if not line.strip() or line not in known]
    if len(said) < len(lines):
        said = list(dropwhile(lambda line: not line.strip(), said))
    return said if any(line.strip() for line in said) else []

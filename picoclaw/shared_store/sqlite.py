"""A shared store in one SQLite file: for several homes on one machine, and to carry what a home shares to another one."""

import json
import select
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from picoclaw.memory.index import MemoryRow
from picoclaw.memory.search import VectorComparison, summarise_cosines
from picoclaw.shared_store.store import (
    KEPT_VERSIONS,
    TABLES,
    BoardState,
    Changes,
    Chunks,
    ChunksState,
    Row,
    SearchScope,
    SharedChunk,
    check_claim,
    check_erasable,
    clean_text,
    complete_row,
    create_tables,
    drop_repeated,
    index_words,
    is_conflict,
    make_memory_row,
    make_version_id,
    select_equal,
    select_ids,
    split_query,
    upsert,
)
from picoclaw.store.database import Database, StoreConnection

if TYPE_CHECKING:
    import apsw

_POLL_S = 1.0
_TYPES = {"text": "TEXT", "int": "INTEGER", "real": "REAL", "bool": "INTEGER", "uuid": "TEXT"}


def m001_shared(connection: "apsw.Connection") -> None:
    """The shared tables; `clock` counts the writes, so that `changed` says in which order rows came."""
    connection.execute(create_tables("", _TYPES, "INTEGER NOT NULL", " STRICT"))
    connection.execute("""
        CREATE TABLE clock (number INTEGER NOT NULL) STRICT;
        INSERT INTO clock VALUES (0);
        CREATE TABLE boards (
            name TEXT PRIMARY KEY, nonce TEXT NOT NULL, receipt TEXT NOT NULL, revoked INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE TABLE chunks (
            number INTEGER PRIMARY KEY AUTOINCREMENT, document_id TEXT NOT NULL, agent_id TEXT NOT NULL,
            person TEXT NOT NULL, path TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL,
            heading TEXT NOT NULL, text TEXT NOT NULL, model TEXT NOT NULL, vector BLOB
        ) STRICT;
        CREATE INDEX chunks_document ON chunks (document_id);
        CREATE INDEX chunks_agent ON chunks (agent_id, person);
        CREATE VIRTUAL TABLE words USING fts5(terms, content = '', contentless_delete = 1, tokenize = 'unicode61');
        CREATE INDEX document_versions_document ON document_versions (document_id, version);
        CREATE INDEX turns_session ON turns (session_id);
    """)


def m002_ledger_person(connection: "apsw.Connection") -> None:
    """For whom models were used, '' for the owner."""
    connection.execute("ALTER TABLE ledger ADD COLUMN person TEXT NOT NULL DEFAULT ''")


_MIGRATIONS = [m001_shared, m002_ledger_person]


class SqliteStore:
    """One connection to such a file; see SharedStore."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it. Raises StoreError."""
        self._database = Database(path, _MIGRATIONS)
        self.address = f"sqlite:{path}"
        self._board = ""
        self._seen = self._data_version()

    def claim(self, board: str, nonce: str) -> BoardState:
        with self._database.transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO boards (name, nonce, receipt) VALUES (?, ?, '')", (board, nonce))
            (known, receipt, revoked) = connection.execute(
                "SELECT nonce, receipt, revoked FROM boards WHERE name = ?", (board,)
            ).fetchone()
        check_claim(board, known == nonce, bool(revoked))
        self._board = board
        return BoardState(receipt, ())

    def put(self, rows: Mapping[str, Iterable[Row]], chunks: Chunks | None = None, receipt: str = "") -> dict[str, Row]:
        conflicts: dict[str, Row] = {}
        with self._database.transaction() as connection:
            connection.execute("UPDATE clock SET number = number + 1")
            for table in (name for name in TABLES if name in rows):
                conflicts |= self._put_rows(
                    connection, table, [complete_row(table, row, self._board) for row in rows[table]]
                )
            for document, parts in (chunks or {}).items():
                if document not in conflicts:
                    self._put_chunks(connection, document, parts)
            if receipt:
                connection.execute("UPDATE boards SET receipt = ? WHERE name = ?", (receipt, self._board))
        return conflicts

    def _put_rows(self, connection: StoreConnection, table: str, rows: Sequence[Row]) -> dict[str, Row]:
        names = list(TABLES[table].all_columns)
        values = f"(SELECT {', '.join(f'? AS {name}' for name in names)}) WHERE true"
        sql = upsert(table, "", "(SELECT number FROM clock)", values)
        conflicts: dict[str, Row] = {}
        for row in drop_repeated(rows):
            there = connection.execute(select_ids(table, "", "= ?"), (row["id"],)).fetchone()
            before = _make_row(table, there) if there else None
            written = connection.execute(sql, [row[name] for name in names]).fetchall()
            if written and before and table == "documents":
                self._keep_version(connection, before, row)
            if not written and before and is_conflict(table, row, before):
                conflicts[row["id"]] = before
        return conflicts

    def _keep_version(self, connection: StoreConnection, before: Row, row: Row) -> None:
        """Keep a page that is replaced, and let the oldest of too many go."""
        if before["digest"] != row["digest"] and before["content"]:
            kept = before | {
                "id": make_version_id(before["id"], before["version"], before["digest"]),
                "document_id": before["id"],
            }
            self._put_rows(connection, "document_versions", [kept])
        connection.execute(
            "DELETE FROM document_versions WHERE document_id = ? AND version < ?",
            (row["id"], row["version"] - KEPT_VERSIONS),
        )

    def _put_chunks(self, connection: StoreConnection, document: str, parts: Iterable[SharedChunk]) -> None:
        connection.execute(
            "DELETE FROM words WHERE rowid IN (SELECT number FROM chunks WHERE document_id = ?)", (document,)
        )
        connection.execute("DELETE FROM chunks WHERE document_id = ?", (document,))
        page = connection.execute("SELECT agent_id, person, path FROM documents WHERE id = ?", (document,)).fetchone()
        for part in parts if page else ():
            heading, text = clean_text(part.heading), clean_text(part.text)
            number = connection.execute(
                'INSERT INTO chunks (document_id, agent_id, person, path, start, "end", heading, text, model, vector)'
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number",
                (document, *page, part.start, part.end, heading, text, part.model if part.vector else "", part.vector),
            ).get
            connection.execute("INSERT INTO words (rowid, terms) VALUES (?, ?)", (number, index_words(heading, text)))

    def get(self, table: str, ids: Iterable[str]) -> list[Row]:
        sql = select_ids(table, "", "IN (SELECT value FROM json_each(?))")
        return [_make_row(table, row) for row in self._database.select(sql, json.dumps(list(ids)))]

    def list_rows(self, table: str, equal: Mapping[str, object], after: str = "", most: int = 500) -> list[Row]:
        sql = select_equal(table, "", equal)
        return [_make_row(table, row) for row in self._database.select(sql, *equal.values(), after, most)]

    def count_rows(self, agent_id: str) -> dict[str, int]:
        sql = "SELECT count(*) FROM {} WHERE agent_id = ? AND NOT deleted"
        return {name: self._database.select_value(sql.format(name), agent_id) for name in TABLES}

    def delete(self, table: str, ids: Iterable[str]) -> int:
        check_erasable(table)
        sql = f"DELETE FROM {table} WHERE id IN (SELECT value FROM json_each(?))"
        with self._database.erasure() as connection:
            connection.execute(sql, (json.dumps(list(ids)),))
            return connection.changes()

    def changes(self, table: str, agent_id: str, after: str, most: int = 500) -> Changes:
        changed, _, last = after.partition(" ")
        names = ", ".join(TABLES[table].all_columns)
        found = self._database.select(
            f"SELECT changed, {names} FROM {table} WHERE agent_id = ? AND (changed, id) > (?, ?)"
            " ORDER BY changed, id LIMIT ?",
            *(agent_id, int(changed or 0), last, most),
        )
        rows = [_make_row(table, row) for _, *row in found]
        return Changes(rows, f"{found[-1][0]} {rows[-1]['id']}" if found else after)

    def wait(self, agents: Iterable[str], seconds: float, wake: int = -1) -> bool:  # noqa: ARG002 - no such channels
        """Look at SQLite's own counter from time to time; it says nothing of which agents it was.

        What was written since the last wait, or since the file was opened, ends this one at once.
        """
        until = time.monotonic() + seconds
        while (version := self._data_version()) == self._seen:
            left = until - time.monotonic()
            if left <= 0 or select.select([wake] if wake >= 0 else [], [], [], min(_POLL_S, left))[0]:
                return False
        self._seen = version
        return True

    def _data_version(self) -> int:
        """A number that changes when another connection has written. https://sqlite.org/pragma.html#pragma_data_version"""
        return int(self._database.select_value("PRAGMA data_version"))

    def describe_chunks(self, documents: Iterable[str]) -> dict[str, ChunksState]:
        sql = (
            "SELECT document_id, count(*), count(vector), max(model) FROM chunks"
            " WHERE document_id IN (SELECT value FROM json_each(?)) GROUP BY document_id"
        )
        found = self._database.select(sql, json.dumps(list(documents)))
        return {document: ChunksState(*state) for document, *state in found}

    def can_wait(self) -> bool:
        return True

    def count_chunks(self, scope: SearchScope, words: Mapping[str, Iterable[str]]) -> tuple[int, dict[str, int]]:
        where, values = _scope_condition(scope)
        total = self._database.select_value(f"SELECT count(*) FROM chunks WHERE {where}", *values)
        sql = f"SELECT count(*) FROM words JOIN chunks ON number = words.rowid WHERE words MATCH ? AND {where}"
        asked = {word: _make_query(forms) for word, forms in words.items()}
        return total, {word: self._database.select_value(sql, q, *values) if q else 0 for word, q in asked.items()}

    def match_chunks(self, scope: SearchScope, weights: Mapping[str, float], most: int) -> list[tuple[int, float]]:
        if not (query := _make_query(weights)):
            return []
        where, values = _scope_condition(scope)
        found = self._database.select(
            "SELECT number, bm25(words) AS worth FROM words JOIN chunks ON number = words.rowid"
            f" WHERE words MATCH ? AND {where} ORDER BY worth, number LIMIT ?",
            *(query, *values, most),
        )
        return [(number, -worth) for number, worth in found]

    def get_chunks(self, scope: SearchScope, numbers: Iterable[int]) -> list[MemoryRow]:
        where, values = _scope_condition(scope)
        found = self._database.select(
            'SELECT number, path, start, "end", heading, text FROM chunks'
            f" WHERE number IN (SELECT value FROM json_each(?)) AND {where}",
            *(json.dumps(list(numbers)), *values),
        )
        return [make_memory_row(row) for row in found]

    def compare_vectors(
        self, scope: SearchScope, model: str, vector: Sequence[float], most: int, others: Iterable[int]
    ) -> VectorComparison | None:
        import numpy as np

        numbers, rows = self._load_vectors(scope, model, len(vector), -1)
        if not numbers:
            return None
        found = np.frombuffer(rows, np.int8).reshape(len(numbers), -1).astype(np.float32)
        wanted = np.array(vector, np.float32)
        lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted)
        return summarise_cosines(np.array(numbers), found @ wanted / np.maximum(lengths, 1e-6), others, most)

    def sample_vectors(
        self, scope: SearchScope, model: str, probes: Sequence[Sequence[float]], most: int
    ) -> tuple[float, int]:
        import numpy as np

        asked = np.array(probes, np.float32)
        numbers, rows = self._load_vectors(scope, model, asked.shape[1], most)
        if not numbers:
            return 0.0, 0
        found = np.frombuffer(rows, np.int8).reshape(len(numbers), -1).astype(np.float32)
        lengths = np.linalg.norm(found, axis=1)[:, None] * np.linalg.norm(asked, axis=1)
        return float(np.sort((found @ asked.T / np.maximum(lengths, 1e-6)).max(axis=0))[-2]), len(numbers)

    def _load_vectors(self, scope: SearchScope, model: str, dims: int, most: int) -> tuple[list[int], bytes]:
        where, values = _scope_condition(scope)
        found = self._database.select(
            f"SELECT number, vector FROM chunks WHERE {where} AND model = ? AND length(vector) = ? ORDER BY number"
            " LIMIT ?",
            *(*values, model, dims, most),
        )
        return [number for number, _ in found], b"".join(vector for _, vector in found)

    def close(self) -> None:
        self._database.close()


def _make_query(words: Iterable[str]) -> str:
    phrases = [" ".join(split_query(word)) for word in words]
    return " OR ".join(f'"{phrase}"' for phrase in dict.fromkeys(filter(None, phrases)))


def _scope_condition(scope: SearchScope) -> tuple[str, list[str]]:
    return "agent_id = ? AND person IN (SELECT value FROM json_each(?))", [scope.agent_id, json.dumps(scope.people)]


def _make_row(table: str, row: Sequence[object]) -> Row:
    columns = TABLES[table].all_columns
    return {
        name: bool(value) if kind == "bool" else value for (name, kind), value in zip(columns.items(), row, strict=True)
    }

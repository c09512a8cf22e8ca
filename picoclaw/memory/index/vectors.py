"""The vectors of chunks: signed bytes, 60 in a row of their table, because one in a row is read ten times as slowly."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import apsw

from picoclaw.memory.index.tables import rows

SLOTS = 60
"""Vectors in a row: that of chunk `id` is the `id % SLOTS`-th of row `id // SLOTS`, if the row's mask says so."""


def model_of(connection: apsw.Connection) -> tuple[str, int]:
    """Say whose vectors there are, and how long they are; '' and 0 before there were any."""
    found: dict[str, str] = dict(rows(connection, "SELECT key, value FROM meta"))
    return found.get("model", ""), int(found.get("dims", 0))


def _is_of(connection: apsw.Connection, model: tuple[str, int]) -> bool:
    """Tell whether the vectors are those of a model; its length may not be known yet."""
    name, dims = model_of(connection)
    return name == model[0] and model[1] in {0, dims}


def missing(connection: apsw.Connection, model: tuple[str, int], after: int, most: int) -> list[tuple[Any, ...]]:
    """Return the ids, texts and hashes of chunks, from an id on, that have no vector of this model."""
    return rows(
        connection,
        "SELECT chunks.id, text, sha FROM chunks LEFT JOIN vectors ON block = chunks.id / ?1"
        " WHERE chunks.id > ?4 AND (NOT ?2 OR there IS NULL OR NOT there & (1 << (chunks.id % ?1)))"
        " ORDER BY chunks.id LIMIT ?3",
        (SLOTS, _is_of(connection, model), most, after),
    )


def lacking(connection: apsw.Connection, model: tuple[str, int]) -> int:
    """Count the chunks that have no vector of this model."""
    chunks = int(connection.execute("SELECT count(*) FROM chunks").get)
    return chunks - count(connection) if _is_of(connection, model) else chunks


def keep(connection: apsw.Connection, model: str, dims: int, new: Sequence[tuple[int, bytes]]) -> None:
    """Keep vectors by the ids of their chunks; those of another model go."""
    if model_of(connection) != (model, dims):
        connection.execute("DELETE FROM vectors")
        pairs = (("model", model), ("dims", str(dims)))
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", pairs)
    for block, some in groupby(sorted(new), lambda row: row[0] // SLOTS):
        _keep_block(connection, block, dims, some)


def _keep_block(connection: apsw.Connection, block: int, dims: int, some: Iterable[tuple[int, bytes]]) -> None:
    there, held = 0, bytes(SLOTS * dims)
    for found in rows(connection, "SELECT there, rows FROM vectors WHERE block = ?", (block,)):
        there, held = found
    new = bytearray(held)
    for number, row in some:
        slot = number % SLOTS
        there |= 1 << slot
        new[slot * dims : (slot + 1) * dims] = row
    connection.execute(
        "INSERT INTO vectors VALUES (?, ?, ?)"
        " ON CONFLICT (block) DO UPDATE SET there = excluded.there, rows = excluded.rows",
        (block, there, bytes(new)),
    )


def drop(connection: apsw.Connection, number: int) -> None:
    """Forget a chunk's vector, if it has one."""
    sql = "UPDATE vectors SET there = there & ~(1 << ?) WHERE block = ? AND there & (1 << ?)"
    connection.execute(sql, (number % SLOTS, number // SLOTS, number % SLOTS))


def blocks(connection: apsw.Connection, after: int, most: int) -> list[tuple[Any, ...]]:
    """Return rows of the table, as they are and in order, that follow one: their numbers, masks and vectors."""
    sql = "SELECT block, there, rows FROM vectors WHERE block > ? ORDER BY block LIMIT ?"
    return rows(connection, sql, (after, most))


def count(connection: apsw.Connection) -> int:
    """Count the vectors."""
    return sum(int(there).bit_count() for (there,) in connection.execute("SELECT there FROM vectors"))

"""The SQL that both kinds of store have in common, made from the tables; values are `?`, names carry `prefix`."""

from collections.abc import Mapping

from picoclaw.shared.tables import TABLES

_CONDITIONS = {
    "version": "old.version = excluded.version - 1",
    "latest": "old.digest <> excluded.digest AND excluded.at >= old.at",
}


def upsert(table: str, prefix: str, changed: str, values: str) -> str:
    """Insert a row, or let it take the place of the one that is there by the table's rule; returns the ids written."""
    names = list(TABLES[table].all_columns)
    if TABLES[table].conflict == "keep":
        rule = "DO NOTHING"
    else:
        sets = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
        rule = f"DO UPDATE SET {sets}, changed = excluded.changed WHERE {_CONDITIONS[TABLES[table].conflict]}"
    return (
        f"INSERT INTO {prefix}{table} AS old ({', '.join(names)}, changed)"
        f" SELECT {', '.join(names)}, {changed} FROM {values} ON CONFLICT (id) {rule} RETURNING id"
    )


def select_equal(table: str, prefix: str, equal: Mapping[str, object]) -> str:
    """Select rows by the values of columns, then by an id to go on behind, then how many; in the order of their ids."""
    names = TABLES[table].all_columns
    if unknown := set(equal) - set(names):
        raise KeyError(f"{table} has no {', '.join(unknown)}")
    where = " AND ".join([*(f"{name} = ?" for name in equal), "id > ?"])
    return f"SELECT {', '.join(names)} FROM {prefix}{table} WHERE {where} ORDER BY id LIMIT ?"


def select_ids(table: str, prefix: str, among: str) -> str:
    """Select rows by their ids; `among` is how this database names a list."""
    return f"SELECT {', '.join(TABLES[table].all_columns)} FROM {prefix}{table} WHERE id {among}"

"""What becomes of samples as they grow old: spans of five minutes, then of an hour, then nothing.

Each value is in one place at a time. A few hours are folded at once, so that a clock which is wrong for a while costs
little of what is kept.
"""

from collections.abc import Iterable
from typing import Any

import apsw

from picoclaw.store.boots import boot_of, offset_of, settled
from picoclaw.store.points import Moment, Span, span_of, unpacked

RAW_S, FIVE_S, HOUR_S = 48 * 3600, 300, 3600
_FIVE_KEPT_S, _HOUR_KEPT_S = 30 * 86_400, 730 * 86_400
_AT_ONCE_S = 3 * 3600
_TROUBLES_KEPT = 1000


def fold(connection: apsw.Connection, moment: Moment) -> None:
    """Put what has grown old into longer spans, and drop what has grown too old, within the caller's transaction."""
    boot = boot_of(connection, moment)
    if not settled(connection, boot, moment.mono):
        return  # what is folded keeps the date that it has then
    now = moment.mono + offset_of(connection, boot)
    _fold_raw(connection, now - RAW_S)
    _fold_spans(connection, now - _FIVE_KEPT_S)
    _drop_spans(connection, now - _HOUR_KEPT_S)
    connection.execute("DELETE FROM troubles WHERE id <= (SELECT max(id) FROM troubles) - ?", (_TROUBLES_KEPT,))


_ADD = """
    INSERT INTO spans VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE SET
    count = count + ?4, failed = failed + ?5, total = total + ?6,
    low = min(coalesce(low, ?7), coalesce(?7, low)), high = max(coalesce(high, ?8), coalesce(?8, high))
"""


def _add(connection: apsw.Connection, seconds: int, rows: Iterable[tuple[int, Span]]) -> None:
    """Add spans of (series, span) to those of a length, whole or in part."""
    sums: dict[tuple[int, int], Span] = {}
    for series, span in rows:
        key = int(span.at // seconds * seconds), series
        sums[key] = sums[key] | span if key in sums else span
    connection.executemany(
        _ADD,
        [
            (seconds, at, series, s.good, s.failed, s.total, *((s.low, s.high) if s.good else (None, None)))
            for (at, series), s in sums.items()
        ],
    )


def _fold_raw(connection: apsw.Connection, before: float) -> None:
    oldest = connection.execute("SELECT min(began + offset) FROM raw JOIN boots ON boots.id = raw.boot").get
    if oldest is None or oldest >= (before := min(before, oldest + _AT_ONCE_S) // HOUR_S * HOUR_S):
        return
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT raw.id, series, began + offset, points FROM raw JOIN boots ON boots.id = raw.boot"
        " WHERE began + offset < ?",
        (before,),
    ).fetchall()
    _add(connection, FIVE_S, ((int(series), span) for _, series, at, data in rows for span in unpacked(at, data)))
    connection.executemany("DELETE FROM raw WHERE id = ?", [(number,) for number, *_ in rows])
    connection.execute(
        "DELETE FROM boots WHERE id < (SELECT max(id) FROM boots) AND id NOT IN (SELECT boot FROM raw)"
        " AND id NOT IN (SELECT boot FROM troubles) AND boot NOT IN (SELECT boot FROM firings)"
    )


def _fold_spans(connection: apsw.Connection, before: float) -> None:
    oldest = connection.execute("SELECT min(at) FROM spans WHERE seconds = ?", (FIVE_S,)).get
    if oldest is None or oldest >= (before := min(before, oldest + _AT_ONCE_S) // HOUR_S * HOUR_S):
        return
    old = (FIVE_S, before)
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT series, at, count, failed, total, low, high FROM spans WHERE seconds = ? AND at < ?", old
    ).fetchall()
    _add(connection, HOUR_S, ((int(series), span_of(*row)) for series, *row in rows))
    connection.execute("DELETE FROM spans WHERE seconds = ? AND at < ?", old)


def _drop_spans(connection: apsw.Connection, before: float) -> None:
    oldest = connection.execute("SELECT min(at) FROM spans WHERE seconds = ?", (HOUR_S,)).get
    if oldest is not None:
        before = min(before, oldest + _AT_ONCE_S)
        connection.execute("DELETE FROM spans WHERE seconds = ? AND at < ?", (HOUR_S, before))

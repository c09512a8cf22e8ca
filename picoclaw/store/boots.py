"""When each boot was: its seconds and the date they belong to, learned from a clock that something vouches for."""

from typing import Any

import apsw

from picoclaw.store.points import Moment, unpacked

_AGREES_S, _SET_S = 1.0, 60.0
_SETTLES_S = 86_400.0


def offset_of(connection: apsw.Connection, boot: int) -> float:
    """Return what to add to a boot's seconds for seconds since 1970."""
    return float(connection.execute("SELECT offset FROM boots WHERE id = ?", (boot,)).get)


def settled(connection: apsw.Connection, boot: int, mono: float) -> bool:
    """Tell whether the date was not set for a day: who has put it wrong has had the time to see it."""
    set_at = float(connection.execute("SELECT set_at FROM boots WHERE id = ?", (boot,)).get)
    return not set_at or mono - set_at >= _SETTLES_S


def boot_of(connection: apsw.Connection, moment: Moment) -> int:
    """Return the number of this boot, having learned when it began.

    What the clock says is only believed when something vouches for it; until then the boot is at least later than
    what was measured before, and afterwards what was measured before is at least earlier.
    """
    offset = moment.wall.timestamp() - moment.mono
    row = connection.execute("SELECT id, offset, trusted, set_at FROM boots WHERE boot = ?", (moment.boot,)).fetchone()
    if row is None:
        offset = offset if moment.trusted else max(offset, _newest(connection) + 1)
        connection.execute(
            "INSERT INTO boots (boot, offset, trusted) VALUES (?, ?, ?)", (moment.boot, offset, moment.trusted)
        )
        number = connection.last_insert_rowid()
    else:
        number = int(str(row[0]))
        known = bool(row[2]) and abs(float(str(row[1])) - offset) < _AGREES_S
        if known or not moment.trusted:
            return number
        set_at = moment.mono if abs(float(str(row[1])) - offset) > _SET_S else float(str(row[3]))
        values = (offset, set_at, number)
        connection.execute("UPDATE boots SET offset = ?, trusted = 1, set_at = ? WHERE id = ?", values)
    if moment.trusted:
        _earlier(connection, number, offset)
    return number


def _newest(connection: apsw.Connection) -> float:
    """When the last thing was measured, in seconds since 1970."""
    lasts = [last + offset_of(connection, boot) for boot, last in _lasts(connection)]
    return max(lasts, default=0.0)


def _lasts(connection: apsw.Connection) -> list[tuple[int, float]]:
    """The boots that something was measured in, the newest first, and their second in which that ended."""
    # SQLite gives `points` of the row that has the maximum: https://sqlite.org/lang_select.html#bareagg
    sql = "SELECT boot, max(began), points FROM raw GROUP BY boot ORDER BY boot DESC"
    rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return [(int(boot), max(span.at for span in unpacked(began, points))) for boot, began, points in rows]


def _earlier(connection: apsw.Connection, number: int, began: float) -> None:
    """Boots before this one, whose clock nothing vouched for, did not last until it began."""
    for boot, last in _lasts(connection):
        if boot >= number:
            continue
        offset = offset_of(connection, boot)
        if not connection.execute("SELECT trusted FROM boots WHERE id = ?", (boot,)).get:
            offset = min(offset, began - last - 1)
            connection.execute("UPDATE boots SET offset = ? WHERE id = ?", (offset, boot))
        began = min(began, offset)

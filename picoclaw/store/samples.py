"""What sensors said, in `history.db`: every value for two days, then means of 5 minutes, after a month of an hour.

A sample is kept with its boot and the seconds since it, and only the boot has a date. So samples that were taken
before the clock was set move to their right place when it is, and a clock that is set wrongly spoils nothing.
Source of the boot's seconds: CLOCK_BOOTTIME, clock_gettime(2).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apsw

from picoclaw.disk import NearlyFull, explain, spare
from picoclaw.errors import StoreError
from picoclaw.store.boots import boot_of
from picoclaw.store.database import Database, storable
from picoclaw.store.folding import FIVE_S, HOUR_S, fold
from picoclaw.store.points import (
    LONGEST_BLOCK_S,
    Block,
    Moment,
    Series,
    Span,
    Trouble,
    joined,
    packed,
    span_of,
    unpacked,
)

_NEWEST = "SELECT series, max(began + offset) FROM raw JOIN boots ON boots.id = raw.boot GROUP BY series"


class Samples:
    """The samples of every sensor."""

    def __init__(self, database: Database) -> None:
        """Work on an open database."""
        self._database = database

    def keep(
        self,
        moment: Moment,
        blocks: Iterable[Block],
        troubles: Iterable[Trouble] = (),
        states: Mapping[str, str] | None = None,
    ) -> None:
        """Add what was measured since the last time, and where the rules stand, in one durable transaction.

        Raises StoreError; on a disk that is nearly full, the rules' part is kept all the same.
        """
        problem = self._nearly_full()
        if problem:
            blocks, troubles = (), ()
        with self._database.transaction() as connection:
            boot = boot_of(connection, moment)
            for block in blocks:
                number = _series(connection, block.series)
                connection.executemany(
                    "INSERT INTO raw (boot, series, began, points) VALUES (?, ?, ?, ?)",
                    ((boot, number, began, points) for began, points in packed(block.points)),
                )
            for trouble in troubles:
                _keep_trouble(connection, boot, trouble)
            keep_states(connection, states or {})
        if problem:
            raise StoreError(problem)

    def _nearly_full(self) -> str:
        try:
            spare("measurements", self._database.path.parent)
        except NearlyFull as error:
            return explain(error)
        return ""

    def fold(self, moment: Moment) -> None:
        """Put what has grown old into longer spans, and drop what has grown too old; a few hours of it at a time."""
        with self._database.transaction() as connection:
            fold(connection, moment)

    def known(self) -> dict[Series, float]:
        """Name what there is, with the time of the newest value, in seconds since 1970."""
        with self._database.reading() as connection:
            newest: list[Any] = connection.execute(_NEWEST).fetchall()
            fresh = dict(newest)
            rows = connection.execute("SELECT id, sensor, quantity FROM series ORDER BY sensor, quantity").fetchall()
            old = "SELECT max(at) FROM spans WHERE series = ?"
            return {
                Series(str(sensor), str(quantity)): float(
                    str(fresh.get(number) or connection.execute(old, (number,)).get or 0.0)
                )
                for number, sensor, quantity in rows
            }

    def spans(self, series: Series, begin: float, end: float, seconds: float) -> list[Span]:
        """Return what was measured from `begin` to before `end`, in round spans of some length, without empty ones."""
        found: dict[float, Span] = {}
        for span in self._between(series, begin, end):
            at = span.at // seconds * seconds
            found[at] = found[at] | span._replace(at=at) if at in found else span._replace(at=at)
        return [found[at] for at in sorted(found)]

    def whole(self, series: Series, begin: float, end: float) -> Span | None:
        """Return what was measured in a time as one span, None when it was nothing."""
        return joined(self._between(series, begin, end))

    def troubles(self, sensor: str, begin: float, end: float) -> list[Trouble]:
        """Return why a sensor gave nothing in some time, by date."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT sensor, began + offset, ended + offset, times, problem FROM troubles"
                " JOIN boots ON boots.id = troubles.boot"
                " WHERE sensor = ? AND ended + offset >= ? AND began + offset < ? ORDER BY 2",
                (storable(sensor), begin, end),
            ).fetchall()
        return [
            Trouble(str(name), float(str(a)), float(str(b)), int(str(n)), str(problem))
            for name, a, b, n, problem in rows
        ]

    def undated(self, begin: float, end: float) -> bool:
        """Tell whether some of a time is by a clock that nothing vouched for."""
        with self._database.reading() as connection:
            sql = (
                "SELECT 1 FROM raw JOIN boots ON boots.id = raw.boot"
                " WHERE NOT trusted AND began + offset >= ? AND began + offset < ? LIMIT 1"
            )
            return connection.execute(sql, (begin, end)).fetchone() is not None

    def dated(self, boot: str) -> bool:
        """Tell whether whoever measures has believed the date of a boot."""
        with self._database.reading() as connection:
            return bool(connection.execute("SELECT trusted FROM boots WHERE boot = ?", (boot,)).get)

    def _between(self, series: Series, begin: float, end: float) -> Iterator[Span]:
        with self._database.reading() as connection:
            number = _number(connection, series)
            raw: list[tuple[Any, ...]] = connection.execute(
                "SELECT began + offset, points FROM raw JOIN boots ON boots.id = raw.boot"
                " WHERE series = ? AND began + offset >= ? AND began + offset < ?",
                (number, begin - LONGEST_BLOCK_S, end),
            ).fetchall()
            rows = connection.execute(
                "SELECT at, count, failed, total, low, high FROM spans"
                " WHERE seconds IN (?, ?) AND at >= ? AND at < ? AND series = ?",
                (FIVE_S, HOUR_S, begin, end, number),
            ).fetchall()
        for row in rows:
            yield span_of(*row)
        for began, points in raw:
            yield from (span for span in unpacked(began, points) if begin <= span.at < end)


def _series(connection: apsw.Connection, series: Series) -> int:
    values = (storable(series.sensor), storable(series.quantity))
    connection.execute("INSERT INTO series (sensor, quantity) VALUES (?, ?) ON CONFLICT DO NOTHING", values)
    return _number(connection, series)


def _number(connection: apsw.Connection, series: Series) -> int:
    values = (storable(series.sensor), storable(series.quantity))
    found = connection.execute("SELECT id FROM series WHERE sensor = ? AND quantity = ?", values).get
    return int(found or 0)


def _keep_trouble(connection: apsw.Connection, boot: int, trouble: Trouble) -> None:
    """Add a trouble, or let the one that still lasts last longer."""
    values = (boot, storable(trouble.sensor), trouble.began)
    connection.execute("DELETE FROM troubles WHERE boot = ? AND sensor = ? AND began = ?", values)
    connection.execute(
        "INSERT INTO troubles (boot, sensor, began, ended, times, problem) VALUES (?, ?, ?, ?, ?, ?)",
        (*values, trouble.ended, trouble.times, storable(trouble.problem)),
    )


def keep_states(connection: apsw.Connection, states: Mapping[str, str]) -> None:
    """Write down where rules stand, within the caller's transaction."""
    connection.executemany(
        "INSERT INTO rule_states VALUES (?1, ?2) ON CONFLICT (rule) DO UPDATE SET state = ?2", states.items()
    )

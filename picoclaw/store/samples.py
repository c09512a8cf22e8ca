"""What is kept of a measurement: points that follow a series, packed small, and spans that sum them up."""

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from picoclaw.errors import StoreError
from picoclaw.files import DiskNearlyFull, check_reserve, explain_os_error
from picoclaw.records import NamedTuple
from picoclaw.store.database import StoreConnection, Table, insert

_TICK_S, _MAX_TICKS = 0.1, 0xFFFF
MAX_BLOCK_S = _TICK_S * _MAX_TICKS
_POINT_STRUCT = struct.Struct("<Hf")


class ClockReading(NamedTuple):
    """Now: the boot, seconds since it, local time with its zone, and whether anything vouches for that time."""

    boot: str
    mono: float
    wall: datetime
    trusted: bool = True


class Series(NamedTuple):
    """What is followed: a sensor's name, and a quantity with its channel."""

    sensor: str
    quantity: str


class SampleBlock(NamedTuple):
    """Some values in a row: seconds since the boot, and the value, None for a reading that failed."""

    series: Series
    points: Sequence[tuple[float, float | None]]


class SensorFailure(NamedTuple):
    """Why a sensor gave nothing, for how long and how often; `began` and `ended` are seconds since the boot or 1970."""

    sensor: str
    began: float
    ended: float
    times: int
    problem: str


class SampleSpan(NamedTuple):
    """Some time of a series: when it began, in seconds since 1970, and what was measured in it."""

    at: float
    good: int
    failed: int
    total: float
    low: float
    high: float

    @property
    def mean(self) -> float | None:
        return self.total / self.good if self.good else None

    def __or__(self, other: "SampleSpan") -> "SampleSpan":
        return SampleSpan(
            min(self.at, other.at),
            self.good + other.good,
            self.failed + other.failed,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
        )


def merge_spans(spans: Iterable[SampleSpan]) -> SampleSpan | None:
    """Sum spans up, None when there are none."""
    whole: SampleSpan | None = None
    for span in spans:
        whole = whole | span if whole else span
    return whole


def pack_points(points: Sequence[tuple[float, float | None]]) -> Iterator[tuple[float, bytes]]:
    """Pack values in a row, with the moment they begin at; what tenths of seconds cannot reach is packed apart."""
    began, data = 0.0, b""
    for at, value in points:
        tenths = round((at - began) / _TICK_S) if data else 0
        if not 0 <= tenths <= _MAX_TICKS:
            yield began, data
            data, tenths = b"", 0
        began = began if data else at
        data += _POINT_STRUCT.pack(tenths, math.nan if value is None else value)
    if data:
        yield began, data


def unpack_points(began: float, points: bytes) -> Iterator[SampleSpan]:
    """Take packed values apart, each a span of its own."""
    whole = points[: len(points) - len(points) % _POINT_STRUCT.size]
    for tenths, value in _POINT_STRUCT.iter_unpack(whole):
        yield make_span(began + tenths * _TICK_S, None if math.isnan(value) else value)


def make_span(at: float, value: float | None) -> SampleSpan:
    """Make a span of one value, None for a reading that failed."""
    return (
        SampleSpan(at, 0, 1, 0.0, math.inf, -math.inf) if value is None else SampleSpan(at, 1, 0, value, value, value)
    )


def decode_span(at: Any, count: Any, failed: Any, total: Any, low: Any, high: Any) -> SampleSpan:
    """Make a span of a row of the database, which has no extremes of no values."""
    return SampleSpan(at, count, failed, total, math.inf if low is None else low, -math.inf if high is None else high)


# When each boot was: its seconds and the date they belong to, learned from a clock that something vouches for.

_OFFSET_TOLERANCE_S, _CLOCK_SET_THRESHOLD_S = 1.0, 60.0
_SETTLING_TIME_S = 86_400.0


def get_boot_offset(connection: StoreConnection, boot: int) -> float:
    """Return what to add to a boot's seconds for seconds since 1970."""
    return float(connection.execute("SELECT offset FROM boots WHERE id = ?", (boot,)).get)


def is_date_settled(connection: StoreConnection, boot: int, mono: float) -> bool:
    """Tell whether the date was not set for a day: who has put it wrong has had the time to see it."""
    set_at = float(connection.execute("SELECT set_at FROM boots WHERE id = ?", (boot,)).get)
    return not set_at or mono - set_at >= _SETTLING_TIME_S


def register_boot(connection: StoreConnection, moment: ClockReading) -> int:
    """Return the number of this boot, having learned when it began.

    What the clock says is only believed when something vouches for it; until then the boot is at least later than
    what was measured before, and afterwards what was measured before is at least earlier.
    """
    offset = moment.wall.timestamp() - moment.mono
    row = connection.execute("SELECT id, offset, trusted, set_at FROM boots WHERE boot = ?", (moment.boot,)).fetchone()
    if row is None:
        offset = offset if moment.trusted else max(offset, _get_last_sample_time(connection) + 1)
        number = insert(connection, "boots", boot=moment.boot, offset=offset, trusted=moment.trusted)
    else:
        number = int(row[0])
        known = bool(row[2]) and abs(row[1] - offset) < _OFFSET_TOLERANCE_S
        if known or not moment.trusted:
            return number
        set_at = moment.mono if abs(row[1] - offset) > _CLOCK_SET_THRESHOLD_S else row[3]
        values = (offset, set_at, number)
        connection.execute("UPDATE boots SET offset = ?, trusted = 1, set_at = ? WHERE id = ?", values)
    if moment.trusted:
        _correct_earlier_boots(connection, number, offset)
    return number


def _get_last_sample_time(connection: StoreConnection) -> float:
    """When the last thing was measured, in seconds since 1970."""
    lasts = [last + get_boot_offset(connection, boot) for boot, last in _list_last_samples(connection)]
    return max(lasts, default=0.0)


def _list_last_samples(connection: StoreConnection) -> list[tuple[int, float]]:
    """The boots that something was measured in, the newest first, and their second in which that ended."""
    # SQLite gives `points` of the row that has the maximum: https://sqlite.org/lang_select.html#bareagg
    sql = "SELECT boot, max(began), points FROM raw GROUP BY boot ORDER BY boot DESC"
    rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return [(int(boot), max(span.at for span in unpack_points(began, points))) for boot, began, points in rows]


def _correct_earlier_boots(connection: StoreConnection, number: int, began: float) -> None:
    """Boots before this one, whose clock nothing vouched for, did not last until it began."""
    for boot, last in _list_last_samples(connection):
        if boot >= number:
            continue
        offset = get_boot_offset(connection, boot)
        if not connection.execute("SELECT trusted FROM boots WHERE id = ?", (boot,)).get:
            offset = min(offset, began - last - 1)
            connection.execute("UPDATE boots SET offset = ? WHERE id = ?", (offset, boot))
        began = min(began, offset)


# What becomes of samples as they grow old: spans of five minutes, then of an hour, then nothing.
#
# Each value is in one place at a time. A few hours are folded at once, so that a clock which is wrong for a while costs
# little of what is kept.

RAW_RETENTION_S, FIVE_MINUTES_S, HOUR_S = 48 * 3600, 300, 3600
_FIVE_MINUTES_RETENTION_S, _HOUR_RETENTION_S = 30 * 86_400, 730 * 86_400
_MAX_BATCH_S = 3 * 3600
_MAX_SENSOR_FAILURES = 1000


def downsample(connection: StoreConnection, moment: ClockReading) -> None:
    """Put what has grown old into longer spans, and drop what has grown too old, within the caller's transaction."""
    boot = register_boot(connection, moment)
    if not is_date_settled(connection, boot, moment.mono):
        return  # what is folded keeps the date that it has then
    now = moment.mono + get_boot_offset(connection, boot)
    _downsample_raw(connection, now - RAW_RETENTION_S)
    _downsample_spans(connection, now - _FIVE_MINUTES_RETENTION_S)
    _delete_old_spans(connection, now - _HOUR_RETENTION_S)
    connection.execute("DELETE FROM troubles WHERE id <= (SELECT max(id) FROM troubles) - ?", (_MAX_SENSOR_FAILURES,))


_UPSERT_SPAN = """
    INSERT INTO spans VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE SET
    count = count + ?4, failed = failed + ?5, total = total + ?6,
    low = min(coalesce(low, ?7), coalesce(?7, low)), high = max(coalesce(high, ?8), coalesce(?8, high))
"""


def _add_spans(connection: StoreConnection, seconds: int, rows: Iterable[tuple[int, SampleSpan]]) -> None:
    """Add spans of (series, span) to those of a length, whole or in part."""
    sums: dict[tuple[int, int], SampleSpan] = {}
    for series, span in rows:
        key = int(span.at // seconds * seconds), series
        sums[key] = sums[key] | span if key in sums else span
    connection.executemany(
        _UPSERT_SPAN,
        [
            (seconds, at, series, s.good, s.failed, s.total, *((s.low, s.high) if s.good else (None, None)))
            for (at, series), s in sums.items()
        ],
    )


def _downsample_raw(connection: StoreConnection, before: float) -> None:
    oldest = connection.execute("SELECT min(began + offset) FROM raw JOIN boots ON boots.id = raw.boot").get
    if oldest is None or oldest >= (before := min(before, oldest + _MAX_BATCH_S) // HOUR_S * HOUR_S):
        return
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT raw.id, series, began + offset, points FROM raw JOIN boots ON boots.id = raw.boot"
        " WHERE began + offset < ?",
        (before,),
    ).fetchall()
    _add_spans(
        connection,
        FIVE_MINUTES_S,
        ((int(series), span) for _, series, at, data in rows for span in unpack_points(at, data)),
    )
    connection.executemany("DELETE FROM raw WHERE id = ?", [(number,) for number, *_ in rows])
    connection.execute(
        "DELETE FROM boots WHERE id < (SELECT max(id) FROM boots) AND id NOT IN (SELECT boot FROM raw)"
        " AND id NOT IN (SELECT boot FROM troubles) AND boot NOT IN (SELECT boot FROM firings)"
    )


def _downsample_spans(connection: StoreConnection, before: float) -> None:
    oldest = connection.execute("SELECT min(at) FROM spans WHERE seconds = ?", (FIVE_MINUTES_S,)).get
    if oldest is None or oldest >= (before := min(before, oldest + _MAX_BATCH_S) // HOUR_S * HOUR_S):
        return
    old = (FIVE_MINUTES_S, before)
    rows: list[tuple[Any, ...]] = connection.execute(
        "SELECT series, at, count, failed, total, low, high FROM spans WHERE seconds = ? AND at < ?", old
    ).fetchall()
    _add_spans(connection, HOUR_S, ((int(series), decode_span(*row)) for series, *row in rows))
    connection.execute("DELETE FROM spans WHERE seconds = ? AND at < ?", old)


def _delete_old_spans(connection: StoreConnection, before: float) -> None:
    oldest = connection.execute("SELECT min(at) FROM spans WHERE seconds = ?", (HOUR_S,)).get
    if oldest is not None:
        before = min(before, oldest + _MAX_BATCH_S)
        connection.execute("DELETE FROM spans WHERE seconds = ? AND at < ?", (HOUR_S, before))


# What sensors said, in `history.db`: every value for two days, then means of 5 minutes, after a month of an hour.
#
# A sample is kept with its boot and the seconds since it, and only the boot has a date. So samples that were taken
# before the clock was set move to their right place when it is, and a clock that is set wrongly spoils nothing.
# Source of the boot's seconds: CLOCK_BOOTTIME, clock_gettime(2).

_SELECT_NEWEST = "SELECT series, max(began + offset) FROM raw JOIN boots ON boots.id = raw.boot GROUP BY series"


class Samples(Table):
    def keep(
        self,
        moment: ClockReading,
        blocks: Iterable[SampleBlock],
        troubles: Iterable[SensorFailure] = (),
        states: Mapping[str, str] | None = None,
    ) -> None:
        """Add what was measured since the last time, and where the rules stand, in one durable transaction.

        Raises StoreError; on a disk that is nearly full, the rules' part is kept all the same.
        """
        problem = ""
        try:
            check_reserve("measurements", self._database.path.parent)
        except DiskNearlyFull as error:
            blocks, troubles, problem = (), (), explain_os_error(error)
        with self._database.transaction() as connection:
            boot = register_boot(connection, moment)
            for block in blocks:
                values = (block.series.sensor, block.series.quantity)
                connection.execute("INSERT INTO series (sensor, quantity) VALUES (?, ?) ON CONFLICT DO NOTHING", values)
                number = _get_series_number(connection, block.series)
                connection.executemany(
                    "INSERT INTO raw (boot, series, began, points) VALUES (?, ?, ?, ?)",
                    ((boot, number, began, points) for began, points in pack_points(block.points)),
                )
            for trouble in troubles:
                _save_sensor_failure(connection, boot, trouble)
            save_rule_states(connection, states or {})
        if problem:
            raise StoreError(problem)

    def fold(self, moment: ClockReading) -> None:
        """Put what has grown old into longer spans, and drop what has grown too old; a few hours of it at a time."""
        with self._database.transaction() as connection:
            downsample(connection, moment)

    def known(self) -> dict[Series, float]:
        """Name what there is, with the time of the newest value, in seconds since 1970."""
        with self._database.reading() as connection:
            newest: list[Any] = connection.execute(_SELECT_NEWEST).fetchall()
            fresh = dict(newest)
            rows = connection.execute("SELECT id, sensor, quantity FROM series ORDER BY sensor, quantity").fetchall()
            old = "SELECT max(at) FROM spans WHERE series = ?"
            return {
                Series(str(sensor), str(quantity)): float(
                    str(fresh.get(number) or connection.execute(old, (number,)).get or 0.0)
                )
                for number, sensor, quantity in rows
            }

    def oldest(self) -> float | None:
        """When the record begins, in seconds since 1970; None while there is none."""
        with self._database.reading() as connection:
            first = "SELECT min(began + offset) FROM raw JOIN boots ON boots.id = raw.boot"
            rolled = "SELECT min(at) FROM spans WHERE seconds = ?"
            found = [
                connection.execute(first).get,
                *(connection.execute(rolled, (s,)).get for s in (FIVE_MINUTES_S, HOUR_S)),
            ]
        return min((float(str(at)) for at in found if at is not None), default=None)

    def spans(self, series: Series, begin: float, end: float, seconds: float) -> list[SampleSpan]:
        """Return what was measured from `begin` to before `end`, in round spans of some length, without empty ones."""
        found: dict[float, SampleSpan] = {}
        for span in self._between(series, begin, end):
            at = span.at // seconds * seconds
            found[at] = found[at] | span._replace(at=at) if at in found else span._replace(at=at)
        return [found[at] for at in sorted(found)]

    def whole(self, series: Series, begin: float, end: float) -> SampleSpan | None:
        """Return what was measured in a time as one span, None when it was nothing."""
        return merge_spans(self._between(series, begin, end))

    def troubles(self, sensor: str, begin: float, end: float) -> list[SensorFailure]:
        """Return why a sensor gave nothing in some time, by date."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT sensor, began + offset, ended + offset, times, problem FROM troubles"
                " JOIN boots ON boots.id = troubles.boot"
                " WHERE sensor = ? AND ended + offset >= ? AND began + offset < ? ORDER BY 2",
                (sensor, begin, end),
            ).fetchall()
        return [SensorFailure(*row) for row in rows]

    def undated(self, begin: float, end: float) -> bool:
        """Tell whether some of a time is by a clock that nothing vouched for."""
        sql = (
            "SELECT 1 FROM raw JOIN boots ON boots.id = raw.boot"
            " WHERE NOT trusted AND began + offset >= ? AND began + offset < ? LIMIT 1"
        )
        return bool(self._database.select(sql, begin, end))

    def dated(self, boot: str) -> bool:
        """Tell whether whoever measures has believed the date of a boot."""
        return bool(self._database.select_value("SELECT trusted FROM boots WHERE boot = ?", boot))

    def _between(self, series: Series, begin: float, end: float) -> Iterator[SampleSpan]:
        with self._database.reading() as connection:
            number = _get_series_number(connection, series)
            raw: list[tuple[Any, ...]] = connection.execute(
                "SELECT began + offset, points FROM raw JOIN boots ON boots.id = raw.boot"
                " WHERE series = ? AND began + offset >= ? AND began + offset < ?",
                (number, begin - MAX_BLOCK_S, end),
            ).fetchall()
            rows = connection.execute(
                "SELECT at, count, failed, total, low, high FROM spans"
                " WHERE seconds IN (?, ?) AND at >= ? AND at < ? AND series = ?",
                (FIVE_MINUTES_S, HOUR_S, begin, end, number),
            ).fetchall()
        for row in rows:
            yield decode_span(*row)
        for began, points in raw:
            yield from (span for span in unpack_points(began, points) if begin <= span.at < end)


def _get_series_number(connection: StoreConnection, series: Series) -> int:
    values = (series.sensor, series.quantity)
    found = connection.execute("SELECT id FROM series WHERE sensor = ? AND quantity = ?", values).get
    return int(found or 0)


def _save_sensor_failure(connection: StoreConnection, boot: int, trouble: SensorFailure) -> None:
    """Add a trouble, or let the one that still lasts last longer."""
    values = (boot, trouble.sensor, trouble.began)
    connection.execute("DELETE FROM troubles WHERE boot = ? AND sensor = ? AND began = ?", values)
    insert(connection, "troubles", boot=boot, **trouble._asdict())


def save_rule_states(connection: StoreConnection, states: Mapping[str, str]) -> None:
    """Write down where rules stand, within the caller's transaction."""
    connection.executemany(
        "INSERT INTO rule_states VALUES (?1, ?2) ON CONFLICT (rule) DO UPDATE SET state = ?2", states.items()
    )


# Where rules stand and what they have done: written down before it is done, and again afterwards.


MAX_FIRINGS = 5000


class RuleLogEntry(NamedTuple):
    """A firing: when, what caused it, what was to be done, and what became of that; empty while unknown."""

    number: int
    rule: str
    at: datetime
    trusted: bool
    why: str
    acts: str
    outcome: str


class RuleLog(Table):
    def states(self) -> dict[str, str]:
        return dict(self._database.select("SELECT rule, state FROM rule_states"))

    def begin(self, rule: str, why: str, acts: str, moment: ClockReading, states: Mapping[str, str]) -> int:
        """Write down that a rule fires, together with its new state; durable when the number is returned."""
        with self._database.transaction() as connection:
            save_rule_states(connection, states)
            times = {"began": moment.mono, "at": moment.wall.timestamp(), "trusted": moment.trusted}
            said = {"why": why, "acts": acts, "outcome": ""}
            number = insert(connection, "firings", rule=rule, boot=moment.boot, **times, **said)
            connection.execute("DELETE FROM firings WHERE id <= ?", (number - MAX_FIRINGS,))
            return number

    def settle(self, number: int, outcome: str) -> None:
        """Write down what became of it."""
        self._database.write("UPDATE firings SET outcome = ? WHERE id = ?", outcome, number)

    def cut_off(self) -> list[tuple[int, str, str, str]]:
        """Return what was begun and not settled: number, rule, why and acts."""
        return self._database.select("SELECT id, rule, why, acts FROM firings WHERE outcome = '' ORDER BY id")

    def log(self, most: int, rule: str = "") -> list[RuleLogEntry]:
        """Return the last firings, the oldest first; those of a boot that has a date now have that date."""
        rows = self._database.select(
            "SELECT firings.id, rule, CASE WHEN b.trusted THEN began + b.offset ELSE at END,"
            " coalesce(b.trusted, firings.trusted), why, acts, outcome"
            " FROM firings LEFT JOIN boots b ON b.boot = firings.boot"
            " WHERE ?1 IN ('', rule) ORDER BY firings.id DESC LIMIT ?2",
            rule,
            most,
        )
        return [
            RuleLogEntry(number, name, datetime.fromtimestamp(at, UTC), bool(trusted), *rest)
            for number, name, at, trusted, *rest in reversed(rows)
        ]

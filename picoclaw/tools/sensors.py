"""The tools of sensors: readings with units, the board's status, parts that are added, and what was measured in some time."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from datetime import datetime, tzinfo
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from picoclaw import times
from picoclaw.automation.conditions import get_unit, parse_series
from picoclaw.config.tables import SensorConfig
from picoclaw.errors import HardwareError, StoreError, ToolError
from picoclaw.files import explain_os_error
from picoclaw.hw import loader
from picoclaw.hw.board import Board
from picoclaw.hw.reading import QUANTITIES, Reading, WiredPart, format_reading
from picoclaw.messages import Caller
from picoclaw.records import NamedTuple, replace
from picoclaw.schema import Span, find_nearest
from picoclaw.store.samples import Samples, SampleSpan, SensorFailure, Series, merge_spans
from picoclaw.text import pattern
from picoclaw.times import TimeRange, format_duration
from picoclaw.tools.registry import tool


class SensorTools:
    """Kernel sensors, and parts that our drivers read over a bus."""

    def __init__(self, board: Board, wired: Mapping[str, WiredPart], drivers: loader.Drivers, home: str) -> None:
        """`wired` are the configured parts by name; looked up at each call, because parts are added."""
        self._board, self._wired, self._drivers, self._home = board, wired, drivers, home

    @tool(effect="read")
    def sensor_list(self) -> str:
        """List the sensors and what each measures."""
        rows = []
        for found in loader.list_sensors(self._board, self._wired):
            ours = self._drivers.channels(found.part) if found.part else []
            measured = dict.fromkeys([known.quantity for known in found.kernel] or ours)
            rows.append(
                f"{found.name}: {', '.join(measured)} ({found.source})" if measured else f"{found.name}: {found.source}"
            )
        return "\n".join(rows) or _NO_SENSOR

    def _check_reading(self, arguments: Mapping[str, Any]) -> Literal["read"]:
        """Refuse a reading of a missing sensor now: a planned one would fail each time it is due."""
        asked = parse_quantities(arguments["quantity"])
        name, wanted = self._parse_request(
            arguments["sensor"] or self._find_qualifier(arguments["quantity"], asked), asked
        )
        measured = [self._list_quantities(found) for found in self._find_sensors(name)]
        if not any(not wanted or not each or wanted & each for each in measured):
            raise ToolError(self._explain_missing(name, wanted))
        return "read"

    @tool(effect=_check_reading)
    def sensor_read(
        self,
        sensor: Annotated[str, "a name from sensor_list; default: all"] = "",
        quantity: Annotated[str, "such as temperature; default: all"] = "",
    ) -> str:
        """Measure now. Returns values with units."""
        wanted = parse_quantities(quantity)
        named = self._find_qualifier(quantity, wanted)
        readings = self.read(sensor or named, wanted)
        rows = "\n".join(_format_readings(readings, time.time()))
        if all(r.value is None for r in readings):
            raise ToolError(rows)
        return rows

    def read(self, sensor: str = "", wanted: frozenset[str] = frozenset()) -> list[Reading]:
        """Measure now: one sensor or all, and of these the `wanted` quantities. Raises ToolError where there is none."""
        name, wanted = self._parse_request(sensor, wanted)
        readings = [r for r in self._read(name, wanted) if not wanted or r.quantity in wanted]
        if not name:
            readings = [r for r in readings if not r.is_internal] or readings
        if not readings:
            raise ToolError(self._explain_missing(name, wanted))
        return readings

    @tool(effect="read")
    def board_status(self, caller: Caller) -> str:
        """Show the state of this computer: temperature, throttling, memory, disk, load, uptime, clock, address."""
        from picoclaw.hw import kernel

        rows = kernel.check_health(self._board, caller.now, self._home)
        return "\n".join([*kernel.format_results(rows), f"address: {' or '.join(kernel.list_addresses())}"])

    def _parse_request(self, asked: str, wanted: frozenset[str]) -> tuple[str, frozenset[str]]:
        """Split a request such as "greenhouse temperature" into the sensor's name and the quantities."""
        asked, known = asked.strip(), loader.list_sensors(self._board, self._wired)
        if any(asked == s.name or (_is_part_of_name(asked, s) and not _find_quantities(asked)) for s in known):
            return asked, wanted
        told = {word: _find_quantities(word) for word in _split_words(asked)}
        both = frozenset[str]().union(*told.values())
        others = [word for word, meant in told.items() if not meant and word not in _SENSORS]
        if both:  # in "air pressure" the air names no sensor, unless one is called that
            others = [
                word
                for word in others
                if any(_is_part_of_name(word, found) for found in known)
                or not (word.isalpha() and _QUALIFIES.fullmatch(word))
            ]
        return " ".join(others), (wanted & both) or (wanted | both)

    def _find_qualifier(self, quantity: str, wanted: frozenset[str]) -> str:
        """The sensor in "cpu temperature", '' for none; raises ToolError for words that name nothing here."""
        if _find_quantities(quantity):
            return ""
        others = [word for word in _split_words(quantity) if not (_find_quantities(word) or _QUALIFIES.fullmatch(word))]
        known = loader.list_sensors(self._board, self._wired)
        strange = [word for word in others if not any(_is_part_of_name(word, found) for found in known)]
        if strange:
            raise ToolError(self._explain_missing(" ".join(strange), wanted))
        return " ".join(others)

    def _find_sensors(self, name: str) -> list[loader.Sensor]:
        known = loader.list_sensors(self._board, self._wired)
        meant = [found for found in known if found.name == name] or [
            found for found in known if _is_part_of_name(name, found)
        ]
        return meant or [found for found in known if all(_is_part_of_name(word, found) for word in _split_words(name))]

    def _list_quantities(self, found: loader.Sensor) -> frozenset[str]:
        """What a sensor measures; empty where that is unknown before it is read."""
        if found.kernel:
            return frozenset(known.quantity for known in found.kernel)
        return frozenset(self._drivers.quantities(found.part)) if found.part else frozenset()

    def _read(self, name: str, wanted: frozenset[str]) -> Iterable[Reading]:
        for found in self._find_sensors(name):
            ours = self._drivers.quantities(found.part) if found.part and not found.kernel else []
            if not wanted or not ours or wanted.intersection(ours):  # what cannot answer need not be woken
                asked = min(wanted.intersection(ours) or wanted, default="temperature")
                yield from loader.read_sensor(self._board, self._drivers, found, asked)

    def _explain_missing(self, sensor: str, wanted: Iterable[str]) -> str:
        names = list(dict.fromkeys(found.name for found in loader.list_sensors(self._board, self._wired)))
        if not names:
            return _NO_SENSOR
        what = f"no sensor {sensor!r}" if sensor else "no sensor"
        quantity = " or ".join(sorted(wanted))
        return f"{what}{f' measures {quantity}' if quantity else ''}; there are: {', '.join(names)}"


_NO_SENSOR = (
    "this board has no sensor that the kernel knows, and none is configured;"
    " name a part that is wired up in config.toml under [sensors.NAME]"
)


_WORD = pattern(r"[^\s,;/()_-]+")
_SAYS_NOTHING = frozenset(
    {"a", "all", "an", "and", "any", "at", "each", "every", "everything", "in", "my", "of", "on", "or", "the"}
)
_SENSORS = frozenset({"sensor", "sensors", "value", "values", "reading", "readings", "measurement", "measurements"})
_QUALIFIES = pattern(
    r"sensors?|values?|readings?|measurements?|levels?|degrees?|units?|now|right|latest|present|is|it|what|how|here|for"
    r"|relative|absolute|air|ambient|atmospheric|barometric|.*\d.*"
)
"""Words beside a quantity's that name no sensor; one with a digit is a channel."""

_SYNONYMS = {
    **dict.fromkeys(["temp", "temperatures", "thermometer", "celsius", "centigrade", "c", "fahrenheit"], "temperature"),
    **dict.fromkeys(["heat", "warmth"], "temperature"),
    **dict.fromkeys(["hygrometer", "rh", "%rh", "percent"], "humidity"),
    **dict.fromkeys(["barometer", "mbar", "millibar", "hectopascal", "pascal", "pa"], "pressure"),
    **dict.fromkeys(["brightness", "illuminance", "lux"], "light"),
    **dict.fromkeys(["volt", "volts"], "voltage"),
    **dict.fromkeys(["ampere", "amperes", "amps"], "current"),
    **dict.fromkeys(["watt", "watts"], "power"),
}
"""Words that stand for a quantity, beside its own name and its unit."""


def _split_words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _SAYS_NOTHING]


def _find_quantities(text: str) -> frozenset[str]:
    """The quantities that a name, unit or synonym stands for."""
    asked = text.strip().lower()
    asked = _SYNONYMS.get(asked, asked)
    units = (name for name, each in QUANTITIES.items() if asked and each.unit.lower() == asked)
    return frozenset({asked}) if asked in QUANTITIES else frozenset(units)


def parse_quantities(asked: str) -> frozenset[str]:
    """The requested quantities; none means all."""
    words = _split_words(asked)
    found = _find_quantities(asked) or frozenset[str]().union(*map(_find_quantities, words))
    if not found and not _SENSORS.issuperset(words):
        raise ToolError(f"there is no quantity {asked!r}{find_nearest(words[0], QUANTITIES)}")
    return found


def _is_part_of_name(asked: str, found: loader.Sensor) -> bool:
    """Whether a text is part of a sensor's name, part or source."""
    names = (found.name, found.part.part if found.part else found.source)
    return any(asked.lower() in name.lower() for name in names)


_JUST_NOW_S = 5.0


def _format_readings(readings: Iterable[Reading], now: float) -> Iterable[str]:
    """One line per sensor: `porch: temperature 21.4 °C, humidity 55.2 % (source, read just now)`."""
    by_sensor: dict[str, list[Reading]] = {}
    for reading in readings:
        by_sensor.setdefault(reading.sensor, []).append(reading)
    for name, group in by_sensor.items():
        values = ", ".join(
            format_reading(r) if r.value is not None else f"{r.label} not available: {r.problem}" for r in group
        )
        doubts = "; ".join(dict.fromkeys(r.doubt for r in group if r.quality == "doubtful"))
        notes = "".join(f"; {note}" for note in dict.fromkeys(r.note for r in group if r.value is not None and r.note))
        doubtful = f"; doubtful: {doubts}" if doubts else ""
        age, moments = "", [r.at for r in group if r.value is not None]
        if moments:
            seconds = max(0.0, now - min(moments))
            age = ", read just now" if seconds < _JUST_NOW_S else f", read {format_duration(seconds)} ago"
        yield f"{name}: {values} ({group[0].source}{age}{doubtful}{notes})"


# `sensor_add`: configures a wired part, after checking that it is there and is what it is said to be.

_MAX_NAME_CHARS = 40


class SensorAddTool:
    def __init__(
        self,
        board: Board,
        wired: MutableMapping[str, WiredPart],
        drivers: loader.Drivers,
        where: Sequence[Path],
        keep: Callable[[str, SensorConfig], None],
        owned: Mapping[tuple[int, int], str] = MappingProxyType({}),
        ring: Callable[[], None] = lambda: None,
    ) -> None:
        """`wired` grows by what is added; `keep(name, sensor)` makes it durable, raising OSError.

        `owned` names the declared output at a bus and address, which is left alone; `ring()` wakes what samples.
        """
        self._board, self._wired, self._drivers, self._where = board, wired, drivers, where
        self._save, self._owned, self._wake = keep, owned, ring

    def _explain_adding(self, arguments: Mapping[str, Any]) -> str:
        bus, address = arguments["bus"], arguments["address"]
        where = arguments["port"] or (f"i2c-{1 if bus is None else bus} 0x{address:02x}" if address else "")
        known = ", ".join(filter(None, [arguments["part"], where]))
        return f"{arguments['name']}: {known}" if known else ""

    @tool(effect="actuate", means=_explain_adding)
    def sensor_add(
        self,
        name: Annotated[str, "a new name, such as porch"],
        part: Annotated[str, "such as bme280; default: detect it"] = "",
        bus: Annotated[int | None, Span(0, 255)] = None,
        address: Annotated[int, Span(0, 0x77), "I2C address, 0x08 to 0x77"] = 0,
        chip: Annotated[int, Span(0, 255), "SPI chip select"] = 0,
        port: Annotated[str, "serial port, or 1-Wire id"] = "",
        options: Annotated[dict[str, Any] | None, "such as shunt_ohms"] = None,
    ) -> str:
        """Set up a wired sensor, after checking that it answers."""
        from picoclaw.hw import detect

        if not name.strip() or len(name) > _MAX_NAME_CHARS or not name.isprintable() or name != name.strip():
            raise ToolError(f"name must be 1 to {_MAX_NAME_CHARS} printable characters, such as porch")
        if name in self._wired:
            raise ToolError(
                f"there is a sensor {name!r} already: {loader.describe_part(self._wired[name])}; choose another name"
            )
        if address and address < detect.FIRST_ADDRESS:
            raise ToolError(f"'address' is {address}, outside 0x08 to 0x77")
        if not part:
            self._check_bus(1 if bus is None else bus, address)
            part = self._detect_part(1 if bus is None else bus, address)
        sensor = SensorConfig(part.strip().lower(), bus, address, chip, port, options or {})
        wired = loader.resolve_part(sensor, self._where)
        for known, other in self._wired.items():
            if loader.format_location(other) == loader.format_location(wired):
                raise ToolError(f"{loader.format_location(wired)} is taken: {known} is {loader.describe_part(other)}")
        if wired.route == "i2c":
            self._check_bus(wired.bus, wired.address)
        seen = self._verify_part(name, wired)
        try:
            # the full location, so that another driver's default cannot move the part
            self._save(
                name, replace(sensor, bus=wired.bus if wired.route in {"i2c", "spi"} else None, address=wired.address)
            )
        except OSError as error:
            raise ToolError(f"{name} could not be saved: {explain_os_error(error)}") from None
        self._wired[name] = wired
        self._wake()
        return f"added {name}: {loader.describe_part(wired)}; it measures {seen}"

    def _check_bus(self, bus: int, address: int) -> None:
        """Refuse buses of the board itself and declared outputs: even a probe writes to a part."""
        if (bus, address) in self._owned:
            raise ToolError(f"0x{address:02x} on i2c-{bus} is the declared output {self._owned[bus, address]}")
        use = next((a.use for a in self._board.adapters() if a.number == bus), "")
        if use:
            raise ToolError(f"i2c-{bus} belongs to {use}: wire parts to the pin header's bus")

    def _detect_part(self, bus: int, address: int) -> str:
        """Identify the part at an address; raises ToolError if that is not certain."""
        from picoclaw.hw import detect

        if not address:
            raise ToolError(
                "part or address is missing: say which part it is, or where (`i2c` with scan lists addresses)"
            )
        where = f"0x{address:02x} on i2c-{bus}"
        if (presence := loader.probe(self._board, self._board.i2c(bus), address)) != "present":
            held = f"is read by the kernel's driver {self._board.i2c(bus).holder(address)} already: see sensor_list"
            raise ToolError(f"{where} {held if presence == 'busy' else 'does not answer: check power and wiring'}")
        found = detect.identify_part(self._board, bus, address, self._where)
        if len(found.identified) == 1:
            return next(iter(found.identified))
        choices = list(found.identified) or found.possible
        if not choices:
            raise ToolError(
                f"{where} answers, but no driver knows a part at that address; use the i2c tool, or add a driver"
            )
        raise ToolError(
            f"{where} answers, but may be {' or '.join(choices)}, which cannot be told apart safely:"
            " say which part it is, by what is printed on it"
        )

    def _verify_part(self, name: str, wired: WiredPart) -> str:
        """Measure once; raises ToolError if it is another part, or gives no plausible value."""
        chip = loader.load_driver(wired.part, self._where)
        identify = getattr(chip, "identify", None)
        try:
            if identify is not None:
                with self._drivers.opened(wired, chip) as handle:
                    said = identify(handle)
                if not said:
                    raise ToolError(self._explain_other_part(wired))
        except (HardwareError, ValueError) as error:
            raise ToolError(str(error)) from None
        except loader.DRIVER_ERRORS as error:
            raise ToolError(f"its driver {wired.part}.py failed: {type(error).__name__}: {error}") from None
        readings = self._drivers.measure(name, wired)
        if all(reading.value is None for reading in readings):
            raise ToolError(f"{loader.describe_part(wired)} was not added: {readings[0].problem}")
        return ", ".join(format_reading(reading) for reading in readings if reading.value is not None)

    def _explain_other_part(self, wired: WiredPart) -> str:
        from picoclaw.hw import detect

        problem, others = f"what is on {loader.format_location(wired)} is no {wired.part}", {}
        if wired.route == "i2c":
            others = detect.identify_part(self._board, wired.bus, wired.address, self._where).identified
        return f"{problem}: it says that it is {' or '.join(others.values())}" if others else problem


_MAX_SPANS = 12
_MAX_SERIES = 6
_LONGEST_GAP_S = 900
_CHART_COLUMNS = 24  # with its numbers it fits a telephone


class SensorHistory:
    def __init__(self, samples: Callable[[], Samples]) -> None:
        self._samples = samples

    @tool(effect="read")
    def sensor_history(
        self,
        caller: Caller,
        sensor: str = "",
        quantity: str = "",
        when: Annotated[str, "yesterday, since monday; default: last 24 hours"] = "last 24 hours",
        compare: Annotated[str, "another time"] = "",
        *,
        chart: bool = False,
    ) -> str:
        """Show past readings: lowest, highest, mean, trend."""
        wanted = times.parse_range(when, caller.now)
        other = times.parse_range(compare, caller.now) if compare.strip() else None
        if other and other.begin == wanted.begin and compare in times.WEEKDAYS:  # of a Friday the one before
            other = times.parse_range(f"last {compare}", caller.now)
        try:
            samples = self._samples()
            if (oldest := samples.oldest()) is not None and wanted.end.timestamp() <= oldest:
                raise ToolError(f"nothing was measured {when}{_describe_record(samples, (), wanted)}")
            series = _find_wanted(samples, sensor, quantity)
            most = _CHART_COLUMNS if chart else _MAX_SPANS
            found = [look for one in series if (look := summarize_series(samples, one, wanted, most))]
            if not found:
                raise ToolError(f"nothing was measured {when}{_describe_record(samples, series, wanted)}")
            before = {f.series: summarize_series(samples, f.series, other, _MAX_SPANS) for f in found} if other else {}
        except StoreError as error:
            raise ToolError(f"the measurements cannot be read: {error}") from None
        rows: list[str] = []
        for look in found:
            rows += format_summary(look)
            if chart:
                rows += ["```", *draw_series(look), "```"]
            elif len(found) == 1 and look.whole.good:
                means = (f"{format_time(s.at, look.range)} {s.total / s.good:.4g}" for s in look.spans if s.good)
                rows.append(f"mean every {times.format_duration(look.step_s, exact=True)}: {', '.join(means)}")
            if compare:
                past = before.get(look.series)
                rows.append(_format_comparison(look, past) if past else f"nothing was measured {compare}")
        if oldest is not None and wanted.begin.timestamp() + _LONGEST_GAP_S < oldest:
            rows.append(_name_oldest(oldest, wanted))
        return "\n".join(rows)

    @tool(effect="read")
    def sensor_excursions(
        self,
        caller: Caller,
        side: Literal["above", "below"],
        limit: float,
        sensor: str = "",
        quantity: str = "",
        when: Annotated[str, "yesterday, since monday"] = "today",
    ) -> str:
        """Show how often and how long a value was above or below a limit."""
        wanted = times.parse_range(when, caller.now)
        try:
            samples = self._samples()
            rows = [
                format_excursions(samples, one, side, limit, wanted) for one in _find_wanted(samples, sensor, quantity)
            ]
        except StoreError as error:
            raise ToolError(f"the measurements cannot be read: {error}") from None
        return "\n".join(rows)


def format_excursions(samples: Samples, series: Series, side: str, limit: float, wanted: TimeRange) -> str:
    """Say how often and how long a series was beyond a limit, by the values that were kept. Raises StoreError.

    What was measured every few minutes counts until the next value; a gap of over 15 minutes ends it.
    """
    begin, end = wanted.begin.timestamp(), wanted.end.timestamp()
    spans = [span for span in samples.spans(series, begin, end, 60.0) if span.good]
    what = f"{series.sensor} {series.quantity}"
    if not spans:
        return f"{what}: nothing was measured"
    found: list[list[float]] = []
    is_beyond = False
    for span, following in zip(spans, [*(one.at for one in spans[1:]), end], strict=True):
        until = min(following, span.at + _LONGEST_GAP_S)
        beyond = span.high > limit if side == "above" else span.low < limit
        if beyond and is_beyond and found[-1][1] >= span.at:
            found[-1][1] = until
        elif beyond:
            found.append([span.at, until])
        is_beyond = beyond
    said = f"{what} {side} {_format_value(limit, series)}"
    if not found:
        return f"{said}: not once"
    spent = [last - first for first, last in found]
    longest, last = (
        " to ".join(format_time(at, wanted) for at in one) for one in (found[spent.index(max(spent))], found[-1])
    )
    total = format_duration(max(1, round(sum(spent))), exact=True)
    most = f", the longest {format_duration(max(1, round(max(spent))), exact=True)}" if len(found) > 1 else ""
    newest = f", the last {last}" if len(found) > 1 else ""
    return f"{said}: {len(found)} x, {total} in all{most} ({longest}){newest}"


def _describe_record(samples: Samples, series: Sequence[Series], wanted: TimeRange) -> str:
    """Say when the record begins, where that is too late; else when each was measured last."""
    oldest, zone = samples.oldest(), wanted.begin.tzinfo
    if oldest is not None and wanted.end.timestamp() <= oldest:
        return f": {_name_oldest(oldest, wanted)}"
    known = {one: at for one, at in samples.known().items() if one in series}
    return f"; {'; '.join(list_newest(known, zone))}"


def _name_oldest(oldest: float, wanted: TimeRange) -> str:
    return f"the record goes back to {datetime.fromtimestamp(oldest, wanted.begin.tzinfo):%Y-%m-%d %H:%M}"


def _find_wanted(samples: Samples, sensor: str, quantity: str) -> list[Series]:
    known = samples.known()
    series = find_series(list(known), sensor, quantity)
    names = ", ".join(f"{one.sensor} {one.quantity}" for one in known)
    if not known:
        raise ToolError(
            "no measurements yet: sensors are measured while `picoclaw run` or an interactive `picoclaw chat` runs"
        )
    if not series:
        raise ToolError(f"nothing was kept of that; kept are: {names}")
    if len(series) > _MAX_SERIES:
        raise ToolError(f"that is too much at once: name a sensor; kept are: {names}")
    return series


# What sensors said in some time, in figures and in words: for the tool, for the command line, for a picture.

_MIN_TREND_POINTS = 3
_MAX_TROUBLES = 3
_NICE_S = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800)


class SeriesSummary(NamedTuple):
    """A series in a time range; `trend` is its slope in units per hour, None where there are too few values."""

    series: Series
    range: TimeRange
    whole: SampleSpan
    low_at: float
    high_at: float
    spans: list[SampleSpan]
    step_s: float
    trend: float | None
    troubles: list[SensorFailure]
    undated: bool = False


def summarize_series(samples: Samples, series: Series, when: TimeRange, most: int) -> SeriesSummary | None:
    """Summarize a series in at most `most` spans; None if nothing was measured. Raises StoreError."""
    begin, end = when.begin.timestamp(), when.end.timestamp()
    step_s = choose_step(end - begin, most)
    fine = samples.spans(series, begin, end, min(step_s, 60.0))
    good = [span for span in fine if span.good]
    whole = merge_spans(fine)
    if whole is None:
        return None
    low_at = min(good, key=lambda s: s.low).at if good else 0.0
    high_at = max(good, key=lambda s: s.high).at if good else 0.0
    steps: dict[int, SampleSpan] = {}
    for span in fine:
        index = max(0, int((span.at - begin) // step_s))
        start = span._replace(at=begin + index * step_s)
        steps[index] = steps[index] | start if index in steps else start
    coarse = [steps[index] for index in sorted(steps)]
    troubles, undated = samples.troubles(series.sensor, begin, end), samples.undated(begin, end)
    return SeriesSummary(series, when, whole, low_at, high_at, coarse, step_s, _fit_trend(coarse), troubles, undated)


def choose_step(seconds: float, most: int) -> float:
    """Choose a round step that divides a range into about `most` spans, in seconds."""
    return float(next((nice for nice in _NICE_S if seconds / nice <= most), seconds / most))


def _fit_trend(spans: Sequence[SampleSpan]) -> float | None:
    """The slope of the least-squares line, in units per hour."""
    points = [((span.at - spans[0].at) / 3600, span.total / span.good) for span in spans if span.good]
    if len(points) < _MIN_TREND_POINTS:
        return None
    middle_x, middle_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    below = sum((x - middle_x) ** 2 for x, _ in points)
    return float(sum((x - middle_x) * (y - middle_y) for x, y in points) / below)


def _format_value(value: float, series: Series) -> str:
    known = QUANTITIES.get(series.quantity.partition(" ")[0])
    return f"{value:.{known.digits if known else 2}f} {get_unit(series)}".rstrip()


def format_time(at: float, when: TimeRange) -> str:
    local = datetime.fromtimestamp(at, when.begin.tzinfo)
    return f"{local:%H:%M}" if when.seconds <= 25 * 3600 else f"{local:%a %Y-%m-%d %H:%M}"


def format_summary(past: SeriesSummary) -> Iterator[str]:
    series, whole = past.series, past.whole
    begin, end = (f"{moment:%Y-%m-%d %H:%M}" for moment in (past.range.begin, past.range.end))
    length = format_duration(past.range.seconds)
    yield f"{series.sensor} {series.quantity}, {begin} to {end} ({length}), {_count_readings(whole.good)}:"
    if whole.good:
        yield (
            f"min {_format_value(whole.low, series)} at {format_time(past.low_at, past.range)},"
            f" max {_format_value(whole.high, series)} at {format_time(past.high_at, past.range)},"
            f" mean {_format_value(whole.total / whole.good, series)}{_format_trend(past)}"
        )
    if whole.failed:
        yield f"{_count_readings(whole.failed)} failed"
    for trouble in past.troubles[-_MAX_TROUBLES:]:
        often = f", {trouble.times} times" if trouble.times > 1 else ""
        first, last = format_time(trouble.began, past.range), format_time(trouble.ended, past.range)
        yield f"failed {first} to {last}{often}: {trouble.problem}"
    if past.undated:
        yield "some of it was measured before the clock was set: its times are estimates"


def draw_series(past: SeriesSummary, *, plain: bool = False) -> Iterator[str]:
    """Draw its means as lines of blocks, a column a span; `plain` draws with ASCII."""
    from picoclaw.chart import draw_text

    begin, end = past.range.begin.timestamp(), past.range.end.timestamp()
    means = {round((span.at - begin) / past.step_s): span.mean for span in past.spans}
    steps = max(1, -int(-past.range.seconds // past.step_s))
    columns = [means.get(index) for index in range(steps)]  # None where nothing was measured
    return draw_text(columns, (format_time(begin, past.range), format_time(end, past.range)), plain=plain)


def _count_readings(readings: int) -> str:
    return f"{readings} reading{'' if readings == 1 else 's'}"


def _format_trend(past: SeriesSummary) -> str:
    spread = past.whole.high - past.whole.low
    if past.trend is None:
        return "; too little for a trend"
    if not spread or abs(past.trend) * past.range.seconds / 3600 < 0.1 * spread:
        return ", steady"
    return f", {'rising' if past.trend > 0 else 'falling'} {_format_value(abs(past.trend), past.series)} an hour"


def _format_comparison(past: SeriesSummary, other: SeriesSummary) -> str:
    if not (past.whole.good and other.whole.good):
        return "nothing to compare"
    figures = []
    for name, now, was in (
        ("min", past.whole.low, other.whole.low),
        ("max", past.whole.high, other.whole.high),
        ("mean", past.whole.total / past.whole.good, other.whole.total / other.whole.good),
    ):
        difference = f"{'+' if now >= was else '-'}{_format_value(abs(now - was), past.series)}"
        figures.append(f"{name} {_format_value(was, past.series)} (now {difference})")
    begin, end = (f"{moment:%Y-%m-%d %H:%M}" for moment in (other.range.begin, other.range.end))
    return f"compared with {begin} to {end}: {', '.join(figures)}"


def list_newest(known: dict[Series, float], zone: tzinfo | None) -> Iterator[str]:
    """List the series with the time of the newest value."""
    for series, at in known.items():
        yield f"{series.sensor} {series.quantity}: last {datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M}"


def find_series(known: Sequence[Series], sensor: str, quantity: str) -> list[Series]:
    """Find the series by sensor name and quantity, either of which may be empty."""
    sensor, quantity = " ".join(sensor.lower().split()), " ".join(quantity.lower().split())
    if sensor in QUANTITIES and not quantity:
        sensor, quantity = "", sensor
    if not quantity and not any(series.sensor.lower() == sensor for series in known):
        with contextlib.suppress(ValueError):
            sensor, quantity = parse_series(sensor)
    fits = [series for series in known if quantity in {"", series.quantity, series.quantity.partition(" ")[0]}]
    if not fits:  # such as "air pressure" and "temp"
        with contextlib.suppress(ToolError):
            meant = parse_quantities(quantity)
            fits = [series for series in known if series.quantity.partition(" ")[0] in meant]
    exact = [series for series in fits if series.sensor.lower() == sensor]
    return exact or [series for series in fits if sensor in series.sensor.lower()]

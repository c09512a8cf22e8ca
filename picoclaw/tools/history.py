"""`sensor_history`: what the sensors said in some time, summed up."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Annotated, Literal

from picoclaw import times
from picoclaw.automation.conditions import get_unit, parse_series
from picoclaw.errors import StoreError, ToolError
from picoclaw.hw.reading import QUANTITIES
from picoclaw.messages import Caller
from picoclaw.records import NamedTuple
from picoclaw.store.samples import Samples, SampleSpan, SensorFailure, Series, merge_spans
from picoclaw.times import TimeRange, format_duration
from picoclaw.tools.registry import tool

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
        try:
            wanted = times.parse_range(when, caller.now)
            other = times.parse_range(compare, caller.now) if compare.strip() else None
        except ValueError as error:
            raise ToolError(str(error)) from None
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
        try:
            wanted = times.parse_range(when, caller.now)
        except ValueError as error:
            raise ToolError(str(error)) from None
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
    longest = found[spent.index(max(spent))]
    moments = " to ".join(format_time(at, wanted) for at in longest)
    total = format_duration(max(1, round(sum(spent))), exact=True)
    most = f", the longest {format_duration(max(1, round(max(spent))), exact=True)}" if len(found) > 1 else ""
    return f"{said}: {len(found)} x, {total} in all{most} ({moments})"


def _describe_record(samples: Samples, series: Sequence[Series], wanted: TimeRange) -> str:
    """Say when the record begins, where that is too late; else when each was measured last."""
    oldest, zone = samples.oldest(), wanted.begin.tzinfo
    if oldest is not None and wanted.end.timestamp() <= oldest:
        return f": the record goes back to {datetime.fromtimestamp(oldest, zone):%Y-%m-%d %H:%M}"
    known = {one: at for one, at in samples.known().items() if one in series}
    return f"; {'; '.join(list_newest(known, zone))}"


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
        from picoclaw.tools.sensors import parse_quantities

        with contextlib.suppress(ToolError):
            meant = parse_quantities(quantity)
            fits = [series for series in known if series.quantity.partition(" ")[0] in meant]
    exact = [series for series in fits if series.sensor.lower() == sensor]
    return exact or [series for series in fits if sensor in series.sensor.lower()]

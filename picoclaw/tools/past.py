"""What sensors said in some time, in figures and in words: for the tool, for the command line, for a picture."""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

from picoclaw.hw.reading import QUANTITIES
from picoclaw.ranges import Range
from picoclaw.rules.conditions import series_named, unit
from picoclaw.schedule import duration
from picoclaw.store.points import Series, Span, Trouble, joined
from picoclaw.store.samples import Samples

_LEAST_TREND = 3
_MOST_TROUBLES = 3
_NICE_S = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800)


class Past(NamedTuple):
    """A series in some time. `trend` is its slope in units an hour, None where there is too little."""

    series: Series
    range: Range
    whole: Span
    low_at: float
    high_at: float
    spans: list[Span]
    step_s: float
    trend: float | None
    troubles: list[Trouble]
    undated: bool = False


def look(samples: Samples, series: Series, when: Range, most: int) -> Past | None:
    """Sum a series up, with at most so many spans; None when nothing was measured then. Raises StoreError."""
    begin, end = when.begin.timestamp(), when.end.timestamp()
    step_s = step(end - begin, most)
    fine = samples.spans(series, begin, end, min(step_s, 60.0))
    good = [span for span in fine if span.good]
    whole = joined(fine)
    if whole is None:
        return None
    low_at = min(good, key=lambda s: s.low).at if good else 0.0
    high_at = max(good, key=lambda s: s.high).at if good else 0.0
    troubles = samples.troubles(series.sensor, begin, end)
    doubt = samples.undated(begin, end)
    coarse = _coarse(fine, begin, step_s)
    return Past(series, when, whole, low_at, high_at, coarse, step_s, trend(coarse), troubles, doubt)


def step(seconds: float, most: int) -> float:
    """Choose a round length of time, of which a range has about so many."""
    return float(next((nice for nice in _NICE_S if seconds / nice <= most), seconds / most))


def _coarse(spans: Sequence[Span], begin: float, step_s: float) -> list[Span]:
    found: dict[int, Span] = {}
    for span in spans:
        index = max(0, int((span.at - begin) // step_s))
        start = span._replace(at=begin + index * step_s)
        found[index] = found[index] | start if index in found else start
    return [found[index] for index in sorted(found)]


def trend(spans: Sequence[Span]) -> float | None:
    """Return the slope of the straight line that fits best (least squares), in units an hour."""
    points = [((span.at - spans[0].at) / 3600, span.total / span.good) for span in spans if span.good]
    if len(points) < _LEAST_TREND:
        return None
    middle_x, middle_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    below = sum((x - middle_x) ** 2 for x, _ in points)
    return float(sum((x - middle_x) * (y - middle_y) for x, y in points) / below)


def shown(value: float, series: Series) -> str:
    """Write a value with its unit."""
    known = QUANTITIES.get(series.quantity.partition(" ")[0])
    return f"{value:.{known.digits if known else 2}f} {unit(series)}".rstrip()


def clock(at: float, when: Range) -> str:
    """Write a moment as briefly as the range allows."""
    local = datetime.fromtimestamp(at, when.begin.tzinfo)
    return f"{local:%H:%M}" if when.seconds <= 25 * 3600 else f"{local:%a %d %b %H:%M}"


def summary(past: Past) -> Iterator[str]:
    """Say what was measured, a few lines."""
    series, whole = past.series, past.whole
    begin, end = (f"{moment:%Y-%m-%d %H:%M}" for moment in (past.range.begin, past.range.end))
    length = duration(past.range.seconds)
    yield f"{series.sensor} {series.quantity}, {begin} to {end} ({length}), {_counted(whole.good)}:"
    if whole.good:
        yield (
            f"min {shown(whole.low, series)} at {clock(past.low_at, past.range)},"
            f" max {shown(whole.high, series)} at {clock(past.high_at, past.range)},"
            f" mean {shown(whole.total / whole.good, series)}{_trend_worded(past)}"
        )
    if whole.failed:
        yield f"{_counted(whole.failed)} failed"
    yield from (_trouble(trouble, past.range) for trouble in past.troubles[-_MOST_TROUBLES:])
    if past.undated:
        yield "some of it was measured before the clock was set: its times are estimates"


def _counted(readings: int) -> str:
    return f"{readings} reading{'' if readings == 1 else 's'}"


def _trend_worded(past: Past) -> str:
    spread = past.whole.high - past.whole.low
    if past.trend is None:
        return "; too little for a trend"
    if not spread or abs(past.trend) * past.range.seconds / 3600 < 0.1 * spread:
        return ", steady"
    return f", {'rising' if past.trend > 0 else 'falling'} {shown(abs(past.trend), past.series)} an hour"


def _trouble(trouble: Trouble, when: Range) -> str:
    times = f", {trouble.times} times" if trouble.times > 1 else ""
    return f"failed {clock(trouble.began, when)} to {clock(trouble.ended, when)}{times}: {trouble.problem}"


def compared(past: Past, other: Past) -> str:
    """Say how one time differs from another."""
    if not (past.whole.good and other.whole.good):
        return "nothing to compare"
    pairs = [
        ("min", past.whole.low, other.whole.low),
        ("max", past.whole.high, other.whole.high),
        ("mean", past.whole.total / past.whole.good, other.whole.total / other.whole.good),
    ]
    figures = ", ".join(f"{name} {shown(was, past.series)} ({_by(now - was, past.series)})" for name, now, was in pairs)
    return f"compared with {other.range.begin:%Y-%m-%d %H:%M} to {other.range.end:%Y-%m-%d %H:%M}: {figures}"


def _by(difference: float, series: Series) -> str:
    sign = "+" if difference >= 0 else "-"
    return f"now {sign}{shown(abs(difference), series)}"


def newest(known: dict[Series, float], zone: tzinfo | None) -> Iterator[str]:
    """List what there is, with the time of the newest value."""
    for series, at in known.items():
        yield f"{series.sensor} {series.quantity}: last {datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M}"


def meant(known: Sequence[Series], sensor: str, quantity: str) -> list[Series]:
    """Find the series that are meant by a sensor's name and a quantity, either of which may be empty."""
    sensor, quantity = " ".join(sensor.lower().split()), " ".join(quantity.lower().split())
    if sensor in QUANTITIES and not quantity:
        sensor, quantity = "", sensor
    if not quantity and not any(series.sensor.lower() == sensor for series in known):
        with contextlib.suppress(ValueError):
            sensor, quantity = series_named(sensor)
    fits = [series for series in known if quantity in {"", series.quantity, series.quantity.partition(" ")[0]}]
    exact = [series for series in fits if series.sensor.lower() == sensor]
    return exact or [series for series in fits if sensor in series.sensor.lower()]

"""What is kept of a measurement: points that follow a series, packed small, and spans that sum them up."""

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

_TENTH, _MOST_TENTHS = 0.1, 0xFFFF
LONGEST_BLOCK_S = _TENTH * _MOST_TENTHS
_POINT = struct.Struct("<Hf")


class Moment(NamedTuple):
    """Now: the boot, seconds since it, local time with its zone, and whether anything vouches for that time."""

    boot: str
    mono: float
    wall: datetime
    trusted: bool = True


class Series(NamedTuple):
    """What is followed: a sensor's name, and a quantity with its channel."""

    sensor: str
    quantity: str


class Block(NamedTuple):
    """Some values in a row: seconds since the boot, and the value, None for a reading that failed."""

    series: Series
    points: Sequence[tuple[float, float | None]]


class Trouble(NamedTuple):
    """Why a sensor gave nothing, for how long and how often; `began` and `ended` are seconds since the boot or 1970."""

    sensor: str
    began: float
    ended: float
    times: int
    problem: str


class Span(NamedTuple):
    """Some time of a series: when it began, in seconds since 1970, and what was measured in it."""

    at: float
    good: int
    failed: int
    total: float
    low: float
    high: float

    @property
    def mean(self) -> float | None:
        """The mean of the values."""
        return self.total / self.good if self.good else None

    def __or__(self, other: "Span") -> "Span":
        """Put two together."""
        return Span(
            min(self.at, other.at),
            self.good + other.good,
            self.failed + other.failed,
            self.total + other.total,
            min(self.low, other.low),
            max(self.high, other.high),
        )


def joined(spans: Iterable[Span]) -> Span | None:
    """Sum spans up, None when there are none."""
    whole: Span | None = None
    for span in spans:
        whole = whole | span if whole else span
    return whole


def packed(points: Sequence[tuple[float, float | None]]) -> Iterator[tuple[float, bytes]]:
    """Pack values in a row, with the moment they begin at; what tenths of seconds cannot reach is packed apart."""
    began, data = 0.0, b""
    for at, value in points:
        tenths = round((at - began) / _TENTH) if data else 0
        if not 0 <= tenths <= _MOST_TENTHS:
            yield began, data
            data, tenths = b"", 0
        began = began if data else at
        data += _POINT.pack(tenths, math.nan if value is None else value)
    if data:
        yield began, data


def unpacked(began: float, points: bytes) -> Iterator[Span]:
    """Take packed values apart, each a span of its own."""
    whole = points[: len(points) - len(points) % _POINT.size]
    for tenths, value in _POINT.iter_unpack(whole):
        yield spot(began + tenths * _TENTH, None if math.isnan(value) else value)


def spot(at: float, value: float | None) -> Span:
    """Make a span of one value, None for a reading that failed."""
    return Span(at, 0, 1, 0.0, math.inf, -math.inf) if value is None else Span(at, 1, 0, value, value, value)


def span_of(at: Any, count: Any, failed: Any, total: Any, low: Any, high: Any) -> Span:
    """Make a span of a row of the database, which has no extremes of no values."""
    return Span(at, count, failed, total, math.inf if low is None else low, -math.inf if high is None else high)

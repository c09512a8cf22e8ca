"""Draws a series of values: with blocks in a terminal, or as an SVG picture. Pure.

Source: Scalable Vector Graphics (SVG) 1.1, https://www.w3.org/TR/SVG11/
"""

import math
from collections.abc import Iterator, Sequence
from html import escape

_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = " ._-=+*#@"
_WIDE, _HIGH = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 28, 24
_MAX_TICKS = 5
_LEAST, _MOST = 1e-300, 1e300  # what can be divided by, and what two of can be added
_SVG_HEAD = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" height="{_HIGH}"'
    ' font-family="sans-serif" font-size="11">'
)


def compute_ticks(low: float, high: float, most: int = _MAX_TICKS) -> list[float]:
    """Choose round numbers between two values, few enough to be written beside a chart."""
    span = high - low
    if not _LEAST < span < math.inf:
        return [low]
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step)
    return [round(n * step, 9) + 0.0 for n in range(first, math.floor(high / step + 1e-9) + 1)]


def draw_text(
    values: Sequence[float | None], labels: tuple[str, str], *, height: int = 6, plain: bool = False
) -> Iterator[str]:
    """Draw a chart of lines of text: a column a value, a blank column where there is none.

    `labels` stand below its beginning and its end; `plain` draws with ASCII.
    """
    values = [None if value is None else _filter_finite(value) for value in values]
    known = [value for value in values if value is not None]
    if not known:
        yield "(no values)"
        return
    low, high = min(known), max(known)
    marks = _ASCII_BLOCKS if plain else _BLOCKS
    width = max(len(f"{low:g}"), len(f"{_format_number(high)}"), len(_format_number(low)))
    heights = [None if value is None else _count_eighths(value, low, high, height) for value in values]
    for row in reversed(range(height)):
        edge = _format_number(high) if row == height - 1 else _format_number(low) if row == 0 else ""
        cells = (" " if eighths is None else marks[min(8, max(0, eighths - 8 * row))] for eighths in heights)
        yield f"{edge:>{width}} {'|' if plain else '┤'}{''.join(cells)}".rstrip()
    room = max(len(labels[1]) + 1, len(values) - len(labels[0]))
    yield f"{'':{width}}  {labels[0]}{labels[1]:>{room}}"


def _filter_finite(value: float) -> float | None:
    """Give a value as it can be drawn: one that is no number is none, and one beyond everything is at the edge."""
    return None if math.isnan(value) else _clamp(value)


def _clamp(value: float) -> float:
    return max(-_MOST, min(_MOST, value))


def _count_eighths(value: float, low: float, high: float, height: int) -> int:
    """How many eighths of a line a column is high; at least one, so that the lowest value can be seen."""
    return 4 * height if high == low else 1 + round((value - low) / (high - low) * (8 * height - 1))


def _format_number(value: float) -> str:
    return f"{value:.4g}"


def draw_svg(
    title: str,
    points: Sequence[tuple[float, float, float, float]],
    begin: float,
    end: float,
    dates: Sequence[tuple[float, str]],
    apart: float,
) -> str:
    """Draw a picture: the mean as a line, lowest to highest as a band behind it.

    `points` are (moment, lowest, mean, highest); the line is broken where two are more than `apart`; `dates` are
    written below their moments.
    """
    known = [point for point in points if not any(map(math.isnan, point))]
    points = [(at, _clamp(low), _clamp(mean), _clamp(top)) for at, low, mean, top in known]
    if not points:
        return f"{_SVG_HEAD}\n<title>{escape(title)}</title>\n</svg>\n"
    low, high = min(point[1] for point in points), max(point[3] for point in points)
    room = (high - low) * 0.05 or max(abs(high) * 0.01, 0.5)
    low, high = low - room, high + room
    across, down = _WIDE - _LEFT - _RIGHT, _HIGH - _TOP - _BOTTOM

    def x(at: float) -> str:
        return f"{_LEFT + (at - begin) / (end - begin) * across:.1f}"

    def y(value: float) -> str:
        return f"{_TOP + (high - value) / (high - low) * down:.1f}"

    rows = [
        _SVG_HEAD,
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDE}" height="{_HIGH}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="16" font-size="13">{escape(title)}</text>',
    ]
    for value in compute_ticks(low, high):
        rows.append(f'<path d="M{_LEFT} {y(value)}H{_WIDE - _RIGHT}" stroke="#ddd"/>')
        rows.append(f'<text x="{_LEFT - 4}" y="{y(value)}" dy="4" text-anchor="end">{value:g}</text>')
    rows += [f'<text x="{x(at)}" y="{_HIGH - 8}" text-anchor="middle">{escape(text)}</text>' for at, text in dates]
    for run in _find_runs(points, apart):
        band = [f"{x(at)},{y(top)}" for at, _, _, top in run] + [f"{x(at)},{y(b)}" for at, b, _, _ in reversed(run)]
        rows.append(f'<polygon points="{" ".join(band)}" fill="#cde" stroke="#cde"/>')
        line = " ".join(f"{x(at)},{y(mean)}" for at, _, mean, _ in run)
        rows.append(f'<polyline points="{line}" fill="none" stroke="#06c" stroke-width="1.5" stroke-linecap="round"/>')
    return "\n".join([*rows, "</svg>\n"])


def _find_runs(
    points: Sequence[tuple[float, float, float, float]], apart: float
) -> Iterator[list[tuple[float, float, float, float]]]:
    run: list[tuple[float, float, float, float]] = []
    for point in points:
        if run and point[0] - run[-1][0] > apart:
            yield run
            run = []
        run.append(point)
    if run:
        yield run

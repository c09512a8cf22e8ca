"""Draws a series of values: with blocks in a terminal, or as an SVG or a PNG picture. Pure.

Source: Scalable Vector Graphics (SVG) 1.1, https://www.w3.org/TR/SVG11/
"""

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import zip_longest

_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = " ._-=+*#@"
_WIDE, _HIGH = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 8, 28, 24
_MAX_TICKS, _MIN_ROWS = 5, 3
_LEAST, _MOST = 1e-300, 1e300  # what can be divided by, and what two of can be added
_SVG_HEAD = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" height="{_HIGH}"'
    ' font-family="sans-serif" font-size="11">'
)


def compute_ticks(low: float, high: float) -> list[float]:
    """Choose round numbers between two values, few enough to be written beside a chart."""
    span = high - low
    if not _LEAST < span < math.inf:
        return [low]
    rough = span / _MAX_TICKS
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
    values = [None if value is None or math.isnan(value) else _clamp(value) for value in values]
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


def parse_text(lines: Sequence[str]) -> tuple[list[float | None], str, str] | None:
    """Read back what `draw_text` drew: a value a column, with the labels of both ends; None for any other text."""
    rows = [line.partition("┤") for line in lines[:-1]]
    if len(rows) < _MIN_ROWS or not all(mark and set(cells) <= set(_BLOCKS) for _, mark, cells in rows):
        return None
    try:
        high, low = float(rows[0][0]), float(rows[-1][0])
    except ValueError:
        return None
    if not -_MOST <= low <= high <= _MOST:
        return None
    most, values = 8 * len(rows) - 1, list[float | None]()
    for column in zip_longest(*(cells for _, _, cells in rows), fillvalue=" "):
        eighths = sum(map(_BLOCKS.index, column))
        values.append(low + (eighths - 1) / most * (high - low) if eighths else None)
    words = lines[-1].split()  # each label has as many words as the other
    return values, " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


_PNG_WIDE, _PNG_HIGH, _PNG_EDGES = 800, 400, (130, 24, 24, 48)  # left, right, top, bottom
_DOT, _GLYPH_WIDE, _GLYPH_HIGH = 3, 5, 7
_SHADES = 15  # of the line, from white; then grey and black
_GLYPH_ROWS = """
    0e11131519110e 040c040404040e 0e11010204081f 1f02040201110e 02060a121f0202 1f101e0101110e 0608101e11110e
    1f010204080808 0e11110e11110e 0e11110f01020c 00000000000c0c 000c0c000c0c00 0000001f000000 0004041f040400 00000e111f100e
""".split()  # noqa: SIM905
_GLYPHS = dict(zip("0123456789.:-+e", _GLYPH_ROWS, strict=True))
"""Seven rows of five dots, each row two hexadecimal digits."""


def draw_png(values: Sequence[float | None], labels: tuple[str, str]) -> bytes:
    """Draw a series as a picture for a phone: a line that is broken where there is no value, with its numbers.

    Source: Portable Network Graphics, https://www.w3.org/TR/png-3/
    """
    known = [value for value in values if value is not None]
    low, high = min(known), max(known)
    room = (high - low) * 0.08 or max(abs(high) * 0.01, 0.5)
    low, high = low - room, high + room
    left, right, top, bottom = _PNG_EDGES
    across, down = _PNG_WIDE - left - right, _PNG_HIGH - top - bottom
    rows = [bytearray(_PNG_WIDE) for _ in range(_PNG_HIGH)]
    for tick in compute_ticks(low, high):
        y = round(top + (high - tick) / (high - low) * down)
        rows[y][left : _PNG_WIDE - right] = bytes([_SHADES + 1]) * across
        _write_dots(rows, f"{tick:.6g}", left - 14, y - _DOT * _GLYPH_HIGH // 2, from_right=True)
    _write_dots(rows, labels[0], left, _PNG_HIGH - 34)
    _write_dots(rows, labels[1], _PNG_WIDE - right, _PNG_HIGH - 34, from_right=True)
    apart = across / max(1, len(values) - 1)
    spots = [
        None if v is None else (left + n * apart, top + (high - v) / (high - low) * down) for n, v in enumerate(values)
    ]
    for n, spot in enumerate(spots):
        after = spots[n + 1] if n + 1 < len(spots) else None
        if spot:
            _draw_stroke(rows, spot, after or spot)
    return _encode_png(rows)


def _write_dots(rows: Sequence[bytearray], text: str, x: int, y: int, *, from_right: bool = False) -> None:
    """Write numbers; a word with no number, such as a weekday, is left out."""
    text = " ".join(word for word in text.split() if word.strip("+-.")[:1].isdecimal())
    x -= (len(text) * (_GLYPH_WIDE + 1) - 1) * _DOT if from_right else 0
    for place, glyph in enumerate(_GLYPHS.get(char, "") for char in text):
        for down, dots in enumerate(bytes.fromhex(glyph)):
            for column in (one for one in range(_GLYPH_WIDE) if dots >> (_GLYPH_WIDE - 1 - one) & 1):
                at = x + (place * (_GLYPH_WIDE + 1) + column) * _DOT
                if not 0 <= at <= _PNG_WIDE - _DOT:
                    continue
                for line in rows[max(0, y + down * _DOT) : y + (down + 1) * _DOT]:
                    line[at : at + _DOT] = bytes([_SHADES + 2]) * _DOT


def _draw_stroke(rows: Sequence[bytearray], start: tuple[float, float], end: tuple[float, float]) -> None:
    (x0, y0), (x1, y1), half = start, end, 2.5
    length = (x1 - x0) ** 2 + (y1 - y0) ** 2
    slope = (y1 - y0) / (x1 - x0) if x1 > x0 else 0.0
    reach = (half + 1) * math.sqrt(1 + slope * slope)
    for x in range(int(x0 - half), int(x1 + half) + 2):
        middle = y0 + slope * (min(max(x, x0), x1) - x0)
        for y in range(int(middle - reach), int(middle + reach) + 2):
            along = min(1.0, max(0.0, ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length)) if length else 0.0
            away = math.hypot(x - x0 - along * (x1 - x0), y - y0 - along * (y1 - y0))
            shade = round(min(1.0, max(0.0, half + 0.5 - away)) * _SHADES)
            if shade and 0 <= y < _PNG_HIGH and 0 <= x < _PNG_WIDE and (rows[y][x] > _SHADES or rows[y][x] < shade):
                rows[y][x] = shade


def _encode_png(rows: Sequence[bytearray]) -> bytes:
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    blue = (0x00, 0x66, 0xCC)
    shades = [bytes(255 - (255 - part) * n // _SHADES for part in blue) for n in range(_SHADES + 1)]
    palette = b"".join([*shades, b"\xdd\xdd\xdd", b"\x33\x33\x33"])
    head = struct.pack(">IIBBBBB", _PNG_WIDE, _PNG_HIGH, 8, 3, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 6)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [chunk(b"IHDR", head), chunk(b"PLTE", palette), chunk(b"IDAT", data), chunk(b"IEND", b"")]
    )

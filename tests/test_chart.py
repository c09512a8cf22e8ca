"""Charts as text and as SVG: every value is where it belongs, and a gap is a gap."""

import struct
import xml.etree.ElementTree as ET
import zlib

import pytest
from rows import each_row

from picoclaw import chart


def test_a_chart_in_text():
    rows = list(chart.draw_text([0, 1, None, 2, 4], ("06:00", "12:00"), height=2))
    assert rows == ["4 ┤   ▁█", "0 ┤▁▅ ██", "   06:00 12:00"]


def test_a_chart_in_ascii_is_ascii():
    rows = list(chart.draw_text([1.5, 2.5, None, -3], ("a", "b"), plain=True))
    assert "".join(rows).isascii()


@each_row("values", [[], [None, None]])
def test_no_values_is_said(values):
    assert list(chart.draw_text(values, ("a", "b"))) == ["(no values)"]


INF, NAN = float("inf"), float("nan")


@each_row(
    "values", [[INF, 1], [-INF, 1], [INF, -INF], [NAN, 1], [NAN], [1e308, -1e308], [5e-324, 0], [INF, INF], [1e308] * 2]
)
def test_what_no_sensor_can_give_is_drawn_at_the_edge_or_not_at_all(values):
    rows = list(chart.draw_text(values, ("a", "b")))
    assert rows
    points = [(float(at), value, value, value) for at, value in enumerate(values)]
    picture = chart.draw_svg("t", points, 0.0, 10.0, [], 5.0)
    ET.fromstring(picture)
    assert not any(word in picture for word in ("nan", "inf,"))
    assert len(chart.compute_ticks(min(values), max(values))) < 12


def test_a_flat_line_can_be_seen():
    rows = list(chart.draw_text([7.0, 7.0], ("a", "b")))
    assert any("█" in row for row in rows)


@each_row(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (18.2, 31.7, [20, 25, 30]),
        (-0.3, 0.3, [-0.2, 0, 0.2]),
        (5, 5, [5]),
        (990, 1020, [990, 1000, 1010, 1020]),
    ],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert chart.compute_ticks(low, high) == pytest.approx(expected)


POINTS = [(0.0, 1.0, 2.0, 3.0), (10.0, 2.0, 3.0, 4.0), (50.0, 0.0, 1.0, 2.0)]


def test_a_picture_is_well_formed_and_broken_where_nothing_was_measured():
    picture = chart.draw_svg('porch <&> "x" °C', POINTS, 0.0, 100.0, [(0.0, "00:00"), (50.0, "12:00")], 20.0)
    tree = ET.fromstring(picture)
    ns = "{http://www.w3.org/2000/svg}"
    assert tree.find(f"{ns}title").text == 'porch <&> "x" °C'
    assert len(tree.findall(f"{ns}polyline")) == 2
    first = [tuple(map(float, pair.split(","))) for pair in tree.find(f"{ns}polyline").get("points").split()]
    assert first[0][0] < first[1][0]
    assert first[0][1] > first[1][1]  # what is higher is nearer to the top
    for line in tree.findall(f"{ns}polyline") + tree.findall(f"{ns}polygon"):
        for pair in line.get("points").split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= 640
            assert 0 <= y <= 240
    assert len(picture) < 4000


def test_a_single_point_is_a_picture():
    ET.fromstring(chart.draw_svg("x", [(5.0, 1.0, 1.0, 1.0)], 0.0, 10.0, [], 1.0))


@each_row(
    "values",
    [[18.0, 21.5, None, None, 19.0, 20.0], [7.0, 7.0], [-1e300, 1e300, 0.0], [1013.2], [-0.0251, -0.0249], [None, 5.0]],
)
def test_a_chart_of_blocks_is_read_back_and_drawn_as_a_picture(values):
    rows = list(chart.draw_text(values, ("Mon 2026-11-23 00:00", "Tue 2026-11-24 03:08")))
    found, begin, end = chart.parse_text(rows)
    spread = max(v for v in values if v is not None) - min(v for v in values if v is not None)
    found = found[: len(values)]
    assert [one is None for one in found] == [one is None for one in values]
    for one, value in zip(found, values, strict=True):
        assert one is None or one == pytest.approx(value, abs=spread / 40 + 1e-3 * abs(value))
    assert (begin, end) == ("Mon 2026-11-23 00:00", "Tue 2026-11-24 03:08")
    picture = chart.draw_png(found, (begin, end))
    chunks, at = {}, 8
    while at < len(picture):
        (length,) = struct.unpack(">I", picture[at : at + 4])
        kind, data = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        assert struct.unpack(">I", picture[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + data),)
        chunks[kind], at = data, at + 12 + length
    wide, high = struct.unpack(">II", chunks[b"IHDR"][:8])
    pixels = zlib.decompress(chunks[b"IDAT"])
    assert (len(pixels), len(picture) < 20_000) == ((wide + 1) * high, True)
    assert 15 in pixels


@each_row("rows", [["a", "b"], ["x ┤█", "y ┤█", "z ┤█", "a b"], ["nan ┤█", "┤█", "1 ┤█", "a b"], ["1 ┤q"] * 4])
def test_other_text_is_no_chart(rows):
    assert chart.parse_text(rows) is None

"""Charts as text and as SVG: every value is where it belongs, and a gap is a gap."""

import xml.etree.ElementTree as ET

import pytest

from picoclaw import chart


def test_a_chart_in_text():
    rows = list(chart.draw_text([0, 1, None, 2, 4], ("06:00", "12:00"), height=2))
    assert rows == ["4 ┤   ▁█", "0 ┤▁▅ ██", "   06:00 12:00"]


def test_a_chart_in_ascii_is_ascii():
    rows = list(chart.draw_text([1.5, 2.5, None, -3], ("a", "b"), plain=True))
    assert "".join(rows).isascii()


@pytest.mark.parametrize("values", [[], [None, None]])
def test_no_values_is_said(values):
    assert list(chart.draw_text(values, ("a", "b"))) == ["(no values)"]


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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

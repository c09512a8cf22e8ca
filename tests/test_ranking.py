"""Ranking by words, against numbers worked out by hand."""

import math

import pytest

from picoclaw.ranking import bm25, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("How do I use the sensors?", ["sensor"]),
        ("home_automation, BME280/i2c", ["hom", "automation", "bme280", "i2c"]),
        ("Grüne Tomaten, 21.5 °C", ["grün", "tomaten", "21", "5", "c"]),
        ("glass gases gas bus tomatoes tomato", ["glass", "gas", "gas", "bus", "tomato", "tomato"]),
        ("wire wiring watered water", ["wir", "wir", "water", "water"]),
        ("red thing see", ["red", "thing", "see"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_bm25_by_hand():
    """Three texts of 2, 4 and 1 words; "frost" is in two: ln(1 + 1.5/2.5) = 0.470004; the usual length is 7/3."""
    texts = ["soil frost", "frost frost light wind", "wind"]
    first = 0.470004 * 1 * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 6 / 7))
    second = 0.470004 * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 12 / 7))
    assert (round(first, 5), round(second, 5)) == (0.49918, 0.53815)
    assert bm25("Frost? FROST!", texts) == pytest.approx([first, second, 0], abs=1e-5)
    only_once = math.log(1 + 2.5 / 1.5)
    assert bm25("soil", texts)[0] == pytest.approx(only_once * 2.2 / (1 + 1.2 * (0.25 + 0.75 * 6 / 7)))
    assert bm25("soil wind", texts)[2] == pytest.approx(bm25("wind", texts)[2])


@pytest.mark.parametrize(("k1", "b", "same"), [(1.2, 0.0, (0, 3)), (0.0, 0.75, (0, 1, 3))])
def test_what_the_constants_do(k1, b, same):
    """Without `b` length does not count; without `k1` a word counts once, and length neither."""
    scores = bm25("frost", ["frost", "frost frost", "wind", "frost wind wind wind"], k1, b)
    assert len({round(scores[i], 9) for i in same}) == 1
    assert scores[2] == 0 < scores[0]


@pytest.mark.parametrize(
    ("query", "texts", "scores"),
    [("frost", [], []), ("frost", ["", ""], [0, 0]), ("", ["frost"], [0]), ("the", ["the"], [0])],
)
def test_where_there_is_nothing(query, texts, scores):
    assert bm25(query, texts) == scores

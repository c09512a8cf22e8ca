"""Ranking by words, against numbers worked out by hand."""

import math

import pytest
from rows import each_row

from picoclaw.text import bm25, fold_case, list_query_terms, list_terms, reduce_to_vocabulary


@each_row(
    ("text", "expected"),
    [
        ("", []),
        ("How do I use the sensors?", ["sensor"]),
        ("home_automation, BME280/i2c", ["hom", "automation", "bme280", "i2c"]),
        ("Grüne Tomaten, 21.5 °C", ["grün", "tomaten", "21", "5", "c"]),
        ("glass gases gas bus tomatoes tomato", ["glass", "gas", "gas", "bus", "tomato", "tomato"]),
        ("wire wiring watered water", ["wir", "wir", "water", "water"]),
        ("red thing see", ["red", "thing", "see"]),
        ("Gru\u0308n, ＢＭＥ２８０, CO₂, Straße", ["grün", "bme280", "co2", "strass"]),
        ("湿度计", ["湿", "度", "计", "湿度", "度计"]),
        ("T+1制度, ST股", ["t", "1", "制", "度", "制度", "st", "股"]),
        ("センサーを", ["セ", "ン", "サ", "ー", "を", "セン", "ンサ", "サー", "ーを"]),
        ("온도는 30", ["온", "도", "는", "온도", "도는", "30"]),
    ],
)
def test_words(text, expected):
    assert list_terms(text) == expected


@each_row(
    ("query", "expected"),
    [
        ("How do I use the sensors?", ["sensor"]),
        ("湿度计", ["湿度", "度计"]),
        ("水", ["水"]),
        ("水 和 土壤", ["水", "和", "土壤"]),
    ],
)
def test_a_question_asks_for_pairs(query, expected):
    """Else a text would be found by any character that it shares."""
    assert list_query_terms(query) == expected


@each_row(
    ("query", "best", "others"),
    [
        ("湿度", "测量温度和湿度", ["制度", "水"]),
        ("水", "给植物浇水", ["土壤"]),
        ("センサーの湿度", "湿度センサー", ["電源"]),
        ("온도", "온도를 잰다", ["습도"]),
    ],
)
def test_scripts_without_spaces_are_found(query, best, others):
    first, *rest = bm25(query, [best, *others])
    assert first > 0
    assert rest == [0] * len(others)


def test_a_vocabulary_finds_what_its_text_does():
    text = "The sensors and the sensor: 湿度计, wiring, wired. A sensor!"
    assert reduce_to_vocabulary(text) == "sensors sensor 湿度计 wiring wired"
    assert set(list_terms(reduce_to_vocabulary(text))) == set(list_terms(text))


@each_row(
    ("one", "other"),
    [
        ("Don’t", "don't"),
        ("pull\u2011up", "pull-up"),
        ("gru\u0308n", "GRÜN"),
        ("Ｃ＋＋", "c++"),
        ("℃", "°C"),
        ("ﬁx", "FIX"),
    ],
)
def test_texts_that_read_alike_are_folded_alike(one, other):
    assert fold_case(one) == fold_case(other)


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


@each_row(("k1", "b", "same"), [(1.2, 0.0, (0, 3)), (0.0, 0.75, (0, 1, 3))])
def test_what_the_constants_do(k1, b, same):
    """Without `b` length does not count; without `k1` a word counts once, and length neither."""
    scores = bm25("frost", ["frost", "frost frost", "wind", "frost wind wind wind"], k1, b)
    assert len({round(scores[i], 9) for i in same}) == 1
    assert scores[2] == 0 < scores[0]


@each_row(
    ("query", "texts", "scores"),
    [("frost", [], []), ("frost", ["", ""], [0, 0]), ("", ["frost"], [0]), ("the", ["the"], [0])],
)
def test_where_there_is_nothing(query, texts, scores):
    assert bm25(query, texts) == scores

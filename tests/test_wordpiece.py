"""The tokenizer against what BERT's reference implementation (the package `tokenizers`) said of the same texts."""

import zlib
from pathlib import Path

import pytest
from rows import each_row

from picoclaw.files import find_shipped
from picoclaw.memory.embedding import WordPieceTokenizer

# The name of each, the text, and the reference's numbers without those of [UNK].
TEXTS = [
    ("", "", []),
    ("blank", " \t\r\n\xa0\u2003\u3000 ", []),
    ("small letters", "The Boiler's PRESSURE fell to 1.3 bar!", [1996, 15635, 1005, 1055, 3778, 3062, 2000, 1015, 1012, 1017, 3347, 999]),
    ("pieces of words", "hygrometer thermocouples unplugged", [1044, 2100, 16523, 18721, 1996, 10867, 24163, 6279, 4244, 4895, 24759, 15916, 5999]),
    ("accents", "Café naïve Ångström Łódź Žižka", [7668, 15743, 17076, 15687, 17814, 1062, 10993, 2912]),
    ("accents apart", "Cafe\u0301 A\u030angstro\u0308m", [7668, 17076, 15687]),
    ("not taken apart", "ß æ ø ł þ", [1096, 1097, 1100, 1105, 1101]),
    ("capitals of two letters", "İstanbul DŽ", [9960, 1040, 2480]),
    ("sigma at the end", "ΟΔΥΣΣΕΥΣ ΣΑΣ", [1169, 29722, 29735, 29733, 29733, 29723, 29735, 29733, 1173, 14608, 29733]),
    ("underscores and paths", "temp_sensor_1 = /dev/i2c-1", [8915, 8737, 1035, 13617, 1035, 1015, 1027, 1013, 16475, 1013, 1045, 2475, 2278, 1011, 1015]),
    (
        "every sign",
        "!\"#$%&'()*+,-./:;<=>?@\\^_`{|}~",
        [
            999,
            1000,
            1001,
            1002,
            1003,
            1004,
            1005,
            1006,
            1007,
            1008,
            1009,
            1010,
            1011,
            1012,
            1013,
            1024,
            1025,
            1026,
            1027,
            1028,
            1029,
            1030,
            1032,
            1034,
            1035,
            1036,
            1063,
            1064,
            1065,
            1066,
        ],
    ),
    ("signs that are words' parts", "5€ 21°C ±3 £9 µm 2×3 ½", [1019, 30102, 2538, 7737, 2278, 1081, 2509, 1069, 2683, 1085, 2213, 1016, 26306, 2509, 1092]),
    ("quotes and dashes", "“quoted” — and–so… «oui» ¿qué?", [1523, 9339, 1524, 1517, 1998, 1516, 2061, 1529, 1077, 15068, 2072, 1090, 1094, 10861, 1029]),
    ("ideographs", "東京の温度は21度です", [1879, 1755, 1671, 1672, 17465, 1665, 30184]),
    ("compatible ideographs", "\u8c48\u66f4", []),
    ("hangul", "한국어", [1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008]),
    ("cyrillic", "Температура воды", [1197, 15290, 29745, 29746, 15290, 16856, 10260, 22919, 29748, 16856, 10260, 1182, 14150, 29742, 29113]),
    ("arabic and hebrew", "\u062f\u0631\u062c\u0629 \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd", [1278, 17149, 29819, 19433, 1266, 29799, 29792, 29800]),
    ("thai and hindi", "\u0e2d\u0e38\u0e13\u0e2b\u0e20\u0e39\u0e21\u0e34 \u0924\u093e\u092a\u092e\u093e\u0928", [1323, 29876, 29864, 29867, 29876, 29863]),
    ("emoji", "it is hot \U0001f525\U0001f321\ufe0f \U0001f469\u200d\U0001f527", [2009, 2003, 2980]),
    ("unseen characters", "so\xadft ze\u200bro \ufeffbom nu\x00ll be\x07ll re\ufffdplace \ue000", [3730, 5717, 8945, 2213, 19701, 4330, 5672]),
    ("line separators", "one\u2028two\u2029three\x85four\x0bfive\x0csix", [2028, 2048, 2093, 14876, 3126, 8873, 6961, 7646]),
    (
        "digits",
        "2026-03-01T07:30 192.168.1.10 0x76",
        [
            16798,
            2575,
            1011,
            6021,
            1011,
            5890,
            2102,
            2692,
            2581,
            1024,
            2382,
            17613,
            1012,
            16923,
            1012,
            1015,
            1012,
            2184,
            1014,
            2595,
            2581,
            2575,
        ],
    ),
    ("full width", "\uff21\uff22\uff23\uff11\uff12\uff13\uff0c\u3002", [1989, 1636]),
    ("ligatures", "\ufb01ne \ufb02ow", [1984, 2638, 1985, 5004]),
    ("greek question mark and tick", "a\u037eb a\u1fefb", [1037, 1025, 1038, 1037, 1036, 1038]),
    ("tibetan and runes", "༄༅ ᚠᚢᚦ", []),
    ("specials' words", "[CL S] [unused5] ##ing", [1031, 18856, 1055, 1033, 1031, 15171, 2629, 1033, 1001, 1001, 13749]),
    ("a hundred letters", "a" * 100 + " b", [13360, *[11057] * 48, 2050, 1038]),
    ("a hundred and one", "a" * 101 + " b", [1038]),
    ("no pieces", "qꙮq fine", [2986]),
]  # fmt: skip


UNUSED = 994
"""Pieces before all those of texts that the reference numbers and the table leaves out."""
GONE = [
    (29612, 29645), (29650, 29651), (29654, 29655), (29660, 29662), (29663, 29664), (29666, 29667), (29787, 29788),
    (29814, 29815), (29880, 29882), (29960, 29962), (30048, 30070), (30087, 30089), (30155, 30157), (30161, 30172),
    (30264, 30265), (30266, 30510), (30512, 30521),
]  # fmt: skip
"""Where the reference has pieces behind letters of what always stands alone, such as "##!": no text has them."""


def find_place(number: int) -> int:
    """The place in the table of a piece that the reference numbers."""
    return number - UNUSED - sum(end - begin for begin, end in GONE if begin < number)


@pytest.fixture(scope="module")
def pieces() -> WordPieceTokenizer:
    path: Path = find_shipped("templates") / "embeddings/vocabulary.z"
    return WordPieceTokenizer(zlib.decompress(path.read_bytes()).decode().split("\n")[:-1])


@each_row(("text", "numbers"), [case[1:] for case in TEXTS], ids=[case[0] for case in TEXTS])
def test_agrees_with_the_reference(pieces: WordPieceTokenizer, text: str, numbers: list[int]) -> None:
    assert pieces.tokens(text) == [*map(find_place, numbers)]


def test_half_characters_are_passed_over(pieces: WordPieceTokenizer) -> None:
    assert pieces.tokens("hot\ud83d wa\udc00ter") == pieces.tokens("hot water")


def test_names_of_special_pieces_are_words_like_others(pieces: WordPieceTokenizer) -> None:
    """A note cannot smuggle in what only a model's own input may hold."""
    numbers = [1031, 18856, 2015, 1033, 1031, 7308, 1033]
    assert pieces.tokens("[CLS] [MASK]") == [*map(find_place, numbers)]


@each_row("text", ["a" * 1_000_000, "\u6771" * 100_000, "".join(map(chr, range(0x20, 0xD800)))])
def test_long_and_strange_texts_end_soon(pieces: WordPieceTokenizer, text: str) -> None:
    assert len(pieces.tokens(text)) <= len(text)
    assert len(pieces._characters) <= 10_000

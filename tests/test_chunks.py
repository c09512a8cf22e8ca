"""Texts cut into chunks: where, under which heading, and that nothing is lost or too long."""

import random
import time
from itertools import pairwise

import pytest
import sweep
from rows import each_row

from picoclaw.memory.index import MAX_HEADING_CHARS, Chunk, split_chunks


@each_row(
    ("text", "most", "expected"),
    [
        ("", 10, []),
        ("\n \n\t\n", 10, []),
        ("one", 10, [Chunk(1, 1, "", "one")]),
        ("\n\none\n\n", 10, [Chunk(3, 3, "", "one")]),
        ("one\ntwo", 10, [Chunk(1, 2, "", "one\ntwo")]),
        ("one\r\ntwo\rthree", 20, [Chunk(1, 3, "", "one\ntwo\nthree")]),
        ("12345\n12345", 11, [Chunk(1, 2, "", "12345\n12345")]),
        ("12345\n12345", 10, [Chunk(1, 1, "", "12345"), Chunk(2, 2, "", "12345")]),
        # the blank line is in the second half of ten characters, so it is where the cut is
        ("12345\n\nab\ncdef", 10, [Chunk(1, 1, "", "12345"), Chunk(3, 4, "", "ab\ncdef")]),
        # it comes too early
        ("123\n\nab\ncdef", 10, [Chunk(1, 3, "", "123\n\nab"), Chunk(4, 4, "", "cdef")]),
        # the last of two
        ("12345\n\n\nab\n\ncdef", 12, [Chunk(1, 4, "", "12345\n\n\nab"), Chunk(6, 6, "", "cdef")]),
        # before a heading it is as good
        ("12345\n# a\nbcd", 10, [Chunk(1, 1, "", "12345"), Chunk(2, 3, "a", "# a\nbcd")]),
        # a line that is too long
        ("12345678901234\nx", 10, [Chunk(1, 1, "", "1234567890"), Chunk(1, 2, "", "1234\nx")]),
        ("1234567 901234\nx", 10, [Chunk(1, 1, "", "1234567 "), Chunk(1, 2, "", "901234\nx")]),
    ],
)
def test_where_it_is_cut(text, most, expected):
    assert split_chunks(text, most) == expected


NESTED = """before
# Boiler
of the house
## Pressure ##
1.2 bar
```sh
# no heading
```
### At night
less
## Filter
new
# Garden
#hashtag
"""


def test_the_heading_that_each_line_stands_under():
    found = {chunk.text: chunk.heading for chunk in split_chunks(NESTED, 16)}
    assert found == {
        "before": "",
        "# Boiler": "Boiler",
        "of the house": "Boiler",
        "## Pressure ##": "Boiler > Pressure",
        "1.2 bar\n```sh": "Boiler > Pressure",
        "# no heading\n```": "Boiler > Pressure",
        "### At night": "Boiler > Pressure > At night",
        "less": "Boiler > Pressure > At night",
        "## Filter\nnew": "Boiler > Filter",
        "# Garden": "Garden",
        "#hashtag": "Garden",
    }


def test_a_heading_is_never_long():
    text = "\n".join(f"{'#' * level} {'x' * 500} {level}" for level in range(1, 7)) + "\nend"
    found = split_chunks(text)
    assert max(len(chunk.heading) for chunk in found) == MAX_HEADING_CHARS
    assert found[-1].text.endswith("end")


def random_text(dice):
    parts = ["", "", " ", "# a", "## b c", "```", "word " * 30, "é☕𝄞", "x" * 2500, "- note", "1234567 " * 200]
    return "\n".join(dice.choice(parts) for _ in range(dice.randrange(60)))


@pytest.mark.sweep
def test_nothing_is_lost_and_nothing_is_too_long():
    dice = random.Random(1)
    for _ in range(sweep.take(30, 100)):
        text, most = random_text(dice), dice.choice([1, 2, 7, 100, 1000])
        found = split_chunks(text, most)
        assert all(0 < len(chunk.text) <= most and chunk.text.strip() for chunk in found)
        assert "".join("".join(chunk.text for chunk in found).split()) == "".join(text.split())
        lines = text.split("\n")
        for chunk in found:
            assert chunk.text.split("\n")[0] in lines[chunk.start - 1]
            assert chunk.text.split("\n")[-1] in lines[chunk.end - 1]
        assert all(before.end <= after.start for before, after in pairwise(found))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("first", "piece"), [("", "x"), ("", "word "), ("", "\n"), ("", "#"), ("# ", " "), ("", "# a\n")]
)
def test_a_megabyte_of_anything_takes_no_time(first, piece):
    megabytes = sweep.take(0.2, 1)
    text = first + piece * int(1_000_000 * megabytes / len(piece))
    began = time.process_time()
    found = split_chunks(text)
    assert time.process_time() - began < sweep.take(2, 5)
    assert sum(len(chunk.text) for chunk in found) <= len(text)


def test_an_added_line_changes_the_last_chunk_only():
    day = "\n".join(f"- {n:02}:00 the temperature was {n} degrees in the house" for n in range(60))
    before, after = split_chunks(day), split_chunks(day + "\n- 23:00 one more")
    assert len(before) > 2
    assert after[: len(before) - 1] == before[:-1]

"""What a model says or asks for over and over is noticed, and what only looks alike is not."""

from model_server import NO_USAGE, chunk, chunks, whole_body
from rows import each_row
from scripted import calls_of, text_of
from test_openai_format import KNOWN, heard

from picoclaw.answers import REPEATS, Repetition, count_in_a_row, count_repeated
from picoclaw.messages import End, ToolCall, Usage
from picoclaw.providers import openai

PHRASES = {
    "a letter": "x",
    "a word": "no ",
    "a line": "- Sends a message to the owner if the air quality is too low.\n",
    "two lines": "- Alerts\n- Maintenance schedule\n",
    "a paragraph": "".join(f"The sensor {name} is read every {i} minutes.\n" for i, name in enumerate("abcdefghi")),
    "a call": '<tool name="sensor_read" arguments=\'{"sensor": "boiler"}\'/>\n',
}
LIVELY = {
    "a dump of zeros": "00 " * 256,
    "a log": "".join(f"12:{minute:02} 21.{minute % 7} °C\n" for minute in range(60)),
    "a table": "".join(f"| {number} | 21.4 °C | 55.2 % | 1013 hPa |\n" for number in range(80)),
    "a list twice": "".join(f"- the file number {number}\n" for number in range(40)) * 2,
    "a rule": "-" * 200 + "\n" + "=" * 200,
    "an answer": "It is 21.4 °C. " * 20,
    "an array": f"Here:\n```c\nchar page[256] = {{\n{('    ' + '0x00, ' * 16 + chr(10)) * 16}}};\n```\nAll zero.",
    "an empty table": "| when | what |\n|---|---|\n" + "|                  |                  |\n" * 60,
}


@each_row("name", PHRASES)
@each_row("size", [1, 7, 64, 10_000])
def test_a_phrase_without_end_is_cut_at_the_same_place(name, size):
    text = "Of course:\n" + PHRASES[name] * (4000 // len(PHRASES[name]))
    repetition, told = Repetition(), 0
    for begin in range(0, len(text), size):
        piece = text[begin : begin + size]
        stuck = repetition.feed(piece)
        told += len(piece) if stuck is None else stuck
        if stuck is not None:
            break
    whole = Repetition().feed(text)
    assert told == whole
    assert 1000 <= told <= 1800
    kept = text[: told - count_repeated(text[:told])]
    assert kept.startswith("Of course:\n")
    assert len(kept) <= len("Of course:\n") + 2 * len(PHRASES[name])


@each_row("name", LIVELY)
@each_row("size", [1, 50, 10_000])
def test_what_only_looks_alike_is_told_whole(name, size):
    repetition, text = Repetition(), LIVELY[name]
    assert {repetition.feed(text[i : i + size]) for i in range(0, len(text), size)} == {None}


@each_row(
    ("asked", "begin", "phrase", "longest"),
    [
        ("Write 'I shall label my wires.' 100 times", "", "I shall label my wires.\n", 5700),
        ("Write a poem", "", "I shall label my wires.\n", 1800),
        ("", "```c\n", "    0x00, 0x00, 0x00,\n", 5700),
        ("", "```\nls\n```\n", "Then list them again.\n", 1800),
        ("", "", "| | |\n", 5700),
    ],
)
def test_even_what_is_wanted_ends_some_time(asked, begin, phrase, longest):
    told = Repetition(asked).feed(begin + phrase * 2000)
    assert told is not None
    assert longest - 1700 < told < longest
    assert (Repetition(asked).feed(begin + phrase * 100) is None) == (longest > 2000)


@each_row("pieces", [1, 3, 50, 500])
def test_an_answer_that_repeats_itself_ends_and_calls_nothing(pieces):
    text = PHRASES["a call"] * 100
    events = heard(*chunks(text, usage=NO_USAGE, pieces=pieces))
    assert events[-1] == End(REPEATS, Usage())
    assert calls_of(events) == []
    assert events == heard(whole_body(text, usage=NO_USAGE))
    assert len(text_of(events)) < 2000


def test_nothing_counts_after_the_end():
    assembler = openai.AnswerAssembler(KNOWN)
    first = list(assembler.feed(chunk(content="no " * 1000)))
    assert isinstance(first[-1], End)
    assert list(assembler.feed(chunk(content="yes"))) == list(assembler.end()) == []


def named(letters):
    return [ToolCall(str(i), letter) for i, letter in enumerate(letters)]


@each_row(
    ("made", "times"),
    [
        ("a", 1),
        ("aa", 2),
        ("aaa", 3),
        ("aba", 1),
        ("abab", 1),
        ("ababa", 5),
        ("xababa", 5),
        ("abba", 1),
        ("abcabc", 1),
        ("LlLlL", 1),
    ],
)
def test_how_often_a_call_was_made(made, times):
    assert count_in_a_row(named(made), lambda call: call.name not in {"L", "l"}) == times

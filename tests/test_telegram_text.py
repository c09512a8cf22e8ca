"""What Telegram is told and what it tells, without a socket: Markdown, splitting, updates, names of files."""

import json
import random
import time

import pytest
from rows import each_row
from telegram_server import KINDS

from picoclaw.channels.attachments import ArrivedMessage, IncomingFile, QuotedMessage, make_file_name, restore_message
from picoclaw.channels.polled import LinkState, Timing, Unreachable
from picoclaw.channels.rich_text import RichText, count_units, render_rich, split_message
from picoclaw.channels.telegram import encode_entities
from picoclaw.channels.telegram_api import BotIdentity, ButtonPress, EmptyUpdate, join_albums, parse_update

ME = BotIdentity(1, "pico_bot")


def looks(text):
    made = render_rich(text)
    return made.text, [(e.kind, made.text[e.start : e.end], *([e.more] if e.more else [])) for e in made.entities]


@each_row(
    ("markdown", "text", "entities"),
    [
        ("plain", "plain", []),
        ("It is **21 °C**.", "It is 21 °C.", [("bold", "21 °C")]),
        ("*a* _b_ ~~c~~ __d__", "a b c d", [("italic", "a"), ("italic", "b"), ("strikethrough", "c"), ("bold", "d")]),
        ("**a *b* c**", "a b c", [("bold", "a b c"), ("italic", "b")]),
        ("2*3*4 snake_case_name __init__.py", "2*3*4 snake_case_name init.py", [("bold", "init")]),
        ("a ** b * c _ d", "a ** b * c _ d", []),
        ("**never closed", "**never closed", []),
        ("*a **b* c**", "a **b c**", [("italic", "a **b")]),
        (r"\*not\* \_it\_", "*not* _it_", []),
        ("`a*b*` and ``x ` y``", "a*b* and x ` y", [("code", "a*b*"), ("code", "x ` y")]),
        ("`open", "`open", []),
        ("[here](https://a.b/c_(d)) on", "here on", [("text_link", "here", "https://a.b/c_(d)")]),
        ("[x](javascript:alert) [y](/etc/passwd)", "x (javascript:alert) y (/etc/passwd)", []),
        ("[not a link] (really)", "[not a link] (really)", []),
        ("# Head **line** #", "Head line", [("bold", "Head line")]),
        ("#hashtag", "#hashtag", []),
        ("- a\n* b\n  + c\n-d", "• a\n• b\n  • c\n-d", []),
        ("1. a\n2. b", "1. a\n2. b", []),
        ("---\nx", "———\nx", []),
        ("> a **b**\n> c\nd", "a b\nc\nd", [("blockquote", "a b\nc"), ("bold", "b")]),
        ("```py\nx = **1**\n```\ny", "x = **1**\ny", [("pre", "x = **1**", "py")]),
        ("~~~\n```\n~~~", "```", [("pre", "```")]),
        ("```\nnever closed", "never closed", [("pre", "never closed")]),
        ("| a | b |\n|---|--:|\n| 1 | 2 |\n", "| a | b |\n|---|--:|\n| 1 | 2 |", [("pre", "| a | b |\n|---|--:|\n| 1 | 2 |")]),
        ("a | b\nc", "a | b\nc", []),
        ("in\u202evisible\u200b", "invisible", []),
        ("", "", []),
    ],
)  # fmt: skip
def test_markdown_becomes_a_text_with_looks(markdown, text, entities):
    assert looks(markdown) == (text, entities)


@pytest.mark.parametrize(
    "text",
    ["`" * 50_000, "**a" * 20_000, "_a " * 20_000, "[a](" * 20_000, "`` ` " * 20_000, "> " * 20_000, "|-\n" * 20_000],
)
def test_no_text_takes_long(text):
    begun = time.process_time()
    split_message(render_rich(text), 4096)
    assert time.process_time() - begun < 1


def test_what_is_rendered_and_cut_is_always_what_telegram_takes():
    """Random Markdown: entities within their message, none empty, nothing longer than allowed, no word lost."""
    dice = random.Random(8)
    atoms = [
        "**",
        "*",
        "_",
        "`",
        "```\n",
        "[a](https://b.c)",
        "> ",
        "# ",
        "- ",
        "|",
        "\n",
        " ",
        "x",
        "🌡️",
        "é",
        "\\",
        "~~",
    ]
    for _ in range(1500):
        whole = render_rich("".join(dice.choices(atoms, k=dice.randrange(60))))
        most = dice.choice([5, 12, 40])
        parts = split_message(whole, most)
        assert "".join("".join(part.text for part in parts).split()) == "".join(whole.text.split())
        for part in parts:
            assert part.text.strip()
            assert count_units(part.text) <= most
            length = len(part.text.encode("utf-16-le")) // 2
            for one in encode_entities(part.entities, part.text):
                assert one["type"] in KINDS
                assert one["length"] > 0
                assert 0 <= one["offset"] <= length - one["length"]


@each_row(
    ("text", "most", "parts"),
    [
        ("one two three", 8, ["one two", "three"]),
        ("one. two three", 12, ["one. two", "three"]),
        ("it is one. two three", 14, ["it is one.", "two three"]),
        ("a\n\nb c d e", 9, ["a\n\nb c d", "e"]),
        ("aaaa\nbbbb cc", 9, ["aaaa", "bbbb cc"]),
        ("x" * 10, 4, ["xxxx", "xxxx", "xx"]),
        ("🌡🌡🌡", 4, ["🌡🌡", "🌡"]),
        ("e\u0301" * 4, 5, ["e\u0301e\u0301", "e\u0301e\u0301"]),
        ("  \n\n", 4, []),
    ],
)
def test_a_text_is_cut_where_a_reader_would(text, most, parts):
    assert [part.text for part in split_message(RichText(text), most)] == parts


def message(**more):
    chat, sender = {"id": 7, "type": "private"}, {"id": 7, "first_name": "Ann"}
    return {"message_id": 3, "date": 9, "chat": chat, "from": sender, "text": "hi"} | more


@each_row(
    "raw",
    [
        {"message": message(**{"from": None})},
        {"message": message(**{"from": {"id": True, "first_name": "x"}})},
        {"message": message(**{"from": {"id": "7"}})},
        {"message": message(**{"from": {"id": 7, "is_bot": True}})},
        {"message": message(sender_chat={"id": -9})},
        {"message": message(chat={"id": 7.0})},
        {"message": message(text=None)},
        {"message": message(text={"a": 1}, photo={"file_id": 3})},
        {"message": message(text="", photo=[{"file_id": 3}, None, "x"])},
        {"message": [message()]},
        {"channel_post": message()},
        {"callback_query": {"id": 5, "from": {"id": 7}}},
        {"callback_query": "x"},
        {},
    ],
)
def test_an_update_that_is_not_as_documented_is_acknowledged_and_nothing_else(raw):
    assert parse_update({"update_id": 4} | raw, ME) == EmptyUpdate(4)


def test_updates_of_any_shape_never_fail():
    dice = random.Random(3)
    keys = [
        *("message", "edited_message", "callback_query", "chat", "from", "id", "text", "photo", "document", "file_id"),
        *("message_id", "date", "reply_to_message", "forward_origin", "sender_user", "is_topic_message", "type"),
    ]
    leaves = [None, True, 0, 7, -1, 1 << 70, 1.5, "", "x", "private", "\ud800", [], {}]

    def any_value(depth):
        roll = dice.random()
        if depth > 4 or roll < 0.3:
            return dice.choice(leaves)
        if roll < 0.4:
            return [any_value(depth + 1) for _ in range(dice.randrange(3))]
        return {dice.choice(keys): any_value(depth + 1) for _ in range(dice.randrange(8))}

    kinds = set()
    for number in range(1, 10_001):
        shape = {"update_id": number, "message": any_value(0)} if number % 2 else any_value(0)
        if number % 5 == 0:
            shape = {"update_id": number, "message": message() | {dice.choice(keys): any_value(2)}}
        update = parse_update(shape, ME)
        join_albums([update] if update else [])
        kinds.add(type(update))
    assert kinds >= {ArrivedMessage, EmptyUpdate, type(None)}
    assert isinstance(parse_update({"update_id": 1, "callback_query": {"id": "a", "from": {"id": 7}}}, ME), ButtonPress)


@each_row(
    ("name", "stored"),
    [
        ("a.txt", "telegram7-3-a.txt"),
        ("../../etc/passwd", "telegram7-3-passwd"),
        ("..\\..\\x.py", "telegram7-3-x.py"),
        (".bashrc", "telegram7-3-bashrc"),
        ("", "telegram7-3-photo.jpg"),
        ("a b\nc;d.tar.gz", "telegram7-3-a_b_c_d.tar.gz"),
        ("x" * 300 + ".csv", f"telegram7-3-{'x' * 40}.csv"),
        ("\0\u202e", "telegram7-3-photo.jpg"),
        ("日記.md", "telegram7-3-日記.md"),
    ],
)
def test_a_files_name_leads_nowhere(name, stored):
    assert make_file_name("telegram7-3", "photo", name) == stored


def test_the_pauses_grow_and_shrink_again():
    wall = [1000.0]
    link = LinkState("telegram", Timing(first=1.0, longest=8.0), lambda: wall[0], lambda: wall[0])
    pauses = [link.failed(Unreachable("gone")) for _ in range(6)]
    for pause, most in zip(pauses, [1, 2, 4, 8, 8, 8], strict=True):
        assert 0.7 * most <= pause <= most
    assert link.status._replace(since=0) == (False, 0, "gone", 0.0)
    wall[0] = 1060.0
    link.heard()
    assert link.status == (True, 1060.0, "", 1060.0)
    wall[0] = 1090.0
    assert link.failed(Unreachable("gone")) <= 1
    assert link.status == (False, 1090.0, "gone", 1060.0)


FILE, QUOTE = IncomingFile("f", "photo", "a.png", 9), QuotedMessage("yours", "hm", False)


@each_row(
    ("row", "made"),
    [
        (
            [
                8,
                7,
                3,
                5,
                7,
                "Ann",
                "look",
                90,
                ["edited"],
                "",
                [["yours", "hm", False]],
                [["f", "photo", "a.png", 9]],
                "",
                True,
                True,
                "5e91",
            ],
            ArrivedMessage(
                "telegram:7:3", "5e91", "7", "Ann", "look", 90, "telegram7-5", ("edited",), "", (QUOTE,)
            )._replace(files=(FILE,), private=True, update=8),
        ),
        (
            [
                "$ev:a",
                "!r:b",
                "",
                "@ann:b",
                "Ann",
                "look",
                90,
                [],
                [],
                [["f", "photo", "a.png", 9]],
                "",
                "",
                True,
                True,
            ],
            ArrivedMessage("matrix:!r:b", "$ev:a", "@ann:b", "Ann", "look", 90, "matrix-eva")._replace(
                files=(FILE,), private=True
            ),
        ),
    ],
)
def test_a_message_that_waits_for_its_files_is_read_as_it_was_kept(row, made):
    assert restore_message(json.loads(json.dumps(row))) == made
    assert restore_message(json.loads(json.dumps(made._asdict()))) == made

"""The default provider: what sentences mean without a model, and what it says when they mean nothing to it."""

import json
import random
import time
import tomllib
from pathlib import Path

import pytest

from picoclaw.errors import ConfigError
from picoclaw.messages import End, Message, Request, Text, ToolCall, Usage
from picoclaw.providers.intents import Intents
from picoclaw.providers.matcher import Matcher

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = tomllib.loads((ROOT / "templates" / "intents" / "en.toml").read_text("utf-8"))
CORPUS = json.loads((ROOT / "tests" / "data" / "intents_dev.json").read_text("utf-8"))
MATCHER = Matcher([SHIPPED])
TOOLS = ("sensor_read", "sensor_list", "board_status", "i2c", "list_dir", "read_file", "cron")
TOOLS += ("memory_store", "memory_search")


def request(*messages, tools=TOOLS):
    return Request("", messages, tuple({"name": name} for name in tools), 100, 0.0)


def say(text, **how):
    return list(Intents([SHIPPED]).events(request(Message("user", text), **how)))


CALLS = [
    ("how warm is it?", "sensor_read", {"quantity": "temperature"}),
    ("How warm is the greenhouse?", "sensor_read", {"sensor": "greenhouse", "quantity": "temperature"}),
    ("how hot is the pi itself", "sensor_read", {"sensor": "cpu", "quantity": "temperature"}),
    ("how hot is the cpu", "sensor_read", {"sensor": "cpu", "quantity": "temperature"}),
    ("how damp is the boat house?", "sensor_read", {"sensor": "boat house", "quantity": "humidity"}),
    ("is it freezing in there?", "sensor_read", {"quantity": "temperature"}),
    ("is it cold in the orangery?", "sensor_read", {"sensor": "orangery", "quantity": "temperature"}),
    ("is it warm and humid in the cellar?", "sensor_read", {"sensor": "cellar"}),
    ("do my tomatoes need a blanket tonight?", "sensor_read", {"quantity": "temperature"}),
    ("which sensors do you have", "sensor_list", {}),
    ("am I running out of space on the card?", "board_status", {}),
    ("scan the i2c bus", "i2c", {"action": "scan"}),
    ("what is on bus 1", "i2c", {"action": "scan", "bus": 1}),
    ("which i2c buses are there", "i2c", {"action": "detect"}),
    ("which chips answer on the wire?", "i2c", {"action": "scan"}),
    ("read register 0xd0 of 0x76", "i2c", {"action": "read", "register": 0xD0, "address": 0x76}),
    ("list files", "list_dir", {}),
    ("show me the files in Notes", "list_dir", {"path": "Notes"}),
    ("show me HEARTBEAT.md", "read_file", {"path": "HEARTBEAT.md"}),
    ("what's in notes/boiler.md?", "read_file", {"path": "notes/boiler.md"}),
    ("what reminders do I have", "cron", {"action": "list"}),
    ("cancel reminder 3", "cron", {"action": "remove", "job": 3}),
    ("drop the third reminder", "cron", {"action": "remove", "job": 3}),
    ("note that the boiler is at 1.2 bar.", "memory_store", {"text": "the boiler is at 1.2 bar"}),
    ("The key is in the shed, write that down", "memory_store", {"text": "The key is in the shed"}),
    ("what did I note about the boiler?", "memory_search", {"query": "boiler"}),
    ("did I write anything down on the pump?", "memory_search", {"query": "pump"}),
    ("Hey Pico, could you please scan the bus for me, thanks", "i2c", {"action": "scan"}),
]


@pytest.mark.parametrize(("text", "tool", "arguments"), CALLS, ids=[case[0] for case in CALLS])
def test_a_sentence_becomes_a_call(text, tool, arguments):
    call, end = say(text)
    assert call == ToolCall("intent-1", tool, arguments)
    assert end == End("tool_calls", Usage())


TIMES = [
    ("in 10 minutes", {"at_seconds": 600}),
    ("in half an hour", {"at_seconds": 1800}),
    ("in an hour and a half", {"at_seconds": 5400}),
    ("in one and a half hours", {"at_seconds": 5400}),
    ("in a quarter of an hour", {"at_seconds": 900}),
    ("in three quarters of an hour", {"at_seconds": 2700}),
    ("in a couple of minutes", {"at_seconds": 120}),
    ("in twenty five minutes", {"at_seconds": 1500}),
    ("in 90 s", {"at_seconds": 90}),
    ("in 2h", {"at_seconds": 7200}),
    ("in 1.5 hours", {"at_seconds": 5400}),
    ("in 1 hour and 10 minutes", {"at_seconds": 4200}),
    ("10 minutes from now", {"at_seconds": 600}),
    ("at 18:30", {"at": "18:30"}),
    ("at 6:30", {"at": "6:30".zfill(5)}),
    ("at half past six", {"at": "18:30"}),
    ("at half past eight", {"at": "08:30"}),
    ("at half-past six in the morning", {"at": "06:30"}),
    ("at quarter to five", {"at": "16:45"}),
    ("at 9 pm", {"at": "21:00"}),
    ("at 7am", {"at": "07:00"}),
    ("at 12 am", {"at": "00:00"}),
    ("at noon", {"at": "12:00"}),
    ("tonight at nine", {"at": "21:00"}),
    ("tomorrow at 7:30", {"at": "tomorrow 07:30"}),
    ("tomorrow morning", {"at": "tomorrow 08:00"}),
    ("at eight tomorrow", {"at": "tomorrow 08:00"}),
    ("on 2026-12-01 at 8", {"at": "2026-12-01 08:00"}),
]


@pytest.mark.parametrize(("when", "expected"), TIMES, ids=[case[0] for case in TIMES])
def test_the_time_of_a_reminder(when, expected):
    wanted = {"action": "add", "message": "feed Tom's cat", **expected}
    assert say(f"remind me {when} to feed Tom's cat")[0] == ToolCall("intent-1", "cron", wanted)
    assert MATCHER.match(f"Remind me to feed Tom's cat {when}.").arguments == wanted


def test_waking_is_in_the_morning():
    assert MATCHER.match("wake me at half past six").arguments["at"] == "06:30"


@pytest.mark.parametrize(
    "text",
    [
        "remind me to feed the cat",
        "remind me on Friday at 8 to feed the cat",
        "remind me every day at 8 to feed the cat",
        "remind me on May 3 at 8 to feed the cat",
        "remind me at 99 to feed the cat",
    ],
)
def test_a_reminder_without_a_time_that_can_be_kept_asks_when(text):
    assert say(text)[0].text.startswith("When?")


@pytest.mark.parametrize(
    ("text", "question"), [("what does the file say?", "Which file?"), ("cancel my reminder", "Which one?")]
)
def test_a_missing_slot_is_asked_for(text, question):
    events = say(text)
    assert events[0].text.startswith(question)
    assert events[1:] == [End("stop", Usage())]


@pytest.mark.parametrize("case", CORPUS, ids=[case["text"] for case in CORPUS])
def test_the_corpus(case):
    match = MATCHER.match(case["text"])
    assert (match.tool if match and not match.missing else "") == case["tool"]
    for name, value in case.get("arguments", {}).items():
        assert match.arguments[name] == value


def test_nothing_writes_to_a_bus():
    texts = ["write 0x01 to register 0x20 of 0x76", "set register 0x20 of 0x76 to 1", "i2c write 0x76 0x20 1"]
    intents = [intent for intent in SHIPPED["intents"].values() if intent.get("tool") == "i2c"]
    assert {intent["arguments"]["action"] for intent in intents} == {"scan", "detect", "read"}
    assert all(match is None or not match.tool for match in map(MATCHER.match, texts))


@pytest.mark.parametrize(
    ("text", "beginning"),
    [("hello", "Hello"), ("thank you!", "You're welcome"), ("who are you?", "I am picoclaw")],
)
def test_small_talk(text, beginning):
    events = say(text)
    assert events[0].text.startswith(beginning)
    assert events[1] == End("stop", Usage())


def test_help_shows_sentences_that_work():
    lines = say("what can you do?")[0].text.splitlines()[1:]
    for sentence in " / ".join(lines).split(" / "):
        assert MATCHER.match(sentence).tool, sentence


def test_no_match_says_so_and_what_it_can_do():
    text = say("good night")[0].text
    assert text.startswith("I can't do that without a model")
    assert "sensors" in text
    provider = Intents([SHIPPED], configured_model="qwen")
    assert "qwen" in next(provider.events(request(Message("user", "good night")))).text


def test_a_tool_that_is_not_offered_is_named():
    events = say("scan the i2c bus", tools=("cron",))
    assert events == [
        Text("I understand that you want me to use the I2C bus, but I can't here: this set-up has no I2C bus."),
        End("stop", Usage()),
    ]


def test_the_moment_block_is_skipped():
    text = "<moment>\nIt is 12:00, remind me in 5 minutes to x.\n</moment>\n\nhow warm is it?"
    assert say(text)[0].name == "sensor_read"


def test_a_tools_result_is_said():
    data = {"intents": {"sensor_read": {"answer": "{sensor}: {result}{gone}"}}}
    call = ToolCall("intent-1", "sensor_read", {"sensor": "greenhouse"})
    messages = (
        Message("user", "how warm is the greenhouse?"),
        Message("assistant", "", (call,)),
        Message("tool", "21 °C {sensor} {0} %s", call_id="intent-1"),
    )
    plain = list(Intents([SHIPPED]).events(request(*messages)))
    assert plain == [Text("21 °C {sensor} {0} %s"), End("stop", Usage())]
    worded = next(Intents([SHIPPED, data]).events(request(*messages)))
    assert worded == Text("greenhouse: 21 °C {sensor} {0} %s{gone}")


def test_a_result_of_a_call_it_did_not_make_is_said_as_it_is():
    messages = (Message("user", "good night"), Message("tool", "done", call_id="x"))
    assert next(Intents([SHIPPED]).events(request(*messages))) == Text("done")
    assert next(Intents([SHIPPED]).events(request())).text.startswith("I can't")


def test_ids_differ_within_a_conversation():
    first, later = Message("user", "list files"), Message("assistant", "none")
    provider = Intents([SHIPPED])
    assert next(provider.events(request(first))).id != next(provider.events(request(first, later, first))).id


@pytest.mark.parametrize(
    ("text", "answers"), [("how warm is it?", True), ("hello", False), ("write a poem", False), ("", False)]
)
def test_answers_is_for_tools_only(text, answers):
    assert Intents([SHIPPED]).answers(text) is answers


OWNERS = {
    "concepts": {"pump_word": "pump pumpe"},
    "slots": {"depth": {"kind": "choice", "values": {"deep": "deep very_deep"}}},
    "say": {"no_model": "No."},
    "intents": {
        "well": {
            "tool": "sensor_read",
            "arguments": {"sensor": "well"},
            "templates": ["how {depth} is the well"],
            "examples": "does the well have enough for the @garden\nhas the well run dry",
        },
        "board_status": {"templates": "was macht die @pump_word"},
        "hello": {"templates": "grüß dich", "answer": "Servus."},
    },
}


def test_the_owner_adds_sentences_intents_and_wording():
    matcher = Matcher([SHIPPED, OWNERS])
    well = matcher.match("how very deep is the well?")
    assert (well.tool, well.arguments) == ("sensor_read", {"sensor": "well", "depth": "deep"})
    assert matcher.match("has our well run dry").route == "example"
    assert matcher.match("Was macht die Pumpe?").tool == "board_status"
    assert matcher.match("Grüß dich").answer == "Servus."
    assert matcher.match("hello").answer == "Servus."
    assert matcher.say["no_model"] == "No."
    assert matcher.match("how warm is it?").tool == "sensor_read"


BROKEN = [
    ({"intent": {}}, ("unknown key 'intent'", "intents")),
    ({"intents": {"x": {"tols": "a"}}}, ("intents.x", "unknown key 'tols'", "templates")),
    ({"intents": {"x": 3}}, ("intents.x", "not a table")),
    ({"intents": {"x": {"templates": "a {sensr}"}}}, ("intents.x", "unknown slot 'sensr'", "[slots.sensr]")),
    ({"intents": {"x": {"templates": "a (b|c"}}}, ("intents.x", "a (b|c", "not closed")),
    ({"intents": {"x": {"templates": "a b]"}}}, ("intents.x", "a b]", "closes nothing")),
    ({"intents": {"x": {"templates": "a (b]"}}}, ("intents.x", "closes nothing")),
    ({"intents": {"x": {"templates": "a {b"}}}, ("intents.x", "unknown slot")),
    ({"intents": {"x": {"templates": "[a] [b]"}}}, ("intents.x", "left out", "require")),
    ({"intents": {"x": {"templates": [1]}}}, ("intents.x.templates", "not sentences")),
    ({"intents": {"x": {"tool": 1}}}, ("intents.x.tool",)),
    ({"intents": {"x": {"ask": {"job": 1}}}}, ("intents.x.ask.job",)),
    ({"intents": {"x": {"tool": "i2c", "answer": "Done."}}}, ("intents.x", "{result}")),
    ({"slots": {"s": {"kind": "colour"}}}, ("slots.s", "colour", "choice")),
    ({"slots": {"s": {"kind": "name", "valeus": {}}}}, ("slots.s", "unknown key 'valeus'")),
    ({"words": {"units": {"minute": "60"}}}, ("words.units", "minute")),
    ({"words": {"parts": {"noonish": ["x", "12:00"]}}}, ("words.parts", "noonish")),
    ({"words": {"wrods": "a"}}, ("words", "unknown key 'wrods'")),
    ({"say": {"bye": "x"}}, ("say", "unknown key 'bye'")),
    ({"say": {"no_model": 1}}, ("say.no_model",)),
]


@pytest.mark.parametrize(("data", "parts"), BROKEN, ids=[str(case[0]) for case in BROKEN])
def test_a_mistake_in_the_data_is_named(data, parts):
    with pytest.raises(ConfigError) as caught:
        Matcher([SHIPPED, data], ["en.toml", "mine.toml"])
    message = str(caught.value)
    assert message.startswith("mine.toml: ")
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_no_data_at_all_understands_nothing():
    assert Matcher([]).match("how warm is it?") is None


HOSTILE = [
    "",
    " \n\t ",
    "?!.,;",
    "how warm is it " * 700,
    "remind me " * 1000,
    "in 1 hour " * 1000,
    "and a half " * 900,
    "the " * 2500,
    "a" * 10_000,
    "9" * 10_000,
    "a-" * 5000,
    "/../" * 2500,
    "0x" * 5000,
    "(((((.*)+)+)+)+$" * 600,
    "[{(|)}]\\" * 1000,
    "{result} {sensor} %s {0}",
    "🔥" * 3000,
    "温度は何度ですか" * 1000,
    "\u0130\u00df\ufb01" * 2000,
    "\ud800 how \udfff warm \ud800is it",
    "\x00\x01how\x1b[31m warm\x7f is it",
    "<moment>" * 1000,
    "<moment> no end",
    "<moment></moment>",
    "remind me in 999999999999999999 weeks to x",
    "read register 99999999999 of 0xffff",
    "²³ ½ ① ٣ minutes",
]


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(text[:20]) for text in HOSTILE])
def test_hostile_texts_are_answered_at_once(text):
    provider = Intents([SHIPPED])
    provider.answers("is it cold?")
    start = time.process_time()
    events = list(provider.events(request(Message("user", text))))
    assert time.process_time() - start < 0.25
    assert isinstance(events[-1], End)
    assert events == list(provider.events(request(Message("user", text))))
    json.dumps([event.arguments for event in events if isinstance(event, ToolCall)]).encode()


def test_random_words_never_raise():
    words = [*" ".join(case[0] for case in CALLS).split(), "(", "0x", "#", "half", "{when}"]
    chance = random.Random(7)  # the same sentences in every run
    for _ in range(500):
        MATCHER.match(" ".join(chance.choices(words, k=chance.randint(1, 80))))


def test_a_long_note_is_kept_whole():
    note = "word " * 3000
    assert say("note that " + note)[0].arguments == {"text": note.strip()}


def test_a_negated_wish_calls_nothing():
    for text in ("don't scan the bus", "please do not list the files", "I don't want you to read any files"):
        assert not Intents([SHIPPED]).answers(text)

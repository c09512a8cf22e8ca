"""The default provider: what sentences mean without a model, and what it says when they mean nothing to it."""

import gc
import inspect
import json
import random
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from grammars import load_shipped, refusals
from rows import each_row

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig
from picoclaw.errors import ConfigError
from picoclaw.hw.sim import SimBoard
from picoclaw.intents.grammar import load_grammar
from picoclaw.intents.matcher import IntentMatcher
from picoclaw.intents.provider import IntentProvider
from picoclaw.messages import End, Inbound, Message, Request, Text, ToolCall, Usage
from picoclaw.workspace import list_intent_files, prepare_home, read_intent_tables

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = load_shipped()
CORPUS = json.loads((ROOT / "tests" / "data" / "intents_dev.json").read_text("utf-8"))
MATCHER = IntentMatcher([SHIPPED])
REFUSED = refusals()
TOOLS = ("sensor_read", "sensor_list", "board_status", "i2c", "list_dir", "read_file", "cron")
TOOLS += ("memory_store", "memory_search", "memory_update", "memory_forget")


def request(*messages, tools=TOOLS):
    return Request("", messages, tuple({"name": name} for name in tools), 100, 0.0)


def say(text, **how):
    return list(IntentProvider([SHIPPED]).events(request(Message("user", text), **how)))


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
    ("drop reminder number three", "cron", {"action": "remove", "job": 3}),
    ("note that the boiler is at 1.2 bar.", "memory_store", {"text": "the boiler is at 1.2 bar"}),
    ("The key is in the shed, write that down", "memory_store", {"text": "The key is in the shed"}),
    ("what did I note about the boiler?", "memory_search", {"query": "boiler"}),
    ("did I write anything down on the pump?", "memory_search", {"query": "pump"}),
    (
        "remember for good that the pump's fuse is 3 A",
        "memory_store",
        {"lasting": True, "text": "the pump's fuse is 3 A"},
    ),
    ("Remember the gate code is 4711 for good", "memory_store", {"lasting": True, "text": "the gate code is 4711"}),
    ("never forget that Anna is allergic", "memory_store", {"lasting": True, "text": "Anna is allergic"}),
    ("please forget the note about the fuse", "memory_forget", {"text": "the fuse"}),
    ("Forget what I told you about Anna.", "memory_forget", {"text": "Anna"}),
    ("forget that the fuse is 3 A, please", "memory_forget", {"text": "the fuse is 3 A"}),
    ("remove the note about the ladder from my notes", "memory_forget", {"text": "the ladder"}),
    ("change 3 A to 5 A in my notes", "memory_update", {"old": "3 A", "new": "5 A"}),
    (
        "change the note about the fuse to: the fuse is 5 A",
        "memory_update",
        {"old": "fuse", "new": "the fuse is 5 A"},
    ),
    ("Hey Pico, could you please scan the bus for me, thanks", "i2c", {"action": "scan"}),
]


@each_row(("text", "tool", "arguments"), CALLS, ids=[case[0] for case in CALLS])
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
    ("at half past six", {"at": "06:30 o'clock"}),
    ("at half past eight", {"at": "08:30 o'clock"}),
    ("at half-past six in the morning", {"at": "06:30"}),
    ("at quarter to five", {"at": "04:45 o'clock"}),
    ("at 9 pm", {"at": "21:00"}),
    ("at 7am", {"at": "07:00"}),
    ("at 12 am", {"at": "00:00"}),
    ("at noon", {"at": "12:00"}),
    ("tonight at nine", {"at": "21:00"}),
    ("tomorrow at 7:30", {"at": "tomorrow 07:30"}),
    ("on 24 december", {"at": "24 december 09:00"}),
    ("on December 3rd at 18:30", {"at": "3 december 18:30"}),
    ("on the 25th at 8 in the evening", {"at": "25th 20:00"}),
    ("tomorrow morning", {"at": "tomorrow 08:00"}),
    ("at eight tomorrow", {"at": "tomorrow 08:00"}),
    ("on 2026-12-01 at 8", {"at": "2026-12-01 08:00"}),
    ("on Friday at 8", {"at": "friday 08:00"}),
    ("at 8 on saturday", {"at": "saturday 08:00"}),
    ("every day at 7", {"cron_expr": "0 7 * * *"}),
    ("daily at 7:15", {"cron_expr": "15 7 * * *"}),
    ("at 7 every day", {"cron_expr": "0 7 * * *"}),
    ("every day at 7 and 19", {"cron_expr": "0 7,19 * * *"}),
    ("every morning", {"cron_expr": "0 8 * * *"}),
    ("every evening at 8", {"cron_expr": "0 20 * * *"}),
    ("on weekdays at 18:00", {"cron_expr": "0 18 * * 1-5"}),
    ("at 18:00 on weekdays", {"cron_expr": "0 18 * * 1-5"}),
    ("at weekends at ten", {"cron_expr": "0 10 * * 0,6"}),
    ("every sunday at 10", {"cron_expr": "0 10 * * 0"}),
    ("on mondays, wednesdays and fridays at 7 pm", {"cron_expr": "0 19 * * 1,3,5"}),
    ("every monday and friday at 9", {"cron_expr": "0 9 * * 1,5"}),
    ("every 30 minutes", {"every_seconds": 1800}),
    ("every hour", {"every_seconds": 3600}),
    ("hourly", {"every_seconds": 3600}),
    ("every two hours", {"every_seconds": 7200}),
    ("every half hour", {"every_seconds": 1800}),
    ("every other day at 8", {"every_seconds": 172_800, "at": "08:00"}),
    ("every week on monday at 8", {"every_seconds": 604_800, "at": "monday 08:00"}),
]


@each_row(("when", "expected"), TIMES, ids=[case[0] for case in TIMES])
def test_the_time_of_a_reminder(when, expected):
    wanted = {"action": "add", "message": "feed Tom's cat", **expected}
    assert say(f"remind me {when} to feed Tom's cat")[0] == ToolCall("intent-1", "cron", wanted)
    assert MATCHER.match(f"Remind me to feed Tom's cat {when}.").arguments == wanted


def test_waking_is_in_the_morning():
    assert MATCHER.match("wake me at half past six").arguments["at"] == "06:30"


@each_row(
    "text",
    [
        "remind me to feed the cat",
        "remind me next week at 8 to feed the cat",
        "remind me every month at 8 to feed the cat",
        "remind me at 8 to feed the cat on Friday",
        "remind me on May at 8 to feed the cat",
        "remind me at 99 to feed the cat",
    ],
)
def test_a_reminder_without_a_time_that_can_be_kept_asks_when(text):
    assert say(text)[0].text.startswith("When?")


@each_row(("text", "question"), [("what does the file say?", "Which file?"), ("cancel my next reminder", "Which one?")])
def test_a_missing_slot_is_asked_for(text, question):
    events = say(text)
    assert events[0].text.startswith(question)
    assert events[1:] == [End("stop", Usage())]


def test_the_corpus():
    for case in CORPUS:
        match = MATCHER.match(case["text"], TOOLS)
        called = match.tool if match and not match.missing else ""
        assert (called if called != "output" else "") == case["tool"], case
        for name, value in case.get("arguments", {}).items():
            assert match.arguments[name] == value, case


def test_nothing_writes_to_a_bus():
    texts = ["write 0x01 to register 0x20 of 0x76", "set register 0x20 of 0x76 to 1", "i2c write 0x76 0x20 1"]
    intents = [intent for intent in SHIPPED["intents"].values() if intent.get("tool") == "i2c"]
    assert {intent["arguments"]["action"] for intent in intents} == {"scan", "detect", "read"}
    assert all(match is None or not match.tool for match in map(MATCHER.match, texts))


@each_row(
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
        assert MATCHER.match(sentence, {"output", "rule", "cron", "memory_store"}).tool, sentence


def test_no_match_says_so_and_what_it_can_do():
    text = say("paint me a rainbow")[0].text
    assert text.startswith(REFUSED)
    assert "what can you do?" not in text  # nothing is declared whose names could be shown
    named = IntentProvider([SHIPPED], declared=lambda: {"fan": "output", "bench": "sensor"})
    assert (
        "I can measure bench. I can switch fan."
        in next(named.events(request(Message("user", "paint me a rainbow")))).text
    )
    provider = IntentProvider([SHIPPED], configured_model="qwen")
    assert "qwen" in next(provider.events(request(Message("user", "paint me a rainbow")))).text


def test_a_tool_that_is_not_offered_is_named():
    events = say("scan the i2c bus", tools=("cron",))
    assert events == [
        Text("I understand that you want me to use the I2C bus, but I can't here: this set-up has no I2C bus."),
        End("stop", Usage()),
    ]


def test_the_moment_block_is_skipped():
    text = "<moment>\nIt is 12:00, remind me in 5 minutes to x.\n</moment>\n\nhow warm is it?"
    assert say(text)[0].name == "sensor_read"


@each_row("head", ["<moment>Earlier: we set the timer to 5 minutes.</moment>\n", "Noted: mist the ferns\n"])
def test_nor_is_what_stands_before_it(head):
    text = f"{head}<moment>It is 12:00, remind me in 5 minutes to x.</moment>\nhow warm is it?"
    assert say(text)[0].name == "sensor_read"
    called = ToolCall("intent-1", "sensor_read", {})
    told = (Message("user", text), Message("assistant", "", (called,)), Message("tool", "21 °C", call_id="intent-1"))
    assert next(IntentProvider([SHIPPED]).events(request(*told))) == Text("21 °C")


def test_a_tools_result_is_said():
    data = {"intents": {"sensor_read": {"answer": "{sensor}: {result}{gone}"}}}
    call = ToolCall("intent-1", "sensor_read", {"sensor": "greenhouse"})
    messages = (
        Message("user", "how warm is the greenhouse?"),
        Message("assistant", "", (call,)),
        Message("tool", "21 °C {sensor} {0} %s", call_id="intent-1"),
    )
    plain = list(IntentProvider([SHIPPED]).events(request(*messages)))
    assert plain == [Text("21 °C {sensor} {0} %s"), End("stop", Usage())]
    worded = next(IntentProvider([SHIPPED, data]).events(request(*messages)))
    assert worded == Text("greenhouse: 21 °C {sensor} {0} %s{gone}")


def test_a_result_of_a_call_it_did_not_make_is_said_as_it_is():
    messages = (Message("user", "sing me a song"), Message("tool", "done", call_id="x"))
    assert next(IntentProvider([SHIPPED]).events(request(*messages))) == Text("done")
    assert next(IntentProvider([SHIPPED]).events(request())).text.startswith(REFUSED)


def test_ids_differ_within_a_conversation():
    first, later = Message("user", "list files"), Message("assistant", "none")
    provider = IntentProvider([SHIPPED])
    assert next(provider.events(request(first))).id != next(provider.events(request(first, later, first))).id


@each_row(("text", "answers"), [("how warm is it?", True), ("hello", False), ("write a poem", False), ("", False)])
def test_answers_is_for_tools_only(text, answers):
    assert IntentProvider([SHIPPED]).answers(text) is answers


OWNERS = {
    "concepts": {"pump_word": "pump pumpe"},
    "slots": {"depth": {"kind": "choice", "values": {"deep": "deep very_deep"}}},
    "say": {"no_model": "No."},
    "intents": {
        "well": {
            "tool": "sensor_read",
            "arguments": {"sensor": "well"},
            "templates": ["how {depth} is the well", "has (the|our) well run dry"],
        },
        "board_status": {"templates": "was macht die @pump_word"},
        "hello": {"templates": "grüß dich", "answer": "Servus."},
    },
}


def test_the_owner_adds_sentences_intents_and_wording():
    matcher = IntentMatcher([SHIPPED, OWNERS])
    well = matcher.match("how very deep is the well?")
    assert (well.tool, well.arguments) == ("sensor_read", {"sensor": "well", "depth": "deep"})
    assert matcher.match("has our well run dry").tool == "sensor_read"
    assert matcher.match("Was macht die Pumpe?").tool == "board_status"
    assert matcher.match("Grüß dich").answer == "Servus."
    assert matcher.match("hello").answer == "Servus."
    assert matcher.say["no_model"] == "No."
    assert matcher.match("how warm is it?").tool == "sensor_read"


BROKEN = [
    ({"intent": {}}, ("unknown key 'intent'", "intents")),
    ({"intents": {"x": {"tols": "a"}}}, ("intents.x", "unknown key 'tols'", "templates")),
    ({"intents": {"x": 3}}, ("intents.x", "not a table")),
    ({"intents": {"x": {"steps": "level lift"}}}, ("intents.x.steps", "unknown step 'lift'", "plan_again")),
    ({"intents": {"x": {"templates": "a {sensr}"}}}, ("intents.x", "unknown slot 'sensr'", "[slots.sensr]")),
    ({"intents": {"x": {"templates": "a (b|c"}}}, ("intents.x", "a (b|c", "not closed")),
    ({"intents": {"x": {"templates": "a b]"}}}, ("intents.x", "a b]", "closes nothing")),
    ({"intents": {"x": {"templates": "a (b]"}}}, ("intents.x", "closes nothing")),
    ({"intents": {"x": {"templates": "a {b"}}}, ("intents.x", "unknown slot")),
    ({"intents": {"x": {"templates": "a <sensr>"}}}, ("intents.x", "unknown phrase 'sensr'", "[phrases]")),
    ({"phrases": {"x": 1}}, ("phrases.x",)),
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


@each_row(("data", "parts"), BROKEN, ids=[str(case[0]) for case in BROKEN])
def test_a_mistake_in_the_data_is_named(data, parts):
    with pytest.raises(ConfigError) as caught:
        IntentMatcher([SHIPPED, data], ["en.toml", "mine.toml"])
    message = str(caught.value)
    assert message.startswith("mine.toml: ")
    assert "\n" not in message
    for part in parts:
        assert part in message


SAME = [
    ("how warm is the porch?", "sensor_read"),
    ("scan the i2c bus", "i2c"),
    ("list my reminders", "cron"),
    ("how much disk space is left", "board_status"),
]


@each_row("shape", ["{} pls", "hey {}", "yo, {} thx", "Could you tell me {}, please, mate", "{} rn tbh"])
@each_row(("text", "tool"), SAME)
def test_chat_words_are_passed_over(shape, text, tool):
    match = MATCHER.match(shape.format(text))
    assert match.tool == tool
    assert match.arguments == MATCHER.match(text).arguments


SLIPS = [
    ("whats the temprature", {"quantity": "temperature"}),
    ("humidty?", {"quantity": "humidity"}),
    ("barometric presure plz", {"quantity": "pressure"}),
    ("tempreture in the grenhouse", {"quantity": "temperature", "sensor": "greenhouse"}),
    ("remid me in 5 minutes to x", {"action": "add", "message": "x", "at_seconds": 300}),
    ("list my remiders", {"action": "list"}),
    ("read regster 0xd0 of 0x76", {"action": "read", "register": 0xD0, "address": 0x76}),
]


@each_row(("text", "arguments"), SLIPS, ids=[case[0] for case in SLIPS])
def test_a_slip_of_the_pen_is_mended(text, arguments):
    assert MATCHER.match(text).arguments == arguments


@each_row("text", ["what is the remainder", "how is humanity", "list the directors", "fires?", "Presure"])
def test_an_ordinary_word_is_not_mended(text):
    match = MATCHER.match(text)
    assert (text == "Presure") == bool(match and match.tool)


PHRASES = [
    ("CO2?", "sensor_read", {"quantity": "co2"}),
    ("porch humidity", "sensor_read", {"quantity": "humidity", "sensor": "porch"}),
    ("current temperature pls", "sensor_read", {"quantity": "temperature"}),
    ("how much current is being drawn", "sensor_read", {"quantity": "current"}),
    ("What voltage are we reading?", "sensor_read", {"quantity": "voltage"}),
    ("how many hectopascals", "sensor_read", {"quantity": "pressure"}),
    ("temperature and humidity?", "sensor_read", {}),
    ("temperature, humidity and light on the porch", "sensor_read", {"sensor": "porch"}),
    ("brrr, how cold is it?", "sensor_read", {"quantity": "temperature"}),
    ("it feels stuffy in here", "sensor_read", {"quantity": "co2"}),
    ("sensors list", "sensor_list", {}),
    ("free memory", "board_status", {}),
    ("uptime", "board_status", {}),
    ("run a scan of I2C bus 1", "i2c", {"action": "scan", "bus": 1}),
    ("is anything on the bus", "i2c", {"action": "scan"}),
    ("i2c read 0x76 0xfa 3 bytes", "i2c", {"action": "read", "address": 0x76, "register": 0xFA, "length": 3}),
    ("read 0xd0 from 0x76", "i2c", {"action": "read", "address": 0x76, "register": 0xD0}),
    ("what id does 0x68 give back in 0x75", "i2c", {"action": "read", "address": 0x68, "register": 0x75}),
    ("what's in /home/pi/photos", "list_dir", {"path": "/home/pi/photos"}),
    ("list the current directory", "list_dir", {"path": "."}),
    ("cat /etc/hostname", "read_file", {"path": "/etc/hostname"}),
    ("What does /etc/hosts say?", "read_file", {"path": "/etc/hosts"}),
    ("ping me in 90 seconds", "cron", {"action": "add", "message": "Time is up.", "at_seconds": 90}),
    ("give me a shout in 20", "cron", {"action": "add", "message": "Time is up.", "at_seconds": 1200}),
    ("set a timer for five minutes for the tea", "cron", {"action": "add", "message": "the tea", "at_seconds": 300}),
    ("set a reminder for 45 s from now: tea", "cron", {"action": "add", "message": "tea", "at_seconds": 45}),
    ("Write this down please: pump is KX-4471", "memory_store", {"text": "pump is KX-4471"}),
]


@each_row(("text", "tool", "arguments"), PHRASES, ids=[case[0] for case in PHRASES])
def test_a_terse_or_roundabout_request(text, tool, arguments):
    match = MATCHER.match(text)
    assert (match.tool, match.missing) == (tool, "")
    assert match.arguments == arguments or (arguments.get("path") == "." and match.arguments == {})


OF_DAYS = [
    ("show me today's notes", "today"),
    ("Today’s notes, please", "today"),
    ("notes from yesterday", "yesterday"),
    ("read me last week's notes", "last week"),
    ("show me Tuesday's notes", "Tuesday"),
    ("what's in yesterday's notes?", "yesterday"),
    ("what is in my notes from last week?", "last week"),
    ("show my notes from Friday", "Friday"),
    ("any notes from yesterday?", "yesterday"),
    ("what did I note yesterday?", "yesterday"),
    ("what have I noted today?", "today"),
    ("what did I write down last week", "last week"),
    ("what did I write down in the last three days", "in the last three days"),
    ("what did I write down about the boiler last week", "boiler last week"),
    ("what did we note last Tuesday?", "last Tuesday"),
    ("what was noted on 3 May", "3 May"),
    ("what notes did I make yesterday", "yesterday"),
    ("did I write anything down last week?", "last week"),
    ("did I note anything yesterday?", "yesterday"),
]


@each_row(("text", "query"), OF_DAYS, ids=[case[0] for case in OF_DAYS])
def test_notes_of_a_day_are_looked_for_by_the_day(text, query):
    match = MATCHER.match(text)
    assert (match.tool, match.arguments, match.missing) == ("memory_search", {"query": query}, "")


NOTED = {"20261121": "the filter was changed", "20261122": "Rex is back", "20261118": "bled the boiler"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("show me today's notes", "Rex is back"),
        ("what did I note yesterday", "the filter was changed"),
        ("what did I write down last Wednesday?", "bled the boiler"),
        ("show me yesterday's notes", "the filter was changed"),
    ],
)
def test_the_notes_of_a_day_are_answered(tmp_path, monkeypatch, text, found):
    prepare_home(tmp_path)
    (tmp_path / "workspace/BOOTSTRAP.md").unlink()
    (tmp_path / "workspace/memory/202611").mkdir(parents=True)
    for day, said in NOTED.items():
        (tmp_path / f"workspace/memory/202611/{day}.md").write_text(f"- 09:00 {said}\n")
    monkeypatch.setattr(App, "now", lambda _: datetime(2026, 11, 22, 12, tzinfo=UTC))  # a Sunday
    app = App(Config(tmp_path, memory=MemoryConfig(embeddings="off")), SimBoard())
    try:
        reply = app.dispatcher.answer(Inbound("terminal", text)).reply
    finally:
        app.close()
    assert [said for said in NOTED.values() if said in reply] == [found]


@each_row(
    "text",
    [
        *("note that", "remember this", "note that please", "Please remember this!", "hey pico, write this down"),
        *("write that down please", "make a note of that", "save that for later", "keep that in mind", "note"),
        *("remember that for good", "never forget this", "add this to my notes", "can you make a note"),
    ],
)
def test_what_says_nothing_is_not_noted(text):
    assert say(text)[0].text.startswith("What shall I note?")


NO_REQUEST = """
we had a power cut at my aunt's house last week
The board of directors meets on Friday.
I missed the bus again
my laptop battery died on the train
the cat knocked over the thermometer
never mind the temperature
forget about the scan
no need to list the files
don't bother with the humidity
open the vents in the greenhouse
could you turn down the lights in the living room
lights off please
lights on in the kitchen
make the greenhouse warmer
start the pump for ten minutes
how do cron jobs work on linux
what is i2c
what is humidity
why does a pi throttle
how long do batteries last
how hot does an oven need to be for pizza
how hot will it be on Sunday?
is it warm in Madrid?
write a bash script to list files
rm -rf /
"""


@each_row("text", NO_REQUEST.strip().splitlines())
def test_what_asks_for_nothing_here_calls_nothing(text):
    match = MATCHER.match(text)
    assert match is None or not match.tool


def test_a_phrase_is_a_part_of_templates():
    lines = "how deep is the <well>\nhow long is <loop> b"
    phrases = {"well": "(well|borehole)", "loop": "a <loop>"}
    matcher = IntentMatcher([{"phrases": phrases, "intents": {"x": {"tool": "t", "templates": lines}}}])
    assert matcher.match("how deep is the borehole").tool == "t"
    assert matcher.match("how long is a b").tool == "t"


def test_no_data_at_all_understands_nothing():
    assert IntentMatcher([]).match("how warm is it?") is None


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
    "run the fan every 0 minutes for 5 s",
    "remind me every 0 hours to drink",
    "²³ ½ ① ٣ minutes",
    "temperatrue " * 800,
    "what is what is " * 600,
    "please " * 1400,
    "is it, " * 1400,
    "temperature and " * 650,
    "<where> <" * 1000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[repr(text[:20]) for text in HOSTILE])
def test_hostile_texts_are_answered_at_once(text):
    provider = IntentProvider([SHIPPED])
    provider.answers("is it cold?")
    gc.disable()  # a collection of all that the other tests left behind would be counted as the matcher's time
    try:
        start = time.process_time()
        events = list(provider.events(request(Message("user", text))))
        took = time.process_time() - start
    finally:
        gc.enable()
    assert took < 0.25
    assert isinstance(events[-1], End)
    assert events == list(provider.events(request(Message("user", text))))
    json.dumps([event.arguments for event in events if isinstance(event, ToolCall)]).encode()


def test_random_words_never_raise():
    words = [*" ".join(case[0] for case in CALLS).split(), "(", "0x", "#", "half", "{when}"]
    chance = random.Random(7)  # the same sentences in every run
    for _ in range(200):
        MATCHER.match(" ".join(chance.choices(words, k=chance.randint(1, 80))))


def test_a_long_note_is_kept_whole():
    note = "word " * 3000
    assert say("note that " + note)[0].arguments == {"text": note.strip()}


def test_a_negated_wish_calls_nothing():
    for text in ("don't scan the bus", "please do not list the files", "I don't want you to read any files"):
        assert not IntentProvider([SHIPPED]).answers(text)


# --- what was compiled is kept ---

GREET = '[intents.greet]\nanswer = "Ahoy."\ntemplates = "ahoy {}"\n'


def open_home(home):
    (home / "intents").mkdir(exist_ok=True)
    read = []
    grammar = inspect.unwrap(load_grammar)(
        list_intent_files(home), home / "intents.cache", lambda files: read.append(files) or read_intent_tables(files)
    )
    return IntentMatcher(grammar), len(read)


def answer_of(matcher, text):
    match = matcher.match(text)
    return match.answer if match else ""


def test_a_second_start_parses_nothing_and_an_edit_counts(tmp_path):
    first, parsed = open_home(tmp_path)
    again, parsed_again = open_home(tmp_path)
    assert (parsed, parsed_again) == (1, 0)
    for text, *_ in CALLS:
        assert again.match(text, TOOLS) == first.match(text, TOOLS)
    for word in ("there", "captain"):
        (tmp_path / "intents/mine.toml").write_text(GREET.format(word))
        assert answer_of(open_home(tmp_path)[0], f"ahoy {word}") == "Ahoy."
    (tmp_path / "intents/mine.toml").unlink()
    assert answer_of(open_home(tmp_path)[0], "ahoy captain") == ""


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-10],
        lambda data: data.replace(b"Hello.", b"Hollo.", 1),
        lambda data: data.replace(b"\n", b"\n\n", 3),
        lambda data: random.Random(1).randbytes(5000),
    ],
)
def test_a_damaged_cache_is_made_again(tmp_path, damage):
    open_home(tmp_path)
    good = (tmp_path / "intents.cache").read_bytes()
    (tmp_path / "intents.cache").write_bytes(damage(good))
    matcher, parsed = open_home(tmp_path)
    assert parsed == 1
    assert answer_of(matcher, "hello").startswith("Hello.")
    assert (tmp_path / "intents.cache").read_bytes() == good


def test_a_home_that_cannot_be_written_works_without_a_cache(tmp_path):
    (tmp_path / "intents").mkdir()
    (tmp_path / "intents.cache").mkdir()
    assert answer_of(open_home(tmp_path)[0], "hello").startswith("Hello.")


def test_a_place_without_a_sensor_is_said_in_a_sentence_of_its_own():
    call = ToolCall("1", "sensor_read", {"sensor": "soil", "quantity": "humidity"})
    told = IntentProvider([SHIPPED]).word_result(
        "how dry is the soil", call, "error: no sensor 'soil' measures humidity; there are: porch, cpu"
    )
    assert told == "No sensor here measures the humidity of 'soil'. The sensors here: porch, cpu"

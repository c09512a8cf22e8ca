"""Switching the owner's outputs and adding sensors without a model: what does it, and what must not."""

import json
from pathlib import Path

from grammars import load_shipped
from rows import each_row

from picoclaw import schema
from picoclaw.intents.grammar import NEEDS_CLOCK
from picoclaw.intents.matcher import IntentMatcher
from picoclaw.intents.provider import IntentProvider
from picoclaw.messages import End, Message, Request, Text, ToolCall, Usage
from picoclaw.outputs import config
from picoclaw.tools.outputs import OutputTool
from picoclaw.tools.sensors import SensorAddTool

SHIPPED = load_shipped()
MATCHER = IntentMatcher([SHIPPED])
DATA = Path(__file__).parent / "data"
MOVES = ("output", "sensor_add")
READS = ("sensor_read", "sensor_list", "board_status", "i2c", "list_dir", "read_file", "cron")
READS += ("memory_store", "memory_search")
ALL = READS + MOVES


def on(name, seconds=None, level="on"):
    return {"action": "set", "name": name, "level": level} | ({"seconds": seconds} if seconds else {})


def off(name):
    return {"action": "off", "name": name}


def said(text, tools=ALL):
    request = Request("", (Message("user", text),), tuple({"name": name} for name in tools), 100, 0.0)
    return list(IntentProvider([SHIPPED]).events(request))


ON = [
    ("turn the pump on for 10 seconds", on("pump", 10)),
    ("Turn on the pump for 10 seconds.", on("pump", 10)),
    ("pump on for five minutes", on("pump", 300)),
    ("pump on 10 s", on("pump", 10)),
    ("Pump on!", on("pump")),
    ("the pump on for 30 seconds please", on("pump", 30)),
    ("switch on the grow light", on("grow_light")),
    ("Switch the Grow Light on", on("grow_light")),
    ("turn on grow-light for 1.5h", on("grow_light", 5400)),
    ("turn grow_light on for 2 h", on("grow_light", 7200)),
    ("grow_light on", on("grow_light")),
    ("zone1 on for 90s", on("zone1", 90)),
    ("turn pump 2 on for 15 sec", on("pump_2", 15)),
    ("power on the left fan", on("left_fan")),
    ("turn on the cellr for 5 s", on("cellr", 5)),
    ("set the fan to 40 percent for an hour", on("fan", 3600, "40")),
    ("set the fan to 40%", on("fan", level="40")),
    ("set fan to 40 % for 2 minutes", on("fan", 120, "40")),
    ("set the fan to twenty five percent", on("fan", level="25")),
    ("turn the fan to 12.5 percent", on("fan", level="12.5")),
    ("run the fan at 70 percent for half an hour", on("fan", 1800, "70")),
    ("dim the reading lamp to 20 percent", on("reading_lamp", level="20")),
    ("turn on the fan at 50% for 10 min", on("fan", 600, "50")),
    ("fan to one hundred percent", on("fan", level="100")),
    ("set the fan to 140 percent", on("fan", level="140")),
    ("set the pump to on", on("pump")),
    ("open the valve for 30 s", on("valve", 30)),
    ("open the garden valve", on("garden_valve")),
    ("valve open for 20 seconds", on("valve", 20)),
    ("start the pump for ten minutes", on("pump", 600)),
    ("run the irrigation for a quarter of an hour", on("irrigation", 900)),
    ("put the light on", on("light")),
    ("activate relay 3 for a minute", on("relay_3", 60)),
    ("for 10 seconds turn on the pump", on("pump", 10)),
    ("hey pico, could you turn the pump on for half an hour, please?", on("pump", 1800)),
    ("Can you switch on the heater for 20 minutes?", on("heater", 1200)),
    ("please turn on the pump for 10 seconds, thanks", on("pump", 10)),
    ("turn on the pump, will you?", on("pump")),
    ("turn the pump on for 10 seconds and then off again", on("pump", 10)),
    ("turn the pump on for 10 seconds then turn it off", on("pump", 10)),
    ("turn the pump on for one hour and ten minutes", on("pump", 4200)),
    ("turn the pump on for two and a half minutes", on("pump", 150)),
    ("turn the pump on for an hour and a half", on("pump", 5400)),
    ("turn the pump on for one hundred seconds", on("pump", 100)),
    ("turn the pump on for two hundred seconds", on("pump", 200)),
    ("turn the pump on for the next 5 minutes", on("pump", 300)),
    ("turn the pump on for about 5 minutes", on("pump", 300)),
    ("turn the pump on right now", on("pump")),
]
OFF = [
    ("turn the pump off", off("pump")),
    ("Turn off the pump!", off("pump")),
    ("pump off", off("pump")),
    ("pump off please", off("pump")),
    ("switch off the grow light", off("grow_light")),
    ("switch the grow light off now", off("grow_light")),
    ("power off the heater", off("heater")),
    ("shut off the pump", off("pump")),
    ("set the fan to off", off("fan")),
    ("set the fan to 0 percent", off("fan")),
    ("set the fan to 0%", off("fan")),
    ("close the valve", off("valve")),
    ("shut the garden valve", off("garden_valve")),
    ("stop the pump", off("pump")),
    ("stop the fan right away", off("fan")),
    ("zone1 off", off("zone1")),
    ("ok now turn pump 2 off", off("pump_2")),
    ("could you switch the light off?", off("light")),
]
LIST = [
    "which outputs are there",
    "What outputs do you have?",
    "list the outputs",
    "show me the outputs please",
    "outputs",
    "output status",
    "which outputs are on?",
    "are any of the outputs on",
    "what can you switch on and off?",
    "is the pump on?",
    "is the grow light off",
    "can you tell me, is the pump on?",
    "is the valve open",
    "is the fan still running?",
    "did I leave the light on?",
    "what is switched on",
    "what's on",
    "is anything switched on?",
    "which lights are on",
]
ADD = [
    ("add the bme280 at 0x76 as greenhouse", {"part": "bme280", "address": 0x76, "name": "greenhouse"}),
    ("Add the BME280 at address 0x77 as porch, please", {"part": "bme280", "address": 0x77, "name": "porch"}),
    ("add a new sht31 sensor at 0x44 called cellar", {"part": "sht31", "address": 0x44, "name": "cellar"}),
    ("add the bh1750 at 0x23 on bus 3 as roof", {"part": "bh1750", "address": 0x23, "bus": 3, "name": "roof"}),
    ("add the bmp280 on i2c bus 0 at 0x76 as shed", {"part": "bmp280", "address": 0x76, "bus": 0, "name": "shed"}),
    ("add the sensor at 0x76 as porch", {"address": 0x76, "name": "porch"}),
    ("can you add the sensor at 0x76 as the porch?", {"address": 0x76, "name": "porch"}),
    ("set up the thermometer at 0x48 as back_door", {"address": 0x48, "name": "back_door"}),
    ("register the ds18b20 as tank", {"part": "ds18b20", "name": "tank"}),
    ("add 0x76 as porch", {"address": 0x76, "name": "porch"}),
]
CALLS = [(text, "output", arguments) for text, arguments in ON + OFF]
CALLS += [(text, "output", {"action": "list"}) for text in LIST]
CALLS += [(text, "sensor_add", arguments) for text, arguments in ADD]


@each_row(("text", "tool", "arguments"), CALLS, ids=[case[0] for case in CALLS])
def test_a_sentence_becomes_a_call_whose_arguments_the_tool_takes(text, tool, arguments):
    assert said(text) == [ToolCall("intent-1", tool, arguments), End("tool_calls", Usage())]
    function = {"output": OutputTool.output, "sensor_add": SensorAddTool.sensor_add}[tool]
    taken = schema.check_arguments(schema.read_parameters(function, ("self", "caller")), arguments)
    assert taken["name"] == arguments.get("name", "")
    if "seconds" in arguments:
        assert 0 < taken["seconds"] <= 86_400
    if "level" in arguments and taken["level"] != "140":
        assert 0 < config.parse_level(taken["level"]) <= config.ON


STILL = """
I want to know whether the fan is going
I would like to know if the lamp is on
the fan has been going for ten minutes
my neighbour shouted, put the fan on if it gets warm
they said it was stuffy, put the fan on
it was stuffy, so I put the fan on
could it be stuffy, put the fan on?
the lamp going off worries me
I turned the pump on
I turned the pump on for 10 seconds
the pump turned on for 10 seconds
we turned on the pump for 10 seconds yesterday
the pump was on for five minutes
the pump is on
the pump went off
pump went on
never turn on the pump
please don't switch off the fan
dont turn the pump off
don't turn the pump on
do not open the valve
you should not turn the pump on
no need to turn on the pump
not pump on
no pump on
if it rains turn the pump off
turn the pump on if it is dry
turn the pump on when it is 30 degrees
when it is 30 degrees turn the fan on
turn the pump on unless it is raining
unless it is raining, turn the pump on
once the tank is full turn the pump off
after that turn the pump off
before you turn the pump on, tell me
only turn on the pump when asked
turn the pump on at 6 pm
turn the pump on tomorrow
turn the pump on every day for 5 minutes
turn on the pump in 5 minutes
turn on the pump after 10 minutes
turn the pump on for 5 minutes in 10 minutes
turn off the pump in 10 minutes
turn the pump off for 10 minutes
pump off in 10 minutes
pump on tomorrow
pump on in 10 minutes for 5 minutes
turn the pump on for a while
turn the pump on for ever
turn the pump on for 5
turn the pump on for 0 seconds
turn the pump on for -10 s
turn the pump on for 5-10 minutes
turn the pump on for five ten minutes
turn the pump on for ten or twenty minutes
turn the pump on for 10 bananas
turn on the pump for another 5 minutes
set the fan to -40 percent
set the fan to 40
set the fan to 20 degrees
set the fan to low percent
set the heating to warm
turn the pump on?
pump on?
turn on the pump, right?
did you turn the pump on?
should I turn the pump on?
can I turn the pump on?
may I open the valve?
is it ok to turn the pump on?
how do I turn on the pump?
how long should I turn the pump on for?
why did you turn the pump off?
who turned the pump on
when did you last turn the pump on
what happens if I turn the pump on
would it be bad to turn the pump on
would you turn the pump on if it was dry?
would you have turned the pump on
would you mind if I turned the pump on?
could you have turned the pump on?
could you tell me how to turn the pump on?
can you explain why the pump is off?
can the pump be turned on?
will you turn the pump on tomorrow?
explain how to turn the pump on
write a script to turn the pump on
remind me in 5 minutes to turn the pump on
remind me to turn the pump on in 5 minutes
note that the pump is on
note that I turned the pump on for 10 seconds
he said turn the pump on
imagine the pump is on
pretend to turn on the pump
maybe turn on the pump
turn on the pump maybe
I want to turn the pump on
I might turn the pump on
let's turn the pump on
I forgot to turn the pump off
tell me when the pump is on
check that the pump is off
make sure the pump is off
keep the pump on
leave the pump on
turn on the pump. never mind
turn on the pump, no wait
turn on the pump, not the fan
turn on the lights in the kitchen
turn on the radio app on my phone
turn it on
turn that off
turn everything on
turn everything off
turn on wifi
turn off the internet
turn off the pi
turn off the alarm
turn up the fan
turn down the heater
turn on the charm
set the pump on fire
pump on fire
put the kettle on
put on a jumper
come on
hang on
hold on for five minutes
carry on
game on
day off
switch on
turn off
on
off
lights
the meeting is on for 5 minutes
open the door
open the garage door
close the app
stop
stop it
stop everything
emergency stop
stop the music
shut down
start over
start a timer for 5 minutes
disable the pump
add milk to the list
add the sensor
add the bme280 at 0x76
add sensor at 118 as porch
add the pump at 0x76 to the list
don't add the bme280 at 0x76 as greenhouse
did you add the bme280 at 0x76 as greenhouse?
can I add the bme280 at 0x76 as greenhouse?
how do I add the bme280 at 0x76 as greenhouse
I added the bme280 at 0x76 as greenhouse
"""


def test_nothing_is_switched_or_added():
    for text in STILL.strip().splitlines():
        match = MATCHER.match(text, ALL)
        is_asked = match is not None and match.missing != ""  # a yes does it
        assert match is None or is_asked or match.tool not in MOVES or match.arguments == {"action": "list"}, text


def test_nothing_that_acts_is_understood_where_only_reading_was_asked_for():
    for text, *_ in ON + OFF + ADD:
        match = MATCHER.match(text)
        assert match is None or match.tool not in MOVES, text


def test_no_sentence_stops_everything():
    intents = [intent for intent in SHIPPED["intents"].values() if intent.get("tool") == "output"]
    assert {intent["arguments"]["action"] for intent in intents} == {"list", "set", "off"}
    assert all(intent["acts"] for intent in intents if intent["arguments"]["action"] != "list")


MEANT = {  # in the two corpora these ask for no tool, as they were written before there were outputs
    "Turn on the greenhouse lights",
    "switch off the pump please",
    "open the vents",
    "start the fan for 10 minutes",
    "turn on the pump",
    "start the irrigation",
}


@each_row("name", ["intents_dev", "intents_blind"])
def test_with_outputs_every_other_sentence_means_what_it_did(name):
    for row in json.loads((DATA / f"{name}.json").read_text("utf-8")):
        if row["text"] not in MEANT:
            with_outputs = MATCHER.match(row["text"], ALL)
            assert with_outputs == MATCHER.match(row["text"], READS), row["text"]


def test_an_intent_without_examples_is_no_evidence():
    bare = {"intents": {name: {"tool": name, "templates": f"{name} on"} for name in ("a", "b", "c")}}
    row = "Are the plants getting enough sun in the greenhouse?"
    assert IntentMatcher([SHIPPED, bare]).match(row) == MATCHER.match(row)
    assert MATCHER.match(row).tool == "sensor_read"


LACKS = [
    ("turn the pump on for 10 seconds", "switch an output", "no output is declared in outputs.toml"),
    ("pump off", "switch an output", "no output is declared in outputs.toml"),
    ("which outputs are there?", "switch an output", "no output is declared in outputs.toml"),
    ("add the bme280 at 0x76 as porch", "add a sensor", "this set-up has no board to look for it on"),
]


@each_row(("text", "does", "lacks"), LACKS, ids=[case[0] for case in LACKS])
def test_a_tool_that_is_not_there_is_named(text, does, lacks):
    answer = f"I understand that you want me to {does}, but I can't here: {lacks}."
    assert said(text, READS) == [Text(answer), End("stop", Usage())]
    assert IntentProvider([SHIPPED]).answers(text)


def test_without_outputs_a_question_of_state_is_not_answered_with_the_climate():
    for question in ("is the heating on?", "is the pump running"):
        assert said(question, READS)[0].text.endswith("no output is declared in outputs.toml.")
        assert said(question)[0].name == "output"


def test_a_tools_result_is_said_in_the_owners_words():
    data = {"intents": {"output_on": {"answer": "{name}: {result}"}}}
    call = ToolCall("intent-1", "output", on("pump", 10))
    asked = Message("user", "pump on for 10 seconds")
    messages = (asked, Message("assistant", "", (call,)), Message("tool", "on for 10 s", call_id="intent-1"))
    request = Request("", messages, ({"name": "output"},), 100, 0.0)
    assert next(IntentProvider([SHIPPED, data]).events(request)) == Text("pump: on for 10 s")


NUMBERS = [("one hundred", 100), ("two hundred", 200), ("twenty five", 25), ("a hundred", 100)]


@each_row(("words", "seconds"), NUMBERS)
def test_a_reminder_counts_the_same_seconds(words, seconds):
    assert MATCHER.match(f"remind me in {words} seconds to look").arguments["at_seconds"] == seconds


@each_row("words", ["five ten", "half a dozen", "ten two"])
def test_words_that_make_no_number_are_no_time(words):
    assert MATCHER.match(f"remind me in {words} minutes to look").missing.startswith("When?")


@each_row(
    ("text", "tool", "arguments"),
    [
        ("where are the spare fuses", "memory_search", {"query": "spare fuses"}),
        ("where are your notes", "memory_search", {"query": "notes"}),
        ("where are my sensors", "sensor_list", {}),
        ("light off at 11 pm every night", "rule", {"action": "add", "output": "light", "when": "every day at 23:00"}),
        (
            "fan on every day at 8 for 10 minutes",
            "rule",
            {"action": "add", "output": "fan", "when": "every day at 08:00"},
        ),
    ],
)
def test_the_short_ways_to_say_it(text, tool, arguments):
    match = MATCHER.match(text, ALL)
    assert (match.tool, match.missing) == (tool, "")
    assert arguments.items() <= match.arguments.items()


def test_until_a_time_of_day_is_no_call_before_somebody_has_looked_at_a_clock():
    for text in ("turn the pump on until noon", "leave the light on until 10 pm"):
        match = MATCHER.match(text, ALL)
        assert (match.tool, match.missing) == ("output", NEEDS_CLOCK), text

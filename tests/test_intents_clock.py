"""What is said without a model of times to come, of times past, and of rules."""

from datetime import UTC, datetime
from pathlib import Path

from grammars import load_shipped
from rows import each_row

from picoclaw.automation import rules
from picoclaw.intents.matcher import IntentMatcher
from picoclaw.intents.provider import IntentProvider
from picoclaw.messages import Message, Request, ToolCall
from picoclaw.times import parse_range

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = load_shipped()
MATCHER = IntentMatcher([SHIPPED])
TOOLS = {"sensor_read", "sensor_list", "board_status", "sensor_history", "rule", "output", "cron", "memory_search"}
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def called(text):
    match = MATCHER.match(text, TOOLS)
    return (match.tool, match.arguments) if match and match.tool and not match.missing else ("", {})


PAST = [
    ("how warm was it last night?", {"quantity": "temperature", "when": "last night"}),
    ("how cold did the porch get last night?", {"sensor": "porch", "quantity": "temperature", "when": "last night"}),
    ("what was the temperature yesterday?", {"quantity": "temperature", "when": "yesterday"}),
    ("yesterday's temperature", {"quantity": "temperature", "when": "yesterday"}),
    ("what has the temperature been today", {"quantity": "temperature", "when": "today"}),
    ("greenhouse temperature last week", {"sensor": "greenhouse", "quantity": "temperature", "when": "last week"}),
    ("humidity in the cellar over the last 12 hours", {"sensor": "cellar", "quantity": "humidity"}),
    ("what was the highest temperature in the last 3 days", {"quantity": "temperature", "when": "last 3 days"}),
    ("min and max temperature today", {"quantity": "temperature", "when": "today"}),
    ("plot the humidity since 6:00", {"quantity": "humidity", "when": "since 06:00", "chart": True}),
    ("show me a graph of the last 24 hours", {"when": "last 24 hours", "chart": True}),
    ("temperature since monday", {"quantity": "temperature", "when": "since monday"}),
    ("temperature since 6:00", {"quantity": "temperature", "when": "since 06:00"}),
    ("how warm was it 2 days ago", {"quantity": "temperature", "when": "2 days ago"}),
    ("how warm was it on 2026-11-20", {"quantity": "temperature", "when": "2026-11-20"}),
    ("did it freeze last night?", {"quantity": "temperature", "when": "last night"}),
    ("when was it coldest last night?", {"quantity": "temperature", "when": "last night"}),
    ("was it warm in the shed on monday?", {"sensor": "shed", "quantity": "temperature", "when": "monday"}),
    ("plot the humidity of the last 90 minutes", {"quantity": "humidity", "when": "last 90 minutes", "chart": True}),
    ("temperature history", {"quantity": "temperature"}),
    ("is it getting warmer?", {"quantity": "temperature", "when": "last 3 hours"}),
    ("is the barometer falling?", {"quantity": "pressure", "when": "last 3 hours"}),
    ("is the humidity going up in the cellar", {"sensor": "cellar", "quantity": "humidity"}),
    ("compare this week with last week", {"when": "this week", "compare": "last week"}),
    ("is it warmer than yesterday?", {"quantity": "temperature", "when": "today", "compare": "yesterday"}),
    ("was yesterday warmer than today", {"quantity": "temperature", "when": "yesterday", "compare": "today"}),
]


@each_row(("text", "arguments"), PAST, ids=[case[0] for case in PAST])
def test_a_question_about_the_past_is_looked_up(text, arguments):
    tool, found = called(text)
    assert tool == "sensor_history"
    assert arguments.items() <= found.items()
    for words in (found.get("when", "today"), found.get("compare", "today")):
        assert parse_range(words, NOW).seconds > 0


HOT = {"when": "greenhouse.temperature above 35", "notify": "greenhouse: temperature above 35"}
RULES = [
    (
        "tell me if the greenhouse is above 35 for 10 minutes",
        {
            "when": "greenhouse.temperature above 35 for 10 minutes",
            "notify": "greenhouse: temperature above 35 for 10 minutes",
        },
    ),
    ("tell me if the greenhouse is above 35", HOT),
    ("Hey pico, could you tell me when it's above 35 in the greenhouse?", HOT),
    ("when the greenhouse goes over 35 degrees, let me know please", HOT),
    ("tell me when the soil is below 20 %", {"when": "soil.humidity below 20", "notify": "soil: humidity below 20"}),
    ("warn me if the freezer rises above -10", {"when": "freezer.temperature above -10"}),
    ("tell me when the porch is below five degrees", {"when": "porch.temperature below 5"}),
    ("warn me if the freezer is over minus 10.5 °C", {"when": "freezer.temperature above -10.5"}),
    ("send me a message when the battery is under 11.5 V", {"when": "battery.voltage below 11.5"}),
    ("let me know if humidity in the bath is above 80% for an hour", {"when": "bath.humidity above 80 for 1 hour"}),
    (
        "every day at 6 open valve 1 for 5 minutes",
        {"when": "every day at 06:00", "output": "valve_1", "options": {"lasts": "5 minutes"}},
    ),
    ("turn on the lamp every day from 6 to 9", {"when": "every day at 06:00", "options": {"lasts": "3 hours"}}),
    ("lamp on every day 6 in morning until 9 please", {"when": "every day at 06:00", "options": {"lasts": "3 hours"}}),
    ("turn on the lamp every day at 6 for 3 hours", {"when": "every day at 06:00", "options": {"lasts": "3 hours"}}),
    (
        "turn on the lamp from 7 pm to 11 pm on weekdays",
        {"when": "every weekday at 19:00", "options": {"lasts": "4 hours"}},
    ),
    ("turn on the lamp every day except at the weekend at 6", {"when": "every weekday at 06:00"}),
    (
        "turn on the lamp monday to wednesday at 6 but not on tuesday",
        {"when": "every monday and wednesday at 06:00"},
    ),
    ("turn on the pump every monday at 7", {"when": "every monday at 07:00", "output": "pump"}),
    ("run the pump every 2 hours for 30 seconds", {"when": "every 2 hours", "options": {"lasts": "30 seconds"}}),
    ("every evening at 9 turn off the lamp", {"when": "every day at 21:00", "options": {"level": "off"}}),
    ("turn on the fan when the greenhouse is above 30", {"when": "greenhouse.temperature above 30", "output": "fan"}),
    ("if the greenhouse gets below 5 start the heater for 20 minutes", {"options": {"lasts": "20 minutes"}}),
    ("turn off the heater when the greenhouse is above 20", {"output": "heater", "options": {"level": "off"}}),
]


@each_row(("text", "arguments"), RULES, ids=[case[0] for case in RULES])
def test_a_wish_becomes_a_rule_that_can_be_followed(text, arguments):
    tool, found = called(text)
    assert tool == "rule"
    assert found.pop("action") == "add"
    assert arguments.items() <= found.items()
    written = found | found.pop("options", {})
    assert rules.parse_rule("x", written, NOW).condition


NAMED = [
    ("delete rule 2", "2"),
    ("remove the second rule", "2"),
    ("delete the rule pump", "pump"),
    ("remove the greenhouse temperature rule", "greenhouse_temperature"),
]


@each_row(("text", "name"), NAMED)
def test_a_rule_is_removed_by_its_number_or_name(text, name):
    assert called(text) == ("rule", {"action": "remove", "name": name})


OTHERS = [
    ("turn the valve off", "output"),
    ("open the valve for 5 minutes", "output"),
    ("is it above 35?", "sensor_read"),
    ("is it above 35 in the greenhouse?", "sensor_read"),
    ("tell me whether it is above 35", "sensor_read"),
    ("tell me if it is above 35", ""),  # a rule, for whom no sensor is named: which one is asked
    ("is the greenhouse above 35?", "sensor_read"),
    ("how warm is it?", "sensor_read"),
    ("is it warm in the greenhouse today?", "sensor_read"),
    ("when did I last water the tomatoes?", "memory_search"),
    ("what did I say about the temperature yesterday?", "memory_search"),
    ("is your voltage stable", "board_status"),
    ("cancel reminder 3", "cron"),
    ("turn on the pump at 6", "cron"),
    ("turn on the pump tomorrow at 6", "cron"),
    ("the pump runs every day at 6", ""),
    ("every time it rains the shed floods", ""),
    ("do not tell me when the greenhouse is above 35", ""),
    ("tell me when the kettle boils", ""),
    ("what is the rule for tomatoes?", ""),
    ("the rule of thumb is 20 percent", ""),
    ("delete all rules", ""),
    ("why was it so cold last night?", ""),
    ("how hot was the summer of 1976", ""),
    ("what happened yesterday in the greenhouse", ""),
    ("it was hot yesterday", ""),
]


@each_row(("text", "tool"), OTHERS, ids=[case[0] for case in OTHERS])
def test_what_only_looks_like_it_is_something_else(text, tool):
    assert called(text)[0] == tool


@each_row("text", ["tell me when it gets above 35", "when it is above 30 turn on the fan"])
def test_a_rule_needs_a_sensor(text):
    events = list(provider().events(request(text)))
    assert events[0].text.startswith("Which sensor?")


def provider():
    return IntentProvider([SHIPPED], unlisted={"rule", "sensor_history"})


def request(text):
    return Request("", (Message("user", text),), ({"name": "sensor_list"}, {"name": "sensor_read"}), 100, 0.0)


@each_row("text", ["tell me when the greenhouse is above 35", "how warm was it yesterday?"])
def test_a_tool_that_no_model_is_told_of_is_used(text):
    assert isinstance(next(provider().events(request(text))), ToolCall)


def test_without_a_history_a_trend_is_a_reading():
    assert MATCHER.match("is it getting warmer?", {"sensor_read"}).tool == "sensor_read"


def test_a_pattern_without_its_slots_is_left_out():
    data = {
        "slots": {"hot": {"kind": "value"}, "long": {"kind": "length"}},
        "intents": {
            "x": {
                "tool": "t",
                "templates": "above {hot} [for {long}]",
                "make": {"when": "> {hot} for {long}\n> {hot}", "more.lasts": "{long}"},
            }
        },
    }
    matcher = IntentMatcher([{"words": SHIPPED["words"]}, data])
    assert matcher.match("above 5").arguments == {"when": "> 5"}
    assert matcher.match("above 5 for an hour").arguments == {"when": "> 5 for 1 hour", "more": {"lasts": "1 hour"}}

"""A conversation without a model: "it", bare answers, corrections, and several wishes in one sentence."""

import json
from pathlib import Path

from grammars import load_shipped, refusals
from rows import each_row

from picoclaw.intents.provider import IntentProvider
from picoclaw.messages import Message, Request, Text, ToolCall

SHIPPED = load_shipped()
INTENTS = IntentProvider([SHIPPED])
TOOLS = {intent["tool"] for intent in SHIPPED["intents"].values() if intent.get("tool")} - {"first_run"}
RESULTS = {
    ("cron", "add"): "reminder 5 is kept for 19:00 (in 9 h): feed the fish (told in an open chat)",
    (
        "cron",
        "list",
    ): "6: 09:45 (in 9 min) Time is up.\n1: 19:00 (in 9 h) feed the fish\n4: every day at 09:00 the tank",
    ("cron", "move"): "reminder 5 is kept for 20:00 (in 10 h): feed the fish",
    ("rule", "list"): "1. frost: when it is below 5\n2. heat: when it is above 30",
    ("rule", "add"): "error: which sensor? temperature is measured by greenhouse, outside; name one",
}

REFUSED = refusals()


def talk(*lines, minutes=1, results=RESULTS, provider=INTENTS):
    """The calls or the words that each line leads to; each comes some minutes after the one before."""
    messages, heard = [], []
    for number, line in enumerate(lines):
        at = number * minutes
        head = f"<moment>Monday 2026-11-23 {9 + at // 60:02}:{at % 60:02} UTC (UTC+0000)</moment>\n"
        messages.append(Message("user", head + line))
        calls = []
        while True:
            request = Request("", tuple(messages), tuple({"name": name} for name in sorted(TOOLS)), 100, 0.0)
            events = list(provider.events(request))
            made = [event for event in events if isinstance(event, ToolCall)]
            if not made:
                break
            calls += made
            messages.append(Message("assistant", "", tuple(made)))
            for call in made:
                result = results.get((call.name, call.arguments.get("action", "")), "done")
                messages.append(Message("tool", result, call_id=call.id))
        text = "".join(event.text for event in events if isinstance(event, Text))
        messages.append(Message("assistant", text))
        heard.append([(call.name, call.arguments) for call in calls] or text)
    return heard


def read(**arguments):
    return [("sensor_read", arguments)]


def past(**arguments):
    return [("sensor_history", arguments)]


def output(action, name, **more):
    return ("output", {"action": action, "name": name} | more)


def warns(when):
    notify = when.replace(".", ": ")
    return [("rule", {"action": "add", "when": when, "notify": notify})]


NOTE = "[id:1] memory/202611/20261123.md:1-3 (2026-11-23) 1.00 - 09:00 (chat terminal) the fuses are in the tin"
LIST = ("cron", {"action": "list"})
RULES = ("rule", {"action": "list"})
WARM = "how warm is it in the greenhouse"
GREENHOUSE = {"sensor": "greenhouse", "quantity": "temperature"}
CONVERSATIONS = [
    (["can you bring that fish reminder of mine to 2 pm"], "I have done nothing: that was not plainly an order."),
    (["can you bring that fish reminder of mine to 2 pm", "what are my reminders", "yes"], "A plain yes answers nothing"),
    (["Kindly resume the milkman reminder from today", "yes"], "A plain yes answers nothing"),
    (["give the frost rule a wee rest for now"], "I have done nothing: that was not plainly an order."),
    (["change the frost rule to 3 degrees"], [RULES, ("rule", {"action": "change", "name": "1", "when": "3"})]),
    (["Lower the limit in the frost rule from 5 to 2.5"], [RULES, ("rule", {"action": "change", "name": "1", "when": "2.5"})]),
    (["Can you turn on the fan?"], "I have done nothing yet. Do you mean: turn on the fan? Say yes"),
    (["Can you turn on the fan?", "yes"], [output("set", "fan", level="on")]),
    (["turn on the fan and the pump at 8 for 1 minute"], 'I have done nothing yet. I understand "turn on the fan", but not "the pump at 8 for 1 minute".'),
    (["note that I fed the cat and remind me again in a fortnight"], "I have done nothing yet."),
    (["where is the greenhouse sensor?"], [("sensor_list", {})]),
    (["do you have anything to measure the humidity?"], [("sensor_list", {})]),
    ([WARM, "and the humidity?"], read(sensor="greenhouse", quantity="humidity")),
    ([WARM, "what about the cellar"], read(sensor="cellar", quantity="temperature")),
    ([WARM, "and yesterday?"], past(**GREENHOUSE, when="yesterday")),
    ([WARM, "and yesterday?", "and now?"], read(**GREENHOUSE)),
    ([WARM, "and yesterday?", "and the humidity?"], past(sensor="greenhouse", quantity="humidity", when="yesterday")),
    ([WARM, "tell me when it gets above 30"], warns("greenhouse.temperature above 30")),
    ([WARM, "and the humidity?", "let me know if it drops below 40"], warns("greenhouse.humidity below 40")),
    ([WARM, "tell me when it gets below 5 in the cellar"], warns("cellar.temperature below 5")),
    ([WARM, "tell me when the humidity in the cellar is above 80"], warns("cellar.humidity above 80")),
    ([WARM, "show me that as a graph"], past(**GREENHOUSE, chart=True)),
    (["draw the humidity today", "and the temperature?"], past(quantity="temperature", when="today", chart=True)),
    ([WARM, "is it too damp in there?"], read(sensor="greenhouse", quantity="humidity")),
    ([WARM, "what did I just ask you?"], f"In this conversation you said:\n- {WARM}"),
    ([WARM, "what did you say"], "I said:\ndone"),
    ([WARM, "thanks", "and yesterday?"], past(**GREENHOUSE, when="yesterday")),
    (["remind me at 6pm to close the windows", "and at 8pm to lock up"], [("cron", {"action": "add", "at": "20:00", "message": "lock up"})]),
    (["turn on the fan and the light", "turn both off"], [output("off", "fan"), output("off", "light")]),
    (["turn on the fan and the light", "turn it off"], "Which one do you mean: fan, light?"),
    (["how long was the fan on yesterday", "on for 10 seconds"], [output("set", "fan", level="on", seconds=10)]),
    (["fan on for 10 minutes", "for 5 more minutes"], [output("set", "fan", level="on", seconds=840)]),
    (["fan on for 10 minutes", "five extra minutes please"], [output("set", "fan", level="on", seconds=840)]),
    (["turn on the light", "Enough light for one day, switch it off"], "I have done nothing"),
    (["turn on the light", "that's enough light for one day, off"], "I have done nothing"),
    (["turn on the fan", "that's enough, fan off"], [output("off", "fan")]),
    (["turn on the fan", "turn it off again"], [output("off", "fan")]),
    (["turn on the fan", "is it on?", "turn it off"], [output("off", "fan")]),
    (["fan on for 10 minutes", "make it 5 minutes"], [output("set", "fan", level="on", seconds=300)]),
    (["fan on for 10 minutes", "no, for 5 minutes"], [output("set", "fan", level="on", seconds=300)]),
    (["turn on the fan", "turn it off?"], REFUSED),
    (["turn on the fan", "don't turn it off"], "All right. That does not switch fan off"),
    (["what are my reminders", "cancel the second one", "move the first to 9 pm"], [("cron", {"action": "move", "job": 6, "at": "21:00"})]),
    (["turn on the fan", "for ten minutes"], [output("set", "fan", level="on", seconds=600)]),
    (["turn off the fan", "for ten minutes"], "What shall I switch on for that long?"),
    (["turn on the fan", "turn it off", "for ten minutes"], "What shall I switch on for that long?"),
    (["turn on the fan", "turn it off", "no, for ten minutes"], "What shall I switch on for that long?"),
    (["turn on the fan for an hour", "and off again"], [output("off", "fan")]),
    (["turn on the fan for an hour", "turn off the fan", "back on"], [output("set", "fan", level="on")]),
    (["how warm is it", "off again"], REFUSED),
    (["turn the light and the fan on", "turn it off"], "Which one do you mean: light, fan?"),
    (["turn it off"], "I am not sure what that is about. Please name it."),
    (["turn it off", "the fan"], [output("off", "fan")]),
    (["turn it off", "how warm is it outside"], read(sensor="outside", quantity="temperature")),
    (["turn it off?", "the fan"], [("output", {"action": "list"})]),
    (["remind me to water the plants", "in half an hour"], [
        ("cron", {"action": "add", "message": "water the plants", "at_seconds": 1800})
    ]),
    (["remind me to water the plants", "every day at 8 and at 18:30"], [
        ("cron", {"action": "add", "message": "water the plants", "cron_expr": "0 8 * * *"}),
        ("cron", {"action": "add", "message": "water the plants", "cron_expr": "30 18 * * *"}),
    ]),
    (["remind me", "to stretch", "at 10:30"], [("cron", {"action": "add", "message": "stretch", "at": "10:30"})]),
    (["remind me to water the plants", WARM], read(**GREENHOUSE)),
    (["remind me at 7 to feed the fish", "no, at 8:15"], [("cron", {"action": "move", "job": 5, "at": "20:15"})]),
    (["remind me at 7 to feed the fish", "cancel that"], [("cron", {"action": "remove", "job": 5})]),
    (["remind me at 7 to feed the fish", "move it to 9:30"], [("cron", {"action": "move", "job": 5, "at": "21:30"})]),
    (["remind me at 7 to feed the fish", "snooze it for 5 minutes"], [
        ("cron", {"action": "snooze", "job": 5, "at_seconds": 300})
    ]),
    (["what reminders do I have", "delete the second one"], [("cron", {"action": "remove", "job": 1})]),
    (["what reminders do I have", "delete the last one"], [("cron", {"action": "remove", "job": 4})]),
    (["what reminders do I have", "delete it"], "Which one do you mean: 6, 1, 4?"),
    (["what reminders do I have", "delete it", "4"], [("cron", {"action": "remove", "job": 4})]),
    (["cancel the reminder", "the second one"], [("cron", {"action": "remove", "job": 1})]),
    (["cancel the reminder", "the tank one"], [("cron", {"action": "remove", "job": 4})]),
    (["what reminders do I have", "delete it", "the second one"], [("cron", {"action": "remove", "job": 1})]),
    (["turn the light and the fan on", "turn it off", "the last one"], [output("off", "fan")]),
    (["cancel the reminder", "the fifth one"], REFUSED),
    (["turn the light and the fan on", "turn it off", "Fan."], [output("off", "fan")]),
    (["turn the light and the fan on", "turn it off", "the pump"], [("output", {"action": "list"})]),
    (["what reminders do I have", "delete the sixth one"], REFUSED),
    (["move the fish to 9:30"], [LIST, ("cron", {"action": "move", "job": 1, "at": "09:30"})]),
    (["move the feeding to 9"], [LIST, ("cron", {"action": "move", "job": 1, "at": "09:00 o'clock"})]),
    (["postpone the fish by an hour"], [LIST, ("cron", {"action": "snooze", "job": 1, "at_seconds": 3600})]),
    (["rename the tank reminder to filter"], [LIST, ("cron", {"action": "update", "job": 4, "message": "filter"})]),
    (["when is the tank reminder due"], [LIST, ("cron", {"action": "get", "job": 4})]),
    (["pause the tank reminder"], [LIST, ("cron", {"action": "disable", "job": 4})]),
    (["stop reminding me about the fish"], [LIST, ("cron", {"action": "remove", "job": 1})]),
    (["delete the tank reminder and turn the fan on"], [
        LIST, ("cron", {"action": "remove", "job": 4}), output("set", "fan", level="on")
    ]),
    (["delete the cat reminder"], [LIST]),
    (["delete the every day reminder", "delete it"], "I am not sure what that is about."),
    (["don't cancel the reminder"], "I have left the reminders as they are."),
    (["did you cancel the reminder?"], "I have left the reminders as they are."),
    (["should i cancel the reminder"], "I have left the reminders as they are."),
    (["i cancelled the reminder"], "I have done nothing: that was not plainly an order."),
    (["pause the tank reminder", "resume it"], [("cron", {"action": "enable", "job": 4})]),
    (["what rules do I have", "delete the second one"], [("rule", {"action": "remove", "name": "2"})]),
    (["delete the rule", "the second one"], [("rule", {"action": "remove", "name": "2"})]),
    (["pause the rule", "1"], [("rule", {"action": "pause", "name": "1"})]),
    (["tell me when it gets below 5 degrees", "greenhouse"], [
        ("rule", {"action": "add", "when": "greenhouse.temperature below 5", "notify": "greenhouse: temperature below 5"})
    ]),
    (["turn the fan on and order a pizza"], 'I have done nothing yet. I understand "turn the fan on"'),
    (["turn the fan on and order a pizza", "yes"], [output("set", "fan", level="on")]),
    (["turn the fan on and order a pizza", "no"], "All right."),
]  # fmt: skip


@each_row(("lines", "expected"), CONVERSATIONS, ids=["; ".join(lines) for lines, _ in CONVERSATIONS])
def test_what_was_spoken_of_is_meant(lines, expected):
    heard = talk(*lines)[-1]
    assert heard == expected if isinstance(expected, list) else heard.startswith(expected)


@each_row(
    "said",
    [
        "tell me when it gets above 30",
        "and yesterday?",
        "turn it off again",
        "no, at 8:15",
        "yes",
        "cancel it",
    ],
)
def test_after_a_quarter_of_an_hour_it_has_to_be_named(said):
    for before in (WARM, "turn on the fan", "remind me at 7 to feed the fish", "turn the fan on and order a pizza"):
        assert isinstance(talk(before, said, minutes=16)[-1], str), before


WISHES = [
    ("turn the fan on and turn the light off", [output("set", "fan", level="on"), output("off", "light")]),
    ("cancel reminder 3 and 4", [("cron", {"action": "remove", "job": 3}), ("cron", {"action": "remove", "job": 4})]),
    ("turn on the fan and the light", [output("set", "fan", level="on"), output("set", "light", level="on")]),
    ("turn both the fan and the light off", [output("off", "fan"), output("off", "light")]),
    ("turn the fan on and read the light", [output("set", "fan", level="on"), *read(quantity="light")]),
    ("turn off the light and the fan", [output("off", "light"), output("off", "fan")]),
    ("turn the light and the fan off", [output("off", "light"), output("off", "fan")]),
    ("turn the fan on and remind me in 10 minutes to turn it off", [
        output("set", "fan", level="on"),
        ("cron", {"action": "add", "at_seconds": 600, "message": "turn it off"}),
    ]),
    ("remind me at 8:00 to water and at 9:00 to feed the cat", [
        ("cron", {"action": "add", "at": "08:00", "message": "water"}),
        ("cron", {"action": "add", "at": "09:00", "message": "feed the cat"}),
    ]),
    ("remind me at 7 am and 7 pm to take pills", [
        ("cron", {"action": "add", "message": "take pills", "at": "07:00"}),
        ("cron", {"action": "add", "message": "take pills", "at": "19:00"}),
    ]),
    ("remind me at 8, 12 and 18:30 to drink water", [
        ("cron", {"action": "add", "message": "drink water", "at": "08:00"}),
        ("cron", {"action": "add", "message": "drink water", "at": "12:00"}),
        ("cron", {"action": "add", "message": "drink water", "at": "18:30"}),
    ]),
    ("remind me every day at 7:30 and 19:00 to feed the cat", [
        ("cron", {"action": "add", "message": "feed the cat", "cron_expr": "30 7 * * *"}),
        ("cron", {"action": "add", "message": "feed the cat", "cron_expr": "0 19 * * *"}),
    ]),
    ("remind me every day at 9 until friday to water the seedlings", [
        ("cron", {"action": "add", "message": "water the seedlings", "cron_expr": "0 9 * * * until friday"}),
    ]),
    ("remind me every weekday until 2026-12-24 at 8 to open the calendar", [
        ("cron", {"action": "add", "message": "open the calendar", "cron_expr": "0 8 * * 1-5 until 2026-12-24"}),
    ]),
    ("remind me twice a day to check the traps", [
        ("cron", {"action": "add", "message": "check the traps", "cron_expr": "0 8,20 * * *"}),
    ]),
    ("remind me twice a day at 9 and 18 to check the traps", [
        ("cron", {"action": "add", "message": "check the traps", "cron_expr": "0 9,18 * * *"}),
    ]),
    ("remind me monday to friday at 7 to walk the dog", [
        ("cron", {"action": "add", "message": "walk the dog", "cron_expr": "0 7 * * 1-5"}),
    ]),
    ("remind me at 8:00 to water the plants and feed the cat", [
        ("cron", {"action": "add", "at": "08:00", "message": "water the plants and feed the cat"})
    ]),
    ("note that the fan and the pump are on", [("memory_store", {"text": "the fan and the pump are on"})]),
    ("how warm is it and is the fan on", [("sensor_read", {"quantity": "temperature"}), ("output", {"action": "list"})]),
]  # fmt: skip


@each_row(("text", "calls"), WISHES, ids=[text for text, _ in WISHES])
def test_wishes_in_one_sentence_are_done_in_order(text, calls):
    assert talk(text)[0] == calls


@each_row("text", [
    "turn the fan on and order a pizza",
    "should I turn the fan on and turn the light off?",
    "she said turn the fan on and turn the light off",
    "I turned the fan on and the light off",
    "don't turn the fan on and the light off",
    "turn the fan on and don't turn the light off",
    "turn the fan on and the moon off, then tell me a joke",
])  # fmt: skip
def test_nothing_acts_where_one_wish_is_not_understood(text):
    heard = talk(text)[0]
    assert isinstance(heard, str) or [name for name, _ in heard] == ["sensor_read"]


def test_each_wish_has_its_own_answer():
    results = {("output", "set"): "fan: on", ("output", "off"): "error: light was refused"}
    messages = [Message("user", "turn the fan on and turn the light off")]
    request = Request("", tuple(messages), tuple({"name": name} for name in sorted(TOOLS)), 100, 0.0)
    calls = [event for event in INTENTS.events(request) if isinstance(event, ToolCall)]
    messages.append(Message("assistant", "", tuple(calls)))
    messages += [Message("tool", results["output", call.arguments["action"]], call_id=call.id) for call in calls]
    events = INTENTS.events(request._replace(messages=tuple(messages)))
    assert [e.text for e in events if isinstance(e, Text)] == ["fan: on\nThat did not work: light was refused"]


PAST = """cellar temperature, 2026-11-23 00:00 to 2026-11-23 09:35 (9 h 35 min), 114 readings:
min 12.21 °C at 03:44, max 13.09 °C at 09:29, mean 12.57 °C, rising 0.06 °C an hour
shed temperature, 2026-11-23 00:00 to 2026-11-23 09:35 (9 h 35 min), 1 reading:
min 2.60 °C at 03:00, max 2.60 °C at 03:00, mean 2.60 °C; too little for a trend"""
COMPARED = """cellar temperature, 2026-11-22 00:00 to 2026-11-23 00:00 (1 d), 288 readings:
min 12.21 °C at 03:44, max 13.09 °C at 09:29, mean 12.57 °C, rising 0.06 °C an hour
compared with 2026-11-23 00:00 to 2026-11-23 09:35: min 11.00 °C (now +1.21 °C), max 13.00 °C (now +0.09 °C), mean 12.12 °C (now +0.45 °C)"""
OUTPUTS = "pump (pump, gpio GPIO17): off\nfan (motor, gpio GPIO27): on for 10 s"
BOARD = "board: a Pi\ndisk: 24.8 of 31.0 GB free (20 % used)\nuptime: 1 d 1 h"
ANSWERS = [
    ("what was the highest temperature today", PAST, "cellar temperature today: highest 13.09 °C, at 09:29\nshed temperature today: highest 2.60 °C, at 03:00"),
    ("how cold did it get today", PAST, "cellar temperature today: lowest 12.21 °C, at 03:44\nshed temperature today: lowest 2.60 °C, at 03:00"),
    ("average temperature today", PAST, "cellar temperature today: 12.57 °C on average"),
    ("is it getting warmer?", PAST, "cellar temperature in the last 3 hours: rising 0.06 °C an hour, between 12.21 °C and 13.09 °C"),
    ("how warm was it today", PAST, "cellar temperature today: between 12.21 °C and 13.09 °C, 12.57 °C on average"),
    ("how warm was it yesterday at 3", PAST, "cellar temperature at about 15:00 yesterday: 12.57 °C"),
    ("was yesterday warmer than today?", COMPARED, "Yes: cellar temperature was 12.57 °C on average yesterday, 12.12 °C today (0.45 °C more)."),
    ("was yesterday colder than today?", COMPARED, "No: cellar temperature was 12.57 °C on average yesterday, 12.12 °C today (0.45 °C more)."),
    ("compare yesterday with today", COMPARED, "cellar temperature: 12.57 °C on average yesterday, 12.12 °C today (0.45 °C more)"),
    ("what was the lowest, highest and mean temperature today", PAST, "cellar temperature today: between 12.21 °C and 13.09 °C"),
    ("how warm was it three weeks ago", "error: nothing was measured 21 days ago: the record goes back to 2026-11-17 22:00",
     "That did not work: nothing was measured then: the record goes back to 2026-11-17 22:00"),
    ("did the cellar stay above 12.5 today", PAST, "No: cellar temperature went down to 12.21 °C, at 03:44.\nNo: shed"),
    ("did it stay below 20 today in the cellar", PAST, "Yes: cellar temperature reached 13.09 °C at most, at 09:29."),
    ("is the disk filling up", BOARD, "disk: 24.8 of 31.0 GB free (20 % used)"),
    ("how warm was it today", "nothing was measured", "nothing was measured"),
    ("is the fan on?", OUTPUTS, "fan: on for 10 s"),
    ("is the boiler on?", OUTPUTS, "There is no output 'boiler' here."),
    ("is anything on?", OUTPUTS, "fan: on for 10 s"),
    ("is everything off?", OUTPUTS, "fan: on for 10 s"),
    ("what's running?", OUTPUTS.replace("on for 10 s", "off"), "Nothing is on."),
    ("is anything on?", "no answer", "no answer"),
    ("what did I note about basil?", "memory/202611/20261123.md:3- 09:10 plant list: basil", "2026-11-23 09:10 plant list: basil"),
    ("how much disk space is left", BOARD, "disk: 24.8 of 31.0 GB free (20 % used)"),
    ("how long have you been up", BOARD, "uptime: 1 d 1 h"),
    ("are you ok?", BOARD, "Nothing is wrong with the board: "),
    ("is anything wrong?", f"{BOARD}\nmemory: 3 of 427 MB available (bad)", "memory: 3 of 427 MB available"),
    ("is anything wrong?", "no answer", "no answer"),
    ("what is your ip address", f"{BOARD}\naddress: pi.local or 10.0.0.2", "My address in this network is pi.local or 10.0.0.2. "),
    ("is the greenhouse warmer than outside?", "{sensor}: temperature {value} °C (read just now)",
     "greenhouse: temperature 10 °C (read just now)\noutside: temperature 7 °C (read just now)\nYes: greenhouse is 3.0 °C above outside."),
    ("is it colder outside than in the greenhouse?", "{sensor}: temperature {value} °C (read just now)",
     "outside: temperature 10 °C (read just now)\ngreenhouse: temperature 7 °C (read just now)\nNo: outside is 3.0 °C above greenhouse."),
    ("which is warmer, the greenhouse or outside?", "{sensor}: temperature {value} °C (read just now)",
     "greenhouse: temperature 10 °C (read just now)\noutside: temperature 7 °C (read just now)\ngreenhouse is 3.0 °C above outside."),
    ("is it colder than outside in the greenhouse?", "{sensor}: temperature {value} °C (read just now)",
     "outside: temperature 10 °C (read just now)\ngreenhouse: temperature 7 °C (read just now)\noutside is 3.0 °C above greenhouse."),
    ("which is colder, the cellar or the shed?", "no number", "no number\nno number"),
]  # fmt: skip


@each_row(("text", "result", "answer"), ANSWERS)
def test_what_was_asked_for_is_answered_in_a_sentence(text, result, answer):
    offered = tuple({"name": name} for name in sorted(TOOLS))
    messages = (Message("user", text),)
    calls = [event for event in INTENTS.events(Request("", messages, offered, 100, 0.0)) if isinstance(event, ToolCall)]
    told = [
        Message("tool", result.format(sensor=call.arguments.get("sensor"), value=10 - 3 * number), call_id=call.id)
        for number, call in enumerate(calls)
    ]
    messages = (*messages, Message("assistant", "", tuple(calls)), *told)
    events = INTENTS.events(Request("", messages, offered, 100, 0.0))
    assert "".join(event.text for event in events if isinstance(event, Text)).startswith(answer)


def test_two_reminders_share_the_day_that_is_named_once():
    heard = talk("remind me at 9:00 tomorrow to spray and at 10:00 to clean")[0]
    assert heard == [
        ("cron", {"action": "add", "at": "tomorrow 09:00", "message": "spray"}),
        ("cron", {"action": "add", "at": "tomorrow 10:00", "message": "clean"}),
    ]


def test_the_time_is_told_without_a_tool():
    assert talk("what time is it?") == ["It is 09:00 on Monday, 2026-11-23."]


def test_all_figures_are_told_when_they_are_asked_for():
    heard = talk("how warm was the cellar yesterday", "more details")
    assert heard[0] == heard[1] == past(sensor="cellar", quantity="temperature", when="yesterday")


STRANGERS = json.loads((Path(__file__).parent / "data/intents_strangers.json").read_text("utf-8"))
"""Conversations of somebody who had not seen the data, each line with its calls, "" where it needs none; null where it is not understood yet."""


@each_row("lines", STRANGERS, ids=[lines[0][0] for lines in STRANGERS])
def test_what_a_stranger_said_is_understood(lines):
    for (said, wanted), heard in zip(lines, talk(*(said for said, _ in lines)), strict=True):
        found = [list(call) for call in heard] if isinstance(heard, list) else ""
        assert wanted in (None, found), said


GARDEN = dict.fromkeys(("fan", "pump", "heater", "grow_light"), "output") | dict.fromkeys(
    ("greenhouse", "outdoor", "soil", "tank", "battery"), "sensor"
)
GARDENERS = json.loads((Path(__file__).parent / "data/intents_gardener.json").read_text("utf-8"))
"""The same of somebody who was told of this board, of what was judged right; a text is how the answer begins."""
IN_GARDEN = IntentProvider([SHIPPED], declared=GARDEN.copy)


@each_row("lines", GARDENERS, ids=[lines[0][0] for lines in GARDENERS])
def test_what_a_gardener_said_is_understood(lines):
    results = RESULTS | {("rule", "add"): "the rule is kept: heater: when it is cold", ("memory_search", ""): NOTE}
    heard = talk(*(said for said, _ in lines), results=results, provider=IN_GARDEN)
    for (said, wanted), told in zip(lines, heard, strict=True):
        found = [list(call) for call in told] if isinstance(told, list) else told
        assert found.startswith(wanted) if isinstance(found, str) else found == wanted, (said, found)


WAITS = "error: rule was not done yet: it waits for the owner's yes as number 3 (`/yes 3`)\nwhich means: fan: every day at 13:00: switch fan on"


@each_row(
    ("said", "is_waiting", "answer"),
    [
        ("yes", True, "/yes 3"),
        ("Yes, please", True, "/yes 3"),
        ("ok, thanks", True, "/yes 3"),
        ("thanks", True, ""),
        ("no, thanks", True, "/no 3"),
        ("never mind", True, "/no 3"),
        ("delete it again", True, "/no 3"),
        ("scrap that", True, "/no 3"),
        ("delete it again", False, ""),  # it was done: now the rule is deleted
        ("pause it", True, ""),  # which is no end
        ("delete the lamp rule", True, ""),
        ("how warm is it", True, ""),
        ("actually no, forget it, undo that", True, "/no 3"),
        ("no, cancel, please", True, "/no 3"),
        ("yes but", True, ""),
        ("thanks", True, ""),
    ],
)
def test_what_waits_for_a_yes_is_withdrawn_in_other_words(said, is_waiting, answer):
    call = ToolCall("1", "rule", {"action": "add", "output": "fan", "when": "every day at 13:00"})
    turn = [
        Message("user", "fan on every day at 13:00"),
        Message("assistant", "", (call,)),
        Message("tool", WAITS, call_id="1"),
        Message("assistant", "Shall I keep this rule?"),
    ]
    assert INTENTS.read_answer([turn], said, lambda number: number == 3 and is_waiting) == [answer] * (answer != "")


@each_row(("first", "answer"), [(WAITS, "/no 4"), ("the rule is kept: fan: every day at 13:00: switch fan on", "")])
def test_a_change_that_waits_is_withdrawn_where_its_rule_was_only_shown(first, answer):
    heard = []
    for number, (said, action, result) in enumerate(
        [("fan on every day at 13:00", "add", first), ("make it 14:00", "change", WAITS.replace("3", "4"))]
    ):
        call = {"action": action, "output": "fan", "when": f"every day at {13 + number}:00", "name": "fan"}
        made = ToolCall(f"{number}", "rule", call)
        told = Message("tool", result, call_id=made.id)
        heard.append([Message("user", said), Message("assistant", "", (made,)), told, Message("assistant", result)])
    assert INTENTS.read_answer(heard, "delete it", lambda number: number == 4) == [answer] * (answer != "")


@each_row(
    ("said", "expected"),
    [
        ("delete the lamp one", ["/no 4"]),
        ("cancel the fan rule", ["/no 3"]),
        ("delete the first one", ["/no 3"]),
        ("delete the last one", ["/no 4"]),
        ("delete both", ["/no 3", "/no 4"]),
        ("delete the pump one", []),
        ("pause both", []),
        ("yes to the fan one", ["/yes 3"]),
        ("yes to both", ["/yes 3", "/yes 4"]),
        ("no to the lamp", ["/no 4"]),
        ("not the first one", ["/no 3"]),
        ("yes", ["/yes 4"]),
        ("ok perfect", []),  # of which of them?
    ],
)
def test_one_of_several_rules_that_wait_is_named(said, expected):
    heard = []
    for number, name in ((3, "fan"), (4, "lamp")):
        made = ToolCall(f"{number}", "rule", {"action": "add", "output": name, "when": "every day at 13:00"})
        result = WAITS.replace("number 3", f"number {number}").replace("fan", name)
        asked = Message("user", f"{name} on every day at 13:00")
        told = Message("tool", result, call_id=made.id)
        heard.append([asked, Message("assistant", "", (made,)), told, Message("assistant", "Shall I keep this rule?")])
    provider = IntentProvider([SHIPPED], declared=lambda: dict.fromkeys(("fan", "lamp", "pump"), "output"))
    assert provider.read_answer(heard, said, lambda number: number in {3, 4}) == expected


def test_a_list_that_is_looked_at_does_not_change_what_waits():
    heard = []
    for number, (said, call, result) in enumerate(
        [
            ("fan on every day at 13:00", {"action": "add", "output": "fan", "when": "every day at 13:00"}, WAITS),
            ("what rules are there", {"action": "list"}, "no rules"),
        ]
    ):
        made = ToolCall(f"{number}", "rule", call)
        told = Message("tool", result, call_id=made.id)
        heard.append([Message("user", said), Message("assistant", "", (made,)), told, Message("assistant", result)])
    assert INTENTS.read_answer(heard, "delete it", lambda number: number == 3) == ["/no 3"]
    assert INTENTS.read_answer(heard, "yes", lambda number: number == 3) == []  # which of them is not said


def test_a_rule_that_was_shown_is_it():
    heard = talk("fan on every day at 13:00", "delete it again", results=RESULTS | {("rule", "add"): WAITS})
    assert heard[1] == [("rule", {"action": "remove", "name": "fan"})]


FROM_SUNDAY = [
    (
        "rule",
        {
            "action": "change",
            "name": "fan",
            "output": "fan",
            "when": "every day at 13:00",
            "options": {"paused": "until sunday"},
        },
    )
]


@each_row(
    ("said", "is_waiting", "begins"),
    [
        ("skip it tomorrow", True, "That rule is not kept yet"),
        ("pause that till Sunday, I'm away", True, "That rule is not kept yet"),
        ("pause it", True, "That rule is not kept yet"),
        ("not tomorrow", True, "That rule is not kept yet"),
        ("switch it back on", True, "That rule is not kept yet"),
        ("is it on?", True, "That rule is not kept yet"),
        ("did you set it?", True, "That rule is not kept yet"),
        ("not before sunday", True, FROM_SUNDAY),
        ("from sunday on", True, FROM_SUNDAY),
        ("when does it run next?", False, [("rule", {"action": "list"})]),
        ("skip it tomorrow", False, [("rule", {"action": "pause", "name": "fan", "when": "tomorrow"})]),
        ("pause that till Sunday", False, [("rule", {"action": "pause", "name": "fan", "when": "until sunday"})]),
        ("not before sunday", False, [("rule", {"action": "pause", "name": "fan", "when": "until sunday"})]),
        ("from sunday on", False, [("rule", {"action": "pause", "name": "fan", "when": "until sunday"})]),
    ],
)
def test_what_is_said_of_a_rule_counts_by_whether_it_waits_for_its_yes(said, is_waiting, begins):
    waiting = {3: "fan: every day at 13:00: switch fan on"} if is_waiting else {}
    results = RESULTS | {("rule", "add"): WAITS}
    heard = talk(
        "fan on every day at 13:00", said, results=results, provider=IntentProvider([SHIPPED], waiting=waiting.copy)
    )
    assert heard[1] == begins if isinstance(begins, list) else heard[1].startswith(begins)
    assert not is_waiting or begins == FROM_SUNDAY or "/yes 3" in heard[1]


def test_a_rule_keeps_its_name_beside_an_output_that_has_its_beginning():
    results = RESULTS | {("rule", "add"): "the rule is kept: pump_2: every day at 09:00: switch pump on for 5 min."}
    provider = IntentProvider([SHIPPED], declared=lambda: {"pump": "output"})
    heard = talk("run the pump every day at 9 for 5 minutes", "delete it", results=results, provider=provider)
    assert heard[1] == [("rule", {"action": "remove", "name": "pump_2"})]


def test_what_no_reminder_is_called_may_be_a_rule():
    results = {("cron", "list"): "no reminders", ("rule", "list"): "1. pump: every day at 07:00: switch pump on."}
    heard = talk("skip the pump tomorrow", "skip the fan tomorrow", results=RESULTS | results)
    lists = [("cron", {"action": "list"}), ("rule", {"action": "list"})]
    assert heard == [[*lists, ("rule", {"action": "pause", "name": "1", "when": "tomorrow"})], lists]


@each_row(
    ("said", "confirmed", "asked"),
    [
        (
            "turn the fan on when it is above 28 degrees",
            {"rule"},
            ["temperature above 28", "greenhouse.temperature above 28"],
        ),
        (
            "turn the fan on when it is above 28 degrees",
            set(),
            ["temperature above 28"],
        ),  # it would be kept without a yes
        ("tell me when the temperature is above 28", {"rule"}, ["temperature above 28"]),
    ],
)
def test_a_rule_that_switches_is_shown_for_the_sensor_inside(said, confirmed, asked):
    provider = IntentProvider([SHIPPED], confirmed=lambda: confirmed)
    assert [call["when"] for _, call in talk(said, provider=provider)[0]] == asked


def tell(said, name, result, **how):
    """What is said with the result of the call that a sentence leads to, on a Monday morning."""
    asked = Message("user", f"<moment>Monday 2026-11-23 09:00 UTC (UTC+0000)</moment>\n{said}")
    provider = IntentProvider([SHIPPED], **how)
    offered = ({"name": "cron"}, {"name": "rule"})
    calls = tuple(one for one in provider.events(Request("", (asked,), offered, 9, 0.0)) if isinstance(one, ToolCall))
    heard = [Message("tool", result if one.name == name else "", call_id=one.id) for one in calls]
    messages = (asked, Message("assistant", "", calls), *heard)
    return next(provider.events(Request("", messages, offered, 9, 0.0))).text


def test_a_rule_that_waits_for_its_yes_is_told_with_the_rules():
    waiting = {3: "fan: when it is above 25", 4: "lamp: every day at 17:00"}
    told = tell("what rules have I got now?", "rule", "no rules", waiting=waiting.copy)
    assert told.splitlines() == [
        "no rules",
        "3 waits for your yes and is not kept yet: fan: when it is above 25",
        "4 waits for your yes and is not kept yet: lamp: every day at 17:00",
    ]


JOBS = """5: 17:00 (in 8 h) feed the cat
6: 10:00 (in 1 h) call Tom
3: Sun 2026-11-29 10:00 (in 6 d) call mum
8: Tue 2026-12-01 10:00 (in 8 d) dentist
1: every weekday at 07:15 (UTC), next off pills
2: every tuesday at 19:00 (UTC), next Tue 2026-11-24 19:00 (in 1 d) bins
7: every day at 08:00 (UTC), next Tue 2026-11-24 08:00 (in 23 h) post
4: every 2 h, next 10:10 (in 1 h) drink"""


@each_row(
    ("said", "numbers"),
    [
        ("what have I got on today", "5614"),
        ("anything else set for tonight?", "514"),
        ("what's on tomorrow", "1274"),
        ("so what have I got on tuesday", "1274"),
        ("do I have any reminders for wednesday", "174"),
        ("anything on this weekend?", "374"),
        ("what's due this week", "5631274"),
        ("have I got anything on next week?", "81274"),
        ("list my reminders", "56381274"),
    ],
)
def test_what_comes_on_a_day_is_told(said, numbers):
    assert {row[0] for row in tell(said, "cron", JOBS).splitlines() if row[1] == ":"} == {*numbers}


def test_where_nothing_comes_on_a_day_that_is_told():
    assert tell("what's on tomorrow", "cron", "6: 10:00 (in 1 h) call Tom") == "no reminders"
    paused = (
        "7: every day at 19:00, next 19:00 (in 10 h) (paused from Sat 2026-11-28 00:00 to Sun 2026-11-29 00:00) feed"
    )
    assert tell("what's on tonight", "cron", paused) == paused


def test_a_thing_is_taken_off_a_list_by_its_place():
    rows = " / ".join(f"- 09:0{n} (chat terminal) shopping list: {what}" for n, what in enumerate(("milk", "bread")))
    shown = {("memory_search", ""): f"[id:1] memory/202611/20261123.md:1-3 (2026-11-23) 1.00 {rows}"}
    heard = talk("show my shopping list", "cross off the second one", results=RESULTS | shown)
    assert heard[1] == [("memory_forget", {"text": "shopping list: bread"})]

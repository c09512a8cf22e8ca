"""What a sentence names, in whatever order: frames, where no template says it; declared names; yes to a question."""

import json
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from grammars import refusals
from rows import each_row
from test_intents_languages import answer, home, make_provider, off, on, read  # noqa: F401 - a fixture

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Inbound
from picoclaw.outputs import audit
from picoclaw.times import parse_range
from picoclaw.tools.outputs import format_on_times
from picoclaw.workspace import prepare_home

NAMES = dict.fromkeys(("fan", "pump", "lamp"), "output") | dict.fromkeys(("greenhouse", "outside", "bench"), "sensor")
PAST = "output_history"


@pytest.fixture(scope="module")
def provider(home):  # noqa: F811
    return make_provider(home, declared=NAMES)


def history(**given):
    return [("sensor_history", given)]


def planned(name, level="on", seconds=0, **when):
    given = {"action": "set", "name": name, "level": level} | ({"seconds": seconds} if seconds else {})
    return [("cron", {"action": "add", "kind": "tool", "message": f"output {json.dumps(given)}"} | when)]


SAID = [
    # other words for switching, a level, a length first, and a reason beside the order
    ("get the fan going mate", on("fan")),
    ("Fire up the lamp, it is getting gloomy", on("lamp")),
    ("It's glaring, so put out the lamp please", off("lamp")),
    ("I'd like the lamp on for two hours", on("lamp", seconds=7200)),
    ("Let the fan run for ten minutes, my glasses are dripping", on("fan", seconds=600)),
    ("The fan can go off.", off("fan")),
    ("off with the lamp", off("lamp")),
    ("pump stop!!", off("pump")),
    ("dim the lamp to 30", on("lamp", level="30")),
    ("increase the brightness of the lamp to 85 percent", on("lamp", level="85")),
    ("would you shut the pump down", off("pump")),
    # times in other words
    (
        "remind me at ten thirty to feed the cat",
        [("cron", {"action": "add", "at": "10:30 o'clock", "message": "feed the cat"})],
    ),
    (
        "remind me on the first of June at 8 to feed the cat",
        [("cron", {"action": "add", "at": "1 june 08:00", "message": "feed the cat"})],
    ),
    (
        "remind me wed 19:00 to feed the cat",
        [("cron", {"action": "add", "at": "wednesday 19:00", "message": "feed the cat"})],
    ),
    ("remind me at 7am sharp to feed the cat", [("cron", {"action": "add", "at": "07:00", "message": "feed the cat"})]),
    (
        "jog my memory in 20 minutes about the kettle",
        [("cron", {"action": "add", "at_seconds": 1200, "message": "the kettle"})],
    ),
    (
        "At half seven I need a reminder to take the bins out",
        [("cron", {"action": "add", "at": "07:30 o'clock", "message": "take the bins out"})],
    ),
    # lists, and what needs the list first
    ("chuck grit on the shopping list", [("memory_store", {"text": "shopping list: grit"})]),
    ("add compost to shopping", [("memory_store", {"text": "shopping list: compost"})]),
    ("I need bananas, stick them on the shopping list", [("memory_store", {"text": "shopping list: bananas"})]),
    ("bin the reminder about the vents", [("cron", {"action": "list"})]),
    ("Put the watering reminder on hold for now", [("cron", {"action": "list"})]),
    ("carry on with the vents reminder please", [("cron", {"action": "list"})]),
    ("Pause the frost warning", [("rule", {"action": "pause", "name": "1"})]),
    ("Remove the rule that runs the pump when the bed is dry", [("rule", {"action": "list"})]),
    # declared names by other words, several of them, a level and a time in any order
    ("for ten minutes put the grow light on at 30%", on("lamp", level="30", seconds=600)),
    ("fan and lamp off", off("fan") + off("lamp")),
    ("kill the pump", off("pump")),
    ("fan and lamp off, pump for 90 seconds", off("fan") + off("lamp") + on("pump", seconds=90)),
    ("water the toms for 5 mins", on("pump", seconds=300)),
    ("temps inside and out", read("temperature", "greenhouse") + read("temperature", "outside")),
    ("is it freezing out", read("temperature", "outside")),
    ("warmer inside or outside?", read("temperature", "greenhouse") + read("temperature", "outside")),
    (
        "how cold in the greenhouse did it get yesterday",
        history(sensor="greenhouse", quantity="temperature", when="yesterday"),
    ),
    ("has the pump run today", [(PAST, {"name": "pump", "when": "today"})]),
    ("who turned the lamp on", [(PAST, {"name": "lamp"})]),
    ("wie warm isses im gewächshaus", read("temperature", "greenhouse")),
    ("Gieß bitte die Tomaten, vier Minuten reichen.", on("pump", seconds=240)),
    ("temp y humedad de dentro", read("temperature", "greenhouse") + read("humidity", "greenhouse")),
    ("Riega los tomates diez minutitos", on("pump", seconds=600)),
    ("allume la lampe", on("lamp")),
    ("quel a été le mini cette nuit", history(quantity="temperature", when="last night")),
    # once, later; all of them; a bare number where a light is declared
    ("fan on at half six tomorrow morning, 20 minutes", planned("fan", seconds=1200, at="tomorrow 06:30")),
    ("turn the pump on in 10 minutes for 30 seconds", planned("pump", seconds=30, at_seconds=600)),
    ("lights out at 11 pm", planned("lamp", "off", at="23:00")),
    ("kill everything now", off("fan") + off("pump") + off("lamp")),
    ("grow light 40", on("lamp", level="40")),
    ("set the lamp to half", on("lamp", level="50")),
    ("pump on for 5 minutes", on("pump", seconds=300)),
    # a question by what it names
    (
        "how damp has the greenhouse been since monday then",
        history(sensor="greenhouse", quantity="humidity", when="since monday"),
    ),
    ("hottest it's been this week n when", history(quantity="temperature", when="this week")),
    (
        "was the greenhouse warmer than outside all day yesterday",
        [
            ("sensor_history", {"quantity": "temperature", "sensor": name, "when": "yesterday"})
            for name in ("greenhouse", "outside")
        ],
    ),
    (
        "how long was the greenhouse above 25 yesterday",
        [
            (
                "sensor_excursions",
                {
                    "sensor": "greenhouse",
                    "quantity": "temperature",
                    "side": "above",
                    "limit": "25",
                    "when": "yesterday",
                },
            )
        ],
    ),
    (
        "temperature outside at noon yesterday",
        history(sensor="outside", quantity="temperature", when="yesterday at 12:00"),
    ),
    (
        "is it colder out than this time yesterday",
        history(sensor="outside", quantity="temperature", when="last 20 minutes", compare="this time yesterday"),
    ),
    (
        "tell me when the greenhouse drops below 40 fahrenheit",
        [
            (
                "rule",
                {
                    "action": "add",
                    "when": "greenhouse.temperature below 4.4",
                    "notify": "greenhouse: temperature below 4.4",
                },
            )
        ],
    ),
    ("How much disk space have you got left, and how long have you been running?", [("board_status", {})] * 2),
    # what must not act, or not now
    ("my neighbour said i should turn the pump on at night", "I have done nothing"),
    ("my wife says everything off", "I"),
    ("don't turn the lamp on at 8", "I have changed nothing"),
    ("turn the fan on, my wife says", "I have done nothing"),
    ("was Anna in the greenhouse yesterday?", "I"),
    ("would the fan be on at 8", "Now, for a while"),
    ("run the pump for -5 minutes", refusals()),
    ("pump on in 5 minutes", planned("pump", at_seconds=300)),
    ("the fan and the lamp were off", "I"),
    ("Si baja de 8 grados, enciende la lámpara al máximo y dímelo", "No he puesto nada."),
    ("if it gets dark, turn the lamp on, please", "I have set nothing."),
    ("my wife says you should put the lamp on", "I have done nothing"),
]


@each_row(("text", "expected"), SAID, ids=[text for text, _ in SAID])
def test_what_is_named_decides(provider, text, expected):
    found = answer(provider, text)
    is_said = isinstance(expected, str) or expected == refusals()
    assert found.startswith(expected) if is_said else found == expected


TALKS = [
    (
        ["how warm is it in the greenhouse", "and outside?", "so whats the difference"],
        read("temperature", "greenhouse") + read("temperature", "outside"),
    ),
    (
        ["how humid is it in the greenhouse", "Has it been any higher than that today?"],
        history(sensor="greenhouse", quantity="humidity", when="today"),
    ),
    (
        ["how cold did it get last night", "i meant out in the open"],
        history(sensor="outside", quantity="temperature", when="last night"),
    ),
    (
        ["is the greenhouse below 5", "show me a chart", "just since this morning"],
        history(sensor="greenhouse", quantity="temperature", when="since this morning", chart=True),
    ),
    (
        ["how long was the greenhouse above 25 yesterday", "and the day before?"],
        [
            (
                "sensor_excursions",
                {
                    "sensor": "greenhouse",
                    "quantity": "temperature",
                    "side": "above",
                    "limit": "25",
                    "when": "day before yesterday",
                },
            )
        ],
    ),
    (["lamp at 40%", "too much lol, back to 30"], on("lamp", level="30")),
    (["lamp at 40%", "dim it to 20"], on("lamp", level="20")),
    (["pump on 5 mins", "make it 8"], on("pump", seconds=480)),
    (["fan on", "for 10"], on("fan", seconds=600)),
    (["pump on for 20 secs", "again"], on("pump", seconds=20)),
    (["pump on 5 mins", "no not the pump, the fan"], off("pump") + on("fan", seconds=300)),
    (["turn the lamp off", "and the fan"], off("fan")),
    (
        ["is the lamp on?", "kill it at 10 tonight"],
        [
            (
                "cron",
                {"action": "add", "kind": "tool", "at": "22:00", "message": 'output {"action": "off", "name": "lamp"}'},
            )
        ],
    ),
    (
        ["fan on at 6 tomorrow", "for an hour"],
        [
            (
                "cron",
                {
                    "action": "update",
                    "kind": "tool",
                    "job": 5,
                    "message": 'output {"action": "set", "name": "fan", "level": "on", "seconds": 3600}',
                },
            )
        ],
    ),
    (["fan on at 6 tomorrow", "actually no, seven"], [("cron", {"action": "move", "job": 5, "at": "07:00 o'clock"})]),
    (
        ["remind me every day at 8 to water", "weekdays only"],
        [("cron", {"action": "move", "job": 5, "cron_expr": "0 8 * * 1-5"})],
    ),
    (
        ["remind me every weekday at 7:15 to air", "not on wednesdays tho"],
        [("cron", {"action": "move", "job": 5, "cron_expr": "15 7 * * 1,2,4,5"})],
    ),
    (
        ["remind me", "ring the vet", "thursday 10ish"],
        [("cron", {"action": "add", "at": "thursday 10:00", "message": "ring the vet"})],
    ),
    (["remind me at 5 pm to sow", "delete it, the seedlings are done for"], [("cron", {"action": "remove", "job": 5})]),
    (
        ["add pegs to the shopping list", "and twine, and a bag of compost"],
        [("memory_store", {"text": f"shopping list: {item}"}) for item in ("twine", "a bag of compost")],
    ),
    (
        ["remember that the fuses are in the tin", "they're in the drawer now"],
        [("memory_update", {"old": "the fuses are in the tin", "new": "the fuses are in the drawer now"})],
    ),
    (
        ["tell me when the greenhouse is below 5", "change the 5 to 4"],
        [
            (
                "rule",
                {
                    "action": "change",
                    "when": "greenhouse.temperature below 4",
                    "notify": "greenhouse: temperature below 4",
                },
            )
        ],
    ),
    (
        ["turn the fan on when the greenhouse is above 30", "and off again at 26"],
        [
            (
                "rule",
                {
                    "action": "add",
                    "output": "fan",
                    "when": "greenhouse.temperature below 26",
                    "options": {"level": "off"},
                },
            )
        ],
    ),
    (["14.5 times 12", "plus 20%"], "174 + 20 % = 208.8"),
    (["how many mins in a fortnight", "and hours"], "1 fortnight = 336 hours"),
    (["lamp at 40%", "brighter"], on("lamp", level="65")),
    (["lamp at 40%", "dim it a bit"], on("lamp", level="30")),
    (["turn the fan on", "leave it on for another half hour"], on("fan", seconds=1800)),
    (
        ["how cold did it get last night", "and the night before?"],
        history(quantity="temperature", when="day before yesterday night"),
    ),
    (["how warm is the shed", "sorry i meant the greenhouse"], read("temperature", "greenhouse")),
    (["put twine on the shopping list", "also pegs"], [("memory_store", {"text": "shopping list: pegs"})]),
    (
        ["tell me when the greenhouse is above 30", "make it 27"],
        [
            (
                "rule",
                {
                    "action": "change",
                    "when": "greenhouse.temperature above 27",
                    "notify": "greenhouse: temperature above 27",
                },
            )
        ],
    ),
]


@each_row(("lines", "expected"), TALKS, ids=["; ".join(lines) for lines, _ in TALKS])
def test_a_sentence_goes_on_without_a_verb(provider, lines, expected):
    assert answer(provider, *lines) == expected


@each_row(
    ("text", "answer_text"),
    [
        ("whats 14.5 times 12", "14.5 × 12 = 174"),
        ("how many sleeps till 3 may", "161 days: 2027-05-03 is a Monday."),
        ("10 divided by 0", refusals()),
        ("5 feet in kg", refusals()),
    ],
)
def test_a_sum_is_worked_out(provider, text, answer_text):
    assert answer(provider, text).startswith(answer_text)


def test_a_plain_yes_answers_the_question_just_asked_and_nothing_else(tmp_path):
    prepare_home(tmp_path)
    (tmp_path / "workspace/BOOTSTRAP.md").unlink(missing_ok=True)
    with closing(App(Config(tmp_path, memory=MemoryConfig(embeddings="off")), SimBoard())) as app:

        def say(text):
            return app.dispatcher.answer(Inbound("terminal", text)).reply

        assert "/yes 1" in say("tell me when the cpu is above 80")
        assert say("thanks") == "You're welcome."
        assert "the rule is kept" not in say("yes")  # another turn lies between
        assert "/yes 2" in say("tell me when the cpu is above 81")
        assert "the rule is kept" in say("yes")
        assert "the rule is kept" not in say("yes")
        assert "/yes 3" in say("tell me when the cpu is above 82")
        assert "the rule is kept" not in say("no")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("erinner mich am 3. märz um 10 an den zahnarzt", "verschieb das um 10 Minuten"), "-03-03 10:10"),
        (("erinner mich am 3. märz um 10 an den zahnarzt", "verschiebe Erinnerung 1 um 10 Minuten"), "-03-03 10:10"),
        (("recuérdame el 3 de marzo a las 10 el dentista", "adelántalo 20 minutos"), "-03-03 09:40"),
        (("remind me on 3 march at 8 of the bins", "and again at 9"), "-03-03 09:00"),
        (
            (
                "erinnere mich jeden mittwoch um 18 uhr ans düngen",
                "zeig alle erinnerungen",
                "die mit dem düngen bitte auf donnerstag verschieben",
            ),
            "jeden Donnerstag um 18:00",
        ),
    ],
)
def test_a_reminder_that_is_moved_stays_on_its_day_or_at_its_hour(tmp_path, lines, told):
    prepare_home(tmp_path)
    (tmp_path / "workspace/BOOTSTRAP.md").unlink(missing_ok=True)
    with closing(App(Config(tmp_path, memory=MemoryConfig(embeddings="off")), SimBoard())) as app:
        *_, reply = [app.dispatcher.answer(Inbound("terminal", line)).reply for line in lines]
    assert told in reply


def test_the_past_of_an_output_is_read_back_from_the_audit(tmp_path):
    now = datetime.now(UTC)
    for act, more in (("on", {"seconds": 600, "who": "owner"}), ("off", {}), ("on", {"seconds": 3600, "who": "rule"})):
        audit.write_record(tmp_path, act, name="fan", **more)
    times = audit.list_on_times(tmp_path, now + timedelta(seconds=90))
    assert [(one.name, one.who, one.is_on) for one in times] == [("fan", "owner", False), ("fan", "rule", True)]
    told = format_on_times("fan", times, parse_range("last 24 hours", now + timedelta(seconds=90)))
    assert told.startswith("fan: on 2 x, 1 min 3")
    assert told.endswith("to now, by rule")
    told = format_on_times("fan", times[:1], parse_range("last 24 hours", now + timedelta(seconds=90)), "off")
    assert told.endswith(", by owner; off now")
    assert format_on_times("pump", [], parse_range("today", now)) == "pump: not on; never switched on so far"
    told = format_on_times("fan", times, parse_range("3 days ago", now), is_past=True)
    assert told.startswith("fan: not on then; last ")

"""What a sentence names, in whatever order: frames, where no template says it; declared names; yes to a question."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from test_intents_languages import answer, home, make_provider, off, on, read  # noqa: F401 - a fixture

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig
from picoclaw.hw.sim.board import SimBoard
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


SAID = [
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
    # what must not act, or not now
    ("run the pump for -5 minutes", "I can't do that"),
    ("pump on in 5 minutes", "I"),
    ("the fan and the lamp were off", "I"),
    ("Si baja de 8 grados, enciende la lámpara al máximo y dímelo", "No he puesto nada."),
    ("if it gets dark, turn the lamp on, please", "I have set nothing."),
    ("my wife says you should put the lamp on", "I have done nothing"),
]


@pytest.mark.parametrize(("text", "expected"), SAID, ids=[text for text, _ in SAID])
def test_what_is_named_decides(provider, text, expected):
    found = answer(provider, text)
    assert found.startswith(expected) if isinstance(expected, str) else found == expected


TALKS = [
    (["lamp at 40%", "brighter"], on("lamp", level="65")),
    (["lamp at 40%", "dim it a bit"], on("lamp", level="15")),
    (["turn the fan on", "leave it on for another half hour"], on("fan", seconds=1800)),
    (
        ["how cold did it get last night", "and the night before?"],
        history(quantity="temperature", when="day before yesterday"),
    ),
    (["how warm is the shed", "sorry i meant the greenhouse"], read("temperature", "greenhouse")),
    (["put twine on the shopping list", "also pegs"], [("memory_store", {"text": "shopping list: pegs"})]),
    (
        ["tell me when the greenhouse is above 30", "make it 27"],
        [
            (
                "rule",
                {
                    "action": "add",
                    "when": "greenhouse.temperature above 27",
                    "notify": "greenhouse.temperature above 27",
                },
            )
        ],
    ),
]


@pytest.mark.parametrize(("lines", "expected"), TALKS, ids=["; ".join(lines) for lines, _ in TALKS])
def test_a_sentence_goes_on_without_a_verb(provider, lines, expected):
    assert answer(provider, *lines) == expected


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


def test_the_past_of_an_output_is_read_back_from_the_audit(tmp_path):
    now = datetime.now(UTC)
    for act, more in (("on", {"seconds": 600, "who": "owner"}), ("off", {}), ("on", {"seconds": 3600, "who": "rule"})):
        audit.write_record(tmp_path, act, name="fan", **more)
    times = audit.list_on_times(tmp_path, now + timedelta(seconds=90))
    assert [(one.name, one.who, one.is_on) for one in times] == [("fan", "owner", False), ("fan", "rule", True)]
    told = format_on_times("fan", times, parse_range("last 24 hours", now + timedelta(seconds=90)))
    assert told.startswith("fan: on 2 x, 1 min 3")
    assert told.endswith("to now, by rule")
    assert format_on_times("pump", [], parse_range("today", now)) == "pump: not on; never switched on so far"

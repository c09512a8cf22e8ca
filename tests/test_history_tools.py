"""What is asked of the history and of the rules: by a model's call, and on the command line."""

import json
import os
import time
from datetime import UTC, datetime, timedelta

import pytest

from picoclaw.app import SIMULATED_MARK
from picoclaw.automation import rules as automation_rules
from picoclaw.automation.clock import Wakeup, read_boot_id
from picoclaw.automation.rule_engine import RuleState
from picoclaw.cli import run
from picoclaw.config import Config
from picoclaw.hw import detect
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Caller, ToolCall
from picoclaw.security.guard import Guard
from picoclaw.security.policy import Policy
from picoclaw.store.database import HISTORY_MIGRATIONS, Database
from picoclaw.store.samples import ClockReading, RuleLog, SampleBlock, Samples, SensorFailure, Series
from picoclaw.tools.registry import Toolset
from picoclaw.tools.rules import RuleTool
from picoclaw.tools.sensors import SensorHistory
from picoclaw.wiring import Wiring

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
VALVE = '[outputs.valve1]\nline = "GPIO17"\nkind = "valve"\nlongest_on_s = 900\n'


def caller(now=NOW):
    return Caller("terminal", "owner", now, lambda _: None)


def call(tools, name, /, **arguments):
    return tools.call(ToolCall("1", name, arguments), caller())


def toolset(*groups, ask=None):
    return Toolset(groups, guard=Guard(Policy, ask), journal=lambda *_: None, longest_result=16_000)


def fill(home, now=NOW, hours=48):
    """Two days: a saw-tooth each day, one degree warmer on the second; some readings fail."""
    database = Database(home / "history.db", HISTORY_MIGRATIONS)
    samples = Samples(database)
    first = now - timedelta(hours=hours)
    for hour in range(hours):
        points = [
            (hour * 3600.0 + minute * 60, 10.0 + hour % 24 + hour // 24 if minute else None) for minute in range(60)
        ]
        humid = [(at, 50.0) for at, _ in points]
        moment = ClockReading("filled", points[-1][0], first + timedelta(seconds=points[-1][0]))
        blocks = [
            SampleBlock(Series("greenhouse", "temperature"), points),
            SampleBlock(Series("greenhouse", "humidity"), humid),
        ]
        samples.keep(moment, blocks, [SensorFailure("greenhouse", 3600, 7200, 3, "no answer")])
    return database, samples


@pytest.fixture
def history(tmp_path):
    database, samples = fill(tmp_path)
    yield toolset(SensorHistory(lambda: samples))
    database.close()


def test_what_does_not_change_is_steady_and_a_moment_has_no_trend(history):
    for quantity in ("humidity", "relative humidity", "rh"):
        assert "mean 50.00 %, steady" in call(history, "sensor_history", quantity=quantity)
    assert "too little for a trend" in call(history, "sensor_history", quantity="humidity", when="last 2 minutes")


@pytest.mark.parametrize(
    ("side", "limit", "when", "said"),
    [
        ("above", 20, "last 24 hours", "greenhouse temperature above 20.00 °C: 1 x, 13 h 59 min in all"),  # the first reading of an hour fails
        ("below", 12, "last 24 hours", "greenhouse temperature below 12.00 °C: 1 x, 1 h in all"),
        ("below", 12, "last 48 hours", "greenhouse temperature below 12.00 °C: 2 x, 3 h in all, the longest 2 h (Mon 2026-06-29 12:01 to Mon 2026-06-29 14:01), the last Tue 2026-06-30 12:01 to Tue 2026-06-30 13:01"),
        ("above", 40, "last 24 hours", "greenhouse temperature above 40.00 °C: not once"),
    ],
)  # fmt: skip
def test_how_often_and_how_long_a_value_was_beyond_a_limit(history, side, limit, when, said):
    found = call(history, "sensor_excursions", quantity="temperature", side=side, limit=limit, when=when)
    assert found.startswith(said), found


def test_a_summary_has_extremes_with_their_times_mean_trend_and_units(history):
    said = call(history, "sensor_history", sensor="greenhouse", quantity="temperature")
    assert "min 11.00 °C at 12:01" in said
    assert "max 34.00 °C at 11:01" in said
    assert "mean 22.50 °C" in said
    assert "rising 1.0" in said
    assert "1416 readings" in said
    assert "24 readings failed" in said
    assert said.count(",") < 40
    assert len(said) < 700


@pytest.mark.parametrize(
    "sensor", ["greenhouse.temperature", "Greenhouse temperature", "temperature", "temperature of greenhouse"]
)
def test_a_series_is_found_by_the_names_people_use(history, sensor):
    assert call(history, "sensor_history", sensor=sensor).startswith("greenhouse temperature")


def test_a_chart_is_drawn_with_blocks_narrow_enough_for_a_telephone(history):
    said = call(history, "sensor_history", sensor="greenhouse", quantity="temperature", chart=True)
    drawn = said.partition("```\n")[2].partition("\n```")[0].splitlines()
    assert "min 11.00 °C at 12:01" in said
    assert "mean every" not in said
    assert [drawn[0][:4], drawn[5][:4]] == ["34 ┤", "11 ┤"]
    assert drawn[-1].split() == ["12:00", "12:00"]
    assert len(drawn) == 7
    assert max(map(len, drawn)) == 28
    assert drawn[0].endswith("█")


def test_all_quantities_of_a_sensor_are_told_without_their_values(history):
    said = call(history, "sensor_history", sensor="greenhouse", when="yesterday")
    assert "greenhouse temperature, 2026-06-30 00:00 to 2026-07-01 00:00" in said
    assert "greenhouse humidity" in said
    assert "mean every" not in said


def test_two_times_are_compared(history):
    said = call(history, "sensor_history", sensor="greenhouse.temperature", compare="from 2026-06-29 to 2026-06-30")
    assert "compared with 2026-06-29 00:00 to 2026-07-01 00:00: min 10.00 °C (now +1.00 °C)" in said


def test_a_wednesday_is_compared_with_the_wednesday_before(history):
    said = call(history, "sensor_history", sensor="greenhouse.temperature", when="today", compare="wednesday")
    assert "nothing was measured wednesday" in said  # and not with itself: it is Wednesday


@pytest.mark.parametrize(("when", "is_cut"), [("last 30 days", True), ("yesterday", False)])
def test_a_time_that_the_record_does_not_reach_is_told_with_where_it_begins(history, when, is_cut):
    said = call(history, "sensor_history", sensor="greenhouse.temperature", when=when).splitlines()[-1]
    assert said.startswith("the record goes back to 2026-06-") == is_cut


def test_why_it_failed_is_told(history):
    said = call(history, "sensor_history", sensor="greenhouse.temperature", when="last 2 days")
    assert "3 times: no answer" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"sensor": "attic"}, "kept are: greenhouse humidity, greenhouse temperature"),
        ({"when": "2026-12-24"}, "yet to come"),
        ({"when": "gibberish"}, "write it like 'last 24 hours'"),
        ({"sensor": "greenhouse", "when": "2020-01-01"}, "nothing was measured 2020-01-01: the record goes back to "),
        ({"when": "2000-01-01"}, "nothing was measured 2000-01-01: the record goes back to "),
        ({"compare": "gibberish"}, "write it like"),
    ],
)
def test_what_cannot_be_told_is_said(history, arguments, says):
    said = call(history, "sensor_history", **arguments)
    assert said.startswith("error: ")
    assert says in said


def test_the_definition_is_short():
    definition = next(
        one for one in toolset(SensorHistory(lambda: None)).definitions() if one["name"] == "sensor_history"
    )
    assert len(json.dumps(definition)) <= 420


# --- rules by a tool ---


@pytest.fixture
def rules(tmp_path):
    wiring = Wiring(Config(home=tmp_path), SimBoard())
    wiring.wired["soil"] = WiredPart("ads1115", 1, 0x48)
    shown = []

    def ask(text):
        shown.append(text)
        return ask.yes

    ask.yes, ask.shown = True, shown
    group = RuleTool(tmp_path, wiring.measured)
    tools = toolset(group, ask=ask)
    tools.asked, tools.home = ask, tmp_path
    return tools


HOT = {"action": "add", "name": "hot", "when": "greenhouse.temperature > 35 for 10 minutes", "notify": "Too hot"}


def test_a_rule_is_written_with_the_owners_yes_and_explained(rules):
    said = call(rules, "rule", **HOT)
    assert said == (
        "the rule is kept: hot: when the temperature of greenhouse is above 35 °C for 10 min: tell you 'Too hot'."
        " Never twice within 10 min."
    )
    (shown,) = rules.asked.shown
    assert "when: greenhouse.temperature > 35 for 10 minutes" in shown
    assert "which means: hot: when the temperature of greenhouse is above 35 °C for 10 min: tell you" in shown
    assert list(automation_rules.load_rules(rules.home, NOW).rules) == ["hot"]
    assert call(rules, "rule", action="list").startswith("1. hot: when the temperature")
    assert call(rules, "rule", action="remove", name="hot") == "rule hot is removed"
    assert call(rules, "rule", action="list") == "no rules"
    assert len(rules.asked.shown) == 2
    assert "which means: no longer: hot: when the temperature" in rules.asked.shown[1]


def test_a_rule_that_begins_on_a_day_is_kept_with_the_pause_that_was_shown(rules):
    daily = {"action": "add", "name": "bed", "when": "every day at 6:00", "output": "valve"}
    call(rules, "rule", **daily, options={"paused": "until 2030-01-01"})
    (kept,) = automation_rules.load_rules(rules.home, NOW).rules.values()
    assert kept.written.paused.endswith(" to 2030-01-01 00:00")
    assert f"It is paused from {kept.written.paused}." in rules.asked.shown[0]
    abroad = toolset(RuleTool(rules.home, dict, lambda: "America/New_York"), ask=lambda _: True)
    call(abroad, "rule", **{**daily, "name": "lawn"}, options={"paused": "until 2030-01-01"})
    (begin, end), *_ = automation_rules.load_rules(rules.home, NOW, "America/New_York").rules["lawn"].paused
    assert begin <= datetime.now(UTC).timestamp()
    assert datetime.fromtimestamp(end, UTC).hour == 5
    said = call(rules, "rule", **{**daily, "name": "pots"}, options={"paused": "until soon"})
    assert said == "error: the rule cannot be: paused: 'until soon' is not like '2026-12-24 00:00 to 2026-12-27 00:00'"


def test_a_rule_without_a_name_gets_one_and_is_removed_by_its_number(rules):
    unnamed = {name: value for name, value in HOT.items() if name != "name"}
    for _ in range(2):
        call(rules, "rule", **unnamed)
    call(rules, "rule", action="add", when="every day at 6:00", output="valve 1")
    assert list(automation_rules.load_rules(rules.home, NOW).rules) == [
        "greenhouse_temperature",
        "greenhouse_temperature_2",
        "valve_1",
    ]
    assert "2. greenhouse_temperature_2: when" in call(rules, "rule", action="list")
    assert call(rules, "rule", action="remove", name="2") == "rule greenhouse_temperature_2 is removed"
    assert call(rules, "rule", action="remove", name="Greenhouse-Temperature") == (
        "rule greenhouse_temperature is removed"
    )
    for number in ("0", "2", "9" * 5000):
        assert "there is no rule" in call(rules, "rule", action="remove", name=number)
    assert list(automation_rules.load_rules(rules.home, NOW).rules) == ["valve_1"]


def test_the_limit_of_a_rule_is_changed_in_what_it_waits_for_and_says(rules):
    hot = HOT | {
        "when": "greenhouse.temperature above 35 for 35 minutes",
        "notify": "above 35",
        "options": {"again": "1 hour"},
    }
    call(rules, "rule", **hot)
    path = rules.home / "rules.toml"
    before = path.read_text()
    said = call(rules, "rule", action="change", name="1", when="-2.5")
    assert said.startswith(
        "the rule is changed: hot: when the temperature of greenhouse is above -2.5 °C for 35 min: tell you"
    )
    assert "which means: hot: when the temperature of greenhouse is above -2.5 °C" in rules.asked.shown[-1]
    assert sorted(path.read_text().splitlines()) == sorted(before.replace("above 35", "above -2.5").splitlines())
    call(rules, "rule", action="add", when="every day at 6:00", output="valve 1")
    for name, when in (("valve_1", "7"), ("hot", ""), ("hot", "warm"), ("hot", "3 degrees"), ("cold", "3")):
        assert call(rules, "rule", action="change", name=name, when=when).startswith("error: ")
    assert "above -2.5" in path.read_text()


def test_a_rule_takes_another_condition_and_other_options_in_its_place(rules):
    call(rules, "rule", action="add", when="every day at 8:00", output="valve 1", options={"lasts": "2 minutes"})
    call(rules, "rule", action="pause", name="valve_1")
    said = call(rules, "rule", action="change", name="valve_1", when="every monday at 8:00")
    assert said.startswith("the rule is changed: valve_1: every monday at 8:00: switch valve 1 on for 2 min")
    graded = call(
        rules, "rule", action="add", when="every day at 9:00", output="valve 1", options={"level": "70", "lasts": "3 h"}
    )
    assert "set valve 1 to 70 % for 3 h" in graded
    call(rules, "rule", action="remove", name="2")
    call(rules, "rule", action="change", name="1", options={"lasts": "1 minute"})
    (kept,) = automation_rules.load_rules(rules.home, NOW).rules.values()
    assert (kept.written.when, kept.written.lasts, kept.written.enabled) == ("every monday at 8:00", "1 minute", False)
    assert "there is no rule" in call(rules, "rule", action="change", name="hot", options={"lasts": "1 minute"})
    said = call(rules, "rule", action="change", name="hot", when="greenhouse.temperature > 30", notify="hot")
    assert said.startswith("the rule is changed: hot"), said
    assert list(automation_rules.load_rules(rules.home, NOW).rules) == ["valve_1", "hot"]


def test_a_rule_is_paused_for_some_time_and_resumed(rules):
    call(rules, "rule", action="add", when="every day at 8:00", output="valve 1")
    call(rules, "rule", **HOT)
    before = (rules.home / "rules.toml").read_text()
    today = NOW.date()
    tomorrow, after = today + timedelta(1), today + timedelta(2)
    said = f"paused from {tomorrow} 00:00 to {after} 00:00"
    assert call(rules, "rule", action="pause", name="valve_1", when="tomorrow") == f"rule valve_1 is {said}"
    assert " 00:00 not: valve_1: every day at 8:00" in rules.asked.shown[-1]
    assert f"It is {said}." in call(rules, "rule", action="list")
    last = today + timedelta(20)
    assert f", and from {last} 00:00 to " in call(rules, "rule", action="pause", name="valve_1", when=str(last))
    assert call(rules, "rule", action="pause", name="hot", when="3 days").startswith("rule hot is paused from ")
    for name, when, wrong in (
        ("hot", "next", "it has no time that can be left out"),
        ("valve_1", "1 minute", "it does nothing then"),
        ("hot", "soonish", "'soonish' is no time"),
    ):
        assert wrong in call(rules, "rule", action="pause", name=name, when=when)
    for name in ("valve_1", "hot"):
        assert call(rules, "rule", action="resume", name=name) == f"rule {name} is followed again"
    assert (rules.home / "rules.toml").read_text() == before


def test_a_rule_that_is_broken_has_a_number_too(rules):
    (rules.home / "rules.toml").write_text(
        '[rules.bad]\nwhen = "?"\n\n[rules.good]\nwhen = "every hour"\nnotify = "x"\n'
    )
    good, bad = call(rules, "rule", action="list").splitlines()
    assert good.startswith("1. good:")
    assert bad.startswith("2. not followed:")
    assert call(rules, "rule", action="remove", name="2") == "rule bad is removed"


def test_a_no_writes_nothing(rules):
    rules.asked.yes = False
    assert "the answer was no" in call(rules, "rule", **HOT)
    assert not (rules.home / "rules.toml").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"when": "soon"}, "write it like"),
        ({"name": "Hot!"}, "lower-case"),
        ({"notify": ""}, "it does nothing"),
        ({"when": "", "notify": ""}, "'when' is missing"),
        ({"options": {"lasst": "5 min"}}, "did you mean 'lasts'"),
        ({"action": "remove", "name": "cold"}, "there is no rule 'cold'"),
        ({"when": "attic.temperature > 3"}, "there is no sensor 'attic'; measured are: greenhouse (temperature"),
        ({"when": "price below 100"}, "names no sensor with a quantity"),
        ({"when": "greenhouse.co2 > 900"}, "greenhouse does not measure co2; it measures"),
        ({"when": "soil.voltage zz > 1"}, "soil does not measure voltage zz; it measures voltage a0, voltage a1"),
        ({"when": "soil.voltage > 1"}, "soil does not measure voltage; it measures voltage a0"),
        ({"when": "co2 above 1000"}, "no sensor here measures co2; measured are: greenhouse (temperature"),
        ({"options": {"only_if": "attic.light max yesterday > 3"}}, "there is no sensor 'attic'"),
    ],
)
def test_nobody_is_asked_about_a_rule_that_cannot_be(rules, change, says):
    said = call(rules, "rule", **(HOT | change))
    assert says in said
    assert rules.asked.shown == []


@pytest.mark.parametrize(
    ("arguments", "toml", "doubt"),
    [
        ({"output": "valve1"}, "", "outputs.toml declares none"),
        ({"output": "valve1"}, VALVE, 'who = ["owner", "rule"]'),
        ({"output": "valve1"}, VALVE + 'who = ["rule"]\n', "`picoclaw outputs arm valve1`"),
        (
            {"output": "valve1", "options": {"lasts": "20 minutes"}},
            VALVE + 'who = ["rule"]\n',
            "valve1 may be on for 15 min at most",
        ),
    ],
)
def test_what_keeps_a_rule_from_working_is_said_at_once(rules, arguments, toml, doubt):
    if toml:
        (rules.home / "outputs.toml").write_text(toml)
    said = call(rules, "rule", **(HOT | arguments))
    assert said.startswith("the rule is kept")
    assert doubt in said.partition("\nbut ")[2]


def test_a_quantity_alone_means_the_only_sensor_that_measures_it(rules, tmp_path):
    told = call(rules, "rule", action="add", when="the humidity is above 80 for 5 minutes", notify="Damp")
    assert "when the humidity of greenhouse is above 80 % for 5 min" in told
    assert "when the temperature of greenhouse falls by 3 °C" in call(
        rules, "rule", action="add", when="temperature drops by 3 in 1 hour", notify="Colder"
    )
    wired = {"porch": ["temperature", "humidity"], "shed": ["temperature"], "cpu": ["temperature"]}
    tools = toolset(RuleTool(tmp_path, lambda: wired), ask=lambda _: True)
    said = call(tools, "rule", action="add", when="temperature below 5", notify="Cold")
    assert "which sensor? temperature is measured by porch, shed; name one" in said


def test_a_channel_that_is_there_is_no_mistake(rules):
    assert "\nbut " not in call(rules, "rule", **(HOT | {"when": "soil.voltage a1 > 1"}))


def test_watering_in_one_call(rules):
    options = {"lasts": "5 minutes", "instead": "10 minutes if greenhouse.temperature max yesterday > 37"}
    said = call(rules, "rule", action="add", name="water", when="every day at 6:00", output="valve1", options=options)
    assert "switch valve1 on for 5 min (10 min if the highest value of greenhouse's temperature" in said


# --- the command line ---


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    return tmp_path


def cli(*words):
    return run([words[0], "--board", "sim", *words[1:]])


@pytest.fixture
def filled(home):
    database, _ = fill(home, datetime.now(UTC).replace(minute=0, second=0, microsecond=0))
    database.close()
    return home


def test_history_without_any_says_so(home, capsys):
    assert cli("history", "greenhouse") == 1
    assert "no measurements yet" in capsys.readouterr().err


def test_history_lists_what_there_is(filled, capsys):
    assert cli("history") == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[1].startswith("greenhouse temperature: last 20")
    assert rows[-1] == SIMULATED_MARK


def test_history_draws_a_chart(filled, capsys):
    assert cli("history", "greenhouse.temperature", "last", "3", "days") == 0
    out = capsys.readouterr().out
    assert "min 10.00 °C at " in out
    assert "█" in out
    assert max(map(len, out.splitlines()[3:])) <= 80
    assert out.endswith(f"{SIMULATED_MARK}\n")


def test_history_as_json(filled, capsys):
    assert cli("history", "greenhouse.temperature", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["unit"], told["quantity"]) == ("°C", "temperature")
    assert told["min"] <= told["mean"] <= told["max"]
    assert len(told["values"]) > 100
    assert told["simulated"] is True


def test_history_as_a_picture(filled, capsys):
    assert cli("history", "greenhouse", "--svg", str(filled / "day.svg")) == 0
    assert (filled / "day.svg").read_text().startswith("<svg")
    assert (filled / "day-temperature.svg").exists()


def test_pictures_of_several_sensors_are_files_of_their_own_and_json_stays_json(filled, capsys):
    database = Database(filled / "history.db", HISTORY_MIGRATIONS)
    moment = ClockReading("filled", 48 * 3600.0, datetime.now(UTC))
    blocks = [SampleBlock(Series(name, "temperature"), [(48 * 3600.0 - 60, 20.0)]) for name in ("attic", "28-0a1b")]
    Samples(database).keep(moment, blocks)
    database.close()
    assert cli("history", "temperature", "last", "3", "days", "--json", "--svg", str(filled / "t.svg")) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert len(list(filled.glob("t*.svg"))) == 3


def test_what_cannot_be_drawn_is_said(filled, capsys):
    database = Database(filled / "history.db", HISTORY_MIGRATIONS)
    failed = SampleBlock(Series("attic", "temperature"), [(48 * 3600.0 - 60, None)])
    Samples(database).keep(ClockReading("filled", 48 * 3600.0, datetime.now(UTC)), [failed])
    database.close()
    assert cli("history", "attic", "last", "3", "days", "--svg", str(filled / "t.svg")) == 1
    assert "nothing to draw" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "says"), [(["attic"], "kept are"), (["greenhouse", "soon"], "write it like")])
def test_history_says_what_is_wrong(filled, words, says, capsys):
    assert cli("history", *words) == 1
    assert says in capsys.readouterr().err


RULES = """\
[rules.hot]
when = "greenhouse.temperature > 35"
notify = "hot"
[rules.bad]
when = "soon"
notify = "x"
"""


def test_rules_on_the_command_line(home, capsys):
    assert cli("rules") == 0
    assert "no rules" in capsys.readouterr().out
    (home / "rules.toml").write_text(RULES)
    assert cli("rules") == 1
    assert "line 5: [rules.bad]: when: 'soon' is not a condition" in capsys.readouterr().out
    assert cli("rules", "explain", "hot") == 0
    assert "above 35 °C" in capsys.readouterr().out
    assert cli("rules", "remove", "bad") == 0
    assert cli("rules", "check") == 0
    assert "1 rule, no mistakes" in capsys.readouterr().out
    assert cli("rules", "explain", "cold") == 1
    assert "there are: hot" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("check", "--board", "sim"), 0, "0 rules, no mistakes"),
        (("log", "nosuch"), 1, "no rule 'nosuch' has done anything, and "),
        (("log", "-n", "-3"), 2, "'-3' is not a whole number from 1 to 5000"),
        (("log", "-n", "0"), 2, "'0' is not a whole number from 1 to 5000"),
        (("log",), 0, "no rule has done anything yet"),
    ],
)
def test_rules_on_the_command_line_say_what_is_wrong(home, words, code, says, capsys):
    assert cli("rules", *words) == code
    out = capsys.readouterr()
    assert says in out.out + out.err


def test_the_log_of_a_rule_that_has_done_nothing_is_empty(home, capsys):
    (home / "rules.toml").write_text(RULES)
    assert cli("rules", "log", "bad") == 0
    assert capsys.readouterr().out == "rule bad has done nothing yet\n"


class Unset(SimBoard):
    """A board whose date nothing vouches for."""

    simulated = False

    def clock_synchronised(self):
        return False


@pytest.mark.parametrize(("believed", "said"), [(False, "waits until the clock is set"), (True, "next ")])
def test_where_a_rule_stands_heeds_whether_the_date_is_believed(home, capsys, monkeypatch, believed, said):
    monkeypatch.setattr(detect, "choose_board", lambda *_: Unset())
    (home / "rules.toml").write_text('[rules.x]\nwhen = "every hour"\nnotify = "x"\n')
    database = Database(home / "history.db", HISTORY_MIGRATIONS)
    Samples(database).keep(ClockReading(read_boot_id(), 5.0, NOW, believed), [], (), {"x": RuleState().dump()})
    database.close()
    assert cli("rules") == 0
    assert f"has not fired yet, {said}" in capsys.readouterr().out


def test_rules_are_explained_though_the_history_is_damaged(home, capsys):
    (home / "rules.toml").write_text(RULES)
    (home / "history.db").write_bytes(b"garbage" * 1000)
    assert cli("rules") == 1
    out = capsys.readouterr().out
    assert "hot: when the temperature of greenhouse" in out
    assert "where they stand cannot be told: " in out


def test_looking_at_the_rules_has_an_open_chat_look_too(home):
    bell = Wakeup(home)
    assert cli("rules", "check") == 0
    began = time.monotonic()
    bell.wait(20)
    bell.close()
    assert time.monotonic() - began < 10


def test_the_log_says_what_was_cut_off(home, capsys):
    assert cli("rules", "log") == 0
    database = Database(home / "history.db", HISTORY_MIGRATIONS)
    firings = RuleLog(database)
    now = ClockReading(read_boot_id(), 5.0, NOW)
    firings.settle(firings.begin("hot", "greenhouse temperature 36 °C", "tell", now, {}), "told")
    firings.begin("hot", "greenhouse temperature 37 °C", "tell", now._replace(trusted=False), {})
    database.close()
    capsys.readouterr()
    assert cli("rules", "log") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("hot: greenhouse temperature 36 °C; tell: told")
    assert "(clock not set)" in second
    assert second.endswith("outcome unknown: picoclaw was stopped in the middle")
    assert os.environ["PICOCLAW_HOME"] == str(home)

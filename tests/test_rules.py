"""Rules: how they are written, when they fire, and that a bad one costs itself only. Clocks are the test's."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from rows import each_row

from picoclaw.automation import conditions, rules
from picoclaw.automation.checklist import parse_checklist
from picoclaw.automation.conditions import parse_condition, parse_gate
from picoclaw.automation.rule_engine import (
    RuleState,
    describe_state,
    evaluate_rule,
    get_rule_wait,
    load_state,
)
from picoclaw.automation.rules import explain_rule, parse_rule
from picoclaw.errors import ConfigError
from picoclaw.schedules import list_occurrences
from picoclaw.store.samples import ClockReading, Series

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 7, 1, 12, 0, tzinfo=BERLIN)
WARM = Series("greenhouse", "temperature")

# --- words ---


@each_row(
    ("text", "means"),
    [
        ("greenhouse.temperature > 35 for 10 minutes", "the temperature of greenhouse is above 35 °C for 10 min"),
        ("if the greenhouse temperature is above 35°C for more than 10 min", "is above 35 °C for 10 min"),
        ("temperature of the greenhouse below 5", "the temperature of greenhouse is below 5 °C"),
        ("soil.voltage a0 < 1.2 V", "the voltage a0 of soil is below 1.2 V"),
        ("voltage a0 of soil at most 1.2", "the voltage a0 of soil is at most 1.2 V"),
        ("door.level >= 1", "the level of door is at least 1"),
        ("28-00000a1b2c3d.temperature<=-3.5", "the temperature of 28-00000a1b2c3d is at most -3.5 °C"),
        ("greenhouse.humidity falls by 20 % in 1 hour", "the humidity of greenhouse falls by 20 % within 1 h"),
        ("tank.distance rises by 0.2 within 30 min", "the distance of tank rises by 0.2 m within 30 min"),
        ("greenhouse.temperature is missing for 15 min", "has had no valid value for 15 min"),
        ("every day at 6", "every day at 6"),
        ("greenhouse.temperature rises above 35", "the temperature of greenhouse is above 35 °C"),
        (
            "the temperature in the greenhouse falls below 5 for 1 h",
            "the temperature of greenhouse is below 5 °C for 1 h",
        ),
        ("greenhouse.temperature stays > 30", "the temperature of greenhouse is above 30 °C"),
    ],
)
def test_what_a_condition_means(text, means):
    assert conditions.format_condition(parse_condition(text)).endswith(means)


@each_row(
    ("text", "expression"),
    [
        ("every day at 6:00", "0 6 * * *"),
        ("daily at 6:30 pm", "30 18 * * *"),
        ("every monday and friday at 7:30", "30 7 * * 1,5"),
        ("mondays at 7:00", "0 7 * * 1"),
        ("every weekday at 6, 18", "0 6,18 * * 1-5"),
        ("every weekend at noon", "0 12 * * 0,6"),
        ("every hour", "0 * * * *"),
        ("hourly", "0 * * * *"),
        ("Hourly", "0 * * * *"),
        ("@hourly", "0 * * * *"),
        ("every 1 hour", "0 * * * *"),
        ("every minute", "* * * * *"),
        ("Every day at 6:00", "0 6 * * *"),
        ("Mondays at 7:00", "0 7 * * 1"),
        ("weekdays at 7:00", "0 7 * * 1-5"),
        ("weekends at noon", "0 12 * * 0,6"),
        ("every 30 minutes", "*/30 * * * *"),
        ("every 6 hours", "0 */6 * * *"),
        ("cron */10 * * * *", "*/10 * * * *"),
    ],
)
def test_what_a_time_means(text, expression):
    assert parse_condition(text).plan.text == expression


@each_row(
    ("text", "says"),
    [
        ("greenhouse is hot", "write it like"),
        ("greenhouse.temprature > 3", "did you mean 'temperature'"),
        ("greenhouse.temperature > 95 F", "measured in °C, not in F"),
        ("greenhouse.temperature > 35 for a parsec", "is not a length of time"),
        ("greenhouse.temperature rises by 0 in 1 hour", "more than 0"),
        ("greenhouse.temperature > 99999999999999", "not a value of a sensor"),
        ("greenhouse.temperature not above 35", "names no sensor"),
        ("greenhouse.temperature > 35 and greenhouse.humidity > 80", "names no sensor"),
        ("greenhouse.temperature <> 35", "names no sensor"),
        ("every blursday at 6", "did you mean 'thursday'"),
        ("every 7 minutes", "does not fit into an hour evenly"),
        ("every 0 minutes", "does not fit into an hour evenly"),
        ("every day at 25:00", "not a time of day"),
        ("every day at 6:00 and 18:30", "write one for each"),
        ("cron 99 6 * * *", "not a cron expression"),
    ],
)
def test_what_is_wrong_with_a_condition(text, says):
    with pytest.raises(ValueError, match=r".") as error:
        parse_condition(text)
    assert says in str(error.value)


def test_what_was_so():
    found = parse_gate("greenhouse.temperature max yesterday was hotter than 37", NOON)
    assert conditions.format_gate(found) == "the highest value of greenhouse's temperature yesterday was above 37 °C"
    for bad in ("greenhouse.temperature > 37", "greenhouse.temperature max tomorrow > 37"):
        with pytest.raises(ValueError, match=r"write it like|yet to come"):
            parse_gate(bad, NOON)


SENTENCES = [
    "greenhouse.temperature > 35 for 10 minutes",
    "greenhouse.Temperature is above 35 °C for 1.5 hours",
    "the greenhouse temperature exceeds 35",
    "temperature of the greenhouse drops below -5,5 C",
    "greenhouse.temperature goes above 30 for longer than 2h",
    "greenhouse.temperature climbs above 30",
    "my tank.humidity ≤ 30 % for 2h",
    "cell.voltage a0 at least 3.3 V",
    "air.dust pm2.5 more than 25",
    "soil.voltage a0 colder than 1.2",
    "greenhouse.humidity falls by 20 % in 1 hour",
    "tank.distance rises by 0.2 within 30 min",
    "greenhouse.temperature missing for 30 minutes",
    "greenhouse.humidity is not available",
]


@each_row("text", SENTENCES)
def test_rules_and_the_checklist_understand_the_same_conditions(text):
    (item,) = parse_checklist(f"- tell me when: {text}").items
    assert item.when == parse_condition(text)


@each_row(
    "text",
    [
        "every morning", "every evening at 8", "daily 07:30", "every day at 6:00 and 18:00", "mondays and fridays 18:30",
        "weekdays 8:00", "every weekend at noon", "hourly", "every 2 hours", "every 30 minutes", "at 7:30 on weekdays",
    ],
)  # fmt: skip
def test_rules_and_the_checklist_understand_the_same_times(text):
    (item,) = parse_checklist(f"- look at it ({text})").items
    plan = parse_condition(text).plan
    now = datetime(2026, 7, 1, 0, 0, tzinfo=UTC)
    if item.timing.kind == "cron":
        assert item.timing.text == plan.text
    else:  # an interval of the checklist begins when it was last asked about, a rule's when the clock says so
        first, second = list_occurrences(plan, now, 2)
        assert (second.moment - first.moment).total_seconds() == item.timing.seconds


# --- firing ---


def rule(when, **more):
    return parse_rule("hot", {"when": when, "notify": "hot", **more}, NOON, "Europe/Berlin")


class Bench:
    """A rule on a clock of its own; `boottime` and the date go on together until a test sets one of them."""

    def __init__(self, when, every=10.0, **more):
        self.rule, self.every = rule(when, **more), every
        self.mono, self.wall, self.boot, self.trusted = 1000.0, NOON, "first", True
        self.state = RuleState()
        self.fired = []

    @property
    def now(self):
        return ClockReading(self.boot, self.mono, self.wall, self.trusted)

    def go(self, seconds):
        self.mono += seconds
        self.wall = (self.wall.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(BERLIN)

    def look(self, *values):
        """Give samples, `every` seconds apart; returns how often it fired, None when something was skipped."""
        before = len(self.fired)
        for value in values:
            self.go(self.every)
            sample = value if isinstance(value, tuple) or value is None else (float(value), "")
            self.state, firing = evaluate_rule(self.rule, self.state, sample, self.now, 30)
            self.fired += [firing] if firing else []
        return len(self.fired) - before


GONE = (None, "no answer")


@each_row(
    ("when", "more", "values", "fires"),
    [
        ("greenhouse.temperature > 35", {}, [34, 35, 35.1], 1),
        ("greenhouse.temperature >= 35", {}, [34, 35], 1),
        ("greenhouse.temperature < 5", {}, [6, 5, 4.9], 1),
        ("greenhouse.temperature > 35 for 30 s", {}, [36, 36, 36], 0),
        ("greenhouse.temperature > 35 for 30 s", {}, [36, 36, 36, 36], 1),
        ("greenhouse.temperature > 35 for 30 s", {}, [36, 36, 34, 36, 36, 36], 0),  # an interruption begins anew
        ("greenhouse.temperature > 35 for 30 s", {}, [36, GONE, 36, 36], 1),  # one failure does not
        ("greenhouse.temperature > 35 for 60 s", {}, [36, GONE, GONE, GONE, GONE, 36, 36, 36], 0),  # a gap does
        ("greenhouse.temperature > 35", {}, [36] * 500, 1),  # once for each time that it becomes so
        ("greenhouse.temperature > 35", {"cooldown": "1 second"}, [36, 34, 36, 34, 36], 3),
        ("greenhouse.temperature > 35", {}, [36, 34, 36, 34, 36], 1),  # the usual ten minutes
        ("greenhouse.temperature > 35", {"cooldown": "1 second", "margin": 2}, [36, 34, 36, 33.1, 36, 32.9, 36], 2),
        ("greenhouse.temperature < 5", {"cooldown": "1 second", "margin": 2}, [4, 6, 4, 7.5, 4], 2),
        ("greenhouse.temperature > 35", {"again": "30 s", "cooldown": "1 second"}, [36] * 10, 4),
        ("greenhouse.temperature rises by 5 in 1 minute", {}, [20, 21, 22, 23, 24, 25], 1),
        ("greenhouse.temperature rises by 5 in 30 s", {}, [20, 21, 22, 23, 24, 25], 0),
        ("greenhouse.temperature falls by 5 in 1 minute", {}, [20, 18, 19, 17, 15], 1),
        ("greenhouse.temperature rises by 0.2 in 1 minute", {}, [0.1, 0.3], 1),
        ("greenhouse.temperature rises by 5 in 24 hours", {}, [20, 20, 10, 20], 1),  # though few values are kept
        ("greenhouse.temperature falls by 5 in 24 hours", {}, [20, 20, 30, 20], 1),
        ("greenhouse.temperature is missing", {}, [20, GONE], 1),
        ("greenhouse.temperature is missing for 20 s", {}, [20, GONE, GONE, 20, GONE, GONE], 0),
        ("greenhouse.temperature is missing for 20 s", {}, [20, GONE, GONE, GONE], 1),
        ("greenhouse.temperature is missing for 20 s", {}, [None, None, None], 1),  # it was not even asked
        ("greenhouse.temperature > 35", {}, [GONE, None, GONE], 0),
    ],
)
def test_when_a_rule_fires(when, more, values, fires):
    assert Bench(when, **more).look(*values) == fires


def test_a_firing_names_its_reading():
    bench = Bench("greenhouse.temperature > 35 for 20 s")
    bench.look(36, 36.5, 37.25)
    assert bench.fired[0].why == "greenhouse temperature 37.25 °C for 20 s"
    bench = Bench("greenhouse.temperature is missing")
    bench.look(GONE)
    assert bench.fired[0].why == "greenhouse temperature: no answer"


def test_a_state_that_was_kept_goes_on_after_a_restart():
    bench = Bench("greenhouse.temperature > 35 for 60 s", cooldown="1 hour")
    bench.look(36, 36, 36)
    bench.state = load_state(bench.state.dump())
    assert bench.look(36, 36, 36, 36) == 1
    bench.state = load_state(bench.state.dump())
    assert bench.look(34, 36, 36, 36, 36, 36, 36, 36, 36) == 0  # the cool-down survives
    bench.go(3600)
    assert bench.look(36, 36, 36, 36, 36, 36, 36, 36) == 1


@each_row(("trusted", "fires"), [(True, 1), (False, 0)])
def test_a_cooldown_after_a_reboot_counts_what_is_known_for_sure(trusted, fires):
    bench = Bench("greenhouse.temperature > 35", cooldown="1 hour")
    assert bench.look(36, 20) == 1
    bench.boot, bench.mono, bench.trusted = "second", 60.0, trusted
    bench.wall += timedelta(hours=2)
    assert bench.look(36) == fires


def test_the_clock_of_the_day_does_not_move_a_dwell():
    bench = Bench("greenhouse.temperature > 35 for 60 s")
    bench.look(36, 36, 36)
    bench.wall += timedelta(days=3650)
    assert bench.look(36, 36) == 0
    bench.wall -= timedelta(days=3660)
    assert bench.look(36, 36) == 1


def test_a_condition_that_was_rewritten_begins_anew():
    bench = Bench("greenhouse.temperature > 35", cooldown="1 second")
    assert bench.look(36) == 1
    bench.rule = rule("greenhouse.temperature > 30", cooldown="1 second")
    assert bench.look(36) == 1


@each_row("text", ["", "[]", "{", '{"since": 3, "nonsense": 1}', '{"fired": [1]}', "null"])
def test_a_state_that_cannot_be_read_is_a_new_one(text):
    assert load_state(text) == RuleState()


# --- times of day ---


def at_six(**more):
    bench = Bench("every day at 6:00", every=0.0, **more)
    bench.look(None)  # from now on
    return bench


def hours(bench, count, step_s=600.0):
    bench.every = step_s
    fired = bench.look(*[None] * int(count * 3600 / step_s))
    bench.every = 0.0
    return fired


def test_a_time_of_day_fires_once_a_day():
    assert hours(at_six(), 24 * 7) == 7


def test_it_fires_at_its_time_not_before():
    bench = at_six()
    wait = get_rule_wait(bench.rule, bench.state, bench.now)
    assert wait == 18 * 3600
    bench.go(wait - 0.5)
    assert bench.look(None) == 0
    bench.go(0.5)
    assert bench.look(None) == 1
    assert bench.look(None) == 0


@each_row(
    ("more", "why", "skipped"),
    [
        ({}, "it was 06:00, 4 h ago", ""),
        ({"output": "valve"}, "it was 06:00, 4 h ago", "an output is not switched late"),
    ],
)
def test_what_is_late_is_said_once_and_an_output_is_not_switched(more, why, skipped):
    bench = at_six(**more)
    bench.go(22 * 3600)
    assert bench.look(None, None) == 1
    assert (bench.fired[0].why, bench.fired[0].skipped) == (why, skipped)


@each_row(
    ("paused", "fires"),
    [
        ("", 7),
        ("2026-07-02 00:00 to 2026-07-03 00:00", 6),
        ("2026-07-02 00:00 to 2026-07-03 00:00; 2026-07-04 05:30 to 2026-07-06 06:01", 3),
        ("2026-06-02 00:00 to 2026-07-03 00:00", 6),
        ("2026-07-02 06:01 to 2026-07-03 06:00", 7),
    ],
)
def test_times_are_left_out(paused, fires):
    assert hours(at_six(paused=paused), 24 * 7) == fires


def test_a_pause_is_told_until_it_is_over():
    table = {"when": "every day at 6:00", "notify": "up", "paused": "2026-07-02 00:00 to 2026-07-03 00:00"}
    rules = [parse_rule("up", table, datetime(2026, 7, day, 12, tzinfo=UTC)) for day in (2, 3)]
    told = [explain_rule(rule).partition(" It is paused ")[2] for rule in rules]
    assert told == ["from 2026-07-02 00:00 to 2026-07-03 00:00.", ""]
    assert rules[1].paused  # a time of it that comes late is left out all the same


def test_a_condition_that_came_true_in_a_pause_fires_behind_it():
    bench = Bench("greenhouse.temperature > 35", paused="2026-07-01 00:00 to 2026-07-01 12:01")
    assert bench.look(36, 36, 36) == 0
    assert bench.look(36, 36, 36, 36) == 1


def test_what_comes_late_of_a_pause_is_not_made_up_for():
    bench = at_six(paused="2026-07-01 00:00 to 2026-07-02 12:00")
    bench.go(22 * 3600)
    assert bench.look(None, None) == 0


def test_a_week_off_is_one_late_firing():
    bench = at_six()
    bench.go(7 * 86_400 + 3600)
    assert bench.look(None, None) == 1
    assert "6 before it missed" in bench.fired[0].why


@each_row("jump", [timedelta(hours=-2), timedelta(minutes=-5), timedelta(seconds=-30)])
def test_a_clock_that_is_put_back_repeats_nothing(jump):
    bench = at_six()
    bench.go(18 * 3600)
    assert bench.look(None) == 1
    bench.wall += jump
    assert hours(bench, 12) == 0
    assert hours(bench, 24) == 1


def test_ten_years_ahead_and_back_loses_no_day():
    bench = at_six(output="valve")
    bench.wall += timedelta(days=3650)
    hours(bench, 0.5)
    bench.wall -= timedelta(days=3650)
    done = [firing for firing in bench.fired if not firing.skipped]
    assert done == []
    assert hours(bench, 48) == 2


def test_a_clock_that_is_not_to_be_trusted_is_waited_for():
    bench = at_six()
    bench.trusted = False
    assert hours(bench, 24) == 0
    assert describe_state(bench.rule, bench.state, bench.now) == "has not fired yet, waits until the clock is set"
    bench.trusted = True
    assert bench.look(None) == 1


@each_row("day", [datetime(2026, 3, 28, 12, tzinfo=BERLIN), datetime(2026, 10, 24, 12, tzinfo=BERLIN)])
def test_the_hour_that_is_skipped_or_repeated_counts_once(day):
    bench = Bench("every day at 2:30", every=0.0)
    bench.wall = day
    bench.look(None)
    assert hours(bench, 24) == 1


# --- the file ---

GOOD = """\
# mine
[rules.hot]
when = "greenhouse.temperature > 35 for 10 minutes"
notify = "The greenhouse is hot"
"""
WATER = """
[rules.water]   # the beds
when = "every day at 6:00"
output = "valve1"
lasts = "5 minutes"
instead = "10 minutes if greenhouse.temperature max yesterday > 37"
"""


def parsed(text, tmp_path):
    (tmp_path / "rules.toml").write_text(text)
    return rules.load_rules(tmp_path, NOON, "Europe/Berlin")


def test_a_rule_in_plain_words(tmp_path):
    found = parsed(GOOD + WATER, tmp_path)
    assert found.problems == {}
    hot, water = map(explain_rule, found.rules.values())
    assert hot == (
        "hot: when the temperature of greenhouse is above 35 °C for 10 min: tell you 'The greenhouse is hot'."
        " Never twice within 10 min."
    )
    assert water == (
        "water: every day at 6:00: switch valve1 on for 5 min (10 min if the highest value of greenhouse's"
        " temperature yesterday was above 37 °C). Not done late when the board was off."
    )


@pytest.mark.parametrize(
    ("bad", "line", "says"),
    [
        ('[rules.x]\nwhen = greenhouse > 3\nnotify = "x"\n', 6, "not valid TOML"),
        ('[rules.x]\nnotify = "x"\nwhen = "greenhouse is hot"\n', 7, "write it like"),
        ('[rules.x]\nnotify = "x"\n', 5, "'when' is missing"),
        ('[rules.x]\nwhen = "every day at 6"\n', 5, "it does nothing"),
        ('[rules.x]\nwhen = "every day at 6"\nnotfy = "x"\n', 7, "did you mean 'notify'"),
        ('[rules.x]\nwhen = "every day at 6"\noutput = "v"\nlevel = "200"\n', 8, "is not a level"),
        ('[rules.x]\nwhen = "every day at 6"\nnotify = "x"\nlasts = "5 min"\n', 5, "lasts is only for an output"),
        ('[rules.x]\nwhen = "every day at 6"\noutput = "v"\ninstead = "10 min"\n', 8, "is not like"),
        ('[rules.x]\nwhen = "every day at 6"\nnotify = "x"\nmargin = 2\n', 8, "only a value"),
        ('[rules.X]\nwhen = "every day at 6"\nnotify = "x"\n', 5, "lower-case"),
        ('[rules.x]\nwhen = "every day at 6"\nnotify = 3 3\n', 7, "not valid TOML"),
        ('[rules.x]\nwhen = "every day at 6"\nnotify = ' + "[" * 5000 + "\n", 5, "not valid TOML: it is nested too deeply"),
    ],
)  # fmt: skip
def test_a_bad_rule_names_its_line_and_costs_itself_only(bad, line, says, tmp_path):
    found = parsed(GOOD + bad + WATER, tmp_path)
    assert list(found.rules) == ["hot", "water"]
    (problem,) = found.problems.values()
    assert f"rules.toml, line {line}: " in problem
    assert says in problem


def test_a_name_that_is_there_twice_is_nobodys(tmp_path):
    found = parsed(GOOD + WATER + GOOD, tmp_path)
    assert list(found.rules) == ["water"]
    assert "line 12: there is a rule 'hot' already" in found.problems["hot"]


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"when = 3\n", b"[outputs.x]\nline = 3\n"])
def test_what_is_no_file_of_rules_is_said(raw, tmp_path):
    (tmp_path / "rules.toml").write_bytes(raw)
    found = rules.load_rules(tmp_path, NOON)
    assert found.rules == {}
    assert len(found.problems) == 1


def test_rules_are_added_and_removed_without_touching_the_others(tmp_path):
    (tmp_path / "rules.toml").write_text(GOOD)
    rules.add_rule(tmp_path, "cold", {"when": "greenhouse.temperature < 3", "notify": 'He said "brr" \\ \n'}, NOON)
    text = (tmp_path / "rules.toml").read_text()
    assert text.startswith(GOOD)
    assert rules.load_rules(tmp_path, NOON).rules["cold"].written.notify == 'He said "brr" \\ \n'
    with pytest.raises(ConfigError, match="already"):
        rules.add_rule(tmp_path, "cold", {"when": "every day at 6", "notify": "x"}, NOON)
    rules.remove_rule(tmp_path, "hot")
    assert list(rules.load_rules(tmp_path, NOON).rules) == ["cold"]
    assert (tmp_path / "rules.toml").read_text().startswith("# mine\n")
    with pytest.raises(ConfigError, match="there are: cold"):
        rules.remove_rule(tmp_path, "hot")


def test_comments_above_the_next_rule_outlive_the_one_before(tmp_path):
    (tmp_path / "rules.toml").write_text(GOOD + "\n# never more than 10 minutes: the tank is small\n" + WATER.lstrip())
    rules.remove_rule(tmp_path, "hot")
    assert "# never more than 10 minutes: the tank is small\n[rules.water]" in (tmp_path / "rules.toml").read_text()


def test_a_mark_at_the_beginning_of_the_file_is_passed_over(tmp_path):
    (tmp_path / "rules.toml").write_bytes(b"\xef\xbb\xbf" + GOOD.lstrip("# mine\n").encode())
    assert (list(rules.load_rules(tmp_path, NOON).rules), rules.load_rules(tmp_path, NOON).problems) == (["hot"], {})
    rules.add_rule(tmp_path, "cold", {"when": "every day at 6", "notify": "x"}, NOON)
    assert list(rules.load_rules(tmp_path, NOON).rules) == ["hot", "cold"]


def test_a_file_of_rules_that_is_a_link_stays_one(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/mine.toml").write_text(GOOD)
    (tmp_path / "rules.toml").symlink_to("kept/mine.toml")
    rules.add_rule(tmp_path, "cold", {"when": "every day at 6", "notify": "x"}, NOON)
    rules.remove_rule(tmp_path, "hot")
    assert (tmp_path / "rules.toml").is_symlink()
    assert "[rules.cold]" in (tmp_path / "kept/mine.toml").read_text()
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["mine.toml"]


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\r", "\x0c"])
def test_what_stands_in_a_text_begins_no_rule(end, tmp_path):
    text = f"a{end}[rules.other]{end}b"
    rules.add_rule(tmp_path, "x", {"when": "every day at 6", "notify": text}, NOON)
    found = rules.load_rules(tmp_path, NOON)
    assert ({name: rule.written.notify for name, rule in found.rules.items()}, found.problems) == ({"x": text}, {})


def test_a_bad_rule_is_never_written(tmp_path):
    with pytest.raises(ConfigError, match="write it like"):
        rules.add_rule(tmp_path, "x", {"when": "soon", "notify": "x"}, NOON)
    assert not (tmp_path / "rules.toml").exists()


SAY = 'when = "every day at 6:00"\nnotify = '
WRITTEN = {
    "a text of lines": (f'[rules.a]\n{SAY}"""\none\n[rules.b]\ntwo"""\n', {"a": "one\n[rules.b]\ntwo"}),
    "a literal text of lines": (f"[rules.a]\n{SAY}'''\n[rules.b] # \"\"\"\n'''\n", {"a": '[rules.b] # """\n'}),
    "a text that ends in quotes": (
        f'[rules.a]\n{SAY}"""He said "\\""[rules.x]"""""\n[rules.b]\n{SAY}"x"\n',
        {"a": 'He said """[rules.x]""', "b": "x"},
    ),
    "dotted keys": ('rules.a.when = "every day at 6:00"\nrules.a.notify = "x"\n', {"a": "x"}),
    "dotted keys below": ('[rules]\na.when = "every day at 6:00"\na.notify = "x"\n', {"a": "x"}),
    "braces": ('[rules]\na = { when = "every day at 6:00", notify = "x" }\n', {"a": "x"}),
    "escapes in the name": (f'[ rules . "\\u0061" ]\n{SAY}"x"\n', {"a": "x"}),
}


@pytest.mark.parametrize(("text", "says"), WRITTEN.values(), ids=WRITTEN)
def test_whatever_is_valid_toml_is_read_and_changed_without_damage(text, says, tmp_path):
    def told():
        found = rules.load_rules(tmp_path, NOON)
        assert found.problems == {}
        return {name: rule.written.notify for name, rule in found.rules.items()}

    (tmp_path / "rules.toml").write_text(text)
    assert told() == says
    with pytest.raises(ConfigError, match="has a rule 'a' already"):
        rules.add_rule(tmp_path, "a", {"when": "every day at 6", "notify": "x"}, NOON)
    rules.add_rule(tmp_path, "new", {"when": "every day at 6", "notify": "y"}, NOON)
    assert told() == {**says, "new": "y"}
    try:
        rules.remove_rule(tmp_path, "a")
    except ConfigError as error:
        assert "take it out by hand" in str(error)  # noqa: PT017 - either outcome is right
        assert told() == {**says, "new": "y"}
    else:
        assert told() == {**{name: text for name, text in says.items() if name != "a"}, "new": "y"}
    rules.remove_rule(tmp_path, "new")
    assert "new" not in told()


def test_rules_in_braces_are_read_and_not_added_to(tmp_path):
    text = 'rules = { a = { when = "every day at 6:00", notify = "x" } }\n'
    assert list(parsed(text, tmp_path).rules) == ["a"]
    with pytest.raises(ConfigError, match="has its rules in braces"):
        rules.add_rule(tmp_path, "new", {"when": "every day at 6", "notify": "y"}, NOON)
    assert (tmp_path / "rules.toml").read_text() == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[rules]\n\na.when = "soon"\na.notify = "x"\n', 3),
        ('# mine\nrules.a.notify = "x"\nrules.a.when = "soon"\n', 3),
        (f'[rules.b]\n{SAY}"""\n[rules.a]\n"""\n[rules.a]\nnotify = "x"\nwhen = "soon"\n', 8),
    ],
)
def test_a_mistake_in_any_form_names_its_line(text, line, tmp_path):
    assert (
        f"rules.toml, line {line}: [rules.a]: when: 'soon' is not a condition" in parsed(text, tmp_path).problems["a"]
    )


@each_row("text", ["[" * 200_000, '{"a":' * 200_000, "- " * 4000, "", "1", "null"], ids=range(6))
def test_a_damaged_state_is_a_rule_that_was_never_looked_at(text):
    assert load_state(text) == RuleState()

"""When a model is asked, and what becomes of its answer: the decision's table, a real database, time handed in."""

import contextlib
import os
import random
import subprocess
import sys
import threading
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise, product
from zoneinfo import ZoneInfo

import pytest
from rows import each_row

from picoclaw.automation import heartbeat as heart_thread
from picoclaw.automation.checklist import check_items, parse_checklist
from picoclaw.automation.heartbeat import (
    MAX_QUESTION,
    Heartbeat,
    HeartbeatThread,
    HeartbeatTime,
    Situation,
    decide_heartbeat,
)
from picoclaw.config.tables import UNATTENDED_LIMITS, HeartbeatConfig
from picoclaw.errors import ConfigError, DeviceMissing, StoreError
from picoclaw.messages import Message, Notice, ToolCall, ToolRun, Turn, Usage
from picoclaw.store.conversations import History
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.store.jobs import ChecklistItemState, Heartbeats
from picoclaw.times import is_quiet

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 7, 1, 12, 0, tzinfo=BERLIN)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


class World:
    """Sensors and files that a test moves."""

    def __init__(self):
        self.values = {"greenhouse": {"temperature": 21.0, "humidity": 50.0}}
        self.files = {"inbox.txt": "1"}
        self.history = []
        self.reads = 0

    def sensors(self):
        return list(self.values)

    def read(self, sensor):
        self.reads += 1
        if self.values.get(sensor) is None:
            raise DeviceMissing(f"{sensor} does not answer")
        return self.values[sensor]

    def measures(self, sensor):
        return ["temperature", "humidity"]

    def past(self, sensor, what, seconds):
        return [(age_s, value) for age_s, value in self.history if age_s <= seconds + 300]

    def mark(self, path):
        return self.files.get(path, "")

    def warm(self, value):
        self.values["greenhouse"]["temperature"] = value


@each_row(("past", "due"), [([], False), ([(1800, 17.0)], False), ([(1800, 15.5)], True), ([(7200, 12.0)], False)])
def test_a_change_is_asked_about_once(past, due):
    world = World()
    world.history = past
    (item,) = parse_checklist("- look when: greenhouse.temperature rises by 5 in 1 hour").items
    (found,) = check_items([item], {}, world, NOON)
    assert found.due is due
    (again,) = check_items([item], {item.key: found.state_after_asking}, world, NOON)
    assert not again.due


# --- the decision's table ---

# A file, what has happened since it was asked about silently, and what follows by day with tokens to spend.
FILES = {
    "missing": (None, "", "nothing to do"),
    "unreadable": (ConfigError("HEARTBEAT.md cannot be read"), "", "nothing to do"),
    "empty": ("", "", "nothing to do"),
    "comments and headings": ("# Home\n<!-- - a -->\n", "", "nothing to do"),
    "all done": ("- [x] a\n- [X] b\n", "", "nothing to do"),
    "new": ("- look at the greenhouse", "never asked", "due"),
    "unchanged": ("- look at the greenhouse", "", "not due"),
    "names nothing": ("- look around", "", "not due"),
    "a value has moved": ("- look at the greenhouse", "warmer", "due"),
    "a value has moved a little": ("- look at the greenhouse", "a little warmer", "not due"),
    "a sensor has failed": ("- look at the greenhouse", "failed", "due"),
    "another value has moved": ("- look around", "warmer", "not due"),
    "a named file has changed": ("- read inbox.txt", "file", "due"),
    "another file has changed": ("- read notes.txt", "file", "not due"),
    "a line is new": ("- look around", "another line", "due"),
    "a line was ticked": ("- look around", "ticked", "nothing to do"),
    "its time has not come": ("- look (hourly)", "", "not due"),
    "its time has come": ("- look (every 5 minutes)", "", "due"),
    "a condition holds": ("- look when: greenhouse.temperature > 30", "warmer", "due"),
    "a condition does not hold": ("- look when: greenhouse.temperature > 40", "warmer", "not due"),
    "a condition held before": ("- look when: greenhouse.temperature > 20", "warmer", "not due"),
    "a watched file has changed": ("- look when: file inbox.txt changed", "file", "due"),
    "a watched file has not": ("- look when: file inbox.txt changed", "warmer", "not due"),
    "a condition holds, too early": ("- look when: greenhouse.temperature > 30 (hourly)", "warmer", "not due"),
    "both have come": ("- look when: greenhouse.temperature > 30 (every 5 min)", "warmer", "due"),
}
HOURS = {
    "day": ("", {}),
    "night": ("quiet hours", {"now": NOON.replace(hour=23)}),
    "before the morning": ("quiet hours", {"now": NOON.replace(hour=6, minute=59)}),
    "morning": ("", {"now": NOON.replace(hour=7)}),
    "no trusted clock": ("clock", {"trusted": False}),
    "set back": ("set back", {"set_back": True}),
    "too early": ("interval", {"since_s": 29 * MINUTE}),
    "after failures": ("interval", {"since_s": 59 * MINUTE, "failures": 1}),
    "first of all": ("", {"since_s": None}),
}
BUDGET = {
    "tokens left": ("", {"used": 49_999}),
    "used up": ("budget", {"used": 50_000}),
    "no model": ("no model", {"modelled": False}),
    "disabled": ("disabled", {"enabled": False}),
}


def happened(world, what, text):
    """Move the world on, and return the checklist as it is then."""
    if what in {"warmer", "a little warmer"}:
        world.warm(36.0 if what == "warmer" else 22.5)
    if what == "failed":
        world.values["greenhouse"] = None
    if what == "file":
        world.files["inbox.txt"] = "2"
    return {"another line": f"{text}\n- and there", "ticked": text.replace("- ", "- [x] ")}.get(what, text)


def situation(text, since, **more):
    """An hour of a silent heartbeat, and then what has happened since."""
    if text is None or isinstance(text, Exception):
        return Situation(NOON, file=str(text or "there is no HEARTBEAT.md"), since_s=HOUR)._replace(**more)
    world, now = World(), more.get("now", NOON)
    known = {}
    if since != "never asked":
        before = check_items(parse_checklist(text).items, {}, world, now - timedelta(minutes=50))
        known = {f.item.key: f.state_after_asking for f in before}
    read = parse_checklist(happened(world, since, text))
    looked = check_items(read.items, known, world, now)
    return Situation(NOON, looked, read.done, since_s=HOUR, quiet=(time(22), time(7)))._replace(**more)


@each_row("file", FILES)
def test_the_decision(file):
    text, since, by_itself = FILES[file]
    order = [
        "disabled",
        "nothing to do",
        "no model",
        "clock",
        "set back",
        "interval",
        "quiet hours",
        "budget",
        "not due",
    ]
    for (by_hour, then), (by_budget, spent) in product(HOURS.values(), BUDGET.values()):
        s = situation(text, since, **then, **spent)
        decision = decide_heartbeat(s)
        expected = min({by_itself, by_hour, by_budget} - {"", "due"}, key=order.index, default="due")
        assert (decision.rule, decision.beat) == (expected, expected == "due"), (by_hour, by_budget)
        assert decision.why
        assert bool(decision.ask) == decision.beat
        assert (decision.wait_s is None) == (expected == "disabled")
        by_hand = decide_heartbeat(s._replace(by_hand=True))
        bound = {"nothing to do", "no model", "budget"}
        assert by_hand.beat or by_hand.rule in {*bound, "not due"}
        assert by_hand.beat or by_hand.rule == "not due" or by_hand.rule in {by_itself, by_budget}


@each_row(
    ("hours", "clock", "quiet"),
    [
        (None, "03:00", False),
        (("22:00", "07:00"), "21:59", False),
        (("22:00", "07:00"), "22:00", True),
        (("22:00", "07:00"), "00:00", True),
        (("22:00", "07:00"), "07:00", False),
        (("13:00", "15:00"), "14:59", True),
        (("13:00", "15:00"), "15:00", False),
        (("00:00", "06:00"), "23:59", False),
    ],
)
def test_quiet_hours(hours, clock, quiet):
    span = tuple(time.fromisoformat(end) for end in hours) if hours else None
    assert is_quiet(span, datetime.fromisoformat(f"2026-07-01T{clock}").replace(tzinfo=BERLIN)) is quiet


@each_row(
    ("night", "quiet_h"),
    [("2026-07-01", 9), ("2026-03-28", 8), ("2026-10-24", 10)],  # two of them are an hour shorter or longer
)
def test_a_night_is_as_long_as_the_clock_on_the_wall_says(night, quiet_h):
    begin = datetime.fromisoformat(f"{night}T20:00").replace(tzinfo=BERLIN).astimezone(UTC)
    moments = [(begin + timedelta(minutes=minutes)).astimezone(BERLIN) for minutes in range(0, 15 * 60, 10)]
    assert sum(is_quiet((time(22), time(7)), moment) for moment in moments) == quiet_h * 6


def test_what_is_asked_has_headings_and_what_was_found():
    text = (
        "# Shed\n- water (every 5 min)\n# Green\n- warn me when: greenhouse.temperature > 30 for 10 min\n- no (daily)"
    )
    world, known = World(), {}
    for minutes in (0, 20):
        world.warm(36.2)
        looked = check_items(parse_checklist(text).items, known, world, NOON + timedelta(minutes=minutes))
        known = {f.item.key: f.state_now for f in looked}
    ask = decide_heartbeat(Situation(NOON, looked)).ask
    assert ask == "Shed:\n- water\nGreen:\n- warn me (greenhouse.temperature is 36.2 °C for 20 min)"


def test_a_long_list_is_asked_about_in_parts():
    text = "\n".join(f"- {n} {'x' * 1000}" for n in range(20))
    decision = decide_heartbeat(Situation(NOON, check_items(parse_checklist(text).items, {}, World(), NOON)))
    assert len(decision.asked) == 7
    assert len(decision.ask) <= MAX_QUESTION
    huge = decide_heartbeat(
        Situation(NOON, check_items(parse_checklist("- " + "x" * 100_000).items, {}, World(), NOON))
    )
    assert len(huge.ask) < MAX_QUESTION + 10


# --- conditions ---


def spell(text, *moments, world=None):
    """Look at a line at some moments, each (minutes, temperature), as if every time that it was due it was asked."""
    world, known, due = world or World(), {}, []
    for minutes, value in moments:
        world.values["greenhouse"] = None if value is None else {"temperature": value}
        (found,) = check_items(parse_checklist(text).items, known, world, NOON + timedelta(minutes=minutes))
        known = {found.item.key: found.state_after_asking if found.due else found.state_now}
        due.append(found.due)
    return due


HOT = "- hot when: greenhouse.temperature > 30"


@each_row(
    ("text", "moments", "due"),
    [
        (HOT, [(0, 31), (30, 32), (60, 29), (90, 31)], [True, False, False, True]),
        (HOT, [(0, 31), (30, None), (60, 31)], [True, False, False]),
        (f"{HOT} for 40 min", [(0, 31), (30, 31), (60, 31), (90, 31)], [False, False, True, False]),
        (f"{HOT} for 40 min", [(0, 31), (30, 29), (60, 31), (90, 31)], [False, False, False, False]),
        (f"{HOT} (hourly)", [(0, 31), (30, 31), (60, 31), (120, 31), (180, 29)], [False, False, True, True, False]),
        ("- x when: greenhouse.humidity missing", [(0, 20), (30, 20)], [True, False]),
        (f"{HOT} (daily 13:00)", [(0, 31), (30, 31), (60, 29), (65, 29), (180, 35)], [False] * 5),
        (f"{HOT} (daily 13:00)", [(0, 31), (60, 31), (180, 35), (1500, 35)], [False, True, False, True]),
        (f"{HOT} (daily 13:00)", [(0, 29), (60, 30), (64, 31)], [False, False, True]),  # a moment later
        (f"{HOT} (daily 13:00)", [(0, 29), (180, 31)], [False, True]),  # nobody looked at its time
        (f"{HOT} (daily 13:00)", [(0, 31), (60, None), (66, None), (180, 31)], [False] * 4),
        (f"{HOT} (every 5 min)", [(0, 29), (5, 29), (10, 31), (12, 31), (15, 31)], [False, False, True, False, True]),
        ("- x when: greenhouse.temperature missing for 1 h", [(0, 20), (30, 20), (90, 20)], [False, False, False]),
    ],
)
def test_a_condition_is_asked_about_once_as_long_as_it_holds(text, moments, due):
    assert spell(text, *moments) == due


@each_row(
    ("history", "due"),
    [
        ([(700, 31), (400, 31), (100, 32)], True),
        ([(700, 29), (400, 31), (100, 32)], False),
        ([(700, 31), (400, 29), (100, 32)], False),
        ([(400, 31), (100, 32)], False),
        ([], False),
    ],
)
def test_the_history_says_how_long_a_condition_has_held(history, due):
    world = World()
    world.history = history
    assert spell(f"{HOT} for 10 min", (0, 31), world=world) == [due]


@each_row(
    ("condition", "wrong"),
    [
        ("pressure > 1000", "greenhouse does not measure 'pressure' (it measures: temperature, humidity)"),
        ("temperature wobbles above 30", "greenhouse does not measure 'temperature wobbles'"),
        ("pressure missing", "greenhouse does not measure 'pressure'"),
    ],
)
def test_a_condition_on_what_the_sensor_does_not_measure_is_named(condition, wrong):
    (found,) = check_items(parse_checklist(f"- tell me when: greenhouse.{condition}").items, {}, World(), NOON)
    assert found.why.startswith(wrong)
    assert "so it counts as plain text" in found.why
    assert found.due


def test_a_misspelt_sensor_is_asked_about_as_words_and_each_sensor_is_read_once():
    world = World()
    text = "- a when: greenhose.temperature > 30\n- b when: greenhouse.humidity > 90\n- c greenhouse"
    one, two, three = check_items(parse_checklist(text).items, {}, world, NOON)
    assert one.due
    assert "there is no sensor 'greenhose' (there are: greenhouse)" in one.why
    assert one.item.text == "a when: greenhose.temperature > 30"
    assert (two.due, three.due, world.reads) == (False, True, 1)


# --- a heart over a real database ---


def test_what_subagents_of_heartbeats_took_counts_into_the_day(life):
    one, asked = life("- look (every 5 min)", tokens_a_day=5000), []
    taken = 4900
    one.heart.helped = lambda since: asked.append(since) or taken
    one.later(HOUR)
    one.step()
    one.later(HOUR)
    one.step()
    assert one.tokens == 100, "what is left of the day"
    before, taken = len(one.asked), 5000
    one.later(HOUR)
    one.step()
    assert len(one.asked) == before
    assert set(asked) == {NOON.replace(hour=0).timestamp()}


def turn(reply="HEARTBEAT_OK", tokens=500, stopped="", steps=1, tools=(), notice=""):
    messages = (Message("user", "x"), Message("assistant", reply))
    return Turn(reply, messages, steps, tools, Usage(tokens, 0), stopped, "scripted", Notice(notice, bool(notice)))


class Life:
    """A heart that can be restarted, with a clock that is turned by hand and answers by a script."""

    def __init__(self, folder, text="- look (every 5 minutes)", **config):
        self.path = folder / "state.db"
        self.text, self.world, self.config = text, World(), HeartbeatConfig(**({"quiet": ""} | config))
        self.answers, self.asked, self.rung = [], [], 0
        self.wall, self.mono, self.boot, self.trusted = NOON, 1000.0, "boot-1", True
        self.start()

    def start(self):
        self.database = Database(self.path)
        self.beats = Heartbeats(self.database)
        self.heart = Heartbeat(
            self.config, self.beats, self._page, self.world, self._answer, True, "[empty]", self._ring
        )

    def restart(self):
        self.database.close()
        self.start()

    def _page(self):
        if isinstance(self.text, Exception):
            raise self.text
        return self.text

    def _answer(self, inbound, tokens, hear):
        self.hear = hear
        self.asked.append((self.wall, inbound.text))
        self.tokens = tokens
        assert (inbound.origin, inbound.session) == ("heartbeat", "heartbeat")
        answer = self.answers.pop(0) if self.answers else turn()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _ring(self):
        self.rung += 1

    def step(self):
        return self.heart.step(HeartbeatTime(self.wall, self.mono, self.boot, self.trusted))

    def later(self, seconds):
        self.wall = datetime.fromtimestamp(self.wall.timestamp() + seconds, BERLIN)
        self.mono += seconds

    def told(self):
        return [(letter.session, letter.text) for letter in Outbox(self.database).waiting()]


@pytest.fixture
def life(tmp_path):
    made = []

    def make(*arguments, **config):
        made.append(Life(tmp_path, *arguments, **config))
        return made[-1]

    yield make
    for one in made:
        one.database.close()


IDLE = """
# Greenhouse
- [ ] Tell me if something is odd in the greenhouse
- [ ] Warn me when: greenhouse.temperature > 35 for 10 min
- [ ] Read it when: file inbox.txt changed
- [x] Ask for seeds
- Look around
"""


def test_a_day_with_nothing_new_costs_no_call_and_not_a_byte(life):
    one = life(IDLE)
    one.step()
    assert len(one.asked) == 1
    before, files = one.database.connection.total_changes(), written(one.path)
    end, wakes = one.mono + DAY, 0
    while one.mono < end:
        one.later(max(1.0, one.step()))
        wakes += 1
    assert (len(one.asked), wakes) == (1, 48)
    assert (one.database.connection.total_changes(), written(one.path)) == (before, files)


def written(path):
    """The state of every file of the database."""
    return {
        p.name: (p.stat().st_size, p.stat().st_mtime_ns)
        for p in path.parent.glob(f"{path.name}*")
        if "shm" not in p.name
    }


def test_a_heart_that_is_off_sleeps_for_ever(life):
    one = life(enabled=False)
    assert one.step() is None
    assert one.asked == []


def test_never_within_one_interval_however_often_it_is_restarted(life):
    one = life("- look (every 5 minutes)")
    for _ in range(300):
        one.step()
        one.restart()
        one.later(100)
    gaps = [b[0].timestamp() - a[0].timestamp() for a, b in pairwise(one.asked)]
    assert len(one.asked) == 17
    assert min(gaps) >= 30 * MINUTE


def test_two_processes_ask_once(life):
    one = life("- look")
    two = Life(one.path.parent, "- look")
    now = HeartbeatTime(one.wall, one.mono, one.boot)
    looked = one.heart.look(now), two.heart.look(now)
    assert [look.decision.beat for look in looked] == [True, True]
    assert one.heart.beat(looked[0], now)
    assert two.heart.beat(looked[1], now) is None
    assert (len(one.asked), len(two.asked)) == (1, 0)
    two.database.close()


@pytest.mark.parametrize(
    ("seconds", "boot", "rule"), [(60, "boot-1", "running"), (200, "boot-1", "due"), (60, "b", "due")]
)
def test_nobody_asks_by_hand_what_is_being_asked(life, seconds, boot, rule):
    one = life("- look")
    one.answers = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        one.step()
    one.later(seconds)
    assert one.heart.look(HeartbeatTime(one.wall, one.mono, boot), by_hand=True).decision.rule == rule


def test_it_is_told_once_in_the_chat_that_was_used_last(life):
    one = life("- look")
    history = History(one.database)
    for session in ("porch", "kitchen", "heartbeat", "job 3 2026-07-01T12:00+00:00"):
        history.keep(session, turn("hello"), NOON)
    one.answers = [turn("The tank leaks.")]
    one.step()
    assert one.told() == [("kitchen", "The tank leaks.")]
    assert one.rung == 1
    for _ in range(10):
        one.restart()
        one.later(HOUR)
        one.step()
    assert one.told() == [("kitchen", "The tank leaks.")]
    assert (len(one.asked), one.rung) == (1, 1)


@pytest.mark.parametrize(
    ("answer", "told", "outcome"),
    [
        (turn(), "", "silent"),
        (turn("**Heartbeat OK.** Have a nice day!"), "", "silent"),
        (turn("It is 36 °C."), "It is 36 °C.", "said"),
        (turn("It is 36 °C.", stopped="steps"), "It is 36 °C.", "said"),
        (turn(tools=(ToolRun("message", {"text": "Leak!"}, "sent", 1.0),)), "Leak!", "said"),
        (turn("Done.", tools=(ToolRun("message", {"text": "Leak!"}, "sent", 1.0),)), "Leak!\nDone.", "said"),
        (turn("Leak!", tools=(ToolRun("message", {"text": "Leak!"}, "sent", 1.0),)), "Leak!", "said"),
        (turn(tools=(ToolRun("message", {"text": "Leak!"}, "error: no", 1.0),)), "", "silent"),
        (turn("[no answer]", stopped="error", tokens=0), "", "failed"),
        (turn("half [stopped]", stopped="stopped"), "", "put off"),
        (turn("[empty]"), "", "failed"),
        (turn(" "), "", "failed"),
    ],
)
def test_what_becomes_of_an_answer(life, answer, told, outcome):
    one = life("- look")
    one.answers = [answer]
    one.step()
    assert [text for _, text in one.told()] == ([told] if told else [])
    last = one.beats.today(one.wall).last
    assert (last.outcome if last else "put off") == outcome
    one.later(2 * HOUR)
    one.step()
    assert len(one.asked) == (2 if outcome in {"failed", "put off"} else 1)


def test_failures_come_less_often_and_are_told_once(life):
    one = life("- look")
    one.answers = [turn("", stopped="error", tokens=0, notice="the key was refused")] * 100
    while one.mono < 1000 + 3 * DAY:
        one.later(one.step())
    assert [text for _, text in one.told()] == ["The last 3 heartbeats failed: the key was refused"]
    hours = [(moment.timestamp() - NOON.timestamp()) / HOUR for moment, _ in one.asked]
    assert [round(b - a) for a, b in pairwise(hours)][:7] == [1, 2, 4, 8, 8, 8, 8]


def test_failures_are_told_though_one_of_them_was_cut_off(life):
    one = life("- look")
    for cut in (False, False, True, False, False):
        one.answers = [turn("", stopped="error", tokens=0, notice="the key was refused")]
        if cut:
            one.answers = [KeyboardInterrupt()]
        with contextlib.suppress(KeyboardInterrupt):
            one.step()
        one.later(DAY)
    assert [text for _, text in one.told()] == ["The last 3 heartbeats failed: the key was refused"]


def test_one_heartbeat_may_take_no_more_than_is_left_of_the_day(life):
    one = life("- look (every 5 min)", tokens_a_day=1800)
    one.later(HOUR)
    one.step()
    one.later(HOUR)
    one.step()
    left = []
    for _ in range(3):
        one.later(HOUR)
        one.step()
        left.append(one.tokens)
    assert left == [1300, 800, 300]


def test_the_days_tokens_hold_over_restarts_and_end_with_the_day(life):
    one = life("- look (every 5 min)", tokens_a_day=1800)
    while one.wall.day == NOON.day:
        one.later(one.step())
        one.restart()
    assert len(one.asked) == 4  # 500 each
    assert [text for _, text in one.told()] == ["The day's 1,800 tokens for heartbeats are used; they go on tomorrow."]
    one.later(one.step())
    one.step()
    assert len(one.asked) > 4


@pytest.mark.parametrize(
    ("answer", "tokens"),
    [(turn(tokens=0, steps=3), 12_000), (turn("x", tokens=0, stopped="error"), 0), (turn(tokens=700), 700)],
)
def test_tokens_that_a_server_does_not_count(life, answer, tokens):
    one = life("- look")
    one.answers = [answer]
    one.step()
    assert one.beats.today(one.wall).tokens == tokens


JUMPS = [-2 * HOUR, -50 * 365 * DAY, 10 * 365 * DAY, 2 * HOUR, 3.0, -3.0]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_date_that_jumps_makes_no_heartbeat_come_earlier_or_never(life, jump):
    one = life("- look\n- and look (every 5 min)")
    one.step()
    one.later(10 * MINUTE)
    one.wall = datetime.fromtimestamp(one.wall.timestamp() + jump, BERLIN)
    asked = []
    for _ in range(80):
        before = len(one.asked)
        one.step()
        asked += [(one.mono - 1000) / MINUTE] * (len(one.asked) - before)
        one.restart()
        one.later(MINUTE)
    assert asked == [30.0, 60.0]


@pytest.mark.parametrize(("jump", "expected"), [(0.0, 30), (-2 * HOUR, 41), (-HOUR * 9000, 41), (2 * HOUR, 11)])
def test_after_a_power_cut_the_date_alone_tells(life, jump, expected):
    one = life("- look\n- and look (every 5 min)")
    one.step()
    one.later(11 * MINUTE)
    one.wall, one.mono, one.boot = datetime.fromtimestamp(one.wall.timestamp() + jump, BERLIN), 5.0, "boot-2"
    minutes = 11
    while one.step() and len(one.asked) < 2:
        minutes += 1
        one.later(MINUTE)
    assert minutes == expected


def test_two_hundred_jumps_and_restarts(life):
    one, dice = life("- look (every 5 min)"), random.Random(7)
    moments = []
    for number in range(200):
        before = len(one.asked)
        one.step()
        moments += [one.mono] * (len(one.asked) - before)
        one.later(dice.uniform(60, 1200))
        one.wall = datetime.fromtimestamp(one.wall.timestamp() + dice.choice([0, 0, *JUMPS[3:], -HOUR]), BERLIN)
        if number % 3:
            one.restart()
    assert min(after - before for before, after in pairwise(moments)) >= 30 * MINUTE
    assert len(moments) > 200 * 630 / 3600


def test_a_date_that_is_not_believed_changes_nothing(life):
    one = life("- look\n- look (every 5 min)\n- read when: file inbox.txt changed")
    one.step()
    one.later(HOUR)
    before, real = one.beats.known(), one.wall
    one.trusted, one.wall = False, datetime(1970, 1, 1, tzinfo=BERLIN)
    assert one.step() > 0
    assert (len(one.asked), one.beats.known()) == (1, before)
    one.trusted, one.wall = True, real
    one.step()
    assert len(one.asked) == 2


def test_a_value_is_asked_about_again_only_when_it_has_moved_from_what_was_asked(life):
    one = life("- look at the greenhouse")
    for value in (21.0, 21.9, 22.8, 23.5, 24.0, 24.4):
        one.world.warm(value)
        one.step()
        one.later(HOUR)
    assert [text for _, text in one.asked] == [
        "- look at the greenhouse",
        "- look at the greenhouse (greenhouse.temperature went from 21 to 23.5)",
    ]


def test_several_missed_times_are_one_and_a_new_time_does_not_count_backwards(life):
    one = life("- look (daily 11:00)")
    one.step()
    assert one.asked == []
    one.later(4 * DAY)
    one.step()
    one.later(HOUR)
    one.step()
    assert len(one.asked) == 1


def test_it_wakes_when_a_time_comes(life):
    one = life("- look (daily 12:07)")
    assert one.step() == pytest.approx(7 * MINUTE)
    one.later(7 * MINUTE)
    one.step()
    assert len(one.asked) == 1


def test_a_condition_is_judged_at_its_time_also_within_the_interval(life):
    one = life(f"- look\n{HOT} (daily 12:10)")
    one.world.warm(29.0)
    while one.wall < NOON + timedelta(minutes=20):
        one.later(one.step())
    one.world.warm(36.0)
    while one.wall < NOON + timedelta(hours=3):
        one.later(one.step())
    assert len(one.asked) == 1


def test_a_file_that_changes_while_the_model_works_is_asked_about_again(life):
    one = life("- read when: file inbox.txt changed")
    one.step()
    one.world.files["inbox.txt"] = "2"
    one.later(HOUR)
    answer = one.heart.answer
    one.heart.answer = lambda *asked: (one.world.files.update({"inbox.txt": "3"}), answer(*asked))[1]
    one.step()
    one.heart.answer = answer
    one.later(HOUR)
    one.step()
    assert len(one.asked) == 2


WRITES = ToolCall("1", "write_file", {"path": "./log.md", "content": "21", "mode": "append"})


def work(one, *moves):
    """A turn in which each of the moves happens: `own` a call that writes log.md, `owner` somebody else's change."""

    def answer(inbound, tokens, hear):
        for number, move in enumerate(moves):
            if move == "own":
                hear(WRITES)
            elif move == "looks":
                hear(ToolCall("2", "sensor_read", {}))
            if move != "looks":
                one.world.files["log.md"] = f"{move} {number}"
            if move == "during a look":
                hear(ToolRun("sensor_read", {}, "21", 1.0))
            if move == "own":
                hear(ToolRun("write_file", WRITES.arguments, "done", 1.0))
        return one._answer(inbound, tokens, hear)

    one.heart.answer = answer


@pytest.mark.parametrize(
    ("moves", "again"),
    [
        ([], False),
        (["own"], False),
        (["own", "own"], False),
        (["owner"], True),
        (["owner", "own"], True),
        (["own", "owner"], True),
        (["own", "owner", "own"], True),
        (["looks", "during a look"], True),
    ],
)
@pytest.mark.parametrize("there", [True, False])
def test_what_its_own_turn_wrote_is_no_news_and_what_the_owner_wrote_meanwhile_is(life, moves, again, there):
    one = life("- note it in log.md")
    if there:
        one.world.files["log.md"] = "0"
    work(one, *moves)
    one.step()
    one.later(HOUR)
    work(one)
    one.step()
    assert len(one.asked) == 1 + again


def test_what_was_put_off_is_done_again_and_counts_for_nothing_but_its_tokens(life):
    one = life("- look", tokens_a_day=1000)
    one.answers = [turn("[stopped]", stopped="stopped", tokens=300), turn("[stopped]", stopped="stopped", tokens=0)]
    for _ in range(2):
        assert one.step() == 1.0
        one.later(60)
    today = one.beats.today(one.wall)
    assert (today.tokens, today.failures, today.ended, today.last) == (300, 0, 0, None)
    one.answers = [turn("The tank leaks.", tokens=0)]
    one.step()
    assert (len(one.asked), [text.split("\n")[0] for _, text in one.told()]) == (3, ["The tank leaks."])


def test_one_that_was_given_up_by_who_left_comes_to_nothing(life):
    one = life("- look")
    one.heart.answer = lambda *asked: (one.beats.put_off(one.heart.going, 7), one._answer(*asked))[1]
    one.answers = [turn("The tank leaks.")]
    one.step()
    assert one.told() == []
    assert (
        one.beats.today(one.wall).tokens,
        one.heart.look(HeartbeatTime(one.wall, one.mono, one.boot)).decision.beat,
    ) == (
        7,
        True,
    )


def test_no_sensor_is_read_in_quiet_hours_and_nothing_is_lost_by_it(life):
    text = f"- look at the greenhouse\n{HOT}\n- at night {HOT} (daily 23:30)".replace("- at night -", "- at night")
    one = life(text, quiet="22:00-07:00")
    one.step()
    one.later(10 * HOUR)
    reads, before = one.world.reads, one.beats.known()
    one.world.warm(36.0)
    while one.wall.hour != 7:
        one.later(one.step())
    assert (one.world.reads, one.beats.known(), len(one.asked)) == (reads, before, 1)
    one.step()
    assert one.asked[-1][1].count("greenhouse.temperature is 36 °C") == 2
    asleep = one.heart.look(HeartbeatTime(one.wall.replace(hour=2), one.mono, one.boot))
    assert [finding.due for finding in asleep.situation.findings] == [False] * 3
    dry = one.heart.look(HeartbeatTime(one.wall.replace(hour=2), one.mono, one.boot), keep=False)
    assert "quiet" not in dry.situation.findings[1].why


@pytest.mark.parametrize("text", ["", "\n", "<!-- nothing -->"])
def test_a_list_that_is_just_being_written_forgets_nothing(life, text):
    one = life("- look\n- look (daily)")
    one.step()
    before, whole = one.beats.known(), one.text
    one.text = text
    one.later(HOUR)
    one.step()
    one.text = whole
    one.later(HOUR)
    one.step()
    assert (one.beats.known(), len(one.asked)) == (before, 1)


def test_lines_that_are_gone_are_forgotten(life):
    one = life("- a (hourly)\n- b (daily)")
    one.step()
    assert len(one.beats.known()) == 2
    one.text = "- b (daily)"
    one.step()
    assert len(one.beats.known()) == 1


def test_an_unreadable_checklist_forgets_nothing(life):
    one = life("- a (hourly)")
    one.step()
    known, one.text = one.beats.known(), ConfigError("no")
    assert one.step() == 30 * MINUTE
    assert one.beats.known() == known


CUT = """
import os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from test_heartbeat import Life
one = Life(Path(sys.argv[1]), "- look")
one.heart.answer = lambda *_: os.kill(os.getpid(), 9)
one.step()
"""


def test_one_that_is_cut_off_is_paid_for_and_asked_again_later(life, tmp_path):
    here = os.path.dirname(__file__)  # noqa: PTH120
    done = subprocess.run([sys.executable, "-c", CUT, str(tmp_path), here], timeout=60)
    assert done.returncode == -9
    one = life("- look")
    today = one.beats.today(NOON)
    assert (today.last.outcome, today.tokens, today.failures) == ("running", UNATTENDED_LIMITS.tokens, 1)
    assert one.told() == []
    while (wait := one.step()) and not one.asked:
        one.later(wait)
    assert one.wall - NOON == timedelta(hours=1)
    one.answers = []
    one.later(DAY - 1)
    one.step()
    assert len(one.asked) == 1
    one.later(1)
    one.step()
    assert len(one.asked) == 2


@pytest.mark.parametrize("text", ["- look around", "- [ ] look at the greenhouse", "look around"])
def test_a_line_without_a_time_is_asked_about_again_a_day_later(life, text):
    one = life(text)
    one.step()
    one.later(1800)
    looked = one.heart.look(HeartbeatTime(one.wall, one.mono, one.boot))
    assert "it is asked about again Thu 12:00" in looked.decision.why
    while one.wall < NOON + timedelta(days=3, minutes=1):
        one.later(one.step())
    assert [moment - NOON for moment, _ in one.asked] == [timedelta(days=days) for days in range(4)]


def test_what_is_remembered_comes_back_as_it_was(life):
    one = life("")
    lines = {"a": ChecklistItemState(1.5, 2.5, True, {"x.temperature": 21.5, "f": "1 2"}), "b": ChecklistItemState()}
    one.beats.remember(lines)
    assert one.beats.known() == lines


def test_what_goes_wrong_once_ends_no_heart_and_is_said_once(life, monkeypatch):
    one, looked, said = life("- look"), [], []
    done = threading.Event()

    def look(_):
        looked.append(1)
        if len(looked) < 4:
            raise (ConfigError if len(looked) % 2 else StoreError)("sensors.toml line 3")
        done.set()

    monkeypatch.setattr(heart_thread, "_RETRY_S", 0.01)
    one.heart.step = look
    opened = contextlib.nullcontext((one.heart, lambda: HeartbeatTime(NOON, 1.0, "b")))
    thread = HeartbeatThread(lambda _: opened, said.append, 0.0)
    thread.start()
    assert done.wait(20)
    thread.stop()
    assert said == ["heartbeats wait: sensors.toml line 3"]

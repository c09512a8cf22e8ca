"""Reminders with a real database: each is told once, by one process, and only its own chat can drop it."""

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from picoclaw.messages import Caller, ToolCall
from picoclaw.reflex.reminders import worded
from picoclaw.store.database import Database
from picoclaw.store.jobs import Jobs
from picoclaw.tools.jobs import Reminders
from picoclaw.tools.toolset import Toolset

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


@pytest.fixture
def jobs(path):
    database = Database(path)
    yield Jobs(database)
    database.close()


def told(found):
    return [job.message for job in found]


# --- the store ---


def test_what_is_due_is_claimed_once_the_oldest_first(jobs):
    for hours in (3, 1, 2):
        jobs.add("home", f"in {hours} h", NOON + hours * HOUR)
    assert told(jobs.claim(NOON + HOUR - timedelta(seconds=1))) == []
    assert told(jobs.claim(NOON + 2 * HOUR)) == ["in 1 h", "in 2 h"]
    assert told(jobs.claim(NOON + 2 * HOUR)) == []
    assert told(jobs.of("home")) == ["in 1 h", "in 2 h", "in 3 h"]


def test_the_next_is_the_earliest_that_nobody_has_claimed(jobs):
    assert jobs.next_due() is None
    jobs.add("home", "late", NOON + 2 * HOUR)
    jobs.add("shed", "soon", NOON + HOUR)
    assert jobs.next_due() == NOON + HOUR
    jobs.claim(NOON + HOUR)
    assert jobs.next_due() == NOON + 2 * HOUR


def test_what_was_delivered_is_gone_and_what_was_not_comes_again(jobs, path):
    jobs.add("home", "a", NOON)
    jobs.add("home", "b", NOON)
    first, _ = jobs.claim(NOON)
    jobs.delivered(first)
    assert told(jobs.of("home")) == ["b"]


CLAIMING = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from picoclaw.store.database import Database
from picoclaw.store.jobs import Jobs
claimed = Jobs(Database(Path(sys.argv[1]))).claim(datetime(2026, 7, 1, 12, 0, tzinfo=UTC))
print(*[job.message for job in claimed], flush=True)
time.sleep(60)
"""


def test_what_a_dead_process_has_claimed_is_free_again_and_what_a_living_one_has_is_not(jobs, path):
    jobs.add("home", "tea", NOON)
    with subprocess.Popen([sys.executable, "-c", CLAIMING, path], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "tea\n"
            assert jobs.claim(NOON) == []
        finally:
            child.send_signal(signal.SIGKILL)
    assert told(jobs.claim(NOON)) == ["tea"]


def test_a_chat_drops_its_own_reminders_only(jobs):
    number = jobs.add("home", "tea", NOON)
    assert not jobs.remove("shed", number)
    assert not jobs.remove("home", number + 1)
    assert jobs.of("shed") == []
    assert jobs.remove("home", number)
    assert not jobs.remove("home", number)


def test_a_number_is_never_used_again(jobs):
    first = jobs.add("home", "tea", NOON)
    jobs.remove("home", first)
    assert jobs.add("home", "coffee", NOON) == first + 1


def test_halves_of_characters_are_replaced(jobs):
    jobs.add("a\ud800", "tea\udfff\ud83d", NOON)
    assert [(job.session, job.message) for job in jobs.of("a?")] == [("a?", "tea??")]


@pytest.mark.parametrize(("late", "note"), [(0, ""), (59, ""), (3600, "due 1 h ago")])
def test_a_late_reminder_says_so(jobs, late, note):
    jobs.add("home", "tea", NOON)
    now = NOON + timedelta(seconds=late)
    (job,) = jobs.claim(now)
    words = worded(job, now, "home")
    assert words.startswith("Reminder: tea")
    assert note in words
    assert ("due" in words) == bool(note)


# --- the tool ---


@pytest.fixture
def cron(jobs):
    toolset = Toolset([Reminders(lambda: jobs)], guard=lambda *_: None, journal=lambda *_: None, longest_result=10_000)
    return lambda session="home", now=NOON, **given: toolset.call(
        ToolCall("1", "cron", given), Caller(session, "owner", now, print)
    )


ADD = {"action": "add", "message": "tea"}


@pytest.mark.parametrize(
    "given",
    [
        {"at_seconds": 600},
        {"at_seconds": "600", "at": ""},
        {"at": "12:10", "at_seconds": 0},
        {"at": " 12:10 ", "at_seconds": 0, "job": 0},
    ],
)
def test_a_reminder_is_kept(cron, given):
    assert cron(**ADD, **given).startswith("reminder 1 is kept for 12:10 (in 10 min): tea")
    assert cron(action="list") == "1: 12:10 (in 10 min) tea"
    assert cron("shed", action="list") == "no reminders"


SECOND_TWO_OCLOCK = datetime(2026, 10, 25, 2, 40, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)


@pytest.mark.parametrize(
    ("now", "given", "said", "ahead"),
    [
        (SECOND_TWO_OCLOCK, {"at": "02:50"}, "02:50 (in 10 min)", 600),
        (SECOND_TWO_OCLOCK.replace(fold=0), {"at": "02:50"}, "02:50 (in 10 min)", 600),
        (SECOND_TWO_OCLOCK.replace(fold=0), {"at_seconds": 3600}, "02:40 (in 1 h)", 3600),
        (SECOND_TWO_OCLOCK, {"at_seconds": 3600}, "03:40 (in 1 h)", 3600),
        (SECOND_TWO_OCLOCK.replace(fold=0), {"at": "03:10"}, "03:10 (in 1 h 30 min)", 5400),
        (SECOND_TWO_OCLOCK.replace(month=3, day=29, hour=1, fold=0), {"at_seconds": 7200}, "04:40 (in 2 h)", 7200),
        (SECOND_TWO_OCLOCK.replace(month=3, day=29, hour=1, fold=0), {"at": "02:30"}, "03:30 (in 50 min)", 3000),
    ],
)
def test_what_is_said_of_a_reminder_is_when_it_is_due(cron, jobs, now, given, said, ahead):
    """Also in the night when the clocks change."""
    assert cron(now=now, **ADD, **given).startswith(f"reminder 1 is kept for {said}: tea")
    [job] = jobs.of("home")
    assert job.due.timestamp() - now.timestamp() == ahead
    assert cron(now=now, action="list") == f"1: {said} tea"


def test_a_moment_of_the_first_pass_is_past_in_the_second(cron):
    said = cron(now=SECOND_TWO_OCLOCK, **ADD, at="2026-10-25T02:50+02:00")
    assert said == "error: 2026-10-25 02:50 is in the past; it is 2026-10-25 02:40 now"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ADD, "the time is missing: give at_seconds, which must be more than 0, or at"),
        (ADD | {"at_seconds": 0}, "the time is missing: give at_seconds, which must be more than 0, or at"),
        (ADD | {"at_seconds": -5}, "argument 'at_seconds' is -5.0, outside 0 to 316224000; seconds from now"),
        (ADD | {"at_seconds": 1e12}, "argument 'at_seconds' is 1000000000000.0, outside 0 to 316224000"),
        (ADD | {"at_seconds": "nan"}, "argument 'at_seconds' must be a number"),
        (ADD | {"at_seconds": 5, "at": "18:00"}, "give either at_seconds or at, not both"),
        (ADD | {"at": "2020-01-01 08:00"}, "2020-01-01 08:00 is in the past; it is 2026-07-01 12:00 now"),
        (ADD | {"at": "2026-07-01 12:00"}, "2026-07-01 12:00 is in the past"),
        (ADD | {"at": "2046-01-01 08:00"}, "2046-01-01 08:00 is more than ten years ahead"),
        (ADD | {"at": "9999-12-31 23:59"}, "9999-12-31 23:59 is more than ten years ahead"),
        (ADD | {"at": "soon"}, "'soon' is not a time picoclaw knows"),
        ({"action": "add", "message": " ", "at_seconds": 5}, "message is missing"),
        ({"action": "remove", "job": 2**63}, "argument 'job' is 9223372036854775808, outside 0 to 1000000000"),
        ({"action": "remove", "job": -1}, "argument 'job' is -1, outside 0 to 1000000000"),
        ({"action": "remove", "job": 7}, "this chat has no reminder 7; action list shows them"),
        ({"action": "remove"}, "this chat has no reminder 0; action list shows them"),
    ],
)
def test_what_cannot_be_done_is_said(cron, given, said):
    assert cron(**given).startswith(f"error: {said}")
    assert cron(action="list") == "no reminders"


def test_another_chats_reminder_is_not_removed(cron):
    cron(**ADD, at_seconds=600)
    assert cron("shed", action="remove", job=1) == "error: this chat has no reminder 1; action list shows them"
    assert cron(action="remove", job=1) == "reminder 1 is removed"


def test_a_reminder_of_another_chat_names_it(jobs):
    jobs.add("home", "tea", NOON)
    (job,) = jobs.claim(NOON)
    assert worded(job, NOON, "elsewhere") == "Reminder of chat 'home': tea"

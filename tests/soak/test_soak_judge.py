"""What judges a soak notices what it is there for: growth, what was lost or came twice, and a clock that goes wrong."""

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from gauges import Sample, slope
from judge import a_turn, about, each_once, growth, steady, times
from pace import Pace, compiler
from people import Chatter, once, said
from rows import each_row
from telegram_server import Sent

SAMPLE = Sample(0.0, 0, 40_000.0, 40, 8, 20, 17_000.0, 50, 5_000.0, 500, 0)
AGAIN = "(Perhaps sent before: the connection broke off.)\n"


def lived(**grows):
    """A life of 100 looks with some flutter, in which these figures grow by so much a look."""

    def look(n):
        one = SAMPLE._replace(at=float(n), turns=10 * n, rss_kb=40_000.0 + n % 7 * 200, threads=20 + (n % 5 == 0))
        return one._replace(**{name: getattr(one, name) + more * n for name, more in grows.items()})

    return [look(n) for n in range(100)]


@each_row(
    ("grows", "noticed"),
    [
        ({}, set()),
        ({"rss_kb": 140}, {"growth over 640 turns"}),
        ({"supervisor_kb": 40}, {"growth of the supervisor"}),
        ({"files": 1, "sockets": 1}, {"more files open", "more sockets open"}),
        ({"threads": 1}, {"more threads"}),
        ({"home_files": 1}, {"more files in the home"}),
        ({"home_kb": 500}, {"on the disk for a turn"}),
        ({"log_bytes": 1000}, {"log"}),
    ],
    ids=["nothing", "memory", "supervisor", "files", "threads", "leftovers", "disk", "log"],
)
def test_what_grows_is_noticed(grows, noticed):
    assert {row.what for row in steady(lived(**grows), day=False, faults=10) if not row.good} == noticed


def test_a_life_that_is_too_short_is_no_proof():
    assert not all(row.good for row in steady(lived()[:8], day=False, faults=0))


def test_a_peak_is_no_growth_and_a_death_is_no_loss():
    samples = [one._replace(rss_kb=90_000.0) if 70 < n < 80 else one for n, one in enumerate(lived())]
    assert abs(growth(samples, "rss_kb")) < 500
    reborn = samples[:60] + [one._replace(life=1, files=10) for one in samples[60:]]
    assert growth(reborn, "files") == 0
    assert slope([(0, 0), (1, 2), (2, 4), (3, 600)]) == pytest.approx(2, abs=200)
    assert a_turn(lived(home_kb=10), "home_kb") == 1


@each_row(
    ("wanted", "found", "good"),
    [
        ([1, 2], [2, 1], (True, True)),
        ([1, 2], [1], (False, True)),
        ([1], [1, 1], (True, False)),
        ([], [3], (True, True)),
    ],
    ids=["kept", "lost", "twice", "more"],
)
def test_every_promise_is_counted_once(wanted, found, good):
    assert tuple(row.good for row in each_once("reminders", wanted, found)) == good


def test_what_says_that_it_may_have_come_before_is_no_second_answer():
    assert once(["yes", f"{AGAIN}yes", f"{AGAIN}no"]) == ["yes", "no"]
    assert once(["yes", "yes"]) == ["yes", "yes"]
    assert once(["yes", *"abcdefg", f"{AGAIN}yes"])[-1] == "yes"
    assert not any(
        map(said, ["Reminder: tea 5", "4 messages from while this chat could not be reached:\n", "Sub-agent 2: x"])
    )
    assert said("answer 5")


def test_an_answer_that_came_twice_is_shown_with_what_came_between():
    sent = [Sent(7, text) for text in ("answer 1", "answer 2", "soak ticks", "answer 2", "answer 3")]
    one = Chatter(SimpleNamespace(sent=sent), 7, (), 0.0, iter(()))
    assert list(one.list_repeats()) == [["answer 2", "soak ticks", "answer 2"]]


def test_letters_that_came_together_or_late_count_as_often_as_they_say():
    bundle = (
        "3 messages from while this chat could not be reached:\n23 Nov 05:30: tea\n2 times, 5 to 6: Reminder: drips"
    )
    assert times([bundle, "Reminder: drips (4 earlier ones were missed)"], "Reminder: drips") == 2 + 5
    assert about("jobs", 3, 5, 1.5).good is False


def test_where_no_clock_can_be_made_time_goes_on_as_ever(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    pace = Pace(tmp_path, 100)
    assert (pace.pace, pace.problem, pace.environment) == (1, "no C compiler", {})
    assert abs(pace.now() - time.time()) < 5


@pytest.mark.skipif(not compiler(), reason="no C compiler")
def test_a_quick_clock_is_quick_for_dates_and_for_every_way_of_waiting(tmp_path):
    pace = Pace(tmp_path, 100)
    if pace.problem:
        pytest.skip(pace.problem)
    code = """
import os, queue, select, threading, time
from datetime import datetime
begun, date, shown = time.monotonic(), time.time(), datetime.now()
threading.Event().wait(5), time.sleep(5), select.select([os.pipe()[0]], [], [], 5)
try:
    queue.SimpleQueue().get(timeout=5)
except queue.Empty:
    print(time.monotonic() - begun, time.time() - date, (datetime.now() - shown).total_seconds(), date, flush=True)
os.posix_spawn("/bin/date", ["date", "+%s"], {})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=pace.environment, capture_output=True, text=True, timeout=10
    )
    *passed, date, later = map(float, done.stdout.split())
    assert all(20 <= seconds < 400 for seconds in passed), passed
    assert pace.first <= date <= pace.now()
    assert date + 19 <= later <= pace.now()

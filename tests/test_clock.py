"""The scheduler on a board whose clock is set, loses its date, knows no zones: each slot once, or reported."""

import itertools
import zoneinfo
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
import sweep
from clock_kills import killed
from clock_kit import FIRST_BOOT, Board
from rows import each_row

from picoclaw.automation.clock import ClockWatch
from picoclaw.automation.jobs import JobOutcome
from picoclaw.daemon.delivery import deliver_messages, format_message
from picoclaw.schedules import Plan, list_occurrences, plan_interval
from picoclaw.store.inbox_outbox import OutboxMessage

HOUR, DAY, YEAR = 3600.0, 86_400.0, 365 * 86_400.0
NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC).timestamp()


@pytest.fixture
def board(tmp_path):
    made = Board(tmp_path / "state.db", NOON)
    yield made
    made.database.close()


# --- scripted jumps: what was done, against an account that is kept another way


class Account:
    """Which slots have to be done: a set of names, kept with none of the scheduler's arithmetic."""

    def __init__(self, plan, wall):
        self.plan, self.wall, self.done, self.expected, self.missed = plan, wall, set(), [], 0

    def between(self, first, last):
        found = []
        for slot in list_occurrences(self.plan, datetime.fromtimestamp(first, UTC), max(2, int((last - first) / 600))):
            if slot.moment.timestamp() > last:
                break
            found.append(slot.identity)
        return [name for name in found if name not in self.done]

    def passes(self, seconds):
        for name in self.between(self.wall, self.wall + seconds):
            self.do(name)
        self.wall += seconds

    def do(self, name):
        self.done.add(name)
        self.expected.append(name)

    def jumps(self, seconds):
        """Forward: the last of what is left out is done late, the others are reported. Back: what was done stays so."""
        if seconds > 0 and (over := self.between(self.wall, self.wall + seconds)):
            self.do(over[-1])
            self.missed += len(over) - 1
        self.wall += seconds


CHANGES = {
    "Europe/Berlin": ("2026-03-29 02:00", "2026-10-25 02:00"),
    "America/New_York": ("2026-03-08 02:00", "2026-11-01 01:00"),
    "Australia/Lord_Howe": ("2026-10-04 02:00", "2026-04-05 01:30"),
}
EXPRESSIONS = ("30 2 * * *", "*/20 * * * *", "15,45 1-2 * * *", "0 */2 * * *", "5 * * * *")
SCRIPTS = {  # hours before the change that it begins, then hours that pass and seconds by which the clock is set
    "nobody sets it": (6, [(12, 0)]),
    "two hours back before": (6, [(5, -2 * HOUR), (12, 0)]),
    "two hours back after": (6, [(7, -2 * HOUR), (12, 0)]),
    "three quarters of an hour forward": (6, [(5.5, 2700), (8, 0)]),
    "forward over it": (3, [(2, 4 * HOUR), (6, 0)]),
    "forward over it and back": (3, [(2, 4 * HOUR), (1.5, -4 * HOUR), (9, 0)]),
    "back and forward and back": (4, [(3, -2 * HOUR), (1, 3 * HOUR), (2, -HOUR), (6, 0)]),
    "a little, many times": (4, [(0.9, -600), (0.9, 900)] * 5 + [(3, 0)]),
}
JUMPS = [
    (zone, change, expression, name)
    for zone, changes in CHANGES.items()
    for change, expression, name in itertools.product(changes, EXPRESSIONS, SCRIPTS)
]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("zone", "change", "name"),
    sweep.sample(((zone, change, name) for zone, both in CHANGES.items() for change in both for name in SCRIPTS), 5),
)
def test_each_slot_is_done_once_or_reported(tmp_path, zone, change, name):
    before_h, script = SCRIPTS[name]
    begin = datetime.fromisoformat(change).replace(tzinfo=ZoneInfo(zone)).timestamp() - before_h * HOUR + 7.5
    board = Board(tmp_path / "state.db", begin)
    plans = [Plan("cron", expression, zone) for expression in EXPRESSIONS]
    accounts = {board.add(plan, kind="command", catch_up="once", after=begin): Account(plan, begin) for plan in plans}
    for hours, set_by in script:
        board.live(hours * HOUR)
        board.wall += set_by
        for account in accounts.values():
            account.passes(hours * HOUR)
            account.jumps(set_by)
    board.live(60)
    for number, account in accounts.items():
        assert [slot for of, slot in board.ran if of == number] == account.expected
        assert board.missed(f"Job {number} ") == account.missed
    assert len(set(board.ran)) == len(board.ran)
    board.database.close()


def test_there_are_enough_of_them():
    assert len(JUMPS) >= 200


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_ten_years_ahead_and_back_leave_nothing_out(tmp_path, zone, expression):
    board = Board(tmp_path / "state.db", NOON)
    board.add(Plan("cron", expression, zone), kind="command", after=NOON)
    board.live(3 * HOUR)
    board.wall += 10 * YEAR
    board.live(2 * HOUR)
    assert "more than 99 earlier ones were missed" in " ".join(board.texts)
    board.wall -= 10 * YEAR
    board.live(DAY)
    now = [slot for _, slot in board.ran if slot.startswith("2026")]
    passed = list_occurrences(Plan("cron", expression, zone), datetime.fromtimestamp(NOON, UTC), 100)
    # the two hours in which it was ten years later are the only ones that nothing was done in
    away = range(int(NOON + 3 * HOUR), int(NOON + 3 * HOUR) + 1)
    expected = [s.identity for s in passed if s.moment.timestamp() <= board.wall and s.moment.timestamp() not in away]
    lost = [name for name in expected if name not in now]
    assert all(NOON + 3 * HOUR < datetime.fromisoformat(name).timestamp() <= NOON + 5 * HOUR for name in lost)
    assert len(set(now)) == len(now)
    board.database.close()


def test_in_1970_appointments_wait_and_say_so_and_nothing_is_made_up_for_twice(board):
    board.add(Plan("cron", "0 * * * *", "Europe/Berlin"), after=NOON)
    board.add(Plan("at", anchor=NOON + 2.5 * HOUR), "appointment")
    board.add(plan_interval(HOUR, NOON + HOUR), "interval", boot=FIRST_BOOT, mono=board.mono + HOUR)
    board.live(1.5 * HOUR)
    board.vouched = False
    board.reboot(0, wall=100.0)
    board.live(2 * HOUR)
    assert board.said == ["the date was never set since power-on: 2 appointments wait for it"]
    assert board.texts.count("Reminder: interval") == 3, "an interval needs no date"
    assert "Reminder: appointment" not in board.texts
    board.wall, board.vouched = NOON + 4.2 * HOUR, True
    board.live(HOUR)
    assert board.texts.count("Reminder: appointment") == 1
    late = [text for text in board.texts if text.startswith("Reminder: tea")]
    assert late == ["Reminder: tea", "Reminder: tea (2 earlier ones were missed)", "Reminder: tea"]


def test_a_date_that_nobody_vouches_for_is_believed_when_it_is_plausible_and_stable(board):
    board.vouched = False
    board.add(Plan("at", anchor=NOON + 60), "appointment")
    board.live(300)
    assert board.texts == []
    assert board.said[0].startswith("the date has not been confirmed yet: 1 appointment waits for it")
    board.wall += 30  # set, which begins the wait anew
    board.live(500)
    assert board.texts == []
    board.live(200)
    assert board.texts == ["Reminder: appointment"]
    assert len(board.said) == 1
    assert board.steps < 40


@each_row(
    ("wall", "vouched", "stable_s", "trusted"),
    [
        (100.0, True, 1e6, False),
        (NOON, True, 0.0, True),
        (NOON, False, 0.0, False),
        (NOON, False, 599.0, False),
        (NOON, False, 600.0, True),
        (datetime(2025, 12, 31, tzinfo=UTC).timestamp(), True, 0.0, False),
    ],
)
def test_what_is_believed(wall, vouched, stable_s, trusted):
    watch = ClockWatch(lambda: vouched, FIRST_BOOT)
    watch.note(wall, 50.0)
    assert watch.trusted(wall + stable_s, 50.0 + stable_s) == trusted


@each_row(("set_by", "noted"), [(0, 0), (1.9, 0), (-1.9, 0), (2.5, 2.5), (-7200, -7200), (56 * YEAR, 56 * YEAR)])
def test_a_step_is_noted(set_by, noted):
    watch = ClockWatch(lambda: True, FIRST_BOOT)
    watch.note(NOON, 10.0)
    assert watch.note(NOON + 5 + set_by, 15.0) == noted
    assert watch.note(NOON + 9 + set_by, 19.0) == 0


def test_what_is_meant_from_now_on_does_not_mind_the_date(board):
    board.wall = 100.0
    board.add(Plan("at", anchor=700.0), "in ten minutes", boot=FIRST_BOOT, mono=board.mono + 600)
    board.live(300)
    board.wall = NOON
    board.live(290)
    assert board.texts == []
    assert board.jobs.all()[0].plan.anchor == NOON + 300, "its date was put right"
    board.live(20)
    assert board.texts == ["Reminder: in ten minutes"]
    assert board.told[0].at == pytest.approx(board.wall, abs=30)


def test_without_the_zones_data_it_waits_says_so_once_and_catches_up(board, monkeypatch):
    board.add(Plan("cron", "30 * * * *", "Europe/Berlin"), after=NOON)
    board.live(0.7 * HOUR)
    with monkeypatch.context() as patch:
        patch.setattr(zoneinfo, "TZPATH", ())
        for _ in range(5):
            board.pass_(0.5 * HOUR)
            board.step()
    waits = [text for text in board.texts if "waits" in text]
    assert len(waits) == 1
    assert "this board has no time zones" in waits[0]
    assert board.jobs.all()[0].last_status == "waiting"
    board.step()
    assert board.texts[-1] == "Reminder: tea (1 earlier ones were missed)"
    assert board.jobs.all()[0].last_status == "ok"


# --- what was missed


@pytest.mark.parametrize(
    ("kind", "catch_up", "told", "ran"),
    [
        ("reminder", "once", ["Reminder: tea (2 earlier ones were missed)"], 0),
        ("reminder", "skip", ["was not done: it was due 30 min ago (2 earlier ones were missed)"], 0),
        ("command", "once", ["2 earlier ones were missed", "done"], 1),
        ("tool", "skip", ["was not done: it was due 30 min ago (2 earlier ones were missed)"], 0),
    ],
)
@pytest.mark.parametrize("plan", [Plan("cron", "0 * * * *", "Europe/Berlin"), plan_interval(HOUR, NOON + HOUR)])
def test_what_was_missed_without_power(board, kind, catch_up, told, ran, plan):
    board.add(plan, kind=kind, catch_up=catch_up, after=NOON, boot=FIRST_BOOT, mono=board.mono + HOUR)
    board.reboot(3.5 * HOUR)
    board.live(60)
    assert len(board.texts) == len(told)
    assert all(words in text for words, text in zip(told, board.texts, strict=True))
    assert len(board.ran) == ran
    board.live(0.6 * HOUR)
    assert len(board.ran) == ran + (kind != "reminder"), "the next one comes as planned"


def test_an_interval_that_is_longer_than_any_boot_comes_though_each_boot_begins_in_1970(board):
    board.add(plan_interval(24 * HOUR, NOON + 24 * HOUR), boot=FIRST_BOOT, mono=board.mono + 24 * HOUR)
    for boot in range(8):
        board.live(10 * HOUR)
        now = board.wall
        board.reboot(0, wall=100.0 + boot)
        board.vouched = False
        board.live(60)
        board.wall, board.vouched = now + 2 * HOUR, True
        board.live(1)
    assert board.texts == ["Reminder: tea"] * 4
    assert board.said == []


def test_an_interval_needs_no_date_after_a_reboot(board):
    board.add(plan_interval(HOUR, NOON + HOUR), boot=FIRST_BOOT, mono=board.mono + HOUR)
    board.reboot(0, wall=100.0)
    board.vouched = False
    board.live(2.5 * HOUR)
    assert board.texts == ["Reminder: tea"] * 2


def test_after_a_restart_nothing_stampedes(board):
    for number in range(30):
        board.add(Plan("at", anchor=NOON + HOUR + number), f"run {number}", kind="command")
        board.add(Plan("at", anchor=NOON + HOUR + number), f"say {number}")
    board.reboot(5 * HOUR)
    began = {}
    board.answer = lambda job: began.setdefault(job.payload, board.mono) and JobOutcome(True, "")
    board.live(300)
    apart = [later - earlier for earlier, later in itertools.pairwise(sorted(began.values()))]
    assert len(began) == 30
    assert min(apart) >= 5
    assert board.texts == [f"Reminder: say {number}" for number in range(30)]
    assert board.jobs.all() == []


# --- runs


def test_a_job_that_still_runs_is_not_begun_again(board):
    board.answer = lambda job: None
    number = board.add(plan_interval(60, NOON + 60), kind="turn", boot=FIRST_BOOT, mono=board.mono + 60)
    board.live(250)
    assert len(board.ran) == 1
    assert board.texts == ["Job 1 (tea) is skipped: it still runs"]
    board.scheduler.note_end(number, JobOutcome(True, "at last"))
    board.live(60)
    assert len(board.ran) == 2
    assert board.texts[-1] == "at last"


@pytest.mark.parametrize(
    ("deliver", "told"),
    [
        ("always", ["a", "a", "failed: no", "b", "b"]),
        ("change", ["a", "failed: no", "b"]),
        ("failure", ["failed: no", "works again"]),
    ],
)
def test_when_an_outcome_is_told(board, deliver, told):
    outcomes = iter(
        [(True, "a"), (True, "a"), (False, "no"), (False, "no"), (False, "never"), (True, "b"), (True, "b")]
    )
    board.answer = lambda job: JobOutcome(*next(outcomes))
    board.add(plan_interval(60, NOON + 60), kind="command", deliver=deliver, boot=FIRST_BOOT, mono=board.mono + 60)
    states = []
    for _ in range(7):
        board.live(60)
        [job] = board.jobs.all()
        states.append((job.last_status, job.failures, job.last_error))
    assert [text.removeprefix("Job 1 (tea)").removeprefix(":").strip() for text in board.texts] == told
    assert states[3:6] == [("failed", 2, "no"), ("failed", 3, "never"), ("ok", 0, "")]


def test_what_is_done_once_is_gone_when_it_went_well_and_stays_when_not(board):
    board.answer = lambda job: JobOutcome(job.payload == "good", "")
    board.add(Plan("at", anchor=NOON + 60), "good", kind="command")
    board.add(Plan("at", anchor=NOON + 60), "bad", kind="command")
    board.live(120)
    assert [(job.payload, job.enabled, job.last_status) for job in board.jobs.all()] == [("bad", False, "failed")]


def test_what_repeats_until_a_day_is_gone_after_its_last_time(board):
    board.answer = lambda job: JobOutcome(good=True, text="")
    board.add(Plan("cron", "0 20,22 * * * until 2026-07-01", "UTC"), after=NOON)
    board.add(Plan("cron", "0 22 * * * until 2026-07-01", "UTC"), "work", kind="command", after=NOON)
    board.add(Plan("cron", "0 22 * * * until 2026-07-02", "UTC"), "tea again", after=NOON)
    board.live(8.5 * HOUR)
    assert [job.payload for job in board.jobs.all()] == ["tea", "work", "tea again"]
    board.live(30 * HOUR)
    assert board.texts == ["Reminder: tea", "Reminder: tea", "Reminder: tea again", "Reminder: tea again"]
    assert board.jobs.all() == []


def test_what_is_given_another_time_while_it_runs_is_done_again(board):
    board.answer = lambda job: None
    number = board.add(Plan("at", anchor=NOON + 60), kind="turn")
    board.live(70)
    again = Plan("at", anchor=NOON + HOUR)
    board.jobs.change("home", number, lambda job: job._replace(plan=again, enabled=True))
    board.scheduler.note_end(number, JobOutcome(True, "first"))
    board.answer = lambda job: JobOutcome(True, "second")
    board.live(HOUR)
    assert board.texts == ["first", "second"]
    assert board.jobs.all() == []


def test_what_is_moved_into_its_own_run_is_skipped_once_and_nobody_waits_for_it(board):
    board.answer = lambda job: None
    number = board.add(Plan("at", anchor=NOON + 60), kind="turn")
    board.live(70)
    soon = Plan("at", anchor=NOON + 80)
    board.jobs.change("home", number, lambda job: job._replace(plan=soon, enabled=True))
    before = board.steps
    board.live(120)
    assert board.steps - before < 6
    assert board.texts == ["Job 1 (tea) is skipped: it still runs"]
    board.scheduler.note_end(number, JobOutcome(True, "at last"))
    board.live(10)
    assert (board.texts[1:], board.jobs.all()) == (["at last"], [])


def test_a_run_whose_process_died_is_reported_and_not_repeated(board):
    board.add(Plan("at", anchor=NOON + 60), "pump", kind="command")
    [job] = board.jobs.all()
    board.jobs.change("home", job.number, lambda job: job._replace(claimed="1:0:none", enabled=False))
    board.live(120)
    assert board.texts == ["Job 1 (pump): cut off: picoclaw ended while it ran; it is not repeated"]
    assert board.ran == []


def test_a_job_that_was_removed_while_it_ran_is_told_nothing_of(board):
    board.answer = lambda job: None
    number = board.add(Plan("at", anchor=NOON + 60), kind="command")
    board.live(70)
    board.jobs.remove("home", number)
    board.scheduler.note_end(number, JobOutcome(True, "late"))
    board.live(10)
    assert board.texts == []


# --- nothing to do


def test_a_day_with_nothing_due_wakes_nobody_and_writes_nothing(board):
    assert board.step() is None
    board.add(Plan("at", anchor=NOON + 40 * DAY))
    board.add(Plan("cron", "0 0 29 2 *", "Europe/Berlin"), after=NOON)
    board.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    board.live(DAY)
    assert board.steps <= 4
    assert board.path.with_name("state.db-wal").stat().st_size == 0


# --- telling


def test_what_cannot_be_told_is_kept_and_told_later(board):
    def broken(letter):
        raise OSError(5, "the terminal is gone")

    board.outbox.put("home", "first", NOON)
    deliver_messages(board.outbox, broken)
    assert [letter.text for letter in board.outbox.waiting()] == ["first"]
    board.step()
    assert board.texts == ["first"]
    assert board.outbox.waiting() == []


@pytest.mark.parametrize(
    ("late", "session", "words"),
    [
        (0, "home", "Reminder: tea"),
        (59, "home", "Reminder: tea"),
        (3600, "home", "Reminder: tea (was due 1 h ago)"),
        (0, "shed", "For chat 'home': Reminder: tea"),
    ],
)
def test_how_it_is_worded(board, late, session, words):
    board.outbox.put("home", "Reminder: tea", NOON)
    [letter] = board.outbox.waiting()
    assert format_message(letter, session, NOON + late) == words


def test_what_a_process_was_telling_when_it_died_is_told_again_and_says_so(board):
    board.outbox.put("home", "Reminder: tea", NOON)
    dead = board.outbox.waiting()[0]._replace(number=1)
    board.database.connection.execute("UPDATE outbox SET begun = '1:0:none'")
    assert not board.outbox.begin(dead), "another was faster"
    board.step()
    [again] = board.told
    assert format_message(again, "home", NOON).endswith("(perhaps a repeat: picoclaw stopped while it delivered this)")
    assert board.outbox.waiting() == []


def test_what_another_living_process_tells_is_left_to_it(board):
    number = board.outbox.put("home", "Reminder: tea", NOON)
    assert board.outbox.begin(board.outbox.waiting()[0])
    assert board.outbox.waiting() == []
    board.step()
    assert board.told == []
    board.outbox.put_back(OutboxMessage(number, "home", "", NOON))
    board.step()
    assert board.texts == ["Reminder: tea"]


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(sweep.take(1, 5)))
def test_killed_again_and_again_nothing_is_lost_and_nothing_is_done_twice(tmp_path, seed):
    kills = sweep.take(15, 25)
    found = killed(tmp_path, kills, seed)
    assert found.pop("killed") >= kills * 2 // 5
    assert found.pop("cut off") + found.pop("said to be perhaps a repetition") <= 50
    assert found == dict.fromkeys(found, 0)

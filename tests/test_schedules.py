"""Plans and the moments that they mean, through summer time and back, in zones of every kind."""

import subprocess
import sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from rows import each_row

from picoclaw.schedules import (
    Plan,
    add_done,
    describe_plan,
    find_due,
    find_next,
    list_occurrences,
    plan_cron,
    plan_interval,
)

BERLIN, LORD_HOWE, NEW_YORK = "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"


def moment(text, zone=BERLIN):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def shown(found, zone):
    return [f"{slot.moment.astimezone(ZoneInfo(zone)):%d %H:%M%z}"[:-2] for slot in found]


@each_row(
    ("zone", "after", "expression", "expected"),
    [
        # put forward over it: once, at the end of what is skipped
        (BERLIN, "2026-03-28 12:00", "30 2 * * *", ["29 03:00+02", "30 02:30+02", "31 02:30+02"]),
        (BERLIN, "2026-03-28 12:00", "15,45 2 * * *", ["29 03:00+02", "30 02:15+02", "30 02:45+02"]),
        (BERLIN, "2026-03-28 12:00", "*/20 2 * * *", ["29 03:00+02", "30 02:00+02", "30 02:20+02"]),
        (BERLIN, "2026-03-28 12:00", "0 2,3 * * *", ["29 03:00+02", "30 02:00+02", "30 03:00+02"]),
        (NEW_YORK, "2026-03-07 12:00", "30 2 * * *", ["08 03:00-04", "09 02:30-04", "10 02:30-04"]),
        (LORD_HOWE, "2026-10-03 12:00", "15 2 * * *", ["04 02:30+11", "05 02:15+11", "06 02:15+11"]),
        # put back: the first of two
        (BERLIN, "2026-10-24 12:00", "30 2 * * *", ["25 02:30+02", "26 02:30+01", "27 02:30+01"]),
        (BERLIN, "2026-10-24 12:00", "*/30 2 * * *", ["25 02:00+02", "25 02:30+02", "26 02:00+01"]),
        (NEW_YORK, "2026-10-31 12:00", "30 1 * * *", ["01 01:30-04", "02 01:30-05", "03 01:30-05"]),
        (LORD_HOWE, "2026-04-04 12:00", "45 1 * * *", ["05 01:45+11", "06 01:45+10", "07 01:45+10"]),
        # every hour is every hour that passes
        (BERLIN, "2026-10-25 01:40", "0 * * * *", ["25 02:00+02", "25 02:00+01", "25 03:00+01"]),
        (BERLIN, "2026-03-29 00:40", "0 * * * *", ["29 01:00+01", "29 03:00+02", "29 04:00+02"]),
        # a day that an island left out, leap days, the last of a month, a weekday
        ("Pacific/Apia", "2011-12-29 12:00", "0 12 30 12 *", ["31 00:00+14", "30 12:00+14", "30 12:00+14"]),
        (BERLIN, "2026-01-01 00:00", "0 0 29 2 *", ["29 00:00+01", "29 00:00+01", "29 00:00+01"]),
        (BERLIN, "2026-01-31 00:00", "0 0 L * *", ["28 00:00+01", "31 00:00+02", "30 00:00+02"]),
        (BERLIN, "2026-11-21 12:00", "30 7 * * 1-5", ["23 07:30+01", "24 07:30+01", "25 07:30+01"]),
        # with a last day
        (BERLIN, "2026-11-23 12:00", "0 9 * * * until 2026-11-25", ["24 09:00+01", "25 09:00+01"]),
        (BERLIN, "2026-11-23 12:00", "0 9,20 * * * until tuesday", ["23 20:00+01", "24 09:00+01", "24 20:00+01"]),
        (BERLIN, "2026-11-23 12:00", "0 9 * * * until monday", ["24 09:00+01", "25 09:00+01", "26 09:00+01"]),
        (BERLIN, "2026-11-23 12:00", "0 * * * * until 2026-11-23", ["23 13:00+01", "23 14:00+01", "23 15:00+01"]),
        (BERLIN, "2026-11-21 12:00", "@Daily", ["22 00:00+01", "23 00:00+01", "24 00:00+01"]),
    ],
)
def test_what_an_expression_means(zone, after, expression, expected):
    plan = plan_cron(expression, zone, moment(after, zone))
    assert shown(list_occurrences(plan, moment(after, zone), 3), zone) == expected


def test_a_slot_is_named_by_the_time_that_was_planned():
    plan = plan_cron("30 2 * * *", BERLIN, moment("2026-03-28 12:00"))
    assert list_occurrences(plan, moment("2026-03-28 12:00"), 1)[0].identity == "2026-03-29T02:30+01:00"


def test_slots_go_on_behind_any_moment():
    """Whatever the moment, what follows it does not depend on how one came there."""
    for zone, day in [
        (BERLIN, "2026-03-29"),
        (BERLIN, "2026-10-25"),
        (LORD_HOWE, "2026-04-05"),
        (NEW_YORK, "2026-11-01"),
    ]:
        begin = moment(f"{day} 00:00", zone)
        for expression in ("30 2 * * *", "*/20 * * * *", "15,45 1-2 * * *", "0 */2 * * *"):
            plan = plan_cron(expression, zone, begin)
            whole = [slot.moment.timestamp() for slot in list_occurrences(plan, begin, 40)]
            assert whole == sorted(set(whole))
            for second in range(0, 5 * 3600, 97):
                after = begin.timestamp() + second
                found = list_occurrences(plan, datetime.fromtimestamp(after, UTC), 1)[0]
                assert found.moment.timestamp() == next(m for m in whole if m > after)


@each_row(
    ("expression", "said"),
    [
        ("", "write five fields"),
        ("0 9 * * * until yesterday", "yesterday"),
        ("0 9 * * * until 2025-12-31", "every day at 09:00 until 2025-12-31 never comes"),
        ("* * * *", "write five fields"),
        ("0 * * * * *", "write five fields"),
        ("61 * * * *", "bad minute"),
        ("0 25 * * *", "bad hour"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0 0 * * 8", "bad day-of-week"),
        ("0 0 * 13 *", "bad month"),
        ("*/0 * * * *", "bad minute"),
        (f"*/{'9' * 60} * * * x", "bad day-of-week"),
        (f"{'1,' * 60}1 * * * *", "write five fields"),
        ("@reboot", "write five fields"),
        ("0 0 * * MON#6", "bad day-of-week"),
        ("-1 * * * *", "bad minute"),
        ("٣ * * * *", "bad minute"),
    ],
)
def test_an_expression_that_cannot_be_used_is_said(expression, said):
    with pytest.raises(ValueError, match=said):
        plan_cron(expression, BERLIN, moment("2026-01-01 00:00"))


def test_a_zone_that_is_not_known_is_said():
    with pytest.raises(ValueError, match="not a time zone picoclaw knows"):
        list_occurrences(Plan("cron", "0 0 * * *", "Europe/Atlantis"), moment("2026-01-01 00:00"), 1)


@each_row(("seconds", "words"), [(60, "every 1 min"), (100, "every 1 min 40 s"), (5400, "every 1 h 30 min")])
def test_an_interval_is_anchored(seconds, words):
    plan = plan_interval(seconds, 1000.0)
    found = list_occurrences(plan, datetime.fromtimestamp(1000.0 + 7.5 * seconds, UTC), 3)
    assert [slot.moment.timestamp() for slot in found] == [1000.0 + n * seconds for n in (8, 9, 10)]
    assert describe_plan(plan) == words


@each_row(
    ("expression", "words"),
    [
        ("0 7 * * *", "every day at 07:00 (Europe/Berlin)"),
        ("30 7,19 * * 1-5", "every weekday at 07:30 and 19:30 (Europe/Berlin)"),
        ("5 8 * * 1,0", "every monday and sunday at 08:05 (Europe/Berlin)"),
        ("0 * * * *", "cron 0 * * * * (Europe/Berlin)"),
        ("0 7 1 * *", "every month on day 1 at 07:00 (Europe/Berlin)"),
        ("0 7 1 6 *", "every year on 1 June at 07:00 (Europe/Berlin)"),
        ("0 7 * * 7", "cron 0 7 * * 7 (Europe/Berlin)"),
    ],
)
def test_days_and_times_of_day_are_said_in_words(expression, words):
    assert describe_plan(Plan("cron", expression, "Europe/Berlin")) == words


def test_an_interval_may_not_be_too_short():
    with pytest.raises(ValueError, match="the shortest interval is 60 s"):
        plan_interval(59.9, 0.0)


def test_of_what_has_come_due_the_last_counts_however_much_it_is():
    begin, now = moment("2026-01-01 00:00").timestamp(), moment("2036-06-01 12:34").timestamp()
    few = find_due(plan_cron("0 0 1 1 *", BERLIN, moment("2026-01-01 00:00")), begin, now)
    assert (few.last.identity, few.counted) == ("2036-01-01T00:00+01:00", "9")
    many = find_due(plan_cron("* * * * *", BERLIN, moment("2026-01-01 00:00")), begin, now)
    assert (many.last.identity, many.counted) == ("2036-06-01T12:34+02:00", "more than 99")
    sparse = find_due(plan_cron("0 0 1 * *", BERLIN, moment("2026-01-01 00:00")), begin - 40e7, now)
    assert sparse.last.identity == "2036-06-01T00:00+02:00"


def test_what_was_done_is_not_due_again():
    plan, begin = Plan("cron", "*/10 * * * *", BERLIN), moment("2026-01-01 00:00")
    done = ()
    for slot in list_occurrences(plan, begin, 6):
        done = add_done(plan, done, slot)
    assert len(done) == 1
    later = list_occurrences(plan, moment("2026-01-01 05:00"), 1)[0]
    done = add_done(plan, done, later)
    assert len(done) == 2
    assert find_due(plan, begin.timestamp(), moment("2026-01-01 01:05").timestamp(), done) is None
    assert find_next(plan, begin.timestamp(), done).identity == "2026-01-01T01:10+01:00"
    assert find_due(plan, begin.timestamp(), later.moment.timestamp(), done).others == 23


BOARD = """
from datetime import UTC, datetime
from picoclaw.schedules import Plan, list_occurrences
for after in ("2026-03-28T12:00+00:00", "2026-10-24T12:00+00:00"):
    found = list_occurrences(Plan("cron", "30 2 * * *"), datetime.fromisoformat(after), 2)
    print(*[slot.identity for slot in found], *[slot.moment.astimezone(UTC).strftime("%H:%M") for slot in found])
"""


def test_the_boards_own_zone_knows_its_summer_time():
    done = subprocess.run([sys.executable, "-c", BOARD], env={"TZ": BERLIN}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "2026-03-29T02:30+01:00 2026-03-30T02:30+02:00 01:00 00:30",
        "2026-10-25T02:30+02:00 2026-10-26T02:30+01:00 00:30 01:30",
    ]

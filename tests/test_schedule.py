"""When a person means: moments are arithmetic on a clock that is handed in."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from picoclaw.schedule import at, duration

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 14, 30, tzinfo=BERLIN)  # a Saturday


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("18:30", "2026-11-21 18:30"),
        ("at 18:30", "2026-11-21 18:30"),
        ("6pm", "2026-11-21 18:00"),
        ("6 PM", "2026-11-21 18:00"),
        ("12am", "2026-11-22 00:00"),
        ("12 pm", "2026-11-22 12:00"),
        ("07:30", "2026-11-22 07:30"),
        ("14:30", "2026-11-22 14:30"),
        ("tomorrow 07:30", "2026-11-22 07:30"),
        ("tomorrow at 7:30 am", "2026-11-22 07:30"),
        ("today 23:59", "2026-11-21 23:59"),
        ("today 9:00", "2026-11-21 09:00"),
        ("saturday 15:00", "2026-11-21 15:00"),
        ("saturday 9:00", "2026-11-28 09:00"),
        ("on monday 9:00", "2026-11-23 09:00"),
        ("Friday at 6pm", "2026-11-27 18:00"),
        ("2026-12-01 08:00", "2026-12-01 08:00"),
        ("2027-07-01 08:00", "2027-07-01 08:00"),
        ("9999-12-31 23:59", "9999-12-31 23:59"),
        ("0001-01-01 00:00", "0001-01-01 00:00"),
    ],
)
def test_at(text, moment):
    found = at(text, NOW)
    assert found.strftime("%Y-%m-%d %H:%M").zfill(16) == moment
    assert found.tzinfo is BERLIN


def test_a_date_with_its_own_zone_keeps_it():
    assert at("2026-12-01T08:00+00:00", NOW) == datetime(2026, 12, 1, 8, tzinfo=timezone.utc)  # noqa: UP017


@pytest.mark.parametrize(
    ("now", "text", "hours"),
    [
        (datetime(2026, 3, 28, 12, 0, tzinfo=BERLIN), "tomorrow 12:00", 23),
        (datetime(2026, 10, 24, 12, 0, tzinfo=BERLIN), "tomorrow 12:00", 25),
        (datetime(2026, 6, 1, 12, 0, tzinfo=BERLIN), "tomorrow 12:00", 24),
    ],
)
def test_a_day_with_a_clock_change_keeps_the_time_of_day(now, text, hours):
    assert at(text, now).timestamp() - now.timestamp() == hours * 3600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "25:00",
        "12:60",
        "13pm",
        "0am",
        "7",
        "tomorrow",
        "someday 7:00",
        "31 feb 7:00",
        "2026-02-30 08:00",
        "x" * 5000,
    ],
)
def test_what_is_no_time_names_the_forms(text):
    with pytest.raises(ValueError, match=r"write it like|is not a time of day"):
        at(text, NOW)


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(seconds=60), "1 min"),
        (timedelta(hours=1, minutes=5), "1 h 5 min"),
        (timedelta(days=2, hours=3, minutes=5), "2 d 3 h"),
    ],
)
def test_duration(span, words):
    assert duration(span.total_seconds()) == words

"""Words for lengths and ranges of time, on a clock that the test holds."""

import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from picoclaw import times

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 22, 14, 30, tzinfo=BERLIN)  # a sunday


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("last 24 hours", "2026-11-21T14:30", "2026-11-22T14:30"),
        ("24h", "2026-11-21T14:30", "2026-11-22T14:30"),
        ("the past hour", "2026-11-22T13:30", "2026-11-22T14:30"),
        ("over the last two hours", "2026-11-22T12:30", "2026-11-22T14:30"),
        ("last four hours", "2026-11-22T10:30", "2026-11-22T14:30"),
        ("last half an hour", "2026-11-22T14:00", "2026-11-22T14:30"),
        ("last 3 days", "2026-11-19T14:30", "2026-11-22T14:30"),
        ("today", "2026-11-22T00:00", "2026-11-22T14:30"),
        ("Yesterday", "2026-11-21T00:00", "2026-11-22T00:00"),
        ("the day before yesterday", "2026-11-20T00:00", "2026-11-21T00:00"),
        ("1 hour ago", "2026-11-22T13:20", "2026-11-22T13:40"),
        ("5 minutes ago", "2026-11-22T14:15", "2026-11-22T14:30"),
        ("3 days ago", "2026-11-19T00:00", "2026-11-20T00:00"),
        ("2 weeks ago", "2026-11-08T00:00", "2026-11-09T00:00"),
        ("since a week ago", "2026-11-15T00:00", "2026-11-22T14:30"),
        ("2 weeks ago to 3 days ago", "2026-11-08T00:00", "2026-11-20T00:00"),
        ("this morning", "2026-11-22T06:00", "2026-11-22T12:00"),
        ("this afternoon", "2026-11-22T12:00", "2026-11-22T14:30"),
        ("yesterday evening", "2026-11-21T18:00", "2026-11-22T00:00"),
        ("last night", "2026-11-21T18:00", "2026-11-22T06:00"),
        ("this week", "2026-11-16T00:00", "2026-11-22T14:30"),
        ("last week", "2026-11-09T00:00", "2026-11-16T00:00"),
        ("last month", "2026-10-01T00:00", "2026-11-01T00:00"),
        ("this year", "2026-01-01T00:00", "2026-11-22T14:30"),
        ("since monday", "2026-11-16T00:00", "2026-11-22T14:30"),
        ("since 6:00", "2026-11-22T06:00", "2026-11-22T14:30"),
        ("since 18:00", "2026-11-21T18:00", "2026-11-22T14:30"),
        ("since 2026-11-20", "2026-11-20T00:00", "2026-11-22T14:30"),
        ("sunday", "2026-11-22T00:00", "2026-11-22T14:30"),
        ("last sunday", "2026-11-15T00:00", "2026-11-16T00:00"),
        ("on friday", "2026-11-20T00:00", "2026-11-21T00:00"),
        ("2026-11-01", "2026-11-01T00:00", "2026-11-02T00:00"),
        ("from 2026-11-01 to 2026-11-03", "2026-11-01T00:00", "2026-11-04T00:00"),
        ("monday to wednesday", "2026-11-16T00:00", "2026-11-19T00:00"),
    ],
)
def test_what_words_mean(text, begin, end):
    found = times.parse_range(text, NOW)
    assert [moment.isoformat(timespec="minutes")[:16] for moment in found] == [begin, end]


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2026-13-01", "2026-12-24", "since", "blursday", "this evening", "last 9999999 years"]
)
def test_what_is_no_past_time_is_said(text):
    with pytest.raises(ValueError, match=r"is not a time picoclaw knows|is yet to come"):
        times.parse_range(text, NOW)


@pytest.mark.parametrize(
    ("now", "hours"),
    [(datetime(2026, 3, 30, 12, tzinfo=BERLIN), 23), (datetime(2026, 10, 26, 12, tzinfo=BERLIN), 25)],
)
def test_the_day_on_which_the_clocks_change_has_its_own_length(now, hours):
    assert times.parse_range("yesterday", now).seconds == hours * 3600


@pytest.mark.parametrize(
    ("text", "seconds", "shown"),
    [
        ("10 minutes", 600, "10 min"),
        ("1 h 30 min", 5400, "1 h 30 min"),
        ("1 hour and 1 second", 3601, "1 h 1 s"),
        ("90", 90, "1 min 30 s"),
        ("0.5 s", 0.5, "0.5 s"),
        ("half an hour", 1800, "30 min"),
        ("5min", 300, "5 min"),
        ("an hour", 3600, "1 h"),
        ("2 weeks", 1_209_600, "14 d"),
    ],
)
def test_lengths_of_time(text, seconds, shown):
    assert times.parse_duration(text) == seconds
    assert times.format_duration(seconds, exact=True) == shown


@pytest.mark.parametrize(
    "text", ["", "0 s", "-5 minutes", "2 parsecs", "10 minutes late", "10 ms", "9" * 50, "1e9 days"]
)
def test_what_is_no_length_is_said(text):
    with pytest.raises(ValueError, match="is not a length of time"):
        times.parse_duration(text)


@pytest.mark.parametrize(
    "text", ["9" * 12_000, "since " + "9" * 12_000, "1 " * 6000, "1 h " * 4000, " " * 12_000 + "h"]
)
def test_a_long_text_is_no_time_and_found_so_at_once(text):
    began = time.process_time()
    with pytest.raises(ValueError, match="not a time picoclaw knows"):
        times.parse_range(text, NOW)
    with pytest.raises(ValueError, match="not a length of time"):
        times.parse_duration(text)
    assert time.process_time() - began < 0.5

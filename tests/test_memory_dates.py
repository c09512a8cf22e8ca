"""Which days a question means: a table of what people say, on a Sunday in November."""

import time
from datetime import UTC, date, datetime

import pytest
from rows import each_row

from picoclaw.memory.search import DateRange, extract_days

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)  # a Sunday

SAID = {
    "what did I do today": "2026-11-22",
    "this morning's reading": "2026-11-22",
    "What happened YESTERDAY?": "2026-11-21",
    "last night's storm": "2026-11-21",
    "the day before yesterday": "2026-11-20",
    "last Tuesday": "2026-11-17",
    "on Tuesday": "2026-11-17",
    "Sunday's market": "2026-11-15",
    "on Monday and Tuesday": "2026-11-16 2026-11-17",
    "since Monday": "2026-11-16..2026-11-22",
    "last week": "2026-11-09..2026-11-15",
    "this week": "2026-11-16..2026-11-22",
    "last weekend": "2026-11-14..2026-11-15",
    "last month": "2026-10-01..2026-10-31",
    "last year": "2025-01-01..2025-12-31",
    "3 days ago": "2026-11-19",
    "a couple of days ago": "2026-11-20",
    "a few days ago": "2026-11-17..2026-11-21",
    "two weeks ago": "2026-11-05..2026-11-11",
    "a month ago": "2026-10-01..2026-10-31",
    "in the last three days": "2026-11-19..2026-11-22",
    "in March": "2026-03-01..2026-03-31",
    "in december": "2025-12-01..2025-12-31",
    "last November": "2026-11-01..2026-11-30",
    "the July bill": "2026-07-01..2026-07-31",
    "March 2024": "2024-03-01..2024-03-31",
    "mid-August 2023": "2023-08-01..2023-08-31",
    "from March to May": "2026-03-01..2026-05-31",
    "since march": "2026-03-01..2026-11-22",
    "on 3 May": "2026-05-03",
    "the 3rd of May": "2026-05-03",
    "on May 3, 2023": "2023-05-03",
    "December 1,2023": "2023-12-01",
    "8th December, 2023": "2023-12-08",
    "on 24 December": "2025-12-24",
    "on the 31st": "2026-10-31",
    "29 February": "2024-02-29",
    "the week before 16 November 2023": "2023-11-09..2023-11-15",
    "from 3 to 5 May": "2026-05-03..2026-05-05",
    "between August 11 and August 15 2023": "2023-08-11..2023-08-15",
    "from 3 May to 5 June": "2026-05-03..2026-06-05",
    "in 2025": "2025-01-01..2025-12-31",
    "2026-03-01": "2026-03-01",
    "2026-03": "2026-03-01..2026-03-31",
    "between 2026-03-01 and 2026-03-04": "2026-03-01..2026-03-04",
    "at 2026-03-01T10:00:00": "2026-03-01",
    # no day
    "": "",
    "may I march to the pump?": "",
    "this may be the reason": "",
    "sensor 2026": "",
    "marched 3.5 volts": "",
    "31 February": "",
    "0 May": "",
    "2026-13-45": "",
    "192-2026-03-01": "",
    "9999 years ago": "",
    "in the 40th row, 12:30, v1.2": "",
    "昨日 📅 \0": "",
}


def days(text):
    """'2026-03-01 2026-03-04..2026-03-09' as rows of days."""
    ends = (part.partition("..") for part in text.split())
    return [DateRange(date.fromisoformat(first), date.fromisoformat(last or first)) for first, _, last in ends]


@each_row(("said", "meant"), SAID.items())
def test_the_days_that_are_meant(said, meant):
    assert extract_days(said, NOW)[0] == days(meant)


@each_row(
    ("now", "said", "meant"),
    [
        ("2026-01-01", "yesterday", "2025-12-31"),
        ("2026-01-01", "last week", "2025-12-22..2025-12-28"),
        ("2026-01-31", "last month", "2025-12-01..2025-12-31"),
        ("2026-03-31", "a month ago", "2026-02-01..2026-02-28"),
        ("2024-03-01", "yesterday", "2024-02-29"),
        ("2026-03-01", "on the 31st", "2026-01-31"),
        ("1970-01-01", "yesterday", "1969-12-31"),
        ("0001-01-01", "yesterday or last year", ""),
        ("9999-12-31", "today", "9999-12-31"),
        ("9999-12-31", "in December", "9999-12-01..9999-12-31"),
    ],
)
def test_the_ends_of_months_years_and_the_calendar(now, said, meant):
    assert extract_days(said, datetime.fromisoformat(now).replace(tzinfo=UTC))[0] == days(meant)


def test_what_is_said_besides():
    assert extract_days("Did the pump leak last Tuesday, in March?", NOW)[1].split() == [
        "did",
        "the",
        "pump",
        "leak",
        ",",
        "in",
        "?",
    ]


@pytest.mark.parametrize("said", ["may " * 3000, "1 and 2 " * 2000, "2026-03-" * 2000, "last " * 3000, "\0" * 10_000])
def test_a_long_text_takes_no_time(said):
    began = time.process_time()
    extract_days(said, NOW)
    assert time.process_time() - began < 1

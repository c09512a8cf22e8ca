"""When a person means: moments are arithmetic on a clock that is handed in."""

import re
import subprocess
import sys
import time
import zoneinfo
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from rows import each_row

from picoclaw import times
from picoclaw.times import add_seconds, find_zone, format_duration, get_seconds_until, parse_moment, parse_zone

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 21, 14, 30, tzinfo=BERLIN)  # a Saturday


@each_row(
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
        ("in 2 days 07:30", "2026-11-23 07:30"),
        ("in 1 day 23:00", "2026-11-22 23:00"),
        ("24 december 9:00", "2026-12-24 09:00"),
        ("on the 24th of December at 9am", "2026-12-24 09:00"),
        ("december 3rd 18:30", "2026-12-03 18:30"),
        ("20 november 9:00", "2027-11-20 09:00"),  # the next one
        ("the 22nd 07:00", "2026-11-22 07:00"),
        ("5th 07:00", "2026-12-05 07:00"),
        ("31st 07:00", "2026-12-31 07:00"),  # November has none
        ("29 february 07:00", "2028-02-29 07:00"),
        ("tomorrow at 7:30 am", "2026-11-22 07:30"),
        ("today 23:59", "2026-11-21 23:59"),
        ("today 9:00", "2026-11-21 09:00"),
        ("today 8:00 o'clock", "2026-11-21 20:00"),
        ("today 2:00 o'clock", "2026-11-21 14:00"),  # is past, and none of tomorrow
        ("saturday 15:00", "2026-11-21 15:00"),
        ("saturday 9:00", "2026-11-28 09:00"),
        ("on monday 9:00", "2026-11-23 09:00"),
        ("Friday at 6pm", "2026-11-27 18:00"),
        ("next friday 9:00", "2026-11-27 09:00"),
        ("next saturday 9:00", "2026-11-28 09:00"),
        ("next sunday 9:00", "2026-11-29 09:00"),  # tomorrow's is of this week
        ("following saturday 9:00", "2026-11-28 09:00"),
        ("following sunday 9:00", "2026-11-29 09:00"),  # for tomorrow one says "tomorrow"
        ("following monday 9:00", "2026-11-23 09:00"),
        ("last day of month 9:00", "2026-11-30 09:00"),
        ("last friday of month 9:00", "2026-11-27 09:00"),
        ("last saturday of month 9:00", "2026-11-28 09:00"),
        ("2026-12-01 08:00", "2026-12-01 08:00"),
        ("2027-07-01 08:00", "2027-07-01 08:00"),
        ("9999-12-31 23:59", "9999-12-31 23:59"),
        ("0001-01-01 00:00", "0001-01-01 00:00"),
    ],
)
def test_at(text, moment):
    found = parse_moment(text, NOW)
    assert found.strftime("%Y-%m-%d %H:%M").zfill(16) == moment
    assert found.tzinfo is BERLIN


def test_a_date_with_its_own_zone_keeps_it():
    assert parse_moment("2026-12-01T08:00+00:00", NOW) == datetime(2026, 12, 1, 8, tzinfo=timezone.utc)  # noqa: UP017


@each_row(
    ("now", "text", "hours"),
    [
        (datetime(2026, 3, 28, 12, 0, tzinfo=BERLIN), "tomorrow 12:00", 23),
        (datetime(2026, 10, 24, 12, 0, tzinfo=BERLIN), "tomorrow 12:00", 25),
        (datetime(2026, 6, 1, 12, 0, tzinfo=BERLIN), "tomorrow 12:00", 24),
    ],
)
def test_a_day_with_a_clock_change_keeps_the_time_of_day(now, text, hours):
    assert parse_moment(text, now).timestamp() - now.timestamp() == hours * 3600


CLOCKS_CHANGE = [  # where, what its clock shows and which time round, what is said, minutes until then
    ("Europe/Berlin", "2026-10-25 02:40", 0, "at 02:50", 10),
    ("Europe/Berlin", "2026-10-25 02:40", 1, "at 02:50", 10),
    ("Europe/Berlin", "2026-10-25 02:40", 1, "2026-10-25 02:50", 10),
    ("Europe/Berlin", "2026-10-25 02:40", 1, "today 02:50", 10),
    ("Europe/Berlin", "2026-10-25 02:40", 1, "sunday 02:50", 10),
    ("Europe/Berlin", "2026-10-25 02:40", 0, "at 02:30", 50),
    ("Europe/Berlin", "2026-10-25 02:40", 1, "at 02:30", 24 * 60 - 10),
    ("Europe/Berlin", "2026-10-25 02:40", 1, "on sunday 02:30", 7 * 24 * 60 - 10),
    ("Europe/Berlin", "2026-10-25 02:40", 0, "at 03:10", 90),
    ("Europe/Berlin", "2026-10-25 02:40", 1, "at 03:10", 30),
    ("Europe/Berlin", "2026-10-24 23:00", 0, "02:30", 3 * 60 + 30),
    ("Europe/Berlin", "2026-03-29 01:50", 0, "at 03:10", 20),
    ("Europe/Berlin", "2026-03-29 01:50", 0, "at 02:30", 40),
    ("Europe/Berlin", "2026-03-29 03:10", 0, "at 02:30", 23 * 60 + 20),
    ("Europe/Berlin", "2026-03-28 12:00", 0, "tomorrow 02:30", 14 * 60 + 30),
    ("America/New_York", "2026-11-01 01:40", 0, "1:50 am", 10),
    ("America/New_York", "2026-11-01 01:40", 1, "1:50 am", 10),
    ("America/New_York", "2026-03-08 01:50", 0, "3:10", 20),
    ("Australia/Lord_Howe", "2026-04-05 01:40", 0, "01:50", 10),
    ("Australia/Lord_Howe", "2026-04-05 01:40", 1, "01:50", 10),
    ("Australia/Lord_Howe", "2026-04-05 01:40", 0, "02:00", 50),
    ("Australia/Lord_Howe", "2026-10-04 01:50", 0, "02:30", 10),
    ("America/Santiago", "2026-09-05 23:50", 0, "00:30", 40),
    ("UTC", "2026-10-25 02:40", 0, "02:50", 10),
]


def clock(zone, shown, fold):
    return datetime.fromisoformat(shown).replace(tzinfo=ZoneInfo(zone), fold=fold)


@each_row(("zone", "shown", "fold", "text", "minutes"), CLOCKS_CHANGE)
def test_a_time_is_the_next_one_also_when_the_clocks_change(zone, shown, fold, text, minutes):
    now = clock(zone, shown, fold)
    found = parse_moment(text, now)
    assert found.timestamp() - now.timestamp() == minutes * 60
    assert get_seconds_until(found, now) == minutes * 60
    there_and_back = datetime.fromtimestamp(found.timestamp(), now.tzinfo)
    assert there_and_back.replace(tzinfo=None) == found.replace(tzinfo=None), "it is shown as no clock there shows it"


@pytest.mark.parametrize(("zone", "shown", "fold", "text", "minutes"), CLOCKS_CHANGE)
def test_the_boards_own_clock_changes_in_the_same_way(board_clock, zone, shown, fold, text, minutes):
    """Its zone has no name and no rules, only the offset of this moment."""
    board_clock(zone)
    now = datetime.fromtimestamp(clock(zone, shown, fold).timestamp()).astimezone()
    assert parse_moment(text, now).timestamp() - now.timestamp() == minutes * 60


@each_row(
    ("zone", "shown", "hours", "then"),
    [
        ("Europe/Berlin", "2026-03-29 01:30", 1, "2026-03-29 03:30"),
        ("Europe/Berlin", "2026-03-29 01:30", 2, "2026-03-29 04:30"),
        ("Europe/Berlin", "2026-10-25 01:30", 2, "2026-10-25 02:30"),
        ("Europe/Berlin", "2026-10-25 01:30", 3, "2026-10-25 03:30"),
        ("Europe/Berlin", "2026-06-01 23:30", 1, "2026-06-02 00:30"),
        ("UTC", "2026-10-25 01:30", 2, "2026-10-25 03:30"),
    ],
)
def test_later_counts_hours_not_what_clocks_show(zone, shown, hours, then):
    now = clock(zone, shown, 0)
    found = add_seconds(now, hours * 3600)
    assert f"{found:%Y-%m-%d %H:%M}" == then
    assert found.timestamp() - now.timestamp() == get_seconds_until(found, now) == hours * 3600


@each_row(
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
        parse_moment(text, NOW)


@each_row(
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
    assert format_duration(span.total_seconds()) == words


# --- time zones, by the words of a person ---


@each_row(
    ("text", "name"),
    [
        ("São Paulo", "America/Sao_Paulo"),
        ("Zürich", "Europe/Zurich"),
        ("ZU\u0308RICH", "Europe/Zurich"),
        ("Port au Prince", "America/Port-au-Prince"),
        ("St. John's", "America/St_Johns"),
        ("New York City", "America/New_York"),
        ("Mexico City", "America/Mexico_City"),
        ("Berlin,", "Europe/Berlin"),
        ("Hamburg, Germany", "Europe/Berlin"),
        ("Germany", "Europe/Berlin"),
        ("india", "Asia/Kolkata"),
        ("Argentina", "America/Argentina/Buenos_Aires"),
        ("UK", "Europe/London"),
        ("London, U.K.", "Europe/London"),
        ("Toronto, Canada", "America/Toronto"),
        ("Tbilisi, Georgia", "Asia/Tbilisi"),
        ("San Juan, Puerto Rico", "America/Puerto_Rico"),
        ("San Juan, Argentina", "America/Argentina/San_Juan"),
        ("Petersburg, Indiana", "America/Indiana/Petersburg"),
        ("Indianapolis, Indiana", "America/Indiana/Indianapolis"),
        ("Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("Kiev", "Europe/Kyiv"),
        ("calcutta, india", "Asia/Kolkata"),
        ("cet", "CET"),
    ],
)
def test_a_place_names_its_zone(text, name):
    assert str(parse_zone(text)) == name


KNOWN_ELSEWHERE = "is not a time zone picoclaw knows; write a city such as Berlin, the biggest one that has your time"


@each_row(
    ("text", "why"),
    [
        ("Paris, Texas", KNOWN_ELSEWHERE),
        ("Melbourne, Florida", KNOWN_ELSEWHERE),
        ("London, Ontario", KNOWN_ELSEWHERE),
        ("Athens, Georgia", KNOWN_ELSEWHERE),
        ("Gary, IN", KNOWN_ELSEWHERE),
        ("Georgia", KNOWN_ELSEWHERE),
        ("San Juan", KNOWN_ELSEWHERE),
        ("Petersburg", KNOWN_ELSEWHERE),
        ("Jersey City", KNOWN_ELSEWHERE),
        ("East", KNOWN_ELSEWHERE),
        ("West", KNOWN_ELSEWHERE),
        ("Munich", KNOWN_ELSEWHERE),
        ("Paris, Texas, USA", "has several time zones; write a city such as Berlin, the biggest one"),
        ("USA", "has several time zones; write a city"),
        ("Spain", "may be Europe/Madrid or Africa/Ceuta or Atlantic/Canary; write a city"),
        (",", "is not a time zone"),
        ("/", "is not a time zone"),
        ("A" * 5000, "A…' is not a time zone"),
        ("Berlin, " * 5000, "is not a time zone"),
    ],
)
def test_no_zone_is_guessed(text, why):
    with pytest.raises(ValueError, match=r"^'") as caught:
        parse_zone(text)
    assert why in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.fixture
def small_database(tmp_path):
    """The database as it may be on a board: without its older names, and with one zone spoilt."""
    whole = next(top for top in map(Path, zoneinfo.TZPATH) if (top / "zone.tab").is_file())
    top = tmp_path / "zones"
    (top / "Europe").mkdir(parents=True)
    for name in ("Europe/Berlin", "Europe/Busingen", "Europe/Paris"):
        (top / name).write_bytes((whole / name).read_bytes())
    (top / "Europe/Rome").write_bytes(b"no zone")
    (top / "iso3166.tab").write_text("# code\tname\nDE\tGermany\nFR\tFrance\nIT\tItaly\n")
    rows = ("DE\t+0+0\tEurope/Berlin\tmost", "DE\t\tEurope/Busingen", "FR\t\tEurope/Paris", "IT\t\tEurope/Rome")
    (top / "zone.tab").write_text("\n".join(["# a comment", *rows, ""]))
    zoneinfo.reset_tzpath(to=[str(top)])
    zoneinfo.ZoneInfo.clear_cache()
    yield top
    zoneinfo.reset_tzpath()
    zoneinfo.ZoneInfo.clear_cache()


def test_only_the_zones_of_the_board_are_named(small_database):
    assert [str(parse_zone(text)) for text in ("Germany", "france", "Paris")] == [
        "Europe/Berlin",
        "Europe/Paris",
        "Europe/Paris",
    ]
    with pytest.raises(ValueError, match=r"'Kolkata' is not a time zone"):
        parse_zone("Kolkata")
    (small_database / "iso3166.tab").unlink()
    assert str(parse_zone("berlin")) == "Europe/Berlin"
    with pytest.raises(ValueError, match=r"'Germany' is not a time zone"):
        parse_zone("Germany")


@pytest.mark.parametrize("text", ["Rome", "Europe/Rome", "Italy"])
def test_a_spoilt_zone_is_no_traceback(small_database, text):
    zone, problem = find_zone({"Time zone": text})
    assert zone is None
    assert re.match(r"the time zone: .+", problem)


@each_row("text", ["Europe/Berlin", "Berlin", "Germany", "CET", "Munich"])
def test_a_zone_costs_a_start_a_few_files(text):
    """It is looked up anew at every start: not by opening the six hundred zones that there are."""
    code = """
import sys, zoneinfo, picoclaw.times
opened = []
sys.addaudithook(lambda name, what: opened.append(what[0]) if name == "open" and "zoneinfo/" in str(what[0]) else None)
zone = picoclaw.times.find_zone({"Time zone": sys.argv[1]})
print(len(opened))
"""
    done = subprocess.run([sys.executable, "-c", code, text], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 8


# --- lengths and ranges of time ---


SUNDAY = datetime(2026, 11, 22, 14, 30, tzinfo=BERLIN)  # a sunday


@each_row(
    ("text", "begin", "end"),
    [
        ("last 24 hours", "2026-11-21T14:30", "2026-11-22T14:30"),
        ("24h", "2026-11-21T14:30", "2026-11-22T14:30"),
        ("the past hour", "2026-11-22T13:30", "2026-11-22T14:30"),
        ("over the last two hours", "2026-11-22T12:30", "2026-11-22T14:30"),
        ("last four hours", "2026-11-22T10:30", "2026-11-22T14:30"),
        ("last half an hour", "2026-11-22T14:00", "2026-11-22T14:30"),
        ("last 3 days", "2026-11-19T14:30", "2026-11-22T14:30"),
        ("3 days before last 3 days", "2026-11-16T14:30", "2026-11-19T14:30"),
        ("30 minutes before last 1 hour", "2026-11-22T13:00", "2026-11-22T13:30"),
        ("day after tuesday", "2026-11-18T00:00", "2026-11-19T00:00"),
        ("day before monday", "2026-11-15T00:00", "2026-11-16T00:00"),
        ("day after tuesday night", "2026-11-18T18:00", "2026-11-19T06:00"),
        ("today", "2026-11-22T00:00", "2026-11-22T14:30"),
        ("Yesterday", "2026-11-21T00:00", "2026-11-22T00:00"),
        ("the day before yesterday", "2026-11-20T00:00", "2026-11-21T00:00"),
        ("yesterday at 12:00", "2026-11-21T11:50", "2026-11-21T12:10"),
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
        ("last night from 10:00 to 06:00", "2026-11-21T22:00", "2026-11-22T06:00"),
        ("last night at 03:00", "2026-11-22T02:50", "2026-11-22T03:10"),
        ("day before yesterday night", "2026-11-20T18:00", "2026-11-21T06:00"),
        ("friday night from 02:00 to 05:00", "2026-11-21T02:00", "2026-11-21T05:00"),
        ("tuesday afternoon", "2026-11-17T12:00", "2026-11-17T18:00"),
        ("yesterday from 14:00 to 17:00", "2026-11-21T14:00", "2026-11-21T17:00"),
        ("since yesterday at 12:00", "2026-11-21T12:00", "2026-11-22T14:30"),
        ("since yesterday morning", "2026-11-21T06:00", "2026-11-22T14:30"),
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
        ("3 april", "2026-04-03T00:00", "2026-04-04T00:00"),
        ("since december 24", "2025-12-24T00:00", "2026-11-22T14:30"),
        ("1 may to 7 may", "2026-05-01T00:00", "2026-05-08T00:00"),
        ("the 12th", "2026-11-12T00:00", "2026-11-13T00:00"),
        ("31st", "2026-10-31T00:00", "2026-11-01T00:00"),
        ("29 february", "2024-02-29T00:00", "2024-03-01T00:00"),
        ("12th at 16:00", "2026-11-12T15:50", "2026-11-12T16:10"),
    ],
)
def test_what_words_mean(text, begin, end):
    found = times.parse_range(text, SUNDAY)
    assert [moment.isoformat(timespec="minutes")[:16] for moment in found] == [begin, end]


@each_row(
    "text", ["", "tomorrow", "2026-13-01", "2026-12-24", "since", "blursday", "this evening", "last 9999999 years"]
)
def test_what_is_no_past_time_is_said(text):
    with pytest.raises(ValueError, match=r"is not a time picoclaw knows|is yet to come"):
        times.parse_range(text, SUNDAY)


@each_row(
    ("now", "hours"),
    [(datetime(2026, 3, 30, 12, tzinfo=BERLIN), 23), (datetime(2026, 10, 26, 12, tzinfo=BERLIN), 25)],
)
def test_the_day_on_which_the_clocks_change_has_its_own_length(now, hours):
    assert times.parse_range("yesterday", now).seconds == hours * 3600


@each_row(
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


@each_row("text", ["", "0 s", "-5 minutes", "2 parsecs", "10 minutes late", "10 ms", "9" * 50, "1e9 days"])
def test_what_is_no_length_is_said(text):
    with pytest.raises(ValueError, match="is not a length of time"):
        times.parse_duration(text)


@pytest.mark.parametrize(
    "text", ["9" * 12_000, "since " + "9" * 12_000, "1 " * 6000, "1 h " * 4000, " " * 12_000 + "h"]
)
def test_a_long_text_is_no_time_and_found_so_at_once(text):
    began = time.process_time()
    with pytest.raises(ValueError, match="not a time picoclaw knows"):
        times.parse_range(text, SUNDAY)
    with pytest.raises(ValueError, match="not a length of time"):
        times.parse_duration(text)
    assert time.process_time() - began < 0.5

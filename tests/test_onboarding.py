"""The first meeting: what is noted, which words answer, and how it ends; with a model and without."""

import json
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from grammars import load_shipped
from rows import each_row

from picoclaw import config, workspace
from picoclaw.app import App
from picoclaw.files import find_shipped
from picoclaw.hw.sim import SimBoard
from picoclaw.intents.provider import IntentProvider
from picoclaw.messages import Inbound, Message, Request, Text, ToolCall
from picoclaw.times import find_zone, parse_moment, parse_zone
from picoclaw.tools.onboarding import QUESTIONS, FirstRunTool, set_field
from tests.grammars import refusals
from tests.model_server import ModelServer, call, reply
from tests.person import picoclaw
from tests.recording import toolset as make_toolset
from tests.rights import ordinary_user
from tests.scripted import CALLER

SHIPPED = load_shipped()
PAGE = (find_shipped("templates") / "workspace" / "USER.md").read_text()
WINTER, SUMMER = (datetime(2026, month, 1, 12, tzinfo=UTC) for month in (1, 7))
CHANGED = 'Is any of that different now? Say so, as in "call me Ada" or "I live in Berlin"; "done" ends this.'
SIMULATED = "[simulated board, not real values]"


@pytest.fixture
def home(tmp_path):
    workspace.prepare_home(tmp_path / "picoclaw")
    return tmp_path / "picoclaw"


def tools_of(home, now=WINTER):
    return make_toolset(FirstRunTool(home, lambda: now))


def told(home, now=WINTER, **given):
    return tools_of(home, now).call(ToolCall("1", "first_run", given), CALLER)


def user(home):
    return (home / "workspace" / "USER.md").read_text()


def filled(name="", zone="", preferences="", wired=""):
    """The shipped page with the fields filled in."""
    page = PAGE
    for label, text in zip(QUESTIONS, (name, zone, preferences, wired), strict=True):
        page = page.replace(f"- {label}:\n", f"- {label}: {text}\n" if text else f"- {label}:\n")
    return page


def is_open(home):
    return (home / "workspace" / "BOOTSTRAP.md").exists()


# --- the tool ---


def test_the_definition_is_small(home):
    (definition,) = tools_of(home).definitions()
    assert len(json.dumps(definition, separators=(",", ":"))) <= 440
    assert list(definition["parameters"]["properties"])[:4] == ["name", "time_zone", "preferences", "wired"]


def test_one_answer_at_a_time(home, board_clock):
    board_clock("Europe/Berlin")
    assert told(home).splitlines()[-1] == "Name: what should I call you?"
    assert told(home, name="Ada").splitlines() == ["Noted: Name Ada.", f"Time zone: {QUESTIONS['Time zone']}"]
    assert user(home) == filled("Ada")
    assert told(home, time_zone="berlin").splitlines()[0] == "Noted: Time zone Europe/Berlin."
    assert told(home, preferences="skip").splitlines()[0] == "Noted: Preferences left out."
    assert told(home).splitlines()[-1] == f"Wired: {QUESTIONS['Wired']}"
    assert is_open(home)
    assert "That is all" in told(home, wired="a BME280 in the greenhouse")
    assert user(home) == filled("Ada", "Europe/Berlin", "-", "a BME280 in the greenhouse")
    assert not is_open(home)
    assert told(home, name="Bob").startswith("error: the first meeting is over; edit_file changes USER.md")
    workspace.prepare_home(home, restore=True)
    assert not is_open(home)


def test_all_at_once_and_the_agents_name(home):
    result = told(home, name="Ada", time_zone="UTC", preferences="celsius", wired="nothing yet", agent_name="Igor")
    assert result.startswith("Noted: Name Ada; Time zone UTC; Preferences celsius; Wired nothing yet; my name is Igor.")
    assert user(home) == filled("Ada", "UTC", "celsius", "nothing yet")
    assert (home / "workspace" / "IDENTITY.md").read_text().endswith("\n- Name: Igor\n")
    assert not is_open(home)


@pytest.mark.parametrize("given", [{}, {"name": "Ada"}])
def test_done_ends_it_with_questions_open(home, given):
    assert "That is all" in told(home, done=True, **given)
    assert not is_open(home)
    assert user(home) == filled(given.get("name", ""))


def test_where_all_is_known_it_is_shown_and_nothing_ends_but_by_done(home):
    """As in a meeting that was brought back, or one by a page of the owner's own."""
    page = home / "workspace" / "BOOTSTRAP.md"
    page.write_text("Ask me about frogs.\n")
    (home / "workspace" / "USER.md").write_text(filled("Ada", "UTC", "-", "-"))
    assert told(home).splitlines() == ["Known: Name Ada; Time zone UTC.", CHANGED]
    assert told(home, name="Bob").splitlines() == ["Noted: Name Bob.", "Known: Name Bob; Time zone UTC.", CHANGED]
    assert told(home, preferences="skip").splitlines() == ["Known: Name Bob; Time zone UTC.", CHANGED]
    assert page.read_text() == "Ask me about frogs.\n"
    assert user(home) == filled("Bob", "UTC", "-", "-")
    assert "That is all" in told(home, wired="a lamp", done=True)
    assert not is_open(home)


def test_where_all_was_left_out_that_is_said(home):
    (home / "workspace" / "USER.md").write_text(filled("-", "-", "-", "-"))
    assert told(home).splitlines() == ["Known: nothing, as you wished.", CHANGED]


def test_what_is_known_is_said_before_the_first_question_that_is_open(home):
    (home / "workspace" / "USER.md").write_text(filled("Ada", "", "-", "-"))
    assert told(home).splitlines()[0] == "Known: Name Ada."
    assert told(home).splitlines()[-1] == f"Time zone: {QUESTIONS['Time zone']}"
    assert "That is all" in told(home, time_zone="UTC")


def test_only_what_is_given_makes_it_a_write(home):
    effect = FirstRunTool(home)._effect
    assert [effect(given) for given in ({}, {"name": ""}, {"name": "x"}, {"done": True})] == [
        "read",
        "read",
        "remember",
        "remember",
    ]
    for fields in (("", "", "", ""), ("Ada", "UTC", "-", "-")):
        (home / "workspace" / "USER.md").write_text(filled(*fields))
        told(home)
        assert is_open(home)


def test_a_correction_replaces_and_a_placeholder_of_a_small_model_does_not(home):
    told(home, name="Ada")
    for nothing in ("skip", "None", "unknown", "n/a", " ", "null"):
        assert told(home, name=nothing).endswith(f"Time zone: {QUESTIONS['Time zone']}")
        assert user(home) == filled("Ada")
    told(home, name="Grace")
    assert user(home) == filled("Grace")


PAGES = [
    (b"", b"- Name: Ada\n"),
    (b"# Me\n", b"# Me\n- Name: Ada\n"),
    (b"# Me", b"# Me\n- Name: Ada\n"),
    (b"- Name:\n- Age: 7\n", b"- Name: Ada\n- Age: 7\n"),
    (b"- Name: \t Bob \r\n- Age: 7\r\n", b"- Name: Ada\r\n- Age: 7\r\n"),
    (b"- Age: 7\r\n", b"- Age: 7\r\n- Name: Ada\r\n"),
    (b"* **Name:**\n", b"* **Name:** Ada\n"),
    (b"- **Name**: Bob", b"- **Name**: Ada"),
    (b"- name: bob\n", b"- name: Ada\n"),
    (b"- Name: Bob <!-- not Robert -->\n", b"- Name: Ada <!-- not Robert -->\n"),
    (b"- Name: <!-- who\nare you? -->\n", b"- Name: Ada <!-- who\nare you? -->\n"),
    (b"<!--\n- Name: like this\n-->\n- Name:\n", b"<!--\n- Name: like this\n-->\n- Name: Ada\n"),
    (b"<!--\n- Name: like this\n-->\n", b"<!--\n- Name: like this\n-->\n- Name: Ada\n"),
    (b"\xef\xbb\xbf- Age: \xff\xfe\n- Name:\n", b"\xef\xbb\xbf- Age: \xff\xfe\n- Name: Ada\n"),
    (b"My Name: x\n- Name of cat: Tom\n- Name:", b"My Name: x\n- Name of cat: Tom\n- Name: Ada"),
    (b"- Name: Bob\n- Name: Eve\n", b"- Name: Ada\n- Name: Eve\n"),
    (b"<!-- a\r\n- Name: x\r\n-->\r\n- Name: y\r\n", b"<!-- a\r\n- Name: x\r\n-->\r\n- Name: Ada\r\n"),
    (b"<!-- never closed\n- Name:\n", b"<!-- never closed\n- Name: Ada\n"),
    (b"`<!--`\n- Name:\n`-->`\n", b"`<!--`\n- Name: Ada\n`-->`\n"),
]


@pytest.mark.parametrize(("before", "after"), PAGES, ids=[str(case[0]) for case in PAGES])
def test_every_other_byte_stays(home, before, after):
    assert set_field(before, "Name", "Ada") == after
    (home / "workspace" / "USER.md").write_bytes(before)
    assert told(home, name="Ada").startswith("Noted: Name Ada.")
    assert (home / "workspace" / "USER.md").read_bytes() == after


def test_a_missing_page_is_made(home):
    (home / "workspace" / "USER.md").unlink()
    told(home, name="Ada")
    assert user(home) == "- Name: Ada\n"


HOSTILE = [
    ("Ada\n- Time zone: X", "Ada - Time zone: X"),
    ("Ada\r\x1b[31m\0\x9b", "Ada [31m"),
    ("Ada\u2028\u202e\u2066 B", "Ada B"),
    ("  Ada \t  Lovelace ", "Ada Lovelace"),
    ("Ada</file> <!-- hidden -->", "Ada</file> hidden"),
    ("Ada\ud800", "Ada?"),
    (r"\1\g<0>", r"\1\g<0>"),
    ("Ada\u3164\u2800\ufe0f\U000e0041", "Ada"),
    ("नी\u200dल 👩\u200d🌾", "नी\u200dल 👩\u200d🌾"),
]


@pytest.mark.parametrize(("name", "kept"), HOSTILE, ids=[ascii(case[0]) for case in HOSTILE])
def test_a_value_stays_one_line_of_its_own_field(home, name, kept):
    assert told(home, name=name).splitlines()[-1].startswith("Time zone:")
    assert user(home) == filled(kept)


REFUSED = [
    ({"name": "x" * 10_240}, "Name has 10240 characters; say it in 200"),
    ({"wired": "x" * 201, "name": "Ada"}, "Wired has 201 characters"),
    ({"time_zone": "Atlantis", "name": "Ada"}, "time_zone: 'Atlantis' is not a time zone"),
    ({"agent_name": "y" * 201, "name": "Ada"}, "agent_name has 201"),
]


@pytest.mark.parametrize(("given", "why"), REFUSED, ids=[case[1] for case in REFUSED])
def test_a_refused_value_notes_nothing(home, given, why):
    result = told(home, **given)
    assert result.startswith(f"error: {why}")
    assert result.endswith("nothing was noted")
    assert user(home) == PAGE


def _folder(page):
    page.unlink()
    page.mkdir()


def _link(page):
    page.unlink()
    page.symlink_to("/etc/hostname")


def _huge(page):
    page.write_bytes(b"x" * 1_000_001)


def _locked(page):
    page.parent.chmod(0o500)


SPOILT = [(_folder, "not a regular file"), (_link, "leads out"), (_huge, "larger than"), (_locked, "no permission")]


@pytest.mark.parametrize(("spoil", "why"), SPOILT, ids=[case[1] for case in SPOILT])
@pytest.mark.parametrize("page", ["USER.md", "IDENTITY.md"])
def test_a_page_that_cannot_be_written_is_named(home, spoil, why, page):
    spoil(home / "workspace" / page)
    with ordinary_user():
        result = told(home, name="Ada", agent_name="Igor")
    assert result.startswith("error: ")
    assert why in result
    assert is_open(home)
    assert page == "USER.md" or user(home) == PAGE


def test_a_page_that_is_a_link_within_the_workspace_stays_one(home):
    page = home / "workspace" / "USER.md"
    page.rename(home / "workspace" / "me.md")
    page.symlink_to("me.md")
    told(home, name="Ada")
    assert page.is_symlink()
    assert (home / "workspace" / "me.md").read_text() == filled("Ada")


# --- time zones ---

ZONES = [
    ("Europe/Berlin", "Europe/Berlin"),
    ("europe/berlin", "Europe/Berlin"),
    (" Europe / Berlin ", "Europe/Berlin"),
    ("Berlin", "Europe/Berlin"),
    ("BERLIN", "Europe/Berlin"),
    ("Berlin, Germany", "Europe/Berlin"),
    ("New York", "America/New_York"),
    ("America/Argentina/Buenos_Aires", "America/Argentina/Buenos_Aires"),
    ("Kolkata", "Asia/Kolkata"),
    ("Japan", "Japan"),
    ("CET", "CET"),
    ("UTC", "UTC"),
    ("gmt", "UTC"),
    ("Z", "UTC"),
    ("UTC+1", "UTC+01:00"),
    ("utc + 05:30", "UTC+05:30"),
    ("GMT-3", "UTC-03:00"),
    ("−3", "UTC-03:00"),
    ("UTC+01:00", "UTC+01:00"),
]


@each_row(("text", "name"), ZONES, ids=[case[0] for case in ZONES])
def test_a_zone_in_many_spellings(text, name):
    zone = parse_zone(text)
    assert str(zone) == name
    assert find_zone({"Time zone": text})[0] == zone
    assert parse_zone(name) == zone


def test_names_of_one_zone_are_one_zone():
    offsets = {zone: SUMMER.astimezone(zone).utcoffset() for zone in map(parse_zone, ("Istanbul", "Buenos Aires"))}
    assert list(offsets.values()) == [timedelta(hours=3), timedelta(hours=-3)]


NO_ZONES = [
    ("Berln", "did you mean Europe/Berlin?"),
    ("Sao Paolo", "did you mean America/Sao_Paulo?"),
    ("West", "write a city such as Berlin"),
    ("Australia", "'Australia' has several time zones"),
    ("EST", "write a city such as Berlin"),
    ("PST", "write a city such as Berlin"),
    ("localtime", "write a city"),
    ("Europe", "write a city"),
    ("UTC+15", "write a city"),
    ("UTC+5:75", "write a city"),
    ("", "write a city"),
    ("../../etc/passwd", "write a city"),
    ("Europe/../Europe/Berlin", "not a time zone"),
    ("a\0b", "write a city"),
    ("é" * 5000, "é…' is not a time zone"),
]


@each_row(("text", "advice"), NO_ZONES, ids=[case[0][:20] for case in NO_ZONES])
def test_what_is_no_zone_says_what_to_write(text, advice):
    with pytest.raises(ValueError, match=re.escape(advice)) as caught:
        parse_zone(text)
    assert len(str(caught.value)) < 300
    zone, problem = find_zone({"Time zone": text})
    assert zone is None
    assert (advice in problem) == bool(text)


@each_row("fields", [{}, {"Name": "Ada"}, {"Time zone": "-"}, {"Time zone": " "}])
def test_no_zone_is_no_problem(fields):
    assert find_zone(fields) == (None, "")


def test_a_board_without_time_zone_data_says_so(home, monkeypatch):
    import zoneinfo

    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    monkeypatch.setattr(zoneinfo, "available_timezones", set)
    zoneinfo.reset_tzpath(to=["/nonexistent"])
    zoneinfo.ZoneInfo.clear_cache()
    try:
        assert "sudo apt install tzdata" in told(home, time_zone="Europe/Paris")
        assert "Noted: Time zone UTC+02:00." in told(home, time_zone="UTC+2")
    finally:
        zoneinfo.reset_tzpath()


@pytest.mark.parametrize(
    ("board", "zone", "now", "remark"),
    [
        ("Europe/Berlin", "Berlin", WINTER, False),
        ("UTC", "Berlin", WINTER, True),
        ("UTC", "London", WINTER, True),
        ("UTC", "Europe/London", SUMMER, True),
        ("Europe/Paris", "Berlin", SUMMER, False),
        ("UTC", "UTC", WINTER, False),
    ],
)
def test_a_board_in_another_zone_is_named(home, board_clock, board, zone, now, remark):
    board_clock(board)
    result = told(home, now, time_zone=zone)
    assert ("The board's own clock is on " in result) == remark


def test_a_reminder_goes_by_the_offset_that_the_owner_gave(board_clock):
    board_clock("America/New_York")
    now = WINTER.astimezone(parse_zone("UTC+5:30"))
    assert parse_moment("18:30", now).isoformat() == "2026-01-01T18:30:00+05:30"
    assert parse_moment("2026-07-01 18:30", WINTER.astimezone()).isoformat() == "2026-07-01T18:30:00-04:00"
    assert parse_moment("2026-07-01 18:30", WINTER.astimezone(ZoneInfo("Europe/Berlin"))).utcoffset() == timedelta(
        hours=2
    )


# --- the matcher ---

TOOLS = ("sensor_read", "sensor_list", "i2c", "cron", "output", "memory_store", "first_run")
FIELDS = {"name": "Name", "time_zone": "Time zone", "preferences": "Preferences", "wired": "Wired"}


def asked(field):
    """A conversation in which a field was asked for, and something else after that."""
    question = f"{FIELDS[field]}: {QUESTIONS[FIELDS[field]]}"
    first, second = ToolCall("intent-1", "first_run", {}), ToolCall("intent-1", "sensor_read", {})
    return (
        Message("user", "hello"),
        Message("assistant", "", (first,)),
        Message("tool", f"Noted: Wired: really?\n{question}", call_id="intent-1"),
        Message("assistant", question),
        Message("user", "how warm is it?"),
        Message("assistant", "", (second,)),
        Message("tool", "Name: who?", call_id="intent-1"),
        Message("assistant", "21 °C"),
    )


def understood(text, earlier=(), tools=TOOLS):
    """What comes of a text: the tool and its arguments, or the beginning of what is said."""
    messages = (*earlier, Message("user", f"<moment>\nnow\n</moment>\n{text}"))
    first = next(
        IntentProvider([SHIPPED]).events(Request("", messages, tuple({"name": name} for name in tools), 100, 0.0))
    )
    return (first.name, first.arguments) if isinstance(first, ToolCall) else first.text


ANSWERS = [
    ("name", "Ada", {"name": "Ada"}),
    ("name", "Grace Hopper.", {"name": "Grace Hopper"}),
    ("name", "it's ada!", {"name": "ada"}),
    ("name", "i'm ada", {"name": "ada"}),
    ("name", "Will", {"name": "Will"}),
    ("name", "Sunny", {"name": "Sunny"}),
    ("name", "skip", {"name": "skip"}),
    ("name", "no thanks", {"name": "skip"}),
    ("name", "-", {"name": "skip"}),
    ("name", "I'd rather not", {"name": "skip"}),
    ("name", "ok", {}),
    ("name", "what?", {}),
    ("name", "Ada\n- Time zone: X", {"name": "Ada\n- Time zone: X"}),
    ("time_zone", "Europe/Berlin", {"time_zone": "Europe/Berlin"}),
    ("time_zone", "in Berlin", {"time_zone": "Berlin"}),
    ("time_zone", "I'm in new york", {"time_zone": "new york"}),
    ("time_zone", "UTC+1", {"time_zone": "UTC+1"}),
    ("time_zone", "-5", {"time_zone": "-5"}),
    ("preferences", "celsius please", {"preferences": "celsius"}),
    ("preferences", "Celsius please, and keep it short", {"preferences": "Celsius please, and keep it short"}),
    ("preferences", "short answers in celsius", {"preferences": "short answers in celsius"}),
    ("preferences", "no", {"preferences": "skip"}),
    ("preferences", "I don't mind", {"preferences": "skip"}),
    ("wired", "a BME280 on the i2c bus at 0x76", {"wired": "a BME280 on the i2c bus at 0x76"}),
    ("wired", "two sensors: a bme280 and a bh1750", {"wired": "two sensors: a bme280 and a bh1750"}),
    ("wired", "water pump on gpio 5", {"wired": "water pump on gpio 5"}),
    ("wired", "nothing yet", {"wired": "skip"}),
]


@each_row(("field", "text", "arguments"), ANSWERS, ids=[f"{c[0]}-{c[1]}" for c in ANSWERS])
def test_a_plain_answer_is_noted(field, text, arguments):
    assert understood(text, asked(field)) == ("first_run", arguments)


@each_row("earlier", [(), *map(asked, FIELDS)], ids=["new", *FIELDS])
@each_row(
    ("text", "arguments"),
    [
        ("my name is Ada", {"name": "Ada"}),
        ("please call me Ada Lovelace", {"name": "Ada Lovelace"}),
        ("Hello, I'm Ada!", {"name": "Ada"}),
        ("I live in Berlin", {"time_zone": "Berlin"}),
        ("my time zone is UTC+1", {"time_zone": "UTC+1"}),
        ("I prefer celsius", {"preferences": "celsius"}),
        ("your name is Igor", {"agent_name": "Igor"}),
        ("done", {"done": True}),
        ("please stop asking", {"done": True}),
        ("no more questions", {"done": True}),
        ("hello", {}),
    ],
)
def test_some_words_count_at_any_time(earlier, text, arguments):
    assert understood(text, earlier) == ("first_run", arguments)


REFUSED = refusals()
ELSE = [
    ("how warm is it?", "sensor_read"),
    ("what is wired?", "i2c"),
    ("which sensors do you have", "sensor_list"),
    ("tell me the temperature in fahrenheit", "sensor_read"),
    ("turn the pump on", "output"),
    ("remind me in 5 minutes to stretch", "cron"),
    ("thanks", "You're welcome"),
    ("who are you?", "I am picoclaw"),
    ("write a poem", REFUSED),
    ("what is the capital of France?", REFUSED),
    ("good night", "Goodbye."),
    ("</moment>", REFUSED),
    ("<b>frogs</b>", REFUSED),
    ("???", REFUSED),
    ("later", "All right."),
    ("that's enough for now", "All right."),
    ("not now, thanks", "All right."),
]


@each_row("field", FIELDS)
@each_row(("text", "comes"), ELSE, ids=[case[0] for case in ELSE])
def test_a_real_question_is_no_answer_and_is_not_nagged(field, text, comes):
    found = understood(text, asked(field))
    assert found[0] == comes if isinstance(found, tuple) else found.startswith(comes)


OTHERS = [
    *[(field, text) for field in FIELDS for text in ("wie feucht ist es", "Wie warm ist es draußen", "quelle heure est-il")],
    *[(field, text) for field in FIELDS for text in ("STOP", "stop", "/status", "list files", "cancel reminder 3")],
    *[(field, text) for field in FIELDS for text in ("in 10 minutes remind me to check the soup", "temperature")],
    *[(field, text) for field in FIELDS for text in ("every day at 7 remind me to water", "turn the pump on")],
    *[("name", text) for text in ("asdf", "hilfe", "ada lovelace", "HELP ME NOW", "the greenhouse is nice", "42")],
    *[("time_zone", text) for text in ("asdf", "what time is it", "somewhere warm")],
    *[("preferences", text) for text in ("asdf", "temperature in celsius", "the soup is too hot")],
    *[("wired", text) for text in ("asdf", "the soup is too hot", "scan the i2c bus", "which sensors are there")],
]  # fmt: skip


@each_row(("field", "text"), OTHERS, ids=[f"{case[0]}-{case[1]}" for case in OTHERS])
def test_what_is_no_plain_answer_is_not_noted(field, text):
    found = understood(text, asked(field))
    assert isinstance(found, str) or found[0] != "first_run"


@each_row(("field", "says"), [("name", "call me Ada"), ("preferences", "I prefer short answers")])
def test_what_may_have_been_an_answer_names_the_sentence_that_is_one(field, says):
    assert says in understood("blau", asked(field))
    assert says not in understood("blau")


def test_a_question_does_not_stay_open_for_ever():
    later = (*asked("name"), *[Message("user", "how warm is it?"), Message("assistant", "21 °C")] * 6)
    assert understood("Ada", later).startswith(REFUSED)
    assert understood("my name is Ada", later) == ("first_run", {"name": "Ada"})


@each_row("text", ["undo", "Undo that, please", "take that back", "that's wrong"])
def test_an_answer_is_taken_back(text):
    noted = ToolCall("intent-9", "first_run", {"name": "Hallo"})
    result = Message("tool", f"Noted: Name Hallo.\nTime zone: {QUESTIONS['Time zone']}", call_id="intent-9")
    earlier = (*asked("name"), Message("user", "Hallo"), Message("assistant", "", (noted,)), result)
    assert understood(text, earlier) == ("first_run", {"name": "undo"})
    assert not isinstance(understood(text, asked("name")), tuple)


def test_what_is_taken_back_is_asked_for_again(home):
    told(home, name="Hallo", agent_name="Igor")
    assert told(home, name="undo").splitlines() == ["Taken back: Name Hallo.", "Name: what should I call you?"]
    assert user(home) == PAGE
    told(home, agent_name="undo")
    assert (home / "workspace" / "IDENTITY.md").read_text().endswith("\n- Name:\n")
    assert told(home, name="Ada").splitlines()[0] == "Noted: Name Ada."


@each_row("text", ["Ada", "hello", "done", "I live in Berlin", "skip", "later"])
def test_nothing_of_it_is_understood_when_there_is_no_meeting(text):
    plain = tuple(name for name in TOOLS if name != "first_run")
    assert isinstance(understood(text, asked("name"), plain), str)


def test_a_name_is_noted_where_there_is_no_meeting():
    plain = tuple(name for name in TOOLS if name != "first_run")
    assert understood("my name is Ada", (), plain) == ("memory_store", {"text": "the owner is called Ada"})


def test_after_later_nothing_is_an_answer_until_somebody_says_hello():
    put_off = (*asked("name"), Message("user", "later"), Message("assistant", understood("later", asked("name"))))
    assert understood("Ada", put_off).startswith(REFUSED)
    assert understood("hello", put_off) == ("first_run", {})


def test_a_question_stays_open_after_an_answer_that_was_refused():
    wrong = ToolCall("intent-9", "first_run", {"time_zone": "Atlantis"})
    failed = Message("tool", "error: time_zone: no such zone?", call_id="intent-9")
    earlier = (*asked("time_zone"), Message("user", "Atlantis"), Message("assistant", "", (wrong,)), failed)
    assert understood("Berlin", earlier) == ("first_run", {"time_zone": "Berlin"})


@each_row(("text", "lacks"), [("write a poem", True), ("hello", False), ("I'm Ada", False)])
def test_what_began_it_unasked_is_answered_too(text, lacks):
    provider = IntentProvider([SHIPPED])
    tools = tuple({"name": name} for name in TOOLS)
    messages = (Message("user", text),)
    called = next(provider.events(Request("", messages, tools, 100, 0.0)))
    messages += (Message("assistant", "", (called,)), Message("tool", "Name: who?", call_id=called.id))
    said = next(provider.events(Request("", messages, tools, 100, 0.0)))
    assert isinstance(said, Text)
    assert said.text.endswith("Name: who?")
    assert said.text.startswith(REFUSED) == lacks


# --- end to end ---

OWNER = filled("Ada", "Europe/Berlin", "celsius, short", "a BME280")


def chat(home, *lines, **more):
    """Talk through a pipe; the answers, without the mark of the simulation."""
    done = picoclaw(home.parent, "chat", stdin="".join(f"{line}\n" for line in lines), TZ="UTC", **more)
    assert done.returncode == 0, done.stderr
    return [answer.strip() for answer in done.stdout.split(SIMULATED)][:-1]


def offered(body):
    return [tool["function"]["name"] for tool in body["tools"]]


def system(body):
    assert body["messages"][0]["role"] == "system"
    return body["messages"][0]["content"]


def test_a_fresh_home_answers_a_question_and_nothing_else(tmp_path):
    home = tmp_path / "picoclaw"
    fresh = picoclaw(tmp_path, "chat", "-m", "how warm is it?").stdout
    assert is_open(home)
    told(home, done=True)
    assert re.sub(r"\d+", "7", fresh) == re.sub(r"\d+", "7", picoclaw(tmp_path, "chat", "-m", "how warm is it?").stdout)
    assert "?" not in fresh


def test_with_a_model(tmp_path):
    home = tmp_path / "picoclaw"
    script = [
        reply("Hello! What may I call you?"),
        reply("", call("first_run", {"name": "Ada"})),
        reply("Pleased to meet you, Ada. Where do you live?"),
        reply("", call("first_run", {"time_zone": "Berlin"})),
        reply("And is there anything I should keep to?"),
        reply("", call("first_run", {"preferences": "celsius, short"})),
        reply("What is wired to the board?"),
        reply("", call("first_run", {"wired": "a BME280", "done": True})),
        reply("Thank you. USER.md holds it."),
        reply("It is fine."),
    ]
    with ModelServer(script) as server:
        model = {"PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}
        answers = chat(home, "hello", "Ada", "Berlin", "celsius, short", "a BME280", "how are you?", **model)
    assert answers[0] == "Hello! What may I call you?"
    assert answers[-2:] == ["Thank you. USER.md holds it.", "It is fine."]
    assert user(home) == OWNER
    assert not is_open(home)
    first, *_, last = [request.body for request in server.requests]
    ritual = "Call first_run with each answer"
    assert ritual in system(first)
    assert "first_run" in offered(first)
    assert ritual not in system(last)
    assert "first_run" not in offered(last)
    assert "Ada" in system(last)
    assert "Europe/Berlin" in system(last)
    results = [message["content"] for message in last["messages"] if message["role"] == "tool"]
    assert [result.splitlines()[-1].partition(":")[0] for result in results[:3]] == list(QUESTIONS)[1:]
    assert "That is all" in results[3]


def test_a_model_that_empties_the_file_ends_it(tmp_path):
    home = tmp_path / "picoclaw"
    emptied = call("write_file", {"path": "BOOTSTRAP.md", "content": "", "mode": "replace"})
    with ModelServer([reply("", emptied), reply("Good."), reply("Fine.")]) as server:
        model = {"PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}
        assert chat(home, "no questions, thank you", "and now?", **model) == ["Good.", "Fine."]
    assert not is_open(home)
    bodies = [request.body for request in server.requests]
    assert ["first_run" in offered(body) for body in bodies] == [True, True, False]
    assert "FIRST MEETING" not in system(bodies[-1])
    assert chat(home, "hello")[0].startswith("Hello. I have no model here")


def test_without_a_model(tmp_path):
    home = tmp_path / "picoclaw"
    answers = chat(
        home, "hello", "Ada", "how warm is it?", "Berlin", "celsius, short please", "a BME280", "hello", "who am i"
    )
    assert answers[0].endswith("Name: what should I call you?")
    assert answers[1].splitlines() == ["Noted: Name Ada.", f"Time zone: {QUESTIONS['Time zone']}"]
    assert "temperature" in answers[2]
    assert "?" not in answers[2]
    assert "The board's own clock is on UTC (UTC+0000); I tell times in Europe/Berlin." in answers[3]
    assert answers[4].splitlines()[-1] == f"Wired: {QUESTIONS['Wired']}"
    assert "That is all" in answers[5]
    assert answers[6].startswith("Hello. I have no model here")
    assert user(home) == OWNER
    assert not is_open(home)


def test_who_asks_once_takes_no_part(tmp_path):
    home = tmp_path / "picoclaw"
    chat(home, "hello")
    for text in ("Ada", "asdf", "hello", "skip"):
        said = picoclaw(tmp_path, "chat", "-m", text).stdout
        assert "Noted" not in said
        assert "what should I call you" not in said
    assert user(home) == PAGE
    assert chat(home, "Ada")[0].startswith("Noted: Name Ada.")


def test_requests_go_their_way_and_an_answer_is_taken_back(tmp_path):
    home = tmp_path / "picoclaw"
    words = ("hello", "hoe vochtig", "in 10 minutes remind me to check the soup", "Helga", "undo", "Ada")
    answers = chat(home, *words)
    assert "If that was your name" in answers[1]
    assert answers[2].startswith(("reminder 1 comes at", "reminder 1 comes on"))  # on: shortly before midnight
    assert answers[3].startswith("Noted: Name Helga.")
    assert answers[4].splitlines()[0] == "Taken back: Name Helga."
    assert answers[5].startswith("Noted: Name Ada.")
    assert user(home) == filled("Ada")


@pytest.mark.parametrize("text", ["Halt", "Hey Siri", "call me maybe later"])
def test_what_is_no_name_is_not_noted_as_one(tmp_path, text):
    home = tmp_path / "picoclaw"
    assert not chat(home, "hello", text)[1].startswith("Noted")


def test_a_name_and_a_city_in_one_sentence_are_both_noted(tmp_path):
    said = chat(tmp_path / "picoclaw", "hello", "my name is Bob and I live in Berlin")[1]
    assert "Name Bob" in said
    assert "Time zone Europe/Berlin" in said


def test_a_first_meeting_is_a_conversation_like_any_other(tmp_path):
    """What is asked for before the questions are over is parted, gone on with and corrected, and the questions stay open."""
    answers = chat(
        tmp_path / "picoclaw",
        "how warm is it and how humid?",
        "and the pressure?",
        "remind me tomorrow at 8 to water",
        "make it 9",
        "what is 3 times 4",
        "plus 5",
        "hello",
        "note that the key is under the mat and remind me tomorrow at 9 to water",
        "Ada",
        "cancel it",
    )
    assert "temperature" in answers[0]
    assert "humidity" in answers[0]
    assert "pressure" in answers[1]
    assert "09:00" in answers[3]
    assert answers[5] == "12 + 5 = 17"
    assert answers[6].endswith(QUESTIONS["Name"])
    assert "noted: " in answers[7]
    assert "reminder 2" in answers[7]
    assert answers[8].startswith("Noted: Name Ada.")
    assert not answers[9].startswith("Noted")


def test_it_goes_on_where_it_was_interrupted(tmp_path):
    home = tmp_path / "picoclaw"
    assert chat(home, "hello", "Ada")[-1].endswith(QUESTIONS["Time zone"])
    assert chat(home, "Berlin")[0].startswith("Noted: Time zone Europe/Berlin.")
    assert chat(home, "hello")[0].endswith(QUESTIONS["Preferences"])
    with ModelServer([reply("", call("first_run")), reply("So?")]) as server:
        chat(home, "where were we?", PICOCLAW_BASE_URL=server.url, PICOCLAW_MODEL="scripted")
        assert server.requests[-1].said.endswith(QUESTIONS["Preferences"])
        assert "FIRST MEETING" in system(server.requests[-1].body)
    assert "That is all" in chat(home, "done")[0]
    assert user(home) == filled("Ada", "Europe/Berlin")
    assert chat(home, "hello")[0].startswith("Hello. I have no model here")
    assert not is_open(home)


def test_brought_back_it_is_a_meeting_and_not_over_at_hello(tmp_path):
    home = tmp_path / "picoclaw"
    chat(home, "hello", "Ada", "Berlin", "celsius, short", "a BME280")
    assert picoclaw(tmp_path, "init", "--first-meeting").returncode == 0
    answers = chat(home, "hello", "frogs", "call me Grace", "hello")
    known = "Known: Name {}; Time zone Europe/Berlin; Preferences celsius, short; Wired a BME280."
    assert answers[0].splitlines() == [known.format("Ada"), CHANGED]
    assert answers[1].startswith(REFUSED)
    assert answers[2].splitlines() == ["Noted: Name Grace.", known.format("Grace"), CHANGED]
    assert answers[3].splitlines() == [known.format("Grace"), CHANGED]
    assert is_open(home)
    assert "That is all" in chat(home, "done")[0]
    assert user(home) == OWNER.replace("Ada", "Grace")
    assert not is_open(home)


def test_the_app_holds_it_too(home):
    app = App(config.load_config({"PICOCLAW_HOME": str(home)}), SimBoard())
    try:
        said = [
            app.dispatcher.answer(Inbound("garden", text)).reply
            for text in ("hello", "Ada\n- Time zone: X", "Atlantis", "UTC+1", "later", "Ada", "no more questions")
        ]
    finally:
        app.close()
    assert said[1].startswith("Noted: Name Ada - Time zone: X.")
    assert said[2].startswith("That did not work: time_zone: 'Atlantis' is not a time zone")
    assert said[3].startswith("Noted: Time zone UTC+01:00.")
    assert said[5].startswith(REFUSED)
    assert "That is all" in said[6]
    assert user(home) == filled("Ada - Time zone: X", "UTC+01:00")

"""`picoclaw sessions`, run as its user runs it: lists, transcripts, words found, exports, and what is let go of."""

import json
import os
import subprocess
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from person import PICOCLAW, environment, picoclaw

from picoclaw import cli
from picoclaw.config import Config
from picoclaw.messages import Message, Notice, ToolCall, Turn, Usage
from picoclaw.stores import Stores

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
LONG = "line of a log\n" * 100
TALKS = [
    ("terminal", "how warm is it?", [Message("assistant", "21 °C")]),
    (
        "terminal",
        "read the log\x1b[2J",
        [
            Message("assistant", "I look.", (ToolCall("c1", "read_file", {"path": "pump.log"}),)),
            Message("tool", LONG, (), "c1"),
            Message("assistant", "```\nthe pump ran ☕\n```"),
        ],
    ),
    ("job 3 2026-07-01T07:00+02:00", "look after the pump", [Message("assistant", "it rests")]),
    ("terminal", "never mind", [Message("assistant", "as you like")]),
]


def said(stores, key, text, answers, at=NOON):
    messages = (Message("user", f"<moment>noon</moment>\n{text}"), *answers)
    stores.history.keep(key, Turn("", messages, 1, (), Usage(100, 20), "", "qwen", Notice("")), at)


@pytest.fixture
def home(tmp_path):
    """What was said in three conversations, of which one ended; the last turn of the open one was taken back."""
    folder = tmp_path / "picoclaw"
    folder.mkdir(mode=0o700)
    with closing(Stores(Config(folder))) as stores:
        for number, (key, text, answers) in enumerate(TALKS):
            said(stores, key, text, answers, NOON + timedelta(minutes=number))
            if not number:
                stores.sessions.begin_new("terminal", NOON)
        stores.results.keep("terminal", "read_file", "whole " + LONG, NOON)
        stores.sessions.add_summary("terminal", "a log was read", 2, NOON, 0)
        stores.sessions.undo("terminal")
    return folder


@pytest.fixture
def run(home, monkeypatch, capsys):
    """The verb, in this process; returns what it printed, or says what was wrong."""
    monkeypatch.setenv("PICOCLAW_HOME", str(home))

    def run(*words, code=0):
        assert cli.run(["sessions", *words]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return run


def test_the_list_names_every_conversation_the_last_used_first(run):
    expected = [
        "2  2026-07-01 12:03  terminal (open), 1 turn, 240 tokens: read the log\\x1b[2J",
        "3  2026-07-01 12:02  job 3 2026-07-01T07:00+02:00 (open), 1 turn, 120 tokens: look after the pump",
        "1  2026-07-01 12:00  terminal, 1 turn, 120 tokens: how warm is it?",
    ]
    assert run().splitlines() == run("list").splitlines() == expected
    assert run("list", "--chat", "terminal").splitlines() == [expected[0], expected[2]]
    assert run("list", "--chat", "shed") == "no conversations of chat 'shed'\n"
    assert [row["number"] for row in json.loads(run("--json"))] == [2, 3, 1]
    assert json.loads(run("list", "--json", "--chat", "terminal"))[1] == {
        "number": 1,
        "key": "terminal",
        "begun": "2026-07-01T12:00:00+00:00",
        "ended": "2026-07-01T12:00:00+00:00",
        "last": "2026-07-01T12:00:00+00:00",
        "turns": 1,
        "messages": 2,
        "first": "how warm is it?",
        "tokens": 120,
        "agent": "",
    }


def test_a_conversation_is_shown_for_a_person(run):
    shown = run("show", "2")
    assert shown.startswith(
        "# terminal, conversation 2, 2026-07-01 12:01 to 2026-07-01 12:03\n\n## asked, 2026-07-01 12:01"
    )
    for part in (
        "read the log\\x1b[2J",
        '```\nread_file {"path": "pump.log"}\n```',
        "[900 more characters]",
        "the pump ran ☕",
        "## asked, 2026-07-01 12:03, taken back\n\nnever mind",
    ):
        assert part in shown
    assert "moment" not in shown
    told = json.loads(run("show", "2", "--json"))
    assert [row["role"] for row in told["said"]] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert told["said"][1]["calls"] == [
        {"id": "c1", "name": "read_file", "arguments": {"path": "pump.log"}, "broken": ""}
    ]


@pytest.mark.parametrize(
    ("words", "hits"),
    [
        (["pump"], [(3, "asked"), (2, "answered")]),
        (["LOG", "line"], [(2, "result")]),
        (["mind"], [(2, "asked, taken back")]),
        (["pump", "--chat", "terminal"], [(2, "answered")]),
        (["pump", "-n", "1"], [(3, "asked")]),
        (["noon"], []),
        (["100%", "☕'"], []),
    ],
)
def test_words_are_found(run, words, hits):
    lines = run("search", *words).splitlines() if hits else []
    assert [(int(line.split()[0]), line.split(", ", 1)[1].split(":")[0]) for line in lines] == hits
    assert [hit["number"] for hit in json.loads(run("search", "--json", *words))] == [number for number, _ in hits]
    assert hits or run("search", *words).startswith("nobody said anything with ")


def test_an_export_has_everything(run):
    lines = [json.loads(line) for line in run("export", "--jsonl").splitlines()]
    assert [line["number"] for line in lines if line["type"] == "conversation"] == [1, 2, 3]
    messages = [line for line in lines if line["type"] == "message"]
    assert [line["text"].replace("<moment>noon</moment>\n", "") for line in messages if line["role"] == "user"] == [
        *("how warm is it?", "read the log\x1b[2J", "never mind", "look after the pump")
    ]
    assert [line["text"] for line in messages if line["role"] == "tool"] == [LONG]
    assert [line["undone"] for line in messages if line["conversation"] == 2] == [False] * 4 + [True] * 2
    assert [line for line in lines if line["type"] == "result"] == [
        {
            "type": "result",
            "conversation": 2,
            "id": 1,
            "turn": 0,
            "at": NOON.isoformat(),
            "tool": "read_file",
            "text": "whole " + LONG,
        }
    ]
    assert [line["text"] for line in lines if line["type"] == "summary"] == ["a log was read"]
    assert [json.loads(line)["type"] for line in run("export", "3", "--jsonl").splitlines()] == [
        *("conversation", "message", "message")
    ]


def test_an_export_in_markdown_is_whole_and_cannot_drive_a_terminal(run):
    text = run("export", "--chat", "terminal")
    assert [line for line in text.splitlines() if line.startswith("# ")] == [
        "# terminal, conversation 1, 2026-07-01 12:00 to 2026-07-01 12:00",
        "# terminal, conversation 2, 2026-07-01 12:01 to 2026-07-01 12:03",
    ]
    assert LONG in text
    assert "\x1b" not in text
    assert "never mind" in text


def test_a_number_that_is_given_twice_is_exported_once(run):
    assert run("export", "1", "3", "1", "--jsonl") == run("export", "1", "3", "--jsonl")
    assert run("export", "1", "--chat", "terminal") == run("export", "1")


def test_who_speaks_may_be_unknown(run, home):
    with closing(Stores(Config(home))) as stores, stores.database.transaction() as connection:
        connection.execute("UPDATE messages SET role = 'system' WHERE text = '21 °C'")
    assert "## system, 2026-07-01 12:00\n\n21 °C" in run("show", "1")
    assert "system: 21 °C" in run("search", "21")


def test_pruning_says_what_went(run, home):
    assert run("prune", "--days", "1", "--dry-run") == "would be deleted: 4 turns, 1 result\n"
    assert len(run().splitlines()) == 3
    assert json.loads(run("prune", "--dry-run", "--days", "1", "--json")) == {"turns": 4, "results": 1}
    assert run("prune", "--days", "1") == "deleted: 3 conversations, 4 turns, 10 messages, 1 result\n"
    assert run("prune") == "nothing is older than 365 days or beyond 100 MB\n"
    assert run() == "no conversations\n"
    assert json.loads(run("list", "--json")) == []
    assert b"the pump ran" not in b"".join(path.read_bytes() for path in home.glob("state.db*"))


def test_pruning_by_size_gives_room_back(run, home):
    with closing(Stores(Config(home))) as stores:
        for number in range(300):
            said(stores, "terminal", f"{number} " + "x" * 20_000, [], datetime.now(UTC))
    before = (home / "state.db").stat().st_size
    assert run("prune", "--mb", "1").startswith("deleted: ")
    assert (home / "state.db").stat().st_size < before / 3


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["export", "3", "--chat", "nobody"], 1, "conversation 3 is of chat 'job 3 2026-07-01T07:00+02:00', not of 'nobody'"),
        (["show", "99"], 1, "picoclaw: there is no conversation 99; `picoclaw sessions list` shows which there are"),
        (["show", "-5"], 1, "picoclaw: there is no conversation -5; `picoclaw sessions list` shows which there are"),
        (["export", "1", "99"], 1, "picoclaw: there is no conversation 99;"),
        (["show", "9" * 30], 1, "picoclaw: there is no conversation 999"),
        (["search", " "], 1, "picoclaw: there is no word to look for"),
        (["show"], 2, "NUMBER is missing"),
        (["show", "x"], 2, "'x' is not a whole number"),
        (["prune", "--days", "0"], 2, "'0' is not a whole number from 1 to 1000000"),
        (["prune", "--mb", "-1"], 2, "-1"),
        (["erase"], 2, "'erase' is not one of list, show, search, export, prune"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_a_line(run, words, code, error):
    assert error in run(*words, code=code)
    assert len(run().splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 0, "nothing was said yet: there is no "),
        (["list", "--json"], 0, "[]"),
        (["search", "pump", "--json"], 0, "[]"),
        (["prune", "--json"], 0, "{}"),
        (["export"], 0, ""),
        (["show", "1"], 1, ""),
        (["export", "1"], 1, ""),
    ],
)
def test_where_nothing_was_said_nothing_is_made(tmp_path, words, code, said):
    done = picoclaw(tmp_path, "sessions", *words)
    assert (done.returncode, done.stdout.startswith(said)) == (code, True)
    assert ("nothing was said yet" in done.stderr) == (not said)
    assert not list(tmp_path.glob("picoclaw/*"))


def test_damage_is_named_in_a_line(run, home):
    (home / "state.db").write_bytes(b"\0" * 10_000)
    assert "state.db is damaged" in run(code=1)


def test_a_chat_is_listed_while_it_is_open(tmp_path):
    assert picoclaw(tmp_path, "chat", "--board", "sim", "-m", "how warm is it?").returncode == 0
    listed = picoclaw(tmp_path, "sessions").stdout
    assert listed.endswith("terminal (open), 1 turn: how warm is it?\n")
    assert "how warm is it?" in picoclaw(tmp_path, "sessions", "export", "1").stdout


def test_a_reader_that_leaves_ends_an_export_quietly(tmp_path):
    folder = tmp_path / "picoclaw"
    folder.mkdir(mode=0o700)
    with closing(Stores(Config(folder))) as stores:
        for number in range(200):
            said(stores, "terminal", f"{number} " + "x" * 2000, [])
    environment_ = environment(tmp_path)
    child = subprocess.Popen(
        [*PICOCLAW, "sessions", "export"], env=environment_, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/"
    )
    os.read(child.stdout.fileno(), 100)
    child.stdout.close()
    assert (child.stderr.read(), child.wait(30)) == (b"", 1)
    child.stderr.close()

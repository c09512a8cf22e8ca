"""The tools of the memory as a model calls them, on real files and a real index; and what is said without a model."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.hw.sim import SimBoard
from picoclaw.memory import versions
from picoclaw.memory.memory import MemoryIndex
from picoclaw.messages import Caller, Inbound, ToolCall
from picoclaw.security.guard import format_lines
from picoclaw.security.policy import Policy, decide
from picoclaw.tools.files import FileTools
from picoclaw.tools.memory import MemoryTools
from picoclaw.tools.registry import Toolset
from picoclaw.workspace import prepare_home

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
TODAY = "memory/202607/20260701.md"
LASTING = "memory/MEMORY.md"


class Desk:
    """One workspace, its memory and a file tool beside it."""

    def __init__(self, home: Path) -> None:
        self.workspace = home / "workspace"
        (self.workspace / "memory").mkdir(parents=True)
        self.recollection = MemoryIndex(home, self.workspace, lambda: None)
        self.toolset = Toolset(
            [MemoryTools(self.workspace, self.recollection), FileTools(self.workspace)],
            guard=lambda *_: None,
            journal=lambda *_: None,
            longest_result=10_000,
        )
        self.caller = self.turn()

    def turn(self, session="terminal", origin="owner", now=NOON):
        self.caller = Caller(session, origin, now, print)
        return self.caller

    def call(self, name, **arguments):
        return self.toolset.call(ToolCall("1", name, arguments), self.caller)

    def read(self, path=TODAY):
        return (self.workspace / path).read_text()


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    yield made
    made.recollection.close()


def test_what_was_noted_in_some_time_is_told_whole(desk):
    for number in range(12):
        desk.call("memory_store", text=f"the tray number {number} was moved to the other side of the house")
    assert [n for n in range(12) if f"number {n} was" not in desk.call("memory_search", query="today")] == []


def test_every_item_of_a_list_is_found(desk):
    things = [f"thing {number}" for number in range(60)]
    for thing in (*things, "a note about the shopping list: it is long"):
        desk.call("memory_store", text=thing if thing.startswith("a ") else f"shopping list: {thing}")
    rows = desk.call("memory_search", query="shopping list").split("\n")
    assert [row.partition(" list: ")[2] for row in rows] == things
    desk.call("memory_forget", text="shopping list: thing 7")
    assert len(desk.call("memory_search", query="Shopping list").split("\n")) == 59


def test_the_last_notes_are_told_the_newest_first(desk):
    for text in ("sowed beans", "fed the hens", "shopping list: milk", "watered"):
        desk.call("memory_store", text=text)
    told = {query: desk.call("memory_search", query=query).split("\n") for query in ("last note", "last 2 notes")}
    assert [[line.partition(" 12:00 ")[2] for line in lines] for lines in told.values()] == [
        ["watered"],
        ["watered", "fed the hens"],
    ]
    assert len(desk.call("memory_search", query="last 99 notes").split("\n")) == 3


def test_a_note_is_found_read_mended_and_forgotten(desk):
    assert desk.call("memory_store", text="the pump's fuse is 3 A") == f"noted in {TODAY} line 3"
    assert desk.call("memory_store", text="The pump's fuse is 3 A.") == (
        f"known already: {TODAY} line 3: 12:00 the pump's fuse is 3 A"
    )
    (line,) = desk.call("memory_search", query="which fuse has the pump?").split("\n")
    assert re.fullmatch(rf"\[id:1\] {TODAY}:1-3 \(2026-07-01\) [01]\.\d\d - 12:00 the pump's fuse is 3 A", line)
    assert desk.call("memory_get", path=TODAY, line=3) == "3| - 12:00 the pump's fuse is 3 A"
    assert desk.call("memory_update", old=f"{TODAY}:3", new="the pump's fuse is 5 A") == (
        f'changed {TODAY} line 3: "the pump\'s fuse is 3 A" is now "the pump\'s fuse is 5 A"'
    )
    assert desk.call("memory_forget", text="the fuse of the pump") == (
        f'forgotten, from {TODAY} line 3: "the pump\'s fuse is 5 A"'
    )
    assert desk.call("memory_search", query="fuse") == "no note says anything about 'fuse' (1 file searched)"


def test_a_lasting_fact_is_known_in_memory(desk):
    assert desk.call("memory_store", text="the fuse is 3 A", lasting="true") == f"noted in {LASTING} line 1"
    assert desk.call("memory_store", text="the fuse is 3 A").startswith(f"known already: {LASTING} line 1: ")


SOURCES = [
    ({}, (), ""),
    ({"session": "42"}, (), "(chat 42) "),
    ({"origin": "cron"}, (), "(not from the owner: cron) "),
    ({"origin": "heartbeat", "session": "beat"}, (), "(chat beat; not from the owner: heartbeat) "),
    ({}, ("manual.txt",), "(not from the owner: after read_file manual.txt 1 200) "),
    ({}, ("a.txt", "b.txt", "c.txt"), "(not from the owner: after read_file a.txt 1 200, read_file b.txt 1 200 and 1 more) "),
    ({"session": "a) (b\n- c"}, (), "(chat a] [b - c) "),
    ({"session": "x" * 500}, (), f"(chat {'x' * 60}) "),
]  # fmt: skip


@pytest.mark.parametrize(("turn", "files", "mark"), SOURCES)
def test_a_note_says_where_it_is_from(desk, turn, files, mark):
    desk.turn(**turn)
    for name in files:
        (desk.workspace / name).write_text("the valve opens at 9\n")
        desk.call("read_file", path=name)
    for lasting, head in ((False, "- 12:00 "), (True, "- 2026-07-01: ")):
        path = LASTING if lasting else TODAY
        desk.call("memory_store", text='the valve opens at "9"', lasting=lasting)
        body = "\"the valve opens at '9'\"" if "not from" in mark else 'the valve opens at "9"'
        assert desk.read(path).split("\n")[-2] == f"{head}{mark}{body}"
    assert mark in desk.call("memory_search", query="valve")
    desk.turn(now=NOON + timedelta(hours=1))  # what a turn has read is forgotten with it
    desk.call("memory_store", text="the fan is off")
    assert desk.read().endswith("- 13:00 the fan is off\n")


def test_the_mark_is_found_with_every_part_of_a_long_entry(desk):
    desk.turn(origin="cron")
    for number in range(30):
        desk.call("memory_store", text=f"entry{number} " + "word " * 130 + f"ending{number}")
    for number in range(30):
        for line in desk.call("memory_search", query=f"ending{number}").split("\n"):
            assert "(not from the owner: cron)" in line


def test_a_clock_that_was_never_set_is_told(desk):
    desk.turn(now=datetime(1970, 1, 1, 0, 1, tzinfo=UTC))
    told = desk.call("memory_store", text="the fuse is 3 A")
    assert told == "noted in memory/197001/19700101.md line 3; the clock is not set, so this is the day of 1970-01-01"


@pytest.mark.parametrize("name", ["1", "id:1", "[id:1]", "ID 1", " [id:1] ", "id=1"])
def test_an_id_is_taken_as_small_models_write_it(desk, name):
    desk.call("memory_store", text="the fuse is 3 A")
    desk.call("memory_search", query="fuse")
    assert desk.call("memory_rank", id=name, useful=True) == "[id:1] is now at +0.25, of -1 to +1"
    assert desk.call("memory_rank", id=name, useful=False) == "[id:1] is now at +0, of -1 to +1"
    assert desk.call("memory_get", path=name).endswith("3| - 12:00 the fuse is 3 A")
    said = f"error: an id, as {name.strip()!r}, may mean another note by now; name its words, or path:line"
    before = desk.read()
    assert desk.call("memory_forget", text=name) == said
    assert desk.call("memory_update", old=name, new="the fuse is 5 A") == said
    assert desk.read() == before


def test_a_whole_line_of_a_result_names_its_note(desk):
    desk.call("memory_store", text="the fuse is 3 A")
    found = desk.call("memory_search", query="fuse")
    assert "3| - 12:00 the fuse is 3 A" in desk.call("memory_get", path=found)
    assert desk.call("memory_forget", text=found).startswith("forgotten")


def test_opinions_reach_their_bounds(desk):
    desk.call("memory_store", text="the fuse is 3 A")
    desk.call("memory_search", query="fuse")
    for _ in range(6):
        said = desk.call("memory_rank", id=1, useful=False)
    assert said == "[id:1] is now at -1, of -1 to +1"


GETS = [
    ({"path": LASTING}, "1| a\n2| b\n3| c\n4| d"),
    ({"path": f"/{LASTING}"}, "1| a\n2| b\n3| c\n4| d"),
    ({"path": f"workspace/{LASTING}"}, "1| a\n2| b\n3| c\n4| d"),
    ({"path": f"./{LASTING}"}, "1| a\n2| b\n3| c\n4| d"),
    ({"path": f"{LASTING}:2-3"}, "2| b\n3| c\n[more follows from line 4]"),
    ({"path": f"{LASTING}:4"}, "4| d"),
    ({"path": LASTING, "line": 2, "lines": 1}, "2| b\n[more follows from line 3]"),
    ({"path": LASTING, "line": "3", "lines": None}, "3| c\n4| d"),
    ({"path": LASTING, "line": 0, "lines": 0}, "1| a\n2| b\n3| c\n4| d"),
    ({"path": LASTING, "line": 9}, "error: the note ends at line 4, before line 9"),
    ({"path": LASTING, "line": -1}, "error: argument 'line' is -1, outside 0 to 10000000"),
    ({"path": "memory/MEMROY.md"}, f"error: there is no note 'memory/MEMROY.md'; did you mean '{LASTING}'?"),
    ({"path": "USER.md"}, "error: there is no note 'USER.md'"),
    ({"path": "memory/../USER.md"}, "error: there is no note 'memory/../USER.md'"),
    ({"path": "memory/link.md"}, "error: there is no note 'memory/link.md'"),
    ({"path": "/etc/passwd"}, "error: there is no note '/etc/passwd'"),
    ({"path": ""}, "error: there is no note ''"),
    ({"path": "memory/binary.md"}, "error: memory/binary.md: it holds NUL bytes"),
    ({"path": "[id:99]"}, "error: nothing that is remembered has the id 99; search again"),
]


@pytest.mark.parametrize(("arguments", "answer"), GETS, ids=[str(case[0]) for case in GETS])
def test_a_note_is_read_within_its_bounds(desk, arguments, answer):
    (desk.workspace / LASTING).write_bytes(b"a\r\nb\r\nc\nd\n")
    (desk.workspace / "memory/binary.md").write_bytes(b"a\0b")
    (desk.workspace / "USER.md").write_text("- Name: Ada\n")
    (desk.workspace.parent / "config.toml").write_text("secret\n")
    (desk.workspace / "memory/link.md").symlink_to(desk.workspace.parent / "config.toml")
    said = desk.call("memory_get", **arguments)
    assert said.startswith(answer)
    assert said.startswith("error") or said == answer


MISTAKES = [
    ("memory_store", {"text": " "}, "error: text is empty"),
    ("memory_store", {"text": "x" * 1_000_000}, "error: text has 1000000 characters"),
    ("memory_search", {"query": " "}, "error: query is empty; say what to look for"),
    ("memory_search", {"query": "'; DROP TABLE --"}, "no note says anything about"),
    ("memory_search", {"query": "x" * 10_000}, "no note says anything about 'xxx"),
    ("memory_forget", {"text": ""}, "error: '' names nothing"),
    ("memory_forget", {"text": "pump"}, "error: 'pump' may be any of 2; name one by its path:line\n"),
    ("memory_forget", {"text": "the pump is blue"}, f"error: nothing that is remembered says 'the pump is blue'; the nearest:\n[id:1] {LASTING}"),
    ("memory_update", {"old": "fuse", "new": ""}, "error: text is empty"),
    ("memory_update", {"old": "bicycle", "new": "car"}, "error: nothing that is remembered says 'bicycle'"),
    ("memory_rank", {"id": "best", "useful": True}, "error: 'best' is no id; memory_search shows them, as in [id:12]"),
    ("memory_rank", {"id": 99, "useful": True}, "error: nothing that is remembered has the id 99; search again"),
    ("memory_rank", {"id": "-1", "useful": True}, "error: '-1' is no id"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "answer"), MISTAKES, ids=[f"{m[0]}-{m[2][:30]}" for m in MISTAKES])
def test_a_mistake_is_answered_and_changes_nothing(desk, name, arguments, answer):
    before = "- the pump is green\n- the pump's fuse is 3 A\n"
    (desk.workspace / LASTING).write_text(before)
    said = desk.call(name, **arguments)
    assert said.startswith(answer)
    assert len(said) < 1000
    assert desk.read(LASTING) == before
    assert not (desk.workspace / TODAY).exists()


def test_what_is_forgotten_is_in_no_file_of_the_memory(desk):
    desk.call("memory_store", text="the wifi password is daffodil42")
    desk.call("memory_store", text="the fan is off")
    assert "daffodil42" in desk.call("memory_search", query="wifi password")
    desk.call("memory_forget", text="wifi password")
    left = [p.name for p in desk.workspace.rglob("*") if p.is_file() and b"daffodil42" in p.read_bytes()]
    assert "daffodil42" not in desk.call("memory_search", query="wifi password")
    assert left == []


ERASED = [
    ("birthday", "ask"),
    (f"{TODAY}:3", "ask"),
    ("Ada's birthday is on the 5th of May", "ask"),
    (f"[id:1] {TODAY}:3 (2026-07-01) 0.93 - 12:00 Ada's birthday", "ask"),
    ("Ada's birthday is on the 5th of May; she likes orchids", "allow"),
    ("12:00 Ada's birthday is on the 5th of May, she likes orchids.", "allow"),
    ("bicycle", "allow"),  # nothing is meant, nothing is deleted
]


@pytest.mark.parametrize(("text", "verdict"), ERASED)
def test_a_note_that_is_not_named_whole_is_shown_to_a_person_before_it_is_gone(desk, text, verdict):
    note = "Ada's birthday is on the 5th of May, she likes orchids"
    desk.call("memory_store", text=note)
    asked = desk.toolset.asked(ToolCall("1", "memory_forget", {"text": text}), desk.caller)
    assert decide(Policy(), asked, "owner", ()).verdict == verdict
    assert text == "bicycle" or f"which means: {TODAY}: 12:00 {note}" in format_lines(
        asked, {"which means": asked.means}
    )


# --- without a model ---

SAID = [
    ("remember that the pump's fuse is 3 A", "noted: the pump's fuse is 3 A"),
    ("remember for good that the gate code is 4711", "noted: the gate code is 4711"),
    ("what did I tell you about the fuse?", "the pump's fuse is 3 A"),
    ("change 3 A to 5 A in my notes", '"the pump\'s fuse is 3 A" is now "the pump\'s fuse is 5 A"'),
    ("change the note about the gate code to 4712", "I have changed nothing: I am not sure which words"),
    ("note: 12 eggs today", "noted: 12 eggs today"),
    ("change that to 14", 'changed: "12 eggs today" is now "14 eggs today"'),
    ("note: tomatoes sown on 3rd of march", "noted: "),
    ("change that to 4th of march", 'changed: "tomatoes sown on 3rd of march" is now "tomatoes sown on 4th of march"'),
    ("forget that the moon is made of cheese", "No note says 'the moon is made of cheese'"),
    (
        "forget the note about the fuse, please",
        "Shall I delete this note for good? 2026-07-01 12:00 the pump's fuse is 5 A",
    ),
    ("what did I tell you about the fuse?", "the pump's fuse is 5 A"),
    ("forget that the pump's fuse is 5 A", "forgotten: "),
    ("what did I tell you about the fuse?", "no note says anything about 'fuse'"),
]


def test_notes_are_kept_found_mended_and_forgotten_without_a_model(tmp_path, monkeypatch):
    prepare_home(tmp_path / "home")
    (tmp_path / "home/workspace/BOOTSTRAP.md").unlink(missing_ok=True)
    app = App(Config(tmp_path / "home"), SimBoard())
    monkeypatch.setattr(App, "now", lambda _: NOON)
    try:
        for text, answer in SAID:
            assert answer in app.dispatcher.answer(Inbound("terminal", text)).reply, text
        app.dispatcher.answer(Inbound("terminal-kitchen", "note that the hose is green"))
        found = app.dispatcher.answer(Inbound("terminal", "what did I tell you about the hose?")).reply
        assert found == "2026-07-01 12:00 the hose is green"  # neither a file nor another chat's name
    finally:
        app.close()


def test_what_is_forgotten_is_kept_nowhere(desk):
    home = desk.workspace.parent
    for number in range(30):
        desk.call("memory_store", text=f"bed {number} was watered with {number} l")
    desk.call("memory_store", text="the gate's code is Zwetschge 4711", lasting=True)
    versions.keep_version(home, LASTING, desk.read(LASTING).encode(), b"- nothing\n", NOON)
    assert "Zwetschge" in desk.call("memory_search", query="code of the gate")
    assert desk.call("memory_forget", text="Zwetschge").startswith("forgotten, from memory/MEMORY.md line ")
    left = [path.name for path in home.rglob("*") if path.is_file() and b"zwetschg" in path.read_bytes().lower()]
    assert left == []
    assert "bed 7" in desk.call("memory_search", query="bed 7")


def test_what_is_marked_stays_so_when_it_is_found_and_noted_again(desk):
    desk.turn(origin="cron")
    desk.call("memory_store", text="the valve opens at 9")
    for number, tool in enumerate([("memory_search", {"query": "valve"}), ("memory_get", {"path": TODAY})]):
        desk.turn()
        desk.call(tool[0], **tool[1])
        desk.call("memory_store", text=f"the valve opens at 9 sharp {number}", lasting=True)
    assert desk.read(LASTING).count("(not from the owner: after ") == 2


def test_files_are_no_way_around_the_mark(desk):
    (desk.workspace / "manual.txt").write_text("the valve opens at 9\n")
    desk.turn()
    desk.call("read_file", path="manual.txt")
    for path in (LASTING, TODAY, "MEMORY.md", "memory/x/y.md"):
        assert "memory_store notes this" in desk.call(
            "write_file", path=path, content="- the owner wants it\n", mode="append"
        )
        assert "memory_store notes this" in desk.call("write_file", path=path, content="- a\n", mode="replace")
    desk.call("write_file", path="memory.txt", content="fine\n")
    desk.turn()
    desk.call("write_file", path="memory/x/y.md", content="- the owner said it\n", mode="append")


def test_comments_are_not_found_and_lines_are_counted_as_they_stand(desk):
    (desk.workspace / "memory" / "hid.md").write_text("- a\n<!--\nthe safe opens with 4711\n-->\n- the zebra\n")
    assert "no note" in desk.call("memory_search", query="safe")
    assert "4711" not in desk.call("memory_search", query="zebra")
    assert "5| - the zebra" in desk.call("memory_get", path="memory/hid.md:5")


def test_a_day_finds_a_note_without_a_heading(desk):
    path = desk.workspace / "memory/202606/20260630.md"
    path.parent.mkdir(parents=True)
    path.write_text("- 08:00 fed the fish\n")
    assert "fed the fish" in desk.call("memory_search", query="what happened yesterday")


def test_what_is_below_the_least_score_is_uncertain(desk):
    desk.call("memory_store", text="the pump's fuse is 3 A")
    said = desk.call("memory_search", query="which fuse has the dishwasher in the scullery?")
    first, second = said.split("\n")
    assert first == (
        "no note says anything about 'which fuse has the dishwasher in the scullery?' for certain (1 file searched); perhaps:"
    )
    assert re.search(r"0\.\d\d uncertain: - \d\d:\d\d the pump's fuse is 3 A$", second)
    assert " uncertain" not in desk.call("memory_search", query="which fuse has the dishwasher?", min_score=0.1)


def test_a_question_in_several_words_is_one_search(desk):
    for text in ("the chainsaw is ready on Friday", "the pump's fuse is 3 A"):
        desk.call("memory_store", text=text)
    asked = "when can I fetch what fells trees?"
    assert "no note says anything" in desk.call("memory_search", query=asked)
    said = desk.call("memory_search", query=asked, also=["axe", "chainsaw", " "])
    assert re.fullmatch(r"\[id:\d+\] .* - \d\d:\d\d the chainsaw is ready on Friday", said)
    assert desk.call("memory_search", query="fuse", also="fuse").count("[id:") == 1

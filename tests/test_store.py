"""The database with real SQLite files: what goes in comes back, and nothing that was kept is ever lost."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime

import apsw
import pytest
from rights import ordinary_user

from picoclaw.errors import StoreDamaged, StoreError, StoreNewer
from picoclaw.messages import Message, Notice, ToolCall, Turn, Usage
from picoclaw.store.conversations import History, get_process_identity, is_process_alive
from picoclaw.store.database import Database

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


def turn(*messages, forgotten=0, stopped=""):
    return Turn("", messages, 1, (), Usage(3, 4), stopped, "sim", Notice(""), forgotten)


def said(text):
    return turn(Message("user", text), Message("assistant", f"re: {text}"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


@pytest.fixture
def database(path):
    opened = Database(path)
    yield opened
    opened.close()


@pytest.fixture
def history(database):
    return History(database)


@contextmanager
def opened(path):
    """A history that is closed again."""
    database = Database(path)
    try:
        yield History(database)
    finally:
        database.close()


# --- turns ---

LONG_TALK = (
    Message("user", "grün ☕ 𝄞 👩‍🔧 \u202e \0 \x1b[0m \r\n\t end "),
    Message(
        "assistant",
        "",
        (
            ToolCall("call_1", "exec", {"command": "echo 'ü' \0", "n": 2.5, "list": [1, None, True, {}]}),
            ToolCall("", "read_file", {}, '{"path": "a'),
            ToolCall("x" * 100, "é", {"": ""}),
        ),
    ),
    Message("tool", "", (), "call_1"),
    Message("tool", "line\n" * 50_000, (), ""),
    Message("tool", "'; DROP TABLE turns; --", (), "x" * 100),
    Message("assistant", "\u00e9 is not e\u0301"),
)


def test_a_turn_comes_back_as_it_was_kept(path):
    with opened(path) as history:
        history.keep("home", turn(*LONG_TALK), NOON)
        assert history.turns("home") == [LONG_TALK]
    with opened(path) as history:
        assert history.turns("home") == [LONG_TALK]


def test_lone_surrogates_are_replaced_and_lose_nothing_else(history):
    call = ToolCall("c\ud800", "exec", {"\udfff": ["a\ud83d"]}, "b\ud800")
    history.begin_act("home", call, NOON)
    history.keep("home", turn(Message("user", "a\ud800b"), Message("assistant", "", (call,))), NOON)
    clean = ToolCall("c?", "exec", {"?": ["a?"]}, "b?")
    assert history.turns("home") == [(Message("user", "a?b"), Message("assistant", "", (clean,)))]


def test_turns_come_back_in_their_order_and_sessions_stay_apart(history):
    for number in range(20):
        history.keep("home" if number % 2 else "shed", said(str(number)), NOON)
    assert [t[0].text for t in history.turns("shed")] == [str(n) for n in range(0, 20, 2)]
    assert [t[0].text for t in history.turns("home")] == [str(n) for n in range(1, 20, 2)]
    assert history.turns("") == history.turns("HOME") == history.turns("%") == []


def rows(database, query):
    with database.reading() as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize(
    ("forgotten", "shown"),
    [
        ([0, 0, 0, 0], ["0", "1", "2", "3"]),
        ([0, 0, 0, 1], ["1", "2", "3"]),
        ([0, 0, 0, 3], ["3"]),
        ([0, 0, 1, 1], ["2", "3"]),
        ([0, 0, 2, 1], ["3"]),
        ([0, 0, 0, 99], ["3"]),
        ([5, 0, 0, 0], ["0", "1", "2", "3"]),
    ],
)
def test_forgotten_turns_stay_in_the_database_and_are_not_shown(database, history, forgotten, shown):
    history.keep("shed", said("other"), NOON)
    for number, count in enumerate(forgotten):
        history.keep("home", turn(Message("user", str(number)), forgotten=count), NOON)
    assert [t[0].text for t in history.turns("home")] == shown
    assert [t[0].text for t in history.turns("shed")] == ["other"]
    assert rows(database, "SELECT text FROM messages WHERE role = 'user' ORDER BY id") == [
        ("other",),
        *((str(n),) for n in range(4)),
    ]


def test_what_is_known_of_a_turn_is_kept_with_it(database, history):
    history.keep("home", turn(Message("user", "hi"), stopped="steps"), NOON)
    query = "SELECT at, provider, steps, prompt_tokens, completion_tokens, stopped FROM turns"
    assert rows(database, query) == [("2026-07-01T12:00:00+00:00", "sim", 1, 3, 4, "steps")]


def test_a_turn_is_kept_whole_or_not_at_all(database, history):
    history.keep("home", said("first"), NOON)
    broken = turn(Message("user", "second"), Message(None, "of no role"), forgotten=1)
    with pytest.raises(StoreError, match=r"state\.db: "):
        history.keep("home", broken, NOON)
    assert [t[0].text for t in history.turns("home")] == ["first"]
    assert rows(database, "SELECT count(*) FROM messages") == [(2,)]
    history.keep("home", said("third"), NOON)
    assert [t[0].text for t in history.turns("home")] == ["first", "third"]


# --- acts ---

ACT = ToolCall("c1", "exec", {"command": "reboot ☕"})
ACTS = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from picoclaw.messages import ToolCall
from picoclaw.store.database import Database
from picoclaw.store.conversations import History
history = History(Database(Path(sys.argv[1])))
history.begin_act("home", ToolCall("c1", "exec", {"command": "reboot ☕"}), datetime(2026, 7, 1, 12, 0, tzinfo=UTC))
print("begun", flush=True)
time.sleep(60)
"""
UNKNOWN = [(1, '2026-07-01T12:00:00+00:00 exec {"command": "reboot ☕"}')]


def script(source, *arguments):
    command = [sys.executable, "-c", source, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@contextmanager
def acting(path):
    """A process that has begun an act and is not done with it."""
    child = script(ACTS, path)
    try:
        assert child.stdout.readline() == "begun\n"
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_an_act_of_a_living_process_is_not_unknown(history, path):
    history.begin_act("home", ACT, NOON)
    with acting(path):
        assert history.unknown_acts("home") == []


def test_an_act_of_a_killed_process_is_unknown_until_a_turn_is_kept(history, path):
    with acting(path) as child:
        child.kill()
        child.wait()
    assert history.unknown_acts("shed") == []
    assert history.unknown_acts("home") == history.unknown_acts("home") == UNKNOWN
    history.keep("shed", said("elsewhere"), NOON, [1])
    history.keep("home", said("it was not shown"), NOON)
    history.settle("home")
    assert history.unknown_acts("home") == UNKNOWN
    history.keep("home", said("here"), NOON, [number for number, _ in UNKNOWN])
    assert history.unknown_acts("home") == []


def test_an_act_whose_process_died_after_the_turn_began_is_told_in_the_next(history, path):
    with acting(path) as first:
        first.kill()
        first.wait()
    shown = [number for number, _ in history.unknown_acts("home")]
    with acting(path) as second:
        second.kill()
        second.wait()
    history.keep("home", said("first"), NOON, shown)
    assert history.unknown_acts("home") == [(2, UNKNOWN[0][1])]


def test_an_acts_number_is_never_used_again(database, history):
    history.begin_act("home", ACT, NOON)
    history.settle("home")
    history.begin_act("home", ACT, NOON)
    assert rows(database, "SELECT id FROM acts") == [(2,)]


def test_a_killed_process_that_nobody_has_reaped_counts_as_dead(history, path):
    with acting(path) as child:
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert history.unknown_acts("home") == UNKNOWN


@pytest.mark.parametrize("settle", ["keep", "settle"])
def test_a_process_settles_its_own_acts_only(database, history, path, settle):
    with acting(path) as dead:
        dead.kill()
        dead.wait()
    with acting(path):
        history.begin_act("home", ACT, NOON)
        history.begin_act("shed", ACT, NOON)
        history.keep("home", said("done"), NOON) if settle == "keep" else history.settle("home")
        left = rows(database, "SELECT session, process FROM acts ORDER BY id")
        assert [(session, who == get_process_identity()) for session, who in left] == [
            ("home", False),
            ("home", False),
            ("shed", True),
        ]


def test_a_later_process_of_the_same_number_is_not_taken_for_an_earlier_one():
    pid, start, boot = get_process_identity().split(":")
    assert is_process_alive(f"{pid}:{start}:{boot}")
    for other in (f"{pid}:{int(start) - 1}:{boot}", f"{pid}:{start}:another-boot", f"{pid}:", "", "x", "-1:0:0"):
        assert not is_process_alive(other), other


# --- what is inside the file ---


@pytest.mark.parametrize(
    "calls",
    ["", "not json", "null", "{}x", "[1]", "[[]]", '[["a"]]', '[["a", "b", [], ""]]', "[[1, 2, {}, 3]]", "[" * 5000],
)
def test_calls_that_are_not_calls_are_left_out_and_that_is_said_once(database, history, calls):
    history.keep("home", said("hi"), NOON)
    history.keep("home", said("you"), NOON)
    with database.transaction() as connection:
        connection.execute("UPDATE messages SET calls = ? WHERE turn = 1", (calls,))
    assert history.turns("home") == [said("hi").messages, said("you").messages]
    assert history.turn(1) == ()  # nobody can say what its answer is from
    told = "turn 1 of this chat cannot be read whole in state.db; a model is shown what is left of it"
    assert history.keep("home", said("on"), NOON) == told
    for again in (history, History(database)):
        again.turns("home")
        assert not again.keep("home", said("on"), NOON)


def test_one_call_that_is_none_leaves_the_others(database, history):
    history.keep("home", said("hi"), NOON)
    with database.transaction() as connection:
        connection.execute("""UPDATE messages SET calls = '[["a"], ["c1", "exec", {}, ""]]' WHERE id = 2""")
    assert history.turns("home")[0][1].calls == (ToolCall("c1", "exec", {}, ""),)


def test_a_turn_in_which_nobody_knows_who_spoke_is_left_out(database, history):
    for text in ("hi", "you"):
        history.keep("home", said(text), NOON)
    with database.transaction() as connection:
        connection.execute("UPDATE messages SET role = 'narrator' WHERE id = 2")
    assert history.turns("home") == [said("you").messages]
    assert history.keep("home", said("on"), NOON).startswith("turn 1 of this chat cannot be read whole")


def test_a_commit_is_synced_before_it_returns(database, history):
    history.keep("home", said("hi"), NOON)
    with database.transaction() as connection:
        assert connection.execute("PRAGMA synchronous").get == 2
        assert connection.execute("PRAGMA journal_mode").get == "wal"


# --- files that are not ours, or no longer whole ---


def build(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def empty(path):
    path.write_bytes(b"")


def noise(path):
    path.write_bytes(random.Random(1).randbytes(40_000))


def text(path):
    path.write_text("this is a text file\n" * 100)


def one_byte(path):
    path.write_bytes(b"S")


def foreign(path):
    build(path, "CREATE TABLE songs (title TEXT)", "INSERT INTO songs VALUES ('Ode')")


def foreign_log(path):
    build(path, "PRAGMA journal_mode = WAL", "CREATE TABLE songs (title TEXT)")


def foreign_migrations(path):
    build(path, "CREATE TABLE migrations (id INTEGER, migration TEXT)", "INSERT INTO migrations VALUES (1, 'm001')")


def header_only(path):
    foreign(path)
    path.write_bytes(path.read_bytes()[:100])


def ours(path, turns=40):
    with opened(path) as history:
        for number in range(turns):
            history.keep("home", said("x" * 500 + str(number)), NOON)


def shorter(path):
    ours(path)
    os.truncate(path, path.stat().st_size - 4096)


def half(path):
    ours(path)
    os.truncate(path, path.stat().st_size // 2 + 1)


def one_page(path):
    ours(path)
    os.truncate(path, 4096)


def newer(path):
    ours(path)
    build(path, "INSERT INTO migrations VALUES ('m999_telepathy', '2030-01-01')")


def picture(folder):
    """Every file's bytes, without SQLite's shared-memory index, which holds no data."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith("-shm")}


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (empty, StoreDamaged, "is empty"),
        (noise, StoreDamaged, "is damaged"),
        (text, StoreDamaged, "is damaged"),
        (one_byte, StoreDamaged, "is not picoclaw's database"),
        (header_only, StoreDamaged, "is damaged"),
        (shorter, StoreDamaged, "is damaged"),
        (half, StoreDamaged, "is damaged"),
        (one_page, StoreDamaged, "is damaged"),
        (foreign, StoreDamaged, "is not picoclaw's database"),
        (foreign_log, StoreDamaged, "is not picoclaw's database"),
        (foreign_migrations, StoreDamaged, "is not picoclaw's database"),
        (newer, StoreNewer, "newer picoclaw .*m999_telepathy.* update picoclaw"),
    ],
)
def test_a_file_that_is_not_right_is_named_and_not_touched(path, make, kind, words):
    make(path)
    before = picture(path.parent)
    for _ in range(2):
        with pytest.raises(kind, match=words) as caught:
            Database(path)
        assert str(path) in str(caught.value)
        assert "nothing was changed" in str(caught.value)
    assert picture(path.parent) == before


KEEPING = """
import os, signal, sys
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from picoclaw.messages import Message, Notice, ToolCall, Turn, Usage
from picoclaw.store.database import Database
from picoclaw.store.conversations import History

session, last = sys.argv[2], int(sys.argv[3])
history = History(Database(Path(sys.argv[1])))
for number in count() if last < 0 else range(last):
    call = ToolCall(f"c{number}", "exec", {"command": "x" * (number * 37 % 9000)})
    messages = (
        Message("user", str(number)),
        Message("assistant", "", (call,)),
        Message("tool", "y" * (number * 53 % 9000), (), f"c{number}"),
        Message("assistant", f"done {number}"),
    )
    turn = Turn("", messages, 1, (), Usage(), "", "sim", Notice(""))
    history.keep(session, turn, datetime.now(UTC))
    os.write(1, f"{number}\\n".encode())
os.kill(os.getpid(), signal.SIGKILL)
"""


def whole(messages):
    """Tell whether a turn of KEEPING is all there; returns its number."""
    user, asked, result, answer = messages
    number = int(user.text)
    (call,) = asked.calls
    assert call.arguments == {"command": "x" * (number * 37 % 9000)}
    assert (call.id, result.call_id) == (f"c{number}", f"c{number}")
    assert result.text == "y" * (number * 53 % 9000)
    assert answer.text == f"done {number}"
    return number


def killed_with_log(path):
    """Leave a database whose newest turns are in its log alone."""
    ours(path)
    with script(KEEPING, path, "home", 5) as child:
        child.wait()
    assert path.with_name("state.db-wal").stat().st_size > 0


def newer_with_log(path):
    killed_with_log(path)
    source = (
        "import apsw, os, signal, sys\n"
        "c = apsw.Connection(sys.argv[1])\n"
        "c.execute(\"INSERT INTO migrations VALUES ('m999_telepathy', '2030-01-01')\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with script(source, path) as child:
        child.wait()


def torn_with_log(path):
    killed_with_log(path)
    with path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(random.Random(2).randbytes(4096 * 4))


@pytest.mark.parametrize(("make", "kind"), [(newer_with_log, StoreNewer), (torn_with_log, StoreDamaged)])
def test_a_log_beside_a_file_that_is_not_right_is_not_folded_in(path, make, kind):
    make(path)
    before = picture(path.parent)
    with pytest.raises(kind, match="nothing was changed"):
        Database(path)
    assert picture(path.parent) == before


def test_a_database_that_is_put_back_opens_again(path):
    newer(path)
    with pytest.raises(StoreNewer):
        Database(path)
    build(path, "DELETE FROM migrations WHERE name = 'm999_telepathy'")
    with opened(path) as history:
        assert len(history.turns("home")) == 40


# --- folders ---


def test_a_new_database_is_private_and_leaves_nothing_else(path):
    Database(path).close()
    assert [p.name for p in path.parent.iterdir()] == ["state.db"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_closing_twice_is_fine_and_using_it_afterwards_is_an_error(path):
    database = Database(path)
    database.close()
    database.close()
    with pytest.raises(StoreError, match=r"state\.db"):
        History(database).turns("home")
    with pytest.raises(StoreError, match=r"state\.db"):
        History(database).keep("home", said("late"), NOON)


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_may_not_be_written(tmp_path, there):
    folder = tmp_path / "home"
    folder.mkdir()
    if there:
        ours(folder / "state.db", 1)
        (folder / "state.db").chmod(0o400)
    before = picture(folder)
    folder.chmod(0o500)
    with ordinary_user(), pytest.raises(StoreError, match=r"permission|owner"):
        Database(folder / "state.db")
    assert picture(folder) == before


@pytest.mark.parametrize(
    ("name", "words"), [("missing/state.db", "no such file or folder"), (".", "it is not a regular file")]
)
def test_a_path_that_cannot_be_a_database(tmp_path, name, words):
    with pytest.raises(StoreError, match=words):
        Database(tmp_path / name)


# --- other processes, power cuts and full disks ---


def test_two_processes_write_at_once_and_nothing_is_lost(path):
    children = [script(KEEPING, path, session, 60) for session in ("a", "b", "a")]
    reported = [child.communicate(timeout=60)[0].split() for child in children]
    assert reported == [[str(n) for n in range(60)]] * 3
    with opened(path) as history:
        assert sorted(whole(t) for t in history.turns("a")) == sorted([*range(60)] * 2)
        assert [whole(t) for t in history.turns("b")] == [*range(60)]


def test_another_process_that_holds_the_lock_is_waited_for(path, database, history):
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    child = script(KEEPING, path, "home", 1)
    time.sleep(0.5)
    assert history.turns("home") == []
    other.execute("COMMIT")
    other.close()
    assert child.communicate(timeout=30)[0] == "0\n"
    assert len(history.turns("home")) == 1


def killed_while_keeping(path, after):
    """Keep turns until killed; returns the numbers that were reported as kept."""
    child = script(KEEPING, path, "home", -1)
    first = child.stdout.readline()
    time.sleep(after)
    child.kill()
    rest = child.communicate()[0]
    return [int(line) for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]


def test_every_turn_reported_as_kept_survives_kill_9(path):
    chance = random.Random()
    reported = 0
    for _ in range(20):
        kept = killed_while_keeping(path, chance.uniform(0, 0.15))
        with opened(path) as history:
            found = [whole(t) for t in history.turns("home")]
        fresh = found[reported:]
        assert fresh[: len(kept)] == kept
        assert len(fresh) <= len(kept) + 1
        reported = len(found)
    assert reported > 20


MAKING = """
import os, sys
from itertools import count
from pathlib import Path
from picoclaw.store.database import Database
for number in count():
    folder = Path(sys.argv[1]) / str(number)
    folder.mkdir()
    os.write(1, b"x")
    Database(folder / "state.db").close()
"""


def test_a_database_is_never_half_made(tmp_path):
    chance = random.Random()
    for attempt in range(10):
        base = tmp_path / str(attempt)
        base.mkdir()
        child = script(MAKING, base)
        child.stdout.read(1)
        time.sleep(chance.uniform(0, 0.1))
        child.kill()
        child.communicate()
        newest = max(base.iterdir(), key=lambda folder: int(folder.name))
        with opened(newest / "state.db") as history:
            history.keep("home", said("fine"), NOON)
            assert len(history.turns("home")) == 1


FILLING = """
import json, resource, sys
from datetime import UTC, datetime
from pathlib import Path
from picoclaw.errors import StoreError
from picoclaw.messages import Message, Notice, Turn, Usage
from picoclaw.store.database import Database
from picoclaw.store.conversations import History

history = History(Database(Path(sys.argv[1])))
if sys.argv[2] != "0":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
kept, words = [], []
for number in range(3000):
    messages = (Message("user", str(number)), Message("assistant", "x" * 3000))
    turn = Turn("", messages, 1, (), Usage(), "", "", Notice(""))
    try:
        history.keep("home", turn, datetime.now(UTC))
        kept.append(number)
    except StoreError as error:
        words.append(str(error))
        if len(words) == 3:
            break
shown = [int(t[0].text) for t in history.turns("home")]
print(json.dumps([kept, words, shown]))
"""


def filled(path, limit):
    with script(FILLING, path, limit) as child:
        kept, words, shown = json.loads(child.communicate(timeout=60)[0])
    assert kept == [*range(len(kept))]
    assert kept
    assert len(words) == 3
    assert all("full" in w and str(path) in w for w in words), words
    assert shown == kept
    return kept


def test_a_full_disk_is_an_error_and_loses_nothing(path):
    kept = filled(path, 500_000)
    with opened(path) as history:
        assert [int(t[0].text) for t in history.turns("home")] == kept
        history.keep("home", said("room again"), NOON)
        assert len(history.turns("home")) == len(kept) + 1


@pytest.fixture
def tiny_disk(tmp_path, mount_disk):
    return mount_disk(tmp_path / "disk", "2m")


def test_a_really_full_disk_is_an_error_and_loses_nothing(tiny_disk):
    kept = filled(tiny_disk / "state.db", 0)
    with opened(tiny_disk / "state.db") as history:
        assert [int(t[0].text) for t in history.turns("home")] == kept


def test_two_threads_may_make_the_database_at_once(tmp_path):
    for i in range(20):
        path = tmp_path / f"{i}.db"
        barrier = threading.Barrier(4)
        problems = []

        def make(path=path, barrier=barrier, problems=problems):
            barrier.wait()
            try:
                Database(path).close()
            except StoreError as error:
                problems.append(error)

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
    assert {p.suffix for p in tmp_path.iterdir()} == {".db"}

"""Conversations with real SQLite files: which is open, what a model sees of it, and what is gone when it is gone."""

import os
import random
import signal
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from threading import Event

import apsw
import pytest
import sweep

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import SessionsConfig
from picoclaw.daemon.local import LocalDaemon
from picoclaw.errors import StoreDamaged, StoreError
from picoclaw.hw.sim import SimBoard
from picoclaw.maintenance.upkeep import MaintenanceJobs
from picoclaw.memory.memory import list_past_turns
from picoclaw.messages import Message, Notice, ToolCall, Turn, Usage, split_context
from picoclaw.store import sessions as sessions_store
from picoclaw.store.database import Database
from picoclaw.store.sessions import PruneResult, prune_conversations
from picoclaw.stores import PastTurns, Stores

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)

USED = Usage(3, 4)


def turn(text, *more, forgotten=0, usage=USED, provider="sim"):
    messages = (Message("user", f"<moment>noon\n</moment>\n{text}"), *more, Message("assistant", f"re: {text}"))
    return Turn("", messages, 1, (), usage, "", provider, Notice(""), forgotten)


class Home:
    """The stores of a folder, and a clock that goes on by a minute with each turn."""

    def __init__(self, folder):
        self.stores = Stores(Config(folder))
        self.path = folder / "state.db"
        self.now = NOON

    def __getattr__(self, name):
        return getattr(self.stores, name)

    def say(self, *texts, key="home", at=None, **more):
        for text in texts:
            self.now = at or self.now + MINUTE
            self.stores.history.keep(key, turn(text, **more), self.now)

    def shown(self, key="home"):
        return [split_context(said[0].text)[1] for said in self.stores.history.turns(key)]

    def undo(self, key="home"):
        taken = self.stores.sessions.undo(key)
        return taken and split_context(taken[0].text)[1]

    def rows(self, sql, *values):
        with self.stores.database.reading() as connection:
            return connection.execute(sql, values).fetchall()

    def column(self, sql, *values):
        return [value for (value,) in self.rows(sql, *values)]

    def all_said(self):
        sql = "SELECT text FROM messages JOIN turns ON turns.id = turn WHERE role = 'user' ORDER BY messages.id"
        return [split_context(text)[1] for text in self.column(sql)]

    def sound(self):
        """Hold that no row stands for nothing, and that the file is whole."""
        assert self.rows("PRAGMA foreign_key_check") == []
        assert self.rows("PRAGMA integrity_check") == [("ok",)]
        assert self.rows("SELECT id FROM turns WHERE id NOT IN (SELECT turn FROM messages)") == []


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path)
    yield made
    made.stores.close()


@pytest.mark.parametrize("words", ["heiß", "HEISS", "straße heiß", "strasse", "GROSS", "ist groß"])
def test_a_word_is_found_however_its_sharp_s_is_written(home, words):
    home.say("Die Straße ist heiß und groß")
    assert [hit.role for hit in home.sessions.search(words)] == ["assistant", "user"]


# --- databases of earlier versions ---


def killed_at(count, work, path):
    """Do some work in a child that is killed before its nth statement; tells whether it had so many."""
    if not (child := os.fork()):
        left = [count]

        def trace(*_):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return True

        apsw.connection_hooks.append(lambda connection: connection.set_exec_trace(trace))
        try:
            work(path)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


# --- which conversation is open ---


def test_new_keeps_the_old_one_and_shows_none_of_it(home):
    home.say("a", "b")
    home.sessions.begin_new("home", home.now)
    assert home.shown() == []
    home.sessions.begin_new("home", home.now)
    home.say("c")
    home.say("elsewhere", key="shed")
    assert home.shown() == ["c"]
    assert home.all_said() == ["a", "b", "c", "elsewhere"]
    infos = home.sessions.listed("home")
    assert [(i.number, bool(i.ended), i.turns, i.messages, i.first, i.tokens) for i in infos] == [
        (2, False, 1, 2, "c", 7),
        (1, True, 2, 4, "a", 14),
    ]
    assert infos[1].ended == infos[1].last == "2026-07-01T12:02:00+00:00"
    assert infos[1].begun == "2026-07-01T12:01:00+00:00"


@pytest.mark.parametrize(
    ("number", "done", "shown"),
    [
        (1, True, ["a"]),
        (2, True, ["b"]),
        (3, False, ["b"]),
        (99, False, ["b"]),
        (-1, False, ["b"]),
        (2**63, False, ["b"]),
    ],
)
def test_an_earlier_conversation_is_gone_on_with(home, number, done, shown):
    home.say("a")
    home.sessions.begin_new("home", home.now)
    home.say("b")
    home.say("of the shed", key="shed")
    assert home.sessions.reopen("home", number) is done
    assert home.shown() == shown
    assert home.shown("shed") == ["of the shed"]
    assert home.column("SELECT count(*) FROM sessions WHERE key = 'home' AND ended = ''") == [1]
    home.say("on")
    assert home.shown() == [*shown, "on"]


def test_reopening_leaves_nothing_empty_behind(home):
    home.say("a")
    home.sessions.begin_new("home", home.now)
    home.sessions.set_model("home", "small")
    assert home.sessions.reopen("home", 1)
    assert home.column("SELECT count(*) FROM sessions") == [1]
    home.sessions.begin_new("home", home.now)
    home.results.keep("home", "exec", "long", home.now)  # a turn is under way
    assert home.sessions.reopen("home", 1)
    assert home.shown() == ["a"]
    home.sound()


def test_a_model_belongs_to_a_conversation(home):
    assert home.history.model("home") == ""
    home.sessions.set_model("home", "small\ud800")
    home.say("a")
    assert home.history.model("home") == "small?"
    assert home.history.model("shed") == ""
    assert home.sessions.listed()[0].begun == "2026-07-01T12:01:00+00:00"
    home.sessions.begin_new("home", home.now)
    assert home.history.model("home") == ""
    home.sessions.reopen("home", 1)
    assert home.history.model("home") == "small?"


# --- taken back ---


def test_what_is_taken_back_is_shown_to_no_model_and_stays_in_the_database(home):
    home.say("a", "b")
    number = home.results.keep("home", "exec", "the secret", home.now + MINUTE)
    home.say("c")
    assert home.results.read("home", number) == "the secret"
    assert home.undo() == "c"
    assert home.shown() == ["a", "b"]
    assert [split_context(said[0].text)[1] for _, said in home.sessions.unsummarised("home")] == ["a", "b"]
    assert not any("c" in document.read() for document in list_past_turns(home.history))
    assert home.results.read("home", number) is None
    assert [(row.text, row.undone) for row in home.sessions.transcript(1)][-2:] == [
        ("<moment>noon\n</moment>\nc", True),
        ("re: c", True),
    ]
    assert home.sessions.search("re: c")[0].undone
    home.say("d")
    assert [home.undo() for _ in range(5)] == ["d", "b", "a", None, None]
    assert home.shown() == []
    assert home.all_said() == ["a", "b", "c", "d"]


def test_what_is_summarised_or_not_shown_any_more_is_not_taken_back(home):
    assert home.undo() is None
    home.say("a", "b", "c")
    assert home.sessions.add_summary("home", "a and b", 2, NOON, 0)
    assert [home.undo() for _ in range(2)] == ["c", None]
    home.say("d", "e", forgotten=1)
    assert home.shown() == ["e"]
    assert [home.undo() for _ in range(2)] == ["e", None]


def test_forgetting_counts_what_was_shown(home):
    home.say(*"abcdef")
    home.sessions.add_summary("home", "a and b", 2, NOON, 0)
    home.sessions.undo("home")
    assert home.shown() == ["c", "d", "e"]
    home.say("g", forgotten=2)
    assert home.shown() == ["e", "g"]
    assert [number for number, _ in home.sessions.unsummarised("home")] == [3, 4, 5, 7]


# --- summaries ---


def test_a_summary_stands_for_the_turns_up_to_it(home):
    home.say(*"abcd")
    assert home.sessions.summary("home") is None
    assert home.sessions.add_summary("home", "a, b\ud800", 2, NOON, 0)
    assert home.sessions.summary("home") == ("a, b?", 2, "2026-07-01T12:00:00+00:00")
    assert home.shown() == ["c", "d"]
    assert home.sessions.add_summary("home", "a, b, c", 3, NOON, 2)
    assert home.sessions.summary("home")[:2] == ("a, b, c", 3)
    assert home.stores.load_history("home") == PastTurns(home.history.turns("home"), [], "a, b, c", (4,))
    assert len(home.all_said()) == 4
    assert home.sessions.summary("shed") is None
    home.sessions.begin_new("home", home.now)
    assert home.sessions.summary("home") is None
    assert home.stores.load_history("home") == PastTurns([], [], "")


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda home: [home.sessions.undo("home") for _ in range(3)],
        lambda home: home.sessions.begin_new("home", NOON),
        lambda home: home.sessions.erase("home"),
        lambda home: (home.sessions.erase("home"), home.say(*"wxyz")),
        lambda home: (home.sessions.begin_new("home", NOON), home.say(*"wxyz")),
        lambda home: home.sessions.add_summary("home", "another's", 3, NOON, 2),
        lambda home: prune_conversations(home.database, NOON + 900 * DAY, 1, 1, 0),
    ],
)
def test_a_summary_of_what_is_so_no_more_is_not_kept(home, meanwhile):
    home.say(*"abcdef")
    home.sessions.add_summary("home", "a, b", 2, NOON, 0)
    meanwhile(home)
    before = home.sessions.summary("home"), home.shown()
    assert not home.sessions.add_summary("home", "a to d", 4, NOON, 2)
    assert (home.sessions.summary("home"), home.shown()) == before


@pytest.mark.parametrize(
    "meanwhile",
    [lambda home: home.sessions.undo("home"), lambda home: home.say("g"), lambda home: home.say("g", forgotten=3)],
)
def test_a_summary_is_kept_when_only_newer_turns_have_changed(home, meanwhile):
    home.say(*"abcdef")
    meanwhile(home)
    assert home.sessions.add_summary("home", "a to d", 4, NOON, 0)
    assert not home.sessions.add_summary("home", "less", 3, NOON, 4)


def test_a_flush_is_remembered_for_its_conversation(home):
    home.sessions.set_flushed("home", 3)
    assert home.sessions.flushed("home") == 0
    home.say("a", "b")
    home.sessions.set_flushed("home", 2)
    assert (home.sessions.flushed("home"), home.sessions.flushed("shed")) == (2, 0)
    home.sessions.begin_new("home", home.now)
    assert home.sessions.flushed("home") == 0


# --- results ---


def test_a_result_is_read_by_its_chat_alone(home):
    number = home.results.keep("home", "exec", "a\0b\ud800" * 10, NOON)
    assert home.results.read("home", number) == "a\0b?" * 10
    assert [home.results.read(*wrong) for wrong in (("shed", number), ("home", 2), ("home", 2**70))] == [None] * 3
    assert home.sessions.listed() == []  # nothing was said yet
    home.say("a")
    home.sessions.begin_new("home", home.now)
    assert home.results.read("home", number) == "a\0b?" * 10
    assert home.results.keep("home", "exec", "other", NOON) == number + 1


def test_a_result_is_taken_back_with_its_own_turn(home):
    """Whatever the clock says: turns of one second, and one that was put back."""
    numbers = []
    for text, at in (("a", NOON), ("b", NOON), ("c", NOON - DAY), ("d", NOON)):
        numbers.append(home.results.keep("home", "exec", text, at))
        home.say(text, at=at)
        if text in "bc":
            assert home.undo() == text
    assert [home.results.read("home", number) for number in numbers] == ["a", None, None, "d"]
    under_way = home.results.keep("home", "exec", "e", NOON)
    assert home.undo() == "d"
    assert home.results.read("home", under_way) == "e"


def test_a_result_of_another_process_is_not_of_this_turn(home):
    number = home.results.keep("home", "exec", "of a turn that was cut off", NOON)
    with home.database.transaction() as connection:
        connection.execute("UPDATE results SET process = '1:0:0'")
    home.say("a")
    assert home.undo() == "a"
    assert home.results.read("home", number) == "of a turn that was cut off"


# --- replaced ---


def test_a_turn_that_is_asked_again_is_taken_back_when_the_next_is_kept(home):
    home.say("a", "b")
    home.history.replace("home", 2)
    assert home.shown() == ["a"]
    assert [number for number, *_ in home.history.kept()] == [1]
    with closing(Stores(Config(home.path.parent))) as after_a_cut:
        assert list(after_a_cut.history.numbered("home")) == [1, 2]
    home.say("c", key="shed")
    home.say("b again")
    assert home.shown() == ["a", "b again"]
    assert home.column("SELECT id FROM turns WHERE undone") == [2]
    home.say("d")
    assert home.shown() == ["a", "b again", "d"]


def test_what_another_process_has_summed_up_is_not_replaced(home):
    home.say("a", "b")
    home.history.replace("home", 2)
    home.sessions.add_summary("home", "a and b", 2, NOON, 0)
    home.say("b again")
    assert home.column("SELECT id FROM turns WHERE undone") == []
    assert home.shown() == ["b again"]


def test_a_turn_that_cannot_be_kept_replaces_nothing(home):
    home.say("a", "b")
    home.history.replace("home", 2)
    with home.database.transaction() as connection:
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON turns BEGIN SELECT raise(ABORT, 'no room'); END")
    with pytest.raises(StoreError, match="no room"):
        home.say("b again")
    assert home.shown() == ["a", "b"]


# --- erased ---

SECRET = "the alarm's code is 40317"


def contents(home):
    return b"".join(path.read_bytes() for path in home.path.parent.glob("state.db*"))


def fill(home):
    home.say("before", SECRET)
    home.say("long " + SECRET * 2000)
    home.results.keep("home", "read_file", SECRET * 1000, home.now)
    home.sessions.add_summary("home", SECRET, 2, NOON, 0)
    home.say("of the shed", key="shed")


@pytest.mark.parametrize("others", [0, 2])
def test_what_is_erased_is_in_no_file_any_more(home, others):
    fill(home)
    connections = [Database(home.path) for _ in range(others)]
    for other in connections:
        with other.reading() as connection:
            connection.execute("SELECT * FROM messages").fetchall()
    assert SECRET.encode() in contents(home)
    assert home.sessions.erase("home") == 6
    assert SECRET.encode() not in contents(home)
    assert home.shown() == []
    assert home.shown("shed") == ["of the shed"]
    assert home.sessions.erase("home") == home.sessions.erase("garage") == 0
    home.sound()
    home.say("after")
    assert home.shown() == ["after"]
    assert home.sessions.listed("home")[0][:2] == (1, "home")
    assert home.column("SELECT max(id) FROM turns") == [5]
    for other in connections:
        other.close()


def test_erasing_waits_for_no_reader_and_its_end_lets_the_log_go(home):
    fill(home)
    reader = Stores(Config(home.path.parent))
    rows = reader.sessions.transcript(1)  # someone looks at it page by page
    next(rows)
    begun = time.perf_counter()
    assert home.sessions.erase("home") == 6
    assert time.perf_counter() - begun < 1
    assert len(list(rows)) == 5
    home.say("after")
    reader.close()
    home.stores.close()
    assert SECRET.encode() not in contents(home)


def test_what_is_pruned_is_in_no_file_any_more(home):
    fill(home)
    prune_conversations(home.database, NOON + 400 * DAY, 365, 100, 0)
    assert SECRET.encode() not in contents(home)
    assert home.sessions.listed() == []


def test_an_erased_conversation_ends_no_earlier_one(home):
    home.say("a")
    home.sessions.begin_new("home", home.now)
    home.say("b")
    assert home.sessions.erase("home") == 2
    assert [i.first for i in home.sessions.listed()] == ["a"]
    assert home.sessions.reopen("home", 1)
    assert home.shown() == ["a"]
    assert home.column("SELECT count(*) FROM sessions") == [1]


def test_a_number_is_never_used_again(home):
    """An index of past messages, or a summary under way, may still mean the turn that had it."""
    for work in (
        lambda: home.sessions.erase("home"),
        lambda: prune_conversations(home.database, NOON + 900 * DAY, 365, 100, 0),
    ):
        home.say("a", "b", at=NOON)
        number = home.results.keep("home", "exec", "long", NOON)
        before = [of for of, _, _ in home.history.kept()]
        work()
        home.say("c", "d", at=NOON)
        assert home.results.keep("home", "exec", "other", NOON) > number
        assert home.results.read("home", number) is None
        assert not home.sessions.add_summary("home", "a, b", max(before), NOON, 0)
        assert min(of for of, _, _ in home.history.kept()) > max(before)


def test_erasing_forgets_no_cost(home):
    home.say("a", "b")
    before = home.sessions.usage(home.now)
    home.sessions.erase("home")
    assert home.sessions.usage(home.now) == before == home.sessions.usage(home.now, "home")


def test_usage_is_by_the_owners_calendar(home):
    berlin = timezone(timedelta(hours=2))
    late = datetime(2026, 7, 1, 0, 30, tzinfo=berlin)
    home.say("a", at=late, usage=Usage(10, 1), provider="big")
    home.say("b", at=late - 60 * MINUTE, usage=Usage(20, 2), provider="big")
    home.say("c", at=late - 40 * DAY, usage=Usage(30, 3), provider="big")
    home.say("d", at=late, usage=Usage(1, 1), provider="small", key="shed")
    home.say("e", at=late, usage=Usage(), provider="intents")
    used = [(s.provider, s.today.total, s.month.total, s.ever.total) for s in home.sessions.usage(late)]
    assert used == [("big", 11, 33, 66), ("small", 2, 2, 2)]
    assert [s.provider for s in home.sessions.usage(late, "shed")] == ["small"]
    assert home.sessions.usage(late, "garage") == []
    prune_conversations(home.database, late, 1, 100, 0)
    again = [(s.provider, s.today.total, s.month.total, s.ever.total) for s in home.sessions.usage(late)]
    assert again == used


# --- kept for how long ---


@pytest.mark.parametrize(
    ("ages", "sure_after", "left"),
    [
        ([400, 366, 364, 0], 0, [364, 0]),
        ([400, 366, 364, 0], 20, [400, 366, 364, 0]),  # too few turns to be sure of the date
        ([400] * 3 + [0] * 19, 20, [400] * 3 + [0] * 19),
        ([400] * 3 + [0] * 20, 20, [0] * 20),
        ([800] * 30, 20, [800] * 30),  # in a drawer for two years
        ([400, 20_000, 399, 0], 0, [0]),  # a board without a clock said 1970
        ([400, 20_000, 0], 0, [20_000, 0]),
        ([20_000, 10, 0], 0, [20_000, 10, 0]),
        ([-5000, 400, 0], 0, [-5000, 0]),  # and one with a wrong one 2040
        ([], 0, []),
    ],
)
def test_what_is_too_old_goes(home, ages, sure_after, left):
    for age in ages:
        home.say(f"{age}", at=NOON - age * DAY)
    home.sessions.prune(NOON, 365, 100, sure_after)
    assert home.all_said() == [str(age) for age in left]
    home.sound()


def test_conversations_go_with_their_last_turn(home):
    home.say("a", "b", at=NOON - 400 * DAY)
    home.results.keep("home", "exec", "long", NOON - 400 * DAY)
    home.sessions.begin_new("home", NOON - 400 * DAY)
    home.say("c", "d", at=NOON - 380 * DAY)
    home.say("e", "f", at=NOON)
    for text, upto, after in (("c", 3, 0), ("c, d", 4, 3), ("c, d, e", 5, 4)):
        home.sessions.add_summary("home", text, upto, NOON, after)
    assert home.sessions.prune(NOON, 365, 100, 0) == PruneResult(1, 4, 8, 1)
    assert [i.number for i in home.sessions.listed()] == [2]
    assert home.sessions.summary("home").text == "c, d, e"
    assert home.column("SELECT text FROM summaries") == ["c, d, e"]
    assert home.shown() == ["f"]
    assert home.sessions.prune(NOON, 365, 100, 0) == PruneResult()
    home.sound()


def test_runs_of_jobs_and_heartbeats_do_not_pile_up(home):
    for number in range(5):
        home.say(f"3.{number}", key=f"job 3 2026-07-0{number}T07:00+02:00", at=NOON + number * MINUTE)
        home.say(f"12.{number}", key=f"job 12 {number}", at=NOON - (8 - number) * DAY)
    home.say(*(f"beat {number}" for number in range(60)), key="heartbeat")
    home.say("of a chat", key="job seekers", at=NOON - 100 * DAY)
    home.say("weeks ago", key="telegram:5", at=NOON - 100 * DAY)
    used = home.sessions.usage(NOON)
    assert home.sessions.prune(NOON + 60 * MINUTE, 365, 100).conversations == 4
    assert home.all_said()[:6] == ["3.2", "12.2", "3.3", "12.3", "3.4", "12.4"]
    assert [text for text in home.all_said() if text.startswith("beat")] == [f"beat {n}" for n in range(10, 60)]
    assert home.all_said()[-2:] == ["of a chat", "weeks ago"]
    assert home.sessions.usage(NOON) == used
    assert sorted(home.column("SELECT DISTINCT key FROM spent")) == ["heartbeat", "job 12", "job 3"]
    home.sessions.prune(NOON + 8 * DAY, 365, 100)
    assert home.all_said() == ["of a chat", "weeks ago"]


def test_a_long_result_goes_with_the_turn_that_it_is_of(home):
    for number in range(53):
        home.results.keep("heartbeat", "exec", f"result {number}", home.now)
        home.say(f"beat {number}", key="heartbeat")
    turns, results = sessions_store.select_prunable(home.database, home.now, 365, 100)
    gone = home.sessions.prune(home.now, 365, 100)
    assert (gone.turns, gone.results) == (3, 3) == (len(turns), len(results))
    assert home.column("SELECT text FROM results") == [f"result {number}" for number in range(3, 53)]


def test_the_oldest_goes_when_it_is_too_much(home):
    for number in range(40):
        home.say(f"{number} " + "x" * 20_000)
        home.results.keep("home", "exec", "y" * 20_000, home.now)
    home.sessions.prune(home.now, 365, 0.5)
    said = [int(text.split()[0]) for text in home.all_said()]
    assert said == [*range(31, 40)]  # 9 x 40 kB of 0.375 MB
    assert home.column("SELECT id FROM results") == [*range(35, 41)]  # 6 x 20 kB of 0.125 MB
    assert home.sessions.prune(home.now, 365, 0.5) == PruneResult()
    home.sound()


def test_nothing_is_written_when_nothing_goes(home):
    home.say("a", "b")
    home.sessions.begin_new("home", home.now)
    home.sessions.prune(home.now, 365, 100)
    before = contents(home), [path.stat().st_mtime_ns for path in home.path.parent.glob("state.db*")]
    assert home.sessions.prune(home.now, 365, 100) == PruneResult()
    assert not sessions_store.shrink(home.database)
    assert (contents(home), [path.stat().st_mtime_ns for path in home.path.parent.glob("state.db*")]) == before


def test_the_file_shrinks_when_that_pays(home):
    home.say(*("x" * 20_000 for _ in range(300)))
    home.sessions.begin_new("home", home.now)
    home.say("after")
    home.stores.close()
    home.stores = Stores(Config(home.path.parent))
    large = home.path.stat().st_size
    assert not sessions_store.shrink(home.database)
    prune_conversations(home.database, home.now, 365, 2)
    assert home.path.stat().st_size == large
    assert not sessions_store.shrink(home.database, 1000)
    assert sessions_store.shrink(home.database)
    assert home.path.stat().st_size < large / 2
    assert home.shown() == ["after"]
    home.sound()


def test_the_chore_is_done_once_a_day_and_leaves_the_rest(tmp_path):
    config = Config(tmp_path, sessions=SessionsConfig(keep_days=30))
    with closing(App(config, SimBoard())) as app:
        for number in range(25):
            app.stores.history.keep("terminal", turn(str(number)), NOON - (60 - number) * DAY)
        app.stores.history.keep("job 3 x", turn("run"), NOON - 20 * DAY)
        chores: MaintenanceJobs = app.maintenance_jobs()
        assert chores.next_due(NOON) == NOON
        assert [line for line in chores.run(NOON) if "conversation" in line] == []
        assert [split_context(said[0].text)[1] for said in app.stores.history.turns("terminal")] == [
            str(n) for n in range(25)
        ]
        assert app.stores.history.turns("job 3 x") == []
        for number in range(20):
            app.stores.history.keep("terminal", turn(f"new {number}"), NOON)
        chores.run(NOON + 23 * 60 * MINUTE)
        assert len(app.stores.history.turns("terminal")) == 45
        chores.run(NOON + DAY)
        assert len(app.stores.history.turns("terminal")) == 20


def settle(app):
    LocalDaemon(app, "terminal", Event(), print).settle({"provider": "m"})


def test_who_only_answers_and_leaves_lets_go_of_old_conversations_once_a_day(tmp_path, monkeypatch):
    with closing(App(Config(tmp_path), SimBoard())) as app:
        settle(app)
        assert not (tmp_path / "state.db").exists()
    for day, left in ((0, ["old"]), (7, ["new", "old"]), (9, ["new"])):
        with closing(App(Config(tmp_path), SimBoard())) as app:
            monkeypatch.setattr(app, "now", lambda day=day: NOON + day * DAY)
            if day < 9:
                app.stores.history.keep(f"job 3 {day}", turn(["old", "new"][day > 0]), NOON + day * DAY)
            else:
                app.stores.history.turns("terminal")
            settle(app)
            assert sorted(key for _, key, _ in app.stores.history.kept()) == sorted(
                f"job 3 {0 if name == 'old' else 7}" for name in left
            )
            before = (tmp_path / "state.db-wal").stat().st_size
            settle(app)
            assert (tmp_path / "state.db-wal").stat().st_size == before


def test_a_chore_that_fails_says_so_once(tmp_path):
    with closing(App(Config(tmp_path), SimBoard())) as app:
        app.stores.history.keep("job 3 x", turn("run"), NOON)
        with app.stores.database.transaction() as connection:
            connection.execute("CREATE TRIGGER no BEFORE DELETE ON turns BEGIN SELECT raise(ABORT, 'no'); END")
        chores = app.maintenance_jobs()
        said = [line for day in (9, 11, 13) for line in chores.run(NOON + day * DAY)]
        assert [line for line in said if "conversations" in line] == [
            f"old conversations could not be deleted: {tmp_path}/state.db: no"
        ]
        assert len(app.stores.history.turns("job 3 x")) == 1


# --- cuts, and other processes ---


@pytest.mark.sweep
def test_a_prune_that_is_killed_anywhere_leaves_whole_turns(home, monkeypatch):
    monkeypatch.setattr(sessions_store, "_BATCH_SIZE", 3)
    call = ToolCall("c", "exec", {})
    for number in range(6):
        home.say(f"{number}", at=NOON - 400 * DAY)
        home.history.keep("home", turn("t", Message("assistant", "", (call,)), Message("tool", "r", (), "c")), NOON)
        home.results.keep("home", "exec", "long", NOON - 400 * DAY)
    home.say("old", key="shed", at=NOON - 400 * DAY)
    home.say("new", at=NOON)
    home.stores.close()
    before = home.path.read_bytes()
    for cut in sweep.steps(6, 1):
        if not killed_at(cut, pruned, home.path):
            break
        home = Home(home.path.parent)
        home.sound()
        assert {len(said) for said in home.history.turns("home")} <= {2, 4}
        assert home.shown()[-1] == "new"
        assert home.shown("shed") in (["old"], [])
        pruned(home.path)
        assert_pruned(home)
        for path in home.path.parent.glob("state.db*"):
            path.unlink()
        home.path.write_bytes(before)
    home = Home(home.path.parent)
    assert cut > 50  # opening takes a dozen
    assert_pruned(home)


def assert_pruned(home):
    assert home.all_said() == [*("t" * 6), "new"]
    assert [i.key for i in home.sessions.listed()] == ["home"]
    assert home.column("SELECT count(*) FROM results") == [0]
    home.sound()
    home.stores.close()


def pruned(path):
    with closing(Database(path)) as database:
        prune_conversations(database, NOON, 365, 100, 0)


def beside(path, *works):
    """Do several things at once, each in a process of its own that begins when all are ready."""
    children, (ready, go) = [], os.pipe()
    for work in works:
        if not (child := os.fork()):
            code = 1
            try:
                os.close(go)
                stores = Stores(Config(path.parent))
                _ = stores.database
                os.read(ready, 1)  # until all have theirs open
                work(stores)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    os.close(ready)
    time.sleep(0.1)
    os.close(go)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def test_two_processes_write_one_summary(home):
    home.say(*"abcdef")
    home.stores.close()

    def summarise(stores):
        stores.sessions.add_summary("home", f"by {os.getpid()}", 4, NOON, 0)

    assert beside(home.path, summarise, summarise, summarise) == [0, 0, 0]
    home = Home(home.path.parent)
    assert home.column("SELECT count(*) FROM summaries") == [1]
    assert home.shown() == ["e", "f"]
    home.stores.close()


def keeps(stores):
    for number in range(40):
        stores.history.keep("home", turn(f"{os.getpid()} {number}"), NOON)


def begins(stores):
    for number in range(20):
        stores.sessions.begin_new("home", NOON)
        stores.sessions.reopen("home", random.randrange(1, number + 2))


def summarises(stores):
    for _ in range(40):
        turns, before = stores.sessions.unsummarised("home"), stores.sessions.summary("home")
        if turns:
            stores.sessions.add_summary("home", "s", turns[-1][0], NOON, before.upto if before else 0)


def prunes(stores):
    for _ in range(10):
        stores.sessions.prune(NOON, 365, 100)


def test_everything_at_once_leaves_one_open_conversation_and_loses_no_turn(home):
    home.say("first")
    home.stores.close()
    assert beside(home.path, keeps, keeps, begins, begins, summarises, prunes) == [0] * 6
    home = Home(home.path.parent)
    home.sound()
    assert len(home.all_said()) == 81
    assert len(home.column("SELECT id FROM sessions WHERE ended = ''")) <= 1
    home.stores.close()


# --- damage, and a lot ---


@pytest.mark.parametrize("calls", ["", "{}", "[[1]]", '[["c", "exec", [], ""]]', "[" * 100_000])
def test_a_message_that_cannot_be_read_is_still_shown_to_its_owner(home, calls):
    home.say("a", "b")
    with home.database.transaction() as connection:
        connection.execute("UPDATE messages SET calls = ? WHERE id = 2", (calls,))
    rows = list(home.sessions.transcript(1))
    assert [row.text for row in rows] == [
        said for text in "ab" for said in (f"<moment>noon\n</moment>\n{text}", f"re: {text}")
    ]
    assert [row.calls for row in rows] == [(), (ToolCall("", "?", {}, calls),) if calls != "{}" else (), (), ()]
    assert home.sessions.listed()[0].messages == 4
    assert home.sessions.search("re: a")[0].snippet == "re: a"
    assert home.sessions.erase("home") == 4


def test_a_torn_page_is_named(home):
    home.say(*(f"{n} " + "x" * 3000 for n in range(50)))
    home.stores.close()
    with home.path.open("r+b") as file:
        file.seek(4096 * 30)
        file.write(random.Random(3).randbytes(4096 * 20))
    home = Home(home.path.parent)
    for work in (
        lambda: list(home.sessions.transcript(1)),
        lambda: home.sessions.search("nowhere"),
        lambda: home.sessions.erase("home"),
    ):
        with pytest.raises(StoreDamaged, match=r"state\.db is damaged .* move it aside"):
            work()
    home.stores.close()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A conversation of 100,000 messages beside 2,000 small ones."""
    home = Home(tmp_path_factory.mktemp("large"))
    home.say("the first words")
    text = "the boiler is at 1.2 bar, the pump ran for 20 minutes and the filter was changed; " * 3
    with home.database.transaction() as connection:
        connection.executemany("INSERT INTO sessions (key) VALUES (?)", ((f"job {n} x",) for n in range(2000)))
        of = [*[1] * 50_000, *range(2, 2002)]
        add = "INSERT INTO turns VALUES (?, ?, '2026-07-01T12:00:00+00:00', 'm', 1, 9, 9, '', 0, 0, '[]', '')"
        connection.executemany(add, ((number, session) for number, session in enumerate(of, 2)))
        add = "INSERT INTO messages (turn, role, text) SELECT id, role, id || ' ' || ? FROM turns"
        connection.execute(
            f"{add} JOIN (SELECT 'user' AS role UNION SELECT 'assistant') WHERE id > 1 ORDER BY id", (text,)
        )
        connection.execute("UPDATE messages SET text = text || ' Grünkohl' WHERE turn = 7")
    yield home
    home.stores.close()


@pytest.mark.parametrize(
    ("work", "seconds"),
    [
        (lambda home: [i.first for i in home.sessions.listed("home")] == ["the first words"], 0.5),
        (lambda home: len(home.sessions.listed()) == 2001, 1.0),
        (lambda home: len(home.sessions.search("pump minutes")) == 20, 0.1),
        (lambda home: [hit.turn for hit in home.sessions.search("GRÜNKOHL pump")] == [7, 7], 2.0),
        (lambda home: home.sessions.search("no such words anywhere") == [], 2.0),
        (lambda home: next(home.sessions.transcript(1)).text.endswith("the first words"), 0.1),
        (lambda home: home.sessions.usage(NOON)[0].ever.total == 52_000 * 18, 1.0),
        (lambda home: sessions_store.select_prunable(home.database, NOON, 365, 1000) == ([], []), 1.0),
        (lambda home: home.sessions.summary("home") is None, 0.05),
    ],
)
def test_a_lot_is_listed_and_searched_quickly(large, work, seconds):
    begun = time.perf_counter()
    assert work(large)
    took = time.perf_counter() - begun
    print(f"{took * 1000:.1f} ms")
    assert took < seconds

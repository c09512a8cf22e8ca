"""The tasks of sub-agents in a real database: kept once, taken by one process, ended once, told once."""

import os
import signal
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

import pytest

from picoclaw.agent.workflow import format_reports
from picoclaw.errors import StoreDamaged
from picoclaw.messages import Message, ToolCall, Turn, Usage
from picoclaw.messages import Notice as Note
from picoclaw.store.conversations import History, get_process_identity, has_open_tasks
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.store.subagent_tasks import Task, Tasks, TaskUsage

DAY = 86_400.0
MOST = TaskUsage(20, 600.0, 200_000)
SAID = [
    Message("user", "measure"),
    Message("assistant", "", (ToolCall("1", "sensor_read", {"sensor": "porch"}), ToolCall("2", "exec", {}, "{ls"))),
    Message("tool", "21 \udce9", call_id="1"),
]


@pytest.fixture
def home(tmp_path):
    with closing(Home(tmp_path / "state.db")) as home:
        yield home


class Home:
    """A database, its tasks and what lies in its outbox."""

    def __init__(self, path):
        self.path = path
        self.database = Database(path)
        self.database.connection.execute("PRAGMA synchronous = OFF")
        self.tasks = Tasks(self.database, format_reports)

    def close(self):
        self.database.close()

    def add(self, *needs, **more):
        """One task, or those that `needs` says: {"b": [-1]} of the first."""
        wanted = needs or ((),)
        tasks = [task(f"t{i}", needs=tuple(n), **more) for i, n in enumerate(wanted, 1)]
        return [added.number for added in self.tasks.add(tasks, 100.0)]

    def claim(self, now=200.0):
        return self.tasks.claim(now)

    def finish(self, number, status="done", result="ok"):
        return self.tasks.finish(self.tasks.get(number), status, result, 300.0, TaskUsage(1, 2.0, 3))

    def letters(self):
        return [letter.text for letter in Outbox(self.database).waiting()]

    def statuses(self):
        with self.database.reading() as connection:
            return [str(row[0]) for row in connection.execute("SELECT status FROM tasks ORDER BY id")]

    def elsewhere(self, do):
        """Do something in another process that is killed then; returns its exit code when it ended before."""
        child = os.fork()
        if child == 0:
            other = Home(self.path)
            do(other)
            os.kill(os.getpid(), signal.SIGKILL)
        return os.waitpid(child, 0)[1]


def task(name="", session="terminal", **more):
    return Task(0, session, name, f"do {name}", MOST, **more)


def test_what_is_kept_comes_back(home):
    given = task("frost", "garden", tools=frozenset({"exec", "i2c"}), mode="full", parent=3, depth=2)
    (kept,) = home.tasks.add([given], 5.0)
    assert kept == given._replace(number=1, flow=1, asked=5.0)
    assert home.tasks.get(1) == kept
    assert home.tasks.get(2) is None
    assert [t.number for t in home.tasks.unfinished("garden")] == [1]
    assert home.tasks.unfinished("terminal") == []
    assert home.tasks.newest("garden", 5) == [kept]
    assert home.tasks.children(3) == [kept]
    assert has_open_tasks(home.database, "garden")
    assert not has_open_tasks(home.database, "terminal")


DIAMOND = ((), (-1,), (-1,), (-2, -3))


def test_a_diamond_is_done_in_its_order_and_told_once(home):
    home.add(*DIAMOND)
    order = []
    while claimed := home.claim():
        order.append(claimed.number)
        if claimed.number == 2:
            assert [home.claim().number] == [3], "both sides at once"
            assert home.claim() is None
            home.finish(3)
        assert home.letters() == []
        home.finish(claimed.number)
    assert order == [1, 2, 4]
    (told,) = home.letters()
    assert told == "4 sub-agents have ended:\n- t1 (1): ok\n- t2 (2): ok\n- t3 (3): ok\n- t4 (4): ok"
    assert home.tasks.message_numbers("terminal") == {1}
    assert home.tasks.flow(1)[0].used == TaskUsage(1, 2.0, 3)


@pytest.mark.parametrize("how", ["failed", "lost"])
def test_what_needs_a_failure_is_impossible_and_reported(home, how):
    home.add(*DIAMOND, ())
    home.claim()
    home.claim()
    home.finish(1, how, "no bus")
    assert home.statuses() == [how, "impossible", "impossible", "impossible", "running"]
    assert home.letters() == []
    home.finish(5)
    (told,) = home.letters()
    words = {"failed": "1 failed", "lost": "1 was lost"}[how]
    assert told.startswith("5 sub-agents have ended, ")
    assert words in told
    assert "3 was not begun" in told
    assert "- t4 (4) was not begun: what it needs was not done" in told
    assert ": no bus" in told


def test_what_needs_something_that_has_failed_already_is_impossible_at_once(home):
    home.add()
    home.claim()
    home.finish(1, "failed")
    home.add((1,))
    assert home.statuses() == ["failed", "impossible"]
    assert len(home.letters()) == 2


def test_a_task_is_taken_and_ended_once(home):
    home.add()
    with closing(Home(home.path)) as other:
        assert home.claim().number == 1
        assert other.claim() is None
    assert home.finish(1)
    assert not home.finish(1, "failed")
    assert not home.tasks.progress(home.tasks.get(1), SAID, TaskUsage())
    assert home.letters() == ["Sub-agent t1 (1): ok"]


def test_a_task_belongs_to_the_process_that_was_asked_as_long_as_it_lives(home):
    begun, go = os.pipe(), os.pipe()

    child = os.fork()
    if child == 0:
        with closing(Home(home.path)) as other:
            other.add(claimed=get_process_identity())
        os.write(begun[1], b"!")
        os.read(go[0], 1)
        os._exit(0)
    os.read(begun[0], 1)
    assert home.claim() is None
    os.write(go[1], b"!")
    os.waitpid(child, 0)
    assert home.claim().number == 1


def test_what_a_killed_process_did_is_gone_on_with(home):
    def half(other):
        other.add(*DIAMOND)
        taken = other.claim()
        assert other.tasks.progress(taken, SAID, TaskUsage(2, 3.5, 40))

    assert home.elsewhere(half) == signal.SIGKILL
    found = home.claim()
    assert (found.number, found.used, found.tries) == (1, TaskUsage(2, 3.5, 40), 2)
    said = home.tasks.messages(found)
    assert said == [*SAID[:2], SAID[2]._replace(text="21 ?")]
    assert home.claim() is None


def test_messages_are_added_and_only_what_changed_is_written_again(home):
    home.add()
    taken = home.claim()
    home.tasks.progress(taken, SAID[:2], TaskUsage())
    before = home.database.connection.total_changes()
    home.tasks.progress(taken, SAID, TaskUsage())
    assert home.database.connection.total_changes() - before == 2, "a message and the task"
    changed = [SAID[0], SAID[1], SAID[2]._replace(text="shorter")]
    home.tasks.progress(taken, changed, TaskUsage())
    assert home.tasks.messages(taken) == changed
    home.finish(1)
    assert home.tasks.messages(taken) == []


def test_a_task_that_kills_its_process_again_and_again_is_lost_and_reported(home):
    home.add((), (-1,))
    for _ in range(3):
        home.elsewhere(lambda other: other.claim())
    assert home.claim() is None
    assert home.statuses() == ["lost", "impossible"]
    (told,) = home.letters()
    assert "t1 (1) was lost: picoclaw ended 3 times while it worked on it" in told


def test_what_was_put_down_is_taken_up_and_that_counts_as_no_try(home):
    home.add()
    for _ in range(5):
        taken = home.claim()
        home.tasks.progress(taken, SAID[:1], TaskUsage(1))
        home.tasks.put_back(taken)
    assert home.claim().tries == 1
    assert home.tasks.messages(home.tasks.get(1)) == SAID[:1]


def test_whoever_waits_is_told_by_nobody_else(home):
    here = get_process_identity()
    home.tasks.add([task("sub", status="running", claimed=here, waits=here)], 1.0)
    assert home.finish(1)
    assert home.letters() == []
    assert not has_open_tasks(home.database, "terminal")
    assert home.tasks.reports("terminal", 5) == []


def test_when_whoever_waited_is_dead_the_chat_is_told(home):
    def waits(other):
        here = get_process_identity()
        other.tasks.add([task("sub", status="running", claimed=here, waits=here, tries=1)], 1.0)

    home.elsewhere(waits)
    assert home.claim().waits == ""
    home.finish(1)
    assert home.letters() == ["Sub-agent sub (1): ok"]


def test_what_a_subagent_gives_away_is_told_with_its_own_report(home):
    home.add()
    home.claim()
    home.tasks.add([task("child", parent=1, flow=1)], 1.0)
    home.finish(1)
    assert home.letters() == []
    home.claim()
    home.finish(2)
    assert [text.count("\n") for text in home.letters()] == [2]


def test_later_tasks_join_the_workflow_that_they_need(home):
    home.add()
    home.add()
    home.add((1, 2))
    assert {t.flow for t in home.tasks.unfinished()} == {1}
    for number in (1, 2, 3):
        home.claim()
        home.finish(number)
    assert len(home.letters()) == 1
    home.add((3,))
    assert home.tasks.get(4).flow == 4, "what was told is over"


def test_what_was_told_a_month_ago_goes_when_another_is_added(home):
    home.add()
    home.add((), (-1,))
    for number in (1, 2):
        home.claim()
        home.finish(number)
    home.tasks.add([task()], 300 + 30 * DAY)
    assert home.tasks.get(1)
    home.tasks.add([task()], 301 + 30 * DAY)
    assert home.tasks.get(1) is None
    assert home.tasks.get(2).status == "done", "its workflow goes on, so that it was not told yet"


@pytest.mark.parametrize(("where", "letters"), [("terminal", 0), ("garden", 1)])
def test_a_cancelled_task_ends_what_it_gave_away_and_is_told_unless_its_chat_did_it(home, where, letters):
    home.add()
    home.claim()
    home.tasks.add([task("child", parent=1, flow=1)], 1.0)
    assert [t.number for t in home.tasks.cancel(1, where, 5.0)] == [1, 2]
    assert home.statuses() == ["cancelled", "cancelled"]
    assert len(home.letters()) == letters
    assert home.tasks.cancel(1, where, 5.0) == []
    assert not home.tasks.progress(Task(1, "terminal", "", "", MOST), SAID, TaskUsage())


def test_what_needs_a_cancelled_task_is_told(home):
    home.add((), (-1,))
    home.tasks.cancel(1, "terminal", 5.0)
    assert home.letters() == ["Sub-agent t2 (2) was not begun: what it needs was not done"]


def kept_turn(home, text, session="terminal"):
    messages = (Message("user", text), Message("assistant", "ok"))
    at = datetime.fromtimestamp(250, UTC)
    History(home.database).keep(session, Turn("ok", messages, 1, (), Usage(), "", "m", Note("")), at)


def test_reports_are_there_until_they_were_heard(home):
    home.add()
    assert home.tasks.reports("terminal", 5) == []
    home.claim()
    home.finish(1, result="20 °C")
    assert [t.result for t in home.tasks.reports("terminal", 5)] == ["20 °C"]
    assert home.tasks.reports("garden", 5) == []
    home.tasks.set_heard([1])
    assert home.tasks.reports("terminal", 5) == []


def test_what_was_reported_before_a_conversation_was_ended_belongs_to_it(home):
    kept_turn(home, "go")
    home.add()
    home.claim()
    home.finish(1)
    with home.database.transaction() as connection:
        connection.execute("UPDATE sessions SET ended = '1970-01-01T02:00:00+01:00'")
    assert home.tasks.reports("terminal", 5) == []
    with home.database.transaction() as connection:
        connection.execute("UPDATE sessions SET ended = '1970-01-01T01:04:00+01:00'")
    assert len(home.tasks.reports("terminal", 5)) == 1


def test_old_tasks_go_and_numbers_do_not_come_back(home):
    home.add()
    home.claim()
    home.finish(1)
    home.tasks.add([task("new")], 301.0 + 31 * DAY)
    assert home.tasks.get(1) is None
    assert home.tasks.get(2).name == "new"


def test_damage_is_said(home):
    home.add()
    taken = home.claim()
    home.tasks.progress(taken, SAID, TaskUsage())
    with home.database.transaction() as connection:
        connection.execute("UPDATE task_messages SET message = '[1]' WHERE place = 1")
    with pytest.raises(StoreDamaged, match="what sub-agent 1 has said"):
        home.tasks.messages(taken)


def test_acts_of_an_ended_task_are_settled(home):
    history = History(home.database)
    home.add()
    taken = home.claim()
    history.begin_act(taken.key, ToolCall("1", "exec", {"command": "ls"}), datetime.fromtimestamp(0, UTC))
    home.finish(1)
    with home.database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM acts").get == 0


def test_nothing_is_written_when_there_is_nothing_to_do(home):
    home.add(claimed="1:0:gone")  # of a process that never was, so it is free
    home.claim()
    before = home.database.connection.total_changes()
    assert home.claim() is None
    assert not home.tasks.finish(task()._replace(number=7), "done", "", 1.0)
    assert home.tasks.cancel(7, "terminal", 1.0) == []
    assert home.database.connection.total_changes() == before


def test_kills_at_any_moment_lose_nothing_and_tell_once(home):
    """A process that does a diamond is killed after each of its transactions in turn; the next one goes on."""
    home.add(*DIAMOND)
    for left in range(2, 40):
        if home.elsewhere(partial(lives, left)) != signal.SIGKILL:
            break
        if not home.tasks.unfinished():
            break
    assert home.statuses() == ["done"] * 4
    assert len(home.letters()) == 1


def lives(left, home):
    """Do what there is to do, until so many transactions were made."""
    real = home.database.transaction
    count = [0]

    def counted():
        count[0] += 1
        if count[0] > left:
            os.kill(os.getpid(), signal.SIGKILL)
        return real()

    home.database.transaction = counted
    while taken := home.claim():
        home.tasks.put_back(taken)  # so that kills alone do not make it lost
        taken = home.claim()
        home.tasks.progress(taken, SAID, TaskUsage(1))
        home.tasks.finish(taken, "done", "ok", 1.0)

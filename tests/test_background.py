"""What runs beside a conversation: a job's outcome, its parts, and an error of ours within one; with real threads."""

import threading
import time
from contextlib import closing, contextmanager

import pytest
from model_server import ModelServer, reply, silence
from sandbox_kit import needs_walls
from timing import until

from picoclaw.app import SIMULATED_MARK, App
from picoclaw.automation.clock import boottime, read_boot_id, wake_all
from picoclaw.automation.jobs import JobOutcome
from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig, ModelConfig, SessionsConfig
from picoclaw.daemon import background
from picoclaw.daemon.background import BackgroundWorker, IdleThread, run_job
from picoclaw.errors import ToolError
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Inbound
from picoclaw.records import replace
from picoclaw.schedules import Plan
from picoclaw.store.database import Database, Marks
from picoclaw.store.jobs import Job, Jobs
from picoclaw.store.sessions import Sessions


@pytest.fixture
def app(tmp_path):
    made = App(Config(home=tmp_path), SimBoard())
    made.config.workspace.mkdir()
    yield made
    made.close()


def job(payload, kind):
    return Job(1, "terminal", payload, Plan("at"), kind=kind)


@pytest.mark.parametrize(
    ("payload", "kind", "good", "marked"),
    [
        ("sensor_read {}", "tool", True, True),
        ("is it warm in the greenhouse?", "turn", True, True),
        ("is it warm in the greenhouse?", "fresh", True, True),
        ("sensor_read []", "tool", False, False),
        pytest.param("echo 20", "command", True, False, marks=needs_walls),
    ],
)
def test_what_a_simulated_board_said_is_marked(app, payload, kind, good, marked):
    app.config = replace(app.config, tools=replace(app.config.tools, exec="allow"))
    outcome = run_job(app, job(payload, kind))
    assert (outcome.good, outcome.text.endswith(f"\n{SIMULATED_MARK}")) == (good, marked)


def test_a_sensor_that_was_added_meanwhile_is_known_to_a_job(app):
    app.wiring.wired["attic"] = app.wiring.wired["greenhouse"]
    assert "attic: temperature" in run_job(app, job("sensor_read {}", "tool")).text


def test_an_error_of_ours_costs_one_job_and_no_other(app, monkeypatch):
    shown, met = [], []
    monkeypatch.setattr(threading, "excepthook", met.append)

    def breaks(_, given):
        if given.payload == "bad":
            raise AssertionError("a mistake of ours")
        return JobOutcome(True, given.payload)

    monkeypatch.setattr(background, "run_job", breaks)
    database = Database(app.config.home / "state.db")
    with BackgroundWorker(app, "terminal", shown.append):
        for payload in ("bad", "good", "bad", "better"):
            now = Job(0, "terminal", payload, Plan("at"), kind="turn", boot=read_boot_id(), mono=boottime())
            Jobs(database).add(now)
        wake_all(app.config.home)
        until(lambda: len(shown) == 4)
        assert [(one.payload, one.last_status, one.claimed) for one in Jobs(database).all()] == [
            ("bad", "failed", ""),
            ("bad", "failed", ""),
        ]
    database.close()
    assert [text for text in shown if "internal error" not in text] == ["good", "better"]
    assert len(met) == 2


def test_a_rule_that_asks_in_vain_leaves_one_row_and_says_so_once(tmp_path):
    """With a model that is away; it answers at last, and the row goes."""
    config = Config(home=tmp_path)
    shown, rows, database = [], [], Database(tmp_path / "state.db")
    jobs, model = Jobs(database), replace(config.model, retries=0, name="x")
    app = App(replace(config, model=replace(model, base_url="http://127.0.0.1:9/v1")), SimBoard())
    with ModelServer([reply("All is well.")]) as server, BackgroundWorker(app, "terminal", shown.append) as running:
        ask = running._watch(database).actions.ask
        for times in range(1, 4):
            assert ask(f"What now? ({times})", "hot") == "asked, for rule hot"
            wake_all(tmp_path)
            until(lambda times=times: [row.failures for row in jobs.all()] == [times])
            rows += [(row.number, row.enabled, row.last_status) for row in jobs.all()]
        app.config = replace(config, model=replace(model, base_url=server.url))
        ask("What now?", "hot")
        wake_all(tmp_path)
        until(lambda: len(shown) == 2)
        assert jobs.all() == []
    app.close()
    database.close()
    assert rows == [(1, False, "failed")] * 3
    assert shown[0].startswith("Job 1 (What now? (1)): failed: ")
    assert shown[1] == f"All is well.\n{SIMULATED_MARK}"


@pytest.mark.parametrize("hangs", [False, True])
def test_what_jobs_say_in_a_chat_is_summed_up_too(tmp_path, hangs):
    """After each was told; whoever leaves does not wait for it."""
    shown, asked = [], threading.Event()

    def answers(body):
        if "Conversation:" not in str(body["messages"][-1]["content"]):
            return reply("All is well.")
        asked.set()
        return silence() if hangs else reply("all was well")

    (tmp_path / "workspace/memory").mkdir(parents=True)
    (tmp_path / "workspace/AGENTS.md").touch()
    with ModelServer(answers) as server, closing(Database(tmp_path / "state.db")) as database:
        model, sessions = ModelConfig(base_url=server.url, name="m", retries=0), SessionsConfig(summarise_messages=8)
        config = Config(tmp_path, model, memory=MemoryConfig(dream_hour=-1, review_minutes=0), sessions=sessions)
        with closing(App(config, SimBoard())) as app, BackgroundWorker(app, "terminal", shown.append):
            for number in range(5):
                Jobs(database).add(
                    Job(0, "terminal", f"look {number}", Plan("at"), kind="turn", boot=read_boot_id(), mono=boottime())
                )
            wake_all(tmp_path)
            until(lambda: len(shown) == 5)
            assert asked.wait(5)
            if not hangs:
                until(lambda: Sessions(database).summary("terminal"))
            leaves = time.monotonic()
        assert time.monotonic() - leaves < 1
        found = Sessions(database).summary("terminal")
        assert (found and found.text) == (None if hangs else "all was well")


def test_a_rule_does_not_ask_while_its_last_question_is_being_answered(app):
    database = Database(app.config.home / "state.db")
    ask, jobs = BackgroundWorker(app, "terminal", print)._watch(database).actions.ask, Jobs(database)
    ask("What now?", "hot")
    jobs.change("terminal", 1, lambda job: job._replace(claimed="this process"))
    with pytest.raises(ToolError, match="has not yet answered the last question of this rule"):
        ask("And now?", "hot")
    ask("What else?", "cold")
    assert [job.payload for job in jobs.all()] == ["What now?", "What else?"]
    database.close()


# --- between turns ---


@contextmanager
def idle_at(home, server):
    """A chat whose model is asked for a review of the tasks."""
    (home / "workspace/memory").mkdir(parents=True)
    model = ModelConfig(base_url=server.url, name="m", retries=0)
    with closing(App(Config(home, model, memory=MemoryConfig(dream_hour=-1)), SimBoard())) as app:
        app.stores.pulse.add("order filters", 5, "terminal", app.now())
        idle = IdleThread(app, lambda _: None)
        idle.start()
        try:
            until(lambda: server.requests)
            yield app, idle
        finally:
            idle.stop()


@pytest.mark.parametrize("ends", ["a turn", "the chat"])
def test_a_review_that_a_server_is_silent_about_is_put_down_at_once(tmp_path, ends):
    with ModelServer([silence(), reply("Good morning.")]) as server, idle_at(tmp_path, server) as (app, idle):
        begun = time.monotonic()
        if ends == "a turn":
            with idle.turn():
                assert app.dispatcher.answer(Inbound("terminal", "hello")).reply == "Good morning."
        else:
            idle.stop()
            assert not idle._thread.is_alive()
        assert time.monotonic() - begun < 1.5
        assert server.hung_up.wait(1)
        until(lambda: Marks(app.stores.database).get("review.at") == "", 1)  # it was not reviewed

"""When chores are due, by a scripted clock, and that no cut at any moment loses anything or does it twice."""

import os
import shutil
import signal
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
import sweep
from model_server import ModelServer, drop, reply, status
from scripted import Scripted, says
from test_dream import NEW, OLD

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig, ModelConfig
from picoclaw.errors import StoreError, TurnStopped, Unavailable
from picoclaw.files import create_file
from picoclaw.hw.sim import SimBoard
from picoclaw.maintenance.upkeep import MaintenanceJobs
from picoclaw.memory import notes, versions
from picoclaw.memory.dream import DreamModel
from picoclaw.memory.memory import MemoryIndex
from picoclaw.messages import Inbound, Stop
from picoclaw.providers.model import ModelProvider
from picoclaw.skills import Skill
from picoclaw.store.database import Database, Marks
from picoclaw.store.pulse import Pulse, PulseAuthor, PulseChange
from picoclaw.workspace import Prompts

BERLIN = ZoneInfo("Europe/Berlin")
EVENING = datetime(2026, 3, 1, 20, 0, tzinfo=BERLIN)
NIGHT = datetime(2026, 3, 2, 3, 0, tzinfo=BERLIN)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DREAMS_ONLY = MemoryConfig(review_minutes=0)
DONE = '[{"action": "complete", "task": 2}]'


class Refreshed(NamedTuple):
    left: int = 0
    problem: str = ""


class Index:
    """Counts how often it is brought up to date."""

    def __init__(self, *answers):
        self.answers, self.times = list(answers), 0

    def refresh(self, *, seconds=None):
        self.times += 1
        answer = self.answers.pop(0) if self.answers else Refreshed()
        if isinstance(answer, Exception):
            raise answer
        return answer


class Home:
    """A home whose chores are done by a clock that is turned by hand."""

    def __init__(self, folder, *, memory=None, provider=None):
        (folder / "workspace/memory").mkdir(parents=True, exist_ok=True)
        self.config = Config(folder, memory=memory or MemoryConfig())
        self.page = folder / "workspace/memory/MEMORY.md"
        create_file(self.page, OLD.encode())
        self.database = Database(folder / "state.db")
        self.pulse, self.index, self.skills = Pulse(self.database), Index(), []
        self.provider = provider
        self.stop = Stop()
        self.start()

    def start(self):
        """Begin a process."""
        make = lambda: DreamModel(self.provider, 32_768, time.monotonic, self.stop)  # noqa: E731
        model = make if self.provider else None
        prompts = Prompts(self.config.workspace)
        self.chores = MaintenanceJobs(
            self.config, prompts, lambda: self.database, lambda: self.index, lambda: self.skills, model
        )

    def note(self, text, now):
        notes.add_note(self.config.workspace, text, now)

    def script(self, *answers):
        self.provider = Scripted(*answers)
        self.start()

    def day(self, begin, hours, step=timedelta(minutes=20)):
        """Do what is due for some hours; returns what was said at which local hour."""
        said, now = [], begin
        while now.timestamp() <= begin.timestamp() + hours * 3600:
            said += [(f"{now:%d %H:%M}", line) for line in self.chores.run(now)]
            now = (now.astimezone(UTC) + step).astimezone(begin.tzinfo)
        return said


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path, provider=Scripted())
    yield home
    home.database.close()


def tasks(home, now=EVENING):
    for text in ("order filters", "sweep the porch", "paint the shed"):
        home.pulse.add(text, 5, "terminal", now)


def test_a_night(home):
    home.chores.run(EVENING)
    tasks(home)
    home.note("the fuse of the pump is 3 A", EVENING)
    home.script(says("[]"), says(NEW), says(DONE))
    said = home.day(EVENING, 30)
    assert [when for when, line in said if line.startswith("dream: memory/MEMORY.md written anew")] == ["02 03:00"]
    assert ("02 03:00", "dream: tasks: 1 completed (sweep the porch)") in said
    assert ("02 03:00", "dream: 20 tokens") in said
    assert not [line for _, line in said if line.startswith("review")]  # it cost 10 tokens, and changed nothing
    assert len(home.provider.requests) == 3  # a review, and the two steps of the dream
    (line,) = versions.read_dream_log(home.config.home)
    assert line.startswith("2026-03-02 03:00 memory/MEMORY.md written anew, ")


def test_no_dream_before_the_first_night(home):
    home.note("the fuse of the pump is 3 A", EVENING)
    assert home.day(EVENING, 6) == []


@pytest.mark.parametrize(
    ("begin", "hour", "first"),
    [
        (datetime(2026, 3, 28, 20, tzinfo=BERLIN), 2, "29 03:00"),  # there is no 02:00 in this night
        (datetime(2026, 10, 24, 20, tzinfo=BERLIN), 2, "25 02:00"),  # and two of them in this
        (datetime(2026, 10, 24, 20, tzinfo=BERLIN), 3, "25 03:00"),
        (datetime(2026, 3, 1, 20, tzinfo=BERLIN), 0, "02 00:00"),
        (datetime(2026, 3, 1, 1, tzinfo=BERLIN), 23, "01 23:00"),
    ],
)
def test_the_hour_of_a_night_with_another_clock(tmp_path, begin, hour, first):
    home = Home(tmp_path, memory=MemoryConfig(dream_hour=hour), provider=Scripted())
    home.chores.run(begin)
    home.note("the fuse of the pump is 3 A", begin)
    home.script(says(NEW))
    said = home.day(begin, 26)
    assert [when for when, line in said if "written anew" in line] == [first]
    home.database.close()


def test_a_night_that_was_slept_through_is_made_up_for_in_the_morning(home):
    home.chores.run(EVENING)
    home.note("the fuse of the pump is 3 A", EVENING)
    home.script(says(NEW))
    assert home.chores.next_due(NIGHT + 6 * HOUR) == NIGHT + 6 * HOUR
    assert "written anew" in home.chores.run(NIGHT + 6 * HOUR)[0]


def test_a_clock_that_is_put_back_does_not_dream_twice(home):
    home.chores.run(EVENING)
    home.note("the fuse of the pump is 3 A", EVENING)
    home.script(says(NEW))
    home.chores.run(NIGHT)
    home.note("the shed's key hangs on a hook", NIGHT)
    for now in (NIGHT - HOUR, NIGHT, NIGHT - DAY, EVENING, NIGHT + HOUR):
        home.start()
        assert home.chores.run(now) == []
    assert len(home.provider.requests) == 1


def test_a_clock_that_is_not_set_does_nothing_but_the_index(home):
    tasks(home)
    begin = datetime(1970, 1, 1, 0, 5, tzinfo=UTC)
    assert home.day(begin, 30) == []
    assert home.index.times > 10
    home.script(says("[]"))
    home.chores.run(EVENING)
    home.note("the porch is swept", EVENING)
    assert home.day(begin, 30) == []


def test_a_clock_that_was_far_ahead_does_not_end_the_dreams(home):
    home.chores.run(datetime(2038, 1, 1, tzinfo=BERLIN))
    home.chores.run(EVENING)
    home.note("the fuse of the pump is 3 A", EVENING)
    home.script(says(NEW))
    assert any("written anew" in line for _, line in home.day(EVENING, 12))


def test_a_failed_dream_waits_for_the_next_night(home):
    home.chores.run(EVENING)
    home.note("the fuse of the pump is 3 A", EVENING)
    home.script([Unavailable("no route to host")], says("garbage of nobody"), says(NEW))
    said = home.day(EVENING, 24 * 4)
    assert [(when, line.partition(": ")[2][:24]) for when, line in said if "tokens" not in line] == [
        ("02 03:00", "the model did not answer"),
        ("03 03:00", "MEMORY.md stays as it is"),
        ("04 03:00", "memory/MEMORY.md written"),
    ]


def test_without_a_model_the_rest_is_done(home):
    home.provider = None
    home.start()
    home.chores.run(EVENING)
    tasks(home)
    home.pulse.apply([PulseChange("complete", 1)], PulseAuthor("terminal", EVENING - 40 * DAY))
    home.note("the fuse of the pump is 3 A", EVENING)
    home.skills = [Skill(name, "", Path("/nowhere"), "workspace", ("go",)) for name in "ab"]
    said = home.day(EVENING, 30)
    assert said == [("02 03:00", "dream: skills that overlap: a and b have the trigger 'go'")]
    with pytest.raises(StoreError, match="there is no task 1"):
        home.pulse.apply([PulseChange("complete", 1)], PulseAuthor("terminal", NIGHT))
    home.script(says(NEW), says("[]"))  # and is made up for when there is one
    assert any("written anew" in line for _, line in home.day(NIGHT + DAY, 3))


def test_a_dream_may_be_switched_off(tmp_path):
    home = Home(tmp_path, memory=MemoryConfig(dream_hour=-1, review_minutes=0), provider=Scripted())
    tasks(home)
    home.note("the fuse of the pump is 3 A", EVENING)
    assert home.day(EVENING, 30) == []
    assert home.chores.next_due(EVENING + 30 * HOUR) < EVENING + 31 * HOUR  # the index
    home.database.close()


def test_reviews_come_hourly_and_only_after_changes(home):
    home.chores.run(EVENING - DAY)
    home.chores.run(EVENING - 12 * HOUR)
    tasks(home)
    home.script(says("[]"), says(DONE), says("[]"))
    home.day(EVENING, 0.5)
    home.note("the porch is swept", EVENING + HOUR / 2)
    assert home.chores.next_due(EVENING + HOUR / 2) < EVENING + HOUR
    said = home.day(EVENING + 2 * HOUR / 3, 3)
    assert said[:2] == [("01 21:00", "review: 1 completed (sweep the porch)"), ("01 21:00", "review: 10 tokens")]
    assert len(home.provider.requests) == 2


def test_a_server_that_is_down_is_asked_for_a_review_once_an_hour_and_told_of_once(home):
    home.chores.run(EVENING - DAY)
    home.chores.run(EVENING - 12 * HOUR)
    tasks(home)
    home.script(*[[Unavailable("no route to host")]] * 4)
    said = home.day(EVENING, 3.5)
    assert said == [("01 20:00", "review: the model did not answer: no route to host")]
    assert len(home.provider.requests) == 4


def test_whoever_comes_back_ends_a_dream_that_is_then_dreamt_later(home):
    home.chores.run(EVENING)
    home.note("the fuse of the pump is 3 A", EVENING)
    home.script(says(NEW), says(NEW))
    home.stop.set()
    with pytest.raises(TurnStopped):
        home.chores.run(NIGHT)
    home.stop.clear()
    assert "written anew" in home.chores.run(NIGHT + HOUR / 4)[0]


def test_an_index_that_is_not_finished_comes_sooner_and_a_complaint_once(home):
    home.index = Index(Refreshed(left=500), StoreError("disk full"), StoreError("disk full"), Refreshed(3, "no table"))
    at, said = EVENING, []
    due = []
    for _ in range(4):
        said += home.chores.run(at)
        at = home.chores.next_due(at)
        due.append(at - EVENING)
    assert due == [timedelta(minutes=m) for m in (2, 17, 32, 47)]
    assert said == ["the memory's index: disk full", "no table"]


def test_what_was_noted_is_in_the_index_before_anybody_searches(home):
    home.index = memory = MemoryIndex(home.config.home, home.config.workspace, lambda: None)
    home.note("the fuse of the pump is 3 A", EVENING)
    assert home.chores.run(EVENING) == []
    with closing(memory):
        assert memory.stats()["chunks"]
        assert home.chores.next_due(EVENING) > EVENING + HOUR / 10


def test_a_database_that_fails_is_told_of_and_no_model_is_asked(home, monkeypatch):
    home.chores.run(EVENING)
    home.note("the fuse of the pump is 3 A", EVENING)

    @contextmanager
    def full(_):
        raise StoreError("state.db: the disk is full: free some space")
        yield

    monkeypatch.setattr(Database, "transaction", full)
    assert home.chores.run(NIGHT) == [
        "the memory could not be looked after: state.db: the disk is full: free some space"
    ]
    assert home.chores.run(NIGHT + HOUR) == []
    assert not home.provider.requests


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([reply(NEW, usage=(700, 200))], "written anew"),
        ([drop()] * 3, "the model did not answer"),
        ([status(500)] * 3, "the model did not answer"),
        ([status(401)], "the model did not answer"),
        ([reply(NEW[:200], finish="length")], "cut off"),
    ],
)
def test_over_a_real_socket(tmp_path, answers, said):
    with ModelServer(answers) as server:
        home = Home(tmp_path, provider=ModelProvider(ModelConfig(base_url=server.url, retries=0), ""))
        home.chores.run(EVENING)
        home.note("the fuse of the pump is 3 A", EVENING)
        assert said in home.chores.run(NIGHT)[0]
        assert ("3 A" in home.page.read_text()) == (said == "written anew")
        (request,) = server.requests
        assert request.body.get("tools") is None
        assert request.body["max_tokens"] == 4000
        home.provider.close()
        home.database.close()


# --- cut at every moment ---


def _cut_off_at(moment, folder):
    """Dream in a process that is killed at the n-th moment before or after something durable; tells whether it was."""
    child = os.fork()
    if child == 0:
        left = moment

        def tick():
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

        def ticking(function):
            def cut(*given, **named):
                tick()
                result = function(*given, **named)
                tick()
                return result

            return cut

        code = 1
        try:
            home = Home(folder, memory=DREAMS_ONLY)
            home.script(says(NEW), says(DONE))
            for name in ("fsync", "replace", "unlink", "link"):
                setattr(os, name, ticking(getattr(os, name)))
            home.database.connection.set_exec_trace(
                lambda _, statement, __: statement.startswith("SELECT") or tick() or True
            )
            home.chores.run(NIGHT)
            code = 0
        finally:
            os._exit(code)
    _, end = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(end) in {0, -signal.SIGKILL}
    return os.WIFSIGNALED(end)


@pytest.mark.sweep
def test_killed_at_every_step_nothing_is_lost_or_done_twice(tmp_path):
    outcomes = set()
    home = Home(tmp_path / "evening", memory=DREAMS_ONLY, provider=Scripted())
    home.chores.run(EVENING)
    tasks(home)
    home.note("the fuse of the pump is 3 A", EVENING)
    home.database.close()
    for moment in sweep.steps(8):
        folder = shutil.copytree(tmp_path / "evening", tmp_path / str(moment))
        cut = _cut_off_at(moment, folder)
        outcomes.add(_after_the_cut(folder))
        if not cut:
            break
    assert moment > 30
    assert outcomes == {(False, False), (True, False), (True, True)}


def _after_the_cut(folder):
    """Look at a home that was cut off at night, and dream again; returns what the first night had done."""
    home = Home(folder, memory=DREAMS_ONLY, provider=Scripted())
    text = home.page.read_text()
    written, tidied = "3 A" in text, len(home.pulse.items()) == 2
    assert written or text == OLD
    if Marks(home.database).get("dream.day") == "2026-03-02":
        assert home.chores.run(NIGHT + HOUR) == []  # what was begun waits for the next night
    home.script(*([] if written else [says(NEW)]), *([] if tidied else [says(DONE)]))
    home.day(NIGHT + DAY, 0.1)
    assert home.provider._answers == []
    assert "3 A" in home.page.read_text()
    assert [item.text for item in home.pulse.items()] == ["order filters", "paint the shed"]
    assert [path.read_text() for path in versions.list_versions(folder)] == [OLD]
    home.database.close()
    return written, tidied


def test_an_answer_that_only_repeats_itself_is_no_memory(home):
    home.chores.run(EVENING)
    home.note("the pump was checked", EVENING)
    stuck = OLD + "- the pump was checked " + "and the pump was checked " * 200
    with (
        ModelServer([reply(stuck)]) as server,
        closing(ModelProvider(ModelConfig(base_url=server.url, name="m"))) as model,
    ):
        home.provider = model
        home.start()
        assert home.chores.run(NIGHT)[0].endswith("the model's answer was cut off")
    assert home.page.read_text() == OLD


def test_one_of_two_chats_dreams(home):
    home.chores.run(EVENING)
    home.note("the pump was checked", EVENING)
    marks = home.chores._marks
    last = marks.get("dream.day")
    assert [marks.moved("dream.day", last, "2026-03-02") for _ in range(2)] == [True, False]


def test_forgetting_a_word_keeps_the_other_entries_of_earlier_versions(home):
    old = b"# Memory\n\n- the fuse of the pump is 3 A\n- pump\n"
    path = versions.keep_version(home.config.home, "MEMORY.md", old, b"", NIGHT)
    versions.log_dream(home.config.home, NIGHT, "written anew; dropped: pump; the pump is blue")
    versions.forget_versions(home.config.home, "pump")
    assert path.read_bytes() == b"# Memory\n\n- the fuse of the pump is 3 A\n"
    assert versions.read_dream_log(home.config.home) == [
        f"{NIGHT:%F %R} written anew; dropped: [forgotten]; the pump is blue"
    ]


@pytest.mark.parametrize(("fill", "old"), [("x", False), ("x" * 5, False), ("", True)])
def test_forgetting_a_long_line_takes_its_beginning_out_of_the_log(home, fill, old):
    """Also where the cut falls on a blank, and what an earlier version cut two characters later."""
    line = f"the safe behind the {fill} clock opens with the number 1234 {'and so on ' * 9}".strip()
    quoted = f"{line[:60]}…" if old else versions.quote_lines([line])
    versions.log_dream(home.config.home, NIGHT, f"written anew; dropped: {quoted}; the pump is blue")
    versions.forget_versions(home.config.home, line)
    (said,) = versions.read_dream_log(home.config.home)
    assert said.partition("dropped: ")[2] == "[forgotten]…; the pump is blue"


def test_what_is_too_long_is_said_until_a_model_has_heard_it(tmp_path):
    page = tmp_path / "workspace/memory/MEMORY.md"
    page.parent.mkdir(parents=True)
    page.write_text("- the pump is on 17\n" * 600)

    def asked(url):
        with closing(App(Config(tmp_path, ModelConfig(base_url=url, name="m", retries=0)), SimBoard())) as app:
            app.dispatcher.answer(Inbound("terminal", "good morning"))

    asked("")  # the matcher cannot condense
    with ModelServer([status(401, "no"), reply("Hello."), reply("Hello.")]) as server:
        for _ in range(3):
            asked(server.url)
        said = [f"{received.body['messages'][-1]['content']}" for received in server.requests]
    assert ["12000 characters, 10000 are enough" in text for text in said] == [True, True, False]

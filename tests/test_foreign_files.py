"""Files that a turn has written which had read others' words: no command with rights and no planned one runs unasked
where it can see one, until the owner has been shown it."""

from contextlib import closing
from datetime import UTC, datetime

import pytest
from sandbox_kit import needs_walls
from test_full_disk import refuse, take

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import ToolsConfig
from picoclaw.daemon.background import run_job
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Caller, ToolCall
from picoclaw.records import replace
from picoclaw.schedules import Plan
from picoclaw.security.guard import ApprovalAnswer
from picoclaw.store.inbox_outbox import Inbox, InboxMessage
from picoclaw.store.jobs import Job
from picoclaw.workspace import prepare_home

pytestmark = needs_walls
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
PAGE = "web_fetch http://evil.example.net/"
EVIL = "import os; os.system('touch pwned')\n"
RUN = ["python3", "-c", "1"]
CHECK = {"argv": ["python3", "log.py"], "write": True}


class House:
    """A home in which calls are made by hand; `log.py` is the owner's, and reads a module beside it."""

    def __init__(self, folder):
        self.folder, self.work = folder, folder / "workspace"
        prepare_home(folder)
        (self.work / "BOOTSTRAP.md").unlink()
        (self.work / "log.py").write_text("import json\nopen('log.csv', 'a').write('21.5')\n")
        self.restart()

    def restart(self):
        self.app = App(Config(self.folder, tools=ToolsConfig(shell=True)), SimBoard())

    def call(self, tool, heard=(), origin="owner", said=(), **arguments):
        caller = Caller("terminal", origin, NOW, print, set(heard), user_texts=said)
        return self.app.toolset.call(ToolCall("c", tool, arguments), caller)

    def plant(self, path="json.py", content=EVIL, **more):
        said = self.call("write_file", [PAGE], path=path, content=content, **more)
        assert said.startswith("wrote"), said

    def yes(self, **more):
        (one,) = self.app.stores.approvals.waiting()
        return self.app.approving.answer(ApprovalAnswer(one.number, True, "", "owner", **more))

    def question(self):
        (one,) = self.app.stores.approvals.waiting()
        return f"{one.question} {one.why}"

    @property
    def is_run(self):
        return (self.work / "pwned").exists()


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with closing(House(tmp_path / "home")) as made:
        yield made


House.close = lambda self: self.app.close()


def due(house, line, **rights):
    return run_job(house.app, Job(1, "terminal", line, Plan("at"), "command", **rights))


PLANTED = [
    ("json.py", ["python3", "log.py"]),
    ("sitecustomize.py", ["env", "PYTHONPATH=.", "python3", "-c", "1"]),
    ("Makefile", ["make"]),
    ("backup.sh", ["sh", "backup.sh"]),
    ("my script.sh", ["sh", "my script.sh"]),
    ("deep/down/json.py", ["python3", "log.py"]),
]


@pytest.mark.parametrize(("name", "argv"), PLANTED)
@pytest.mark.parametrize("rights", [{"write": True}, {"write": True, "network": True}])
@pytest.mark.parametrize("origin", ["owner", "web", "cron"])
def test_a_clean_turn_asks_before_it_runs_a_command_that_can_see_one(house, name, argv, rights, origin):
    house.plant(name)
    house.restart()
    said = house.call("exec", origin=origin, said=(f"run {' '.join(argv)}",), argv=argv, **rights)
    assert "waits for the owner's yes" in said
    assert name in house.question()
    assert "evil.example.net" in house.question()
    assert not house.is_run


BESIDE = [
    ["mkdir", "-p", "a/b"], ["touch", "x"], ["rm", "-f", "old"], ["cp", "log.py", "copy.py"], ["mv", "log.py", "b.py"],
    ["tar", "czf", "b.tgz", "log.py"], ["chmod", "444", "log.py"], ["ls", "-la"], ["sort", "log.py", "-o", "s.txt"],
]  # fmt: skip
LOADS = [
    ["python3", "log.py"], ["sh", "-c", "touch x"], ["cp", "-r", ".", "/tmp/x"], ["mv", "json.py", "b.py"],
    ["cp", "json.py", "b.py"], ["tar", "czf", "b.tgz", "."], ["tar", "cIf", "./json.py", "b.tar", "log.py"],
    ["tar", "cf", "b.tar", "--use-compress-program=./json.py", "log.py"], ["tar", "-T", "notes.md", "-cf", "b.tar"],
    ["sort", "--compress-program=./json.py", "log.py"], ["git", "status"], ["git", "-c", "alias.x=!sh json.py", "x"],
    ["find", ".", "-exec", "sh", "{}", ";"], ["xargs", "sh"], ["env", "sh"], ["./touch", "x"],
    ["ln", "-s", "notes.md", "b"],
    ["cat", "deep/../notes.md"], ["make"],
]  # fmt: skip


@pytest.mark.parametrize("argv", [*BESIDE, *LOADS])
def test_a_program_that_loads_nothing_is_asked_about_only_for_what_it_names(house, argv):
    house.plant()
    house.plant("notes.md", "hello")
    (house.work / "deep").mkdir(exist_ok=True)
    assert ("waits for the owner's yes" in house.call("exec", argv=argv, write=True)) is (argv in LOADS)


@pytest.mark.parametrize(
    ("name", "argv", "asks"),
    [
        ("plan.md", ["git", "commit", "-m", "x"], False),
        ("plan.md", ["git", "add", "-A"], False),
        ("plan.md", ["git", "mv", "plan.md", "conftest.py"], True),
        ("conftest.py", ["git", "commit", "-m", "x"], True),
        (".gitattributes", ["git", "add", "-A"], True),
        ("plan.md", ["python3", "log.py"], True),
        ("plan.md", ["mkdir", "reports"], False),
    ],
)
def test_a_text_counts_where_it_is_named_or_could_be_loaded(house, name, argv, asks):
    house.plant(name, "hello")
    assert ("waits for the owner's yes" in house.call("exec", argv=argv, write=True)) is asks


def test_a_command_that_only_looks_is_not_asked_about(house):
    house.plant()
    assert "exit code" in house.call("exec", argv=["ls"])
    assert not house.app.stores.approvals.waiting()


@pytest.mark.parametrize("rights", [{}, {"write": True}, {"network": True}, {"write": True, "network": True}])
def test_a_planned_command_asks_when_it_is_due_and_is_done_after_a_yes(house, rights):
    assert due(house, "python3 log.py", write=True).good
    house.plant("other.py", "x = 1")
    outcome = due(house, "seq 42 42", **rights)
    assert (outcome.good, "waits for the owner's yes" in outcome.text) == (False, True)
    assert "other.py" in house.question()
    assert house.yes().made.outcome.startswith("42")
    assert due(house, "seq 42 42", **rights).text == "42"


def test_a_planted_module_is_not_run_by_plan(house):
    house.plant()
    assert not due(house, "python3 log.py", write=True, network=True).good
    assert not house.is_run


def test_a_call_of_exec_that_is_planned_asks_too(house):
    house.plant()
    job = Job(1, "terminal", 'exec {"argv": ["python3", "log.py"]}', Plan("at"), "tool")
    assert "waits for the owner's yes" in run_job(house.app, job).text


def test_what_was_allowed_for_good_is_not_allowed_beside_a_planted_file(house):
    (house.folder / "policy.toml").write_text('[effects]\nexec = "ask"\n')
    house.call("exec", **CHECK)
    assert house.yes(always=True).good
    assert "exit code 0" in house.call("exec", **CHECK)
    house.plant()
    assert "waits for the owner's yes" in house.call("exec", **CHECK)
    assert "json.py" in house.question()
    assert not house.is_run


def test_a_yes_is_none_to_what_was_planted_while_it_waited(house):
    house.call("exec", [PAGE], **CHECK)
    house.plant()
    outcome = house.yes()
    assert (outcome.good, "has changed since the question" in outcome.text) == (False, True)
    assert not house.is_run


def test_a_yes_takes_the_files_it_shows_for_the_owners_as_they_are(house):
    house.plant("notes.txt", "hello")
    house.call("exec", **CHECK)
    assert house.yes().good
    assert "exit code 0" in house.call("exec", argv=RUN, write=True)
    house.plant("notes.txt", "another", mode="replace")
    assert "waits" in house.call("exec", argv=RUN, write=True)


def test_a_file_that_changes_while_a_yes_waits_makes_it_void(house):
    house.plant("notes.txt", "hello")
    house.call("exec", **CHECK)
    house.plant("notes.txt", "another", mode="replace")
    assert not house.yes().good


@pytest.mark.parametrize("count", [25, 450])
def test_one_yes_is_enough_for_very_many(house, count):
    for number in range(count):
        house.app.stores.foreign_files.add(str(house.work / f"f{number}.py"), [PAGE])
        (house.work / f"f{number}.py").write_text(EVIL)
    assert "waits" in house.call("exec", argv=RUN, write=True)
    assert house.yes().good
    assert "exit code 0" in house.call("exec", argv=RUN, write=True)


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_what_is_added_to_the_owners_file_counts_as_well(house, tool):
    given = (
        {"content": EVIL, "mode": "append"} if tool == "write_file" else {"old_text": "import json", "new_text": EVIL}
    )
    house.call(tool, [PAGE], path="log.py", **given)
    assert "waits" in house.call("exec", **CHECK)
    assert not house.is_run


def test_what_the_owner_replaces_deletes_or_has_said_yes_to_is_theirs(house):
    house.plant()
    assert "wrote" in house.call("write_file", path="json.py", content="x = 1", mode="replace")
    assert "exit code 0" in house.call("exec", argv=RUN, write=True)
    house.plant("Makefile")
    (house.work / "Makefile").unlink()
    assert "exit code 0" in house.call("exec", argv=RUN, write=True)
    (house.folder / "policy.toml").write_text('[effects]\nwrite = { tainted = "ask" }\n')
    house.call("write_file", [PAGE], path="shown.py", content="x = 1")
    assert house.yes().good
    assert "exit code 0" in house.call("exec", argv=RUN, write=True)


@pytest.mark.parametrize(
    ("more", "asks"), [({"origin": "guest"}, True), ({"foreign": ("a message forwarded from M",)}, True), ({}, False)]
)
def test_a_file_that_somebody_else_has_sent_counts_as_well(house, more, asks):
    (house.work / "inbox").mkdir(exist_ok=True)
    (house.work / "inbox/tool.py").write_text(EVIL)
    arrived = InboxMessage("telegram:5", "see this", "telegram:7", attachments=("inbox/tool.py",), external="1", **more)
    Inbox(house.app.stores.database).put(arrived)
    house.restart()
    assert ("waits for the owner's yes" in house.call("exec", **CHECK)) is asks


def test_what_cannot_be_remembered_is_not_written(house):
    house.plant("first.txt")
    refuse(house.app.stores.database, "read-only")
    assert house.call("write_file", [PAGE], path="json.py", content=EVIL).startswith("error: ")
    take(house.app.stores.database)
    assert not (house.work / "json.py").exists()


def test_while_a_command_with_rights_runs_nothing_is_written_beside_it_unasked(house):
    started = house.call("exec", argv=["sleep", "20"], write=True, background=True)
    assert "command 1 runs" in started, started
    assert "waits for the owner's yes" in house.call("write_file", [PAGE], path="json.py", content=EVIL)
    house.call("process", action="kill", number=1)
    house.plant()


def test_the_owner_may_switch_it_off(house):
    (house.folder / "policy.toml").write_text('[effects]\nexec = { tainted = "allow" }\n')
    house.plant("notes.txt", "hello")
    assert "exit code 0" in house.call("exec", **CHECK)


def test_a_line_of_shell_that_was_planned_is_run_only_where_lines_of_shell_are(house):
    line = "touch one && touch two"
    assert due(house, line, write=True).good
    house.app.close()
    house.app = App(replace(house.app.config, tools=ToolsConfig()), SimBoard())
    outcome = due(house, line, write=True)
    assert (outcome.good, "shell = true" in outcome.text) == (False, True)


def test_a_planned_command_has_no_more_than_its_rights(house):
    outcome = due(house, "touch made")
    assert (outcome.good, (house.work / "made").exists()) == (False, False)
    assert due(house, "touch made", write=True).good
    assert (house.work / "made").exists()

"""A yes to a call is none to another: what it means may have changed between the question and the answer."""

from contextlib import closing
from datetime import UTC, datetime

import pytest
from sandbox_kit import needs_walls

from picoclaw.app import App
from picoclaw.automation import rules
from picoclaw.config import Config
from picoclaw.config.tables import ToolsConfig
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Caller, ToolCall
from picoclaw.outputs.client import OutputsClient
from picoclaw.schedules import Plan
from picoclaw.security.guard import ApprovalAnswer
from picoclaw.security.sandbox import kill_running_commands
from picoclaw.store.jobs import Job as Kept
from picoclaw.workspace import find_onboarding, prepare_home

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
SKILL = "---\nname: tank\ndescription: the tank\n---\n{}\n"
DAILY = {"when": "every day at 6:00", "notify": "water"}


class House:
    """A home without a model, in which calls are made by hand."""

    def __init__(self, folder):
        self.folder = folder
        prepare_home(folder)
        (folder / "workspace/BOOTSTRAP.md").unlink()
        self.restart()

    def restart(self):
        self.app = App(Config(self.folder, tools=ToolsConfig(shell=True)), SimBoard())

    def call(self, tool, heard=(), /, origin="owner", said=(), **arguments):
        caller = Caller("terminal", origin, NOW, print, set(heard), user_texts=said)
        return self.app.toolset.call(ToolCall("c", tool, arguments), caller)

    def page(self, name, text=None):
        path = self.folder / "workspace" / name
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return path.read_text()

    def rules(self):
        return list(rules.load_rules(self.folder, NOW, "").rules)


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    made = House(tmp_path / "home")
    yield made
    kill_running_commands()
    made.app.close()


class Rule:
    """A rule that is named by its number in the list."""

    def ask(self, house):
        for name in ("a", "b", "c"):
            rules.add_rule(house.folder, name, DAILY, NOW)
        return house.call("rule", action="remove", name="2")

    def change(self, house):
        rules.remove_rule(house.folder, "a")

    def kept(self, house):
        return house.rules() == ["b", "c"]


class Note:
    """A note that is named by its line."""

    def ask(self, house):
        house.page("MEMORY.md", "- one\n- two\n- three\n")
        return house.call("memory_forget", ["x"], text="MEMORY.md:2")

    def change(self, house):
        house.page("MEMORY.md", "- two\n- three\n")

    def kept(self, house):
        return house.page("MEMORY.md") == "- two\n- three\n"


class Skill:
    """A skill that the owner writes meanwhile."""

    def ask(self, house):
        house.page("skills/tank/SKILL.md", SKILL.format("old"))
        return house.call("skill_update", name="tank", text="new")

    def change(self, house):
        house.page("skills/tank/SKILL.md", SKILL.format("the owner's"))

    def kept(self, house):
        return "the owner's" in house.page("skills/tank/SKILL.md")


class Page:
    """A page that the owner writes meanwhile."""

    def ask(self, house):
        house.page("AGENTS.md", "old")
        return house.call("write_file", path="AGENTS.md", content="new", mode="replace")

    def change(self, house):
        house.page("AGENTS.md", "the owner's")

    def kept(self, house):
        return house.page("AGENTS.md") == "the owner's"


class Job:
    """A job that is another one meanwhile."""

    def ask(self, house):
        house.call("cron", action="add", message="feed the cat", at_seconds=3600)
        return house.call("cron", ["x"], action="remove", job=1)

    def change(self, house):
        house.call("cron", action="update", job=1, message="turn the boiler off")

    def kept(self, house):
        return [job.payload for job in house.app.stores.jobs.all()] == ["turn the boiler off"]


SWAPS = [Rule(), Note(), Skill(), Page(), Job()]


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: type(swap).__name__)
@pytest.mark.parametrize("changed", [True, False])
def test_what_has_changed_since_the_question_is_not_done(house, swap, changed):
    assert "number 1" in swap.ask(house)
    if changed:
        swap.change(house)
    outcome = house.app.approving.answer(ApprovalAnswer(1, True, "", "owner"))
    assert outcome.good is not changed
    assert ("changed since the question" in outcome.text) is changed
    assert swap.kept(house) is changed


@pytest.mark.parametrize(
    ("swap", "shown"), [(Note(), "MEMORY.md: two"), (Job(), "feed the cat"), (Rule(), "no longer: b")]
)
def test_what_a_number_or_a_line_names_is_shown(house, swap, shown):
    swap.ask(house)
    assert shown in house.app.stores.approvals.get(1).question


@needs_walls
def test_a_line_for_a_command_reaches_no_later_command_of_its_number(house):
    assert "command 1 runs" in house.call("exec", argv=["cat"], write=True, background=True)
    assert "number 1" in house.call("process", ["x"], action="write", number=1, text="hello")
    with closing(house.app):
        house.restart()
    assert "command 1 runs" in house.call("exec", argv=["cat"], write=True, background=True)
    assert not house.app.approving.answer(ApprovalAnswer(1, True, "", "owner")).good
    assert "hello" not in house.call("process", action="poll", number=1, wait=0.2)


PAGE = ("what does the page say?",)
REMINDER = {"action": "add", "message": "feed the cat", "at_seconds": 3600}


@pytest.mark.parametrize(
    ("said", "asked_for", "done"),
    [
        (PAGE, {"action": "remove", "job": 1, "message": "page"}, False),
        (PAGE, {"action": "run", "job": 1, "message": "page"}, False),
        (PAGE, {"action": "update", "job": 1, "message": "page"}, False),
        (("read page 1",), {"action": "update", "job": 1, "kind": "turn"}, False),
        (("remove reminder 1",), {"action": "remove", "job": 1}, True),
        (("let reminder 1 say walk the dog",), {"action": "update", "job": 1, "message": "walk the dog"}, True),
        (("move reminder 1 to 18:30",), {"action": "update", "job": 1, "at": "18:30"}, True),
    ],
)
def test_a_word_of_the_owners_vouches_for_the_job_that_it_names_alone(house, said, asked_for, done):
    house.call("cron", **REMINDER)
    assert ("waits for the owner's yes" in house.call("cron", ["a page"], said=said, **asked_for)) is not done


@pytest.mark.parametrize(("task", "said", "done"), [("1", PAGE, False), ("1", ("task 1 is done",), True)])
def test_nor_for_any_task(house, task, said, done):
    house.call("pulse", action="add", text="pay the bill")
    given = {"action": "complete", "task": task, "text": "" if done else "page"}
    assert house.call("pulse", ["a page"], said=said, **given).startswith("completed") is done


@pytest.mark.parametrize("action", ["remove", "disable"])
def test_a_guest_ends_reminders_and_no_jobs(house, action):
    house.call("cron", **REMINDER)
    house.call("cron", action="add", message="look at the tank", kind="turn", every_seconds=3600)
    assert "only the owner" in house.call("cron", origin="guest", action=action, job=2)
    assert "error" not in house.call("cron", origin="guest", action=action, job=1)


def test_the_owner_on_the_page_is_the_owner(house):
    assert "is kept" in house.call("cron", origin="web", action="add", message="look", kind="turn", every_seconds=3600)
    house.page("HEARTBEAT.md", "- nothing\n")
    assert "wrote" in house.call("write_file", origin="web", path="HEARTBEAT.md", content="- look\n", mode="replace")


@pytest.mark.parametrize(
    ("command", "name", "asks"),
    [
        ("sh backup.sh", "backup.sh", True),
        ("cd old && sh backup.sh >> log", "old/Backup.sh", True),
        ("sh 'tools/backup.sh'", "tools/backup.sh", True),
        ("sh backup.sh", "notes.txt", False),
    ],
)
def test_what_a_job_runs_is_not_written_by_a_turn_that_strangers_lead(house, command, name, asks):
    house.app.stores.jobs.add(Kept(0, "terminal", command, Plan("at", anchor=2e9), "command"))
    given = {"path": name, "content": "echo", "mode": "replace"}
    assert ("waits" in house.call("write_file", ["a page"], **given)) is asks
    assert "wrote" in house.call("write_file", **given)


@pytest.mark.parametrize("argv", [["echo", "x" * 300], ["echo", "a=" + "x" * 300], ["echo", "x/" * 3000]])
@needs_walls
def test_a_long_word_is_no_file(house, argv):
    assert "exit code 0" in house.call("exec", argv=argv, write=True)


@pytest.mark.parametrize(("length", "answer"), [(59_000, "number 1"), (60_000, "in parts"), (3_000_000, "in parts")])
def test_nobody_is_asked_about_more_than_a_person_reads(house, length, answer):
    given = {"path": "AGENTS.md", "content": "x" * length, "mode": "replace"}
    assert answer in house.call("write_file", **given)
    assert len(house.app.stores.approvals.waiting()) == (length < 60_000)


@pytest.mark.parametrize(("origin", "who"), [("owner", "owner"), ("web", "owner"), ("guest", "user"), ("cron", "cron")])
def test_an_output_knows_who_asks_by_the_word_of_its_declaration(tmp_path, monkeypatch, origin, who):
    asked = []
    monkeypatch.setattr(OutputsClient, "_ask", lambda _, given: asked.append(given) or {"text": "on"})
    OutputsClient(tmp_path, lambda: "sim").set("pump", "on", 5, origin)
    assert asked[0]["who"] == who


FOREIGN_SKILL = "mkdir -p {0}/evil; printf -- '---\\nname: evil\\ndescription: d\\n---\\nx' > {0}/evil/SKILL.md"
MAKES = [
    "mkdir prompts; echo x > prompts/untrusted.md",
    FOREIGN_SKILL.format("skills"),
    FOREIGN_SKILL.format(".agents/skills"),
    f"mv .agents aside; {FOREIGN_SKILL.format('.agents/skills')}",
    "echo x > BOOTSTRAP.md",
    "rm -f BOOTSTRAP.md; mv try.sh BOOTSTRAP.md",
    "rm -f AGENTS.md; echo x > AGENTS.md",
    "ln -s . prompts; echo x > untrusted.md",
]


@pytest.mark.parametrize("line", MAKES)
@pytest.mark.parametrize("there", [False, True])
@needs_walls
def test_no_command_makes_a_page_that_instructs_later_turns(house, line, there):
    work = house.folder / "workspace"
    for name in ("prompts", "skills", ".agents/skills"):
        if there:
            (work / name).mkdir(parents=True, exist_ok=True)
    (work / "AGENTS.md").unlink()
    house.page("try.sh", f"{line}\ntouch made\n")
    assert "exit code 0" in house.call("exec", argv=["sh", "try.sh"], write=True)
    assert (work / "made").exists()
    assert not [*work.glob("prompts/*"), *work.glob("skills/*"), *work.glob(".agents/skills/*")]
    assert not [name for name in ("BOOTSTRAP.md", "AGENTS.md") if (work / name).exists() and house.page(name)]
    assert not find_onboarding(house.folder)
    house.app.library.refresh()
    assert "evil" not in house.app.library.skills

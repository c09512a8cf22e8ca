"""Jobs with a real database, and the tool that plans them: each chat has its own, and what cannot be done is said."""

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from rows import each_row

from picoclaw.automation.clock import read_boot_id
from picoclaw.automation.jobs import JobContext, decide_job
from picoclaw.daemon.delivery import open_chat
from picoclaw.errors import ToolError
from picoclaw.messages import Caller, ToolCall
from picoclaw.outputs.client import OutputsClient
from picoclaw.schedules import BoardZone, Plan
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.store.jobs import Job, JobDecision, Jobs
from picoclaw.tools.cron import CronTool, move_jobs_to_zone
from picoclaw.tools.outputs import OutputTool
from picoclaw.tools.registry import Toolset, collect_tools

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MONO = 500.0
LISTED = '`picoclaw cron list`, or "list my reminders" in the chat, shows what there is'
ONLY_THE_OWNER = (
    "error: only the owner can plan jobs, in their own chat or by `picoclaw cron add`; a reminder can be added here"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


@pytest.fixture
def database(path):
    made = Database(path)
    yield made
    made.close()


@pytest.fixture
def jobs(database):
    return Jobs(database)


def once(text, due=NOON, session="home", **more):
    return Job(0, session, text, Plan("at", anchor=due.timestamp()), **more)


# --- the store ---


def test_a_job_comes_back_as_it_was_kept(jobs):
    plan = Plan("cron", "30 7 * * 1-5", "Europe/Berlin", 5.5)
    job = Job(0, "home", "tea", plan, "command", "skip", "change", False, "boot", 1.5, 2.5, ((1.0, 2.0), (3.0, 4.5)), 7)
    job = job._replace(write=True, network=True)
    job = job._replace(
        last_slot="s",
        last_run=8.5,
        last_status="failed",
        last_error="e",
        failures=3,
        told="t",
        claimed="p",
        paused=((5.5, 6.5),),
    )
    number = jobs.add(job)
    assert jobs.all() == [job._replace(number=number)]
    assert jobs.get("home", number) == job._replace(number=number)
    assert jobs.get("shed", number) is None


def test_a_chat_drops_and_changes_its_own_only(jobs):
    number = jobs.add(once("tea"))
    assert not jobs.remove("shed", number)
    assert not jobs.remove("home", number + 1)
    assert jobs.of("shed") == []
    assert jobs.change("shed", number, lambda job: job._replace(payload="coffee")) is None
    assert jobs.change("home", number, lambda job: job._replace(payload="coffee")).payload == "coffee"
    assert jobs.get("home", number).payload == "coffee"
    assert jobs.remove("home", number)
    assert not jobs.remove("home", number)


def test_a_number_is_never_used_again(jobs):
    first = jobs.add(once("tea"))
    jobs.remove("home", first)
    assert jobs.add(once("coffee")) == first + 1


def test_what_is_asked_again_and_again_is_one_job_that_counts_its_failures(jobs):
    asked = Job(0, "home", "first", Plan("at", "rule hot", anchor=1.0), kind="turn")
    assert jobs.renew(asked)
    [job] = jobs.all()
    failed = job._replace(enabled=False, failures=2, last_status="failed", last_error="no model")
    jobs.change("home", job.number, lambda _: failed)
    again = asked._replace(session="shed", payload="second", plan=asked.plan._replace(anchor=2.0))
    assert jobs.renew(again)
    assert jobs.all() == [again._replace(number=job.number, failures=2, last_status="failed", last_error="no model")]
    jobs.change("shed", job.number, lambda job: job._replace(claimed="somebody"))
    assert not jobs.renew(asked)
    assert jobs.renew(asked._replace(plan=Plan("at", "rule cold")))
    assert len(jobs.all()) == 2


def test_halves_of_characters_are_replaced(jobs):
    jobs.add(once("tea\udfff\ud83d", session="a\ud800", last_error="\ud800"))
    assert [(job.session, job.payload, job.last_error) for job in jobs.of("a?")] == [("a?", "tea??", "?")]


def test_what_is_decided_is_kept_whole_or_not_at_all(jobs, database):
    for text in ("a", "b"):
        jobs.add(once(text))

    def broken(job):
        if job.payload == "b":
            raise ToolError("no")
        return JobDecision(None, "said", 5.0)

    with pytest.raises(ToolError):
        jobs.decide(broken)
    assert len(jobs.all()) == 2
    assert Outbox(database).waiting() == []
    jobs.decide(lambda job: JobDecision(None, f"said {job.payload}", 5.0) if job.payload == "a" else None)
    assert [job.payload for job in jobs.all()] == ["b"]
    assert [letter[1:4] for letter in Outbox(database).waiting()] == [("home", "said a", 5.0)]


def test_the_number_of_a_letter_is_never_used_again(database):
    outbox = Outbox(database)
    first = outbox.put("home", "a", 1.0)
    outbox.strike(outbox.waiting()[0])
    assert outbox.put("home", "b", 1.0) == first + 1


OTHER = """
import sys
from pathlib import Path
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox
Outbox(Database(Path(sys.argv[1]))).attend(sys.argv[2])
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_chat(path, session):
    """A chat in a process of its own; leaves when the block does."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path), session], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"open\n"
        yield other
        other.kill()


def test_a_letter_is_left_to_its_own_chat_where_that_is_open(database, path):
    outbox, told, rung = Outbox(database), [], []
    with open_chat(outbox, "porch", lambda letter: told.append(letter.text), lambda: rung.append(1)) as deliver:
        outbox.put("kitchen", "nobody is there", 1.0)
        deliver()
        with another_chat(path, "kitchen"):
            for text, session in (
                ("for the kitchen", "kitchen"),
                ("for the porch", "porch"),
                ("for the attic", "attic"),
            ):
                outbox.put(session, text, 1.0)
            deliver()
            deliver()
            assert told == ["nobody is there", "for the porch", "for the attic"]
            assert len(rung) == 1
        deliver()
        assert told[3:] == ["for the kitchen"]  # which has ended without a word
    assert (outbox.elsewhere(), len(rung)) == (frozenset(), 2)


def test_of_two_processes_with_one_chat_each_may_tell(database, path):
    outbox, told = Outbox(database), []
    with open_chat(outbox, "porch", lambda letter: told.append(letter.text), lambda: None) as deliver:
        with another_chat(path, "porch"):
            outbox.put("porch", "tea", 1.0)
            deliver()
        assert told == ["tea"]


def test_what_the_dead_have_open_is_taken_away(database, path):
    with another_chat(path, "kitchen"):
        pass
    outbox = Outbox(database)
    outbox.attend("porch")
    rows = "SELECT value FROM marks WHERE name GLOB 'chat.open *'"
    assert database.connection.execute(rows).fetchall() == [("porch",)]
    outbox.leave()
    assert database.connection.execute(rows).fetchall() == []


# --- the tool ---


@pytest.fixture
def cron(jobs):
    return tool_of(jobs)


def tool_of(jobs, guarded=None, **more):
    given = {"commands": True, "mono": lambda: MONO} | more
    effects = [] if guarded is None else guarded
    toolset = Toolset(
        [CronTool(lambda: jobs, given.pop("effects", lambda: effect_of), **given)],
        guard=lambda asked, _: effects.append(" ".join((asked.effect, *asked.other_effects))),
        journal=lambda *_: None,
        longest_result=10_000,
    )
    return lambda session="home", now=NOON, origin="owner", **given: toolset.call(
        ToolCall("1", "cron", given), Caller(session, origin, now, print)
    )


def effect_of(call):
    effects = {"sensor_read": "read", "output_set": "switch", "i2c": "actuate", "exec": "exec", "cron": "write"}
    if call.name not in effects:
        raise ToolError(f"there is no tool {call.name!r}")
    return effects[call.name]


def test_a_plan_for_longer_than_an_output_may_be_on_is_refused_when_it_is_made(jobs, tmp_path):
    (tmp_path / "outputs.toml").write_text(
        '[outputs.pump]\nline = "GPIO17"\nkind = "pump"\nlongest_on_s = 600\nconfirm = false\n'
    )
    outputs = Toolset(
        [OutputTool(OutputsClient(tmp_path, lambda: "sim"))], guard=print, journal=print, longest_result=1000
    )
    cron = tool_of(jobs, effects=lambda: outputs.effect)
    plan = {"action": "add", "kind": "tool", "at": "tomorrow 07:00"}
    for seconds, begins in ((1200, "error: pump was refused: rule 'longest_on'"), (600, "job 1 is kept")):
        call = {"action": "set", "name": "pump", "level": "on", "seconds": seconds}
        assert cron(**plan, message=f"output {json.dumps(call)}").startswith(begins)


ADD = {"action": "add", "message": "tea"}


@pytest.mark.parametrize(
    "given",
    [
        {"at_seconds": 600},
        {"at_seconds": "600", "at": ""},
        {"at": "12:10", "at_seconds": 0},
        {"at": " 12:10 ", "at_seconds": 0, "job": 0},
    ],
)
def test_a_reminder_is_kept(cron, given):
    assert cron(**ADD, **given).startswith("reminder 1 is kept for 12:10 (in 10 min): tea")
    assert cron(action="list") == "1: 12:10 (in 10 min) tea"
    assert cron("shed", action="list") == "no reminders"


@pytest.mark.parametrize("now", [datetime(2026, 11, 25, 12, 0).astimezone, datetime(2026, 7, 1, 12, 0).astimezone])
def test_a_reminder_beyond_a_change_of_clocks_is_told_at_its_hour(cron, board_clock, now):
    board_clock("Europe/Berlin")
    today = now()
    other = "2027-04-14" if today.month > 9 else "2026-12-14"
    said = cron(now=today, **ADD, at=f"{other} 09:00")
    assert f"{other} 09:00 (in " in said
    assert f"{other} 09:00 (in " in cron(now=today, action="list")


@pytest.mark.parametrize(
    ("session", "kind", "where"),
    [
        ("terminal", "reminder", "told in an open interactive `picoclaw chat`, else on Telegram or the page, late if there is none"),
        ("terminal", "turn", "done while `picoclaw run` or an interactive `picoclaw chat` runs"),
        ("telegram:7", "reminder", "told in this chat"),
        ("page:home", "reminder", "told in this chat"),
        ("telegram:7:3", "turn", "done by `picoclaw run`, and told in this chat"),
        ("telegraph", "reminder", "told in an open interactive `picoclaw chat`, else on Telegram or the page, late if there is none"),
    ],
)  # fmt: skip
def test_where_it_is_told_or_done_is_said(cron, session, kind, where):
    for said in (cron(session, **ADD, kind=kind, at_seconds=600), cron(session, action="run", job=1)):
        assert said.endswith(f"({where})")


SECOND_TWO_OCLOCK = datetime(2026, 10, 25, 2, 40, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)


@pytest.mark.parametrize(
    ("now", "given", "said", "ahead"),
    [
        (SECOND_TWO_OCLOCK, {"at": "02:50"}, "02:50 (in 10 min)", 600),
        (SECOND_TWO_OCLOCK.replace(fold=0), {"at": "02:50"}, "02:50 (in 10 min)", 600),
        (SECOND_TWO_OCLOCK.replace(fold=0), {"at_seconds": 3600}, "02:40 (in 1 h)", 3600),
        (SECOND_TWO_OCLOCK, {"at_seconds": 3600}, "03:40 (in 1 h)", 3600),
        (SECOND_TWO_OCLOCK.replace(fold=0), {"at": "03:10"}, "03:10 (in 1 h 30 min)", 5400),
        (SECOND_TWO_OCLOCK.replace(month=3, day=29, hour=1, fold=0), {"at_seconds": 7200}, "04:40 (in 2 h)", 7200),
        (SECOND_TWO_OCLOCK.replace(month=3, day=29, hour=1, fold=0), {"at": "02:30"}, "03:30 (in 50 min)", 3000),
    ],
)
def test_what_is_said_of_a_reminder_is_when_it_is_due(cron, jobs, now, given, said, ahead):
    """Also in the night when the clocks change."""
    assert cron(now=now, **ADD, **given).startswith(f"reminder 1 is kept for {said}: tea")
    [job] = jobs.of("home")
    assert job.plan.anchor - now.timestamp() == ahead
    assert cron(now=now, action="list") == f"1: {said} tea"


def test_a_moment_of_the_first_pass_is_past_in_the_second(cron):
    said = cron(now=SECOND_TWO_OCLOCK, **ADD, at="2026-10-25T02:50+02:00")
    assert said == "error: 2026-10-25 02:50 is in the past; it is 2026-10-25 02:40 now"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ADD, "the time is missing: give at_seconds, which must be more than 0, or at"),
        (ADD | {"at_seconds": 0}, "the time is missing: give at_seconds, which must be more than 0, or at"),
        (ADD | {"at_seconds": -5}, "argument 'at_seconds' is -5.0, outside 0 to 316224000"),
        (ADD | {"at_seconds": 1e12}, "argument 'at_seconds' is 1000000000000.0, outside 0 to 316224000"),
        (ADD | {"at_seconds": "nan"}, "argument 'at_seconds' must be a number"),
        (ADD | {"at_seconds": 5, "at": "18:00"}, "give either at_seconds or at, not both"),
        (ADD | {"at": "2020-01-01 08:00"}, "2020-01-01 08:00 is in the past; it is 2026-07-01 12:00 now"),
        (ADD | {"at": "2026-07-01 12:00"}, "2026-07-01 12:00 is in the past"),
        (ADD | {"at": "2046-01-01 08:00"}, "2046-01-01 08:00 is more than ten years ahead"),
        (ADD | {"at": "9999-12-31 23:59"}, "9999-12-31 23:59 is more than ten years ahead"),
        (ADD | {"at": "soon"}, "'soon' is not a time picoclaw knows"),
        ({"action": "add", "message": " ", "at_seconds": 5}, "message is missing"),
        ({"action": "remove", "job": 2**63}, "argument 'job' is 9223372036854775808, outside 0 to 1000000000"),
        ({"action": "remove", "job": -1}, "argument 'job' is -1, outside 0 to 1000000000"),
        ({"action": "remove", "job": 7}, f"this chat has no reminder 7; {LISTED}"),
        ({"action": "remove"}, f"this chat has no reminder 0; {LISTED}"),
    ],
)
def test_what_cannot_be_done_is_said(cron, given, said):
    assert cron(**given).startswith(f"error: {said}")
    assert cron(action="list") == "no reminders"


def test_another_chats_reminder_is_not_removed(cron):
    cron(**ADD, at_seconds=600)
    assert cron("shed", action="remove", job=1) == f"error: this chat has no reminder 1; {LISTED}"
    assert cron(action="remove", job=1) == "reminder 1 is removed: tea"


# --- jobs of other kinds, and what repeats


WEEKDAYS = {"cron_expr": "30 7 * * 1-5", "tz": "Berlin"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"message": "tea", **WEEKDAYS}, "reminder 1 is kept, every weekday at 07:30 (Europe/Berlin): Thu 2026-07-02 07:30, Fri 2026-07-03 07:30, "),
        ({"message": "tea", "cron_expr": "0 8 * * *", "at": "monday"}, "reminder 1 is kept, every day at 08:00 (UTC): Mon 2026-07-06 08:00, Tue 2026-07-07 08:00, "),
        ({"message": "tea", **WEEKDAYS, "at": "3 july"}, "reminder 1 is kept, every weekday at 07:30 (Europe/Berlin): Fri 2026-07-03 07:30, Mon 2026-07-06 07:30, "),
        ({"message": "tea", "cron_expr": "0 18 * * *", "at": "18:00"}, "reminder 1 is kept, every day at 18:00 (UTC): 18:00, Thu 2026-07-02 18:00, "),
        ({"message": "tea", "every_seconds": 5400}, "reminder 1 is kept, every 1 h 30 min: 13:30, 15:00, 16:30 (the first in 1 h 30 min): tea"),
        ({"message": "tea", "every_seconds": 3600, "at": "14:15"}, "reminder 1 is kept, every 1 h: 14:15, 15:15, 16:15 (the first in 2 h 15 min): tea"),
        ({"command": "df -h", "at_seconds": 60}, "job 1 is kept for 12:01 (in 1 min): df -h (done while"),
        ({"message": "look", "kind": "Turn", "at_seconds": 60}, "job 1 is kept for 12:01 (in 1 min): look (done while"),
        ({"message": 'output_set {"name": "valve"}', "kind": "tool", "cron_expr": "@hourly"}, "job 1 is kept, cron 0 * * * * (UTC): 13:00, 14:00, 15:00"),
        ({"message": "tea", "at": "18:30", "tz": "Tokyo"}, "reminder 1 is kept for Thu 2026-07-02 09:30 (in 21 h 30 min)"),
    ],
)  # fmt: skip
def test_what_is_planned_is_said_with_its_next_times(cron, given, said):
    assert cron(action="add", **given).startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"message": "tea", "every_seconds": 59}, "every 59 s is too often; the shortest interval is 60 s"),
        ({"message": "tea", "cron_expr": "61 * * * *"}, "'61 * * * *' is not a cron expression (bad minute); write five"),
        ({"message": "tea", "cron_expr": "0 0 30 2 *"}, "'0 0 30 2 *' is not a cron expression (bad day-of-month)"),
        ({"message": "tea", "cron_expr": "0 0 * * *", "at_seconds": 5}, "give cron_expr alone"),
        ({"message": "tea", "cron_expr": "0 0 * * *", "at": "soon"}, "'soon' is no time to leave something out"),
        ({"message": "tea", "cron_expr": "0 0 * * *", "tz": "Atlantis"}, "'Atlantis' is not a time zone picoclaw knows"),
        ({"message": "tea", "at_seconds": 5, "kind": "letter"}, "argument 'kind' must be one of 'reminder', 'turn', 'fresh', 'tool'"),
        ({"message": "tea", "at_seconds": 5, "tz": "Nowhere/Bad"}, "'Nowhere/Bad' is not a time zone picoclaw knows"),
        ({"message": "tea", "every_seconds": 60, "tz": "Nowhere/Bad"}, "'Nowhere/Bad' is not a time zone"),
        ({"message": "tea", "at_seconds": 5, "late": "later"}, "argument 'late' must be one of 'once', 'skip'"),
        ({"message": "tea", "at_seconds": 5, "deliver": "x" * 99}, "argument 'deliver' must be one of 'always', 'change', 'failure'"),
        ({"message": "i2c {}", "kind": "tool", "at_seconds": 5}, "i2c may need a person's yes, and nobody is there"),
        ({"message": "exec {}", "kind": "tool", "at_seconds": 5}, "exec may need a person's yes"),
        ({"message": "cron {}", "kind": "tool", "at_seconds": 5}, "cron may need a person's yes"),
        ({"message": "dance {}", "kind": "tool", "at_seconds": 5}, "there is no tool 'dance'"),
        ({"message": "output_set [1]", "kind": "tool", "at_seconds": 5}, "the arguments of output_set are not a JSON"),
        ({"message": "output_set {", "kind": "tool", "at_seconds": 5}, "the arguments of output_set are not a JSON"),
        ({"message": "output_set {}", "kind": "tool", "at_seconds": 5, "late": "once"}, "a tool is never called late"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_said(cron, given, said):
    assert cron(action="add", **given).startswith(f"error: {said}")
    assert cron(action="list") == "no reminders"


@pytest.mark.parametrize(
    ("given", "effect"),
    [
        ({"action": "list"}, "read"),
        ({"action": "get", "job": 1}, "read"),
        ({"action": "add", "message": "tea", "at_seconds": 5}, "plan"),
        ({"action": "add", "command": "ls", "at_seconds": 5}, "exec_planned"),
        ({"action": "add", "command": "ls", "rights": "write", "at_seconds": 5}, "exec_planned exec"),
        ({"action": "add", "command": "ls", "rights": "network", "at_seconds": 5}, "exec_planned network exec_network"),
        ({"action": "update", "job": 1, "command": "rm"}, "exec_planned"),
        (
            {"action": "update", "job": 1, "command": "rm", "rights": "write, network"},
            "exec_planned exec network exec_network",
        ),
        ({"action": "update", "job": 2, "at_seconds": 9}, "exec_planned exec"),
        ({"action": "run", "job": 2}, "exec_planned exec"),
        ({"action": "enable", "job": 2}, "exec_planned exec"),
        ({"action": "run", "job": 1}, "plan"),
        ({"action": "disable", "job": 2}, "plan"),
        ({"action": "remove", "job": 2}, "plan"),
    ],
)
def test_what_runs_a_command_passes_the_guard_of_commands(jobs, given, effect):
    effects = []
    cron = tool_of(jobs, effects)
    cron(action="add", message="tea", at_seconds=600)
    cron(action="add", command="ls", rights="write", at_seconds=600)
    cron(**given)
    assert effects[2:] == [effect]
    closed = tool_of(jobs, commands=False)(**given)
    assert closed.startswith("error: commands are switched off") == effect.startswith("exec")


def test_a_call_of_exec_that_is_planned_is_a_planned_command(jobs):
    effects = []
    cron = tool_of(jobs, effects, effects=lambda: lambda call: "read")
    said = cron(action="add", message='exec {"argv": ["df"]}', kind="tool", at_seconds=5)
    assert (effects, said.startswith("job 1 is kept")) == (["exec_planned"], True)


def test_a_planned_command_has_the_rights_it_was_given_and_no_others(cron, jobs):
    cron(action="add", command="df -h", at_seconds=60)
    cron(action="add", command="sh log.sh", rights="write", at_seconds=60)
    cron(action="add", command="sh push.sh", rights="network, write", at_seconds=60)
    assert [(job.write, job.network) for job in jobs.all()] == [(False, False), (True, False), (True, True)]
    assert cron(action="list").splitlines()[1:] == [
        "2: 12:01 (in 1 min) command (write): sh log.sh",
        "3: 12:01 (in 1 min) command (write, network): sh push.sh",
    ]
    cron(action="run", job=2)
    cron(action="update", job=3, at_seconds=90)
    cron(action="update", job=2, command="sh other.sh")
    assert [(job.write, job.network) for job in jobs.all()][1:] == [(False, False), (True, True), (True, False)]
    assert cron(action="add", command="ls", rights="root", at_seconds=60).startswith("error: rights must be")


@pytest.mark.parametrize("line", ["df -h > disk.txt", "cd old && ls", "sh -c 'touch x'", "echo `id`"])
@pytest.mark.parametrize("shell", [False, True])
def test_a_line_of_shell_is_planned_only_where_the_owner_lets_one_be_run(jobs, line, shell):
    effects = []
    said = tool_of(jobs, effects, shell=shell)(action="add", command=line, at_seconds=60)
    assert (said.startswith("job 1 is kept"), bool(jobs.all()), bool(effects)) == (shell, shell, shell)


@pytest.mark.parametrize("origin", ["cron", "heartbeat"])
def test_what_no_person_asked_for_plans_reminders_only(cron, origin):
    assert cron(origin=origin, action="add", message="tea", at_seconds=5).startswith("reminder 1 is kept")
    for given in ({"command": "ls"}, {"message": "look", "kind": "turn"}):
        said = cron(origin=origin, action="add", at_seconds=5, **given)
        assert said == ONLY_THE_OWNER


@pytest.mark.parametrize("origin", ["cron", "heartbeat"])
@pytest.mark.parametrize(
    "given",
    [
        {"action": "update", "job": 1, "kind": "turn"},
        {"action": "update", "job": 1, "kind": "tool", "message": "board_status {}"},
        {"action": "update", "job": 1, "command": "ls"},
        {"action": "update", "job": 2, "message": "worse"},
        {"action": "update", "job": 2, "every_seconds": 60},
        {"action": "enable", "job": 2},
        {"action": "run", "job": 2},
    ],
)
def test_what_no_person_asked_for_makes_no_job_of_a_reminder_and_sets_none_going(cron, jobs, origin, given):
    cron(action="add", message="tea", at_seconds=600)
    cron(action="add", message="look", at_seconds=600, kind="turn")
    before = jobs.all()
    assert cron(origin=origin, **given) == ONLY_THE_OWNER
    assert jobs.all() == before
    assert "is kept" in cron(origin=origin, action="update", job=1, message="coffee", at_seconds=60)


def test_a_time_of_day_means_nothing_before_the_date_is_set(cron, jobs):
    said = cron(action="add", message="tea", at="18:30", now=datetime(1970, 1, 1, 0, 5, tzinfo=UTC))
    assert said == "error: the date was never set, the clock says 1970-01-01 00:05; give at_seconds"
    assert jobs.all() == []


def test_intervals_go_by_the_clock_that_nobody_can_set_and_times_of_day_by_the_date(cron, jobs):
    for given in ({"at_seconds": 60}, {"every_seconds": 60}, {"at": "18:30"}, {"cron_expr": "0 0 * * *"}):
        cron(action="add", message="tea", **given)
    here = read_boot_id()
    assert [(job.boot, job.mono) for job in jobs.all()] == [(here, MONO + 60), (here, MONO + 60), ("", 0.0), ("", 0.0)]


def test_a_job_is_changed(cron, jobs):
    cron(action="add", message="tea", **WEEKDAYS)
    jobs.change("home", 1, lambda job: job._replace(failures=3, last_status="failed", last_error="no"))
    assert cron(action="list").endswith("tea [failed, 3 times in a row: no]")
    assert "Tokyo" in cron(action="update", job=1, tz="Tokyo")
    assert cron(action="update", job=1, message="coffee").endswith("coffee")
    job = jobs.get("home", 1)
    assert (job.plan.text, job.plan.zone, job.payload, job.failures) == ("30 7 * * 1-5", "Asia/Tokyo", "coffee", 0)
    cron(action="update", job=1, at_seconds=60, deliver="failure", late="skip")
    job = jobs.get("home", 1)
    assert (job.plan.kind, job.deliver, job.catch_up) == ("at", "failure", "skip")
    cron(action="update", job=1, command="ls")
    assert jobs.get("home", 1).kind == "command"
    assert cron(action="update", job=1, message="tea").startswith("error: job 1 runs a command: give command")


LATER = [
    ({"at": "13:00"}, {"at_seconds": 600}, "13:10"),
    ({"at_seconds": 1800}, {"at_seconds": 600}, "12:40"),
    ({"at": "friday 08:00"}, {"at_seconds": 86_400}, "Sat 2026-07-04 08:00"),
]


@pytest.mark.parametrize(("when", "later", "due"), LATER)
def test_a_reminder_is_put_off_from_when_it_is_due(cron, jobs, when, later, due):
    cron(action="add", message="tea", **when)
    counted = jobs.get("home", 1).mono
    assert cron(action="snooze", job=1, **later).startswith(f"reminder 1 is kept for {due}")
    assert jobs.get("home", 1).mono == (counted + later["at_seconds"] if counted else 0)
    assert cron(action="snooze", job=1) == "error: how long is missing: give at_seconds, which must be more than 0"


def test_one_that_was_due_is_put_off_from_now(cron):
    cron(action="add", message="tea", at="13:00")
    assert cron(action="snooze", job=1, at_seconds=600, now=NOON + 2 * HOUR).startswith("reminder 1 is kept for 14:10")


MOVED = [
    ({"at": "friday 08:00"}, {"at": "18:30"}, "Fri 2026-07-03 18:30"),
    ({"at": "friday 08:00"}, {"at": "tomorrow 9:00"}, "Thu 2026-07-02 09:00"),
    ({"at": "13:00"}, {"at": "14:30"}, "14:30"),
    ({"at": "friday 08:00"}, {"at": "the 9th"}, "Thu 2026-07-09 08:00"),
    ({"at": "13:00"}, {"at": "day after tomorrow"}, "Fri 2026-07-03 13:00"),
    ({"at": "friday 08:00"}, {"at": "14 July"}, "Tue 2026-07-14 08:00"),
    ({"cron_expr": "0 7 * * 1-5"}, {"at": "8:30"}, "every weekday at 08:30"),
    ({"cron_expr": "0 7 * * *"}, {"cron_expr": "0 8 * * 0"}, "every sunday at 08:00"),
    ({"cron_expr": "0 9 5 * *"}, {"at": "10:00"}, "every month on day 5 at 10:00"),
    ({"cron_expr": "0 9 5 * *"}, {"at": "3rd"}, "every month on day 3 at 09:00"),
    ({"cron_expr": "0 9 5 * *"}, {"at": "3rd 10:30"}, "every month on day 3 at 10:30"),
    ({"cron_expr": "0 9 3 5 *"}, {"at": "10:00"}, "every year on 3 May at 10:00"),
    ({"at": "friday 08:00", "every_seconds": 172_800}, {"at": "9:00"}, "every 2 d: Fri 2026-07-03 09:00, Sun"),
]


@pytest.mark.parametrize(("before", "to", "said"), MOVED)
def test_a_reminder_moved_to_a_time_of_day_keeps_its_days(cron, before, to, said):
    cron(action="add", message="tea", **before)
    assert said in cron(action="move", job=1, **to)


@pytest.mark.parametrize("when", [{"cron_expr": "0 7,19 * * *"}, {"every_seconds": 3600}, {"cron_expr": "*/5 * * * *"}])
def test_what_repeats_is_not_made_to_come_once(cron, jobs, when):
    cron(action="add", message="tea", **when)
    before = jobs.all()
    for given in ({"at": "8:00"}, {"at": "tomorrow 08:00"}, {"at_seconds": 60}):
        assert "and was left as it is; say how often" in cron(action="move", job=1, **given)
    assert jobs.all() == before
    assert "repeats and keeps its times" in cron(action="snooze", job=1, at_seconds=60)
    assert jobs.all()[:1] == before
    assert (jobs.all()[1].plan.kind, jobs.all()[1].payload) == ("at", "tea")


def test_a_weekly_reminder_has_no_day_of_the_month(cron):
    cron(action="add", message="tea", cron_expr="0 9 * * 1")
    assert "and was left as it is; say how often" in cron(action="move", job=1, at="3rd")


def test_a_change_that_cannot_be_made_changes_nothing(cron, jobs):
    cron(action="add", message="tea", **WEEKDAYS)
    before = jobs.all()
    for given in ({"cron_expr": "x"}, {"every_seconds": 5}, {"kind": "tool", "message": "i2c {}"}, {"tz": "Atlantis"}):
        assert cron(action="update", job=1, **given).startswith("error: ")
    assert jobs.all() == before


def test_a_job_is_switched_off_and_on_and_does_not_make_up_for_it(cron, jobs):
    cron(action="add", message="tea", cron_expr="0 * * * *")
    assert cron(action="disable", job=1) == "reminder 1 is off until it is enabled: tea"
    assert cron(action="list") == "1: cron 0 * * * * (UTC), next off tea"
    assert cron(action="enable", job=1, now=NOON + 50 * HOUR).startswith(
        "reminder 1 is kept, cron 0 * * * * (UTC): 15:00"
    )
    assert jobs.get("home", 1).after == (NOON + 50 * HOUR).timestamp()
    cron(action="add", message="once", at="13:00")
    cron(action="disable", job=2)
    assert cron(action="enable", job=2, now=NOON + 2 * HOUR).startswith("error: reminder 2 was due once; update it")


@each_row(
    ("when", "said"),
    [
        ("", "leaves out 19:00; it next comes Thu 2026-07-02 07:00 (in 19 h)"),
        ("next", "leaves out 19:00; it next comes Thu 2026-07-02 07:00 (in 19 h)"),
        ("tomorrow", "leaves out Thu 2026-07-02 07:00, Thu 2026-07-02 19:00; it next comes 19:00 (in 7 h)"),
        ("tomorrow 8:00", "leaves out Thu 2026-07-02 07:00; it next comes 19:00 (in 7 h)"),
        (
            "until friday",
            "leaves out 19:00, Thu 2026-07-02 07:00, Thu 2026-07-02 19:00; it next comes Fri 2026-07-03 07:00 (in 1 d 19 h)",
        ),
        ("until wednesday", "leaves out 19:00, Thu 2026-07-02 07:00, Thu 2026-07-02 19:00 and more;"),
        ("3 days", "leaves out 19:00, Thu 2026-07-02 07:00, Thu 2026-07-02 19:00 and more;"),
        ("weekend", "leaves out Sat 2026-07-04 07:00, Sat 2026-07-04 19:00, Sun 2026-07-05 07:00 and more;"),
        ("next week", "leaves out Mon 2026-07-06 07:00, Mon 2026-07-06 19:00, Tue 2026-07-07 07:00 and more;"),
        ("24 december", "leaves out Thu 2026-12-24 07:00, Thu 2026-12-24 19:00; it next comes 19:00 (in 7 h)"),
    ],
)
def test_single_times_are_left_out(cron, jobs, when, said):
    cron(action="add", message="tea", cron_expr="0 7,19 * * *")
    number = jobs.all()[-1].number
    assert cron(action="skip", job=number, at=when).startswith(f"reminder {number} {said}")


@each_row(
    ("job", "when", "said"),
    [
        (1, "until 18:00", "reminder 1 was left as it is, it does not come then: 1: every day at 07:00"),
        (
            1,
            "soonish",
            "reminder 1 was left as it is: 'soonish' is no time to leave something out; write it like 'next'",
        ),
        (2, "", "reminder 2 comes once, 13:00 (in 1 h): remove it, or move it to another time"),
    ],
)
def test_what_cannot_be_left_out_stays_as_it_is(cron, jobs, job, when, said):
    cron(action="add", message="tea", cron_expr="0 7,19 * * *")
    cron(action="add", message="once", at="13:00")
    before = jobs.all()
    assert cron(action="skip", job=job, at=when).startswith(f"error: {said}")
    assert jobs.all() == before


@each_row(
    ("plan", "pauses", "comes"),
    [
        ({"cron_expr": "0 7 * * *"}, ["tomorrow"], ["03 07:00", "04 07:00"]),
        ({"cron_expr": "0 7 * * *"}, ["", "saturday"], ["03 07:00"]),
        ({"cron_expr": "0 7 * * *"}, ["until friday"], ["03 07:00", "04 07:00"]),
        ({"cron_expr": "0 7 * * *"}, ["until saturday", "until friday"], ["03 07:00", "04 07:00"]),
        ({"cron_expr": "0 7 * * *"}, ["until friday", "tomorrow"], ["03 07:00", "04 07:00"]),
        ({"cron_expr": "0 7 * * *"}, ["tomorrow", "friday"], ["04 07:00"]),
        ({"cron_expr": "0 7 * * * until 2026-07-02"}, ["tomorrow"], []),
        ({"every_seconds": 43_200}, ["tomorrow"], ["03 00:00", "03 12:00", "04 00:00", "04 12:00"]),
        ({"every_seconds": 43_200}, [""], ["02 12:00", "03 00:00", "03 12:00", "04 00:00", "04 12:00"]),
    ],
)
def test_what_is_left_out_does_not_come_and_the_rest_does(cron, jobs, plan, pauses, comes):
    for job in jobs.all():
        jobs.remove("home", job.number)
    cron(action="add", message="tea", **plan)
    number = jobs.all()[0].number
    for pause in pauses:
        assert "leaves out" in cron(action="skip", job=number, at=pause)
    joined = pauses in (["until saturday", "until friday"], ["until friday", "tomorrow"], ["tomorrow", "friday"])
    assert len(re.findall(r"\((?:paused|without) ", cron(action="list"))) == len(pauses) - joined
    told = []
    for minutes in range(0, 3 * 24 * 60 + 1, 10):
        now = JobContext(
            (NOON + timedelta(minutes=minutes)).timestamp(), MONO + minutes * 60, read_boot_id(), True, "me", bool
        )
        decided = jobs.decide(lambda job, now=now: decide_job(job, now))
        told += [f"{datetime.fromtimestamp(one.at, UTC):%d %H:%M}" for one in decided if one.message]
    assert told == comes
    assert len(jobs.all()) == bool(comes)


def test_a_time_at_the_end_of_a_pause_comes(cron):
    cron(action="add", message="tea", cron_expr="0 * * * *")
    assert "it next comes Fri 2026-07-03 00:00 " in cron(action="skip", job=1, at="until friday")
    assert "next Fri 2026-07-03 00:00 " in cron(action="list")


def test_what_is_resumed_leaves_nothing_out(cron, jobs):
    cron(action="add", message="tea", every_seconds=7200)
    before = jobs.all()
    cron(action="skip", job=1, at="3 days")
    assert cron(action="enable", job=1).startswith("reminder 1 is kept, every 2 h: 14:00")
    assert jobs.all() == before


def test_a_job_is_done_once_more(cron, jobs):
    cron(action="add", command="ls", every_seconds=3600, deliver="failure")
    assert cron(action="run", job=1).startswith("job 1 is due now, as 2 (done while")
    now = jobs.get("home", 2)
    assert (now.kind, now.payload, now.deliver, now.mono, now.boot) == ("command", "ls", "always", MONO, read_boot_id())


def test_what_was_planned_by_the_clock_follows_to_the_owners_zone_and_back(jobs):
    tokyo, noon = ZoneInfo("Asia/Tokyo"), NOON.timestamp()
    cron7 = Plan("cron", "0 7 * * *", "", noon)
    wall = NOON.astimezone(BoardZone())
    tea = (wall + HOUR).replace(tzinfo=tokyo)  # 13:00 in Tokyo is past: it is tomorrow's
    for job in (
        Job(0, "home", "daily", cron7),
        Job(0, "shed", "elsewhere", cron7._replace(zone="Europe/Berlin")),
        once("tea", NOON + HOUR),
        once("later", NOON + 72 * HOUR),
        once("counted", NOON + HOUR, boot="b", mono=5.0),
        Job(0, "home", "interval", Plan("every", "3600", anchor=noon)),
    ):
        jobs.add(job)
    before = [job.plan for job in jobs.all()]
    (line,) = move_jobs_to_zone(jobs, None, tokyo, NOON)
    assert line.startswith(
        "What was planned keeps its time of day in Asia/Tokyo: 1 every day at 07:00 (Asia/Tokyo); 3 "
    )
    daily, elsewhere, soon, later, *others = [job.plan for job in jobs.all()]
    assert (daily.zone, elsewhere.zone, others) == ("Asia/Tokyo", "Europe/Berlin", before[4:])
    assert soon.anchor == (tea + 24 * HOUR).timestamp()
    assert later.anchor == (wall + 72 * HOUR).replace(tzinfo=tokyo).timestamp()
    assert jobs.get("home", 1).after == noon  # nothing that lay before in the new zone counts as missed
    assert "the board's own zone" in move_jobs_to_zone(jobs, tokyo, None, NOON)[0]
    assert [job.plan for job in jobs.all()][3:] == before[3:]
    assert jobs.get("home", 1).plan.zone == ""


def test_all_of_a_job_is_shown(cron, jobs):
    cron(action="add", message="tea", **WEEKDAYS)
    jobs.change("home", 1, lambda job: job._replace(last_run=NOON.timestamp(), last_slot="s", last_status="ok"))
    assert cron(action="get", job=1).splitlines() == [
        "1: every weekday at 07:30 (Europe/Berlin), next Thu 2026-07-02 05:30 (in 17 h 30 min) tea",
        "next: Thu 2026-07-02 05:30, Fri 2026-07-03 05:30, Mon 2026-07-06 05:30",
        "last: 2026-07-01 12:00 (s), ok",
        "if missed: once; told: always; failures in a row: 0",
    ]


@pytest.mark.parametrize("action", ["get", "update", "remove", "enable", "disable", "run"])
def test_another_chats_job_cannot_be_touched(cron, jobs, action):
    cron(**ADD, at_seconds=600)
    before = jobs.all()
    said = cron("shed", action=action, job=1, message="mine")
    assert said == f"error: this chat has no reminder 1; {LISTED}"
    assert jobs.all() == before


def test_a_chat_has_only_so_many(cron):
    for _ in range(100):
        cron(**ADD, at_seconds=600)
    assert cron(**ADD, at_seconds=600) == "error: this chat has 100 reminders and jobs already; remove some first"
    assert "is kept" in cron("shed", **ADD, at_seconds=600)


def test_it_costs_few_bytes_every_turn(jobs):
    [definition] = [
        tool.definition() for tool in collect_tools(CronTool(lambda: jobs, lambda: effect_of, commands=True))
    ]
    assert len(json.dumps(definition).encode()) <= 1_050

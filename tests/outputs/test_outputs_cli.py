"""The verbs `outputs` and `stop`, and the `output` tool, as a person and a model use them."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from outputs_kit import HARMS, LAMP, PUMP, client, close_clients, ended, harm, leave_on, make_home, pin

from picoclaw.errors import Denied, StoreError, ToolError
from picoclaw.messages import Caller, ToolCall
from picoclaw.outputs import audit, config, supervisor
from picoclaw.outputs.client import OutputRefused
from picoclaw.security import hash_chain
from picoclaw.security.audit import AuditLog
from picoclaw.security.guard import Guard
from picoclaw.security.policy import Policy
from picoclaw.tools.outputs import OutputTool
from picoclaw.tools.registry import Toolset, collect_tools

sys.path.insert(0, str(Path(__file__).parents[1]))
import daemon_kit
from person import Person, picoclaw_process


@pytest.fixture
def home(tmp_path):
    """The home of `picoclaw` under tmp_path, with a pump that needs a yes and a lamp that does not."""
    home = make_home(tmp_path / "picoclaw", PUMP + LAMP + "confirm = false\n", armed=False)
    yield home
    close_clients()
    ended(home)
    assert pin(home) in {None, 0}
    assert audit.verify(home)[1] == ""


def arm(tmp_path, name="pump"):
    with Person(tmp_path, "outputs", "--board", "sim", "arm", name, columns=200) as person:
        person.sees("[outputs.pump]")
        person.sees("longest_on_s = 600")
        person.sees(f"Type the name, {name}, to arm it: ")
        person.types("pump\n")
        person.sees("pump is armed")
        assert person.leaves() == 0


def test_a_person_arms_switches_and_disarms(tmp_path, home):
    def outputs(*words):
        return picoclaw_process(tmp_path, "outputs", "--board", "sim", *words)

    assert "dry run until `picoclaw outputs arm pump`" in outputs().stdout
    assert "NOTHING was driven" in outputs("set", "pump", "on", "60").stdout
    arm(tmp_path)
    assert outputs("set", "pump", "on", "60").stdout == "pump is on for 60 s\n"
    assert pin(home) == 1, "it runs on after the command has ended"
    assert "pump (pump, gpio GPIO17; at most 10 min): on, " in outputs("list").stdout
    assert outputs("off", "pump").returncode == 0
    assert pin(home) == 0
    assert outputs("set", "pump", "on", "60").returncode == 0
    assert "disarmed" in outputs("disarm", "pump").stdout
    assert pin(home) == 0
    assert config.load_armed(home) == {}
    said = outputs("audit", "-n", "99").stdout
    assert [word for word in ("dry", "arm pump", "on pump", "off pump", "disarm pump") if word not in said] == []
    assert "none changed or missing" in outputs("audit", "--verify").stdout


@pytest.mark.parametrize(
    ("typed", "told"), [("yes\n", "pump was not armed"), ("\x04", "the question was not answered")]
)
def test_a_wrong_name_arms_nothing(tmp_path, home, typed, told):
    with Person(tmp_path, "outputs", "arm", "pump", columns=200) as person:
        person.sees("to arm it: ")
        person.types(typed)
        person.sees(told)
        assert person.leaves() == 1
    assert config.load_armed(home) == {}


@pytest.mark.parametrize("words", [("arm", "pump"), ("resume",)])
def test_only_a_person_at_a_terminal(tmp_path, home, words):
    done = picoclaw_process(tmp_path, "outputs", "--board", "sim", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "only by a person at a terminal" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "pump", "on", "601"), "rule 'longest_on'"),
        (("set", "pump", "half"), "rule 'value'"),
        (("set", "boiler", "on"), "rule 'unknown output'"),
        (("off", "boiler"), "there is no output 'boiler'; declared: pump, lamp"),
        (("disarm", "pump"), "pump is not armed"),
    ],
)
def test_what_is_refused_is_said_in_one_line(tmp_path, home, words, said):
    done = picoclaw_process(tmp_path, "outputs", "--board", "sim", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert said in done.stderr


def test_stop_and_resume(tmp_path, home):
    config.save_armed(home, {n: o.digest for n, o in config.load_outputs(home / "outputs.toml").outputs.items()})
    kept = client(home)
    kept.set("pump", "on", 60, "owner")
    assert picoclaw_process(tmp_path, "stop").returncode == 0
    assert pin(home) == 0
    with pytest.raises(OutputRefused, match="rule 'stop'"):
        kept.set("pump", "on", 60, "owner")
    with Person(tmp_path, "outputs", "--board", "sim", "resume", columns=200) as person:
        person.sees("resumed")
        assert person.leaves() == 0
    assert kept.set("pump", "on", 1, "owner")


def test_safe_after_both_were_killed(tmp_path, home):
    """What a service does when it has ended in whatever way (ExecStopPost)."""
    config.save_armed(home, {n: o.digest for n, o in config.load_outputs(home / "outputs.toml").outputs.items()})
    leave_on(home)
    done = picoclaw_process(tmp_path, "outputs", "safe")
    assert (done.returncode, done.stdout) == (0, "everything is at its safe level\n")
    assert pin(home) == 0
    assert not (home / supervisor.LIVE_FILE).exists()


def test_stop_imports_little(tmp_path, home):
    done = picoclaw_process(tmp_path, "outputs", "--board", "sim", "safe")
    assert done.returncode == 0
    done = picoclaw_process(tmp_path, "stop", PYTHONPROFILEIMPORTTIME="1")
    seen = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not seen & {"apsw", "httpcore", "asyncio", "subprocess", "picoclaw.app", "picoclaw.agent.loop"}


def test_nothing_declared(tmp_path):
    done = picoclaw_process(tmp_path, "outputs", "list")
    assert (done.returncode, "no outputs are declared" in done.stdout) == (0, True)
    assert not (tmp_path / "picoclaw").exists()


def test_a_wrong_outputs_toml_is_shown(tmp_path, home):
    (home / "outputs.toml").write_text(PUMP + "colour = 3")
    done = picoclaw_process(tmp_path, "outputs", "--board", "sim")
    assert done.returncode == 1
    assert "nothing can be switched on: " in done.stdout
    assert "unknown 'colour'" in done.stdout


def caller(origin="owner"):
    return Caller("home", origin, datetime(2026, 7, 1, tzinfo=UTC), print)


@pytest.mark.parametrize(
    ("arguments", "effect"),
    [
        ({"action": "list"}, "read"),
        ({"action": "stop"}, "safe"),
        ({"action": "off", "name": "pump"}, "safe"),
        ({"action": "set", "name": "pump", "level": "on"}, "actuate"),
        ({"action": "set", "name": "pump", "level": "off"}, "switch"),
        ({"action": "set", "name": "pump", "level": "?"}, "actuate"),
        ({"action": "set", "name": "lamp", "level": "on"}, "switch"),
        ({"action": "set", "name": "boiler", "level": "on"}, "switch"),
    ],
)
def test_what_needs_a_yes(home, arguments, effect):
    found = next(one for one in collect_tools(OutputTool(client(home))) if one.name == "output")
    assert found.effects({"name": "", "level": "on", **arguments})[0] == effect


def test_the_tool(home):
    config.save_armed(home, {n: o.digest for n, o in config.load_outputs(home / "outputs.toml").outputs.items()})
    journal = []
    toolset = Toolset(
        [OutputTool(client(home))],
        guard=Guard(Policy, lambda call: "pump" in call),
        journal=lambda call, _: journal.append(call.arguments["action"]),
        longest_result=4000,
    )

    def call(origin="owner", **arguments):
        return toolset.call(ToolCall("1", "output", arguments), caller(origin))

    assert call(action="set", name="pump", level="on", seconds=60) == "pump is on for 60 s"
    assert pin(home) == 1
    assert "pump (pump, gpio GPIO17; at most 10 min): on, " in call(action="list")
    assert "rule actuate.unattended = ask" in call("cron", action="set", name="pump", level="on")
    assert "rule 'who'" in call("cron", action="set", name="lamp", level="on")
    assert call("cron", action="off", name="pump") == "pump is at its safe level, off"
    assert call(action="set", name="lamp", seconds=0) == "lamp is on for 600 s"
    assert "rule 'value'" in call(action="set", name="lamp", level=50)
    assert "name is missing" in call(action="off")
    assert "stopped" in call(action="stop")
    assert pin(home, 27) == 0
    assert journal == ["set", "set", "set", "set"], "what goes to safety waits for no disk"


def test_the_tool_costs_few_bytes():
    switch, history = collect_tools(OutputTool(None))
    assert len(str(switch.definition())) < 600
    assert len(str(history.definition())) < 400


def test_errors_are_of_kinds_that_tools_know():
    assert issubclass(OutputRefused, ToolError)
    assert not issubclass(OutputRefused, Denied)


def test_what_is_not_there_is_not_armed(tmp_path, home):
    (home / "outputs.toml").write_text(PUMP.replace("17", "99"))
    with Person(tmp_path, "outputs", "--board", "sim", "arm", "pump", columns=200) as person:
        person.sees("there is no GPIO line 'GPIO99'")
        assert person.leaves() == 1
    assert config.load_armed(home) == {}


def test_arming_shows_what_was_declared_and_no_other_bus(tmp_path, home):
    with Person(tmp_path, "outputs", "--board", "sim", "arm", "pump", columns=200) as person:
        shown = person.sees("to arm it: ") or ""
        person.types("no\n")
        person.sees("was not armed")
        assert person.leaves() == 1
    assert not [word for word in ("period_us", "address", "channel") if word in str(shown)]


def test_an_empty_outputs_toml_and_no_lines_of_the_audit(tmp_path, home):
    (home / "outputs.toml").write_text("")
    assert "no outputs are declared" in picoclaw_process(tmp_path, "outputs").stdout
    audit.write_record(home, "arm", name="pu\x1b[2Jmp")
    assert picoclaw_process(tmp_path, "outputs", "audit", "-n", "0").stdout == ""
    assert "\x1b" not in picoclaw_process(tmp_path, "outputs", "audit").stdout


def test_what_is_not_armed_has_no_level(tmp_path, home):
    assert (
        "pump (pump, gpio GPIO17; at most 10 min): not driven, dry run"
        in picoclaw_process(tmp_path, "outputs", "--board", "sim").stdout
    )


def test_off_and_stop_wait_for_no_disk(home, tmp_path):
    """On one that is full nothing can be written down first; one that hangs has audit.log locked for a while."""
    config.save_armed(home, {n: o.digest for n, o in config.load_outputs(home / "outputs.toml").outputs.items()})

    def full(*_):
        raise StoreError("the disk is full")

    guard = Guard(Policy, lambda _: True, note=AuditLog(tmp_path).note)
    made = OutputTool(client(home))
    toolset = Toolset([made], guard=guard, journal=lambda *_: None, longest_result=4000)
    on = ToolCall("1", "output", {"action": "set", "name": "pump", "level": "on", "seconds": 60})
    for action in ("off", "stop"):
        assert toolset.run(on, caller("owner")) == (True, "pump is on for 60 s")
        toolset._journal = full
        with hash_chain.open_chain_end(tmp_path / "audit.log"):
            began = time.monotonic()
            good, _ = toolset.run(ToolCall("2", "output", {"action": action, "name": "pump"}), caller("owner"))
            assert (good, pin(home), time.monotonic() - began < 0.45) == (True, 0, True)
        assert "the disk is full" in toolset.run(on, caller("owner"))[1]
        toolset._journal = lambda *_: None


SPOILT = {
    "nothing": lambda home: None,
    "outputs.toml is gone": lambda home: (home / "outputs.toml").unlink(),
    "outputs.toml is wrong": lambda home: (home / "outputs.toml").write_text("[["),
    "config.toml is wrong": lambda home: (home / "config.toml").write_text("[["),
    "state.db is wrong": lambda home: (home / "state.db").mkdir(),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_the_next_start_of_the_daemon_makes_safe_what_was_left_on(tmp_path, spoil):
    home = make_home(tmp_path / "picoclaw", PUMP)
    leave_on(home)
    spoil(home)
    with daemon_kit.Daemon(tmp_path) as daemon:
        daemon_kit.until(lambda: pin(home) == 0 and not (home / supervisor.LIVE_FILE).exists())
        daemon.process.terminate()
        daemon.ends()


def test_what_was_left_on_is_said(tmp_path):
    home = make_home(tmp_path / "picoclaw", PUMP)
    leave_on(home)
    said = picoclaw_process(tmp_path, "status")
    assert "an output may still be on" in said.stdout
    assert "outputs safe" in said.stdout
    assert "brought to its safe level" not in said.stdout
    picoclaw_process(tmp_path, "outputs", "--board", "sim", "safe")
    assert "left on" not in picoclaw_process(tmp_path, "status").stdout


@pytest.mark.parametrize(
    ("numbers", "seconds"),
    [  # seconds: longer than what is done to the processes takes beside other tests, where not both are killed at once
        pytest.param(numbers, seconds, id=f"{name}-{seconds}", marks=[pytest.mark.alone] * (name == "both killed"))
        for name, numbers in HARMS.items()
        for seconds in (30, 15)
    ],
)
@pytest.mark.long
def test_a_daemon_makes_safe_what_a_command_has_left_on(tmp_path, numbers, seconds):
    home = daemon_kit.furnished(tmp_path, "", daemon_kit.PUMP)
    with daemon_kit.Daemon(tmp_path).ready() as daemon:
        assert (
            picoclaw_process(tmp_path, "outputs", "--board", "sim", "set", "pump", "on", str(seconds)).returncode == 0
        )
        assert pin(home) == 1
        harm(home, numbers)
        if seconds == 30:
            daemon.process.terminate()  # or it is just ending
            daemon.ends(15)
            assert pin(home) == 0
            return
        daemon_kit.until(lambda: pin(home) == 0 and not (home / supervisor.LIVE_FILE).exists(), 30)
        assert "left on by a supervisor" in daemon.says("left on")
        assert "left on by a supervisor" in picoclaw_process(tmp_path, "status").stdout
        daemon.process.terminate()
        daemon.ends()


def test_where_an_output_is_armed_it_is_said_what_can_leave_it_on(tmp_path, home):
    with Person(tmp_path, "outputs", "--board", "sim", "arm", "pump", columns=400) as person:
        person.sees("are killed at the same moment, it stays as it is until")
        person.sees("Type the name, pump, to arm it: ")
        person.types("no\n")
        person.leaves()

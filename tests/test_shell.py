"""The shell tool with real shells: what comes back, what it may see, and that nothing outlives it."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from picoclaw.messages import Caller, ToolCall
from picoclaw.tools.shell import Shell, passed_on
from picoclaw.tools.toolset import Toolset

CALLER = Caller("test", "owner", datetime(2026, 7, 1, tzinfo=UTC), print)
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/tmp",
    "PICOCLAW_HOME": "/tmp/claw",
    "PICOCLAW_API_KEY": "sk-secret",
    "AWS_SECRET": "sk-secret",
}


@pytest.fixture
def run(tmp_path):
    toolset = Toolset(
        [Shell(tmp_path, ENVIRONMENT)], guard=lambda *_: None, journal=lambda *_: None, longest_result=200_000
    )

    def call(command, **arguments):
        return toolset.call(ToolCall("c1", "exec", {"command": command} | arguments), CALLER)

    return call


def gone(pid_file):
    """Tell whether the process that wrote its number there has ended, waiting a moment for the kernel."""
    pid = int(pid_file.read_text())
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo hello", "hello\n[exit code 0]"),
        ("printf hello", "hello\n[exit code 0]"),
        ("true", "[exit code 0]"),
        ("exit 7", "[exit code 7]"),
        ("echo out; echo err >&2; exit 1", "out\nerr\n[exit code 1]"),
        ("no-such-command-here 2>/dev/null", "[exit code 127]"),
        ("kill -9 $$", "[exit code -9]"),
        ("echo 'grün ☕'", "grün ☕\n[exit code 0]"),
        (r"printf 'caf\351\n'", "caf\ufffd\n[exit code 0]"),
        (r"printf '\000\001\377'", "\0\1\ufffd\n[exit code 0]"),
        ("cat", "[exit code 0]"),
        ("wc -c < /dev/stdin", "0\n[exit code 0]"),
        ("tty", "not a tty\n[exit code 1]"),
        ("if then", None),
        ("", "[exit code 0]"),
    ],
)
def test_output_and_exit_code(run, command, shown):
    answer = run(command, timeout=20)
    assert answer == shown or (shown is None and answer.endswith("[exit code 2]"))


def test_commands_run_in_the_workspace(run, tmp_path):
    assert run("pwd; echo x > made.txt") == f"{tmp_path.resolve()}\n[exit code 0]"
    assert (tmp_path / "made.txt").read_text() == "x\n"


def test_a_workspace_that_is_gone(run, tmp_path):
    tmp_path.rmdir()
    assert run("echo x").startswith("error: the shell could not be started: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "echo\0"}, "error: command holds a NUL character"),
        ({"command": "echo x", "timeout": 0}, "error: argument 'timeout' is 0.0, outside 0.1 to 600"),
        ({"command": "echo x", "timeout": 601}, "error: argument 'timeout' is 601.0, outside 0.1 to 600"),
        ({"command": "echo " + "x" * 3_000_000}, "error: the shell could not be started: "),
    ],
    ids=["nul", "no time", "too long", "too much"],
)
def test_what_cannot_be_run(run, arguments, said):
    assert run(**arguments).startswith(said)


def test_no_secret_is_in_the_environment(run):
    answer = run("env")
    assert "sk-secret" not in answer
    names = set(re.findall(r"^(\w+)=", answer, re.MULTILINE))
    given = {"PATH", "HOME", "PICOCLAW_HOME"}
    assert given <= names <= given | {"PWD", "SHLVL", "_", "OLDPWD"}
    assert passed_on(ENVIRONMENT) == {name: ENVIRONMENT[name] for name in given}
    assert "PICOCLAW_HOME=/tmp/claw\n" in answer


PIPED = """
import os, sys
from pathlib import Path
from picoclaw.tools.shell import Shell
print(Shell(Path(sys.argv[1]), os.environ).exec("cat"))
print(sys.stdin.read())
"""


def test_what_was_piped_to_us_is_not_for_the_command(tmp_path):
    command = [sys.executable, "-c", PIPED, str(tmp_path)]
    done = subprocess.run(command, input="mine", capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[exit code 0]\nmine\n"


def test_none_of_our_files_is_open_in_the_command(run, tmp_path):
    with (tmp_path / "state.db").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        assert "state.db" not in run("ls -l /proc/self/fd")


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'trap \"\" TERM INT HUP; echo $$ > pid; while :; do sleep 0.05; done'",
        "sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.05; done' & wait",
        "(sh -c 'echo $$ > pid; exec sleep 100' &) ; sleep 100",
        "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done",
        "echo $$ > pid; yes",
        "sh -c 'echo $$ > pid; exec sleep 100' | cat",
    ],
)
def test_the_time_limit_takes_everything_along(run, tmp_path, command):
    began = time.monotonic()
    answer = run(command, timeout=0.5)
    assert time.monotonic() - began < 5
    assert "[stopped after 0.5 s, with its whole process group" in answer
    assert gone(tmp_path / "pid")


@pytest.mark.parametrize(
    "command",
    [
        "sh -c 'echo $$ > pid; exec sleep 100' & while [ ! -s pid ]; do sleep 0.01; done",
        "nohup sh -c 'echo $$ > pid; exec sleep 100' >/dev/null 2>&1 & while [ ! -s pid ]; do sleep 0.01; done",
        "sh -c 'trap \"\" TERM HUP; echo $$ > pid; sleep 100; sleep 100' & while [ ! -s pid ]; do sleep 0.01; done",
    ],
)
def test_what_was_left_in_the_background_is_not_waited_for_and_ends(run, tmp_path, command):
    began = time.monotonic()
    assert run(f"{command}; echo done").endswith("done\n[exit code 0]")
    assert time.monotonic() - began < 5
    assert gone(tmp_path / "pid")


def test_output_before_the_time_limit_is_kept(run):
    assert run("echo early; sleep 100", timeout=0.5).startswith("early\n[stopped after 0.5 s")


def test_a_short_time_limit_on_a_long_command(run):
    began = time.monotonic()
    run("sleep 100", timeout="0.2")
    assert 0.2 <= time.monotonic() - began < 3


def test_much_output_is_bounded_and_both_ends_are_shown(run):
    command = "echo begin; yes 0123456789abcde | head -c 50000000; echo; echo end; exit 3"
    tracemalloc.start()
    began = time.monotonic()
    answer = run(command, timeout=60)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.monotonic() - began < 20
    assert most < 2_000_000
    assert answer.startswith("begin\n")
    assert answer.endswith("end\n[exit code 3]")
    dropped = re.search(r"\[cut: (\d+) bytes left out here", answer)
    assert int(dropped[1]) == 50_000_000 + len("begin\n\nend\n") - 128_000
    assert len(answer) < 129_000


@pytest.mark.parametrize("size", [95_999, 96_000, 96_001, 127_999, 128_000])
def test_output_up_to_the_bound_is_whole(run, size):
    answer = run(f"head -c {size} /dev/zero | tr '\\0' x")
    assert answer == "x" * size + "\n[exit code 0]"


def test_the_last_words_of_a_command_are_not_lost(run):
    for _ in range(20):
        assert run("head -c 60000 /dev/zero; echo last").endswith("last\n[exit code 0]")


def test_two_commands_at_once_keep_apart(run):
    answers = {}
    threads = [threading.Thread(target=lambda n=n: answers.update({n: run(f"echo {n}; sleep 0.1")})) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: f"{n}\n[exit code 0]" for n in range(5)}


def belongings():
    """Our open descriptors and our children."""
    open_files = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    return open_files, [path.read_text() for path in Path("/proc/self/task").glob("*/children")]


def test_no_process_and_no_descriptor_is_left_behind(run):
    run("true")
    before = belongings()
    for _ in range(5):
        run("sleep 100 & echo x")
        run("sleep 100", timeout=0.1)
    assert belongings() == before


INTERRUPTED = """
import os, sys
from pathlib import Path
from picoclaw.tools.shell import Shell
try:
    Shell(Path(sys.argv[1]), os.environ).exec("trap '' INT; echo $$ > pid; while :; do sleep 0.05; done")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_the_command_as_well(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    pid = tmp_path / "pid"
    for _ in range(1000):
        if pid.exists() and pid.read_text().strip():
            break
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=10)
    assert said == "interrupted\n"
    assert gone(pid)


HURRIED = """
import os, signal, subprocess, sys, time
from pathlib import Path
from picoclaw.tools.shell import Shell

class Slow(subprocess.Popen):
    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        while not (Path(sys.argv[1]) / "pid").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

subprocess.Popen = Slow
try:
    Shell(Path(sys.argv[1]), os.environ).exec("echo $$ > pid; exec sleep 60")
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_ctrl_c_while_a_command_is_being_started_leaves_none_behind(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", HURRIED, str(tmp_path)], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "interrupted True\n"
    assert gone(tmp_path / "pid")

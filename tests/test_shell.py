"""The tool `exec` with real programs: what comes back, what a call is said to do, and that nothing outlives it."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from itertools import chain
from pathlib import Path

import pytest
from recording import toolset as make_toolset
from sandbox_kit import CALLER, ENVIRONMENT, Bench, gone, needs_walls, running

from picoclaw.messages import Stop, ToolCall
from picoclaw.security.sandbox import SANDBOX_PATH, build_environment
from picoclaw.tools.exec import ExecTools, parse_command

pytestmark = needs_walls


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "home")


@pytest.fixture
def shell(tmp_path):
    """The same where the owner lets lines of shell be run."""
    return Bench(tmp_path / "home", shell=True)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("echo hello", "hello\n[exit code 0]"),
        ("printf hello", "hello\n[exit code 0]"),
        ("true", "[exit code 0]"),
        ("exit 7;", "[exit code 7]"),
        ("echo out; echo err >&2; exit 1", "out\nerr\n[exit code 1]"),
        ("no-such-command-here 2>/dev/null", "[exit code 127]"),
        ("kill -9 $$", "[exit code 137]"),
        ("echo 'grün ☕'", "grün ☕\n[exit code 0]"),
        (r"printf 'caf\351\n'", "caf\ufffd\n[exit code 0]"),
        (r"printf 'a\377b'", "a\ufffdb\n[exit code 0]"),
        ("cat", "[exit code 0]"),
        ("wc -c < /dev/stdin", "0\n[exit code 0]"),
        ("tty", "not a tty\n[exit code 1]"),
        ("pwd", None),
    ],
)
def test_output_and_exit_code(shell, command, shown):
    assert shell.line(command, timeout=20) == (shown or f"{shell.workspace}\n[exit code 0]")


def test_arguments_are_taken_as_they_are(bench):
    words = ["a b", "$HOME", "*", "; echo x", "'", '"', "--", "", "\n", "${IFS}", "$(id)", "`id`"]
    assert bench.run("printf", "[%s]", *words) == "".join(f"[{word}]" for word in words) + "\n[exit code 0]"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ls -l /etc", ["ls", "-l", "/etc"]),
        ("grep 'a|b; c' \"x y\"", ["grep", "a|b; c", "x y"]),
        ("awk 'BEGIN { print $1 }'", ["awk", "BEGIN { print $1 }"]),
        (r"echo a\ b", ["echo", "a b"]),
        ("curl http://x/?a=b", ["curl", "http://x/?a=b"]),
        ("git log --format=%h", ["git", "log", "--format=%h"]),
        ("echo a#b 1!", ["echo", "a#b", "1!"]),
        ("  ls -l\n", ["ls", "-l"]),
    ],
)
def test_a_line_without_shell_in_it_is_taken_apart(bench, command, words):
    bench.line(command, network=True)
    bench.run(command, network=True)
    first, second = bench.asked
    assert first.means == second.means
    assert first.means.startswith(f"run {words[0]} in {bench.workspace}; it may use the network")
    assert bench.run("printf", "%s\n", *words[1:]) == bench.line(command.replace(words[0], "printf '%s\n'", 1))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "echo a | wc"}, "error: command holds what only a shell understands ('|'): give argv"),
        ({"command": "echo $HOME"}, "error: command holds what only a shell understands ('$')"),
        ({"command": 'echo "$HOME"'}, "error: command holds what only a shell understands"),
        ({"command": "ls *.txt"}, "error: command holds what only a shell understands ('*')"),
        ({"command": "ls ~"}, "error: command holds what only a shell understands ('~')"),
        ({"command": "X=1 ls"}, "error: command holds what only a shell understands ('X=')"),
        ({"command": "ls\nid"}, "error: command holds what only a shell understands"),
        ({"command": "echo a{1,2}"}, "error: command holds what only a shell understands"),
        ({"command": "echo `id`"}, "error: command holds what only a shell understands ('`')"),
        ({"command": "echo 'a"}, "error: command holds what only a shell understands"),
        ({"argv": ["ls -l | wc"]}, "error: command holds what only a shell understands ('|')"),
        ({"argv": ["sh", "-c", "ls"]}, "error: sh -c: a line of shell is run with shell = true under [tools]"),
        ({"argv": ["/bin/bash", "-lc", "ls"]}, "error: /bin/bash -c: a line of shell"),
        ({"argv": ["bash", "-euo", "pipefail", "-c", "ls"]}, "error: bash -c: a line of shell"),
        ({"argv": ["bash", "--norc", "--noprofile", "-c", "ls"]}, "error: bash -c: a line of shell"),
        ({"argv": []}, "error: argv is missing: a program and its arguments"),
        ({"argv": ["", "x"]}, "error: argv is missing"),
        ({}, "error: argv is missing"),
        ({"argv": ["ls"], "command": "ls"}, "error: give argv or command, not both"),
        ({"argv": ["echo", "\0"]}, "error: the command holds a NUL character"),
        ({"command": "echo \0"}, "error: the command holds a NUL character"),
        ({"argv": ["ls"], "timeout": 0}, "error: argument 'timeout' is 0.0, outside 0.1 to"),
        ({"argv": ["ls"], "timeout": 601}, "error: timeout is over 600: give background=true"),
        ({"argv": ["ls"], "cwd": "nowhere"}, "error: cwd "),
        ({"argv": ["ls"], "cwd": "../"}, "error: cwd "),
        ({"argv": ["ls"], "cwd": "/root"}, "error: cwd /root is out of reach"),
        ({"argv": ["ls"], "cwd": "a\0b"}, "error: cwd 'a\\x00b' leads nowhere"),
        ({"argv": ["echo", "x" * 3_000_000]}, "error: the command could not be started: "),
    ],
)
def test_what_cannot_be_run(bench, arguments, said):
    assert bench.tool("exec", **arguments).startswith(said)
    assert not [asked for asked in bench.asked if asked.effect != "read"]


@pytest.mark.parametrize("words", [["-c"], ["-check"], ["-x", "-c"]], ids=" ".join)
def test_what_comes_after_a_script_is_the_scripts_own(bench, words):
    (bench.workspace / "show.sh").write_text('printf "[%s]" "$@"\n')
    assert bench.run("bash", "show.sh", *words) == "".join(f"[{word}]" for word in words) + "\n[exit code 0]"


@pytest.mark.parametrize("text", ["{," * 20_000, "{." * 20_000, "{" * 40_000])
def test_no_line_keeps_its_reader_busy(text):
    began = time.process_time()
    parse_command((), f"echo {text}", shell=False)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("arguments", "effect"),
    [
        ({}, "read private"),
        ({"write": True}, "exec"),
        ({"network": True}, "network exec_network"),
        ({"write": True, "network": True}, "network exec_network exec"),
        ({"write": "true"}, "exec"),
        ({"write": False, "network": "no"}, "read private"),
    ],
)
def test_what_a_call_does_is_what_it_is_given(bench, arguments, effect):
    bench.run("true", **arguments)
    bench.run("cat", background=True, **arguments)
    bench.tool("process", action="write", number=1, text="x", eof=True)
    [run, started, written] = [" ".join((asked.effect, *asked.other_effects)) for asked in bench.asked]
    assert (run, started) == (effect, effect)
    assert written == f"{effect.removesuffix(' private')} private"  # what a process says is the owner's


def test_a_text_for_the_words_will_do(bench):
    assert bench.tool("exec", argv="echo  a 'b  c'") == "a b  c\n[exit code 0]"
    assert bench.tool("exec", argv="true") == "[exit code 0]"
    assert bench.tool("exec", argv='["echo", "a b"]') == "a b\n[exit code 0]"
    assert bench.tool("exec", argv="ls | wc").startswith("error: command holds what only a shell understands ('|')")


def test_a_yes_is_bound_to_the_folder_the_variables_and_the_files(bench):
    script, other = bench.workspace / "x.py", bench.workspace / "data"
    script.write_text("print(1)")
    other.write_text("a")
    (bench.workspace / "sub").mkdir()
    (bench.workspace / "ring").symlink_to(bench.workspace / "ring")
    long = ["x" * 300, f"sub/{'x' * 300}", "x/" * 3000, "", "\n", "../ring"]
    bench.run("python3", "../x.py", "--from=../data", "/etc/hostname", *long, cwd="sub", write=True)
    [asked] = bench.asked
    assert asked.bound == {
        "in": str(bench.workspace / "sub"),
        "environment": f"PATH={SANDBOX_PATH} HOME=/tmp TERM=dumb LANG=C.UTF-8",
        f"sha256 of {script}": hashlib.sha256(b"print(1)").hexdigest(),
        f"sha256 of {other}": hashlib.sha256(b"a").hexdigest(),
    }
    assert asked.means == (
        f"run python3 in {bench.workspace / 'sub'}; it may change files in the workspace, for 30 s at most"
    )


def test_a_line_of_shell_is_called_one(shell):
    shell.line("echo a | tee x", write=True, network=True)
    [asked] = shell.asked
    assert "as a line of shell; it may change files in the workspace and use the network" in asked.means
    assert (shell.workspace / "x").read_text() == "a\n"


def test_a_workspace_that_is_gone(bench):
    bench.workspace.rmdir()
    assert bench.run("echo", "x").startswith("error: cwd ")


def test_what_was_lacking_is_said(bench):
    assert bench.run("touch", "x").endswith(
        "[exit code 1; it could change nothing: write=true lets it change the workspace]"
    )
    lookup = "import socket; socket.create_connection(('192.0.2.1', 80), 1)"
    assert bench.run("python3", "-c", lookup).endswith("; it had no network: network=true gives it one]")


def test_what_the_owner_names_is_passed_on_and_its_value_is_in_no_question(tmp_path):
    home = tmp_path / "home"
    assert "KEY=" not in Bench(home).run("env")
    given = ExecTools(home / "workspace", ENVIRONMENT | {"KEY": "sesame"}, environ=("KEY", "HOME", "NONE"))
    answer = given.exec(["env"])
    assert "KEY=sesame" in answer
    assert "HOME=/tmp" in answer
    toolset = make_toolset(given)
    asked = toolset.asked(ToolCall("1", "exec", {"argv": ["env"], "write": True}))
    assert asked.bound["environment"].split()[0] == "KEY"
    assert "sesame" not in str(asked)


def test_no_secret_is_in_the_environment(bench):
    answer = bench.run("env")
    assert "sk-secret" not in answer
    names = set(re.findall(r"^(\w+)=", answer, re.MULTILINE))
    assert {"PATH", "HOME", "TERM", "LANG"} <= names <= {"PATH", "HOME", "TERM", "LANG", "PWD"}
    assert set(build_environment(ENVIRONMENT)) == {"PATH", "HOME", "TERM", "LANG"}


PIPED = """
import os, sys
from pathlib import Path
from picoclaw.tools.exec import ExecTools
print(ExecTools(Path(sys.argv[1]), os.environ).exec(["cat"]))
print(sys.stdin.read())
"""


def script(text, *arguments, **more):
    return subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=30, check=True, **more
    )


def test_what_was_piped_to_us_is_not_for_the_command(bench):
    assert script(PIPED, str(bench.workspace), input="mine").stdout == "[exit code 0]\nmine\n"


def test_what_is_given_is_read(bench):
    assert bench.run("cat", stdin="a\nb") == "a\nb\n[exit code 0]"
    assert bench.run("wc", "-c", stdin="x" * 1_000_000) == "1000000\n[exit code 0]"


def test_none_of_our_files_is_open_in_the_command(bench, tmp_path):
    with (tmp_path / "state.db").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        listed = bench.run("ls", "-l", "/proc/self/fd")
    assert "state.db" not in listed
    assert len(re.findall("->", listed)) == 5  # with the folder itself, and the pipe that ends with us
    assert {line.rpartition(" ")[2].partition(":")[0] for line in re.findall("-> .*", listed)} <= {
        "/dev/null",
        "pipe",
        "",
    } | set(re.findall("/proc/[0-9]+/fd", listed))


LIVES = [
    "trap '' TERM INT HUP; while :; do sleep 0.0{n}; done",
    "sh -c 'trap \"\" TERM; while :; do sleep 0.0{n}; done' & wait",
    "(sleep 10{n} &) ; sleep 10{n}",
    "setsid sh -c 'sleep 10{n}' & setsid -f sleep 10{n}; sleep 10{n}",
    "sleep 10{n} | cat",
    "yes {n}",
    "python3 -c 'import os, time; os.fork() or (os.setsid(), os.fork() or time.sleep(10{n})); time.sleep(10{n})'",
]


@pytest.mark.parametrize("number", range(len(LIVES)))
def test_the_time_limit_takes_everything_along(shell, number):
    began = time.monotonic()
    mark = f"{number}{os.getpid()}"
    answer = shell.line(LIVES[number].replace("{n}", mark), timeout=0.4)
    assert time.monotonic() - began < 5
    assert "[stopped after 0.4 s, with everything that it had started" in answer
    assert gone(mark)


@pytest.mark.parametrize("start", ["", "nohup ", "setsid -f ", "setsid "])
def test_what_was_left_in_the_background_is_not_waited_for_and_ends(shell, start):
    mark = f"97{os.getpid()}"
    began = time.monotonic()
    assert shell.line(f"{start}sh -c 'trap \"\" TERM HUP; sleep {mark}' & sleep 0.05; echo done").endswith(
        "done\n[exit code 0]"
    )
    assert time.monotonic() - began < 5
    assert gone(f"sleep {mark}")


def test_output_before_the_time_limit_is_kept(shell):
    assert shell.line("echo early; sleep 100", timeout=0.5).startswith("early\n[stopped after 0.5 s")


def test_much_output_is_bounded_and_both_ends_are_shown(shell):
    tracemalloc.start()
    began = time.monotonic()
    answer = shell.line("echo begin; yes 0123456789abcde | head -c 50000000; echo; echo end; exit 3", timeout=60)
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
def test_output_up_to_the_bound_is_whole(shell, size):
    answer = shell.line(f"head -c {size} /dev/zero | tr '\\0' x")
    assert answer == "x" * size + "\n[exit code 0]"


def test_the_last_words_of_a_command_are_not_lost(shell):
    for _ in range(20):
        assert shell.line("head -c 60000 /dev/zero; echo last").endswith("last\n[exit code 0]")


def test_two_commands_at_once_keep_apart(bench):
    answers = {}
    threads = [threading.Thread(target=lambda n=n: answers.update({n: bench.run("echo", str(n))})) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {n: f"{n}\n[exit code 0]" for n in range(5)}


def belongings():
    """Our open descriptors and our children, whichever thread has them; one that another test left may end meanwhile."""
    open_files = sorted(path.name for path in Path("/proc/self/fd").iterdir())
    children = (path.read_text().split() for path in Path("/proc/self/task").glob("*/children"))
    return open_files, sorted(chain.from_iterable(children))


def test_no_process_and_no_descriptor_is_left_behind(shell):
    shell.line("true")
    before = belongings()
    for _ in range(3):
        shell.line("sleep 100 & echo x")
        shell.run("sleep", "100", timeout=0.1)
        shell.run("echo", "x" * 3_000_000)
        shell.run("cat", stdin="x")
    assert belongings() == before


def test_the_word_to_stop_ends_it(bench):
    stop = Stop()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    caller = CALLER.__class__("test", "owner", CALLER.now, print, stop=stop)
    assert bench.tool("exec", caller, argv=["sleep", "60"]) == "[exit code -9]"
    assert time.monotonic() - began < 2


INTERRUPTED = """
import os, sys
from pathlib import Path
from picoclaw.tools.exec import ExecTools
try:
    ExecTools(Path(sys.argv[1]), os.environ).exec(["sleep", sys.argv[2]])
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(("number", "said"), [(signal.SIGINT, "interrupted\n"), (signal.SIGKILL, "")])
def test_however_we_end_the_command_ends_as_well(bench, number, said):
    mark = f"61{os.getpid()}"
    command = [sys.executable, "-c", INTERRUPTED, str(bench.workspace), mark]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not any(pid != child.pid for pid in running(f"sleep {mark}")):
        time.sleep(0.01)
    child.send_signal(number)
    assert child.communicate(timeout=10)[0] == said
    assert gone(f"sleep {mark}")


HURRIED = """
import os, signal, subprocess, sys
from pathlib import Path
from picoclaw.tools.exec import ExecTools

class Slow(subprocess.Popen):
    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        os.kill(os.getpid(), signal.SIGINT)

subprocess.Popen = Slow
try:
    ExecTools(Path(sys.argv[1]), os.environ).exec(["sleep", sys.argv[2]])
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_ctrl_c_while_a_command_is_being_started_leaves_none_behind(bench):
    mark = f"62{os.getpid()}"
    for _ in range(3):
        assert script(HURRIED, str(bench.workspace), mark).stdout == "interrupted True\n"
    assert gone(f"sleep {mark}")


# ---- in the background


def test_a_command_goes_on_and_is_looked_at(bench):
    started = bench.tool("exec", argv=["cat"], background=True, timeout=60, stdin="one")
    assert started == "command 1 runs for 60 s at most; process looks at it, writes and ends it"
    assert bench.tool("process", action="write", number=1, text="two") == "4 bytes written"
    assert bench.tool("process", action="list") == "1: cat [runs]"
    assert bench.tool("process", action="poll", number=1, wait=0.2) == "one\ntwo\n[runs]"
    assert bench.tool("process", action="poll", number=1) == "[runs]"
    bench.tool("process", action="write", number=1, text="three", eof=True)
    assert bench.tool("process", action="poll", number=1, wait=5) == "three\n[ended with exit code 0]"
    assert bench.tool("process", action="write", number=1, text="x").startswith("error: command 1 reads nothing")


def test_a_command_in_the_background_is_ended_by_word_and_by_time(bench):
    mark = f"63{os.getpid()}"
    for seconds in (60, 0.3):
        bench.tool("exec", argv=["sleep", mark], background=True, timeout=seconds)
    assert bench.tool("process", action="kill", number=1) == "ended with exit code -9"
    assert bench.tool("process", action="poll", number=2, wait=5) == "[stopped after 0.3 s]"
    assert gone(f"sleep {mark}")
    other = CALLER.__class__("another", "owner", CALLER.now, print)
    assert bench.tool("process", other, action="poll", number=1).startswith("error: there is no command 1 in this chat")


def test_what_is_written_to_a_command_may_do_what_it_may(bench):
    for rights in ({}, {"write": True}, {"network": True}):
        bench.tool("exec", argv=["cat"], background=True, timeout=20, **rights)
    bench.asked.clear()
    for number in (1, 2, 3):
        bench.tool("process", action="write", number=number, text="x")
    assert [asked.effect for asked in bench.asked] == ["read", "exec", "network"]
    for number in (1, 2, 3):
        bench.tool("process", action="kill", number=number)


def test_only_so_many_go_on_at_once_and_only_for_a_person(bench):
    for _ in range(8):
        bench.tool("exec", argv=["sleep", "20"], background=True)
    assert bench.tool("exec", argv=["sleep", "20"], background=True).startswith("error: 8 commands run")
    for number in range(1, 9):
        bench.tool("process", action="kill", number=number)
    job = CALLER.__class__("test", "cron", CALLER.now, print)
    assert bench.tool("exec", job, argv=["sleep", "20"], background=True).startswith("error: only a person's chat")

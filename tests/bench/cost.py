"""What commands cost: CPU, wall time, peak memory, modules, and a tool round. Prints figures, judges nothing.

    make bench

CPU and memory are the kernel's own account of each finished process (wait4(2)); the median of several runs is shown,
with the least and the most. The model is a scripted server on loopback without think time.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from model_server import ModelServer, call, reply

RUNS = int(os.environ.get("RUNS", "9"))
ROUNDS = 50
PYTHON = sys.executable


# A process's peak counts what it was forked from, so a small one starts the command and reads its account.
LAUNCHER = """
import os, sys, time
began = time.perf_counter()
null = os.open(os.devnull, os.O_RDWR)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, time.perf_counter() - began, usage.ru_maxrss)
"""


def measured(command, environment):
    """CPU seconds, wall seconds and peak megabytes of one run."""
    launch = [PYTHON, "-I", "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(launch, env=environment, capture_output=True, text=True, check=True)
    code, cpu, wall, memory = done.stdout.split()
    assert code == "0", done.stderr
    return float(cpu), float(wall), int(memory) / 1024


class Script:
    """Answers from a list, and notes when each request came and when its answer was out."""

    def __init__(self):
        self.answers, self.came, self.sent = [], [], []

    def __call__(self, body):
        self.came.append(time.perf_counter())
        answer = self.answers.pop(0) if self.answers else reply("ok")  # who is asked again says as much

        def noted(exchange):
            answer(exchange)
            self.sent.append(time.perf_counter())

        return noted

    def gaps(self):
        return [1000 * (came - sent) for sent, came in zip(self.sent, self.came[1:], strict=False)]


def row(name, command, environment, prepare=lambda: None):
    results = []
    for _ in range(RUNS + 1):
        prepare()
        results.append(measured(command, environment))
    cpu, wall, memory = zip(*results[1:], strict=True)
    prepare()
    count = modules(command, environment)
    print(f"{name:28} {figure(cpu, 1000)} {figure(wall, 1000)} {figure(memory, 1)} {count:7}")


def figure(values, factor):
    median, least, most = (f(values) * factor for f in (statistics.median, min, max))
    return f"{median:7.1f} ({least:.1f}-{most:.1f})".rjust(22)


def modules(command, environment):
    """How many modules the command imports beyond those of `python -c pass`."""
    traced = [command[0], "-X", "importtime", *command[1:]]
    bare = [command[0], "-X", "importtime", "-c", "pass"]
    return imports(traced, environment) - imports(bare, environment)


def imports(command, environment):
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return sum(line.startswith("import time:") for line in done.stderr.splitlines())


def main():
    picoclaw = [PYTHON, "-m", "picoclaw"]
    script = Script()
    with tempfile.TemporaryDirectory() as home, ModelServer(script) as server:
        plainly = {k: v for k, v in os.environ.items() if not k.startswith(("PICOCLAW_", "OPENAI_", "OPENROUTER_"))}
        alone = plainly | {"PICOCLAW_HOME": home}
        modelled = alone | {"PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}
        print(f"{'':28} {'CPU ms (min-max)':>22} {'wall ms':>22} {'peak MB':>22} modules   ({RUNS} runs)")
        row("python -c pass", [PYTHON, "-c", "pass"], alone)
        row("--version", [*picoclaw, "--version"], alone)
        row("--help", [*picoclaw, "--help"], alone)
        warm = [*picoclaw, "chat", "--board", "sim", "-m", "how warm is it?"]
        row("one shot, no model", warm, alone)
        plain = [*picoclaw, "chat", "--board", "sim", "-m", "What is a transistor?"]
        row("one shot, plain answer", plain, modelled, lambda: script.answers.append(reply("hello")))
        tool = [reply("", call("sensor_read")), reply("ok")]
        row("one shot, one sensor tool", warm, modelled, lambda: script.answers.extend(tool))
        row("tool sensor_read", [*picoclaw, "tool", "sensor_read", "--board", "sim"], alone)
        row("prompt --json", [*picoclaw, "prompt", "--json", "--board", "sim"], alone)
        rounds(picoclaw, server, script, Path(home), modelled)
        sizes(picoclaw, alone)


def rounds(picoclaw, server, script, home, environment):
    """Client time of a tool round: from the server's answer being out to its next request coming in."""
    (home / "workspace").mkdir(exist_ok=True)
    (home / "workspace" / "note.txt").write_text("x" * 200)
    (home / "config.toml").write_text("[limits]\nsteps = 1000\n")
    calls = [reply("", call("read_file", {"path": "note.txt", "max_lines": 1 + i})) for i in range(ROUNDS)]
    script.answers, script.came, script.sent = [*calls, reply("done")], [], []
    before = server.connections
    command = [*picoclaw, "chat", "--session", "rounds", "-m", "go", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    own = [t["ms"] for t in json.loads(done.stdout)["turn"]["tools"]]
    gaps = script.gaps()
    print(
        f"\n{ROUNDS} tool rounds: {statistics.median(gaps):.2f} ms of client time a round (least {min(gaps):.2f}),"
        f" of which the tool itself {statistics.median(own):.2f}; {server.connections - before} TCP connection(s)"
    )


def sizes(picoclaw, environment):
    for board in ("sim", "linux"):
        command = [*picoclaw, "prompt", "--json", "--board", board]
        told = json.loads(subprocess.run(command, env=environment, capture_output=True, text=True).stdout)
        print(f"prompt on --board {board}: system {told['system_bytes']} bytes, tools {told['tools_bytes']} bytes")


if __name__ == "__main__":
    main()

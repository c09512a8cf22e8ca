"""Each aim of docs/figures.md beside what is measured here and now. Prints, judges nothing.

    .venv/bin/python tests/bench/budgets.py [--turns 1000] [--idle 60] [--part commands|turns|idle|writes ...]

Commands are run several times, and the median is shown (wait4(2), as in cost.py); the turns are one app's in a process
of its own, against a scripted server in another; the idle daemon is daemon.py's `all`: page, Telegram and a model that
is asked nothing, and `bare`, which hardly measures. The day with five sensors is history.py's, the one without is what
`bare` wrote, times the minutes of a day. Milliseconds of a loaded machine are too many: the load is printed first.
"""

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import cost
import daemon
import history
from model_server import ModelServer, call, reply

PARTS = ("commands", "turns", "idle", "writes")
TURNS = """
import json, resource, sys, time
from contextlib import closing
from pathlib import Path
from picoclaw import workspace
from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.hw import detect
from picoclaw.messages import Inbound

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6

home, url, turns = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
config = load_config({"PICOCLAW_HOME": str(home), "PICOCLAW_BASE_URL": url, "PICOCLAW_MODEL": "scripted"})
workspace.prepare_home(home)
(home / "workspace/BOOTSTRAP.md").unlink()
(home / "workspace/note.txt").write_text("The beans want water on Friday.")
with closing(App(config, detect.choose_board("sim", config))) as app:
    def ask(number):
        assert not app.dispatcher.answer(Inbound(f"terminal:{number % 20}", f"What does the note say? ({number})")).stopped
    for number in range(100):
        ask(number)
    before, cpu = resident(), time.process_time()
    for number in range(turns):
        ask(number)
    print(json.dumps({"before": before, "after": resident(), "ms": 1000 * (time.process_time() - cpu) / turns}))
"""
HTTPX = """
import sys, httpx
body = {"model": "scripted", "messages": [{"role": "user", "content": "What is a transistor?"}]}
assert httpx.post(f"{sys.argv[1]}/chat/completions", json=body).text
"""


def told(what, aim, found):
    print(f"{what:44} {aim:>12} {found:>12}", flush=True)


def commands():
    """The start of commands, and a tool round."""
    picoclaw, script = [cost.PYTHON, "-m", "picoclaw"], cost.Script()
    with tempfile.TemporaryDirectory() as home, ModelServer(script) as server:
        (Path(home) / "config.toml").write_text("[limits]\nsteps = 1000\n")
        plainly = {k: v for k, v in os.environ.items() if not k.startswith(("PICOCLAW_", "OPENAI_", "OPENROUTER_"))}
        alone = plainly | {"PICOCLAW_HOME": home}
        modelled = alone | {"PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}
        shot = [*picoclaw, "chat", "--board", "sim", "-m", "how warm is it?"]
        subprocess.run(shot, env=alone, capture_output=True, check=True)
        (Path(home) / "workspace/BOOTSTRAP.md").unlink(missing_ok=True)
        floor = ran([cost.PYTHON, "-c", "pass"], alone)[0]
        told("python -c pass, CPU ms (for comparison)", "", f"{floor:.0f}")
        found = ran([cost.PYTHON, "-c", HTTPX, server.url], alone, lambda: script.answers.append(reply("It is fine.")))
        told("bare httpx asking the same, times that, MB", "", f"{found[0] / floor:.1f}, {found[1]:.1f}")
        plain = [*picoclaw, "chat", "--board", "sim", "-m", "What is a transistor?"]
        answered = partial(script.answers.append, reply("It is fine."))
        for name, aim, command, environment, prepare in (
            ("--version", "1.5", [*picoclaw, "--version"], alone, lambda: None),
            ("one shot without a model", "9, 30", shot, alone, lambda: None),
            ("one shot with a model", "12, 31", plain, modelled, answered),
        ):
            found = ran(command, environment, prepare)
            told(f"{name}, times that, MB", aim, f"{found[0] / floor:.1f}, {found[1]:.1f}")
        daemon_of = subprocess.Popen([*picoclaw, "run", "--board", "sim"], env=alone, stderr=subprocess.PIPE, text=True)
        assert any("channels: " in line for line in daemon_of.stderr), "the daemon did not start"
        found = ran([*picoclaw, "chat", "-m", "how warm is it?"], alone)
        daemon_of.terminate()
        daemon_of.communicate()
        told("chat -m with a daemon, times that, MB", "4, 14", f"{found[0] / floor:.1f}, {found[1]:.1f}")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            cost.rounds(picoclaw, server, script, Path(home), modelled)
        told("a tool round, ms of the client", "1.8", said.getvalue().split("rounds: ")[1].split(" ")[0])


def ran(command, environment, prepare=lambda: None):
    results = []
    for _ in range(cost.RUNS):
        prepare()
        results.append(cost.measured(command, environment))
    return 1000 * statistics.median(one[0] for one in results), statistics.median(one[2] for one in results)


def turns(count):
    """What many turns leave in memory."""

    def script(body):
        last = body["messages"][-1]["role"]
        return reply("All is well there.") if last == "tool" else reply("", call("read_file", {"path": "note.txt"}))

    with tempfile.TemporaryDirectory() as home, ModelServer(script) as server:
        child = subprocess.Popen(
            [sys.executable, "-c", TURNS, home, server.url, str(count)], stdout=subprocess.PIPE, text=True
        )
        while child.poll() is None:
            server.requests.clear()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(1)
        found = json.loads(child.communicate()[0])
    told(f"growth over {count} turns, MB", "1", f"{found['after'] - found['before']:.1f}")
    told("a turn with one tool, CPU ms", "", f"{found['ms']:.1f}")
    told("memory after them, MB", "", f"{found['after']:.1f}")


def idle(seconds):
    """A daemon that nobody talks to, with sensors that are measured every minute, and with none to speak of."""
    row, minute = lived("all", seconds), 60 / seconds
    told("idle daemon with page and Telegram, MB", "36", row[2])
    told("threads of it", "", row[5])
    told("wake-ups a minute", "8", f"{float(row[6]) * minute:.0f}")
    told("CPU ms a minute", "5", f"{float(row[7]) * minute:.1f}")
    told("idle daemon with neither, MB", "28", lived("socket", seconds)[2])
    bare = lived("bare", seconds)
    told("wake-ups a minute without sensors", "10", f"{float(bare[6]) * minute:.0f}")
    told("CPU ms a minute without sensors", "5", f"{float(bare[7]) * minute:.1f}")
    told("written a day without sensors, MB", "5", f"{int(bare[9]) * minute * 1440 / 1e6:.1f}")


def lived(kind, seconds):
    with contextlib.redirect_stdout(io.StringIO()) as said:
        daemon.lived(kind, seconds, 20)
    return said.getvalue().split("\n")[0].split()


def writes():
    """A day of five sensors with three quantities each."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.chdir(tempfile.gettempdir()):
        history.main(60.0, 1)
    row = said.getvalue().splitlines()[2].split()
    told("written a day with five sensors, MB", "50", row[1])
    told("of which block writes, MB", "", row[4])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--idle", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--part", action="append", choices=PARTS)
    given = parser.parse_args()
    told(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors", "aim", "measured")
    doing = {
        "commands": commands,
        "turns": lambda: turns(given.turns),
        "idle": lambda: idle(given.idle),
        "writes": writes,
    }
    for part in given.part or PARTS:
        doing[part]()


if __name__ == "__main__":
    main()

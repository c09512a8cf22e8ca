"""The lives of a message, a memory search, a reading and an output: which of our functions they pass, in how many files.

    python tests/bench/lives.py [--markdown]

Each is one command in a process of its own, followed by sys.setprofile. The path is the deepest stack of our frames at
the moment the outside is reached: bytes sent to a socket, a statement executed by SQLite, bytes on a simulated bus.
A message goes through a daemon, and is followed from its queue on, a tool's call from the registry. Figures are counts,
and do not depend on the machine. `--markdown` prints the paths as in CONTRIBUTING.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from model_server import ModelServer, reply

ROOT = Path(__file__).resolve().parents[2]

OUTPUTS = '[outputs.lamp]\nkind = "light"\nline = "GPIO17"\nlongest_on_s = 60\nconfirm = false\n'

LIVES = {
    "a message, from the daemon's queue to the model's socket": (["run", "--board", "sim"], "send"),
    "a memory search, from the tool's call to SQLite": (
        ["tool", "memory_search", '{"query": "water"}', "--board", "sim"],
        "execute",
    ),
    "a reading, from the tool's call to the bus": (
        ["tool", "sensor_read", '{"sensor": "greenhouse"}', "--board", "sim"],
        "bus",
    ),
    "an output, to its supervisor": (["outputs", "--board", "sim", "set", "lamp", "on", "1"], "send"),
}
BEGINNINGS = {"MessageQueue._respond", "Toolset.run"}
"""Where a message is taken out of the queue, and where a tool is called: what stands above is how one came there."""


def follow(arguments, reached):
    """Run one command in this process; returns the deepest path to what is reached, files and functions entered."""
    from picoclaw.cli import run

    entered, of_turn, deepest, answering = {}, set(), [], 0

    def ours(code):
        file = Path(code.co_filename)
        return file.is_relative_to(ROOT / "picoclaw") or file.is_relative_to(ROOT / "tools/hw")

    def path_to(frame):
        path = []
        while frame is not None:
            if ours(frame.f_code) and frame.f_code.co_name not in {"<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>"}:
                file = Path(frame.f_code.co_filename).relative_to(ROOT)
                path.append((str(file), frame.f_code.co_qualname))
            frame = frame.f_back
        return path[::-1]

    def note(frame):
        nonlocal deepest
        path = path_to(frame)
        if len(path) > len(deepest):
            deepest = path

    def profile(frame, event, arg):
        nonlocal answering
        if frame.f_code.co_qualname == "Dispatcher.answer" and event in {"call", "return"}:
            answering += 1 if event == "call" else -1
        if event == "call" and answering and ours(frame.f_code) and frame.f_code.co_name != "<module>":
            of_turn.add(frame.f_code.co_filename)
        if event == "call" and ours(frame.f_code):
            entered.setdefault(frame.f_code.co_filename, set()).add(frame.f_code.co_qualname)
            if (
                reached == "bus"
                and "hw/sim/buses" in frame.f_code.co_filename
                and frame.f_code.co_name in {"transfer", "messages"}
            ):
                note(frame)
        elif event == "c_call":
            name = getattr(arg, "__name__", "")
            is_sent = (
                reached == "send" and name in {"send", "sendall", "sendmsg"} and (arguments[0] != "run" or answering)
            )
            if is_sent or (reached == name == "execute" and any("search" in file for file, _ in path_to(frame)[5:])):
                note(frame)

    sys.setprofile(profile)
    code = run(arguments)
    sys.setprofile(None)
    names = [name for _, name in deepest]
    deepest = deepest[max([0, *(names.index(name) for name in BEGINNINGS if name in names)]) :]
    files = {str(Path(name).relative_to(ROOT)): sorted(names) for name, names in entered.items()}
    return {
        "code": code,
        "path": deepest,
        "files": files,
        "of_turn": sorted(of_turn),
        "modules": modules(),
        "classes": classes(),
    }


def modules():
    return sum(name.partition(".")[0] == "picoclaw" for name in sys.modules)


def classes():
    """Classes of ours that this process has made."""
    seen, left = set(), [object]
    while left:
        for one in type.__subclasses__(left.pop()):
            if one not in seen:
                seen.add(one)
                left.append(one)
    return sum(str(one.__module__).partition(".")[0] == "picoclaw" for one in seen)


def made(home, url):
    """A home with a note, an output and a model on loopback."""
    plain = {**os.environ, "PICOCLAW_HOME": str(home), "PYTHONPATH": str(ROOT)}
    note = [sys.executable, "-m", "picoclaw", "chat", "--board", "sim", "-m", "note that the rain water tank is blue"]
    search = [sys.executable, "-m", "picoclaw", *LIVES["a memory search, from the tool's call to SQLite"][0]]
    for command in (note, search):  # a second search finds the index as it is
        subprocess.run(command, env=plain, check=True, stdout=subprocess.DEVNULL)
    (home / "outputs.toml").write_text(OUTPUTS)
    return {**plain, "PICOCLAW_BASE_URL": url, "PICOCLAW_MODEL": "m"}


def talk_to(daemon, environment):
    """Say something to a daemon as soon as it listens, and end it."""
    for line in daemon.stderr:
        if "ready" in line:
            break
    chat = [sys.executable, "-m", "picoclaw", "chat", "-m", "hello"]
    subprocess.run(chat, env=environment, check=True, stdout=subprocess.DEVNULL)
    daemon.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--follow", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.follow:
        report = follow(json.loads(given.follow[0]), given.follow[1])
        Path(os.environ["LIVES_REPORT"]).write_text(json.dumps(report))
        return
    with tempfile.TemporaryDirectory() as folder, ModelServer(lambda body: reply("Hello.")) as server:
        environment = made(Path(folder) / "home", server.url)
        report = Path(folder) / "report"
        for name, (arguments, reached) in LIVES.items():
            command = [sys.executable, __file__, "--follow", json.dumps(arguments), reached]
            with subprocess.Popen(
                command, env={**environment, "LIVES_REPORT": str(report)}, stderr=subprocess.PIPE, text=True, cwd=folder
            ) as process:
                if arguments[0] == "run":
                    talk_to(process, environment)
                _, said = process.communicate()
            if process.returncode:
                sys.exit(f"{name}: {said}")
            life = json.loads(report.read_text())
            functions = sum(len(names) for names in life["files"].values())
            within = [file for file in life["files"] if "/memory/" in file]
            print(
                f"{name}: {len(life['path'])} frames in {len({file for file, _ in life['path']})} files; the command enters {functions} functions in {len(life['files'])} files ({len(within)} of memory/), {len(life['of_turn'])} files run while a message is answered; has {life['modules']} modules and {life['classes']} classes of ours; exit {life['code']}"
            )
            if given.markdown:
                for number, (file, function) in enumerate(life["path"], 1):
                    print(f"{number}. `{file}:{function}`")


if __name__ == "__main__":
    main()

"""The lives of messages, a memory search, a reading, an output and a job: which functions they pass, in how many files.

    python tests/bench/lives.py [--markdown | --write]

Each is one command in a process of its own, followed by sys.setprofile. The path is the deepest stack of our frames at
the moment the outside is reached: bytes sent to a socket, a statement executed by SQLite, bytes on a simulated bus,
a reminder in the outbox, a Telegram message in the inbox. A message goes through a daemon, and is followed from its
queue on, or from the thread that polls, a tool's call from the registry. Figures are counts, and do not depend on the machine. `--markdown` prints the paths as CONTRIBUTING.md has
them, and `--write` puts them there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from model_server import ModelServer, reply
from telegram_server import OWNER, TOKEN, TelegramServer

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"

OUTPUTS = '[outputs.lamp]\nkind = "light"\nline = "GPIO17"\nlongest_on_s = 60\nconfirm = false\n'

LIVES = {
    "a message, from the daemon's queue to the model's socket": (["run", "--board", "sim"], "send"),
    "a Telegram message, from the bot's poll to the inbox": (["run", "--board", "sim"], "inbox"),
    "a memory search, from the tool's call to SQLite": (["tool", "memory_search", '{"query": "water"}', "--board", "sim"], "execute"),
    "a reading, from the tool's call to the bus": (["tool", "sensor_read", '{"sensor": "greenhouse"}', "--board", "sim"], "bus"),
    "an output, to its supervisor": (["outputs", "--board", "sim", "set", "lamp", "on", "1"], "send"),
    "a job, from the scheduler's thread to the outbox": (["run", "--board", "sim"], "outbox"),
}  # fmt: skip
BEGINNINGS = {"MessageQueue._respond", "PolledChannel._poll", "Toolset.run", "SchedulerThread._run"}
"""Where a message is taken out of the queue, a tool is called, a job is due: what stands above is how one came there."""
CALLS = {
    "inbox": ("store/inbox_outbox", {"put"}),
    "bus": ("hw/sim/__init__", {"transfer", "messages"}),
    "outbox": ("store/inbox_outbox", {"put_message"}),
}
"""The functions by which a bus, the inbox and the outbox are reached."""


def follow(arguments, reached):
    """Run one command in this process; returns the deepest path to what is reached, files and functions entered."""
    from picoclaw.cli import run

    entered, turns, deepest, answering = {}, [], [], 0

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
            if event == "call" and answering == 1:
                turns.append(set())
        if event == "call" and answering and ours(frame.f_code) and frame.f_code.co_name != "<module>":
            turns[-1].add(frame.f_code.co_filename)
        if event == "call" and ours(frame.f_code):
            entered.setdefault(frame.f_code.co_filename, set()).add(frame.f_code.co_qualname)
            file, names = CALLS.get(reached, ("", ()))
            if frame.f_code.co_name in names and file in frame.f_code.co_filename:
                note(frame)
        elif event == "c_call":
            name = getattr(arg, "__name__", "")
            is_sent = (
                reached == "send" and name in {"send", "sendall", "sendmsg"} and (arguments[0] != "run" or answering)
            )
            if is_sent or (reached == name == "execute" and any("search" in file for file, _ in path_to(frame)[5:])):
                note(frame)

    if reached in {"inbox", "outbox"}:
        threading.setprofile(profile)
    sys.setprofile(profile)
    code = run(arguments)
    sys.setprofile(None)
    names = [name for _, name in deepest]
    deepest = deepest[max([0, *(names.index(name) for name in BEGINNINGS if name in names)]) :]
    assert deepest, f"{' '.join(arguments)} did not reach {CALLS.get(reached, reached)}"
    files = {str(Path(name).relative_to(ROOT)): sorted(names) for name, names in entered.items()}
    return {
        "code": code,
        "path": deepest,
        "files": files,
        "turns": [sorted(one) for one in turns],
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


def make_home(home, url):
    """A home that has had its first meeting, with a note, an output and a model on loopback."""
    plain = {**os.environ, "PICOCLAW_HOME": str(home), "PYTHONPATH": str(ROOT)}
    note = ["chat", "--board", "sim", "-m", "note that the rain water tank is blue"]
    search = LIVES["a memory search, from the tool's call to SQLite"][0]
    for command in (note, search):  # a second search finds the index as it is
        run_picoclaw(command, plain)
    (home / "outputs.toml").write_text(OUTPUTS)
    (home / "workspace/BOOTSTRAP.md").unlink()
    return {**plain, "PICOCLAW_BASE_URL": url, "PICOCLAW_MODEL": "m"}


def make_telegram_home(home, url):
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(f'[telegram]\nallow = [{OWNER}]\napi_url = "{url}"\n')
    (home / "secrets.toml").write_text(f'telegram_token = "{TOKEN}"\n')
    (home / "secrets.toml").chmod(0o600)
    return home


def run_picoclaw(words, environment):
    command = [sys.executable, "-m", "picoclaw", *words]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def use_daemon(daemon, environment, reached, bot):
    """Say something to a daemon as soon as it listens, or to its bot, or wait until a reminder was due, and end it."""
    for line in daemon.stderr:
        if "ready" in line:
            break
    if reached == "outbox":
        while "no reminders" not in run_picoclaw(["cron", "list"], environment):
            time.sleep(0.2)
    elif reached == "inbox":
        bot.says(OWNER, "hello")
        bot.wait(bot.texts, 60.0)
    else:
        for _ in range(2):  # the first message of a daemon makes its tools, a later one finds them
            run_picoclaw(["chat", "-m", "hello"], environment)


def trace(environment, folder, arguments, reached):
    """Follow one command in a process of its own, which reports what it has passed."""
    report = folder / "report"
    command = [sys.executable, __file__, "--follow", json.dumps(arguments), reached]
    environment = {**environment, "LIVES_REPORT": str(report)}
    bot = TelegramServer()
    if reached == "inbox":
        environment["PICOCLAW_HOME"] = str(make_telegram_home(folder / "telegram", bot.url))
    elif reached == "outbox":
        run_picoclaw(["cron", "add", "water the plants", "--in", "1s"], environment)
    with (
        bot,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=folder
        ) as process,
    ):
        if arguments[0] == "run":
            try:
                use_daemon(process, environment, reached, bot)
            finally:
                process.terminate()
        _, said = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(arguments)}: {said}")
    return json.loads(report.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--follow", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.follow:
        report = follow(json.loads(given.follow[0]), given.follow[1])
        Path(os.environ["LIVES_REPORT"]).write_text(json.dumps(report))
        return
    pages = []
    with tempfile.TemporaryDirectory() as folder, ModelServer(lambda body: reply("Hello.")) as server:
        environment = make_home(Path(folder) / "home", server.url)
        for name, (arguments, reached) in LIVES.items():
            life = trace(environment, Path(folder), arguments, reached)
            path = life["path"]
            files = len({file for file, _ in path})
            rows = [f"{number}. `{file}:{function}`\n" for number, (file, function) in enumerate(path, 1)]
            pages.append(f"**{name[0].upper()}{name[1:]}** ({len(path)} functions in {files} files):\n{''.join(rows)}")
            if not (given.markdown or given.write):
                functions = sum(len(names) for names in life["files"].values())
                within = [file for file in life["files"] if "/memory/" in file]
                print(
                    f"{name}: {len(path)} functions in {files} files; the command enters {functions} functions in {len(life['files'])} files ({len(within)} of memory/); files run while the first message is answered, and the next: {' and '.join(str(len(one)) for one in life['turns']) or 'none'}; has {life['modules']} modules and {life['classes']} classes of ours; exit {life['code']}"
                )
    if given.markdown:
        print("\n".join(pages))
    if given.write:
        text = PAGE.read_text()
        before = text.index("**A message, from")
        after = text.index("\n## ", before)
        PAGE.write_text(text[:before] + "\n".join(pages) + text[after:])


if __name__ == "__main__":
    main()

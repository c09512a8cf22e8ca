"""picoclaw beside two others of its kind, against the same scripted model server, in the same run. Judges nothing.

    .venv/bin/python tests/bench/peers.py [--folder /tmp/peers] [--runs 5] [--seconds 60] [--settle 40] [NAME ...]

nanobot (nanobot-ai) and attache come from PyPI into environments of their own below the folder, which is kept for
the next run; picoclaw is installed from this checkout in the same way, so that no development package is near it.
Each has a home of its own there, made by its own set-up. Figures are the kernel's: wait4(2) for what a command took,
proc(5) for a daemon and the processes below it. Packages are those that pip lists, without pip and setuptools.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from cost import measured
from daemon import process_ms, threads
from model_server import ModelServer, call, reply

sys.path.append(str(Path(__file__).resolve().parents[1]))

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 10
ASKED = "ten rounds"
NOT_ITS_OWN = {"pip", "setuptools", "pkg_resources", "_distutils_hack"}


class Peer(NamedTuple):
    """How one of them is installed and asked. In commands, HOME and URL are put in."""

    package: str
    version: list[str]
    once: list[str]
    stdin: str
    daemon: list[str]
    files: str


PEERS = {
    "picoclaw": Peer(str(ROOT), ["picoclaw", "--version"], ["picoclaw", "chat", "--board", "sim", "-m", "TEXT"], "", ["picoclaw", "run", "--board", "sim"], ".picoclaw/workspace"),
    "nanobot": Peer("nanobot-ai", ["nanobot", "--version"], ["nanobot", "agent", "-m", "TEXT"], "", ["nanobot", "gateway", "--foreground"], ".nanobot/workspace"),
    "attache": Peer("attache", ["attache", "--version"], ["attache", "--home", "HOME/.attache", "chat"], "TEXT\n", ["attache", "--home", "HOME/.attache", "run"], ".attache/files"),
}  # fmt: skip


class Script:
    """Says hello, or has ten files read first, one by one, where that is asked for and there is a tool for it."""

    def __init__(self):
        self.files, self.done = "", 0

    def __call__(self, body):
        offered = {tool["function"]["name"] for tool in body.get("tools") or ()}
        if ASKED in json.dumps(body["messages"]) and self.done < ROUNDS and "read_file" in offered:
            self.done += 1
            return reply("", call("read_file", {"path": self.files.format(self.done - 1)}, f"call_{self.done}"))
        return reply("hello")


def installed(name, folder):
    """Install it once; returns its packages, and megabytes without and of numpy."""
    place, pip = folder / name, folder / name / "bin" / "pip"
    if not pip.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
    wanted = [pip, "install", "-q", "--disable-pip-version-check", PEERS[name].package]
    subprocess.run(wanted, check=True, capture_output=True, text=True)
    listed = json.loads(subprocess.run([pip, "list", "--format", "json"], capture_output=True, text=True).stdout)
    names = {package["name"].lower() for package in listed} - {"pip", "setuptools"}
    files = [file for file in (place / "lib").rglob("*") if file.is_file() and not NOT_ITS_OWN & {*file.parts}]
    sizes = [sum(file.stat().st_size for file in files if ("/numpy" in str(file)) is numpy) for numpy in (False, True)]
    return len(names), sizes[0] / 1e6, sizes[1] / 1e6


def environment(place):
    kept = {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}
    return {**kept, "PATH": f"{place}/bin:{os.environ['PATH']}", "HOME": str(place / "home"), "NO_COLOR": "1"}


def set_up(name, place, url):
    """Give it a home that asks the scripted server; returns where its files lie."""
    home, env = place / "home", environment(place)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    if name == "picoclaw":
        (home / ".picoclaw").mkdir(mode=0o700, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            page = f"[page]\nenabled = true\nport = {free.getsockname()[1]}\n"
        (home / ".picoclaw/config.toml").write_text(f'{page}[model]\nbase_url = "{url}"\nname = "scripted"\n')
        subprocess.run(["picoclaw", "skills", "list"], env=env, cwd="/", capture_output=True)
        (home / ".picoclaw/workspace/BOOTSTRAP.md").unlink(missing_ok=True)  # the first meeting asks no model
    elif name == "nanobot":
        subprocess.run(["nanobot", "onboard", "--refresh"], env=env, stdin=subprocess.DEVNULL, capture_output=True)
        config = home / ".nanobot/config.json"
        told = json.loads(config.read_text())
        told["agents"]["defaults"] |= {"provider": "custom", "model": "scripted"}
        told["providers"]["custom"] |= {"apiKey": "none", "apiBase": f"{url}"}
        config.write_text(json.dumps(told))
    else:
        init = ["attache", "--home", str(home / ".attache"), "init", "--name", "Ann", "--endpoint", "scripted"]
        subprocess.run(init, env=env, stdin=subprocess.DEVNULL, capture_output=True)
        config = home / ".attache/attache.toml"
        kept = config.read_text().partition("[endpoints.scripted]")[0]
        endpoint = f'api = "openai-chat"\nbase_url = "{url}"\nmodel = "scripted"\ncontext_tokens = 24000\n'
        config.write_text(f"{kept}[endpoints.scripted]\n{endpoint}")
    files = home / PEERS[name].files
    files.mkdir(parents=True, exist_ok=True)
    for number in range(ROUNDS):
        (files / f"r{number}.txt").write_text("x" * 200)
    return files


def command(words, place, text=""):
    found = [word.replace("HOME", str(place / "home")).replace("TEXT", text) for word in words]
    return [str(place / "bin" / found[0]), *found[1:]]


def row(peer, place, server, runs, text):
    """CPU ms, least wall ms and peak MB of a command; requests, connections and bytes of the first run."""
    found, sent = [], (0, 0, 0)
    for number in range(runs + 1):
        server.requests.clear()
        server.script.done, before = 0, server.connections
        words = command(peer.once, place, text)
        if peer.stdin:
            fed = peer.stdin.replace("TEXT", text)
            words = ["/bin/sh", "-c", 'printf %s "$0" | exec "$@"', fed, *words]
        found.append(measured(words, environment(place)))
        if not number:
            size = sum(len(json.dumps(request.body)) for request in server.requests)
            sent = len(server.requests), server.connections - before, size
    cpu, wall, memory = zip(*found[1:], strict=True)
    return 1000 * statistics.median(cpu), 1000 * min(wall), max(memory), *sent


def tree(pid):
    """A process and those below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def idle(peer, place, seconds, settle):
    """Megabytes, threads, CPU ms and voluntary switches of a daemon that nobody talks to."""
    with subprocess.Popen(
        command(peer.daemon, place),
        env=environment(place),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as daemon:
        try:
            time.sleep(settle)
            begun = {pid: (process_ms(pid), threads(pid)) for pid in tree(daemon.pid)}
            time.sleep(seconds)
            rss = ran = woken = count = 0
            for pid in tree(daemon.pid):
                resident = Path(f"/proc/{pid}/smaps_rollup").read_text().split("Rss:")[1].split()[0]
                rss += int(resident) / 1024
                before_ms, before = begun.get(pid, (0.0, {}))
                now = threads(pid)
                count += len(now)
                ran += process_ms(pid) - before_ms
                woken += sum(one[1] - before.get(task, one)[1] for task, one in now.items())
        finally:
            os.killpg(daemon.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
    return rss, count, ran * 60 / seconds, woken * 60 / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=list(PEERS), metavar="NAME")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/peers"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=40)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    head = (
        "packages",
        "MB",
        "numpy MB",
        "version CPU ms",
        "hello CPU ms",
        "wall ms",
        "peak MB",
        "requests",
        "bytes sent",
    )
    more = ("10 rounds CPU ms", "wall ms", "requests", "connections", "idle MB", "threads", "CPU ms/min", "wakes/min")
    print("|".join(["name", *head, *more]))
    for name in given.names:
        peer, place = PEERS[name], given.folder / name
        packages, *sizes = installed(name, given.folder)
        with ModelServer(told := Script()) as server:
            server.script = told
            files = set_up(name, place, server.url)
            told.files = "r{}.txt" if name == "picoclaw" else f"{files}/r{{}}.txt"
            version = [measured(command(peer.version, place), environment(place)) for _ in range(given.runs)]
            hello = row(peer, place, server, given.runs, "hello")
            rounds = row(peer, place, server, given.runs, f"please do {ASKED}")
            resting = idle(peer, place, given.seconds, given.settle)
        figures = [packages, *sizes, 1000 * statistics.median(one[0] for one in version), *hello[:4], hello[5]]
        figures += [rounds[0], rounds[1], rounds[3], rounds[4], *resting]
        print("|".join([name, *(f"{figure:.0f}" for figure in figures)]), flush=True)


if __name__ == "__main__":
    main()

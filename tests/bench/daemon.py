"""What a daemon costs that nobody talks to: memory, wake-ups by thread, CPU, bytes written. Prints, judges nothing.

    .venv/bin/python tests/bench/daemon.py [--seconds 60] [--settle 20] [KIND ...]

A real `picoclaw run` in a home of its own, started for the second time, for each kind: `socket` (nothing configured),
`page`, `telegram`, `both`, `all` (with a model server as well, which is asked nothing), `bare`, the same with
the simulated sensors measured once an hour instead of once a minute, and `mqtt` and `fleet`, connected to a mosquitto. Figures are the kernel's:
proc(5) for memory, switches and CPU of each thread; what is synced is counted in another such time, where strace(1) is
there. Resident memory is told at the beginning and at the end. A wake-up is a switch that the thread did itself: one
that waits for another thread of the process is counted as well.

    .venv/bin/python tests/bench/daemon.py --rooms both

prints instead where the memory of such a daemon is: the files that are mapped, and what Python holds of each package
(tracemalloc, from the first import on, which makes the whole larger than it is without).
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from model_server import ModelServer
from person import PICOCLAW, environment
from telegram_server import TOKEN, TelegramServer

KINDS = ("socket", "page", "telegram", "both", "all", "bare", "mqtt", "fleet")
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
# The kernel shows a thread by the name that it was given there, which Python does not do by itself before 3.14.
NAMES = """
import threading
begin = threading.Thread.run
def named(self):
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as comm:
        comm.write(self.name)
    begin(self)
threading.Thread.run = named
"""
# What each import leaves behind is its module's, without that of the modules it imports; the rest is what runs.
ROOMS = """
import importlib._bootstrap as machinery, json, os, sys, tracemalloc
sizes, inner, load = {}, [], machinery._load_unlocked
def measured(spec):
    before = tracemalloc.get_traced_memory()[0]
    inner.append(0)
    try:
        return load(spec)
    finally:
        size = tracemalloc.get_traced_memory()[0] - before
        sizes[spec.name] = size - inner.pop()
        if inner:
            inner[-1] += size
tracemalloc.start(1)
machinery._load_unlocked = measured
import threading
class Teller(threading.Thread):
    def run(self):
        os.read(os.open(os.environ["ROOMS_ASK"], os.O_RDONLY), 1)
        with open(os.environ["ROOMS_TELL"], "w") as file:
            json.dump([tracemalloc.get_traced_memory()[0], sizes], file)
Teller(daemon=True, name="rooms").start()
"""


def settled(home, kind, stack):
    """Write the settings of a kind, and start what it talks to."""
    text = ""
    if kind in {"page", "both", "all", "bare"}:
        with socket.create_server(("127.0.0.1", 0)) as free:
            text += f"[page]\nenabled = true\nport = {free.getsockname()[1]}\n"
    if kind in {"telegram", "both", "all", "bare"}:
        server = stack.enter_context(TelegramServer())
        text += f'[telegram]\nallow = [7]\napi_url = "{server.url}"\n'
        (home / "secrets.toml").write_text(f'telegram_token = "{TOKEN}"\n')
        (home / "secrets.toml").chmod(0o600)
    if kind == "bare":
        text += "[history]\nevery_seconds = 3600\n"
    if kind in {"mqtt", "fleet"}:
        from mqtt_broker import Broker

        broker = stack.enter_context(Broker(home.parent / "broker"))
        text += f'[mqtt]\nhost = "127.0.0.1"\nport = {broker.port}\n'
        text += "fleet = true\n" if kind == "fleet" else ""
    if kind in {"all", "bare"}:
        text += f'[model]\nbase_url = "{stack.enter_context(ModelServer(lambda _: None)).url}"\nname = "a-model"\n'
    (home / "config.toml").write_text(text)


def memory(pid):
    """Resident, shared out and own megabytes."""
    found = dict(line.split()[:2] for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    own = int(found["Private_Clean:"]) + int(found["Private_Dirty:"])
    return [number / 1024 for number in (int(found["Rss:"]), int(found["Pss:"]), own)]


def threads(pid):
    """Switches and CPU milliseconds by thread, so far."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
            ran = int((task / "schedstat").read_text().split()[0]) / 1e6
            found[int(task.name)] = status["Name"], int(status["voluntary_ctxt_switches"]), ran
    return found


def process_ms(pid):
    """CPU milliseconds of all its threads, those that have ended too; in the kernel's ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_MS


def written(pid):
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["write_bytes"])


@contextlib.contextmanager
def calls_counted(pid, file):
    """Count the calls that sync a file, where strace is there and may look."""
    if not shutil.which("strace"):
        yield
        return
    wanted = "trace=fsync,fdatasync,sync_file_range,msync"
    with subprocess.Popen(
        ["strace", "-f", "-qq", "-e", wanted, "-e", "signal=none", "-o", file, "-p", str(pid)],
        stderr=subprocess.DEVNULL,
    ) as tracer:
        time.sleep(0.5)
        try:
            yield
        finally:
            tracer.send_signal(signal.SIGINT)


def shown(kind, pid, seconds, scratch):
    begin_memory, begin, begin_ms, begin_written = memory(pid), threads(pid), process_ms(pid), written(pid)
    time.sleep(seconds)
    end, cpu, bytes_ = threads(pid), process_ms(pid) - begin_ms, written(pid) - begin_written
    woken, ran, gone = Counter(), Counter(), set(begin) - set(end)
    for task, (name, switches, ms) in end.items():
        _, before, before_ms = begin.get(task, (name, 0, 0.0))
        woken[name] += switches - before
        ran[name] += ms - before_ms
    with calls_counted(pid, scratch / "calls"):
        time.sleep(min(seconds, 60))
    calls = scratch / "calls"
    syncs = str(len(calls.read_text().splitlines())) if calls.exists() else "?"
    rss, pss, own = memory(pid)
    print(
        f"{kind:9} {begin_memory[0]:6.1f} {rss:6.1f} {pss:6.1f} {own:6.1f} {len(end):8} {sum(woken.values()):8}", end=""
    )
    print(f" {sum(ran.values()):7.1f} {cpu:6.0f} {bytes_:8} {syncs:>6}", flush=True)
    busy = [f"{name} {count} ({ran[name]:.1f} ms)" for name, count in woken.most_common() if count]
    print(
        f"          wake-ups: {', '.join(busy) or 'none'}{f'; {len(gone)} threads ended' if gone else ''}", flush=True
    )


def lived(kind, seconds, settle, *, rooms=False):
    """Run one daemon and print what it costs."""
    with tempfile.TemporaryDirectory(prefix="picoclaw-bench-") as folder, contextlib.ExitStack() as stack:
        home, names = Path(folder) / "picoclaw", Path(folder) / "names"
        home.mkdir(mode=0o700)
        names.mkdir()
        (names / "sitecustomize.py").write_text(ROOMS if rooms else NAMES)
        ask, tell = Path(folder) / "ask", Path(folder) / "tell"
        os.mkfifo(ask)
        settled(home, kind, stack)
        first = [*PICOCLAW, "skills", "--board", "sim", "list"]  # a first start reads them with yaml
        subprocess.run(first, env=environment(Path(folder)), capture_output=True, cwd="/", check=True)
        paths = os.pathsep.join([str(names), *filter(None, [os.environ.get("PYTHONPATH")])])
        daemon = subprocess.Popen(
            [*PICOCLAW, "run", "--board", "sim"],
            env=environment(Path(folder), PYTHONPATH=paths, ROOMS_ASK=str(ask), ROOMS_TELL=str(tell)),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        try:
            said = next((line for line in daemon.stderr if "channels: " in line), None)
            assert said, "the daemon did not start"
            time.sleep(settle)
            if rooms:
                show_rooms(daemon.pid, ask, tell)
            else:
                shown(kind, daemon.pid, seconds, Path(folder))
        finally:
            daemon.terminate()
            daemon.wait()
            daemon.stderr.close()


def mapped(pid):
    """Resident and proportional kilobytes of each file that is mapped, and of what is none."""
    found, name = {}, ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            name = Path(rest[4]).name if len(rest) > 4 else "(allocated)"
        elif first in {"Rss:", "Pss:"}:
            found.setdefault(name, Counter())[first] += int(rest[0])
    return found


def show_rooms(pid, ask, tell):
    with ask.open("w") as file:
        file.write("?")
    while not tell.exists() or not tell.read_text().endswith("}]"):
        time.sleep(0.1)
    total, sizes = json.loads(tell.read_text())
    rooms = Counter()
    for module, size in sizes.items():
        parts = module.split(".")
        rooms[".".join(parts[: 2 if parts[0] == "picoclaw" else 1])] += size
    print(
        f"Python holds {total / 1e6:.1f} MB, of which {sum(sizes.values()) / 1e6:.1f} since its modules were imported"
    )
    for room, size in rooms.most_common(20):
        print(f"  {room:34} {size / 1000:7,.0f} KB  {sum(1 for m in sizes if f'{m}.'.startswith(f'{room}.'))} modules")
    print("mapped                                RSS KB   PSS KB")
    for name, size in sorted(mapped(pid).items(), key=lambda one: -one[1]["Rss:"])[:12]:
        print(f"  {name[:34]:34} {size['Rss:']:7,} {size['Pss:']:8,}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", default=KINDS, metavar="KIND", choices=[*KINDS, KINDS])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=20)
    parser.add_argument("--rooms", action="store_true", help="show where the memory is, instead of wake-ups")
    given = parser.parse_args()
    if not given.rooms:
        print("kind      RSS MB  after    PSS    own  threads wake-ups  ran ms CPU ms  written  syncs")
    for kind in given.kinds:
        lived(kind, given.seconds, given.settle, rooms=given.rooms)


if __name__ == "__main__":
    main()

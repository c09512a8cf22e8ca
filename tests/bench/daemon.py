"""What a daemon costs that nobody talks to: memory, wake-ups by thread, CPU, bytes written. Prints, judges nothing.

    .venv/bin/python tests/bench/daemon.py [--seconds 60] [--settle 20] [KIND ...]

A real `picoclaw run` in a home of its own, started for the second time, for each kind: `socket` (nothing configured),
`page`, `telegram`, `both`, `all` (with a model server as well, which is asked nothing), and `bare`, the same with
the simulated sensors measured once an hour instead of once a minute. Figures are the kernel's:
proc(5) for memory, switches and CPU of each thread; what is synced is counted in another such time, where strace(1) is
there. Resident memory is told at the beginning and at the end. A wake-up is a switch that the thread did itself: one
that waits for another thread of the process is counted as well.
"""

import argparse
import contextlib
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

KINDS = ("socket", "page", "telegram", "both", "all", "bare")
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


def lived(kind, seconds, settle):
    """Run one daemon and print what it costs."""
    with tempfile.TemporaryDirectory(prefix="picoclaw-bench-") as folder, contextlib.ExitStack() as stack:
        home, names = Path(folder) / "picoclaw", Path(folder) / "names"
        home.mkdir(mode=0o700)
        names.mkdir()
        (names / "sitecustomize.py").write_text(NAMES)
        settled(home, kind, stack)
        first = [*PICOCLAW, "skills", "--board", "sim", "list"]  # a first start reads them with yaml
        subprocess.run(first, env=environment(Path(folder)), capture_output=True, cwd="/", check=True)
        paths = os.pathsep.join([str(names), *filter(None, [os.environ.get("PYTHONPATH")])])
        daemon = subprocess.Popen(
            [*PICOCLAW, "run", "--board", "sim"],
            env=environment(Path(folder), PYTHONPATH=paths),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        try:
            said = next((line for line in daemon.stderr if "channels: " in line), None)
            assert said, "the daemon did not start"
            time.sleep(settle)
            shown(kind, daemon.pid, seconds, Path(folder))
        finally:
            daemon.terminate()
            daemon.wait()
            daemon.stderr.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", default=KINDS, metavar="KIND", choices=[*KINDS, KINDS])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--settle", type=float, default=20)
    given = parser.parse_args()
    print("kind      RSS MB  after    PSS    own  threads wake-ups  ran ms CPU ms  written  syncs")
    for kind in given.kinds:
        lived(kind, given.seconds, given.settle)


if __name__ == "__main__":
    main()

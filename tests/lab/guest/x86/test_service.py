"""The service under the guest's own systemd: installed, asked over its socket, frozen, killed, and taken out again."""

import os
import pwd
import re
import shutil
import signal
import site
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import lab
import lab_outputs
import pytest
from conftest import LABEL

HOME = Path("/var/lib/picoclaw")
DROP_INS = Path("/etc/systemd/system/picoclaw.service.d")
PICOCLAW = [sys.executable, "-B", "-m", "picoclaw"]
WATCHDOG_S = 15
PUMP = 21


def done(*command: str) -> str:
    """Run a command to its end; returns what it printed."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, f"{' '.join(command)}: {ended.returncode}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def owner(*words: str) -> str:
    """Run picoclaw as the service's own user, as `sudo -u picoclaw picoclaw ...` does."""
    become = ("setpriv", "--reuid", "picoclaw", "--regid", "picoclaw", "--init-groups", "env", f"HOME={HOME}")
    return done(*become, *PICOCLAW, *words)


def shown(name: str) -> str:
    return done("systemctl", "show", "-P", name, "picoclaw").strip()


def journal() -> str:
    return done("journalctl", "--unit", "picoclaw", "--no-pager", "--output", "cat")


def process(before: int = 0) -> int:
    """Wait until the daemon is ready, another one than `before`; returns its number."""

    def ready() -> int:
        pid = int(shown("MainPID"))
        return pid if shown("ActiveState") == "active" and pid != before else 0

    return lab.wait_for(ready, "the service is ready", 120.0)


def owned(path: Path) -> None:
    """Give a tree to the service's user."""
    for one in (path, *path.rglob("*")):
        shutil.chown(one, "picoclaw", "picoclaw")


@pytest.fixture(scope="module")
def service() -> Iterator[float]:
    """The service, installed and started with a short watchdog; what it is given is how long that took, in seconds."""
    job = Path(sys.modules["lab"].__file__).resolve().parents[3]
    linked = Path(site.getsitepackages()[0]) / "picoclaw-lab.pth"
    linked.write_text(f"{job}\n")
    DROP_INS.mkdir(parents=True, exist_ok=True)
    (DROP_INS / "lab.conf").write_text(f"[Service]\nWatchdogSec={WATCHDOG_S}\n")
    began = time.monotonic()
    done(*PICOCLAW, "service", "install")
    yield time.monotonic() - began
    (DROP_INS / "lab.conf").unlink()
    done(*PICOCLAW, "service", "uninstall")
    assert not DROP_INS.exists()
    assert shown("LoadState") == "not-found"
    linked.unlink()


def test_it_starts(service, record_property):
    record_property("installed and ready, s", round(service, 1))
    assert shown("ActiveState") == "active"
    assert "state     active" in done(*PICOCLAW, "service", "status")
    assert (HOME / ".picoclaw").stat().st_uid == pwd.getpwnam("picoclaw").pw_uid
    assert oct(HOME.stat().st_mode & 0o777) == "0o700"


def test_its_exposure_is_low(service, record_property):
    score = re.search(
        r"exposure level for \S+: ([0-9.]+)", done("systemd-analyze", "security", "--no-pager", "picoclaw")
    )
    record_property("exposure", score[1])
    assert float(score[1]) <= 1.5


def test_it_is_asked_over_its_socket(service, record_property):
    began = time.monotonic()
    status = owner("status")
    record_property("status, s", round(time.monotonic() - began, 2))
    assert f"process {process()}" in status


def test_a_sensor_of_the_kernel_and_the_bus_are_read_through_the_sandbox(service, bridge, record_property):
    bridge.place("bme280", "i2c-1/0x76", temperature=25.0)
    assert "0x76 answers" in owner("chat", "-m", "scan the i2c bus 1")
    lab.bind("bme280", 0x76)
    began = time.monotonic()
    said = owner("chat", "-m", "how warm is it?")
    record_property("a question, s", round(time.monotonic() - began, 2))
    lab.unbind(0x76)
    bridge.remove("i2c-1/0x76")
    assert re.search(r"(24\.9|25\.0)\d? °C", said), said


def test_nothing_else_is_opened(service):
    """A process in the daemon's own cgroup and name space, with its rights, as a command of the agent's would have."""
    tried = """
import os, socket, sys
def refused(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return
    print("not refused:", what, arguments)
refused(os.open, "/dev/mem", os.O_RDONLY)
refused(os.open, "/dev/vda", os.O_RDONLY)
refused(os.open, "/etc/picoclaw/environment", os.O_RDONLY)
refused(os.open, "/etc/x", os.O_WRONLY | os.O_CREAT)
refused(os.open, "/sys/kernel/mm/ksm/run", os.O_WRONLY)
refused(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW)
refused(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)
refused(os.nice, -1)
try:
    os.open("/dev/i2c-1", os.O_RDWR)
except OSError as error:
    print("refused, and should not be:" if isinstance(error, PermissionError) else "elsewhere:", error)
"""
    (DROP_INS / "tried.conf").write_text(f"[Service]\nExecStartPost={sys.executable} {HOME}/tried.py\n")
    (HOME / "tried.py").write_text(tried)
    owned(HOME)
    done("systemctl", "daemon-reload")
    try:
        done("systemctl", "restart", "picoclaw")
    finally:
        (DROP_INS / "tried.conf").unlink()
        done("systemctl", "daemon-reload")
    assert "refused" not in journal()


def test_outputs_are_safe_after_everything_of_it_was_killed(service, pins, record_property):
    home = HOME / ".picoclaw"
    lab_outputs.home(home, LABEL, PUMP, "confirm = false")
    owned(home)
    done("systemctl", "restart", "picoclaw")
    level = pins / f"sim_gpio{PUMP}/value"
    owner("chat", "-m", "turn the pump on for 50 seconds")
    assert level.read_text().strip() == "1"
    pid, said = process(), journal().count("at its safe level")
    began = time.monotonic()
    done("systemctl", "kill", "--signal=KILL", "picoclaw")
    lab.wait_for(lambda: level.read_text().strip() == "0", "the pump is off", 60.0)
    record_property("on afterwards, s", round(time.monotonic() - began, 2))
    process(pid)
    assert journal().count("at its safe level") > said
    (home / "outputs.toml").unlink()
    done("systemctl", "restart", "picoclaw")


def test_a_frozen_one_is_ended_by_the_watchdog_and_comes_back(service, record_property):
    pid = process()
    began = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    process(pid)
    record_property("frozen until ready again, s", round(time.monotonic() - began, 1))
    said = journal()
    assert "Fatal Python error: Aborted" in said
    assert re.search(r'File ".*desk_loop\.py", line \d+', said), "where its threads were is not in the journal"
    assert owner("chat", "-m", "hello")


def test_it_never_gives_up(service, record_property):
    """More deaths in a row than systemd would put up with by default; the daemon itself does less after the fifth."""
    took = []
    for _ in range(6):
        pid, began = process(), time.monotonic()
        os.kill(pid, signal.SIGKILL)
        process(pid)
        took.append(round(time.monotonic() - began, 1))
    record_property("killed until ready again, s", took)
    assert "safe mode" in journal()
    assert owner("chat", "-m", "hello")


def test_it_ends_within_seconds(service, record_property):
    began = time.monotonic()
    done("systemctl", "stop", "picoclaw")
    record_property("stopped, s", round(time.monotonic() - began, 1))
    assert shown("Result") == "success"
    done("systemctl", "start", "picoclaw")

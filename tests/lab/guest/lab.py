"""What tests in a guest have in common: kernel modules, files, waiting, and the control of the bridge."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOCKET = "/run/picosim.sock"
NEW_DEVICE = Path("/sys/bus/i2c/devices/i2c-1/new_device")
DELETE_DEVICE = Path("/sys/bus/i2c/devices/i2c-1/delete_device")


def modprobe(*arguments: str) -> None:
    """Load a kernel module."""
    done = subprocess.run(["modprobe", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"modprobe {' '.join(arguments)}: {done.stderr}"


def wait_for(what: Callable[[], Any], why: str, seconds: float = 10.0) -> Any:
    """Return the first true value of a function."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, f"waited {seconds:g} s: {why}"
        time.sleep(0.02)
    return found


def bind(name: str, address: int) -> Path:
    """Let the kernel's driver of that name take an address; returns the device's folder."""
    NEW_DEVICE.write_text(f"{name} 0x{address:02x}")
    folder = Path(f"/sys/bus/i2c/devices/1-{address:04x}")
    assert (folder / "driver").exists(), f"no kernel driver took {name} at 0x{address:02x}: {last_words()}"
    return folder


def unbind(address: int) -> None:
    """Take the address back from the kernel."""
    DELETE_DEVICE.write_text(f"0x{address:02x}")


def bind_spi(driver: str, device: str) -> Path:
    """Let a kernel driver take a chip select; returns the device's folder."""
    folder = Path(f"/sys/bus/spi/devices/{device}")
    if (folder / "driver").exists():
        unbind_spi(driver, device)
    Path(f"/sys/bus/spi/drivers/{driver}/bind").write_text(device)
    return folder


def unbind_spi(driver: str, device: str) -> None:
    """Take the chip select back from the kernel."""
    Path(f"/sys/bus/spi/drivers/{driver}/unbind").write_text(device)


_DRIVES_A_LINE = """
import sys
from picoclaw.hw.linux import LinuxBoard
line = LinuxBoard().line_out(sys.argv[1], int(sys.argv[2]), 1)
print("driven", flush=True)
sys.stdin.read()
"""


def kill_a_driver_of(chip: str, offset: int, driven: Callable[[], bool]) -> None:
    """Drive a line high from another process, see that it is, and kill that process with SIGKILL."""
    holder = subprocess.Popen(
        [sys.executable, "-B", "-c", _DRIVES_A_LINE, chip, str(offset)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/run/job",
    )
    assert holder.stdout.readline() == b"driven\n"
    assert driven()
    holder.kill()
    holder.wait()


def last_words() -> str:
    """What the kernel said last."""
    lines = subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines()
    return " / ".join(line.partition("] ")[2] for line in lines[-3:])


class Bridge:
    """The bridge, as a test speaks to it; places are named as in a Fault, `i2c-1/0x76` or `spi0.0`."""

    def ask(self, **request: Any) -> Any:
        """Send a request."""
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(SOCKET)
            with end.makefile("rw") as stream:
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                answer = json.loads(stream.readline())
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def place(self, part: str, *at: str, pace: float = 1.0, **values: float) -> None:
        """Wire a part, just powered, to one or several places; for it, time passes `pace` times as fast."""
        self.ask(do="place", part=part, at=at, values=values, pace=pace)

    def values(self, at: str, values: dict[str, float]) -> None:
        """Change what is around a part."""
        self.ask(do="values", at=at, values=values)

    def remove(self, *at: str) -> None:
        """Take parts away."""
        for place in at:
            self.ask(do="remove", at=place)

    def fault(self, kind: str, on: str) -> None:
        """Break the wiring: a kind of fault, by picoclaw.hw.sim.script."""
        self.ask(do="fault", kind=kind, on=on)

    def heal(self) -> None:
        """Mend it."""
        self.ask(do="fault")

    def log(self) -> list[dict[str, Any]]:
        """What the kernel sent since the last time."""
        return self.ask(do="log")

"""boot.py GUEST IMAGES: pack this checkout, boot a guest under QEMU that tests it, print one line for each test.

The exit status is that of the tests in the guest; 124: out of time, 125: the guest ended without a word, 126: its
kernel panicked. A line `@QMP {...}` of the guest is given to QEMU's machine protocol: a test uses it to change what
an emulated chip measures. At the far end of the guest's second UART a peer answers `ECHO words` with `WORDS`.
"""

import argparse
import json
import os
import py_compile
import re
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple, TextIO

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKED = ("picoclaw", "tools/hw", "templates", "systemd", "tests/lab/guest")
_POWER_OFF_S = 45.0


class Guest(NamedTuple):
    """How QEMU is called for a guest, and what its kernel is told. `{images}` and `{tmp}` are folders."""

    command: str
    append: str
    devices: str = ""


GUESTS = {
    "x86": Guest(
        "qemu-system-x86_64 -M q35 -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m 1024 -nodefaults"
        " -drive if=none,id=disk,file={images}/x86.img,format=raw,snapshot=on -device virtio-blk-pci,drive=disk"
        " -serial stdio -serial unix:{tmp}/uart,server=on,wait=off",
        "console=ttyS0",
    ),
    "rpi3": Guest(
        "qemu-system-aarch64 -M raspi3b -dtb {images}/rpi3.dtb"
        " -serial unix:{tmp}/uart,server=on,wait=off -serial stdio",
        "console=ttyS1,115200 initramfs_async=0",
        " -device tmp105,bus=i2c-bus.1,address=0x48,id=tmp105"
        " -device ds1338,bus=i2c-bus.1,address=0x68"
        " -device at24c-eeprom,bus=i2c-bus.1,address=0x50,rom-size=32768,address-size=2"
        " -device dps310,bus=i2c-bus.1,address=0x77"
        " -device emc1413,bus=i2c-bus.1,address=0x4c,id=emc1413"
        " -device tmp421,bus=i2c-bus.1,address=0x4d,id=tmp421",
    ),
}


def packed(guest: str, only: str, tmp: Path) -> bytes:
    """Return what the guest runs, as an archive that the kernel unpacks behind the first stage."""
    job = tmp / "tree/job"
    for folder in PACKED:
        shutil.copytree(ROOT / folder, job / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests/contract.py", job / "tests/lab/guest")
    if sys.version_info[:2] == (3, 11):  # the guests' Python; compiling there would take seconds
        for file in job.rglob("*.py"):
            py_compile.compile(str(file), quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    command = f"python3 -B -u run.py {guest} {shlex.quote(only)}"
    (job / "start").write_text(f"cd /run/job/tests/lab/guest\necho lab: begins\n{command}\necho lab: ended with $?\n")
    return subprocess.run(
        "find job | cpio -o -H newc --quiet | gzip -1", shell=True, cwd=tmp / "tree", stdout=subprocess.PIPE, check=True
    ).stdout


class Machine:
    """A running QEMU, with the ends of its console, its second UART and its machine protocol."""

    def __init__(self, name: str, images: Path, tmp: Path, only: str = "") -> None:
        """Start it; `images` holds what build.sh made, `tmp` is ours, `only` chooses among the tests."""
        guest = GUESTS[name]
        initrd = tmp / "initrd"
        initrd.write_bytes((images / f"{name}.initrd").read_bytes() + packed(name, only, tmp))
        command = (guest.command + guest.devices).format(images=images, tmp=tmp).split()
        command += ["-kernel", str(images / f"{name}.kernel"), "-initrd", str(initrd)]
        command += ["-append", f"quiet panic=-1 {guest.append}", "-display", "none", "-monitor", "none", "-no-reboot"]
        command += ["-qmp", f"unix:{tmp}/qmp,server=on,wait=off"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.uart = self._connected(tmp / "uart")
        self._qmp = self._connected(tmp / "qmp").makefile("rw")
        self._qmp.readline()
        self.qmp('{"execute": "qmp_capabilities"}')

    def _connected(self, path: Path) -> socket.socket:
        while self.process.poll() is None:
            try:
                end = socket.socket(socket.AF_UNIX)
                end.connect(str(path))
                return end
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"lab: QEMU ended: {self.process.stdout.read().decode()}")

    def qmp(self, command: str) -> str:
        """Run a command of the machine protocol; returns its answer."""
        self._qmp.write(command + "\n")
        self._qmp.flush()
        while "return" not in (answer := json.loads(self._qmp.readline())) and "error" not in answer:
            pass
        return json.dumps(answer)


TROUBLE = {124: "it ran out of time", 125: "it ended without a word", 126: "its kernel panicked"}
OUTCOMES = ("PASS", "FAIL", "SKIP", "WARN")


class Watch:
    """Listens to the guest until it is off."""

    def __init__(self, machine: Machine, name: str, log: TextIO, patience_s: float) -> None:
        """`log` takes all that is said; `patience_s`: how long the machine may run."""
        self._machine = machine
        self._name = name
        self._log = log
        self._began = time.monotonic()
        self._end = self._began + patience_s
        self._outcomes: Counter[str] = Counter()
        self._rest = {self._said: b"", self._asked: b""}
        self.status = 125

    def run(self) -> int:
        """Return the exit status."""
        console = self._machine.process.stdout
        ends = selectors.DefaultSelector()
        ends.register(console, selectors.EVENT_READ, self._said)
        ends.register(self._machine.uart, selectors.EVENT_READ, self._asked)
        while console in (key.fileobj for key in ends.get_map().values()) and time.monotonic() < self._end:
            for key, _ in ends.select(0.5):
                data = os.read(key.fd, 65_536)
                *lines, self._rest[key.data] = (self._rest[key.data] + data).split(b"\n")
                for line in lines:
                    key.data(line)
                if not data:
                    ends.unregister(key.fileobj)
        if time.monotonic() >= self._end and self.status == 125:
            self.status = 124
        return self.status

    def _said(self, raw: bytes) -> None:
        """Take a line of the console."""
        line = raw.decode(errors="replace").rstrip()
        print(f"{time.monotonic() - self._began:6.1f} {line}", file=self._log, flush=True)
        if line[:4] in OUTCOMES:
            self._outcomes[line[:4]] += 1
        if line[:4] in OUTCOMES or line.startswith("     "):
            print(f"{self._name}: {line}", flush=True)
        elif line.startswith("@QMP "):
            print(self._machine.qmp(line[5:]), file=self._log)
        elif ended := re.match(r"lab: ended with (\d+)", line):
            self.status = int(ended[1])
            self._end = time.monotonic() + _POWER_OFF_S
        elif "Kernel panic" in line:
            self.status = 126
            self._end = time.monotonic() + 3

    def _asked(self, line: bytes) -> None:
        """Answer a line of the second UART."""
        if line.startswith(b"ECHO "):
            self._machine.uart.sendall(line[5:].upper() + b"\n")

    def told(self) -> str:
        """Sum up, and say what went wrong if the guest did not."""
        seconds = time.monotonic() - self._began
        counts = ", ".join(f"{self._outcomes[word]} {word}" for word in OUTCOMES if self._outcomes[word])
        trouble = f"; {TROUBLE[self.status]}" if self.status in TROUBLE else ""
        return f"lab: {self._name}: {counts or 'no test ran'} in {seconds:.0f} s{trouble}"


def main() -> int:
    """Boot, watch, power off."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("guest", choices=GUESTS)
    parser.add_argument("images", type=Path)
    parser.add_argument("--log", type=Path, required=True, help="file for all that the guest says")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds (default: %(default)g)")
    parser.add_argument("--only", default="", help="run only tests with this in their names, as pytest's -k")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that QEMU is ended as well
    with tempfile.TemporaryDirectory(prefix="picoclaw-lab.") as tmp, asked.log.open("w") as log:
        machine = Machine(asked.guest, asked.images, Path(tmp), asked.only)
        watch = Watch(machine, asked.guest, log, asked.timeout)
        try:
            status = watch.run()
        finally:
            machine.process.kill()
            machine.process.wait()
        print(watch.told(), flush=True)
        return status


if __name__ == "__main__":
    sys.exit(main())

"""boot.py GUEST IMAGES: pack this checkout, boot a guest under QEMU that tests it, print one line for each test.

The exit status is that of the tests in the guest; 124: out of time, 125: the guest ended without a word, 126: its
kernel panicked. A line `@QMP {...}` of the guest is given to QEMU's machine protocol: a test uses it to change what
an emulated chip measures. At the far end of the guest's second UART a peer answers `ECHO words` with `WORDS`.

A line `@CUT {"dark_s": 7200, ...}` cuts the power: QEMU is killed, and begins again on the same disk, with a clock that
is so many seconds ahead; what the line said is in `cut.json` then. What the guest has had flushed to the disk is there
afterwards, what it had in its own memory is not, and of the rest an unknown part is. Torn sectors do not happen.
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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, TextIO

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKED = ("picoclaw", "tools/hw", "templates", "systemd", "tests/lab/guest")
_POWER_OFF_S = 45.0
CARD_BYTES = 64 << 20
"""The disk of the guest `cuts`, of which everything is recorded."""


class Guest(NamedTuple):
    """How QEMU is called for a guest, and what its kernel is told. `{images}` and `{tmp}` are folders.

    `boots` are the tests of a boot, and of the one after a power cut; `image` is the guest's whose files it boots from.
    """

    command: str
    append: str
    boots: tuple[str, ...]
    devices: str = ""
    image: str = ""


_X86 = (
    "qemu-system-x86_64 -M q35 -accel tcg,thread=multi,tb-size=512 -cpu max -smp 2 -m 1024 -nodefaults"
    " -drive if=none,id=disk,file={tmp}/disk,format=qcow2,cache=writeback -device virtio-blk-pci,drive=disk"
    " -serial stdio -serial unix:{tmp}/uart,server=on,wait=off"
)
GUESTS = {
    "x86": Guest(_X86, "console=ttyS0", ("x86", "x86/power_back.py")),
    "cuts": Guest(
        _X86,
        "console=ttyS0",
        ("cuts/lived.py",),
        " -blockdev driver=file,node-name=card,filename={tmp}/card"
        " -blockdev driver=file,node-name=record,filename={tmp}/record"
        " -blockdev driver=blklogwrites,node-name=recorded,file=card,log=record,log-sector-size=512"
        " -device virtio-blk-pci,drive=recorded",
        "x86",
    ),
    "rpi3": Guest(
        "qemu-system-aarch64 -M raspi3b -dtb {images}/rpi3.dtb"
        " -serial unix:{tmp}/uart,server=on,wait=off -serial stdio",
        "console=ttyS1,115200 initramfs_async=0",
        ("rpi3",),
        " -device tmp105,bus=i2c-bus.1,address=0x48,id=tmp105"
        " -device ds1338,bus=i2c-bus.1,address=0x68"
        " -device at24c-eeprom,bus=i2c-bus.1,address=0x50,rom-size=32768,address-size=2"
        " -device dps310,bus=i2c-bus.1,address=0x77"
        " -device emc1413,bus=i2c-bus.1,address=0x4c,id=emc1413"
        " -device tmp421,bus=i2c-bus.1,address=0x4d,id=tmp421",
    ),
}


def packed(tests: str, only: str, cut: dict[str, Any], tmp: Path) -> bytes:
    """Return what the guest runs, as an archive that the kernel unpacks behind the first stage."""
    job = tmp / "tree/job"
    shutil.rmtree(job, ignore_errors=True)
    for folder in PACKED:
        shutil.copytree(ROOT / folder, job / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("contract.py", "model_server.py", "faults/day.py", "faults/player.py"):
        shutil.copy(ROOT / "tests" / file, job / "tests/lab/guest")
    if sys.version_info[:2] == (3, 11):  # the guests' Python; compiling there would take seconds
        for file in job.rglob("*.py"):
            py_compile.compile(str(file), quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    (job / "cut.json").write_text(json.dumps(cut))
    command = f"python3 -B -u run.py {shlex.quote(only)} {tests}"
    (job / "start").write_text(f"cd /run/job/tests/lab/guest\necho lab: begins\n{command}\necho lab: ended with $?\n")
    return subprocess.run(
        "find job | cpio -o -H newc --quiet | gzip -1", shell=True, cwd=tmp / "tree", stdout=subprocess.PIPE, check=True
    ).stdout


class Machine:
    """A running QEMU, with the ends of its console, its second UART and its machine protocol."""

    def __init__(self, name: str, images: Path, tmp: Path, only: str, cut: dict[str, Any]) -> None:
        """Start it; `images` holds what build.sh made, `tmp` is ours, `only` chooses among the tests.

        `cut` is what was said when the power was cut, nothing at the first boot.
        """
        guest = GUESTS[name]
        initrd, name = tmp / "initrd", guest.image or name
        job = packed(guest.boots[bool(cut)], only, cut, tmp)
        initrd.write_bytes((images / f"{name}.initrd").read_bytes() + job)
        for blank, size in (("card", CARD_BYTES), ("record", 0)):
            with (tmp / blank).open("wb") as file:
                file.truncate(size)
        if (image := images / f"{name}.img").exists() and not cut:
            made = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image), str(tmp / "disk")]
            subprocess.run(made, check=True)
        command = (guest.command + guest.devices).format(images=images, tmp=tmp).split()
        command += ["-kernel", str(images / f"{name}.kernel"), "-initrd", str(initrd)]
        command += ["-append", f"quiet panic=-1 {guest.append}", "-display", "none", "-monitor", "none", "-no-reboot"]
        command += ["-qmp", f"unix:{tmp}/qmp,server=on,wait=off"]
        if cut:
            lit = datetime.now(UTC) + timedelta(seconds=cut["dark_s"])
            command += ["-rtc", f"base={lit:%Y-%m-%dT%H:%M:%S}"]
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

    def __init__(self, name: str, log: TextIO, patience_s: float) -> None:
        """`log` takes all that is said; `patience_s`: how long the machine may run, all its boots together."""
        self._name = name
        self._log = log
        self._began = time.monotonic()
        self._end = self._began + patience_s
        self._outcomes: Counter[str] = Counter()
        self._failures: list[str] = []
        self.cut: dict[str, Any] = {}
        self.status = 125

    def run(self, machine: Machine) -> None:
        """Listen to a boot of it, and end that."""
        self._machine, self.cut = machine, {}
        self._rest = {self._said: b"", self._asked: b""}
        console = machine.process.stdout
        ends = selectors.DefaultSelector()
        ends.register(console, selectors.EVENT_READ, self._said)
        ends.register(machine.uart, selectors.EVENT_READ, self._asked)
        try:
            while console in (key.fileobj for key in ends.get_map().values()) and time.monotonic() < self._end:
                for closed in [key.fileobj for key, _ in ends.select(0.5) if not self._read(key)]:
                    ends.unregister(closed)
        finally:
            machine.process.kill()
            machine.process.wait()
        if time.monotonic() >= self._end and self.status == 125:
            self.status = 124

    def _read(self, key: selectors.SelectorKey) -> bytes:
        """Deal with the lines that have come; returns nothing at the end."""
        data = b"" if self.cut else os.read(key.fd, 65_536)
        *lines, self._rest[key.data] = (self._rest[key.data] + data).split(b"\n")
        for line in lines:
            key.data(line)
        return data

    def _said(self, raw: bytes) -> None:
        """Take a line of the console."""
        line = raw.decode(errors="replace").rstrip()
        print(f"{time.monotonic() - self._began:6.1f} {line}", file=self._log, flush=True)
        if line[:4] in OUTCOMES:
            self._outcomes[line[:4]] += 1
        if line.startswith("FAIL"):
            self._failures.append(line)
        if line[:4] in OUTCOMES or line.startswith("     "):
            print(f"{self._name}: {line}", flush=True)
        elif line.startswith("@QMP "):
            print(self._machine.qmp(line[5:]), file=self._log)
        elif line.startswith("@CUT "):
            self._machine.process.kill()
            self.cut = json.loads(line[5:])
            told = f"the power is cut, for {self.cut['dark_s']} s by the clock, and the same disk booted again"
            print(f"{self._name}: {told}", flush=True)
        elif ended := re.match(r"lab: ended with (\d+)", line):
            self.status = int(ended[1]) or int(self._outcomes["FAIL"] > 0)  # of the boot before the cut, too
            self._end = time.monotonic() + _POWER_OFF_S
        elif "Kernel panic" in line:
            self.status = 126
            self._end = time.monotonic() + 3

    def _asked(self, line: bytes) -> None:
        """Answer a line of the second UART."""
        if line.startswith(b"ECHO "):
            self._machine.uart.sendall(line[5:].upper() + b"\n")

    def told(self) -> str:
        """Sum up, with what failed, and say what went wrong if the guest did not."""
        seconds = time.monotonic() - self._began
        counts = ", ".join(f"{self._outcomes[word]} {word}" for word in OUTCOMES if self._outcomes[word])
        trouble = f"; {TROUBLE[self.status]}" if self.status in TROUBLE else ""
        summary = f"lab: {self._name}: {counts or 'no test ran'} in {seconds:.0f} s{trouble}"
        return "\n".join([summary, *(f"lab: {self._name}: {line}" for line in self._failures)])


def main() -> int:
    """Boot, watch, power off."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("guest", choices=GUESTS)
    parser.add_argument("images", type=Path)
    parser.add_argument("--log", type=Path, required=True, help="file for all that the guest says")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds (default: %(default)g)")
    parser.add_argument("--only", default="", help="run only tests with this in their names, as pytest's -k")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that QEMU is ended as well
    with tempfile.TemporaryDirectory(prefix="picoclaw-lab.") as tmp, asked.log.open("w") as log:
        watch = Watch(asked.guest, log, asked.timeout)
        watch.run(Machine(asked.guest, asked.images, Path(tmp), asked.only, {}))
        if watch.cut:
            watch.run(Machine(asked.guest, asked.images, Path(tmp), asked.only, watch.cut))
        print(watch.told(), flush=True)
        return watch.status or (_replayed(Path(tmp) / "record") if asked.guest == "cuts" else 0)


def _replayed(record: Path) -> int:
    """Cut the recorded day at many places."""
    done = subprocess.run(
        [sys.executable, HERE / "replay.py", record, "--size", str(CARD_BYTES)], stdout=subprocess.PIPE, text=True
    )
    for line in done.stdout.splitlines():
        print(f"cuts: {line}", flush=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())

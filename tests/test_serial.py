"""Serial ports: which ones are listed, a real pseudo-terminal behind the door, and the `serial` tool before a part."""

import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from rights import ordinary_user

from picoclaw.errors import BusFault, DeviceMissing, HardwareError, NoPermission
from picoclaw.files import find_shipped
from picoclaw.hw.bench import run_tool
from picoclaw.hw.board import SerialPortInfo, SerialSettings
from picoclaw.hw.linux import LinuxBoard, buses
from picoclaw.hw.loader import load_module
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import SimBoard, parts
from picoclaw.hw.sim.script import Script, SimFault
from picoclaw.messages import Caller, ToolCall
from picoclaw.tools.registry import Toolset, collect_tools

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
USB = "/dev/ttyUSB0"
TCGETS2 = 0x802C542A


class Tree:
    """The device files and the sysfs of a made-up machine."""

    def __init__(self, root):
        self.root = root
        self.write("/proc/cmdline", "quiet")

    def write(self, path, text=""):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, path, target):
        link = self.root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def port(self, tty, device, target=None, **files):
        """Add a port whose hardware is at `device` below /sys/devices."""
        (self.root / "sys/devices" / device).mkdir(parents=True, exist_ok=True)
        self.link(f"/sys/class/tty/{tty}/device", self.root / "sys/devices" / device)
        for name, text in files.items():
            self.write(f"/sys/class/tty/{tty}/{name}", text)
        self.link(f"/dev/{tty}", target) if target else self.write(f"/dev/{tty}")

    def ports(self):
        return buses.list_ports(str(self.root))


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


class Line:
    """A pseudo-terminal: its far end, and the device file that the tree shows as a USB adapter."""

    def __init__(self, tree):
        self.tree = tree
        self.far, self.near = os.openpty()
        tree.port("ttyUSB0", "usb1/1-1/1-1:1.0/ttyUSB0", os.ttyname(self.near))
        os.set_blocking(self.far, False)
        self.opened = []

    def open(self, name=USB, **settings):
        self.opened.append(buses.LinuxSerial(name, SerialSettings(**settings), str(self.tree.root)))
        return self.opened[-1]

    def unplug(self):
        os.close(self.far)
        self.far = -1

    def end(self):
        for port in self.opened:
            port.close()
        for handle in (self.far, self.near):
            if handle >= 0:
                os.close(handle)


@pytest.fixture
def line(tree):
    made = Line(tree)
    yield made
    made.end()


# --- which ports there are ---


def test_only_ports_with_hardware_are_listed_in_their_order(tree):
    tree.port("ttyS0", "pnp/ttyS0", type="4")
    tree.port("ttyS1", "platform/ttyS1", type="0")
    for number in (10, 9):
        tree.port(f"ttyACM{number}", f"usb1/1-{number}")
    tree.write("/sys/class/tty/tty1/dev", "4:1")
    tree.write("/dev/tty1")
    tree.link("/sys/class/tty/ttyAMA9/device", tree.root)
    assert [p.path for p in tree.ports()] == ["/dev/ttyACM9", "/dev/ttyACM10", "/dev/ttyS0"]


def test_no_files_are_no_ports(tree):
    assert tree.ports() == []


def test_lasting_names_and_what_a_usb_adapter_calls_itself(tree):
    tree.port("ttyUSB0", "usb1/1-1/1-1:1.0/ttyUSB0")
    tree.write("/sys/devices/usb1/1-1/product", "USB\x1b[2J Serial\n")
    tree.write("/sys/devices/usb1/1-1/manufacturer", "Prolific\n")
    tree.link("/dev/serial/by-id/usb-Prolific-if00", "../../ttyUSB0")
    tree.link("/dev/serial/by-path/pci-0-usb-0:1", "../../ttyUSB0")
    tree.link("/dev/serial0", "ttyS9")
    names = ("/dev/serial/by-id/usb-Prolific-if00", "/dev/serial/by-path/pci-0-usb-0:1")
    assert tree.ports() == [SerialPortInfo(USB, names, "Prolific USB [2J Serial")]


def test_a_built_in_port_is_described_by_its_driver(tree):
    tree.port("ttyAMA0", "soc/fe201000.serial/fe201000.serial:0/fe201000.serial:0.0")
    (tree.root / "sys/bus/amba/drivers/uart-pl011").mkdir(parents=True)
    (tree.root / "sys/bus/serial-base/drivers/port").mkdir(parents=True)
    device = "/sys/devices/soc/fe201000.serial"
    tree.link(f"{device}/driver", tree.root / "sys/bus/amba/drivers/uart-pl011")
    tree.link(f"{device}/{device[-15:]}:0/driver", tree.root / "sys/bus/serial-base/drivers/port")
    tree.link("/dev/serial0", "ttyAMA0")
    assert tree.ports() == [SerialPortInfo("/dev/ttyAMA0", ("/dev/serial0",), "uart-pl011")]


LOGIN = "system.slice/system-serial\\x2dgetty.slice/serial-getty@ttyS0.service/cgroup.procs"


@pytest.mark.parametrize(
    ("path", "text", "used_by"),
    [
        ("/proc/cmdline", "console=tty1 root=/dev/mmcblk0p2", ""),
        ("/proc/cmdline", "noconsole=ttyS0 console=ttyS01", ""),
        ("/proc/cmdline", "console=ttyS0,115200 console=tty1", "the Linux console"),
        ("/proc/cmdline", "quiet console=ttyS0", "the Linux console"),
        ("/proc/cmdline", "console=serial0,115200", "the Linux console"),
        ("/sys/class/tty/console/active", "tty0 ttyS0", "the Linux console"),
        ("/sys/class/tty/console/active", "tty0", ""),
        (f"/sys/fs/cgroup/{LOGIN}", "", "a login prompt"),
        (f"/sys/fs/cgroup/systemd/{LOGIN}", "", "a login prompt"),
        (f"/sys/fs/cgroup/{LOGIN.replace('ttyS0', 'ttyS1')}", "", ""),
    ],
)
def test_what_the_system_uses_is_said_and_not_opened(tree, line, path, text, used_by):
    tree.link("/dev/ttyS0", os.ttyname(line.near))
    tree.link("/sys/class/tty/ttyS0/device", tree.root)
    tree.link("/dev/serial0", "ttyS0")
    tree.write(path, text)
    assert [p.used_by for p in tree.ports() if p.path == "/dev/ttyS0"] == [used_by]
    assert buses.find_port_user("ttyS0", str(tree.root)) == used_by


@pytest.mark.parametrize("name", ["/dev/ttyS0", "/dev/serial0"])
def test_the_console_is_refused_with_the_way_to_free_it(tree, name):
    tree.port("ttyS0", "pnp/ttyS0")
    tree.link("/dev/serial0", "ttyS0")
    tree.write("/proc/cmdline", "console=ttyS0,115200")
    with pytest.raises(BusFault) as caught:
        buses.LinuxSerial(name, SerialSettings(), str(tree.root))
    assert str(caught.value).startswith(f"{name} is in use by the Linux console: end that with `sudo raspi-config")
    assert "console=ttyS0" in str(caught.value)


def test_listing_ports_imports_no_pyserial():
    code = "import sys; from picoclaw.hw.linux.buses import list_ports; list_ports(); print('serial' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- the door, over a pseudo-terminal ---


def test_every_byte_passes_unchanged_both_ways(line):
    port, every = line.open(), bytes(range(256))
    port.write(every)
    assert os.read(line.far, 1000) == every
    os.write(line.far, every)
    assert port.read(1000, 0.01) == every


def test_a_read_ends_with_the_bytes_or_with_the_time(line):
    port = line.open()
    os.write(line.far, b"half a li")
    assert port.read(4, 5) == b"half"
    began = time.monotonic()
    assert port.read(100, 0.03) == b" a li"
    assert port.read(100, 0.03) == b""
    assert 0.06 <= time.monotonic() - began < 1
    assert port.read(100, 0) == b""
    assert port.read(0, 5) == b""


def test_what_came_before_opening_or_flushing_is_thrown_away(line):
    os.write(line.far, b"old\n")
    port = line.open()
    os.write(line.far, b"older\n")
    port.flush()
    os.write(line.far, b"new\n")
    assert port.read(100, 0.01) == b"new\n"


def test_a_port_is_opened_once_only(line):
    port = line.open()
    with pytest.raises(BusFault, match=f"^{USB} is in use by another program"):
        line.open()
    with ordinary_user(), pytest.raises(OSError, match="busy"):
        os.open(os.ttyname(line.near), os.O_RDWR | os.O_NOCTTY)
    port.close()
    line.open().close()
    with ordinary_user():
        os.close(os.open(os.ttyname(line.near), os.O_RDWR | os.O_NOCTTY))


def test_a_lock_of_another_program_is_respected(line):
    fcntl.flock(line.near, fcntl.LOCK_EX)
    with pytest.raises(BusFault, match="is in use by another program"):
        line.open()


@pytest.mark.parametrize("baud", [50, 9600, 31_250, 74_880, 115_200, 250_000, 4_000_000])
def test_standard_and_other_baud_rates(line, baud):
    line.open(baud=baud)
    assert struct.unpack("2I", fcntl.ioctl(line.near, TCGETS2, bytes(44))[-8:]) == (baud, baud)


def test_the_frame_reaches_the_kernel(line):
    line.open(parity="odd", stop_bits=2)
    flags = termios.tcgetattr(line.near)[2]
    assert flags & termios.CSTOPB
    assert flags & termios.PARODD


def test_closing_does_not_hang_up(line):
    state = termios.tcgetattr(line.near)
    state[2] |= termios.HUPCL
    termios.tcsetattr(line.near, termios.TCSANOW, state)
    line.open().close()
    flags = termios.tcgetattr(line.near)[2]
    assert not flags & termios.HUPCL
    assert not flags & termios.CRTSCTS


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"baud": 0}, "cannot have 0 baud: 50 to 4000000 are possible"),
        ({"baud": 49}, "cannot have 49 baud"),
        ({"baud": 4_000_001}, "cannot have 4000001 baud"),
        ({"bits": 9}, "refused its settings: Not a valid byte size: 9"),
        ({"stop_bits": 3}, "refused its settings: Not a valid stop bit size: 3"),
        ({"parity": "mark"}, "refused its settings: Not a valid parity: None"),
    ],
)
def test_settings_that_no_port_has(line, settings, said):
    with pytest.raises(BusFault) as caught:
        line.open(**settings)
    assert str(caught.value).startswith(f"{USB} {said}")


@pytest.mark.parametrize(("real", "good"), [(9600, False), (115_200, True), (113_000, True), (111_000, False)])
def test_a_baud_rate_that_the_driver_changed_is_refused(line, monkeypatch, real, good):
    def ioctl(handle, number, *arguments):
        if number == TCGETS2:
            return bytes(36) + struct.pack("2I", real, real)
        return fcntl.ioctl(handle, number, *arguments)

    monkeypatch.setattr(buses, "fcntl", SimpleNamespace(ioctl=ioctl))
    if good:
        line.open(baud=115_200)
        return
    with pytest.raises(BusFault, match=f"cannot have 115200 baud: its driver offers {real}"):
        line.open(baud=115_200)
    monkeypatch.undo()
    line.open()


def test_missing_forbidden_and_foreign_files(tree, line):
    with pytest.raises(DeviceMissing, match=r"^/dev/ttyUSB7 does not exist: .*plug the adapter in"):
        line.open("/dev/ttyUSB7")
    tree.write("/dev/ttyUSB8")
    with pytest.raises(BusFault, match=r"^/dev/ttyUSB8 failed: Inappropriate ioctl"):
        line.open("/dev/ttyUSB8")
    (tree.root / "dev/ttyUSB8").chmod(0)
    with ordinary_user(), pytest.raises(NoPermission, match=r"^/dev/ttyUSB8 may not be opened.* dialout "):
        line.open("/dev/ttyUSB8")


def test_an_unplugged_port_is_missing_by_name(line):
    port = line.open()
    line.unplug()
    for use in (lambda: port.read(10, 5), lambda: port.write(b"x"), port.flush):
        with pytest.raises(DeviceMissing, match=f"^{USB} has gone away"):
            use()
    port.close()
    port.close()
    with pytest.raises(DeviceMissing, match=f"^{USB} "):
        line.open()


@pytest.mark.parametrize("gone", [lambda: b"", lambda: os.close(-1)])
def test_what_came_before_the_unplugging_is_returned(line, monkeypatch, gone):
    answers = [lambda: b"half", gone, gone]
    port = line.open()
    os.write(line.far, b"x")
    monkeypatch.setattr(buses.os, "read", lambda handle, most: answers.pop(0)())
    assert port.read(100, 5) == b"half"
    with pytest.raises(HardwareError, match=f"^{USB} "):
        port.read(100, 5)


def test_a_closed_port_is_a_fault_and_touches_no_other_file(line):
    port = line.open()
    port.close()
    with pytest.raises(BusFault, match=f"^{USB} failed: .*closed"):
        port.read(1, 0)
    with pytest.raises(BusFault, match=f"^{USB} failed"):
        port.flush()


def test_a_write_that_nobody_takes_ends(line, monkeypatch):
    monkeypatch.setattr(buses, "_WRITE_GRACE_S", 0.02)
    port = line.open(baud=4_000_000)
    with pytest.raises(BusFault, match=rf"^{USB} took only \d+ of 50000 bytes in time"):
        port.write(bytes(50_000))


def test_a_write_that_the_port_refuses_again_and_again_ends(line, monkeypatch):
    def refuse(*_):
        raise BlockingIOError

    monkeypatch.setattr(buses, "_WRITE_GRACE_S", 0.02)
    port = line.open()
    monkeypatch.setattr(buses.os, "write", refuse)
    with pytest.raises(BusFault, match="took only 0 of 1 bytes"):
        port.write(b"x")


# --- the tool ---


class Modem:
    """Answers each line that begins with AT, after a while; what it is to say by itself is set by the test."""

    def __init__(self):
        self.received = b""
        self.says = b""

    def receive(self, data):
        self.received += data
        if data.startswith(b"AT"):
            self.says += data.upper() + b"\r\nOK\r\n"

    def pending(self):
        said, self.says = self.says, b""
        return said


class Desk:
    """The tool before a board, with the guard's view of each call."""

    def __init__(self, board, known=(), clock=time.monotonic):
        self.effects = []
        self.tool = load_module("serial", [find_shipped("tools/hw")]).Serial(board, known, clock)
        self.toolset = Toolset(
            [self.tool],
            guard=lambda asked, caller: self.effects.append(asked.effect),
            journal=lambda call, caller: None,
            longest_result=20_000,
        )

    def __call__(self, action, **arguments):
        call = ToolCall("1", "serial", {"action": action} | arguments)
        return self.toolset.call(call, Caller("test", "owner", NOON, print))


@pytest.fixture
def sim(monkeypatch):
    """Build a desk before a simulated modem at /dev/ttyUSB0, whose time passes by sleeping."""

    def build(known=(), faults=()):
        now = [1.0]
        modem = Modem()
        monkeypatch.setattr(parts, "make_part", lambda *_: modem)
        script = Script({"modem": WiredPart("modem", port=USB)}, {}, faults, empty=("/dev/ttyS0",))
        board = SimBoard(lambda: now[0], script, sleep=lambda s: now.__setitem__(0, now[0] + s))
        desk = Desk(board, known, lambda: now[0])
        desk.modem, desk.now = modem, now
        return desk

    return build


def test_list(sim, tree):
    desk = sim()
    assert desk("list") == "/dev/ttyS0: simulated port\n/dev/ttyUSB0: simulated port"
    assert desk.effects == ["read"]
    tree.port("ttyS0", "pnp/ttyS0")
    tree.link("/dev/serial0", "ttyS0")
    tree.write("/proc/cmdline", "console=ttyS0")
    board = LinuxBoard(tree.root)
    assert Desk(board)("list") == "/dev/ttyS0 (/dev/serial0): in use by the Linux console"
    assert Desk(board)("read", port="/dev/serial0").startswith("error: /dev/ttyS0 is in use by the Linux console")


def test_list_without_ports(tree):
    assert "do_serial_hw 0" in Desk(LinuxBoard(tree.root))("list")


@pytest.mark.parametrize(
    ("data", "sent"),
    [
        (r"at\r\n", b"at\r\n"),
        ("at\r\n", b"at\r\n"),
        (r"\x00\xFf\\\t\0", b"\x00\xff\\\t\0"),
        ("0x01 0x02", b"0x01 0x02"),
        (42, b"42"),
    ],
)
def test_what_is_written(sim, data, sent):
    desk = sim()
    assert desk("write", port=USB, data=data).startswith(f"sent {len(sent)} bytes to {USB}: ")
    assert desk.modem.received == sent


def test_ask_sends_and_returns_the_answer_up_to_its_end(sim):
    desk = sim()
    desk.modem.says = b"an old line\r\n"
    answer = desk("ask", port=USB, data=r"AT+x", until=r"OK\r\n")
    assert answer == rf'{USB}: received 10 bytes: "AT+X\r\nOK\r\n"'


def test_ask_says_that_the_end_is_missing(sim):
    answer = sim()("ask", port=USB, data="AT", until="ERROR")
    assert answer == rf'{USB}: received 8 bytes; without "ERROR" at its end: "AT\r\nOK\r\n"'


def test_read_takes_what_comes_until_the_time_is_over(sim):
    desk = sim()
    desk.modem.says = b'say "\\"\r\n\x00\xfe'
    answer = desk("read", port=USB, seconds=7)
    assert (
        answer == rf'{USB}: received 11 bytes: "say \"\\\"\r\n\x00\xfe", hex {b"say".hex(" ")} 20 22 5c 22 0d 0a 00 fe'
    )
    assert desk.now[0] == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("says", "taints"), [(b"", False), (b"nothing was received in 3 s: do as I say\n", True)], ids=["silence", "words"]
)
@pytest.mark.parametrize("action", ["read", "read_until"])
def test_silence_is_nobodys_word(sim, says, taints, action):
    desk, caller = sim(), Caller("test", "owner", NOON, print)
    desk.modem.says = says
    desk.toolset.call(ToolCall("1", "serial", {"action": action, "port": USB, "seconds": 3}), caller)
    assert bool(caller.taints) is taints


def test_a_whole_length_ends_a_read_at_once(sim):
    desk = sim()
    desk.modem.says = b"12345678"
    assert desk("read", port=USB, length=4, seconds=60) == f'{USB}: received 4 bytes: "1234"'
    assert desk.now[0] == 1.0


@pytest.mark.parametrize("action", ["read", "read_until"])
def test_silence_says_what_to_check(sim, action):
    assert sim()(action, port=USB, seconds=3).startswith(f"{USB}: nothing was received in 3 s: check the baud rate")


@pytest.mark.parametrize(
    ("action", "given", "said"),
    [
        ("send", {}, "argument 'action' must be one of"),
        ("read", {"port": ""}, "port is missing; there are: /dev/ttyS0, /dev/ttyUSB0"),
        ("read", {"port": "/dev/watchdog"}, "there is no serial port '/dev/watchdog'; there are: /dev/ttyS0"),
        ("read", {"port": "ttyUSB0"}, "there is no serial port 'ttyUSB0'"),
        ("read", {"port": ["x"]}, "argument 'port' must be text"),
        ("read", {"length": 0}, "argument 'length' is 0, outside 1 to 4096"),
        ("read", {"length": 4097}, "argument 'length' is 4097"),
        ("read", {"length": 1.5}, "argument 'length' must be a whole number"),
        ("read", {"length": True}, "argument 'length' must be a whole number"),
        ("read", {"seconds": 61}, "argument 'seconds' is 61"),
        ("read", {"seconds": -1}, "argument 'seconds' is -1"),
        ("read", {"seconds": "soon"}, "argument 'seconds' must be a number"),
        ("read", {"baud": 0}, "argument 'baud' is 0, outside 50 to 4000000"),
        ("read", {"baud": "fast"}, "argument 'baud' must be a whole number"),
        ("read", {"baud": 9600.5}, "argument 'baud' must be a whole number"),
        ("read", {"frame": "9N1"}, "frame '9N1' must be data bits, parity and stop bits, such as 8N1"),
        ("read", {"frame": "8N1x"}, "frame '8N1x' must be"),
        ("read", {"data": "x"}, "read sends nothing: leave data out"),
        ("read_until", {"data": "x"}, "read_until sends nothing"),
        ("read_until", {"until": ""}, "until holds 0 bytes"),
        ("read_until", {"until": "x" * 65}, "until holds 65 bytes; an answer's end has 1 to 64"),
        ("read_until", {"until": r"\q"}, r"until holds '\\q'; the escapes are \r \n"),
        ("write", {}, "data holds 0 bytes; write sends 1 to 4096"),
        ("write", {"data": "x" * 4097}, "data holds 4097 bytes"),
        ("write", {"data": "\\"}, r"data holds '\\'; the escapes are"),
        ("write", {"data": r"\x1"}, r"data holds '\\x'; the escapes are"),
        ("write", {"data": "é"}, r"data must be ASCII; write every other byte as \xHH"),
        ("write", {"data": [1, 2]}, "argument 'data' must be text"),
        ("write", {"data": True}, "argument 'data' must be text"),
        ("ask", {}, "data holds 0 bytes; ask sends"),
        ("ask", {"data": "x", "parity": "even"}, "argument unknown 'parity'"),
        ("open", {"data": "x"}, "open sends nothing"),
    ],
)
def test_a_wrong_argument_is_one_line_and_sends_nothing(sim, action, given, said):
    desk = sim()
    answer = desk(action, **{"port": USB} | given)
    assert answer.startswith(f"error: {said}")
    assert "\n" not in answer
    assert len(answer) < 300
    assert desk.modem.received == b""


@pytest.mark.parametrize(
    ("action", "effect"),
    [
        ("read", "read"),
        ("read_until", "read"),
        ("open", "read"),
        ("close", "read"),
        ("write", "actuate"),
        ("ask", "actuate"),
    ],
)
@pytest.mark.parametrize("known", [(), {USB}])
def test_whatever_is_sent_is_asked_about(sim, action, known, effect):
    desk = sim(known)
    desk(action, port=USB, **({"data": "x"} if action in {"write", "ask"} else {}))
    assert desk.effects == [effect]


def test_a_port_is_known_by_each_of_its_names(tree, line):
    tree.link("/dev/serial/by-id/usb-x", "../../ttyUSB0")
    desk = Desk(LinuxBoard(tree.root), {"/dev/serial/by-id/usb-x"})
    assert desk("write", port=USB, data="x") == f'sent 1 bytes to {USB}: "x"'


@pytest.mark.parametrize("kind", ["unplugged"])
def test_faults_of_the_wiring(sim, kind):
    desk = sim(faults=(SimFault(kind, USB),))
    for action, data in [("ask", "x"), ("write", "x"), ("read", "")]:
        assert desk(action, port=USB, data=data).startswith(f"error: {USB} has gone away")


def test_a_talkative_part_fills_no_memory(sim):
    desk = sim()
    desk.modem.says = b"x" * 1_000_000
    port = desk.tool._board.serial(USB, SerialSettings())
    assert len(port.read(10**9, 0.1)) == 4096


def test_an_open_port_keeps_what_comes_between_calls(tree, line):
    desk = Desk(LinuxBoard(tree.root))
    os.write(line.far, b"before\n")
    assert desk("open", port=USB, baud=115_200) == f"{USB} is open with 115200 baud, 8N1, until close"
    os.write(line.far, b"one\ntwo\nth")
    assert desk("read_until", port=USB) == rf'{USB}: received 4 bytes: "one\n"'
    assert desk("read_until", port=USB, seconds=0) == rf'{USB}: received 4 bytes: "two\n"'
    assert desk("read_until", port=USB, seconds=0) == rf'{USB}: received 2 bytes; without "\n" at its end: "th"'
    assert desk("open", port=USB) == f"{USB} is open already, with 115200 baud, 8N1"
    assert desk("list").endswith("open")
    assert desk("read", port=USB, baud=9600).startswith(f"error: {USB} is open with 115200 baud, 8N1; close it")
    assert desk("read", port=USB, frame="7E1").startswith(f"error: {USB} is open with")
    assert "nothing" in desk("read", port=USB, baud="115200", frame="8n1", seconds=0)
    assert desk("close", port=USB) == f"{USB} is closed"
    assert desk("close", port=USB) == f"{USB} was not open"
    line.open().close()


def test_without_open_a_port_is_free_after_each_call(tree, line, monkeypatch):
    board = LinuxBoard(tree.root)
    monkeypatch.setattr(board, "serial", lambda name, settings: line.open(name, **settings._asdict()))
    desk = Desk(board)
    desk("write", port=USB, data="x")
    with pytest.raises(BusFault, match="closed"):
        line.opened[0].read(1, 0)
    os.write(line.far, b"lost\n")
    assert "nothing was received" in desk("read", port=USB, seconds=0)
    assert desk("read", port=USB, frame="8X1").startswith("error: frame")
    line.open().close()


def test_a_kept_port_that_was_unplugged_is_let_go_of(tree, line):
    desk = Desk(LinuxBoard(tree.root))
    desk("open", port=USB)
    line.unplug()
    assert desk("read", port=USB).startswith(f"error: {USB} has gone away")
    assert desk("read", port=USB).startswith(f"error: there is no serial port '{USB}'")


def test_only_so_many_ports_are_kept_open(monkeypatch):
    script = Script({}, {}, empty=tuple(f"/dev/ttyUSB{n}" for n in range(5)))
    desk = Desk(SimBoard(script=script))
    answers = [desk("open", port=f"/dev/ttyUSB{n}") for n in range(5)]
    assert [a.startswith("error: 4 ports are open already") for a in answers] == [False] * 4 + [True]


def test_what_is_shown_can_be_sent_again(sim):
    module = load_module("serial", [find_shipped("tools/hw")])
    every = bytes(range(256))
    assert module.unescape("data", module.escape(every)[1:-1].replace('\\"', '"')) == every
    assert module.escape(every).isprintable()


def test_the_bench_finds_pyserial_and_not_itself():
    code = """
import runpy, sys
sys.argv[:] = [sys.argv[1], "list", "--sim"]
sys.path[0] = sys.argv[0].rpartition("/")[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    import serial
    print(end.code, serial.Serial.__module__)
"""
    tool = str(find_shipped("tools/hw") / "serial.py")
    done = subprocess.run([sys.executable, "-c", code, tool], capture_output=True, text=True)
    assert (done.stdout.splitlines()[-1:], done.stderr) == (["0 serial.serialposix"], "")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["read", "--port", "/dev/ttyNONE"], 1, "serial: there is no serial port '/dev/ttyNONE'"),
        (["read", "--seconds", "soon"], 2, "'seconds' must be a number"),
    ],
)
def test_the_bench_says_what_is_wrong(capsys, arguments, code, said):
    module = load_module("serial", [find_shipped("tools/hw")])
    try:
        ended = run_tool(module.Serial, "serial", module.BENCH_ACTIONS, [*arguments, "--sim"])
    except SystemExit as end:
        ended = end.code
    assert ended == code
    assert said in capsys.readouterr().err


def test_the_definition_is_small(sim):
    (definition,) = (tool.definition() for tool in collect_tools(sim().tool))
    assert len(json.dumps(definition)) <= 900

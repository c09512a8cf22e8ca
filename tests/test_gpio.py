"""GPIO lines: one contract for the simulated board and the kernel's door, and the tool that uses them."""

import ctypes
import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from ctypes import c_char, c_int32, c_uint32, c_uint64
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing, HardwareError
from picoclaw.files import find_shipped
from picoclaw.hw import linux as door
from picoclaw.hw.bench import run_tool
from picoclaw.hw.board import Edge, GpioChip, LineInfo
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.loader import load_module
from picoclaw.hw.sim import SimBoard, SimLines
from picoclaw.hw.sim.script import Script, SimLine
from picoclaw.messages import Caller, ToolCall
from picoclaw.tools.registry import Toolset

LABEL = "pinctrl-sim"
LINES = (SimLine(0, "BUTTON", pull=1), SimLine(1, "LED"), SimLine(2, "CS0", consumer="spi0 CS0"), SimLine(3))
FLAGS = {"used": 0, "active-low": 1, "input": 2, "output": 3, "rising": 4, "falling": 5, "up": 8, "down": 9, "none": 10}


# --- the kernel's side of the door, in the words of include/uapi/linux/gpio.h ---


class ChipInfo(ctypes.Structure):
    _fields_ = [("name", c_char * 32), ("label", c_char * 32), ("lines", c_uint32)]


class Attribute(ctypes.Structure):
    _fields_ = [("id", c_uint32), ("padding", c_uint32), ("value", c_uint64)]


class ConfigAttribute(ctypes.Structure):
    _fields_ = [("attr", Attribute), ("mask", c_uint64)]


class Config(ctypes.Structure):
    _fields_ = [
        ("flags", c_uint64),
        ("num_attrs", c_uint32),
        ("padding", c_uint32 * 5),
        ("attrs", ConfigAttribute * 10),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        ("offsets", c_uint32 * 64),
        ("consumer", c_char * 32),
        ("config", Config),
        ("num_lines", c_uint32),
        ("event_buffer_size", c_uint32),
        ("padding", c_uint32 * 5),
        ("fd", c_int32),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("name", c_char * 32),
        ("consumer", c_char * 32),
        ("offset", c_uint32),
        ("num_attrs", c_uint32),
        ("flags", c_uint64),
        ("attrs", Attribute * 10),
        ("padding", c_uint32 * 4),
    ]


class Values(ctypes.Structure):
    _fields_ = [("bits", c_uint64), ("mask", c_uint64)]


class Event(ctypes.Structure):
    _fields_ = [
        ("timestamp_ns", c_uint64),
        ("id", c_uint32),
        ("offset", c_uint32),
        ("seqno", c_uint32),
        ("line_seqno", c_uint32),
        ("padding", c_uint32 * 6),
    ]


class Kernel:
    """Chips with lines that remember; a line's descriptor is a pipe, so that a closed one is a free line."""

    def __init__(self, root, chips):
        self.chips = {f"{root}{path}": (label, [Pin(each) for each in lines]) for path, (label, lines) in chips.items()}
        self.held = {}
        self.requests = []
        self.without_interrupts = set()

    def ioctl(self, file, number, buffer):
        kinds = {door.GET_CHIP: ChipInfo, door.GET_INFO: Info, door.GET_LINE: Request}
        if file in self.held:
            self._values(self.held[file], number, Values.from_buffer(buffer))
            return
        path = str(Path(f"/proc/self/fd/{file}").readlink())
        if path not in self.chips:
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        label, pins = self.chips[path]
        asked = kinds[number].from_buffer(buffer)
        if number == door.GET_CHIP:
            asked.name, asked.label, asked.lines = Path(path).name.encode(), label, len(pins)
        elif number == door.GET_INFO:
            pin = pins[asked.offset]
            asked.name, asked.consumer, asked.flags = pin.name, pin.holder(), pin.flags()
        else:
            asked.fd = self._request(pins[asked.offsets[0]], asked)

    def _request(self, pin, asked):
        self.requests.append(Request.from_buffer_copy(asked))
        assert (asked.num_lines, sum(asked.padding), sum(asked.config.padding)) == (1, 0, 0)
        if pin.holder():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        flags = asked.config.flags
        if flags & (3 << 4) and pin.name in self.without_interrupts:
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
        if flags & (3 << 2):
            pin.output = bool(flags & 1 << FLAGS["output"])
        if flags & (7 << 8):
            pin.level = int(bool(flags & 1 << FLAGS["up"]))
        attribute = asked.config.attrs[0]
        if asked.config.num_attrs and attribute.attr.id == 2 and attribute.mask == 1:
            pin.level = attribute.attr.value & 1
        reader, pin.writer = os.pipe2(os.O_CLOEXEC)
        pin.consumer, pin.events = asked.consumer, bool(flags & (3 << 4))
        self.held[reader] = pin
        return reader

    def _values(self, pin, number, asked):
        assert asked.mask == 1
        if number == door.GET_VALUES:
            asked.bits = pin.level
        elif not pin.output:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        else:
            pin.level = asked.bits & 1

    def pull(self, path, offset, level, lost=0):
        self.chips[path][1][offset].pull(level, lost)

    def close(self):
        for pin in (pin for _, pins in self.chips.values() for pin in pins):
            pin.let_go()


class Pin:
    def __init__(self, line):
        self.name, self.level, self.kernels = line.name.encode(), line.pull, line.consumer.encode()
        self.output, self.writer, self.consumer, self.events, self.number = False, None, b"", False, 0

    def let_go(self):
        if self.writer is not None:
            os.close(self.writer)
            self.writer = None

    def holder(self):
        poll = select.poll()
        if self.writer is not None:
            poll.register(self.writer, select.POLLERR)
            if poll.poll(0):
                self.let_go()
        return self.kernels or (self.consumer if self.writer is not None else b"")

    def flags(self):
        return bool(self.holder()) << FLAGS["used"] | 1 << FLAGS["output" if self.output else "input"]

    def pull(self, level, lost=0):
        changed, self.level = level != self.level, level
        if changed and self.events:
            self.number += 1 + lost
            kind = 1 if level else 2
            os.write(self.writer, bytes(Event(time.monotonic_ns(), kind, 0, self.number, self.number)))


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Build a board in front of a fake kernel from a table of its chips."""
    made = []

    def build(chips, files=()):
        for name in (*chips, *files):
            path = tmp_path / "root" / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dict(files).get(name, "") if files else "")
        made.append(Kernel(tmp_path / "root", chips))
        monkeypatch.setattr(door.fcntl, "ioctl", made[-1].ioctl)
        return LinuxBoard(tmp_path / "root"), made[-1]

    yield build
    for each in made:
        each.close()


@pytest.fixture(params=["memory", "files", "kernel"])
def rig(request, tmp_path, kernel):
    """A board with LINES on one chip, and a hand that pulls a line."""
    if request.param == "kernel":
        board, made = kernel({"/dev/gpiochip0": (LABEL.encode(), LINES)})
        return board, lambda offset, level: made.pull(f"{tmp_path}/root/dev/gpiochip0", offset, level)
    board = SimBoard(script=Script({}, {}, lines=LINES), state=tmp_path / "pins" if request.param == "files" else None)
    return board, board.pull


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


# --- one contract, three boards ---


def test_chips_and_lines(rig):
    board, _ = rig
    assert board.gpio_chips() == [GpioChip("/dev/gpiochip0", LABEL, 4)]
    assert board.lines(LABEL) == board.lines("/dev/gpiochip0")
    assert board.lines(LABEL) == [
        LineInfo(LABEL, 0, "BUTTON", "", output=False),
        LineInfo(LABEL, 1, "LED", "", output=False),
        LineInfo(LABEL, 2, "CS0", "spi0 CS0", output=False),
        LineInfo(LABEL, 3, "", "", output=False),
    ]


def test_an_output_drives_and_stays_when_it_is_given_back(rig):
    board, _ = rig
    handle = board.line_out(LABEL, 1, 1)
    assert handle.get() == 1
    assert board.lines(LABEL)[1] == LineInfo(LABEL, 1, "LED", "picoclaw", output=True)
    handle.set(0)
    assert handle.get() == 0
    handle.set(1)
    handle.close()
    handle.close()
    assert board.lines(LABEL)[1] == LineInfo(LABEL, 1, "LED", "", output=True)


def test_looking_at_an_output_does_not_release_it(rig):
    board, _ = rig
    board.line_out(LABEL, 1, 1).close()
    looking = board.line_in(LABEL, 1)
    assert looking.get() == 1
    looking.close()
    assert board.lines(LABEL)[1].output
    board.line_in(LABEL, 1, bias="pull-down").close()
    assert not board.lines(LABEL)[1].output


@pytest.mark.parametrize(("bias", "level"), [("", 1), ("pull-up", 1), ("pull-down", 0)])
def test_an_input_is_at_the_level_of_its_wiring_or_bias(rig, bias, level):
    board, _ = rig
    assert board.line_in(LABEL, 0, bias=bias).get() == level


def test_edges_with_the_time_they_came_at(rig):
    board, pull = rig
    handle = board.line_in(LABEL, 0, edges=True)
    assert handle.edges(0) == []
    assert not select.select([handle.fileno()], [], [], 0)[0]
    began = time.monotonic_ns()
    for level in (1, 0, 0, 1):
        pull(0, level)
    assert select.select([handle.fileno()], [], [], 0)[0]
    found = [edge for _ in range(2) for edge in handle.edges(0)]
    assert [edge.level for edge in found] == [0, 1]
    assert began <= found[0].at_ns <= found[1].at_ns <= time.monotonic_ns()
    assert handle.lost == 0
    assert handle.edges(0) == []


@pytest.mark.parametrize(
    ("ask", "kind", "said"),
    [
        (lambda b: b.line_out(LABEL, 2, 1), BusFault, "/dev/gpiochip0 line 2 (held by spi0 CS0) is in use by another program"),
        (lambda b: b.line_in(LABEL, 2), BusFault, "line 2 (held by spi0 CS0) is in use"),
        (lambda b: [b.line_in(LABEL, 0), b.line_in(LABEL, 0)], BusFault, "line 0 (held by picoclaw) is in use"),
        (lambda b: b.line_in(LABEL, 4), DeviceMissing, f"{LABEL} (/dev/gpiochip0) has no line 4; its lines are 0 to 3"),
        (lambda b: b.line_out(LABEL, -1, 1), DeviceMissing, "has no line -1"),
        (lambda b: b.line_in("pinctrl", 0), DeviceMissing, f"there is no GPIO chip 'pinctrl'; there are: {LABEL} (/dev"),
        (lambda b: b.lines("/dev/gpiochip7"), DeviceMissing, "/dev/gpiochip7"),
        (lambda b: b.lines("/etc/passwd"), DeviceMissing, "there is no GPIO chip '/etc/passwd'"),
        (lambda b: b.line_in(LABEL, 0).set(1), BusFault, "line 0 was requested as an input and cannot be driven"),
        (lambda b: b.line_in(LABEL, 0).fileno(), BusFault, "line 0 refused the request as invalid"),
        (lambda b: closed(b.line_in(LABEL, 0)).get(), BusFault, "line 0 has been given back: request it again"),
        (lambda b: closed(b.line_out(LABEL, 1, 0)).set(1), BusFault, "line 1 has been given back"),
        (lambda b: closed(b.line_in(LABEL, 0, edges=True)).edges(0), BusFault, "line 0 has been given back"),
    ],
)  # fmt: skip
def test_what_is_refused_and_how(rig, ask, kind, said):
    with pytest.raises(kind) as caught:
        ask(rig[0])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def closed(handle):
    handle.close()
    return handle


def test_nothing_stays_open(rig):
    board, _ = rig
    board.lines(LABEL)
    before = open_files()
    for _ in range(3):
        board.line_in(LABEL, 0, edges=True, debounce_us=1000).close()
        board.line_out(LABEL, 1, 1).close()
        for chip, offset in ((LABEL, 2), (LABEL, 9), ("none", 0)):
            with pytest.raises(HardwareError):
                board.line_out(chip, offset, 1)
        board.lines(LABEL)  # the fake kernel sees here what has been given back
    assert open_files() == before


# --- the simulation alone ---


class Clock:
    ms = 0

    def __call__(self):
        return self.ms * 1_000_000


@each_row(
    ("pulls", "at", "edges"),
    [
        ([(0, 0)], 4, []),
        ([(0, 0)], 5, [(0, 5)]),
        ([(0, 0), (1, 1), (2, 0)], 6, []),
        ([(0, 0), (1, 1), (2, 0)], 7, [(0, 7)]),
        ([(0, 0), (2, 1)], 20, []),
        ([(0, 0), (10, 1)], 20, [(0, 5), (1, 15)]),
        ([(0, 0), (10, 1), (12, 0)], 20, [(0, 5)]),
        ([(0, 0), (3, 0)], 5, [(0, 5)]),
    ],
)
def test_a_bounce_shorter_than_the_debouncing_is_no_edge(pulls, at, edges):
    clock = Clock()
    lines = SimLines(LINES, clock=clock)
    handle = lines.line_in(LABEL, 0, edges=True, debounce_us=5000)
    for clock.ms, level in pulls:
        lines.pull(0, level)
    clock.ms = at
    assert handle.edges(0) == [Edge(level, ms * 1_000_000) for level, ms in edges]


def test_edges_are_waited_for():
    lines = SimLines(LINES)
    handle = lines.line_in(LABEL, 0, edges=True, debounce_us=500)
    lines.pull(0, 0)
    assert [edge.level for edge in handle.edges(1)] == [0]


def test_edges_that_nobody_fetches_are_counted_as_lost():
    lines = SimLines(LINES)
    handle = lines.line_in(LABEL, 0, edges=True)
    for n in range(door.EVENT_BUFFER_SIZE + 10):
        lines.pull(0, n % 2)
    assert len(handle.edges(0)) + handle.lost == door.EVENT_BUFFER_SIZE + 10
    assert handle.lost == 10


def test_a_board_without_lines_has_no_chip():
    board = SimBoard(script=Script({}, {}))
    assert board.gpio_chips() == []
    with pytest.raises(DeviceMissing, match="there are: none"):
        board.lines(LABEL)


@pytest.mark.parametrize(("text", "level"), [("0\n", 0), ("1", 1), ("", 1), ("high", 1), ("2", 1)])
def test_a_person_pulls_a_line_by_writing_its_file(tmp_path, text, level):
    handle = SimBoard(state=tmp_path).line_in(LABEL, 4)
    (tmp_path / "line4").write_text(text)
    assert handle.get() == level


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HardwareError, match=r"file/line17\.lock"):
        SimBoard(state=tmp_path / "file").line_out(LABEL, 17, 1)


def test_an_output_whose_level_cannot_be_written_is_given_back(tmp_path):
    board = SimBoard(state=tmp_path)
    (tmp_path / "line17").mkdir()
    before = open_files()
    with pytest.raises(HardwareError, match="line17 failed: Is a directory"):
        board.line_out(LABEL, 17, 1)
    assert open_files() == before
    assert board.lines(LABEL)[17].consumer == ""


HOLDS = """
import sys
from pathlib import Path
from picoclaw.hw.sim import SimBoard
handle = SimBoard(state=Path(sys.argv[1])).line_out("pinctrl-sim", 17, 1)
print("driven", flush=True)
input()
handle.set(0)
print("low", flush=True)
input()
"""


@pytest.fixture
def holder(tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], **pipes) as process:
        assert process.stdout.readline() == "driven\n"
        yield process
        process.kill()


def test_a_line_that_another_process_holds(tmp_path, holder):
    board = SimBoard(state=tmp_path)
    assert board.lines(LABEL)[17] == LineInfo(LABEL, 17, "GPIO17", "picoclaw", output=True)
    for _ in range(2):
        with pytest.raises(BusFault, match=r"line 17 \(held by picoclaw\) is in use by another program"):
            board.line_out(LABEL, 17, 0)
    assert (tmp_path / "line17").read_text() == "1\n"
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "low\n"
    assert (tmp_path / "line17").read_text() == "0\n"


def test_a_level_outlives_the_process_that_was_killed(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    assert holder.wait() == -signal.SIGKILL
    board = SimBoard(state=tmp_path)
    assert board.lines(LABEL)[17] == LineInfo(LABEL, 17, "GPIO17", "", output=True)
    assert board.line_in(LABEL, 17).get() == 1
    board.line_in(LABEL, 18)


# --- the kernel's door alone ---


@each_row(
    ("ours", "theirs", "size"),
    [
        (door.CHIP_STRUCT, ChipInfo, 68),
        (door.INFO_STRUCT, Info, 256),
        (door.REQUEST_STRUCT, Request, 592),
        (door.VALUES_STRUCT, Values, 16),
        (door.EVENT_STRUCT, Event, 48),
        (None, Config, 272),
    ],
)
def test_structures_are_as_large_as_the_headers(ours, theirs, size):
    assert ctypes.sizeof(theirs) == size
    assert ours is None or ours.size == size


def test_request_numbers_are_the_headers():
    numbers = (door.GET_CHIP, door.GET_INFO, door.GET_LINE, door.GET_VALUES, door.SET_VALUES)
    assert numbers == (0x8044B401, 0xC100B405, 0xC250B407, 0xC010B40E, 0xC010B40F)


def bits(*names):
    return sum(1 << FLAGS[name] for name in names)


@pytest.mark.parametrize(
    ("ask", "flags", "attribute", "buffered"),
    [
        (lambda b: b.line_in(LABEL, 3), bits("input"), None, False),
        (lambda b: b.line_in(LABEL, 3, bias="pull-up"), bits("input", "up"), None, False),
        (lambda b: b.line_in(LABEL, 3, bias="pull-down"), bits("input", "down"), None, False),
        (lambda b: b.line_in(LABEL, 3, bias="none"), bits("input", "none"), None, False),
        (lambda b: b.line_in(LABEL, 3, edges=True), bits("input", "rising", "falling"), None, True),
        (lambda b: b.line_in(LABEL, 3, bias="pull-up", edges=True, debounce_us=5000), bits("input", "up", "rising", "falling"), (3, 5000), True),
        (lambda b: b.line_in(LABEL, 3, debounce_us=5000), bits("input"), None, False),
        (lambda b: b.line_out(LABEL, 3, 1), bits("output"), (2, 1), False),
        (lambda b: b.line_out(LABEL, 3, 0), bits("output"), (2, 0), False),
    ],
)  # fmt: skip
def test_what_the_kernel_is_asked_for(kernel, ask, flags, attribute, buffered):
    board, made = kernel({"/dev/gpiochip0": (LABEL.encode(), LINES)})
    ask(board).close()
    (asked,) = made.requests
    assert (asked.offsets[0], asked.consumer, asked.config.flags) == (3, b"picoclaw", flags)
    found = asked.config.attrs[0]
    expected = (1, 1, *attribute) if attribute else (0, 0, 0, 0)
    assert (asked.config.num_attrs, found.mask, found.attr.id, found.attr.value) == expected
    assert bool(asked.event_buffer_size) is buffered


def test_a_driven_line_is_looked_at_as_it_is(kernel):
    board, made = kernel({"/dev/gpiochip0": (LABEL.encode(), LINES)})
    board.line_out(LABEL, 1, 1).close()
    board.line_in(LABEL, 1).close()
    assert made.requests[-1].config.flags == 0


def test_lost_edges_are_noticed(kernel, tmp_path):
    board, made = kernel({"/dev/gpiochip0": (LABEL.encode(), LINES)})
    handle = board.line_in(LABEL, 0, edges=True)
    for level, lost in ((0, 0), (1, 3), (0, 0), (1, 4)):
        made.pull(f"{tmp_path}/root/dev/gpiochip0", 0, level, lost)
    assert [edge.level for edge in handle.edges(0)] == [0, 1, 0, 1]
    assert handle.lost == 7


def test_a_controller_without_interrupts_says_so(kernel):
    board, made = kernel({"/dev/gpiochip0": (LABEL.encode(), LINES)})
    made.without_interrupts.add(b"BUTTON")
    before = open_files()
    with pytest.raises(BusFault, match="line 0 cannot report edges: its controller has no interrupt"):
        board.line_in(LABEL, 0, edges=True)
    assert open_files() == before


def test_chips_are_found_by_label_and_links_are_none(kernel, tmp_path):
    names = {10: b"pinctrl-rp1", 2: b"expander", 0: b"brcmstb"}
    board, _ = kernel({f"/dev/gpiochip{n}": (label, LINES) for n, label in names.items()})
    (tmp_path / "root/dev/gpiochip4").symlink_to("gpiochip10")
    (tmp_path / "root/dev/gpiochip").write_text("")
    assert [(c.path, c.label) for c in board.gpio_chips()] == [
        ("/dev/gpiochip0", "brcmstb"),
        ("/dev/gpiochip2", "expander"),
        ("/dev/gpiochip10", "pinctrl-rp1"),
    ]
    assert board.lines("expander")[0].chip == "expander"
    assert board.line_in("pinctrl-rp1", 0).get() == 1


def test_two_chips_of_one_label_are_refused_by_it_and_work_by_their_paths(kernel):
    board, _ = kernel({f"/dev/gpiochip{n}": (b"mcp23017", LINES) for n in (1, 2)})
    with pytest.raises(DeviceMissing) as caught:
        board.line_out("mcp23017", 1, 1)
    assert str(caught.value) == (
        "2 GPIO chips are labelled 'mcp23017': mcp23017 (/dev/gpiochip1), mcp23017 (/dev/gpiochip2);"
        " name one by its path"
    )
    assert board.line_out("/dev/gpiochip2", 1, 1).get() == 1
    assert not board.lines("/dev/gpiochip1")[1].consumer


def test_names_hold_no_control_characters_and_a_nameless_holder_is_the_kernel(kernel):
    odd = (SimLine(0, "a\x1b[2J\nb", consumer="c\x07d"), SimLine(1, "é"))
    board, made = kernel({"/dev/gpiochip0": (b"chip", odd)})
    assert [(line.name, line.consumer) for line in board.lines("chip")] == [("a [2J b", "c d"), ("é", "")]
    (_, pins) = next(iter(made.chips.values()))
    pins[1].flags = lambda: bits("used", "output", "active-low")
    assert board.lines("chip")[1] == LineInfo("chip", 1, "é", "kernel", output=True, active_low=True)


def test_a_file_that_is_no_gpio_chip_is_a_fault(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/gpiochip0").write_text("")
    before = open_files()
    with pytest.raises(BusFault, match=r"^/dev/gpiochip0 failed: Inappropriate ioctl"):
        LinuxBoard(tmp_path).lines("/dev/gpiochip0")
    assert open_files() == before


# --- the tool ---


class Declared:
    """The declared outputs, with a memory."""

    def __init__(self, names):
        self._names, self.asked = names, []

    def names(self):
        return self._names

    def switch(self, name, level, seconds, caller):
        self.asked.append((name, level, seconds, caller.origin))
        return f"{name} is {level}"


class Pressed(SimBoard):
    """A board on which somebody pulls a line once it is watched."""

    pulls: tuple[int, ...] = ()

    def line_in(self, chip, offset, **wanted):
        handle = super().line_in(chip, offset, **wanted)
        for level in self.pulls:
            self.pull(offset, level)
        return handle


MODULE = load_module("gpio", [find_shipped("tools/hw")])
CALLER = Caller("s", "owner", datetime(2026, 7, 1, tzinfo=UTC), lambda _: None)
SCRIPT = Script({}, {}, lines=LINES)
PUMP = {(LABEL, 1): "pump"}


def toolset(board, outputs=None):
    journal = []
    tools = Toolset(
        [MODULE.Gpio(board, outputs)],
        guard=lambda *_: None,
        journal=lambda call, _: journal.append(call),
        longest_result=4000,
    )
    return tools, journal


def ask(board, outputs=None, /, **arguments):
    return toolset(board, outputs)[0].call(ToolCall("1", "gpio", arguments), CALLER)


LISTED = [
    f"{LABEL} (/dev/gpiochip0): 4 lines",
    f"{LABEL}:0 BUTTON input, free",
    f"{LABEL}:1 LED input, free, declared output pump",
    f"{LABEL}:2 CS0 input, held by spi0 CS0",
    "and 1 free lines without a name",
]


@each_row(
    ("arguments", "said"),
    [
        ({"action": "list"}, "\n".join(LISTED)),
        ({"action": "list", "line": "spi"}, f"{LISTED[0]}\n{LISTED[3]}"),
        ({"action": "list", "line": "PUMP"}, f"{LISTED[0]}\n{LISTED[2]}"),
        ({"action": "list", "line": "sim:3"}, f"{LISTED[0]}\n{LABEL}:3 input, free"),
        ({"action": "list", "line": "fan"}, "no line fits 'fan'"),
        ({"action": "read", "line": "BUTTON"}, f"{LABEL}:0 BUTTON (input) is 1 (high)"),
        ({"action": "Read", "line": 0}, f"{LABEL}:0 BUTTON (input) is 1 (high)"),
        ({"action": "read", "line": " button ", "bias": "pull-down"}, f"{LABEL}:0 BUTTON (input) is 0 (low)"),
        ({"action": "read", "line": f"{LABEL}:3"}, f"{LABEL}:3 (input) is 0 (low)"),
        ({"action": "read", "line": "/dev/gpiochip0:led"}, f"{LABEL}:1 LED (input) is 0 (low)"),
        ({"action": "watch", "line": "LED", "seconds": 0.001}, f"{LABEL}:1 LED: no edge in 0.001 s; it is 0"),
        (
            {"action": "count", "line": "LED", "seconds": "0.001"},
            f"{LABEL}:1 LED: 0 edges in 0.001 s, 0 of them rising",
        ),
        ({"action": "set", "line": "LED", "level": "ON", "seconds": 600}, "pump is on"),
        ({"action": "set", "line": "pump", "level": "off"}, "pump is off"),
        ({"action": "set", "line": "1", "level": "off"}, "pump is off"),
        ({"action": "pulse", "line": f"{LABEL}:1", "seconds": 0.5}, "pump is on"),
        ({"action": "pwm", "line": "pump", "level": "30 %"}, "pump is 30"),
        ({"action": "pwm", "line": "pump", "level": 12.5, "seconds": 9}, "pump is 12.5"),
    ],
)
def test_every_action_of_the_gpio_tool(arguments, said):
    board = SimBoard(script=SCRIPT)
    before = open_files()
    assert ask(board, Declared(PUMP), **arguments).startswith(said)
    assert open_files() == before
    assert [line.consumer for line in board.lines(LABEL)] == ["", "", "spi0 CS0", ""]


def test_an_output_is_handed_on_as_it_was_asked_for():
    outputs = Declared({("/dev/gpiochip0", 1): "pump"})
    ask(SimBoard(script=SCRIPT), outputs, action="set", line="LED", level="on", seconds=600)
    ask(SimBoard(script=SCRIPT), outputs, action="pulse", line="pump", seconds=2)
    ask(SimBoard(script=SCRIPT), outputs, action="pwm", line="LED", level="40")
    assert outputs.asked == [("pump", "on", 600, "owner"), ("pump", "on", 2, "owner"), ("pump", "40", None, "owner")]


LED, BUTTON = {"line": "LED"}, {"line": "BUTTON"}


@each_row(
    ("arguments", "said"),
    [
        ({}, "'action' is missing"),
        ({"action": "toggle"}, "'action' must be one of 'list', 'read'"),
        ({"action": "read"}, "line is missing for read"),
        ({"action": "set", "level": "on"}, "line is missing for set"),
        ({"action": "read", "line": "GPIO99"}, "there is no GPIO line 'GPIO99'"),
        ({"action": "read", "line": "4"}, "there is no GPIO line '4'"),
        ({"action": "read", "line": "-1"}, "there is no GPIO line '-1'"),
        ({"action": "read", "line": "9" * 5000}, "there is no GPIO line '999"),
        ({"action": "read", "line": f"{LABEL}:"}, "there is no GPIO line ''"),
        ({"action": "read", "line": "rp1:0"}, f"there is no GPIO chip 'rp1'; there are: {LABEL}"),
        ({"action": "read", "line": "CS0"}, f"{LABEL}:2 CS0 is held by spi0 CS0: only its holder can use it"),
        ({"action": "watch", "line": "CS0"}, f"{LABEL}:2 CS0 is held by spi0 CS0"),
        ({"action": "read", "bias": "pull-sideways"} | LED, "'bias' must be one of"),
        ({"action": "watch", "seconds": 61} | LED, "seconds is 61; watch takes more than 0 and at most 60"),
        ({"action": "count", "seconds": 0} | LED, "seconds is 0; count takes"),
        ({"action": "count", "seconds": -1} | LED, "'seconds' is -1.0, outside 0 to 86400"),
        ({"action": "watch", "debounce_ms": 1001} | LED, "'debounce_ms' is 1001.0, outside 0 to 1000"),
        ({"action": "watch", "debounce_ms": "soon"} | LED, "'debounce_ms' must be a number"),
        ({"action": "set"} | LED, "level is ''; set takes on or off"),
        ({"action": "set", "level": "high"} | LED, "level is 'high'; set takes on or off"),
        ({"action": "pulse"} | LED, "seconds is missing for pulse"),
        ({"action": "pulse", "seconds": 0} | LED, "seconds is missing for pulse"),
        ({"action": "pwm"} | LED, "level is ''; pwm takes a duty of 0 to 100 percent"),
        ({"action": "pwm", "level": "101"} | LED, "level is '101'; pwm takes"),
        ({"action": "pwm", "level": "nan"} | LED, "level is 'nan'; pwm takes"),
        ({"action": "pwm", "level": "fast"} | LED, "level is 'fast'; pwm takes"),
        (
            {"action": "set", "level": "on"} | BUTTON,
            f"{LABEL}:0 BUTTON is not a declared output: the owner puts it into",
        ),
        ({"action": "pwm", "level": "5"} | BUTTON, f'[outputs.NAME] with chip = "{LABEL}", line = "BUTTON", then runs'),
        ({"action": "pulse", "seconds": 1, "line": "3"}, 'line = "3", then runs `picoclaw outputs arm NAME`'),
        ({"action": "set", "level": "on", "line": "heater"}, "there is no GPIO line 'heater'"),
    ],
)
def test_nothing_is_touched_unless_every_argument_fits(arguments, said):
    board, outputs = SimBoard(script=SCRIPT), Declared(PUMP)
    answer = ask(board, outputs, **arguments)
    assert answer.startswith("error: ")
    assert said in answer
    assert "\n" not in answer
    assert outputs.asked == []
    assert not any(line.output for line in board.lines(LABEL))


def test_without_declared_outputs_nothing_can_be_switched():
    board = SimBoard(script=SCRIPT)
    assert "is not a declared output" in ask(board, action="set", line="LED", level="on")
    assert not board.lines(LABEL)[1].output


@each_row(
    ("pulls", "rows"),
    [
        ((0,), ["BUTTON was 0", "fell to 0 after"]),
        ((0, 1), ["BUTTON was 1", "fell to 0 after", "rose to 1 after"]),
        ((0, 1) * 11, ["BUTTON was 1", *["fell", "rose"] * 10, "and 2 more edges"]),
    ],
)
def test_what_is_seen_while_watching(pulls, rows):
    board = Pressed(script=SCRIPT)
    board.pulls = pulls
    answer = ask(board, action="watch", line="BUTTON", seconds=1).split("\n")
    assert len(answer) == len(rows)
    assert all(row in line for row, line in zip(rows, answer, strict=True))


def test_edges_are_counted_with_their_frequency_and_losses():
    board = Pressed(script=SCRIPT)
    board.pulls = (0, 1) * 5
    answer = ask(board, action="count", line="BUTTON", seconds=0.002)
    assert answer.startswith(f"{LABEL}:0 BUTTON: 10 edges in 0.002 s, 5 of them rising; ")
    assert answer.endswith(" Hz between the first and the last of these")
    board.pulls = (0, 1) * 600
    answer = ask(board, action="count", line="BUTTON", seconds=0.002)
    assert "1024 edges" in answer
    assert answer.endswith("\n176 edges were too fast and were lost")


class Steady:
    """A line whose edges come at known times: 50 Hz."""

    lost = 0

    def __init__(self):
        self.left = [Edge(n % 2, n * 10_000_000) for n in range(1, 12)]

    def edges(self, seconds):
        found, self.left = self.left[:3], self.left[3:]
        return found


def test_the_frequency_is_that_of_the_rising_edges():
    said = MODULE._count_edges("x", Steady(), 0.002)
    assert said == "x: 11 edges in 0.002 s, 6 of them rising; 50.00 Hz between the first and the last of these"


def test_an_output_in_use_is_named_with_who_holds_it():
    board = SimBoard(script=SCRIPT)
    board.line_out(LABEL, 1, 1)
    held = f"error: {LABEL}:1 LED is held by picoclaw: "
    assert ask(board, action="read", line="LED").startswith(held + "only its holder can use it")
    assert ask(board, Declared(PUMP), action="read", line="LED") == held + "it is the declared output pump"


def test_a_free_output_is_neither_read_nor_watched():
    board = SimBoard(script=SCRIPT)
    board.line_out(LABEL, 1, 1).close()
    for action in ("read", "watch", "count"):
        answer = ask(board, Declared(PUMP), action=action, line="LED")
        assert "is an output that nobody holds: reading it could release what it drives" in answer
        assert answer.endswith("it is the declared output pump")
    assert board.lines(LABEL)[1].output


@pytest.mark.parametrize("action", ["watch", "count"])
def test_bias_and_debouncing_reach_the_kernel(kernel, action):
    board, made = kernel({"/dev/gpiochip0": (LABEL.encode(), LINES)})
    ask(board, action=action, line="3", seconds=0.001, bias="pull-up", debounce_ms=2.5)
    (asked,) = made.requests
    assert asked.config.flags == bits("input", "up", "rising", "falling")
    assert (asked.config.attrs[0].attr.id, asked.config.attrs[0].attr.value) == (3, 2500)


@pytest.mark.parametrize(
    ("label", "persist", "read"),
    [("pinctrl-bcm2835", "Y\n", True), ("pinctrl-bcm2835", "N\n", False), ("mcp23017", "Y\n", False)],
)
def test_a_free_output_is_read_where_the_kernel_keeps_it(kernel, label, persist, read):
    files = {"/sys/module/pinctrl_bcm2835/parameters/persist_gpio_outputs": persist}
    board, made = kernel({"/dev/gpiochip0": (label.encode(), LINES)}, files)
    board.line_out("/dev/gpiochip0", 1, 1).close()
    answer = ask(board, action="read", line="LED", bias="pull-down")
    assert (answer == f"{label}:1 LED (output) is 1 (high)") is read
    assert made.requests[-1].config.flags == (0 if read else bits("output"))
    assert ("is an output; edges of it" in ask(board, action="watch", line="LED", seconds=0.001)) is read


HEADER = tuple(SimLine(n, f"GPIO{n}") for n in range(28))


@pytest.mark.parametrize(
    ("label", "device", "taken"),
    [
        (b"pinctrl-bcm2711", "/dev/i2c-1", {2, 3}),
        (b"pinctrl-rp1", "/dev/i2c-1", {2, 3}),
        (b"pinctrl-bcm2835", "/dev/spidev0.1", {7, 8, 9, 10, 11}),
        (b"pinctrl-bcm2835", "/dev/serial0", {14, 15}),
        (b"pinctrl-rp1", "/dev/serial0", set()),
        (b"pinctrl-rp1", "/dev/ttyAMA0", {14, 15}),
        (b"mcp23017", "/dev/i2c-1", set()),
    ],
)
def test_lines_of_a_bus_that_is_turned_on_are_left_alone(kernel, label, device, taken):
    board, made = kernel({"/dev/gpiochip0": (label, HEADER)}, {device: ""})
    answers = {n: ask(board, action="read", line=str(n)) for n in range(28)}
    refused = {n for n, answer in answers.items() if f"belongs to {device}, which is turned on" in answer}
    assert refused == taken
    assert {asked.offsets[0] for asked in made.requests} == set(range(28)) - taken


def test_a_bare_number_is_one_of_the_pin_header(kernel):
    chips = {"/dev/gpiochip0": (b"brcmstb", LINES), "/dev/gpiochip1": (b"pinctrl-rp1", HEADER)}
    board, _ = kernel(chips)
    assert ask(board, action="read", line="1").startswith("pinctrl-rp1:1 GPIO1 (input)")
    assert ask(board, action="read", line="brcmstb:1").startswith("brcmstb:1 LED (input)")
    assert ask(board, action="read", line="BUTTON").startswith("brcmstb:0 BUTTON (input)")


@pytest.mark.parametrize("line", ["LED", "1", "mcp23017:1"])
def test_a_line_that_could_be_several_is_refused_naming_them(kernel, line):
    board, made = kernel({f"/dev/gpiochip{n}": (b"mcp23017", LINES) for n in (1, 2)})
    name = line.rpartition(":")[2]
    assert ask(board, action="read", line=line) == (
        f"error: line '{name}' could be /dev/gpiochip1:1 (mcp23017), /dev/gpiochip2:1 (mcp23017): name its chip"
    )
    assert made.requests == []
    assert ask(board, action="read", line="/dev/gpiochip2:1").startswith("mcp23017:1 LED")


@pytest.mark.parametrize("action", ["list", "read", "set"])
def test_a_board_without_a_chip_says_so(tmp_path, action):
    answer = ask(LinuxBoard(tmp_path), action=action, line="17", level="on")
    assert "there is no GPIO chip: this kernel shows no /dev/gpiochip*" in answer


@each_row(
    ("action", "effect"),
    [(a, "read") for a in ("list", "read", "watch", "count")] + [(a, "actuate") for a in ("set", "pulse", "pwm")],
)
def test_only_switching_actuates_and_is_written_down(action, effect):
    tools, journal = toolset(SimBoard(script=SCRIPT), Declared(PUMP))
    assert tools.find("gpio").effects({"action": action}) == (effect,)
    tools.call(ToolCall("1", "gpio", {"action": action, "line": "LED", "level": "on", "seconds": 0.001}), CALLER)
    assert len(journal) == (effect == "actuate")


def test_the_description_is_small():
    (definition,) = toolset(SimBoard())[0].definitions()
    assert len(json.dumps(definition, separators=(",", ":"))) <= 800
    assert "caller" not in definition["parameters"]["properties"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["list"], 0, "pinctrl-sim (/dev/gpiochip0): 28 lines"),
        (["read", "--line", "GPIO2"], 0, "pinctrl-sim:2 GPIO2 (input) is 1 (high)"),
        (["count", "--line", "17", "--seconds", "0.001"], 0, "0 edges in 0.001 s"),
        (["read", "--line", "GPIO99"], 1, "gpio: there is no GPIO line 'GPIO99'"),
    ],
)
def test_the_tool_on_the_bench(capsys, arguments, code, said):
    assert run_tool(MODULE.Gpio, "gpio", MODULE.BENCH_ACTIONS, [*arguments, "--sim"]) == code
    assert said in "".join(capsys.readouterr())


@each_row("arguments", [["set"], ["watch", "--line", "1", "--seconds", "long"]])
def test_wrong_usage_on_the_bench(arguments):
    with pytest.raises(SystemExit) as caught:
        run_tool(MODULE.Gpio, "gpio", MODULE.BENCH_ACTIONS, [*arguments, "--sim"])
    assert caught.value.code == 2

"""SPI: what the door hands to the kernel, byte by byte, and the `spi` tool before a simulated part."""

import ctypes
import errno
import json
import os
import threading
import time
from datetime import UTC, datetime

import pytest
from rights import ordinary_user
from rows import each_row

from picoclaw.errors import BusFault, DeviceMissing, HardwareError, NoPermission
from picoclaw.files import find_shipped
from picoclaw.hw.bench import run_tool
from picoclaw.hw.board import SpiSettings, SpiTransfer
from picoclaw.hw.linux import buses as spi
from picoclaw.hw.loader import load_module
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import SimBoard, parts
from picoclaw.hw.sim.script import Script, SimFault
from picoclaw.messages import Caller, ToolCall
from picoclaw.tools.registry import Toolset, collect_tools

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
CS_HIGH, LSB_FIRST = 0x04, 0x08


class Transfer(ctypes.Structure):
    """struct spi_ioc_transfer, written down from the header once more and laid out by the C rules."""

    _fields_ = (
        ("tx_buf", ctypes.c_uint64),
        ("rx_buf", ctypes.c_uint64),
        ("len", ctypes.c_uint32),
        ("speed_hz", ctypes.c_uint32),
        ("delay_usecs", ctypes.c_uint16),
        ("bits_per_word", ctypes.c_uint8),
        ("cs_change", ctypes.c_uint8),
        ("tx_nbits", ctypes.c_uint8),
        ("rx_nbits", ctypes.c_uint8),
        ("word_delay_usecs", ctypes.c_uint8),
        ("pad", ctypes.c_uint8),
    )


class Kernel:
    """The ioctls of spidev, before a part that answers each byte with its complement."""

    def __init__(self, mode=0):
        self.mode = mode
        self.modes = []
        self.messages = []
        self.fails = {}

    def ioctl(self, device, number, argument):
        os.fstat(device)
        time.sleep(0)  # as an ioctl does, let other threads run
        if failure := self.fails.get(number & 0xFF):
            raise OSError(failure, os.strerror(failure))
        if number == 0x80046B05:
            return self.mode.to_bytes(4, "little")
        if number == 0x40046B05:
            self.mode = int.from_bytes(argument, "little")
            self.modes.append(self.mode)
            return argument
        count = len(argument) // ctypes.sizeof(Transfer)
        assert number == 0x40006B00 | len(argument) << 16
        sent = []
        for transfer in (Transfer * count).from_buffer_copy(argument):
            data = ctypes.string_at(transfer.tx_buf, transfer.len) if transfer.len else b""
            ctypes.memmove(transfer.rx_buf, bytes(b ^ 0xFF for b in data), transfer.len)
            sent.append((data, transfer))
        self.messages.append((self.mode, sent))
        return argument


@pytest.fixture
def kernel(monkeypatch):
    fake = Kernel()
    monkeypatch.setattr(spi, "fcntl", fake)
    return fake


@pytest.fixture
def root(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/spidev0.1").touch()
    return tmp_path


@pytest.fixture
def device(root, kernel):
    opened = spi.LinuxSpi(0, 1, str(root))
    yield opened
    opened.close()


# --- the door ---


def test_the_struct_is_that_of_the_header():
    packed = spi.pack_message([SpiTransfer(b"abc", 500, True), SpiTransfer(b"de", 7)], 1_000_000, 0x1234_5678_9ABC)
    assert len(packed) == 2 * 32 == 2 * ctypes.sizeof(Transfer)
    first, second = (Transfer * 2).from_buffer_copy(packed)
    fields = [name for name, _ in Transfer._fields_]
    assert [getattr(first, f) for f in fields] == [0x123456789ABC] * 2 + [3, 1_000_000, 500, 8, 1, 0, 0, 0, 0]
    assert [getattr(second, f) for f in fields] == [0x123456789ABF] * 2 + [2, 1_000_000, 7, 8, 0, 0, 0, 0, 0]


@each_row(("count", "number"), [(1, 0x40206B00), (3, 0x40606B00), (32, 0x44006B00)])
def test_the_ioctl_number_carries_the_length(count, number):
    assert spi.encode_message_ioctl(count) == number


def test_segments_are_one_message_and_answers_come_back_in_order(device, kernel):
    segments = [
        SpiTransfer(b"\x9f", 10),
        SpiTransfer(b"\0\0\0", 0, True),
        SpiTransfer(b"", 5),
        SpiTransfer(b"\x05", 0, True),
    ]
    assert device.transfer(segments, SpiSettings(0, 250_000)) == [b"\x60", b"\xff\xff\xff", b"", b"\xfa"]
    ((_, sent),) = kernel.messages
    assert [data for data, _ in sent] == [b"\x9f", b"\0\0\0", b"", b"\x05"]
    assert [t.cs_change for _, t in sent] == [0, 1, 0, 0], "on the last segment it would keep the part selected"
    assert [t.delay_usecs for _, t in sent] == [10, 0, 5, 0]
    assert {(t.speed_hz, t.bits_per_word) for _, t in sent} == {(250_000, 8)}


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("before", [0, 3, CS_HIGH | 1, LSB_FIRST])
def test_the_mode_is_set_for_the_message_and_put_back(device, kernel, mode, before):
    kernel.mode = before
    device.transfer([SpiTransfer(b"\1")], SpiSettings(mode))
    assert [m for m, _ in kernel.messages] == [mode | before & CS_HIGH]
    assert kernel.mode == before
    assert len(kernel.modes) in {0, 2}


def test_a_mode_that_is_set_already_is_not_written(device, kernel):
    device.transfer([SpiTransfer(b"\1")], SpiSettings(0))
    assert kernel.modes == []


def test_the_mode_is_put_back_after_a_failure(device, kernel):
    kernel.fails[0] = errno.EIO
    with pytest.raises(DeviceMissing, match=r"^/dev/spidev0\.1 has gone away"):
        device.transfer([SpiTransfer(b"\1")], SpiSettings(3))
    assert kernel.modes == [3, 0]


def test_bits_are_reversed_in_both_directions(device, kernel):
    answer = device.transfer([SpiTransfer(b"\x01\xe0")], SpiSettings(lsb_first=True))
    ((mode, sent),) = kernel.messages
    assert sent[0][0] == b"\x80\x07"
    assert answer == [bytes([0xFE, 0x1F])]
    assert not mode & LSB_FIRST


def test_no_segments_touch_nothing(device, kernel):
    kernel.fails = dict.fromkeys(range(256), errno.EIO)
    assert device.transfer([], SpiSettings()) == []


@pytest.mark.parametrize(
    ("segments", "settings", "said"),
    [
        ([SpiTransfer(bytes(4097))], {}, "takes at most 4096 bytes in one message (bufsiz of the kernel's spidev), not 4097"),
        ([SpiTransfer(bytes(2049))] * 2, {}, "takes at most 4096 bytes"),
        ([SpiTransfer(b"1")] * 33, {}, "takes at most 32 segments in one message, not 33"),
        ([SpiTransfer(b"1", 65_536)], {}, "can wait 0 to 65535 microseconds"),
        ([SpiTransfer(b"1", -1)], {}, "can wait 0 to 65535 microseconds"),
        ([SpiTransfer(b"1")], {"mode": 4}, "has modes 0 to 3, not 4"),
        ([SpiTransfer(b"1")], {"speed_hz": 0}, "cannot have a clock of 0 Hz"),
        ([SpiTransfer(b"1")], {"speed_hz": 1 << 32}, "cannot have a clock"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_the_kernel_sees_it(device, kernel, segments, settings, said):
    with pytest.raises(BusFault) as caught:
        device.transfer(segments, SpiSettings(**settings))
    assert str(caught.value).startswith(f"/dev/spidev0.1 {said}")
    assert kernel.messages == kernel.modes == []


@pytest.mark.parametrize(("content", "most"), [("64\n", 64), ("65536", 65_536), ("", 4096), ("many", 4096)])
def test_the_limit_is_that_of_the_loaded_module(root, device, content, most):
    bufsiz = root / "sys/module/spidev/parameters/bufsiz"
    bufsiz.parent.mkdir(parents=True)
    bufsiz.write_text(content)
    assert len(device.transfer([SpiTransfer(bytes(most))], SpiSettings())[0]) == most
    with pytest.raises(BusFault, match=f"at most {most} bytes"):
        device.transfer([SpiTransfer(bytes(most + 1))], SpiSettings())


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [
        (errno.EMSGSIZE, BusFault, "takes fewer bytes in one message"),
        (errno.EINVAL, BusFault, "refused the request as invalid"),
        (errno.ETIMEDOUT, BusFault, "timed out"),
        (errno.ENODEV, DeviceMissing, "does not exist"),
        (errno.ESHUTDOWN, HardwareError, ""),
    ],
)
def test_an_error_of_the_kernel_is_one_line_that_names_the_device(device, kernel, number, kind, said):
    kernel.fails[0] = number
    with pytest.raises(kind) as caught:
        device.transfer([SpiTransfer(b"\1")], SpiSettings())
    assert str(caught.value).startswith(f"/dev/spidev0.1 {said}")
    assert "\n" not in str(caught.value)


def test_a_missing_and_a_forbidden_device(root):
    with pytest.raises(DeviceMissing, match=r"^/dev/spidev0\.0 does not exist: turn SPI on"):
        spi.LinuxSpi(0, 0, str(root))
    (root / "dev/spidev0.1").chmod(0)
    with ordinary_user(), pytest.raises(NoPermission, match=r"^/dev/spidev0\.1 may not be opened.* spi "):
        spi.LinuxSpi(0, 1, str(root))


def test_two_threads_do_not_change_each_others_mode(device, kernel):
    def work(mode):
        for _ in range(200):
            device.transfer([SpiTransfer(bytes([mode]))], SpiSettings(mode))

    threads = [threading.Thread(target=work, args=(mode,)) for mode in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kernel.messages) == 400
    assert all(sent[0][0] == bytes([mode]) for mode, sent in kernel.messages)


def test_closing_twice_and_using_it_afterwards(device):
    device.close()
    device.close()
    with pytest.raises(BusFault, match=r"/dev/spidev0\.1"):
        device.transfer([SpiTransfer(b"\1")], SpiSettings(1))


# --- the tool ---


class Echo:
    """A part that answers with the previous byte of the same selection."""

    def __init__(self):
        self.selections = []

    def exchange(self, data, settings):
        self.selections.append((data, settings))
        return (b"\xa5" + data)[: len(data)]


class Desk:
    """The tool before a simulated board with a part on chip select 1 of bus 0, and the guard's view of each call."""

    def __init__(self, monkeypatch, faults=()):
        self.part = Echo()
        monkeypatch.setattr(parts, "make_part", lambda *_: self.part)
        self.board = SimBoard(script=Script({"echo": WiredPart("echo", 0, chip=1)}, {}, faults))
        self.effects = []
        self.tool = load_module("spi", [find_shipped("tools/hw")]).Spi(self.board)
        self.toolset = Toolset(
            [self.tool],
            guard=lambda asked, _: self.effects.append(asked.effect),
            journal=lambda call, caller: None,
            longest_result=20_000,
        )

    def __call__(self, **arguments):
        return self.toolset.call(ToolCall("1", "spi", arguments), Caller("test", "owner", NOON, print))


@pytest.fixture
def desk(monkeypatch):
    return Desk(monkeypatch)


def test_list(desk):
    assert desk(action="list") == "/dev/spidev0.1: bus 0, chip 1"
    assert desk.effects == ["read"]


def test_list_of_a_board_without_spi():
    bare = load_module("spi", [find_shipped("tools/hw")]).Spi(SimBoard(script=Script({}, {})))
    assert "do_spi 0" in bare.spi("list")


@pytest.mark.parametrize(
    ("given", "answer", "selections"),
    [
        ({"data": [0x9F, 1]}, "sent 9f 01, received a5 9f (hex, 2 bytes)", [b"\x9f\1"]),
        ({"data": "[1, 2]"}, "sent 01 02, received a5 01 (hex, 2 bytes)", [b"\1\2"]),
        ({"data": ["0x9f", 1.0]}, "sent 9f 01, received a5 9f (hex, 2 bytes)", [b"\x9f\1"]),
        (
            {"script": "write 0x9f, read 2, release; WRITE 5 0x10"},
            "sent 9f, received a5; sent 00 00, received 9f 00; sent 05 10, received a5 05 (hex, 5 bytes)",
            [b"\x9f\0\0", b"\x05\x10"],
        ),
        ({"action": "read", "length": 3}, "received a5 00 00 (hex, 3 bytes)", [b"\0\0\0"]),
        ({"action": "read"}, "received a5 (hex, 1 bytes)", [b"\0"]),
    ],
)
def test_what_is_exchanged(desk, given, answer, selections):
    assert desk(**{"action": "transfer", "chip": 1} | given) == f"spidev0.1: {answer}"
    assert [data for data, _ in desk.part.selections] == selections
    assert desk.effects == ["actuate"]


def test_settings_reach_the_part(desk):
    desk(action="read", chip="0x1", mode="3", speed_hz=1e6, lsb_first="yes")
    assert desk.part.selections == [(b"\0", SpiSettings(3, 1_000_000, True))]


@pytest.mark.parametrize(
    ("script", "segments"),
    [
        ("write 1 2", [SpiTransfer(b"\1\2")]),
        ("write 0xff, wait 10us", [SpiTransfer(b"\xff", 10)]),
        ("write 1, wait 2ms, wait 3 us, release, read 2", [SpiTransfer(b"\1", 2003, True), SpiTransfer(b"\0\0")]),
        ("\nread 1;\n\nwait 65535us;", [SpiTransfer(b"\0", 65_535)]),
    ],
)
def test_a_script_becomes_segments(desk, script, segments):
    desk(action="transfer", chip=1, script=script)
    ((sent, _),) = desk.board.spi(0, 1).log
    assert list(sent) == segments


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "transfer needs either data"),
        ({"data": []}, "transfer needs either data"),
        ({"data": [1], "script": "read 1"}, "transfer needs either data"),
        ({"script": " ,; "}, "transfer needs either data"),
        ({"data": [256]}, "argument 'data' is 256, outside 0 to 255"),
        ({"data": [-1]}, "argument 'data' is -1"),
        ({"data": [True]}, "argument 'data[0]' must be a whole number"),
        ({"data": [1.5]}, "argument 'data[0]' must be a whole number"),
        ({"data": ["9f"]}, "argument 'data[0]' must be a whole number"),
        ({"data": "9f"}, "argument 'data' must be a list"),
        ({"data": 159}, "argument 'data' must be a list"),
        ({"data": [0] * 4097}, "a message of 4097 bytes is too long"),
        ({"data": [0] * 4096, "speed_hz": 1}, "the message would take 32768 s, longer than 5 s"),
        ({"data": [1], "length": 4}, "length belongs to read"),
        ({"action": "read", "data": [1]}, "read sends zeros only"),
        ({"action": "read", "length": 0}, "argument 'length' is 0, outside 1 to 4096"),
        ({"action": "read", "length": 4097}, "argument 'length' is 4097"),
        ({"action": "read", "length": "many"}, "argument 'length' must be a whole number"),
        ({"action": "write", "data": [1]}, "argument 'action' must be one of"),
        ({"action": None}, "argument 'action' is missing"),
        ({"data": [1], "bus": -1}, "argument 'bus' is -1"),
        ({"data": [1], "chip": 2}, "there is no spidev0.2; there are: spidev0.1"),
        ({"data": [1], "mode": 4}, "argument 'mode' is 4, outside 0 to 3"),
        ({"data": [1], "mode": True}, "argument 'mode' must be a whole number"),
        ({"data": [1], "speed_hz": 0}, "argument 'speed_hz' is 0"),
        ({"data": [1], "speed_hz": 10**12}, "argument 'speed_hz' is 1000000000000"),
        ({"data": [1], "lsb_first": 1}, "argument 'lsb_first' must be true or false"),
        ({"data": [1], "steps": "x"}, "argument unknown 'steps'"),
        ({"script": ["write 1"]}, "argument 'script' must be text"),
        ({"script": "send 1"}, "step 'send 1' is none of write, read, wait and release"),
        ({"script": "write 9f"}, "step 'write 9f' needs bytes, decimal or 0x.., from 0 to 255"),
        ({"script": "write 256"}, "step 'write 256' needs bytes"),
        ({"script": "write -1"}, "step 'write -1' needs bytes"),
        ({"script": "write 010"}, "step 'write 010' needs bytes"),
        ({"script": "write ٣"}, "step 'write ٣' needs bytes"),
        ({"script": "write"}, "step 'write' needs bytes"),
        ({"script": "write 1 9f"}, "step 'write 1 9f' needs bytes"),
        ({"script": "write 1, read 0"}, "step 'read 0' needs a number"),
        ({"script": "write 1, read 2 3"}, "step 'read 2 3' needs a number"),
        ({"script": "write 1, read 99999"}, "step 'read 99999' needs a number"),
        ({"script": "wait 10us, read 1"}, "step 'wait 10us' must follow a write or a read"),
        ({"script": "release"}, "step 'release' must follow"),
        ({"script": "read 1, release, release"}, "step 'release' must follow"),
        ({"script": "read 1, release, wait 1us"}, "step 'wait 1us' must follow"),
        ({"script": "read 1, release read 1"}, "step 'release read 1' is too much"),
        ({"script": "read 1, wait 10"}, "step 'wait 10' needs up to 65535us"),
        ({"script": "read 1, wait 66ms"}, "step 'wait 66ms' needs up to 65535us"),
        ({"script": "read 1, wait 40ms, wait 40ms"}, "step 'wait 40ms' needs up to 65535us"),
        ({"script": "read 1," * 33}, "a script of 33 writes and reads is too long"),
        ({"script": "read 4096, read 1"}, "a message of 4097 bytes is too long"),
        ({"script": "read 1, wait 1us" + " " * 24_000}, "script holds 24016 characters"),
    ],
)
def test_a_wrong_argument_is_one_line_and_reaches_no_part(desk, given, said):
    answer = desk(**{"action": "transfer", "chip": 1} | given)
    assert answer.startswith(f"error: {said}")
    assert "\n" not in answer
    assert len(answer) < 300
    assert desk.part.selections == []


@pytest.mark.parametrize(
    ("given", "effect"),
    [({"action": "read"}, "actuate"), ({"action": "transfer", "data": [1]}, "actuate"), ({"action": "list"}, "read")],
)
def test_whatever_sends_a_byte_is_asked_about(monkeypatch, given, effect):
    desk = Desk(monkeypatch)
    desk(**{"chip": 1} | given)
    assert desk.effects == [effect]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("unplugged", "received ff ff ff (hex, 3 bytes); all bits are equal"),
        ("low", "received 00 00 00 (hex, 3 bytes); all bits are equal"),
        ("eio", "error: /dev/spidev0.1 has gone away"),
        ("stuck", "error: /dev/spidev0.1 timed out"),
    ],
)
def test_faults_of_the_wiring(monkeypatch, kind, said):
    assert said in Desk(monkeypatch, faults=(SimFault(kind, "spi0.1"),))(action="read", chip=1, length=3)


def test_one_byte_of_equal_bits_is_no_reason_for_doubt(monkeypatch):
    desk = Desk(monkeypatch, faults=(SimFault("low", "spi0.1"),))
    assert desk(action="read", chip=1) == "spidev0.1: received 00 (hex, 1 bytes)"


def test_the_simulation_takes_no_longer_message_than_the_kernel(desk):
    with pytest.raises(BusFault, match="takes fewer bytes"):
        desk.board.spi(0, 1).transfer([SpiTransfer(bytes(4097))], SpiSettings())


def test_a_release_at_the_end_selects_the_part_only_once(desk):
    assert desk.board.spi(0, 1).transfer([SpiTransfer(b"\1", release=True)], SpiSettings()) == [b"\xa5"]
    assert [data for data, _ in desk.part.selections] == [b"\1"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["transfer", "--script", "write 9f", "--sim"], 1, "spi: step 'write 9f' needs bytes"),
        (["read", "--chip", "7", "--sim"], 1, "spi: "),
        (["read", "--mode", "4"], 2, "'mode' is 4, outside 0 to 3"),
    ],
)
def test_the_bench_says_what_is_wrong(capsys, arguments, code, said):
    try:
        module = load_module("spi", [find_shipped("tools/hw")])
        ended = run_tool(module.Spi, "spi", module.BENCH_ACTIONS, arguments)
    except SystemExit as end:
        ended = end.code
    assert ended == code
    assert said in capsys.readouterr().err


def test_the_definition_is_small(desk):
    (definition,) = (tool.definition() for tool in collect_tools(desk.tool))
    assert len(json.dumps(definition)) <= 900

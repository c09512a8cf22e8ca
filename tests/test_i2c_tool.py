"""The `i2c` tool: what goes out on the bus, byte by byte and transaction by transaction, and what never does."""

import math

from recording import CALLER, Clock, Recorder, ask, bench, complaint, toolset
from rows import each_row

from picoclaw.errors import Denied
from picoclaw.files import find_shipped
from picoclaw.hw.board import I2CRead, I2CWrite
from picoclaw.hw.handles import crc8
from picoclaw.hw.loader import load_module
from picoclaw.hw.sim.script import SimFault
from picoclaw.messages import ToolCall

i2c_tool = load_module("i2c", [find_shipped("tools/hw")])
NAN, INF = math.nan, math.inf


def i2c(board, clock=None, /, known=(), **arguments):
    clock = clock or Clock()
    return ask(i2c_tool.I2C(board, known, clock.sleep, clock), "i2c", **arguments)


READ = {"action": "read", "address": 0x50}
WRITE = {"action": "write", "address": 0x50, "data": [1]}
RUN = {"action": "run", "address": 0x50, "script": "write 0x24 0x00, wait 15, read 6"}


# --- what goes out ---

MESSAGES = [
    (READ, [(I2CRead(1),)]),
    (READ | {"length": 256}, [(I2CRead(256),)]),
    (READ | {"register": 0}, [(I2CWrite(b"\0"), I2CRead(1))]),
    (READ | {"register": "0xff", "length": 4}, [(I2CWrite(b"\xff"), I2CRead(4))]),
    (READ | {"register": 0, "wide": True}, [(I2CWrite(b"\0\0"), I2CRead(1))]),
    (READ | {"register": 0x1234, "wide": True, "length": 2}, [(I2CWrite(b"\x12\x34"), I2CRead(2))]),
    (READ | {"register": 7, "form": "byte"}, [(I2CWrite(b"\x07"), I2CRead(1))]),
    (READ | {"register": 7, "form": "word"}, [(I2CWrite(b"\x07"), I2CRead(2))]),
    (WRITE, [(I2CWrite(b"\x01"),)]),
    (WRITE | {"data": [0] * 256}, [(I2CWrite(bytes(256)),)]),
    (WRITE | {"data": ["0x10", 2.0, "3"]}, [(I2CWrite(b"\x10\x02\x03"),)]),
    (WRITE | {"register": 0}, [(I2CWrite(b"\x00\x01"),)]),
    (WRITE | {"register": 0x20, "data": [1, 2]}, [(I2CWrite(b"\x20\x01\x02"),)]),
    (WRITE | {"register": 0x20, "wide": True}, [(I2CWrite(b"\x00\x20\x01"),)]),
    (WRITE | {"register": 0xFFFF, "wide": "yes"}, [(I2CWrite(b"\xff\xff\x01"),)]),
    (WRITE | {"register": 5, "form": "byte"}, [(I2CWrite(b"\x05\x01"),)]),
    (WRITE | {"register": 5, "form": "word", "data": [0x34, 0x12]}, [(I2CWrite(b"\x05\x34\x12"),)]),
    (WRITE | {"register": 5, "form": "block", "data": [9]}, [(I2CWrite(b"\x05\x01\x09"),)]),
    (WRITE | {"register": 5, "form": "block", "data": [9] * 32}, [(I2CWrite(b"\x05\x20" + b"\x09" * 32),)]),
    (RUN, [(I2CWrite(b"\x24\x00"),), (I2CRead(6),)]),
    (RUN | {"script": "write 1, read 2"}, [(I2CWrite(b"\x01"), I2CRead(2))]),
    (RUN | {"script": "write 1; read 2\nwrite 3"}, [(I2CWrite(b"\x01"), I2CRead(2), I2CWrite(b"\x03"))]),
    (RUN | {"script": "write 1, wait 0, read 2"}, [(I2CWrite(b"\x01"),), (I2CRead(2),)]),
    (RUN | {"script": "wait 1, wait 2, READ 0x10, wait 3"}, [(I2CRead(16),)]),
    (RUN | {"script": "wait 5"}, []),
    (RUN | {"script": "write 0 255 0xFF 0x0ff"}, [(I2CWrite(b"\x00\xff\xff\xff"),)]),
    (
        RUN | {"script": "write 1, read 1, wait 1, write 2, read 1"},
        [(I2CWrite(b"\1"), I2CRead(1)), (I2CWrite(b"\2"), I2CRead(1))],
    ),
]


@each_row(("arguments", "transfers"), MESSAGES, ids=lambda v: str(v)[:70])
def test_the_messages_on_the_bus(arguments, transfers):
    board, bus = bench({0x50: Recorder()})
    answer = i2c(board, **arguments)
    assert not answer.startswith("error"), answer
    assert bus.transfers == [(0x50, *segments) for segments in transfers]
    assert list(bus.log) == [(0x50, segment) for segments in transfers for segment in segments]


@each_row("action", ["detect", "scan"])
def test_looking_round_writes_nothing(action):
    board, bus = bench({0x50: Recorder(), 0x20: Recorder()})
    i2c(board, action=action)
    assert (bus.transfers, bus.parts[0x50].written, bus.parts[0x20].written) == ([], [], [])


# The examples of the MLX90614 datasheet (3901090614, "Read Word" and "Write Word", with their packet error codes), and
# the packet error code 0x6F for erasing a cell through address 0 in Melexis' application note 390119061402.
def test_the_published_packet_error_codes():
    assert crc8(bytes.fromhex("b4 07 b5 d2 3a"), 0x07, 0) == 0x30
    assert crc8(bytes.fromhex("b4 22 07 c8"), 0x07, 0) == 0x48
    assert crc8(bytes.fromhex("00 2e 00 00"), 0x07, 0) == 0x6F


PEC = {"address": 0x5A, "pec": True}


@each_row(
    ("arguments", "answer", "segments", "said"),
    [
        ({"action": "read", "register": 7, "form": "word"}, "d2 3a 30", (b"\x07", 3), "d2 3a (hex, 2 bytes) = 15058"),
        ({"action": "write", "register": 0x22, "form": "word", "data": [7, 0xC8]}, "", (b"\x22\x07\xc8\x48",), "48"),
        ({"action": "read", "register": 9, "form": "byte"}, "5a f7", (b"\x09", 2), "5a (hex, 1 bytes) = 90"),
        ({"action": "read", "register": 9, "form": "block"}, "02 aa bb f0", (b"\x09", 34), "aa bb (hex, 2 bytes)"),
    ],
)
def test_smbus_transfers_with_a_packet_error_code(arguments, answer, segments, said):
    sent = bytes([0x5A << 1, arguments["register"], 0x5A << 1 | 1])
    data = bytes.fromhex(answer)
    if arguments["register"] == 9:
        data = data[:-1] + bytes([crc8(sent + data[:-1], 0x07, 0)])
    board, bus = bench({0x5A: Recorder({bytes([arguments["register"]]): data})})
    assert said in i2c(board, **PEC, **arguments)
    wanted = [I2CWrite(s) if isinstance(s, bytes) else I2CRead(s) for s in segments]
    assert bus.transfers == [(0x5A, *wanted)]


@each_row("form", ["byte", "word", "block"])
@each_row("bit", range(8))
def test_a_packet_error_code_that_does_not_fit_gives_no_value(form, bit):
    data = {"byte": b"\x11", "word": b"\x11\x22", "block": b"\x03\x11\x22\x33"}[form]
    code = crc8(bytes([0x5A << 1, 7, 0x5A << 1 | 1]) + data, 0x07, 0)
    board, bus = bench({0x5A: Recorder({b"\x07": data + bytes([code ^ 1 << bit])})})
    said = complaint(i2c(board, **PEC, action="read", register=7, form=form))
    assert f"0x5a on i2c-1: the packet error code is 0x{code ^ 1 << bit:02x}, not 0x{code:02x}" in said
    bus.parts[0x5A].answers[b"\x07"] = data + bytes([code])
    assert not i2c(board, **PEC, action="read", register=7, form=form).startswith("error")


@each_row("length", [0, 33, 127, 255])
def test_a_block_of_a_length_that_smbus_does_not_know(length):
    board, _ = bench({0x50: Recorder({b"\x07": bytes([length])}, fill=0)})
    said = complaint(i2c(board, **READ, register=7, form="block"))
    assert said == f"error: 0x50 on i2c-1 gave a block length of {length}, not 1 to 32"


@each_row("length", [1, 2, 31, 32])
def test_a_block_ends_where_its_length_says(length):
    board, _ = bench({0x50: Recorder({b"\x07": bytes([length]) + bytes(range(32))})})
    assert f": {bytes(range(length)).hex(' ')} (hex, {length} bytes)" in i2c(board, **READ, register=7, form="block")


@each_row(
    ("arguments", "said"),
    [
        (READ, "0x50 on i2c-1: ff (hex, 1 bytes)"),
        (READ | {"register": 0}, "0x50 on i2c-1 from register 0x00: ff (hex, 1 bytes)"),
        (READ | {"register": 7, "wide": True}, "0x50 on i2c-1 from register 0x0007: ff (hex, 1 bytes)"),
        (READ | {"register": 7, "form": "word"}, "0x50 on i2c-1 from register 0x07: ff ff (hex, 2 bytes) = 65535"),
        (WRITE | {"register": 7}, "wrote 07 01 (hex) to 0x50 on i2c-1"),
        (RUN, "0x50 on i2c-1: read ff ff ff ff ff ff (hex, 6 bytes)"),
        (RUN | {"script": "read 1, wait 1, read 2"}, "0x50 on i2c-1: read ff (hex, 1 bytes); ff ff (hex, 2 bytes)"),
        (RUN | {"script": "write 1"}, "0x50 on i2c-1: nothing was read"),
    ],
)
def test_what_is_said(arguments, said):
    assert i2c(bench({0x50: Recorder()})[0], **arguments) == said


def test_a_word_is_given_low_byte_first():
    board, _ = bench({0x50: Recorder({b"\x07": b"\x34\x12"})})
    assert i2c(board, **READ, register=7, form="word").endswith(f"34 12 (hex, 2 bytes) = {0x1234}")


# --- what never goes out ---

HUGE = 10**40
ANYWHERE = {
    "address": [
        *(0, 1, 2, 3, 7, "0x00", "0x07", -1, "-0x50"),  # general call and what is reserved at the lower end
        *(0x78, 0x7B, 0x7C, 0x7F, "0x78", "0x7f"),  # 10-bit addressing and what is reserved at the upper end
        *(0x80, 0xA0, 0xA1, 0xFF, 0x100, 0x3FF, 0x450, "0x3FF", 65_536, HUGE, -HUGE),  # 8-bit and 10-bit addresses
        *(80.5, 1e300, -1e300, NAN, INF, -INF, True, False),
        *("", " ", "first", "0x", "x50", "50h", "0x5G", "80.0", "nan", "inf", "1e2", "0x50, 0x51", "80 81", "9" * 65),
        *("²", "½", "\0", "0x50\0", [0x50], [], {}, {"a": 80}, [[80]], None),
    ],
    "bus": [
        *(0, 2, 3, 255, 256, -1, -0.5, 0.5, 1.5, HUGE, -HUGE, NAN, INF, -INF, True, False),
        *("", "one", "i2c-1", "/dev/i2c-1", "0x1FF", "1.0", "nan", [1], [], {}, {"bus": 1}),
    ],
    "register": [
        *(-1, 256, 0x100, 65_535, 65_536, "0x100", "0x10000", HUGE, -HUGE, 0.5, 1e300, NAN, INF, -INF, True, False),
        *("", "first", "D0", "0x", "-1", "1.5", "nan", [0xD0], [], {}, [[1]]),
    ],
    "length": [*(0, -1, 257, 258, 4096, 65_536, 1e9, HUGE, -HUGE, 0.5, 1.5, NAN, INF, -INF, True, False), *("0", "257", "", "many", "6 bytes", "1.5", "nan", [6], [], {})],
    "data": [
        *(
            "",
            "1",
            "0x01",
            "1, 2",
            "[",
            "[1",
            "[1,]",
            "[256]",
            "[-1]",
            '["x"]',
            "[[1]]",
            "[1, NaN]",
            "[0x01]",
            "[true]",
        ),
        *("[" * 5000, "[1.5]", "[null]", 7, 7.5, 0, True, False, NAN, INF, {}, {"0": 1}, {"data": [1]}),
        *([256], [-1], [1, 2, 256], [1.5], [NAN], [INF], [-INF], [1e300], [HUGE], [None], [True], [False], [1, True]),
        *(["one"], [""], ["0x100"], ["-1"], ["1.5"], ["nan"], [[]], [[1]], [1, [2]], [[[1]]], [{}], [{"a": 1}]),
    ],
    "form": ["", "bit", "dword", "quick", "byte word", "bytes;", "b", 1, 2.0, True, NAN, [], ["byte"], {}],
    "pec": [0, 1, 2, 1.0, -1, "", "maybe", "1", "0", "ja", NAN, [], [True], {}],
    "wide": [0, 1, 2, 1.0, -1, "", "maybe", "1", "16", NAN, [], [True], {}],
    "script": [[], ["write 1"], {}, True, False],
    "action": ["", " ", "erase", "readwrite", "write;", "scan detect", "réad", 0, 1, 2.5, True, NAN, [], ["read"], {}, None],
}  # fmt: skip
BAD = [
    ({"read": READ, "write": WRITE, "run": RUN}[action] | {name: value})
    for action in ("read", "write", "run")
    for name, values in ANYWHERE.items()
    for value in values
]
TOGETHER = [
    *(WRITE | {"data": data} for data in ([], None, "[]", [0] * 257, [0] * 300, [0] * 100_000)),
    *(WRITE | {"data": data, "register": 5} for data in ([], None, [0] * 257, [0] * 300)),
    *(WRITE | {"data": data, "register": 5, "form": "byte"} for data in ([], [1, 2], [1] * 33, [0] * 300)),
    *(WRITE | {"data": data, "register": 5, "form": "word"} for data in ([], [1], [1, 2, 3], [0] * 300)),
    *(WRITE | {"data": data, "register": 5, "form": "block"} for data in ([], [1] * 33, [1] * 255, [0] * 300)),
    *(base | {"form": form} for base in (READ, WRITE, RUN) for form in ("byte", "word", "block")),
    *(base | {"form": "word", "wide": True, "register": 5} for base in (READ, WRITE, RUN)),
    *(base | {"pec": True, "register": 5} for base in (READ, WRITE, RUN)),
    *(base | {"pec": True} for base in (READ, WRITE, RUN)),
    *(base | {"wide": True} for base in (READ, WRITE, RUN)),
    *(READ | {"register": 300, "form": form} for form in ("byte", "word", "block", "bytes")),
    *(base | {extra: 1} for base in (READ, WRITE, RUN) for extra in ("addr", "force", "reg", "", "self", "caller", "\n")),
    {"action": "scan", "bus": 2},
    {"action": "scan", "bus": "all"},
    {"action": "scan", "address": 0},
    {"action": "detect", "bus": 256},
    {},
    {"address": 0x50},
]  # fmt: skip


def refused(arguments):
    board, bus = bench({address: Recorder() for address in range(128)})
    said = complaint(i2c(board, **arguments))
    assert len(said) < 400, arguments
    assert bus.transfers == [], arguments
    assert not any(part.written for part in bus.parts.values()), arguments
    return said


def test_a_wrong_argument_is_named_in_one_line_and_nothing_goes_out():
    for arguments in BAD:
        refused(arguments)


def test_arguments_that_do_not_go_together_are_named_and_nothing_goes_out():
    for arguments in TOGETHER:
        refused(arguments)


@each_row(
    ("arguments", "said"),
    [
        (READ | {"address": 0}, "argument 'address' is 0, outside 8 to 119; 0x08 to 0x77"),
        (READ | {"address": 0x3FF}, "argument 'address' is 1023, outside 8 to 119; 0x08 to 0x77"),
        (READ | {"address": None}, "address is missing for read; scan shows which addresses answer"),
        (READ | {"length": 257}, "argument 'length' is 257, outside 1 to 256; bytes to read, default 1"),
        (READ | {"address": NAN}, "argument 'address' must be a whole number, not NaN"),
        (WRITE | {"data": [[1]]}, "argument 'data[0]' must be a whole number, not [1]"),
        (WRITE | {"data": [0] * 300}, "data holds 300 bytes; one transfer takes at most 256"),
        (WRITE | {"data": []}, "data is missing: a list of 1 to 256 bytes, such as [0x01, 0xff]"),
        (WRITE | {"form": "word", "register": 1}, "data holds 1 bytes; an SMBus word takes 2 to 2"),
        (READ | {"bus": 2}, "there is no i2c-2; there are: i2c-1"),
        (READ | {"form": "word"}, "register is missing: SMBus forms and 16-bit registers need one"),
        (READ | {"pec": True, "register": 1}, "pec goes with form byte, word or block"),
        (READ | {"register": 256}, "register 0x100 needs wide: true, for parts with 16-bit registers"),
    ],
)
def test_a_complaint_says_what_would_fit(arguments, said):
    assert refused(arguments) == f"error: {said}"


STEPS = [
    *("", " ", ",", ";,\n", "write", "read", "wait", "write,", "erase 1", "1", "0x24", "write = 1", "write(1)"),
    *("write 256", "write -1", "write 0x100", "write 1.5", "write one", "write 0xGG", "write 1 2 x", "write 99999"),
    *("write 1e2", "write 0b1", "write 0o7", "write 1_0", "write ²", "write 1 -", "write " + "1 " * 257),
    *("read 0", "read 257", "read -1", "read 1 2", "read 1.5", "read six", "read 0x101", "read 100000", "read nan"),
    *("wait", "wait 5001", "wait -1", "wait 1.5", "wait 99999", "wait 1 2", "wait 3000, wait 2001", "wait 100000"),
    *("write 1, read 0", "read 1, write 256", "write 1, wait 5, write", "write 1,, read 2, nonsense", "read 1 write 2"),
    *(", ".join(["read 1"] * 65), ", ".join(["write 1"] * 200), "write 1, " * 100_000, "x" * 100_000, 5, 2.5, NAN),
]


def test_a_wrong_step_anywhere_means_that_no_step_is_done():
    for script in STEPS:
        refused(RUN | {"script": script})


def test_the_steps_that_were_not_understood_are_named():
    assert "step 'wrote 1' is not one of 'write BYTES'" in refused(RUN | {"script": "read 1, wrote 1"})
    assert "'0x1ff00' is not a number" in refused(RUN | {"script": "write 0x1ff00"})


def test_a_script_that_is_too_long_is_not_cut():
    step = "write " + " ".join(["0x12"] * 256)
    board, bus = bench({0x50: Recorder()})
    assert not i2c(board, **RUN | {"script": "; ".join([step] * 15)}).startswith("error")
    assert bus.parts[0x50].written == [b"\x12" * 256] * 15
    assert "script holds" in refused(RUN | {"script": "; ".join([step] * 17)})


# --- time ---


def test_the_waits_between_the_steps_are_kept():
    clock = Clock()
    board, _ = bench({0x50: Recorder()})
    i2c(board, clock, **RUN | {"script": "wait 5, write 1, wait 15, read 6, wait 100"})
    assert [pause for pause in clock.slept if pause] == [0.005, 0.015, 0.1]


def test_steps_on_a_slow_bus_are_ended():
    board, bus = bench({0x50: Recorder()})
    script = ", wait 0, ".join(["read 1"] * 30)
    said = complaint(i2c(board, Clock(step=1.0), **RUN | {"script": script}))
    assert "the transfers took longer than 5 s" in said
    assert len(bus.transfers) < 30


# --- faults of the bus ---


@each_row("arguments", [READ, READ | {"register": 1, "form": "word"}, WRITE, RUN])
@each_row(
    ("kind", "said"),
    [
        ("nack", "0x50 on /dev/i2c-1 does not answer: check power"),
        ("unplugged", "0x50 on /dev/i2c-1 does not answer: check power"),
        ("stuck", "0x50 on /dev/i2c-1 timed out: SDA or SCL may be held low"),
        ("eio", "0x50 on /dev/i2c-1 reported an I/O error: check the wiring"),
    ],
)
def test_a_fault_of_the_wiring_is_said_in_one_line(arguments, kind, said):
    board, bus = bench({0x50: Recorder()})
    board.wiring.faults = [SimFault(kind, "i2c-1")]
    assert complaint(i2c(board, **arguments)).startswith(f"error: {said}")
    assert bus.parts[0x50].written == []


def test_an_address_that_a_kernel_driver_holds_is_left_alone():
    board, bus = bench({0x50: Recorder()})
    bus.held[0x50] = "at24"
    for arguments in (READ, WRITE, RUN):
        assert "is in use by a kernel driver" in complaint(i2c(board, **arguments))
    assert i2c(board, action="scan") == "i2c-1: 0x50 in use by kernel driver at24"
    assert not bus.log


def test_a_part_that_refuses_a_byte_ends_the_steps():
    board, bus = bench({0x50: Recorder(nack=[b"\x02"])})
    assert "does not answer" in complaint(i2c(board, **RUN | {"script": "write 1, wait 1, write 2, wait 1, write 3"}))
    assert bus.parts[0x50].written == [b"\x01", b"\x02"]


@each_row("held", ["", "bme280"])
def test_scanning_shows_what_answers_and_what_is_held(held):
    board, bus = bench({0x08: Recorder(), 0x77: Recorder(), 0x07: Recorder(), 0x78: Recorder()})
    bus.held[0x40] = held
    driver = held or "(unnamed)"
    assert i2c(board, action="scan") == f"i2c-1: 0x08 answers; 0x40 in use by kernel driver {driver}; 0x77 answers"


# --- buses that belong to the board ---

OWN = {2: "an HDMI port"}


@each_row("arguments", [WRITE, WRITE | {"register": 1}, RUN, RUN | {"script": "read 1, wait 1, write 1"}])
def test_a_bus_of_the_boards_own_parts_is_not_written_to(arguments):
    board, _ = bench({0x50: Recorder()}, uses=OWN)
    said = complaint(i2c(board, bus=2, **arguments))
    assert said == "error: i2c-2 is not written to: it belongs to an HDMI port; wire parts to the pin header's bus"
    assert board.i2c(2).transfers == []


@each_row("arguments", [READ, READ | {"register": 0}, RUN | {"script": "read 1"}])
def test_a_bus_of_the_boards_own_parts_is_read(arguments):
    board, _ = bench({0x50: Recorder()}, uses=OWN)
    assert not i2c(board, bus=2, **arguments).startswith("error")


def test_the_list_of_buses_says_whose_they_are():
    board, _ = bench({}, uses=OWN)
    assert i2c(board, action="detect").splitlines() == [
        "i2c-1: simulated adapter (the pin header)",
        "i2c-2: simulated adapter (an HDMI port)",
    ]


# --- who may do what ---


@each_row(
    ("arguments", "known", "effect"),
    [
        ({"action": "detect"}, (), "read"),
        ({"action": "scan"}, (), "read"),
        (READ, (), "read"),
        (READ | {"register": 0}, (), "actuate"),
        (READ | {"register": 0}, {(1, 0x50)}, "read"),
        (READ | {"register": 0, "bus": "1", "address": "0x50"}, {(1, 0x50)}, "read"),
        (READ | {"register": 0}, {(2, 0x50), (1, 0x51)}, "actuate"),
        (READ | {"register": 0, "form": "word"}, (), "actuate"),
        (WRITE, {(1, 0x50)}, "actuate"),
        (RUN, {(1, 0x50)}, "actuate"),
    ],
)
def test_what_may_move_something_is_guarded_and_written_down_before_it_is_done(arguments, known, effect):
    board, bus = bench({0x50: Recorder()})
    seen = []
    tools = toolset(
        i2c_tool.I2C(board, known, Clock().sleep, Clock()),
        guard=lambda asked, _: seen.append((asked.effect, len(bus.log))),
        journal=lambda call, _: seen.append((call.arguments["action"], len(bus.log))),
    )
    assert not tools.call(ToolCall("1", "i2c", arguments), CALLER).startswith("error")
    assert seen == [(effect, 0)] + [(arguments["action"], 0)] * (effect != "read")


@each_row("arguments", [WRITE, RUN, READ | {"register": 0}])
def test_what_a_person_denies_is_not_done(arguments):
    def deny(asked, _):
        raise Denied(f"{asked.effect} was denied")

    board, bus = bench({0x50: Recorder()})
    tools = toolset(i2c_tool.I2C(board), guard=deny)
    assert tools.call(ToolCall("1", "i2c", arguments), CALLER) == "error: actuate was denied"
    assert bus.transfers == []


def test_the_fault_of_one_address_is_none_of_another():
    board, bus = bench({0x50: Recorder(), 0x51: Recorder()})
    board.wiring.faults = [SimFault("nack", "i2c-1/0x50")]
    assert "0x50 on /dev/i2c-1 does not answer" in complaint(i2c(board, **READ))
    assert i2c(board, **READ | {"address": 0x51}) == "0x51 on i2c-1: ff (hex, 1 bytes)"
    assert bus.parts[0x50].written == []


# --- defects that are known ---


@each_row("script", ["write 01", "write 0x24 007", "read 06", "wait 015, read 1", "wait 00015"])
def test_a_decimal_number_may_begin_with_zeros(script):
    board, _ = bench({0x50: Recorder()})
    assert "unexpectedly" not in i2c(board, **RUN | {"script": script})


def test_the_longest_wait_leaves_time_for_what_is_read_after_it():
    board, _ = bench({0x50: Recorder()})
    assert i2c(board, Clock(step=0.001), **RUN | {"script": "write 1, wait 5000, read 2"}).endswith("(hex, 2 bytes)")


def test_a_transaction_is_no_longer_than_the_kernel_takes():
    """I2C_RDWR takes at most 42 messages (I2C_RDWR_IOCTL_MAX_MSGS of linux/i2c-dev.h)."""
    board, bus = bench({0x50: Recorder()})
    complaint(i2c(board, **RUN | {"script": ", ".join(["write 1"] * 43)}))
    assert bus.parts[0x50].written == []


def test_a_missing_script_is_called_by_the_arguments_name():
    assert refused({"action": "run", "address": 0x50}).startswith("error: script is missing")


def test_16_bits_are_not_written_to_the_boards_own_parts_to_name_a_register():
    board, _ = bench({0x50: Recorder()}, uses={2: "the mainboard"})
    complaint(i2c(board, **READ | {"register": 0x10, "wide": True, "bus": 2}))
    assert board.i2c(2).transfers == []

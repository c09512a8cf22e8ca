"""`sim.toml`, good and bad; the faults of the wiring on each kind of bus; and how a bus that hangs is left alone."""

import errno

import pytest
from recording import Clock, RecordedI2C, Recorder
from rows import each_row

from picoclaw.errors import BusFault, ConfigError, DeviceMissing
from picoclaw.files import find_shipped
from picoclaw.hw import loader
from picoclaw.hw.board import Backoff, I2CRead, I2CWrite, SerialSettings, SpiNode, SpiSettings, SpiTransfer
from picoclaw.hw.loader import Drivers
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import SimBoard, SimI2C, SimSerial, SimSpi, script
from picoclaw.hw.sim.script import GREENHOUSE, Scene, SimFault, SimFaults

HW = [find_shipped("tools/hw")]


@pytest.fixture
def read(tmp_path):
    """Load a script from its text."""

    def load(text):
        (tmp_path / "sim.toml").write_text(text)
        return script.load_script(tmp_path / "sim.toml", HW)

    return load


# --- good scripts ---

BME = "[parts.porch]\npart = 'bme280'\n"


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_without_a_script_there_is_a_greenhouse(read, text):
    assert read(text) is script.DEFAULT_SCRIPT


def test_without_a_file_there_is_a_greenhouse(tmp_path):
    assert script.load_script(tmp_path / "sim.toml", HW) is script.DEFAULT_SCRIPT


@pytest.mark.parametrize(
    ("text", "wired"),
    [
        ("[parts]\n", {}),
        ("ports = []\n", {}),
        (BME, {"porch": WiredPart("bme280", 1, 0x76)}),
        (BME + "address = 0x77\n", {"porch": WiredPart("bme280", 1, 0x77)}),
        (BME + "bus = 3\naddress = '0x77'\n", {"porch": WiredPart("bme280", 3, 0x77)}),
        (BME + "[parts.attic]\npart = 'bme280'\naddress = 0x77\n", {
            "porch": WiredPart("bme280", 1, 0x76), "attic": WiredPart("bme280", 1, 0x77)
        }),
        ("[parts.'a b']\npart = 'bme280'\n", {"a b": WiredPart("bme280", 1, 0x76)}),
    ],
)  # fmt: skip
def test_the_parts_of_a_script(read, text, wired):
    found = read(text)
    assert found.wired == wired
    assert found.values.keys() == wired.keys()
    assert (found.faults, found.lines, found.empty) == ((), script.DEFAULT_LINES, ())


@pytest.mark.parametrize(
    ("values", "at", "expected"),
    [
        ("temperature = 21", 0, 21.0),
        ("temperature = -4.5", 1e9, -4.5),
        ("temperature = { mean = 20 }", 5, 20.0),
        ("temperature = { mean = 20, swing = 4, period_s = 100 }", 25, 24.0),
        ("temperature = { mean = 20, swing = 4, period_s = 100 }", 75, 16.0),
        ("temperature = { mean = 20, swing = -4, period_s = 100 }", 125, 16.0),
        ("temperature = { mean = 20, swing = 4 }", 86_400 / 4, 24.0),
        ("'temperature a0' = 7", 0, 0.0),
    ],
)
def test_a_value_is_a_number_or_swings(read, values, at, expected):
    scene = Scene(lambda: at, read(f"{BME}values = {{ {values} }}\n").values["porch"])
    assert scene.get("temperature") == pytest.approx(expected)


def test_noise_stays_within_its_bounds_and_is_the_same_each_time(read):
    value = read(f"{BME}values = {{ temperature = {{ mean = 20, noise = 0.5 }} }}\n").values["porch"]["temperature"]
    seen = [value(n * 7.3) for n in range(500)]
    assert all(19.5 <= v <= 20.5 for v in seen)
    assert len({round(v, 6) for v in seen}) > 400
    assert seen == [value(n * 7.3) for n in range(500)]


@each_row(("asked", "value"), [("voltage a0", 1.0), ("voltage a1", 5.0), ("voltage", 5.0), ("co2", 9.0)])
def test_a_channel_without_a_value_has_that_of_its_quantity(asked, value):
    assert Scene(lambda: 0.0, {"voltage a0": 1.0, "voltage": 5.0}).get(asked, 9.0) == value


@each_row("quantity", GREENHOUSE)
def test_the_greenhouse_is_believable_at_any_time(quantity):
    limits = {"temperature": (15, 30), "humidity": (40, 80), "pressure": (1000, 1025), "light": (0, 30_000)}
    low, high = limits.get(quantity, (400, 900))
    assert all(low <= GREENHOUSE[quantity](n * 977.0) <= high for n in range(5000))


def test_faults_lines_and_ports_of_a_script(read):
    found = read(
        BME
        + """
        [[faults]]
        kind = "nack"
        on = "porch"
        after_s = 60
        for_s = 10.5
        every = 3
        [[faults]]
        kind = "bits"
        on = "i2c-1"
        [[lines]]
        offset = 17
        name = "PUMP"
        pull = 1
        consumer = "relay"
        """
    )
    assert found.faults == (SimFault("nack", "i2c-1/0x76", 60, 10.5, 3), SimFault("bits", "i2c-1", 0, 1e9, 1))
    assert found.lines == (script.SimLine(17, "PUMP", 1, "relay"),)
    assert read("ports = ['/dev/ttyUSB0']\n").empty == ("/dev/ttyUSB0",)
    assert read("ports = '/dev/ttyUSB0'\n").empty == ("/dev/ttyUSB0",)


def test_a_script_becomes_a_board(read):
    clock = Clock(1e9, step=0.01)
    text = BME + "values = { temperature = 3.25, humidity = 40, pressure = 990 }\n"
    board = SimBoard(clock, read("ports = ['/dev/ttyUSB0']\n" + text), sleep=clock.sleep)
    drivers = Drivers(board, lambda name: loader.load_driver(name, HW), clock, clock.sleep)
    readings = drivers.measure("porch", board.wired()["porch"])
    assert [(r.quantity, r.value) for r in readings] == [
        ("temperature", pytest.approx(3.25, abs=0.05)),
        ("humidity", pytest.approx(40, abs=0.2)),
        ("pressure", pytest.approx(990, abs=0.2)),
    ]
    assert [p.path for p in board.ports()] == ["/dev/ttyUSB0"]
    port = board.serial("/dev/ttyUSB0", SerialSettings())
    port.write(b"anybody?")
    assert port.read(10, 0.2) == b""


# --- bad scripts ---

FAULT = "[[faults]]\nkind = 'nack'\non = 'i2c-1'\n"
LINE = "[[lines]]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parts", "is not valid TOML"),
        ("parts = 5", "'parts' must be a table"),
        ("parts = []", "'parts' must be a table"),
        ("[part.porch]\npart = 'bme280'", "unknown 'part'; did you mean 'parts'?"),
        ("[nonsense]", "unknown 'nonsense'"),
        ("[parts]\nporch = 'bme280'", "[parts.porch] must be a table"),
        ("[parts]\nporch = 5", "[parts.porch] must be a table"),
        ("[parts.porch]", "[parts.porch]: 'part' is missing"),
        ("[parts.porch]\npart = ''", "no part '' can be simulated"),
        ("[parts.porch]\npart = 'bme281'", "no part 'bme281' can be simulated; did you mean 'bme280'?"),
        ("[parts.porch]\npart = '../x'", "can be simulated"),
        ("[parts.porch]\npart = true", "'part' must be text"),
        (BME + "bus = -1", "[parts.porch]: 'bus' is -1, outside 0 to 255"),
        (BME + "bus = 256", "'bus' is 256"),
        (BME + "bus = 'one'", "'bus' must be a whole number"),
        (BME + "address = 0", "'address' is 0, outside 8 to 119"),
        (BME + "address = 7", "'address' is 7"),
        (BME + "address = 0x78", "'address' is 120"),
        (BME + "address = 0x3ff", "'address' is 1023"),
        (BME + "address = true", "'address' must be a whole number"),
        (BME + "address = 118.5", "'address' must be a whole number"),
        (BME + "adress = 118", "unknown 'adress'; did you mean 'address'?"),
        (BME + "chip = 256", "'chip' is 256"),
        (BME + "options = 5", "'options' must be a table"),
        (BME + "options = { gain = 1 }", "[parts.porch]: bme280 has no option 'gain'; known: none"),
        (BME + "values = 5", "values must be a table of quantities"),
        (BME + "values = [1]", "values must be a table of quantities"),
        (BME + "values = { warmth = 5 }", "'warmth' is not a quantity"),
        (BME + "values = { temprature = 5 }", "'temprature' is not a quantity; did you mean 'temperature'?"),
        (BME + "values = { temperature = 'warm' }", "temperature must be a number, or a table"),
        (BME + "values = { temperature = true }", "temperature must be a number"),
        (BME + "values = { temperature = [1, 2] }", "temperature must be a number"),
        (BME + "values = { temperature = 2020-01-01 }", "temperature must be a number"),
        (BME + "values = { temperature = {} }", "temperature: 'mean' is missing"),
        (BME + "values = { temperature = { swing = 4 } }", "'mean' is missing"),
        (BME + "values = { temperature = { mean = nan } }", "'mean' must be a number"),
        (BME + "values = { temperature = { mean = 1, period_s = 0 } }", "'period_s' is 0"),
        (BME + "values = { temperature = { mean = 1, period_s = -5 } }", "'period_s' is -5"),
        (BME + "values = { temperature = { mean = 1, period = 5 } }", "unknown 'period'; did you mean 'period_s'?"),
        ("faults = 5", "'faults' must be a list"),
        ("faults = {}", "'faults' must be a list"),
        ("faults = [5]", "'faults[0]' must be a table"),
        ("[[faults]]\non = 'i2c-1'", "[[faults]] number 1: 'kind' is missing"),
        ("[[faults]]\nkind = 'nack'", "[[faults]] number 1: 'on' is missing"),
        ("[[faults]]\nkind = 'broken'\non = 'i2c-1'", "'kind' must be one of 'unplugged', 'nack', 'stuck'"),
        (FAULT + "after_s = -1", "'after_s' is -1"),
        (FAULT + "for_s = -0.1", "'for_s' is -0.1"),
        (FAULT + "for_s = 'ever'", "'for_s' must be a number"),
        (FAULT + "every = 0", "'every' is 0"),
        (FAULT + "every = 1.5", "'every' must be a whole number"),
        (FAULT + "often = 1", "unknown 'often'"),
        (FAULT + FAULT + "every = 0", "[[faults]] number 2"),
        ("lines = 5", "'lines' must be a list"),
        (LINE, "[[lines]] number 1: 'offset' is missing"),
        (LINE + "offset = -1", "'offset' is -1"),
        (LINE + "offset = 1024", "'offset' is 1024"),
        (LINE + "offset = 1\npull = 2", "'pull' is 2"),
        (LINE + "offset = 1\npull = 'up'", "'pull' must be a whole number"),
        ("ports = 5", "'ports' must be a list"),
        ("ports = 'ttyS0'", "ports: 'ttyS0' is not a serial port"),
        ("ports = [5.5, true]", "'ports[1]' must be text"),
    ],
)
def test_what_is_wrong_in_a_script_is_named_with_its_place(read, tmp_path, text, said):
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/sim.toml")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(tmp_path)) + 300


# --- when a fault strikes ---


@each_row(
    ("fault", "struck"),
    [
        (SimFault("nack", "x"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (SimFault("nack", "x", after_s=3), [3, 4, 5, 6, 7, 8, 9]),
        (SimFault("nack", "x", for_s=3), [0, 1, 2]),
        (SimFault("nack", "x", 2, 4), [2, 3, 4, 5]),
        (SimFault("nack", "x", every=3), [2, 5, 8]),
        (SimFault("nack", "x", 4, 4, 2), [5, 7]),
        (SimFault("nack", "x", for_s=0), []),
        (SimFault("nack", "y"), []),
        (SimFault("nack", "z"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_when_a_fault_strikes(fault, struck):
    clock = Clock(1e9)
    wiring = SimFaults(clock)
    wiring.faults = [fault]
    seen = []
    for second in range(10):
        clock.now = 1e9 + second
        if wiring.fault("x", "z"):
            seen.append(second)
    assert seen == struck


def test_a_flipped_bit_is_one_bit_and_not_always_the_same():
    wiring = SimFaults(Clock())
    data = bytes.fromhex("00 ff 55")
    seen = {wiring.spoiled("bits", data) for _ in range(200)}
    assert len(seen) > 15
    assert all(sum((a ^ b).bit_count() for a, b in zip(data, spoiled, strict=True)) == 1 for spoiled in seen)
    assert wiring.spoiled("bits", b"") == b""


# --- faults on each bus ---

SENT, ANSWER = b"\x10", b"\x5a\xa5"


def wiring(kind, on):
    found = SimFaults(Clock())
    found.faults = [SimFault(kind, on)]
    return found


@each_row("on", ["i2c-1", "i2c-1/0x50"])
@each_row(
    ("kind", "expected", "number"),
    [
        ("nack", DeviceMissing, errno.EREMOTEIO),
        ("unplugged", DeviceMissing, errno.EREMOTEIO),
        ("stuck", BusFault, errno.ETIMEDOUT),
        ("eio", BusFault, errno.EIO),
        ("low", b"\x00\x00", 0),
        ("high", b"\xff\xff", 0),
    ],
)
def test_faults_on_i2c(on, kind, expected, number):
    part = Recorder({SENT: ANSWER})
    bus = SimI2C(1, {0x50: part, 0x51: Recorder({SENT: ANSWER})}, wiring(kind, on))
    if isinstance(expected, bytes):
        assert bus.transfer(0x50, [I2CWrite(SENT), I2CRead(2)]) == [expected]
        assert part.written == [SENT]
    else:
        with pytest.raises(expected, match=r"^0x50 on /dev/i2c-1 ") as caught:
            bus.transfer(0x50, [I2CWrite(SENT), I2CRead(2)])
        assert caught.value.__cause__.errno == number
        assert part.written == []
    if "/" in on:
        assert bus.transfer(0x51, [I2CWrite(SENT), I2CRead(2)]) == [ANSWER]


def test_flipped_bits_on_i2c_spoil_answers_only():
    part = Recorder({SENT: ANSWER})
    bus = SimI2C(1, {0x50: part}, wiring("bits", "i2c-1"))
    (answer,) = bus.transfer(0x50, [I2CWrite(SENT), I2CRead(2)])
    assert answer != ANSWER
    assert part.written == [SENT]


@each_row(("kind", "found"), [("", "present"), ("nack", "absent"), ("unplugged", "absent"), ("bits", "present")])
def test_what_a_scan_sees_under_a_fault(kind, found):
    assert SimI2C(1, {0x50: Recorder()}, wiring(kind, "i2c-1/0x50")).probe(0x50) == found


def test_a_scan_of_a_stuck_bus_says_so():
    with pytest.raises(BusFault, match="timed out: SDA or SCL may be held low"):
        SimI2C(1, {0x50: Recorder()}, wiring("stuck", "i2c-1")).probe(0x20)


class Echo:
    """A part on SPI that answers with a pattern; a peer on a serial line that has said something."""

    def __init__(self):
        self.heard = []
        self.said = ANSWER

    def exchange(self, data, settings):
        self.heard.append(data)
        return (ANSWER * len(data))[: len(data)]

    def receive(self, data):
        self.heard.append(data)

    def pending(self):
        said, self.said = self.said, b""
        return said


@each_row(
    ("kind", "expected", "heard"),
    [
        ("", ANSWER, [b"\x01\x02"]),
        ("nack", b"\xff\xff", []),
        ("unplugged", b"\xff\xff", []),
        ("stuck", BusFault, []),
        ("eio", DeviceMissing, []),
        ("low", b"\x00\x00", [b"\x01\x02"]),
        ("high", b"\xff\xff", [b"\x01\x02"]),
    ],
)
def test_faults_on_spi(kind, expected, heard):
    part = Echo()
    device = SimSpi(SpiNode(0, 0, "/dev/spidev0.0"), part, wiring(kind, "spi0.0"))
    if isinstance(expected, bytes):
        assert device.transfer([SpiTransfer(b"\x01\x02")], SpiSettings()) == [expected]
    else:
        with pytest.raises(expected, match=r"^/dev/spidev0\.0 "):
            device.transfer([SpiTransfer(b"\x01\x02")], SpiSettings())
    assert part.heard == heard


def test_flipped_bits_on_spi():
    device = SimSpi(SpiNode(0, 0, "/dev/spidev0.0"), Echo(), wiring("bits", "spi0.0"))
    (answer,) = device.transfer([SpiTransfer(b"\x01\x02")], SpiSettings())
    assert sum((a ^ b).bit_count() for a, b in zip(answer, ANSWER, strict=True)) == 1


def test_a_fault_of_one_chip_select_is_none_of_another():
    device = SimSpi(SpiNode(0, 1, "/dev/spidev0.1"), Echo(), wiring("eio", "spi0.0"))
    assert device.transfer([SpiTransfer(b"\x01\x02")], SpiSettings()) == [ANSWER]


@each_row(("sizes", "fits"), [([4096], True), ([4000, 96], True), ([4097], False), ([4000, 97], False)])
def test_an_spi_message_is_no_longer_than_the_kernels_buffer(sizes, fits):
    part = Echo()
    device = SimSpi(SpiNode(0, 0, "/dev/spidev0.0"), part)
    segments = [SpiTransfer(bytes(size)) for size in sizes]
    if fits:
        assert [len(answer) for answer in device.transfer(segments, SpiSettings())] == sizes
    else:
        with pytest.raises(BusFault, match="takes fewer bytes in one message"):
            device.transfer(segments, SpiSettings())
    assert bool(part.heard) == fits


def test_a_chip_select_is_held_until_it_is_released():
    part = Echo()
    device = SimSpi(SpiNode(0, 0, "/dev/spidev0.0"), part)
    segments = [SpiTransfer(b"\x01"), SpiTransfer(b"\x02\x03", release=True), SpiTransfer(b"\x04")]
    assert device.transfer(segments, SpiSettings()) == [b"\x5a", b"\xa5\x5a", b"\x5a"]
    assert part.heard == [b"\x01\x02\x03", b"\x04"]


@each_row("kind", ["low", "high", "bits"])
def test_spoiled_bytes_on_a_serial_line(kind):
    clock = Clock()
    port = SimSerial("/dev/ttyS0", Echo(), clock.sleep, wiring(kind, "/dev/ttyS0"))
    answer = port.read(2, 0.1)
    assert len(answer) == 2
    assert answer != ANSWER
    assert kind == "bits" or answer == {"low": b"\0\0", "high": b"\xff\xff"}[kind]


@each_row("move", [lambda p: p.write(b"x"), lambda p: p.read(1, 0.1), lambda p: p.flush()])
def test_a_serial_adapter_that_was_unplugged(move):
    peer = Echo()
    with pytest.raises(DeviceMissing, match=r"^/dev/ttyUSB0 has gone away"):
        move(SimSerial("/dev/ttyUSB0", peer, Clock().sleep, wiring("unplugged", "/dev/ttyUSB0")))
    assert peer.heard == []


def test_a_port_without_a_part_waits_as_long_as_it_was_told():
    clock = Clock()
    assert SimSerial("/dev/ttyS0", None, clock.sleep, SimFaults(clock)).read(4, 0.25) == b""
    assert clock.now == pytest.approx(0.25)


def test_a_fault_goes_by_and_the_part_is_read_again():
    clock = Clock(1e9, step=0.01)
    text = SimFault("unplugged", "i2c-1/0x76", after_s=60, for_s=60)
    board = SimBoard(clock, script.DEFAULT_SCRIPT._replace(faults=(text,)), sleep=clock.sleep)
    drivers = Drivers(board, lambda name: loader.load_driver(name, HW), clock, clock.sleep)
    seen = []
    for minute in range(4):
        clock.now = 1e9 + 30 + 60 * minute
        seen.append(drivers.measure("greenhouse", board.wired()["greenhouse"])[0].value is not None)
    assert seen == [True, False, True, True]


# --- a bus that hangs ---


class Hanging:
    """A bus under a Backoff, with a clock turned by hand."""

    def __init__(self):
        self.clock = Clock()
        self.backoff = Backoff("/dev/i2c-1", self.clock)
        self.tries = 0

    def transfer(self, number=errno.ETIMEDOUT, kind=BusFault):
        """Try once; returns what was said, or nothing when it went well."""
        try:
            with self.backoff.watched():
                self.tries += 1
                if number:
                    raise kind("failed") from OSError(number, "")
        except BusFault as error:
            return str(error)
        return ""


def test_a_bus_that_hung_three_times_in_a_row_is_left_alone():
    bus = Hanging()
    assert [bus.transfer() for _ in range(3)] == ["failed"] * 3
    assert bus.transfer(0) == (
        "/dev/i2c-1 hung 3 times in a row and is left alone for 1 s: SDA or SCL is probably held low;"
        " unplug the parts one by one, or power-cycle the board"
    )
    assert bus.tries == 3


def test_the_pauses_double_up_to_a_minute():
    bus = Hanging()
    for _ in range(3):
        bus.transfer()
    for pause in (1, 2, 4, 8, 16, 32, 60, 60, 60):
        before = bus.tries
        bus.clock.now += pause - 0.001
        assert "is left alone for" in bus.transfer()
        assert bus.tries == before
        bus.clock.now += 0.001
        assert bus.transfer() == "failed"
        assert bus.tries == before + 1


def test_a_transfer_that_goes_well_ends_it():
    bus = Hanging()
    for _ in range(4):
        bus.transfer()
        bus.clock.now += 10
    assert bus.transfer(0) == ""
    assert [bus.transfer() for _ in range(2)] == ["failed"] * 2
    assert bus.transfer(0) == ""
    assert bus.tries == 8


@each_row("number", [errno.EIO, errno.EBUSY, errno.EAGAIN, errno.EINVAL])
def test_other_faults_are_not_counted(number):
    bus = Hanging()
    assert [bus.transfer(number) for _ in range(50)] == ["failed"] * 50
    assert bus.tries == 50


def test_a_part_that_does_not_answer_is_not_counted():
    bus = Hanging()
    for _ in range(50):
        with pytest.raises(DeviceMissing):
            bus.transfer(errno.EREMOTEIO, DeviceMissing)
    assert bus.tries == 50


def test_a_simulated_bus_that_hangs_is_left_alone_as_a_whole():
    wires = wiring("stuck", "i2c-1/0x50")
    bus = RecordedI2C(1, {0x50: Recorder(), 0x51: Recorder()}, wires)
    for _ in range(3):
        with pytest.raises(BusFault, match="timed out"):
            bus.transfer(0x50, [I2CRead(1)])
    with pytest.raises(BusFault, match="is left alone"):
        bus.transfer(0x51, [I2CRead(1)])
    assert not bus.log


# --- defects that are known ---


def test_a_bus_may_hang_for_a_day():
    bus = Hanging()
    for _ in range(1500):
        assert bus.transfer() == "failed"
        bus.clock.now += 60


def test_a_bus_on_which_a_part_refuses_does_not_hang():
    bus = Hanging()
    for _ in range(5):
        bus.transfer()
        with pytest.raises(DeviceMissing):
            bus.transfer(errno.EREMOTEIO, DeviceMissing)


def test_a_simulated_bus_is_left_alone_by_the_boards_clock():
    clock = Clock(1e9)
    board = SimBoard(
        clock, script.DEFAULT_SCRIPT._replace(faults=(SimFault("stuck", "i2c-1", for_s=10),)), sleep=clock.sleep
    )
    for _ in range(3):
        with pytest.raises(BusFault):
            board.i2c(1).transfer(0x76, [I2CRead(1)])
    clock.now += 100
    assert len(board.i2c(1).transfer(0x76, [I2CRead(1)])[0]) == 1


@pytest.mark.parametrize("on", ["", "prch", "i2c1", "i2c-1/118", "spi0"])
def test_a_fault_on_nothing_is_said(read, on):
    with pytest.raises(ConfigError, match="faults"):
        read(f"{BME}[[faults]]\nkind = 'nack'\non = '{on}'\n")


def test_the_place_of_a_fault_may_be_written_in_capitals(read):
    (fault,) = read("[[faults]]\nkind = 'nack'\non = 'i2c-1/0x4A'\n").faults
    assert fault.on == "i2c-1/0x4a"


def test_two_parts_are_not_in_one_place(read):
    with pytest.raises(ConfigError, match="attic"):
        read(BME + "[parts.attic]\npart = 'bme280'\n")


def test_two_lines_do_not_have_one_number(read):
    with pytest.raises(ConfigError, match="offset"):
        read("[[lines]]\noffset = 3\n[[lines]]\noffset = 3\n")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1" + "0" * 400])
def test_a_value_is_finite(read, value):
    with pytest.raises(ConfigError, match="temperature"):
        read(f"{BME}values = {{ temperature = {value} }}\n")


@each_row("kind", ["nack", "stuck", "eio"])
def test_every_kind_of_fault_does_something_on_a_serial_line(kind):
    port = SimSerial("/dev/ttyS0", Echo(), Clock().sleep, wiring(kind, "/dev/ttyS0"))
    try:
        assert port.read(2, 0.1) != ANSWER
    except (BusFault, DeviceMissing):
        return


def test_a_scan_says_that_there_are_io_errors():
    with pytest.raises(BusFault, match="I/O error"):
        SimI2C(1, {0x50: Recorder()}, wiring("eio", "i2c-1")).probe(0x50)

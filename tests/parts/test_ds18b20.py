"""DS18B20: table 1 of its datasheet, its relatives, what must not be believed, and the model with its I2C bridge."""

import sys
from pathlib import Path

import pytest
from part_bench import Clock, driver
from wire_bench import Files, onewire

from picoclaw.hw.handles import I2CPart, OneWirePart, crc8_onewire
from picoclaw.hw.sim import SimI2C
from picoclaw.hw.sim.parts.temperature import SimDS18B20
from picoclaw.hw.sim.script import Scene

sys.path.append(str(Path(__file__).resolve().parents[1] / "lab/guest"))
from onewire_parts import SimDS2482, WireDS18B20
from rows import each_row

ds18b20 = driver("ds18b20")
NAME = "28-00000a1b2c3d"


def with_crc(data):
    return data + bytes([crc8_onewire(data)])


def scratchpad(raw, configuration=0x7F, six=0x10):
    return with_crc((raw & 0xFFFF).to_bytes(2, "little") + bytes([0x4B, 0x46, configuration, 0xFF, six, 0x10]))


def w1_slave(data, verdict="YES"):
    return f"{data.hex(' ')} : crc={data[8]:02x} {verdict}\n{data.hex(' ')} t=0"


# DS18B20 datasheet 19-7487, table 1. Its +85 °C is measured here: byte 6 is not the power-on value.
@each_row(
    ("raw", "celsius"),
    [
        *((0x07D0, 125), (0x0550, 85), (0x0191, 25.0625), (0x00A2, 10.125), (0x0008, 0.5)),
        *((0x0000, 0), (0xFFF8, -0.5), (0xFF5E, -10.125), (0xFE6F, -25.0625), (0xFC90, -55)),
    ],
)
def test_table_1(raw, celsius):
    assert ds18b20.decode(scratchpad(raw)) == celsius
    assert ds18b20.read(onewire(NAME, w1_slave(scratchpad(raw)))) == {"temperature": celsius}


@each_row(("configuration", "celsius"), [(0x7F, 25.4375), (0x5F, 25.375), (0x3F, 25.25), (0x1F, 25.0)])
@each_row("sign", [1, -1])
def test_bits_below_the_resolution_count_as_zero(configuration, celsius, sign):
    raw = 0x0197 if sign > 0 else -round(celsius * 16)
    assert ds18b20.decode(scratchpad(raw, configuration)) == sign * celsius


# DS18S20 datasheet 19-5474, table 1, with the counts that add nothing, and its formula for more than 9 bits.
@each_row(
    ("raw", "remain", "celsius"),
    [
        *((0x00AA, 0x0B, 85.0625), (0x0032, 0x0C, 25), (0x0001, 0x04, 0.5), (0x0000, 0x0C, 0), (0xFFFF, 0x04, -0.5)),
        *((0xFFCE, 0x0C, -25), (0xFF92, 0x0C, -55), (0x0033, 0x10, 24.75), (0x0033, 0x01, 25.6875)),
    ],
)
def test_the_ds18s20_counts_finer(raw, remain, celsius):
    data = with_crc(raw.to_bytes(2, "little") + bytes([0x4B, 0x46, 0xFF, 0xFF, remain, 0x10]))
    assert ds18b20.decode(data, 0x10) == celsius
    assert ds18b20.read(onewire("10-000802a1b2c3", w1_slave(data))) == {"temperature": celsius}


@each_row(
    ("family", "data", "said"),
    [
        (0x28, "50 05 4b 46 7f ff 0c 10 1c", "power-on value of 85"),
        (0x22, "50 05 4b 46 7f ff 0c 10 1c", "power-on value of 85"),
        (0x10, "aa 00 4b 46 ff ff 0c 10 87", "power-on value of 85"),
        (0x28, "00 00 00 00 00 00 00 00 00", "all bits are 0"),
        (0x10, "00 00 00 00 00 00 00 00 00", "all bits are 0"),
        (0x28, "ff ff ff ff ff ff ff ff ff", "all bits are 1"),
        (0x28, "50 05 4b 46 7f ff 0c 10 1d", "wrong checksum"),
        (0x28, scratchpad(0x07D1).hex(), "125.062 °C is outside"),
        (0x28, scratchpad(-127 * 16).hex(), "-127 °C is outside"),
        (0x28, scratchpad(-881).hex(), "outside -55 to 125"),
        (0x28, scratchpad(0x7FFF).hex(), "outside -55 to 125"),
        (0x28, scratchpad(0x0191, 0xFF).hex(), "configuration 0xff"),
        (0x28, scratchpad(0x0191, 0x00).hex(), "configuration 0x00"),
        (0x10, with_crc(bytes.fromhex("3200 4b46 ffff 0c 00")).hex(), "counts 12 of 0"),
        (0x10, with_crc(bytes.fromhex("3200 4b46 ffff 11 10")).hex(), "counts 17 of 16"),
    ],
)
def test_what_is_not_believed(family, data, said):
    data = bytes.fromhex(data)
    with pytest.raises(ValueError, match=said):
        ds18b20.decode(data, family)
    with pytest.raises(ValueError, match=said) as caught:
        ds18b20.read(onewire(f"{family:02x}-00000a1b2c3d", w1_slave(data)))
    assert "\n" not in str(caught.value)


def test_any_flipped_bit_is_found():
    good = scratchpad(0x0191)
    for bit in range(72):
        spoilt = bytes(byte ^ (1 << bit % 8 if i == bit // 8 else 0) for i, byte in enumerate(good))
        with pytest.raises(ValueError, match="wrong checksum"):
            ds18b20.decode(spoilt)


@each_row(
    ("text", "said"),
    [
        ("", "the kernel could not read 28-"),
        ("21375", "is not a thermometer's: '21375'"),
        ("91 01 4b", "is not a thermometer's"),
        ("zz" * 900, "is not a thermometer's"),
        (w1_slave(scratchpad(0x0191), "NO"), "the kernel found a wrong checksum"),
        (w1_slave(scratchpad(0x0191), "YESTERDAY"), "is not a thermometer's"),
        (w1_slave(scratchpad(0x0191)[:8] + b"\0"), "wrong checksum"),
        ("\n" + w1_slave(scratchpad(0x0191)), "is not a thermometer's"),
    ],
)
def test_texts_of_the_kernel(text, said):
    with pytest.raises(ValueError, match=said) as caught:
        ds18b20.read(onewire(NAME, text))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@each_row("name", ["3b-00000a1b2c3d", "01-00000a1b2c3d", "28", "28-xyz", "28-00000A1B2C3D", "../28-1"])
def test_another_device_is_not_read(name):
    part = OneWirePart(Files({}), name)
    assert ds18b20.identify(part) == ""
    with pytest.raises(ValueError, match="is no DS18B20"):
        ds18b20.read(part)


@each_row(("family", "said"), [("28", "DS18B20"), ("22", "DS1822"), ("10", "DS18S20")])
def test_the_family_names_the_part(family, said):
    assert ds18b20.identify(OneWirePart(Files({}), f"{family}-00000a1b2c3d")) == said


# --- the model ---


def scene(celsius, clock=None):
    return Scene(clock or Clock(), {"temperature": celsius})


@each_row("celsius", [-55, -10.03, -0.06, 0, 0.04, 21.37, 85, 124.9])
def test_readings_agree_with_the_scene(celsius):
    files = SimDS18B20(scene(celsius), serial=0xA1B2C3D).files()
    assert files["name"]() == NAME
    found = ds18b20.read(onewire(NAME, files["w1_slave"]()))["temperature"]
    assert found == pytest.approx(celsius, abs=0.0313)
    assert int(files["temperature"]()) == int(found * 1000)
    assert files["w1_slave"]().endswith(f" t={int(found * 1000)}")


class Master:
    """The kernel's w1 core over a DS2482: what ds2482.c and w1_therm.c send, poll and read."""

    def __init__(self, *parts):
        self.clock = Clock()
        self.chip = SimDS2482(Scene(self.clock), parts)
        self.part = I2CPart(SimI2C(1, {0x18: self.chip}), 0x18, {}, self.clock.sleep)

    def command(self, *data):
        self.part.write(*data)
        for _ in range(100):
            status = self.part.read(1)[0]
            if not status & 1:
                return status
            self.clock.now += 0.0001
        raise AssertionError("busy for ever")

    def reset(self):
        return bool(self.command(0xB4) & 0x02)

    def send(self, *data):
        for byte in data:
            self.command(0xA5, byte)

    def bytes(self, count):
        found = []
        for _ in range(count):
            self.command(0x96)
            self.part.write(0xE1, 0xE1)
            found += self.part.read(1)
        return bytes(found)

    def bit(self):
        return self.command(0x87, 0x80) >> 5 & 1

    def search(self, alarm=False):
        """Find all numbers as w1_search does, by triplets."""
        found, last, zero = [], 0, -1
        while True:
            if not self.reset():
                return found
            self.send(0xEC if alarm else 0xF0)
            rom, junction = 0, -1
            for position in range(64):
                way = last >> position & 1 if position < zero else int(position == zero)
                status = self.command(0x78, way * 0x80) >> 5
                if status & 3 == 3:
                    return found
                taken = status >> 2
                if not status & 3 and not taken:
                    junction = position
                rom |= taken << position
            found.append(rom.to_bytes(8, "little"))
            last, zero = rom, junction
            if junction < 0:
                return found

    def match(self, rom, *function):
        assert self.reset()
        self.send(0x55, *rom, *function)


def test_the_bridge_is_recognised_after_its_reset():
    master = Master()
    master.part.write(0xF0)
    assert master.part.read(1) == b"\x18"  # ds2482_probe wants exactly RST and LL
    with pytest.raises(Exception, match="0x18"):
        master.part.write(0xC3, 0x87)  # channel select is for the DS2482-800
    master.part.write(0xD2, 0xE1)
    assert master.part.read(2) == b"\x01\x01"
    master.part.write(0xE1, 0xF0)
    assert master.part.read(1) == b"\x08"


@each_row("data", [(0xD2, 0xE2), (0xE1, 0x00), (0xA5,), (0xB4, 0x00), (0x55,), (0xF0, 1)])
def test_the_bridge_refuses_what_it_does_not_know(data):
    master = Master()
    with pytest.raises(Exception, match="0x18"):
        master.part.write(*data)


def test_the_bridge_is_busy_while_it_talks():
    master = Master(WireDS18B20(scene(20)))
    master.part.write(0xB4)
    assert master.part.read(1)[0] & 1
    with pytest.raises(Exception, match="0x18"):
        master.part.write(0x96)
    master.clock.now += 0.002
    assert master.part.read(1)[0] & 3 == 2


def test_an_empty_bus():
    master = Master()
    assert not master.reset()
    assert master.search() == []
    assert master.bytes(2) == b"\xff\xff"


@each_row("serials", [[1], [1, 2], [5, 0x800000000000, 0xFFFFFFFFFFFF, 6, 7], list(range(100, 130))])
def test_the_search_finds_every_part(serials):
    parts = [WireDS18B20(scene(20), serial) for serial in serials]
    found = Master(*parts).search()
    assert sorted(found) == sorted(part.rom for part in parts)
    assert all(crc8_onewire(rom[:7]) == rom[7] and rom[0] == 0x28 for rom in found)


def test_one_of_several_is_measured_and_read():
    clock = Clock()
    parts = [WireDS18B20(scene(celsius, clock), n) for n, celsius in enumerate([-20.5, 33.25])]
    master = Master(*parts)
    master.clock = clock
    master.chip._clock = clock
    master.match(parts[1].rom, 0x44)
    assert master.bytes(1) == b"\0"
    clock.now += 0.76
    assert master.bytes(1) == b"\xff"
    master.match(parts[1].rom, 0xBE)
    assert ds18b20.decode(master.bytes(9)) == 33.25
    master.match(parts[0].rom, 0xBE)
    assert master.bytes(9) == bytes.fromhex("50054b467fff0c101c")  # still the power-on value


@each_row(("bits", "seconds", "celsius"), [(9, 0.094, 21.5), (10, 0.188, 21.75), (12, 0.751, 21.8125)])
def test_resolution_and_conversion_time(bits, seconds, celsius):
    master = Master()
    part = WireDS18B20(scene(21.8, master.clock))
    master.chip._parts = [part]
    master.match(part.rom, 0x4E, 0x4B, 0x46, (bits - 9) << 5)
    master.reset()
    master.send(0xCC, 0x44)
    master.clock.now += seconds
    master.match(part.rom, 0xBE)
    found = master.bytes(9)
    assert found[4] == (bits - 9) << 5 | 0x1F
    assert ds18b20.decode(found) == celsius


def test_settings_are_kept_only_when_copied_and_the_power_supply_is_told():
    part = WireDS18B20(scene(21.8))
    master = Master(part)
    for copied in (False, True):
        master.match(part.rom, 0x4E, 1, 2, 0x1F)
        if copied:
            master.match(part.rom, 0x48)
        master.match(part.rom, 0xB8)
        assert master.bytes(1) == b"\xff"
        master.match(part.rom, 0xBE)
        assert master.bytes(9)[2:5] == (b"\x01\x02\x1f" if copied else b"\x4b\x46\x7f")
    master.match(part.rom, 0xB4)
    assert master.bit() == 1


def test_only_alarming_parts_answer_the_alarm_search():
    cold, fine, hot = (WireDS18B20(scene(celsius), n) for n, celsius in enumerate([69.9, 72, 75]))
    for part in (cold, fine, hot):
        part.files()["temperature"]()
    assert Master(cold, fine, hot).search(alarm=True) == [cold.rom, hot.rom]


def test_read_rom_and_a_number_that_is_not_there():
    part = WireDS18B20(scene(20), 9)
    master = Master(part)
    master.reset()
    master.send(0x33)
    assert master.bytes(8) == part.rom
    master.match(WireDS18B20(scene(20), 10).rom, 0xBE)
    assert master.bytes(9) == b"\xff" * 9

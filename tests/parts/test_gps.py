"""NMEA 0183: published sentences, hundreds of spoilt ones, other talkers, and a receiver without a fix."""

import contextlib

import pytest
from part_bench import MORNING, driver
from rows import each_row
from wire_bench import Says, serial, spoilt

from picoclaw.config.tables import SensorConfig
from picoclaw.errors import HardwareError
from picoclaw.files import find_shipped
from picoclaw.hw import loader
from picoclaw.hw.sim import SimBoard
from picoclaw.hw.sim.parts.others import SimGPS

gps = driver("gps")


def line(body):
    check = 0
    for byte in body.encode():
        check ^= byte
    return f"${body}*{check:02X}\r\n".encode()


# u-blox 8 / M8 receiver description, messages GGA and RMC; the RMC is of another moment there.
GGA = b"$GPGGA,092725.00,4717.11399,N,00833.91590,E,1,08,1.01,499.6,M,48.0,M,,*5B\r\n"
UBLOX_RMC = b"$GPRMC,083559.00,A,4717.11437,N,00833.91522,E,0.004,77.52,091202,,,A*57\r\n"
RMC = line("GPRMC,092725.00,A,4717.11437,N,00833.91522,E,0.004,77.52,091202,,,A")
# The pair that most descriptions of NMEA 0183 show.
OLD = (
    b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n",
    b"$GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A\r\n",
)
# A NEO-6M that has just been switched on.
COLD = b"".join(
    [
        b"$GPRMC,,V,,,,,,,,,,N*53\r\n$GPVTG,,,,,,,,,N*30\r\n$GPGGA,,,,,,0,00,99.99,,,,,,*48\r\n",
        b"$GPGSA,A,1,,,,,,,,,,,,,99.99,99.99,99.99*30\r\n$GPGSV,1,1,00*79\r\n$GPGLL,,,,,,V,N*64\r\n",
    ]
)
VALUES = {
    "latitude": pytest.approx(47.2852332, abs=1e-6),
    "longitude": pytest.approx(8.5652650, abs=1e-6),
    "altitude": 499.6,
    "speed": pytest.approx(0.004 * 0.514444, abs=1e-6),
    "satellites": 8,
    "time": 1_039_426_045.0,  # 2002-12-09 09:27:25 UTC
}


def read(*chunks):
    return gps.read(serial(Says(b"", *chunks)))


def test_u_bloxs_sentences():
    assert [s.kind for s in gps.parse_sentences(GGA + UBLOX_RMC)] == ["GGA", "RMC"]
    assert read(GGA + RMC) == VALUES
    assert tuple(VALUES) == gps.QUANTITIES


def test_nothing_is_sent_to_the_receiver():
    for chunks in [(GGA + RMC,), (COLD, COLD, COLD), ()]:
        peer = Says(b"", *chunks)
        with contextlib.suppress(ValueError):
            gps.read(serial(peer))
        assert peer.heard == b""


def test_the_well_known_pair():
    gga, rmc = gps.parse_sentences(b"".join(OLD))
    assert gps.decode(gga.fields, rmc.fields) == {
        "latitude": pytest.approx(48.1173),
        "longitude": pytest.approx(11.516667),
        "altitude": 545.4,
        "speed": pytest.approx(11.5236, abs=1e-4),
        "satellites": 8,
        "time": 764_426_119.0,  # 1994-03-23 12:35:19 UTC
    }


@each_row(
    "chunks",
    [
        (RMC, GGA),
        (GGA[20:] + RMC, GGA),
        (GGA[:40], GGA[40:] + RMC),
        (GGA[:30], GGA + RMC),
        (RMC[:-3], b"\r\n" + GGA + RMC),
        (b"\xb5\x62\x01\x07\x5c\x00" + bytes(range(256)) + GGA + RMC,),
        (b"$" * 90 + GGA + RMC,),
        (UBLOX_RMC + GGA + RMC,),
        (GGA + RMC + UBLOX_RMC,),
        (GGA.replace(b"\r", b"") + RMC,),
        (COLD + GGA + RMC,),
    ],
)
def test_the_pair_is_found_in_what_surrounds_it(chunks):
    assert read(*chunks) == VALUES


@each_row("talker", ["GN", "GP", "GL", "GA", "GB", "BD"])
def test_other_talkers(talker):
    assert read(line(talker + GGA[3:-5].decode()) + line(talker + RMC[3:-5].decode())) == VALUES


def test_spoilt_sentences_are_never_believed():
    for data in spoilt(GGA[:-2], 600):
        assert not [s for s in gps.parse_sentences(data) if s.kind == "GGA"], data
        assert read(RMC + data + b"\r\n" + GGA) == VALUES


@each_row(
    ("sentence", "values"),
    [
        ("GPGGA,092725.00,4717.11399,S,00833.91590,W,1,08,1.01,-3.5,M,48.0,M,,", {"latitude": -47.2852332}),
        ("GPGGA,092725.00,4717.11399,S,00833.91590,W,1,08,1.01,-3.5,M,48.0,M,,", {"longitude": -8.565265}),
        ("GPGGA,092725.00,4717.11399,S,00833.91590,W,1,08,1.01,-3.5,M,48.0,M,,", {"altitude": -3.5}),
        ("GPGGA,092725.00,9000.0,N,18000.0,W,2,12,1.01,0,M,48.0,M,,", {"latitude": 90, "longitude": -180}),
        ("GPGGA,092725.00,0000.0,N,00000.0,E,1,04,1.01,0.0,M,48.0,M,,", {"latitude": 0, "satellites": 4}),
    ],
)
def test_signs_and_ends(sentence, values):
    found = read(line(sentence) + RMC)
    assert {name: found[name] for name in values} == pytest.approx(values, abs=1e-6)


def test_fields_that_are_left_out():
    found = read(
        line("GPGGA,092725.00,4717.1,N,00833.9,E,1,08,1.01,,,,,,")
        + line("GPRMC,092725.00,A,4717.1,N,00833.9,E,,,091202,,,A")
    )
    assert set(found) == {"latitude", "longitude", "satellites", "time"}


@each_row(
    ("gga", "rmc", "said"),
    [
        ("4760.0,N,00833.9,E,1,08,1,5", "091202", "'4760.0,N' where a latitude"),
        ("9000.1,N,00833.9,E,1,08,1,5", "091202", "at most 90 degrees"),
        ("4717.1,E,00833.9,E,1,08,1,5", "091202", "'4717.1,E' where a latitude"),
        ("4717.1,,00833.9,E,1,08,1,5", "091202", "where a latitude"),
        ("4717.1,NS,00833.9,E,1,08,1,5", "091202", "where a latitude"),
        ("717.1,N,00833.9,E,1,08,1,5", "091202", "where a latitude"),
        ("4717.1,N,18000.1,E,1,08,1,5", "091202", "at most 180 degrees"),
        ("4717.1,N,0833.9,E,1,08,1,5", "091202", "where a longitude"),
        ("4717.1,N,00833.9,E,1,x,1,5", "091202", "'x' where a number"),
        ("4717.1,N,00833.9,E,1,08,1,1e9", "091202", "'1e9' where a number"),
        ("4717.1,N,00833.9,E,1,08,1,5", "310202", "'310202 092725' where a date"),
        ("4717.1,N,00833.9,E,1,08,1,5", "", "where a date"),
    ],
)
def test_fields_that_are_not_of_their_form(gga, rmc, said):
    with pytest.raises(ValueError, match=said) as caught:
        read(
            line(f"GPGGA,092725,{gga},M,48.0,M,,") + line(f"GPRMC,092725,A,4717.1,N,00833.9,E,0.0,77.52,{rmc},,,A"),
        )
    assert "\n" not in str(caught.value)


@each_row("time", ["246000", "235961", "2359", "aa0000", "992359"])
def test_times_that_are_none(time):
    with pytest.raises(ValueError, match="where a date"):
        read(
            line(f"GPGGA,{time},4717.1,N,00833.9,E,1,08,1,5,M,48.0,M,,")
            + line(f"GPRMC,{time},A,4717.1,N,00833.9,E,0.0,77.52,091202,,,A")
        )


def test_a_leap_second_is_a_time():
    found = read(
        line("GPGGA,235960.00,4717.1,N,00833.9,E,1,08,1,5,M,48.0,M,,")
        + line("GPRMC,235960.00,A,4717.1,N,00833.9,E,0.0,77.52,311216,,,A")
    )
    assert found["time"] == 1_483_228_800


@each_row(("quality", "said"), [("6", "dead reckoning"), ("7", "by hand"), ("8", "simulated"), ("2", "")])
def test_positions_that_no_satellite_gave_are_doubtful(quality, said):
    part = serial(Says(b"", line(f"GPGGA,092725.00,4717.1,N,00833.9,E,{quality},08,1,5,M,48,M,,") + RMC))
    gps.read(part)
    assert said in part.doubts()


@each_row(
    ("chunks", "said"),
    [
        ((), "the receiver sends nothing"),
        ((COLD, COLD, COLD), "no fix yet, 0 satellites in view"),
        ((COLD.replace(b"$GPGSV,1,1,00*79\r\n", line("GPGSV,2,1,07,01,,,") + line("GLGSV,1,1,04")),), "11 satellites"),
        ((line("GPGGA,092725.00,,,,,0,03,,,,,,,") + line("GPRMC,092725.00,V,,,,,,,091202,,,N"),), "yet, 3 satellites"),
        ((line("GPGGA,092725.00,4717.1,N,00833.9,E,1,08,1,5,M,4,M,,") + UBLOX_RMC[:0] + COLD[:24],), "no fix yet, 8"),
        ((GGA + line("GPRMC,092725.00,V,4717.1,N,00833.9,E,0.0,,091202,,,N"),), "no fix yet, 8"),
        ((line("GPGGA,092725.00,4717.1,N,00833.9,E,0,02,1,5,M,4,M,,") + RMC,), "no fix yet, 2"),
        ((line("GPGGA,092725.00,4717.1,N,00833.9,E,,02,1,5,M,4,M,,") + RMC,), "no fix yet, 2"),
        ((GGA,), "no RMC sentence"),
        ((RMC,), "no GGA sentence"),
        ((b"\xff" * 300,), "no GGA and no RMC sentence in 300 bytes"),
        ((bytes(300),), "no GGA and no RMC sentence in 300 bytes"),
        ((b"$GPGGA,*7A\r\n$GPRMC,*67\r\n",), "no fix yet"),
        ((GGA.replace(b"*5B", b"*5C"), RMC), "no GGA sentence"),
        ((GGA.replace(b"*5B", b""), RMC), "no GGA sentence"),
    ],
)
def test_no_position(chunks, said):
    part = serial(Says(b"", *chunks))
    with pytest.raises(ValueError, match=said) as caught:
        gps.read(part)
    assert "\n" not in str(caught.value)
    assert sum(part.clock.slept) <= 4.01


def test_noise_without_end_ends():
    with pytest.raises(ValueError, match="in 5120 bytes"):
        read(*[b"$GPGGA,1" * 300] * 5000)


def test_what_was_received_before_is_too_old():
    with pytest.raises(ValueError, match="sends nothing"):
        gps.read(serial(Says(GGA + RMC)))


@each_row("latitude", [-90, -33.86, -0.00001, 0, 47.123456, 90])
@each_row("longitude", [-180, -0.5, 0, 151.2, 179.99999])
def test_readings_agree_with_the_scene(latitude, longitude):
    scene = {"latitude": latitude, "longitude": longitude, "altitude": -12.3, "speed": 27.5, "satellites": 11}
    part = serial(SimGPS, scene)
    for _ in range(2):
        found = gps.read(part)
        assert found.pop("time") == int(part.clock.now)
        assert found == pytest.approx(scene, abs=1e-3)
        assert (found["latitude"], found["longitude"]) == pytest.approx((latitude, longitude), abs=1e-6)
    assert part.clock.now - MORNING < 3.5


def test_the_model_without_a_fix():
    part = serial(SimGPS, {"satellites": 3})
    with pytest.raises(ValueError, match="no fix yet, 3 satellites in view"):
        gps.read(part)
    part.port._peer._scene.values["satellites"] = 5
    assert gps.read(part)["satellites"] == 5


@each_row("fault", ["high", "low", "unplugged"])
def test_faults_of_the_cable(fault):
    with pytest.raises((ValueError, HardwareError)):
        gps.read(serial(SimGPS, fault=fault))


def test_after_a_long_silence_the_model_sends_the_last_seconds_only():
    part = serial(SimGPS)
    part.sleep(86_400)
    assert 0 < len(part.port._peer.pending()) < 4096


class Receiver(SimBoard):
    """A board with a receiver at one speed; at any other one its bytes are garbage."""

    def __init__(self, baud, says=GGA + RMC):
        super().__init__(sleep=lambda _: None)
        self.baud, self.says, self.opened, self.is_open = baud, says, [], False

    def serial(self, name, settings):
        assert not self.is_open
        self.opened.append(settings.baud)
        self.is_open = True
        return Port(self, settings.baud)


class Port:
    def __init__(self, board, baud):
        self.board, self.baud, self.path = board, baud, "/dev/ttyS0"

    def read(self, most, seconds):
        if self.baud == self.board.baud or not self.board.says:
            return self.board.says
        return b"\x9e\x00\xf6\x1c" * 20

    def flush(self):
        pass

    def close(self):
        self.board.is_open = False


def measured(board, drivers=None, **options):
    wired = loader.resolve_part(SensorConfig("gps", port="/dev/ttyS0", options=options), [find_shipped("tools/hw")])
    drivers = drivers or loader.Drivers(board, lambda part: gps)
    return drivers, {reading.label: reading.value or reading.problem for reading in drivers.measure("gps", wired)}


@each_row("baud", [4800, 9600, 38_400, 57_600, 115_200])
def test_the_speed_of_a_receiver_is_found_out_once(baud):
    board = Receiver(baud)
    drivers, found = measured(board)
    assert found["altitude"] == 499.6
    board.opened.clear()
    measured(board, drivers)
    assert (board.opened, board.is_open) == (list(dict.fromkeys([9600, baud])), False)


def test_a_speed_that_is_said_is_the_only_one_that_is_tried():
    board = Receiver(460_800)
    assert measured(board, baud=460_800)[1]["altitude"] == 499.6
    assert board.opened == [9600, 460_800]
    (problem,) = measured(Receiver(9600), baud=38_400)[1].values()
    assert "at 38400 baud is expected" in problem


def test_a_receiver_at_no_known_speed_and_one_that_is_silent():
    board = Receiver(300)
    (problem,) = measured(board)[1].values()
    assert "NMEA 0183 at 9600, 38400, 115200, 4800, 57600 or 19200 baud is expected" in problem
    board = Receiver(9600, b"")
    (problem,) = measured(board)[1].values()
    assert ("sends nothing" in problem, board.opened) == (True, [9600])

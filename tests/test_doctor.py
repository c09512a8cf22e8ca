"""`picoclaw doctor`: what is wrong is found, marked and repaired, and nothing that is wrong ends it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from model_server import ModelServer, reply
from person import environment, picoclaw
from test_earlier_home import make_earlier_database

from picoclaw.config import Config
from picoclaw.config.tables import SensorConfig
from picoclaw.errors import StoreDamaged
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.sim import SimBoard
from picoclaw.maintenance.doctor import examine_board
from picoclaw.store.database import run_quick_check

THROTTLED = "/sys/devices/platform/soc/soc:firmware/get_throttled"
IIO = "/sys/bus/iio/devices/iio:device0"


@pytest.fixture
def look(tmp_path):
    """Examine a board made of files, or the simulated one, with what the owner has configured."""

    def examined(files=None, drivers=None, **sensors):
        board = SimBoard()
        if files is not None:
            for name, content in files.items():
                path = tmp_path / "root" / name.lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
            board = LinuxBoard(tmp_path / "root")
        for name, content in (drivers or {}).items():
            (tmp_path / "hw").mkdir(exist_ok=True)
            (tmp_path / f"hw/{name}.py").write_text(content)
        return {f.name: f for f in examine_board(board, Config(home=tmp_path, sensors=sensors))}

    return examined


@pytest.mark.parametrize(
    ("word", "mark", "repaired"),
    [("0", "good", False), ("1", "bad", True), ("4", "bad", True), ("50000", "note", False), ("odd", "note", False)],
)
def test_power(look, word, mark, repaired):
    found = look({THROTTLED: word})["power and throttling"]
    assert (found.status, "power supply" in found.fix) == (mark, repaired)


@pytest.mark.parametrize("file", ["uptime", "loadavg", "meminfo"])
@pytest.mark.parametrize("content", ["", "garbled", "nan", "9" * 5000, "\x1b[2J"])
def test_garbled_files_end_nothing(look, file, content):
    assert look({f"/proc/{file}": content})["I2C"].status == "note"


def test_a_board_without_anything_is_no_failure(look):
    found = look({})
    assert (found["sensors"].status, found["I2C"].status) == ("note", "note")
    assert not [f for f in found.values() if f.status == "bad"]


def test_what_works_is_said_in_one_line(look):
    found = look()
    assert found["sensors"].status == "good"
    assert found["sensors"].detail == "greenhouse, cpu can be read"


FAULTY = "ADDRESSES = (0x76,)\nimport struct\ndef read(part):\n    struct.unpack('<H', b'')\n"


@pytest.mark.parametrize(
    ("sensor", "said"),
    [
        (SensorConfig("bme280", 1, 0x77), "temperature not available: 0x77 on /dev/i2c-1 does not answer"),
        (SensorConfig("bme280", 7, 0x76), "temperature not available: /dev/i2c-7 does not exist"),
        (SensorConfig("bme208"), "[sensors.porch]: there is no driver 'bme208'; known: "),
        (SensorConfig("BME280"), "[sensors.porch]: driver name 'BME280' must be lower-case"),
        (SensorConfig("i2c"), "i2c.py is not the driver of a chip"),
        (SensorConfig("broken_part"), "broken_part.py cannot be loaded: SystemExit: 4"),
        (SensorConfig("faulty_part", 1, 0x76), "its driver faulty_part.py failed: error: unpack requires"),
    ],
)
def test_a_configured_sensor_that_cannot_be_read_is_bad(look, sensor, said):
    found = look(drivers={"broken_part": "raise SystemExit(4)", "faulty_part": FAULTY}, porch=sensor)
    assert found["porch"].status == "bad"
    assert said in found["porch"].detail
    assert found["sensors"].detail == "greenhouse, cpu can be read"


def test_a_part_of_the_boards_own_that_does_not_answer_is_bad():
    board = SimBoard()
    board.i2c(1).parts.clear()
    found = {f.name: f for f in examine_board(board, Config(home=Path("/")))}
    assert found["greenhouse"].status == "bad"
    assert "does not answer" in found["greenhouse"].detail


@pytest.mark.parametrize(
    ("files", "what", "said"),
    [
        ({"/sys/bus/w1/devices/28-1/temperature": "85000"}, "28-1", "power-on or broken-wire"),
        ({"/sys/bus/w1/devices/28-1/temperature": "warm"}, "28-1", "not a number"),
        ({f"{IIO}/in_voltage0_raw": "5"}, "iio 0", "in_voltage0_scale is missing"),
    ],
)
def test_a_sensor_of_the_kernels_that_cannot_be_read_is_bad(look, files, what, said):
    found = look(files)
    assert found[what].status == "bad"
    assert said in found[what].detail


# --- the command ---


def test_every_configured_sensor_is_read(tmp_path):
    home = tmp_path / "picoclaw"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("[sensors.porch]\npart = 'bme280'\naddress = 0x77\n")
    done = picoclaw(tmp_path, "doctor", "--board", "sim", "--json")
    found = {f["name"]: f for f in json.loads(done.stdout)}
    assert (done.returncode, done.stderr) == (1, "")
    assert found["porch"]["status"] == "bad"
    assert found["sensors"]["detail"] == "greenhouse, cpu can be read"


def test_the_history_and_the_rules_are_looked_at(tmp_path):
    home = tmp_path / "picoclaw"
    home.mkdir(mode=0o700)
    (home / "history.db").write_bytes(b"garbage" * 1000)
    (home / "rules.toml").write_text('[rules.hot]\nwhen = "every hour"\nnotify = "x"\n[rules.bad]\nwhen = 3\n')
    found = json.loads(picoclaw(tmp_path, "doctor", "--board", "sim", "--json").stdout)
    rows = [(f["name"], f["status"], f["detail"]) for f in found if f["name"] in {"history.db", "rules.toml"}]
    assert [row[:2] for row in rows] == [("history.db", "bad"), ("rules.toml", "bad"), ("rules.toml", "good")]
    assert "is damaged" in rows[0][2]
    assert "line 5: [rules.bad]" in rows[1][2]
    assert rows[2][2] == "hot can be read"


def test_a_password_in_the_address_is_not_shown(tmp_path):
    with ModelServer([reply("ok")]) as server:
        url = server.url.replace("http://", "http://user:hunter22@")
        done = picoclaw(tmp_path, "doctor", "--board", "sim", PICOCLAW_BASE_URL=url, PICOCLAW_MODEL="x")
    assert f"x at {server.url} answers" in done.stdout
    assert "hunter22" not in done.stdout + done.stderr


NOBODY = """
import ctypes, runpy, sys
libc = ctypes.CDLL(None)
libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
sys.argv = ["picoclaw", "doctor", "--board", "sim"]
runpy.run_module("picoclaw", run_name="__main__")
"""


@pytest.mark.parametrize("variables", [{"PICOCLAW_HOME": ""}, {}])
def test_a_home_that_cannot_be_searched_is_named(tmp_path, variables):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o000)
    try:
        done = subprocess.run(
            [sys.executable, "-c", NOBODY],
            env=environment(closed, **variables),
            capture_output=True,
            text=True,
            timeout=60,
            cwd="/",
        )
    finally:
        closed.chmod(0o700)
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(r"^bad    home: .*/closed/.?picoclaw cannot be checked: no permission", done.stdout, re.MULTILINE)
    assert "bad    settings: " in done.stdout


@pytest.mark.parametrize("home", ["~no-such-user/claw", os.fsdecode(b"/srv/h\xe9")])
def test_a_home_that_is_none_is_a_finding(tmp_path, home):
    done = picoclaw(tmp_path, "doctor", PICOCLAW_HOME=home)
    assert (done.returncode, done.stderr) == (1, "")
    assert "bad    settings: " in done.stdout


def test_a_database_is_looked_at_and_left_as_it_is(tmp_path):
    path = tmp_path / "state.db"
    make_earlier_database(path)
    before = path.read_bytes()
    assert run_quick_check(path) == "ok"
    assert path.read_bytes() == before
    path.write_bytes(b"")
    with pytest.raises(StoreDamaged, match="is empty"):
        run_quick_check(path)
    path.write_bytes(before[:5000])
    with pytest.raises(StoreDamaged, match="damaged"):
        run_quick_check(path)

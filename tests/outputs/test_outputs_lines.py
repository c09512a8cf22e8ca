"""Each kind of output is driven, read back and held against what was wanted."""

import time
from pathlib import Path

import pytest
from outputs_kit import pin

from picoclaw.errors import BusFault, DeviceMissing, NoPermission
from picoclaw.hw.board import find_line
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import SimBoard
from picoclaw.hw.sim.script import Script, SimLine
from picoclaw.outputs.config import OutputConfig
from picoclaw.outputs.supervisor.leases import OutputDrivers, make_safe

LINES = tuple(SimLine(n, f"GPIO{n}") for n in range(28))
EXPANDERS = {"relays": WiredPart("pcf8574", 1, 0x20), "dimmer": WiredPart("pca9685", 1, 0x40)}


def output(**more):
    return OutputConfig(**{"kind": "pump", "longest_on_s": 600.0, "name": "pump", **more})


@pytest.fixture
def board(tmp_path):
    board = SimBoard(script=Script(EXPANDERS, {}, lines=LINES), state=tmp_path / "sim")
    yield board
    board.close()


@pytest.mark.parametrize(
    ("active", "level", "physical"), [("high", 100, 1), ("high", 0, 0), ("low", 100, 0), ("low", 0, 1)]
)
def test_a_line(tmp_path, board, active, level, physical):
    terminals, pump = OutputDrivers(board, tmp_path), output(line="GPIO17", active=active)
    assert terminals.read(pump) is None
    assert terminals.drive(pump, 100 - level) == ""
    assert terminals.drive(pump, level) == ""
    assert (terminals.read(pump), pin(tmp_path)) == (level, physical)
    terminals.close()
    assert pin(tmp_path) == physical, "letting go changes nothing"


def test_a_line_is_requested_at_the_level_that_is_wanted(tmp_path, board, monkeypatch):
    """There is no moment at the wrong level in between, not even when the line is first requested."""
    seen = []
    monkeypatch.setattr(board, "line_out", lambda *given: seen.append(given) or SimBoard().line_out(*given))
    OutputDrivers(board, tmp_path).drive(output(line="GPIO17", active="low"), 0)
    assert seen == [("/dev/gpiochip0", 17, 1)]


@pytest.mark.parametrize(
    ("chip", "line", "found"),
    [
        ("", "GPIO17", 17),
        ("", "17", 17),
        ("pinctrl-sim", "GPIO17", 17),
        ("/dev/gpiochip0", "3", 3),
        ("", "GPIO99", "there is no GPIO line 'GPIO99' on pinctrl-sim"),
        ("", "99", "there is no GPIO line '99'"),
        ("pinctrl-rp1", "GPIO17", "there is no GPIO chip 'pinctrl-rp1'; there are: pinctrl-sim"),
    ],
)
def test_finding_a_line(board, chip, line, found):
    if isinstance(found, int):
        spot = find_line(board, line, chip)
        assert (spot.chip.path, spot.line.offset) == ("/dev/gpiochip0", found)
    else:
        with pytest.raises(DeviceMissing, match=found.replace("(", "\\(")):
            find_line(board, line, chip)


def test_a_name_that_two_lines_have_is_nobodys(tmp_path):
    board = SimBoard(script=Script({}, {}, lines=(SimLine(1, "LED"), SimLine(2, "LED"))))
    with pytest.raises(DeviceMissing, match="name its chip"):
        find_line(board, "LED")


def test_a_line_that_somebody_holds_is_named(tmp_path):
    board = SimBoard(script=Script({}, {}, lines=(SimLine(17, "GPIO17", consumer="other-tool"),)))
    assert "other-tool" in OutputDrivers(board, tmp_path).drive(output(line="GPIO17"), 100)


def test_what_is_read_back_differently_is_told(tmp_path, board):
    """A short circuit, or somebody else, holds the pin at another level."""
    terminals, pump = OutputDrivers(board, tmp_path), output(line="GPIO17")
    terminals.drive(pump, 0)
    handle = terminals._open["pump"]._handle
    handle.get = lambda: 0
    assert terminals.drive(pump, 100) == "pump was set to on and reads back as off: check its wiring"


@pytest.fixture
def pwm(tmp_path):
    """A chip of /sys/class/pwm whose channel is there once it has been exported, as plain files."""
    folder = tmp_path / "sys/class/pwm/pwmchip0"
    folder.mkdir(parents=True)
    (folder / "export").touch()
    return folder


class Kernel(LinuxBoard):
    """Plain files, with what the kernel refuses of a PWM: a duty that is longer than its period."""

    def put(self, path, text):
        file = Path(self._root + path)
        numbers = {name: int((file.parent / name).read_text()) for name in ("period", "duty_cycle")}
        if {**numbers, file.name: int(text)}["duty_cycle"] > {**numbers, file.name: int(text)}["period"]:
            raise BusFault(f"{path} refused the request as invalid")
        file.write_text(text)


def channel(folder, period=0, duty=0):
    (folder / "pwm1").mkdir()
    for name, value in (("period", period), ("duty_cycle", duty), ("enable", 0)):
        (folder / f"pwm1/{name}").write_text(f"{value}\n")


def state(folder):
    return [int((folder / f"pwm1/{name}").read_text()) for name in ("period", "duty_cycle", "enable")]


@pytest.mark.parametrize(
    ("active", "level", "duty"), [("high", 25, 10_000), ("high", 0, 0), ("low", 25, 30_000), ("low", 0, 40_000)]
)
def test_a_pwm(tmp_path, pwm, active, level, duty):
    channel(pwm, period=1_000_000, duty=900_000)
    fan = output(name="fan", pwm="pwmchip0/1", period_us=40, active=active)
    terminals = OutputDrivers(Kernel(tmp_path), tmp_path)
    assert terminals.drive(fan, level) == ""
    assert state(pwm) == [40_000, duty, 1]
    assert terminals.read(fan) == level
    assert (pwm / "export").read_text() == "", "it was there"


def test_a_pwm_channel_is_exported(tmp_path, pwm):
    fan = output(name="fan", pwm="pwmchip0/1")
    problem = OutputDrivers(LinuxBoard(tmp_path), tmp_path).drive(fan, 50)
    assert (pwm / "export").read_text() == "1"
    assert "pwm1/period does not exist" in problem, "plain files make no channel of it"


@pytest.mark.parametrize("active", ["high", "low"])
@pytest.mark.parametrize("polarity", ["normal", "inversed"])
@pytest.mark.parametrize("level", [0, 25, 100])
def test_a_pwm_of_either_polarity_has_the_level_at_the_pin(tmp_path, pwm, active, polarity, level):
    """Documentation/driver-api/pwm.rst: of an inversed one the pin is low for the duty, and high for the rest."""
    channel(pwm, period=1_000_000, duty=900_000)
    (pwm / "pwm1/polarity").write_text(f"{polarity}\n")
    fan = output(name="fan", pwm="pwmchip0/1", period_us=40, active=active)
    terminals = OutputDrivers(Kernel(tmp_path), tmp_path)
    assert terminals.drive(fan, level) == ""
    period, duty, enabled = state(pwm)
    high = 100 * (duty if polarity == "normal" else period - duty) / period
    assert (high if active == "high" else 100 - high, enabled) == (level, 1)
    assert terminals.read(fan) == level


class Udev(Kernel):
    """A kernel whose new channels belong to root until udev has run, which takes a moment."""

    def put(self, path, text):
        if path.endswith("/export"):
            folder = Path(self._root + path).parent
            channel(folder)
            self.ready = time.monotonic() + 0.2
        elif time.monotonic() < self.ready:
            raise NoPermission(f"{path} may not be opened by this user")
        else:
            super().put(path, text)

    def may_open(self, path):
        return time.monotonic() >= self.ready


def test_a_new_channel_is_used_when_udev_has_given_the_rights(tmp_path, pwm):
    fan = output(name="fan", pwm="pwmchip0/1")
    assert OutputDrivers(Udev(tmp_path), tmp_path).drive(fan, 50) == ""
    assert state(pwm) == [20_000_000, 10_000_000, 1]


@pytest.mark.parametrize("there", [True, False])
def test_a_pwm_that_cannot_be_driven_is_told(tmp_path, pwm, there):
    if there:
        channel(pwm)
        (pwm / "pwm1/period").write_text("soon")
    fan = output(name="fan", pwm="pwmchip0/1" if there else "pwmchip7/0")
    assert "pwm" in OutputDrivers(LinuxBoard(tmp_path), tmp_path).drive(fan, 50)


@pytest.mark.parametrize(
    ("part", "address", "level", "active"),
    [
        ("pcf8574", 0x20, 100, "high"),
        ("pcf8574", 0x20, 0, "high"),
        ("pcf8574", 0x20, 100, "low"),
        ("pca9685", 0x40, 37.5, "high"),
        ("pca9685", 0x40, 37.5, "low"),
    ],
)
def test_an_expander(tmp_path, board, part, address, level, active):
    mat = output(name="mat", part=part, address=address, channel=3, active=active)
    terminals = OutputDrivers(board, tmp_path)
    assert terminals.drive(mat, 100 - level) == ""
    assert terminals.drive(mat, level) == ""
    assert terminals.read(mat) == pytest.approx(level, abs=0.1)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"part": "pcf8574", "address": 0x21}, "0x21"),
        ({"part": "pcf8574", "address": 0x20, "channel": 8}, "no channel 8; its channels are 0 to 7"),
        ({"part": "bme280", "address": 0x76}, "drives no outputs"),
        ({"part": "nothing", "address": 0x20}, "there is no driver 'nothing'"),
        ({"part": "pcf8574", "address": 0x20, "options": {"x": 1}}, "no option 'x'"),
    ],
)
def test_an_expander_that_cannot_be_driven_is_told(tmp_path, board, more, said):
    assert said in OutputDrivers(board, tmp_path).drive(output(name="mat", **more), 100)


def test_a_driver_that_fails_ends_nothing(tmp_path, board):
    (tmp_path / "hw").mkdir()
    Path(tmp_path / "hw/odd.py").write_text(
        "ADDRESSES = (0x20,)\nCHANNELS = 1\ndef read(part): return {}\n"
        "def drive(part, channel, level): return 1 / 0\ndef level(part, channel): return 0.0\n"
    )
    said = OutputDrivers(board, tmp_path).drive(output(name="mat", part="odd", address=0x20), 100)
    assert said == "odd on i2c-1 at 0x20 channel 0 failed: ZeroDivisionError: division by zero"


def test_making_safe_goes_on_after_a_failure(tmp_path, board):
    outputs = [
        output(name="mat", part="pcf8574", address=0x21),
        output(line="GPIO17", safe="on"),
        output(name="lamp", line="GPIO27"),
    ]
    problems = make_safe(board, tmp_path, outputs)
    assert list(problems) == ["mat"]
    assert (pin(tmp_path, 17), pin(tmp_path, 27)) == (1, 0)

"""What doctor says of the buses: which are on, who may open them, what turns them on, what a silent part may mean.

Whether a file may be opened is asked of the kernel, so a tree of files becomes the root of a process of its own.
"""

import ctypes
import grp
import importlib
import json
import os
import threading
from pathlib import Path

import pytest
import smbus2  # noqa: F401 - imported late by the board, which then has no folder of packages any more
from recording import Recorder

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import SensorConfig
from picoclaw.hw import bus_access, linux
from picoclaw.hw.board import GpioChip, translate_os_error
from picoclaw.hw.kernel import CheckResult
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.reading import WiredPart
from picoclaw.hw.sim import Nack, SimBoard, SimI2C
from picoclaw.hw.sim.script import Script, SimFault
from picoclaw.maintenance.doctor import examine_board
from picoclaw.outputs import config

PI_4 = {"/proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.5\0"}
PI_5 = {"/proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0"}
ORANGE_PI = {"/proc/device-tree/model": "OrangePi Zero3\0", "/etc/armbian-release": "BOARD=orangepizero3\n"}
OTHER_ARM = {"/proc/device-tree/model": "Radxa ROCK 4C+\0"}
PC = {"/sys/class/dmi/id/product_name": "ThinkPad T480\n"}


class Tree(LinuxBoard):
    """A tree of the kernel's files; what no file can stand for, an I2C bus with its ioctls, is simulated."""

    def i2c(self, number):
        with translate_os_error(f"/dev/i2c-{number}"):
            os.close(os.open(f"{self._root}/dev/i2c-{number}", os.O_RDWR))
        return SimI2C(number, {})

    def gpio_chips(self):
        return [GpioChip(path, "pinctrl", 54) for path in linux.list_chip_paths(self._root) if self.may_open(path)]


def grown(root, files):
    """Make the files; one whose name is `link -> target` is a link."""
    for name, content in files.items():
        place, arrow, target = name.partition(" -> ")
        path = root / place.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target) if arrow else path.write_text(content)


def without_rights():
    """Give up root's right to open everything, for ever: also what access(2) asks about (capset(2))."""
    assert ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()) == 0


def inside(root, look):
    """Return what a process finds whose root folder this is, as rows."""
    grp.getgrgid(0)  # loads what reads /etc/group while it can still be found
    importlib.import_module("picoclaw.hw.linux.buses")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() != 0:
                ctypes.CDLL(None).unshare(0x10000000)  # CLONE_NEWUSER
            os.chroot(root)
        except PermissionError:
            os._exit(77)
        os.chdir("/")
        try:
            os.write(writer, json.dumps(look()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = file.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 77:
        pytest.skip("this user may not give a process another root")
    return [CheckResult(*row) for row in json.loads(found)]


@pytest.fixture
def look(tmp_path):
    """Rows of the buses of a tree; `closed` are device files that only their owner's group may open."""

    def rows(files, *, closed=(), group=""):
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        grown(root, files)
        for path in closed:
            (root / path.lstrip("/")).chmod(0)
            os.chown(root / path.lstrip("/"), -1, 54321)  # systemd's resolver knows 0 without /etc/group

        def ask():
            if closed:
                owner = Path(closed[0]).stat().st_gid
                Path("/etc").mkdir(exist_ok=True)
                Path("/etc/group").write_text(f"{group}:x:{owner}:\n" if group else "")
                without_rights()
            return list(bus_access.check_buses(Tree(Path("/"))))

        return inside(root, ask)

    return rows


def of(rows, what):
    return [row for row in rows if row.name == what]


I2C_1 = {"/dev/i2c-1": "", "/sys/class/i2c-dev/i2c-1/name": "bcm2835 (i2c@7e804000)\n"}
SPI = {"/dev/spidev0.0": "", "/dev/spidev0.1": ""}
SERIAL = {"/dev/ttyS0": "", "/sys/class/tty/ttyS0/device/uevent": "", "/dev/serial0 -> ttyS0": ""}
ONEWIRE = {"/sys/bus/w1/devices/w1_bus_master1/w1_master_name": "w1_bus_master1\n"}
PART = {"/sys/bus/w1/devices/28-0316a2794cff/temperature": "21437\n"}
GPIO = {"/dev/gpiochip0": ""}

NO_I2C, NO_SPI = (
    "no /dev/i2c-N: the bus is off, or there is none",
    "no /dev/spidevB.C: the bus is off, or there is none",
)
NO_GPIO = CheckResult("note", "GPIO", "no /dev/gpiochipN: this kernel shows no GPIO controller")


def test_a_pi_with_everything_on(look):
    assert look(PI_4 | I2C_1 | SPI | SERIAL | ONEWIRE | PART | GPIO) == [
        CheckResult("good", "i2c-1", "bcm2835 (i2c@7e804000) on the pin header"),
        CheckResult("good", "SPI", "/dev/spidev0.0, /dev/spidev0.1"),
        CheckResult("good", "serial", "/dev/ttyS0"),
        CheckResult("good", "1-Wire", "28-0316a2794cff"),
        CheckResult("good", "GPIO", "/dev/gpiochip0"),
    ]


def off(i2c, spi, serial, onewire):
    """The rows of a board on which everything is off, with these four remedies."""
    return [
        CheckResult("note", "I2C", NO_I2C, i2c),
        CheckResult("note", "SPI", NO_SPI, spi),
        CheckResult("note", "serial", "no serial port", serial),
        CheckResult("note", "1-Wire", "the kernel has no 1-Wire bus", onewire),
        NO_GPIO,
    ]


def on_a_pi(path):
    """The four remedies of a Raspberry Pi whose config.txt is there."""
    switches = [
        ("do_i2c 0", "dtparam=i2c_arm=on"),
        ("do_spi 0", "dtparam=spi=on"),
        ("do_serial_hw 0", "enable_uart=1"),
        ("do_onewire 0", "dtoverlay=w1-gpio"),
    ]
    return [f"sudo raspi-config nonint {word}   (or {line} in {path}, and a reboot)" for word, line in switches]


def in_the_tree(tool):
    base = f"turn it on in the device tree ({tool})"
    return [
        *(f"{base}, then sudo modprobe {m}" for m in ("i2c-dev", "spidev")),
        base,
        f"{base}, then sudo modprobe w1-gpio",
    ]


@pytest.mark.parametrize(
    ("board", "remedies"),
    [
        (PI_4, on_a_pi("/boot/firmware/config.txt")),
        (PI_5 | {"/boot/firmware/config.txt": "arm_64bit=1\n"}, on_a_pi("/boot/firmware/config.txt")),
        (PI_4 | {"/boot/config.txt": ""}, on_a_pi("/boot/config.txt")),
        (PI_4 | {"/boot/config.txt": "", "/boot/firmware/config.txt": ""}, on_a_pi("/boot/firmware/config.txt")),
        (ORANGE_PI, in_the_tree("sudo armbian-config")),
        (OTHER_ARM, in_the_tree("the board's own set-up tool")),
        (PC, in_the_tree("the board's own set-up tool")),
    ],
)
def test_a_board_with_everything_off_says_what_turns_it_on_here(look, board, remedies):
    assert look(board) == off(*remedies)


CONFIG = "/boot/firmware/config.txt"


@pytest.mark.parametrize(
    ("line", "what", "switch", "module"),
    [
        ("dtparam=i2c_arm=on", "I2C", "dtparam=i2c_arm=on", "i2c-dev"),
        ("dtparam=i2c_arm=on,i2c_arm_baudrate=50000", "I2C", "dtparam=i2c_arm=on", "i2c-dev"),
        ("dtparam=i2c_arm_baudrate=50000,i2c_arm=on", "I2C", "dtparam=i2c_arm=on", "i2c-dev"),
        ("dtparam=i2c_arm", "I2C", "dtparam=i2c_arm=on", "i2c-dev"),
        ("dtparam=i2c_arm=on   # for the greenhouse", "I2C", "dtparam=i2c_arm=on", "i2c-dev"),
        ("  dtparam = i2c_arm = on", "I2C", "dtparam=i2c_arm=on", "i2c-dev"),
        ("dtparam=spi", "SPI", "dtparam=spi=on", "spidev"),
        ("dtparam=spi=on", "SPI", "dtparam=spi=on", "spidev"),
        ("dtparam=i2c_arm=off,spi=on", "SPI", "dtparam=spi=on", "spidev"),
        ("dtoverlay=w1-gpio", "1-Wire", "dtoverlay=w1-gpio", "w1-gpio"),
        ("dtoverlay=w1-gpio,gpiopin=17", "1-Wire", "dtoverlay=w1-gpio", "w1-gpio"),
        ("enable_uart=1#", "serial", "enable_uart=1", ""),
    ],
)
def test_what_config_txt_has_already_needs_a_reboot(look, line, what, switch, module):
    (row,) = of(look(PI_4 | {CONFIG: f"[all]\narm_64bit=1\n{line}\n"}), what)
    assert row.fix == f"{CONFIG} has {switch}: reboot{f', or sudo modprobe {module}' if module else ''}"


@pytest.mark.parametrize(
    "text",
    [
        *("#dtparam=i2c_arm=on", "# dtparam=i2c_arm=on", "dtparam=i2c_arm=off", "dtparam=i2c_arm_baudrate=50000"),
        *("", "dtparam=i2c_vc=on", "dtoverlay=i2c_arm=on", "\0\xff=,,=\n=\n,"),
    ],
)
def test_what_config_txt_does_not_have_is_to_be_put_there(look, text):
    (row,) = of(look(PI_4 | {CONFIG: f"{text}\n"}), "I2C")
    assert row.fix == on_a_pi(CONFIG)[0]


def test_the_buses_of_a_pi_5s_hdmi_ports_are_not_the_headers(look):
    hdmi = {f"/sys/class/i2c-dev/i2c-{n}/name": f"107d508{port}.hdmi\n" for n, port in ((13, "200"), (14, "280"))} | {
        "/dev/i2c-13": "",
        "/dev/i2c-14": "",
    }
    rows = look(PI_5 | hdmi)
    assert of(rows, "I2C") == [
        CheckResult(
            "note",
            "I2C",
            "the pin header's bus is off; the others belong to the board",
            on_a_pi(CONFIG)[0],
        )
    ]
    assert of(rows, "i2c-13") == [CheckResult("good", "i2c-13", "107d508200.hdmi, an HDMI port")]
    assert of(rows, "i2c-14") == [CheckResult("good", "i2c-14", "107d508280.hdmi, an HDMI port")]


def test_a_pcs_own_buses_are_named_and_no_header_is_missed(look):
    rows = look(PC | {"/dev/i2c-0": "", "/sys/class/i2c-dev/i2c-0/name": "SMBus I801 adapter at efa0\n"})
    assert not of(rows, "I2C")
    assert of(rows, "i2c-0") == [CheckResult("good", "i2c-0", "SMBus I801 adapter at efa0, the mainboard")]


def test_a_bus_that_cannot_be_used_says_why(tmp_path):
    grown(tmp_path, I2C_1)  # a plain file, which takes none of the ioctls of a bus
    (row,) = of(bus_access.check_buses(LinuxBoard(tmp_path)), "i2c-1")
    assert row == CheckResult("bad", "i2c-1", "/dev/i2c-1 failed: Inappropriate ioctl for device")


def test_a_onewire_bus_without_a_part_says_what_to_check(look):
    assert of(look(PI_4 | ONEWIRE), "1-Wire") == [
        CheckResult(
            "note",
            "1-Wire",
            "the bus is on and no part answers",
            "check the 4.7 kΩ resistor from data to 3V3, and that data is on GPIO4",
        )
    ]


@pytest.mark.parametrize(
    ("board", "fix"),
    [
        (PI_4, "sudo raspi-config nonint do_serial_cons 1   (then reboot)"),
        (ORANGE_PI, "take console=ttyS0 from the kernel's command line"),
    ],
)
@pytest.mark.parametrize("console", ["ttyS0", "serial0"])
def test_the_console_on_a_port(look, board, fix, console):
    rows = look(board | SERIAL | {"/proc/cmdline": f"console={console},115200 console=tty1 root=/dev/sda\n"})
    assert of(rows, "serial") == [CheckResult("note", "serial", "/dev/ttyS0 is used by the Linux console", fix)]


LOGIN = "/sys/fs/cgroup/system.slice/system-serial\\x2dgetty.slice/serial-getty@ttyS0.service/cgroup.procs"


def test_a_login_prompt_on_a_port_of_a_pi(look):
    assert of(look(PI_4 | SERIAL | {LOGIN: ""}), "serial") == [
        CheckResult(
            "note",
            "serial",
            "/dev/ttyS0 is used by a login prompt",
            "sudo raspi-config nonint do_serial_cons 1   (then reboot)",
        )
    ]


def test_a_login_prompt_is_ended_where_no_kernel_option_began_it(look):
    (row,) = of(look(ORANGE_PI | SERIAL | {LOGIN: ""}), "serial")
    assert row.detail == "/dev/ttyS0 is used by a login prompt"
    assert "systemctl disable --now serial-getty@ttyS0" in row.fix


def test_a_link_to_a_chip_is_not_another_chip(look):
    assert of(look(PI_5 | GPIO | {"/dev/gpiochip4 -> gpiochip0": ""}), "GPIO") == [
        CheckResult("good", "GPIO", "/dev/gpiochip0")
    ]


def test_the_last_of_two_settings_counts(look):
    (row,) = of(look(PI_4 | {CONFIG: "dtparam=i2c_arm=on\ndtparam=i2c_arm=off\n"}), "I2C")
    assert row.fix == on_a_pi(CONFIG)[0]


def test_a_board_with_another_root_is_asked_about_that(tmp_path):
    grown(tmp_path, PI_4 | SPI)
    assert of(bus_access.check_buses(LinuxBoard(tmp_path)), "SPI") == [
        CheckResult("good", "SPI", "/dev/spidev0.0, /dev/spidev0.1")
    ]


def test_a_port_beside_the_console_can_be_used(look):
    usb = {"/dev/ttyUSB0": "", "/sys/class/tty/ttyUSB0/device/uevent": ""}
    rows = look(PI_4 | SERIAL | usb | {"/proc/cmdline": "console=ttyS0,115200\n"})
    assert [(row.status, row.detail) for row in of(rows, "serial")] == [
        ("note", "/dev/ttyS0 is used by the Linux console"),
        ("good", "/dev/ttyUSB0"),
    ]


PERSIST = "/sys/module/pinctrl_bcm2835/parameters/persist_gpio_outputs"


@pytest.mark.parametrize("word", ["Y", "N", None])
def test_a_level_that_outlives_its_process_is_said(look, word):
    rows = of(look(PI_4 | GPIO | ({PERSIST: f"{word}\n"} if word else {})), "GPIO")
    warning = CheckResult(
        "note",
        "GPIO",
        "a line keeps its level after the process that drove it has died (persist_gpio_outputs=Y)",
        "declare outputs in outputs.toml, and let the service end with `picoclaw outputs safe`",
    )
    assert rows == [CheckResult("good", "GPIO", "/dev/gpiochip0"), *([warning] if word == "Y" else [])]


# --- who may open them ---

CLOSED = [
    ("/dev/i2c-1", "i2c-1", "i2c"),
    ("/dev/spidev0.1", "SPI", "spi"),
    ("/dev/ttyS0", "serial", "dialout"),
    ("/dev/gpiochip0", "GPIO", "gpio"),
]


@pytest.mark.parametrize(("path", "what", "usual"), CLOSED)
@pytest.mark.parametrize("group", ["uucp", "hardware", "root", ""])
def test_a_closed_device_names_the_group_that_owns_it(look, path, what, usual, group):
    rows = of(look(PI_4 | I2C_1 | SPI | SERIAL | GPIO, closed=[path], group=group), what)
    owner = group or usual  # a group that no name is known of
    fix = f"sudo usermod -aG {owner} $USER   (then log in again)"
    if owner == "root":
        fix = f"only root may open it: give it the group {usual} with a rule in /etc/udev/rules.d"
    assert rows[0] == CheckResult("bad", what, f"{path} may not be opened by this user", fix)
    rest = [CheckResult("good", "SPI", "/dev/spidev0.0")] if what == "SPI" else []
    assert rows[1:] == rest


def test_every_closed_device_has_a_line(look):
    rows = look(PI_4 | SPI, closed=list(SPI), group="spi")
    assert [row.detail for row in of(rows, "SPI")] == [f"{path} may not be opened by this user" for path in SPI]


@pytest.fixture
def powerless():
    """Do something in a thread that has given up root's rights; the others keep theirs."""

    def done(act):
        answers = []

        def give_up_and_act():
            without_rights()
            answers.append(act())

        thread = threading.Thread(target=give_up_and_act)
        thread.start()
        thread.join()
        return answers[0]

    return done


@pytest.mark.parametrize("closed", [["/dev/gpiochip0"], ["/dev/gpiochip0", "/dev/gpiochip1"]])
def test_gpio_chips_that_may_not_be_opened_cost_only_their_tool(tmp_path, powerless, closed):
    root = tmp_path / "root"
    grown(root, PI_4 | dict.fromkeys(closed, ""))
    for path in closed:
        (root / path.lstrip("/")).chmod(0)
    config = Config(home=tmp_path)
    assert [r.detail for r in of(powerless(lambda: list(examine_board(LinuxBoard(root), config))), "GPIO")] == [
        f"{path} may not be opened by this user" for path in closed
    ]
    tools = powerless(lambda: App(config, LinuxBoard(root)).toolset).names
    assert "sensor_read" in tools
    assert "gpio" not in tools


def test_a_gpio_chip_that_refuses_to_be_asked_ends_no_doctor(tmp_path):
    """As under a device policy of systemd's or a container's, of which access(2) knows nothing."""
    grown(tmp_path, PI_4 | GPIO)
    rows = of(examine_board(LinuxBoard(tmp_path), Config(home=tmp_path)), "GPIO")
    assert [row.status for row in rows] == ["bad"]


def test_a_gpio_chip_that_refuses_to_be_asked_costs_only_its_tool(tmp_path):
    grown(tmp_path, PI_4 | GPIO)
    assert "sensor_read" in App(Config(home=tmp_path), LinuxBoard(tmp_path)).toolset.names


# --- the simulated board ---


def test_the_simulated_boards_remedy_is_its_script():
    name_one = "name a part for it in sim.toml"
    assert list(bus_access.check_buses(SimBoard())) == [
        CheckResult("good", "i2c-1", "simulated adapter on the pin header"),
        CheckResult("note", "SPI", NO_SPI, name_one),
        CheckResult("note", "serial", "no serial port", name_one),
        CheckResult("note", "1-Wire", "the kernel has no 1-Wire bus", name_one),
        CheckResult("good", "GPIO", "/dev/gpiochip0"),
    ]


# --- a part that is silent ---


class Refuser(Recorder):
    """A part that acknowledges its address and nothing else."""

    def write(self, data):
        raise Nack

    def read(self, length):
        raise Nack


UPPER, LOWER = SensorConfig("bme280", 1, 0x77), SensorConfig("bme280", 1, 0x76)
MOVED = "0x76 answers: it may be this part, with its address pin the other way"
ABSENT = "does not answer: check power (3V3), SDA and SCL not swapped, pull-ups, and the part's address pin"


@pytest.mark.parametrize(
    ("answering", "sensors", "fix"),
    [
        ([], {}, "nothing at all answers on i2c-1: check 3V3 and ground, SDA and SCL swapped, pull-ups"),
        (range(0x08, 0x78), {}, "every address answers on i2c-1: SDA is held low; check for a short circuit"),
        ([0x76], {}, MOVED),
        ([0x23, 0x76], {}, MOVED),
        ([0x76], {"attic": LOWER}, "on i2c-1 answer: 0x76"),
        ([0x76], {"attic": SensorConfig("bmp180", 2, 0x77)}, MOVED),
        ([0x23], {}, "on i2c-1 answer: 0x23"),
        ([0x20, 0x21, 0x40], {}, "on i2c-1 answer: 0x20, 0x21, 0x40"),
    ],
)
def test_who_else_answers_says_what_a_silent_part_may_mean(tmp_path, answering, sensors, fix):
    board = SimBoard(script=Script({}, {}))
    board.i2c(1).parts |= {address: Refuser() for address in answering}
    found = list(examine_board(board, Config(home=tmp_path, sensors={"porch": UPPER, **sensors})))
    assert of(found, "porch") == [
        CheckResult("bad", "porch", f"temperature not available: 0x77 on /dev/i2c-1 {ABSENT}", fix)
    ]


def test_a_bus_that_fails_as_it_is_searched_helps_nobody():
    board = SimBoard(script=Script({}, {}))
    board.wiring.faults.append(SimFault("stuck", "i2c-1"))
    assert bus_access.explain_silence(board, WiredPart("bme280", 1, 0x76), [0x77]) == ""
    assert bus_access.explain_silence(board, WiredPart("bme280", 7, 0x76), [0x77]) == ""


def test_a_part_that_is_another_is_not_called_silent(tmp_path):
    board = SimBoard(script=Script({}, {}))
    board.i2c(1).parts[0x77] = Recorder(fill=0x11)
    (row,) = of(examine_board(board, Config(home=tmp_path, sensors={"porch": UPPER})), "porch")
    assert (row.status, row.fix) == ("bad", "")


# --- the declared outputs ---

PUMP = '[outputs.pump]\nline = "GPIO17"\nkind = "pump"\nlongest_on_s = 10\n'
LAMP = '[outputs.lamp]\nline = "GPIO22"\nkind = "light"\nlongest_on_s = 10\n'


def outputs(home):
    return of(examine_board(SimBoard(), Config(home=home)), "outputs")


def test_no_outputs_are_no_row(tmp_path):
    assert outputs(tmp_path) == []


def test_a_declaration_that_is_broken(tmp_path):
    path = tmp_path / "outputs.toml"
    path.write_text(PUMP.replace("pump", "heater") + LAMP)
    bad, dry = outputs(tmp_path)
    assert (bad.status, bad.fix) == ("bad", f"correct {path}; until then nothing can be switched on")
    assert bad.detail.startswith(f"{path}: [outputs.heater]: kind heater needs independent_cutoff = true")
    assert dry == CheckResult("note", "outputs", "not armed, dry run only: lamp", "picoclaw outputs arm lamp")


def test_a_file_of_outputs_that_is_no_toml(tmp_path):
    (tmp_path / "outputs.toml").write_text("[outputs.pump\n")
    (row,) = outputs(tmp_path)
    assert row.status == "bad"
    assert "outputs.toml is not valid TOML" in row.detail


@pytest.mark.parametrize(
    ("armed", "rows"),
    [
        ([], [CheckResult("note", "outputs", "not armed, dry run only: pump, lamp", "picoclaw outputs arm pump")]),
        (["pump"], [CheckResult("note", "outputs", "not armed, dry run only: lamp", "picoclaw outputs arm lamp"), CheckResult("good", "outputs", "pump can be switched")]),
        (["pump", "lamp"], [CheckResult("good", "outputs", "pump, lamp can be switched")]),
    ],
)  # fmt: skip
def test_a_dry_run_is_told_from_what_can_be_switched(tmp_path, armed, rows):
    (tmp_path / "outputs.toml").write_text(PUMP + LAMP)
    known = config.load_outputs(tmp_path / "outputs.toml").outputs
    config.save_armed(tmp_path, {name: known[name].digest for name in armed})
    assert outputs(tmp_path) == rows


def test_what_was_changed_since_it_was_armed_is_a_dry_run_again(tmp_path):
    path = tmp_path / "outputs.toml"
    path.write_text(PUMP)
    config.save_armed(tmp_path, {"pump": config.load_outputs(path).outputs["pump"].digest})
    path.write_text(PUMP.replace("10", "11"))
    assert [row.status for row in outputs(tmp_path)] == ["note"]

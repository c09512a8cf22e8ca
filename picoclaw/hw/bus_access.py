"""Which buses are on, who may open them, how one is turned on on this very board, and what a silent part may mean.

Raspberry Pi's switches: https://www.raspberrypi.com/documentation/computers/configuration.html (raspi-config nonint)
and the overlays' README in its kernel, arch/arm/boot/dts/overlays/README.
"""

import os
from collections.abc import Iterator, Sequence

from picoclaw.errors import HardwareError, NoPermission
from picoclaw.hw import kernel, loader
from picoclaw.hw.board import Board, SerialPortInfo, find_family
from picoclaw.hw.kernel import CheckResult, bad, good, note
from picoclaw.hw.reading import WiredPart
from picoclaw.records import NamedTuple

_STUCK_BUS_ANSWERS = 100  # so many addresses answer on no real bus


class BusSetup(NamedTuple):
    """How a bus is turned on: raspi-config's word, the line in config.txt, the module that makes the device files."""

    word: str
    line: str
    module: str = ""


_I2C = BusSetup("do_i2c 0", "dtparam=i2c_arm=on", "i2c-dev")
_SPI = BusSetup("do_spi 0", "dtparam=spi=on", "spidev")
_SERIAL = BusSetup("do_serial_hw 0", "enable_uart=1")
_ONEWIRE = BusSetup("do_onewire 0", "dtoverlay=w1-gpio", "w1-gpio")


def check_buses(board: Board) -> Iterator[CheckResult]:
    """Say of each kind of bus whether it can be used, and if not, what turns it on."""
    yield from _check_i2c(board)
    nodes = board.spi_nodes()
    if not nodes:
        yield note("SPI", "no /dev/spidevB.C: the bus is off, or there is none", format_enable_hint(board, _SPI))
    yield from _check_permissions(board, "SPI", [node.path for node in nodes])
    yield from _check_serial(board)
    yield from _check_onewire(board)
    yield from _check_gpio(board)


def _check_i2c(board: Board) -> Iterator[CheckResult]:
    adapters = board.adapters()
    if not adapters:
        yield note("I2C", "no /dev/i2c-N: the bus is off, or there is none", format_enable_hint(board, _I2C))
    elif _is_pi(board) and not any(adapter.header for adapter in adapters):
        yield note(
            "I2C", "the pin header's bus is off; the others belong to the board", format_enable_hint(board, _I2C)
        )
    for adapter in adapters:
        try:
            board.i2c(adapter.number)
        except NoPermission:
            yield from _check_permissions(board, f"i2c-{adapter.number}", [adapter.path])
            continue
        except HardwareError as error:
            yield bad(f"i2c-{adapter.number}", str(error))
            continue
        where = " on the pin header" if adapter.header else f", {adapter.use}" if adapter.use else ""
        yield good(f"i2c-{adapter.number}", f"{adapter.name}{where}")


def _check_serial(board: Board) -> Iterator[CheckResult]:
    ports = board.ports()
    if not ports:
        yield note("serial", "no serial port", format_enable_hint(board, _SERIAL))
    for port in ports:
        if port.used_by:
            yield note("serial", f"{port.path} is used by {port.used_by}", _explain_port_release(board, port))
    yield from _check_permissions(board, "serial", [port.path for port in ports if not port.used_by])


def _explain_port_release(board: Board, port: SerialPortInfo) -> str:
    """Say how to take a port away from the console or a login prompt."""
    name = port.path.removeprefix("/dev/")
    if _is_pi(board):
        return "sudo raspi-config nonint do_serial_cons 1   (then reboot)"
    if "login" in port.used_by:
        return f"sudo systemctl disable --now serial-getty@{name}"
    return f"take console={name} from the kernel's command line"


def _check_onewire(board: Board) -> Iterator[CheckResult]:
    parts = [path.rpartition("/")[2] for path in board.glob("/sys/bus/w1/devices/[0-9a-f][0-9a-f]-*")]
    if not parts and not board.glob("/sys/bus/w1/devices/w1_bus_master*"):
        yield note("1-Wire", "the kernel has no 1-Wire bus", format_enable_hint(board, _ONEWIRE))
    elif parts:
        yield good("1-Wire", ", ".join(parts))
    else:
        check = "check the 4.7 kΩ resistor from data to 3V3, and that data is on GPIO4"
        yield note("1-Wire", "the bus is on and no part answers", check)


def _check_gpio(board: Board) -> Iterator[CheckResult]:
    paths = [chip.path for chip in board.gpio_chips()]
    nodes = board.glob("/dev/gpiochip*")
    closed = [path for path in nodes if not board.may_open(path)]
    if nodes and not paths and not closed:
        yield bad("GPIO", f"{nodes[0]} may not be opened", "allow it to the service or the container (DeviceAllow)")
    elif not paths and not closed:
        yield note("GPIO", "no /dev/gpiochipN: this kernel shows no GPIO controller")
    yield from _check_permissions(board, "GPIO", [*paths, *closed])
    for path in board.glob("/sys/module/pinctrl_*/parameters/persist_gpio_outputs"):
        if kernel.read_text(board, path) == "Y":
            yield note(
                "GPIO",
                "a line keeps its level after the process that drove it has died (persist_gpio_outputs=Y)",
                "declare outputs in outputs.toml, and let the service end with `picoclaw outputs safe`",
            )


def _check_permissions(board: Board, what: str, paths: Sequence[str]) -> Iterator[CheckResult]:
    """Say which device files this user may open, without opening any: a serial port's lines would move."""
    closed = [path for path in paths if not board.may_open(path)]
    for path in closed:
        yield bad(what, f"{path} may not be opened by this user", _explain_access(path))
    if usable := [path for path in paths if path not in closed]:
        yield good(what, ", ".join(usable))


def _explain_access(path: str) -> str:
    """Say how this user may open a device file: by its group, or by a rule that gives it one."""
    import grp

    family = find_family(path)
    try:
        owner = grp.getgrgid(os.stat(path).st_gid).gr_name  # noqa: PTH116
    except (OSError, KeyError):
        owner = family.group if family else "root"
    if owner == "root":
        group = family.group if family else "plugdev"
        return f"only root may open it: give it the group {group} with a rule in /etc/udev/rules.d"
    return f"sudo usermod -aG {owner} $USER   (then log in again)"


def _is_pi(board: Board) -> bool:
    return kernel.read_model(board).startswith("Raspberry Pi")


def format_enable_hint(board: Board, switch: BusSetup) -> str:
    """Say the command or line that turns a bus on, on this board."""
    if board.simulated:
        return "name a part for it in sim.toml"
    if not _is_pi(board):
        tool = "sudo armbian-config" if board.glob("/etc/armbian-release") else "the board's own set-up tool"
        module = f", then sudo modprobe {switch.module}" if switch.module else ""
        return f"turn it on in the device tree ({tool}){module}"
    files = board.glob("/boot/firmware/config.txt") or board.glob("/boot/config.txt") or ["/boot/firmware/config.txt"]
    try:
        set_already = _parse_config_txt(switch.line).items() <= _parse_config_txt(board.text(files[0])).items()
    except HardwareError:
        set_already = False
    if not set_already:
        return f"sudo raspi-config nonint {switch.word}   (or {switch.line} in {files[0]}, and a reboot)"
    if switch.module:
        return f"{files[0]} has {switch.line}: reboot, or sudo modprobe {switch.module}"
    return f"{files[0]} has {switch.line}: reboot"


def _parse_config_txt(text: str) -> dict[str, str]:
    """Take config.txt apart: a `dtparam` line may hold several settings, and the last of two counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, _, rest = line.partition("#")[0].replace(" ", "").partition("=")
        if key == "dtparam":
            for part in rest.split(","):
                name, _, value = part.partition("=")
                found[f"dtparam={name}"] = value or "on"
        elif key == "dtoverlay":
            found[f"dtoverlay={rest.partition(',')[0]}"] = ""
        elif key:
            found[key] = rest
    return found


def explain_silence(board: Board, part: WiredPart, others: Sequence[int]) -> str:
    """Say what it may mean that an I2C part does not answer, from who else does; nothing when that is no help.

    `others` are the further addresses that the part can have, and that nobody else has been named at.
    """
    try:
        bus = board.i2c(part.bus)
        answering = [address for address in range(0x08, 0x78) if loader.probe(board, bus, address) != "absent"]
    except HardwareError:
        return ""
    where = f"i2c-{part.bus}"
    if not answering:
        return f"nothing at all answers on {where}: check 3V3 and ground, SDA and SCL swapped, pull-ups"
    if len(answering) > _STUCK_BUS_ANSWERS:
        return f"every address answers on {where}: SDA is held low; check for a short circuit"
    if moved := [address for address in others if address in answering]:
        return f"0x{moved[0]:02x} answers: it may be this part, with its address pin the other way"
    return f"on {where} answer: {', '.join(f'0x{address:02x}' for address in answering)}"

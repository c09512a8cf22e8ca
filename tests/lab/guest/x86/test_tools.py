"""Every action of every bus tool, and sensor_add, as the agent calls them, on the guest's device files."""

import re
from datetime import UTC, datetime

import pytest
from conftest import LABEL

from picoclaw.files import find_shipped
from picoclaw.hw import loader
from picoclaw.hw.loader import RegisterAddresses
from picoclaw.messages import Caller, ToolCall
from picoclaw.tools.registry import Toolset
from picoclaw.tools.sensors import SensorAddTool, SensorTools

HW = [find_shipped("tools/hw")]
CALLER = Caller("lab", "owner", datetime.now(UTC), print)


@pytest.fixture
def ask(board, drivers, bridge, pins):
    bridge.place("bme280", "i2c-1/0x76", temperature=25.0)
    bridge.place("mcp3008", "spi0.0", **{"voltage a0": 1.65})
    wired = {}
    group = {name: loader.load_module(name, HW) for name in ("i2c", "spi", "serial", "gpio")}
    tools = Toolset(
        [
            group["i2c"].I2C(board, RegisterAddresses(wired, lambda part: loader.load_driver(part, HW))),
            group["spi"].Spi(board),
            group["serial"].Serial(board),
            group["gpio"].Gpio(board),
            SensorTools(board, wired, drivers, "/"),
            SensorAddTool(board, wired, drivers, HW, lambda name, sensor: None),
        ],
        guard=lambda asked, caller: None,
        journal=lambda call, caller: None,
        longest_result=10_000,
    )
    yield lambda tool, **arguments: tools.call(ToolCall("1", tool, arguments), CALLER)
    bridge.remove("i2c-1/0x76", "spi0.0")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("i2c", {"action": "detect"}, r"(?s).*i2c-0: .*\(the mainboard\)\ni2c-1: picosim"),
        ("i2c", {"action": "scan"}, r"i2c-1: 0x76 answers"),
        ("i2c", {"action": "read", "address": 0x76, "register": 0xD0}, r".*from register 0xd0: 60 "),
        ("i2c", {"action": "read", "address": 0x76, "register": 0xD0, "form": "byte"}, r".*= 96"),
        ("i2c", {"action": "write", "address": 0x76, "register": 0xF5, "data": [0]}, r"wrote f5 00"),
        ("i2c", {"action": "run", "address": 0x76, "script": "write 0xd0, read 1, wait 1, read 2"}, r".*read 60 \(hex"),
        ("i2c", {"action": "read", "address": 0x20}, r"error: 0x20 on /dev/i2c-1 does not answer"),
        ("spi", {"action": "list"}, r"/dev/spidev0\.0: bus 0, chip 0"),
        ("spi", {"action": "transfer", "data": [1, 0x80, 0]}, r".*received ff fa 00"),
        ("spi", {"action": "transfer", "script": "write 1, write 0x80, wait 5us, read 1"}, r".*received"),
        ("spi", {"action": "read", "length": 2}, r".*received ff ff"),
        ("serial", {"action": "list"}, r"(?s).*/dev/ttyS1"),
        ("serial", {"action": "ask", "port": "/dev/ttyS1", "data": "ECHO hello\\n", "baud": 115_200}, r"(?s).*HELLO"),
        ("gpio", {"action": "list", "line": "LED"}, rf"(?s).*{LABEL}:17 LED"),
        ("gpio", {"action": "read", "line": "BUTTON", "bias": "pull-up"}, rf"{LABEL}:4 BUTTON \(input\) is 1"),
        ("gpio", {"action": "watch", "line": "BUTTON", "seconds": 0.05}, r".*no edge"),
        ("gpio", {"action": "count", "line": "BUTTON", "seconds": 0.05}, r".*0 edges"),
        ("gpio", {"action": "set", "line": "LED", "level": "on"}, r"error: .* is not a declared output"),
    ],
)
def test_an_action(ask, tool, arguments, said):
    answer = ask(tool, **arguments)
    assert re.match(said, answer), answer


def test_a_part_is_found_added_and_read(ask):
    assert ask("sensor_add", name="porch", address=0x76).startswith("added porch: bme280 on i2c-1 at 0x76; it measures")
    assert re.match(r"porch: temperature 25\.0\d °C", ask("sensor_read", sensor="porch"))

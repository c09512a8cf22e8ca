"""The promises that every board keeps (tests/contract.py), on a real kernel as on the simulated board."""

import pytest
from contract import CONTRACT, Bench


@pytest.fixture
def bench(bridge, board, pins):
    bridge.place("bme280", "i2c-1/0x76", temperature=25.0)
    bridge.place("mcp3008", "spi0.0", **{"voltage a0": 1.65})
    (pins / "sim_gpio4/pull").write_text("pull-up")
    yield Bench(board, chip="pinctrl-lab")
    bridge.remove("i2c-1/0x76", "spi0.0")


@pytest.mark.parametrize("promise", CONTRACT)
def test_promise(bench, promise):
    CONTRACT[promise](bench)

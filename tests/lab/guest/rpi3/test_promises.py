"""The promises that every board keeps (tests/contract.py), as far as QEMU's Raspberry Pi has what they need."""

import pytest
from contract import Bench, kept

BENCH = Bench(None, bus=None, spi=None, chip="pinctrl-bcm2835", line_out=17, line_in=4, port="/dev/ttyAMA0")
PROMISES = kept(BENCH)
del PROMISES["gpio_reads_a_line"]  # QEMU has no pull-ups


@pytest.mark.parametrize("promise", PROMISES)
def test_promise(board, promise):
    PROMISES[promise](BENCH._replace(board=board))

"""Outputs on the Pi's own GPIO controller, whose lines keep their level when the process that drove them dies."""

import subprocess
from contextlib import closing
from pathlib import Path

import lab_outputs
import pytest

from picoclaw.errors import BusFault

CHIP, PUMP = "pinctrl-bcm2835", 17
DEBUG = Path("/sys/kernel/debug")


@pytest.fixture
def level(board):
    """The level of the line: of a held one as the kernel shows it, of a free one by taking it as it is."""
    if not (DEBUG / "gpio").exists():
        subprocess.run(["mount", "-t", "debugfs", "debugfs", DEBUG], check=True)

    def read():
        rows = (DEBUG / "gpio").read_text().splitlines()
        held = [row for row in rows if f"GPIO{PUMP} " in row and "|picoclaw" in row]
        if held:
            return int(held[0].split(")")[1].split()[1] == "hi")
        try:
            with closing(board.line_in(CHIP, PUMP)) as line:
                return line.get()
        except BusFault:  # somebody has just taken it
            return -1

    return read


@pytest.mark.parametrize("victim", lab_outputs.VICTIMS)
def test_a_sudden_death_leaves_nothing_on(tmp_path, victim, level, record_property):
    home = lab_outputs.home(tmp_path, CHIP, PUMP)
    starting, took = lab_outputs.kill(home, victim, level)
    record_property("on afterwards, ms", round(took * 1000))
    assert took < lab_outputs.longest(starting)

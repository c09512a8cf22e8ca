"""Fixtures of the x86 guest's tests."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest

CONFIGURATION = Path("/sys/kernel/config/gpio-sim/lab")
NAMES = {4: "BUTTON", 17: "LED"}
LABEL = "pinctrl-lab"


@pytest.fixture(scope="session")
def pins() -> Iterator[Path]:
    """A GPIO chip of 28 lines; its outside is a folder, in which pulls are set and levels are seen."""
    lab.modprobe("gpio-sim")
    if not CONFIGURATION.parent.exists():
        subprocess.run(["mount", "-t", "configfs", "configfs", "/sys/kernel/config"], check=True)
    bank = CONFIGURATION / "bank0"
    bank.mkdir(parents=True)
    (bank / "num_lines").write_text("28")
    (bank / "label").write_text(LABEL)
    for offset, name in NAMES.items():
        (bank / f"line{offset}").mkdir()
        (bank / f"line{offset}/name").write_text(name)
    (CONFIGURATION / "live").write_text("1")
    chip = (bank / "chip_name").read_text().strip()
    yield Path("/sys/devices/platform") / (CONFIGURATION / "dev_name").read_text().strip() / chip
    (CONFIGURATION / "live").write_text("0")

"""A GPIO chip of 28 simulated lines, made by a test or, as the first thing after a power cut, by systemd."""

import subprocess
from pathlib import Path

import lab

CONFIGURATION = Path("/sys/kernel/config/gpio-sim/lab")
NAMES = {4: "BUTTON", 17: "LED"}
LABEL = "pinctrl-lab"
UNIT = """[Unit]
Description=A board that has its pins when picoclaw starts
Before=picoclaw.service

[Service]
Type=oneshot
RemainAfterExit=yes
StandardError=journal+console
WorkingDirectory=/run/job/tests/lab/guest
ExecStart=/usr/bin/python3 -B lab_pins.py

[Install]
WantedBy=multi-user.target
"""


def make() -> Path:
    """Make it; returns the folder that is its outside, in which pulls are set and levels are seen."""
    lab.modprobe("gpio-sim")
    # udev asks systemd for the same mount when the module comes: one of them is to make it, and only once
    subprocess.run(["systemctl", "start", "sys-kernel-config.mount"], check=True)
    lab.wait_for(CONFIGURATION.parent.exists, "configfs is there", 30.0)
    bank = CONFIGURATION / "bank0"
    bank.mkdir(parents=True)
    (bank / "num_lines").write_text("28")
    (bank / "label").write_text(LABEL)
    for offset, name in NAMES.items():
        (bank / f"line{offset}").mkdir()
        (bank / f"line{offset}/name").write_text(name)
    (CONFIGURATION / "live").write_text("1")
    return outside()


def outside() -> Path:
    """Find the one that was made."""
    chip = (CONFIGURATION / "bank0/chip_name").read_text().strip()
    return Path("/sys/devices/platform") / (CONFIGURATION / "dev_name").read_text().strip() / chip


def remove() -> None:
    """Take it away."""
    (CONFIGURATION / "live").write_text("0")


if __name__ == "__main__":
    make()

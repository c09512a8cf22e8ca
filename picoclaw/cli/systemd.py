"""Where the files of a service lie, and how systemd is asked about it."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from picoclaw.cli.common import printable
from picoclaw.errors import ConfigError

UNIT, DROP_IN = "picoclaw.service", "picoclaw.service.d/10-machine.conf"
NO_SYSTEMD = "{} is not here: where another program starts the services, let it start `picoclaw run`"


class Place(NamedTuple):
    """One of the two managers: the machine's, or the user's own, and the folder of its units."""

    folder: Path
    user: tuple[str, ...] = ()

    @property
    def installed(self) -> bool:
        """Tell whether there is a unit."""
        return (self.folder / UNIT).exists()

    def drop_in(self, name: str) -> Path:
        """Name the file of what is so on this machine."""
        return self.folder / f"{name}.d/10-machine.conf"


def systemctl(place: Place, *words: str, more: str = "") -> str:
    """Run systemctl; returns what it printed. Raises ConfigError; `more` is the command that shows more of why."""
    return do("systemctl", *place.user, *words, more=more)


def do(*command: str, more: str = "") -> str:
    """Run a program of systemd's; raises ConfigError with its own first words when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        raise ConfigError(NO_SYSTEMD.format(command[0])) from None
    if done.returncode:
        raise ConfigError(_failed(command, done.stderr.strip() or done.stdout.strip(), more))
    return done.stdout


def _failed(command: Sequence[str], words: str, more: str) -> str:
    why = words.splitlines()[0].rstrip(".") if words else "it did not say why"
    return printable(f"`{' '.join(command)}` failed: {why}{f'; `{more}` shows more' if more else ''}")

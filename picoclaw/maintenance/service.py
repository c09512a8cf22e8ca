"""The service as an update meets it: whether it runs, stopping and starting it, and whether it has stayed up."""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from picoclaw.maintenance.errors import MaintenanceError

UNIT_NAME = "picoclaw.service"
_TIMEOUT_S = 180.0


class Service(NamedTuple):
    """A unit: the system's, or this user's own."""

    scope: tuple[str, ...]

    def do(self, act: str) -> None:
        """`stop` or `start` it; returns when it says that it is ready. Raises CareError with systemd's words."""
        code, said = _run_systemctl(*self.scope, act, UNIT_NAME)
        if code:
            how = " ".join(("systemctl", *self.scope, act, UNIT_NAME))
            raise MaintenanceError(f"`{how}` failed: {said.strip() or f'exit code {code}'}")

    def runs(self) -> bool:
        """Tell whether it runs just now."""
        return _run_systemctl(*self.scope, "is-active", UNIT_NAME)[0] == 0

    def restarts(self) -> int:
        """Count how often systemd has started it anew; -1 when it does not run."""
        code, said = _run_systemctl(*self.scope, "show", UNIT_NAME, "-p", "ActiveState", "-p", "NRestarts")
        found = dict(line.partition("=")[::2] for line in said.splitlines())
        return int(found.get("NRestarts", "0") or 0) if code == 0 and found.get("ActiveState") == "active" else -1

    def starts(self, *paths: str) -> bool:
        """Tell whether its command is one of these, or lies below one: another installation's is none of ours."""
        _, said = _run_systemctl(*self.scope, "show", UNIT_NAME, "-p", "ExecStart")
        return any(re.search(rf"path={re.escape(path)}[/ ;]", said) for path in paths if path)

    def home(self) -> str:
        """Return PICOCLAW_HOME as the unit's file sets it, empty when it does not."""
        _, said = _run_systemctl(*self.scope, "show", UNIT_NAME, "-p", "Environment")
        found = re.search(r"\bPICOCLAW_HOME=(\S+)", said)
        return found[1] if found else ""


def find_installed_unit() -> Path | None:
    """Return the file of the unit that there is, the system's before this user's own."""
    own = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return next(
        (path for path in (Path("/etc/systemd/system") / UNIT_NAME, own / "systemd/user" / UNIT_NAME) if path.exists()),
        None,
    )


def find_service(*paths: str) -> Service | None:
    """Return the unit, running or not, that starts one of these programs, or one below these folders."""
    return next((unit for unit in (Service(()), Service(("--user",))) if unit.starts(*paths)), None)


def find_running_service() -> Service | None:
    """Return the unit that runs just now, if any."""
    return next((unit for unit in (Service(()), Service(("--user",))) if unit.runs()), None)


def _run_systemctl(*words: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            ("systemctl", *words), capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout + done.stderr

"""Commands: whether the walls that they are run in can be made, by making some, and whether the service can too."""

import os
from collections.abc import Iterator
from pathlib import Path

from picoclaw.care import service
from picoclaw.config import Config
from picoclaw.doctor.installed import stale
from picoclaw.errors import PicoclawError
from picoclaw.hw.health import Row
from picoclaw.resources import shipped
from picoclaw.tools.shell import Shell

_WHAT = "commands"
_DOOR, _COMMANDS = "picoclaw-exec.socket", "picoclaw-exec@.service"
_SWITCHES = (
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
)
"""What keeps a user who is not root from making name spaces, and what to set it to."""


def examine(config: Config, root: Path = Path("/")) -> Iterator[Row]:
    """Run a command that does nothing; silent where commands are off, or before there is a workspace."""
    if config.tools.exec == "off" or not config.workspace.is_dir():
        return
    if unit := service.installed():
        yield from _of_the_service(unit)
    try:
        said = Shell(config.workspace, os.environ).exec(["true"], timeout=10)
    except PicoclawError as error:
        yield Row("bad", _WHAT, str(error), mend(root))
        return
    if said == "[exit code 0]":
        yield Row("good", _WHAT, "they run within walls of their own; without `write` or `network` they change nothing")
    else:
        yield Row("bad", _WHAT, f"`true` did not do well within the walls: {said}", mend(root))


def _of_the_service(unit: Path) -> Iterator[Row]:
    """Look at the two units beside the service's own, which is not allowed to make walls."""
    system = unit.is_relative_to("/etc")
    install = "sudo picoclaw service install" if system else "picoclaw service install --user"
    for name in (_DOOR, _COMMANDS):
        file, template = unit.parent / name, name if system else name.replace("picoclaw-", "user-")
        if not file.exists():
            yield Row("bad", _WHAT, f"{file} is not there, and without it the service runs none", install)
            return
        if problem := stale(file, shipped("systemd") / template):
            yield Row("note", _WHAT, problem, install)
    door = Path("/run" if system else os.environ.get("XDG_RUNTIME_DIR") or "/run", "picoclaw/exec.sock")
    if not door.exists():
        user = "sudo systemctl" if system else "systemctl --user"
        yield Row("bad", _WHAT, f"{_DOOR} is not active, and without it the service runs none", f"{user} start {_DOOR}")


def mend(root: Path) -> str:
    """Say what lets walls be made."""
    for path, closed, setting in _SWITCHES:
        file = root / path.lstrip("/")
        if file.exists() and file.read_text(encoding="ascii").strip() == closed:
            return f"echo {setting} | sudo tee /etc/sysctl.d/60-picoclaw.conf, then sudo sysctl --system"
    return "sudo apt install bubblewrap"

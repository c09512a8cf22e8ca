"""Makes everything safe without a supervisor: what the watchdog does when the worker is gone, and a person by `stop`."""

import contextlib
from pathlib import Path

from picoclaw.errors import ConfigError
from picoclaw.hw import drivers
from picoclaw.hw.board import Board
from picoclaw.outputs import audit
from picoclaw.outputs.supervisor.endpoint import LIVE_FILE, STOP_FILE
from picoclaw.outputs.supervisor.leases import load_marker
from picoclaw.outputs.supervisor.lines import make_safe
from picoclaw.outputs.supervisor.plan import OutputPlan


def open_board(kind: str, home: Path) -> Board:
    """Open the board of a kind, `sim` or `linux`; a simulated one keeps its levels in the home folder.

    A script of it that is wrong must keep nothing from going safe.
    """
    if kind == "linux":
        from picoclaw.hw.linux.board import LinuxBoard

        return LinuxBoard()
    from picoclaw.hw.sim import board, scene, script

    try:
        rehearsed = script.load_script(home / scene.SIM_FILE, drivers.list_driver_folders(home))
    except ConfigError:
        rehearsed = scene.DEFAULT_SCRIPT
    return board.SimBoard(script=rehearsed, state=home / "sim")


def rescue(home: Path, kind: str, why: str, *, stop: bool = False) -> dict[str, str]:
    """Drive the armed outputs of a board, and those that were left on, each on its own board, to their safe levels.

    Returns what went wrong by name. An armed output that is not there was never on.
    """
    left = load_marker(home)
    problems: dict[str, str] = {}
    for each in dict.fromkeys([left.board or kind, kind]):
        board = open_board(each, home)
        outputs = {}
        if each == kind:
            declared = OutputPlan(home, board)
            declared.load()
            outputs = declared.usable()
        if each == (left.board or kind):
            outputs |= {output.name: output for output in left.outputs}
        problems |= make_safe(board, home, outputs.values())
        board.close()
    if stop:
        with contextlib.suppress(OSError):
            (home / STOP_FILE).touch(mode=0o600)
    with contextlib.suppress(OSError):
        names = [output.name for output in left.outputs]  # those that may have been driven
        audit.write_record(home, "unsafe" if problems else "rescue", why=why, left=names, problems=[*problems.values()])
    if not problems:
        with contextlib.suppress(OSError):
            (home / LIVE_FILE).unlink(missing_ok=True)
    return problems

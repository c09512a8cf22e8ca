"""Makes everything safe without a keeper: what the watch does when the hands are gone, and a person by `stop`."""

import contextlib
from pathlib import Path

from picoclaw.errors import ConfigError
from picoclaw.hw import loader
from picoclaw.hw.board import Board
from picoclaw.reflex import audit, declared
from picoclaw.reflex.declared import Output
from picoclaw.reflex.keeper import wiring
from picoclaw.reflex.keeper.leases import marked
from picoclaw.reflex.keeper.lines import make_safe
from picoclaw.reflex.keeper.place import LIVE, STOP
from picoclaw.workspace import outputs_file


def open_board(kind: str, home: Path) -> Board:
    """Open the board of a kind, `sim` or `linux`; a simulated one keeps its levels in the home folder.

    A script of it that is wrong must keep nothing from going safe.
    """
    if kind == "linux":
        from picoclaw.hw.linux.board import LinuxBoard

        return LinuxBoard()
    from picoclaw.hw.sim import board, script

    try:
        rehearsed = script.load(home / script.NAME, loader.folders(home))
    except ConfigError:
        rehearsed = script.DEFAULT
    return board.SimBoard(script=rehearsed, state=home / "sim")


def rescue(home: Path, kind: str, why: str, *, stop: bool = False) -> dict[str, str]:
    """Drive the armed outputs of a board, and those that were left on, each on its own board, to their safe levels.

    Returns what went wrong by name. An armed output that is not there was never on.
    """
    left = marked(home)
    problems: dict[str, str] = {}
    for each in dict.fromkeys([left.board or kind, kind]):
        board = open_board(each, home)
        outputs = _armed(board, home) if each == kind else {}
        if each == (left.board or kind):
            outputs |= {output.name: output for output in left.outputs}
        problems |= make_safe(board, home, outputs.values())
        board.close()
    if stop:
        with contextlib.suppress(OSError):
            (home / STOP).touch(mode=0o600)
    with contextlib.suppress(OSError):
        names = [output.name for output in left.outputs]  # those that may have been driven
        audit.write(home, "unsafe" if problems else "rescue", why=why, left=names, problems=[*problems.values()])
    if not problems:
        with contextlib.suppress(OSError):
            (home / LIVE).unlink(missing_ok=True)
    return problems


def _armed(board: Board, home: Path) -> dict[str, Output]:
    known = declared.load(outputs_file(home))
    digests, faults = declared.armed(home), wiring.check(board, home, known).faults
    return {n: output for n, output in known.outputs.items() if digests.get(n) == output.digest and n not in faults}


def undriven(home: Path) -> str:
    """Say which outputs were left alone, because nobody has armed them."""
    return declared.undriven(home, declared.load(outputs_file(home)).outputs)

"""How the house is, as data: from the running daemon, or from the database alone. See lines.py for the words."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from picoclaw import __version__
from picoclaw.daemon.memory import MEGABYTE, held, leaks, most
from picoclaw.errors import HardwareError, StoreError
from picoclaw.hw import health
from picoclaw.hw.board import Board
from picoclaw.redact import Redactor
from picoclaw.reflex.keeper import place
from picoclaw.reflex.outputs import worded
from picoclaw.store.beats import Beats
from picoclaw.store.database import Database
from picoclaw.store.inbox import Inbox
from picoclaw.store.jobs import Jobs
from picoclaw.store.ledger import standing
from picoclaw.store.outbox import Outbox
from picoclaw.tools.job_times import row, upcoming
from picoclaw.untrusted import shown

_NEXT_JOBS = 3
_KEEPER_S = 0.3
_LEFT_ON = "something may have been left on, and no keeper looks after it: `picoclaw outputs safe`"
_LEAST_FREE = 100 * MEGABYTE
Status = dict[str, Any]


def house(board: Board, home: Path, database: Database | None, now: datetime) -> Status:
    """Say what can be known without a daemon: clock, disk, jobs, what waits, the last heartbeat, the outputs."""
    clock = next(line for line in health.status(board, now, str(home)) if line.what == "clock")
    out: Status = {
        "version": __version__,
        "board": health.model(board),
        "simulated": board.simulated,
        "clock": {"text": clock.how, "good": clock.mark == "good"},
        "outputs": (found := outputs(home)),
        "output_lines": list(worded(found)),
        "problems": [],
    } | _disk(board, home)
    if database:
        try:
            out |= _kept(database, now)
        except StoreError as error:
            out["problems"].append(str(error))
    if clock.mark == "bad":
        out["problems"].append(f"clock: {clock.how}")
    if out.get("disk_free_mb", _LEAST_FREE) * MEGABYTE < _LEAST_FREE:
        out["problems"].append(f"disk: only {out['disk_free_mb']} MB are free")
    out["problems"] += _faults(out["outputs"])
    return out


def _disk(board: Board, home: Path) -> Status:
    with suppress(HardwareError):
        space = board.space(str(home))
        return {"disk_free_mb": space.free // MEGABYTE, "disk_total_mb": space.total // MEGABYTE}
    return {}


def _kept(database: Database, now: datetime) -> Status:
    """What the database says."""
    found = []
    for job in Jobs(database).all():
        due: Sequence[datetime] = ()
        with suppress(ValueError):  # a zone that is not known here
            due = upcoming(job, now, 1) if job.enabled else ()
        found.append((due[0].timestamp() if due else float("inf"), row(job, now), job.session))
    beats = Beats(database).today(now)
    last = beats.last
    return {
        "jobs": len(found),
        "next_jobs": [{"text": text, "session": session} for at, text, session in sorted(found)[:_NEXT_JOBS]],
        "letters": len(Outbox(database).waiting()),
        "inbox": len(Inbox(database).waiting()),
        "heartbeat": {"at": last.at, "outcome": last.outcome, "tokens_today": beats.tokens} if last else None,
        "costs": standing(database, now.date().isoformat())._asdict(),
    }


def outputs(home: Path) -> Status:
    """Ask the keeper of the outputs, if one lives; none is started for that."""
    if not (home / place.LOCK).exists() or not (connection := place.connect(home, _KEEPER_S)):
        stopped = "by a person" if (home / place.STOP).exists() else ""
        return {"stopped": stopped, "outputs": [], "problems": [_LEFT_ON] if (home / place.LIVE).exists() else []}
    with connection, suppress(OSError, ValueError):
        answer = place.exchange(connection, {"do": "list"}, _KEEPER_S)
        return {name: answer.get(name) or empty for name, empty in (("stopped", ""), ("outputs", []), ("problems", []))}
    return {"stopped": "", "outputs": [], "problems": ["the keeper of the outputs does not answer"]}


def _faults(found: Mapping[str, Any]) -> list[str]:
    unsafe = [f"{one['name']} could not be brought to its safe level" for one in found["outputs"] if one["unsafe"]]
    return [f"outputs: {problem}" for problem in [*found["problems"], *unsafe]]


class Live:
    """What only the daemon itself knows; `note` is its log, of which the last lines are shown."""

    def __init__(
        self, *, safe: bool, limit: int, show: Callable[[str], None], redact: Callable[[str], str] | None = None
    ) -> None:
        """`safe`: only chat and status are run; `limit`: bytes of memory; `show` prints a line of the log.

        `redact` takes the secrets out of it, None those that look like one.
        """
        self.safe, self._show, self._redact = safe, show, redact or Redactor()
        self.limits = most(limit)
        self.since = time.time()
        self._lines: list[tuple[float, str, bool]] = []

    def note(self, text: str, *, trouble: bool = True) -> None:
        """Log a line, of something that went wrong unless it says otherwise; from any thread."""
        plain = self._redact(shown(text))
        self._lines = [*self._lines[-9:], (time.time(), plain, trouble)]
        self._show(plain)

    def status(self, channels: Mapping[str, Mapping[str, Any]], model: Status, late: Sequence[str]) -> Status:
        """Say it, with what is wrong."""
        down = [f"{name} is down: {one['error']}" for name, one in channels.items() if not one["up"]]
        frozen = [f"the {thread} thread is frozen" for thread in late]
        safe = ["safe mode: it has crashed too often; only chat and status are run"] if self.safe else []
        failed = [f"model: {model['error']}"] if model.get("error") and not model["rests"] else []
        now = held()
        if not failed:
            chain = model.get("chain", [])
            failed = [f"model {one['name'] or one['model']}: {one['error']}" for one in chain if one["mend"]]
        return {
            "running": True,
            "pid": os.getpid(),
            "since": self.since,
            "safe_mode": self.safe,
            "channels": channels,
            "model": model,
            "memory_mb": round(now.memory / MEGABYTE, 1),
            "memory_limit_mb": self.limits.memory // MEGABYTE,
            "files": now.files,
            "files_limit": self.limits.files,
            "threads": now.threads,
            "threads_limit": self.limits.threads,
            "log": [{"at": at, "text": text, "trouble": trouble} for at, text, trouble in self._lines],
            "problems": [*safe, *frozen, *down, *failed, *leaks(now, self.limits)],
        }


def joined(live: Status, house_: Status) -> Status:
    """Put both together; `ok` is whether nothing is wrong."""
    problems = [*live.get("problems", []), *house_["problems"]]
    return {"ok": not problems, "running": False} | house_ | live | {"problems": problems}

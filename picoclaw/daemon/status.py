"""How picoclaw is, as data: from the running daemon, or from the database alone; status_text.py has the words."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw import __version__
from picoclaw.daemon.process import MEGABYTE, get_resource_limits, list_exceeded_limits, measure_usage
from picoclaw.errors import HardwareError, StoreError
from picoclaw.hw import kernel
from picoclaw.hw.board import Board
from picoclaw.messages import Turn
from picoclaw.outputs import supervisor
from picoclaw.outputs.client import format_outputs
from picoclaw.providers import BUILT_IN_PROVIDER
from picoclaw.security.redaction import Redactor
from picoclaw.security.untrusted import strip_invisible
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox, Outbox
from picoclaw.store.jobs import Heartbeats, Jobs
from picoclaw.store.ledger import get_day_spending
from picoclaw.text import pattern
from picoclaw.tools.cron import format_row, list_upcoming

if TYPE_CHECKING:
    from picoclaw.providers.model import ModelLink


_MAX_NEXT_JOBS = 3
_SUPERVISOR_TIMEOUT_S = 0.3
_LEFT_ON_WARNING = "an output may still be on, and nothing watches over it: run `picoclaw outputs safe`"
_MIN_FREE_BYTES = 100 * MEGABYTE
StatusDict = dict[str, Any]


def collect_offline_status(board: Board, home: Path, database: Database | None, now: datetime) -> StatusDict:
    """Collect what is known without a daemon: clock, disk, jobs, queues, the last heartbeat, the outputs."""
    clock = next(line for line in kernel.check_health(board, now, str(home)) if line.name == "clock")
    out: StatusDict = {
        "version": __version__,
        "board": kernel.read_model(board),
        "simulated": board.simulated,
        "clock": {"text": clock.detail, "good": clock.status == "good"},
        "outputs": (found := get_outputs_status(home)),
        "output_lines": list(format_outputs(found)),
        "problems": [],
    }
    with suppress(HardwareError):
        space = board.space(str(home))
        out |= {"disk_free_mb": space.free // MEGABYTE, "disk_total_mb": space.total // MEGABYTE}
    if database:
        try:
            out |= _get_database_status(database, now)
        except StoreError as error:
            out["problems"].append(str(error))
    if clock.status == "bad":
        out["problems"].append(f"clock: {clock.detail}")
    if out.get("disk_free_mb", _MIN_FREE_BYTES) * MEGABYTE < _MIN_FREE_BYTES:
        out["problems"].append(f"disk: only {out['disk_free_mb']} MB are free")
    unsafe = [f"{one['name']} could not be brought to its safe level" for one in found["outputs"] if one["unsafe"]]
    out["problems"] += [f"outputs: {problem}" for problem in [*found["problems"], *unsafe]]
    return out


def _get_database_status(database: Database, now: datetime) -> StatusDict:
    found, reminders = [], []
    for job in Jobs(database).all():
        due: Sequence[datetime] = ()
        with suppress(ValueError):  # a zone that is not known here
            due = list_upcoming(job, now, 1) if job.enabled else ()
        found.append((due[0].timestamp() if due else float("inf"), format_row(job, now), job.session))
        reminders += [(due[0].timestamp(), job.payload)] if due and job.kind == "reminder" else []
    beats = Heartbeats(database).today(now)
    last = beats.last
    return {
        "jobs": len(found),
        "next_jobs": [{"text": text, "session": session} for at, text, session in sorted(found)[:_MAX_NEXT_JOBS]],
        "next_reminder": dict(zip(("at", "text"), min(reminders), strict=True)) if reminders else None,
        "outbox": len(Outbox(database).waiting()),
        "inbox": len(Inbox(database).waiting()),
        "heartbeat": {"at": last.at, "outcome": last.outcome, "tokens_today": beats.tokens} if last else None,
        "costs": get_day_spending(database, now.date().isoformat())._asdict(),
    }


def get_outputs_status(home: Path) -> StatusDict:
    """Ask the output supervisor, if one lives; none is started for that."""
    if not (home / supervisor.LOCK_FILE).exists() or not (
        connection := supervisor.connect(home, _SUPERVISOR_TIMEOUT_S)
    ):
        stopped = "by a person" if (home / supervisor.STOP_FILE).exists() else ""
        problems = [_LEFT_ON_WARNING] if (home / supervisor.LIVE_FILE).exists() else []
        return {"stopped": stopped, "outputs": [], "problems": problems}
    with connection, suppress(OSError, ValueError):
        answer = supervisor.exchange(connection, {"do": "list"}, _SUPERVISOR_TIMEOUT_S)
        return {name: answer.get(name) or empty for name, empty in (("stopped", ""), ("outputs", []), ("problems", []))}
    return {
        "stopped": "",
        "outputs": [],
        "problems": [
            "what drives the outputs does not answer; `picoclaw outputs safe` switches all to their safe levels"
        ],
    }


class DaemonStatus:
    """The status that only the daemon knows, with the last lines of its log."""

    def __init__(
        self, *, safe: bool, limit: int, show: Callable[[str], None], redact: Callable[[str], str] | None = None
    ) -> None:
        """`safe`: only chat and status are run; `limit`: bytes of memory; `show` prints a line of the log.

        `redact` takes the secrets out of it, None those that look like one.
        """
        self.safe, self._show, self._redact = safe, show, redact or Redactor()
        self.limits = get_resource_limits(limit)
        self.since = time.time()
        self._lines: list[tuple[float, str, bool]] = []

    def note(self, text: str, *, trouble: bool = True) -> None:
        """Log a line, of something that went wrong unless it says otherwise; from any thread."""
        plain = self._redact(strip_invisible(text))
        self._lines = [*self._lines[-9:], (time.time(), plain, trouble)]
        self._show(plain)

    def status(self, channels: Mapping[str, Mapping[str, Any]], model: StatusDict, late: Sequence[str]) -> StatusDict:
        down = [f"{name} is down: {one['error']}" for name, one in channels.items() if not one["up"]]
        frozen = [f"the {thread} thread is frozen" for thread in late]
        safe = ["safe mode after repeated crashes: only chat and status work"] if self.safe else []
        failed = [f"model: {model['error']}"] if model.get("error") and not model["rests"] else []
        now = measure_usage()
        if not failed:
            chain = model.get("chain", [])
            failed = [f"model {one['name'] or one['model']}: {one['error']}" for one in chain if one["needs_owner"]]
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
            "problems": [*safe, *frozen, *down, *failed, *list_exceeded_limits(now, self.limits)],
        }


def merge_status(live: StatusDict, offline: StatusDict) -> StatusDict:
    """Merge both; `ok` is whether there are no problems."""
    problems = [*live.get("problems", []), *offline["problems"]]
    return {"ok": not problems, "running": False} | offline | live | {"problems": problems}


_PUBLIC_WORDS = pattern(
    r"[\w-]{1,40} is down|the \w{1,20} thread is frozen|clock|disk|outputs|model|store|safe mode|nothing can be saved"
)


def name_troubles(problems: Sequence[str]) -> list[str]:
    """Say of problems what anybody may be told: which part it is, no address, no path and nobody's name."""
    found = (_PUBLIC_WORDS.match(problem) for problem in problems)
    return list(dict.fromkeys(one[0] if one else "see picoclaw status" for one in found))


_NO_MODEL_NOTE = " - answered without a model"


class ModelHealth:
    """Which models answer, learnt from the daemon's turns; changes are logged."""

    def __init__(self, name: str, links: "Sequence[ModelLink]", note: Callable[..., None]) -> None:
        """`name` is that of the usual one, `links` are all that are configured, and `note` writes the log."""
        self._links, self._note = links, note
        self._known: dict[str, Any] = {"name": name, "error": "", "at": 0.0, "rests": False}
        self._by = name

    def note_turn(self, turn: Turn) -> bool:
        """Update from a turn; returns whether a model should have answered it and none did."""
        if not (self._links and turn.steps):
            return False
        well = turn.provider != BUILT_IN_PROVIDER and turn.stopped != "error"
        error = "" if well else turn.notice.text.replace(_NO_MODEL_NOTE, "")
        # whether nothing but the owner's cap is why no model has answered
        rests = bool(error) and all(one["rests"] for one in self._describe() if one["chosen"])
        if bool(error) != bool(self._known["error"]):
            self._note(f"model: {error or 'it answers again'}", trouble=bool(error) and not rests)
        elif well and len(self._links) > 1 and turn.provider != self._by:
            self._note(f"model: {turn.notice.text or f'{turn.provider} answers'}", trouble=bool(turn.notice.text))
        self._known |= {"error": error, "at": time.time(), "rests": rests}
        self._by = turn.provider
        return bool(error)

    def _describe(self) -> list[dict[str, Any]]:
        from picoclaw.providers.model import describe_links

        return describe_links(self._links)

    def status(self) -> dict[str, Any]:
        if not self._links:
            return self._known
        return self._known | {"by": self._by, "chain": self._describe()}

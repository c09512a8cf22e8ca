"""`outputs.audit`: one JSON line for every act and every refusal, each with the hash of the line before it.

When an output was on is read from it (`list_on_times`). It is the only state there is: cooldowns and used duty are read back from it. The chain is security/hash_chain.py's.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

from picoclaw.automation.clock import boottime, read_boot_id
from picoclaw.outputs.limits import OnPeriod
from picoclaw.records import NamedTuple
from picoclaw.security import hash_chain

AUDIT_FILE = "outputs.audit"
MAX_SIZE = 1_000_000
MAX_FILES = 8
_FAR_FUTURE_S = 1e10
History = dict[str, list[OnPeriod]]


class OnTime(NamedTuple):
    """A time that an output was away from its safe level, by the board's clock; `who` has ordered it."""

    name: str
    began: datetime
    ended: datetime
    who: str
    is_on: bool = False


def write_record(home: Path, act: str, **more: Any) -> None:
    """Append a record durably, as `append_records`."""
    append_records(home, [make_record(act, **more)])


def append_records(
    home: Path, made: Sequence[Mapping[str, Any]], history: Mapping[str, Sequence[OnPeriod]] | None = None
) -> None:
    """Append records from `make_record` durably, all or none, with one sync.

    When the file has grown long, a new one is begun with `history` as its first record. A torn last line, which a power cut
    leaves, is taken out of the chain and kept in a record of its own. Raises OSError (also when another process holds the
    lock for too long); then nothing was added.
    """
    with hash_chain.open_chain_end(home / AUDIT_FILE) as end:
        acts = [*([make_record("torn", why=end.torn)] if end.torn else []), *made]
        if history is not None and end.size > MAX_SIZE:
            first = make_record("rotated", history={n: list(map(list, s)) for n, s in history.items()})
            end.rotate([first, *acts], MAX_FILES)
        else:
            end.add(acts)


def make_record(act: str, **more: Any) -> dict[str, Any]:
    """Make the record of an act that happens now; it may be written later."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"at": at, "boot": read_boot_id(), "t": round(boottime(), 3), "act": act, **more}


def read_records(path: Path) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    """Read a file's lines, each with what it says, or None where it says nothing that can be understood."""
    return hash_chain.read_chain(path)


def list_files(home: Path) -> list[Path]:
    """Return what is kept, the oldest first."""
    return hash_chain.list_chain_files(home / AUDIT_FILE, MAX_FILES)


def verify(home: Path) -> tuple[int, str]:
    """Hold every line against the next one's hash; returns how many there are, and the first fault in words.

    That lines are missing at the very end cannot be seen.
    """
    return hash_chain.verify_chain(home / AUDIT_FILE, MAX_FILES)


def replay(home: Path) -> History:
    """Read back what each output did, in seconds of this boot's CLOCK_BOOTTIME; raises OSError.

    What happened before this boot is placed as late as it can have been: the last record of an earlier boot at
    the beginning of the next, so that no clock of the day is needed. A time away from the safe level that nothing
    ended is as long as was asked for, and ended with its boot.
    """
    boots: list[tuple[str, list[dict[str, Any]]]] = []
    for _, said in read_records(home / AUDIT_FILE):
        if said is None or not _is_valid_time(said.get("t")):
            continue
        if not boots or boots[-1][0] != said.get("boot"):
            boots.append((str(said.get("boot")), []))
        boots[-1][1].append(said)
    history: History = {}
    for boot, acts in boots:
        asked = _replay_boot(history, acts)
        if boot != read_boot_id():
            last = max(float(said["t"]) for said in acts)
            for name, periods in history.items():
                if periods and periods[-1].ended is None:
                    periods[-1] = OnPeriod(min(periods[-1].began, last - asked.get(name, 0.0)), last)
                periods[:] = [OnPeriod(s.began - last, None if s.ended is None else s.ended - last) for s in periods]
    return history


def _is_valid_time(t: object) -> bool:
    return isinstance(t, int | float) and 0 <= t < _FAR_FUTURE_S


def _replay_boot(history: History, acts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Add the records of one boot; returns how long each open period may have lasted."""
    asked: dict[str, float] = {}
    for said in acts:
        act, name, t = said.get("act"), str(said.get("name", "")), float(said["t"])
        if act == "rotated":
            history.clear()
            history.update(_parse_history(said.get("history")))
        elif act in {"on", "renew"}:
            asked[name] = float(said.get("seconds", 0))
            periods = history.setdefault(name, [])
            if not periods or periods[-1].ended is not None:
                periods.append(OnPeriod(t))
        elif act in {"off", "safe"}:
            _close_period(history.get(name, []), t)
        elif act == "cancelled":  # it was written down, and not switched on then
            if name in history and history[name] and history[name][-1].ended is None:
                history[name].pop()
        elif act in {"start", "rescue"}:
            for periods in history.values():
                _close_period(periods, t)
    return asked


def list_on_times(home: Path, now: datetime) -> list[OnTime]:
    """List when outputs were on, the oldest first, as far back as the audit goes; the clock may have been wrong then.

    One that nothing ended has ended with the time that was asked for. Raises OSError.
    """
    open_times: dict[str, OnTime] = {}
    done: list[OnTime] = []

    def end(name: str, at: datetime) -> None:
        if running := open_times.pop(name, None):
            done.append(running._replace(ended=max(running.began, min(at, running.ended))))

    for path in list_files(home):
        for _, said in read_records(path):
            if said is None or not isinstance(said.get("at"), str):
                continue
            act, name, at = said.get("act"), str(said.get("name", "")), datetime.fromisoformat(said["at"])
            if act in {"on", "renew"}:
                until = at + timedelta(seconds=float(said.get("seconds", 0)))
                running = open_times.get(name)
                began, who = (running.began, running.who) if running else (at, str(said.get("who", "?")))
                open_times[name] = OnTime(name, began, until, who)
            elif act in {"off", "safe"}:
                end(name, at)
            elif act == "cancelled":
                open_times.pop(name, None)
            elif act in {"start", "rescue"}:
                for one in list(open_times):
                    end(one, at)
    still = [one._replace(ended=min(one.ended, now), is_on=one.ended > now) for one in open_times.values()]
    return sorted([*done, *still], key=attrgetter("began"))


def _close_period(periods: list[OnPeriod], t: float) -> None:
    if periods and periods[-1].ended is None:
        periods[-1] = OnPeriod(periods[-1].began, t)


def _parse_history(history: Any) -> History:
    """What a rotated file's first record says; what is not of its shape is left out."""
    found: History = {}
    for name, periods in history.items() if isinstance(history, dict) else ():
        pairs = periods if isinstance(periods, list) else []
        found[name] = [OnPeriod(*pair) for pair in pairs if isinstance(pair, list) and _is_period(pair)]
    return found


def _is_period(pair: list[Any]) -> bool:
    return len(pair) == 2 and isinstance(pair[0], int | float) and isinstance(pair[1], int | float | None)

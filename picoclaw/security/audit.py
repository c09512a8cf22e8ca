"""`audit.log`: who had what done or refused, by which rule; written before the act, and then its result.

`audit.head` holds the number and hash of the last record, so that a truncated log is noticed. It is not synced: after a
power cut it may be behind, never wrong. Whoever can write both files can forge both; a head noted elsewhere (the service
writes it to the system journal) still reveals that.
"""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from picoclaw.errors import StoreError
from picoclaw.files import explain_os_errors, read_file
from picoclaw.messages import Caller
from picoclaw.records import NamedTuple
from picoclaw.security.policy import CallRequest, Decision, Effect, compute_digest
from picoclaw.security.redaction import Redactor

LOG_NAME, HEAD_NAME, POLICY_NAME = "audit.log", "audit.head", "policy.toml"
MAX_LOG_BYTES, KEPT_FILES = 1_000_000, 8
_LONGEST_SHOWN, _MOST_HEARD, _SHORT = 400, 5, 80
_NO_HASH = "-" * 64
_SAFE_WRITE_WAIT_S = 0.2
_MAX_TEXT_BY_EFFECT: Mapping[Effect, int] = {"remember": 0, "share": 0, "erase": 0, "write": _SHORT, "instruct": _SHORT}
"""Texts over this are not repeated: they lie where their owner can delete them, and the sum tells which they were."""


class AuditHead(NamedTuple):
    """The last record: its number and the hash of its line, or the beginning of the hash."""

    number: int
    sum: str

    def __str__(self) -> str:
        return f"{self.number}:{self.sum[:16]}"


class AuditLog:
    def __init__(self, home: Path, redact: Redactor | None = None) -> None:
        """`redact` knows the configured secrets; what looks like a secret is masked in any case. Opens nothing."""
        self._home, self._redact = home, redact or Redactor()

    def note(self, asked: CallRequest, caller: Caller, decision: Decision, outcome: str) -> None:
        """Log a decision durably before the call is made; allowed reads are left out.

        Raises StoreError, except for switching an output to its safe level: that never waits for the disk.
        """
        if asked.effect == "read" and outcome == "allowed":
            return
        arguments = json.dumps(self._redact.values(_get_loggable_arguments(asked)), ensure_ascii=False)
        more = {"effect": asked.effect, "arguments": arguments, "rule": decision.rule, "outcome": outcome}
        more = {"tool": asked.call.name, "sum": compute_digest(asked)[:16], **more, **self._describe_caller(caller)}
        if asked.effect == "safe":
            writing = threading.Thread(target=self.mention, args=("call",), kwargs=more)
            writing.start()
            writing.join(_SAFE_WRITE_WAIT_S)
        else:
            self.write("call", **more)

    def note_result(self, asked: CallRequest, caller: Caller, problem: str) -> None:
        """Log the result of a call, `problem` '' if it succeeded; errors of the disk are ignored."""
        more = {"session": caller.session, "good": not problem, "problem": problem}
        self.mention("ended", tool=asked.call.name, sum=compute_digest(asked)[:16], **more)

    def write(self, act: str, **more: Any) -> None:
        """Append a record durably; first note a changed policy or a truncated log. Raises StoreError."""
        with explain_os_errors(StoreError, f"{self._home / LOG_NAME} cannot be written"):
            self._write(act, {name: self._shorten(value) for name, value in more.items() if value or value is False})

    def mention(self, act: str, **more: Any) -> None:
        """Append a record, ignoring errors."""
        with contextlib.suppress(StoreError):
            self.write(act, **more)

    def head(self) -> AuditHead | None:
        found = _read_mark(self._home)
        return found[0] if found else None

    def _write(self, act: str, more: Mapping[str, Any]) -> None:
        from picoclaw.security import hash_chain

        with hash_chain.open_chain_end(self._home / LOG_NAME) as end:
            marked, rules = _read_mark(self._home), _hash_policy(self._home)
            number = (hash_chain.parse_record(end.last) or {}).get("n")
            last = AuditHead(number if isinstance(number, int) else 0, hash_chain.hash_line(end.last))
            made: list[dict[str, Any]] = [{"act": "torn", "why": end.torn}] if end.torn else []
            if marked and (lost := _describe_lost(last, marked[0])):
                made.append({"act": "lost", "why": lost})
            if not marked or marked[1] != rules:
                made.append({"act": "policy", "sum": rules[:16]})
            made.append({"act": act, **more})
            number = max(last.number, marked[0].number if marked else 0)
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            records = [{"n": number + place, "at": at, **one} for place, one in enumerate(made, 1)]
            newest = end.rotate(records, KEPT_FILES) if end.size > MAX_LOG_BYTES else end.add(records)
            with contextlib.suppress(OSError):
                _write_mark(self._home, AuditHead(number + len(records), hash_chain.hash_line(newest)), rules)

    def _describe_caller(self, caller: Caller) -> dict[str, Any]:
        heard = sorted(caller.taints)
        shown = [self._shorten(name, _SHORT) for name in heard[:_MOST_HEARD]]
        more = [f"and {len(heard) - _MOST_HEARD} more"] if len(heard) > _MOST_HEARD else []
        who = {"origin": caller.origin, "who": caller.who, "session": caller.session, "task": caller.task}
        return {**who, "heard": shown + more}

    def _shorten(self, value: Any, most: int = _LONGEST_SHOWN) -> Any:
        """Mask secrets before cutting, so that no part of one is left."""
        clean = self._redact.values(value)
        if not isinstance(clean, str) or len(clean) <= most:
            return clean
        return f"{clean[:most]}… ({len(clean)} characters)"


def _get_loggable_arguments(asked: CallRequest) -> dict[str, Any]:
    most = _MAX_TEXT_BY_EFFECT.get(asked.effect)
    given = {name: value for name, value in asked.call.arguments.items() if value != ""}
    if most is None:
        return given
    return {name: f"({len(v)} characters)" if isinstance(v, str) and len(v) > most else v for name, v in given.items()}


def _describe_lost(last: AuditHead, marked: AuditHead) -> str:
    if last.number < marked.number:
        return f"{marked.number} was the last record, and after {last.number} they are gone"
    if last.number == marked.number and last.sum != marked.sum:
        return f"record {last.number} is not what was written"
    return ""


def _hash_policy(home: Path) -> str:
    from picoclaw.security import hash_chain

    try:
        return hash_chain.hash_line(read_file(home / POLICY_NAME, links=False))
    except OSError:
        return _NO_HASH


def _read_mark(home: Path) -> tuple[AuditHead, str] | None:
    """Read the last record and the hash of the policy from audit.head; None if it cannot be read."""

    try:
        number, newest, rules = read_file(home / HEAD_NAME, links=False).decode("ascii").split()
        return AuditHead(int(number), newest), rules
    except (OSError, ValueError):
        return None


def _write_mark(home: Path, head: AuditHead, rules: str) -> None:
    """Always the same length and in place: one block, nothing to truncate."""
    file = os.open(home / HEAD_NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        os.pwrite(file, f"{head.number:012d} {head.sum} {rules}\n".encode(), 0)
    finally:
        os.close(file)


class AuditCheck(NamedTuple):
    """The number of intact records, the last of them, and the first fault ('' for none)."""

    good: int
    head: AuditHead
    fault: str


def verify_audit(
    home: Path, noted: Iterable[AuditHead] = (), progress: Callable[[int, int], None] = lambda _done, _total: None
) -> AuditCheck:
    """Check the hashes, the numbers, audit.head, and heads `noted` elsewhere. `progress`: see verify_chain. Raises OSError."""
    from picoclaw.security import hash_chain

    marked = _read_mark(home)
    wanted = [*noted, *([marked[0]] if marked else [])]
    newest, first = AuditHead(0, ""), 0

    def look(said: Mapping[str, Any], line: bytes) -> str:
        nonlocal newest, first
        number = said.get("n")
        if not isinstance(number, int) or (first and number != newest.number + 1 and said.get("act") != "lost"):
            return f"record {newest.number} is followed by {number}"
        if said.get("act") == "lost":
            return f"record {number} says that {said.get('why')}"
        first, newest = first or number, AuditHead(number, hash_chain.hash_line(line))
        known = (head for head in wanted if head.number == number)
        return "" if all(newest.sum.startswith(head.sum) for head in known) else f"record {number} is another one"

    good, fault = hash_chain.verify_chain(home / LOG_NAME, KEPT_FILES, look, progress)
    return AuditCheck(good, newest, fault or _check_ends(home, first, newest, wanted))


def _check_ends(home: Path, first: int, newest: AuditHead, wanted: Iterable[AuditHead]) -> str:
    last = max((head.number for head in wanted), default=0)
    if last > newest.number:
        return f"{home / LOG_NAME}: {last} was the last record, and after {newest.number} they are gone"
    if first > 1 and not (home / f"{LOG_NAME}.{KEPT_FILES}").exists():
        return f"{home / LOG_NAME}: it begins with record {first}, and the files before it are gone"
    return ""

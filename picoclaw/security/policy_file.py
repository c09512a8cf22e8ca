"""The policy in force: policy.toml as it is now, what was allowed for good, and the settings that affect both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from picoclaw.config.files import read_toml
from picoclaw.errors import ConfigError, StoreError
from picoclaw.records import dataclass, field, replace
from picoclaw.security.policy import (
    Effect,
    ParsedPolicy,
    Policy,
    Verdict,
    VerdictRow,
    parse_policy,
    pick_stricter,
    tighten_policy,
)

if TYPE_CHECKING:
    from picoclaw.store.approvals import Approvals

_UNREAD_STAMP = (-1, -1, -1, -1, -1)


@dataclass
class PolicyLoader:
    """Gives the current policy.

    `approvals()` opens the store of standing approvals, `exec_` is the setting of that name; `rehearses()` allows
    everything on a simulated board.
    """

    file: Path
    approvals: Callable[[], Approvals]
    exec_: str = "allow"
    rehearses: Callable[[], bool] = lambda: False
    _problem: str = ""
    _seen: tuple[int, ...] = _UNREAD_STAMP
    _written: Policy = field(default_factory=Policy)

    def problem(self) -> str:
        """What is wrong with policy.toml, '' for nothing."""
        self.policy()
        return self._problem

    def policy(self) -> Policy:
        """The rules; the file is read again when it has changed. Raises nothing."""
        seen: tuple[int, ...] = ()
        with suppress(OSError):
            now = self.file.stat()
            seen = now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino, now.st_mode
        if seen != self._seen:
            found = load_policy(self.file)
            self._seen, self._written = seen, found.policy
            self._problem = _format_problems(self.file, found.problems)
        effects: dict[Effect, Mapping[str, Verdict]] = dict(self._written.effects)
        tools: dict[str, Mapping[str, Verdict]] = dict(self._written.tools)
        if self.exec_ == "ask":
            tools["exec"], effects["exec"] = (
                {
                    column: pick_stricter(self._written.verdict("exec", tool, column)[0], "ask")
                    for column in VerdictRow._fields
                }
                for tool in ("exec", "")
            )
        if self.rehearses():
            effects["actuate"] = dict.fromkeys(VerdictRow._fields, "allow")
        return replace(self._written, effects=effects, tools=tools, always=_StandingApprovals(self.approvals))


def load_policy(file: Path) -> ParsedPolicy:
    """Read policy.toml; with one that cannot be read, everything that changes something is asked about."""
    try:
        found = parse_policy(read_toml(file))
    except ConfigError as error:
        return ParsedPolicy(tighten_policy(Policy()), (str(error),))
    with suppress(OSError):
        if (mode := file.stat().st_mode) & 0o022:
            others = f"others may write it (mode {mode & 0o777:04o}): chmod 600 {file}"
            return ParsedPolicy(tighten_policy(found.policy), (*found.problems, others))
    return found


def _format_problems(file: Path, problems: tuple[str, ...]) -> str:
    if not problems:
        return ""
    first = problems[0] if str(file) in problems[0] else f"{file}: {problems[0]}"
    more = f" (and {len(problems) - 1} more: see `picoclaw policy`)" if len(problems) > 1 else ""
    return f"{first}{more}; until it is corrected, everything that changes something is asked about"


class _StandingApprovals(Mapping[str, int]):
    """The standing approvals, looked up when needed; none while the disk fails."""

    def __init__(self, approvals: Callable[[], Approvals]) -> None:
        self._approvals = approvals

    def _rules(self) -> dict[str, int]:
        try:
            return {rule.digest: rule.number for rule in self._approvals().always()}
        except StoreError:
            return {}

    def __getitem__(self, exact: str) -> int:
        return self._rules()[exact]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules())

    def __len__(self) -> int:
        return len(self._rules())

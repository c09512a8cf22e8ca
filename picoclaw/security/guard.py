"""Decides on each call: allow, ask a person, or refuse. Nothing that a model says changes that."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.config.files import read_toml
from picoclaw.errors import MEANING_PREFIX, WAITING_FOR_APPROVAL, ConfigError, Denied, Pending, StoreError
from picoclaw.messages import Caller, is_owner
from picoclaw.records import dataclass, field, replace
from picoclaw.security.policy import (
    VERDICTS,
    CallRequest,
    Decision,
    Effect,
    Policy,
    Verdict,
    VerdictRow,
    compute_digest,
    decide,
    join_questions,
    parse_policy,
    pick_stricter,
    tighten_policy,
)
from picoclaw.text import pattern

if TYPE_CHECKING:
    from picoclaw.store.approvals import Approvals

# Besides what Unicode calls not printable: fillers, and marks that change nothing that is seen.
_INVISIBLE_FILLERS = pattern(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]"
)
AskPerson = Callable[[str], bool]
KeepCall = Callable[[CallRequest, Caller, Decision], int]
LogDecision = Callable[[CallRequest, Caller, Decision, str], None]


def discard_decision(_asked: CallRequest, _caller: Caller, _decision: Decision, _outcome: str) -> None: ...


def decide_for(policy: Policy, asked: CallRequest, caller: Caller) -> Decision:
    """Decide on a caller's call; where it is made for somebody else, by the stricter of the rules for both."""
    found = decide(policy, asked, caller.origin, caller.taints, planned=caller.planned)
    if caller.behalf:
        other = decide(policy, asked, caller.behalf, caller.taints, planned=caller.planned)
        found = other if VERDICTS.index(other.verdict) > VERDICTS.index(found.verdict) else found
    return found


class Guard:
    """Decides by what a call does, who asked for the turn, and what the turn has read."""

    def __init__(
        self,
        policy: Callable[[], Policy],
        ask: AskPerson | None = None,
        keep: KeepCall | None = None,
        note: LogDecision = discard_decision,
    ) -> None:
        """`policy()` gives the rules in force, `ask` shows the call to a person at the terminal (None without one).

        `keep` queues a call until it is approved and returns its number. `note` logs the decision, raising StoreError.
        """
        self._policy, self._ask, self._keep, self._note = policy, ask, keep, note

    def __call__(self, asked: CallRequest, caller: Caller) -> bool:
        """Return when the call may run; True if a person has just approved it.

        Raises Denied, naming the rule, or Pending when the call is queued.
        """
        decision = decide_for(self._policy(), asked, caller)
        outcome = self._outcome(asked, caller, decision)
        if asked.effect != "read" or outcome != "allowed":
            self._note(asked, caller, decision, outcome)
        if outcome == "allowed":
            return decision.verdict == "ask"
        name = asked.call.name
        if outcome.startswith("kept"):
            number = outcome.rpartition(" ")[2]
            means = f"{MEANING_PREFIX}{asked.means}" if asked.means else ""
            raise Pending(
                f"{name}{WAITING_FOR_APPROVAL}the owner's yes as number {number} (`/yes {number}`, or"
                f" `picoclaw approvals`; rule {decision.rule}: {decision.why}); it is done when that comes{means}"
            )
        if outcome == "no":
            raise Denied(f"{name} was refused: the answer was no")
        if outcome == "nobody":
            raise Denied(
                f"{name} was refused: rule {decision.rule} ({decision.why}) needs the owner's yes, and nobody can be"
                " asked; it can be given in an interactive `picoclaw chat`"
            )
        raise Denied(f"{name} was refused: rule {decision.rule} ({decision.why})")

    def ask_ahead(self, calls: Sequence[CallRequest], caller: Caller) -> None:
        """Ask the person at the terminal once about all of some calls that need approval.

        The answer counts once for each call as shown; `caller.agreed` holds it until the call is made.
        """
        if self._ask and is_owner(caller.origin):
            policy = self._policy()
            verdicts = (decide_for(policy, one, caller) for one in calls)
            need = [one for one, decision in zip(calls, verdicts, strict=True) if decision.verdict == "ask"]
            if len(need) > 1:
                yes = self._ask(join_questions(map(format_call_question, need)))
                caller.agreed.update((compute_digest(one), yes) for one in need)

    def _outcome(self, asked: CallRequest, caller: Caller, decision: Decision) -> str:
        if decision.verdict != "ask":
            return "allowed" if decision.verdict == "allow" else "refused"
        agreed = caller.agreed.pop(compute_digest(asked), None) if caller.agreed else None
        if agreed is None and self._ask and is_owner(caller.origin):
            agreed = self._ask(format_call_question(asked))
        if agreed is not None:
            return "allowed" if agreed else "no"
        number = self._keep(asked, caller, decision) if self._keep else 0
        return f"kept as number {number}" if number else "nobody"


def format_call_question(asked: CallRequest) -> str:
    """Show a call so that a person can judge it; instructions and deletions line by line, as in their file."""
    more = ({"which means": asked.means} if asked.means else {}) | dict(asked.bound)
    return format_lines(asked, more) if asked.effect in {"instruct", "erase"} else format_ascii(asked, more)


def format_lines(asked: CallRequest, more: dict[str, Any]) -> str:
    """Show a call with its texts in marked lines; invisible characters become visible."""
    rows = [asked.call.name]
    for name, value in (asked.call.arguments | more).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines = [_show_invisible(line) for line in text.split("\n")]
        rows += [f"  {name}: {lines[0]}"] if len(lines) == 1 else [f"  {name}, {len(lines)} lines:"]
        rows += [f"  | {line}" for line in lines if len(lines) > 1]
    return "\n".join(rows)


def _show_invisible(line: str) -> str:
    shown = "".join(char if char.isprintable() or char == "\t" else _name_char(char) for char in line)
    return _INVISIBLE_FILLERS.sub(lambda found: _name_char(found[0]), shown)


def _name_char(char: str) -> str:
    return f"[U+{ord(char):04X}]"


def format_ascii(asked: CallRequest, more: dict[str, Any]) -> str:
    """Show a call in ASCII, so that nothing in it can hide."""
    return f"{asked.call.name} {json.dumps(asked.call.arguments | more, ensure_ascii=True)}".replace("\x7f", "\\u007f")


# The policy in force: policy.toml as it is now, what was allowed for good, and the settings that affect both.


@dataclass
class PolicyLoader:
    """Gives the current policy.

    `approvals()` opens the store of standing approvals, `exec_` is the setting of that name; `rehearses()` allows
    everything on a simulated board. The standing approvals are those of an `agent`, by its key, and a `person`, '' for the
    owner.
    """

    file: Path
    approvals: Callable[[], Approvals]
    exec_: str = "allow"
    rehearses: Callable[[], bool] = lambda: False
    agent: str = ""
    person: str = ""
    _problem: str = ""
    _seen: tuple[int, ...] | None = None
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
            self._seen = seen
            self._written, problems = load_policy(self.file)
            self._problem = _format_problems(self.file, problems)
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
        always = _StandingApprovals(self.approvals, self.agent, self.person)
        return replace(self._written, effects=effects, tools=tools, always=always)


def load_policy(file: Path) -> tuple[Policy, tuple[str, ...]]:
    """Read policy.toml, see parse_policy; if it cannot be read, everything that changes something is asked about."""
    try:
        policy, problems = parse_policy(read_toml(file))
    except ConfigError as error:
        return tighten_policy(Policy()), (str(error),)
    with suppress(OSError):
        if (mode := file.stat().st_mode) & 0o022:
            others = f"others may write it (mode {mode & 0o777:04o}): chmod 600 {file}"
            return tighten_policy(policy), (*problems, others)
    return policy, problems


def _format_problems(file: Path, problems: tuple[str, ...]) -> str:
    if not problems:
        return ""
    first = problems[0] if str(file) in problems[0] else f"{file}: {problems[0]}"
    more = f" (and {len(problems) - 1} more: see `picoclaw policy`)" if len(problems) > 1 else ""
    return f"{first}{more}; until it is corrected, everything that changes something is asked about"


class _StandingApprovals(Mapping[str, int]):
    """The standing approvals of an agent and a person, looked up when needed; none while the disk fails."""

    def __init__(self, approvals: Callable[[], Approvals], agent: str, person: str) -> None:
        self._approvals, self._agent = approvals, agent
        self._kinds = {f"member {person}": ""} if person else {"": "", "guest": "guest ", "mcp": "mcp "}

    def _rules(self) -> dict[str, int]:
        try:
            rules = self._approvals().always()
        except StoreError:
            return {}
        mine = [rule for rule in rules if rule.agent == self._agent and rule.whose in self._kinds]
        return {f"{self._kinds[rule.whose]}{rule.digest}": rule.number for rule in mine}

    def __getitem__(self, exact: str) -> int:
        return self._rules()[exact]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules())

    def __len__(self) -> int:
        return len(self._rules())

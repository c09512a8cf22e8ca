"""Decides on each call: allow, ask a person, or refuse. Nothing that a model says changes that."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from picoclaw.errors import MEANING_PREFIX, WAITING_FOR_APPROVAL, Denied, Pending
from picoclaw.messages import Caller, is_owner
from picoclaw.security.policy import CallRequest, Decision, Policy, compute_digest, decide, join_questions
from picoclaw.text import pattern

# Besides what Unicode calls not printable: fillers, and marks that change nothing that is seen.
_INVISIBLE_FILLERS = pattern(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]"
)
AskPerson = Callable[[str], bool]
KeepCall = Callable[[CallRequest, Caller, Decision], int]
LogDecision = Callable[[CallRequest, Caller, Decision, str], None]


def discard_decision(_asked: CallRequest, _caller: Caller, _decision: Decision, _outcome: str) -> None: ...


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
        decision = decide(self._policy(), asked, caller.origin, caller.taints, planned=caller.planned)
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
            verdicts = (decide(policy, one, caller.origin, caller.taints, planned=caller.planned) for one in calls)
            need = [one for one, decision in zip(calls, verdicts, strict=True) if decision.verdict == "ask"]
            if len(need) > 1:
                yes = self._ask(join_questions(map(format_call_question, need)))
                caller.agreed.update((compute_digest(one), yes) for one in need)

    def _outcome(self, asked: CallRequest, caller: Caller, decision: Decision) -> str:
        if decision.verdict != "ask":
            return "allowed" if decision.verdict == "allow" else "refused"
        if self._ask and is_owner(caller.origin):
            agreed = caller.agreed.pop(compute_digest(asked), None) if caller.agreed else None
            return "allowed" if (self._ask(format_call_question(asked)) if agreed is None else agreed) else "no"
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

"""The one place that says allow, ask a person, or refuse; nothing that a model says can change it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from picoclaw.errors import MEANS, NOT_YET, Denied, Pending
from picoclaw.messages import Caller, is_owner
from picoclaw.pattern import pattern
from picoclaw.trust.policy import Asked, Decision, Policy, decide, digest, together

# Besides what Unicode calls not printable: fillers, and marks that change nothing that is seen.
_FILLERS = pattern("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]")
Ask = Callable[[str], bool]
Keep = Callable[[Asked, Caller, Decision], int]
Note = Callable[[Asked, Caller, Decision, str], None]


def not_noted(_asked: Asked, _caller: Caller, _decision: Decision, _outcome: str) -> None:
    """Stand in where nothing is written down."""


class Guard:
    """Decides by what a call does, who asked for the turn, and what the turn has read."""

    def __init__(
        self, policy: Callable[[], Policy], ask: Ask | None = None, keep: Keep | None = None, note: Note = not_noted
    ) -> None:
        """`policy()` gives the rules in force.

        `ask` shows a person who sits there the exact call, None when nobody does; `keep` keeps a call until a yes
        arrives, and returns its number, None where no yes could. `note` writes down what was decided, and raises
        StoreError where it cannot.
        """
        self._policy, self._ask, self._keep, self._note = policy, ask, keep, note

    def __call__(self, asked: Asked, caller: Caller) -> bool:
        """Return when the call may run, and whether a person has just said yes to it.

        Raises Denied, naming the rule, when it may not, Pending when it is kept.
        """
        decision = decide(self._policy(), asked, caller.origin, caller.heard, planned=caller.planned)
        outcome = self._outcome(asked, caller, decision)
        if asked.effect != "read" or outcome != "allowed":
            self._note(asked, caller, decision, outcome)
        if outcome == "allowed":
            return decision.verdict == "ask"
        name = asked.call.name
        if outcome.startswith("kept"):
            number = outcome.rpartition(" ")[2]
            means = f"{MEANS}{asked.means}" if asked.means else ""
            raise Pending(
                f"{name}{NOT_YET}the owner's yes as number {number} (`/yes {number}`, or"
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

    def ask_ahead(self, calls: Sequence[Asked], caller: Caller) -> None:
        """Ask the person who sits there about those of some calls that need a yes, in one question.

        What they say counts once for each, as it was shown; it is in `caller.agreed` until the call is made.
        """
        if self._ask and is_owner(caller.origin):
            policy = self._policy()
            verdicts = (decide(policy, one, caller.origin, caller.heard, planned=caller.planned) for one in calls)
            need = [one for one, decision in zip(calls, verdicts, strict=True) if decision.verdict == "ask"]
            if len(need) > 1:
                yes = self._ask(together(map(question, need)))
                caller.agreed.update((digest(one), yes) for one in need)

    def _outcome(self, asked: Asked, caller: Caller, decision: Decision) -> str:
        if decision.verdict != "ask":
            return "allowed" if decision.verdict == "allow" else "refused"
        if self._ask and is_owner(caller.origin):
            agreed = caller.agreed.pop(digest(asked), None) if caller.agreed else None
            return "allowed" if (self._ask(question(asked)) if agreed is None else agreed) else "no"
        number = self._keep(asked, caller, decision) if self._keep else 0
        return f"kept as number {number}" if number else "nobody"


def question(asked: Asked) -> str:
    """Show a call as a person can judge it: what instructs later turns, or is deleted, as it stands in its file."""
    more = ({"which means": asked.means} if asked.means else {}) | dict(asked.bound)
    return in_lines(asked, more) if asked.effect in {"instruct", "erase"} else exact(asked, more)


def in_lines(asked: Asked, more: dict[str, Any]) -> str:
    """Show a call whole, its texts in lines that nothing in them can leave; what no eye sees becomes visible."""
    rows = [asked.call.name]
    for name, value in (asked.call.arguments | more).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines = [_seen(line) for line in text.split("\n")]
        rows += [f"  {name}: {lines[0]}"] if len(lines) == 1 else [f"  {name}, {len(lines)} lines:"]
        rows += [f"  | {line}" for line in lines if len(lines) > 1]
    return "\n".join(rows)


def _seen(line: str) -> str:
    shown = "".join(char if char.isprintable() or char == "\t" else _named(char) for char in line)
    return _FILLERS.sub(lambda found: _named(found[0]), shown)


def _named(char: str) -> str:
    return f"[U+{ord(char):04X}]"


def exact(asked: Asked, more: dict[str, Any]) -> str:
    """Show a call whole, in ASCII, so that nothing in it can hide."""
    return f"{asked.call.name} {json.dumps(asked.call.arguments | more, ensure_ascii=True)}".replace("\x7f", "\\u007f")

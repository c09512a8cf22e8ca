"""The one place that says allow, ask a person, or refuse; nothing that a model says can change it."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Literal

from picoclaw.errors import Denied
from picoclaw.messages import Caller, ToolCall
from picoclaw.tools.toolset import Effect

Verdict = Literal["allow", "ask", "refuse"]

# Besides what Unicode calls not printable: fillers, and marks that change nothing that is seen.
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0d\U000e0100-\U000e01ef]"
)

_DEFAULT: dict[Effect, Verdict] = {
    "read": "allow",
    "write": "allow",
    "network": "allow",
    "exec": "allow",
    "actuate": "ask",
    "instruct": "ask",  # what is written becomes an instruction of later turns
    "switch": "allow",  # to a safe level, or an output that its owner declared to need no yes
}


class Guard:
    """Decides by what a call does and who asked for the turn."""

    def __init__(self, policy: Mapping[Effect, Verdict], ask: Callable[[str], bool] | None) -> None:
        """`policy` overrides the defaults; `ask` shows a person the exact call, None when there is nobody to ask."""
        self._policy = _DEFAULT | dict(policy)
        self._ask = ask

    def __call__(self, effect: Effect, call: ToolCall, caller: Caller) -> None:
        """Return when the call may run; raises Denied, naming the rule, when it may not."""
        verdict = self._policy[effect]
        if verdict == "ask" and caller.origin != "owner":
            raise Denied(f"{call.name} was refused: rule '{effect}: ask', and nobody is here to be asked")
        if verdict == "ask" and self._ask is None:
            raise Denied(
                f"{call.name} was refused: rule '{effect}: ask' needs the owner's yes;"
                " it can be given in an interactive `picoclaw chat`"
            )
        if verdict == "refuse":
            raise Denied(f"{call.name} was refused: rule '{effect}: refuse'")
        if verdict == "ask" and self._ask and not self._ask(question(effect, call)):
            raise Denied(f"{call.name} was refused by the owner")


def question(effect: Effect, call: ToolCall) -> str:
    """Show a call as a person can judge it: what is written to instruct later turns as it will stand there."""
    return in_lines(call) if effect == "instruct" else exact(call)


def in_lines(call: ToolCall) -> str:
    """Show a call whole, its texts in lines that nothing in them can leave; what no eye sees becomes visible."""
    rows = [call.name]
    for name, value in call.arguments.items():
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


def exact(call: ToolCall) -> str:
    """Show a call whole, in ASCII, so that nothing in it can hide."""
    return f"{call.name} {json.dumps(call.arguments, ensure_ascii=True)}".replace("\x7f", "\\u007f")

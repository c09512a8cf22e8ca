"""The one place that says allow, ask a person, or refuse; nothing that a model says can change it."""

import json
from collections.abc import Callable, Mapping
from typing import Literal

from picoclaw.errors import Denied
from picoclaw.messages import Caller, ToolCall
from picoclaw.tools.toolset import Effect

Verdict = Literal["allow", "ask", "refuse"]

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
        if verdict == "ask" and self._ask and not self._ask(exact(call)):
            raise Denied(f"{call.name} was refused by the owner")


def exact(call: ToolCall) -> str:
    """Show a call whole, in ASCII, so that nothing in it can hide."""
    return f"{call.name} {json.dumps(call.arguments, ensure_ascii=True)}".replace("\x7f", "\\u007f")

"""What a channel has to be able to do. Each has a thread of its own; the daemon calls it from others.

What comes in is posted once and is durable when `post` returns, unless the disk takes nothing: then it is answered
from memory. The daemon heeds what arrives while a turn runs: the
order to stop the outputs and `/stop` at once, other texts of the same chat between two steps. A channel only posts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol

from picoclaw.errors import WAITING_FOR_APPROVAL
from picoclaw.messages import Event, Notice, Text, ToolCall, ToolRun, Turn, TurnHooks
from picoclaw.prompts import remove_hints
from picoclaw.records import NamedTuple

if TYPE_CHECKING:
    from picoclaw.store.approvals import Approval
    from picoclaw.store.inbox_outbox import InboxMessage, OutboxMessage

PostMessage = Callable[["InboxMessage"], None]
"""Keep what has arrived, and have it answered. Raises StoreError: then it is not kept and must not be acknowledged."""


class ChannelStatus(NamedTuple):
    """How a channel is: `since` when it is up or down and when it last heard from the other side (seconds since 1970).

    `error` says in one line what is wrong, '' when nothing is; `last_contact` is 0 when there was none.
    """

    up: bool
    since: float
    error: str = ""
    last_contact: float = 0.0


FindApproval = Callable[[int], "Approval | None"]
"""Looks up the question of a call that needs a yes, by the call's number. Raises StoreError."""

ApprovalWord = Literal["yes", "no", "always"]


def make_answer_command(approval: Approval, word: ApprovalWord) -> str:
    """Word what the owner has pressed as the command that they would type, with the sign of the very question."""
    return f"/{word} {approval.number} {approval.nonce}"


def describe_outcome(approval: Approval) -> str:
    """Say in a line for each call how a question has ended, '' while it has not."""
    if approval.several:
        ended = [] if approval.state in {"waiting", "running"} else map(describe_outcome, approval.several)
        return "\n".join(ended)
    words = _OUTCOMES.get(approval.state, "")
    channel = approval.answered_by.replace(" ", ":").partition(":")[0]  # of "page:71845fa9", "terminal 520b4f7d.3"
    where = {"page": "on the page", "terminal": "at a terminal", "": ""}.get(channel, f"on {channel.capitalize()}")
    by = f" (answered {where})" if words and where else ""
    return f"Number {approval.number}: {words}{by}." if words else ""


def waits_for_approval(turn: Turn) -> bool:
    """Whether a turn ended with a call that waits for the owner's yes, and there is nothing else to say of it."""
    return bool(turn.tools) and WAITING_FOR_APPROVAL in turn.tools[-1].result and turn.notice.text in turn.reply


_OUTCOMES = {
    "done": "done",
    "failed": "tried, and failed",
    "refused": "not done, because the answer was no",
    "expired": "not done, because nobody answered in time",
    "void": "not done, because it had changed since it was asked",
    "replaced": "replaced by a later question",
    "unknown": "cut off; whether it was done is not known",
}


class Channel(Protocol):
    """A way to the owner. Sessions of it are named `NAME:...`."""

    @property
    def name(self) -> str:
        """What its sessions begin with: "telegram", "page"."""

    def start(self, post: PostMessage) -> None:
        """Begin to listen in a thread of its own; returns at once. Raises ChannelError when it cannot be begun."""

    def send(self, message: OutboxMessage) -> None:
        """Deliver a message; the same number may come twice after a crash.

        Raises ChannelDown when it is to be tried again, ChannelError when that would be no use.
        """

    def around(self, arrived: InboxMessage) -> TurnHooks:
        """Give what a turn that answers this is to be seen with: `say` and `listen`.

        Typing signs and drafts end with `answered`. The daemon puts in `typed`, `stop` and `shield` itself.
        """

    def changed(self, approval: Approval) -> None:
        """Show at once how a call stands that needs a yes: asked about, or ended. Called in any thread; raises nothing.

        The question itself comes as a message that names it. Whoever is the owner, and presses a button or types a yes,
        has `make_answer_command` posted, as if they had typed the command; the daemon does the rest.
        """

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:
        """Tell the end of a turn live; True when the `reply` has been shown to the person and needs no message.

        False has it put into the outbox, from where it comes back by `send`, after a crash as well.
        """

    def owner_chat(self) -> str:
        """Name the chat in which the owner is told what no other chat can be told, '' for none."""

    def status(self) -> ChannelStatus:
        """Say how it is, at once; called from any thread."""

    def stop(self) -> None:
        """End, within two seconds; may be called twice, and before `start`."""


# A turn for programs: what `--json` prints and the socket says.


def turn_to_json(turn: Turn, reply: str, *, simulated: bool) -> dict[str, Any]:
    """Describe a turn; `reply` is all that was said, `simulated` whether the board is."""
    return {
        "reply": reply,
        "turn": {
            "steps": turn.steps,
            "tools": [
                {"name": r.name, "arguments": r.arguments, "result": r.result, "ms": round(r.ms, 3)} for r in turn.tools
            ],
            "usage": {"prompt_tokens": turn.usage.prompt_tokens, "completion_tokens": turn.usage.completion_tokens},
            "stopped": turn.stopped,
        },
        "provider": turn.provider,
        "simulated": simulated,
    }


def event_to_json(event: Event | ToolRun) -> dict[str, Any] | None:
    """Describe an event of a turn for a terminal, None for one that shows nothing."""
    if isinstance(event, Text):
        return {"text": event.text}
    if isinstance(event, ToolRun):
        return {"tool": event._asdict() | {"result": remove_hints(event.result)}}
    if isinstance(event, Notice):
        return {"pause": event.text}
    return {"pause": ""} if isinstance(event, ToolCall) else None


def approval_to_json(approval: Approval, whose: str = "") -> dict[str, Any]:
    """Describe a question for a terminal; `whose` names its chat, where it is another."""
    text = f"{whose}{approval.numbered}"
    return {"number": approval.number, "id": approval.nonce, "text": text, "answers": approval.answers}

"""Queues a call that needs the owner's approval, takes the answer, and runs exactly that call, once.

Runs in the dispatcher's thread: a channel on which the owner presses a button posts `/yes N NONCE`, `/no` or `/always`
in their name, as if they had typed it. Quoted text and models cannot reach this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from picoclaw.errors import Denied, PicoclawError, StoreError
from picoclaw.messages import DEFAULT_SESSION, Caller, Origin, Stop, has_reader, is_owner
from picoclaw.records import NamedTuple, dataclass, field, replace
from picoclaw.security.guard import LogDecision, discard_decision, format_call_question
from picoclaw.security.policy import CallRequest, Decision, Policy, compute_digest, decide
from picoclaw.store.database import LAST_CHAT_MARK, Marks
from picoclaw.tools.registry import Toolset

if TYPE_CHECKING:
    from picoclaw.store.approvals import Approval, Approvals
    from picoclaw.stores import Stores

MAX_QUESTION_CHARS = 60_000
"""Characters; a chat takes them in some fifteen messages."""


class ApprovalAnswer(NamedTuple):
    """An answer to a queued call: `who` gave it, `origin` is what they are, `nonce` the button's, if any.

    A button, and an answer without a number (`whole`), covers every call that the question lists.
    """

    number: int
    yes: bool
    who: str
    origin: Origin
    nonce: str | None = None
    always: bool = False
    whole: bool = False


class ApprovalOutcome(NamedTuple):
    """The result of an answer, as text; `made` is the call that was run for it, if any."""

    text: str
    good: bool = True
    made: Approval | None = None


@dataclass
class ApprovalManager:
    """Takes a call from the question to its outcome.

    `minutes` is how long a question waits, `now` the owner's wall clock. `changed` is called with each call that was
    queued, answered or run, so that channels can show it. `note` is the guard's audit log, `agent` the key of the agent that
    queues calls. `role_change` says why the role that whoever asked for a call had then no longer holds, '' while it does; `whose` is
    the owner of a call, as in StandingApproval.
    """

    stores: Stores
    toolset_of: Callable[[Approval], Toolset]
    policy: Callable[[], Policy]
    now: Callable[[], datetime]
    minutes: float
    changed: Callable[[Approval], None] = lambda _: None
    note: LogDecision = field(default=discard_decision)
    agent: str = ""
    role_change: Callable[[Approval], str] = lambda _: ""
    whose: Callable[[Approval], str] = lambda _: ""
    _unasked: list[int] = field(default_factory=list)

    @property
    def approvals(self) -> Approvals:
        return self.stores.approvals

    def queue_call(self, asked: CallRequest, caller: Caller, decision: Decision) -> int:
        """Queue a call for the guard and ask the owner; returns its number. Raises Denied, or StoreError."""
        shown = format_call_question(asked)
        if len(shown) > MAX_QUESTION_CHARS:
            raise Denied(
                f"{asked.call.name} needs the owner's yes, and nobody can judge {len(shown)} characters: at most"
                f" {MAX_QUESTION_CHARS} are asked about, so do it in parts"
            )
        number = self.approvals.open(asked, caller, decision, self._pick_chat(caller), shown, self.minutes, self.agent)
        if caller.asks is not None:
            caller.asks.append(number)
        elif kept := self.approvals.question(number):
            self.changed(kept)
        return number

    @contextmanager
    def ask_at_end(self, caller: Caller) -> Iterator[None]:
        """Ask about the calls that a turn queues when it ends; if the disk fails then, at the end of the next turn."""
        try:
            yield
        finally:
            self._unasked += caller.asks or ()
            with suppress(StoreError):
                self.ask(self._unasked)
                self._unasked.clear()

    def ask(self, numbers: Sequence[int]) -> None:
        """Ask about queued calls in one question, or in several if it would be too long. Raises StoreError."""
        listed: list[int] = []
        length = 0
        for number in dict.fromkeys(numbers):
            one = self.approvals.get(number)
            length += len(one.shown) if one else 0
            if listed and length > MAX_QUESTION_CHARS:
                self._post_question(listed)
                listed, length = [], len(one.shown) if one else 0
            listed.append(number)
        if listed:
            self._post_question(listed)

    def ask_remaining(self, approvals: Approvals) -> None:
        """Ask about calls that were queued by processes which ended before asking. Raises StoreError."""
        for numbers in approvals.left():
            self._post_question(numbers, approvals)

    def _post_question(self, numbers: Sequence[int], approvals: Approvals | None = None) -> None:
        if asked := (approvals or self.approvals).ask(numbers, self.now().tzinfo):
            self.changed(asked)

    def answer(self, said: ApprovalAnswer, stop: Stop | None = None) -> ApprovalOutcome:
        """Take an answer and run the call if it is a yes; `stop` interrupts that. Raises StoreError."""
        if not is_owner(said.origin):
            return ApprovalOutcome("Only the owner can answer that, in person.", good=False)
        asked = self.approvals.question(said.number) if said.whole or said.nonce is not None else None
        stop = stop or Stop()
        if asked is None or not asked.several:
            return self._answer_one(said, stop)
        if said.nonce not in {None, asked.nonce}:
            return ApprovalOutcome(
                f"Nothing was done: there is no question number {said.number} with that button.", good=False
            )
        waiting = [one for one in asked.several if one.state == "waiting"]
        if not waiting:
            return ApprovalOutcome("Nothing was done: all of that was answered already.", good=False)
        if said.yes:
            self.approvals.renew(asked.listed)
        outcomes: list[ApprovalOutcome] = []
        for one in waiting:  # after a failure or a stop the remaining ones keep waiting
            outcomes.append(self._answer_one(said._replace(number=one.number, nonce=one.nonce), stop))
            if stop or not outcomes[-1].good:
                break
        made = [outcome.made for outcome in outcomes if outcome.made]
        texts = [outcome.text for outcome in outcomes]
        if left := [f"{one.number}" for one in waiting[len(outcomes) :]]:
            texts.append(f"Not done, and still waiting for your approval: {', '.join(left)}.")
        together = made[0]._replace(several=tuple(made)) if len(made) > 1 else made[0] if made else None
        return ApprovalOutcome(" ".join(texts), all(outcome.good for outcome in outcomes), together)

    def _answer_one(self, said: ApprovalAnswer, stop: Stop) -> ApprovalOutcome:
        taken = self.approvals.answer(said.number, said.who, yes=said.yes, nonce=said.nonce)
        if isinstance(taken, str):
            return ApprovalOutcome(f"Nothing was done: {taken}.", good=False)
        self._log(taken, f"{'yes' if said.yes else 'no'} to number {taken.number} by {said.who or 'the owner'}")
        self._report_change(taken)
        if said.yes:
            return self._run_call(taken, said, stop)
        self._notify_home(taken, "the owner said no")
        return ApprovalOutcome(f"Number {taken.number} is not done.")

    def _report_change(self, one: Approval) -> None:
        self.changed(self.approvals.question(one.number) or one)

    def tell(self, session: str, text: str) -> None:
        """Send a message to a chat. Raises StoreError."""
        from picoclaw.store.queues import Outbox

        Outbox(self.stores.database).put(session, text, time.time())

    def _pick_chat(self, caller: Caller) -> str:
        """The chat to ask the owner in: the caller's if that is the owner, else where the owner wrote last."""
        if is_owner(caller.origin) and has_reader(caller.session):
            return caller.session
        if caller.behalf and is_owner(caller.behalf) and has_reader(caller.reply_to):
            return caller.reply_to
        return Marks(self.stores.database).get(LAST_CHAT_MARK) or DEFAULT_SESSION

    def _run_call(self, taken: Approval, said: ApprovalAnswer, stop: Stop) -> ApprovalOutcome:
        if void := self._explain_void(taken):
            self._record_outcome(ended := taken._replace(state="void", outcome=void))
            self._notify_home(ended, void)
            return ApprovalOutcome(f"Number {taken.number} was not done: {void}.", good=False)
        caller = replace(self._restore_caller(taken, lambda text: self.tell(taken.home, text)), stop=stop)
        good, result = self.toolset_of(taken).run(taken.asked.call, caller, taken.asked)
        heard = tuple(sorted(caller.taints))
        ended = taken._replace(state="done" if good else "failed", outcome=result, heard=heard)
        try:  # whatever the disk says from here on: it was done, and nobody may be told that it was not
            self._record_outcome(ended)
            more = self._allow_always(ended, said) if said.always else ""
        except StoreError as error:
            more = f" But that could not be written down: {error}"
        return ApprovalOutcome(f"Number {ended.number} {'was done' if good else 'has failed'}.{more}", good, ended)

    def _allow_always(self, ended: Approval, said: ApprovalAnswer) -> str:
        allowed = self.approvals.allow(ended, said.who, self.whose(ended))
        self._log(ended, f"allowed for good as rule {allowed} by {said.who or 'the owner'}")
        return f" It is allowed for good as rule {allowed}; `picoclaw policy revoke {allowed}` takes that back."

    def _record_outcome(self, ended: Approval) -> None:
        self.approvals.settle(ended.number, ended.state, ended.outcome, ended.heard)
        self.stores.settle(ended.session)
        self._log(ended, f"number {ended.number}: {ended.state}")
        self._report_change(ended)

    def _explain_void(self, taken: Approval) -> str:
        """Say why the call is no longer the one that was approved, '' if it is."""
        try:
            if changed := self.role_change(taken):  # before a view is looked for, which would be another's
                return changed
            asked = self.toolset_of(taken).asked(taken.call, whole=bool(taken.means or taken.bound))
        except PicoclawError as error:
            return str(error)
        if compute_digest(asked) != taken.digest:
            return "what it would do has changed since the question"
        decision = decide(self.policy(), asked, taken.origin, taken.heard)
        return f"rule {decision.rule} does not allow it now" if decision.verdict == "refuse" else ""

    def _notify_home(self, approval: Approval, what: str) -> None:
        """Tell the conversation that wanted the call, if it is not the one the owner was asked in."""
        if approval.home != approval.chat:
            self.tell(approval.home, f"number {approval.number} ({approval.call.name}) is not done: {what}")

    def _log(self, approval: Approval, outcome: str) -> None:
        decision = Decision("ask", approval.rule, approval.why)
        self.note(approval.asked, self._restore_caller(approval, lambda _: None), decision, outcome)

    def _restore_caller(self, approval: Approval, say: Callable[[str], None]) -> Caller:
        heard, home = set(approval.heard), approval.home
        return Caller(approval.session, approval.origin, self.now(), say, heard, reply_to=home, who=approval.asked_by)

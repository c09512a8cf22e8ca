"""Decides on each call: allow, ask a person, or refuse. Nothing that a model says changes that.

Who may approve: the owner in person (`ApprovalManager.answer`); the rows are store/approvals.py's. A call that a person has to approve is queued, and runs once, with exactly these arguments, after the answer. That happens
in the dispatcher's thread: a channel on which the owner presses a button posts `/yes N NONCE`, `/no` or `/always` in
their name, as if they had typed it. Quoted text and models cannot reach this.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.config.files import read_toml
from picoclaw.errors import (
    MEANING_PREFIX,
    WAITING_FOR_APPROVAL,
    ConfigError,
    Denied,
    Pending,
    PicoclawError,
    StoreError,
)
from picoclaw.messages import DEFAULT_SESSION, Caller, Origin, Stop, has_reader, is_owner
from picoclaw.records import NamedTuple, dataclass, field, replace
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
from picoclaw.store.database import LAST_CHAT_MARK, Marks
from picoclaw.text import pattern
from picoclaw.tools.registry import Toolset

if TYPE_CHECKING:
    from picoclaw.store.approvals import Approval, Approvals
    from picoclaw.stores import Stores

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
        from picoclaw.store.inbox_outbox import Outbox

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

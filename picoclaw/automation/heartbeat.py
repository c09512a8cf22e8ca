"""Whether a model is asked now, why or why not, and what: a table of rules over what is known. Opens nothing."""

import re
import threading
import time as time_
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, time

from picoclaw.automation import checklist
from picoclaw.automation.checklist import (
    BoardEnvironment,
    Checklist,
    FileChanges,
    ItemStatus,
    check_items,
    join_under_headings,
    list_item_files,
)
from picoclaw.config.tables import UNATTENDED_LIMITS, HeartbeatConfig
from picoclaw.errors import ConfigError, PicoclawError
from picoclaw.messages import End, Event, Inbound, Stop, ToolRun, Turn
from picoclaw.records import NamedTuple, dataclass, field
from picoclaw.store.jobs import HEARTBEAT_SESSION, HeartbeatDay, HeartbeatOutcome, HeartbeatRecord, Heartbeats
from picoclaw.text import pattern, remove_invisible
from picoclaw.times import format_duration, get_seconds_until, is_quiet, parse_moment

MAX_QUESTION = 8000
"""Characters; lines that have no room stay due."""

_MAX_DOUBLINGS = 4


class Situation(NamedTuple):
    """All that a decision depends on. `file` says why there is no checklist, '' if there is one.

    `since_s` is how long ago the last heartbeat was, None if there was none; `running`: it may still be going on;
    `failures` how many failed in a row;
    `quiet` the hours in which nobody is to be disturbed; `by_hand`: a person asks for one now. `held` says why a model
    may take no more today, '' if it may.
    """

    now: datetime
    findings: Sequence[ItemStatus] = ()
    done: int = 0
    file: str = ""
    enabled: bool = True
    modelled: bool = True
    trusted: bool = True
    set_back: bool = False
    since_s: float | None = None
    running: bool = False
    every_s: float = 1800.0
    failures: int = 0
    quiet: tuple[time, time] | None = None
    used: int = 0
    cap: int = 50_000
    by_hand: bool = False
    held: str = ""

    @property
    def pause_s(self) -> float:
        """The least time between two; longer after failures."""
        return self.every_s * (1 << min(self.failures, _MAX_DOUBLINGS))


class HeartbeatDecision(NamedTuple):
    """`rule` names what decided. A model is to be asked about `asked`, in the words `ask`; `wait_s` until the next."""

    beat: bool
    rule: str
    why: str
    wait_s: float | None
    ask: str = ""
    asked: tuple[ItemStatus, ...] = ()


def decide_heartbeat(s: Situation) -> HeartbeatDecision:
    """Decide by the first rule that objects; without one, ask about the items that are due."""
    for name, binds_people, why in _list_objections(s):
        if why and (binds_people or not s.by_hand):
            return HeartbeatDecision(False, name, why, _compute_wait(s, name))
    asked = _select_fitting(
        [f for f in s.findings if f.due or (s.by_hand and f.item.timing is None and f.item.when is None)]
    )
    if not asked:
        why = "nothing is due: " + "; ".join(f"line {f.item.line}: {f.why}" for f in s.findings)
        return HeartbeatDecision(False, "not due", why, _compute_wait(s, "not due"))
    reasons = "; ".join(f"line {f.item.line}: {f.why if f.due else 'asked by hand'}" for f in asked)
    return HeartbeatDecision(
        True, "due", reasons, min([s.pause_s, *_get_condition_waits(s)]), format_question(asked), asked
    )


def _list_objections(s: Situation) -> Iterator[tuple[str, bool, str]]:
    """Give name, whether it also applies when a person asks by hand, and the objection ('' for none) of each rule in order."""
    yield "disabled", False, "" if s.enabled else "heartbeats are switched off (enabled under [heartbeat])"
    nothing = f"all lines of HEARTBEAT.md are done ({s.done})" if s.done else "HEARTBEAT.md has no items"
    yield "nothing to do", True, s.file if s.file or s.findings else nothing
    yield "no model", True, "" if s.modelled else "no model is set up: `picoclaw init` does that"
    yield "clock", False, "" if s.trusted else "the clock cannot be trusted yet, so it waits"
    yield "set back", False, "the clock was set back; the interval counts from now" if s.set_back else ""
    if s.since_s is not None and s.since_s < s.pause_s:
        failed = f" and failed, as {s.failures} in a row have" if s.failures > 1 else " and failed" * s.failures
        ago, ahead = format_duration(s.since_s), format_duration(s.pause_s - s.since_s)
        yield "interval", False, f"the last one was {ago} ago{failed}; the next comes in {ahead}"
    if s.running:
        yield "running", True, f"another picoclaw began one {format_duration(s.since_s or 0.0)} ago, which goes on"
    if s.quiet and is_quiet(s.quiet, s.now):
        yield "quiet hours", False, f"quiet hours until {s.quiet[1]:%H:%M}"
    if s.used >= s.cap:
        used = f"the day's {s.cap:,} tokens for heartbeats are used ({s.used:,})"
        yield "budget", True, f"{used}; they go on tomorrow, chats go on now"
    yield "costs", True, s.held


def _compute_wait(s: Situation, rule: str) -> float | None:
    """Seconds until the next check; an edited file is noticed after the interval at the latest."""
    if rule == "disabled":
        return None
    waits = [s.every_s, *(f.next_s for f in s.findings if f.next_s)]
    if rule == "interval":
        waits = [s.pause_s - (s.since_s or 0.0), *_get_condition_waits(s)]
    if rule == "quiet hours" and s.quiet:
        waits = [s.every_s, get_seconds_until(parse_moment(f"{s.quiet[1]:%H:%M}", s.now), s.now)]
    return max(1.0, min(waits))


def _get_condition_waits(s: Situation) -> list[float]:
    """Seconds until the timed conditions are to be checked, also within the pause."""
    return [finding.next_s for finding in s.findings if finding.next_s and finding.item.when]


def _select_fitting(due: Sequence[ItemStatus]) -> tuple[ItemStatus, ...]:
    """As many items as fit into a question, at least one."""
    room, asked = MAX_QUESTION, list[ItemStatus]()
    for finding in due:
        room -= len(finding.item.text) + len(finding.note) + len(finding.item.heading) + 10
        if room < 0 and asked:
            break
        asked.append(finding)
    return tuple(asked)


def format_question(asked: Sequence[ItemStatus]) -> str:
    """Put the lines as the owner wrote them, under their headings, with what was found."""
    return join_under_headings(
        (item.heading, f"- {item.text[:MAX_QUESTION]}{f' ({note})' if note else ''}")
        for item, note in ((finding.item, finding.note) for finding in asked)
    )


# Whether an answer says only that all is well. What a person would want to be told is never taken for politeness.
#
# An answer is silence when it says HEARTBEAT_OK and, besides, nothing but courtesies and assurances. Each clause of it is
# judged by itself: it is calm if it is made of calm words alone, or gives an assurance without a word of alarm. So a fact
# that nobody has called good is told, at the price of telling one now and then that was not worth it.

MAX_OK_LENGTH = 300
"""Characters beside the word."""

_OK_WORD = pattern(r"\bheart[ -]?beat ?(?:is )?o[ .]?k(?:ay)?\b\.?")
_CRON_WORD = pattern(r"\bno\\?_reply\b")  # the words without their line are news: "No reply."
_FENCE = pattern(r"^[^\S\n]*(?:```|~~~)\w*[^\S\n]*$", re.MULTILINE)
_MARKUP = pattern(r"</?\w{1,10}/?>|[`*~_\\\"“”«»>#|\[\]{}()^=+]+")
_CLAUSE_BREAK = pattern(
    r"[.!?;:\n]+(?=\s|$)|\n|\s[-–—]+\s|[–—]|,(?!\d)(?!\s*(?:which|well within|within)\b)|\band\b|\bso\b"
)
_PUNCTUATION = pattern(r"[^\w\s%°']+")

_NO_TROUBLE = pattern(
    r"\b(?:no|without|nor|or)(?: (?:new|further|other|urgent|immediate|unusual|any|active|open))*"
    r" (?:issues?|problems?|alerts?|alarms?|warnings?|errors?|concerns?|anomal(?:y|ies)|changes?|actions?|updates?"
    r"|news|attention|intervention)(?: (?:is|are|was|were))?"
    r"(?: (?:found|detected|needed|required|necessary|reported|pending|due|observed|open))?"
    r"|\bno (?:items?|tasks?|reminders?)(?: are| is)? (?:due|pending|needed|(?:needs?|requires?) (?:attention|action))"
    r"|\bnothing(?: (?:new|else|urgent|unusual|special|important|wrong|abnormal))?"
    r"(?: (?:(?:needs?|requires?)(?: your)? (?:attention|action)|to (?:report|tell|do|add|flag|mention|note)"
    r"|has changed|is (?:due|wrong|pending|needed)|(?:is )?out of (?:range|the ordinary))|(?=\s*(?:[.!,;]|$)))"
    r"|\bnot?(?:hing)? need(?:ed)? (?:to|for)(?: \w+)? (?:worry|do anything|attention|act|action)"
    r"|\bnothing that (?:needs?|requires?)(?: your| any)? (?:action|attention)"
    r"|\bnothing to tell you\b|\bno open items\b"
    r"|\bdon't worry\b|\bnot to worry\b|\bno worries\b|\bnothing to worry about\b"
    r"|\blet me know if you need (?:anything|me|help)(?: else)?\b|\bi(?:'ve| have)? (?:gone|went) through\b"
    r"|\bkeep(?:ing)? an eye on (?:things|it|everything)\b|\bhope you(?:'re| are) having\b"
)
_GREETING = pattern(
    r"\b((?:hi|hello|hey|dear|bye|thanks|thank you"
    r"|(?:good|nice|great|lovely) (?:morning|evening|afternoon|night|day)),?)"
    r" (?!but\b)\w+(?=\s*(?:[.!,\n]|$))"
)
_ASSURANCE = pattern(
    r"(?:^|\b(?:is|are|was|were|be|looks?|seems?|appears?|remains?|stays?|went|runs?|running|works?|working|going|doing|all"
    r"|everything)(?: (?:all|very|quite|just|perfectly|completely|still|also|both))*) ?"
    r"\b(?:fine|good|great|well|normal(?:ly)?|okay|ok|nominal|healthy|stable|clear|smoothly|perfect|in order)"
    r"(?= (?:in|at|here|now|right now|as|within)\b|$)"
    r"|\buntroubled\b(?= (?:in|at|here|now|right now|with|by|from|on|today)\b|$)"
    r"|\b(?:as (?:expected|usual|planned)|within(?: \w+){0,3} (?:range|ranges|limits|bounds)|in range)$"
)
_ALARM = pattern(
    r"\b(?:but|however|except\w*|although|though|despite|unless|until|yet|still|only|beware|careful|caution|warn\w*"
    r"|alarm\w*|alert\w*|errors?|fail\w*|fault\w*|no|not|nothing|nobody|never|none|cannot|\w+n't|unable|without|nearly|almost|barely"
    r"|low\w*|high\w*|above|below|over|under|exceed\w*|outside|beyond|hot\w*|cold\w*|dry\w*|wet\w*|leak\w*|flood\w*|fire"
    r"|smok\w*|burn\w*|broke\w*|damag\w*|missing|lost|offline|down|dead|stuck|stopp\w*|stale|unavailable|unreachable"
    r"|unknown|unclear|unsure|uncertain|odd|strange|unusual|unexpected|abnormal|wrong|bad|worse|worst|critical|urgent\w*"
    r"|danger\w*|emergency|problem\w*|issue\w*|concern\w*|trouble\w*|please|must|should|need\w*|required?|want\w*|ask\w*"
    r"|remember|remind\w*|tomorrow|due|empty|full|overdue|late|ill|sick|died|die|dying|rot\w*|mould\w*|mold\w*|pest\w*"
    r"|rain\w*|frost\w*|storm\w*|freez\w*|rising|falling|dropp\w*|increas\w*|decreas\w*|chang\w*|would|could|might|may|if"
    r"|good luck|good thing|well (?:above|below|over|under|beyond)|wish\w*)\b"
)
_SMILES = frozenset("✅☑✔👍👌🙂😊😀😃😄☺🌱🌿🍀🪴🌞☀🎉✨💚🟢🙏👋💤😴🤖💓💗❤🫡")
_CALM = frozenset(
    """
    a all already am an answer are as at boss bye calm care certainly check checked checking checklist checks cheers
    complete completed confirmed day done each enjoy evening every everyone everything fine finished for friend
    gardening good goodbye great greetings happy has have having heartbeat hello here hey hi i i'll i'm i've in is it
    it's items just keep later let list looked looking lovely madam moment monitor monitoring morning my next nice
    night now of on one online operational our passed peaceful pleasant quiet quietly readings report reported
    reporting response rest running safe see sensors sir sleep soon status stay sure system systems take talk thank
    thanks that that's the there this through time to today's understood untroubled upon was watch watching we we'll
    weekend welcome well were what will with wonderful worked yes you you're your yours
    """.split()  # noqa: SIM905 - a list of a hundred words is read like this
)


def is_ok(text: str, wanted: str = "") -> bool:
    """Whether an answer only says that all is well; `wanted` is the owner's own phrase for that."""
    words = _normalize(text)
    if wanted and _PUNCTUATION.sub(" ", words).split() == _PUNCTUATION.sub(" ", _normalize(wanted)).split():
        return True
    rest, found = _OK_WORD.subn(" . ", words)
    if not found or len(" ".join(rest.split())) > MAX_OK_LENGTH:
        return False
    rest = _GREETING.sub(r"\1", _NO_TROUBLE.sub(" untroubled ", rest))
    return all(_is_calm(clause) for clause in _CLAUSE_BREAK.split(rest))


def _normalize(text: str) -> str:
    """Small letters without what is not seen, marks of Markdown, and the many forms of a letter."""
    text = unicodedata.normalize("NFKC", remove_invisible(text)).replace("’", "'").casefold()
    text = _CRON_WORD.sub("heartbeat ok", _FENCE.sub(" ", text)).replace("everything's", "everything is")
    text = "".join(_replace_picture(char) for char in text)
    text = re.sub(r"(?<=t)[\s_.:*`~\\–—-]+(?=o)", " ", _MARKUP.sub(" ", text))
    return re.sub(r"[^\S\n]+", " ", text)


def _replace_picture(char: str) -> str:
    """A character as it counts: a picture that is no smile stands for something that a person should see."""
    if unicodedata.category(char) == "So":
        return " " if char in _SMILES else " picture "
    return "" if unicodedata.category(char) in {"Cf", "Sk", "Mn"} else char


def _is_calm(clause: str) -> bool:
    words = " ".join(_PUNCTUATION.sub(" ", clause).split())
    if not words or set(words.split()) <= _CALM:
        return True
    return bool(_ASSURANCE.search(words)) and not _ALARM.search(words)


# A heartbeat: look, decide, ask a model if there is something to ask, keep what came of it. Time is handed in.
#
# What must survive is in the store before a model is asked, so that no restart makes the next one come earlier.

CHECKLIST_FILE = "HEARTBEAT.md"

_DEFAULT_TOKENS = 4000  # tokens of a request whose server does not count
_SET_BACK_S = 120.0
_REPORT_AFTER = 3
_RETRY_SOON_S = 1.0
_LONGEST_S = UNATTENDED_LIMITS.seconds + 60.0  # with its last word


class HeartbeatTime(NamedTuple):
    """The date, the seconds of a boot, which nobody can set, and whether the date can be believed."""

    wall: datetime
    mono: float
    boot: str
    trusted: bool = True


class HeartbeatCheck(NamedTuple):
    """The result of a check: the checklist, the situation and the decision."""

    checklist: Checklist
    situation: Situation
    decision: HeartbeatDecision
    today: HeartbeatDay


@dataclass
class Heartbeat:
    """Decides and asks.

    `page` reads HEARTBEAT.md, None if there is none, and raises ConfigError; `answer` takes the most tokens as well,
    and what hears the turn; `modelled` tells whether there is a model, `empty` how an answer without words is worded;
    `ring` is called when there is something to be told, and `mark` ends what the model says. `helped` counts
    the tokens of sub-agents that heartbeats have asked for since a moment, in seconds since 1970. `going` is the number of
    the heartbeat in hand, 0 for none, and `used` what it has taken so far. `held` says why a model may take no more.
    """

    config: HeartbeatConfig
    beats: Heartbeats
    page: Callable[[], str | None]
    environment: BoardEnvironment
    answer: Callable[[Inbound, int, Callable[[Event | ToolRun], None]], Turn]
    modelled: bool
    empty: str = ""
    ring: Callable[[], None] = lambda: None
    mark: str = ""
    helped: Callable[[float], int] = lambda _: 0
    held: Callable[[], str] = lambda: ""
    going: int = field(default=0, init=False)
    used: int = field(default=0, init=False)

    def step(self, now: HeartbeatTime) -> float | None:
        """Run a heartbeat if one is due; returns the seconds until the next check, None for never."""
        looked = self.look(now)
        made = self.beat(looked, now) if looked.decision.beat else None
        return _RETRY_SOON_S if made and made.outcome == "put off" else looked.decision.wait_s

    def look(self, now: HeartbeatTime, *, by_hand: bool = False, keep: bool = True) -> HeartbeatCheck:
        """Read the checklist, check its items and decide. With `keep`, their state is stored."""
        config = self.config
        listed, problem = self._read_checklist()
        situation = Situation(
            now.wall,
            done=listed.done,
            file=problem,
            enabled=config.enabled,
            modelled=self.modelled,
            trusted=now.trusted,
            every_s=config.every_minutes * 60.0,
            quiet=config.quiet_hours,
            cap=config.tokens_a_day,
            by_hand=by_hand,
        )
        if problem or not (config.enabled or by_hand):
            return HeartbeatCheck(listed, situation, decide_heartbeat(situation), HeartbeatDay())
        return self._check_items(listed, situation, now, keep=keep and now.trusted)

    def _check_items(
        self, listed: Checklist, situation: Situation, now: HeartbeatTime, *, keep: bool
    ) -> HeartbeatCheck:
        """Check the items against the stored state; nothing is stored while the date cannot be trusted."""
        known, today = self.beats.known(), self.beats.today(now.wall)
        late = now.wall.timestamp() + _SET_BACK_S
        ahead = bool(today.last and today.last.at > late)
        set_back = ahead and bool(today.last and today.last.boot != now.boot)
        if keep and (ahead or any(max(line.after, line.since) > late for line in known.values())):
            self.beats.set_back(now.wall)
            known, today = self.beats.known(), self.beats.today(now.wall)
        midnight = now.wall.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        today = today._replace(tokens=today.tokens + self.helped(midnight))
        asleep = keep and not situation.by_hand and is_quiet(situation.quiet, now.wall)
        found = check_items(listed.items, known, self.environment, now.wall, asleep=asleep)
        if keep and listed != Checklist():  # an editor may just be about to write it
            self.beats.remember({finding.item.key: finding.state_now for finding in found})
        since_s, is_running = None, False
        if last := today.last:  # by the clock of this boot, or else by the date
            same_boot = last.boot == now.boot
            since_s = now.mono - last.mono if same_boot else max(0.0, now.wall.timestamp() - last.at)
            is_running = same_boot and last.outcome == "running" and since_s < _LONGEST_S
        situation = situation._replace(
            findings=found,
            set_back=set_back,
            since_s=since_s,
            running=is_running,
            failures=today.failures if today.last else 0,
            used=today.tokens,
            held=self.held(),
        )
        return HeartbeatCheck(listed, situation, decide_heartbeat(situation), today)

    def _read_checklist(self) -> tuple[Checklist, str]:
        try:
            text = self.page()
        except ConfigError as error:
            return Checklist(), str(error)
        if text is None:
            return Checklist(), f"there is no {CHECKLIST_FILE}; `picoclaw init` makes one"
        return checklist.parse_checklist(text), ""

    def beat(self, looked: HeartbeatCheck, now: HeartbeatTime, *, told: bool = False) -> HeartbeatRecord | None:
        """Ask the model; None if another process has done so meanwhile. `told`: a person reads the answer."""
        tokens = max(1, min(UNATTENDED_LIMITS.tokens, self.config.tokens_a_day - looked.today.tokens))
        begun = self.beats.begin(now.wall, now.boot, now.mono, tokens, looked.today.number)
        if begun is None:
            return None
        items = [finding.item for finding in looked.situation.findings]
        traces = FileChanges(self.environment.mark, {path for item in items for path in list_item_files(item)})
        self.going, self.used = begun.number, 0

        def hear(event: Event | ToolRun) -> None:
            self.used += event.usage.total if isinstance(event, End) else 0
            traces.on_event(event)

        asked = Inbound(HEARTBEAT_SESSION, looked.decision.ask, "heartbeat", self.beats.last_chat())
        turn = self.answer(asked, tokens, hear)
        made = self._make_record(begun, turn, looked)
        settled = looked.decision.asked if made.outcome in {"silent", "said"} else ()
        known = [(f.item, f.state_now) for f in looked.situation.findings] + [
            (f.item, f.state_after_asking) for f in settled
        ]
        lines = {item.key: traces.update_state(one, list_item_files(item)) for item, one in known}
        self.beats.finish(made, lines, told=told)
        self.going = 0
        if made.text and not told:
            self.ring()
        return made

    def _make_record(self, begun: HeartbeatRecord, turn: Turn, looked: HeartbeatCheck) -> HeartbeatRecord:
        failed = turn.stopped in {"error", "stopped"} or turn.reply.strip() in {"", self.empty.strip()}
        tokens = turn.usage.total or (0 if failed else turn.steps * _DEFAULT_TOKENS)
        sent = (run for run in turn.tools if run.name == "message" and not run.result.startswith("error:"))
        parts = [str(run.arguments["text"]) for run in sent if run.arguments.get("text")]
        parts += [] if failed or is_ok(turn.reply, looked.checklist.answer) or turn.reply in parts else [turn.reply]
        parts += [self.mark] if parts and self.mark else []
        bad: HeartbeatOutcome = "put off" if turn.stopped == "stopped" else "failed"
        outcome: HeartbeatOutcome = "said" if parts else bad if failed else "silent"
        if outcome == "failed" and looked.today.ended + 1 == _REPORT_AFTER:
            parts.append(f"The last {_REPORT_AFTER} heartbeats failed: {turn.notice.text or turn.reply}")
        if looked.today.tokens + tokens >= self.config.tokens_a_day:
            parts.append(f"The day's {self.config.tokens_a_day:,} tokens for heartbeats are used; they go on tomorrow.")
        text = "\n".join(parts)
        session = self.beats.last_chat() if text else ""
        return begun._replace(tokens=tokens, outcome=outcome, session=session, text=text)


# Keeps a heart going beside a chat, and out of the way of the person who waits for the model.

_IDLE_S = 30.0  # whoever has just come, or been answered, is likely to ask something
_STOP_TIMEOUT_S = 0.5
_RETRY_S = 300.0


class HeartbeatThread:
    """Runs heartbeats in a thread of its own. A turn of a person stops the running one, which is put off."""

    def __init__(
        self,
        opened: Callable[[Stop], AbstractContextManager[tuple[Heartbeat, Callable[[], HeartbeatTime]]]],
        complain: Callable[[str], None],
        peace_s: float | None = None,
    ) -> None:
        """`opened(stop)` makes the heart and its clock within the thread, with a database of its own.

        `peace_s`: for how long nobody must have asked anything.
        """
        self._opened, self._complain = opened, complain
        self._complained = ""
        self._peace_s = _IDLE_S if peace_s is None else peace_s
        self._not_before = time_.monotonic() + self._peace_s
        self._stop = Stop()
        self._ending = threading.Event()
        self._wake = threading.Event()
        self._heart: Heartbeat | None = None
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> tuple[int, int]:
        """Stop; returns number and tokens of a heartbeat that did not stop in time, 0 for none."""
        self._ending.set()
        self._stop.set()
        self._wake.set()
        self._thread.join(_STOP_TIMEOUT_S)
        heart = self._heart if self._thread.is_alive() else None
        return (heart.going, heart.used) if heart else (0, 0)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Stop the running heartbeat, and start none while a person waits for an answer."""
        self._stop.set()
        try:
            yield
        finally:
            self._not_before = time_.monotonic() + self._peace_s
            if not self._ending.is_set():
                self._stop.clear()
            self._wake.set()

    def _run(self) -> None:
        try:
            with self._opened(self._stop) as (heart, clock):
                self._heart = heart
                while not self._ending.is_set():
                    self._wake.clear()
                    self._wake.wait(self._step(heart, clock))
        except PicoclawError as error:
            self._complain(f"there are no heartbeats: {error}")

    def _step(self, heart: Heartbeat, clock: Callable[[], HeartbeatTime]) -> float | None:
        """Returns for how many seconds there is nothing to do, None for until the turn ends."""
        if self._stop:
            return None
        if (wait := self._not_before - time_.monotonic()) > 0:
            return wait
        try:
            return heart.step(clock())
        except PicoclawError as error:
            if str(error) != self._complained:
                self._complained = str(error)
                self._complain(f"heartbeats wait: {error}")
            return _RETRY_S

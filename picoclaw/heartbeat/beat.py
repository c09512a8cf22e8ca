"""A heartbeat: look, decide, ask a model if there is something to ask, keep what came of it. Time is handed in.

What must survive is in the store before a model is asked, so that no restart makes the next one come earlier.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from picoclaw.config import HEARTBEAT_LIMITS, HeartbeatConfig
from picoclaw.errors import ConfigError
from picoclaw.heartbeat import checklist, decide
from picoclaw.heartbeat.checklist import Checklist
from picoclaw.heartbeat.decide import Decision, Situation
from picoclaw.heartbeat.due import Senses, files, findings
from picoclaw.heartbeat.silence import is_ok
from picoclaw.heartbeat.traces import Traces
from picoclaw.messages import End, Event, Inbound, ToolRun, Turn
from picoclaw.store.beats import SESSION, Beat, Beats, Outcome, Today

PAGE = "HEARTBEAT.md"

_UNCOUNTED = 4000  # tokens of a request whose server does not count
_SET_BACK_S = 120.0
_TELL_AFTER = 3
_AGAIN_S = 1.0
_LONGEST_S = HEARTBEAT_LIMITS.seconds + 60.0  # with its last word


class Now(NamedTuple):
    """The date, the seconds of a boot, which nobody can set, and whether the date can be believed."""

    wall: datetime
    mono: float
    boot: str
    trusted: bool = True


class Looked(NamedTuple):
    """What a look found: the checklist, the situation and what follows from it."""

    checklist: Checklist
    situation: Situation
    decision: Decision
    today: Today


@dataclass
class Heart:
    """Decides and asks.

    `page` reads HEARTBEAT.md, None if there is none, and raises ConfigError; `answer` takes the most tokens as well,
    and what hears the turn; `modelled` tells whether there is a model, `empty` how an answer without words is worded;
    `ring` is called when there is something to be told, and `mark` ends what the model says. `helped` counts
    the tokens of helpers that heartbeats have asked for since a moment, in seconds since 1970. `going` is the number of
    the heartbeat in hand, 0 for none, and `used` what it has taken so far. `held` says why a model may take no more.
    """

    config: HeartbeatConfig
    beats: Beats
    page: Callable[[], str | None]
    senses: Senses
    answer: Callable[[Inbound, int, Callable[[Event | ToolRun], None]], Turn]
    modelled: bool
    empty: str = ""
    ring: Callable[[], None] = lambda: None
    mark: str = ""
    helped: Callable[[float], int] = lambda _: 0
    held: Callable[[], str] = lambda: ""
    going: int = field(default=0, init=False)
    used: int = field(default=0, init=False)

    def step(self, now: Now) -> float | None:
        """Do what is to be done now; returns for how many seconds there is nothing to do, None for ever."""
        looked = self.look(now)
        made = self.beat(looked, now) if looked.decision.beat else None
        return _AGAIN_S if made and made.outcome == "put off" else looked.decision.wait_s

    def look(self, now: Now, *, by_hand: bool = False, keep: bool = True) -> Looked:
        """Read, look and decide. With `keep`, what has to be remembered of the lines is."""
        config = self.config
        listed, problem = self._listed()
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
            return Looked(listed, situation, decide.decide(situation), Today())
        return self._looked(listed, situation, now, keep=keep and now.trusted)

    def _looked(self, listed: Checklist, situation: Situation, now: Now, *, keep: bool) -> Looked:
        """Look at the lines and at what was; nothing is kept by a date that cannot be believed."""
        known, today = self.beats.known(), self.beats.today(now.wall)
        late = now.wall.timestamp() + _SET_BACK_S
        ahead = bool(today.last and today.last.at > late)
        set_back = ahead and bool(today.last and today.last.boot != now.boot)
        if keep and (ahead or any(max(line.after, line.since) > late for line in known.values())):
            self.beats.set_back(now.wall)
            known, today = self.beats.known(), self.beats.today(now.wall)
        midnight = now.wall.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        today = today._replace(tokens=today.tokens + self.helped(midnight))
        asleep = keep and not situation.by_hand and decide.is_quiet(situation.quiet, now.wall)
        found = findings(listed.items, known, self.senses, now.wall, asleep=asleep)
        if keep and listed != Checklist():  # an editor may just be about to write it
            self.beats.remember({finding.item.key: finding.known for finding in found})
        since_s = _since(now, today.last)
        going_on = bool(today.last and today.last.outcome == "running" and today.last.boot == now.boot)
        situation = situation._replace(
            findings=found,
            set_back=set_back,
            since_s=since_s,
            running=going_on and (since_s or 0.0) < _LONGEST_S,
            failures=today.failures if today.last else 0,
            used=today.tokens,
            held=self.held(),
        )
        return Looked(listed, situation, decide.decide(situation), today)

    def _listed(self) -> tuple[Checklist, str]:
        try:
            text = self.page()
        except ConfigError as error:
            return Checklist(), str(error)
        if text is None:
            return Checklist(), f"there is no {PAGE}; `picoclaw init` makes one"
        return checklist.parse(text), ""

    def beat(self, looked: Looked, now: Now, *, told: bool = False) -> Beat | None:
        """Ask what was decided; None when another process has done so meanwhile. `told`: a person reads the answer."""
        tokens = max(1, min(HEARTBEAT_LIMITS.tokens, self.config.tokens_a_day - looked.today.tokens))
        begun = self.beats.begin(now.wall, now.boot, now.mono, tokens, looked.today.number)
        if begun is None:
            return None
        items = [finding.item for finding in looked.situation.findings]
        traces = Traces(self.senses.mark, {path for item in items for path in files(item)})
        self.going, self.used = begun.number, 0

        def hear(event: Event | ToolRun) -> None:
            self.used += event.usage.total if isinstance(event, End) else 0
            traces.hear(event)

        asked = Inbound(SESSION, looked.decision.ask, "heartbeat", self.beats.last_chat())
        turn = self.answer(asked, tokens, hear)
        made = self._made(begun, turn, looked)
        settled = looked.decision.asked if made.outcome in {"silent", "said"} else ()
        known = [(f.item, f.known) for f in looked.situation.findings] + [(f.item, f.settled) for f in settled]
        lines = {item.key: traces.known(one, files(item)) for item, one in known}
        self.beats.finish(made, lines, told=told)
        self.going = 0
        if made.text and not told:
            self.ring()
        return made

    def _made(self, begun: Beat, turn: Turn, looked: Looked) -> Beat:
        failed = turn.stopped in {"error", "stopped"} or turn.reply.strip() in {"", self.empty.strip()}
        tokens = turn.usage.total or (0 if failed else turn.steps * _UNCOUNTED)
        parts = [str(run.arguments["text"]) for run in turn.tools if _is_message(run.name, run.arguments, run.result)]
        parts += [] if failed or is_ok(turn.reply, looked.checklist.answer) or turn.reply in parts else [turn.reply]
        parts += [self.mark] if parts and self.mark else []
        bad: Outcome = "put off" if turn.stopped == "stopped" else "failed"
        outcome: Outcome = "said" if parts else bad if failed else "silent"
        if outcome == "failed" and looked.today.ended + 1 == _TELL_AFTER:
            parts.append(f"The last {_TELL_AFTER} heartbeats failed: {turn.notice.text or turn.reply}")
        if looked.today.tokens + tokens >= self.config.tokens_a_day:
            parts.append(f"The day's {self.config.tokens_a_day:,} tokens for heartbeats are used; they go on tomorrow.")
        text = "\n".join(parts)
        session = self.beats.last_chat() if text else ""
        return begun._replace(tokens=tokens, outcome=outcome, session=session, text=text)


def _since(now: Now, last: Beat | None) -> float | None:
    """Seconds since the last one, by the clock of this boot, or else by the date; None if there was none."""
    if last is None:
        return None
    return now.mono - last.mono if last.boot == now.boot else max(0.0, now.wall.timestamp() - last.at)


def _is_message(name: str, arguments: dict[str, object], result: str) -> bool:
    """Whether it is something that the model said with the tool for it."""
    return name == "message" and bool(arguments.get("text")) and not result.startswith("error:")

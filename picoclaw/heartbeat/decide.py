"""Whether a model is asked now, why or why not, and what: a table of rules over what is known. Opens nothing."""

from collections.abc import Callable, Sequence
from datetime import datetime, time
from typing import NamedTuple

from picoclaw.heartbeat.due import Finding
from picoclaw.schedule import at, duration, seconds_until

LONGEST_ASK = 8000
"""Characters; lines that have no room stay due."""

_MOST_DOUBLINGS = 4


class Situation(NamedTuple):
    """All that a decision depends on. `file` says why there is no checklist, '' if there is one.

    `since_s` is how long ago the last heartbeat was, None if there was none; `running`: it may still be going on;
    `failures` how many failed in a row;
    `quiet` the hours in which nobody is to be disturbed; `by_hand`: a person asks for one now. `held` says why a model
    may take no more today, '' if it may.
    """

    now: datetime
    findings: Sequence[Finding] = ()
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
        return self.every_s * (1 << min(self.failures, _MOST_DOUBLINGS))


class Decision(NamedTuple):
    """`rule` names what decided. A model is to be asked about `asked`, in the words `ask`; `wait_s` until the next."""

    beat: bool
    rule: str
    why: str
    wait_s: float | None
    ask: str = ""
    asked: tuple[Finding, ...] = ()


def decide(s: Situation) -> Decision:
    """Apply the first rule that speaks against it; none does when there is something to ask."""
    for name, asks_hand, check in _RULES:
        if (why := check(s)) and not (s.by_hand and not asks_hand):
            return Decision(False, name, why, _wait(s, name))
    asked = _fitting([finding for finding in s.findings if finding.due or (s.by_hand and _is_plain(finding))])
    if not asked:
        return Decision(False, "not due", _not_due(s), _wait(s, "not due"))
    reasons = "; ".join(f"line {f.item.line}: {f.why if f.due else 'asked by hand'}" for f in asked)
    return Decision(True, "due", reasons, min([s.pause_s, *_judged(s)]), question(asked), asked)


def _is_plain(finding: Finding) -> bool:
    return finding.item.timing is None and finding.item.when is None


def _nothing_to_do(s: Situation) -> str:
    if s.file or s.findings:
        return s.file
    return f"all lines of HEARTBEAT.md are done ({s.done})" if s.done else "HEARTBEAT.md holds nothing to look after"


def _too_early(s: Situation) -> str:
    if s.since_s is None or s.since_s >= s.pause_s:
        return ""
    failed = f" and failed, as {s.failures} in a row have" if s.failures > 1 else " and failed" if s.failures else ""
    return f"the last one was {duration(s.since_s)} ago{failed}; the next comes in {duration(s.pause_s - s.since_s)}"


def is_quiet(quiet: tuple[time, time] | None, now: datetime) -> bool:
    """Tell whether a moment is within the quiet hours, by the clock on the wall; they may go over midnight."""
    if quiet is None:
        return False
    (start, end), clock = quiet, now.time()
    return start <= clock < end if start < end else clock >= start or clock < end


def _running(s: Situation) -> str:
    return f"another picoclaw began one {duration(s.since_s or 0.0)} ago, which goes on" if s.running else ""


def _quiet(s: Situation) -> str:
    return f"quiet hours until {s.quiet[1]:%H:%M}" if s.quiet and is_quiet(s.quiet, s.now) else ""


def _used_up(s: Situation) -> str:
    full = f"the day's {s.cap:,} tokens for heartbeats are used ({s.used:,}); they go on tomorrow, chats go on now"
    return full if s.used >= s.cap else ""


_NOT_TRUSTED = "the clock cannot be trusted yet, so it waits"
_SET_BACK = "the clock was set back; the interval counts from now"

_RULES: tuple[tuple[str, bool, Callable[[Situation], str]], ...] = (
    ("disabled", False, lambda s: "" if s.enabled else "heartbeats are switched off (enabled under [heartbeat])"),
    ("nothing to do", True, _nothing_to_do),
    ("no model", True, lambda s: "" if s.modelled else "no model is configured (base_url under [model])"),
    ("clock", False, lambda s: "" if s.trusted else _NOT_TRUSTED),
    ("set back", False, lambda s: _SET_BACK if s.set_back else ""),
    ("interval", False, _too_early),
    ("running", True, _running),
    ("quiet hours", False, _quiet),
    ("budget", True, _used_up),
    ("costs", True, lambda s: s.held),
)
"""Rules by name, in their order, and whether each also binds a person who asks for a heartbeat by hand."""


def _not_due(s: Situation) -> str:
    return "nothing is due: " + "; ".join(f"line {f.item.line}: {f.why}" for f in s.findings)


def _wait(s: Situation, rule: str) -> float | None:
    """How long nothing can change by itself; a file that is edited is noticed after the interval at the latest."""
    if rule == "disabled":
        return None
    waits = [s.every_s, *(f.next_s for f in s.findings if f.next_s)]
    if rule == "interval":
        waits = [s.pause_s - (s.since_s or 0.0), *_judged(s)]
    if rule == "quiet hours" and s.quiet:
        waits = [s.every_s, seconds_until(at(f"{s.quiet[1]:%H:%M}", s.now), s.now)]
    return max(1.0, min(waits))


def _judged(s: Situation) -> list[float]:
    """When a condition is to be judged, though nobody can be asked before the pause is over."""
    return [finding.next_s for finding in s.findings if finding.next_s and finding.item.when]


def _fitting(due: Sequence[Finding]) -> tuple[Finding, ...]:
    """As many as a question takes, but one at least."""
    room, asked = LONGEST_ASK, list[Finding]()
    for finding in due:
        room -= len(finding.item.text) + len(finding.note) + len(finding.item.heading) + 10
        if room < 0 and asked:
            break
        asked.append(finding)
    return tuple(asked)


def question(asked: Sequence[Finding]) -> str:
    """Put the lines as the owner wrote them, under their headings, with what was found."""
    lines, heading = list[str](), ""
    for finding in asked:
        item = finding.item
        if item.heading != heading:
            heading = item.heading
            lines += [f"{heading}:"] if heading else []
        lines.append(f"- {item.text[:LONGEST_ASK]}{f' ({finding.note})' if finding.note else ''}")
    return "\n".join(lines)

"""What was promised by a moment of the day, held against what is there after the cut and one more start.

An event is a tuple of what the world has seen: said and accepted, told and shown live, done on the board. Whatever was
told before the cut counts, and what is told after it; nothing else of the cut house is known here.
"""

import json
import re
import sqlite3
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from day import TERMINAL, TOKEN, Event, Move, Say

from picoclaw.security import audit

AGAIN = "perhaps a repeat"
"""What is told with these words may have been told already, and says so."""

_CUT_OFF, _NOT_DONE, _UNKEPT = "cut off", "was not done", "could not be saved"
_NUMBER = re.compile(r"umber (\d+) was done")
_ANSWER = re.compile(r"\A(?:done|heard)(?: T\d{3})+:")
_MODEL = re.compile(r"(?:[^:\n]*: )?(later )?(?:done|heard) (T\d{3}|umber)")
_DATABASES = ("state.db", "history.db", "memory.db")


class Verdict(NamedTuple):
    """How many promises were looked at, and those that were broken, by kind."""

    checked: int
    losses: tuple[str, ...] = ()
    doubles: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not (self.losses or self.doubles or self.faults)


Found = tuple[str, str]
"""What kind of promise was looked at, and what is wrong, '' for nothing."""


class Case(NamedTuple):
    """A cut: its script, what was seen before and after it, and the home as it is now."""

    script: Sequence[Move]
    before: Sequence[Event]
    after: Sequence[Event]
    home: Path

    @property
    def seen(self) -> list[Event]:
        return [*self.before, *self.after]

    @property
    def says(self) -> dict[str, Say]:
        return {move.token: move for move in self.script if isinstance(move, Say)}


def judge(case: Case) -> Verdict:
    """Hold everything against everything."""
    found = [one for check in CHECKS for one in check(case)]
    sorted_: dict[str, list[str]] = {"loss": [], "double": [], "fault": []}
    for kind, wrong in found:
        if wrong:
            sorted_[kind].append(wrong)
    return Verdict(len(found), *(tuple(sorted_[kind]) for kind in ("loss", "double", "fault")))


def texts(events: Sequence[Event]) -> list[str]:
    """What a person was told or shown."""
    return [event[2] for event in events if event[0] in {"told", "live"}]


def accepted(case: Case) -> Iterator[Found]:
    """Whatever was acknowledged is answered, or said to have been cut off."""
    known: set[str] = set()
    for place, event in enumerate(case.seen):
        if event[0] != "accepted" or event[1] in known:
            continue
        _, number, text = event
        known.add(number)
        said = next(at for at, one in enumerate(case.seen) if one[:2] == ("said", number))
        later = texts(case.seen[min(place, said) :])
        later += _at_once(case.seen[place + 1 :], number)
        well = any(re.search(_answer_to(number, text), told) for told in later)
        yield "loss", "" if well else f"{number} was accepted and never answered"


def _at_once(events: Sequence[Event], number: str) -> Iterator[str]:
    """What was told next, and is about nothing else: an answer without a model does not name the wish."""
    for event in events:
        if event[0] == "said":
            return
        if event[0] in {"told", "live"} and not TOKEN.search(event[2]):
            yield f"{number}: {event[2]}"


def _answer_to(number: str, text: str) -> str:
    """What an answer to a text says, as a pattern."""
    if text.startswith("/new"):
        return "new conversation|/new"
    if not text.startswith("/"):
        return rf"{number}\b"
    asked = text.split()[1]
    return rf"umber {asked}\b|/(yes|no) {asked}\b|{number.partition(' ')[0]}\b"


def answers(case: Case) -> Iterator[Found]:
    """No answer, reminder or letter comes twice without a word about it.

    What is told while the disk takes nothing has no number, and may come again after a restart: nobody can know it.
    """
    kept = [event for event in case.seen if event[0] in {"told", "live"} and event[1] and _UNKEPT not in event[2]]
    plain = [text for text in texts(kept) if AGAIN not in text]
    told = Counter(text.split(":")[0] for text in plain if _ANSWER.match(text))
    rang = Counter(text.split(" (")[0].split("\n")[0] for text in plain if text.startswith("Reminder: "))
    warned = Counter(text.split(" (")[0] for text in plain if re.match(r"T\d{3} ", text))
    for what, times in (*told.items(), *rang.items(), *warned.items()):
        yield "double", "" if times == 1 else f"{what!r} was told {times} times"
    letters = Counter(event[1] for event in kept if event[0] == "told" and AGAIN not in event[2])
    for letter, times in letters.items():
        yield "double", "" if times == 1 else f"letter {letter} was told {times} times"


def acts(case: Case) -> Iterator[Found]:
    """What was done on the board, or begun as a job, is not done again."""
    for kind in ("act", "job"):
        for what, times in Counter(event[1] for event in case.seen if event[0] == kind).items():
            yield "double", "" if times == 1 else f"{kind} {what!r} was done {times} times"


def effects(case: Case) -> Iterator[Found]:
    """What was told as done is there, once; nothing is there twice."""
    done = _done(case)
    for token, say in case.says.items():
        if say.kind not in SINKS:
            continue
        count = SINKS[say.kind](case, token)
        yield "double", "" if count <= 1 else f"{say.kind} {token} is there {count} times"
        if token in done:
            yield "loss", "" if count else f"{say.kind} {token} was told as done, and is not there"


def _done(case: Case) -> set[str]:
    """The wishes that were told as done, directly or by the number of their question."""
    said = texts(case.seen)
    done = {token for text in said if text.startswith("done") for token in TOKEN.findall(text.split(":")[0])}
    numbers = {number for text in said for number in _NUMBER.findall(text)}
    for event in case.seen:
        if event[0] == "asked" and str(event[1]) in numbers:
            done.update(TOKEN.findall(event[2])[:1])
    return done


def reminders(case: Case) -> Iterator[Found]:
    """A reminder that was confirmed has rung by the end, which is long after it was due."""
    said = texts(case.seen)
    for token, say in case.says.items():
        if say.kind in {"reminder", "job", "subagent"} and token in _done(case):
            rang = [text for text in said if token in text and not text.startswith(("done", "heard " + token + ":"))]
            began = any(event[0] == "job" and token in event[1] for event in case.seen)
            yield "loss", "" if rang or began else f"{say.kind} {token} was confirmed, and is gone"
            twice = _listed(case, token)
            yield "double", "" if twice <= 1 else f"{say.kind} {token} was done {twice} times"


def questions(case: Case) -> Iterator[Found]:
    """A yes that was acknowledged is carried out, its outcome is said to be unknown, or that it could not be saved."""
    for place, event in enumerate(case.seen):
        if event[0] == "accepted" and any("state.db" in told for told in _at_once(case.seen[place + 1 :], event[1])):
            continue
        if event[0] == "accepted" and event[1].endswith(" yes"):
            number = int(event[2].split()[1])
            state = _text(case.home, "SELECT state FROM approvals WHERE id = ?", number)
            told = any(_is_undone(text, "/yes", number) for text in texts(case.seen))
            well = state in {"done", "failed", "unknown"} or (state == "waiting" and told)
            yield "loss", "" if well else f"the yes to number {number} was accepted; now it is {state!r}"
        if event[0] == "accepted" and event[1].endswith(" no"):
            number = int(event[2].split()[1])
            state = _text(case.home, "SELECT state FROM approvals WHERE id = ?", number)
            told = any(_is_undone(text, "/no", number) for text in texts(case.seen))
            yield "loss", "" if state == "refused" or told else f"the no to number {number}: now it is {state!r}"


def _is_undone(text: str, word: str, number: int) -> bool:
    """Whether a text says that this answer to a question was cut off, or could not be taken."""
    return (f"{word} {number}" in text and _CUT_OFF in text) or f"{word} {_NOT_DONE}" in text


def records(case: Case) -> Iterator[Found]:
    """The audit is whole, and has a record of whatever was done."""
    if (case.home / audit.LOG_NAME).exists():
        yield "fault", audit.verify_audit(case.home).fault
    if any(event[0] == "act" for event in case.seen):
        lines = [json.loads(line) for line in (case.home / audit.LOG_NAME).read_bytes().splitlines()]
        calls = [one for one in lines if one.get("act") == "call" and one.get("tool") == "i2c"]
        yield "loss", "" if calls else "a valve was turned, and the audit has no record of it"


def costs(case: Case) -> Iterator[Found]:
    """Every request that was answered is in the ledger, unless the disk took nothing."""
    if not any(event[0] == "log" and ".db: " in event[1] for event in case.seen):
        told = {text for text in texts(case.seen) if AGAIN not in text}
        took = sum(_requests(case, found) for text in told if (found := _MODEL.match(text)))
        asked = _count(case.home, "SELECT coalesce(sum(requests), 0) FROM ledger")
        yield "loss", "" if asked >= took else f"{took} requests were answered, and {asked} are in the ledger"


def _requests(case: Case, answer: re.Match[str]) -> int:
    """How many requests an answer took: one for each thing that the model did, and one for its word."""
    say = case.says.get(answer[2])
    return 2 if answer[1] else 1 + (say.text.count("[[") if say else 0)


def databases(case: Case) -> Iterator[Found]:
    """Every database is whole."""
    for name in _DATABASES:
        if (case.home / name).exists():
            found = _text(case.home, "PRAGMA integrity_check", database=name)
            yield "fault", "" if found == "ok" else f"{name}: {found}"
    orphans = _text(case.home, "SELECT count(*) FROM pragma_foreign_key_check")
    yield "fault", "" if orphans == "0" else f"state.db: {orphans} rows point nowhere"


def tables(case: Case) -> Iterator[Found]:
    """Every file of settings can be read."""
    for name in ("config.toml", "sensors.toml", "rules.toml", "policy.toml"):
        if (path := case.home / name).exists():
            try:
                tomllib.loads(path.read_text())
                wrong = ""
            except ValueError as error:
                wrong = f"{name}: {error}"
            yield "fault", wrong


def next_turn(case: Case) -> Iterator[Found]:
    """Afterwards everything works as ever."""
    said = texts(case.after)
    well = any(text.startswith("done T900") for text in said) and _notes(case, "T900") == 1
    yield "fault", "" if well else f"the next turn did not work: {said[-1:]}"


def _lines(case: Case, *names: str) -> Callable[[str], int]:
    folder = case.home / "workspace"
    found = [path for name in names for path in sorted(folder.glob(name)) if path.is_file()]
    return lambda token: sum(token in line for path in found for line in path.read_text().splitlines())


def _notes(case: Case, token: str) -> int:
    return _lines(case, "memory/*.md", "memory/*/*.md")(token)


def _listed(case: Case, token: str) -> int:
    return _lines(case, "list.txt")(token)


def _acts(case: Case, token: str) -> int:
    written = {"T008": "valve 0108", "T010": "valve 010a"}[token]
    return sum(event[:2] == ("act", written) for event in case.seen)


def _jobs(case: Case, token: str) -> int:
    """A reminder that has rung is not there any more, and was."""
    kept = _count(case.home, "SELECT count(*) FROM jobs WHERE message LIKE ?", f"%{token}%")
    rang = any(text.startswith("Reminder: ") and token in text for text in texts(case.seen))
    began = any(event[0] == "job" and token in event[1] for event in case.seen)
    return max(kept, int(rang or began))


def _in_file(name: str) -> Callable[[Case, str], int]:
    def count(case: Case, token: str) -> int:
        path = case.home / name
        return int(path.exists() and token.lower() in path.read_text().lower())

    return count


SINKS: dict[str, Callable[[Case, str], int]] = {
    "note": _notes,
    "file": _listed,
    "write": lambda case, token: _lines(case, "plan.txt")(token),
    "edit": lambda case, token: _lines(case, "plan.txt")(token),
    "beat": lambda case, token: _lines(case, "HEARTBEAT.md")(token),
    "task": lambda case, token: _count(case.home, "SELECT count(*) FROM pulse WHERE text LIKE ?", f"%{token}%"),
    "valve": _acts,
    "reminder": _jobs,
    "job": _jobs,
    "rule": _in_file("rules.toml"),
    "sensor": _in_file("sensors.toml"),
    "skill": _in_file("workspace/skills/t020-pond/SKILL.md"),
}


def talks(case: Case) -> Iterator[Found]:
    """Whoever sits at the terminal is answered also on a disk that fails, or the daemon has said why it ended."""
    if any(event[0] == "ended" for event in case.before):
        return
    begun = [event[1] for event in case.before if event[0] == "said" and event[3] == TERMINAL]
    shown = {event[1] for event in case.before if event[0] == "live"}
    over = any(event[0] == "over" for event in case.before)
    for number in begun if over else ():
        yield "fault", "" if number in shown else f"{number} was said at the terminal, and nothing was shown"


CHECKS: tuple[Callable[[Case], Iterator[Found]], ...] = (
    accepted,
    answers,
    acts,
    effects,
    reminders,
    questions,
    records,
    costs,
    databases,
    tables,
    talks,
    next_turn,
)


@lru_cache(maxsize=8)
def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path)


def _text(home: Path, sql: str, *values: Any, database: str = "state.db") -> str:
    row = _opened(home / database).execute(sql, values).fetchone()
    return str(row[0]) if row else ""


def _count(home: Path, sql: str, *values: Any) -> int:
    return int(_text(home, sql, *values) or 0)

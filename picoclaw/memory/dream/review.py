"""The open tasks gone through by a model: it is shown them and what was noted, and answers changes, each checked.

Nothing that is not the owner's word is shown, so that no text from outside can change what is to be done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

from picoclaw.errors import StoreError
from picoclaw.memory.dream import loss
from picoclaw.memory.dream.direct import Model, listed
from picoclaw.memory.dream.page import trusted
from picoclaw.messages import Usage
from picoclaw.prompt import Page, Templates, fill, size
from picoclaw.schema import Parameter, Span, Unfit, check, parameter
from picoclaw.store.pulse import By, Change, Item, Pulse, line

MOST = 20
_CHANGE: tuple[Parameter, ...] = (
    parameter("action", Literal["complete", "update", "add"]),
    parameter("task", int, 0),
    parameter("text", str, ""),
    parameter("priority", Annotated[int, Span(0, 10)], 0),
)
_DONE = {"complete": "completed", "update": "changed", "add": "added"}


class Step(NamedTuple):
    """What a step has done, in words for the owner ('' for nothing), what it took, and whether the model answered."""

    said: str = ""
    usage: Usage = Usage()
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Review:
    """One kind of going through the tasks, by the name of its template; `marks` are set when it was done."""

    pulse: Pulse
    prompts: Templates
    template: str
    marks: Mapping[str, str]

    def __call__(self, notes: Sequence[Page], model: Model, now: datetime) -> Step:
        """Ask, and change what may be changed; an answer that is none changes nothing. Raises ProviderError."""
        items = [item for item in self.pulse.items() if not item.source]
        by, usage = By(self.template, now), Usage()
        changes: list[Change] = []
        problem = ""
        if items:
            shown = _fitting(notes, model.room(self.prompts[self.template]) - size(_lines(items)))
            answer = model.ask(_asked(self.prompts[self.template], items, shown, now))
            usage = answer.usage
            found = None if answer.cut else listed(answer.text)
            known = loss.source([_lines(items), *(page.text for page in shown)])
            changes, problem = _checked(found, items, known)
        try:
            self.pulse.apply(changes, by, self.marks)
        except StoreError as error:
            changes, problem = [], str(error)
            self.pulse.apply([], by, self.marks)
        return Step("; ".join(filter(None, [_said(changes, items), problem])), usage)


def _lines(items: Sequence[Item]) -> str:
    return "\n".join(map(line, items))


def _fitting(notes: Sequence[Page], room: int) -> list[Page]:
    """The newest of the notes that there is room for."""
    fitting = []
    for page in notes:
        text = trusted(page.text)
        room -= size(text) + 2
        if room < 0:
            break
        fitting.append(Page(page.name, text))
    return fitting


def _asked(template: str, items: Sequence[Item], notes: Sequence[Page], now: datetime) -> str:
    values = {
        "tasks": _lines(items),
        "content": "\n\n".join(page.text for page in reversed(notes)),
        "now": f"{now:%F %R}",
    }
    template += "".join(f"\n{{{name}}}" for name in ("tasks", "content") if f"{{{name}}}" not in template)
    return fill(template, values)


def _checked(found: list[Any] | None, items: Sequence[Item], known: loss.Source) -> tuple[list[Change], str]:
    """The changes that can be made, and what was wrong with others, or with all of them."""
    if found is None:
        return [], "the model's answer was no list of changes, so nothing was changed"
    if len(found) > MOST:
        return [], f"the model wanted {len(found)} changes, more than {MOST}, so nothing was changed"
    changes, problems = [], []
    for given in found:
        try:
            changes.append(_change(given, items, known))
        except Unfit as error:
            problems.append(str(error))
    done = {change.number for change in changes if change.action == "complete"}
    if len(done) > max(1, len(items) // 2):
        return [], f"the model wanted {len(done)} of {len(items)} tasks completed, so nothing was changed"
    left_out = f"left out of the model's changes: {loss.named(problems)}" if problems else ""
    return list(dict.fromkeys(changes)), left_out


def _change(given: Any, items: Sequence[Item], known: loss.Source) -> Change:
    if not isinstance(given, dict):
        raise Unfit("a change must be an object")
    values = check(_CHANGE, {"task" if name == "id" else str(name): value for name, value in given.items()})
    change = Change(values["action"], values["task"], values["text"].strip(), values["priority"])
    if change.action == "add":
        change = change._replace(number=0)
    elif change.number not in {item.number for item in items}:
        raise Unfit(f"there is no task {change.number}")
    if change.action == "complete":
        return change._replace(text="", priority=0)
    if change.text and not loss.told(change.text, known):
        raise Unfit(f"nobody said {change.text!r}")
    if not change.text and (change.action == "add" or not change.priority):
        raise Unfit(f"'text' is missing to {change.action}")
    return change


def _said(changes: Sequence[Change], items: Sequence[Item]) -> str:
    words = {item.number: item.text for item in items}
    made = {
        done: [change.text or words[change.number] for change in changes if change.action == action]
        for action, done in _DONE.items()
    }
    return ", ".join(f"{len(texts)} {done} ({loss.named(texts)})" for done, texts in made.items() if texts)

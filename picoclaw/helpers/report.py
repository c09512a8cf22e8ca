"""How the outcome of helpers' tasks is worded: for the chat, for a model, in a list. Pure."""

import re
from collections.abc import Sequence

from picoclaw.errors import ToolError
from picoclaw.prompt import enclosed, fill
from picoclaw.schedule import duration
from picoclaw.store.task import OPEN, Task

LONGEST = 4000
"""Characters of a report that is handed on to a model; the chat is told all of it."""

_LONGEST_STEP, _LONGEST_TEXT = 300, 80
_REPORT = '<report name="{name}">\n{content}\n</report>'
_CLOSING = re.compile(r"</(?=\s*report\b)", re.IGNORECASE)
_ENDS = {"failed": "failed", "lost": "was lost", "impossible": "was not begun", "cancelled": "was cancelled"}


def letter(tasks: Sequence[Task], mark: str = "") -> str:
    """Word the one message about tasks that have ended together, in the order in which they were asked for.

    A report that another one was made of is only begun. The `mark` says what all of it comes from.
    """
    if len(tasks) == 1:
        return f"Helper {outcome(tasks[0])} {mark}".rstrip()
    used = {need for task in tasks if task.status == "done" for need in task.needs}
    counts = [f"{sum(task.status == status for task in tasks)} {words}" for status, words in _ENDS.items()]
    wrong = ", ".join(count for count in counts if not count.startswith("0 "))
    head = f"{len(tasks)} helpers have ended{f', {wrong}' if wrong else ''}:"
    rows = (cut(outcome(task), _LONGEST_STEP) if task.number in used else outcome(task) for task in tasks)
    return "\n".join([head, *(f"- {row}" for row in rows), *([mark] if mark else [])])


def outcome(task: Task) -> str:
    """Say who has ended how, and with what report."""
    how, why = _ended(task)
    return f"{task.label}{how and ' '}{how}{why and ': '}{why}"


def _ended(task: Task) -> tuple[str, str]:
    """How a task ended when it was not done, and what there is to say of it."""
    why = task.result.strip() or ("what it needs was not done" if task.status == "impossible" else "")
    return _ENDS.get(task.status, ""), why


def cut(text: str, most: int) -> str:
    """Shorten a text to so many characters, and say so."""
    return text if len(text) <= most else f"{text[:most].rstrip()}… [{len(text) - most} characters more]"


def answer(task: Task) -> str:
    """Give the report to whoever waits for it. Raises ToolError when it was not done."""
    if task.status != "done":
        raise ToolError(f"helper {outcome(task)}")
    return block(_REPORT, task)


def shown(task: Task) -> str:
    """Give the report of a task that has ended, however it did."""
    return block(_REPORT, task)


def block(template: str, task: Task, most: int = LONGEST) -> str:
    """Put a report into a tagged block that it cannot close by itself, for a model that is to know of it."""
    said = cut(": ".join(filter(None, _ended(task))), most)
    content = _CLOSING.sub("< /", enclosed(said))
    return fill(template or "{content}", {"name": task.label, "content": content}, "content")


def row(task: Task, now: float) -> str:
    """Describe a task in a line; `now` in seconds since 1970."""
    needs = f", after {', '.join(map(str, task.needs))}" if task.status == "waiting" and task.needs else ""
    spent = f", {task.used.steps} of {task.limits.steps} steps" if task.status == "running" else ""
    when = f", asked {duration(max(0.0, now - (task.asked if task.status in OPEN else task.ended)))} ago"
    when = when if task.status in OPEN else when.replace("asked", "ended")
    return f"{task.label}: {task.status}{needs}{spent}{when}: {cut(' '.join(task.text.split()), _LONGEST_TEXT)}"

"""The command about what helpers were given to do."""

from picoclaw.commands.chat import Answer, Chat, number_in, short
from picoclaw.helpers import report
from picoclaw.reflex.bell import ring

_MOST = 20
_CANCEL = "cancel"


def tasks(chat: Chat, rest: str) -> Answer:
    """List the open and the newest tasks of this chat, or cancel one."""
    if not rest:
        listed = {*chat.tasks().unfinished(chat.key), *chat.tasks().newest(chat.key, _MOST)}
        rows = [report.row(task, chat.now.timestamp()) for task in sorted(listed)]
        return Answer("\n".join(rows) or "No helper was given anything to do in this chat.")
    word, _, number = rest.partition(" ")
    if word.lower() != _CANCEL or not number_in(number):
        return Answer(f"{short(rest, 40)!r} is not understood; /tasks cancel NUMBER cancels one.", good=False)
    return _cancelled(chat, number_in(number))


def _cancelled(chat: Chat, number: int) -> Answer:
    tasks = chat.tasks()
    ours = {task.number for task in tasks.unfinished(chat.key)}
    if number not in ours:
        has = f"open are {', '.join(map(str, sorted(ours)))}" if ours else "none is open"
        return Answer(f"There is no open task {number} in this chat: {has}.", good=False)
    ended = tasks.cancel(number, chat.key, chat.now.timestamp())
    ring(chat.stores.config.home)
    return Answer(f"Cancelled: {', '.join(task.label for task in ended)}.")

"""The commands about what was said: begin anew, erase, take back, ask again, go on with an older conversation."""

from collections.abc import Sequence

from picoclaw.commands.chat import Answer, Chat, number_in, short, told
from picoclaw.hw.claims import words
from picoclaw.messages import Message
from picoclaw.store.archive import Info
from picoclaw.store.task import Task
from picoclaw.untrusted import heard_in

_MOST_LISTED = 20
_YES = "yes"


def new(chat: Chat, _rest: str) -> Answer:
    """End the conversation and keep it."""
    before = chat.open_one()
    if before is None:
        return Answer("Nothing was said yet in this conversation.")
    usual = f", with {chat.usual} again" if chat.model != chat.usual else ""
    chat.stores.sessions.begin_new(chat.key, chat.now)
    number = before.number
    return Answer(f"A new conversation begins{usual}. The one before is kept: /sessions {number} goes on with it.")


def clear(chat: Chat, rest: str) -> Answer:
    """Show what would be erased, and erase it once that is confirmed."""
    if rest.lower() not in {"", _YES}:
        return Answer("Nothing was deleted. /clear shows what it would delete, /clear yes does it.", good=False)
    before, tasks = chat.open_one(), chat.tasks().ended(chat.key)
    if before is None and not tasks:
        return Answer("There is nothing to delete: nothing was said yet in this conversation.")
    if not rest:
        messages = sum(1 for _ in chat.stores.sessions.transcript(before.number)) if before else 0
        what = f"conversation {before.number} for good, {_counted(messages, tasks)}; {told(before)}" if before else ""
        return Answer(
            f"This would delete {what or f'for good {_counted(0, tasks)}.'}\n"
            "/clear yes does it. /new begins another one and keeps this."
        )
    cut_off = "".join(f"\nA call was cut off, its outcome is unknown: {act}." for act in _cut_off(chat))
    messages = chat.stores.sessions.erase(chat.key)
    left = sorted({*chat.tasks().newest(chat.key, _MOST_LISTED), *chat.tasks().unfinished(chat.key)})
    still = f"\nHelpers still have {', '.join(task.label for task in left)}; /tasks shows it." if left else ""
    return Answer(f"Deleted for good: {_counted(messages, tasks)}. Notes, memory and reminders stay.{still}{cut_off}")


def _cut_off(chat: Chat) -> Sequence[str]:
    """The tools whose calls were cut off, and that nobody was told of."""
    return list(dict.fromkeys(act.split(" ")[1] for _, act in chat.stores.history.unknown_acts(chat.key)))


def _counted(messages: int, tasks: Sequence[Task]) -> str:
    helpers = f", {len(tasks)} task{'s' * (len(tasks) != 1)} of helpers" if tasks else ""
    return f"{messages} message{'s' * (messages != 1)}{helpers}"


def undo(chat: Chat, _rest: str) -> Answer:
    """Take the newest turn back."""
    turn = chat.stores.sessions.undo(chat.key)
    if turn is None:
        return Answer("There is nothing to take back: a model is shown no earlier turn.", good=False)
    done = _stays_done(chat, turn)
    return Answer(f"Taken back: {short(_said(chat, turn)) or 'what cannot be read'}{done and chr(10)}{done}")


def retry(chat: Chat, _rest: str) -> Answer:
    """Have what the person said in the newest turn answered again; the new turn takes its place once it is kept."""
    number, turn = next(reversed(chat.stores.history.numbered(chat.key).items()), (0, ()))
    said = _said(chat, turn)
    if not said:
        return Answer("There is nothing to ask again: a model is shown no earlier turn.", good=False)
    history, read = chat.stores.history, set(heard_in(turn))
    foreign = tuple(name for name in history.heard_by(number) if name not in read)  # what it reads, it reads anew
    history.replace(chat.key, number)
    return Answer(_stays_done(chat, turn), again=said, foreign=foreign)


def _stays_done(chat: Chat, turn: Sequence[Message]) -> str:
    harmless = chat.agent().toolset.only_reading
    acts = dict.fromkeys(call.name for m in turn for call in m.calls if call.name not in harmless)
    return f"What was done stays done: {', '.join(acts)}." if acts else ""


def _said(chat: Chat, turn: Sequence[Message]) -> str:
    """All that the person said in a turn, also while it ran."""
    later = chat.briefing().prompts["meanwhile"].partition("{content}")[0]
    said = [message.text for message in turn[1:] if later and message.role == "user" and message.text.startswith(later)]
    first = [message.text for message in turn[:1]]
    return "\n".join(filter(None, map(words, [*first, *said])))


def sessions(chat: Chat, rest: str) -> Answer:
    """List the chat's conversations, or go on with one of them."""
    found = chat.stores.sessions.listed(chat.key)
    if not rest:
        return Answer("\n".join(_rows(found, _MOST_LISTED)) or "Nothing was said yet in this chat.")
    number = number_in(rest)
    wanted = next((info for info in found if info.number == number), None)
    if wanted is None or not chat.stores.sessions.reopen(chat.key, number):
        numbers = ", ".join(str(info.number) for info in found[:_MOST_LISTED])
        has = f"it has {numbers}" if found else "it has none yet"
        return Answer(f"{short(rest, 40)} is no conversation of this chat; {has}.", good=False)
    return Answer(f"Conversation {number} goes on. {told(wanted)}")


def _rows(found: Sequence[Info], most: int) -> list[str]:
    wide = max((len(str(info.number)) for info in found), default=0)
    rows = [f"{info.number:>{wide}}{' ' if info.ended else '*'} {told(info)}" for info in found[:most]]
    if len(found) > most:
        rows.append(f"and {len(found) - most} older ones: picoclaw sessions list")
    open_ = any(not info.ended for info in found)
    return [*rows, f"{'* goes on now; ' * open_}/sessions NUMBER goes on with another."] if rows else []

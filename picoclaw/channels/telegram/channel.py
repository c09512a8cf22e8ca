"""Shows calls that need the owner's yes, each with three buttons, and writes below it how it has ended.

Which message asks what is kept in `state.db`: the answer may come after a restart, and from somewhere else.
"""

import json
import re
import threading
import time
from calendar import timegm
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from picoclaw.channels.channel import (
    ApprovalAnswer,
    ChannelStatus,
    FindApproval,
    PostMessage,
    describe_outcome,
    make_answer_command,
)
from picoclaw.channels.telegram import updates
from picoclaw.channels.telegram.api import TelegramApi
from picoclaw.channels.telegram.connection import DEFAULT_TIMING, TelegramConnection, Timing
from picoclaw.channels.telegram.pairing import Pairing
from picoclaw.channels.telegram.sender import MAX_EXTENDABLE_UNITS, Button, ChatPlace, Sender, parse_place, split_answer
from picoclaw.channels.telegram.updates import (
    ButtonPress,
    EmptyUpdate,
    TelegramFile,
    TelegramMessage,
    Update,
    UpdatePoller,
)
from picoclaw.config import Config
from picoclaw.errors import ChannelDown, ChannelError, StoreDamaged, StoreError
from picoclaw.messages import Origin, Turn, TurnHooks
from picoclaw.prompts import Templates, fill_template
from picoclaw.security import untrusted
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox import InboxMessage
from picoclaw.store.outbox import OutboxMessage
from picoclaw.times import format_duration

_QUESTIONS_KEY, _MAX_QUESTIONS = "telegram.questions", 100
_DATA = re.compile(r"([yna])([0-9]{1,15}):([0-9a-f]{8,40})")
_WORDS: dict[str, ApprovalAnswer] = {"y": "yes", "n": "no", "a": "always"}
_LABELS = {"y": "✅ Yes", "n": "❌ No", "a": "♾ Always"}
_CONFIRMATIONS: dict[ApprovalAnswer, str] = {
    "yes": "Yes, this once.",
    "no": "No.",
    "always": "Yes, and always for exactly this.",
}
QUESTION_CLOSED = "This question is no longer open."
NOT_OWNER = "Only the owner can answer this."


class ButtonAnswer(NamedTuple):
    """What to say to whoever has pressed a button, and what the owner has said by it, if that counts."""

    text: str
    approval: Approval | None = None
    word: ApprovalAnswer = "no"


class _ShownQuestion(NamedTuple):
    chat: int
    message: int
    text: str


class TelegramQuestions:
    """The questions of one bot; any thread may come."""

    def __init__(self, sender: Sender, pairing: Pairing, kept: FindApproval, note: Callable[[str], None]) -> None:
        """`note` is told in a line what the disk did not take."""
        self._sender, self._pairing, self._kept, self._note = sender, pairing, kept, note
        self._guard = threading.RLock()
        self._shown: dict[int, _ShownQuestion] | None = None

    def show(self, place: ChatPlace, number: int, text: str) -> None:
        """Show a question whole, the buttons under its end. Raises ChannelError, and StoreError before it is shown."""
        approval = self._kept(number)
        if approval is None or approval.state != "waiting":
            ended = describe_outcome(approval) if approval else ""
            self._sender.plain(place, "\n\n".join(filter(None, [text, ended])))
            return
        buttons = [Button(label, f"{sign}{number}:{approval.nonce}") for sign, label in _LABELS.items()]
        message, last = self._sender.plain(place, _describe_length(text), buttons)
        try:
            with self._guard:
                self._keep(
                    dict([*self._open().items(), (number, _ShownQuestion(place.chat, message, last))][-_MAX_QUESTIONS:])
                )
        except StoreError as error:  # it was shown, and its buttons work; how it ends is written below until a restart
            self._note(f"telegram: which message asks about number {number} is not kept: {error}")
        self.settle()  # it may have ended meanwhile

    def pressed(self, button: ButtonPress) -> ButtonAnswer:
        """Read a button that was pressed: it counts for the owner, in the chat that was asked, while it is open."""
        if not button.user or button.user != self._pairing.owner():
            return ButtonAnswer(NOT_OWNER)
        found = _DATA.fullmatch(button.data)
        approval = self._kept(int(found[2])) if found else None
        if not found or approval is None or approval.nonce != found[3] or approval.state != "waiting":
            return ButtonAnswer(QUESTION_CLOSED)
        with self._guard:
            shown = self._open().get(approval.number)
        if approval.chat.split(":")[:2] != ["telegram", str(button.chat)] and (not shown or shown.chat != button.chat):
            return ButtonAnswer(QUESTION_CLOSED)
        word = _WORDS[found[1]]
        return ButtonAnswer(_CONFIRMATIONS[word], approval, word)

    def settle(self) -> None:
        """Write below the questions that are no longer open how they have ended, as far as Telegram can be reached."""
        with self._guard, suppress(ChannelDown):
            try:
                for number, shown in list(self._open().items()):
                    self._settle(number, shown)
            except StoreError as error:
                self._note(f"telegram: questions cannot be looked up: {error}")

    def _settle(self, number: int, shown: _ShownQuestion) -> None:
        approval = self._kept(number)
        ended = describe_outcome(approval) if approval else "This is no longer known."
        if ended:
            self._end(shown, ended)
            self._keep({n: one for n, one in self._open().items() if n != number})

    def _end(self, shown: _ShownQuestion, ended: str) -> None:
        try:
            self._sender.edit(shown.chat, shown.message, f"{shown.text}\n\n{ended}")
        except ChannelDown:
            raise
        except ChannelError as error:  # the message may be gone, or be too old
            self._note(f"telegram: a question cannot be marked as ended: {error}")

    def _open(self) -> dict[int, _ShownQuestion]:
        if self._shown is None:
            with self._pairing.marks() as marks:
                self._shown = _load_shown(marks.get(_QUESTIONS_KEY))
        return self._shown

    def _keep(self, shown: dict[int, _ShownQuestion]) -> None:
        self._shown = shown
        with self._pairing.marks() as marks:
            marks.set(_QUESTIONS_KEY, json.dumps(shown))


def _describe_length(text: str) -> str:
    """Say of a question that takes several messages how long it is."""
    return text if len(text) <= MAX_EXTENDABLE_UNITS else f"(A long question: {len(text):,} characters.)\n{text}"


def _load_shown(text: str) -> dict[int, _ShownQuestion]:
    try:
        found: Any = json.loads(text or "{}")
        return {int(number): _ShownQuestion(int(one[0]), int(one[1]), str(one[2])) for number, one in found.items()}
    except (ValueError, TypeError, IndexError, AttributeError, KeyError, RecursionError):
        return {}


# The channel: what Telegram brings is posted, what is to be told is sent. Joins the modules beside it.

_LATE_S = 600
_TYPING_S, _MAX_TYPING_S = 4.5, 600.0
_MAX_STRANGERS = 20
_SHORT_WAIT_S = 5.0
_FETCH_WAITS = 6


class TelegramChannel:
    """One bot, which a home's owners talk to."""

    name = "telegram"

    def __init__(
        self,
        config: Config,
        wording: Templates,
        stops: frozenset[str] = frozenset(),
        timing: Timing = DEFAULT_TIMING,
        note: Callable[[str], None] = lambda _: None,
        kept: FindApproval = lambda _: None,
    ) -> None:
        """Nothing is connected yet. `stops` are the words, in small letters, that stop the outputs.

        `wording` has the templates `arrived` and `untrusted`; `note` is told in a line when an outage begins and ends,
        and `kept` looks up a call that needs a yes.
        """
        self._config, self._wording, self._stops = config, wording, stops
        self._workspace = config.workspace
        self._ending = threading.Event()
        bot = (config.telegram_token, config.telegram.api_url)
        self._ears, self._api, self._files = TelegramApi(*bot), TelegramApi(*bot), TelegramApi(*bot)
        self._link, self._timing, self._note = TelegramConnection(timing, note=note), timing, note
        self._pairing = Pairing(config.home, config.telegram.allow, config.telegram.owner)
        self._sender = Sender(self._api, partial(split_answer, workspace=self._workspace), self._ending, timing)
        self._asking = TelegramQuestions(self._sender, self._pairing, kept, note)
        self._downloads = updates.Downloads(self._pairing, self._fetch, self._post_said, self._ending, timing.first)
        receive = (self._receive, self._is_urgent)
        self._poll = UpdatePoller((self._ears, self._api), self._link, *receive, self._ending, timing)
        self._thread = threading.Thread(target=self._poll.run, name="telegram", daemon=True)
        self._post: PostMessage = lambda _: None
        self._typing: dict[str, threading.Event] = {}
        self._strangers: set[int] = set()

    def start(self, post: PostMessage) -> None:
        """See Channel."""
        self._post = post
        try:
            self._ears.check()
        except ChannelError as error:
            self._link.failed(error)
            raise
        try:
            self._downloads.begin()
        except StoreError as error:
            self._note(f"telegram: messages whose files were being fetched cannot be read: {error}")
        self._thread.start()

    def stop(self) -> None:
        """See Channel."""
        self._ending.set()
        for typing in list(self._typing.values()):
            typing.set()
        for api in (self._ears, self._api, self._files):
            api.close()
        if self._thread.is_alive():
            self._thread.join(1.5)
        self._pairing.close()

    def owner_chat(self) -> str:
        """See Channel: a person's private chat has their number."""
        owner = self._pairing.owner()
        return ChatPlace(owner).key if owner else ""

    def status(self) -> ChannelStatus:
        """See Channel."""
        status = self._link.status
        if self._thread.ident and not self._thread.is_alive() and not self._ending.is_set():
            return status._replace(up=False, error="its thread has ended: restart picoclaw, and report this")
        return status

    def send(self, letter: OutboxMessage) -> None:
        """See Channel."""
        place = parse_place(letter.session)
        if place.chat > 0 and not self._pairing.allows(place.chat):
            raise ChannelError("nobody of that number may talk to this bot any more")
        if letter.approval:
            self._asking.show(place, letter.approval, letter.text)
        else:
            self._sender.letter(letter.number, place, letter.text)
        self._asking.settle()

    def around(self, arrived: InboxMessage) -> TurnHooks:
        """See Channel. The sign that somebody is typing lasts until `answered`."""
        place, done = parse_place(arrived.key), threading.Event()
        self._end_typing(arrived.key)
        self._typing[arrived.key] = done
        threading.Thread(target=self._type, args=(place, done), name="telegram-typing", daemon=True).start()
        return TurnHooks(say=partial(self._sender.say, place))

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:  # noqa: ARG002 - the protocol's
        """See Channel. An answer always goes by the outbox, so that it outlives a connection that breaks."""
        self._end_typing(arrived.key)
        return False

    def changed(self, approval: Approval) -> None:
        """See Channel. What Telegram cannot be told now is written there with the next letter."""
        if describe_outcome(approval) and self._thread.ident and not self._ending.is_set():
            threading.Thread(target=self._asking.settle, name="telegram-asking", daemon=True).start()

    def _type(self, place: ChatPlace, done: threading.Event) -> None:
        until = time.monotonic() + _MAX_TYPING_S
        with suppress(ChannelError):
            while not done.is_set() and time.monotonic() < until:
                self._api.call("sendChatAction", {**place.fields, "action": "typing"}, _SHORT_WAIT_S)
                done.wait(_TYPING_S)

    def _end_typing(self, key: str) -> None:
        if typing := self._typing.pop(key, None):
            typing.set()

    def _receive(self, update: Update) -> None:
        """Keep what an update brings, in the poll's thread. Raises StoreError when it could not be kept."""
        match update:
            case TelegramMessage() if update.addressed:
                self._said(update)
            case ButtonPress():
                self._pressed(update)
            case EmptyUpdate() | TelegramMessage():
                pass

    def _pressed(self, button: ButtonPress) -> None:
        """Have the owner's button posted as what they would type. Raises StoreError."""
        answer = self._asking.pressed(button)
        if found := answer.approval:
            who, number = f"telegram:{button.user}", f"button {button.id}"
            self._post(InboxMessage(found.chat, make_answer_command(found, answer.word), who, external=number))
        told = {"callback_query_id": button.id, "text": answer.text}
        self._beside(lambda: self._api.call("answerCallbackQuery", told, _SHORT_WAIT_S))

    def _is_urgent(self, update: Update) -> bool:
        """Tell whether an update ends something: the turn, or what the outputs do. Nothing keeps it waiting."""
        if not isinstance(update, TelegramMessage) or not update.addressed or update.strange:
            return False
        return self._stops_all(update) or update.text.lower() == "/stop"

    def _stops_all(self, said: TelegramMessage) -> bool:
        return " ".join(said.text.lower().strip(" \t\r\n!.").split()) in self._stops

    def _said(self, said: TelegramMessage) -> None:
        if not self._pairing.allows(said.user):
            self._meet(said, ChatPlace(said.chat, said.thread))
        elif self._is_urgent(said):
            left = "I did not take what came with that: send it again." if said.files else ""
            self._post_said(said, (), [left] if left else [])
        elif not said.files and not self._downloads.has(said):
            self._post_said(said, (), [])
        elif problem := self._not_fetched(said):
            self._post_said(said, (), [f"I could not take what came with this: {problem}"] if said.files else [])

    def _not_fetched(self, said: TelegramMessage) -> str:
        """Have the files of a message fetched; returns why that cannot be, '' when it is begun. Raises StoreDamaged."""
        try:
            return "" if self._downloads.add(said) else "too many files wait to be fetched"
        except StoreDamaged:
            raise
        except StoreError as error:
            return str(error)

    def _post_said(self, said: TelegramMessage, attached: tuple[str, ...], problems: list[str]) -> None:
        """Post a message with its files. Raises StoreError when it could not be kept."""
        place = ChatPlace(said.chat, said.thread)
        if problems:
            self._tell(place, "\n".join(problems))
        if said.text or attached:
            origin: Origin = "owner" if said.user == self._pairing.owner() else "guest"
            text, foreign = self._worded(said, origin)
            who = f"telegram:{said.user}"
            self._post(InboxMessage(place.key, text, who, origin, said.external, attached, foreign=foreign))

    def _meet(self, said: TelegramMessage, place: ChatPlace) -> None:
        """Pair whoever has the code; tell anybody else once, in their own chat, that this is not for them."""
        if not said.private:
            return
        if self._pairing.redeem(said.text, said.user, said.who):
            text = "Paired. What you write here goes to this board; /help lists the commands."
        elif said.user in self._strangers or len(self._strangers) >= _MAX_STRANGERS:
            return
        else:
            self._strangers.add(said.user)
            text = f"This bot answers its owner only. Your number is {said.user}; see `picoclaw telegram pair`."
        self._tell(place, text)

    def _tell(self, place: ChatPlace, text: str) -> None:
        """Say something without keeping the poll waiting: the next message may be the order to stop."""

        self._beside(lambda: self._sender.say(place, text))

    @staticmethod
    def _beside(act: Callable[[], object]) -> None:
        """Do what may fail without keeping the poll waiting."""

        def tried() -> None:
            with suppress(ChannelError):
                act()

        threading.Thread(target=tried, name="telegram-telling", daemon=True).start()

    def _fetch(self, said: TelegramMessage, file: TelegramFile, number: int) -> str:
        updates.check_room(self._workspace, file.size)
        told = self._files.call("getFile", {"file_id": file.id}, self._timing.wait)
        path = told.get("file_path") if isinstance(told, dict) else None
        if not isinstance(path, str) or not path:
            raise ChannelError("Telegram does not say where it is")
        data = self._files.fetch(path, updates.MAX_DOWNLOAD_BYTES, _FETCH_WAITS * self._timing.wait)
        updates.check_room(self._workspace, len(data))
        name = file.name or path.rpartition("/")[2]
        stored = updates.make_file_name(said.chat, said.message, file.kind, f"{number}_{name}" if number else name)
        return updates.save_file(self._workspace, stored, data)

    def _worded(self, said: TelegramMessage, origin: Origin) -> tuple[str, tuple[str, ...]]:
        """Put beside a text what it does not say itself, and name what of it is not the person's word.

        That stands in a block which it cannot close. Commands, and the words that stop, stay bare.
        """
        text = "/help" if said.text == "/start" else said.text
        notes = [f"from {said.who}"] if origin == "guest" else []
        notes += said.notes
        if (late := _seconds_since(said.date, self._ears.date)) > _LATE_S:
            notes.append(f"sent {format_duration(late)} ago")
        bare = text.startswith("/") or self._stops_all(said)
        if (bare or not said.quotes) and not said.strange:
            return (text if bare else self._noted(notes, text)), ()
        template = self._wording["untrusted"]
        blocks = [untrusted.wrap_untrusted(template, f"in reply to {one.whose}", one.text) for one in said.quotes]
        blocks += [untrusted.wrap_untrusted(template, said.strange, said.text)] if said.strange and said.text else []
        content = "\n".join(filter(None, ["" if said.strange else text, *blocks]))
        foreign = [said.strange, *(f"a message of {one.whose} that was answered" for one in said.quotes if not one.own)]
        return self._noted(notes, content), tuple(filter(None, foreign))

    def _noted(self, notes: list[str], text: str) -> str:
        return (
            fill_template(self._wording["arrived"], {"notes": "; ".join(notes), "content": text}, "content")
            if notes
            else text
        )


def _seconds_since(sent: int, told: str) -> float:
    """Seconds since a message was sent, by Telegram's own clock: the board's may be wrong. 0 when it does not say."""
    try:
        now = timegm(time.strptime(told, "%a, %d %b %Y %H:%M:%S GMT"))
    except ValueError:
        return 0.0
    return max(0.0, now - sent) if sent else 0.0

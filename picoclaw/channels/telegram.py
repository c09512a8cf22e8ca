"""The Telegram channel: what a bot's updates bring is posted, what is to be told is sent, questions get buttons.

Updates are taken by one long poll after the other, and each is acknowledged when it has been kept. A poll that goes
silent is given up a little after Telegram would have ended it. One that stays empty is held against what Telegram says
is waiting, asked over another connection: a poll can be answered and deaf. Which message asks a question is kept in
`state.db`: the answer may come after a restart, and from somewhere else. An update that comes twice is posted twice and
kept once, by its number (`Inbox.put`).

Whole answers are sent in order and at the pace that Telegram allows, and each part once if that is known: Telegram has
no number by which a message sent twice could be dropped. Where the connection breaks after a part was handed over, it is
sent again, and says that it may be a repetition.
Source of what a message may have: https://core.telegram.org/bots/api#messageentity.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from picoclaw.channels import telegram_api
from picoclaw.channels.attachments import MAX_DOWNLOAD_BYTES, ArrivedMessage, Attachment, IncomingFile
from picoclaw.channels.channel import ApprovalWord, FindApproval
from picoclaw.channels.polled import (
    DEFAULT_TIMING,
    FETCH_WAITS,
    SHORT_WAIT_S,
    CallRefused,
    PacedSender,
    PolledChannel,
    Questions,
    ShownQuestion,
    Timing,
    Unreachable,
)
from picoclaw.channels.rich_text import (
    AnswerPart,
    ChartPicture,
    Entity,
    RichText,
    count_units,
    split_answer,
    split_message,
)
from picoclaw.channels.telegram_api import (
    BotIdentity,
    ButtonPress,
    ChatPlace,
    TelegramApi,
    Update,
    Upload,
    make_pairing,
    parse_place,
    parse_update,
)
from picoclaw.config import Config
from picoclaw.errors import ChannelError
from picoclaw.messages import Turn, TurnHooks, is_urgent_text
from picoclaw.prompts import Templates
from picoclaw.providers import BUILT_IN_PROVIDER
from picoclaw.records import NamedTuple
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import InboxMessage, OutboxMessage
from picoclaw.text import pattern

MAYBE_REPEATED = "(Perhaps sent before: the connection broke off.)"

_UPLOAD_BYTES_S = 20_000
_MAX_DOUBLINGS = 3
_MAX_CAPTION_UNITS = 1024
_MAX_ENTITIES = 100
_KNOWN_AGAIN, _KNOWN_IN_A_DIGEST = 200, 60  # characters of a message


_LONG_ANSWER_CHARS, _MIN_GIST_CHARS, _MAX_GIST_CHARS = 1500, 40, 700
MAX_MESSAGE_UNITS = 4096
"""UTF-16 units of one message at most."""

MAX_EXTENDABLE_UNITS = 3800
"""UTF-16 units of a message that may have a line added later."""


class Sender(PacedSender[TelegramApi, ChatPlace]):
    """Sends for one bot, whose pauses are for a chat each."""

    service, longest_pause_s = "Telegram", 20.0

    def __init__(
        self,
        api: TelegramApi,
        find_workspace: Callable[[ChatPlace], Path | None],
        ending: threading.Event,
        timing: Timing,
    ) -> None:
        super().__init__(api, find_workspace, ending, timing)
        self._unsure: dict[int, int] = {}
        self._doubts: set[tuple[int, str]] = set()

    def send_message(
        self, number: int, place: ChatPlace, text: str, reply_to: int = 0, buttons: Mapping[str, str] | None = None
    ) -> None:
        """Send a message; one that broke off is gone on with where it did. Raises ChannelError.

        Its first part replies to `reply_to`, the number of a message; `buttons` as for `plain`.
        """

        def send(at: int, part: AnswerPart, is_last: bool) -> None:  # noqa: FBT001
            doubts = {(chat, start) for chat, start in self._doubts if chat == place.chat and start in text}
            below = buttons if is_last else None
            self._part(place, part, again=bool(doubts), reply_to=0 if at else reply_to, buttons=below)
            self._doubts -= doubts

        with self._guard, self._doubting(place, text):
            self._send_parts((number, text[:_KNOWN_AGAIN]), _list_parts(text, self._find_workspace(place)), send)

    def say(self, place: ChatPlace, text: str) -> None:
        with self._guard, self._doubting(place, text):
            for part in _list_parts(text, self._find_workspace(place)):
                self._part(place, part)

    def plain(self, place: ChatPlace, text: str, buttons: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Send a text as it is, with buttons under its end; returns the last message's number and text.

        `buttons` has by the label of each what Telegram sends back when it is pressed. Raises ChannelError.
        """
        with self._guard:
            *before, last = split_message(RichText(text), MAX_EXTENDABLE_UNITS)
            for part in before:
                self._part(place, part)
            fields = {"text": last.text, "link_preview_options": {"is_disabled": True}} | _encode_buttons(buttons)
            sent = self._put(place, "sendMessage", fields)
            return (int(sent.get("message_id", 0)) if isinstance(sent, dict) else 0), last.text

    def edit(self, chat: int, message: int, text: str) -> None:
        """Put another text in place of a message's, and take its buttons away. Raises ChannelError."""
        fields = {"message_id": message, "text": text, "link_preview_options": {"is_disabled": True}}
        with self._guard:
            self._put(ChatPlace(chat), "editMessageText", fields)

    @contextmanager
    def _doubting(self, place: ChatPlace, text: str) -> Iterator[None]:
        """Remember a text of which something may have been sent, for when it comes again, alone or among others."""
        try:
            yield
        except Unreachable as error:
            if error.unsure and text:
                self._doubts.add((place.chat, text[:_KNOWN_IN_A_DIGEST]))
            raise

    def _part(
        self,
        place: ChatPlace,
        part: AnswerPart,
        *,
        again: bool = False,
        reply_to: int = 0,
        buttons: Mapping[str, str] | None = None,
    ) -> None:
        more = _encode_buttons(buttons)
        if reply_to:
            more["reply_parameters"] = {"message_id": reply_to, "allow_sending_without_reply": True}
        if isinstance(part, Attachment):
            try:
                self._file(place, part, more, again=again)
                return
            except CallRefused as error:  # what comes after the file is told all the same
                part = RichText(f"{part.place.path.name}: {error}")
        if isinstance(part, ChartPicture):
            caption = _mark_repeated(part.caption) if again else part.caption
            words = {"caption": caption.text, "caption_entities": encode_entities(caption.entities, caption.text)}
            try:
                self._put(place, "sendPhoto", words | more, Upload("photo", part.data, len(part.data)))
                return
            except CallRefused:
                part = part.instead
        if again:
            part = _mark_repeated(part)
        fields: dict[str, Any] = {"text": part.text, "link_preview_options": {"is_disabled": True}}
        if part.entities:
            fields["entities"] = encode_entities(part.entities, part.text)
        self._put(place, "sendMessage", fields | more)

    def _file(self, place: ChatPlace, file: Attachment, more: dict[str, Any], *, again: bool) -> None:
        """Send a file; a picture that Telegram does not take as one goes as it is."""
        fits = count_units(file.caption) <= _MAX_CAPTION_UNITS - len(MAYBE_REPEATED) - 1
        words = "\n".join(filter(None, [MAYBE_REPEATED if again else "", file.caption if fits else ""]))
        caption = more | ({"caption": words} if words else {})
        kinds = ["photo", "document"] if file.photo else ["document"]
        for kind in kinds:
            try:
                self._put(place, f"send{kind.capitalize()}", caption, Upload(kind, file.place, file.size))
                return
            except CallRefused:
                if kind == kinds[-1]:
                    raise

    def _put(self, place: ChatPlace, method: str, fields: dict[str, Any], upload: Upload | None = None) -> Any:
        """Make one call at its time, corrected as long as Telegram's refusal says how. Raises ChannelError."""
        whole = place.fields | fields
        while True:
            try:
                sent = self._call(place, method, whole, upload)
            except CallRefused as error:
                if (other := reduce_call(whole, error)) is None:
                    raise
                whole = other
            except Unreachable as error:
                if error.unsure:
                    self._unsure[place.chat] = self._unsure.get(place.chat, 0) + 1
                raise
            else:
                self._unsure.pop(place.chat, None)
                return sent

    def _call(self, place: ChatPlace, method: str, fields: dict[str, Any], upload: Upload | None) -> Any:
        """Make one call when it is this chat's turn.

        After one that may have been done it is given more time, so that a slow network does not repeat it for ever.
        """
        patient = 2 ** min(self._unsure.get(place.chat, 0), _MAX_DOUBLINGS)
        wait = self._timing.wait * patient + (upload.size / _UPLOAD_BYTES_S if upload else 0)
        sent = self._pace(partial(self._api.call, method, fields, wait, upload), place.chat)
        self._delay(place.chat, self._timing.in_groups if place.chat < 0 else self._timing.between)
        return sent


def reduce_call(fields: Mapping[str, Any], error: CallRefused) -> dict[str, Any] | None:
    """Make of a refused call one that may be taken; None when nothing is left to leave out."""
    if error.moved_to and fields.get("chat_id") != error.moved_to:
        return {**fields, "chat_id": error.moved_to}
    for name, sign in (("message_thread_id", "thread"), ("entities", "entit"), ("reply_parameters", "repl")):
        if name in fields and sign in str(error).lower():
            return {key: value for key, value in fields.items() if key != name}
    return None


def _list_parts(text: str, workspace: Path | None) -> Iterator[AnswerPart]:
    room = len(MAYBE_REPEATED) + 1
    sizes = _MAX_CAPTION_UNITS - room, MAX_EXTENDABLE_UNITS, MAX_MESSAGE_UNITS - room
    return split_answer(text, workspace, *sizes, fold_rest)


def encode_entities(entities: tuple[Entity, ...], text: str) -> list[dict[str, Any]]:
    return [
        {"type": e.kind, "offset": count_units(text[: e.start]), "length": count_units(text[e.start : e.end])}
        | ({"url": e.more} if e.kind == "text_link" else {"language": e.more} if e.more else {})
        for e in entities[:_MAX_ENTITIES]
    ]


def fold_rest(whole: RichText) -> RichText:
    """Leave the first paragraph of a long answer open, and fold the rest, which a tap shows."""
    end = whole.text.find("\n\n", _MIN_GIST_CHARS)
    if len(whole.text) < _LONG_ANSWER_CHARS or not 0 < end <= _MAX_GIST_CHARS:
        return whole
    start = end + 2
    quote = Entity("expandable_blockquote", start, len(whole.text))
    inside = [e for e in whole.entities if e.end <= start or e.kind != "blockquote"]  # a quote holds no other
    return RichText(whole.text, tuple(sorted([*inside, quote], key=lambda e: (e.start, -e.end))))


def _encode_buttons(buttons: Mapping[str, str] | None) -> dict[str, Any]:
    row = [{"text": label, "callback_data": data} for label, data in (buttons or {}).items()]
    return {"reply_markup": {"inline_keyboard": [row]}} if row else {}


def _mark_repeated(part: RichText) -> RichText:
    shift = len(MAYBE_REPEATED) + 1
    moved = (e._replace(start=e.start + shift, end=e.end + shift) for e in part.entities)
    return RichText(f"{MAYBE_REPEATED}\n{part.text}", tuple(moved))


_DATA = pattern(r"([yna])([0-9]{1,15}):([0-9a-f]{8,40})")
_BUTTONS: dict[str, tuple[str, ApprovalWord, str]] = {
    "y": ("✅ Yes", "yes", "Yes, this once."),
    "n": ("❌ No", "no", "No."),
    "a": ("♾ Always", "always", "Yes, and always for exactly this."),
}
"""By the letter in a button's data: what is on it, what the owner says by it, and what they are told."""

_CHOICE_DATA = pattern(r"c([0-9a-f]{16}):([0-9])")
_CHOICES = (
    (pattern(r"Say yes, and [^\n]*\Z"), ("yes", "no")),
    (pattern(r"Sag ja, [^\n]*\Z"), ("ja", "nein")),
    (pattern(r"Di sí y [^\n]*\Z"), ("sí", "no")),
    (pattern(r"Dites oui, [^\n]*\Z"), ("oui", "non")),
    (pattern(r"\n/clear yes does it\. [^\n]*\Z"), ("/clear yes", "/new")),
    (pattern(r"(?:Which one do you mean|Was meinst du|¿Cuál|Lequel ?): ([^?\n]{1,200}?) ?\?[^\n]*\Z"), ()),
)
"""What picoclaw asks without a model that a press answers; what is pressed is posted as if it had been typed."""
_MAX_CHOICES, _MAX_CHOICE_CHARS = 4, 30

QUESTION_CLOSED = "This question is no longer open."
NOT_OWNER = "Only the owner can answer this."
NOT_ASKED = "Only the person who was asked can answer this."


def find_choices(text: str) -> tuple[str, ...]:
    """List the answers that a text asks to choose from; none where it asks for more than a press."""
    for expression, words in _CHOICES:
        if found := expression.search(text):
            answers = words or tuple(found[1].split(", "))
            fits = len(answers) <= _MAX_CHOICES and max(map(len, answers)) <= _MAX_CHOICE_CHARS
            return answers if fits else ()
    return ()


class _Answer(NamedTuple):
    """An answer on its way: the number and writer of the message it answers, and the buttons below it by their sign."""

    text: str
    message: int
    who: str
    choices: tuple[str, ...] = ()
    sign: str = ""


class TelegramQuestions(Questions[Sender]):
    def show(self, place: ChatPlace, number: int, text: str) -> None:
        """Show a question whole, the buttons under its end. Raises ChannelError, and StoreError before it is shown."""
        if (approval := self.find(number)) is None:
            self._sender.plain(place, self.describe_ended(number, text))
            return
        if len(text) > MAX_EXTENDABLE_UNITS:
            text = f"(A long question: {len(text):,} characters.)\n{text}"
        buttons = {label: f"{letter}{number}:{approval.nonce}" for letter, (label, *_) in _BUTTONS.items()}
        message, last = self._sender.plain(place, text, buttons)
        self.remember(number, ShownQuestion(str(place.chat), str(message), last, approval.nonce))

    def end(self, shown: ShownQuestion, text: str) -> None:
        self._sender.edit(int(shown.chat), int(shown.message), text)

    def answer(self, button: ButtonPress) -> tuple[str, Approval | None, ApprovalWord]:
        """Read a button that was pressed: it counts for the owner, in the chat that was asked, while it is open.

        Returns what to say to whoever has pressed it, and what the owner has answered by it, if that counts.
        """
        if not button.user or self._pairing.origin(str(button.user)) != "owner":
            return NOT_OWNER, None, "no"
        found = _DATA.fullmatch(button.data)
        approval = self.find(int(found[2])) if found else None
        if not found or approval is None or approval.nonce != found[3]:
            return QUESTION_CLOSED, None, "no"
        shown, chat = self.all().get(approval.number), str(button.chat)
        if approval.chat.split(":")[:2] != ["telegram", chat] and (not shown or shown.chat != chat):
            return QUESTION_CLOSED, None, "no"
        _, word, text = _BUTTONS[found[1]]
        return text, approval, word


_EMPTY_ROUNDS = 10
_UPDATES_PER_POLL = 40  # messages of the longest kind, each in reply to another, stay below what an answer may have
_ALLOWED_UPDATES = ["message", "edited_message", "callback_query"]
_TYPING_S, _MAX_TYPING_S = 4.5, 600.0


class TelegramChannel(PolledChannel[TelegramApi]):
    """One bot, which a home's owners talk to."""

    name = "telegram"

    def __init__(
        self,
        config: Config,
        wording: Templates,
        timing: Timing = DEFAULT_TIMING,
        note: Callable[[str], None] = lambda _: None,
        kept: FindApproval = lambda _: None,
        commands: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`commands` are shown in the bot's menu, each with what it does, and `kept` looks up a call that needs a yes; for
        the rest see PolledChannel.
        """
        make_api = partial(TelegramApi, config.telegram_token, config.telegram.api_url)
        super().__init__(config, wording, timing, note, make_pairing(config), make_api)
        self._sender = Sender(self._api, self._find_workspace, self._ending, timing)
        self._questions: TelegramQuestions = TelegramQuestions(self._sender, self._pairing, kept, note)
        self._typing: dict[str, threading.Event] = {}
        self._commands, self._answers = dict(commands), dict[str, _Answer]()
        self._me: BotIdentity | None = None
        self._offset, self._empty_rounds = 0, 0
        self._kept_early: set[int] = set()

    def stop(self) -> None:
        for typing in list(self._typing.values()):
            typing.set()
        super().stop()

    def owner_chat(self) -> str:
        """See Channel: a person's private chat has their number."""
        owner = self._pairing.owner()
        return f"{self.name}:{owner}" if owner else ""

    def send(self, message: OutboxMessage) -> None:
        place = parse_place(message.session)
        if place.chat > 0 and not self._pairing.allows(str(place.chat)):
            raise ChannelError("this person may no longer talk to the bot")
        if message.approval:
            self._questions.show(place, message.approval, message.text)
        else:
            answer = self._answers.get(message.session)
            if answer and answer.text != message.text:  # a reminder, or several messages in one
                answer = None
            data = {one: f"c{answer.sign}:{n}" for n, one in enumerate(answer.choices)} if answer else None
            self._sender.send_message(message.number, place, message.text, answer.message if answer else 0, data)
        self._questions.settle()

    def around(self, arrived: InboxMessage) -> TurnHooks:
        """See Channel. The sign that somebody is typing lasts until `answered`."""
        place, done = parse_place(arrived.key), threading.Event()
        self._end_typing(arrived.key)
        self._typing[arrived.key] = done
        threading.Thread(target=self._type, args=(place, done), name="telegram-typing", daemon=True).start()
        return TurnHooks(say=partial(self._sender.say, place))

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:
        """See Channel. An answer always goes by the outbox, so that it outlives a connection that breaks.

        In a group it replies to the message it answers, and what a press can answer has buttons; a restart forgets that.
        """
        self._end_typing(arrived.key)
        number = arrived.external.partition("e")[0]
        choices = find_choices(turn.reply) if turn.provider in {BUILT_IN_PROVIDER, "command"} else ()
        is_group = arrived.key.startswith(f"{self.name}:-")
        message = int(number) if is_group and number.isdecimal() else 0
        self._answers[arrived.key] = _Answer(reply, message, arrived.who, choices, os.urandom(8).hex())
        return False

    def _type(self, place: ChatPlace, done: threading.Event) -> None:
        until = time.monotonic() + _MAX_TYPING_S
        with suppress(ChannelError):
            while not done.is_set() and time.monotonic() < until:
                self._api.call("sendChatAction", {**place.fields, "action": "typing"}, SHORT_WAIT_S)
                done.wait(_TYPING_S)

    def _end_typing(self, key: str) -> None:
        if typing := self._typing.pop(key, None):
            typing.set()

    # The poll, in a thread of its own.

    def _poll_once(self) -> None:
        """Take what is there; the first time, and after a failure, without waiting for more."""
        if self._me is None:
            self._me = telegram_api.identify_bot(self._poll_api, self._timing.wait)
            if self._commands:
                self._start_beside(self._show_commands)
        me = self._me
        raws = self._get_updates(self._timing.hold if self._may_hold else 0)
        self._keep_urgent(raws, me)
        if raws and isinstance(last := parse_update(raws[-1], me), ArrivedMessage) and last.album:
            self._ending.wait(self._timing.album)  # a poll ends with the first of its files
            raws = self._get_updates(0)
            self._keep_urgent(raws, me)
        found = [update for raw in raws if (update := parse_update(raw, me))]
        if raws and not found:
            raise Unreachable("Telegram's updates have no numbers")
        for update in telegram_api.join_albums(found):
            if update.update not in self._kept_early:
                self._receive(update)
            self._offset = update.update + 1
        self._kept_early = {number for number in self._kept_early if number >= self._offset}
        self._may_hold = True
        self._link.heard()
        self._empty_rounds = 0 if raws else self._empty_rounds + 1
        if self._empty_rounds >= _EMPTY_ROUNDS:
            self._empty_rounds = 0
            told = self._api.call("getWebhookInfo", {}, self._timing.wait)
            waiting = told.get("pending_update_count") if isinstance(told, dict) else 0
            if isinstance(waiting, int) and waiting > 0:
                raise Unreachable(
                    f"polling received nothing: {waiting} messages were waiting at Telegram; polling was restarted"
                )

    def _show_commands(self) -> None:
        rows = [{"command": word, "description": does} for word, does in self._commands.items()]
        self._api.call("setMyCommands", {"commands": rows}, self._timing.wait)

    def _get_updates(self, hold: int) -> list[Any]:
        """Ask for what is not acknowledged yet; Telegram may wait `hold` seconds for something to come."""
        fields = {"offset": self._offset, "timeout": hold, "limit": _UPDATES_PER_POLL}
        wait = hold + self._timing.grace
        raws = self._poll_api.call("getUpdates", {**fields, "allowed_updates": _ALLOWED_UPDATES}, wait)
        if not isinstance(raws, list):
            raise Unreachable("Telegram's updates are not a list")
        return raws

    def _keep_urgent(self, raws: list[Any], me: BotIdentity) -> None:
        """Keep at once what may not wait for the updates before it, of which one may not be kept."""
        for update in (parse_update(raw, me) for raw in raws):
            if update and update.update not in self._kept_early and self._is_urgent(update):
                self._receive(update)
                self._kept_early.add(update.update)

    def _is_urgent(self, update: Update) -> bool:
        if not isinstance(update, ArrivedMessage) or not update.addressed or update.strange:
            return False
        return is_urgent_text(update.text)

    def _receive(self, update: Update) -> None:
        if isinstance(update, ButtonPress) and (chosen := _CHOICE_DATA.fullmatch(update.data)):
            text = self._choose(update, chosen[1], int(chosen[2]))
            told = {"callback_query_id": update.id, "text": text}
            self._start_beside(lambda: self._api.call("answerCallbackQuery", told, SHORT_WAIT_S))
        elif isinstance(update, ButtonPress):
            text, approval, word = self._questions.answer(update)
            if approval:  # the owner's button counts as what they would type
                self._post_answer(approval, word, str(update.user), f"button {update.id}")
            told = {"callback_query_id": update.id, "text": text}
            self._start_beside(lambda: self._api.call("answerCallbackQuery", told, SHORT_WAIT_S))
        if not isinstance(update, ArrivedMessage) or not update.addressed:
            return
        if not self._pairing.allows(update.sender):
            if update.private and not self._redeem(update):
                number = f"Your number is {update.sender}; see `picoclaw telegram pair`."
                self._refuse_once(update, f"This bot answers its owner only. {number}")
        elif self._is_urgent(update):
            left = "I did not take what came with that: send it again." if update.files else ""
            self._post_message(update, (), [left] if left else [])
        else:
            self._take_message(update)

    def _choose(self, button: ButtonPress, sign: str, number: int) -> str:
        """Post what whoever was asked has pressed; returns what to say to them."""
        asked = next(((key, one) for key, one in self._answers.items() if one.sign == sign), None)
        if not asked or number >= len(asked[1].choices) or parse_place(asked[0]).chat != button.chat:
            return QUESTION_CLOSED
        key, answer = asked
        if answer.who != f"telegram:{button.user}" or not self._pairing.allows(str(button.user)):
            return NOT_ASKED
        text = answer.choices[number]
        origin = self._pairing.origin(str(button.user))
        self._post(InboxMessage(key, text, answer.who, origin, f"button {button.id}"))
        self._answers.pop(key, None)
        self._start_beside(lambda: self._sender.edit(button.chat, button.message, f"{answer.text}\n\n→ {text}"))
        return text

    def _post_message(self, message: ArrivedMessage, attached: tuple[str, ...], problems: list[str]) -> None:
        answer = self._answers.get(message.key)
        if (message.text or attached) and answer and answer.who == f"telegram:{message.sender}":
            self._answers[message.key] = answer._replace(choices=())  # what it asked is answered, or let go
        text = "/help" if message.text == "/start" else message.text
        super()._post_message(message._replace(text=text), attached, problems)

    def _say(self, message: ArrivedMessage, text: str) -> None:
        self._sender.say(parse_place(message.key), text)

    def _find_workspace(self, place: ChatPlace) -> Path | None:
        """Whose files a chat may be sent; none in a group, of which it is not known who reads it."""
        return self._pairing.find_workspace([str(place.chat)], place.key) if place.chat > 0 else None

    def _download(self, file: IncomingFile) -> tuple[str, bytes]:
        told = self._files.call("getFile", {"file_id": file.id}, self._timing.wait)
        path = told.get("file_path") if isinstance(told, dict) else None
        if not isinstance(path, str) or not path:
            raise ChannelError("Telegram did not say where the file is")
        data = self._files.fetch(path, MAX_DOWNLOAD_BYTES, FETCH_WAITS * self._timing.wait)
        return file.name or path.rpartition("/")[2], data

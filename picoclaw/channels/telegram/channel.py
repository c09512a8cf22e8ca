"""The channel: what Telegram brings is posted, what is to be told is sent. Joins the modules beside it."""

import threading
import time
from calendar import timegm
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from picoclaw import untrusted
from picoclaw.around import Around
from picoclaw.channels.channel import Approval, Arrived, ChannelStatus, Kept, Letter, Post, answer_to, outcome
from picoclaw.channels.telegram import files
from picoclaw.channels.telegram.api import Api
from picoclaw.channels.telegram.asking import Asking
from picoclaw.channels.telegram.link import USUAL, Link, Timing
from picoclaw.channels.telegram.pairing import Pairing
from picoclaw.channels.telegram.poll import Poll
from picoclaw.channels.telegram.sender import Place, Sender, parts_of, place_of
from picoclaw.channels.telegram.updates import File, Nothing, Pressed, Said, Update
from picoclaw.config import Config
from picoclaw.errors import ChannelError, StoreDamaged, StoreError
from picoclaw.messages import Origin, Turn
from picoclaw.prompt import Templates, fill
from picoclaw.schedule import duration

_LATE_S = 600
_TYPING_S, _LONGEST_TYPING_S = 4.5, 600.0
_STRANGERS = 20
_SHORT_WAIT_S = 5.0
_FETCH_WAITS = 6


class Telegram:
    """One bot, which a home's owners talk to."""

    name = "telegram"

    def __init__(
        self,
        config: Config,
        wording: Templates,
        stops: frozenset[str] = frozenset(),
        timing: Timing = USUAL,
        note: Callable[[str], None] = lambda _: None,
        kept: Kept = lambda _: None,
    ) -> None:
        """Nothing is connected yet. `stops` are the words, in small letters, that stop the outputs.

        `wording` has the templates `arrived` and `untrusted`; `note` is told in a line when an outage begins and ends,
        and `kept` looks up a call that needs a yes.
        """
        self._config, self._wording, self._stops = config, wording, stops
        self._workspace = config.workspace
        self._ending = threading.Event()
        bot = (config.telegram_token, config.telegram.api_url)
        self._ears, self._api, self._files = Api(*bot), Api(*bot), Api(*bot)
        self._link, self._timing, self._note = Link(timing, note=note), timing, note
        self._pairing = Pairing(config.home, config.telegram.allow, config.telegram.owner)
        self._sender = Sender(self._api, partial(parts_of, workspace=self._workspace), self._ending, timing)
        self._asking = Asking(self._sender, self._pairing, kept, note)
        self._downloads = files.Downloads(self._pairing, self._fetch, self._post_said, self._ending, timing.first)
        receive = (self._receive, self._is_urgent)
        self._poll = Poll((self._ears, self._api), self._link, *receive, self._ending, timing)
        self._thread = threading.Thread(target=self._poll.run, name="telegram", daemon=True)
        self._post: Post = lambda _: None
        self._typing: dict[str, threading.Event] = {}
        self._strangers: set[int] = set()

    def start(self, post: Post) -> None:
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
        return Place(owner).key if owner else ""

    def status(self) -> ChannelStatus:
        """See Channel."""
        status = self._link.status
        if self._thread.ident and not self._thread.is_alive() and not self._ending.is_set():
            return status._replace(up=False, error="its thread has ended: restart picoclaw, and report this")
        return status

    def send(self, letter: Letter) -> None:
        """See Channel."""
        place = place_of(letter.session)
        if place.chat > 0 and not self._pairing.allows(place.chat):
            raise ChannelError("nobody of that number may talk to this bot any more")
        if letter.approval:
            self._asking.show(place, letter.approval, letter.text)
        else:
            self._sender.letter(letter.number, place, letter.text)
        self._asking.settle()

    def around(self, arrived: Arrived) -> Around:
        """See Channel. The sign that somebody is typing lasts until `answered`."""
        place, done = place_of(arrived.key), threading.Event()
        self._end_typing(arrived.key)
        self._typing[arrived.key] = done
        threading.Thread(target=self._type, args=(place, done), name="telegram-typing", daemon=True).start()
        return Around(say=partial(self._sender.say, place))

    def answered(self, arrived: Arrived, turn: Turn, reply: str) -> bool:  # noqa: ARG002 - the protocol's
        """See Channel. An answer always goes by the outbox, so that it outlives a connection that breaks."""
        self._end_typing(arrived.key)
        return False

    def changed(self, approval: Approval) -> None:
        """See Channel. What Telegram cannot be told now is written there with the next letter."""
        if outcome(approval) and self._thread.ident and not self._ending.is_set():
            threading.Thread(target=self._asking.settle, name="telegram-asking", daemon=True).start()

    def _type(self, place: Place, done: threading.Event) -> None:
        until = time.monotonic() + _LONGEST_TYPING_S
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
            case Said() if update.addressed:
                self._said(update)
            case Pressed():
                self._pressed(update)
            case Nothing() | Said():
                pass

    def _pressed(self, button: Pressed) -> None:
        """Have the owner's button posted as what they would type. Raises StoreError."""
        answer = self._asking.pressed(button)
        if found := answer.approval:
            who, number = f"telegram:{button.user}", f"button {button.id}"
            self._post(Arrived(found.chat, answer_to(found, answer.word), who, external=number))
        told = {"callback_query_id": button.id, "text": answer.text}
        self._beside(lambda: self._api.call("answerCallbackQuery", told, _SHORT_WAIT_S))

    def _is_urgent(self, update: Update) -> bool:
        """Tell whether an update ends something: the turn, or what the outputs do. Nothing keeps it waiting."""
        if not isinstance(update, Said) or not update.addressed or update.strange:
            return False
        return self._stops_all(update) or update.text.lower() == "/stop"

    def _stops_all(self, said: Said) -> bool:
        return " ".join(said.text.lower().strip(" \t\r\n!.").split()) in self._stops

    def _said(self, said: Said) -> None:
        if not self._pairing.allows(said.user):
            self._meet(said, Place(said.chat, said.thread))
        elif self._is_urgent(said):
            left = "I did not take what came with that: send it again." if said.files else ""
            self._post_said(said, (), [left] if left else [])
        elif not said.files and not self._downloads.has(said):
            self._post_said(said, (), [])
        elif problem := self._not_fetched(said):
            self._post_said(said, (), [f"I could not take what came with this: {problem}"] if said.files else [])

    def _not_fetched(self, said: Said) -> str:
        """Have the files of a message fetched; returns why that cannot be, '' when it is begun. Raises StoreDamaged."""
        try:
            return "" if self._downloads.add(said) else "too many files wait to be fetched"
        except StoreDamaged:
            raise
        except StoreError as error:
            return str(error)

    def _post_said(self, said: Said, attached: tuple[str, ...], problems: list[str]) -> None:
        """Post a message with its files. Raises StoreError when it could not be kept."""
        place = Place(said.chat, said.thread)
        if problems:
            self._tell(place, "\n".join(problems))
        if said.text or attached:
            origin: Origin = "owner" if said.user == self._pairing.owner() else "guest"
            text, foreign = self._worded(said, origin)
            who = f"telegram:{said.user}"
            self._post(Arrived(place.key, text, who, origin, said.external, attached, foreign=foreign))

    def _meet(self, said: Said, place: Place) -> None:
        """Pair whoever has the code; tell anybody else once, in their own chat, that this is not for them."""
        if not said.private:
            return
        if self._pairing.redeem(said.text, said.user, said.who):
            text = "Paired. What you write here goes to this board; /help lists the commands."
        elif said.user in self._strangers or len(self._strangers) >= _STRANGERS:
            return
        else:
            self._strangers.add(said.user)
            text = f"This bot answers its owner only. Your number is {said.user}; see `picoclaw telegram pair`."
        self._tell(place, text)

    def _tell(self, place: Place, text: str) -> None:
        """Say something without keeping the poll waiting: the next message may be the order to stop."""

        self._beside(lambda: self._sender.say(place, text))

    @staticmethod
    def _beside(act: Callable[[], object]) -> None:
        """Do what may fail without keeping the poll waiting."""

        def tried() -> None:
            with suppress(ChannelError):
                act()

        threading.Thread(target=tried, name="telegram-telling", daemon=True).start()

    def _fetch(self, said: Said, file: File, number: int) -> str:
        files.check_room(self._workspace, file.size)
        told = self._files.call("getFile", {"file_id": file.id}, self._timing.wait)
        path = told.get("file_path") if isinstance(told, dict) else None
        if not isinstance(path, str) or not path:
            raise ChannelError("Telegram does not say where it is")
        data = self._files.fetch(path, files.LARGEST_TAKEN, _FETCH_WAITS * self._timing.wait)
        files.check_room(self._workspace, len(data))
        name = file.name or path.rpartition("/")[2]
        stored = files.stored_name(said.chat, said.message, file.kind, f"{number}_{name}" if number else name)
        return files.store(self._workspace, stored, data)

    def _worded(self, said: Said, origin: Origin) -> tuple[str, tuple[str, ...]]:
        """Put beside a text what it does not say itself, and name what of it is not the person's word.

        That stands in a block which it cannot close. Commands, and the words that stop, stay bare.
        """
        text = "/help" if said.text == "/start" else said.text
        notes = [f"from {said.who}"] if origin == "guest" else []
        notes += said.notes
        if (late := _since(said.date, self._ears.date)) > _LATE_S:
            notes.append(f"sent {duration(late)} ago")
        bare = text.startswith("/") or self._stops_all(said)
        if (bare or not said.quotes) and not said.strange:
            return (text if bare else self._noted(notes, text)), ()
        template = self._wording["untrusted"]
        blocks = [untrusted.wrap(template, f"in reply to {one.whose}", one.text) for one in said.quotes]
        blocks += [untrusted.wrap(template, said.strange, said.text)] if said.strange and said.text else []
        content = "\n".join(filter(None, ["" if said.strange else text, *blocks]))
        foreign = [said.strange, *(f"a message of {one.whose} that was answered" for one in said.quotes if not one.own)]
        return self._noted(notes, content), tuple(filter(None, foreign))

    def _noted(self, notes: list[str], text: str) -> str:
        return (
            fill(self._wording["arrived"], {"notes": "; ".join(notes), "content": text}, "content") if notes else text
        )


def _since(sent: int, told: str) -> float:
    """Seconds since a message was sent, by Telegram's own clock: the board's may be wrong. 0 when it does not say."""
    try:
        now = timegm(time.strptime(told, "%a, %d %b %Y %H:%M:%S GMT"))
    except ValueError:
        return 0.0
    return max(0.0, now - sent) if sent else 0.0

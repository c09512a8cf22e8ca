"""The Matrix channel: what rooms bring is posted, what is to be told is sent, questions are answered by reactions.

Rooms are read by one long poll (`/sync`) after the other. How far is kept when what came has been kept: what is brought
again after a crash has the event's own name, by which it is known. Where a poll leaves out what came in between, the
room is read back to what was handled last. Only rooms into which a person of this board has invited us are joined, or,
while a code waits to be sent, rooms in which it may be.

Whole answers are sent in order, each part once: a server drops an event whose number of the sender's own (the
transaction) it knows from the same access token. The number comes from the outbox.
Sources: https://spec.matrix.org/v1.11/client-server-api/#syncing, #transaction-identifiers.
"""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from picoclaw.channels.attachments import MAX_DOWNLOAD_BYTES, ArrivedMessage, Attachment, IncomingFile
from picoclaw.channels.channel import ApprovalWord, FindApproval
from picoclaw.channels.matrix_api import (
    MatrixApi,
    Reaction,
    RoomInfo,
    RoomPlace,
    SyncState,
    as_event,
    get_thread,
    identify_account,
    is_room,
    is_user,
    join_path,
    make_pairing,
    parse_event,
    parse_place,
    read_quote,
)
from picoclaw.channels.pairing import Pairing
from picoclaw.channels.polled import (
    FETCH_WAITS,
    SHORT_WAIT_S,
    TOO_LARGE,
    CallRefused,
    PacedSender,
    PolledChannel,
    Questions,
    ShownQuestion,
    Timing,
    Unreachable,
    as_dict,
    as_list,
    as_text,
    get,
)
from picoclaw.channels.rich_text import (
    AnswerPart,
    ChartPicture,
    Entity,
    RichText,
    render_rich,
    split_answer,
    split_message,
)
from picoclaw.config import Config
from picoclaw.errors import ChannelDown, ChannelError, StoreError
from picoclaw.files import RootedPath
from picoclaw.messages import Event, Text, ToolRun, Turn, TurnHooks, is_urgent_text
from picoclaw.prompts import Templates
from picoclaw.records import NamedTuple
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import InboxMessage, OutboxMessage

MAX_TEXT_UNITS = 4000
"""UTF-16 units of one message: with HTML, and twice in an edit, it stays below the 65,536 bytes of an event."""

MAX_EXTENDABLE_UNITS = 3800
"""Of one that may have a line added later."""

_MAX_CAPTION_UNITS = 3800
_MAX_HTML_CHARS = 20_000
"""That is waited for in a call; after a longer one what has gathered meanwhile comes as one message."""
_UPLOAD_BYTES_S = 20_000
_TRIES = 2
_TAGS = {"bold": "strong", "italic": "em", "strikethrough": "del", "code": "code", "blockquote": "blockquote"}
_KINDS = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".txt": "text/plain",
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".json": "application/json",
    ".ogg": "audio/ogg",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
}


class SendContext(NamedTuple):
    """What a message belongs to: the event that its first part answers, whom it mentions, the draft that it replaces."""

    reply_to: str = ""
    mentions: tuple[str, ...] = ()
    draft: str = ""


NO_CONTEXT = SendContext()


class MatrixSender(PacedSender[MatrixApi, RoomPlace]):
    """Sends for one user; a server's pause is for the user, not for a room."""

    service, longest_pause_s = "the Matrix server", 3.0

    def send_message(self, number: str, place: RoomPlace, text: str, context: SendContext = NO_CONTEXT) -> None:
        """Send a message, `number` being the same when it comes again. Raises ChannelError.

        One that broke off is gone on with where it did: the parts before are known to the server, or to this process.
        """

        def send(at: int, part: AnswerPart, is_last: bool) -> None:  # noqa: ARG001, FBT001
            self._part(place, part, f"{number}.{at}", NO_CONTEXT if at else context)

        with self._guard:
            sizes = _MAX_CAPTION_UNITS, MAX_EXTENDABLE_UNITS, MAX_TEXT_UNITS
            self._send_parts(number, split_answer(text, self._find_workspace(place), *sizes), send)

    def say(self, place: RoomPlace, text: str) -> None:
        """Send what comes ahead of an answer, and is not kept."""
        self.send_message(make_number(), place, text)

    def send_draft(self, place: RoomPlace, part: RichText) -> str:
        """Send a message that is to be edited; returns its event. Raises ChannelError."""
        content = make_content(part) | _make_relation(place, "")
        return self.put(place, content, make_number())

    def plain(self, number: str, place: RoomPlace, text: str) -> tuple[str, str]:
        """Send a text as it is; returns the last message's event and text. Raises ChannelError."""
        with self._guard:
            event, parts = "", split_message(RichText(text), MAX_EXTENDABLE_UNITS)
            for at, part in enumerate(parts):
                event = self.put(place, make_content(part) | _make_relation(place, ""), f"{number}.{at}")
            return event, parts[-1].text if parts else ""

    def edit(self, place: RoomPlace, event: str, part: RichText, number: str) -> None:
        """Put another text in place of a message's. Raises ChannelError."""
        self.put(place, _replace_content(make_content(part), event), number)

    def react(self, room: str, event: str, emoji: str, number: str) -> None:
        """Put an emoji to an event. Raises ChannelError."""
        relation = {"rel_type": "m.annotation", "event_id": event, "key": emoji}
        self.put(RoomPlace(room), {"m.relates_to": relation}, number, kind="m.reaction")

    def redact(self, room: str, event: str, number: str) -> None:
        """Take an event back. Raises ChannelError."""
        with self._guard:
            self._call("PUT", join_path("rooms", room, "redact", event, number), {}, self._timing.wait)

    def _part(self, place: RoomPlace, part: AnswerPart, number: str, context: SendContext) -> None:
        try:
            if isinstance(part, Attachment):
                name, words = part.place.path.name, render_rich(part.caption).text
                kind = _KINDS.get(part.place.path.suffix.lower(), "application/octet-stream")
                content = self._upload(part.place, name, kind, part.size, words)
            elif isinstance(part, ChartPicture):
                content = self._upload(part.data, "chart.png", "image/png", len(part.data), part.caption.text)
            else:
                content = make_content(part)
        except CallRefused as error:  # what comes after the file is told all the same
            instead = part.instead if isinstance(part, ChartPicture) else RichText(f"{name}: {error}")
            content = make_content(instead)
        self._finish(place, content, number, context)

    def _finish(self, place: RoomPlace, content: dict[str, Any], number: str, context: SendContext) -> None:
        """Send an event of a message, in place of its draft where there is one and it is a text as well."""
        content["m.mentions"] = {"user_ids": list(context.mentions)} if context.mentions else {}
        if context.draft and content["msgtype"] == "m.text":
            self.put(place, _replace_content(content, context.draft), number)
            return
        if context.draft:
            self.redact(place.room, context.draft, f"{number}.draft")
        self.put(place, content | _make_relation(place, context.reply_to), number)

    def put(self, place: RoomPlace, content: dict[str, Any], number: str, kind: str = "m.room.message") -> str:
        """Send one event, without its looks where they are too much; returns its name. Raises ChannelError."""
        path = join_path("rooms", place.room, "send", kind, number)
        with self._guard:
            try:
                sent = self._call("PUT", path, content, self._timing.wait)
            except CallRefused as error:
                if error.code != "M_TOO_LARGE" or "formatted_body" not in content:
                    raise
                bare = {key: value for key, value in content.items() if key not in {"format", "formatted_body"}}
                sent = self._call("PUT", path, bare, self._timing.wait)
        return as_event(sent.get("event_id"))

    def _upload(self, source: RootedPath | bytes, name: str, kind: str, size: int, caption: str) -> dict[str, Any]:
        """Put a file onto the server; returns the content of the message that shows it. Raises ChannelError."""
        wait = self._timing.wait + size / _UPLOAD_BYTES_S
        address = self._pace(partial(self._api.upload, source, name, kind, wait))
        group = kind.partition("/")[0]
        shown = f"m.{group}" if group in {"image", "audio", "video"} and kind != "image/svg+xml" else "m.file"
        content: dict[str, Any] = {"msgtype": shown, "url": address, "info": {"mimetype": kind, "size": size}}
        return content | ({"body": caption, "filename": name} if caption else {"body": name})

    def _call(self, method: str, path: str, fields: dict[str, Any], wait: float) -> dict[str, Any]:
        """Make a call that may be made twice, and is when it is not known whether it was carried out."""
        unsure = False
        for tried in range(_TRIES):
            try:
                return self._pace(partial(self._api.call, method, path, fields, wait=wait))
            except ChannelDown as error:
                error.unsure = unsure = error.unsure or unsure
                is_again = isinstance(error, Unreachable) and unsure and tried < _TRIES - 1
                if not is_again or self._ending.is_set():
                    raise
        raise AssertionError


def make_number() -> str:
    """Make a transaction's number for what is sent once only."""
    return f"once-{os.urandom(12).hex()}"


def make_content(part: RichText) -> dict[str, Any]:
    """Make the content of a message; nobody is mentioned by what a text happens to hold."""
    content: dict[str, Any] = {"msgtype": "m.text", "body": part.text, "m.mentions": {}}
    if part.entities and len(html := render_html(part)) <= _MAX_HTML_CHARS:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content


def _make_relation(place: RoomPlace, reply_to: str) -> dict[str, Any]:
    """Make a message one of its thread, and an answer to an event, '' for none."""
    if not place.thread:
        return {"m.relates_to": {"m.in_reply_to": {"event_id": reply_to}}} if reply_to else {}
    # clients without threads show an answer to the thread's beginning
    answered = {"m.in_reply_to": {"event_id": reply_to or place.thread}, "is_falling_back": not reply_to}
    return {"m.relates_to": {"rel_type": "m.thread", "event_id": place.thread} | answered}


def _replace_content(content: dict[str, Any], event: str) -> dict[str, Any]:
    """Make an edit; clients that know none show what is new behind an asterisk."""
    whole = content | {"m.new_content": content, "body": f"* {content['body']}"}
    if "formatted_body" in content:
        whole["formatted_body"] = f"* {content['formatted_body']}"
    return whole | {"m.relates_to": {"rel_type": "m.replace", "event_id": event}}


def render_html(part: RichText) -> str:
    """Render in the HTML that clients show, everything of the text escaped.

    Source: https://spec.matrix.org/v1.11/client-server-api/#mroommessage-msgtypes, "HTML features".
    """
    out: list[str] = []
    opened: list[tuple[int, str]] = []
    at, is_code = 0, 0

    def write(until: int) -> None:
        nonlocal at
        text = escape(part.text[at:until], quote=False)
        out.append(text if is_code else text.replace("\n", "<br>"))
        at = max(at, until)

    def close(until: int) -> None:
        nonlocal is_code
        while opened and opened[-1][0] <= until:
            end, tag = opened.pop()
            write(end)
            out.append(tag)
            is_code -= tag.startswith("</code></pre>")

    for entity in part.entities:
        close(entity.start)
        write(entity.start)
        end = min([entity.end, len(part.text), *(end for end, _ in opened)])
        begin, tag = _make_tags(entity)
        out.append(begin)
        opened.append((end, tag))
        is_code += entity.kind == "pre"
    close(len(part.text))
    write(len(part.text))
    return "".join(out)


def _make_tags(entity: Entity) -> tuple[str, str]:
    if entity.kind == "pre":
        language = f' class="language-{escape(entity.more)}"' if entity.more else ""
        return f"<pre><code{language}>", "</code></pre>"
    if entity.kind == "text_link":
        return f'<a href="{escape(entity.more)}">', "</a>"
    tag = _TAGS[entity.kind]
    return f"<{tag}>", f"</{tag}>"


MATRIX_TIMING = Timing(between=0.0, in_groups=0.0)
_ANSWERS: dict[str, ApprovalWord] = {
    **dict.fromkeys(("✅", "👍", "✔", "☑"), "yes"),
    **dict.fromkeys(("❌", "👎", "✖"), "no"),
    "♾": "always",
}
"""What the owner says by an emoji."""
_OFFERED = ("✅", "❌", "♾️")
HOW_TO_ANSWER = "React with ✅ yes, ❌ no, ♾️ always."

_EVENT_TYPES = ["m.room.message", "m.sticker", "m.reaction", "m.room.member", "m.room.encrypted", "m.room.encryption"]
_STATE_TYPES = ["m.room.member", "m.room.encryption"]
_TIMELINE_LIMIT, _PAGE, _MAX_PAGES = 20, 50, 40
_MAX_JOINED, _MAX_HANDLED, _MAX_ORDERS = 200, 500, 50
_MAX_ORDER_CHARS = 300  # with the name of whom it is meant for
_TYPING_S, _TYPING_SHOWN_MS, _MAX_TYPING_S = 20.0, 30_000, 600.0
_DRAFT_FIRST_S, _DRAFT_S, _MAX_DRAFT_S = 2.5, 5.0, 20.0
_SHOWING_TIMEOUT_S = 10.0
_JOIN_WAITS = 3
NOT_FOR_YOU = "This board answers its owner only; see `picoclaw matrix pair`."
ENCRYPTED = (
    "This room is encrypted, and picoclaw cannot read encrypted messages."
    " Invite it into a room without encryption: that cannot be turned off later, so make a new one."
)


class MatrixQuestions(Questions[MatrixSender]):
    """The questions of one account, each answered by a reaction to its very message."""

    def __init__(self, sender: MatrixSender, pairing: Pairing, kept: FindApproval, note: Callable[[str], None]) -> None:
        super().__init__(sender, pairing, kept, note)
        self._showing = threading.Lock()
        """Held from before a question is sent until the event that asks is known, which a reaction may come before."""

    def show(self, place: RoomPlace, number: int, text: str, transaction: str) -> str:
        """Show a question whole; returns the event that asks, '' when it is open no more.

        Raises ChannelError, and StoreError before it is shown.
        """
        if (approval := self.find(number)) is None:
            self._sender.send_message(transaction, place, self.describe_ended(number, text))
            return ""
        with self._showing:
            event, last = self._sender.plain(transaction, place, f"{text}\n\n{HOW_TO_ANSWER}")
            if event:
                last = last.removesuffix(HOW_TO_ANSWER).rstrip()
                self.remember(number, ShownQuestion(place.key, event, last, approval.nonce))
        return event

    def end(self, shown: ShownQuestion, text: str) -> None:
        self._sender.edit(parse_place(shown.chat), shown.message, RichText(text), f"end{shown.message}")

    def answer(self, reaction: Reaction) -> tuple[Approval, ApprovalWord] | None:
        """Read a reaction: it counts for the owner, at the message that asks, while that question is open."""
        word = _ANSWERS.get(reaction.emoji)
        if not word or self._pairing.origin(reaction.user) != "owner":
            return None
        if self._showing.acquire(timeout=_SHOWING_TIMEOUT_S):
            self._showing.release()
        for number, shown in self.all().items():
            if shown.message == reaction.target and parse_place(shown.chat).room == reaction.room:
                approval = self.find(number)
                return (approval, word) if approval and approval.nonce == shown.nonce else None
        return None


class _MatrixAnswer(NamedTuple):
    """An answer on its way: the message that it answers, its writer, and the draft that it takes the place of."""

    text: str
    context: SendContext


class _Draft:
    """What a turn has said so far, shown in the room while it goes on; its thread also shows that somebody types."""

    def __init__(self, place: RoomPlace) -> None:
        self.place, self.done = place, threading.Event()
        self.guard = threading.Lock()
        self.event = self.shown = ""
        self._parts: list[str] = []

    def listen(self, event: Event | ToolRun) -> None:
        if isinstance(event, Text):
            self._parts.append(event.text)

    @property
    def text(self) -> str:
        return "".join(list(self._parts)).strip()


class MatrixChannel(PolledChannel[MatrixApi]):
    """One account, which a home's owners talk to."""

    name = "matrix"

    def __init__(
        self,
        config: Config,
        wording: Templates,
        timing: Timing = MATRIX_TIMING,
        note: Callable[[str], None] = lambda _: None,
        kept: FindApproval = lambda _: None,
    ) -> None:
        """`kept` looks up a call that needs a yes; for the rest see PolledChannel."""
        make_api = partial(MatrixApi, config.matrix_token, config.matrix.homeserver)
        super().__init__(config, wording, timing, note, make_pairing(config), make_api)
        self._sender = MatrixSender(self._api, self._find_workspace, self._ending, timing)
        self._questions: MatrixQuestions = MatrixQuestions(self._sender, self._pairing, kept, note)
        self._state, self._state_guard = SyncState(self._pairing), threading.RLock()
        self._rooms: dict[str, RoomInfo] = {}
        self._answers: dict[str, _MatrixAnswer] = {}
        self._drafts: dict[str, _Draft] = {}
        self._joining: set[str] = set()
        self._told_encrypted: set[str] = set()
        self._old_drafts: dict[str, str] = {}
        self._handled: dict[str, None] = {}
        self._read: dict[RoomPlace, str] = {}
        self._me = self._since = ""
        self._limit, self._is_new, self._is_gap = _TIMELINE_LIMIT, False, False

    def _load_state(self) -> None:
        self._state.load()
        self._old_drafts = dict(self._state.drafts)

    def stop(self) -> None:
        for draft in list(self._drafts.values()):
            draft.done.set()
        super().stop()

    def owner_chat(self) -> str:
        """See Channel: the room in which the owner is alone with us, and spoke last."""
        return RoomPlace(self._state.owner_room).key if self._state.owner_room and self._pairing.owner() else ""

    def send(self, message: OutboxMessage) -> None:
        place = parse_place(message.session)
        if not any(map(self._pairing.allows, self._get_room(place.room).members)):
            raise ChannelError("nobody in this room may talk to the board any more")
        number = f"{message.number}-{message.at:.6f}"
        if message.approval:
            if event := self._questions.show(place, message.approval, message.text, number):
                self._start_beside(partial(self._offer_answers, place.room, event, number))
            return
        answer = self._answers.get(message.session)
        context = NO_CONTEXT
        if answer and answer.text and message.text.startswith(answer.text):  # more than it where it comes late
            context = answer.context
        elif left := self._old_drafts.get(message.session):  # by a former process, which was to say this or the like
            context = SendContext(draft=left)
        self._sender.send_message(number, place, message.text, context)
        if context.draft:
            self._forget_draft(message.session, context.draft)
        self._questions.settle()

    def around(self, arrived: InboxMessage) -> TurnHooks:
        """See Channel. The sign that somebody types, and the draft, last until `answered`."""
        self._end_draft(arrived.key)
        draft = self._drafts[arrived.key] = _Draft(parse_place(arrived.key))
        threading.Thread(target=self._accompany, args=(draft,), name="matrix-typing", daemon=True).start()
        return TurnHooks(say=partial(self._sender.say, draft.place), listen=draft.listen)

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:  # noqa: ARG002
        """See Channel. An answer always goes by the outbox, so that it outlives a connection that breaks.

        In a group it replies to the message it answers, and mentions its writer; a restart forgets that.
        """
        event = self._end_draft(arrived.key)
        context = SendContext(draft=event)
        room = self._rooms.get(parse_place(arrived.key).room)
        if room and not room.is_private:
            user = arrived.who.removeprefix(f"{self.name}:")
            context = context._replace(reply_to=as_event(arrived.external), mentions=(user,) if is_user(user) else ())
        self._answers[arrived.key] = _MatrixAnswer(reply, context)
        if event and not reply:
            place = parse_place(arrived.key)
            self._start_beside(partial(self._sender.redact, place.room, event, make_number()))
            self._forget_draft(arrived.key, event)
        return False

    def _offer_answers(self, room: str, event: str, number: str) -> None:
        """Put the emojis below a question, so that one tap answers it."""
        for at, emoji in enumerate(_OFFERED):
            self._sender.react(room, event, emoji, f"{number}.r{at}")

    # What is shown of a turn while it goes on.

    def _accompany(self, draft: _Draft) -> None:
        """Show that somebody types, and what has been said; both are only for the eye, and end at the first failure."""
        begun = time.monotonic()
        typed, next_draft, pace = 0.0, begun + _DRAFT_FIRST_S, _DRAFT_S
        path = join_path("rooms", draft.place.room, "typing", self._state.user)
        with suppress(ChannelError, StoreError):
            while not draft.done.is_set() and (now := time.monotonic()) < begun + _MAX_TYPING_S:
                if now - typed >= _TYPING_S or not typed:
                    typed = now
                    fields = {"typing": True, "timeout": _TYPING_SHOWN_MS}
                    self._api.call("PUT", path, fields, wait=SHORT_WAIT_S)
                if now >= next_draft and (text := draft.text) and text != draft.shown:
                    self._show_draft(draft, text)
                    next_draft, pace = time.monotonic() + pace, min(pace * 1.25, _MAX_DRAFT_S)
                draft.done.wait(min(0.5, _DRAFT_FIRST_S))
        with suppress(ChannelError):
            draft.done.wait(_MAX_TYPING_S)
            self._api.call("PUT", path, {"typing": False}, wait=SHORT_WAIT_S)

    def _show_draft(self, draft: _Draft, text: str) -> None:
        """Show what was said so far; the first time durably known, so that no draft is left behind by a crash."""
        parts = split_message(render_rich(text), MAX_TEXT_UNITS - 2)
        with draft.guard:
            if draft.done.is_set() or not parts:
                return
            shown = parts[0]._replace(text=f"{parts[0].text} …")
            if draft.event:
                self._sender.edit(draft.place, draft.event, shown, make_number())
            else:
                draft.event = self._sender.send_draft(draft.place, shown)
                with self._state_guard:
                    self._state.drafts[draft.place.key] = draft.event
                    self._state.save()
            draft.shown = text

    def _end_draft(self, key: str) -> str:
        """End what is shown of a turn; returns the event of its draft, '' when there is none."""
        draft = self._drafts.pop(key, None)
        if draft is None:
            return ""
        draft.done.set()
        with draft.guard:
            return draft.event

    def _forget_draft(self, key: str, event: str) -> None:
        self._old_drafts.pop(key, None)
        if answer := self._answers.get(key):
            self._answers[key] = answer._replace(context=answer.context._replace(draft=""))
        with self._state_guard, suppress(StoreError):
            if self._state.drafts.get(key) == event:
                del self._state.drafts[key]
                self._state.save()

    # The poll, in a thread of its own.

    def _poll_once(self) -> None:
        """Take what is there; the first time, and after a failure, without waiting for more."""
        if not self._me:
            self._begin()
        answer = self._ask_sync()
        since = answer.get("next_batch")
        if not isinstance(since, str) or not since:
            raise Unreachable("the Matrix server's sync does not say where it ends", unsure=True)
        rooms = as_dict(answer.get("rooms"))
        joined = {room: as_dict(body) for room, body in as_dict(rooms.get("join")).items() if is_room(room)}
        changed = self._note_rooms(joined, as_dict(rooms.get("leave")))
        for room, body in joined.items():
            self._keep_urgent(room, as_list(get(body, "timeline", "events")))
        for room, body in joined.items():
            self._receive_room(room, body)
        for room, body in as_dict(rooms.get("invite")).items():
            changed = self._receive_invite(room, body) or changed
        with self._state_guard:
            self._since = self._state.since = since
            if joined or changed or self._is_new or self._is_gap or self._state.is_old():
                self._state.save()
        self._is_new = self._is_gap = False
        self._limit = min(self._limit * 2, _TIMELINE_LIMIT)
        self._may_hold = True
        self._link.heard()
        for room in list(self._state.invites):
            if room not in self._joining:  # in a thread: another server may take a minute
                self._joining.add(room)
                threading.Thread(target=self._join, args=(room,), name="matrix-joining", daemon=True).start()
        while self._read:
            self._start_beside(partial(self._mark_read, *self._read.popitem()))

    def _begin(self) -> None:
        """Ask whose account it is, and where reading goes on."""
        self._me = identify_account(self._poll_api, self._timing.wait)
        with self._state_guard:
            self._state.begin(self._me)
            self._since = self._state.since
            self._is_new = not self._since

    def _ask_sync(self) -> dict[str, Any]:
        hold = self._timing.hold if self._may_hold else 0
        query = {"timeout": str(int(hold * 1000)), "filter": self._make_filter(), "set_presence": "offline"}
        query |= {"since": self._since} if self._since else {}
        wait = hold + self._timing.grace
        try:
            return self._poll_api.call("GET", join_path("sync"), query=query, wait=wait)
        except CallRefused as error:
            if error.code == TOO_LARGE and self._limit > 1:
                self._limit = max(1, self._limit // 4)
                raise Unreachable("the Matrix server sent too much at once; less is asked for") from None
            if not self._since or error.code == TOO_LARGE:
                raise
            # it has forgotten that moment: each room is read back to what was handled last
            self._note(f"matrix: the server does not know how far was read, which is looked up in each room: {error}")
            self._since, self._is_gap = "", True
            raise Unreachable(str(error)) from None

    def _make_filter(self) -> str:
        nothing: dict[str, Any] = {"types": []}
        timeline = {"types": _EVENT_TYPES, "limit": self._limit}
        state = {"types": _STATE_TYPES, "lazy_load_members": True}
        rooms = {"timeline": timeline, "state": state, "ephemeral": nothing, "account_data": nothing}
        return json.dumps({"presence": nothing, "account_data": nothing, "room": rooms}, separators=(",", ":"))

    def _note_rooms(self, joined: dict[str, Any], left: dict[str, Any]) -> bool:
        """Forget who is in a room where that has changed; tells whether there is something to keep."""
        for room, body in joined.items():
            events = [*as_list(get(body, "timeline", "events")), *as_list(get(body, "state", "events"))]
            # a timeline that was cut may leave out that somebody has come, and with them that the room is private no more
            is_cut = get(body, "timeline", "limited") is True
            if is_cut or any(get(event, "type") == "m.room.member" for event in events):
                self._rooms.pop(room, None)
        changed = False
        for room in left:
            self._rooms.pop(room, None)
            changed = self._state.last.pop(room, None) is not None or changed
            if self._state.owner_room == room:
                self._state.owner_room = ""
        return changed

    def _receive_room(self, room: str, body: dict[str, Any]) -> None:
        """Take what a room brings, with what the poll has left out; of a new one what came after we had joined."""
        events, known = as_list(get(body, "timeline", "events")), self._state.last.get(room, "")
        is_known = room in self._state.last
        if not self._is_new:
            is_cut = get(body, "timeline", "limited") is True
            if self._is_gap or not is_known:
                is_cut = not self._is_handled_in(events, known)
            start = get(body, "timeline", "prev_batch")
            if is_cut and isinstance(start, str):
                events = self._read_back(room, start, known) + events
            # what stands before a known event may be new: another server may have held it back
            if not is_known and (at := self._find_own_join(events)) is not None:
                events = events[at:]
            info = self._get_room(room)
            for raw in events:
                self._receive_event(room, raw, info)
        newest = next((event for raw in reversed(events) if (event := as_event(get(raw, "event_id")))), known)
        self._state.last[room] = newest
        state = [*as_list(get(body, "state", "events")), *as_list(get(body, "timeline", "events"))]
        if not self._is_new and not is_known and any(get(one, "type") == "m.room.encryption" for one in state):
            self._say_encrypted(room)

    def _is_handled_in(self, events: list[Any], known: str) -> bool:
        """Whether events go back to what was handled, or to our joining where nothing was."""
        if known:
            return any(get(raw, "event_id") == known for raw in events)
        return self._find_own_join(events) is not None

    def _find_own_join(self, events: list[Any]) -> int | None:
        found = [
            at
            for at, raw in enumerate(events)
            if get(raw, "type") == "m.room.member"
            and get(raw, "state_key") == self._me
            and get(raw, "content", "membership") == "join"
            and get(raw, "unsigned", "prev_content", "membership") != "join"  # a new name is no joining
        ]
        return found[-1] if found else None

    def _read_back(self, room: str, start: str, known: str) -> list[Any]:
        """Read what a poll has left out, from its beginning back to what was handled; in the order of the room."""
        found: list[Any] = []
        wanted = json.dumps({"types": _EVENT_TYPES}, separators=(",", ":"))
        for _ in range(_MAX_PAGES):
            query = {"dir": "b", "from": start, "limit": str(max(1, _PAGE * self._limit // _TIMELINE_LIMIT))}
            query |= {"filter": wanted} | ({"to": self._since} if self._since else {})
            try:
                page = self._poll_api.call(
                    "GET", join_path("rooms", room, "messages"), query=query, wait=self._timing.wait
                )
            except CallRefused as error:
                if error.code == TOO_LARGE and self._limit > 1:
                    self._limit = max(1, self._limit // 4)
                    raise Unreachable("the Matrix server sent too much at once; less is asked for") from None
                self._note(f"matrix: what was said in {room} meanwhile cannot be read: {error}")
                return found
            events = as_list(page.get("chunk"))[::-1]
            allowed = [raw for raw in events if get(raw, "sender") == self._me or self._is_heard(raw)]
            found = allowed + found
            end = page.get("end")
            if self._is_handled_in(events, known) or not isinstance(end, str) or end == start:
                return found
            start = end
        self._note(f"matrix: more than {_MAX_PAGES * _PAGE} messages were missed in {room}; the oldest are left out")
        return found

    def _is_heard(self, raw: Any) -> bool:
        return is_user(user := get(raw, "sender")) and self._pairing.allows(user)

    def _get_room(self, room: str) -> RoomInfo:
        """Look up who is in a room. Raises ChannelError."""
        if (info := self._rooms.get(room)) is None:
            told = self._api.call("GET", join_path("rooms", room, "joined_members"), wait=self._timing.wait)
            members = as_dict(told.get("joined")).items()
            info = RoomInfo({user: as_text(get(one, "display_name")) for user, one in members if is_user(user)})
            self._rooms[room] = info
        return info

    # Invitations.

    def _receive_invite(self, room: str, body: Any) -> bool:
        """Note an invitation of somebody who may talk to us, or decline it; tells whether it was noted."""
        events = as_list(get(body, "invite_state", "events"))
        mine = [one for one in events if get(one, "type") == "m.room.member" and get(one, "state_key") == self._me]
        inviter = next((user for one in mine if is_user(user := get(one, "sender"))), "")
        if not is_room(room) or not inviter or len(self._state.last) >= _MAX_JOINED:
            return False
        if self._pairing.allows(inviter) or self._pairing.is_offered():
            self._state.invites[room] = inviter
            return True
        self._start_beside(partial(self._leave, room, NOT_FOR_YOU))
        return False

    def _join(self, room: str) -> None:
        try:
            with suppress(ChannelDown, StoreError):
                try:
                    self._api.call("POST", join_path("join", room), {}, wait=_JOIN_WAITS * self._timing.wait)
                except CallRefused as error:
                    self._note(f"matrix: a room cannot be joined: {error}")
                with self._state_guard:
                    self._state.invites.pop(room, None)
                    self._state.save()
        finally:
            self._joining.discard(room)

    def _leave(self, room: str, reason: str) -> None:
        self._api.call("POST", join_path("rooms", room, "leave"), {"reason": reason}, wait=self._timing.wait)

    # Events.

    def _keep_urgent(self, room: str, events: list[Any]) -> None:
        """Keep at once what may not wait for the events before it, of which one may not be kept.

        Of a room that is new it is not known yet what was said before we joined: there it waits.
        """
        if self._is_new or room not in self._state.last:
            return
        for raw in events:
            if len(as_text(get(raw, "content", "body"))) > _MAX_ORDER_CHARS or not self._is_heard(raw):
                continue
            update = parse_event(raw, room, self._get_room(room), self._me)
            if isinstance(update, ArrivedMessage) and self._is_urgent(update) and self._note_handled(update):
                self._post_message(update, (), [])

    def _note_handled(self, message: ArrivedMessage) -> bool:
        """Remember a message; tells whether it is new. What was kept is known to the inbox as well, but for orders."""
        event = message.external
        if event in self._handled or event in self._state.orders:
            return False
        self._handled[event] = None
        if len(self._handled) > _MAX_HANDLED:
            del self._handled[next(iter(self._handled))]
        if self._is_urgent(message):
            self._state.orders = [*self._state.orders[-_MAX_ORDERS:], event]
        return True

    def _is_urgent(self, message: ArrivedMessage) -> bool:
        return message.addressed and not message.replaces and is_urgent_text(message.text)

    def _receive_event(self, room: str, raw: Any, info: RoomInfo) -> None:
        update = parse_event(raw, room, info, self._me)
        if isinstance(update, Reaction):
            if found := self._questions.answer(update):  # the owner's emoji counts as what they would type
                approval, word = found
                self._post_answer(approval, word, update.user, f"reaction {update.update}")
        elif isinstance(update, ArrivedMessage):
            if not self._pairing.allows(update.sender):
                self._greet_stranger(update, info)
            elif update.external not in self._handled and update.external not in self._state.orders:
                message = self._look_up_relations(update)
                if message.addressed:
                    self._take_message(message)
                self._note_handled(update)
        elif get(raw, "type") == "m.room.encrypted" and self._is_heard(raw):
            self._say_encrypted(room)

    def _look_up_relations(self, message: ArrivedMessage) -> ArrivedMessage:
        """Put in what a message answers, and where what it replaces stands; an answer to us is addressed to us."""
        room = parse_place(message.key).room
        if message.replaces:
            thread = get_thread(self._find_event(room, message.replaces))
            message = message._replace(key=RoomPlace(room, thread).key)
        if message.reply_to:
            answered = self._find_event(room, message.reply_to)
            is_ours = get(answered, "sender") == self._me
            quotes = read_quote(answered, message.sender, self._me)
            message = message._replace(quotes=quotes, addressed=message.addressed or is_ours)
        return message

    def _find_event(self, room: str, event: str) -> Any:
        """Look up an event that another names; None for one that the server does not give."""
        try:
            path = join_path("rooms", room, "event", event)
            return self._poll_api.call("GET", path, wait=self._timing.wait)
        except CallRefused:
            return None

    def _greet_stranger(self, message: ArrivedMessage, info: RoomInfo) -> None:
        """Pair whoever has the code; leave a room in which nobody may talk to us."""
        is_alone = not any(map(self._pairing.allows, info.members))
        if message.private and self._redeem(message):
            self._note_owner_room(message)
        elif is_alone and not self._pairing.is_offered():
            self._start_beside(partial(self._leave, parse_place(message.key).room, NOT_FOR_YOU))
        elif message.private:
            self._refuse_once(message, NOT_FOR_YOU)

    def _note_owner_room(self, message: ArrivedMessage) -> None:
        """Remember where the owner is alone with us: there they are told what no other chat can be told."""
        if message.private and message.sender == self._pairing.owner():
            self._state.owner_room = parse_place(message.key).room  # kept with how far was read

    def _say_encrypted(self, room: str) -> None:
        if room not in self._told_encrypted:
            self._told_encrypted.add(room)
            self._start_beside(partial(self._sender.say, RoomPlace(room), ENCRYPTED))

    def _post_message(self, message: ArrivedMessage, attached: tuple[str, ...], problems: list[str]) -> None:
        super()._post_message(message, attached, problems)
        self._note_owner_room(message)
        self._read[parse_place(message.key)] = message.external

    def _say(self, message: ArrivedMessage, text: str) -> None:
        self._sender.say(parse_place(message.key), text)

    def _mark_read(self, place: RoomPlace, event: str) -> None:
        """Show that all messages up to this were kept."""
        path = join_path("rooms", place.room, "receipt", "m.read", event)
        self._api.call("POST", path, {"thread_id": place.thread or "main"}, wait=SHORT_WAIT_S)

    def _find_workspace(self, place: RoomPlace) -> Path | None:
        """Whose files a room may be sent: of those who are all there is in it. Raises ChannelError."""
        return self._pairing.find_workspace(self._get_room(place.room).members.keys() - {self._state.user}, place.key)

    def _download(self, file: IncomingFile) -> tuple[str, bytes]:
        return file.name, self._files.download(file.id, MAX_DOWNLOAD_BYTES, FETCH_WAITS * self._timing.wait)

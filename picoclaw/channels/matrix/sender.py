"""Sends into rooms: whole answers in order, each part once.

A server takes an event with a number of the sender's own (the transaction), and drops one whose number it knows from
the same access token. The number comes from the outbox, so that what is sent again after a crash is not doubled.
Source: https://spec.matrix.org/v1.11/client-server-api/#transaction-identifiers.
"""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, TypeVar

from picoclaw.channels.attachments import Attachment
from picoclaw.channels.matrix.api import MatrixApi, RoomPlace, as_event, join_path
from picoclaw.channels.polled import Busy, CallRefused, Timing, Unreachable
from picoclaw.channels.rich_text import ChartPicture, Entity, RichText, render_rich, split_answer, split_message
from picoclaw.errors import ChannelDown
from picoclaw.files import RootedPath
from picoclaw.records import NamedTuple

MAX_TEXT_UNITS = 4000
"""UTF-16 units of one message: with HTML, and twice in an edit, it stays below the 65,536 bytes of an event."""

MAX_EXTENDABLE_UNITS = 3800
"""Of one that may have a line added later."""

_MAX_CAPTION_UNITS = 3800
_MAX_HTML_CHARS = 20_000
_LONGEST_PAUSE_S = 3.0
"""That is waited for in a call; after a longer one what has gathered meanwhile comes as one message."""
_UPLOAD_BYTES_S = 20_000
_TRIES = 2
_Result = TypeVar("_Result")
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


class MatrixSender:
    """Sends for one user, one event at a time, from any thread."""

    def __init__(
        self,
        api: MatrixApi,
        find_workspace: Callable[[RoomPlace], Path | None],
        ending: threading.Event,
        timing: Timing,
    ) -> None:
        """`find_workspace` gives the folder of the files that a room may be sent, None for none."""
        self._api, self._find_workspace, self._ending, self._timing = api, find_workspace, ending, timing
        self._guard = threading.RLock()
        self._next = 0.0  # a server's pause is for the user, not for a room
        self._begun: dict[str, int] = {}

    def send_message(self, number: str, place: RoomPlace, text: str, context: SendContext = NO_CONTEXT) -> None:
        """Send a message, `number` being the same when it comes again. Raises ChannelError.

        One that broke off is gone on with where it did: the parts before are known to the server, or to this process.
        """
        with self._guard:
            done = self._begun.get(number, 0)
            try:
                for at, part in enumerate(_list_parts(text, self._find_workspace(place))):
                    if at >= done:
                        self._part(place, part, f"{number}.{at}", context if at == 0 else NO_CONTEXT)
                        done = at + 1
            except ChannelDown as error:
                error.unsure |= done > 0
                self._begun = {number: done}
                raise
            self._begun = {}

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

    def _part(
        self, place: RoomPlace, part: RichText | Attachment | ChartPicture, number: str, context: SendContext
    ) -> None:
        if isinstance(part, Attachment):
            name = part.place.path.name
            kind = _KINDS.get(part.place.path.suffix.lower(), "application/octet-stream")
            try:
                address = self._upload(part.place, name, kind, part.size)
            except CallRefused as error:  # what comes after the file is told all the same
                part = RichText(f"{name}: {error}")
            else:
                words = render_rich(part.caption).text
                content = _make_file_content(address, name, kind, part.size, words)
                self._finish(place, content, number, context)
                return
        if isinstance(part, ChartPicture):
            try:
                address = self._upload(part.data, "chart.png", "image/png", len(part.data))
            except CallRefused:
                part = part.instead
            else:
                content = _make_file_content(address, "chart.png", "image/png", len(part.data), part.caption.text)
                self._finish(place, content, number, context)
                return
        self._finish(place, make_content(part), number, context)

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

    def _upload(self, source: RootedPath | bytes, name: str, kind: str, size: int) -> str:
        wait = self._timing.wait + size / _UPLOAD_BYTES_S
        return self._paced(partial(self._api.upload, source, name, kind, wait))

    def _call(self, method: str, path: str, fields: dict[str, Any], wait: float) -> dict[str, Any]:
        """Make a call that may be made twice, and is when it is not known whether it was carried out."""
        unsure = False
        for tried in range(_TRIES):
            try:
                return self._paced(partial(self._api.call, method, path, fields, wait=wait))
            except ChannelDown as error:
                error.unsure = unsure = error.unsure or unsure
                is_again = isinstance(error, Unreachable) and unsure and tried < _TRIES - 1
                if not is_again or self._ending.is_set():
                    raise
        raise AssertionError

    def _paced(self, act: Callable[[], _Result]) -> _Result:
        """Make one call when the server's pause is over, once more after a short one."""
        time_left = _LONGEST_PAUSE_S
        while True:
            rest = self._next - time.monotonic()
            if rest > _LONGEST_PAUSE_S:
                raise Busy(f"the Matrix server asks for a pause, for {rest:.0f} s more", rest)
            if rest > 0 and self._ending.wait(rest):
                raise Unreachable("the Matrix server was left")
            try:
                return act()
            except Busy as error:
                self._next = time.monotonic() + error.seconds
                time_left -= max(1.0, error.seconds)
                if time_left < 0:
                    raise


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


def _make_file_content(address: str, name: str, kind: str, size: int, caption: str) -> dict[str, Any]:
    group = kind.partition("/")[0]
    shown = f"m.{group}" if group in {"image", "audio", "video"} and kind != "image/svg+xml" else "m.file"
    content: dict[str, Any] = {"msgtype": shown, "url": address, "info": {"mimetype": kind, "size": size}}
    return content | ({"body": caption, "filename": name} if caption else {"body": name})


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


def _list_parts(text: str, workspace: Path | None) -> list[RichText | Attachment | ChartPicture]:
    parts: list[RichText | Attachment | ChartPicture] = []
    for part in split_answer(text, workspace, _MAX_CAPTION_UNITS, MAX_EXTENDABLE_UNITS):
        parts += split_message(part, MAX_TEXT_UNITS) if isinstance(part, RichText) else [part]
    return parts

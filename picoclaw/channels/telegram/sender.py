"""From Markdown, as models write it, to a text with entities, which Telegram shows as they are and cannot misread.

Pure, takes time in proportion to the text, and knows no wrong Markdown: what is not markup stays text.
Source: https://core.telegram.org/bots/api#messageentity.
"""

import re
import threading
import time
import unicodedata
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from picoclaw.channels.telegram.api import Busy, CallRefused, TelegramApi, Timing, Unreachable, Upload
from picoclaw.channels.telegram.updates import Attachment, ChatPlace, split_attachments
from picoclaw.errors import ChannelDown
from picoclaw.records import NamedTuple
from picoclaw.text import pattern, remove_invisible


class Entity(NamedTuple):
    """A stretch of a text, by its characters; `more` is a link's address or the language of a block of code."""

    kind: str
    start: int
    end: int
    more: str = ""


class RichText(NamedTuple):
    text: str
    entities: tuple[Entity, ...] = ()


class ChartPicture(NamedTuple):
    """A chart to be sent as a picture with what was said before it; `instead` is all of it as text."""

    data: bytes
    caption: RichText
    instead: RichText


_FENCE = pattern(r" {0,3}(?P<fence>`{3,}|~{3,})[ \t]*(?P<lang>[\w+#-]{0,30})[^`\n]*$")
_HEADING = pattern(r" {0,3}#{1,6}[ \t]+(.*)$")
_RULE = pattern(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,200}$")
_BULLET = pattern(r"([ \t]*)[-*+][ \t]+(?=\S)")
_QUOTE = pattern(r" {0,3}>[ \t]?")
_TABLE = pattern(r"[ \t]*\|")
_DIVIDER = pattern(r"[ \t]*\|[ \t:|-]*-[ \t:|-]*$")

_LINK = r"!?\[(?P<label>[^\]\[\n]{1,300})\]\((?P<url>[^\s()<>]{1,1000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,200})?)\)"
_TOKEN = pattern(rf"\\(?P<plain>[!-/:-@\[-`{{-~])|(?P<ticks>`+)|{_LINK}|(?P<mark>\*\*|__|~~|\*|_)")
_KINDS = {"**": "bold", "__": "bold", "*": "italic", "_": "italic", "~~": "strikethrough"}
_ADDRESS = pattern(r"(?:https?://|mailto:|tg://)", re.IGNORECASE)


def render_rich(markdown: str) -> RichText:
    """Render a whole text; what nobody would see is left out."""
    out = _Writer()
    lines = remove_invisible(markdown.replace("\r\n", "\n").replace("\t", "    ")).strip("\n").split("\n")
    at = 0
    while at < len(lines):
        at = _write_block(out, lines, at)
        out.add("\n")
    return RichText("".join(out.parts).rstrip("\n"), tuple(sorted(out.entities, key=lambda e: (e.start, -e.end))))


class _Writer:
    def __init__(self) -> None:
        self.entities: list[Entity] = []
        self.parts: list[str] = []
        self.length = 0

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def mark(self, kind: str, start: int, more: str = "") -> None:
        if self.length > start:
            self.entities.append(Entity(kind, start, self.length, more))


def _write_block(out: _Writer, lines: list[str], at: int) -> int:
    """Write the block that begins in a line; returns the line after it."""
    line, start = lines[at], out.length
    if fence := _FENCE.match(line):
        return _write_code(out, lines, at + 1, fence)
    is_table = bool(_TABLE.match(line)) and at + 1 < len(lines) and bool(_DIVIDER.match(lines[at + 1]))
    if is_table or _QUOTE.match(line):  # the lines that begin alike are one stretch
        begun = _TABLE if is_table else _QUOTE
        while at < len(lines) and (found := begun.match(lines[at])):
            if out.length > start:
                out.add("\n")
            if is_table:
                out.add(lines[at])
            else:
                _write_inline(out, lines[at][found.end() :])
            at += 1
        out.mark("pre" if is_table else "blockquote", start)
        return at
    if heading := _HEADING.match(line):
        _write_inline(out, heading[1].rstrip().rstrip("#").rstrip())
        out.entities[:] = [e for e in out.entities if e.start < start or e.kind != "bold"]
        out.mark("bold", start)
    elif _RULE.match(line):
        out.add("———")
    elif bullet := _BULLET.match(line):
        out.add(f"{bullet[1]}• ")
        _write_inline(out, line[bullet.end() :])
    else:
        _write_inline(out, line)
    return at + 1


def _write_code(out: _Writer, lines: list[str], at: int, fence: re.Match[str]) -> int:
    start, closing = out.length, fence["fence"]
    while at < len(lines):
        bare = lines[at].strip()
        if len(bare) >= len(closing) and set(bare) == {closing[0]}:
            at += 1
            break
        out.add(f"\n{lines[at]}" if out.length > start else lines[at])
        at += 1
    out.mark("pre", start, fence["lang"])
    return at


def _write_inline(out: _Writer, line: str) -> None:
    """Write a line; a mark that nothing closes stays as it was typed."""
    pieces: list[str] = []
    looks: list[tuple[str, int, int, str]] = []
    opened: dict[str, int] = {}
    at = 0
    for start, end, token, closing in _find_tokens(line):
        pieces.append(line[at:start])
        at = end
        if closing:
            code = line[token.end() : closing]
            pieces.append(code[1:-1] if code[:1] == code[-1:] == " " and code.strip() else code)
            looks.append(("code", len(pieces) - 1, len(pieces), ""))
        elif (url := token["url"]) and _ADDRESS.match(url):
            pieces.append(token["label"])
            looks.append(("text_link", len(pieces) - 1, len(pieces), url))
        elif url:
            pieces.append(f"{token['label']} ({url})")
        else:
            pieces.append(token["plain"] or token[0])
            if token["mark"]:
                _match_pair(line, token, pieces, looks, opened)
    pieces.append(line[at:])
    places = [out.length]
    for piece in pieces:
        out.add(piece)
        places.append(out.length)
    out.entities += [Entity(kind, places[a], places[b], more) for kind, a, b, more in looks if places[b] > places[a]]


def _find_tokens(line: str) -> Iterator[tuple[int, int, re.Match[str], int]]:
    """Find what may be markup: where it begins and ends, and for code where the closing ticks begin, else 0."""
    runs: defaultdict[int, list[int]] = defaultdict(list)
    for run in re.finditer("`+", line):
        runs[len(run[0])].append(run.start())
    at = 0
    while token := _TOKEN.search(line, at):
        at, closing = token.end(), 0
        if ticks := token["ticks"]:
            same = runs[len(ticks)]
            after = bisect_right(same, token.start())
            if after < len(same):
                closing = same[after]
                at = closing + len(ticks)
        yield token.start(), at, token, closing


def _match_pair(
    line: str,
    token: re.Match[str],
    pieces: list[str],
    looks: list[tuple[str, int, int, str]],
    opened: dict[str, int],
) -> None:
    """Close what such a mark has opened, or open it; those opened in between are none."""
    mark = token["mark"]
    before = line[max(0, token.start() - 1) : token.start()]
    after = line[token.end() : token.end() + 1]
    inside = mark in {"*", "_", "__"} and before.isalnum() and after.isalnum()  # 2*3*4, snake_case
    here = len(pieces) - 1
    if mark in opened and before.strip() and not inside and opened[mark] < here - 1:
        start = opened.pop(mark)
        pieces[start] = pieces[here] = ""
        looks.append((_KINDS[mark], start, here, ""))
        for other in [m for m, place in opened.items() if place > start]:
            del opened[other]
    elif after.strip() and not inside:
        opened[mark] = here


# Cuts a text with entities into messages that Telegram takes: 4,096 UTF-16 units each, broken where a reader would.

MAX_MESSAGE_UNITS = 4096
"""UTF-16 units of one message at most."""

_MAX_ENTITIES = 100
_BREAKS = ("\n\n", "\n", ". ", "! ", "? ", "; ", ", ", " ")
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f", "\u20e3"}


def count_units(text: str) -> int:
    """Count as Telegram does: a character beyond U+FFFF is two."""
    return len(text) + sum(char > "\uffff" for char in text)


def split_message(whole: RichText, most: int = MAX_MESSAGE_UNITS) -> list[RichText]:
    """Cut a text into messages in their order; no word is lost, and what is bold or code goes on being so."""
    parts, start, text = [], 0, whole.text
    while start < len(text):
        end = _find_end(text, start, most)
        shown = text[start:end].rstrip()
        if shown:
            parts.append(_slice(whole, start, start + len(shown)))
        start = end
        while start < len(text) and text[start] == "\n":
            start += 1
    return parts


def encode_entities(entities: tuple[Entity, ...], text: str) -> list[dict[str, Any]]:
    return [
        {"type": e.kind, "offset": count_units(text[: e.start]), "length": count_units(text[e.start : e.end])}
        | ({"url": e.more} if e.kind == "text_link" else {"language": e.more} if e.more else {})
        for e in entities[:_MAX_ENTITIES]
    ]


def _find_end(text: str, start: int, most: int) -> int:
    end, room = start, most
    while end < len(text) and room > (text[end] > "\uffff"):
        room -= 1 + (text[end] > "\uffff")
        end += 1
    if end == len(text):
        return end
    lowest = start + (end - start) // 2
    for mark in _BREAKS:
        found = text.rfind(mark, lowest, end)
        if found >= 0:
            return found + len(mark)
    cut = end
    while cut > max(start + 1, end - 32) and _is_combining(text, cut):
        cut -= 1
    return end if _is_combining(text, cut) else cut


def _is_combining(text: str, at: int) -> bool:
    """Whether a character belongs to the one before it: an accent, or a part of an emoji."""
    char = text[at]
    return bool(
        unicodedata.combining(char)
        or char in _JOINERS
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or text[at - 1] == "\u200d"
    )


def _slice(whole: RichText, start: int, end: int) -> RichText:
    within = [
        e._replace(start=max(e.start, start) - start, end=min(e.end, end) - start)
        for e in whole.entities
        if e.start < end and e.end > start
    ]
    return RichText(whole.text[start:end], tuple(e for e in within if e.end > e.start))


# Sends into chats: whole answers in order and at the pace that Telegram allows, and each part once if that is known.
#
# Telegram has no number by which a message sent twice could be dropped. Where the connection breaks after a part was
# handed over, nobody can know whether it has arrived: it is sent again, and says that it may be a repetition.

MAYBE_REPEATED = "(Perhaps sent before: the connection broke off.)"

_CALL_TIMEOUT_S = 20.0
_UPLOAD_BYTES_S = 20_000
_MAX_DOUBLINGS = 3
_MAX_CAPTION_UNITS = 1024
_KNOWN_AGAIN, _KNOWN_IN_A_DIGEST = 200, 60  # characters of a message


_LONG_ANSWER_CHARS, _MIN_GIST_CHARS, _MAX_GIST_CHARS = 1500, 40, 700
MAX_EXTENDABLE_UNITS = 3800
"""UTF-16 units of a message that may have a line added later."""


class Sender:
    """Sends for one bot, one message at a time, from any thread."""

    def __init__(self, api: TelegramApi, workspace: Path, ending: threading.Event, timing: Timing) -> None:
        self._api, self._workspace, self._ending, self._timing = api, workspace, ending, timing
        self._guard = threading.RLock()
        self._next: dict[int, float] = {}
        self._begun: dict[int, tuple[str, list[RichText | Attachment | ChartPicture]]] = {}
        self._unsure: dict[int, int] = {}
        self._doubts: set[tuple[int, str]] = set()

    def send_message(
        self, number: int, place: ChatPlace, text: str, reply_to: int = 0, buttons: Mapping[str, str] | None = None
    ) -> None:
        """Send a message; one that broke off is gone on with where it did. Raises ChannelError.

        Its first part replies to `reply_to`, the number of a message; `buttons` as for `plain`.
        """
        with self._guard:
            begun, left = self._begun.get(number, ("", []))
            if not left or begun != text[:_KNOWN_AGAIN]:
                left = split_answer(text, self._workspace)
            self._begun, before = {number: (text[:_KNOWN_AGAIN], left)}, len(left)
            try:
                with self._doubting(place, text):
                    while left:
                        doubts = {(chat, start) for chat, start in self._doubts if chat == place.chat and start in text}
                        first = reply_to if len(left) == before and begun != text[:_KNOWN_AGAIN] else 0
                        self._part(
                            place,
                            left[0],
                            again=bool(doubts),
                            reply_to=first,
                            buttons=buttons if len(left) == 1 else None,
                        )
                        self._doubts -= doubts
                        del left[0]
            except ChannelDown as error:
                error.unsure |= len(left) < before  # only this process knows which parts were told
                raise
            self._begun.clear()

    def say(self, place: ChatPlace, text: str) -> None:
        with self._guard, self._doubting(place, text):
            for part in split_answer(text, self._workspace):
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
        part: RichText | Attachment | ChartPicture,
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
        """Make one call when it is this chat's turn, once more after a short pause that Telegram wants.

        After one that may have been done it is given more time, so that a slow network does not repeat it for ever.
        """
        patient = 2 ** min(self._unsure.get(place.chat, 0), _MAX_DOUBLINGS)
        wait = self._timing.wait * patient + (upload.size / _UPLOAD_BYTES_S if upload else 0)
        time_left = _CALL_TIMEOUT_S
        while True:
            rest = self._next.get(place.chat, 0.0) - time.monotonic()
            if rest > _CALL_TIMEOUT_S:
                raise Busy(f"Telegram asks for a pause, for {rest:.0f} s more", rest)
            if rest > 0 and self._ending.wait(rest):
                raise Unreachable("Telegram was left")
            try:
                sent = self._api.call(method, fields, wait, upload)
            except Busy as error:
                self._delay(place, error.seconds)
                time_left -= max(1.0, error.seconds)
                if time_left < 0:
                    raise
            else:
                self._delay(place, self._timing.in_groups if place.chat < 0 else self._timing.between)
                return sent

    def _delay(self, place: ChatPlace, seconds: float) -> None:
        now = time.monotonic()
        self._next = {chat: at for chat, at in self._next.items() if at > now} | {place.chat: now + seconds}


def reduce_call(fields: Mapping[str, Any], error: CallRefused) -> dict[str, Any] | None:
    """Make of a refused call one that may be taken; None when nothing is left to leave out."""
    if error.moved_to and fields.get("chat_id") != error.moved_to:
        return {**fields, "chat_id": error.moved_to}
    for name, sign in (("message_thread_id", "thread"), ("entities", "entit"), ("reply_parameters", "repl")):
        if name in fields and sign in str(error).lower():
            return {key: value for key, value in fields.items() if key != name}
    return None


def split_answer(text: str, workspace: Path) -> list[RichText | Attachment | ChartPicture]:
    parts: list[RichText | Attachment | ChartPicture] = []
    for piece in split_attachments(text, workspace):
        if isinstance(piece, Attachment):
            parts.append(piece)
            continue
        start = 0
        for chart in _CHART.finditer(piece):
            if picture := _draw_chart(piece[start : chart.start()], chart[0]):
                parts.append(picture)
                start = chart.end()
        parts += split_message(fold_rest(render_rich(piece[start:])), MAX_MESSAGE_UNITS - len(MAYBE_REPEATED) - 1)
    return parts


_CHART = pattern(r"^```\n((?:[^\n`]*┤[^\n]*\n){3,40}[^\n`]*)\n```$", re.MULTILINE)


def _draw_chart(before: str, drawn: str) -> ChartPicture | None:
    """Draw a chart of blocks as a picture; None for one that is none, or has too much said before it."""
    from picoclaw import chart

    caption, instead = render_rich(before), render_rich(before + drawn)
    fits = count_units(caption.text) <= _MAX_CAPTION_UNITS - len(MAYBE_REPEATED) - 1
    found = (
        chart.parse_text(drawn.split("\n")[1:-1])
        if fits and count_units(instead.text) <= MAX_EXTENDABLE_UNITS
        else None
    )
    if not found or not any(value is not None for value in found[0]):
        return None
    return ChartPicture(chart.draw_png(found[0], found[1:]), caption, instead)


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

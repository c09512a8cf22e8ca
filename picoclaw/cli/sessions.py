"""`picoclaw sessions`: the conversations of every chat, to be looked at, searched, taken along and let go of."""

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from picoclaw.cli.arguments import Options, Parser, Words, parse_count, parse_days
from picoclaw.cli.common import format_count, print_lines, print_safe
from picoclaw.config import load_config
from picoclaw.errors import ConfigError
from picoclaw.messages import split_context
from picoclaw.store.sessions import ConversationInfo, TranscriptRow, select_prunable, shrink
from picoclaw.stores import Stores
from picoclaw.text import escape_unprintable, format_json
from picoclaw.workspace import get_owner_time

_NO_LIMIT = 1 << 40
_MAX_RESULT_CHARS = 500  # of a tool's result, for a person
_ROLE_LABELS = {"user": "asked", "assistant": "answered", "tool": "result"}


def options(parser: Parser) -> None:
    parser.add_argument("--json", "print JSON")
    number = parse_count(1, 1_000_000)
    add = parser.add_words(_WORDS, "list")
    for name in ("list", "search", "export"):
        add[name].add_argument("--chat KEY", "of this chat only, such as terminal")
    add["show"].add_argument("number", "as the list prints it", type=int)
    add["search"].add_argument("words WORD", nargs="+")
    add["search"].add_argument("-n N", "at most this many (default 20)", type=number, default=20)
    add["export"].add_argument("numbers NUMBER", "which (default all)", type=int, nargs="*")
    add["export"].add_argument("--jsonl", "as JSON Lines, complete")
    add["prune"].add_argument(
        "--days DAYS", "older than this: 30, 30d, 4w (default keep_days)", type=parse_days(1, 1_000_000)
    )
    add["prune"].add_argument("--mb N", "beyond this many megabytes (default keep_mb)", type=number)
    add["prune"].add_argument("--dry-run", "only print how much would be deleted")


def run(given: Options) -> int:
    """Do it. Where nothing was ever said, nothing is made."""
    config = load_config()
    if (config.home / "state.db").exists():
        with closing(Stores(config)) as stores:
            return given.act(stores, given)
    said = f"nothing was said yet: there is no {config.home / 'state.db'}"
    if given.word == "show" or getattr(given, "numbers", None):
        raise ConfigError(said)
    if given.word == "export":
        print(escape_unprintable(said), file=sys.stderr)
    else:
        empty = "[]" if given.word in {"list", "search"} else "{}"
        print(empty if given.json else escape_unprintable(said))
    return 0


def _list_sessions(stores: Stores, given: Options) -> int:
    found = stores.sessions.listed(given.chat)
    if given.json:
        print(format_json([info._asdict() for info in found]))
        return 0
    width = max((len(str(info.number)) for info in found), default=0)
    for info in found:
        is_open = "" if info.ended else " (open)"
        counts = format_count(info.turns, "turn") + (f", {info.tokens} tokens" if info.tokens else "")
        agent = f" with {info.agent}" if info.agent else ""
        about = f"{_format_minute(info.last)}  {info.key}{is_open}{agent}, {counts}: {info.first}"
        print_lines([f"{info.number:>{width}}  {about}"])
    if not found:
        print_lines(["no conversations" + (f" of chat {given.chat!r}" if given.chat else "")])
    return 0


def _search_sessions(stores: Stores, given: Options) -> int:
    words = " ".join(given.words)
    if not words.strip():
        raise ConfigError("there is no word to look for")
    found = stores.sessions.search(words, given.chat, given.n)
    if given.json:
        print(format_json([hit._asdict() for hit in found]))
        return 0
    for hit in found:
        said = f"{_ROLE_LABELS.get(hit.role, hit.role)}{', taken back' if hit.undone else ''}: {hit.snippet}"
        print_lines([f"{hit.number}  {_format_minute(hit.at)}  {hit.key}, {said}"])
    if not found:
        print_lines([f"nobody said anything with {words!r} in it"])
    return 0


def _show_session(stores: Stores, given: Options) -> int:
    info = _find_session(stores, given.number)
    rows = stores.sessions.transcript(info.number)
    if given.json:
        print(format_json(info._asdict() | {"said": [_row_to_dict(row) for row in rows]}))
    else:
        print_safe(*_render_markdown(info, rows, _MAX_RESULT_CHARS))
    return 0


def _export_sessions(stores: Stores, given: Options) -> int:
    """Print conversations, the oldest first and one message at a time, however many there are."""
    chosen = [_find_session(stores, number) for number in dict.fromkeys(given.numbers)]
    for info in chosen:
        if info.key != (given.chat or info.key):
            raise ConfigError(f"conversation {info.number} is of chat {info.key!r}, not of {given.chat!r}")
    for info in chosen or sorted(stores.sessions.listed(given.chat)):
        rows, number = stores.sessions.transcript(info.number), {"conversation": info.number}
        if not given.jsonl:
            for text in _render_markdown(info, rows):
                print(escape_unprintable(text))
            continue
        print(format_json({"type": "conversation"} | info._asdict()))
        for row in rows:
            print(format_json({"type": "message"} | number | _row_to_dict(row)))
        for kind, kept in stores.sessions.beside(info.number):
            print(format_json({"type": kind} | number | kept))
    return 0


def _find_session(stores: Stores, number: int) -> ConversationInfo:
    for info in stores.sessions.listed():
        if info.number == number:
            return info
    raise ConfigError(f"there is no conversation {number}; `picoclaw sessions list` shows which there are")


def _row_to_dict(row: TranscriptRow) -> dict[str, Any]:
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments, "broken": c.broken} for c in row.calls]
    return row._asdict() | {"calls": calls}


def _render_markdown(info: ConversationInfo, rows: Iterator[TranscriptRow], most: int = 0) -> Iterator[str]:
    """Tell a conversation; `most` is the longest result of a tool in characters, 0 for whole ones."""
    yield f"# {info.key}, conversation {info.number}, {_format_minute(info.begun)} to {_format_minute(info.last)}\n"
    for row in rows:
        text = split_context(row.text)[1] if row.role == "user" else row.text
        back = ", taken back" if row.undone else ""
        yield f"## {_ROLE_LABELS.get(row.role, row.role)}, {_format_minute(row.at)}{back}\n"
        if row.role == "tool":
            cut = f"\n[{len(text) - most} more characters]" if most and len(text) > most else ""
            yield _fence(text[: most or None] + cut)
        elif text:
            yield f"{text}\n"
        for call in row.calls:
            yield _fence(f"{call.name} {call.broken or json.dumps(call.arguments, ensure_ascii=False)}")


def _fence(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}\n"


def _prune_sessions(stores: Stores, given: Options) -> int:
    """Delete now what the settings, or the words, say; the date counts as it is."""
    now, limits = get_owner_time(stores.config.home), stores.config.sessions
    days, mb = given.days or limits.keep_days, given.mb or limits.keep_mb
    if given.dry_run:
        turns, results = select_prunable(stores.database, now, days, mb, 0)
        gone = {"turns": len(turns), "results": len(results)}
    else:
        gone = stores.sessions.prune(now, days, mb, 0)._asdict()
        shrink(stores.database, _NO_LIMIT)
    if given.json:
        print(format_json(gone))
        return 0
    counts = ", ".join(f"{count} {name if count != 1 else name[:-1]}" for name, count in gone.items() if count)
    said = "would be deleted" if given.dry_run else "deleted"
    print(f"{said}: {counts}" if counts else f"nothing is older than {days} days or beyond {mb} MB")
    return 0


def _format_minute(at: str) -> str:
    return at[:16].replace("T", " ")


_WORDS: Words = {
    "list": ("list the conversations, the last used first (the default)", _list_sessions),
    "show": ("print a conversation", _show_session),
    "search": ("list the messages with all these words, the newest first", _search_sessions),
    "export": ("print conversations as Markdown, or completely as JSON Lines", _export_sessions),
    "prune": ("delete old conversations now, as the settings say", _prune_sessions),
}

"""`picoclaw sessions`: the conversations of every chat, to be looked at, searched, taken along and let go of."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from picoclaw.config import load_config
from picoclaw.errors import ConfigError
from picoclaw.store import retention
from picoclaw.store.sessions import ConversationInfo, TranscriptRow, strip_context_header
from picoclaw.stores import Stores
from picoclaw.text import escape_unprintable, format_json
from picoclaw.workspace.pages import get_owner_time

_NO_LIMIT = 1 << 40
_MAX_RESULT_CHARS = 500  # of a tool's result, for a person
_EMPTY_JSON = {"list": "[]", "search": "[]"}  # as JSON


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.set_defaults(act="list", chat=None)
    parser.add_argument("--json", action="store_true", help="print the list as JSON")
    words = parser.add_subparsers(dest="chosen", metavar="ACT")
    add = {name: words.add_parser(name, help=purpose, allow_abbrev=False) for name, purpose in _PURPOSES.items()}
    for name, word in add.items():
        word.set_defaults(act=name)
        if name != "export":
            word.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
        if name in {"list", "search", "export"}:
            word.add_argument("--chat", metavar="KEY", help="of this chat only, such as terminal")
    add["show"].add_argument("number", type=int, metavar="NUMBER", help="as the list prints it")
    add["search"].add_argument("words", metavar="WORD", nargs="+")
    add["search"].add_argument(
        "--most", type=_parse_number, default=20, metavar="N", help="at most so many (usually 20)"
    )
    add["export"].add_argument("numbers", type=int, metavar="NUMBER", nargs="*", help="which (usually all)")
    add["export"].add_argument("--jsonl", action="store_true", help="as JSON Lines, with nothing left out")
    add["prune"].add_argument("--days", type=_parse_number, metavar="N", help="older than this (usually keep_days)")
    add["prune"].add_argument(
        "--mb", type=_parse_number, metavar="N", help="beyond so many megabytes (usually keep_mb)"
    )
    add["prune"].add_argument("--dry-run", action="store_true", help="only say how much it would be")


def _parse_number(text: str) -> int:
    if text.isdecimal() and 0 < int(text) <= 1_000_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 to 1000000")


def run(given: argparse.Namespace) -> int:
    """Do it. Where nothing was ever said, nothing is made."""
    config = load_config()
    if not (config.home / "state.db").exists():
        return _report_no_sessions(config.home, given)
    with closing(Stores(config)) as stores:
        return _SUBCOMMANDS[given.act](stores, given)


def _report_no_sessions(home: Path, given: argparse.Namespace) -> int:
    said = f"nothing was said yet: there is no {home / 'state.db'}"
    if given.act == "show" or getattr(given, "numbers", None):
        raise ConfigError(said)
    if given.act == "export":
        print(escape_unprintable(said), file=sys.stderr)
    else:
        print(_EMPTY_JSON.get(given.act, "{}") if given.json else escape_unprintable(said))
    return 0


# --- lists ---


def _list_sessions(stores: Stores, given: argparse.Namespace) -> int:
    found = stores.sessions.listed(given.chat)
    if given.json:
        print(format_json([info._asdict() for info in found]))
        return 0
    wide = max((len(str(info.number)) for info in found), default=0)
    for info in found:
        open_ = "" if info.ended else " (open)"
        print(
            _format_line(
                f"{info.number:>{wide}}  {_format_minute(info.last)}  {info.key}{open_}, {_format_counts(info)}: {info.first}"
            )
        )
    if not found:
        print(_format_line("no conversations" + (f" of chat {given.chat!r}" if given.chat else "")))
    return 0


def _format_counts(info: ConversationInfo) -> str:
    turns = f"{info.turns} turn{'s' * (info.turns != 1)}"
    return f"{turns}, {info.tokens} tokens" if info.tokens else turns


def _search_sessions(stores: Stores, given: argparse.Namespace) -> int:
    words = " ".join(given.words)
    if not words.strip():
        raise ConfigError("there is no word to look for")
    found = stores.sessions.search(words, given.chat, given.most)
    if given.json:
        print(format_json([hit._asdict() for hit in found]))
        return 0
    for hit in found:
        back = ", taken back" if hit.undone else ""
        print(
            _format_line(
                f"{hit.number}  {_format_minute(hit.at)}  {hit.key}, {_ROLE_LABELS.get(hit.role, hit.role)}{back}: {hit.snippet}"
            )
        )
    if not found:
        print(_format_line(f"nobody said anything with {words!r} in it"))
    return 0


# --- one conversation ---


def _show_session(stores: Stores, given: argparse.Namespace) -> int:
    info = _find_session(stores, given.number)
    if given.json:
        messages = [_row_to_dict(row) for row in stores.sessions.transcript(info.number)]
        print(format_json(info._asdict() | {"said": messages}))
        return 0
    for line in _render_markdown(info, stores.sessions.transcript(info.number), _MAX_RESULT_CHARS):
        print(escape_unprintable(line))
    return 0


def _export_sessions(stores: Stores, given: argparse.Namespace) -> int:
    """Print conversations, the oldest first and one message at a time, however many there are."""
    chosen = [_find_session(stores, number) for number in dict.fromkeys(given.numbers)]
    for info in chosen:
        if info.key != (given.chat or info.key):
            raise ConfigError(f"conversation {info.number} is of chat {info.key!r}, not of {given.chat!r}")
    for info in chosen or sorted(stores.sessions.listed(given.chat)):
        rows = stores.sessions.transcript(info.number)
        if given.jsonl:
            for line in _export_records(stores, info, rows):
                print(format_json(line))
        else:
            for text in _render_markdown(info, rows):
                print(escape_unprintable(text))
    return 0


def _find_session(stores: Stores, number: int) -> ConversationInfo:
    for info in stores.sessions.listed():
        if info.number == number:
            return info
    raise ConfigError(f"there is no conversation {number}; `picoclaw sessions list` shows which there are")


def _export_records(stores: Stores, info: ConversationInfo, rows: Iterator[TranscriptRow]) -> Iterator[dict[str, Any]]:
    yield {"type": "conversation"} | info._asdict()
    for row in rows:
        yield {"type": "message", "conversation": info.number} | _row_to_dict(row)
    for kind, kept in stores.sessions.beside(info.number):
        yield {"type": kind, "conversation": info.number} | kept


def _row_to_dict(row: TranscriptRow) -> dict[str, Any]:
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments, "broken": c.broken} for c in row.calls]
    return row._asdict() | {"calls": calls}


def _render_markdown(info: ConversationInfo, rows: Iterator[TranscriptRow], most: int = 0) -> Iterator[str]:
    """Tell a conversation; `most` is the longest result of a tool in characters, 0 for whole ones."""
    yield f"# {info.key}, conversation {info.number}, {_format_minute(info.begun)} to {_format_minute(info.last)}\n"
    for row in rows:
        text = strip_context_header(row.text) if row.role == "user" else row.text
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


# --- letting go ---


def _prune_sessions(stores: Stores, given: argparse.Namespace) -> int:
    """Delete now what the settings, or the words, say; the date counts as it is."""
    now, limits = get_owner_time(stores.config.home), stores.config.sessions
    days, mb = given.days or limits.keep_days, given.mb or limits.keep_mb
    if given.dry_run:
        turns, results = retention.select_prunable(stores.database, now, days, mb, 0)
        gone = {"turns": len(turns), "results": len(results)}
    else:
        gone = stores.sessions.prune(now, days, mb, 0)._asdict()
        retention.shrink(stores.database, _NO_LIMIT)
    if given.json:
        print(format_json(gone))
        return 0
    counts = ", ".join(f"{count} {name if count != 1 else name[:-1]}" for name, count in gone.items() if count)
    said = "would be deleted" if given.dry_run else "deleted"
    print(f"{said}: {counts}" if counts else f"nothing is older than {days} days or beyond {mb} MB")
    return 0


# --- words ---


def _format_minute(at: str) -> str:
    return at[:16].replace("T", " ")


def _format_line(text: str) -> str:
    return escape_unprintable(text).replace("\n", "\\n")


_ROLE_LABELS: Mapping[str, str] = {"user": "asked", "assistant": "answered", "tool": "result"}

_PURPOSES = {
    "list": "the conversations, the last used first (the default)",
    "show": "what was said in one",
    "search": "the messages that have all the words, the newest first",
    "export": "print conversations as Markdown, or whole as JSON Lines",
    "prune": "delete what is older, or more, than the settings say, now",
}

_SUBCOMMANDS: Mapping[str, Callable[[Stores, argparse.Namespace], int]] = {
    "list": _list_sessions,
    "show": _show_session,
    "search": _search_sessions,
    "export": _export_sessions,
    "prune": _prune_sessions,
}

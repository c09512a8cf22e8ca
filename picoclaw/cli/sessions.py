"""`picoclaw sessions`: the conversations of every chat, to be looked at, searched, taken along and let go of."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from picoclaw.cli.common import json_text, printable
from picoclaw.config import load
from picoclaw.errors import ConfigError
from picoclaw.store import retention
from picoclaw.store.archive import Info, Row, spoken
from picoclaw.stores import Stores
from picoclaw.workspace.pages import owner_time

_HOWEVER_MANY = 1 << 40
_CUT_CHARS = 500  # of a tool's result, for a person
_EMPTY = {"list": "[]", "search": "[]"}  # as JSON


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
    add["search"].add_argument("--most", type=_whole, default=20, metavar="N", help="at most so many (usually 20)")
    add["export"].add_argument("numbers", type=int, metavar="NUMBER", nargs="*", help="which (usually all)")
    add["export"].add_argument("--jsonl", action="store_true", help="as JSON Lines, with nothing left out")
    add["prune"].add_argument("--days", type=_whole, metavar="N", help="older than this (usually keep_days)")
    add["prune"].add_argument("--mb", type=_whole, metavar="N", help="beyond so many megabytes (usually keep_mb)")
    add["prune"].add_argument("--dry-run", action="store_true", help="only say how much it would be")


def _whole(text: str) -> int:
    if text.isdecimal() and 0 < int(text) <= 1_000_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 to 1000000")


def run(given: argparse.Namespace) -> int:
    """Do it. Where nothing was ever said, nothing is made."""
    config = load()
    if not (config.home / "state.db").exists():
        return _nothing(config.home, given)
    with closing(Stores(config)) as stores:
        return _ACTS[given.act](stores, given)


def _nothing(home: Path, given: argparse.Namespace) -> int:
    said = f"nothing was said yet: there is no {home / 'state.db'}"
    if given.act == "show" or getattr(given, "numbers", None):
        raise ConfigError(said)
    if given.act == "export":
        print(printable(said), file=sys.stderr)
    else:
        print(_EMPTY.get(given.act, "{}") if given.json else printable(said))
    return 0


# --- lists ---


def _list(stores: Stores, given: argparse.Namespace) -> int:
    found = stores.sessions.listed(given.chat)
    if given.json:
        print(json_text([info._asdict() for info in found]))
        return 0
    wide = max((len(str(info.number)) for info in found), default=0)
    for info in found:
        open_ = "" if info.ended else " (open)"
        print(_line(f"{info.number:>{wide}}  {_day(info.last)}  {info.key}{open_}, {_counted(info)}: {info.first}"))
    if not found:
        print(_line("no conversations" + (f" of chat {given.chat!r}" if given.chat else "")))
    return 0


def _counted(info: Info) -> str:
    turns = f"{info.turns} turn{'s' * (info.turns != 1)}"
    return f"{turns}, {info.tokens} tokens" if info.tokens else turns


def _search(stores: Stores, given: argparse.Namespace) -> int:
    words = " ".join(given.words)
    if not words.strip():
        raise ConfigError("there is no word to look for")
    found = stores.sessions.search(words, given.chat, given.most)
    if given.json:
        print(json_text([hit._asdict() for hit in found]))
        return 0
    for hit in found:
        back = ", taken back" if hit.undone else ""
        print(_line(f"{hit.number}  {_day(hit.at)}  {hit.key}, {_ROLES.get(hit.role, hit.role)}{back}: {hit.snippet}"))
    if not found:
        print(_line(f"nobody said anything with {words!r} in it"))
    return 0


# --- one conversation ---


def _show(stores: Stores, given: argparse.Namespace) -> int:
    info = _named(stores, given.number)
    if given.json:
        messages = [_told(row) for row in stores.sessions.transcript(info.number)]
        print(json_text(info._asdict() | {"said": messages}))
        return 0
    for line in _markdown(info, stores.sessions.transcript(info.number), _CUT_CHARS):
        print(printable(line))
    return 0


def _export(stores: Stores, given: argparse.Namespace) -> int:
    """Print conversations, the oldest first and one message at a time, however many there are."""
    chosen = [_named(stores, number) for number in dict.fromkeys(given.numbers)]
    for info in chosen:
        if info.key != (given.chat or info.key):
            raise ConfigError(f"conversation {info.number} is of chat {info.key!r}, not of {given.chat!r}")
    for info in chosen or sorted(stores.sessions.listed(given.chat)):
        rows = stores.sessions.transcript(info.number)
        if given.jsonl:
            for line in _lines(stores, info, rows):
                print(json_text(line))
        else:
            for text in _markdown(info, rows):
                print(printable(text))
    return 0


def _named(stores: Stores, number: int) -> Info:
    for info in stores.sessions.listed():
        if info.number == number:
            return info
    raise ConfigError(f"there is no conversation {number}; `picoclaw sessions list` shows which there are")


def _lines(stores: Stores, info: Info, rows: Iterator[Row]) -> Iterator[dict[str, Any]]:
    yield {"type": "conversation"} | info._asdict()
    for row in rows:
        yield {"type": "message", "conversation": info.number} | _told(row)
    for kind, kept in stores.sessions.beside(info.number):
        yield {"type": kind, "conversation": info.number} | kept


def _told(row: Row) -> dict[str, Any]:
    calls = [{"id": c.id, "name": c.name, "arguments": c.arguments, "broken": c.broken} for c in row.calls]
    return row._asdict() | {"calls": calls}


def _markdown(info: Info, rows: Iterator[Row], most: int = 0) -> Iterator[str]:
    """Tell a conversation; `most` is the longest result of a tool in characters, 0 for whole ones."""
    yield f"# {info.key}, conversation {info.number}, {_day(info.begun)} to {_day(info.last)}\n"
    for row in rows:
        text = spoken(row.text) if row.role == "user" else row.text
        back = ", taken back" if row.undone else ""
        yield f"## {_ROLES.get(row.role, row.role)}, {_day(row.at)}{back}\n"
        if row.role == "tool":
            cut = f"\n[{len(text) - most} more characters]" if most and len(text) > most else ""
            yield _fenced(text[: most or None] + cut)
        elif text:
            yield f"{text}\n"
        for call in row.calls:
            yield _fenced(f"{call.name} {call.broken or json.dumps(call.arguments, ensure_ascii=False)}")


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}\n"


# --- letting go ---


def _prune(stores: Stores, given: argparse.Namespace) -> int:
    """Delete now what the settings, or the words, say; the date counts as it is."""
    now, limits = owner_time(stores.config.home), stores.config.sessions
    days, mb = given.days or limits.keep_days, given.mb or limits.keep_mb
    if given.dry_run:
        turns, results = retention.doomed(stores.database, now, days, mb, 0)
        gone = {"turns": len(turns), "results": len(results)}
    else:
        gone = stores.sessions.prune(now, days, mb, 0)._asdict()
        retention.shrink(stores.database, _HOWEVER_MANY)
    if given.json:
        print(json_text(gone))
        return 0
    counts = ", ".join(f"{count} {name if count != 1 else name[:-1]}" for name, count in gone.items() if count)
    said = "would be deleted" if given.dry_run else "deleted"
    print(f"{said}: {counts}" if counts else f"nothing is older than {days} days or beyond {mb} MB")
    return 0


# --- words ---


def _day(at: str) -> str:
    return at[:16].replace("T", " ")


def _line(text: str) -> str:
    return printable(text).replace("\n", "\\n")


_ROLES: Mapping[str, str] = {"user": "asked", "assistant": "answered", "tool": "result"}

_PURPOSES = {
    "list": "the conversations, the last used first (the default)",
    "show": "what was said in one",
    "search": "the messages that have all the words, the newest first",
    "export": "print conversations as Markdown, or whole as JSON Lines",
    "prune": "delete what is older, or more, than the settings say, now",
}

_ACTS: Mapping[str, Callable[[Stores, argparse.Namespace], int]] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "export": _export,
    "prune": _prune,
}

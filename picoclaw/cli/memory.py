"""`picoclaw memory`: what is remembered, found as the agent finds it; the notes, their index, and their tidying."""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from picoclaw.cli import dreams
from picoclaw.cli.common import json_text, printable
from picoclaw.config import load
from picoclaw.errors import ConfigError, StoreError
from picoclaw.memory.index import tables
from picoclaw.memory.index.files import FOLDER, ROOT_FILE, Files, Source
from picoclaw.memory.search import fusion
from picoclaw.memory.search.search import Hit
from picoclaw.schema import nearest
from picoclaw.stores import Stores
from picoclaw.workspace.pages import owner_time

_ID = re.compile(r"(?:\[?id:)?\s*(\d{1,18})\]?")
_PLACE = re.compile(r"(.+?)(?::(\d{1,9})(?:-(\d{1,9}))?)?", re.DOTALL)
_WIDE = 30  # of a progress bar
_EMPTY = {"search": "[]", "stats": "{}"}  # as JSON
_NAMES = {"index_bytes": "bytes of index"}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    words = parser.add_subparsers(dest="act", metavar="ACT", required=True)
    add = {name: words.add_parser(name, help=purpose, allow_abbrev=False) for name, purpose in _PURPOSES.items()}
    add["search"].add_argument("query", metavar="WORD", nargs="+")
    add["search"].add_argument("--most", type=_whole, default=6, metavar="N", help="at most so many (usually 6)")
    add["search"].add_argument(
        "--least", type=_share, default=fusion.LEAST, metavar="X", help=f"the lowest score (usually {fusion.LEAST})"
    )
    add["get"].add_argument("place", metavar="PATH[:LINE[-LINE]]|ID", help="as a search prints them")
    add["index"].add_argument("--rebuild", action="store_true", help="throw it away first")
    add["restore"].add_argument(
        "number", type=_whole, nargs="?", default=1, metavar="N", help="which, as `dreams` numbers them (usually 1)"
    )
    parser.set_defaults(board=None)
    for name in ("search", "stats"):
        add[name].add_argument("--json", action="store_true", help="print it as JSON")


def _whole(text: str) -> int:
    if text not in map(str, range(1, 101)):
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 100")
    return int(text)


def _share(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (number := float(text)) <= 1:
            return number
    raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")


def run(given: argparse.Namespace) -> int:
    """Do it. Of a home that is not there yet, nothing is made."""
    config = load()
    if not config.home.is_dir():
        return _nothing(config.home, given)
    with closing(Stores(config)) as stores:
        return _ACTS[given.act](stores, given)


def _nothing(home: Path, given: argparse.Namespace) -> int:
    """Say that there is no home; no error where nothing was named that had to be there."""
    said = f"nothing is remembered yet: {home} does not exist; `picoclaw init` makes it"
    if given.act in {"get", "review", "restore"}:
        raise ConfigError(said)
    print(_EMPTY[given.act] if getattr(given, "json", False) else printable(said))
    return 0


# --- what is found ---


def _search(stores: Stores, given: argparse.Namespace) -> int:
    query = " ".join(given.query)
    if not query.strip():
        raise StoreError("the question is empty; say what to look for")
    try:
        hits = stores.memory.search(query, owner_time(stores.config.home), given.most, given.least, _bar)
    finally:
        _wipe()
    _note(filter(None, [stores.memory.problem]))
    if given.json:
        print(json_text([hit._asdict() for hit in hits]))
        return 0
    for hit in hits:
        _say([_head(hit), f"    {hit.snippet}"])
    if not hits:
        _say([f"no note says anything about {query!r}"])
    return 0


def _head(hit: Hit) -> str:
    place = f"{hit.path}:{hit.start}-{hit.end}"
    about = [hit.day, hit.heading if hit.heading != hit.day else ""]
    return "  ".join(filter(None, [f"[id:{hit.id}]", f"{hit.score:.2f}", place, *about]))


def _get(stores: Stores, given: argparse.Namespace) -> int:
    if found := _ID.fullmatch(given.place.strip()):
        row = stores.memory.row(int(found[1]))
        _say([f"{row.path}:{row.start}-{row.end}"])
        print(printable(row.text))
        return 0
    path, first, last = _place(given.place, stores.config.workspace)
    lines = _lines(stores.config.workspace, path)
    start = int(first or 1)
    end = min(int(last or first or len(lines)), len(lines))
    if not 1 <= start <= max(end, 1):
        raise StoreError(f"{path} has {len(lines)} lines, no {first}{f'-{last}' if last else ''}")
    _say(lines[start - 1 : end])
    return 0


def _place(given: str, workspace: Path) -> tuple[str, str | None, str | None]:
    found = _PLACE.fullmatch(given.strip())
    if found is None:
        raise StoreError("a path or an id is missing, such as memory/MEMORY.md:3-5 or 12")
    path = found[1].removeprefix(f"{workspace}/").removeprefix("./").removeprefix("workspace/")
    return path, found[2], found[3]


def _lines(workspace: Path, path: str) -> list[str]:
    files = Files.of(workspace)
    known = {source.path: source for source in _sources(files)}
    content = files.read(path) if path in known else None
    if content is None:
        raise StoreError(printable(f"{path!r} is no note{nearest(path, known) if known else ': there is none yet'}"))
    if content.problem:
        _note([f"{path}: {content.problem}"])
    lines = content.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _notes(stores: Stores, _: argparse.Namespace) -> int:
    files = Files.of(stores.config.workspace)
    sources = sorted(_sources(files))
    _say(f"{_size(source.size):>8}  {source.path}" for source in sources)
    _note(files.problems)
    total = _size(sum(source.size for source in sources))
    print(f"{_counted(len(sources), 'file')}, {total}, in {stores.config.workspace}")
    return 0


def _sources(files: Files) -> list[Source]:
    return [source for _, found in files.folders() for source in found]


# --- the index ---


def _index(stores: Stores, given: argparse.Namespace) -> int:
    if given.rebuild:
        path = stores.config.home / "memory.db"
        with tables.explained(path):
            tables.connected(path, renew=True).close()
    try:
        done = stores.memory.refresh(_bar)
    finally:
        _wipe()
    written = f"{_counted(done.chunks, 'part')} written, {_counted(done.embedded, 'vector')} made"
    print(
        f"{_counted(done.files, 'file')}, {done.read} read again, {written}" + f", {done.left} left" * bool(done.left)
    )
    _note(filter(None, [*done.problems, done.problem]))
    return 0


def _bar(done: int, total: int) -> None:
    """Show how far it is, to a person only."""
    if total and sys.stderr.isatty():
        print(f"\r[{'#' * (_WIDE * done // total):{_WIDE}}] {done}/{total}", end="", file=sys.stderr, flush=True)


def _wipe() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _stats(stores: Stores, given: argparse.Namespace) -> int:
    files = Files.of(stores.config.workspace)
    _sources(files)
    found = stores.memory.stats()
    found["embeddings"] = stores.config.memory.embeddings
    found["changed"] = _changed(stores.config.home)
    found["problem"] = "; ".join(filter(None, [str(found.get("problem", "")), *files.problems]))
    if given.json:
        print(json_text(found))
        return 0
    _say(f"{_NAMES.get(name, name)}: {value}" for name, value in found.items() if value != "")
    return 0


def _changed(home: Path) -> str:
    """When the index was last written; what is newest of it lies in its log."""
    times = [path.stat().st_mtime for path in (home / "memory.db", home / "memory.db-wal") if path.exists()]
    return f"{owner_time(home, max(times)):%Y-%m-%d %H:%M:%S}" if times else ""


def _check(stores: Stores, _: argparse.Namespace) -> int:
    """Say what was wrong; what a second look finds again was not mended by the first."""
    found = stores.memory.check()
    left = stores.memory.check() if found else []
    _say(found)
    _say(line for line in left if line not in found)
    mended = len(set(found) - set(left))
    print("all good" if not found else f"{_counted(len(left), 'problem')} left, {mended} mended")
    return 1 if left else 0


# --- words ---


def _note(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"picoclaw: {printable(line)}", file=sys.stderr)


def _say(lines: Iterable[str]) -> None:
    """Print what comes from files, which cannot drive the terminal."""
    for line in lines:
        print(printable(line).replace("\n", "\\n"))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _size(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"


_PURPOSES = {
    "search": "find what the notes say about something, as the agent does",
    "get": "print a note, some of its lines, or what a search found",
    "notes": f"list the files: {ROOT_FILE} or memory.md, and {FOLDER}/**/*.md in the workspace",
    "index": "bring the index up to the notes, and give vectors to what is new",
    "stats": "how much there is, and which notes cannot be read",
    "check": "compare the index with the notes and mend it; exit code 1 when something stays wrong",
    "dream": "put MEMORY.md and the open tasks in order now, as is done at night",
    "review": "compare the open tasks with the notes now, as is done every hour",
    "dreams": "what dreams did, the earlier versions of MEMORY.md, and what corrections of notes have replaced",
    "restore": "put an earlier version of MEMORY.md or of a note back; the present one is kept",
}

_ACTS: Mapping[str, Callable[[Stores, argparse.Namespace], int]] = {
    "search": _search,
    "get": _get,
    "notes": _notes,
    "index": _index,
    "stats": _stats,
    "check": _check,
    "dream": dreams.dream,
    "review": dreams.review,
    "dreams": dreams.listed,
    "restore": dreams.restore,
}

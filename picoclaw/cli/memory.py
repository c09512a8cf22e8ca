"""The part of `picoclaw memory` that changes what is remembered: a dream now, a review now, and the way back."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

from picoclaw.app import App
from picoclaw.cli.common import open_app
from picoclaw.config import load_config
from picoclaw.errors import ConfigError, StoreError
from picoclaw.memory import index, search, versions
from picoclaw.memory.dream import Dream, DreamModel
from picoclaw.memory.dream import restore_version as put_back
from picoclaw.memory.files import MEMORY_FOLDER, ROOT_FILE, MemoryFiles, MemorySource
from picoclaw.memory.search import MemoryHit
from picoclaw.messages import Purpose
from picoclaw.schema import find_nearest
from picoclaw.skills.skill import Skill, describe_unmet_needs
from picoclaw.store.marks import Marks
from picoclaw.stores import Stores
from picoclaw.text import escape_unprintable, format_json
from picoclaw.workspace.pages import get_owner_time

_NO_MODEL = "no model is configured (base_url under [model] in config.toml)"


def run_dream(_: Stores, given: argparse.Namespace) -> int:
    """Do now what is done at night, and write it down; returns 1 when the model did not answer."""
    with open_app(given, make=False) as app:
        now = app.now()
        chores = app.chores()
        said, answered = chores.dreamt(now)
        _print_lines(said or ["nothing has changed since the last dream"])
        problems = chores.recorded(said, now)
        _print_lines(problems)
        if not app.config.model.base_url:
            _print_lines([f"MEMORY.md and the tasks stay as they are: {_NO_MODEL}"])
    return 0 if answered and not problems else 1


def run_review(stores: Stores, given: argparse.Namespace) -> int:
    """Go through the open tasks now; raises ProviderError when the model does not answer."""
    if not stores.config.model.base_url:
        raise ConfigError(f"a review takes a model: {_NO_MODEL}")
    with open_app(given, make=False) as app:
        config, stores = app.config, app.stores
        marks = Marks(stores.database)
        dreaming = Dream(
            config.home, config.workspace, app.prompts, stores.pulse, marks, lambda: _list_usable_skills(app)
        )
        step = dreaming.review(_make_review_model(app), app.now())
        _print_lines([step.said or "no task was changed"])
    return 0


def list_dreams(stores: Stores, _: argparse.Namespace) -> int:
    """Print what dreams did, and what can be restored: versions of MEMORY.md, and notes as they were."""
    _print_lines(versions.read_dream_log(stores.config.home))
    for number, path in enumerate(versions.list_restorable(stores.config.home), 1):
        _print_lines([f"{number:>3}  {path}{_describe_correction(path)}"])
    return 0


def _describe_correction(path: Path) -> str:
    if path.suffix != ".json":
        return ""
    try:
        found = versions.read_correction(path)
    except StoreError as error:
        return f"  {error}"
    return f'  {found.path}: "{found.before}" became "{found.after}"'


def restore_version(stores: Stores, given: argparse.Namespace) -> int:
    """Put an earlier MEMORY.md or note back; the present one is kept as the newest version."""
    config = stores.config
    path = put_back(config.home, config.workspace, Marks(stores.database), given.number, get_owner_time(config.home))
    if path.suffix == ".md":
        said = f"MEMORY.md is {path.name} again"
    else:
        note = versions.read_correction(path)
        said = f'{note.path} says "{note.before}" again'
    _print_lines([f"{said}; `picoclaw memory restore 1` takes that back"])
    return 0


def _make_review_model(app: App) -> DreamModel:
    return DreamModel(app.models, app.config.model.context_tokens, time.monotonic, purpose=Purpose("review"))


def _list_usable_skills(app: App) -> Iterator[Skill]:
    here = app.skill_context()
    return (skill for skill in app.library.skills.values() if not describe_unmet_needs(skill, here))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(escape_unprintable(line).replace("\n", "\\n"))


# `picoclaw memory`: what is remembered, found as the agent finds it; the notes, their index, and their tidying.

_CHUNK_ID = re.compile(r"(?:\[?id:)?\s*(\d{1,18})\]?")
_LINE_RANGE = re.compile(r"(.+?)(?::(\d{1,9})(?:-(\d{1,9}))?)?", re.DOTALL)
_BAR_WIDTH = 30  # of a progress bar
_EMPTY_JSON = {"search": "[]", "stats": "{}"}  # as JSON
_STATISTIC_LABELS = {"index_bytes": "bytes of index"}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    words = parser.add_subparsers(dest="act", metavar="ACT", required=True)
    add = {name: words.add_parser(name, help=purpose, allow_abbrev=False) for name, purpose in _PURPOSES.items()}
    add["search"].add_argument("query", metavar="WORD", nargs="+")
    add["search"].add_argument("--most", type=_parse_count, default=6, metavar="N", help="at most so many (usually 6)")
    add["search"].add_argument(
        "--least",
        type=_parse_score,
        default=search.MIN_SCORE,
        metavar="X",
        help=f"the lowest score (usually {search.MIN_SCORE})",
    )
    add["get"].add_argument("place", metavar="PATH[:LINE[-LINE]]|ID", help="as a search prints them")
    add["index"].add_argument("--rebuild", action="store_true", help="throw it away first")
    add["restore"].add_argument(
        "number",
        type=_parse_count,
        nargs="?",
        default=1,
        metavar="N",
        help="which, as `dreams` numbers them (usually 1)",
    )
    parser.set_defaults(board=None)
    for name in ("search", "stats"):
        add[name].add_argument("--json", action="store_true", help="print it as JSON")


def _parse_count(text: str) -> int:
    if text not in map(str, range(1, 101)):
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 100")
    return int(text)


def _parse_score(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (number := float(text)) <= 1:
            return number
    raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")


def run(given: argparse.Namespace) -> int:
    """Do it. Of a home that is not there yet, nothing is made."""
    config = load_config()
    if not config.home.is_dir():
        return _report_missing_home(config.home, given)
    with closing(Stores(config)) as stores:
        return _SUBCOMMANDS[given.act](stores, given)


def _report_missing_home(home: Path, given: argparse.Namespace) -> int:
    """Say that there is no home; no error where nothing was named that had to be there."""
    said = f"nothing is remembered yet: {home} does not exist; `picoclaw init` makes it"
    if given.act in {"get", "review", "restore"}:
        raise ConfigError(said)
    print(_EMPTY_JSON[given.act] if getattr(given, "json", False) else escape_unprintable(said))
    return 0


# --- what is found ---


def _search_notes(stores: Stores, given: argparse.Namespace) -> int:
    query = " ".join(given.query)
    if not query.strip():
        raise StoreError("the question is empty; say what to look for")
    try:
        hits = stores.memory.search(query, get_owner_time(stores.config.home), given.most, given.least, _draw_progress)
    finally:
        _clear_progress()
    _print_notes(filter(None, [stores.memory.problem]))
    if given.json:
        print(format_json([hit._asdict() for hit in hits]))
        return 0
    for hit in hits:
        _memory_print_lines([_format_hit(hit), f"    {hit.snippet}"])
    if not hits:
        _memory_print_lines([f"no note says anything about {query!r}"])
    return 0


def _format_hit(hit: MemoryHit) -> str:
    place = f"{hit.path}:{hit.start}-{hit.end}"
    about = [hit.day, hit.heading if hit.heading != hit.day else ""]
    return "  ".join(filter(None, [f"[id:{hit.id}]", f"{hit.score:.2f}", place, *about]))


def _show_note(stores: Stores, given: argparse.Namespace) -> int:
    if found := _CHUNK_ID.fullmatch(given.place.strip()):
        row = stores.memory.row(int(found[1]))
        _memory_print_lines([f"{row.path}:{row.start}-{row.end}"])
        print(escape_unprintable(row.text))
        return 0
    path, first, last = _parse_place(given.place, stores.config.workspace)
    lines = _read_note_lines(stores.config.workspace, path)
    start = int(first or 1)
    end = min(int(last or first or len(lines)), len(lines))
    if not 1 <= start <= max(end, 1):
        raise StoreError(f"{path} has {len(lines)} lines, no {first}{f'-{last}' if last else ''}")
    _memory_print_lines(lines[start - 1 : end])
    return 0


def _parse_place(given: str, workspace: Path) -> tuple[str, str | None, str | None]:
    found = _LINE_RANGE.fullmatch(given.strip())
    if found is None:
        raise StoreError("a path or an id is missing, such as memory/MEMORY.md:3-5 or 12")
    path = found[1].removeprefix(f"{workspace}/").removeprefix("./").removeprefix("workspace/")
    return path, found[2], found[3]


def _read_note_lines(workspace: Path, path: str) -> list[str]:
    files = MemoryFiles(workspace)
    known = {source.path: source for source in _list_sources(files)}
    content = files.read(path) if path in known else None
    if content is None:
        raise StoreError(
            escape_unprintable(f"{path!r} is no note{find_nearest(path, known) if known else ': there is none yet'}")
        )
    if content.problem:
        _print_notes([f"{path}: {content.problem}"])
    lines = content.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _list_notes(stores: Stores, _: argparse.Namespace) -> int:
    files = MemoryFiles(stores.config.workspace)
    sources = sorted(_list_sources(files))
    _memory_print_lines(f"{_format_size(source.size):>8}  {source.path}" for source in sources)
    _print_notes(files.problems)
    total = _format_size(sum(source.size for source in sources))
    print(f"{_format_count(len(sources), 'file')}, {total}, in {stores.config.workspace}")
    return 0


def _list_sources(files: MemoryFiles) -> list[MemorySource]:
    return [source for _, found in files.folders() for source in found]


# --- the index ---


def _update_index(stores: Stores, given: argparse.Namespace) -> int:
    if given.rebuild:
        path = stores.config.home / "memory.db"
        with index.explain_errors(path):
            index.open_index(path, renew=True).close()
    try:
        done = stores.memory.refresh(_draw_progress)
    finally:
        _clear_progress()
    written = f"{_format_count(done.chunks, 'part')} written, {_format_count(done.embedded, 'vector')} made"
    print(
        f"{_format_count(done.files, 'file')}, {done.read} read again, {written}"
        + f", {done.left} left" * bool(done.left)
    )
    _print_notes(filter(None, [*done.problems, done.problem]))
    return 0


def _draw_progress(done: int, total: int) -> None:
    """Show how far it is, to a person only."""
    if total and sys.stderr.isatty():
        print(
            f"\r[{'#' * (_BAR_WIDTH * done // total):{_BAR_WIDTH}}] {done}/{total}", end="", file=sys.stderr, flush=True
        )


def _clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _show_statistics(stores: Stores, given: argparse.Namespace) -> int:
    files = MemoryFiles(stores.config.workspace)
    _list_sources(files)
    found = stores.memory.stats()
    found["embeddings"] = stores.config.memory.embeddings
    found["changed"] = _format_index_time(stores.config.home)
    found["problem"] = "; ".join(filter(None, [str(found.get("problem", "")), *files.problems]))
    if given.json:
        print(format_json(found))
        return 0
    _memory_print_lines(f"{_STATISTIC_LABELS.get(name, name)}: {value}" for name, value in found.items() if value != "")
    return 0


def _format_index_time(home: Path) -> str:
    """When the index was last written; what is newest of it lies in its log."""
    times = [path.stat().st_mtime for path in (home / "memory.db", home / "memory.db-wal") if path.exists()]
    return f"{get_owner_time(home, max(times)):%Y-%m-%d %H:%M:%S}" if times else ""


def _check_memory(stores: Stores, _: argparse.Namespace) -> int:
    """Say what was wrong; what a second look finds again was not mended by the first."""
    found = stores.memory.check()
    left = stores.memory.check() if found else []
    _memory_print_lines(found)
    _memory_print_lines(line for line in left if line not in found)
    mended = len(set(found) - set(left))
    print("all good" if not found else f"{_format_count(len(left), 'problem')} left, {mended} mended")
    return 1 if left else 0


# --- words ---


def _print_notes(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"picoclaw: {escape_unprintable(line)}", file=sys.stderr)


def _memory_print_lines(lines: Iterable[str]) -> None:
    """Print what comes from files, which cannot drive the terminal."""
    for line in lines:
        print(escape_unprintable(line).replace("\n", "\\n"))


def _format_count(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _format_size(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"


_PURPOSES = {
    "search": "find what the notes say about something, as the agent does",
    "get": "print a note, some of its lines, or what a search found",
    "notes": f"list the files: {ROOT_FILE} or memory.md, and {MEMORY_FOLDER}/**/*.md in the workspace",
    "index": "bring the index up to the notes, and give vectors to what is new",
    "stats": "how much there is, and which notes cannot be read",
    "check": "compare the index with the notes and mend it; exit code 1 when something stays wrong",
    "dream": "put MEMORY.md and the open tasks in order now, as is done at night",
    "review": "compare the open tasks with the notes now, as is done every hour",
    "dreams": "what dreams did, the earlier versions of MEMORY.md, and what corrections of notes have replaced",
    "restore": "put an earlier version of MEMORY.md or of a note back; the present one is kept",
}

_SUBCOMMANDS: Mapping[str, Callable[[Stores, argparse.Namespace], int]] = {
    "search": _search_notes,
    "get": _show_note,
    "notes": _list_notes,
    "index": _update_index,
    "stats": _show_statistics,
    "check": _check_memory,
    "dream": run_dream,
    "review": run_review,
    "dreams": list_dreams,
    "restore": restore_version,
}

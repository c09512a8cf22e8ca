"""`picoclaw memory`: what is remembered, found as the agent finds it; the notes, their index, and their tidying."""

import re
import time
from contextlib import closing, suppress
from pathlib import Path

from picoclaw.cli.arguments import Options, Parser, UsageError, Words, parse_count
from picoclaw.cli.common import (
    format_count,
    format_size,
    open_app,
    print_lines,
    print_note,
    print_results,
    print_safe,
    show_progress,
)
from picoclaw.config import load_config
from picoclaw.errors import ConfigError, StoreError
from picoclaw.memory import index, versions
from picoclaw.memory.dream import Dream, DreamModel
from picoclaw.memory.dream import restore_version as put_back
from picoclaw.memory.files import MEMORY_FOLDER, ROOT_FILE, SHARED_PREFIX, MemoryFiles, MemorySource
from picoclaw.messages import Purpose
from picoclaw.schema import find_nearest
from picoclaw.skills import Skill, describe_unmet_needs
from picoclaw.store.database import Marks
from picoclaw.stores import Stores
from picoclaw.text import escape_unprintable, format_json, pattern
from picoclaw.workspace import get_owner_time

_NO_MODEL = "no model is set up: `picoclaw init` does that"
_CHUNK_ID = pattern(r"(?:\[?id:)?\s*(-?\d{1,18})\]?")
_LINE_RANGE = pattern(r"(.+?)(?::(\d{1,9})(?:-(\d{1,9}))?)?", re.DOTALL)


def options(parser: Parser) -> None:
    words = parser.add_words(_WORDS)
    find = words["search"]
    find.add_argument("query WORD", nargs="+")
    find.add_argument("-n N", "at most this many (default 6)", type=parse_count(1, 100), default=6)
    lowest = "the score from which on a hit is certain (default min_score in config.toml)"
    find.add_argument("--least X", lowest, type=_parse_score)
    words["get"].add_argument("place PATH[:LINE[-LINE]]|ID", "as a search prints them")
    words["index"].add_argument("--rebuild", "delete the index first")
    which = "which, as `dreams` numbers them (default 1)"
    words["restore"].add_argument("number N", which, type=parse_count(1, 100), nargs="?", default=1)
    for name in ("search", "stats"):
        words[name].add_argument("--json", "print JSON")


def _parse_score(text: str) -> float:
    with suppress(ValueError):
        if 0 <= (number := float(text)) <= 1:
            return number
    raise UsageError(f"{text} is not between 0 and 1")


def run(given: Options) -> int:
    """Do it. Of a home that is not there yet, nothing is made."""
    config = load_config()
    if config.home.is_dir():
        with closing(Stores(config)) as stores:
            return given.act(stores, given)
    said = f"nothing is remembered yet: {config.home} does not exist; `picoclaw init` makes it"
    if given.word in {"get", "review", "restore"}:
        raise ConfigError(said)
    print({"search": "[]", "stats": "{}"}[given.word] if given.json else escape_unprintable(said))
    return 0


# --- what is found ---


def _search_notes(stores: Stores, given: Options) -> int:
    query = " ".join(given.query)
    if not query.strip():
        raise StoreError("the question is empty; say what to look for")
    with show_progress() as draw:
        hits = stores.memory.search(query, get_owner_time(stores.config.home), given.n, given.least, draw)
    if stores.memory.problem:
        print_note(stores.memory.problem)
    if given.json:
        print(format_json([hit._asdict() for hit in hits]))
        return 0
    if not any(hit.is_certain for hit in hits):
        print_lines([f"no note says anything about {query!r}{' for certain; perhaps:' if hits else ''}"])
    for hit in hits:
        about = [hit.day, hit.heading if hit.heading != hit.day else ""]
        shown = [
            f"[id:{hit.id}]",
            f"{hit.score:.2f}{'' if hit.is_certain else ' uncertain'}",
            f"{hit.path}:{hit.start}-{hit.end}",
            *about,
        ]
        print_lines(["  ".join(filter(None, shown)), f"    {hit.snippet}"])
    return 0


def _show_note(stores: Stores, given: Options) -> int:
    if found := _CHUNK_ID.fullmatch(given.place.strip()):
        row = stores.memory.row(int(found[1]))
        print_lines([f"{row.path}:{row.start}-{row.end}"])
        print_safe(row.text)
        return 0
    found = _LINE_RANGE.fullmatch(given.place.strip())
    if found is None:
        raise StoreError("a path or an id is missing, such as memory/MEMORY.md:3-5 or 12")
    workspace, (_, first, last) = stores.config.workspace, found.groups()
    path = found[1].removeprefix(f"{workspace}/").removeprefix("./").removeprefix("workspace/")
    shared = stores.config.shared_folder
    if shared and path.startswith(SHARED_PREFIX):
        lines = _read_note_lines(shared, path.removeprefix(SHARED_PREFIX))
    else:
        lines = _read_note_lines(workspace, path)
    start = int(first or 1)
    end = min(int(last or first or len(lines)), len(lines))
    if not 1 <= start <= max(end, 1):
        raise StoreError(f"{path} has {len(lines)} lines, no {first}{f'-{last}' if last else ''}")
    print_lines(lines[start - 1 : end])
    return 0


def _read_note_lines(workspace: Path, path: str) -> list[str]:
    files = MemoryFiles(workspace)
    known = {source.path: source for _, sources in files.folders() for source in sources}
    content = files.read(path) if path in known else None
    if content is None:
        nearest = find_nearest(path, known) if known else ": there is none yet"
        raise StoreError(escape_unprintable(f"{path!r} is no note{nearest}"))
    if content.problem:
        print_note(f"{path}: {content.problem}")
    lines = content.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _list_notes(stores: Stores, _: Options) -> int:
    scopes = {"": MemoryFiles(stores.config.workspace)}
    if stores.config.shared_folder:
        scopes[SHARED_PREFIX] = MemoryFiles(stores.config.shared_folder)
    notes: list[MemorySource] = []
    for prefix, files in scopes.items():
        found = sorted(source for _, sources in files.folders() for source in sources)
        notes += (note._replace(path=f"{prefix}{note.path}") for note in found)
    print_lines(f"{format_size(note.size):>8}  {note.path}" for note in notes)
    for problem in (problem for files in scopes.values() for problem in files.problems):
        print_note(problem)
    total = format_size(sum(note.size for note in notes))
    print(f"{format_count(len(notes), 'file')}, {total}, in {stores.config.workspace}")
    return 0


# --- the index ---


def _update_index(stores: Stores, given: Options) -> int:
    if given.rebuild:
        path = stores.config.home / "memory.db"
        with index.explain_errors(path):
            index.open_index(path, renew=True).close()
    with show_progress() as draw:
        done = stores.memory.refresh(draw)
    written = f"{format_count(done.chunks, 'part')} written, {format_count(done.embedded, 'vector')} made"
    left = f", {done.left} left" if done.left else ""
    print(f"{format_count(done.files, 'file')}, {done.read} read again, {written}{left}")
    for problem in filter(None, [*done.problems, done.problem]):
        print_note(problem)
    return 0


def _show_statistics(stores: Stores, given: Options) -> int:
    home, files = stores.config.home, MemoryFiles(stores.config.workspace)
    for _, sources in files.folders():  # what cannot be read is a problem of theirs
        list(sources)
    found = stores.memory.stats()
    found["embeddings"] = stores.config.memory.embeddings
    # what is newest of the index lies in its log
    times = [path.stat().st_mtime for path in (home / "memory.db", home / "memory.db-wal") if path.exists()]
    found["changed"] = f"{get_owner_time(home, max(times)):%Y-%m-%d %H:%M:%S}" if times else ""
    found["problem"] = "; ".join(filter(None, [str(found.get("problem", "")), *files.problems]))
    if given.json:
        print(format_json(found))
        return 0
    labels = {"index_bytes": "bytes of index"}
    print_lines(f"{labels.get(name, name)}: {value}" for name, value in found.items() if value != "")
    return 0


def _check_index(stores: Stores, _: Options) -> int:
    """Say what was wrong; what a second check finds again was not repaired by the first."""
    from picoclaw.hw.kernel import CheckResult

    found = stores.memory.check()
    left = stores.memory.check() if found else []
    rows = [CheckResult("repaired", "memory", line) for line in found if line not in left]
    rows += [CheckResult("bad", "memory", line) for line in left]
    return print_results(rows or [CheckResult("good", "memory", "the index agrees with the notes")])


# --- what changes the notes: a dream now, a review now, and the way back ---


def _dream(_: Stores, given: Options) -> int:
    """Do now what is done at night, and write it down; returns 1 when the model did not answer."""
    with open_app(given, make=False) as app:
        now = app.now()
        jobs = app.maintenance_jobs()
        said, answered = jobs.run_dream(now)
        print_lines(said or ["nothing has changed since the last dream"])
        problems = jobs.log_dream(said, now)
        print_lines(problems)
        if not app.config.model.base_url:
            print_lines([f"MEMORY.md and the tasks stay as they are: {_NO_MODEL}"])
    return 0 if answered and not problems else 1


def _review(stores: Stores, given: Options) -> int:
    """Go through the open tasks now; raises ProviderError when the model does not answer."""
    if not stores.config.model.base_url:
        raise ConfigError(f"a review takes a model: {_NO_MODEL}")
    with open_app(given, make=False) as app:
        config, stores = app.config, app.stores

        def list_usable_skills() -> list[Skill]:
            here = app.skill_context()
            return [skill for skill in app.library.skills.values() if not describe_unmet_needs(skill, here)]

        dream = Dream(
            config.home, config.workspace, app.prompts, stores.pulse, Marks(stores.database), list_usable_skills
        )
        model = DreamModel(app.models, config.model.context_tokens, time.monotonic, purpose=Purpose("review"))
        print_lines([dream.review(model, app.now()).said or "no task was changed"])
    return 0


def _list_dreams(stores: Stores, _: Options) -> int:
    """Print what dreams did, and what can be restored: versions of MEMORY.md, and notes as they were."""
    log, restorable = versions.read_dream_log(stores.config.home), versions.list_restorable(stores.config.home)
    if not log and not restorable:
        print("no dreams and no corrections yet: `picoclaw memory dream` tidies MEMORY.md now")
    print_lines(log)
    for number, path in enumerate(restorable, 1):
        about = ""
        if path.suffix == ".json":
            try:
                found = versions.read_correction(path)
                about = f'  {found.path}: "{found.before}" became "{found.after}"'
            except StoreError as error:
                about = f"  {error}"
        print_lines([f"{number:>3}  {path}{about}"])
    return 0


def _restore(stores: Stores, given: Options) -> int:
    """Put an earlier MEMORY.md or note back; the present one is kept as the newest version."""
    config = stores.config
    path = put_back(config.home, config.workspace, Marks(stores.database), given.number, get_owner_time(config.home))
    said = f"MEMORY.md is {path.name} again"
    if path.suffix != ".md":
        note = versions.read_correction(path)
        said = f'{note.path} says "{note.before}" again'
    print_lines([f"{said}; `picoclaw memory restore 1` takes that back"])
    return 0


_WORDS: Words = {
    "search": ("search the notes, as the agent does", _search_notes),
    "get": ("print a note, some of its lines, or a search result", _show_note),
    "notes": (f"list the files: {ROOT_FILE} or memory.md, and {MEMORY_FOLDER}/**/*.md in the workspace", _list_notes),
    "index": ("update the index, and compute missing vectors", _update_index),
    "stats": ("print sizes, and notes that cannot be read", _show_statistics),
    "check": ("compare the index with the notes and repair it; exit code 1 if a problem remains", _check_index),
    "dream": ("tidy MEMORY.md and the open tasks now, as every night", _dream),
    "review": ("compare the open tasks with the notes now, as every hour", _review),
    "dreams": ("list dreams, earlier versions of MEMORY.md, and corrections of notes", _list_dreams),
    "restore": ("restore an earlier version of MEMORY.md or of a note; the present one is kept", _restore),
}

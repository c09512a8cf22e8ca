"""`picoclaw store`: what this board shares with others through one store."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from picoclaw.channels.ipc import ask_daemon
from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import print_wrapped
from picoclaw.config import Config, load_config
from picoclaw.errors import ConfigError, ProviderError, StoreError
from picoclaw.times import format_duration

if TYPE_CHECKING:
    from picoclaw.shared.store import SharedStore
    from picoclaw.shared.sync import SyncReport

_OFF = "there is no store: write url under [store] in config.toml; docs/howto/store.md says how"
_NO_ADMIN = "say the administrator's address: picoclaw store setup postgresql://ADMIN@HOST/DATABASE, or set PICOCLAW_STORE_ADMIN"
_STATUS_TIMEOUT_S = 5.0
_NAMES = {
    "documents": "notes",
    "user_context_files": "people's pages",
    "agents": "descriptions of agents",
    "sessions": "conversations",
    "turns": "turns",
    "summaries": "summaries",
    "ledger": "days of costs",
    "skills": "skills",
    "skill_grants": "grants of skills",
}


def options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "status": "show the store, this board's data in it, and changes still to be sent (the default)",
            "sync": "synchronise now",
            "search": "search the notes in the store, as `memory search` does",
            "setup": "as the administrator: create tables and a user for a board, and print the board's settings",
            "revoke": "as the administrator: end a board's access",
            "move": "copy this home into the store, or a board's data from the store into this home",
        }
    )
    for name in ("setup", "revoke"):
        words[name].add_argument(
            "admin", nargs="?", default="", metavar="ADDRESS", help="the administrator's; or PICOCLAW_STORE_ADMIN"
        )
    words["search"].add_argument("query", metavar="WORDS", help="what to look for")
    words["search"].add_argument(
        "--agent", default="", metavar="KEY", help="whose notes (default: this home's own agent)"
    )
    words["setup"].add_argument("--board", default="", metavar="NAME", help="the board (default: this one)")
    words["setup"].add_argument(
        "--agents", default="", metavar="LIST", help="its agents, such as default,garden (default: those of this home)"
    )
    words["setup"].add_flag("--replace", help="let another home take over the board's name")
    words["revoke"].add_argument("--board", default="", metavar="NAME", help="the board")
    words["move"].add_argument(
        "direction", choices=("to", "from"), metavar="to|from", help="into the store, or from it"
    )
    words["move"].add_argument(
        "--board", default="", metavar="NAME", help="with from: the board to copy (default: this one)"
    )
    words["move"].add_flag("--dry-run", help="only count")


def run(given: Options) -> int:
    """Do it; exit code 1 when the store does not answer, or something is not as it should be."""
    config = load_config()
    if given.act in {"setup", "revoke"}:
        return _administer(config, given)
    if not config.store.url:
        raise ConfigError(_OFF)
    if given.act == "move":
        return _move(config, given)
    if given.act == "search":
        return _search(config, given.query, given.agent or config.default_agent)
    return _sync(config) if given.act == "sync" else _show(config)


@contextmanager
def open_store(config: Config) -> "Iterator[SharedStore]":
    """Connect to the store that config.toml names. Raises ConfigError, StoreError."""
    if not config.store.url:
        raise ConfigError(_OFF)
    from picoclaw.shared.store import open_shared_store

    with closing(open_shared_store(config.store.url, config.store_password)) as store:
        yield store


def _administer(config: Config, given: Options) -> int:
    url = given.admin or os.environ.get("PICOCLAW_STORE_ADMIN", "")
    if not url:
        raise ConfigError(_NO_ADMIN)
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigError("only PostgreSQL is set up: a store of SQLite is a file, made when it is first used")
    from picoclaw.shared.store import load_postgres

    load_postgres()
    from picoclaw.agents import agent_id
    from picoclaw.shared.postgres import check_board_name, revoke_board, set_up_board

    password = os.environ.get("PICOCLAW_STORE_ADMIN_PASSWORD", "")
    board = check_board_name(given.board or config.store.board_name)
    if given.act == "revoke":
        if not given.board:
            raise ConfigError("say which board: picoclaw store revoke ADDRESS --board NAME")
        ended = revoke_board(url, password, board)
        print_wrapped(f"{board} is let in no more; {ended} connections were ended. What it has written stays.")
        return 0
    keys = given.agents.replace(",", " ").split() or list(dict.fromkeys([config.default_agent, *config.agents]))
    made = set_up_board(url, password, board, {key: agent_id(key) for key in keys}, replaces=given.replace)
    if made.migrations:
        print_wrapped(f"the tables are made: {', '.join(made.migrations)}")
    print_wrapped(f"{board} may read and write what belongs to {', '.join(keys)}, and nothing else.")
    for key, others in made.sharing.items():
        if others:
            print_wrapped(f"note: {key} is an agent of {', '.join(others)} too: they share its notes")
    print_wrapped(
        "", f'into the board\'s config.toml:\n\n    [store]\n    url = "{made.address}"\n    board = "{board}"\n'
    )
    print_wrapped(f'into its secrets.toml (chmod 600):\n\n    store_password = "{made.password}"')
    return 0


def _show(config: Config) -> int:
    from picoclaw.shared.home import SharedHome

    now, good = time.time(), True
    print_wrapped(f"store: {config.store.shown_url}, as {config.store.board_name}")
    daemon = (ask_daemon(config.home, {"do": "status"}, _STATUS_TIMEOUT_S) or {}).get("store")
    if daemon:
        at = daemon["synced"]
        when = f"{format_duration(max(0, now - at))} ago" if at else "not since picoclaw was started"
        print_wrapped(f"synchronised: {when}", *daemon["news"], *(f"NOT OK: {text}" for text in daemon["problems"]))
        good = not daemon["problems"]
    else:
        print_wrapped("picoclaw does not run: nothing is synchronised by itself; `picoclaw store sync` does it now")
    with closing(SharedHome(config, config.store.board_name)) as home:
        waiting = {_NAMES[kind]: count for kind, count in home.count_unsynced().items() if count}
        print_wrapped("not in the store yet: " + (", ".join(f"{name} {n}" for name, n in waiting.items()) or "nothing"))
        try:
            with open_store(config) as store:
                for place in home.places.values():
                    if not place.person:
                        counted = store.count_rows(place.agent_id)
                        said = ", ".join(
                            f"{name} {counted[kind]}" for kind, name in _NAMES.items() if counted.get(kind)
                        )
                        print_wrapped(f"{place.key}: {said or 'nothing there yet'}")
        except StoreError as error:
            print_wrapped(f"NOT OK: {error}; this board goes on with what it has")
            good = False
    return 0 if good else 1


def _search(config: Config, query: str, key: str) -> int:
    """Search the notes that belong to nobody in particular, and those for everyone; a person's own are theirs."""
    from picoclaw.agents import agent_id
    from picoclaw.memory.embedding import make_embedder
    from picoclaw.shared.home import EVERYONE
    from picoclaw.shared.store import SearchScope, search_store

    try:
        embedder = make_embedder(config)
    except ProviderError:
        embedder = None  # words find something as well
    with open_store(config) as store:
        scope = SearchScope(agent_id(key), ("", EVERYONE))
        hits = search_store(store, scope, query, embedder, datetime.now().astimezone())
    for hit in hits:
        print_wrapped(f"{hit.score:.2f}  {hit.path}:{hit.start}-{hit.end}  {hit.day}".rstrip(), f"    {hit.snippet}")
    if not hits:
        print_wrapped(f"no note in the store says anything about {query!r}")
    return 0


def _sync(config: Config) -> int:
    report = _open_and_run(config)
    print_wrapped(describe(report), *report.news)
    for problem in report.problems:
        print_wrapped(f"NOT OK: {problem}")
    return 1 if report.problems else 0


def _open_and_run(config: Config, board: str = "") -> "SyncReport":
    from picoclaw.shared.home import SharedHome
    from picoclaw.shared.sync import StoreSync

    with closing(SharedHome(config, config.store.board_name)) as home, open_store(config) as store:
        return StoreSync(home, store, lambda: datetime.now().astimezone()).run(board)


def _move(config: Config, given: Options) -> int:
    from picoclaw.shared.home import SharedHome
    from picoclaw.shared.sync import count_missing

    if given.dry_run:
        with closing(SharedHome(config, config.store.board_name)) as home:
            if given.direction == "to":
                counted = home.count_unsynced()
            else:
                with open_store(config) as store:
                    counted = count_missing(home, store, given.board or config.store.board_name)
        said = ", ".join(f"{_NAMES[kind]} {count}" for kind, count in counted.items() if count) or "nothing"
        print_wrapped(f"would be copied {given.direction} the store: {said}. Nothing was changed.")
        return 0
    board = (given.board or config.store.board_name) if given.direction == "from" else ""
    report = _open_and_run(config, board)
    print_wrapped(describe(report))
    if given.direction == "to":
        print_wrapped("This home keeps all of it: it goes on where the store does not answer.")
    for problem in report.problems:
        print_wrapped(f"NOT OK: {problem}")
    return 1 if report.problems else 0


def describe(report: "SyncReport") -> str:
    """Say in a line what a synchronisation has done."""
    parts = [
        f"{count} {what}"
        for count, what in (
            (report.pushed, "written there"),
            (report.pulled, "taken over from there"),
            (report.recovered, "brought back"),
            (report.conflicts, "changed on both sides and merged"),
            (report.erased, "deleted there"),
        )
        if count
    ]
    return ", ".join(parts) or "both are the same"

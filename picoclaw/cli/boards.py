"""Several boards: `picoclaw fleet` has those that were paired with this one, `picoclaw store` what is shared with others.

`picoclaw mqtt`: what is published at the broker.
"""

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.channels.ipc import ask_daemon
from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import detect_board_kind, print_wrapped
from picoclaw.config import Config, load_config
from picoclaw.errors import ConfigError, ProviderError, StoreError
from picoclaw.files import get_home
from picoclaw.times import format_duration
from picoclaw.workspace import find_outputs_file, prepare_home

if TYPE_CHECKING:
    from picoclaw.shared_store.store import SharedStore
    from picoclaw.shared_store.sync import SyncReport

_NO_FLEET = "there is no fleet: write host and fleet = true under [mqtt] in config.toml"
_NOT_RUNNING = "picoclaw does not run, and it alone is connected to the broker: picoclaw run"
_TIMEOUT_S, _ASK_TIMEOUT_S = 10.0, 100.0


def add_fleet_options(parser: Parser) -> None:
    pair = "print a code to type on another board; with that code: pair with the board that printed it"
    words = parser.add_words(
        {
            "list": ("show the boards, and whether they answer (the default)", _list_boards),
            "pair": (pair, _pair),
            "read": ("measure on another board", _ask_board),
            "ask": ("ask the agent of another board", _ask_board),
            "grant": ("let another board's agent ask this one's, up to N questions an hour", _grant),
            "stop": ("set all outputs of all boards to their safe level, and list boards that do not answer", _stop),
            "forget": ("unpair a board", _forget),
        },
        "list",
    )
    words["pair"].add_argument("code", "the code that the other board has printed", nargs="?", default="")
    words["read"].add_argument("board", "its name or number")
    words["read"].add_argument("sensor", "one of its sensors (default: all)", nargs="?", default="")
    words["ask"].add_argument("board", "its name or number")
    words["ask"].add_argument("question", "a question for its agent")
    words["grant"].add_argument("board", "its name or number")
    words["grant"].add_argument("questions N", "questions an hour; 0 takes it back", type=int)
    words["forget"].add_argument("board", "its name or number")


def run_fleet(given: Options) -> int:
    """Do it; exit code 1 when a board does not answer."""
    if given.word != "stop":  # which no setting may keep from its work
        mqtt = load_config().mqtt
        if not mqtt.host or not mqtt.fleet:
            raise ConfigError(_NO_FLEET)
    return given.act(get_home(os.environ), given)


def _ask_board(home: Path, given: Options) -> int:
    what, seconds = (given.sensor, _TIMEOUT_S) if given.word == "read" else (given.question, _ASK_TIMEOUT_S)
    said = _ask(home, {"act": given.word, "board": given.board, "what": what}, seconds)
    if not said["ok"]:
        raise ConfigError(said["text"])
    print_wrapped(said["text"])
    return 0


def _list_boards(home: Path, _: Options) -> int:
    boards = _ask(home, {"act": "list"})["boards"]
    for board in boards:
        print_wrapped(*_describe(board))
    if not boards:
        print("no board is paired with this one: picoclaw fleet pair")
    return 0 if all(board["answers"] for board in boards) else 1


def _describe(board: dict[str, Any]) -> list[str]:
    how = "answers" if board["answers"] else board["problem"]
    rows = [f"{board['name']} ({board['number']}): {how}"]
    if "heard" in board:
        rows[0] += f"; picoclaw {board['version']}"
        rows += [f"  {key}: {'; '.join(board[key])}" for key in ("sensors", "outputs", "health") if board.get(key)]
        rows += [] if board["answers"] else [f"  ({board['heard']})"]
    rows += [f"  its agent may ask this one's {board['asks']} times an hour"] if board["asks"] else []
    return rows


def _ask(home: Path, words: dict[str, Any], seconds: float = _TIMEOUT_S) -> dict[str, Any]:
    said = ask_daemon(home, {"do": "fleet", **words}, seconds)
    if said is None:
        raise ConfigError(_NOT_RUNNING)
    if "error" in said:
        raise ConfigError(str(said["error"]))
    return said


def _stop(home: Path, _: Options) -> int:
    """Stop this board, whatever the others do, and then say who has not answered."""
    from picoclaw.outputs.stop import stop_outputs

    rows: list[dict[str, Any]] = []
    problems: list[str] = []

    def stop_others() -> None:
        try:
            rows.extend(_ask(home, {"act": "stop"})["boards"])
        except ConfigError as error:
            problems.append(str(error))

    others = threading.Thread(target=stop_others)
    others.start()
    if find_outputs_file(home).exists():
        print_wrapped(f"this board: {stop_outputs(home, detect_board_kind, 'owner')}")
    others.join()
    for row in sorted(rows, key=lambda row: (row["ok"], row["name"])):
        took = f" ({row['s'] * 1000:.0f} ms)" if row["ok"] else ""
        print_wrapped(f"{row['name']}: {'' if row['ok'] else 'NOT STOPPED: '}{row['text']}{took}")
    if problems:
        raise ConfigError(f"no other board was stopped: {problems[0]}")
    return 0 if all(row["ok"] for row in rows) else 1


def _load_keys(home: Path) -> Any:
    from picoclaw.mqtt import MISSING_NACL

    try:
        from picoclaw.fleet import FleetKeys
    except ImportError:
        raise ConfigError(MISSING_NACL) from None
    return FleetKeys(home)


def _pair(home: Path, given: Options) -> int:
    config = load_config()
    prepare_home(home)
    keys = _load_keys(home)
    from picoclaw.fleet import CODE_MINUTES, make_code, pair

    code = given.code or make_code()
    if not given.code:
        print_wrapped(f"Within {CODE_MINUTES} minutes, type on the other board:\n\n    picoclaw fleet pair {code}\n")
    seconds = 60.0 * CODE_MINUTES if not given.code else 20.0
    peer = pair(config.mqtt, config.mqtt_password, keys, code, seconds, is_host=not given.code)
    print_wrapped(f"paired with {peer.name} ({peer.number})")
    ask_daemon(home, {"do": "fleet", "act": "reload"}, _TIMEOUT_S)
    return 0


def _forget(home: Path, given: Options) -> int:
    keys = _load_keys(home)
    peer = keys.find(given.board)
    keys.forget(peer.number)
    ask_daemon(home, {"do": "fleet", "act": "reload"}, _TIMEOUT_S)
    print(f"{peer.name} ({peer.number}) is forgotten here; do the same there")
    return 0


def _grant(home: Path, given: Options) -> int:
    from picoclaw.fleet import MAX_ASKS

    keys, asks = _load_keys(home), given.questions
    peer = keys.find(given.board)
    if not 0 <= asks <= MAX_ASKS:
        raise ConfigError(f"N is a number of questions an hour, 0 to {MAX_ASKS}, not {asks}")
    keys.grant(peer.number, asks)
    ask_daemon(home, {"do": "fleet", "act": "reload"}, _TIMEOUT_S)
    print_wrapped(
        f"{peer.name} ({peer.number}) may ask this board's agent {asks} times an hour; it is told nothing of your"
        " notes, files and chats, and switches nothing"
        if asks
        else f"{peer.name} ({peer.number}) may not ask this board's agent"
    )
    return 0


_NO_BROKER = "there is no broker: write host under [mqtt] in config.toml"


def add_mqtt_options(parser: Parser) -> None:
    about = "listen for a moment, list the published topics, and suggest sensors to add"
    discover = parser.add_words({"discover": (about, _discover)})["discover"]
    discover.add_argument("--seconds SECONDS", "how long to listen (10)", type=float, default=10.0)
    discover.add_argument("--topic TOPIC", "what to listen to, such as zigbee2mqtt/# (everything)", default="#")


def _discover(given: Options) -> int:
    config = load_config()
    if not config.mqtt.host:
        raise ConfigError(_NO_BROKER)
    try:
        from picoclaw.mqtt.connection import listen
    except ImportError:
        raise ConfigError('paho-mqtt is not installed: pip install "picoclaw-edge[mqtt]"') from None
    from picoclaw.hw.loader import format_sensor_table
    from picoclaw.mqtt.discovery import MAX_TOPICS, Listener, is_filter, list_offers, list_topics

    if not is_filter(given.topic):
        raise ConfigError(
            f"{given.topic[:60]!r} is no topic to listen to: such as zigbee2mqtt/# or +/sensor/temperature"
        )

    heard = Listener()
    seconds = given.seconds if math.isfinite(given.seconds) else 0.0
    topics = dict.fromkeys([given.topic, "homeassistant/+/+/config", "homeassistant/+/+/+/config"])
    problem = listen(config.mqtt, config.mqtt_password, min(max(0.1, seconds), 3600), topics, heard.hear)
    if problem:
        raise ConfigError(f"{config.mqtt.host}: {problem}")
    rows = list(list_topics(heard.last))
    print_wrapped(*rows)
    offers = list_offers(heard.last, config.sensors, f"{config.mqtt.base}/")
    print(f"# {len(rows)} topics{f'; there are more than {MAX_TOPICS}' if heard.missed else ''}")
    if offers:
        print("# To add a sensor, copy its lines into config.toml, and restart picoclaw:")
    for offer in offers:
        print(f"\n# {offer.value or 'nothing published meanwhile'}")
        print(format_sensor_table(offer.name, offer.sensor), end="")
    return 0


_NO_STORE = "there is no store: write url under [store] in config.toml; docs/howto/store.md says how"
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


def add_store_options(parser: Parser) -> None:
    setup = "as the administrator: create tables and a user for a board, and print the board's settings"
    words = parser.add_words(
        {
            "status": (
                "show the store, this board's data in it, and changes still to be sent (the default)",
                _show_store,
            ),
            "sync": ("synchronise now", _sync_store),
            "search": ("search the notes in the store, as `memory search` does", _search_store),
            "setup": (setup, _set_up_board),
            "revoke": ("as the administrator: end a board's access", _revoke_board),
            "move": ("copy this home into the store, or a board's data from the store into this home", _move_store),
        },
        "status",
    )
    for name in ("setup", "revoke"):
        words[name].add_argument("admin ADDRESS", "the administrator's; or PICOCLAW_STORE_ADMIN", nargs="?", default="")
    words["search"].add_argument("query WORDS", "what to look for")
    words["search"].add_argument("--agent KEY", "whose notes (default: this home's own agent)", default="")
    words["setup"].add_argument("--board NAME", "the board (default: this one)", default="")
    words["setup"].add_argument(
        "--agents LIST", "its agents, such as default,garden (default: those of this home)", default=""
    )
    words["setup"].add_argument("--replace", "let another home take over the board's name")
    words["revoke"].add_argument("--board NAME", "the board", default="")
    words["move"].add_argument("direction to|from", "into the store, or from it", choices=("to", "from"))
    words["move"].add_argument("--board NAME", "with from: the board to copy (default: this one)", default="")
    words["move"].add_argument("--dry-run", "only count")


def run_store(given: Options) -> int:
    """Do it; exit code 1 when the store does not answer, or something is not as it should be."""
    config = load_config()
    if not config.store.url and given.word not in {"setup", "revoke"}:
        raise ConfigError(_NO_STORE)
    return given.act(config, given)


@contextmanager
def open_store(config: Config) -> "Iterator[SharedStore]":
    """Connect to the store that config.toml names. Raises ConfigError, StoreError."""
    if not config.store.url:
        raise ConfigError(_NO_STORE)
    from picoclaw.shared_store.store import open_shared_store

    with closing(open_shared_store(config.store.url, config.store_password)) as store:
        yield store


def _find_administrator(given: Options) -> tuple[str, str]:
    """The administrator's address and password. Raises ConfigError, also where PostgreSQL cannot be used."""
    url = given.admin or os.environ.get("PICOCLAW_STORE_ADMIN", "")
    if not url:
        raise ConfigError(_NO_ADMIN)
    if not url.startswith(("postgresql://", "postgres://")):
        raise ConfigError("only PostgreSQL is set up: a store of SQLite is a file, made when it is first used")
    from picoclaw.shared_store.store import load_postgres

    load_postgres()
    return url, os.environ.get("PICOCLAW_STORE_ADMIN_PASSWORD", "")


def _revoke_board(_: Config, given: Options) -> int:
    url, password = _find_administrator(given)
    from picoclaw.shared_store.postgres import check_board_name, revoke_board

    if not given.board:
        raise ConfigError("say which board: picoclaw store revoke ADDRESS --board NAME")
    ended = revoke_board(url, password, check_board_name(given.board))
    print_wrapped(f"{given.board} is let in no more; {ended} connections were ended. What it has written stays.")
    return 0


def _set_up_board(config: Config, given: Options) -> int:
    url, password = _find_administrator(given)
    from picoclaw.agents import agent_id
    from picoclaw.shared_store.postgres import check_board_name, set_up_board

    board = check_board_name(given.board or config.store.board_name)
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


def _show_store(config: Config, _: Options) -> int:
    from picoclaw.shared_store.home import SharedHome

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


def _search_store(config: Config, given: Options) -> int:
    """Search the notes that belong to nobody in particular, and those for everyone; a person's own are theirs."""
    from picoclaw.agents import agent_id
    from picoclaw.memory.embedding import make_embedder
    from picoclaw.shared_store.home import EVERYONE
    from picoclaw.shared_store.store import SearchScope, search_store

    try:
        embedder = make_embedder(config)
    except ProviderError:
        embedder = None  # words find something as well
    with open_store(config) as store:
        scope = SearchScope(agent_id(given.agent or config.default_agent), ("", EVERYONE))
        hits = search_store(store, scope, given.query, embedder, datetime.now().astimezone())
    for hit in hits:
        print_wrapped(f"{hit.score:.2f}  {hit.path}:{hit.start}-{hit.end}  {hit.day}".rstrip(), f"    {hit.snippet}")
    if not hits:
        print_wrapped(f"no note in the store says anything about {given.query!r}")
    return 0


def _sync_store(config: Config, _: Options) -> int:
    report = _open_and_run(config)
    print_wrapped(describe_report(report), *report.news)
    for problem in report.problems:
        print_wrapped(f"NOT OK: {problem}")
    return 1 if report.problems else 0


def _open_and_run(config: Config, board: str = "") -> "SyncReport":
    from picoclaw.shared_store.home import SharedHome
    from picoclaw.shared_store.sync import StoreSync

    with closing(SharedHome(config, config.store.board_name)) as home, open_store(config) as store:
        return StoreSync(home, store, lambda: datetime.now().astimezone()).run(board)


def _move_store(config: Config, given: Options) -> int:
    from picoclaw.shared_store.home import SharedHome
    from picoclaw.shared_store.sync import count_missing

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
    print_wrapped(describe_report(report))
    if given.direction == "to":
        print_wrapped("This home keeps all of it: it goes on where the store does not answer.")
    for problem in report.problems:
        print_wrapped(f"NOT OK: {problem}")
    return 1 if report.problems else 0


def describe_report(report: "SyncReport") -> str:
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

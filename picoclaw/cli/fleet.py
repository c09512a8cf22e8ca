"""`picoclaw fleet`: the boards that were paired with this one. `picoclaw mqtt`: what is published at the broker."""

import math
import os
import threading
from pathlib import Path
from typing import Any

from picoclaw.channels.ipc import ask_daemon
from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import detect_board_kind, print_wrapped
from picoclaw.config import load_config
from picoclaw.errors import ConfigError
from picoclaw.resources import get_home
from picoclaw.workspace import find_outputs_file, prepare_home

_OFF = "there is no fleet: write host and fleet = true under [mqtt] in config.toml"
_NOT_RUNNING = "picoclaw does not run, and it alone is connected to the broker: picoclaw run"
_TIMEOUT_S, _ASK_TIMEOUT_S = 10.0, 100.0


def add_fleet_options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "list": "show the boards, and whether they answer (the default)",
            "pair": "print a code to type on another board; with that code: pair with the board that printed it",
            "read": "measure on another board",
            "ask": "ask the agent of another board",
            "grant": "let another board's agent ask this one's, up to N questions an hour",
            "stop": "set all outputs of all boards to their safe level, and list boards that do not answer",
            "forget": "unpair a board",
        }
    )
    words["pair"].add_argument(
        "code", nargs="?", default="", metavar="CODE", help="the code that the other board has printed"
    )
    words["read"].add_argument("board", metavar="BOARD", help="its name or number")
    words["read"].add_argument(
        "sensor", nargs="?", default="", metavar="SENSOR", help="one of its sensors (default: all)"
    )
    words["ask"].add_argument("board", metavar="BOARD", help="its name or number")
    words["ask"].add_argument("question", metavar="QUESTION", help="a question for its agent")
    words["grant"].add_argument("board", metavar="BOARD", help="its name or number")
    words["grant"].add_argument("questions", type=int, metavar="N", help="questions an hour; 0 takes it back")
    words["forget"].add_argument("board", metavar="BOARD", help="its name or number")


def run_fleet(given: Options) -> int:
    """Do it; exit code 1 when a board does not answer."""
    if given.act == "stop":
        return _stop(get_home(os.environ))
    config = load_config()
    if not config.mqtt.host or not config.mqtt.fleet:
        raise ConfigError(_OFF)
    if given.act == "pair":
        return _pair(given)
    if given.act == "forget":
        return _forget(config.home, given.board)
    if given.act == "grant":
        return _grant(config.home, given.board, given.questions)
    if given.act in {"read", "ask"}:
        what = given.sensor if given.act == "read" else given.question
        seconds = _TIMEOUT_S if given.act == "read" else _ASK_TIMEOUT_S
        said = _ask(config.home, {"act": given.act, "board": given.board, "what": what}, seconds)
        if not said["ok"]:
            raise ConfigError(said["text"])
        print_wrapped(said["text"])
        return 0
    boards = _ask(config.home, {"act": "list"})["boards"]
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


def _stop(home: Path) -> int:
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
    from picoclaw.fleet import MISSING_NACL

    try:
        from picoclaw.fleet.keys import FleetKeys
    except ImportError:
        raise ConfigError(MISSING_NACL) from None
    return FleetKeys(home)


def _pair(given: Options) -> int:
    config = load_config()
    prepare_home(config.home)
    keys = _load_keys(config.home)
    from picoclaw.fleet.keys import CODE_MINUTES, make_code, pair

    code = given.code or make_code()
    if not given.code:
        print_wrapped(f"Within {CODE_MINUTES} minutes, type on the other board:\n\n    picoclaw fleet pair {code}\n")
    seconds = 60.0 * CODE_MINUTES if not given.code else 20.0
    peer = pair(config.mqtt, config.mqtt_password, keys, code, seconds, is_host=not given.code)
    print_wrapped(f"paired with {peer.name} ({peer.number})")
    ask_daemon(config.home, {"do": "fleet", "act": "reload"}, _TIMEOUT_S)
    return 0


def _forget(home: Path, board: str) -> int:
    keys = _load_keys(home)
    peer = keys.find(board)
    keys.forget(peer.number)
    ask_daemon(home, {"do": "fleet", "act": "reload"}, _TIMEOUT_S)
    print(f"{peer.name} ({peer.number}) is forgotten here; do the same there")
    return 0


def _grant(home: Path, board: str, asks: int) -> int:
    from picoclaw.fleet.keys import MAX_ASKS

    keys = _load_keys(home)
    peer = keys.find(board)
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
    words = parser.add_words(
        {"discover": "listen for a moment, list the published topics, and suggest sensors to add"}, required=True
    )
    words["discover"].add_argument("--seconds", type=float, default=10.0, help="how long to listen (10)")
    words["discover"].add_argument("--topic", default="#", help="what to listen to, such as zigbee2mqtt/# (everything)")


def run_mqtt(given: Options) -> int:
    config = load_config()
    if not config.mqtt.host:
        raise ConfigError(_NO_BROKER)
    try:
        from picoclaw.mqtt.connection import listen
    except ImportError:
        raise ConfigError('paho-mqtt is not installed: pip install "picoclaw-edge[mqtt]"') from None
    from picoclaw.hw.loader import format_sensor_table
    from picoclaw.mqtt.discover import MAX_TOPICS, Listener, is_filter, list_offers, list_topics

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

"""`picoclaw outputs`: what can be switched, and what only a person may do: arm, disarm, resume."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from picoclaw.cli.arguments import Options, Parser, Words, parse_length
from picoclaw.cli.common import (
    add_board_option,
    detect_board_kind,
    judge_log,
    print_records,
    print_results,
    print_wrapped,
    require_terminal,
)
from picoclaw.config.files import read_toml
from picoclaw.errors import ConfigError, Denied
from picoclaw.files import explain_os_errors, get_home
from picoclaw.outputs import audit, config
from picoclaw.outputs.client import OutputsClient, format_outputs
from picoclaw.outputs.config import OutputConfig
from picoclaw.outputs.stop import stop_outputs
from picoclaw.outputs.supervisor import leases
from picoclaw.outputs.supervisor.leases import open_board
from picoclaw.records import asdict
from picoclaw.times import format_duration
from picoclaw.workspace import find_outputs_file, get_owner_time

_DEFAULT_RECORDS = 20
_ALWAYS_SHOWN = {"active", "safe", "shortest_off_s", "who", "confirm"}

_NOT_DECLARED = "no outputs are declared; write into {path} what is wired where, as docs/howto/outputs.md shows"


def options(parser: Parser) -> None:
    add_board_option(parser)
    words = parser.add_words(_WORDS, "list")
    for name in ("set", "off", "arm", "disarm"):
        words[name].add_argument("name")
    words["set"].add_argument("level", "on, off or percent")
    words["set"].add_argument(
        "seconds TIME", "for how long: 90s, 10m, 2h (default: its longest time)", type=parse_length, nargs="?"
    )
    log = words["audit"]
    log.add_argument("--verify", "check that no line was changed")
    log.add_argument("--json", "print the records as they are kept")
    count = f"how many (default {_DEFAULT_RECORDS})"
    log.add_argument("-n LINES", count, type=int, default=_DEFAULT_RECORDS)


def run(given: Options) -> int:
    return given.act(get_home(os.environ), given)


def _choose_board(given: Options) -> str:
    return detect_board_kind() if given.board in {None, "auto"} else given.board


@contextmanager
def _open_client(home: Path, given: Options) -> Iterator[OutputsClient]:
    if not home.is_dir():
        raise ConfigError(_NOT_DECLARED.format(path=find_outputs_file(home)))
    client = OutputsClient(home, lambda: _choose_board(given))
    yield client
    client.leave()


def _list_outputs(home: Path, given: Options) -> int:
    found = config.load_outputs(find_outputs_file(home))
    if not found.outputs and not found.problems:
        print_wrapped(_NOT_DECLARED.format(path=found.path))
        return 0
    with _open_client(home, given) as client:
        answer = client.list()
    print_wrapped(*format_outputs(answer))
    return 1 if answer["problems"] else 0


def _switch_all_safe(home: Path, given: Options) -> int:
    print_wrapped(stop_outputs(home, lambda: _choose_board(given), "owner", stop=False))
    return 0


def _set_output(home: Path, given: Options) -> int:
    with _open_client(home, given) as client:
        if client.wants_yes(given.name, given.level) and not sys.stdin.isatty() and given.board != "sim":
            raise Denied(
                f"{given.name} needs the owner's yes (confirm = true), which only a person at a terminal can give"
            )
        print_wrapped(client.set(given.name, given.level, given.seconds, "owner"))
    return 0


def _switch_off(home: Path, given: Options) -> int:
    with _open_client(home, given) as client:
        print_wrapped(client.off(given.name, "owner"))
    return 0


def _end_stop(home: Path, given: Options) -> int:
    require_terminal("a stop is ended only by a person at a terminal")
    with _open_client(home, given) as client:
        print_wrapped(client.resume("owner"))
    return 0


def _arm_output(home: Path, given: Options) -> int:
    require_terminal("an output is armed only by a person at a terminal")
    output = _find_armable_output(home, given)
    # what the owner wrote, and the limits and the safe level that count without being written
    wrote = read_toml(find_outputs_file(home))["outputs"][output.name]
    kept = {key: value for key, value in asdict(output).items() if key in wrote or key in _ALWAYS_SHOWN}
    print_wrapped(f"[outputs.{output.name}]", *(f"{key} = {json.dumps(value)}" for key, value in kept.items()))
    print_wrapped(f"From now on picoclaw may drive what is wired to {output.place}, within these limits.")
    print_wrapped(
        "If picoclaw and both of its guards are killed at the same moment, it stays as it is until picoclaw starts again"
        " or `picoclaw outputs safe` is typed; the service does that by itself."
    )
    if input(f"Type the name, {output.name}, to arm it: ").strip() != output.name:
        raise Denied(f"{output.name} was not armed: what was typed is not its name")
    _save_armed(home, {**config.load_armed(home), output.name: output.digest}, "arm", output.name)
    print_wrapped(f"{output.name} is armed; a changed declaration has to be armed again")
    return 0


def _find_armable_output(home: Path, given: Options) -> OutputConfig:
    name, found = given.name, config.load_outputs(find_outputs_file(home))
    if found.problems:
        raise ConfigError(found.problems[0])
    if name not in found.outputs:
        raise ConfigError(f"{found.path} declares no output {name!r}; declared: {', '.join(found.outputs) or 'none'}")
    board = open_board(_choose_board(given), home)
    try:
        fault = leases.check_wiring(board, home, found).faults.get(name)
    finally:
        board.close()
    if fault:
        raise ConfigError(f"{found.path}: {fault}")
    return found.outputs[name]


def _disarm_output(home: Path, given: Options) -> int:
    left = config.load_armed(home)
    if given.name not in left:
        raise ConfigError(f"{given.name} is not armed; armed are: {', '.join(left) or 'none'}")
    _switch_off(home, given)
    del left[given.name]
    _save_armed(home, left, "disarm", given.name)
    print_wrapped(f"{given.name} is disarmed: orders to it are only rehearsed, and nothing is switched")
    return 0


def _save_armed(home: Path, digests: Mapping[str, str], act: str, name: str) -> None:
    """First what is written down, then what counts."""
    with explain_os_errors(ConfigError, f"{home / audit.AUDIT_FILE} cannot be written"):
        audit.write_record(home, act, name=name, who="owner", digest=digests.get(name, ""))
    config.save_armed(home, digests)


def _show_audit(home: Path, given: Options) -> int:
    with explain_os_errors(ConfigError, f"{home / audit.AUDIT_FILE} cannot be read"):
        if given.verify:
            return print_results([judge_log(audit.AUDIT_FILE, *audit.verify(home))])
        records = [pair for path in audit.list_files(home)[-2:] for pair in audit.read_records(path)]
    print_records(records, given.n, None if given.json else partial(_format_record, home))
    return 0


def _format_record(home: Path, record: Mapping[str, Any]) -> str:
    at = str(record.get("at"))
    with suppress(ValueError):
        at = f"{get_owner_time(home, datetime.fromisoformat(at).timestamp()):%Y-%m-%d %H:%M:%S}"
    said = [
        _format_fact(key, value) for key, value in record.items() if key not in _UNSAID and value not in ("", [], None)
    ]
    return f"{at} {' '.join(filter(None, [str(record.get('act')), record.get('name', '')]))}: {', '.join(said)}".rstrip(
        ": "
    )


_UNSAID = {"at", "boot", "t", "act", "name", "chain", "digest"}  # --json has them


def _format_fact(key: str, value: object) -> str:
    if isinstance(value, int | float) and key in {"level", "seconds"}:
        return config.format_level(value) if key == "level" else f"for {format_duration(value)}"
    return {"who": f"by {value}", "why": f"because of {value}"}.get(key, f"{key} {value}")


_WORDS: Words = {
    "list": ("list the declared outputs and their state (the default)", _list_outputs),
    "safe": ("set every output to its safe level; exit code 0 only if all of them are", _switch_all_safe),
    "resume": ("allow switching on again after a stop", _end_stop),
    "set": ("switch an output on or off, or to a level, for a time", _set_output),
    "off": ("set an output to its safe level", _switch_off),
    "arm": ("let a new or changed declaration drive its output", _arm_output),
    "disarm": ("return a declaration to a dry run", _disarm_output),
    "audit": ("list each switching and refusal, with who asked and the rule", _show_audit),
}

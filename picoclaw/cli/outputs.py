"""`picoclaw outputs`: what can be switched, and what only a person may do: arm, disarm, resume."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from picoclaw.cli.common import detect_board_kind
from picoclaw.config.files import read_toml
from picoclaw.errors import ConfigError, Denied
from picoclaw.files import explain_os_error
from picoclaw.outputs import audit, config
from picoclaw.outputs.client import OutputsClient, format_outputs
from picoclaw.outputs.config import OutputConfig
from picoclaw.outputs.stop import stop_outputs
from picoclaw.outputs.supervisor import plan
from picoclaw.outputs.supervisor.rescue import open_board
from picoclaw.resources import get_home
from picoclaw.text import escape_unprintable
from picoclaw.workspace import find_outputs_file
from picoclaw.workspace.pages import get_owner_time

_DEFAULT_RECORDS = 20
_ALWAYS_SHOWN = {"active", "safe", "shortest_off_s", "who", "confirm"}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument("--board", choices=["linux", "sim"], help="which board to use; else the configured one")
    words = parser.add_subparsers(dest="act", metavar="ACT")
    words.add_parser("list", help="what is declared, and how it is (the default)")
    words.add_parser("safe", help="bring everything to its safe level; exit code 0 only if all of it is")
    words.add_parser("resume", help="end a stop")
    for name, purpose in (
        ("set", "switch one on for some seconds"),
        ("off", "bring one to its safe level"),
        ("arm", "let a new or changed declaration drive its output"),
        ("disarm", "take that back"),
    ):
        word = words.add_parser(name, help=purpose)
        word.add_argument("name", metavar="NAME")
        if name == "set":
            word.add_argument("level", metavar="LEVEL", help="on, off or percent")
            word.add_argument("seconds", metavar="SECONDS", type=float, nargs="?", help="else as long as it may")
    word = words.add_parser("audit", help="what was done and refused, by whom, by which rule")
    word.add_argument("--verify", action="store_true", help="check that no line was changed")
    word.add_argument("--json", action="store_true", help="print the records as they are kept")
    word.add_argument(
        "-n", metavar="LINES", type=int, default=_DEFAULT_RECORDS, help=f"how many (default {_DEFAULT_RECORDS})"
    )


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when it was refused or failed, with the reason on stderr."""
    return _SUBCOMMANDS[given.act or "list"](get_home(os.environ), given)


def _make_client(home: Path, given: argparse.Namespace) -> OutputsClient:
    return OutputsClient(home, lambda: given.board or detect_board_kind())


def _list_outputs(home: Path, given: argparse.Namespace) -> int:
    found = config.load_outputs(find_outputs_file(home))
    if not found.outputs and not found.problems:
        print(f"no output is declared; {found.path} would hold them")
        return 0
    client = _make_client(home, given)
    answer = client.list()
    client.leave()
    _print_lines(format_outputs(answer))
    return 1 if answer["problems"] else 0


def _print_lines(lines: Iterable[str]) -> None:
    """Print what comes from files, which cannot drive the terminal."""
    for line in lines:
        print(escape_unprintable(line))


def _switch_all_safe(home: Path, given: argparse.Namespace) -> int:
    print(stop_outputs(home, lambda: given.board or detect_board_kind(), "owner", stop=False))
    return 0


def _set_output(home: Path, given: argparse.Namespace) -> int:
    client = _make_client(home, given)
    if client.wants_yes(given.name, given.level) and not sys.stdin.isatty() and given.board != "sim":
        raise Denied(f"{given.name} needs the owner's yes (confirm = true), which only a person at a terminal can give")
    print(client.set(given.name, given.level, given.seconds, "owner"))
    client.leave()
    return 0


def _switch_off(home: Path, given: argparse.Namespace) -> int:
    client = _make_client(home, given)
    print(client.off(given.name, "owner"))
    client.leave()
    return 0


def _end_stop(home: Path, given: argparse.Namespace) -> int:
    _require_terminal("a stop is ended")
    client = _make_client(home, given)
    print(client.resume("owner"))
    client.leave()
    return 0


def _arm_output(home: Path, given: argparse.Namespace) -> int:
    _require_terminal("an output is armed")
    output = _find_armable_output(home, given)
    _print_lines(_format_declaration(home, output))
    print(f"From now on picoclaw may drive what is wired to {output.place}, within these limits.")
    print(
        "If the program that switched it on and both processes that watch over it are killed at the same moment, it"
        " stays as it is until `picoclaw outputs safe`, the next start of picoclaw, or the service, which does it."
    )
    if input(f"Type the name, {output.name}, to arm it: ").strip() != output.name:
        raise Denied(f"{output.name} was not armed: what was typed is not its name")
    _save_armed(home, {**config.load_armed(home), output.name: output.digest}, "arm", output.name)
    print(f"{output.name} is armed; a changed declaration has to be armed anew")
    return 0


def _disarm_output(home: Path, given: argparse.Namespace) -> int:
    left = config.load_armed(home)
    if given.name not in left:
        raise ConfigError(f"{given.name} is not armed; armed are: {', '.join(left) or 'none'}")
    _switch_off(home, given)
    del left[given.name]
    _save_armed(home, left, "disarm", given.name)
    print(f"{given.name} is disarmed: whatever is asked of it is a dry run")
    return 0


def _save_armed(home: Path, digests: Mapping[str, str], act: str, name: str) -> None:
    """First what is written down, then what counts."""
    try:
        audit.write_record(home, act, name=name, who="owner", digest=digests.get(name, ""))
    except OSError as error:
        raise ConfigError(f"{home / audit.AUDIT_FILE} cannot be written: {explain_os_error(error)}") from None
    config.save_armed(home, digests)


def _show_audit(home: Path, given: argparse.Namespace) -> int:
    try:
        if given.verify:
            count, fault = audit.verify(home)
            print(f"{count} records follow from each other" + (f"; then: {fault}" if fault else ""))
            return 1 if fault else 0
        lines = [pair for path in audit.list_files(home)[-2:] for pair in audit.read_records(path)]
    except OSError as error:
        raise ConfigError(f"{error.filename}: {explain_os_error(error)}") from None
    for line, said in lines[len(lines) - given.n :] if 0 <= given.n < len(lines) else lines:
        _print_lines([line.decode("utf-8", "replace") if given.json or said is None else _format_record(said, home)])
    return 0


def _format_record(record: Mapping[str, Any], home: Path) -> str:
    at = str(record.get("at"))
    with suppress(ValueError):
        at = f"{get_owner_time(home, datetime.fromisoformat(at).timestamp()):%Y-%m-%d %H:%M:%S}"
    rest = (f"{key} {value}" for key, value in record.items() if key not in {"at", "boot", "t", "act", "name", "chain"})
    return " ".join([at, str(record.get("act")), str(record.get("name", "")), ", ".join(rest)])


def _find_armable_output(home: Path, given: argparse.Namespace) -> OutputConfig:
    name, found = given.name, config.load_outputs(find_outputs_file(home))
    if found.problems:
        raise ConfigError(found.problems[0])
    if name not in found.outputs:
        raise ConfigError(f"{found.path} declares no output {name!r}; declared: {', '.join(found.outputs) or 'none'}")
    looked_at = open_board(given.board or detect_board_kind(), home)
    try:
        fault = plan.check_wiring(looked_at, home, found).faults.get(name)
    finally:
        looked_at.close()
    if fault:
        raise ConfigError(f"{found.path}: {fault}")
    return found.outputs[name]


def _format_declaration(home: Path, output: OutputConfig) -> list[str]:
    """What the owner wrote, and the limits and the safe level that count without being written."""
    wrote = read_toml(find_outputs_file(home))["outputs"][output.name]
    kept = {key: value for key, value in asdict(output).items() if key in wrote or key in _ALWAYS_SHOWN}
    return [f"[outputs.{output.name}]", *(f"{key} = {json.dumps(value)}" for key, value in kept.items())]


def _require_terminal(what: str) -> None:
    """A fence, not a wall: a command that a model runs could make itself a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Denied(f"{what} only by a person at a terminal")


_SUBCOMMANDS: Mapping[str, Callable[[Path, argparse.Namespace], int]] = {
    "list": _list_outputs,
    "safe": _switch_all_safe,
    "set": _set_output,
    "off": _switch_off,
    "resume": _end_stop,
    "arm": _arm_output,
    "disarm": _disarm_output,
    "audit": _show_audit,
}

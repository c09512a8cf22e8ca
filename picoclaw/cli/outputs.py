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

from picoclaw.cli.common import printable
from picoclaw.cli.stop import board
from picoclaw.config import home_folder
from picoclaw.config.files import read_toml
from picoclaw.disk import explain
from picoclaw.errors import ConfigError, Denied
from picoclaw.reflex import audit, declared
from picoclaw.reflex.declared import Output
from picoclaw.reflex.halt import halt
from picoclaw.reflex.keeper import wiring
from picoclaw.reflex.keeper.rescue import open_board
from picoclaw.reflex.outputs import Outputs, worded
from picoclaw.workspace import outputs_file
from picoclaw.workspace.pages import owner_time

_LAST = 20
_ALWAYS = {"active", "safe", "shortest_off_s", "who", "confirm"}


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
    word.add_argument("-n", metavar="LINES", type=int, default=_LAST, help=f"how many (default {_LAST})")


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when it was refused or failed, with the reason on stderr."""
    return _ACTS[given.act or "list"](home_folder(os.environ), given)


def _client(home: Path, given: argparse.Namespace) -> Outputs:
    return Outputs(home, lambda: given.board or board())


def _list(home: Path, given: argparse.Namespace) -> int:
    found = declared.load(outputs_file(home))
    if not found.outputs and not found.problems:
        print(f"no output is declared; {found.path} would hold them")
        return 0
    client = _client(home, given)
    answer = client.list()
    client.leave()
    _say(worded(answer))
    return 1 if answer["problems"] else 0


def _say(lines: Iterable[str]) -> None:
    """Print what comes from files, which cannot drive the terminal."""
    for line in lines:
        print(printable(line))


def _safe(home: Path, given: argparse.Namespace) -> int:
    print(halt(home, lambda: given.board or board(), "owner", stop=False))
    return 0


def _set(home: Path, given: argparse.Namespace) -> int:
    client = _client(home, given)
    if client.wants_yes(given.name, given.level) and not sys.stdin.isatty() and given.board != "sim":
        raise Denied(f"{given.name} needs the owner's yes (confirm = true), which only a person at a terminal can give")
    print(client.set(given.name, given.level, given.seconds, "owner"))
    client.leave()
    return 0


def _off(home: Path, given: argparse.Namespace) -> int:
    client = _client(home, given)
    print(client.off(given.name, "owner"))
    client.leave()
    return 0


def _resume(home: Path, given: argparse.Namespace) -> int:
    _person("a stop is ended")
    client = _client(home, given)
    print(client.resume("owner"))
    client.leave()
    return 0


def _arm(home: Path, given: argparse.Namespace) -> int:
    _person("an output is armed")
    output = _declared(home, given)
    _say(_shown(home, output))
    print(f"From now on picoclaw may drive what is wired to {output.place}, within these limits.")
    print(
        "If the program that switched it on and both processes that watch over it are killed at the same moment, it"
        " stays as it is until `picoclaw outputs safe`, the next start of picoclaw, or the service, which does it."
    )
    if input(f"Type the name, {output.name}, to arm it: ").strip() != output.name:
        raise Denied(f"{output.name} was not armed: what was typed is not its name")
    _keep(home, {**declared.armed(home), output.name: output.digest}, "arm", output.name)
    print(f"{output.name} is armed; a changed declaration has to be armed anew")
    return 0


def _disarm(home: Path, given: argparse.Namespace) -> int:
    left = declared.armed(home)
    if given.name not in left:
        raise ConfigError(f"{given.name} is not armed; armed are: {', '.join(left) or 'none'}")
    _off(home, given)
    del left[given.name]
    _keep(home, left, "disarm", given.name)
    print(f"{given.name} is disarmed: whatever is asked of it is a dry run")
    return 0


def _keep(home: Path, digests: Mapping[str, str], act: str, name: str) -> None:
    """First what is written down, then what counts."""
    try:
        audit.write(home, act, name=name, who="owner", digest=digests.get(name, ""))
    except OSError as error:
        raise ConfigError(f"{home / audit.NAME} cannot be written: {explain(error)}") from None
    declared.keep_armed(home, digests)


def _audit(home: Path, given: argparse.Namespace) -> int:
    try:
        if given.verify:
            count, fault = audit.verify(home)
            print(f"{count} records follow from each other" + (f"; then: {fault}" if fault else ""))
            return 1 if fault else 0
        lines = [pair for path in audit.files(home)[-2:] for pair in audit.records(path)]
    except OSError as error:
        raise ConfigError(f"{error.filename}: {explain(error)}") from None
    for line, said in lines[len(lines) - given.n :] if 0 <= given.n < len(lines) else lines:
        _say([line.decode("utf-8", "replace") if given.json or said is None else _worded(said, home)])
    return 0


def _worded(record: Mapping[str, Any], home: Path) -> str:
    at = str(record.get("at"))
    with suppress(ValueError):
        at = f"{owner_time(home, datetime.fromisoformat(at).timestamp()):%Y-%m-%d %H:%M:%S}"
    rest = (f"{key} {value}" for key, value in record.items() if key not in {"at", "boot", "t", "act", "name", "chain"})
    return " ".join([at, str(record.get("act")), str(record.get("name", "")), ", ".join(rest)])


def _declared(home: Path, given: argparse.Namespace) -> Output:
    name, found = given.name, declared.load(outputs_file(home))
    if found.problems:
        raise ConfigError(found.problems[0])
    if name not in found.outputs:
        raise ConfigError(f"{found.path} declares no output {name!r}; declared: {', '.join(found.outputs) or 'none'}")
    looked_at = open_board(given.board or board(), home)
    try:
        fault = wiring.check(looked_at, home, found).faults.get(name)
    finally:
        looked_at.close()
    if fault:
        raise ConfigError(f"{found.path}: {fault}")
    return found.outputs[name]


def _shown(home: Path, output: Output) -> list[str]:
    """What the owner wrote, and the limits and the safe level that count without being written."""
    wrote = read_toml(outputs_file(home))["outputs"][output.name]
    kept = {key: value for key, value in asdict(output).items() if key in wrote or key in _ALWAYS}
    return [f"[outputs.{output.name}]", *(f"{key} = {json.dumps(value)}" for key, value in kept.items())]


def _person(what: str) -> None:
    """A fence, not a wall: a command that a model runs could make itself a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Denied(f"{what} only by a person at a terminal")


_ACTS: Mapping[str, Callable[[Path, argparse.Namespace], int]] = {
    "list": _list,
    "safe": _safe,
    "set": _set,
    "off": _off,
    "resume": _resume,
    "arm": _arm,
    "disarm": _disarm,
    "audit": _audit,
}

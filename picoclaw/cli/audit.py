"""`picoclaw audit`: who had what done, or was refused it, and whether the records of that are as they were written."""

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_error
from picoclaw.outputs import audit as outputs
from picoclaw.resources import get_home
from picoclaw.security import hash_chain
from picoclaw.security.audit import KEPT_FILES, LOG_NAME, AuditCheck, AuditHead, verify_audit
from picoclaw.text import escape_unprintable
from picoclaw.times import parse_range
from picoclaw.workspace.pages import get_owner_time

_DEFAULT_RECORDS = 20
_HEAD_FORMAT = re.compile(r"([1-9][0-9]{0,11}):([0-9a-f]{8,64})")
_LEADING_FIELDS = ("tool", "arguments", "outcome", "good")
_HIDDEN_FIELDS = {"n", "at", "act", "chain", "sum", "effect", *_LEADING_FIELDS}


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    parser.add_argument(
        "--since", metavar="WHEN", default="", help="all since yesterday, monday, 2026-03-01, or the last '2 hours'"
    )
    parser.add_argument(
        "-n", metavar="RECORDS", type=int, default=_DEFAULT_RECORDS, help=f"how many (default {_DEFAULT_RECORDS})"
    )
    parser.add_argument("--json", action="store_true", help="print the records as they are kept")
    parser.add_argument("--verify", action="store_true", help="check that no record was changed or is missing")
    parser.add_argument(
        "--head",
        type=_parse_head,
        action="append",
        default=[],
        metavar="N:SUM",
        help="with --verify: one noted earlier",
    )


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when something is wrong, with the reason in words."""
    home = get_home(os.environ)
    try:
        if given.verify:
            return _print_verification(home, given.head)
        zone = get_owner_time(home).tzinfo
        for line, said in _select_records(home, given):
            text = line.decode("utf-8", "replace")
            print(escape_unprintable(text if given.json or said is None else format_record(said, zone)))
    except OSError as error:
        raise ConfigError(f"{error.filename or home / LOG_NAME}: {explain_os_error(error)}") from None
    return 0


def _parse_head(text: str) -> AuditHead:
    found = _HEAD_FORMAT.fullmatch(text)
    if not found:
        raise argparse.ArgumentTypeError("write it as it was shown, such as 512:0f3a9c27d1e4b865")
    return AuditHead(int(found[1]), found[2])


def _print_verification(home: Path, noted: list[AuditHead]) -> int:
    found = _verify_with_retry(home, noted)
    newest = f"; the newest is {found.head}" if found.good else ""
    print(escape_unprintable(f"{LOG_NAME}: {found.good} records follow from each other{newest}"))
    of_outputs, fault = outputs.verify(home)
    print(f"{outputs.AUDIT_FILE}: {of_outputs} records follow from each other")
    for each in filter(None, (found.fault, fault)):
        print(escape_unprintable(f"but: {each}"))
    return 1 if found.fault or fault else 0


def _verify_with_retry(home: Path, noted: list[AuditHead]) -> AuditCheck:
    """Look again where something is wrong: a record may just have been in the writing."""
    found = verify_audit(home, noted)
    return verify_audit(home, noted) if found.fault else found


def _select_records(home: Path, given: argparse.Namespace) -> list[tuple[bytes, dict[str, Any] | None]]:
    files = hash_chain.list_chain_files(home / LOG_NAME, KEPT_FILES)
    if given.since:
        since = _parse_since(given.since, home)
        return [pair for pair in _read_records(files) if pair[1] is None or _get_timestamp(pair[1]) >= since]
    found = list(_read_records(files[-2:]))
    return found[len(found) - given.n :] if 0 <= given.n < len(found) else found


def _read_records(files: list[Path]) -> Iterator[tuple[bytes, dict[str, Any] | None]]:
    for file in files:
        yield from hash_chain.read_chain(file)


def _parse_since(text: str, home: Path) -> float:
    now = get_owner_time(home)
    for form in (f"since {text}", text, f"last {text}"):
        try:
            return parse_range(form, now).begin.timestamp()
        except ValueError:
            continue
    raise ConfigError(
        f"--since {text!r} is no time that is known; write it like yesterday, monday, 2026-03-01, '2 hours'"
    )


def _get_timestamp(said: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(said.get("at"))).timestamp()
    except ValueError:
        return 0.0


def format_record(said: Mapping[str, Any], zone: tzinfo | None = None) -> str:
    """Put a record into a line, with its time in the owner's `zone`."""
    at = datetime.fromtimestamp(_get_timestamp(said), UTC).astimezone(zone)
    good = said.get("good")
    first = [said.get("tool"), said.get("arguments"), said.get("outcome"), "done" if good else "failed"]
    if not isinstance(good, bool):
        first.pop()
    rest = ", ".join(f"{name} {_format_value(value)}" for name, value in said.items() if name not in _HIDDEN_FIELDS)
    words = [f"{said.get('n', '?'):>5}  {at:%Y-%m-%d %H:%M:%S}  {said.get('act', '?'):<6}", *filter(None, first)]
    return " ".join([*map(str, words), f"({rest})" if rest else ""]).rstrip()


def _format_value(value: Any) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)

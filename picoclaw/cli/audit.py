"""`picoclaw audit`: who had what done, or was refused it, and whether the records of that are as they were written."""

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.cli.arguments import Options, Parser, UsageError
from picoclaw.cli.common import print_results, print_safe, show_progress
from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_error
from picoclaw.outputs import audit as outputs
from picoclaw.resources import get_home
from picoclaw.security import hash_chain
from picoclaw.security.audit import KEPT_FILES, LOG_NAME, AuditHead, verify_audit
from picoclaw.text import pattern
from picoclaw.times import parse_range
from picoclaw.workspace.pages import get_owner_time

if TYPE_CHECKING:
    from picoclaw.hw.health import CheckResult

_DEFAULT_RECORDS = 20
_HEAD_FORMAT = pattern(r"([1-9][0-9]{0,11}):([0-9a-f]{8,64})")
_LEADING_FIELDS = ("tool", "arguments", "outcome", "good")
_HIDDEN_FIELDS = {"n", "at", "act", "chain", "sum", "effect", *_LEADING_FIELDS}


def options(parser: Parser) -> None:
    parser.add_argument(
        "--since", metavar="WHEN", default="", help="all since yesterday, monday, 2026-03-01, or the last '2 hours'"
    )
    parser.add_argument(
        "-n", metavar="RECORDS", type=int, default=_DEFAULT_RECORDS, help=f"how many (default {_DEFAULT_RECORDS})"
    )
    parser.add_flag("--json", help="print JSON: the records as they are kept, or with --verify the findings")
    parser.add_flag("--verify", help="check that no record was changed or is missing")
    head_help = "with --verify: one noted earlier"
    parser.add_argument("--head", type=_parse_head, repeats=True, metavar="N:SUM", help=head_help)


def run(given: Options) -> int:
    home = get_home(os.environ)
    try:
        if given.verify:
            return print_results(_verify_logs(home, given.head), as_json=given.json)
        now = get_owner_time(home)
        files = hash_chain.list_chain_files(home / LOG_NAME, KEPT_FILES)
        if given.since:
            since = _parse_since(given.since, now)
        else:
            files = files[-2:]
        records = [record for file in files for record in hash_chain.read_chain(file)]
        if given.since:
            records = [(line, said) for line, said in records if said is None or _get_timestamp(said) >= since]
        elif 0 <= given.n < len(records):
            records = records[len(records) - given.n :]
        if not records and not given.json:
            print(f"nothing is recorded since {given.since}" if given.since else "nothing is recorded yet")
        for line, said in records:
            raw = given.json or said is None
            print_safe(line.decode("utf-8", "replace") if raw else format_record(said or {}, now.tzinfo))
    except OSError as error:
        raise ConfigError(f"{error.filename or home / LOG_NAME}: {explain_os_error(error)}") from None
    return 0


def _parse_head(text: str) -> AuditHead:
    found = _HEAD_FORMAT.fullmatch(text)
    if not found:
        raise UsageError("write it as it was shown, such as 512:0f3a9c27d1e4b865")
    return AuditHead(int(found[1]), found[2])


def _verify_logs(home: Path, noted: list[AuditHead]) -> "Iterator[CheckResult]":
    from picoclaw.hw.health import bad, good

    with show_progress() as draw:
        found = verify_audit(home, noted, draw)
    if found.fault:  # a record may just have been in the writing
        found = verify_audit(home, noted)
    newest = f"; the newest is {found.head}" if found.good else ""
    count, fault = outputs.verify(home)
    yield bad(LOG_NAME, found.fault) if found.fault else good(LOG_NAME, hash_chain.describe_intact(found.good) + newest)
    yield bad(outputs.AUDIT_FILE, fault) if fault else good(outputs.AUDIT_FILE, hash_chain.describe_intact(count))


def _parse_since(text: str, now: datetime) -> float:
    for form in (f"since {text}", text, f"last {text}"):
        try:
            return parse_range(form, now).begin.timestamp()
        except ValueError:
            continue
    raise ConfigError(
        f"--since {text!r} is not a time picoclaw knows; write it like yesterday, monday, 2026-03-01, '2 hours'"
    )


def _get_timestamp(said: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(said.get("at"))).timestamp()
    except ValueError:
        return 0.0


def format_record(said: Mapping[str, Any], zone: tzinfo | None = None) -> str:
    """Put a record into a line, with its time in the owner's `zone`."""
    at, good = datetime.fromtimestamp(_get_timestamp(said), UTC).astimezone(zone), said.get("good")
    first = [said.get("tool"), said.get("arguments"), said.get("outcome")]
    first += [("done" if good else "failed")] if isinstance(good, bool) else []
    values = {name: value for name, value in said.items() if name not in _HIDDEN_FIELDS}
    rest = ", ".join(
        f"{name} {'; '.join(map(str, value)) if isinstance(value, list) else value}" for name, value in values.items()
    )
    words = [f"{said.get('n', '?'):>5}  {at:%Y-%m-%d %H:%M:%S}  {said.get('act', '?'):<6}", *filter(None, first)]
    return " ".join([*map(str, words), f"({rest})" if rest else ""]).rstrip()

"""What several verbs share: options, opening the app, text that is safe for a terminal."""

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.cli.arguments import Options, Parser, fit_to_terminal
from picoclaw.errors import ConfigError, Denied, StoreDamaged
from picoclaw.text import escape_unprintable, format_json

if TYPE_CHECKING:
    from picoclaw.app import App
    from picoclaw.config import Config
    from picoclaw.config.tables import PersonRole
    from picoclaw.hw.kernel import CheckResult

_BAR_WIDTH = 30
DEFAULT_SESSION = "terminal"
"""As in messages.py, which a verb that only asks the daemon does not import."""


# --- what is printed ---

_MAX_SECRET_LENGTH = 4096


def print_safe(*lines: str) -> None:
    """Print what comes from elsewhere, which cannot drive the terminal."""
    for line in lines:
        print(escape_unprintable(line), flush=True)


def print_wrapped(*lines: str, indent: str = "  ") -> None:
    """Print lines, on a terminal broken between words to its width."""
    for line in map(escape_unprintable, lines):
        print(fit_to_terminal(line, sys.stdout, indent), flush=True)


def read_secret(path: str | None) -> str:
    """Read a key or token from a file, - for standard input; '' for no path. Raises ConfigError."""
    from picoclaw.config.files import read_regular

    if path is None:
        return ""
    text = sys.stdin.read(_MAX_SECRET_LENGTH) if path == "-" else read_regular(Path(path)).decode(errors="replace")
    if not text.strip():
        raise ConfigError(f"{path} holds no key")
    return text.strip()


def print_lines(lines: Iterable[str]) -> None:
    """Print each in one line, whatever it holds."""
    for line in lines:
        print(escape_unprintable(line).replace("\n", "\\n"), flush=True)


def print_note(text: str) -> None:
    """Print a line on stderr."""
    print(fit_to_terminal(f"picoclaw: {escape_unprintable(text)}", sys.stderr), file=sys.stderr, flush=True)


def print_results(rows: "Iterable[CheckResult]", *, as_json: bool = False) -> int:
    """Print what was checked, each with its fix; returns the exit code, 1 when something is bad."""
    found = []
    for row in rows:
        found.append({name: value for name, value in row._asdict().items() if name != "repair"})
        if not as_json:
            told = [f"{row.status:6} {row.name}: {row.detail}", *([f"       → {row.fix}"] if row.fix else [])]
            print_wrapped(*(line.replace("\n", "\\n") for line in told), indent=" " * 9)
    if as_json:
        print(format_json(found))
    return int(any(row["status"] == "bad" for row in found))


def print_records(
    records: "list[tuple[bytes, dict[str, Any] | None]]", most: int, render: "Callable[[dict[str, Any]], str] | None"
) -> None:
    """Print the last records of a log, as they are kept where there is no `render` or they cannot be read."""
    for line, said in records[len(records) - most :] if 0 <= most < len(records) else records:
        if render and said is not None:
            print_wrapped(render(said))
        else:
            print_safe(line.decode("utf-8", "replace"))


def judge_log(name: str, count: int, fault: str, more: str = "") -> "CheckResult":
    from picoclaw.hw.kernel import bad, good
    from picoclaw.security.hash_chain import describe_intact

    return bad(name, fault) if fault else good(name, describe_intact(count) + more)


def format_size(count: int) -> str:
    return f"{count} B" if count < 1000 else f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.1f} MB"


def format_minute(home: Path, at: float) -> str:
    """Word a moment in the owner's zone."""
    from picoclaw.workspace import get_owner_time

    return f"{get_owner_time(home, at):%Y-%m-%d %H:%M}"


def format_count(count: int, what: str) -> str:
    """Count things, one of which is called `what`."""
    return f"{count} {what}{'s' * (count != 1)}"


@contextmanager
def show_progress() -> Iterator[Callable[[int, int], None]]:
    """Give a function that draws how far something is, a part and the whole; only a person at a terminal sees it."""
    is_seen, shown = sys.stderr.isatty(), -1

    def draw(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * min(done, total) // total if total else 0
        if is_seen and total and percent != shown:
            shown = percent
            bar = "#" * (_BAR_WIDTH * percent // 100)
            print(f"\r[{bar:{_BAR_WIDTH}}] {percent:3} %", end="", file=sys.stderr, flush=True)

    try:
        yield draw
    finally:
        if is_seen:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# --- options ---


def add_board_option(parser: Parser) -> None:
    parser.add_argument(
        "--board",
        "the board to use; auto: the simulated one if there is no sensor and no bus",
        choices=["auto", "linux", "sim"],
    )


def add_person_option(parser: Parser, what: str) -> None:
    """`--as NAME`; `what` the person is, such as "who will send it"."""
    about = f"{what}: a name of `picoclaw people`"
    parser.add_argument("--as NAME", about, dest="person", default="")


# --- people ---


def require_terminal(why: str) -> None:
    """Raise Denied, saying `why`, where nobody sits: a fence, not a wall, for what has itself made a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Denied(why)


def confirm(question: str) -> bool:
    """Ask a person for a yes; anything else is a no. Raises EOFError."""
    return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


# --- the app ---


@contextmanager
def open_app(
    options: Options, ask: Callable[[str], bool] | None = None, *, make: bool = True, agent: bool = False
) -> "Iterator[App]":
    """Build the app for a verb and take it apart afterwards.

    `make` prepares the home folder first; `agent` builds all that a turn needs at once.
    """
    from picoclaw import workspace
    from picoclaw.app import App
    from picoclaw.config import load_config
    from picoclaw.config.tables import BoardConfig
    from picoclaw.hw import detect
    from picoclaw.records import replace

    ensure_outputs_safe(options)
    config = load_config()
    if options.board:
        config = replace(config, board=BoardConfig(options.board))
    if make:
        workspace.prepare_home(config.home)
        if config.old_tables:
            from picoclaw.maintenance.setup import migrate_settings

            for line in migrate_settings(config):
                print_note(line)
    app = App(config, detect.choose_board(config.board.kind, config), ask)
    try:
        if agent:
            _ = app.agent
        gc.freeze()  # looking through all that was built takes 40 to 90 ms, in the middle of some turn
        gc.enable()
        if app.wiring.outputs:
            app.wiring.outputs.recover()
        yield app
        app.wiring.leave()
    finally:
        app.close()


def ensure_outputs_safe(options: Options) -> None:
    """Make safe what was left on when every process that could do it was killed: before anything that can fail."""
    from picoclaw.files import get_home

    home = get_home(os.environ)
    if (home / "outputs.live").exists():
        from picoclaw.outputs.stop import recover_and_report

        named = options.board if options.board in {"sim", "linux"} else ""
        if problem := recover_and_report(home, lambda: named or detect_board_kind()):
            print_note(problem)


def detect_board_kind() -> str:
    """Name the board, for the rare case that no supervisor has ever said which it is."""
    from picoclaw.config import load_config
    from picoclaw.hw import detect

    config = load_config()
    return "sim" if detect.choose_board(config.board.kind, config).simulated else "linux"


def retry_after_repair(act: Callable[[], int]) -> int:
    """Do what begins with looking into `state.db`, and once more when that was damaged and could be repaired."""
    try:
        return act()
    except StoreDamaged:
        from picoclaw.files import get_home
        from picoclaw.maintenance import repair

        if not (lines := repair.repair_home(get_home(os.environ), tell=False)):
            raise
    for line in lines:
        print_note(line)
    return act()


def call_tool(app: "App", session: str, name: str, arguments: dict[str, Any]) -> bool:
    """Make a call as the owner, and print its result, an error on stderr; tells whether it went well.

    Whoever typed exactly this call at a terminal has agreed to it. A fence, not a wall: until exec has a sandbox, a
    command that a model runs can make itself a terminal, as it can open the bus by itself.
    """
    from picoclaw.messages import Caller, ToolCall

    app.ask = (lambda _: True) if sys.stdin.isatty() else None
    caller = Caller(session, "owner", app.now(), print_safe)
    try:
        good, result = app.toolset.run(ToolCall("1", name, arguments), caller)
    finally:
        app.stores.settle(session)
    if good:
        print_wrapped(result)
    else:
        print(escape_unprintable(result), file=sys.stderr)
    return good


# --- chats ---


def list_chats(app: "App") -> dict[str, None]:
    """Name the chats there are, the last used first: those that something was said in, and those of channels.

    Raises StoreError.
    """
    from picoclaw.messages import INTERNAL_SESSIONS

    found = [info.key for info in app.stores.sessions.listed()]
    found += [job.session for job in app.stores.jobs.all()]
    if app.config.page.enabled:
        found.append("page:home")
    if app.config.telegram_token:
        from picoclaw.channels.telegram_api import make_pairing

        pairing = make_pairing(app.config)
        found += [f"telegram:{number}" for number in pairing.people()]
        pairing.close()
    if app.config.matrix.homeserver and app.config.matrix_token:
        from picoclaw.channels.matrix_api import list_rooms

        found += [f"matrix:{room}" for room in list_rooms(app.config)]
    return dict.fromkeys(key for key in [*found, DEFAULT_SESSION] if not key.startswith(INTERNAL_SESSIONS))


def check_chat(app: "App", key: str) -> None:
    """Raise ConfigError for a chat that there is none of. Raises StoreError."""
    if key not in (chats := list_chats(app)):
        raise ConfigError(f"there is no chat {key!r}; there are: {', '.join(chats)}")


def check_person(config: "Config", name: str) -> "PersonRole | None":
    """The role of a person by their name, None for none given. Raises ConfigError."""
    if not name:
        return None
    from picoclaw.maintenance.household import find_person

    return find_person(config, name).role


def check_conversation(app: "App", key: str) -> None:
    """Say on stderr that a conversation is a new one; raises ConfigError for a chat of a channel that is not there.

    Raises StoreError.
    """
    if ":" in key:  # only chats of channels have one; nobody would read the answer
        check_chat(app, key)
    elif key != DEFAULT_SESSION:
        chats = list_chats(app) if (app.config.home / "state.db").exists() else (DEFAULT_SESSION,)
        if key not in chats:
            print_note(f"{key!r} is a new conversation; there are: {', '.join(chats)}")

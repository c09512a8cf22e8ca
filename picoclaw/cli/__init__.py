"""The verbs of `picoclaw`: the module of each is imported when it is used."""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO, cast

from picoclaw.errors import PicoclawError
from picoclaw.files import explain_os_error

VERBS = {
    "chat": "talk to the agent, or ask one question with -m",
    "run": "live on the board: the service, with its channels, reminders, rules and heartbeats",
    "status": "say how the running picoclaw is, or what is known without one",
    "usage": "say what models have taken: tokens and money, by day, model, cause or channel",
    "tools": "list the tools that the agent has on this board",
    "tool": "call one tool by hand, without a model",
    "heartbeat": "look at the checklist in HEARTBEAT.md now, and say what was decided",
    "prompt": "show exactly what would be sent to a model",
    "model": "test the configured model on a simulated board; say which profile suits it",
    "memory": "search, list and check what is remembered; put it in order",
    "sessions": "list, show, search, export and prune what was said",
    "skills": "list, show, search and check the skills",
    "cron": "list, add and change reminders and jobs, of every chat",
    "summon": "have a model write the agent's character and habits, from a sentence of yours",
    "history": "show what the sensors said, as figures, a chart or a picture",
    "rules": "explain, check and remove the rules that run without a model, and show what they did",
    "outputs": "list, arm, switch and check the declared outputs",
    "policy": "show who may have what done, explain it for a call, take back what was allowed for good",
    "approvals": "list what waits for your approval, and answer it",
    "audit": "show who had what done or was refused it, and check that no record of it was changed",
    "page": "let a browser in with a code, and say where the page is",
    "stop": "bring every output to its safe level, now",
    "service": "let systemd start picoclaw with the board: install, status, logs, uninstall, print",
    "telegram": "pair people with the Telegram bot, and show how it is",
    "doctor": "check the set-up and say how to fix what is wrong",
    "check": "check what is stored for damage; --repair repairs it",
    "update": "install a new version beside this one, try it, use it; go back if it fails",
    "backup": "put all that it knows into one file, also while it runs",
    "restore": "bring a backup back",
    "uninstall": "take picoclaw off this machine",
    "init": "make the home folder, its settings and the workspace's files; bring back what is missing",
}


_SHARED_MODULES = {
    **dict.fromkeys(("cron", "heartbeat", "rules"), "automation"),
    **dict.fromkeys(("page", "telegram"), "channels"),
    **dict.fromkeys(("approvals", "policy"), "policy"),
    **dict.fromkeys(("check", "doctor"), "doctor"),
    **dict.fromkeys(("backup", "restore"), "backup"),
    **dict.fromkeys(("tool", "tools"), "tool"),
    **dict.fromkeys(("uninstall", "update"), "update"),
}
"""Modules of several verbs, whose functions are named after each."""


def load_verb(name: str) -> tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]:
    """Import what declares the options of a verb, and what runs it."""
    if name in _SHARED_MODULES:
        module = importlib.import_module(f"picoclaw.cli.{_SHARED_MODULES[name]}")
        return getattr(module, f"add_{name}_options"), getattr(module, f"run_{name}")
    module = importlib.import_module(f"picoclaw.cli.{name}")
    return module.options, module.run


def run(arguments: Sequence[str]) -> int:
    """Run one verb. Returns 0, 1 (an error, said in one line on stderr) or 2 (wrong usage)."""
    _prepare_streams()
    # Bytes that are not UTF-8 arrive as lone surrogates, which no database, no server and no terminal takes.
    arguments = [argument.encode("utf-8", "replace").decode() for argument in arguments]
    if sys.stdout is None:
        return _print_error("standard output is closed; open it, or send it to /dev/null")
    try:
        code = _run_verb(arguments)
        sys.stdout.flush()
    except PicoclawError as error:
        return _print_error(str(error))
    except KeyboardInterrupt:
        return _print_error("interrupted")
    except OSError as error:
        if error.filename is not None:
            return _print_error(f"{error.filename}: {explain_os_error(error)}")
        return handle_output_error(error)
    return code


def _print_error(text: str) -> int:
    print(f"picoclaw: {text}", file=sys.stderr)
    return 1


def _prepare_streams() -> None:
    """Make the standard streams safe to use, also where the one who started us has closed them.

    A closed one is opened again on /dev/null, so that no file of ours gets its number.
    """
    if None in {sys.stdin, sys.stdout, sys.stderr}:
        while os.open(os.devnull, os.O_RDWR) < 2:
            pass
    if sys.stdin is None:
        sys.stdin = cast("TextIO", _ClosedInput())
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class _ClosedInput:
    """Stands for a standard input that is closed: whoever wants to read it ends the program in one line."""

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse whatever is wanted."""
        raise PicoclawError("standard input is closed; open it, or give the question with -m")


def handle_output_error(error: OSError) -> int:
    """Say it, unless the reader has simply left; what is still to be written goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 1
    return _print_error(f"standard output cannot be written: {explain_os_error(error)}")


class _ArgumentParser(argparse.ArgumentParser):
    """Does not hide that a help text could not be written."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**{"formatter_class": _make_help_formatter, "allow_abbrev": False, **how})

    def _print_message(self, message: str, file: Any = None) -> None:
        (file or sys.stderr).write(message)


def _make_help_formatter(prog: str) -> argparse.HelpFormatter:
    """What argparse makes at every option, whatever is asked: by itself it would import shutil for the width."""
    width = int(columns) if (columns := os.environ.get("COLUMNS", "")).isdecimal() else 0
    if not width and sys.__stdout__:
        with suppress(OSError, ValueError):
            width = os.get_terminal_size(sys.__stdout__.fileno()).columns
    return argparse.HelpFormatter(prog, width=(width or 80) - 2)


def _run_verb(arguments: Sequence[str]) -> int:
    from picoclaw import __version__

    verb = next((a for a in arguments if not a.startswith("-")), "")
    parser = _ArgumentParser(
        prog="picoclaw",
        description="An AI agent for single-board computers.",
        epilog="See `picoclaw VERB --help` for each.",
    )
    parser.add_argument("--version", action="version", version=f"picoclaw {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, purpose in VERBS.items():
        sub = verbs.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
        if name == verb:
            add_options, run_verb = load_verb(name)
            add_options(sub)
            sub.set_defaults(run=run_verb)
    try:
        options = parser.parse_args(arguments)
    except SystemExit as end:  # after --help, --version or a usage error
        return int(end.code or 0)
    return int(options.run(options))

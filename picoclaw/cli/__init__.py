"""The words after `picoclaw`: each has a small module of its own, imported when it is used."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from picoclaw.errors import PicoclawError

VERBS = {
    "chat": "talk to the agent, or ask one question with -m",
    "tools": "list the tools that the agent has on this board",
    "tool": "call one tool by hand, without a model",
    "prompt": "show exactly what would be sent to a model",
    "doctor": "check the set-up and say how to mend it",
    "init": "make the home folder with a commented config.toml",
}


def run(arguments: Sequence[str]) -> int:
    """Run one verb. Returns 0, 1 (an error, said in one line on stderr) or 2 (wrong usage)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = _verb(arguments)
        sys.stdout.flush()
    except PicoclawError as error:
        print(f"picoclaw: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _verb(arguments: Sequence[str]) -> int:
    verb = next((a for a in arguments if not a.startswith("-")), "")
    parser = argparse.ArgumentParser(
        prog="picoclaw",
        description="An AI agent for single-board computers.",
        epilog="See `picoclaw VERB --help` for each.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, purpose in VERBS.items():
        sub = verbs.add_parser(
            name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.", allow_abbrev=False
        )
        if name == verb:
            module = importlib.import_module(f"picoclaw.cli.{name}")
            module.options(sub)
            sub.set_defaults(run=module.run)
    options = parser.parse_args(arguments)
    return int(options.run(options))


def _version() -> str:
    from picoclaw import __version__

    return f"picoclaw {__version__}"

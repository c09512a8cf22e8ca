"""`picoclaw tool NAME JSON`: one call by hand. The person who types it is the owner, and it is exactly this call."""

import argparse
import json
import sys

from picoclaw.agent.dispatcher import replace_surrogates
from picoclaw.app import SIMULATED_MARK
from picoclaw.cli.common import add_board_option, open_app
from picoclaw.daemon.signals import handle_signals
from picoclaw.errors import explain_syntax
from picoclaw.messages import DEFAULT_SESSION, Caller, ToolCall
from picoclaw.text import escape_unprintable


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("arguments", metavar="JSON", nargs="?", default="{}", help="an object, such as '{\"bus\": 1}'")
    add_board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Call the tool and print its result; exit code 1 when it is an error."""
    try:
        arguments = json.loads(replace_surrogates(given.arguments))
    except (ValueError, RecursionError) as error:
        print(f"picoclaw tool: JSON is not valid: {explain_syntax(error)}", file=sys.stderr)
        return 2
    if not isinstance(arguments, dict):
        print("picoclaw tool: JSON must be an object, such as '{}'", file=sys.stderr)
        return 2
    with open_app(given) as app:
        handle_signals()
        # Whoever typed exactly this call at a terminal has agreed to it. A fence, not a wall: until exec has a
        # sandbox, a command that a model runs can make itself a terminal, as it can open the bus by itself.
        app.ask = (lambda _: True) if sys.stdin.isatty() else None
        app.rehearses = app.board.simulated
        caller = Caller(DEFAULT_SESSION, "owner", app.now(), lambda text: print(escape_unprintable(text)))
        try:
            good, result = app.toolset.run(ToolCall("1", given.name, arguments), caller)
        finally:
            app.stores.settle(caller.session)
        print(escape_unprintable(result), file=sys.stdout if good else sys.stderr)
        if app.board.simulated and good:
            print(SIMULATED_MARK)
    return 0 if good else 1

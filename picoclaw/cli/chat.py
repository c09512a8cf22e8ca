"""`picoclaw chat`: one question with -m, a conversation on a terminal, or a line each from a pipe."""

import argparse
import json
import sys
from typing import Any

from picoclaw.app import SIMULATED, App
from picoclaw.cli.common import board_option, opened, printable
from picoclaw.cli.keys import heed_no_signals, listen_to_signals, uninterrupted
from picoclaw.heartbeat.check import OK
from picoclaw.messages import DEFAULT_SESSION, Inbound, Turn


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("-m", "--message", metavar="TEXT", help="ask this, print the answer and leave")
    parser.add_argument("--session", default=DEFAULT_SESSION, metavar="S", help="the conversation to go on with")
    parser.add_argument("--json", action="store_true", help="with -m: print the whole turn as JSON")
    board_option(parser)


def run(given: argparse.Namespace) -> int:
    """Answer; exit code 1 when a question had no answer."""
    if given.message is None:
        if given.json:
            print("picoclaw chat: --json needs -m", file=sys.stderr)
            return 2
        from picoclaw.cli.terminal import converse

        return converse(given, listen_to_signals())
    if not given.message.strip():
        print("picoclaw chat: -m needs a text that is not empty", file=sys.stderr)
        return 2
    with opened(given, agent=True) as app:
        leaving = listen_to_signals()
        code = _once(app, given)
        if leaving.is_set():
            app.wiring.abandon()
        return code


def _once(app: App, given: argparse.Namespace) -> int:
    said: list[str] = []
    say = said.append if given.json else lambda text: print(printable(text), flush=True)
    turn = app.answer(Inbound(given.session, given.message), say, shield=uninterrupted)
    mark = [SIMULATED] if simulated(app, turn) else []
    if given.json:
        print(json.dumps(as_json(app, turn, "\n\n".join([*said, turn.reply, *mark])), ensure_ascii=False))
    elif turn.stopped != "error":
        print(printable("\n".join([turn.reply, *mark])))
    heed_no_signals()
    return report(turn)


def simulated(app: App, turn: Turn) -> bool:
    """Whether an answer has to be marked: a sign of life says nothing of the board."""
    return app.board.simulated and turn.reply != OK


def report(turn: Turn) -> int:
    """Say on stderr, in one line, what the person should know about the turn; returns the exit code."""
    interrupted = "the turn was interrupted" if turn.stopped == "stopped" else ""
    if said := "; ".join(filter(None, [turn.notice.text, interrupted])):
        print(f"picoclaw: {printable(said)}", file=sys.stderr)
    return 1 if turn.notice.failed or interrupted else 0


def as_json(app: App, turn: Turn, reply: str) -> dict[str, Any]:
    """Describe a turn for programs."""
    return {
        "reply": reply,
        "turn": {
            "steps": turn.steps,
            "tools": [
                {"name": r.name, "arguments": r.arguments, "result": r.result, "ms": round(r.ms, 3)} for r in turn.tools
            ],
            "usage": {
                "prompt_tokens": turn.usage.prompt_tokens,
                "completion_tokens": turn.usage.completion_tokens,
            },
            "stopped": turn.stopped,
        },
        "provider": turn.provider,
        "simulated": app.board.simulated,
    }

"""`picoclaw chat` where picoclaw runs already: it answers, and this is its terminal. A person has remote.py."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from picoclaw.channels.line import Line
from picoclaw.cli.chat import report
from picoclaw.cli.common import json_text, opened, printable
from picoclaw.cli.keys import heed_no_signals, listen_to_signals
from picoclaw.cli.remote import Remote, Words, how_to_answer, new_numbers, turn_of
from picoclaw.cli.screen import Screen
from picoclaw.cli.terminal import helped_at, line_history
from picoclaw.errors import PicoclawError

_LOST = "the running picoclaw has ended before it answered; ask again, or see `picoclaw status`"
_KEPT = (
    "the running picoclaw has ended before it answered; it has kept what you asked, and the next one that runs"
    " answers it in the next chat"
)


def once(line: Line, given: argparse.Namespace) -> int:
    """Ask one question and print the answer, as `chat -m` does; Ctrl-C ends the turn."""
    listen_to_signals()
    said: list[str] = []
    say = said.append if given.json else lambda text: print(printable(text), flush=True)
    end = _ended(line, given.session, given.message, say, once=True)
    reports: list[str] = []
    if not given.json and turn_of(end).stopped != "error":
        print(printable("\n".join(filter(None, [str(end.get("reply", "")), str(end.get("mark", ""))]))), flush=True)
    if end.get("helpers"):
        _helped(line, given, reports.append if given.json else say)
    if given.json:
        shown = "\n\n".join(filter(None, [*said, str(end.get("reply", "")), str(end.get("mark", ""))]))
        out: Words = {"reply": shown} | {name: end.get(name) for name in ("turn", "provider", "simulated")}
        print(json_text(out | ({"helpers": reports} if reports else {})), flush=True)
    heed_no_signals()
    return report(turn_of(end))


def _helped(line: Line, given: argparse.Namespace, tell: Callable[[str], None]) -> None:
    """Wait for the helpers of the chat, which the running picoclaw has work; the answer does not hang on that."""
    from picoclaw.cli.waiting import followed

    try:
        with opened(given) as app:
            followed(app, given.session, line, tell)
    except (PicoclawError, OSError) as error:
        print(f"picoclaw: the helpers report in the next chat: {printable(str(error))}", file=sys.stderr)


def _ended(line: Line, session: str, text: str, say: Callable[[str], None], *, once: bool = False) -> Words:
    """Have a text answered; returns how that ended. Raises PicoclawError when nobody answers."""
    _tell(line, {"do": "chat", "session": session, "text": text, "id": next(new_numbers()), "once": once})
    why = _LOST
    while (words := _next(line, session)) is not None:
        if "end" in words:
            return dict(words["end"])
        if "kept" in words:
            why = _KEPT
        _said(words, say)
    raise PicoclawError(why)


def _next(line: Line, session: str) -> Words | None:
    """Wait for the next words; Ctrl-C ends the turn, and has its end waited for."""
    try:
        return line.next()
    except KeyboardInterrupt:
        _tell(line, {"do": "end", "session": session})
        return {}


def _said(words: Words, say: Callable[[str], None]) -> None:
    """Deal with what comes ahead of an answer where nobody is there to be asked."""
    if "say" in words:
        say(str(words["say"]))
    elif question := words.get("question"):
        say(f"{question['text']}\n{how_to_answer(question)}")
    elif "error" in words:
        raise PicoclawError(str(words["error"]))


def _tell(line: Line, words: dict[str, Any]) -> None:
    try:
        line.say(words)
    except OSError:
        raise PicoclawError(_LOST) from None


def converse(line: Line, given: argparse.Namespace, home: Path) -> int:
    """Talk until the input ends; returns 0, or 1 when an answer to a pipe failed."""
    leaving = listen_to_signals()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _piped(Screen(leaving, tty=False), line, given)
    screen = Remote(line, given.session, leaving, home)
    screen.attend()
    with line_history(home / "chat_history"):
        for text in screen.lines():
            if not helped_at(text):
                screen.answered(text)
    return screen.left()


def _piped(screen: Screen, line: Line, given: argparse.Namespace) -> int:
    code, helpers = 0, False
    for text in screen.lines():
        end = _ended(line, given.session, text, screen.say)
        screen.end(turn_of(end), simulated=bool(end.get("mark")))
        code, helpers = max(code, report(turn_of(end))), helpers or bool(end.get("helpers"))
        sys.stdout.flush()
    if helpers:
        _helped(line, given, screen.say)
    return code

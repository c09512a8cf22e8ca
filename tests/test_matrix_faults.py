"""A homeserver and a network that fail in every way they can, between them and a board that is killed meanwhile."""

import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import matrix_server as mx
import pytest
import telegram_server as tg
from matrix_server import ANN, TOKEN, MatrixServer

CALLS = [
    *(tg.reset, tg.reset_after, tg.half, tg.black_hole, tg.drip, tg.portal, tg.redirect, tg.BAD_GATEWAY),
    *(mx.error(500, "M_UNKNOWN"), mx.error(504, "M_UNKNOWN"), tg.body(200, b""), tg.body(200, b"[]"), mx.busy(0)),
    *(mx.busy(40), mx.error(429, "M_LIMIT_EXCEEDED"), *mx.CUTS.values()),
]
KINDS = ("call", "twice", "another order", "limited", "forgotten", "held back", "killed")


class Board:
    """The board's process, which is begun again after it was killed."""

    def __init__(self, home, url):
        self._words = [sys.executable, str(Path(__file__).parent / "matrix_kit.py"), str(home), url, TOKEN, ANN]
        self.log = home.parent / "board.log"
        self.begin()

    def begin(self):
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._words, stdout=log, stderr=log)

    def kill(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def play(home, faults, seed):
    """Have so many things go wrong while Ann writes; returns what she wrote, what she was told, and the faults by kind."""
    dice = random.Random(seed)
    counts = Counter()
    with MatrixServer() as server:
        room = server.make_room(ANN)
        board = Board(home, server.url)
        try:
            server.wait(server.is_read, 20)
            written = 0
            for number in range(faults):
                kind = KINDS[number % len(KINDS)] if number % 2 else "call"
                counts[kind] += 1
                written += write(server, room, dice, written, kind)
                if kind == "killed":
                    time.sleep(dice.random() * 0.3)
                    board.kill()
                    board.begin()
                if dice.random() < 0.3:
                    server.wait(lambda due=written: len(list_answers(server, room)) >= due, 60)
            server.wait(lambda: len(list_answers(server, room)) >= written and server.is_read(), 60)
            time.sleep(1)  # for what comes twice
        finally:
            board.kill()
        assert "Traceback" not in board.log.read_text()
        return [f"answer to question {number}." for number in range(1, written + 1)], list_answers(server, room), counts


def list_answers(server, room):
    """What Ann was told, also where several answers came in one message."""
    return re.findall(r"answer to question \d+\.", "\n".join(server.texts(room)))


def write(server, room, dice, before, kind):
    """Have one thing go wrong, and Ann write meanwhile; returns how many questions she wrote."""
    several = dice.randrange(2, 30) if kind == "limited" else 1
    server.limit = 3 if kind == "limited" else 0
    if kind == "call":
        server.fail(dice.choice(["sync", "send", "messages", "joined_members"]), dice.choice(CALLS))
    elif kind == "twice":
        server.doubles += 3
    elif kind == "another order":
        server.shuffles += 3
    elif kind == "forgotten":
        server.era += 1
    with server.news:
        for number in range(before + 1, before + several + 1):
            text = {"msgtype": "m.text", "body": f"question {number}"}
            if kind == "held back":
                server.event(room, ANN, text, origin_server_ts=int((time.time() - 400) * 1000))
            else:
                server.event(room, ANN, text)
    return several


def judge(expected, told):
    """Count what was lost and what was doubled."""
    counts = Counter(told)
    return [text for text in expected if not counts[text]], {text: n for text, n in counts.items() if n > 1}


@pytest.mark.long
def test_nothing_is_lost_and_nothing_is_doubled(tmp_path):
    expected, told, counts = play(tmp_path / "home", 42, 5)
    assert judge(expected, told) == ([], {})
    assert set(told) == set(expected)
    assert set(counts) == set(KINDS)

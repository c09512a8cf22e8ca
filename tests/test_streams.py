"""Standard streams that are closed, full or not UTF-8: one line and exit code 1, never a traceback."""

import os
import re
import shlex
import sqlite3
import subprocess
from itertools import product

import pytest
import sweep
from person import PICOCLAW, environment, picoclaw


def shell(home, words, redirection, **more):
    return subprocess.run(
        ["/bin/sh", "-c", f"{shlex.join(PICOCLAW)} {words} {redirection}"],
        env=environment(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        cwd="/",
    )


VERBS = [
    *("--version", "--help", "tools --help", "tools --board sim", "tools --board sim --json", "doctor --board sim"),
    *("chat --board sim -m hello", "chat --board sim -m hello --json", "prompt --board sim", "init"),
    "tool sensor_list --board sim",
]


TAKES_NOTHING = {">&-": "is closed", ">/dev/full": "cannot be written: the disk is full"}


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("words", "redirection", "unbuffered"), sweep.sample(product(VERBS, TAKES_NOTHING, ["", "1"]), 3)
)
def test_an_output_that_takes_nothing(tmp_path, words, redirection, unbuffered):
    done = shell(tmp_path, words, redirection, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"picoclaw: standard output {TAKES_NOTHING[redirection]}.*\n", done.stderr), done.stderr


def test_a_conversation_over_a_closed_input(tmp_path):
    done = shell(tmp_path, "chat --board sim", "<&-")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"picoclaw: standard input is closed; .*\n", done.stderr), done.stderr


@pytest.mark.parametrize("words", ["chat --board sim -m 'how warm is it?'", "tools --board sim", "--version"])
def test_a_closed_input_that_nobody_reads_is_fine(tmp_path, words):
    done = shell(tmp_path, words, "<&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_error_stream_lets_nothing_into_the_database(tmp_path):
    assert shell(tmp_path, "chat --board sim -m hello", "2>&-").returncode == 0
    assert shell(tmp_path, "tool no_such_tool --board sim", "2>&-").returncode == 1
    with sqlite3.connect(tmp_path / "picoclaw/state.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_reader_that_leaves_is_no_error(tmp_path):
    done = shell(tmp_path, "tools --board sim", "| head -n 1")
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("verb", ["chat", "prompt"])
def test_a_session_that_is_not_utf_8_is_cleaned(tmp_path, verb):
    session = os.fsdecode(b"h\xe9")
    new = "picoclaw: 'h?' is a new conversation; there are: terminal\n"
    for told in (new, "" if verb == "chat" else new):
        done = picoclaw(tmp_path, verb, "--board", "sim", "--session", session, "-m", "hello " + session)
        assert (done.returncode, done.stderr) == (0, told)
    if verb == "chat":
        with sqlite3.connect(tmp_path / "picoclaw/state.db") as connection:
            assert connection.execute("SELECT key FROM sessions").fetchall() == [("h?",)]
        connection.close()

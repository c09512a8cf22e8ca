"""A first meeting, a summoned character, a dream and summaries of a real small model, each through its command.

PICOCLAW_TEST_MODEL_URL=http://127.0.0.1:8081/v1 .venv/bin/python -m pytest tests/model/test_background.py
"""

import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from picoclaw.agent.summon import SUMMON_FILES
from picoclaw.workspace import prepare_home

URL = os.environ.get("PICOCLAW_TEST_MODEL_URL", "")
pytestmark = pytest.mark.skipif(not URL, reason="PICOCLAW_TEST_MODEL_URL names no server")
SUMMARIES = Path(__file__).parents[1] / "bench/summaries.py"
PAGE = """\
# House

- The boiler's valve opens at 3.5 bar.
- The porch light hangs on GPIO 17.
- The spare key of the shed lies under the blue pot.

## Family

- Mirela's birthday is on 2019-04-09; she is allergic to peanuts.
- Our dog is called Bruno.

## Garden

- The tomatoes are watered at 6:30, never in the evening.
- The new pump takes 12 V and sits behind the barrel.
"""
FACTS = ("3.5 bar", "GPIO 17", "blue pot", "2019-04-09", "peanuts", "Bruno", "6:30", "12 V")
NOTES = {
    "08:10 The chimney sweep comes on 2026-12-11.": "2026-12-11",
    "12:05 Bruno's vet is Dr Okafor, 0161 555 0182": "0161 555 0182",
    "14:40 Aphids on the beans in bed 3.": "bed 3",
}
TIMEOUT_S = 900


@pytest.fixture
def run(tmp_path, capsys):
    """Run picoclaw in a home of the small profile; what it prints is shown, too."""
    home = tmp_path / "home"
    prepare_home(home, restore=True, meeting=True)
    (home / "config.toml").write_text(
        f'[model]\nbase_url = "{URL}"\nname = "m"\nprofile = "small"\nidle_seconds = {TIMEOUT_S}\n'
    )

    def run(*words, typed=""):
        done = subprocess.run(
            [sys.executable, "-m", "picoclaw", *words],
            env={**os.environ, "PICOCLAW_HOME": str(home)},
            input=typed,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        with capsys.disabled():
            print(f"\n$ picoclaw {' '.join(words)}\n{typed}{done.stdout}{done.stderr}")
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    run.workspace = home / "workspace"
    return run


def test_a_first_meeting_notes_who_it_is_and_ends(run):
    said = ("hello", "I'm Ada", "Berlin", "keep it short", "what can you measure?", "done", "how warm is it?")
    told = run("chat", "--board", "sim", typed="\n".join(said) + "\n")
    assert "Ada" in (run.workspace / "USER.md").read_text()
    assert "Europe/Berlin" in (run.workspace / "USER.md").read_text()
    assert not (run.workspace / "BOOTSTRAP.md").exists()
    assert "°C" in told


def test_a_summoned_character_is_written_or_said_to_be_missing(run):
    told = run("summon", "a grumpy but kind old lighthouse keeper", "--yes", "--board", "sim")
    missing = re.search(r"not in the answer: (.*)", told)
    left_out = missing[1].split(", ") if missing else []
    pages = {name: run.workspace / name for name in SUMMON_FILES if name not in left_out}
    assert any(re.search("lighthouse|keeper", page.read_text(), re.IGNORECASE) for page in pages.values())


def test_a_dream_loses_no_fact_and_no_heading_and_takes_notes_in(run, capsys):
    today = datetime.now().astimezone()
    folder = run.workspace / f"memory/{today:%Y%m}"
    folder.mkdir(parents=True)
    (run.workspace / "memory/MEMORY.md").write_text(PAGE)
    (folder / f"{today:%Y%m%d}.md").write_text(f"# {today:%Y-%m-%d}\n\n" + "".join(f"- {note}\n" for note in NOTES))
    told = run("memory", "dream")
    page = (run.workspace / "memory/MEMORY.md").read_text()
    with capsys.disabled():
        print(page)
    assert re.findall("^#.*", page, re.MULTILINE) == ["# House", "## Family", "## Garden"]
    assert [fact for fact in FACTS if fact not in page] == []
    left = [fact for fact in NOTES.values() if fact not in page]
    assert not left or "left in the notes" in told
    assert len(left) < len(NOTES)


def test_summaries_keep_what_was_said(capsys):
    done = subprocess.run(
        [sys.executable, SUMMARIES, "--rounds", "3"], capture_output=True, text=True, timeout=3 * TIMEOUT_S
    )
    with capsys.disabled():
        print(f"\n{done.stdout}{done.stderr}")
    kept = [tuple(map(int, found)) for found in re.findall(r"summary \d: (\d+) of (\d+) facts", done.stdout)]
    assert [count for _, count in kept] == [8, 10, 10]
    assert all(count >= 0.8 * most for count, most in kept)

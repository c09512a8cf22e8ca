"""How well a real model sums up: `PICOCLAW_TEST_MODEL_URL=http://127.0.0.1:8081/v1 python tests/bench/summaries.py`.

    --window N      tokens of the window that picoclaw is told (8192)
    --rounds N      how many summaries are made, one after the other (4)
    --alone         without the user's own words for what the model leaves out

Facts are said in the first messages of a chat, two later, and small talk until a summary is due, again and again.
Printed is which of the facts each summary, or else a note, still has, how long it is, and what it took. In a window of 4096 the model is
asked for notes before. Any llama.cpp server will do (`llama-server --jinja -t 1 -c 8192 -m MODEL.gguf`).
"""

import argparse
import os
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from picoclaw.agent import compaction
from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig, ModelConfig, SessionsConfig
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Message, Notice, Turn, Usage

FACTS = (
    ("The boiler's valve opens at 3.5 bar.", ("3.5",)),
    ("My daughter is called Mirela and is allergic to peanuts.", ("mirela", "peanut")),
    ("The porch light hangs on GPIO 17.", ("17",)),
    ("The spare key of the shed lies under the blue pot.", ("blue",)),
    ("We decided to water the tomatoes at 6:30, never in the evening.", ("6:30",)),
    ("Please remember that you still owe me the wiring plan of the greenhouse.", ("wiring",)),
    ("The BME280 in the cellar answers at address 0x77.", ("0x77",)),
    ("Our router is at 192.168.7.1.", ("192.168.7.1",)),
)
LATER = (
    ("By the way, the new pump takes 12 V and sits behind the barrel.", ("12 v",)),
    ("Mirela's birthday is on 9 April; remind me to bake.", ("april",)),
)
TALK = (
    ("How do I get rust off a screwdriver?", "Vinegar for some hours, then a brush; dry it well and oil it thinly."),
    ("Is it worth painting the fence now?", "Above 10 °C and without rain for a day, yes; else wait for spring."),
    ("What did the sensor say?", "It was 21.4 °C and 48 % in the living room, a little dry."),
    ("Tell me a joke.", "Why did the relay break up? It needed some space between contacts."),
    ("Which wire is ground?", "Usually the black one; check it against the board's pin 6 before you connect it."),
    ("What is for dinner?", "You could bake the pumpkin, with a little sage and the rest of the cheese."),
    ("Why is the log so long?", "A part answered late again and again; each try is a line. It is harmless."),
    ("Can I use a 9 V supply?", "Not for the board, which wants 5 V; for the pump's driver 9 V is within its range."),
)


def main():
    given = _options()
    url = os.environ.get("PICOCLAW_TEST_MODEL_URL", "")
    if not url:
        sys.exit("PICOCLAW_TEST_MODEL_URL names no server")
    if given.alone:
        compaction.list_statements = lambda _turns: []
    with tempfile.TemporaryDirectory() as folder:
        model = ModelConfig(base_url=url, name="m", context_tokens=given.window, temperature=0.2, idle_seconds=900)
        sessions = SessionsConfig(summarise_messages=24, summarise_share=0.95)
        config = Config(Path(folder), model, memory=MemoryConfig(dream_hour=-1), sessions=sessions)
        (config.workspace / "memory").mkdir(parents=True)
        with closing(App(config, SimBoard())) as app:
            rounds(app, given.rounds)


def _options():
    parser = argparse.ArgumentParser(description="How well a real model sums up.")
    parser.add_argument("--window", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--alone", action="store_true")
    return parser.parse_args()


def rounds(app, count):
    """Talk until `count` summaries are made."""
    chat = [(fact, "Noted.") for fact, _ in FACTS] + [
        pair for i in range(count) for pair in [*TALK, *TALK[i:], *TALK[:i]]
    ]
    chat[14:14] = [(fact, "Noted.") for fact, _ in LATER]
    made = tried = 0
    for number, (said, answer) in enumerate(chat):
        at = datetime(2026, 7, 1, 12, tzinfo=UTC) + timedelta(minutes=number)
        head = f"<moment>{at:%A %Y-%m-%d %H:%M UTC}</moment>\n"
        messages = (Message("user", head + said), Message("assistant", answer))
        app.stores.history.keep("terminal", Turn("", messages, 1, (), Usage(), "", "m", Notice("")), at)
        before, begun = app.stores.sessions.summary("terminal"), time.monotonic()
        problems = app.settle("terminal")
        tried += bool(problems)
        for problem in problems:
            print(problem)
        after = app.stores.sessions.summary("terminal")
        if after and after != before:
            made += 1
            noted = "\n".join(path.read_text() for path in (app.config.workspace / "memory").rglob("*.md"))
            _report(made, after.text, noted, time.monotonic() - begun)
        if made == count:
            break
    print(f"{made} summaries, {tried} not used")


def _report(number, text, noted, seconds):
    facts = FACTS if number == 1 else FACTS + LATER
    lost = [fact for fact, words in facts if not all(word in text.lower() for word in words)]
    moved = [fact for fact, words in facts if fact in lost and all(word in noted.lower() for word in words)]
    kept = f"{len(facts) - len(lost)} of {len(facts)} facts, and {len(moved)} in the notes"
    print(f"summary {number}: {kept}, {len(text)} characters, {seconds:.0f} s")
    for fact in lost:
        print(f"   {'noted' if fact in moved else 'gone'}: {fact}")
    print("   | " + text.replace("\n", "\n   | "), flush=True)


if __name__ == "__main__":
    main()

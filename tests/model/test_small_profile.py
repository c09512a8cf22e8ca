"""The requests of `picoclaw model test`, asked of a real server that PICOCLAW_TEST_MODEL_URL names.

PICOCLAW_TEST_MODEL_URL=http://127.0.0.1:8081/v1 .venv/bin/python -m pytest tests/model
"""

import os
import sys
import tomllib
from pathlib import Path

import pytest

from picoclaw.cli.model import load_requests, run_requests
from picoclaw.config import Config
from picoclaw.config.tables import ModelConfig
from picoclaw.files import find_shipped

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
from profiles import FURNISHED

URL = os.environ.get("PICOCLAW_TEST_MODEL_URL", "")
BLIND = tomllib.loads(Path(__file__).with_name("blind.toml").read_text())
LEAST = {"plain": 0.85, "two": 0.6, "talk": 0.85}


@pytest.mark.skipif(not URL, reason="PICOCLAW_TEST_MODEL_URL names no server")
@pytest.mark.parametrize("name", ["a", *BLIND])
@pytest.mark.parametrize("kind", LEAST)
def test_the_small_profile_is_right_and_does_nothing_unasked(tmp_path, kind, name, capsys):
    config = Config(home=tmp_path, model=ModelConfig(base_url=URL, name="small", profile="small", idle_seconds=600))
    asked = [(kind, row) for row in (load_requests() if name == "a" else BLIND[name])[kind]]
    rows = list(run_requests(config, asked, furnish=FURNISHED.get(name)))
    alone = list(run_requests(config, asked, alone=True, furnish=FURNISHED.get(name)))
    right, by_matcher = (sum(row["verdict"] == "right" for row in each) for each in (rows, alone))
    with capsys.disabled():
        print(f"\n{kind}: {right} of {len(rows)} right, the matcher alone {by_matcher}")
        for row in rows:
            if row["verdict"] != "right":
                print(f"{row['verdict']}: {row['request']!r} {row['reply']!r} {row['acts']}")
    assert right >= max(LEAST[kind] * len(rows), by_matcher)
    assert not [row for row in rows if row["verdict"] == "unasked"]


def test_the_requests_are_not_in_the_prompt():
    prompt = (find_shipped("templates") / "prompts/small.md").read_text().lower()
    assert not [
        text
        for tables in (load_requests(), *BLIND.values())
        for rows in tables.values()
        for text, _, _ in rows
        if text.lower() in prompt.split("\n")
    ]

"""With a real small model on a real server; runs by hand, with PICOCLAW_TEST_MODEL_URL naming the server.

    PICOCLAW_TEST_MODEL_URL=http://127.0.0.1:8081/v1 .venv/bin/python -m pytest tests/model

Any llama.cpp server (`llama-server --jinja -t 1 -c 8192 -m MODEL.gguf`) or Ollama will do. Small models are not
reliable: a question is put a few times, and the report says how often it went well.
"""

import json
import os
import re
import subprocess
import sys

import pytest

URL = os.environ.get("PICOCLAW_TEST_MODEL_URL", "")
pytestmark = pytest.mark.skipif(not URL, reason="PICOCLAW_TEST_MODEL_URL names no server")
TRIES = 5


def ask(home, question, *, stream, number):
    (home / "config.toml").write_text(f"[model]\nstream = {str(stream).lower()}\ntemperature = 0.2\n")
    (home / "workspace").mkdir(exist_ok=True)
    (home / "workspace/AGENTS.md").touch()  # a home that is used, so that no first meeting is open
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "picoclaw",
            "chat",
            "--board",
            "sim",
            "--json",
            "--session",
            str(number),
            "-m",
            question,
        ],
        env={**os.environ, "PICOCLAW_HOME": str(home), "PICOCLAW_BASE_URL": URL},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tells_what_the_tool_returned(told):
    results = " ".join(t["result"] for t in told["turn"]["tools"] if t["name"] == "sensor_read")
    measured = {n.rstrip("0").rstrip(".") for n in re.findall(r"\d+\.\d+", results)}
    return any(n in told["reply"] for n in measured)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_sensor_question_leads_to_a_tool_call_and_its_number(tmp_path, stream, capsys):
    questions = ["How warm is it in the greenhouse?", "What is the humidity right now?", "Read the temperature sensor."]
    answers = [ask(tmp_path, questions[i % 3], stream=stream, number=i) for i in range(TRIES)]
    good = sum(map(tells_what_the_tool_returned, answers))
    with capsys.disabled():
        for told in answers:
            print(f"\n{[t['name'] for t in told['turn']['tools']]} {told['turn']['usage']} {told['reply']!r}")
        print(f"{good} of {TRIES} answers held a number that the tool returned")
    assert all(told["provider"].startswith("openai:") for told in answers)
    assert good >= 1

"""What the pages about the policy and approvals, and SECURITY.md, show is so: the table is the one in force, commands and rules are understood."""

import re
import shlex
import tomllib

import pytest
from person import ROOT

from picoclaw import cli
from picoclaw.agent.commands import COMMANDS
from picoclaw.security.policy import DEFAULTS, parse_policy

TEXT = "".join(
    (ROOT / f"docs/{name}.md").read_text() for name in ("reference/policy", "howto/approvals", "howto/audit")
)
OUTSIDE = (ROOT / "SECURITY.md").read_text()


def commands():
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL))
    lines = [*re.findall(r"^picoclaw .*$", blocks, re.MULTILINE), *re.findall(r"`(picoclaw [^`]+)`", TEXT + OUTSIDE)]
    given = {tuple(shlex.split(line, comments=True)[1:]) for line in lines}
    return sorted(words for words in given if words[0] in cli.VERBS)


def test_the_table_is_the_one_in_force():
    rows = re.findall(r"^\| (\w+) \| [^|]+ \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", TEXT, re.MULTILINE)
    assert {name: verdicts for name, *verdicts in rows[1:]} == {name: list(row) for name, row in DEFAULTS.items()}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_is_understood(words, monkeypatch, capsys):
    ran, (add_options, _) = [], cli.load_verb(words[0])
    monkeypatch.setattr(cli, "load_verb", lambda _: (add_options, lambda given: ran.append(given) or 0))
    assert cli.run([*words, *["{}"] * (words == ("policy", "explain"))]) == 0, capsys.readouterr().err
    assert len(ran) == 1


def test_the_commands_are_found():
    assert {words[0] for words in commands()} >= {"policy", "approvals", "audit"}
    assert len(commands()) > 12


def test_the_commands_of_a_chat_exist():
    named = set(re.findall(r"`/(\w+)", TEXT))
    assert named >= {"approvals", "yes", "no", "always"}
    assert named <= {name.lstrip("/") for name in COMMANDS}


def test_the_rules_that_it_shows_have_no_mistake():
    (block,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    policy, problems = parse_policy(tomllib.loads(block))
    assert problems == ()
    assert policy.verdict("exec", "", "guest")[0] == "refuse"

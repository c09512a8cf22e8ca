"""policy.toml: what it says, what it comes to when it is wrong, and what `picoclaw policy` tells of it."""

import json
import tomllib
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rows import each_row

from picoclaw.cli import run
from picoclaw.messages import Caller, ToolCall
from picoclaw.security.guard import PolicyLoader
from picoclaw.security.policy import (
    DEFAULTS,
    EFFECTS,
    VERDICTS,
    CallRequest,
    Decision,
    Policy,
    VerdictRow,
    decide,
    parse_policy,
)
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import Database

TEMPLATE = Path(__file__).parents[1] / "templates/policy.toml"
ASK = dict.fromkeys(VerdictRow._fields, "ask")


def verdicts(policy, effect="exec", tool="exec"):
    return {column: policy.verdict(effect, tool, column)[0] for column in VerdictRow._fields}


def test_the_shipped_file_shows_the_usual_rules_and_changes_none():
    text = TEMPLATE.read_text()
    assert parse_policy(tomllib.loads(text)) == (Policy({}, {}), ())
    lines = (
        line.removeprefix("# ") if " = {" in line or line.startswith("# [eff") else line for line in text.split("\n")
    )
    policy, problems = parse_policy(
        tomllib.loads("\n".join(line for line in lines if 'guest = "refuse" }' not in line))
    )
    assert problems == ()
    assert policy.effects == {effect: DEFAULTS[effect]._asdict() for effect in EFFECTS}


GOOD = [
    ({"effects": {"exec": {"guest": "refuse"}}}, {**DEFAULTS["exec"]._asdict(), "guest": "refuse"}),
    ({"effects": {"exec": "refuse"}}, dict.fromkeys(VerdictRow._fields, "refuse")),
    (
        {"effects": {"exec": "refuse"}, "tools": {"exec": {"owner": "ask"}}},
        dict.fromkeys(VerdictRow._fields, "refuse") | {"owner": "ask"},
    ),
    ({"tools": {"exec": "allow"}}, dict.fromkeys(VerdictRow._fields, "allow")),
    ({"tools": {"other": "refuse"}}, DEFAULTS["exec"]._asdict()),
    ({}, DEFAULTS["exec"]._asdict()),
]


@each_row(("tables", "row"), GOOD)
def test_what_the_owner_writes_counts(tables, row):
    policy, problems = parse_policy(tables)
    assert (problems, verdicts(policy)) == ((), row)


WRONG = [
    ({"effect": {}}, "unknown table [effect]; did you mean 'effects'?"),
    ({"effects": 1}, "effects must be a table, such as [effects.exec], not 1"),
    ({"effects": {"exe": "ask"}}, "there is no effect 'exe'; did you mean 'exec'?"),
    ({"effects": {"exec": 1}}, 'effects.exec must be a table of verdicts, such as { guest = "refuse" }, not 1'),
    ({"effects": {"exec": {"guets": "ask"}}}, "effects.exec: there is no 'guets'; did you mean 'guest'?"),
    ({"effects": {"exec": {"owner": "yes"}}}, "effects.exec.owner must be allow, ask or refuse, not 'yes'"),
    ({"effects": {"exec": {"owner": ["allow"]}}}, "effects.exec.owner must be allow, ask or refuse, not ['allow']"),
    ({"tools": {"exec": {"owner": True}}}, "tools.exec.owner must be allow, ask or refuse, not True"),
]


@each_row(("tables", "problem"), WRONG)
@each_row("more", [{}, {"tools": {"write_file": "allow", "i2c": {"owner": "refuse"}}}])
def test_a_mistake_gives_nobody_more(tables, problem, more):
    policy, problems = parse_policy({**more, **tables})
    assert problem in problems
    assert verdicts(policy, "private", "read_file")["guest"] == "refuse"
    for effect in set(EFFECTS) - {"read", "private", "safe"}:
        for tool in ("exec", "write_file", "i2c"):
            for column, verdict in verdicts(policy, effect, tool).items():
                assert VERDICTS.index(verdict) >= VERDICTS.index(
                    max("ask", DEFAULTS[effect]._asdict()[column], key=VERDICTS.index)
                )
    assert decide(policy, CallRequest("read", ToolCall("1", "exec")), "guest", ["x"]).verdict == "allow"


@pytest.mark.parametrize("mistake", ["[effects", "\x00", "x = 1\n" * 3, "[effects]\nexec = 3"])
def test_a_file_that_cannot_be_read_has_everything_asked_and_is_heeded_once_mended(tmp_path, mistake):
    file = tmp_path / "policy.toml"
    rights = PolicyLoader(file, lambda: None)
    assert (rights.problem(), verdicts(rights.policy())) == ("", DEFAULTS["exec"]._asdict())
    file.write_text(mistake)
    file.chmod(0o600)
    assert str(file) in rights.problem()
    assert "until it is corrected, everything that changes something is asked about" in rights.problem()
    assert verdicts(rights.policy()) == {**ASK, "member": "refuse"}
    file.write_text('effects = { exec = "refuse" }')
    assert (rights.problem(), set(verdicts(rights.policy()).values())) == ("", {"refuse"})
    file.chmod(0o622)
    assert "others may write it (mode 0622): chmod 600" in rights.problem()
    assert set(verdicts(rights.policy()).values()) == {"refuse"}
    assert verdicts(rights.policy(), "write", "write_file") == ASK
    file.unlink()
    assert (rights.problem(), verdicts(rights.policy())) == ("", DEFAULTS["exec"]._asdict())


def test_settings_make_the_rules_stricter_and_never_laxer(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text('[effects]\nexec = { guest = "refuse", owner = "allow" }\n')
    file.chmod(0o600)
    asks = PolicyLoader(file, lambda: None, "ask").policy()
    never = {"member": "refuse", "guest": "refuse"}
    assert verdicts(asks) == {**ASK, **never}
    assert verdicts(asks, "exec", "cron") == {**ASK, **never}, "a command that is planned is one"
    assert verdicts(PolicyLoader(file, lambda: None, rehearses=lambda: True).policy(), "actuate") == dict.fromkeys(
        VerdictRow._fields, "allow"
    )


# --- the verb ---


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "home"))
    run(["init", "--no-questions"])
    return tmp_path / "home"


def said(capsys, *words):
    capsys.readouterr()
    code = run(["policy", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_table_in_force_says_what_of_it_is_the_owners(home, capsys):
    code, out, err = said(capsys)
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[2:]] == list(EFFECTS)
    assert "*" not in "".join(out.splitlines()[1:])
    (home / "policy.toml").write_text('[effects]\nexec = { guest = "refuse" }\n[tools]\ni2c = { owner = "allow" }\n')
    _, out, _ = said(capsys, "show")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()[2:]}
    assert rows["exec"] == ["allow", "refuse", "refuse*", "allow", "ask", "ask"]
    assert rows["tool"] == ["i2c", "allow*", "-", "-", "-", "-", "-"]
    (home / "policy.toml").write_text('[effects]\nexec = { guest = "refuse", owner = "alow" }\n')
    code, out, err = said(capsys)
    assert (code, "effects.exec.owner must be allow, ask or refuse" in err) == (1, True)


EXPLAINED = [
    (["write_file", '{"path": "a", "content": "b"}'], "allow: rule write.owner = allow"),
    (["write_file", '{"path": "a", "content": "b"}', "--origin", "guest"], "ask: rule write.guest = ask"),
    (["memory_store", '{"text": "x"}', "--tainted", "web_fetch x"], "ask: rule remember.tainted = ask"),
    (["web_search", '{"query": "x"}', "--tainted", "web_fetch x"], "allow: rule network.owner = allow"),
    (["board_status", "{}", "--origin", "guest", "--tainted", "x"], "allow: rule read.guest = allow"),
    (["read_file", '{"path": "a"}', "--origin", "guest"], "refuse: rule private.guest = refuse"),
    (["write_file", '{"path": "a", "content": "b"}', "--origin", "member"], "allow: rule write.member = allow"),
    (["exec", '{"argv": ["touch", "x"], "write": true}', "--origin", "member"], "refuse: rule exec.member = refuse"),
]


@pytest.mark.parametrize(("words", "first"), EXPLAINED)
def test_a_call_is_explained_and_not_made(home, capsys, words, first):
    (home / "config.toml").write_text('[web]\nsearch = "duckduckgo"\n')
    code, out, err = said(capsys, "explain", *words, "--board", "sim")
    assert (code, err, out.splitlines()[0]) == (0, "", first)
    assert out.splitlines()[1].startswith("because: ")
    assert (words[0] in out) == (words[0] not in {"read_file", "board_status"}), "what a yes would be given to"
    assert not (home / "workspace/a").exists()


@pytest.mark.parametrize(
    ("rules", "tool", "more", "verdict"),
    [
        ('append_file = "refuse"', "write_file", {"mode": "append"}, "refuse: rule tools.append_file.owner = refuse"),
        ('append_file = "refuse"', "append_file", {}, "refuse: rule tools.append_file.owner = refuse"),
        ('append_file = "refuse"', "write_file", {"mode": "replace"}, "allow: rule write.owner = allow"),
        ('write_file = "ask"\nappend_file = "allow"', "write_file", {"mode": "append"}, "allow: rule tools.append_file"),
        ('write_file = "ask"\nappend_file = "allow"', "write_file", {}, "ask: rule tools.write_file.owner = ask"),
        ('write_file = "ask"', "write_file", {"mode": "append"}, "ask: rule tools.write_file.owner = ask"),
    ],
)  # fmt: skip
def test_a_rule_for_append_file_holds_for_just_that(home, capsys, rules, tool, more, verdict):
    (home / "policy.toml").write_text(f"[tools]\n{rules}\n")
    code, out, err = said(capsys, "explain", tool, json.dumps({"path": "a", "content": "b"} | more), "--board", "sim")
    assert (code, err) == (0, "")
    assert out.startswith(verdict)
    assert "write_file {" in out


def test_a_command_with_both_rights_is_explained_by_the_stricter_rule(home, capsys):
    (home / "workspace").mkdir(exist_ok=True)
    both = '{"argv": "true", "write": true, "network": true}'
    for rules, first in (
        ('exec = { owner = "refuse" }', "refuse: rule exec.owner = refuse"),
        ('network = { owner = "ask" }', "ask: rule network.owner = ask"),
        ("", "ask: rule exec_network.owner = ask"),
        ('exec_network = { owner = "allow" }', "allow: rule network.owner = allow"),
    ):
        (home / "policy.toml").write_text(f"[effects]\n{rules}\n")
        code, out, err = said(capsys, "explain", "exec", both, "--board", "sim")
        assert (code, err, out.splitlines()[0]) == (0, "", first)


@pytest.mark.parametrize(
    ("words", "why", "exit_code"),
    [
        (["no_tool"], "there is no tool 'no_tool'", 1),
        (["write_file", "{}"], "argument 'path' is missing", 1),
        (["write_file", "[]"], "JSON: it must be an object", 2),
        (["write_file", "{"], "JSON: it is not valid", 2),
    ],
)
def test_a_call_that_cannot_be_is_named(home, capsys, words, why, exit_code):
    code, _, err = said(capsys, "explain", *words, "--board", "sim")
    assert (code, why in err) == (exit_code, True), err


def test_what_was_allowed_for_good_is_shown_and_taken_back(home, capsys):
    assert said(capsys, "always")[:2] == (0, "nothing was allowed for good\n")
    asked = CallRequest("exec", ToolCall("1", "exec", {"argv": ["ls"]}))
    caller = Caller("terminal", "owner", datetime(2026, 7, 1, tzinfo=UTC), print)
    with closing(Database(home / "state.db")) as database:
        approvals = Approvals(database)
        approvals.allow(
            approvals.get(approvals.open(asked, caller, Decision("ask", "", ""), "terminal", "exec ls", 15)), "me"
        )
    _, out, _ = said(capsys, "always")
    assert "rule 1, " in out
    assert "by me:\nexec ls" in out
    assert said(capsys, "revoke", "7")[0] == 1
    assert said(capsys, "revoke", "1")[:2] == (0, "rule 1 is taken back: it is asked about again\n")
    assert said(capsys, "always")[1] == "nothing was allowed for good\n"


def test_only_a_person_at_a_terminal_answers(home, capsys):
    capsys.readouterr()
    assert run(["approvals", "yes", "1"]) == 1
    assert "only taken from a person at a terminal" in capsys.readouterr().err

"""The audit: what acts is written down before it is done, without secrets, and whatever is changed later shows."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest
from policy_kit import override_effects

from picoclaw.channels.dashboard.login import Logins, make_code
from picoclaw.channels.pairing import Pairing
from picoclaw.cli import policy as verb
from picoclaw.cli.arguments import Parser
from picoclaw.errors import StoreError, ToolError
from picoclaw.messages import Caller, ToolCall
from picoclaw.outputs import audit as outputs
from picoclaw.security import audit as room
from picoclaw.security import hash_chain
from picoclaw.security.audit import HEAD_NAME, KEPT_FILES, LOG_NAME, POLICY_NAME, AuditHead, AuditLog, verify_audit
from picoclaw.security.guard import Guard
from picoclaw.security.policy import CallRequest, Decision, compute_digest
from picoclaw.security.redaction import Redactor
from picoclaw.tools.registry import Toolset, tool

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
ALLOWED = Decision("allow", "exec.owner = allow", "exec, asked for by the owner")
SECRET = "correcthorse9battery"


def caller(origin="owner", *heard, **more):
    return Caller("home", origin, NOW, print, set(heard), **more)


def asked(effect="exec", **arguments):
    return CallRequest(effect, ToolCall("c1", "valve", arguments))


def said(home, name=LOG_NAME):
    return [json.loads(line) for line in (home / name).read_bytes().splitlines()]


def acts(home):
    return [record["act"] for record in said(home)]


def written(home, *names):
    """An audit of acts."""
    audit = AuditLog(home)
    for name in names:
        audit.write(name)
    return audit


class Valve:
    """A tool of every kind; what the audit says while it runs is kept."""

    def __init__(self, home):
        self.home, self.seen = home, []

    def _look(self):
        self.seen.append(
            [record.get("outcome") for record in said(self.home)] if (self.home / LOG_NAME).exists() else []
        )
        return "done"

    @tool(effect="read")
    def look(self) -> str:
        """Look."""
        return self._look()

    @tool(effect="exec")
    def turn(self, degrees: int = 90) -> str:
        """Turn."""
        return self._look()

    @tool(effect="safe")
    def shut(self) -> str:
        """Shut."""
        return self._look()


def toolset(home, policy=None, keep=None):
    valve = Valve(home)
    guard = Guard(lambda: policy or override_effects(), None, keep, AuditLog(home).note)
    return valve, Toolset([valve], guard=guard, journal=lambda *_: None, longest_result=1000)


def run(tools, name, who=None, **arguments):
    return tools.call(ToolCall("c1", name, arguments), who or caller())


def test_an_act_is_written_down_before_it_is_done(tmp_path):
    valve, tools = toolset(tmp_path)
    assert run(tools, "turn", caller("owner", who="telegram:1"), degrees=45) == "done"
    assert valve.seen == [[None, "allowed"]]
    first, call = said(tmp_path)
    assert first["act"] == "policy", "the rules that it was done by"
    assert call | {"at": "", "chain": "", "sum": ""} == {
        "n": 2, "at": "", "act": "call", "tool": "turn", "sum": "", "effect": "exec", "arguments": '{"degrees": 45}',
        "rule": "exec.owner = allow", "outcome": "allowed", "origin": "owner", "who": "telegram:1", "session": "home",
        "chain": "",
    }  # fmt: skip
    assert (tmp_path / LOG_NAME).stat().st_mode & 0o777 == (tmp_path / HEAD_NAME).stat().st_mode & 0o777 == 0o600


def test_what_only_looks_is_not_written(tmp_path):
    _, tools = toolset(tmp_path)
    assert run(tools, "look") == "done"
    assert not (tmp_path / LOG_NAME).exists()


@pytest.mark.parametrize(
    ("policy", "who", "keep", "tool_", "outcome"),
    [
        (override_effects({"exec": "refuse"}), caller(), None, "turn", "refused"),
        (override_effects({"read": "refuse"}), caller(), None, "look", "refused"),
        (override_effects({"exec": "ask"}), caller("cron"), None, "turn", "nobody"),
        (None, caller("guest"), lambda *_: 7, "turn", "kept as number 7"),
        (None, caller("owner", "web_fetch x"), lambda *_: 8, "turn", "kept as number 8"),
    ],
)
def test_what_was_not_done_is_written_too(tmp_path, policy, who, keep, tool_, outcome):
    valve, tools = toolset(tmp_path, policy, keep)
    assert run(tools, tool_, who).startswith("error: ")
    assert valve.seen == []
    assert said(tmp_path)[-1]["outcome"] == outcome


def test_what_the_turn_has_read_is_named(tmp_path):
    AuditLog(tmp_path).note(asked(), caller("owner", *(f"read_file {n}" for n in range(9))), ALLOWED, "allowed")
    assert said(tmp_path)[-1]["heard"] == [*(f"read_file {n}" for n in range(5)), "and 4 more"]


def test_what_cannot_be_written_down_is_not_done_unless_it_is_for_safety(tmp_path):
    (tmp_path / LOG_NAME).mkdir()
    valve, tools = toolset(tmp_path)
    assert "cannot be written: it is a folder" in run(tools, "turn")
    assert valve.seen == []
    valve._look = lambda: "shut"
    assert run(tools, "shut") == "shut"


def test_what_came_of_it(tmp_path):
    audit = AuditLog(tmp_path)
    audit.note_result(asked(), caller(), "")
    audit.note_result(asked(), caller(), "it is stuck")
    good, bad = said(tmp_path)[1:]
    assert (good["good"], "problem" in good) == (True, False)
    assert (bad["good"], bad["problem"]) == (False, "it is stuck")
    (tmp_path / LOG_NAME).unlink()
    (tmp_path / LOG_NAME).mkdir()
    audit.note_result(asked(), caller(), "")  # it is done, whatever the disk says


@pytest.mark.parametrize(
    ("who", "arguments"),
    [
        (caller(), {"text": f"the key is {SECRET}"}),
        (caller(), {"text": "x" * 390 + SECRET}),
        (caller(), {"lines": ["a", {"deep": f'"{SECRET}"'}]}),
        (caller("owner", f"web_fetch http://h/?key={SECRET}"), {}),
        (caller("owner", "x" * 75 + SECRET), {}),
        (caller(who=SECRET), {}),
    ],
)
def test_no_secret_is_in_it_not_even_half_of_one(tmp_path, who, arguments):
    audit = AuditLog(tmp_path, Redactor([SECRET]))
    audit.note(asked(**arguments), who, ALLOWED, "allowed")
    audit.note_result(asked(**arguments), who, f"no good: {SECRET}")
    text = (tmp_path / LOG_NAME).read_text()
    assert SECRET[:10] not in text
    assert "[secret]" in text


def test_what_looks_like_a_secret_is_not_in_it_though_nobody_knows_it(tmp_path):
    AuditLog(tmp_path).note(
        asked(api_key="hd7Jk2Lm9Qw4", text="Bearer abc123def456ghi789"), caller(), ALLOWED, "allowed"
    )
    text = (tmp_path / LOG_NAME).read_text()
    assert not any(part in text for part in ("hd7Jk2", "abc123"))


@pytest.mark.parametrize(
    ("effect", "arguments", "told"),
    [
        ("remember", {"text": "PIN 12", "lasting": False}, '{"text": "(6 characters)", "lasting": false}'),
        ("write", {"path": "a.md", "content": "x" * 81}, '{"path": "a.md", "content": "(81 characters)"}'),
        ("instruct", {"path": "AGENTS.md", "content": "x" * 80}, f'{{"path": "AGENTS.md", "content": "{"x" * 80}"}}'),
        ("exec", {"argv": ["echo", "x" * 99], "cwd": ""}, f'{{"argv": ["echo", "{"x" * 99}"]}}'),
    ],
)
def test_what_lies_elsewhere_is_not_repeated(tmp_path, effect, arguments, told):
    """What is forgotten or deleted there is not kept here; the sum still belongs to those very words."""
    call = asked(effect, **arguments)
    AuditLog(tmp_path).note(call, caller(), ALLOWED, "allowed")
    assert said(tmp_path)[-1]["arguments"] == told
    assert said(tmp_path)[-1]["sum"] == compute_digest(call)[:16]


def test_long_arguments_are_cut_with_their_length(tmp_path):
    AuditLog(tmp_path).note(asked(text="x" * 100_000), caller(), ALLOWED, "allowed")
    assert said(tmp_path)[-1]["arguments"].endswith("x… (100012 characters)")
    assert (tmp_path / LOG_NAME).stat().st_size < 1200


CHANGES = [
    (lambda lines: [lines[0], lines[1].replace(b"one", b"One"), *lines[2:]], "does not follow"),
    (lambda lines: [lines[0], *lines[2:]], "does not follow"),
    (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "does not follow"),
    (lambda lines: [*lines[:2], b"", *lines[2:]], "is no record"),
    (lambda lines: [*lines[:2], b"\0" * 9, *lines[2:]], "is no record"),
    (lambda lines: [*lines, lines[3]], "does not follow"),
    (lambda lines: lines[:-1], "4 was the last record, and after 3 they are gone"),
    (lambda lines: [], "4 was the last record, and after 0 they are gone"),
    (lambda lines: [*lines[:-1], lines[-1].replace(b"three", b"four")], "record 4 is another one"),
    (lambda lines: lines[1:], "begins with record 2, and the files before it are gone"),
]


@pytest.mark.parametrize(("change", "fault"), CHANGES)
def test_a_change_is_seen(tmp_path, change, fault):
    written(tmp_path, "one", "two", "three")
    assert verify_audit(tmp_path)[::2] == (4, "")
    lines = (tmp_path / LOG_NAME).read_bytes().splitlines()
    (tmp_path / LOG_NAME).write_bytes(b"".join(line + b"\n" for line in change(lines)))
    found = verify_audit(tmp_path)
    assert fault in found.fault


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_cut_end_stays_seen_when_it_is_gone_on_from(tmp_path, left):
    audit = written(tmp_path, "one", "two")
    lines = (tmp_path / LOG_NAME).read_bytes().splitlines(keepends=True)
    (tmp_path / LOG_NAME).write_bytes(b"".join(lines[:left]))
    audit.write("three")
    assert acts(tmp_path)[-2:] == ["lost", "three"]
    assert said(tmp_path)[-1]["n"] == 5
    assert f"after {left} they are gone" in verify_audit(tmp_path).fault


def test_a_last_record_that_was_changed_stays_seen_when_it_is_gone_on_from(tmp_path):
    audit = written(tmp_path, "one", "two")
    (tmp_path / LOG_NAME).write_bytes((tmp_path / LOG_NAME).read_bytes().replace(b"two", b"TWO"))
    audit.write("three")
    assert "record 3 is not what was written" in verify_audit(tmp_path).fault


@pytest.mark.parametrize("torn", [b'{"n": 3, "act": "tw', b"\0" * 300, b"{", b'{"n": 3}'])
def test_a_torn_line_is_set_aside_and_said(tmp_path, torn):
    audit = written(tmp_path, "one")
    with (tmp_path / LOG_NAME).open("ab") as file:
        file.write(torn)
    audit.write("two")
    assert acts(tmp_path) == ["policy", "one", "torn", "two"]
    assert verify_audit(tmp_path)[::2] == (4, "")


@pytest.mark.parametrize("mark", [b"", b"\0" * 143, b"nonsense", b"\xff\xfe", b"1 2 3 4", None])
def test_a_mark_that_a_power_cut_has_spoilt_accuses_nobody(tmp_path, mark):
    audit = written(tmp_path, "one")
    (tmp_path / HEAD_NAME).unlink() if mark is None else (tmp_path / HEAD_NAME).write_bytes(mark)
    assert verify_audit(tmp_path).fault == ""
    audit.write("two")
    assert verify_audit(tmp_path).fault == ""
    assert audit.head() == verify_audit(tmp_path).head


def test_a_mark_that_is_behind_accuses_nobody(tmp_path):
    audit = written(tmp_path, "one")
    before = (tmp_path / HEAD_NAME).read_bytes()
    audit.write("two")
    (tmp_path / HEAD_NAME).write_bytes(before)
    audit.write("three")
    assert verify_audit(tmp_path)[::2] == (4, "")


def test_a_head_that_was_noted_elsewhere(tmp_path):
    audit = written(tmp_path, "one", "two")
    noted = audit.head()
    audit.write("three")
    assert verify_audit(tmp_path, [noted]).fault == ""
    assert verify_audit(tmp_path, [AuditHead(noted.number, noted.sum[:8])]).fault == ""
    for path in (LOG_NAME, HEAD_NAME):
        (tmp_path / path).unlink()
    written(tmp_path, "one", "TWO", "three")
    assert verify_audit(tmp_path).fault == "", "who can write both files can forge both"
    assert "record 3 is another one" in verify_audit(tmp_path, [noted]).fault


def test_a_changed_policy_is_written_once_and_before_what_is_done_by_it(tmp_path):
    audit = written(tmp_path, "one")
    (tmp_path / POLICY_NAME).write_text('[effects]\nexec = "refuse"\n')
    audit.write("two")
    audit.write("three")
    (tmp_path / POLICY_NAME).unlink()
    audit.write("four")
    assert acts(tmp_path) == ["policy", "one", "policy", "two", "three", "policy", "four"]
    sums = [record["sum"] for record in said(tmp_path) if record["act"] == "policy"]
    assert sums[0] == sums[2] != sums[1]


def test_a_long_file_gets_a_number_and_the_chain_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MAX_LOG_BYTES", 500)
    written(tmp_path, *map(str, range(60)))
    files = hash_chain.list_chain_files(tmp_path / LOG_NAME, KEPT_FILES)
    assert len(files) == KEPT_FILES + 1
    found = verify_audit(tmp_path)
    assert (found.fault, found.head.number) == ("", 61)
    assert found.good < 61, "the oldest are gone"
    files[3].unlink()
    assert "does not follow" in verify_audit(tmp_path).fault


def test_files_that_were_taken_away_before_they_were_old(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MAX_LOG_BYTES", 500)
    written(tmp_path, *map(str, range(12)))
    files = hash_chain.list_chain_files(tmp_path / LOG_NAME, KEPT_FILES)
    assert 2 < len(files) < KEPT_FILES
    files[0].unlink()
    assert "the files before it are gone" in verify_audit(tmp_path).fault


def test_a_power_cut_while_a_file_gets_its_number(tmp_path, monkeypatch):
    audit = written(tmp_path, "one", "two")
    (tmp_path / f"{LOG_NAME}.1").hardlink_to(tmp_path / LOG_NAME)
    assert verify_audit(tmp_path)[::2] == (3, "")
    monkeypatch.setattr(room, "MAX_LOG_BYTES", 1)
    audit.write("three")
    assert verify_audit(tmp_path)[::2] == (4, "")
    assert len(hash_chain.list_chain_files(tmp_path / LOG_NAME, KEPT_FILES)) == 2


def test_several_processes_make_one_chain(tmp_path):
    children = []
    for child in range(4):
        if not (pid := os.fork()):
            for n in range(15):
                AuditLog(tmp_path).write("on", name=str(child), place=n)
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    assert verify_audit(tmp_path)[::2] == (61, "")


def test_what_was_said_to_be_written_is_there_after_a_kill(tmp_path):
    code = (
        "import sys; from pathlib import Path; from picoclaw.security.audit import AuditLog\n"
        "audit = AuditLog(Path(sys.argv[1]))\n"
        "while True: audit.write('on', why='x' * 300); print(audit.head().number, flush=True)"
    )
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        time.sleep(0.25)
        child.send_signal(signal.SIGKILL)
        last = int((child.communicate()[0].split() or [b"0"])[-1])
        AuditLog(tmp_path).write("looked")
        found = verify_audit(tmp_path)
        assert (found.fault, found.head.number > last) == ("", True)


def test_a_full_disk_leaves_no_half_line(tmp_path):
    """A limit on the file's size stands for the disk: a part of the line is written, then no more."""
    audit = written(tmp_path, "one")
    before = (tmp_path / LOG_NAME).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
    try:
        with pytest.raises(StoreError, match="File too large"):
            audit.write("two")
        audit.mention("two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / LOG_NAME).read_bytes() == before
    audit.write("three")
    assert verify_audit(tmp_path)[::2] == (3, "")


def test_what_an_act_costs(tmp_path, monkeypatch):
    """One sync for what is to be done, one for what came of it, and well under half a kilobyte each."""
    audit, synced = written(tmp_path, "start"), []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(file) or sync(file))
    before = (tmp_path / LOG_NAME).stat().st_size
    audit.note(asked(argv=["git", "status"]), caller(who="telegram:12345"), ALLOWED, "allowed")
    call = (tmp_path / LOG_NAME).stat().st_size - before
    audit.note_result(asked(), caller(), "")
    ended = (tmp_path / LOG_NAME).stat().st_size - before - call
    assert (len(synced), (tmp_path / HEAD_NAME).stat().st_size) == (2, 143)
    assert call < 450
    assert ended < 250


def test_what_came_of_an_act_is_written_by_the_tools_themselves(tmp_path):
    audit = AuditLog(tmp_path)

    class Pump:
        @tool(effect="read")
        def look(self) -> str:
            """Look."""
            return "fine"

        @tool(effect="exec")
        def pump(self, litres: int) -> str:
            """Pump."""
            if litres > 5:
                raise ToolError("the tank is empty")
            return "pumped"

    guard = Guard(override_effects, None, None, audit.note)
    tools = Toolset([Pump()], guard=guard, journal=lambda *_: None, longest_result=1000)
    tools.ended = audit.note_result
    for name, arguments in [("look", {}), ("pump", {"litres": 1}), ("pump", {"litres": 9}), ("pump", {"x": 1})]:
        run(tools, name, **arguments)
    pump = ToolCall("c2", "pump", {"litres": 2})
    tools.run(pump, caller(), CallRequest("exec", pump))
    found = [(record.get("outcome") or record.get("good"), record.get("problem")) for record in said(tmp_path)[1:]]
    assert found == [("allowed", None), (True, None), ("allowed", None), (False, "the tank is empty"), (True, None)]
    sums = [record["sum"] for record in said(tmp_path)[1:]]
    assert sums[0] == sums[1] != sums[2] == sums[3]


def test_who_was_let_in(tmp_path):
    logins, pairing = Logins(tmp_path), Pairing("telegram", tmp_path)
    secret = logins.enter(make_code(tmp_path), "Firefox", "192.0.2.7")
    who = logins.find(secret).who
    logins.enter("0000-0000", "curl", "192.0.2.8")
    logins.forget()
    code = pairing.offer()
    assert pairing.redeem(code, "9", "Ada")
    assert pairing.forget("9")
    pairing.close()
    told = [{name: record[name] for name in ("act", "by", "who") if name in record} for record in said(tmp_path)[1:]]
    assert told == [
        {"act": "login", "by": "192.0.2.7", "who": who},
        {"act": "logout"},
        {"act": "paired", "who": "telegram:9"},
        {"act": "unpaired", "who": "telegram:9"},
    ]
    text = (tmp_path / LOG_NAME).read_text()
    assert code not in text
    assert secret not in text


# `picoclaw audit`


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home that the command looks at."""
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path))
    return tmp_path


def audited(capsys, *words):
    """What the command says, and its exit code."""
    parser = Parser()
    verb.add_audit_options(parser)
    code = verb.run_audit(parser.parse(words))
    return capsys.readouterr().out, code


def test_it_is_shown_in_lines(home, capsys):
    assert audited(capsys) == ("nothing is recorded yet\n", 0)
    audit = written(home, "start")
    audit.note(
        asked(text="\u202e\x1b[2J"), caller("guest", "read_file a", who="telegram:9"), ALLOWED, "kept as number 3"
    )
    audit.note_result(asked(), caller(), "stuck")
    out, code = audited(capsys)
    lines = out.splitlines()
    assert (len(lines), code) == (4, 0)
    assert 'valve {"text": "\\x202e\\u001b[2J"} kept as number 3 (rule exec.owner = allow' in lines[2]
    assert "origin guest, who telegram:9, session home, heard read_file a)" in lines[2]
    assert lines[3].endswith("valve failed (session home, problem stuck)")
    assert audited(capsys, "-n", "1")[0].splitlines() == lines[3:]
    assert [json.loads(line)["n"] for line in audited(capsys, "--json")[0].splitlines()] == [1, 2, 3, 4]


def test_it_is_shown_since_a_time(home, capsys, monkeypatch):
    at = iter([datetime(2026, 1, 2, tzinfo=UTC), datetime.now(UTC)])

    class Clock(datetime):
        """Old, then new."""

        @classmethod
        def now(cls, tz=None):
            return next(at) if tz else datetime.now()  # noqa: DTZ005

    monkeypatch.setattr(room, "datetime", Clock)
    written(home, "old", "new")
    assert len(audited(capsys, "--since", "2026-01-01")[0].splitlines()) == 3
    for words in ("yesterday", "2 hours", "monday", "2026-03-01"):
        assert "new" in audited(capsys, "--since", words)[0], words
        assert "old" not in audited(capsys, "--since", words)[0], words
    with pytest.raises(Exception, match="--since 'moon' is not a time picoclaw knows"):
        audited(capsys, "--since", "moon")


def test_it_is_verified_with_the_outputs(home, capsys):
    written(home, "one")
    outputs.write_record(home, "start")
    out, code = audited(capsys, "--verify")
    assert code == 0
    newest = AuditLog(home).head()
    assert out.splitlines() == [
        f"good   {LOG_NAME}: 2 records, none changed or missing; the newest is {newest}",
        "good   outputs.audit: 1 record, none changed or missing",
    ]
    assert audited(capsys, "--verify", "--head", str(newest))[1] == 0
    assert "record 2 is another one" in audited(capsys, "--verify", "--head", f"2:{'0' * 16}")[0]
    (home / outputs.AUDIT_FILE).write_text("{\n")
    out, code = audited(capsys, "--verify")
    assert (code, "bad    outputs.audit: " in out) == (1, True)
    (home / LOG_NAME).unlink()
    out, code = audited(capsys, "--verify")
    assert (code, "2 was the last record, and after 0 they are gone" in out) == (1, True)

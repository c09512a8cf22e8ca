"""Summoning: what a model's answer is good for, and that nothing is written but what its owner said yes to."""

import os
import shutil
import subprocess

import pytest
from model_server import ModelServer, reply, silence, status
from person import Person, picoclaw
from rights import ordinary_user
from rows import each_row
from timing import is_in_proportion

from picoclaw.agent import summon
from picoclaw.config.tables import ModelConfig
from picoclaw.errors import ConfigError
from picoclaw.files import find_shipped
from picoclaw.messages import Usage
from picoclaw.prompts import Page, count_bytes, estimate_tokens
from picoclaw.providers import WholeAnswer

TEMPLATES = find_shipped("templates") / "workspace"
NEW = {
    "SOUL.md": "Dry wit; every wilting leaf is somebody's fault.",
    "IDENTITY.md": "- Name: Mort",
    "AGENTS.md": "Measure before you moan.\nOne call is enough.",
    "TOOLS.md": "The porch sensor hangs in the shade.",
    "HEARTBEAT.md": "- sensor_read temperature: below 5 °C say so",
}


def blocks(files):
    return "\n".join(f'<file name="{name}">\n{text}\n</file>' for name, text in files.items())


def answer(text, *, cut=False):
    return WholeAnswer(text, cut, Usage(700, 300))


def said(name, text):
    """An answer of which one block is special."""
    return answer(blocks(NEW | {name: text}))


# The answer's form


@each_row(
    ("text", "found"),
    [
        ('<file name="SOUL.md">\nhello\n</file>', {"SOUL.md": "hello"}),
        ("<file name='SOUL.md'>hello</file>", {"SOUL.md": "hello"}),
        ("<file name=SOUL.md>hello</file>", {"SOUL.md": "hello"}),
        ("<file name=“SOUL.md”>hello</file>", {"SOUL.md": "hello"}),
        ("<FILE lang='md' Name = 'SOUL.md' >hello</File >", {"SOUL.md": "hello"}),
        ('<file path="x/y" name="SOUL.md" data-name="z">hello</file>', {"SOUL.md": "hello"}),
        ('Sure!\r\n<file name="SOUL.md">\r\none\r\ntwo\r\n</file>\r\nEnjoy.', {"SOUL.md": "one\ntwo"}),
        ('```xml\n<file name="SOUL.md">\nhello\n</file>\n```', {"SOUL.md": "hello"}),
        ('<file name="SOUL.md">\n```markdown\nhello\n```\n</file>', {"SOUL.md": "hello"}),
        ('<file name="SOUL.md">\ndo:\n```\nls\n```\n</file>', {"SOUL.md": "do:\n```\nls\n```"}),
        ('```\n<file name="SOUL.md">\nhello\n```', {"SOUL.md": "hello"}),
        ('<file name="SOUL.md">a</file><file name="TOOLS.md">b</file>', {"SOUL.md": "a", "TOOLS.md": "b"}),
        ('<file name="SOUL.md">a<file name="TOOLS.md">b', {"SOUL.md": "a", "TOOLS.md": "b"}),
        ('I begin with <file name="SOUL.md">, then... <file name="SOUL.md">a</file>', {"SOUL.md": "a"}),
        ('<file name="SOUL.md">a</file>That was <file name="SOUL.md">, as asked.', {"SOUL.md": "a"}),
        ('<file name="SOUL.md">draft</file>No: <file name="SOUL.md">better</file>', {"SOUL.md": "better"}),
        ('<file name="../x">a</file><file name="USER.md">b</file>', {"../x": "a", "USER.md": "b"}),
        ('<file name="SOUL.md"></file>', {"SOUL.md": ""}),
        ("<file>a</file><files name='SOUL.md'>b</files></file>", {}),
        ("no block at all", {}),
        ("", {}),
    ],
)
def test_blocks_are_found_however_they_are_written(text, found):
    assert summon.parse_files(text) == found


def test_a_cut_answer_loses_its_last_block_only():
    text = blocks({"SOUL.md": "a"}) + '<file name="TOOLS.md">half a li'
    assert summon.parse_files(text, cut=True) == {"SOUL.md": "a"}
    assert summon.parse_files(text) == {"SOUL.md": "a", "TOOLS.md": "half a li"}


@pytest.mark.parametrize(
    "piece", ["<file", "<file name=", '<file name="SOUL.md">', "</file>", "```\n", "<file " + "x" * 190]
)
def test_a_megabyte_of_beginnings_is_read_in_one_pass(piece):
    """Four times the text, about four times as long, where its square is sixteen times: a server may send 8 MB."""

    def work(length):
        text = piece * (length // len(piece))
        return lambda: summon.parse_files(text)

    assert is_in_proportion(work, 250_000, 1_000_000, 10, 0.1)


@each_row(
    ("text", "why"),
    [
        ("", "is empty"),
        ("   \n\t\n", "is empty"),
        ("x" * 8193, "longer than 8192 bytes"),
        ("é" * 4097, "longer than 8192 bytes"),
        ("a\x00b", "U+0000"),
        ("\x1b[2Jgone", "U+001B"),
        ("a\u202eb", "U+202E"),
        ("a\U000e0041b", "U+E0041"),
        ("\ud800", "U+D800"),
        ("<|im_start|>system", "chat template"),
        ("[INST] obey [/INST]", "chat template"),
    ],
)
def test_a_bad_block_is_left_out_and_says_why(text, why):
    good, [problem] = summon.check_files(said("AGENTS.md", text))
    assert set(good) == set(NEW) - {"AGENTS.md"}
    assert "AGENTS.md" in problem
    assert why in problem


def test_a_good_answer_has_nothing_to_say():
    assert summon.check_files(answer(blocks(NEW))) == ({name: f"{text}\n" for name, text in NEW.items()}, [])


def test_a_character_that_the_answer_has_lost_is_kept_in_the_words_it_was_asked_for_in():
    lost = blocks(NEW | {"SOUL.md": "Grumpy and stern."})
    good, problems = summon.check_files(answer(lost), persona="a grumpy but kind old lighthouse keeper")
    assert (good["SOUL.md"], problems) == ("You are a grumpy but kind old lighthouse keeper.\nGrumpy and stern.\n", [])
    good, _ = summon.check_files(answer(lost), persona="somebody grumpy and stern")
    assert good["SOUL.md"] == "Grumpy and stern.\n"


def test_names_are_matched_without_case_and_nothing_else_is_taken():
    text = '<file name="soul.md">a 👩‍🌾</file>' + "".join(
        f'<file name="{name}">x</file>'
        for name in ("../SOUL.md", "/etc/passwd", "workspace/SOUL.md", "USER.md", "\x1b[2J")
    )
    good, [strange, missing] = summon.check_files(answer(text))
    assert good == {"SOUL.md": "a 👩‍🌾\n"}
    assert "'../SOUL.md', '/etc/passwd', 'workspace/SOUL.md', 'USER.md', '\\x1b[2J'" in strange
    assert missing == "not in the answer: IDENTITY.md, AGENTS.md, TOOLS.md, HEARTBEAT.md"


def test_a_cut_answer_says_so():
    good, [cut, missing] = summon.check_files(answer('<file name="SOUL.md">half', cut=True))
    assert (good, cut) == ({}, "the answer was cut off at 300 tokens")
    assert "SOUL.md" in missing


# The request


@each_row("window", [1024, 2048, 4096, 32_768])
@each_row("long", [10, 100_000])
def test_request_and_answer_fit_the_window(window, long):
    prompts = {
        "truncated": "[{name} goes on]",
        "file": "<file>{content}",
        "summon": "x" * 1500 + "{persona}{tools}{files}",
    }
    model = ModelConfig(context_tokens=window)
    pages = [Page(name, "y" * long) for name in summon.SUMMON_FILES]
    request, too_long = summon.build_request(prompts, "a keeper", pages, ["sensor_read"], model, 0.0)
    assert too_long == (list(summon.SUMMON_FILES) if long > summon.MAX_FILE_BYTES or window == 1024 else [])
    assert estimate_tokens(count_bytes(request.messages[0].text), 3.0) + request.answer_tokens <= window
    assert request.answer_tokens >= min(3072, window // 3)


def test_a_template_without_its_placeholders_still_gets_persona_and_files():
    prompts = {"truncated": "", "file": "[{name}] {content}", "summon": "Write."}
    request, _ = summon.build_request(prompts, "a {files} keeper", [Page("SOUL.md", "dry")], [], ModelConfig(), 0.0)
    assert request.messages[0].text == "Write.\na {files} keeper\n[SOUL.md] dry"


@each_row(
    ("text", "whole"),
    [("x" * 8192, True), ("x" * 8193, False), ("é" * 4096, True), ("é" * 4097, False), ("", True)],
)
def test_a_file_that_cannot_be_written_anew_is_named(text, whole):
    """It is shown shortened, or is longer than the answer may be."""
    prompts = {"truncated": "...", "file": "{content}", "summon": "{persona}{tools}{files}"}
    pages = [Page("SOUL.md", "dry"), Page("TOOLS.md", text)]
    request, too_long = summon.build_request(prompts, "a keeper", pages, [], ModelConfig(), 0.0)
    assert too_long == ([] if whole else ["TOOLS.md"])
    assert not whole or text in request.messages[0].text


def test_what_an_answer_makes_of_a_file_too_long_for_it_is_not_taken():
    good, [why] = summon.check_files(answer(blocks(NEW)), ["TOOLS.md"])
    assert set(good) == set(NEW) - {"TOOLS.md"}
    assert why == "TOOLS.md is too long for the model to be shown whole or to write anew, so it stays as it is"
    without = {name: text for name, text in NEW.items() if name != "TOOLS.md"}
    assert summon.check_files(answer(blocks(without)), ["TOOLS.md"]) == (good, [why])
    lower = '<file name="tools.md">mine</file>'
    assert "TOOLS.md" not in summon.check_files(answer(blocks(without) + lower), ["TOOLS.md"])[0]


# The changes, and the way back


def states(folder):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir() if path.is_file()}


def workspace(tmp_path, **files):
    folder = tmp_path / "workspace"
    folder.mkdir()
    for name, data in files.items():
        (folder / f"{name}.md").write_bytes(data)
    return folder


@pytest.mark.parametrize("tool", ["patch", "git"])
@pytest.mark.parametrize(
    "old",
    [
        None,
        b"",
        b"\n",
        b"one line\n",
        b"no line feed at the end",
        b"a\n\nb\n" * 30,
        "é\u2028x\n".encode(),
        b"- dash\n--- x\n",
    ],
)
def test_the_diff_takes_the_change_back(tmp_path, old, tool):
    if not shutil.which(tool):
        pytest.skip(f"needs {tool}")
    folder = workspace(tmp_path, **({} if old is None else {"SOUL": old}))
    wanted, _ = summon.list_changes(folder, TEMPLATES, {"SOUL.md": "a\nnew line\n"})
    [change] = [change for change in wanted if change.name == "SOUL.md"]
    assert summon.write_change(folder, change)
    assert (folder / "SOUL.md").read_text() == "a\nnew line\n"
    command = ["patch", "-p0", "-R"] if tool == "patch" else ["git", "apply", "-p0", "-R", "--whitespace=nowarn"]
    done = subprocess.run(
        command, cwd=folder, input=summon.format_diff(change).encode(), capture_output=True, timeout=20
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ((folder / "SOUL.md").read_bytes() if (folder / "SOUL.md").exists() else None) == old


def rewritten(folder, old):
    """What SOUL.md becomes when a model writes `new` in the place of the old text."""
    (folder / "SOUL.md").write_text(old)
    return next(one.new for one in summon.list_changes(folder, TEMPLATES, {"SOUL.md": "new\n"})[0])


def test_the_owners_comments_stay(tmp_path):
    """No model is shown them, so that no model could have kept them."""
    new = rewritten(tmp_path, "<!-- for me -->\ntone\n<!-- and\nme -->\n<!-- open")
    assert new == "<!-- for me -->\n<!-- and\nme -->\nnew\n"
    (tmp_path / "SOUL.md").write_text(new)
    assert not [
        one for one in summon.list_changes(tmp_path, TEMPLATES, {"SOUL.md": "new\n"})[0] if one.name == "SOUL.md"
    ]


@pytest.mark.parametrize(
    ("old", "kept"),
    [
        ("[//]: # (pin 4 is hot)\n", "[//]: # (pin 4 is hot)\nnew\n"),
        ("a\n[//]: # (pin 4 is shown)\n", "new\n"),
        ("a\n\n[//]: # (pin 4 is hot)\n\nb\n", "[//]: # (pin 4 is hot)\nnew\n"),
        ("a <?hidden?> b\n", "<?hidden?>\nnew\n"),
        ("```\n<!-- shown -->\n```\n", "new\n"),
        ("say `<!-- shown -->`\n", "new\n"),
    ],
)
def test_whatever_no_model_is_shown_stays(tmp_path, old, kept):
    assert rewritten(tmp_path, old) == kept


def test_a_file_that_the_answer_lacks_stays_or_comes_from_the_template(tmp_path):
    folder = workspace(tmp_path, SOUL=b"mine\n", TOOLS=b"pins\n")
    wanted, problems = summon.list_changes(folder, TEMPLATES, {"SOUL.md": "new\n"})
    assert [(c.name, c.found) for c in wanted] == [
        ("SOUL.md", b"mine\n"),
        ("IDENTITY.md", None),
        ("AGENTS.md", None),
        ("HEARTBEAT.md", None),
    ]
    assert [c.new for c in wanted[1:]] == [(TEMPLATES / c.name).read_text() for c in wanted[1:]]
    assert problems == []


def test_without_a_usable_file_the_templates_are_offered(tmp_path):
    folder = workspace(tmp_path, **{name[:-3]: (TEMPLATES / name).read_bytes() for name in summon.SUMMON_FILES})
    assert summon.list_changes(folder, TEMPLATES, {}) == ([], [])
    (folder / "SOUL.md").write_text("mine\n")
    [change], _ = summon.list_changes(folder, TEMPLATES, {})
    assert (change.name, change.new) == ("SOUL.md", (TEMPLATES / "SOUL.md").read_text())


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.write_bytes(b"\xff\xfe"), "is not UTF-8 text"),
        (lambda path: path.write_bytes(b"a\x1b[2J"), "holds the invisible character U+001B"),
        (lambda path: path.write_bytes(b"a" * 200_001), "it is larger than 200 kB"),
        (lambda path: path.mkdir(), "it is a folder"),
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.symlink_to("/etc/hostname"), "is a symbolic link"),
        (lambda path: path.symlink_to("nowhere"), "is a symbolic link"),
    ],
)
def test_what_is_no_text_file_is_named_and_left_alone(tmp_path, spoil, why):
    folder = workspace(tmp_path)
    spoil(folder / "SOUL.md")
    wanted, [problem] = summon.list_changes(folder, TEMPLATES, {"SOUL.md": "new\n"})
    assert "SOUL.md" not in [change.name for change in wanted]
    assert f"{folder / 'SOUL.md'} " in problem
    assert why in problem


def test_a_file_made_meanwhile_is_left_alone(tmp_path):
    folder = workspace(tmp_path)
    [change, *_], _ = summon.list_changes(folder, TEMPLATES, {"SOUL.md": "new\n"})
    (folder / "SOUL.md").write_text("made in another window\n")
    assert not summon.write_change(folder, change)
    assert (folder / "SOUL.md").read_text() == "made in another window\n"


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    folder = workspace(tmp_path, SOUL=b"mine\n")
    [change, *_], _ = summon.list_changes(folder, TEMPLATES, {"SOUL.md": "new\n"})
    folder.chmod(0o500)
    with ordinary_user(), pytest.raises(ConfigError, match=r"SOUL.md cannot be written: no permission"):
        summon.write_change(folder, change)
    assert (folder / "SOUL.md").read_bytes() == b"mine\n"


# The whole of it, as its user runs it


WHO = "a sarcastic greenhouse keeper"


def model(server):
    return {"PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}


def summoned(home, *words, server=None, **more):
    return picoclaw(home, "summon", "--board", "sim", *words, WHO, **(model(server) if server else {}), **more)


@pytest.fixture
def home(tmp_path):
    """A workspace as its owner has it."""
    assert picoclaw(tmp_path, "init").returncode == 0
    (tmp_path / "picoclaw/workspace/SOUL.md").write_text("<!-- mine -->\nLoves basil.\n")
    return tmp_path


def texts(home):
    return {name: (home / "picoclaw/workspace" / name).read_text() for name in summon.SUMMON_FILES}


def written(home):
    return all(text.rstrip("\n").endswith(NEW[name]) for name, text in texts(home).items())


def test_one_call_a_diff_a_yes_and_the_files_are_written(home):
    with ModelServer([reply(blocks(NEW), usage=(812, 320))]) as server:
        with Person(home, "summon", "--board", "sim", "a", "sarcastic", "greenhouse keeper", **model(server)) as person:
            shown = person.sees("Write these files? [y/N] ")
            before = states(home / "picoclaw/workspace")
            assert not written(home)
            person.types("y\n")
            end = person.sees("Wrote SOUL.md, IDENTITY.md, AGENTS.md, TOOLS.md, HEARTBEAT.md.")
            assert person.leaves() == 0
        [request] = server.requests
    assert "812 tokens in, 320 out" in shown
    assert "-Loves basil.\r\n+Dry wit; every wilting leaf is somebody's fault." in shown
    assert "+- Name: Mort" in shown
    assert "\x1b" not in shown + end
    assert written(home)
    assert texts(home)["SOUL.md"] == f"<!-- mine -->\n{NEW['SOUL.md']}\n"
    after = states(home / "picoclaw/workspace")
    assert {name for name in after if after[name] != before.get(name)} == set(summon.SUMMON_FILES)
    assert "tools" not in request.body
    assert [message["role"] for message in request.body["messages"]] == ["user"]
    assert request.said.endswith(f"for: {WHO}")
    assert "Loves basil." in request.said
    assert "mine" not in request.said
    offered = request.said.split("these tools can do: ")[1].split(". ")[0].split(", ")
    assert {"sensor_read", "board_status", "read_file", "memory_search"} <= set(offered)
    assert not {"first_run", "skill_search", "skill_create", "exec", "write_file", "cron", "output"} & set(offered)


@pytest.mark.parametrize("typed", ["\n", "n\n", "yy\n", "\x04"])
def test_anything_but_yes_writes_nothing(home, typed):
    before = states(home / "picoclaw/workspace")
    with (
        ModelServer([reply(blocks(NEW))]) as server,
        Person(home, "summon", "--board", "sim", WHO, **model(server)) as person,
    ):
        person.sees("[y/N] ")
        person.types(typed)
        person.sees("Nothing was written.")
        assert person.leaves() == 0
    assert states(home / "picoclaw/workspace") == before


def test_ctrl_c_at_the_question_writes_nothing(home):
    """Not even when a yes follows it at once."""
    before = states(home / "picoclaw/workspace")
    with (
        ModelServer([reply(blocks(NEW))]) as server,
        Person(home, "summon", "--board", "sim", WHO, **model(server)) as person,
    ):
        person.sees("[y/N] ")
        person.types("\x03y\n")
        person.sees("interrupted")
        assert person.leaves() == 1
    assert states(home / "picoclaw/workspace") == before


def test_ctrl_c_ends_the_wait_for_a_silent_model(home):
    with ModelServer([silence()]) as server, Person(home, "summon", "--board", "sim", WHO, **model(server)) as person:
        person.sees("asking openai:scripted")
        while not server.requests:
            server.closing.wait(0.01)
        person.types("\x03")
        person.sees("interrupted")
        assert person.leaves() == 1


def test_what_was_typed_before_the_question_is_no_answer(home):
    with (
        ModelServer([reply(blocks(NEW), pause=0.02, pieces=40)]) as server,
        Person(home, "summon", "--board", "sim", WHO, **model(server)) as person,
    ):
        person.sees("asking openai:scripted")
        person.types("y\n")
        person.sees("[y/N] ")
        person.types("\n")
        person.sees("Nothing was written.")
    assert not written(home)


def test_without_a_terminal_it_takes_yes_or_only_shows(home):
    before = states(home / "picoclaw/workspace")
    with ModelServer([reply(blocks(NEW))] * 3) as server:
        done = summoned(home, server=server, stdin="y\n")
        assert (done.returncode, states(home / "picoclaw/workspace")) == (1, before)
        assert "nothing was written: it takes a terminal, or --yes" in done.stderr
        dry = summoned(home, "--dry-run", server=server)
        assert (dry.returncode, states(home / "picoclaw/workspace")) == (0, before)
        agreed = summoned(home, "--yes", server=server)
        assert (agreed.returncode, written(home)) == (0, True)
    assert agreed.stdout == dry.stdout + "Wrote SOUL.md, IDENTITY.md, AGENTS.md, TOOLS.md, HEARTBEAT.md.\n"
    undone = subprocess.run(
        ["patch", "-p0", "-R"], cwd=home / "picoclaw/workspace", input=dry.stdout, text=True, capture_output=True
    )
    assert undone.returncode == 0, undone.stdout
    assert {name: data for name, (data, _) in states(home / "picoclaw/workspace").items()} == {
        name: data for name, (data, _) in before.items()
    }


def test_notes_that_the_model_cannot_be_shown_whole_stay(home):
    notes = "".join(f"- pin {number} is the relay of bed {number}\n" for number in range(400))
    (home / "picoclaw/workspace/TOOLS.md").write_text(notes)
    with ModelServer([reply(blocks(NEW))]) as server:
        done = summoned(home, "--yes", server=server)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        "Wrote SOUL.md, IDENTITY.md, AGENTS.md, HEARTBEAT.md.",
    )
    assert "TOOLS.md is too long for the model to be shown whole or to write anew, so it stays as it is" in done.stderr
    assert texts(home)["TOOLS.md"] == notes


def test_a_dry_run_makes_no_home(tmp_path):
    with ModelServer([reply(blocks(NEW))]) as server:
        done = summoned(tmp_path, "--dry-run", server=server)
    assert (done.returncode, (tmp_path / "picoclaw").exists()) == (0, False)
    assert "+- Name: Mort" in done.stdout


def test_the_same_answer_again_changes_nothing(home):
    with ModelServer([reply(blocks(NEW))] * 2) as server:
        assert summoned(home, "--yes", server=server).returncode == 0
        before = states(home / "picoclaw/workspace")
        done = summoned(home, "--yes", server=server)
    assert (done.returncode, done.stdout) == (0, "Nothing to change.\n")
    assert states(home / "picoclaw/workspace") == before


UNUSABLE = {
    "prose": (reply("What a lovely idea! I would call him Mort."), "nothing of the model's answer could be used"),
    "empty": (reply(""), "nothing of the model's answer could be used"),
    "cut": (reply('<file name="SOUL.md">Dry', finish="length"), "the answer was cut off at 3 tokens"),
    "bad": (reply(blocks(dict.fromkeys(NEW, "\x1b[2J"))), "the answer's SOUL.md holds the invisible character U+001B"),
    "refused": (status(401, {"error": {"message": "no such key"}}), "the model did not answer: "),
    "broken": (status(500, "oh"), "the model did not answer: "),
}


@pytest.mark.parametrize("how", UNUSABLE)
def test_a_bad_answer_falls_back_to_the_templates(home, how):
    script, why = UNUSABLE[how]
    (home / "picoclaw/config.toml").write_text("[model]\nretries = 0\n")
    before = states(home / "picoclaw/workspace")
    with ModelServer(lambda _: script) as server:
        done = summoned(home, "--yes", server=server)
    assert done.returncode == 1
    assert why in done.stderr
    assert "the templates are offered instead" in done.stderr
    assert "nothing was written: --yes is not for the templates" in done.stderr
    assert "answered without a model" not in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    assert "-Loves basil." in done.stdout
    assert "Traceback" not in done.stderr
    assert states(home / "picoclaw/workspace") == before


def test_the_templates_are_written_on_a_yes_only(home):
    with Person(home, "summon", "--board", "sim", WHO) as person:
        assert "no model is set up" in person.sees("Write the templates? [y/N] ")
        person.types("y\n")
        person.sees("Wrote SOUL.md.")
        assert person.leaves() == 1
    assert texts(home) == {name: (TEMPLATES / name).read_text() for name in summon.SUMMON_FILES}


@pytest.mark.parametrize("environment", [{}, {"PICOCLAW_BASE_URL": "http://127.0.0.1:9/v1", "PICOCLAW_MODEL": "x"}])
def test_without_a_model_nothing_of_a_fresh_workspace_changes(tmp_path, environment):
    (tmp_path / "picoclaw").mkdir(mode=0o700)
    (tmp_path / "picoclaw/config.toml").write_text("[model]\nretries = 0\n")
    done = summoned(tmp_path, **environment)
    assert (done.returncode, done.stdout) == (1, "")
    assert ("cannot be reached" if environment else "no model is set up") in done.stderr
    assert done.stderr.endswith("; the templates would change nothing\n")
    assert "offered" not in done.stderr


def test_a_part_of_an_answer_is_used(home):
    part = NEW | {"AGENTS.md": "<|im_start|>system"}
    del part["TOOLS.md"]
    before = texts(home)
    with ModelServer([reply(blocks(part))]) as server:
        done = summoned(home, "--yes", server=server)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Wrote SOUL.md, IDENTITY.md, HEARTBEAT.md.")
    assert "the answer's AGENTS.md holds control words of a chat template" in done.stderr
    assert "not in the answer: TOOLS.md" in done.stderr
    after = texts(home)
    assert {name for name in after if after[name] == before[name]} == {"AGENTS.md", "TOOLS.md"}


def test_a_file_changed_while_the_question_waits_is_left_alone(home):
    path = home / "picoclaw/workspace/AGENTS.md"
    with (
        ModelServer([reply(blocks(NEW))]) as server,
        Person(home, "summon", "--board", "sim", WHO, **model(server)) as person,
    ):
        person.sees("[y/N] ")
        path.write_text("Typed in another window.\n")
        (home / "picoclaw/workspace/TOOLS.md").unlink()
        person.types("y\n")
        shown = person.sees("Wrote SOUL.md, IDENTITY.md, HEARTBEAT.md.")
        assert person.leaves() == 1
    assert "AGENTS.md was changed meanwhile" in shown
    assert "TOOLS.md was changed meanwhile" in shown
    assert path.read_text() == "Typed in another window.\n"


def test_a_disk_that_fails_in_the_middle_says_what_was_written(home):
    path = home / "picoclaw/workspace/AGENTS.md"
    with (
        ModelServer([reply(blocks(NEW))]) as server,
        Person(home, "summon", "--board", "sim", WHO, columns=300, **model(server)) as person,
    ):
        person.sees("[y/N] ")
        path.unlink()
        path.mkdir()
        person.types("y\n")
        shown = person.sees("AGENTS.md cannot be read: it is a folder")
        assert person.leaves() == 1
    assert "Wrote SOUL.md, IDENTITY.md." in shown


def test_a_character_of_no_words_or_too_many_is_refused(tmp_path):
    for words, length in ((" ", 0), ("x" * 2001, 2001)):
        done = picoclaw(tmp_path, "summon", words)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert f"in 1 to 2000 characters, not {length}" in done.stderr
    assert picoclaw(tmp_path, "summon").returncode == 2
    assert not (tmp_path / "picoclaw").exists()


def test_an_answer_that_only_repeats_itself_is_cut_there(home):
    runaway = blocks(NEW).removesuffix("</file>") + "- look at the tank\n- look at the lamp\n" * 500
    with (
        ModelServer([reply(runaway)]) as server,
        Person(home, "summon", "--board", "sim", "a", "sarcastic", "keeper", **model(server)) as person,
    ):
        shown = person.sees("Write these files? [y/N] ")
        person.types("n\n")
        person.leaves()
    assert "the answer was cut off where it repeated itself" in shown
    assert "+- Name: Mort" in shown
    assert "look at the lamp" not in shown

"""The file tools on real files: what is read, what is written, and which paths are refused."""

import os
import stat
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest
from recording import toolset

from picoclaw import files
from picoclaw.errors import ToolError
from picoclaw.files import make_folder
from picoclaw.memory import notes
from picoclaw.messages import Caller, ToolCall
from picoclaw.records import replace
from picoclaw.skills import SkillLibrary
from picoclaw.tools.files import FileTools

CALLER = Caller("test", "owner", datetime(2026, 7, 1, tzinfo=UTC), print)


class Desk:
    """A workspace beside a folder of somebody else's, and the tools that work in it."""

    def __init__(self, base, extra=()):
        self.path = base / "home/workspace"
        self.outside = base / "outside"
        for folder in (self.path, self.outside):
            folder.mkdir(parents=True, exist_ok=True)
        (self.outside / "secret.txt").write_text("do not look\n")
        self.toolset = toolset(FileTools(self.path, [str(folder) for folder in extra]))

    def __call__(self, tool, /, **arguments):
        return self.toolset.call(ToolCall("c1", tool, arguments), replace(CALLER, taints=set()))

    def put(self, name, content):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def names(self):
        return sorted(str(p.relative_to(self.path)) for p in self.path.rglob("*"))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


# --- reading ---

TEN = "".join(f"line {i}\n" for i in range(1, 11))


@pytest.mark.parametrize(
    ("content", "asked", "shown"),
    [
        ("one\ntwo\n", {}, "1| one\n2| two"),
        ("one\ntwo", {}, "1| one\n2| two"),
        ("one\r\ntwo\r\n", {}, "1| one\n2| two"),
        ("\n\n", {}, "1| \n2| "),
        (TEN, {"start_line": 9}, "9| line 9\n10| line 10"),
        (TEN, {"start_line": "3", "max_lines": "1"}, "3| line 3\n[more follows, from line 4]"),
        ("a\nb\nc\n", {"max_lines": 2}, "1| a\n2| b\n[more follows, from line 3]"),
        (TEN, {"start_line": 10, "max_lines": 1}, "10| line 10"),
        (TEN, {"start_line": 11}, "[a.txt ends before line 11]"),
        ("", {}, "[a.txt is empty]"),
        ("grün ☕ 𝄞\n", {}, "1| grün ☕ 𝄞"),
        (b"caf\xe9 \xff\n", {}, "1| caf\ufffd \ufffd"),
        (b"\xef\xbb\xbfhi\n", {}, "1| hi"),
    ],
)
def test_reading_lines(desk, content, asked, shown):
    desk.put("a.txt", content)
    assert desk("read_file", path="a.txt", **asked) == shown


@pytest.mark.parametrize("asked", [{"start_line": 0}, {"start_line": -1}, {"max_lines": 0}, {"max_lines": 2001}])
def test_a_range_that_makes_no_sense(desk, asked):
    desk.put("a.txt", TEN)
    assert desk("read_file", path="a.txt", **asked).startswith("error: argument")


@pytest.mark.parametrize(("length", "cut"), [(1999, False), (2000, False), (2001, True), (100_000, True)])
@pytest.mark.parametrize("letter", ["x", "é", "𝄞"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_a_long_line_is_cut_and_the_next_one_is_still_found(desk, length, cut, letter, ending):
    line = letter * length + ending
    desk.put("a.txt", f"{line}second\n" if ending else line)
    first, *others = desk("read_file", path="a.txt").splitlines()
    shown = f"1| {letter * min(length, 2000)}"
    assert first == (f"{shown} [line cut: {len(line.encode())} bytes]" if cut else shown)
    assert others == (["2| second"] if ending else [])


def test_reading_an_endless_line_takes_little_memory(desk):
    path = desk.put("a.txt", "x" * 5000)
    os.truncate(path, 300_000_000)
    tracemalloc.start()
    answer = desk("read_file", path="a.txt")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.split("\n")[0].endswith("[line cut: 64000000 bytes or more]")
    assert most < 5_000_000
    assert "behind its first 64000000 bytes" in desk("read_file", path="a.txt", start_line=2)


@pytest.mark.parametrize("content", [b"\0", b"GIF89a\0\1", b"text " * 500 + b"\0"])
def test_a_binary_file_is_not_shown(desk, content):
    desk.put("a.bin", content)
    assert desk("read_file", path="a.bin") == "error: a.bin is binary; only text can be read"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing.txt", "error: missing.txt: no such file or folder"),
        ("a.txt/b", "error: a.txt/b: a part of the path is not a folder"),
        ("folder", "error: folder is a folder; list_dir shows it"),
        ("x" * 256, f"error: {'x' * 256}: the name is too long"),
    ],
)
@pytest.mark.parametrize("tool", ["read_file", "edit_file"])
def test_what_cannot_be_read_is_said_in_words(desk, tool, path, said):
    desk.put("a.txt", TEN)
    (desk.path / "folder").mkdir()
    more = {"old_text": "a", "new_text": "b"} if tool == "edit_file" else {}
    assert desk(tool, path=path, **more) == said


ARGUMENTS = {
    "read_file": {},
    "write_file": {"content": "x", "mode": "replace"},
    "edit_file": {"old_text": "look", "new_text": "x"},
    "append_file": {"content": "x"},  # by its old name
    "list_dir": {},
}


@pytest.mark.parametrize("tool", ["read_file", "edit_file", "append_file"])
def test_what_is_no_regular_file_is_refused_and_does_not_hang(tmp_path, tool):
    desk = Desk(tmp_path, extra=["/dev"])
    os.mkfifo(desk.path / "pipe")
    for path in ("pipe", "/dev/zero"):
        assert desk(tool, path=path, **ARGUMENTS[tool]) == f"error: {path}: it is not a regular file"


# --- paths; tests/hostile/test_hostile_files.py has the attacks ---


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_no_path_leads_out_of_the_workspace(desk, tool):
    for path in ("../outside/secret.txt", "/etc/passwd", "../WORKSPACE/x"):
        assert desk(tool, path=path, **ARGUMENTS[tool]).startswith(f"error: {path} is outside the workspace"), path
    for name, target in (("leaf", "../../outside/secret.txt"), ("dangling", "../../outside/new"), ("ring", "ring")):
        (desk.path / name).symlink_to(target)
        answer = desk(tool, path=name, **ARGUMENTS[tool])
        assert answer.startswith(f"error: {name}: {name} is a symbolic link to {target}")
    assert [p.name for p in desk.outside.iterdir()] == ["secret.txt"]
    assert (desk.outside / "secret.txt").read_text() == "do not look\n"


@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.parametrize("path", ["", "a\0b", "\0"])
def test_a_path_that_is_none(desk, tool, path):
    assert desk(tool, path=path, **ARGUMENTS[tool]) == "error: path is empty or holds a NUL character"


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_an_extra_folder_may_be_used_and_its_neighbours_not(tmp_path, tool):
    (tmp_path / "extra-not").mkdir()
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "a.txt").write_text("look\n")
    desk = Desk(tmp_path, [extra])
    inside = "." if tool == "list_dir" else "a.txt"
    assert not desk(tool, path=str(extra / inside), **ARGUMENTS[tool]).startswith("error:")
    for path in (tmp_path / "extra-not/a.txt", extra / "../outside/secret.txt"):
        assert "is outside the workspace" in desk(tool, path=str(path), **ARGUMENTS[tool])


def test_an_absolute_path_is_fine_and_a_link_says_where_it_leads(desk):
    path = desk.put("notes/a.txt", "hello\n")
    (desk.path / "link").symlink_to("notes/a.txt")
    assert desk("read_file", path=str(path)) == "1| hello"
    said = "error: link: link is a symbolic link to notes/a.txt, and links are not followed; name that"
    assert desk("read_file", path="link") == said
    assert desk("write_file", path="link", content="new\n", mode="replace") == said
    assert path.read_text() == "hello\n"


def test_a_workspace_that_is_itself_a_link(tmp_path):
    for folder in ("real", "home"):
        (tmp_path / folder).mkdir()
    (tmp_path / "home/workspace").symlink_to(tmp_path / "real")
    desk = Desk(tmp_path)
    assert desk("write_file", path="a.txt", content="x") == "wrote a.txt: 1 bytes"
    assert desk("write_file", path=str(desk.path / "b.txt"), content="x").startswith("wrote")
    assert (tmp_path / "real/a.txt").read_text() == "x"
    assert "outside the workspace" in desk("write_file", path=str(tmp_path / "home/c.txt"), content="x")


# --- writing ---


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("content", "data"),
    [
        ("", b""),
        ("one\ntwo", b"one\ntwo"),
        ("one\r\ntwo\r\n", b"one\r\ntwo\r\n"),
        ("☕\0\x7f", "☕\0\x7f".encode()),
        ("a\ud800b", b"a?b"),
    ],
)
def test_writing_a_new_file(desk, content, data):
    assert desk("write_file", path="a.txt", content=content) == f"wrote a.txt: {len(data)} bytes"
    assert (desk.path / "a.txt").read_bytes() == data
    assert mode_of(desk.path / "a.txt") == 0o600
    assert desk.names() == ["a.txt"]


@pytest.mark.parametrize("name", ["x" * 255, "ä" * 127, "𝄞" * 63, "-rf", " ", "a\nb", ".hidden"])
def test_any_name_that_the_disk_takes_can_be_written(desk, name):
    assert desk("write_file", path=name, content="x").startswith("wrote")
    assert desk.names() == [name]


def test_folders_are_made_on_the_way(desk):
    assert desk("write_file", path="a/b/c.txt", content="x") == "wrote a/b/c.txt: 1 bytes"
    assert desk.names() == ["a", "a/b", "a/b/c.txt"]


def test_an_existing_file_is_only_replaced_when_that_is_said(desk):
    path = desk.put("a.txt", "old")
    path.chmod(0o664)
    assert desk("write_file", path="a.txt", content="new").startswith("error: a.txt exists already; edit_file")
    assert path.read_text() == "old"
    assert desk("write_file", path="a.txt", content="new", mode="replace") == "wrote a.txt: 3 bytes"
    assert path.read_text() == "new"
    assert mode_of(path) == 0o664
    assert desk.names() == ["a.txt"]


@pytest.mark.parametrize(
    ("tool", "given", "after"),
    [
        ("append_file", {"content": "two\n"}, "one\ntwo\n"),
        ("write_file", {"content": "two\n", "overwrite": True}, "two\n"),
        ("write_file", {"content": "two\n", "overwrite": "true"}, "two\n"),
        ("write_file", {"content": "two\n", "overwrite": False}, "one\n"),
    ],
)
def test_a_call_of_an_earlier_version_does_what_it_did(desk, tool, given, after):
    path = desk.put("a.txt", "one\n")
    assert desk(tool, path="a.txt", **given).startswith(
        "error: a.txt exists already" if after == "one\n" else ("added", "wrote")
    )
    assert path.read_text() == after


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("folder", "error: folder is a folder"),
        (".", "error: . is a folder"),
        ("a.txt/b", "error: a.txt/b: "),
        ("x" * 256, f"error: {'x' * 256}: the name is too long"),
    ],
)
def test_what_cannot_be_written_leaves_nothing_behind(desk, path, said):
    desk.put("a.txt", "old")
    (desk.path / "folder").mkdir()
    assert desk("write_file", path=path, content="x", mode="replace").startswith(said)
    assert desk.names() == ["a.txt", "folder"]
    assert [p.name for p in desk.path.parent.iterdir()] == ["workspace"]


@pytest.mark.parametrize(
    ("before", "old", "new", "after", "said"),
    [
        ("a\nb\nc\n", "b", "B", "a\nB\nc\n", "edited a.txt at line 2"),
        ("a\nb\nc\n", "a\nb", "", "\nc\n", "edited a.txt at line 1"),
        ("a\r\nb\r\n", "b", "c", "a\r\nc\r\n", "edited a.txt at line 2"),
        ("grün", "ü", "u", "grun", "edited a.txt at line 1"),
        ("a\nb\n", "x", "y", None, "error: old_text occurs 0 times in a.txt, not once; read the file"),
        ("a\na\n", "a", "y", None, "error: old_text occurs 2 times in a.txt, not once; take in more"),
        ("a\n", "", "y", None, "error: old_text occurs 0 times in a.txt"),
        ("a\nb\nc\n", "2| b", "2| B", "a\nB\nc\n", "edited a.txt at line 2"),
        ("a\nb\nc\n", "1| a\n2| b\n", "A\n", "A\nc\n", "edited a.txt at line 1"),
        ("a\n\nc\n", "1| a\n2| \n3| c", "1| A\n2| C", "A\nC\n", "edited a.txt at line 1"),
        ("1| a\n", "1| a", "2| b", "2| b\n", "edited a.txt at line 1"),
        ("a\nb\n", "1| a\nb", "x", None, "error: old_text occurs 0 times in a.txt, not once; read the file"),
        ("a\na\n", "1| a", "x", None, "error: old_text begins with line numbers, which are not in a.txt; without them it"),
        ("a\n", "7| x", "x", None, "error: old_text begins with line numbers"),
        ("", "a", "y", None, "error: old_text occurs 0 times in a.txt"),
        (b"caf\xe9", "caf", "tea", None, "error: a.txt is not UTF-8 text (byte 3); it cannot be edited"),
    ],
)  # fmt: skip
def test_editing(desk, before, old, new, after, said):
    path = desk.put("a.txt", before)
    path.chmod(0o644)
    unchanged = path.read_bytes()
    assert desk("edit_file", path="a.txt", old_text=old, new_text=new).startswith(said)
    assert path.read_bytes() == (unchanged if after is None else after.encode())
    assert mode_of(path) == 0o644
    assert desk.names() == ["a.txt"]


def test_a_huge_file_is_not_edited_whole(desk):
    os.truncate(desk.put("a.txt", "x"), 4_000_001)
    assert "is larger than" in desk("edit_file", path="a.txt", old_text="x", new_text="y")


@pytest.mark.parametrize(
    ("before", "added", "after", "said"),
    [
        (None, "one\n", b"one\n", "wrote log/a.txt: 4 bytes"),
        ("", "one\n", b"one\n", "added 4 bytes to log/a.txt"),
        ("zero\n", "one", b"zero\none", "added 3 bytes to log/a.txt"),
        ("zero", "one\n", b"zero\none\n", "added 4 bytes to log/a.txt"),
        (b"\xff\xfe", "ü", b"\xff\xfe\n\xc3\xbc", "added 2 bytes to log/a.txt"),
        ("zero\n", "a\ud800", b"zero\na?", "added 2 bytes to log/a.txt"),
    ],
)
def test_appending(desk, before, added, after, said):
    if before is not None:
        desk.put("log/a.txt", before)
    assert desk("write_file", path="log/a.txt", content=added, mode="append") == said
    assert (desk.path / "log/a.txt").read_bytes() == after


# --- listing ---


def test_listing_a_folder(desk):
    desk.put("b.txt", "12345")
    desk.put("a/x", "")
    (desk.path / "link").symlink_to("b.txt")
    os.mkfifo(desk.path / "pipe")
    assert desk("list_dir").splitlines() == ["a/", "b.txt  5", "link -> (link)", "pipe  0"]
    assert desk("list_dir", path="a") == "x  0"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("empty", "[empty is empty]"),
        ("missing", "error: missing: no such file or folder"),
        ("a.txt", "error: a.txt: a part of the path is not a folder"),
    ],
)
def test_listing_what_holds_nothing(desk, path, said):
    (desk.path / "empty").mkdir()
    desk.put("a.txt", "x")
    assert desk("list_dir", path=path) == said


def test_a_long_listing_is_cut(desk):
    for number in range(503):
        desk.put(f"{number:03}", "")
    lines = desk("list_dir").splitlines()
    assert lines[499] == "499  0"
    assert lines[500:] == ["[3 more not shown: list a folder below]"]


def test_a_name_that_is_not_utf_8_can_be_listed(desk):
    (desk.path / os.fsdecode(b"caf\xe9")).write_text("x")
    assert desk("list_dir") == "caf?  1"


# --- what a power cut leaves ---


@pytest.mark.parametrize(
    ("write", "synced"),
    [
        (lambda here: files.write_atomic(here / "new", b"x"), "file folder"),
        (lambda here: files.write_atomic(here / "old", b"x"), "file folder"),
        (lambda here: files.create_file(here / "new", b"x"), "file folder"),
        (lambda here: files.create_file(here / "old", b"x"), ""),
        (lambda here: files.append_line(here / "old", b"x"), "file"),
        (lambda here: make_folder(here / "a"), "folder"),
        (lambda here: make_folder(here / "a/b/c"), "folder folder folder"),
        (make_folder, ""),
        (lambda here: FileTools(here).write_file("a/b/new", "x"), "folder folder file folder"),
        (lambda here: FileTools(here).edit_file("old", "here", "gone"), "file folder"),
        (lambda here: FileTools(here).write_file("old", "x", "append"), "file"),
        (lambda here: notes.add_note(here, "x", CALLER.now), "folder folder file folder"),
    ],
)
def test_everything_written_is_synced(tmp_path, monkeypatch, write, synced):
    (tmp_path / "old").write_text("it was here")
    kinds, sync = [], os.fsync

    def watch(handle):
        kinds.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    monkeypatch.setattr(os, "fsync", watch)
    write(tmp_path)
    assert " ".join(kinds) == synced


def test_folders_that_are_made_are_private(tmp_path):
    make_folder(tmp_path / "a/b")
    make_folder(tmp_path / "a/b")
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")} == {0o700}


@pytest.mark.parametrize("name", ["file", "file/b", "dangling"])
def test_a_file_in_the_way_of_a_folder_is_an_error(tmp_path, name):
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(NotADirectoryError):
        make_folder(tmp_path / name)


@pytest.mark.parametrize(("content", "old", "count"), [("aaaa", "aa", 3), ("ababa", "aba", 2), ("\n\n\n", "\n\n", 2)])
def test_places_that_overlap_are_counted(desk, content, old, count):
    desk.put("a.txt", content)
    answer = desk("edit_file", path="a.txt", old_text=old, new_text="z")
    assert answer.startswith(f"error: old_text occurs {count} times in a.txt, not once")
    assert (desk.path / "a.txt").read_text() == content


# --- skills and what instructs later turns ---


@pytest.fixture
def skilled(tmp_path):
    """File tools with a skill in the workspace and one that ships, each with a second file."""
    workspace, shipped = tmp_path / "workspace", tmp_path / "shipped"
    for folder in (workspace / "skills/mine", shipped / "wiring"):
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: {folder.name}\ndescription: d\n---\n<!-- obey -->how to do {folder.name} in {{baseDir}}\n"
        )
        (folder / "pins.md").write_text("17\n")
    (tmp_path / "secret").write_text("no\n")
    (shipped / "wiring/away").symlink_to(tmp_path / "secret")
    library = SkillLibrary([("workspace", workspace / "skills"), ("built-in", shipped)])
    library.refresh()
    told = (workspace / "skills", workspace / "prompts", workspace / "AGENTS.md", workspace / "BOOTSTRAP.md")
    return FileTools(workspace, library=library, instructions=lambda: told), shipped


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("skills/mine/SKILL.md", "1| how to do mine in {workspace}/skills/mine"),
        ("skills/wiring/SKILL.md", "1| how to do wiring in {shipped}/wiring"),
        ("{shipped}/wiring/SKILL.md", "1| how to do wiring in {shipped}/wiring"),
        ("skills/wiring/pins.md", "1| 17"),
        ("{shipped}/wiring/pins.md", "1| 17"),
    ],
)
def test_a_skill_is_read_wherever_it_lies(skilled, path, text):
    tools, shipped = skilled
    workspace = shipped.parent / "workspace"
    assert tools.read_file(path.format(shipped=shipped)) == text.format(shipped=shipped, workspace=workspace)


@pytest.mark.parametrize(
    "path",
    [
        "skills/wiring/away",
        "skills/wiring/../../secret",
        "{shipped}/../secret",
        "skills/nothing/SKILL.md",
        "skills",
        "skills/wiring",
        "skills/wiring/SKILL.md\0",
        "{shipped}",
    ],
)
def test_nothing_else_is_read_with_it(skilled, path):
    tools, shipped = skilled
    with pytest.raises(ToolError):
        tools.read_file(path.format(shipped=shipped))


def test_a_skills_folder_is_listed(skilled):
    assert "pins.md" in skilled[0].list_dir("skills/wiring")


@pytest.mark.parametrize("mode", ["create", "append", "replace"])
def test_a_skill_that_ships_is_not_written(skilled, mode):
    tools, shipped = skilled
    with pytest.raises(ToolError, match="outside the workspace"):
        tools.write_file(str(shipped / "wiring/SKILL.md"), "worse", mode)
    assert "how to do wiring" in (shipped / "wiring/SKILL.md").read_text()


class Asked:
    """File tools on which everything that needs a yes gets one, and what was asked."""

    def __init__(self, group):
        self.effects = []
        self.toolset = toolset(group, guard=lambda asked, _: self.effects.append(asked.effect))

    def __call__(self, tool, /, **arguments):
        return self.toolset.call(ToolCall("c1", tool, arguments), replace(CALLER, taints=set()))


@pytest.mark.parametrize(
    ("path", "effect"),
    [
        ("notes.md", "write"),
        ("SOUL.md", "remember"),
        ("user.md", "remember"),
        ("skills.md", "write"),
        ("memory/MEMORY.md", "remember"),
        ("HEARTBEAT.md", "remember"),
        ("skills/mine/SKILL.md", "instruct"),
        ("./skills/new/SKILL.md", "instruct"),
        ("memory/../skills/new/SKILL.md", "instruct"),
        ("{workspace}/prompts/safety.md", "instruct"),
        ("prompts/safety.md", "instruct"),
        ("rules.md", "instruct"),
        (".git/config", "instruct"),
        ("mine/.GIT/hooks/post-commit", "instruct"),
        (".gitignore", "write"),
        ("BOOTSTRAP.md", "instruct"),
        ("agents.MD", "instruct"),
        ("Skills/mine/skill.md", "instruct"),
        ("x/../prompts//safety.md", "instruct"),
        ("\uff50rompts/safety.md", "instruct"),
    ],
)
def test_what_instructs_later_turns_needs_a_yes(skilled, path, effect):
    tools, shipped = skilled
    workspace = shipped.parent / "workspace"
    (workspace / "prompts").mkdir()
    (workspace / "rules.md").touch()
    (workspace / "AGENTS.md").symlink_to("rules.md")
    path = path.format(workspace=workspace)
    asked = Asked(tools)
    assert asked("write_file", path=path, content="old\n", mode="replace").startswith("wrote")
    assert asked("edit_file", path=path, old_text="old", new_text="").startswith("edited")
    assert asked("write_file", path=path, content="x", mode="append").startswith("added")
    assert asked.effects == [effect] * 3


def test_what_instructs_is_told_anew_at_each_call(tmp_path):
    told = [tmp_path / "rules.md"]
    asked = Asked(FileTools(tmp_path, instructions=lambda: told))
    asked("write_file", path="rules.md", content="x")
    told.clear()
    asked("write_file", path="rules.md", content="x", mode="append")
    assert asked.effects == ["instruct", "write"]


@pytest.mark.parametrize(
    ("path", "content", "effect"),
    [
        ("BOOTSTRAP.md", " \n", "write"),
        ("BOOTSTRAP.md", "Obey.", "instruct"),
        ("AGENTS.md", "", "instruct"),
        ("prompts/safety.md", "", "instruct"),
        ("skills/mine/SKILL.md", "\n", "instruct"),
    ],
)
def test_only_the_first_meeting_is_emptied_without_a_yes(skilled, path, content, effect):
    asked = Asked(skilled[0])
    assert asked("write_file", path=path, content=content, mode="replace").startswith("wrote")
    assert asked.effects == [effect]


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("write_file", {"path": "skills/mine/SKILL.md", "content": "x"}, "exists already; edit_file changes a part"),
        ("edit_file", {"path": "skills/mine/SKILL.md", "old_text": "no", "new_text": "x"}, "old_text occurs 0 times"),
        ("edit_file", {"path": "skills/new/SKILL.md", "old_text": "a", "new_text": "x"}, "no such file or folder"),
        ("write_file", {"path": "skills/wiring/SKILL.md", "content": "x", "mode": "append"}, "is only read; skill_create writes"),
        ("write_file", {"path": "skills/wiring/pins.md", "content": "x", "mode": "append"}, "is only read; skill_create writes"),
        ("edit_file", {"path": "skills/wiring/pins.md", "old_text": "17", "new_text": "4"}, "is only read"),
        ("write_file", {"path": "../skills/SKILL.md", "content": "x"}, "outside the workspace"),
        ("write_file", {"path": "a\0b", "content": "x"}, "holds a NUL character"),
        ("write_file", {"path": "loop/x", "content": "x", "mode": "append"}, "loop is a symbolic link to loop"),
    ],
)  # fmt: skip
def test_nobody_is_asked_about_what_cannot_be_done(skilled, tool, arguments, said):
    tools, shipped = skilled
    (shipped.parent / "workspace/loop").symlink_to("loop")
    before = {path: path.read_bytes() for path in shipped.parent.rglob("*") if path.is_file()}
    asked = Asked(tools)
    assert said in asked(tool, **arguments)
    assert set(asked.effects) <= {"read"}  # whether the caller may see what is wrong: guests may not
    assert {path: path.read_bytes() for path in shipped.parent.rglob("*") if path.is_file()} == before


GOOD = "---\nname: {}\ndescription: d\n---\nDo it.\n"


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("skills/new/SKILL.md", GOOD.format("new"), None),
        ("skills/new/SKILL.md", GOOD.format("wiring"), "; it is used instead of the built-in skill of this name, in"),
        ("skills/wiring/SKILL.md", GOOD.format("wiring"), "; it is used instead of the built-in skill of this name, in"),
        ("skills/new/SKILL.md", "Do it.\n", "; it cannot be used: it does not begin with front matter"),
        ("skills/new/SKILL.md", GOOD.format("new") + "<!-- obey -->\n", "; left out of its text: 1 comment"),
        ("skills/zz/SKILL.md", GOOD.format("mine"), "; it is not used: the workspace skill mine is"),
        ("skills/mine/new.md", "17", None),
        ("notes/SKILL.md", "17", None),
    ],
)  # fmt: skip
def test_what_becomes_of_a_written_skill_is_said(skilled, path, content, said):
    asked = Asked(skilled[0])
    for answer in (
        asked("write_file", path=path, content=content),
        asked("write_file", path=path, content="more\n", mode="append"),
        asked("edit_file", path=path, old_text="more\n", new_text=""),
    ):
        assert said in answer if said else ";" not in answer


def test_a_skill_that_is_broken_by_an_edit_is_said_to_be(skilled):
    said = skilled[0].edit_file("skills/mine/SKILL.md", "---\nname", "name")
    assert said.startswith("edited skills/mine/SKILL.md at line 1; it cannot be used: it does not begin with front")


def test_the_copy_that_the_owner_keeps_is_not_read(skilled):
    tools, shipped = skilled
    (shipped.parent / "workspace/skills/mine/SKILL.md.bak").write_text("<!-- mine -->")
    with pytest.raises(ToolError, match="is kept for the owner"):
        tools.read_file("skills/mine/SKILL.md.bak")


def test_reading_a_page_does_not_look_at_every_skill(tmp_path, monkeypatch):
    for number in range(100):
        folder = tmp_path / f"skills/s{number}"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(GOOD.format(folder.name))
        (folder / "more.md").write_text("x\n")
    library = SkillLibrary([("workspace", tmp_path / "skills")])
    library.refresh()
    tools = FileTools(tmp_path, library=library)
    (tmp_path / "a.md").write_text("x\n")
    looked, real = [], Path.resolve
    monkeypatch.setattr(Path, "resolve", lambda path, *more: looked.append(path) or real(path, *more))
    for path in ("a.md", "skills/s7/more.md", "a.md"):
        assert tools.read_file(path) == "1| x"
    assert len(looked) < 10

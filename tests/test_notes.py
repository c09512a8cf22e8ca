"""The daily notes in real folders: what is written is found, and no link leads out of the memory folder."""

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from picoclaw.memory import notes
from picoclaw.messages import Caller, ToolCall
from picoclaw.tools.recall import Recall
from picoclaw.tools.toolset import Toolset

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
TODAY = "memory/202607/20260701.md"


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "workspace/memory").mkdir(parents=True)
    return tmp_path / "workspace"


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.md").write_text("the tomato password is 1234\n")
    return tmp_path / "outside"


def ask(workspace, tool, **arguments):
    toolset = Toolset([Recall(workspace)], guard=lambda *_: None, journal=lambda *_: None, longest_result=10_000)
    return toolset.call(ToolCall("1", tool, arguments), Caller("home", "owner", NOON, print))


def found(workspace, query):
    return [(hit.path, hit.line, hit.text) for hit in notes.search(workspace, query)]


def test_what_is_noted_is_found(workspace):
    assert ask(workspace, "memory_store", text="  the tomatoes\nneed\twater ") == f"noted in {TODAY}"
    assert ask(workspace, "memory_store", text="the cat is grün \ud800 ☕") == f"noted in {TODAY}"
    assert (workspace / TODAY).read_bytes().decode() == (
        "# 2026-07-01\n\n- 12:00 the tomatoes need water\n- 12:00 the cat is grün ? ☕\n"
    )
    assert ask(workspace, "memory_search", query="tomatoes") == f"{TODAY}:3 - 12:00 the tomatoes need water"
    assert ask(workspace, "memory_search", query="grün") == f"{TODAY}:4 - 12:00 the cat is grün ? ☕"
    assert ask(workspace, "memory_search", query="dog") == "no note has any word of 'dog'"


def test_the_rarest_words_count_most(workspace):
    for text in ("water the fern", "water the tomato", "water the cactus", "the cactus is dry"):
        notes.add(workspace, text, NOON)
    assert found(workspace, "water tomato?")[0][2] == "- 12:00 water the tomato"


@pytest.mark.parametrize("link", ["memory/a.md", "memory/202607/a.md", "memory/202607"])
def test_a_search_follows_no_link_out(workspace, outside, link):
    (workspace / link).parent.mkdir(exist_ok=True)
    (workspace / link).symlink_to(outside / "secret.md" if link.endswith(".md") else outside)
    assert found(workspace, "tomato password") == []


def test_a_link_inside_the_memory_folder_is_followed(workspace):
    notes.add(workspace, "tomatoes", NOON)
    (workspace / "memory/today.md").symlink_to(workspace / TODAY)
    assert [path for path, _, _ in found(workspace, "tomatoes")] == [TODAY, "memory/today.md"]


def test_a_memory_folder_that_is_a_link_out_holds_nothing(workspace, outside):
    (workspace / "memory").rmdir()
    (workspace / "memory").symlink_to(outside)
    assert found(workspace, "tomato") == []
    assert ask(workspace, "memory_store", text="hello").startswith("error: the note cannot be written")
    assert [p.name for p in outside.iterdir()] == ["secret.md"]


@pytest.mark.parametrize("target", ["secret.md", "missing.md", "folder"])
def test_nothing_is_written_through_a_link(workspace, outside, target):
    note = workspace / (TODAY if target.endswith(".md") else "memory/202607")
    note.parent.mkdir(exist_ok=True)
    note.symlink_to(outside / target)
    answer = ask(workspace, "memory_store", text="hello")
    assert answer.startswith(f"error: the note cannot be written: {TODAY} leads out of the memory folder")
    assert [p.name for p in outside.iterdir()] == ["secret.md"]
    assert (outside / "secret.md").read_text() == "the tomato password is 1234\n"


def test_links_in_a_circle_end(workspace):
    (workspace / "memory/a.md").symlink_to("b.md")
    (workspace / "memory/b.md").symlink_to("a.md")
    (workspace / "memory/202607").symlink_to("202607")
    assert found(workspace, "anything") == []
    assert ask(workspace, "memory_store", text="hello").startswith("error: ")


def test_what_is_no_file_is_left_out(workspace):
    os.mkfifo(workspace / "memory/pipe.md")
    (workspace / "memory/folder.md").mkdir()
    (workspace / "memory/bytes.md").write_bytes(b"tomato \xff\n")
    assert found(workspace, "tomato") == [("memory/bytes.md", 1, "tomato \ufffd")]


def test_the_locale_does_not_matter(workspace):
    code = (
        "import sys; from datetime import datetime; from pathlib import Path; from picoclaw.memory import notes;"
        "w = Path(sys.argv[1]); notes.add(w, 'gr\\xfcn', datetime(2026, 7, 1, 12, 0));"
        "print(ascii([h.text for h in notes.search(w, 'gr\\xfcn')]))"
    )
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-W", "error", "-X", "warn_default_encoding", "-c", code, workspace],
        env=os.environ | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("['- 12:00 gr\\xfcn']\n", "")
    assert "grün" in (workspace / TODAY).read_text(encoding="utf-8")

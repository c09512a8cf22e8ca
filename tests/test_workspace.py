"""The owner's pages: seeded once, read with care, shown without what says nothing; and the owner's wording."""

import json
import os
import shutil
import socket
import time
from contextlib import nullcontext

import pytest
from rights import ordinary_user
from rows import each_row

from picoclaw import workspace as workspace_templates
from picoclaw.errors import ConfigError
from picoclaw.files import find_shipped
from picoclaw.workspace import (
    ONBOARDING_PAGE,
    TEMPLATE_PAGES,
    Pages,
    Prompts,
    examine_workspace,
    find_onboarding,
    list_intent_files,
    prepare_home,
    read_fields,
    read_intent_tables,
)

TEMPLATES = find_shipped("templates") / "workspace"
ALL = {*TEMPLATE_PAGES, ONBOARDING_PAGE}


@pytest.fixture
def home(tmp_path):
    """A home that is made in the test."""
    return tmp_path / "home"


@pytest.fixture
def templates(tmp_path):
    """A copy of the templates, for a newer version of them."""
    return shutil.copytree(TEMPLATES, tmp_path / "templates")


@pytest.fixture
def page(home):
    """Write a page of a home's, by its name in the workspace."""
    prepare_home(home)

    def write(name, text):
        path = home / "workspace" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def seeded(home):
    workspace = home / "workspace"
    return {str(p.relative_to(workspace)) for p in workspace.rglob("*") if p.is_file() and p.name[0] != "."}


def state(folder):
    """Every byte and time below a folder."""
    return {
        p: (p.lstat().st_mtime_ns, p.lstat().st_ino, p.read_bytes() if p.is_file() else b"")
        for p in [folder, *folder.rglob("*")]
    }


def shown(home, *names):
    return {page.name: page.text for page in Pages(home).pages(names or ("AGENTS.md",))}


# --- seeds


def test_a_fresh_home_gets_every_page(home):
    made, problem = prepare_home(home)
    assert (seeded(home), problem) == (ALL, "")
    pages = [home / "workspace" / name for name in (ONBOARDING_PAGE, *TEMPLATE_PAGES)]
    assert made == [home, home / "workspace", *pages, home / "seeds.json"]
    for name in ALL:
        assert (home / "workspace" / name).read_bytes() == (TEMPLATES / name).read_bytes()
        assert (home / "workspace" / name).stat().st_mode & 0o777 == 0o600
    assert json.loads((home / "seeds.json").read_text()) == {name: (TEMPLATES / name).read_text() for name in ALL}


@pytest.mark.parametrize("restore", [False, True])
def test_a_second_time_changes_nothing(home, restore):
    prepare_home(home, restore=restore)
    before = state(home)
    assert prepare_home(home, restore=restore) == ([], "")
    assert state(home) == before


def test_all_that_is_there_costs_no_write_and_one_small_file(home):
    prepare_home(home)
    home.chmod(0o500)
    (home / "workspace").chmod(0o500)
    with ordinary_user():
        assert prepare_home(home) == ([], "")
    home.chmod(0o700)
    (home / "workspace").chmod(0o700)


@pytest.mark.parametrize("name", sorted(ALL))
def test_what_the_owner_deletes_stays_deleted_until_it_is_wanted(home, name):
    prepare_home(home)
    (home / "workspace" / name).unlink()
    assert prepare_home(home) == ([], "")
    assert seeded(home) == ALL - {name}
    prepare_home(home, restore=True)
    assert seeded(home) == ALL - ({name} & {ONBOARDING_PAGE})
    prepare_home(home, restore=True, meeting=True)
    assert seeded(home) == ALL


@pytest.mark.parametrize("there", ["state.db", "seeds.json", *(f"workspace/{name}" for name in TEMPLATE_PAGES)])
def test_who_has_been_here_before_is_not_met_for_the_first_time(home, there):
    (home / there).parent.mkdir(parents=True)
    (home / there).write_text("{}")
    assert find_onboarding(home) == ""
    assert prepare_home(home).problem == ""
    assert (seeded(home), (home / there).read_text()) != (ALL, "")
    assert ONBOARDING_PAGE not in seeded(home)
    assert set(TEMPLATE_PAGES) <= seeded(home)


def test_the_owners_pages_are_never_overwritten(home, templates):
    prepare_home(home, templates=templates)
    for name in ALL:
        (home / "workspace" / name).write_text(f"mine: {name}\n")
        (templates / name).write_text(f"newer: {name}\n")
    prepare_home(home, templates=templates)
    prepare_home(home, restore=True, meeting=True, templates=templates)
    assert all((home / "workspace" / name).read_text() == f"mine: {name}\n" for name in ALL)


def test_a_page_that_is_new_in_a_later_version_is_seeded_then(home):
    prepare_home(home)
    known = json.loads((home / "seeds.json").read_text())
    del known["SOUL.md"]
    (home / "seeds.json").write_text(json.dumps(known))
    (home / "workspace/SOUL.md").unlink()
    assert prepare_home(home).made == [home / "workspace/SOUL.md", home / "seeds.json"]


def in_the_place_of_a_page(kind, path, elsewhere):
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(elsewhere)
        case "dangling":
            path.symlink_to("nothing")


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "dangling"])
def test_what_stands_in_a_pages_place_is_left_and_named(home, tmp_path, kind):
    (tmp_path / "mine.md").write_text("private")
    path = home / "workspace/AGENTS.md"
    in_the_place_of_a_page(kind, path, tmp_path / "mine.md")
    before = path.lstat()
    assert prepare_home(home, restore=True).problem == ""
    assert (path.lstat().st_ino, path.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert (tmp_path / "mine.md").read_text() == "private"
    [(note, _)] = examine_workspace(home)
    assert note.startswith(f"{path} cannot be read: it is ")


def test_nothing_is_seeded_through_a_link_out_of_the_workspace(home, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (home / "workspace").mkdir(parents=True)
    (home / "workspace/memory").symlink_to(tmp_path / "elsewhere")
    assert "leads out of the workspace" in prepare_home(home).problem
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert seeded(home) == ALL - {"memory/MEMORY.md"}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"AGENTS.md": 1}', "[" * 100_000, b"\xff"])
def test_a_damaged_list_brings_nothing_back_until_it_is_made_anew(home, page, damage):
    (home / "seeds.json").write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    (home / "workspace/SOUL.md").unlink()
    if damage:
        assert "seeds.json is damaged; `picoclaw init`" in prepare_home(home).problem
        assert "SOUL.md" not in seeded(home)
        assert any("seeds.json is damaged" in note for note, _ in examine_workspace(home))
    assert prepare_home(home, restore=True) == (
        [home / name for name in ("workspace/SOUL.md", "seeds.json", "config.toml", "policy.toml")],
        "",
    )
    assert prepare_home(home, restore=True) == ([], "")
    assert list(examine_workspace(home)) == []


def syncs(home):
    """Count what a first start makes durable, one after the other."""
    counted = []
    keep, os.fsync = os.fsync, lambda handle: (counted.append(handle), keep(handle))[1]
    try:
        prepare_home(home)
    finally:
        os.fsync = keep
    return len(counted)


def dies_at(home, number):
    """Prepare a home in a process that is gone at its n-th sync."""
    child = os.fork()
    if child == 0:
        left = [number]

        def sync(_):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)

        os.fsync = sync
        prepare_home(home)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_power_cut_at_any_sync_leaves_whole_pages_and_the_next_start_goes_on(tmp_path):
    steps = syncs(tmp_path / "counted")
    assert steps > 2 * len(ALL)
    for number in range(1, steps + 1):
        home = tmp_path / str(number)
        assert dies_at(home, number) == 9
        if (home / "workspace").is_dir():
            assert all((home / "workspace" / n).read_bytes() == (TEMPLATES / n).read_bytes() for n in seeded(home))
        assert prepare_home(home).problem == ""
        assert seeded(home) == ALL
        assert prepare_home(home) == ([], "")


@pytest.mark.parametrize("file", ["", "workspace"])
def test_a_home_that_cannot_be_is_an_error(home, file):
    (home / file).parent.mkdir(parents=True, exist_ok=True)
    (home / file).write_text("")
    with pytest.raises(ConfigError, match=r"cannot be made: a part of the path is not a folder; or set PICOCLAW_HOME"):
        prepare_home(home)


def test_where_nothing_can_be_written_the_templates_serve(home):
    (home / "workspace").mkdir(parents=True)
    for folder in (home / "workspace", home):
        folder.chmod(0o500)
    with ordinary_user():
        made, problem = prepare_home(home, restore=True)
        assert made == []
        assert problem == f"{home}/workspace/{ONBOARDING_PAGE} cannot be made: no permission: check its owner and mode"
        assert set(shown(home, "AGENTS.md", "SOUL.md")) == {"AGENTS.md", "SOUL.md"}
        assert "first_run" in find_onboarding(home)
        [(note, fix)] = examine_workspace(home)
    assert note == f"not created yet, so the built-in text is used for: {', '.join(TEMPLATE_PAGES)}"
    assert fix == "picoclaw init"
    for folder in (home, home / "workspace"):
        folder.chmod(0o700)
    assert prepare_home(home).problem == ""
    assert seeded(home) == ALL


def test_what_is_there_is_not_named_as_missing_when_the_list_is_gone(home):
    prepare_home(home)
    for name in ("seeds.json", "workspace/SOUL.md"):
        (home / name).unlink()
    assert list(examine_workspace(home)) == [
        ("not created yet, so the built-in text is used for: SOUL.md", "picoclaw init")
    ]
    assert "SOUL.md" in shown(home, "SOUL.md")


# --- the first meeting


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello", "hello"),
        ("<!-- note -->\nhello\n", "hello"),
        ("<!-- note -->\n", None),
        ("[//]: # (note)\n\n\u200b\n", None),
        ("", None),
        (" \n\t\n", None),
        (b"\xef\xbb\xbf", None),
        (b"\xff", ""),
        (b"a\0b", ""),
        ("x" * 64_001, "x" * 64_001),
        ("x" * 10_000_001, ""),
    ],
    ids=range(11),
)
def test_a_meeting_lasts_while_its_page_says_something(home, page, text, told):
    path = page(ONBOARDING_PAGE, text)
    assert Pages(home).read_onboarding(tidy=False) == (told or "")
    assert path.exists()
    assert find_onboarding(home) == (told or "")
    assert path.exists() == (told is not None)
    pages = Pages(home)
    assert pages.read_onboarding(tidy=False) == (told or "")
    assert pages.problems == ([] if told != "" else [f"{path} cannot be read: {whole(path)}"])
    if told is None:
        prepare_home(home, restore=True)
        assert ONBOARDING_PAGE not in seeded(home)
        assert find_onboarding(home) == ""


def whole(path):
    """Why a page is not shown, by another way."""
    with pytest.raises(ConfigError) as caught:
        workspace_templates.read_text(path, 10_000_000)
    return str(caught.value).partition(" cannot be read: ")[2]


def test_a_meeting_whose_page_is_bad_is_named_until_it_is_mended(home, page):
    pages = Pages(home)
    page(ONBOARDING_PAGE, "hello").unlink()
    os.mkfifo(home / "workspace" / ONBOARDING_PAGE)
    assert pages.read_onboarding() == ""
    [problem] = pages.problems
    assert "BOOTSTRAP.md cannot be read: it is not a regular file" in problem
    assert pages.pages(["AGENTS.md"])
    assert pages.problems == [problem]
    (home / "workspace" / ONBOARDING_PAGE).unlink()
    page(ONBOARDING_PAGE, "hello")
    assert (pages.read_onboarding(), pages.problems) == ("hello", [])


@pytest.mark.parametrize("text", ["", "<!-- nothing to ask -->\n"])
def test_a_meeting_that_is_over_comes_back_on_purpose(home, page, text):
    path = page(ONBOARDING_PAGE, text)
    assert prepare_home(home, restore=True).made[:1] != [path]
    assert prepare_home(home, meeting=True).made[:1] == [path]
    assert path.read_bytes() == (TEMPLATES / ONBOARDING_PAGE).read_bytes()


def test_an_empty_page_that_cannot_be_deleted_ends_the_meeting_too(home, page):
    path = page(ONBOARDING_PAGE, "")
    path.parent.chmod(0o500)
    with ordinary_user():
        assert find_onboarding(home) == ""
    assert path.exists()
    path.parent.chmod(0o700)


def test_before_anything_is_made_the_templates_are_read(home):
    assert find_onboarding(home).startswith("If the owner asks for something")
    before = Pages(home).pages()
    assert not home.exists()
    prepare_home(home)
    assert Pages(home).pages() == before
    assert list(examine_workspace(home)) == []


# --- pages


def test_a_default_workspace_costs_little(home):
    prepare_home(home)
    told = ["".join(page.text for page in Pages(home).pages([name])) for name in TEMPLATE_PAGES]
    assert [bool(text) for text in told] == [True, True, *[False] * 5]
    assert len(told[0].encode()) <= 160
    assert len(told[1].encode()) <= 100
    assert sum(len(text.encode()) for text in told) + 2 * len('<file name="AGENTS.md">\n\n</file>\n\n') <= 350


def test_the_meeting_is_short(home):
    assert len(find_onboarding(home).encode()) <= 700


def test_pages_come_in_their_order_and_a_heartbeat_only_when_asked_for(home, page):
    names = ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "memory/MEMORY.md", "MEMORY.md"]
    for name in [*reversed(names), "HEARTBEAT.md"]:
        page(name, f"I am {name}.")
    assert [p.name for p in Pages(home).pages()] == names
    assert Pages(home).pages(["HEARTBEAT.md"]) == [("HEARTBEAT.md", "I am HEARTBEAT.md.")]


def test_a_change_is_seen_at_the_next_call(home, page):
    pages = Pages(home)
    for text in ("one", "two", "three", b"\xff", "four", None, "five", ""):
        path = home / "workspace/AGENTS.md"
        if text is None:
            path.unlink()
        else:
            page("AGENTS.md", text)
        time.sleep(0.01)  # longer than the tick that a kernel stamps files with
        good = text if isinstance(text, str) else ""
        assert "".join(p.text for p in pages.pages(["AGENTS.md"])) == good
        assert bool(pages.problems) == isinstance(text, bytes)
    page("AGENTS.md", "mine")
    (home / "workspace/AGENTS.md").chmod(0)
    with ordinary_user():
        assert pages.pages(["AGENTS.md"]) == []
    (home / "workspace/AGENTS.md").chmod(0o600)
    assert pages.pages(["AGENTS.md"]) == [("AGENTS.md", "mine")]


def test_a_page_that_has_not_changed_is_not_read_again(home, page, monkeypatch):
    seen = []
    read = workspace_templates.read_text
    monkeypatch.setattr(
        workspace_templates, "read_text", lambda path, *more: (seen.append(path.name), read(path, *more))[1]
    )
    pages = Pages(home)
    first = pages.pages()
    assert seen == ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "MEMORY.md"]
    assert pages.pages() == first
    page("SOUL.md", b"\xff")
    pages.pages()
    pages.pages()
    assert seen[6:] == ["SOUL.md"]
    assert len(pages.problems) == 1


def test_a_workspace_that_may_not_be_read_is_named(home, page):
    path = page("AGENTS.md", "mine")
    path.parent.chmod(0)
    pages = Pages(home)
    with ordinary_user():
        assert pages.pages(["AGENTS.md"]) == []
    path.parent.chmod(0o700)
    assert pages.problems == [f"{path} cannot be read: no permission: check its owner and mode"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a\0b", "it holds NUL bytes and is no text; save it as UTF-8 text"),
        ("grün".encode("utf-16"), "it holds NUL bytes and is no text; save it as UTF-8 text"),
        ("grün".encode("latin-1"), "it is not UTF-8; save it as UTF-8 text"),
        ("ok ☕".encode()[:-1], "it is not UTF-8; save it as UTF-8 text"),
        (b"x" * 600_000 + b"\0" + b"x" * 500_000, ""),
        (b"x" * 900_000 + b"\0" + b"x" * 150_000, "it holds NUL bytes and is no text; save it as UTF-8 text"),
        (b"\n" * 10_000_001, "it is larger than 10000 kB; shorten it"),
    ],
)
def test_bytes_that_are_no_page_are_named(home, page, content, why):
    path = page("AGENTS.md", content)
    pages = Pages(home)
    assert bool(pages.pages(["AGENTS.md"])) == (not why)
    assert pages.problems == ([f"{path} cannot be read: {why}"] if why else [])


def bound(path):
    here = socket.socket(socket.AF_UNIX)
    here.bind(str(path))
    here.close()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path, _: path.mkdir(), "it is a folder; move it aside"),
        (lambda path, _: os.mkfifo(path), "it is not a regular file; move it aside"),
        (lambda path, _: bound(path), "it is not a regular file; move it aside"),
        (lambda path, _: path.symlink_to("/dev/zero"), "it is a link that leads out of {}; put a copy in its place"),
        (lambda path, out: path.symlink_to(out), "it is a link that leads out of {}; put a copy in its place"),
        (lambda path, _: path.symlink_to("gone"), "it is a link that leads nowhere; correct or remove it"),
        (lambda path, _: path.symlink_to(path.name), "too many symbolic links"),
    ],
    ids=["folder", "pipe", "socket", "device", "outside", "nowhere", "circle"],
)
def test_what_is_no_file_is_named_and_keeps_nobody_waiting(tmp_path, make, why):
    home = tmp_path / "h"  # short, for the socket's name
    prepare_home(home)
    (tmp_path / "secret.md").write_text("a secret")
    path = home / "workspace/SOUL.md"
    path.unlink()
    make(path, tmp_path / "secret.md")
    pages = Pages(home)
    assert [p.name for p in pages.pages()] == ["AGENTS.md"]
    assert pages.problems == [f"{path} cannot be read: {why.format(home / 'workspace')}"]
    path.rmdir() if path.is_dir() else path.unlink()
    assert [p.name for p in pages.pages()] == ["AGENTS.md"]
    assert pages.problems == []


def test_a_link_within_the_workspace_and_a_workspace_that_is_a_link_are_fine(home, page, tmp_path):
    page("rules.md", "Be kind.")
    (home / "workspace/AGENTS.md").unlink()
    (home / "workspace/AGENTS.md").symlink_to("rules.md")
    (home / "workspace").rename(tmp_path / "real")
    (home / "workspace").symlink_to(tmp_path / "real")
    assert shown(home) == {"AGENTS.md": "Be kind."}


def test_of_a_large_page_head_and_tail_are_read(home, page):
    page("memory/MEMORY.md", "x" + "ü" * 700_000 + "\n" + "☕" * 200_000)
    [(name, text)] = Pages(home).pages(["MEMORY.md"])
    assert name == "memory/MEMORY.md"
    head, tail = text.split("\n")
    assert head == "x" + "ü" * 299_999
    assert set(tail) == {"☕"}
    assert 66_000 < len(tail) <= 66_667


RULES = [
    "- Never open:\n- the gate at night\n- the valve",
    "- Never open:\n  - the gate at night",
    "- Never open:\n\n1. the gate\n2. the valve",
    "- Never open:\n| part | when |\n|---|---|\n| gate | night |",
    "- Never open:\n\n> the gate at night",
    "- Never open:\nthe gate at night",
    "- Never open:\n```\ngate\n```",
    "- **Always:**\n* say the unit",
    "* Outputs: -\n* pump: only by day",
    "- Vibe:\n- Pets:",
    "# Never open the gate",
    "## Never\n### At night\n## By day\n- ask first",
    "# House rules\n\n## Nobody opens the gate\n\n## Nobody stops the pump",
    "Nobody:\n- opens the gate",
    "- Name:\n- Wired: -",  # which are no fields of this page
]


@pytest.mark.parametrize(
    ("text", "left", "out"),
    [
        ("- Name:\n- Time zone: \n- Preferences: -\n* **Wired:**", "", [1, 2, 3, 4]),
        ("- Name:\u200b", "", [1]),
        ("- Name: Ada\n- Wired:", "- Name: Ada", [2]),
        ("- Name: Ada\n- Preferences:\n- Wired: a pump", "- Name: Ada\n- Wired: a pump", [2]),
        ("- Wired:\n  - a pump\n- Pets:\n", "- Wired:\n  - a pump\n- Pets:", []),
        ("- Preferences:\n- short answers\n- Wired:\n\n| a | b |", None, []),
        ("- Preferences:\nshort answers", None, []),
        ("- Preferences:\n  - Name: none\n- Wired:", "- Preferences:\n  - Name: none", [3]),
        ("- Preferences:\n## Rules", "## Rules", [1]),
        ("```\n- Name:\n```", None, []),
        ("- Wired:\n```\n- Name:\n```", None, []),
        *((rule, rule, []) for rule in RULES[:-1]),
    ],
)
def test_of_a_template_only_the_fields_that_are_not_filled_in_are_left_out(home, page, text, left, out):
    page("USER.md", text)
    found = Pages(home).pages(["USER.md"])
    assert "".join(page.text for page in found) == (text if left is None else left)
    named = [line for line in Pages(home).describe_left_out(["USER.md"]) if "not filled in" in line]
    assert [line.partition(":")[0] for line in named] == [f"USER.md line {number}" for number in out]


def test_what_is_left_out_of_a_page_is_named(home, page):
    page("AGENTS.md", "<!-- a\nb -->\n- Never:\n- open `<!-- x -->` <!-- c -->\nthe g\u200bate\n\n[note]: # (d)\n")
    page("USER.md", "\n- Name: Ada\n<!-- e -->\n- Wired:\n")
    page("MEMORY.md", "<!-- f -->\n# Facts\n")
    page("HEARTBEAT.md", "- [ ] look")
    assert Pages(home).describe_left_out(["AGENTS.md", "USER.md", "MEMORY.md", "HEARTBEAT.md"]) == [
        "AGENTS.md lines 1-2: comment",
        "AGENTS.md line 4: comment",
        "AGENTS.md line 7: comment",
        "AGENTS.md 1 invisible character",
        "USER.md line 3: comment",
        "USER.md line 4: not filled in: - Wired:",
        "memory/MEMORY.md lines 1-4: comment",
        "MEMORY.md line 1: comment",
    ]
    assert shown(home)["AGENTS.md"] == "- Never:\n- open `<!-- x -->` \nthe gate"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\ufeffhello", "hello"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("a <!-- hidden --> b", "a  b"),
        ("<!-- hidden -->\na\n<!-- more\nlines -->\nb", "a\nb"),
        ("a <!-- never closed", "a <!-- never closed"),
        ("<!-- draft\n- Never mail.\n\n<!-- more -->\nb", "<!-- draft\n- Never mail.\n\nb"),
        ("<!-- a --> b <!-- c", "b <!-- c"),
        ("a\n<!-- never closed\n\nb", "a\n<!-- never closed\n\nb"),
        ("a\n\n[//]: # (hidden)\n[note]: <> 'hidden'\n", "a"),
        ("a <?hidden ?> b", "a  b"),
        ("[pump]: GPIO17", "[pump]: GPIO17"),
        ("`<!-- in code -->`\n\n```\n<!-- in code -->\n```", "`<!-- in code -->`\n\n```\n<!-- in code -->\n```"),
        ("a\u200bb\u2066c\U000e0041d\ufeffe", "abcde"),
        ("می\u200cخواهم 👩\u200d🌾", "می\u200cخواهم 👩\u200d🌾"),
        ("- Name:\u200b", "- Name:"),
        ("<!--> b", "b"),
        *((rule, rule) for rule in RULES),
        ("# Title\n<!-- only a comment -->\n", "# Title"),
        ("a\n\n\n\nb\n\n<!-- c -->\n\nd", "a\n\nb\n\nd"),
        ("```\n# one\n# two\n\n\nls\n```", "```\n# one\n# two\n\n\nls\n```"),
        ("~~~\n```\n- Name:\n~~~\n# Title", "~~~\n```\n- Name:\n~~~\n# Title"),
        ("#hashtag", "#hashtag"),
        ("A line: \n- that ends", "A line: \n- that ends"),
        ("", ""),
        (" \n\t\n", ""),
    ],
)
def test_what_is_left_of_a_page(home, page, text, left):
    page("AGENTS.md", text)
    assert shown(home).get("AGENTS.md", "").strip(" ") == left


@each_row(
    ("line", "found"),
    [
        ("- Name: Ada", {"Name": "Ada"}),
        ("* Time zone :  Europe/Berlin  ", {"Time zone": "Europe/Berlin"}),
        ("- **Name:** Ada", {"Name": "Ada"}),
        ("- **Name**: Ada", {"Name": "Ada"}),
        ("- Wired: a BME280: i2c\t0x76", {"Wired": "a BME280: i2c 0x76"}),
        ("- Name: " + "x" * 300, {"Name": "x" * 200}),
        ("- Name: Ada\n- Name: Bob", {"Name": "Ada"}),
        ("- Name:\n- Name: Bob", {"Name": "Bob"}),
        ("- Name:", {}),
        ("- Name: -", {}),
        ("-   Time  zone  : UTC", {"Time  zone": "UTC"}),
        ("- : UTC", {}),
        ("- Na*me: Ada", {}),
        ("- " + "x" * 61 + ": Ada", {}),
        ("Name: Ada", {}),
        ("- no field", {}),
    ],
)
def test_fields(line, found):
    assert read_fields(line) == found


# --- the wording


def wording(home, **files):
    (home / "prompts").mkdir(parents=True)
    for name, text in files.items():
        (home / "prompts" / f"{name}.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    return Prompts(home)


def test_the_owners_wording_wins_over_the_shipped_one(tmp_path):
    prompts = Prompts(tmp_path)
    before = prompts["empty"]
    wording(tmp_path, empty="\n<!-- why\nI say so -->\nNothing was said.\n\n", cut="")
    assert prompts["empty"] == "Nothing was said." != before
    assert prompts["cut"] == ""
    (tmp_path / "prompts/empty.md").unlink()
    assert prompts["empty"] == before
    assert prompts.get("tool_read_file") is None
    (tmp_path / "prompts/tool_read_file.md").write_text("Reads.")
    assert prompts.get("tool_read_file") == "Reads."
    with pytest.raises(ConfigError, match=r"no_such_prompt\.md is missing"):
        prompts["no_such_prompt"]


def test_wording_that_comes_while_it_is_held_is_used_afterwards(tmp_path):
    prompts = Prompts(tmp_path)
    with prompts.hold():
        shipped = prompts["empty"]
        wording(tmp_path, empty="mine")
        assert prompts["empty"] == shipped
    assert prompts["empty"] == "mine"
    with prompts.hold():
        (tmp_path / "prompts/empty.md").write_text("changed")
        assert prompts["empty"] == "changed"
        (tmp_path / "prompts/empty.md").unlink()
        assert prompts["empty"] == shipped


@pytest.mark.parametrize("name", ["", "../system", "A", "a.md", "a/b", "\0", "a\n"])
def test_a_name_is_a_name(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot be a prompt template's name"):
        Prompts(tmp_path)[name]


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def link(path):
    path.unlink()
    path.symlink_to("/etc/hostname")


SPOILT = [
    (lambda path: path.write_bytes(b"\xff"), "it is not UTF-8"),
    (lambda path: path.write_bytes(b"a\0"), "it holds NUL"),
    (lambda path: path.write_bytes(b"x" * 64_001), "it is larger than 64 kB"),
    (pipe, "it is not a regular file"),
    (link, "it is a link that leads out of"),
    (lambda path: path.chmod(0), "no permission"),
    (lambda path: path.parent.chmod(0), "no permission"),
    (lambda path: path.parent.parent.chmod(0), "no permission"),
]


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize(("spoil", "why"), SPOILT, ids=range(len(SPOILT)))
def test_in_the_place_of_bad_wording_the_shipped_one_serves_and_the_file_is_named(tmp_path, spoil, why, held):
    folder = tmp_path / "workspace"
    prompts, path = wording(folder, empty="mine", tool_exec="mine"), folder / "prompts/empty.md"
    assert (prompts["empty"], prompts.problems) == ("mine", [])
    spoil(path)
    with ordinary_user(), prompts.hold() if held else nullcontext():
        assert prompts["empty"] == Prompts(tmp_path / "none")["empty"] != "mine"
    [problem] = prompts.problems
    assert problem.startswith(f"{path} cannot be read: {why}")
    assert problem.endswith("; until then picoclaw's own wording is used")
    for name in (folder, path.parent):
        name.chmod(0o700)
    assert prompts.get("tool_exec") == "mine"
    assert prompts.problems == [problem]
    path.unlink()
    path.write_text("mended")
    assert (prompts["empty"], prompts.problems) == ("mended", [])


def test_wording_of_a_tool_that_is_bad_is_none(tmp_path):
    prompts = wording(tmp_path, tool_exec=b"\xff")
    assert prompts.get("tool_exec") is None
    assert len(prompts.problems) == 1


def test_wording_that_nobody_reads_is_named(home):
    prompts = wording(home / "workspace", empty="x", emtpy="x", tool_exec="x")
    (home / "workspace/prompts/cut.txt").write_text("x")
    (home / "workspace/prompts/.cut.md.swp").write_text("x")
    assert [p.name for p in prompts.overridden()] == ["cut.txt", "empty.md", "emtpy.md", "tool_exec.md"]
    assert [p.name for p in prompts.unknown()] == ["cut.txt", "emtpy.md"]
    assert [p.name for p in prompts.unknown(["exec"])] == ["cut.txt", "emtpy.md"]
    assert [p.name for p in prompts.unknown(["read_file"])] == ["cut.txt", "emtpy.md", "tool_exec.md"]
    prepare_home(home)
    assert [note.split(" is ")[0] for note, _ in examine_workspace(home)] == [str(p) for p in prompts.unknown()]
    (home / "workspace/prompts/empty.md").write_bytes(b"\xff")
    assert any("empty.md cannot be read: it is not UTF-8" in note for note, _ in examine_workspace(home))


def test_a_table_of_intents_in_whose_place_a_pipe_lies_is_named(tmp_path):
    (tmp_path / "intents").mkdir()
    os.mkfifo(tmp_path / "intents/en.toml")
    with pytest.raises(ConfigError, match="not a regular file"):
        read_intent_tables(list_intent_files(tmp_path))

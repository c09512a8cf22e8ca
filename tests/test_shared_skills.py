"""Skills between boards, on SQLite and on PostgreSQL: they arrive, and are none until the owner says yes."""

import contextlib
import json
import os
from pathlib import Path

import pytest
from person import Person, picoclaw
from rows import each_row
from shared_kit import Board, Clock

from picoclaw.agents import agent_id
from picoclaw.errors import SkillError, StoreError
from picoclaw.shared_store.postgres import set_up_board
from picoclaw.shared_store.skills import ArrivedSkills, SkillContent, pack_skill, unpack_skill
from picoclaw.shared_store.store import make_id, open_shared_store
from picoclaw.skills import SkillLibrary, compute_version, list_home_tiers, read_skill_files
from picoclaw.store.people import SkillGrant, SkillGrants

FRONT = "---\nname: {}\ndescription: how to water\n---\n\n"
OWN = agent_id("default")


def write_skill(board, text, name="watering", script=""):
    folder = board.config.home / "workspace/skills" / name
    (folder / "scripts").mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(FRONT.format(name) + text)
    if script:
        (folder / "scripts/run.sh").write_text(script)
        (folder / "scripts/run.sh").chmod(0o755)
    return compute_version(folder)


def used(board):
    """The skills that this board uses by itself, and what they say."""
    library = SkillLibrary([one for one in list_home_tiers(board.config.home) if one[0] in {"workspace", "home"}])
    library.refresh()
    return {name: library.read_body(name) for name in library.skills}


def waiting(board):
    return [(one.board, one.name, one.version) for one in open_arrived(board).list_waiting()]


def open_arrived(board):
    return ArrivedSkills(board.config, board.database)


def agree(board, number=0):
    arrived = open_arrived(board)
    return arrived.agree(arrived.list_waiting()[number])


def grants(board):
    return {(one.skill, one.grantee) for one in SkillGrants(board.database).all()}


def grant(board, grantee, at="2026-11-26T08:00:00+00:00", pinned="", skill="watering"):
    SkillGrants(board.database).grant(SkillGrant(skill, grantee, pinned, "ada", at))


# --- arriving ---


def test_a_skill_arrives_waits_and_is_used_after_a_yes(boards):
    one, two = boards("shed"), boards("kitchen")
    version = write_skill(one, "Water at eight.", script="#!/bin/sh\necho hi\n")
    assert one.run().problems == ()
    report = two.run()
    assert report.news == ("the skill watering has arrived from shed: picoclaw skills agree watering",)
    assert (used(two), waiting(two)) == ({}, [("shed", "watering", version)])
    assert two.run().is_empty
    agree(two)
    assert used(two) == {"watering": "Water at eight."}
    folder = two.config.home / "workspace/skills/watering"
    assert [(path, mode & 0o100) for path, _, mode in read_skill_files(folder)] == [
        ("SKILL.md", 0),
        ("scripts/run.sh", 64),
    ]
    assert waiting(two) == []
    two.run()
    one.run()
    assert (waiting(one), one.run().news, two.run().news) == ([], (), ())


def test_a_changed_one_asks_again_and_an_old_one_is_never_offered(boards):
    one, two, three = boards("shed"), boards("kitchen"), boards("attic")
    write_skill(one, "old")
    one.run()
    two.run()
    agree(two)
    two.run()
    newer = write_skill(one, "new")
    for board in (one, two, three, one):
        board.run()
    assert used(two) == {"watering": "old"}
    assert waiting(two) == [("shed", "watering", newer)]
    assert waiting(one) == []  # the kitchen has what was here before
    assert {board for board, _, _ in waiting(three)} == {"shed", "kitchen"}
    agree(two)
    assert used(two) == {"watering": "new"}
    assert [path.name for path in (two.config.home / "workspace/skills").iterdir()] != [
        "watering"
    ]  # the old one is kept


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_cut_while_a_skill_takes_the_place_of_another_loses_neither(boards, monkeypatch, can_exchange):
    one, two = boards("shed"), boards("kitchen")
    write_skill(one, "old")
    for board in (one, two):
        board.run()
    agree(two)
    write_skill(one, "new")
    for board in (one, two):
        board.run()
    if not can_exchange:
        monkeypatch.setattr("picoclaw.shared_store.skills.exchange_paths", lambda *_: False)

    class PowerCut(BaseException):
        pass

    rename, left = Path.rename, [1]

    def rename_and_cut(path, target):
        """Without an exchange the cut comes between both renames, the worst moment."""
        if can_exchange or not left:
            raise PowerCut
        left.pop()
        return rename(path, target)

    with monkeypatch.context() as cut:
        cut.setattr(Path, "rename", rename_and_cut)
        with pytest.raises(PowerCut):
            agree(two)
    folder = two.config.home / "workspace/skills"
    assert used(two) == ({"watering": "new"} if can_exchange else {})
    assert any("old" in file.read_text() for file in folder.rglob("SKILL.md"))
    if not can_exchange:
        agree(two)  # which it still asks for
    assert (used(two), waiting(two)) == ({"watering": "new"}, [])
    assert any("old" in file.read_text() for file in folder.rglob("SKILL.md"))


def test_two_boards_that_changed_one_skill_keep_both(boards):
    one, two = boards("shed"), boards("kitchen")
    write_skill(one, "first")
    one.run()
    two.run()
    agree(two)
    mine, theirs = write_skill(one, "of the shed"), write_skill(two, "of the kitchen")
    for board in (one, two, one, two):
        board.run()
    assert (used(one)["watering"], used(two)["watering"]) == ("of the shed", "of the kitchen")
    assert (waiting(one), waiting(two)) == ([("kitchen", "watering", theirs)], [("shed", "watering", mine)])
    done = agree(two)
    assert used(two)["watering"] == "of the shed"
    kept = next(line for line in done if "is kept in" in line).rpartition(" ")[2]
    assert "of the kitchen" in Path(kept, "SKILL.md").read_text()
    one.run()
    two.run()
    one.run()
    assert waiting(two) == []


def test_no_is_remembered_for_that_version(boards):
    one, two = boards("shed"), boards("kitchen")
    write_skill(one, "first")
    one.run()
    two.run()
    open_arrived(two).decline(open_arrived(two).list_waiting()[0])
    two.sync._home.forget_store()  # and everything is read again
    two.run()
    assert (waiting(two), used(two)) == ([], {})
    write_skill(one, "second")
    one.run()
    two.run()
    assert len(waiting(two)) == 1


def test_a_skill_that_is_deleted_waits_no_more_and_stays_where_it_was_agreed_to(boards):
    one, two, three = boards("shed"), boards("kitchen"), boards("attic")
    write_skill(one, "text")
    for board in (one, two, three):
        board.run()
    agree(two)
    for path in sorted((one.config.home / "workspace/skills").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    for board in (one, three, two):
        board.run()
    assert waiting(three) == []
    assert used(two) == {"watering": "text"}
    write_skill(one, "again")
    for board in (one, three):
        board.run()
        assert board.run().is_empty
    assert [board for board, _, _ in waiting(three)] == ["kitchen", "shed"]  # in two versions


# --- grants ---


@pytest.mark.parametrize("grantee", ["everyone", "person:anna", "agent:garden"])
def test_grants_come_with_the_yes_and_end_everywhere(boards, grantee):
    one, two, three = boards("shed"), boards("kitchen"), boards("attic", people=(), agents=())
    version = write_skill(one, "text")
    pinned = version if grantee.startswith("agent:") else ""
    grant(one, grantee, pinned=pinned)
    one.run()
    for board in (two, three):
        board.run()
        assert grants(board) == set()
        agree(board)
        board.run()
    assert grants(two) == {("watering", grantee)}
    assert grants(three) == ({("watering", grantee)} if grantee == "everyone" else set())  # nobody is called so there
    accessible = SkillGrants(two.database).list_accessible("garden", "anna")
    assert accessible == {"watering": pinned}
    if pinned:
        assert compute_version(two.config.home / "pinned/garden/watering") == version
    assert "at shed" in SkillGrants(two.database).all()[0].granted_by
    one.run()
    assert (waiting(one), waiting(two)) == ([], [])
    SkillGrants(two.database).revoke("watering")  # on the board that has taken it over
    for board in (two, one, three):
        board.run()
    assert [grants(board) for board in (one, two, three)] == [set(), set(), set()]
    for board in (two, one, three):
        assert board.run().is_empty
        board.sync._home.forget_store()  # as where the store or the home is one of yesterday
    for board in (one, two, three):
        board.run()
    assert [grants(board) for board in (one, two, three)] == [set(), set(), set()]
    assert [waiting(board) for board in (one, two, three)] == [[], [], []]
    grant(one, grantee, at="2026-11-26T09:00:00+00:00", pinned=pinned)
    one.run()
    two.run()
    assert grants(two) == set()  # a new one asks again
    agree(two)
    assert grants(two) == {("watering", grantee)}


def test_an_agent_keeps_the_version_that_it_was_granted(boards):
    one, two = boards("shed"), boards("kitchen")
    old = write_skill(one, "old")
    from picoclaw.skills import pin_skill, read_skill

    pin_skill(read_skill(one.config.home / "workspace/skills/watering"), one.config.home, "garden")
    grant(one, "agent:garden", pinned=old)
    new = write_skill(one, "new")
    one.run()
    two.run()
    agree(two)
    assert compute_version(two.config.home / "workspace/skills/watering") == new
    assert compute_version(two.config.home / "pinned/garden/watering") == old


# --- what is wrong, or meant badly ---

SKILL = {"SKILL.md": [False, FRONT.format("watering") + "text"]}


def content(files, pinned=None):
    return json.dumps({"files": files, "pinned": pinned or {}})


HOSTILE = {
    "no json": "{",
    "no files": content({}),
    "not a table": json.dumps([1, 2]),
    "no text": content(SKILL | {"a": 3}),
    "a path that leads out": content(SKILL | {"../../../config.toml": [False, "x"]}),
    "a path in the middle": content(SKILL | {"a/../../x": [False, "x"]}),
    "an absolute path": content(SKILL | {"/etc/cron.d/x": [False, "x"]}),
    "a hidden file": content(SKILL | {".git/hooks/x": [True, "x"]}),
    "an empty part": content(SKILL | {"a//b": [False, "x"]}),
    "a backslash": content(SKILL | {"a\\b": [False, "x"]}),
    "a line break": content(SKILL | {"a\nb": [False, "x"]}),
    "a direction": content(SKILL | {"a\u202eb": [False, "x"]}),
    "a file that is a folder": content(SKILL | {"a": [False, "x"], "a/b": [False, "x"]}),
    "a long path": content(SKILL | {"a" * 300: [False, "x"]}),
    "a deep path": content(SKILL | {"/".join("abcdefghijkl"): [False, "x"]}),
    "too many files": content(SKILL | {f"f{number}": [False, "x"] for number in range(300)}),
    "too much": content(SKILL | {"a": [False, "x" * 1_100_000]}),
    "another name": content({"SKILL.md": [False, FRONT.format("board-health") + "text"]}),
    "no SKILL.md": content({"README.md": [False, "text"]}),
    "no front matter": content({"SKILL.md": [False, "text"]}),
    "no UTF-8": content({"SKILL.md": [False, "/w==", "base64"]}),
    "bad base64": content({"SKILL.md": [False, "!!!", "base64"]}),
    "a version that it is not": content(SKILL, {"deadbeef": SKILL}),
    "a hidden trap in a version": content(SKILL, {"deadbeef": {"../x": [False, "x"]}}),
}


@each_row("what", HOSTILE)
def test_what_is_no_skill_is_not_taken(what):
    with pytest.raises(SkillError):
        unpack_skill("watering", HOSTILE[what])


@each_row("name", ["", "..", "a/b", "../x", "A", "a b", "a" * 65, ".hidden", "x\n"])
def test_only_names_of_skills_are_taken(name):
    with pytest.raises(SkillError, match="no name for a skill"):
        unpack_skill(name, content(SKILL))


def test_what_is_packed_is_unpacked():
    files = (("SKILL.md", (FRONT.format("watering") + "ä\r\n").encode(), 0o600), ("a/b.bin", b"\0\xff", 0o700))
    found = SkillContent(files, {SkillContent(files[:1], {}).version: files[:1]})
    assert unpack_skill("watering", pack_skill(found)) == found
    with pytest.raises(SkillError, match="bytes"):
        pack_skill(SkillContent((*files, ("c", b"\1" * 900_000, 0o600)), {}))


def rows_of_a_thief(board="thief", agent=OWN, name="watering", text=None, **values):
    row = {"id": make_id("skills", agent, board, name), "agent_id": agent, "board": board, "at": 1e10}
    row |= {"name": name, "owner": "shed", "visibility": "public", "content": text or content(SKILL), "version": 1}
    return row | values


def grant_of_a_thief(board="thief", grantee="everyone", skill="watering", **values):
    row = {"id": make_id("skill_grants", OWN, board, skill, grantee), "agent_id": OWN, "board": board, "at": 1e10}
    row |= {"skill": skill, "grantee": grantee, "pinned": "", "granted_by": "ada", "granted_at": "2026"}
    return row | values


def test_hostile_rows_do_nothing(boards, place, tmp_path):
    """A stolen board writes whatever it likes into the tables: no file, no skill in use, no grant comes of it."""
    one = boards("shed")
    write_skill(one, "mine", name="secret")
    one.run()
    before = {path: path.read_bytes() for path in (one.config.home / "workspace").rglob("*") if path.is_file()}
    store = place.open("thief", "n")
    for number, text in enumerate(HOSTILE.values()):
        with contextlib.suppress(StoreError):  # the database refuses the largest
            store.put({"skills": [rows_of_a_thief(name=f"x{number}", text=text)]})
    bad_names = ["../../evil", "a/b", "", "A" * 90]
    store.put({"skills": [rows_of_a_thief(name=name) for name in bad_names]})
    store.put({"skills": [rows_of_a_thief(id=make_id("skills", OWN, "shed", "watering"))]})  # under another's id
    store.put({"skills": [rows_of_a_thief("../x"), rows_of_a_thief("a\nb")]})
    takers = ["everyone", "person:anna", "agent:garden", "agent:../../x", "agent:", "person:../x", "\x1b[2J"]
    store.put({"skill_grants": [grant_of_a_thief(grantee=taker, skill="secret") for taker in takers]})
    store.put({"skill_grants": [grant_of_a_thief(grantee="agent:garden", skill="secret", pinned="../../../x")]})
    store.put({"skill_grants": [grant_of_a_thief(grantee="everyone", skill="../x")]})
    for _ in range(2):
        report = one.run()
    assert used(one) == {"secret": "mine"}
    assert grants(one) == set()
    assert {path: path.read_bytes() for path in (one.config.home / "workspace").rglob("*") if path.is_file()} == before
    assert not (one.config.home / "pinned").exists()
    assert [name for _, name, _ in waiting(one) if name != "secret"] == []
    assert report.problems == ()  # said once, when they came
    for arrived in open_arrived(one).list_waiting():  # even where the owner says yes to what is left of it
        open_arrived(one).agree(arrived)
    assert not any("x" in path.parts or "evil" in str(path) for path in one.config.home.rglob("*"))
    assert {who for _, who in grants(one)} <= {"everyone", "person:anna"}


def test_a_board_that_floods_the_table_fills_no_home(boards, place):
    one = boards("shed")
    store = place.open("thief", "n")
    rows = [
        rows_of_a_thief(name=f"s{n}", text=content({"SKILL.md": [False, FRONT.format(f"s{n}")]})) for n in range(200)
    ]
    store.put({"skills": rows, "skill_grants": [grant_of_a_thief(grantee=f"person:p{n}") for n in range(600)]})
    report = one.run()
    assert len(waiting(one)) == 150
    assert any("more than 150 skills" in problem for problem in report.problems)
    assert one.database.select_value("SELECT count(*) FROM shared_skill_grants") == 500


# --- PostgreSQL: a board writes under its own name alone ---


@pytest.fixture
def roles(postgres, tmp_path):
    url = postgres.empty_database()
    made = {}
    with contextlib.ExitStack() as stack:
        for name in ("shed", "thief"):
            role = set_up_board(url, "", name, {key: agent_id(key) for key in ("default", "garden")}, replaces=False)
            address = role.address.replace("@", f":{role.password}@")
            made[name] = Board(tmp_path / name, address, Clock())
            stack.enter_context(made[name].stack)
        yield made


@pytest.mark.parametrize(
    "rows",
    [
        {"skills": [rows_of_a_thief("shed", name="watering", version=9)]},
        {"skills": [rows_of_a_thief("shed", name="new")]},
        {"skill_grants": [grant_of_a_thief("shed", grantee="person:anna")]},
        {"skill_grants": [grant_of_a_thief("shed", grantee="everyone", deleted=True)]},
    ],
)
def test_a_stolen_board_writes_no_skill_in_anothers_name(roles, rows):
    shed, thief = roles["shed"], roles["thief"]
    write_skill(shed, "mine")
    grant(shed, "everyone")
    shed.run()
    thief.run()
    with contextlib.closing(open_shared_store(thief.url)) as store:
        store.claim("thief", thief.sync._home.state("nonce"))
        with pytest.raises(StoreError, match="may not do that"):
            store.put(rows)
        assert [row["deleted"] for row in store.list_rows("skill_grants", {"board": "shed"})] == [False]
    write_skill(shed, "changed")
    assert shed.run().problems == ()
    assert grants(shed) == {("watering", "everyone")}


def test_an_id_that_another_board_has_taken_is_told(roles):
    shed, thief = roles["shed"], roles["thief"]
    shed.run()
    thief.run()
    with contextlib.closing(open_shared_store(thief.url)) as store:
        store.claim("thief", thief.sync._home.state("nonce"))
        store.put({"skills": [rows_of_a_thief(id=make_id("skills", OWN, "shed", "watering"))]})
    write_skill(shed, "mine")
    shed.write("memory/a.md", "goes on\n")
    report = shed.run()
    assert any("the board thief has written in its place" in problem for problem in report.problems)
    assert waiting(shed) == []


# --- the command line ---


def test_the_owner_reads_it_and_says_yes_in_a_terminal(tmp_path):
    """`skills` names it, a program cannot agree, a person sees its text and then uses it."""
    home, url = tmp_path / "picoclaw", f"sqlite:{tmp_path}/shared.db"
    one = Board(tmp_path / "shed", url, Clock())
    version = write_skill(one, "Water at eight.", script="#!/bin/sh\necho hi\n")
    grant(one, "person:anna")
    one.run()
    one.stack.close()
    assert picoclaw(tmp_path, "init", "--offline").returncode in {0, 2} or home.exists()
    home.mkdir(exist_ok=True)
    with (home / "config.toml").open("a") as file:
        file.write(f'\n[store]\nurl = "{url}"\nboard = "kitchen"\n[people.anna]\n')
    said = picoclaw(tmp_path, "store", "sync").stdout
    assert "the skill watering has arrived from shed: picoclaw skills agree watering" in said
    listed = picoclaw(tmp_path, "skills").stdout
    assert f"watering  arrived from shed, version {version}: it waits for your yes" in listed
    assert json.loads(picoclaw(tmp_path, "skills", "--json").stdout)["arrived"] == [
        {"name": "watering", "board": "shed", "version": version}
    ]
    refused = picoclaw(tmp_path, "skills", "agree", "watering", stdin="y\n")
    assert (refused.returncode, "a program may not agree to a skill" in refused.stderr) == (1, True)
    assert not (home / "workspace/skills/watering").exists()
    with Person(tmp_path, "skills", "agree", "watering") as person:
        person.sees("Water at eight.")
        person.sees("run.sh: 18 bytes, a program")
        person.sees("echo hi")
        person.sees("granted to person anna by ada")
        person.sees("Use it on this board?")
        person.types("y\r")
        person.sees("person anna may use it")
    listed = picoclaw(tmp_path, "skills").stdout
    assert f"arrived from shed, version {version}" in listed
    assert "waits for your yes" not in listed
    assert os.access(home / "workspace/skills/watering/scripts/run.sh", os.X_OK)
    assert "no skill 'watering' waits" in picoclaw(tmp_path, "skills", "decline", "watering").stderr

"""Homes that share a store, on SQLite and on PostgreSQL: what one writes the other has, whatever is cut or put back."""

import itertools
import json
import os
import shutil
from datetime import UTC, datetime

import pytest
from postgres_server import Proxy
from rows import each_row

from picoclaw.agents import agent_id
from picoclaw.errors import StoreError, StoreUnreachable
from picoclaw.files import find_shipped
from picoclaw.memory import versions
from picoclaw.memory.embedding import StaticEmbedder
from picoclaw.memory.memory import MemoryIndex
from picoclaw.shared_store.home import EVERYONE, is_page_name, merge_lines
from picoclaw.shared_store.store import SearchScope, make_id, open_shared_store, search_store
from picoclaw.shared_store.sync import iter_rows
from picoclaw.store.sessions import Sessions

DAY = "memory/202611/20261126.md"


def every(place, table):
    store = open_shared_store(place.url)
    try:
        agents = [agent_id("default"), agent_id("garden")]
        return [row for agent in agents for row in iter_rows(store, table, {"agent_id": agent})]
    finally:
        store.close()


def said_in_store(place):
    return sorted(json.loads(row["messages"])[0][1] for row in every(place, "turns"))


# --- pages ---


@pytest.mark.parametrize("agent", ["", "garden"])
@pytest.mark.parametrize("person", ["", "anna", EVERYONE])
def test_a_note_of_one_board_is_the_others_note(boards, person, agent):
    whose = {"person": person, "agent": agent}
    one, two = boards("shed"), boards("kitchen")
    one.write(DAY, "# 2026-11-26\n\n- 08:00 watered\n", **whose)
    assert one.run()[:2] == (0, 1 + 2)  # and the two agents
    assert two.run().pulled == 1
    assert two.read(DAY, **whose) == one.read(DAY, **whose)
    assert [two.read(DAY, person=other) for other in ("", "anna", EVERYONE) if other != person] == [None, None]
    assert one.run().is_empty
    assert two.run().is_empty
    two.write("memory/plants.md", "Basil.\n", **whose)
    two.run()
    one.run()
    assert one.read("memory/plants.md", **whose) == "Basil.\n"


def test_notes_of_a_day_are_merged_by_their_lines(boards):
    one, two = boards("shed"), boards("kitchen")
    one.write(DAY, "# 2026-11-26\n\n- 08:00 a\n- 08:10 b\n")
    one.run()
    two.run()
    one.write(DAY, "# 2026-11-26\n\n- 08:00 a\n- 08:10 b\n- 09:00 from the shed\n")
    two.write(DAY, "# 2026-11-26\n\n- 08:10 b\n- 09:05 from the kitchen\n")  # which has forgotten a
    one.run()
    assert two.run().conflicts == 1
    one.run()
    wanted = "# 2026-11-26\n\n- 08:10 b\n- 09:00 from the shed\n- 09:05 from the kitchen\n"
    assert (one.read(DAY), two.read(DAY)) == (wanted, wanted)
    assert one.run().is_empty
    assert two.run().is_empty


@pytest.mark.parametrize("later", ["shed", "kitchen"])
def test_of_a_page_that_two_have_changed_the_later_stays_and_the_earlier_is_kept(boards, place, later):
    one, two = boards("shed"), boards("kitchen")
    one.write("memory/MEMORY.md", "old\n")
    one.run()
    two.run()
    for number, board in enumerate((one, two)):
        board.write("memory/MEMORY.md", f"from the {board.name}\n")
        moment = 1_790_000_000 + (100 if board.name == later else 10) + number
        os.utime(board.path("memory/MEMORY.md"), (moment, moment))
    for board in (one, two, one, two):
        board.run()
    assert one.read("memory/MEMORY.md") == two.read("memory/MEMORY.md") == f"from the {later}\n"
    kept = {row["content"] for row in every(place, "document_versions")}
    assert kept == {"old\n", f"from the {'kitchen' if later == 'shed' else 'shed'}\n"}
    if later == "shed":  # the kitchen has written over what it had itself, and can bring it back
        assert versions.list_versions(two.config.home)[0].read_text() == "from the kitchen\n"


def test_a_new_home_takes_over_what_there_is_and_gives_no_template_for_it(boards, place):
    """What every new home has in MEMORY.md is later than what the others have written into theirs."""
    one, two = boards("shed"), boards("kitchen")
    one.write("memory/MEMORY.md", "- the pump is blue\n")
    one.run()
    template = (find_shipped("templates") / "workspace/memory/MEMORY.md").read_text()
    two.write("memory/MEMORY.md", template)
    assert two.run()[:2] == (1, 2)
    assert two.read("memory/MEMORY.md") == "- the pump is blue\n"
    three = boards("attic")
    three.write("memory/MEMORY.md", template, person="anna")
    three.run()
    assert [row["content"] for row in every(place, "documents")] == ["- the pump is blue\n"]


@pytest.mark.parametrize(("changed", "left"), [(False, None), (True, "newer\n")])
def test_a_page_that_was_deleted_is_gone_everywhere_unless_somebody_has_written_to_it(boards, changed, left):
    one, two = boards("shed"), boards("kitchen")
    one.write("memory/a.md", "text\n")
    one.run()
    two.run()
    one.path("memory/a.md").unlink()
    if changed:
        two.write("memory/a.md", "newer\n")
    for board in (one, two, one, two):
        board.run()
    assert one.read("memory/a.md") == two.read("memory/a.md") == left
    one.write("memory/a.md", "again\n")
    one.run()
    two.run()
    assert two.read("memory/a.md") == "again\n"


def test_a_workspace_that_is_not_there_deletes_nothing(boards, place):
    """An agent's folder may lie on a disk that is not mounted."""
    one = boards("shed")
    one.write("memory/a.md", "text\n")
    one.run()
    workspace = one.path("")
    workspace.rename(workspace.with_name("elsewhere"))
    one.run()
    assert [row["deleted"] for row in every(place, "documents")] == [False]


def test_a_page_is_not_written_over_what_comes_meanwhile(boards):
    one, two = boards("shed"), boards("kitchen")
    one.write(DAY, "- a\n")
    one.run()
    two.connect()
    home, read = two.sync._home, two.sync._home.read_page
    late = iter(["- meanwhile\n"])

    def read_and_write(page):
        text = read(page)
        for line in late:
            two.write(DAY, line)
        return text

    home.read_page = read_and_write
    two.run()
    two.run()
    assert sorted(two.read(DAY).splitlines()) == ["- a", "- meanwhile"]


def list_chunks(place):
    """The numbers of all chunks about the pump, which are given when they are written."""
    store = open_shared_store(place.url)
    scope = SearchScope(agent_id("default"))
    numbers = sorted(number for number, _ in store.match_chunks(scope, {"pump": 1.0}, 99))
    vectors = store.describe_chunks([make_id("documents", agent_id("default"), "", "memory/a.md")])
    store.close()
    return numbers, [state.vectors for state in vectors.values()]


@pytest.mark.parametrize("embeds", [False, True])
def test_the_passages_of_a_page_are_written_by_one_board(boards, place, embeds):
    """With a hundred boards of one agent, each note would be written a hundred times; vectors that are missing are added."""
    one, *others = (boards(name) for name in ("shed", "kitchen", "attic"))
    one.write("memory/a.md", "- the pump is blue\n")
    one.run()
    written = list_chunks(place)
    assert written[1] == [0]
    for board in others:
        board.run()
        if embeds:
            embedder = StaticEmbedder(find_shipped("templates") / "embeddings")
            memory = MemoryIndex(board.config.home, board.path(""), lambda table=embedder: table)
            memory.refresh()
            memory.close()
        for _ in range(2):
            board.run()
    found = list_chunks(place)
    assert found[1] == [int(embeds)]
    assert (found[0] == written[0]) != embeds
    assert len(found[0]) == 1
    again = list_chunks(place)
    for board in (one, *others):
        assert board.run().is_empty
    assert list_chunks(place) == again


def test_per_person_files_of_an_agent_are_shared(boards):
    one, two = boards("shed"), boards("kitchen")
    insert = "INSERT INTO user_context_files (agent, person, name, text, at) VALUES (?, 'anna', 'USER.md', ?, ?)"
    one.database.write(insert, agent_id("garden"), "- Name: Anna\n", "2026-11-26T08:00:00+00:00")
    one.run()
    two.run()
    sql = "SELECT agent, person, name, text FROM user_context_files"
    assert two.database.select(sql) == one.database.select(sql)
    assert two.run().is_empty


@pytest.mark.parametrize("person", ["", "anna", EVERYONE])
@pytest.mark.parametrize("page", ["memory/MEMORY.md", DAY])
def test_earlier_versions_go_when_something_is_forgotten(boards, place, person, page):
    one = boards("shed")
    for text in ("the code is 1234\n", "nothing\n"):
        one.write(page, text, person=person)
        one.run()
    assert [row["content"] for row in every(place, "document_versions")] == ["the code is 1234\n"]
    workspace = one.path("", person=person)
    memory = MemoryIndex(workspace if person == EVERYONE else workspace.parent, workspace, lambda: None)
    memory.forget("the code is 1234")
    memory.close()
    assert one.run().erased == 1
    assert every(place, "document_versions") == []


@pytest.mark.parametrize("person", ["anna", EVERYONE])
def test_who_joins_a_home_later_finds_what_was_there_before(boards, person):
    """What the store had of them was passed over while this home knew nobody of that name."""
    one, two = boards("shed"), boards("kitchen", people=(), agents=())
    one.write(DAY, "- 08:00 hers\n", person=person)
    one.write(DAY, "- 08:00 of the garden\n", agent="garden")
    one.run()
    two.run()
    assert two.read(DAY, person=person) is None
    two.stack.close()
    two = boards("kitchen")
    two.run()
    assert two.read(DAY, person=person) == "- 08:00 hers\n"
    assert two.read(DAY, agent="garden") == "- 08:00 of the garden\n"
    assert two.run().is_empty


@each_row(
    ("base", "ours", "theirs", "merged"),
    [
        ("", "- a\n", "- b\n", "- b\n- a\n"),
        ("", "- a\n", "- a\n- b\n", "- a\n- b\n"),
        ("- a\n", "- a\n- b\n", "- a\n- c\n", "- a\n- c\n- b\n"),
        ("- a\n- b\n", "- b\n", "- a\n- b\n- c\n", "- b\n- c\n"),
        ("- a\n- b\n", "- a\n- b\n- c\n", "- b\n", "- b\n- c\n"),
        ("- a\n- b\n", "", "- a\n- b\n", ""),
        ("- a\n", "- changed\n", "- a\n- b\n", "- changed\n- b\n"),
        ("- a", "- a\n- b", "- a\n- c", "- a\n- c\n- b\n"),
        ("# d\n\n- a\n", "# d\n\n- a\n- b\n", "# d\n\n- a\n- b\n", "# d\n\n- a\n- b\n"),
        ("x\nx\n", "x\n", "x\nx\ny\n", "x\ny\n"),
    ],
)
def test_lines_are_merged(base, ours, theirs, merged):
    assert merge_lines(base, ours, theirs).rstrip("\n") == merged.rstrip("\n")


@each_row(
    ("kind", "path", "good"),
    [
        ("documents", "memory/a.md", True),
        ("documents", "MEMORY.md", True),
        ("documents", "memory/202611/20261126.md", True),
        ("user_context_files", "USER.md", True),
        *(
            ("documents", path, False)
            for path in (
                "AGENTS.md",
                "memory/../AGENTS.md",
                "../config.toml",
                "/etc/passwd.md",
                "memory/.hidden.md",
                "memory//a.md",
                "memory/a.txt",
                "memory/a\n.md",
                "memory/.git/a.md",
                "memory/\u202ea.md",
                "memory",
                "memory/" + "a" * 400 + ".md",
            )
        ),
        ("user_context_files", "a/USER.md", False),
        ("user_context_files", "../USER.md", False),
    ],
)
def test_only_names_of_pages_are_taken_from_others(kind, path, good):
    assert is_page_name(kind, path) == good


def test_what_another_board_sends_leads_nowhere_else(boards, place, tmp_path):
    """A board that was taken over sends names that lead out of the memory, and a link lies in the way."""
    one = boards("shed")
    one.write("memory/a.md", "text\n")
    (one.path("memory") / "link").symlink_to(tmp_path)
    store, agent = open_shared_store(place.url), agent_id("default")
    store.claim("thief", "n")
    for path in ("../../config.toml.md", "AGENTS.md", "memory/link/caught.md", "memory/../../x.md"):
        row = {"id": make_id("documents", agent, "", path), "agent_id": agent, "at": 1e10, "person": "", "path": path}
        store.put({"documents": [row | {"content": "caught\n", "version": 1}]})
    store.close()
    report = one.run()
    assert not [path for path in tmp_path.rglob("*.md") if path.read_text() == "caught\n"]
    assert "leads out of the memory" in str(report.problems)
    assert one.read("memory/a.md") == "text\n"


# --- conversations and costs ---


def test_conversations_and_costs_are_brought_together(boards, place):
    one, two = boards("shed"), boards("kitchen")
    one.say("hello from the shed")
    two.say("hello from the kitchen")
    one.spend()
    two.spend(4)
    one.run()
    two.run()
    assert said_in_store(place) == ["hello from the kitchen", "hello from the shed"]
    assert sorted((row["board"], row["requests"]) for row in every(place, "ledger")) == [("kitchen", 4), ("shed", 1)]
    one.spend(2)
    one.say("more")
    assert one.run().pushed == 2
    assert sorted(row["requests"] for row in every(place, "ledger")) == [3, 4]
    assert [row["key"] for row in every(place, "sessions")] == ["terminal", "terminal"]
    assert one.said() == [("terminal", "hello from the shed"), ("terminal", "more")]


WHOSE = [("", ""), ("", "anna"), ("garden", ""), ("garden", "anna")]


def test_conversations_and_costs_say_whose_they_are(boards, place):
    """Each is the agent's that it was held with, and so hidden from a board that has another one, and the person's."""
    one = boards("shed")
    for number, (agent, person) in enumerate(WHOSE):
        one.say(f"turn {number}", key=f"chat {number}", agent=agent, person=person)
        one.spend(number + 1, agent=agent, person=person)
    one.run()
    ids = {"": agent_id("default"), "garden": agent_id("garden")}
    wanted = [(ids[agent], person) for agent, person in WHOSE]
    by_key = {row["key"]: (row["agent_id"], row["person"]) for row in every(place, "sessions")}
    assert [by_key[f"chat {number}"] for number in range(4)] == wanted
    talks = {json.loads(row["messages"])[0][1]: row["agent_id"] for row in every(place, "turns")}
    assert [talks[f"turn {number}"] for number in range(4)] == [agent for agent, _ in wanted]
    spent = {(row["agent_id"], row["person"]): row["requests"] for row in every(place, "ledger")}
    assert [spent[whose] for whose in wanted] == [1, 2, 3, 4]
    two = boards("kitchen")
    two.connect()
    two.sync.run("shed")
    for sql in ("SELECT key, agent, person FROM sessions ORDER BY key", "SELECT * FROM ledger ORDER BY agent, person"):
        assert two.database.select(sql) == one.database.select(sql)


def test_what_is_erased_or_taken_back_here_is_so_in_the_store(boards, place):
    one = boards("shed")
    one.say("keep")
    one.say("take back")
    one.run()
    Sessions(one.database).undo("terminal")
    one.run()
    assert [(row["number"], row["undone"]) for row in sorted(every(place, "turns"), key=lambda r: r["number"])] == [
        (1, False),
        (2, True),
    ]
    Sessions(one.database).erase("terminal")
    assert one.run().erased == 3  # its two turns and the conversation
    assert every(place, "turns") == []
    one.say("a new one")
    one.run()
    assert said_in_store(place) == ["a new one"]


# --- cuts ---


def test_an_answer_that_was_lost_doubles_nothing(boards, postgres, place):
    """The connection breaks between the commit and its acknowledgement."""
    if place.kind == "sqlite":
        pytest.skip("there is no connection")
    proxy = Proxy(postgres.port)
    try:
        one = boards("shed", place.url.replace(str(postgres.port), str(proxy.port)))
        one.write(DAY, "- a\n")
        one.run()
        for number in range(3):
            one.say(f"turn {number}")
            one.write(DAY, f"- a\n- {number}\n")
            proxy.drop_answer_to = b"COMMIT"
            with pytest.raises(StoreUnreachable):
                one.run()
            proxy.heal()
        for _ in range(2):
            one.run()
        assert said_in_store(place) == ["turn 0", "turn 1", "turn 2"]
        (page,) = every(place, "documents")
        assert page["content"] == "- a\n- 2\n"
        assert one.run().is_empty
    finally:
        proxy.close()


def test_a_transaction_that_is_left_open_is_said_to_hold_everything_up(boards, postgres, place, clock):
    """Somebody's, in any database of the server: what boards write is kept from the others until it ends."""
    if place.kind == "sqlite":
        pytest.skip("there is one writer at a time")
    import psycopg

    one, two = boards("shed"), boards("kitchen")
    two.run()
    with psycopg.connect(postgres.url()) as other:
        other.execute("SELECT pg_current_xact_id()")
        one.write("memory/a.md", "text\n")
        one.run()
        assert not two.run().problems
        clock.seconds += 599
        assert not two.run().problems
        clock.seconds += 2
        assert "transaction that was begun in the database more than ten minutes ago" in str(two.run().problems)
        assert two.read("memory/a.md") is None
        other.rollback()
    assert not two.run().problems
    assert two.read("memory/a.md") == "text\n"


def test_an_hour_without_the_database(boards, postgres, place, clock):
    """Two boards write 200 times while one of them is cut off for an hour; then both have all of it, once."""
    if place.kind == "sqlite":
        pytest.skip("there is no connection")
    proxy = Proxy(postgres.port)
    try:
        near = boards("kitchen")
        far = boards("shed", place.url.replace(str(postgres.port), str(proxy.port)))
        for board in (far, near):
            board.write("memory/MEMORY.md", "- the beginning\n")
            board.run()
        far.run()
        proxy.cut()
        failed = 0
        for number in range(200):  # 18 seconds each: an hour
            clock.seconds += 18
            board = far if number % 4 else near
            match number % 5:
                case 0:
                    board.say(f"turn {number}")
                case 1:
                    board.spend(day=f"2026-11-{1 + number % 28:02}")
                case _:
                    before = board.read(DAY) or "# 2026-11-26\n\n"
                    board.write(DAY, f"{before}- {number} by the {board.name}\n")
            if board is near:
                near.run()
            elif number % 20 == 1:
                with pytest.raises(StoreUnreachable, match=r"nothing listens there|the connection broke"):
                    far.run()
                failed += 1
        assert failed == 10
        assert not any("by the shed" in row["content"] for row in every(place, "documents"))
        proxy.heal()
        for board in (far, near, far, near):
            board.run()
        assert far.run().is_empty
        assert near.run().is_empty
    finally:
        proxy.close()
    turns = [f"turn {number}" for number in range(200) if number % 5 == 0]
    assert said_in_store(place) == sorted(turns)
    notes = [n for n in range(200) if n % 5 > 1]
    lines = [f"- {n} by the {'shed' if n % 4 else 'kitchen'}" for n in notes]
    for board in (far, near):
        assert sorted(board.read(DAY).splitlines()) == sorted(["# 2026-11-26", "", *lines])
    spent = [n for n in range(200) if n % 5 == 1]
    assert sum(row["requests"] for row in every(place, "ledger")) == len(spent)


def test_a_run_that_ends_anywhere_is_gone_on_with(boards, place):
    """The process is killed behind each call of the store in turn, before it hears of what it has done."""
    for number in itertools.count(1):
        one = boards(f"shed{number}")
        one.write(f"memory/{number}.md", "a\n")
        one.say(f"turn {number}")
        one.spend()
        one.connect()
        left = iter(range(number))
        store = one.sync._store
        put = store.put

        def put_and_die(*args, left=left, put=put):
            found = put(*args)
            if next(left, None) is None:
                return found
            raise KeyboardInterrupt

        store.put = put_and_die
        for _ in range(number):
            with pytest.raises(KeyboardInterrupt):
                one.sync.run()
            one.sync = None
            one.connect()
            one.sync._store.put, store = (
                lambda *args, left=left, put=one.sync._store.put: put_and_die(*args, left=left, put=put),
                None,
            )
        one.run()
        mine = [row for row in every(place, "turns") if row["board"] == f"shed{number}"]
        assert [json.loads(row["messages"])[0][1] for row in mine] == [f"turn {number}"]
        assert len([row for row in every(place, "ledger") if row["board"] == f"shed{number}"]) == 1
        assert one.run().is_empty
        if number == 4:
            break


# --- stores and homes of yesterday ---


def test_a_store_that_was_restored_gets_what_it_lost(boards, place, tmp_path):
    one, two = boards("shed"), boards("kitchen")
    one.say("yesterday")
    one.write(DAY, "- yesterday\n")
    one.run()
    two.run()
    backup = back_up(place, tmp_path)
    one.say("today")
    one.spend()
    one.write(DAY, "- yesterday\n- today\n")
    two.write("memory/kitchen.md", "new\n")
    two.write(DAY, "- yesterday\n- by two\n")
    for board in (one, two, one):
        board.run()
    restore(place, backup)
    for board in (one, two):
        board.sync = None
        assert "restored from a backup" in str(board.run().problems)
    for board in (one, two, one, two):
        board.run()
    assert said_in_store(place) == ["today", "yesterday"]
    assert one.read("memory/kitchen.md") == "new\n"
    found = {row["path"]: row["content"] for row in every(place, "documents")}
    assert sorted(found[DAY].splitlines()) == ["- by two", "- today", "- yesterday"]
    assert one.read(DAY) == two.read(DAY) == found[DAY]
    assert len(every(place, "ledger")) == 1
    assert one.run().is_empty
    assert two.run().is_empty


def back_up(place, folder):
    if place.kind == "sqlite":
        shutil.copytree(folder, folder / "backup", ignore=shutil.ignore_patterns("shed", "kitchen", "backup"))
        return folder / "backup"
    import psycopg

    from picoclaw.shared_store.store import TABLES

    with psycopg.connect(place.url) as connection:
        names = ["boards", *TABLES, "chunks"]
        return {name: connection.execute(f"SELECT * FROM picoclaw.{name}").fetchall() for name in names}


def restore(place, backup):
    if place.kind == "sqlite":
        place.stack.close()
        for name in ("shared.db", "shared.db-wal", "shared.db-shm"):
            (backup.parent / name).unlink(missing_ok=True)
            if (backup / name).exists():
                shutil.copy(backup / name, backup.parent / name)
        return
    import psycopg

    with psycopg.connect(place.url) as connection:
        connection.execute(f"TRUNCATE {', '.join(f'picoclaw.{name}' for name in backup)} CASCADE")
        for name, rows in backup.items():
            for row in rows:
                marks = ", ".join(["%s"] * len(row))
                connection.execute(f"INSERT INTO picoclaw.{name} OVERRIDING SYSTEM VALUE VALUES ({marks})", row)


def test_a_home_that_was_restored_takes_back_what_it_lost(boards, place, tmp_path):
    one = boards("shed")
    one.say("yesterday")
    one.write(DAY, "- yesterday\n")
    one.run()
    one.stack.close()
    shutil.copytree(tmp_path / "shed", tmp_path / "backup")
    one = boards("shed")
    one.say("lost")
    one.spend(3)
    one.write(DAY, "- yesterday\n- today\n")
    one.run()
    one.stack.close()
    shutil.rmtree(tmp_path / "shed")
    shutil.copytree(tmp_path / "backup", tmp_path / "shed")
    one = boards("shed")
    one.say("after")
    report = one.run()
    assert report.recovered == 2
    assert "restored from a backup" in str(report.problems)
    assert one.read(DAY) == "- yesterday\n- today\n"
    assert sorted(text for _, text in one.said()) == ["after", "lost", "yesterday"]
    assert said_in_store(place) == ["after", "lost", "yesterday"]
    assert one.database.select("SELECT requests FROM ledger") == [(3,)]
    assert one.run().is_empty


def test_a_conversation_that_was_erased_does_not_come_back(boards, place):
    one = boards("shed")
    one.say("secret")
    one.run()
    Sessions(one.database).erase("terminal")
    one.run()
    one.sync._home.forget_store()
    one.run()
    assert every(place, "turns") == []
    assert one.said() == []


def test_a_second_home_with_the_same_name_is_refused(boards, place):
    one, other = boards("shed"), boards("shed", folder="copy")
    one.say("hello")
    one.run()
    other.say("from the other")
    with pytest.raises(StoreError, match="another home uses the name 'shed'"):
        other.run()
    assert said_in_store(place) == ["hello"]


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize(
    "query",
    [
        "pump",
        "which fuse does the oven need",
        "wann wurde die Pumpe gewartet",
        "2026-11-20",
        "yesterday",
        "submarine",
        "",
    ],
)
def test_a_search_in_the_store_finds_what_a_search_in_the_home_finds(boards, place, query, table):
    """The same notes, found by the same code: by words, days and vectors, the best one first."""
    one = boards("shed")
    one.write("memory/MEMORY.md", "# Kitchen\n\n- The fuse of the oven is 7.5 A.\n- Basil stands at the window.\n")
    one.write("memory/202611/20261120.md", "# 2026-11-20\n\n- 08:00 watered by hand, the pump was broken\n")
    one.write("memory/202611/20261125.md", "# 2026-11-25\n\n- 09:00 die Pumpe ist gewartet\n")
    now = datetime(2026, 11, 26, 12, tzinfo=UTC)
    embedder = StaticEmbedder(find_shipped("templates") / "embeddings") if table else None
    memory = MemoryIndex(one.config.home, one.path(""), lambda: embedder)
    memory.refresh()
    wanted = memory.search(query, now)
    memory.close()
    one.run()
    store = open_shared_store(place.url)
    found = search_store(store, SearchScope(agent_id("default")), query, embedder, now)
    store.close()
    assert [hit.path for hit in found[:1]] == [hit.path for hit in wanted[:1]]
    assert {hit.path for hit in found if hit.is_certain} == {hit.path for hit in wanted if hit.is_certain}
    assert [hit.snippet for hit in found[:1]] == [hit.snippet for hit in wanted[:1]]


# --- what is read ---


def rows_read(board):
    """Synchronise; returns how many rows of the home's database, and of the store, were read for it."""
    local, there = [], []
    connection, store = board.sync._home.database.connection, board.sync._store
    connection.row_trace = lambda _, row: local.append(row) or row
    changes, list_rows = store.changes, store.list_rows
    store.changes = lambda *asked: there.extend((found := changes(*asked)).rows) or found
    store.list_rows = lambda *asked: there.extend(found := list_rows(*asked)) or found
    try:
        report = board.run()
    finally:
        connection.row_trace, store.changes, store.list_rows = None, changes, list_rows
    return len(local), there, report


def test_what_is_read_without_news_does_not_grow(boards):
    one = boards("shed")
    read = []
    for count in (2, 60):
        for number in range(count):
            one.say(f"question {number} of {count}")
            one.spend(day=f"2026-{count % 12 + 1:02}-{number % 28 + 1:02}")
            one.write(f"memory/{count}/{number}.md", f"note {number}\n")
        one.run()
        one.run()  # what it has put itself comes by once
        local, there, report = rows_read(one)
        assert (there, report.is_empty) == ([], True)
        read.append(local)
    assert read[0] == read[1]


def test_what_another_process_has_written_here_is_pushed(boards):
    one, two = boards("shed"), boards("kitchen")
    one.say("hello")
    one.run()
    assert one.run().is_empty
    one.say("again")
    assert one.run().pushed == 1
    same = boards("shed", folder="shed")  # as `picoclaw store sync` is beside the daemon
    one.write("memory/a.md", "new\n")
    assert same.run().pushed == 1
    assert one.run().is_empty
    two.run()
    two.write("memory/a.md", "newer\n")
    two.run()
    assert one.run().pulled == 1
    assert one.read("memory/a.md") == "newer\n"


def test_who_comes_later_is_asked_for_alone(boards):
    one = boards("shed", people=("anna", "bert"))
    for number in range(30):
        one.write(f"memory/{number}.md", "of the owner\n")
        one.write(f"memory/{number}.md", "of anna\n", person="anna")
    one.write("memory/b.md", "of bert\n", person="bert")
    one.run()
    boards("kitchen", people=("anna",)).run()
    two = boards("kitchen", people=("anna", "bert"))
    two.connect()
    _, there, _ = rows_read(two)
    assert [row["person"] for row in there if row["path"].startswith("memory/")] == ["bert"]
    assert two.read("memory/b.md", person="bert") == "of bert\n"
    assert rows_read(two)[1] == []

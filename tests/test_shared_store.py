"""The contract of a store that boards share, on SQLite and on PostgreSQL; `make postgres` installs the second."""

import contextlib
import threading
import time

import apsw
import numpy as np
import pytest
from rows import each_row
from shared_kit import AGENT, OTHER, StorePlace, page, session, spending, turn

from picoclaw.errors import ConfigError, StoreError, StoreNewer
from picoclaw.memory.index import MemoryRow
from picoclaw.shared_store.store import PULLED, TABLES, SearchScope, SharedChunk, make_id, open_shared_store

KEPT = {table for table, about in TABLES.items() if about.conflict == "keep"}
ROWS = {"documents": page(), "sessions": session(), "turns": turn(), "ledger": spending()}
GRANT = {
    "id": make_id("grant", 1),
    "agent_id": AGENT,
    "at": 1000.0,
    "skill": "watering",
    "grantee": "anna",
    "pinned": "",
    "granted_by": "owner",
    "granted_at": "2026-11-26T08:00:00",
}


@pytest.fixture
def store(place):
    return place.open()


def plain(row):
    return {name: value for name, value in row.items() if name not in {"board", "digest"}}


# --- rows ---


@pytest.mark.parametrize("table", ROWS)
def test_what_is_put_comes_back_as_it_was_also_twice(store, table):
    row = {"deleted": False, **ROWS[table]}
    assert store.put({table: [row]}) == {}
    assert store.put({table: [row]}) == {}
    found = store.get(table, [row["id"], make_id("nothing")])
    assert [plain(one) for one in found] == [row]
    assert found[0]["board"] == "shed"
    assert [plain(one) for one in store.list_rows(table, {"agent_id": AGENT})] == [row]
    assert store.list_rows(table, {"agent_id": OTHER}) == []


@pytest.mark.parametrize(
    "text", ["", "a\0b", "\ud800", "'; DROP TABLE x; --", "ä" * 100_000, "%s ? {} $1 \\", "\x01\x7f\u2028"]
)
def test_any_text_is_taken(store, text):
    store.put({"documents": [page(content=text)]})
    (found,) = store.get("documents", [page()["id"]])
    assert found["content"] == text.replace("\0", "\ufffd").replace("\ud800", "?")


def test_rows_are_listed_by_their_ids_in_pieces(store):
    rows = [turn(number) for number in range(25)]
    store.put({"turns": rows})
    found, last = [], ""
    while some := store.list_rows("turns", {"agent_id": AGENT}, last, 10):
        assert len(some) <= 10
        found += some
        last = some[-1]["id"]
    assert [row["id"] for row in found] == sorted(row["id"] for row in rows)
    with pytest.raises(KeyError):
        store.list_rows("turns", {"agent_id = agent_id OR 1": 1})


@pytest.mark.parametrize(
    ("there", "put", "taken"),
    [
        (None, (1, "a"), True),
        (None, (7, "a"), True),  # moved from elsewhere
        ((1, "a"), (2, "b"), True),
        ((1, "a"), (1, "b"), False),
        ((2, "a"), (2, "b"), False),
        ((3, "a"), (2, "b"), False),
        ((1, "a"), (3, "b"), False),
        ((2, "a"), (1, "a"), True),  # what is said is there
        ((1, "a"), (1, "a"), True),
    ],
)
def test_a_page_is_taken_only_behind_the_version_that_its_writer_has_seen(store, there, put, taken):
    if there:
        store.put({"documents": [page(version=there[0], content=there[1])]})
    conflicts = store.put({"documents": [page(version=put[0], content=put[1])]})
    assert bool(conflicts) == (not taken)
    (found,) = store.get("documents", [page()["id"]])
    assert found["content"] == (put if taken else there)[1]
    if conflicts:
        assert conflicts == {found["id"]: found}


def test_earlier_versions_of_a_page_are_kept_and_can_be_erased(store):
    for version, content in enumerate(["one", "two", "two", "three"], 1):
        assert store.put({"documents": [page(content=content, version=version)]}) == {}
    found = store.list_rows("document_versions", {"document_id": page()["id"]})
    assert sorted((row["version"], row["content"], row["path"]) for row in found) == [
        (1, "one", "memory/a.md"),
        (3, "two", "memory/a.md"),
    ]
    assert store.delete("document_versions", [row["id"] for row in found]) == 2
    assert store.list_rows("document_versions", {"document_id": page()["id"]}) == []


def test_thirty_earlier_versions_are_kept(store):
    for version in range(1, 41):
        store.put({"documents": [page(content=str(version), version=version)]})
    found = store.list_rows("document_versions", {"document_id": page()["id"]})
    assert {row["version"] for row in found} == set(range(10, 40))


def test_the_later_of_two_grants_stays_and_the_first_of_two_turns_of_the_past(store):
    for at, pinned in [(5.0, "1.0"), (9.0, "2.0"), (7.0, "3.0")]:
        store.put({"skill_grants": [GRANT | {"at": at, "pinned": pinned}]})
    assert store.get("skill_grants", [GRANT["id"]])[0]["pinned"] == "2.0"
    summary = {"id": make_id("s"), "agent_id": AGENT, "at": 1.0, "session_id": session()["id"], "upto": turn()["id"]}
    for text in ("first", "second"):
        store.put({"summaries": [summary | {"said_at": "", "text": text}]})
    assert store.get("summaries", [summary["id"]])[0]["text"] == "first"


def test_a_batch_is_written_whole_or_not_at_all(store):
    with pytest.raises(KeyError):
        store.put({"documents": [page()], "turns": [{"id": turn()["id"]}]})
    with pytest.raises((StoreError, ValueError)):
        store.put({"documents": [page()], "turns": [turn(), turn(2) | {"number": "many"}]})
    assert store.get("documents", [page()["id"]]) == []
    assert store.get("turns", [turn()["id"]]) == []


def test_only_what_belongs_to_one_board_is_erased(store):
    store.put({"turns": [turn(1), turn(2)], "ledger": [spending()]})
    assert store.delete("turns", [turn(1)["id"], make_id("nothing")]) == 1
    assert [row["number"] for row in store.list_rows("turns", {"agent_id": AGENT})] == [2]
    for table in set(TABLES) - {"turns", "sessions", "summaries", "document_versions"}:
        with pytest.raises(ValueError, match="marked as deleted"):
            store.delete(table, [])


# --- changes ---


def read_changes(store, table, cursor, agent=AGENT):
    found = store.changes(table, agent, cursor)
    return [row["path"] for row in found.rows], found.cursor


def test_changes_come_once_in_pieces_and_for_one_agent(store):
    store.put({"documents": [page(f"memory/{name}.md") for name in "abc"] + [page("memory/x.md", agent=OTHER)]})
    first = store.changes("documents", AGENT, "", 2)
    second = store.changes("documents", AGENT, first.cursor, 2)
    assert sorted(row["path"] for row in first.rows + second.rows) == [f"memory/{name}.md" for name in "abc"]
    assert store.changes("documents", AGENT, second.cursor) == ([], second.cursor)
    store.put({"documents": [page("memory/a.md", "two\n", 2)]})
    assert read_changes(store, "documents", second.cursor)[0] == ["memory/a.md"]
    store.put({"documents": [page("memory/a.md", "two\n", 2)]})  # again, because its answer was lost
    _, last = read_changes(store, "documents", second.cursor)
    assert read_changes(store, "documents", last)[0] == []


def test_what_is_deleted_is_a_change_as_well(store):
    store.put({"documents": [page()]})
    _, cursor = read_changes(store, "documents", "")
    store.put({"documents": [page(content="", version=2, deleted=True)]})
    assert [(row["deleted"], row["content"]) for row in store.changes("documents", AGENT, cursor).rows] == [(True, "")]


def test_a_transaction_that_ends_late_is_not_missed(place):
    """Sequence numbers are given when a row is written and seen when it is committed: a cursor over them loses rows."""
    if place.kind == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    import psycopg

    store = place.open()
    store.put({"documents": [page("memory/0.md")]})
    with psycopg.connect(place.url) as late:  # has begun to write, and takes its time
        late.execute("UPDATE picoclaw.documents SET content = 'late', changed = pg_current_xact_id()")
        store.put({"documents": [page("memory/1.md")]})
        seen, cursor = read_changes(store, "documents", "")
        late.commit()
    more, cursor = read_changes(store, "documents", cursor)
    assert sorted([*seen, *more]) in (["memory/0.md", "memory/0.md", "memory/1.md"], ["memory/0.md", "memory/1.md"])
    assert store.get("documents", [page("memory/0.md")["id"]])[0]["content"] == "late"
    assert "memory/0.md" in more
    assert read_changes(store, "documents", cursor)[0] == []


def test_nothing_is_missed_while_several_write(place):
    """Four boards write 200 pages; a fifth reads all the time: in the end it has seen each of them."""
    reader, seen, cursor = place.open("reader", "r"), [], ""
    failed = []

    def write(board):
        try:
            store = place.open(f"board{board}", "n")
            for number in range(50):
                store.put({"documents": [page(f"memory/{board}-{number}.md")]})
        except StoreError as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(board,)) for board in range(4)]
    for one in writers:
        one.start()
    until = time.monotonic() + 60
    while (any(one.is_alive() for one in writers) or len(seen) < 200) and time.monotonic() < until:
        found = reader.changes("documents", AGENT, cursor, 7)
        seen, cursor = [*seen, *(row["path"] for row in found.rows)], found.cursor
    for one in writers:
        one.join()
    assert failed == []
    assert sorted(seen) == sorted(f"memory/{board}-{number}.md" for board in range(4) for number in range(50))


def test_a_change_wakes_who_waits(place):
    writing, waiting = place.open("b", "2"), place.open("a", "1")
    assert not waiting.wait([AGENT], 0.1)
    timer = threading.Timer(0.3, lambda: writing.put({"documents": [page()]}))
    begun = time.monotonic()
    timer.start()
    try:
        assert waiting.wait([AGENT], 20)
    finally:
        timer.join()
    assert time.monotonic() - begun < 5


def test_what_is_put_between_a_look_and_the_wait_is_not_missed(place):
    waiting, writing = place.open("a", "1"), place.open("b", "2")
    seen, cursor = [], ""
    for number in range(3):  # the first wait of a connection, and later ones
        found = waiting.changes("documents", AGENT, cursor)
        seen, cursor = [*seen, *(row["path"] for row in found.rows)], found.cursor
        writing.put({"documents": [page(f"memory/{number}.md")]})
        begun = time.monotonic()
        waiting.wait([AGENT], 60)
        assert time.monotonic() - begun < 30
    assert seen == ["memory/0.md", "memory/1.md"]
    assert [row["path"] for row in waiting.changes("documents", AGENT, cursor).rows] == ["memory/2.md"]


def test_what_a_board_puts_itself_does_not_wake_it(place):
    store = place.open("a", "1")
    store.wait([AGENT], 0)
    store.put({"documents": [page()]})
    assert not store.wait([AGENT], 0.3)


def test_costs_and_conversations_wake_nobody(postgres):
    """A hundred boards of one agent are not to look at each turn of one of them: they take nothing of it over."""
    place = StorePlace("postgres", postgres.empty_database())
    with place.stack:
        waiting, writing = place.open("a", "1"), place.open("b", "2")
        assert not waiting.wait([AGENT], 0)
        writing.put({"turns": [turn()], "sessions": [session()], "ledger": [spending()]})
        assert not waiting.wait([AGENT], 0.5)
        writing.put({"skill_grants": []})
        writing.put({"documents": [page()]})
        assert waiting.wait([AGENT], 5)


# --- boards ---


def test_two_boards_that_claim_one_name_are_told_apart(place):
    first = place.open("shed", "nonce of the first")
    first.put({"turns": [turn()]}, receipt="r1")
    assert place.open(board="").claim("shed", "nonce of the first").receipt == "r1"
    with pytest.raises(StoreError, match=r"another home uses the name 'shed'.*--replace"):
        place.open("shed", "nonce of the second")
    assert place.open(board="").claim("kitchen", "nonce of the second").receipt == ""


def test_the_receipt_is_written_with_the_batch_or_not_at_all(place):
    store = place.open()
    store.put({"turns": [turn()]}, receipt="r1")
    with pytest.raises((StoreError, ValueError)):
        store.put({"turns": [turn(2) | {"number": "many"}]}, receipt="r2")
    assert place.open(board="").claim("shed", "n1").receipt == "r1"


def test_two_boards_that_set_up_one_store_at_once(place):
    """Each migration is done once, whoever is first."""
    failed = []

    def begin(number):
        try:
            place.open(f"board{number}", "n").put({"turns": [turn(number)]})
        except (StoreError, ValueError) as error:
            failed.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert len(place.open().list_rows("turns", {"agent_id": AGENT})) == 6


def test_a_store_that_is_newer_is_refused_and_left_as_it_is(place):
    """A board that was not updated changes nothing in what a newer picoclaw has made."""
    place.open().put({"turns": [turn()]})
    if place.kind == "sqlite":
        with contextlib.closing(apsw.Connection(place.url.removeprefix("sqlite:"))) as connection:
            connection.execute("INSERT INTO migrations VALUES ('m999_later', '')")
    else:
        import psycopg

        with psycopg.connect(place.url) as connection:
            connection.execute("INSERT INTO picoclaw.migrations (name) VALUES ('m999_later')")
    with pytest.raises(StoreNewer, match=r"newer picoclaw"):
        place.open()


# --- searches ---

SCOPE = SearchScope(AGENT)


def vector(*values):
    return np.array(values, np.int8).tobytes()


NOTES = [
    SharedChunk(1, 2, "2026-11-20 > Garden", "The pump in the greenhouse was watered by hand.", vector(100, 0, 0), "m"),
    SharedChunk(4, 5, "Kitchen", "The fuse of the oven is 7.5 A; Jürgen changed it.", vector(0, 100, 0), "m"),
    SharedChunk(7, 7, "Kitchen", "水ポンプは青い", vector(70, 70, 0), "m"),
    SharedChunk(9, 9, "", "Nothing has a vector here.", None, ""),
]


def put_notes(store, notes=NOTES, **values):
    row = page(**values)
    assert store.put({"documents": [row]}, {row["id"]: notes}) == {}


@pytest.mark.parametrize(
    ("word", "starts"),
    [
        ("pump", [1]),
        ("pumps", [1]),
        ("watering", [1]),
        ("PUMP", [1]),
        ("jurgen", [4]),
        ("kitchen", [4, 7]),
        ("2026-11-20", [1]),
        ("2026-11-02", []),
        ("ポンプ", [7]),
        ("nobody", []),
        ("'; DROP", []),
        ("!!", []),
        ("", []),
    ],
)
def test_chunks_are_found_by_words(store, word, starts):
    put_notes(store)
    found = store.match_chunks(SCOPE, {word: 1.0}, 10)
    rows = store.get_chunks(SCOPE, [number for number, _ in found])
    assert sorted(row.start for row in rows) == starts
    assert all(worth > 0 for _, worth in found)
    assert store.count_chunks(SCOPE, {word: [word], "oven": ["stove", "ovens"]}) == (
        4,
        {word: len(starts), "oven": 1},
    )


def test_a_chunk_is_given_as_a_memory_row(store):
    put_notes(store, path="memory/202611/20261120.md")
    ((number, _),) = store.match_chunks(SCOPE, {"pump": 1.0}, 10)
    (row,) = store.get_chunks(SCOPE, [number])
    assert row == MemoryRow(
        number, "memory/202611/20261120.md", 1, 2, NOTES[0].heading, NOTES[0].text, "2026-11-20", 0.0
    )


def test_chunks_are_compared_by_their_vectors(store):
    put_notes(store)
    rows = {row.start: row.id for row in store.get_chunks(SCOPE, range(1, 100))}
    found = store.compare_vectors(SCOPE, "m", [2.0, 0.0, 0.0], 2, [rows[4], 10_000])
    cosines = {rows[1]: 1.0, rows[7]: 0.5**0.5, rows[4]: 0.0}
    assert found.cosines == pytest.approx(cosines, abs=1e-3)
    every = np.array([*cosines.values()])
    assert tuple(found[:4]) == pytest.approx((3, every.mean(), every.std(), 1.0), abs=1e-3)
    assert store.compare_vectors(SCOPE, "another", [1.0, 0.0, 0.0], 2, []) is None
    assert store.compare_vectors(SCOPE, "m", [1.0, 0.0], 2, []) is None
    assert store.sample_vectors(SCOPE, "m", [[1, 0, 0], [1, 1, 0], [0, 0, 1]], 100) == pytest.approx((1.0, 3), abs=1e-3)
    assert store.sample_vectors(SCOPE, "another", [[1, 0, 0]], 100)[1] == 0


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        (SearchScope(AGENT), ["agent's"]),
        (SearchScope(AGENT, ("", "anna")), ["agent's", "anna's"]),
        (SearchScope(AGENT, ("anna",)), ["anna's"]),
        (SearchScope(OTHER, ("", "anna", "bob")), ["other's"]),
        (SearchScope(AGENT, ()), []),
    ],
)
def test_a_search_stays_within_its_scope(store, scope, found):
    for agent, person, text in [
        (AGENT, "", "agent's"),
        (AGENT, "anna", "anna's"),
        (AGENT, "bob", "bob's"),
        (OTHER, "", "other's"),
    ]:
        put_notes(store, [SharedChunk(1, 1, "", f"pump {text}", vector(1, 0), "m")], agent=agent, person=person)
    every = range(1, 100)
    assert sorted(row.text for row in store.get_chunks(scope, every)) == [f"pump {text}" for text in found]
    assert len(store.match_chunks(scope, {"pump": 1.0}, 10)) == len(found)
    assert store.count_chunks(scope, {"pump": ["pump"]}) == (len(found), {"pump": len(found)})
    compared = store.compare_vectors(scope, "m", [1.0, 0.0], 10, every)
    assert len(compared.cosines if compared else {}) == len(found)


def test_the_chunks_of_a_page_go_with_its_text_and_stay_where_it_is_in_conflict(store):
    put_notes(store)
    row = page(content="two\n", version=2)
    store.put({"documents": [row]}, {row["id"]: [SharedChunk(1, 1, "", "only a fan")]})
    assert store.count_chunks(SCOPE, {"pump": ["pump"], "fan": ["fan"]}) == (1, {"pump": 0, "fan": 1})
    assert store.put({"documents": [row | {"content": "x"}]}, {row["id"]: NOTES})
    assert store.count_chunks(SCOPE, {"fan": ["fan"]}) == (1, {"fan": 1})
    store.put({"documents": [page(content="", version=3, deleted=True)]}, {row["id"]: []})
    assert store.count_chunks(SCOPE, {})[0] == 0


def test_what_chunks_a_page_has_is_told(store):
    put_notes(store)
    number = page()["id"]
    vectors = sum(part.vector is not None for part in NOTES)
    found = store.describe_chunks([number, page("memory/b.md")["id"]])
    assert found == {number: (len(NOTES), vectors, max(part.model for part in NOTES))}


# --- addresses ---


@each_row("url", ["", "mysql://x/y", "postgresql", "sqlite:relative.db", "sqlite:", "/tmp/x.db"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigError, match="url must be postgresql://"):
        open_shared_store(url)


def test_the_pulled_tables_are_those_that_mark_deletions():
    assert not {"turns", "sessions", "summaries", "ledger", "document_versions"} & set(PULLED)
    assert {"document_versions", "summaries"} == KEPT


# --- the shape of the database ---

SQL_TYPES = {
    "sqlite": {"text": "TEXT", "int": "INTEGER", "real": "REAL", "bool": "INTEGER", "uuid": "TEXT"},
    "postgres": {"text": "text C", "int": "bigint", "real": "double precision", "bool": "boolean", "uuid": "uuid"},
}


def list_columns(place, table):
    """The columns of a table as the database has them: each with its type, and whether it may hold NULL."""
    if place.kind == "sqlite":
        with contextlib.closing(apsw.Connection(place.url.removeprefix("sqlite:"))) as connection:
            rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
        return {name: (kind, bool(required)) for _, name, kind, required, *_ in rows}
    import psycopg

    with psycopg.connect(place.url) as connection:
        rows = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) || CASE collname WHEN 'C' THEN ' C' ELSE '' END, attnotnull"
            " FROM pg_attribute LEFT JOIN pg_collation AS c ON c.oid = attcollation"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
            (f"picoclaw.{table}",),
        ).fetchall()
    return {name: (kind or "text", required) for name, kind, required in rows}


@pytest.mark.parametrize("table", TABLES)
def test_the_migrations_make_the_tables_that_the_code_has(place, table):
    """TABLES says what rows are, and frozen SQL makes the tables: whoever changes the one needs a migration."""
    place.open()
    types = SQL_TYPES[place.kind]
    wanted = {name: (types[kind], True) for name, kind in TABLES[table].all_columns.items()}
    changed = ("INTEGER" if place.kind == "sqlite" else "xid8", True)
    found = {name: (kind or "text", required) for name, (kind, required) in list_columns(place, table).items()}
    assert found == wanted | {"changed": changed}

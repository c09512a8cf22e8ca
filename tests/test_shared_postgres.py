"""What only PostgreSQL has: roles and row security, migrations of several boards, and everything that can be wrong."""

import contextlib
import hashlib
import ssl
import subprocess
import threading
import time

import psycopg
import pytest
from postgres_server import PASSWORD, Proxy
from rows import each_row
from shared_kit import AGENT, OTHER, Board, Clock, page, session, turn

from picoclaw.agents import agent_id
from picoclaw.config import Config
from picoclaw.config.tables import StoreConfig
from picoclaw.errors import ConfigError, StoreError, StoreNewer, StoreUnreachable
from picoclaw.shared_store.postgres import read_address, revoke_board, set_up_board, show_address
from picoclaw.shared_store.store import MIGRATIONS, TABLES, SearchScope, SharedChunk, make_id, open_shared_store
from picoclaw.shared_store.sync import StoreWorker


@pytest.fixture
def url(postgres):
    return postgres.empty_database()


def open_as(role):
    return contextlib.closing(open_shared_store(role.address, role.password))


@pytest.fixture
def two(url):
    """Two boards with an agent each, and a row of each table that has chunks, for both."""
    mine = set_up_board(url, "", "shed", {"home": AGENT}, replaces=False)
    theirs = set_up_board(url, "", "kitchen", {"other": OTHER}, replaces=False)
    for role, board, agent in ((mine, "shed", AGENT), (theirs, "kitchen", OTHER)):
        with open_as(role) as store:
            store.claim(board, board)
            note = page(agent=agent, content=f"secret of the {board}\n")
            rows = {"documents": [note], "sessions": [session(agent=agent)], "turns": [turn(agent=agent)]}
            store.put(rows, {note["id"]: [SharedChunk(1, 1, "", f"secret of the {board}", b"\1\2", "m")]})
    return mine, theirs


# --- roles ---

THEIRS = page(agent=OTHER)["id"]
ATTACKS = [
    *(f"SELECT * FROM picoclaw.{table} WHERE agent_id <> '{AGENT}'" for table in (*TABLES, "chunks", "board_agents")),
    "SELECT * FROM picoclaw.boards WHERE name <> 'shed'",
    f"UPDATE picoclaw.documents SET content = 'x' WHERE id = '{THEIRS}' RETURNING id",
    f"UPDATE picoclaw.documents SET agent_id = '{OTHER}' RETURNING id",
    f"UPDATE picoclaw.turns SET agent_id = '{OTHER}' RETURNING id",
    f"DELETE FROM picoclaw.turns WHERE agent_id = '{OTHER}' RETURNING id",
    "DELETE FROM picoclaw.documents RETURNING id",
    "DELETE FROM picoclaw.ledger RETURNING id",
    f"INSERT INTO picoclaw.board_agents VALUES ('shed', '{OTHER}')",
    "UPDATE picoclaw.boards SET role = session_user WHERE name = 'kitchen' RETURNING name",
    "UPDATE picoclaw.boards SET nonce = '' WHERE name = 'kitchen' RETURNING name",
    "UPDATE picoclaw.boards SET revoked = false RETURNING name",
    "INSERT INTO picoclaw.boards (name, role) VALUES ('new', 'new')",
    "TRUNCATE picoclaw.documents",
    "DROP TABLE picoclaw.documents",
    "ALTER TABLE picoclaw.documents DISABLE ROW LEVEL SECURITY",
    "CREATE TABLE picoclaw.mine (a int)",
    "CREATE SCHEMA mine",
    "CREATE OR REPLACE FUNCTION picoclaw.visible_agents() RETURNS uuid[] LANGUAGE sql AS $$ SELECT '{}'::uuid[] $$",
    "SET SESSION AUTHORIZATION picoclaw_kitchen",
    "SET ROLE picoclaw_kitchen",
    "SET ROLE admin",
    "SET row_security = off; SELECT * FROM picoclaw.documents",
    "ALTER ROLE picoclaw_kitchen PASSWORD 'x'",
    "ALTER ROLE picoclaw_shed SUPERUSER",
    "CREATE ROLE mine",
    "CREATE EXTENSION vector",
    "SELECT rolpassword FROM pg_authid",
    "SELECT pg_read_file('/etc/passwd')",
    "COPY picoclaw.documents TO PROGRAM 'cat'",
    "COPY (SELECT 1) TO '/tmp/x'",
    "SELECT most_common_vals FROM pg_stats WHERE schemaname = 'picoclaw' AND tablename = 'documents'",
    "INSERT INTO picoclaw.migrations (name) VALUES ('m999')",
]


def run_attack(thief, attack):
    try:
        cursor = thief.execute(attack)
        return cursor.fetchall() if cursor.description else ["done"], None
    except psycopg.Error as error:
        return [], error.sqlstate


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_stolen_board_sees_and_changes_only_its_agents_rows(two, postgres, attack):
    mine, _ = two
    postgres.run("ANALYZE", "shared")
    with psycopg.connect(mine.address, password=mine.password, autocommit=True) as thief:
        found, state = run_attack(thief, attack)
    assert found == []
    assert state in {None, "42501", "42710"}  # nothing found, not allowed, there already
    assert postgres.run(f"SELECT content, agent_id::text FROM picoclaw.documents WHERE id = '{THEIRS}'", "shared") == [
        ("secret of the kitchen\n", OTHER)
    ]


def test_a_stolen_board_can_put_nothing_under_another_agent(two):
    mine, theirs = two
    with open_as(mine) as store:
        store.claim("shed", "shed")
        for rows in (
            {"documents": [page(agent=OTHER, version=2, content="mine")]},
            {"documents": [page("memory/new.md", agent=OTHER)]},
            {"turns": [turn(9, agent=OTHER)]},
            {"documents": [page(agent=OTHER, version=2) | {"agent_id": AGENT}]},  # their row under our agent
        ):
            with pytest.raises(StoreError, match="may not do that"):
                store.put(rows)
        assert store.get("documents", [THEIRS]) == []
        scope = SearchScope(OTHER, ("", "anna"))
        assert store.count_chunks(scope, {"secret": ["secret"]}) == (0, {"secret": 0})
        assert store.match_chunks(scope, {"secret": 1.0}, 9) == []
        assert store.compare_vectors(scope, "m", [1.0, 2.0], 9, range(99)) is None
        assert store.changes("documents", OTHER, "").rows == []
        assert [row.text for row in store.get_chunks(SearchScope(AGENT), range(99))] == ["secret of the shed"]
    with open_as(theirs) as store:
        assert [row["content"] for row in store.get("documents", [THEIRS])] == ["secret of the kitchen\n"]


def test_a_board_needs_its_role_and_its_name(two):
    mine, theirs = two
    with open_as(mine) as store, pytest.raises(StoreError, match=r"knows no board 'kitchen'.*picoclaw store setup"):
        store.claim("kitchen", "kitchen")
    with open_as(theirs) as store:
        assert store.claim("kitchen", "kitchen").agents == (OTHER,)


def test_a_new_password_a_new_home_and_a_revocation(two, url):
    mine, _ = two
    renewed = set_up_board(url, "", "shed", {"home": AGENT}, replaces=False)
    assert renewed.address == mine.address
    with pytest.raises(StoreError, match="does not take the password") as caught, open_as(mine):
        pass
    assert mine.password not in str(caught.value)
    with open_as(renewed) as store:
        with pytest.raises(StoreError, match="another home uses the name"):
            store.claim("shed", "of a new home")
        renewed = set_up_board(url, "", "shed", {"home": AGENT}, replaces=True)
    with open_as(renewed) as store:
        assert store.claim("shed", "of a new home").receipt == ""
        assert revoke_board(url, "", "shed") == 1
        with pytest.raises(StoreError, match=r"shut down|broke"):
            store.put({"turns": [turn()]})
        with pytest.raises(StoreError, match="this board was revoked"):
            store.put({"turns": [turn()]})
    again = set_up_board(url, "", "shed", {"home": AGENT}, replaces=False)
    with open_as(again) as store:
        assert len(store.get("documents", [page(agent=AGENT)["id"]])) == 1
    with pytest.raises(StoreError, match="knows no board 'attic'"):
        revoke_board(url, "", "attic")


def test_setup_says_who_else_has_the_agent_and_takes_agents_away(url):
    set_up_board(url, "", "shed", {"home": AGENT}, replaces=False)
    found = set_up_board(url, "", "kitchen", {"home": AGENT, "other": OTHER}, replaces=False)
    assert found.sharing == {"home": ["shed"], "other": []}
    with open_as(found) as store:
        store.claim("kitchen", "n")
        store.put({"documents": [page(), page(agent=OTHER)]})
        set_up_board(url, "", "kitchen", {"home": AGENT}, replaces=False)
        assert [row["agent_id"] for row in store.get("documents", [page()["id"], THEIRS])] == [AGENT]


@pytest.mark.parametrize("board", ["", "Shed", "a b", "x'; DROP", "../x", "ä", "a" * 49])
def test_a_name_that_is_none_for_a_board_is_refused(url, board):
    with pytest.raises(ConfigError, match="is no name for a board"):
        set_up_board(url, "", board, {}, replaces=False)


def test_the_roles_of_another_database_are_left_alone(url, postgres):
    set_up_board(url, "", "shed", {"home": AGENT}, replaces=False)
    with pytest.raises(StoreError, match="has a user 'picoclaw_shed' already"):
        set_up_board(postgres.make_database(), "", "shed", {"home": AGENT}, replaces=False)


def test_a_home_synchronises_with_the_role_of_its_board(url, tmp_path):
    role = set_up_board(url, "", "shed", {key: agent_id(key) for key in ("default", "garden")}, replaces=False)
    address = role.address.replace("@", f":{role.password}@")
    board = Board(tmp_path / "shed", address, Clock())
    with board.stack:
        for text in ("one\n", "two\n"):
            board.write("memory/a.md", text)
            board.say(text)
            board.run()
        (board.config.home / "memory-history").mkdir()
        (board.config.home / "memory-history/forgotten").touch()
        assert board.run().erased == 1
        assert board.run().is_empty


def test_an_agent_that_the_store_does_not_give_a_board_holds_nothing_else_up(url, tmp_path, postgres):
    """An owner has added an agent: what is the others' is shared, and the owner is told what to do."""
    for given, rest in ((("default",), ["garden"]), (("default", "garden"), []), (("garden",), ["default"])):
        role = set_up_board(url, "", "shed", {key: agent_id(key) for key in given}, replaces=False)
        board = Board(tmp_path / "shed", role.address.replace("@", f":{role.password}@"), Clock())
        with board.stack:
            for agent in ("", "garden"):
                board.write("memory/a.md", f"{given}\n", agent=agent)
                board.say("hello", agent=agent, key=agent or "terminal")
                board.spend(agent=agent)
            problems = board.run().problems
            assert [f"the agents {key}, so nothing of theirs is shared" in str(problems) for key in rest] == [
                True
            ] * len(rest)
            assert bool(problems) == bool(rest)
            found = postgres.run("SELECT DISTINCT agent_id::text FROM picoclaw.turns", "shared")
            assert {agent_id(key) for key in given} <= {agent for (agent,) in found}
            sql = "SELECT content FROM picoclaw.documents WHERE agent_id = %s AND NOT deleted"
            for key in given:
                found = postgres.run(sql.replace("%s", f"'{agent_id(key)}'"), "shared")
                assert found == [(f"{given}\n",)]


# --- migrations ---


def test_only_the_owner_migrates_and_a_board_says_what_to_do(url, postgres, monkeypatch):
    role = set_up_board(url, "", "shed", {"home": AGENT}, replaces=False)

    def m999_later(connection):
        connection.execute("CREATE TABLE picoclaw.later (a int)")

    monkeypatch.setattr("picoclaw.shared_store.postgres.MIGRATIONS", [*MIGRATIONS, m999_later])
    with pytest.raises(StoreError, match="set up by an older picoclaw: run `picoclaw store setup`"), open_as(role):
        pass
    assert set_up_board(url, "", "shed", {"home": AGENT}, replaces=False).migrations == ["m999_later"]
    monkeypatch.undo()
    for address, password in ((role.address, role.password), (url, "")):
        with pytest.raises(StoreError) as caught:
            open_shared_store(address, password)
        assert "does not take the password" in str(caught.value) or isinstance(caught.value, StoreNewer)
    with pytest.raises(StoreNewer, match=r"newer picoclaw \(it holds m999_later\); nothing was changed"):
        set_up_board(url, "", "shed", {"home": AGENT}, replaces=False)


CATALOGUE = """
    SELECT concat_ws(' ', relname, attname, format_type(atttypid, atttypmod), collname, attnotnull,
                     pg_get_expr(adbin, adrelid), attidentity)
    FROM pg_class AS c JOIN pg_attribute ON attrelid = c.oid LEFT JOIN pg_collation AS l ON l.oid = attcollation
    LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
    WHERE relnamespace = 'picoclaw'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'picoclaw'
    UNION ALL SELECT concat_ws(' ', tablename, policyname, cmd, qual, with_check) FROM pg_policies
    UNION ALL SELECT concat_ws(' ', relname, relrowsecurity) FROM pg_class
    WHERE relnamespace = 'picoclaw'::regnamespace AND relkind = 'r'
    UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'picoclaw'::regnamespace
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT concat_ws(' ', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE connamespace = 'picoclaw'::regnamespace AND contype IN ('c', 'f', 'u')
"""


def read_catalogue(postgres):
    return sorted(line for (line,) in postgres.run(CATALOGUE, "shared"))


def test_what_was_released_is_not_changed(url, postgres, monkeypatch):
    """A database that exists has what this migration has made then; one that is made today gets the same."""
    monkeypatch.setattr("picoclaw.shared_store.postgres.MIGRATIONS", MIGRATIONS[:1])
    open_shared_store(url).close()
    said = "\n".join(read_catalogue(postgres))
    assert hashlib.sha256(said.encode()).hexdigest()[:16] == "f27bfbfaf6f711cc"


def test_a_database_of_the_first_version_becomes_the_present_one_with_what_it_holds(url, postgres, monkeypatch):
    open_shared_store(url).close()
    wanted, applied = read_catalogue(postgres), [one.__name__ for one in MIGRATIONS]
    postgres.empty_database()
    monkeypatch.setattr("picoclaw.shared_store.postgres.MIGRATIONS", MIGRATIONS[:1])
    with contextlib.closing(open_shared_store(url)) as store:
        store.claim("shed", "n")
        note = page(content="old\n")
        store.put({"documents": [note], "sessions": [session()]}, {note["id"]: [SharedChunk(1, 1, "", "old")]})
    monkeypatch.undo()
    failed = []

    def begin(number):
        try:
            with contextlib.closing(open_shared_store(url)) as store:
                store.claim(f"board{number}", "n")
        except StoreError as error:
            failed.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    assert read_catalogue(postgres) == wanted
    assert postgres.run("SELECT name FROM picoclaw.migrations ORDER BY name", "shared") == [(one,) for one in applied]
    with contextlib.closing(open_shared_store(url)) as store:
        assert [row["content"] for row in store.get("documents", [page()["id"]])] == ["old\n"]
        assert store.count_chunks(SearchScope(AGENT), {"old": ["old"]}) == (1, {"old": 1})


def test_a_migration_may_take_longer_than_a_statement_and_others_wait_for_it(url, monkeypatch):
    """With a million rows an index takes minutes; the limits are for what boards ask."""

    def m999_long(connection):
        connection.execute("SELECT pg_sleep(3)")

    monkeypatch.setattr("picoclaw.shared_store.postgres.MIGRATIONS", [*MIGRATIONS, m999_long])
    monkeypatch.setattr("picoclaw.shared_store.postgres._STATEMENT_S", 1)
    monkeypatch.setattr("picoclaw.shared_store.postgres._LOCK_S", 1)
    failed = []

    def begin():
        try:
            open_shared_store(url).close()
        except StoreError as error:
            failed.append(str(error))

    boards = [threading.Thread(target=begin) for _ in range(20)]
    for one in boards:
        one.start()
    for one in boards:
        one.join()
    assert failed == []
    with contextlib.closing(open_shared_store(url)) as store, store._connected() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1s",)  # again


def test_a_migration_that_fails_leaves_nothing(url, postgres, monkeypatch):
    def m999_broken(connection):
        connection.execute("CREATE TABLE picoclaw.half (a int)")
        connection.execute("SELECT nothing")

    monkeypatch.setattr("picoclaw.shared_store.postgres.MIGRATIONS", [*MIGRATIONS, m999_broken])
    with pytest.raises(StoreError):
        open_shared_store(url)
    assert postgres.run("SELECT to_regclass('picoclaw.half'), to_regclass('picoclaw.documents')", "shared") == [
        (None, None)
    ]
    monkeypatch.undo()
    open_shared_store(url).close()


def test_a_role_without_rights_is_told_to_have_it_set_up(url, postgres):
    postgres.run("DROP ROLE IF EXISTS stranger")
    postgres.run("CREATE ROLE stranger LOGIN PASSWORD 'x'")
    for _ in range(2):
        with pytest.raises(StoreError, match="picoclaw store setup"):
            open_shared_store(postgres.url("shared", "stranger", "x"))
        open_shared_store(url).close()


# --- what can be wrong ---


@pytest.mark.parametrize(
    ("change", "text", "passes"),
    [
        (lambda url: url.replace(PASSWORD, "WrongSecret"), "does not take the password", False),
        (lambda url: url.replace(f":{PASSWORD}", ""), "asks for a password", False),
        (lambda url: url.replace("/shared", "/nowhere"), "has no such database", False),
        (lambda url: f"{url}?sslmode=require", "speaks no TLS", False),
        (lambda url: url.replace("127.0.0.1", "host.invalid"), "no such host, or no network", True),
        (lambda url: url.rpartition(":")[0] + ":9/shared", "nothing listens there", True),
    ],
)
def test_what_is_wrong_with_an_address_is_said_without_the_password(url, change, text, passes):
    with pytest.raises(StoreError, match=text) as caught:
        open_shared_store(change(url))
    assert isinstance(caught.value, StoreUnreachable) == passes
    assert "WrongSecret" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


@each_row("url", ["postgresql://", "postgresql://h/d", "postgresql://a:%zz@h/d"])
def test_an_address_that_cannot_be_read_is_refused_without_repeating_it(url):
    with pytest.raises(ConfigError) as caught:
        read_address(url)
    assert "geheim" not in str(caught.value)
    assert "geheim" not in show_address(url)


@each_row(
    ("url", "mode"),
    [
        ("postgresql://a@localhost/d", "prefer"),
        ("postgresql://a@127.0.0.1/d", "prefer"),
        ("postgresql://a@/d?host=/run/postgresql", "prefer"),
        ("postgresql://a@192.168.1.5/d", "require"),
        ("postgresql://a@db.example/d", "require"),
        ("postgresql://a@db.example/d?sslmode=verify-full", "verify-full"),
        ("postgresql://a@db.example/d?sslmode=disable", "disable"),
    ],
)
def test_over_a_network_the_connection_is_encrypted(url, mode):
    assert read_address(url)["sslmode"] == mode


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key", "-out", folder / "certificate"),
        ],
        check=True,
        capture_output=True,
    )
    return folder


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("sslmode=require", ""),
        ("sslmode=verify-full&sslrootcert={folder}/certificate", ""),
        ("sslmode=verify-full&sslrootcert=system", "not signed by an authority that is trusted here"),
        ("sslmode=verify-full&sslrootcert={folder}/certificate&host=127.0.0.1", "certificate is for another host"),
    ],
)
def test_tls(url, postgres, certificate, query, text):
    """The server of the tests has no TLS; this is what one that has it does before the first message."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "certificate", certificate / "key")
    proxy = Proxy(postgres.port, context)
    address = f"postgresql://admin:{PASSWORD}@localhost:{proxy.port}/shared?{query.format(folder=certificate)}"
    try:
        if text:
            with pytest.raises(StoreError, match=text):
                open_shared_store(address)
        else:
            with contextlib.closing(open_shared_store(address)) as store:
                store.claim("shed", "n")
                assert store.put({"turns": [turn()]}) == {}
    finally:
        proxy.close()


def test_a_database_that_is_read_only_takes_nothing_and_gives_all(url, postgres):
    with contextlib.closing(open_shared_store(url)) as store:
        store.claim("shed", "n")
        store.put({"documents": [page()]})
        postgres.run("ALTER DATABASE shared SET default_transaction_read_only = on")
        try:
            with contextlib.closing(open_shared_store(url)) as standby:
                with pytest.raises(StoreUnreachable, match="read-only now"):
                    standby.claim("shed", "n")
                assert len(standby.get("documents", [page()["id"]])) == 1
        finally:
            postgres.run("ALTER DATABASE shared SET default_transaction_read_only = off")


def test_a_database_that_hangs_is_given_up(url, postgres, monkeypatch):
    monkeypatch.setattr("picoclaw.shared_store.postgres._STATEMENT_S", 1)
    with contextlib.closing(open_shared_store(url)) as store, psycopg.connect(url) as other:
        store.claim("shed", "n")
        other.execute("LOCK TABLE picoclaw.turns")
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable, match="took longer than 1 seconds"):
            store.put({"turns": [turn()]})
        assert time.monotonic() - begun < 10


def test_a_server_that_takes_a_connection_and_says_nothing_is_given_up(monkeypatch):
    import socket

    monkeypatch.setattr("picoclaw.shared_store.postgres._CONNECT_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable, match="does not answer in time"):
            open_shared_store(f"postgresql://a@127.0.0.1:{silent.getsockname()[1]}/d?sslmode=disable")
        assert time.monotonic() - begun < 15


def test_a_database_that_is_restarted_is_found_again(postgres_class):
    with postgres_class() as server:
        url = server.make_database()
        with contextlib.closing(open_shared_store(url)) as store:
            store.claim("shed", "n")
            store.put({"turns": [turn(1)]})
            server.stop()
            for _ in range(2):
                with pytest.raises(StoreUnreachable, match=r"broke|shut down|nothing listens"):
                    store.put({"turns": [turn(2)]})
            server.start()
            store.put({"turns": [turn(2)]})
            assert len(store.list_rows("turns", {"agent_id": AGENT})) == 2


def test_boards_share_the_connections_of_a_small_server(postgres_class, tmp_path):
    """More boards than connections: those that only wait let go of theirs, and every board gets its turn."""
    with postgres_class({"max_connections": 12, "superuser_reserved_connections": 3}) as server:
        url = server.make_database()
        role = set_up_board(
            url, "", "board0", {"default": agent_id("default"), "garden": agent_id("garden")}, replaces=False
        )
        roles = [role] + [
            set_up_board(
                url,
                "",
                f"board{number}",
                {"default": agent_id("default"), "garden": agent_id("garden")},
                replaces=False,
            )
            for number in range(1, 16)
        ]
        made, log = [], []
        for number, role in enumerate(roles):
            board = Board(tmp_path / f"board{number}", role.address, Clock())
            board.write(f"memory/{number}.md", f"of board {number}\n")
            table = StoreConfig(url=role.address, board=board.name)
            config = Config(home=board.config.home, store=table, store_password=role.password)
            made.append((board, StoreWorker(config, board.clock, log_to(log), (0.05, 0.2, 1.0, 0.5))))
        for _, worker in made:
            worker.start()
        try:
            until = time.monotonic() + 60
            while left := [b.name for b, _ in made if any(b.read(f"memory/{n}.md") is None for n in range(16))]:
                assert time.monotonic() < until, (left, log)
                time.sleep(0.1)
            held = max(
                server.run("SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'picoclaw%'")[0][0]
                for _ in range(5)
            )
            assert held <= 9
        finally:
            for board, worker in made:
                worker.stop()
                board.stack.close()
        assert {line for line in log if "no connection left" not in line and "it answers again" not in line} == set()


def log_to(lines):
    def note(text, *, trouble=True):
        lines.append(text)

    return note


def test_a_server_that_is_full_is_said_to_be_full(postgres_class):
    with (
        postgres_class({"max_connections": 6, "superuser_reserved_connections": 3}) as server,
        contextlib.ExitStack() as stack,
    ):
        url = server.make_database()
        role = set_up_board(url, "", "shed", {"home": AGENT}, replaces=False)
        address = role.address.replace("@", f":{role.password}@")
        stores = [stack.enter_context(contextlib.closing(open_shared_store(address))) for _ in range(3)]
        with pytest.raises(StoreUnreachable, match="no connection left; raise max_connections, or use a pooler"):
            open_shared_store(address)
        assert [store.can_wait() for store in stores] == [False] * 3
        for store in stores[1:]:
            store.close()
        end = time.monotonic() + 20
        while not stores[0].can_wait():
            assert time.monotonic() < end
            time.sleep(0.1)


def test_a_wait_that_is_cut_ends(url, postgres):
    proxy = Proxy(postgres.port)
    with contextlib.closing(open_shared_store(url.replace(str(postgres.port), str(proxy.port)))) as store:
        begun = time.monotonic()
        assert not store.wait([AGENT], 60)  # it begins to listen, and who waits has to look once more
        assert time.monotonic() - begun < 20
        timer = threading.Timer(0.3, proxy.cut)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(StoreUnreachable):
            store.wait([AGENT], 60)
        assert time.monotonic() - begun < 20
        timer.join()
    proxy.close()


def test_ids_are_the_same_everywhere():
    assert make_id("document", AGENT, "", "memory/a.md") == make_id("document", AGENT, "", "memory/a.md")
    assert len({make_id("a", "b"), make_id("ab"), make_id("a", "b", ""), make_id("a\0b")}) == 3

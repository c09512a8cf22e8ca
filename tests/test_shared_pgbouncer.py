"""A store behind pgbouncer, by transaction: what boards do works, and a connection that two of them use leaks nothing."""

import contextlib
import threading

import psycopg
import pytest
from pgbouncer_server import PROGRAM, Pgbouncer
from shared_kit import AGENT, OTHER, Board, Clock, page, turn

from picoclaw.agents import agent_id
from picoclaw.shared_store.postgres import set_up_board
from picoclaw.shared_store.store import open_shared_store


@pytest.fixture
def pooled(postgres):
    """The administrator's address, and a pooler that has one connection for everybody."""
    url = postgres.empty_database()
    if not PROGRAM:
        pytest.skip("no pgbouncer here: apt install pgbouncer")
    with Pgbouncer(postgres, most=1, pool=1) as pooler:
        yield url, lambda user, password: postgres.url("shared", user, password, pooler.port)


@pytest.fixture
def two(pooled):
    """Two boards with an agent each, over one connection."""
    url, address = pooled
    with contextlib.ExitStack() as stack:
        stores = []
        for board, agent in (("shed", AGENT), ("kitchen", OTHER)):
            role = set_up_board(url, "", board, {"home": agent}, replaces=False)
            store = open_shared_store(address(f"picoclaw_{board}", role.password))
            stores.append(stack.enter_context(contextlib.closing(store)))
            store.claim(board, board)
            store.put({"turns": [turn(agent=agent)], "documents": [page(agent=agent, content=f"of the {board}\n")]})
        yield stores


def list_agents(store):
    return {row["agent_id"] for table in ("turns", "documents") for row in store.list_rows(table, {})}


def test_two_boards_on_one_connection_see_their_own_rows(two):
    failed = []

    def ask(store, agent):
        for number in range(20):
            store.put({"turns": [turn(number, agent=agent)]})
            if list_agents(store) != {agent} or store.changes("documents", OTHER if agent == AGENT else AGENT, "").rows:
                failed.append(agent)

    boards = [threading.Thread(target=ask, args=one) for one in zip(two, (AGENT, OTHER), strict=True)]
    for one in boards:
        one.start()
    for one in boards:
        one.join()
    assert failed == []
    assert [len(store.list_rows("turns", {})) for store in two] == [20, 20]


@pytest.mark.parametrize(
    "left",
    [
        "SET row_security = off",
        "SET search_path = pg_temp",
        "SET ROLE picoclaw_boards",
        "SET default_transaction_read_only = on",
        "SET statement_timeout = 1",
        "CREATE TEMP TABLE documents AS SELECT * FROM picoclaw.documents",
        'LISTEN "picoclaw x"',
        "SELECT pg_advisory_lock(1)",
    ],
)
def test_what_one_board_leaves_in_a_session_is_not_the_others(two, left):
    """The pooler gives a connection of one user to no other user; what is set for it ends with it."""
    shed, kitchen = two
    with shed._connected() as connection:
        connection.execute(left)
    assert list_agents(kitchen) == {OTHER}
    assert kitchen.put({"turns": [turn(7, agent=OTHER)]}) == {}
    with kitchen._connected() as connection:
        assert (
            connection.execute("SELECT session_user::text, current_user::text").fetchone() == ("picoclaw_kitchen",) * 2
        )
        assert connection.execute("SHOW row_security").fetchone() == ("on",)
    assert list_agents(shed) == {AGENT}


def test_a_board_behind_a_pooler_knows_that_it_hears_nothing(two, pooled):
    url, _ = pooled
    assert not two[0].can_wait()
    with contextlib.closing(open_shared_store(url)) as direct:
        assert direct.can_wait()


def test_boards_synchronise_over_one_connection(pooled, tmp_path):
    url, address = pooled
    made = []
    for name in ("attic", "cellar"):
        agents = {key: agent_id(key) for key in ("default", "garden")}
        role = set_up_board(url, "", name, agents, replaces=False)
        made.append(Board(tmp_path / name, address(f"picoclaw_{name}", role.password), Clock()))
    one, two = made
    with one.stack, two.stack:
        one.write("memory/a.md", "text\n")
        one.say("hello")
        for board in (one, two, one):
            board.run()
        assert two.read("memory/a.md") == "text\n"
        assert one.run().is_empty


def test_migrations_run_through_a_pooler(pooled, postgres):
    """The advisory lock is one of the transaction, and what is set for it ends with it."""
    _, address = pooled
    admin = address("admin", "only-for-tests")
    boards = [threading.Thread(target=lambda: open_shared_store(admin).close()) for _ in range(5)]
    for one in boards:
        one.start()
    for one in boards:
        one.join()
    with psycopg.connect(admin, autocommit=True, prepare_threshold=None) as connection:
        assert connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)
        assert connection.execute("SELECT count(*) > 0 FROM picoclaw.migrations").fetchone() == (True,)

"""Gives a board its role in PostgreSQL, and takes it away: what `picoclaw store setup` does with the administrator's address.

A board's role may read and write the rows of its agents and nothing else, so that a board which is stolen shows no more.
"""

import contextlib
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
from psycopg import sql

from picoclaw.errors import ConfigError, StoreError
from picoclaw.records import NamedTuple
from picoclaw.shared.postgres import connect, explain_errors, migrate, read_address, refuse_newer, show_address
from picoclaw.shared.tables import ERASABLE, TABLES

GROUP = "picoclaw_boards"
_BOARD_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,47}")
_MAX_CONNECTIONS = 6
_LIMITS = {"statement_timeout": "30s", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "20s"}


class BoardRole(NamedTuple):
    """What a board connects with, and which other boards have one of its agents."""

    address: str
    password: str
    migrations: list[str]
    sharing: dict[str, list[str]]


def check_board_name(board: str) -> str:
    if not _BOARD_NAME.fullmatch(board):
        raise ConfigError(f"{board!r} is no name for a board: it takes small letters, digits, - and _, 48 at most")
    return board


@contextlib.contextmanager
def administer(url: str, password: str = "") -> Iterator["psycopg.Connection[Any]"]:
    """Connect as the administrator. Raises ConfigError and StoreError."""
    options = read_address(url, password)
    with explain_errors(show_address(url), str(options.get("password") or "")):
        connection = connect(options)
        with contextlib.closing(connection):
            yield connection


def set_up_board(url: str, password: str, board: str, agents: Mapping[str, str], *, replaces: bool) -> BoardRole:
    """Make or renew schema, roles and the board's rights; `agents` are its keys and ids. Raises StoreError.

    The board gets a new password. `replaces` lets another home take the board's name.
    """
    role, fresh = f"picoclaw_{check_board_name(board)}", secrets.token_urlsafe(24)
    with administer(url, password) as connection:
        refuse_newer(connection, show_address(url))
        done = migrate(connection)
        with connection.transaction():
            _make_group(connection)
            known = _fetch(connection, "SELECT role FROM picoclaw.boards WHERE name = %s", board)
            exists = _fetch(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", role)
            if exists and known != [(role,)]:
                raise StoreError(f"this server has a user {role!r} already, for another database; take another --board")
            if known and known != [(role,)]:
                raise StoreError(f"the board {board!r} writes as the user who owns the tables; take another --board")
            _make_role(connection, role, fresh, is_new=not exists)
            connection.execute(
                "INSERT INTO picoclaw.boards (name, role) VALUES (%s, %s)"
                " ON CONFLICT (name) DO UPDATE SET revoked = false",
                (board, role),
            )
            if replaces:
                connection.execute("UPDATE picoclaw.boards SET nonce = '' WHERE name = %s", (board,))
            connection.execute("DELETE FROM picoclaw.board_agents WHERE board = %s", (board,))
            for agent in agents.values():
                connection.execute("INSERT INTO picoclaw.board_agents VALUES (%s, %s)", (board, agent))
            sharing = {
                key: [
                    name
                    for (name,) in _fetch(
                        connection,
                        "SELECT board FROM picoclaw.board_agents WHERE agent_id = %s AND board <> %s ORDER BY 1",
                        agent,
                        board,
                    )
                ]
                for key, agent in agents.items()
            }
    return BoardRole(_make_address(url, role), fresh, done, sharing)


def revoke_board(url: str, password: str, board: str) -> int:
    """Let a board in no more, and end its connections; returns how many. What it has written stays. Raises StoreError."""
    with administer(url, password) as connection:
        found = _fetch(connection, "UPDATE picoclaw.boards SET revoked = true WHERE name = %s RETURNING role", board)
        if not found:
            known = ", ".join(name for (name,) in _fetch(connection, "SELECT name FROM picoclaw.boards ORDER BY 1"))
            raise StoreError(f"the store knows no board {board!r}; it has {known or 'none'}")
        role = found[0][0]
        if _fetch(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", role):
            connection.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(sql.Identifier(role)))
        ended = _fetch(connection, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", role)
        return len(ended)


def _make_group(connection: "psycopg.Connection[Any]") -> None:
    """The rights that all boards have on the tables; which rows they are is the policies' matter."""
    if not _fetch(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", GROUP):
        connection.execute(f"CREATE ROLE {GROUP} NOLOGIN")
    tables = ", ".join(f"picoclaw.{name}" for name in (*TABLES, "chunks"))
    erasable = ", ".join(f"picoclaw.{name}" for name in (*ERASABLE, "chunks"))
    for right in (
        "USAGE ON SCHEMA picoclaw",
        f"SELECT, INSERT, UPDATE ON {tables}",
        f"DELETE ON {erasable}",
        "SELECT ON picoclaw.migrations, picoclaw.boards, picoclaw.board_agents",
        "UPDATE (nonce, receipt) ON picoclaw.boards",
    ):
        connection.execute(f"GRANT {right} TO {GROUP}")


def _make_role(connection: "psycopg.Connection[Any]", role: str, password: str, *, is_new: bool) -> None:
    name = sql.Identifier(role)
    if is_new:
        connection.execute(sql.SQL("CREATE ROLE {}").format(name))
    # the server, and its log, are only given what a password is compared with
    secret = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    connection.execute(
        sql.SQL(
            "ALTER ROLE {} LOGIN INHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS"
            f" CONNECTION LIMIT {_MAX_CONNECTIONS} PASSWORD {{}}"
        ).format(name, sql.Literal(secret))
    )
    connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(GROUP), name))
    for setting, value in _LIMITS.items():
        connection.execute(
            sql.SQL("ALTER ROLE {} SET {} = {}").format(name, sql.Identifier(setting), sql.Literal(value))
        )
    database = sql.Identifier(str(connection.info.dbname))
    connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, name))


def _make_address(url: str, role: str) -> str:
    """The administrator's address as the board's: with its user, and without a password."""
    scheme, _, rest = url.partition("://")
    authority, slash, tail = rest.partition("/")
    return f"{scheme}://{role}@{authority.rpartition('@')[2]}{slash}{tail}"


def _fetch(connection: "psycopg.Connection[Any]", statement: str, *values: object) -> list[Any]:
    return list(connection.execute(statement, values))

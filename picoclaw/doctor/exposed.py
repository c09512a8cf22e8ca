"""Who can reach what: a key on a line that others hear, a model's server that is open to the network.

Sources: proc_net_tcp (kernel document networking/proc_net_tcp.rst): local address in hexadecimal words of the
machine's byte order, state 0A is LISTEN.
"""

import ipaddress
import socket
import sys
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from picoclaw.config import Config
from picoclaw.hw import health
from picoclaw.hw.board import Board
from picoclaw.hw.health import Row

_LISTENS = "0A"
_PORTS = {"http": 80, "https": 443}


class Listener(NamedTuple):
    """A port that a program of this machine answers at, and the address that it is bound to."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int


def examine(board: Board, config: Config) -> Iterator[Row]:
    """Look at the models' addresses, and at what listens here."""
    address = urlsplit(config.model.base_url)
    host = address.hostname or ""
    yield from _open_keys(config)
    if loopback(host):
        port = _port(address.netloc, address.scheme)
        for listener in listeners(board):
            if listener.port == port and listener.address.is_unspecified:
                how = f"its server answers the whole network at port {port}, and asks nobody for a password"
                yield Row("note", "model", how, "start it with --host 127.0.0.1 (Ollama: OLLAMA_HOST=127.0.0.1)")
                break


def _open_keys(config: Config) -> Iterator[Row]:
    further = ((f"model {name}", model, config.model_keys.get(name, "")) for name, model in config.models.items())
    for what, model, key in (("model", config.model, config.api_key), *further):
        address = urlsplit(model.base_url)
        if address.scheme == "http" and key and address.hostname and not near(address.hostname):
            how = f"{model.shown_url} is asked without encryption: the key can be read on the way"
            yield Row("bad", what, how, "write https:// in base_url")


def _port(netloc: str, scheme: str) -> int:
    try:
        return urlsplit(f"//{netloc}").port or _PORTS.get(scheme, 0)
    except ValueError:
        return 0


def loopback(host: str) -> bool:
    """Tell whether a name or an address is this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def near(host: str) -> bool:
    """Tell whether a name or an address belongs to this machine or its own network."""
    try:
        found = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return loopback(host) or "." not in host or host.endswith((".local", ".lan", ".home.arpa", ".internal"))
    return found.is_private or found.is_loopback or found.is_link_local


def listeners(board: Board) -> list[Listener]:
    """List what listens for TCP here; nothing where the kernel does not tell."""
    found = []
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in health.read(board, path).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 3 and fields[3] == _LISTENS and (listener := _listener(fields[1])):
                found.append(listener)
    return found


def _listener(text: str) -> Listener | None:
    words, _, port = text.partition(":")
    try:
        raw = bytes.fromhex(words)
        if sys.byteorder == "little":
            raw = b"".join(raw[i : i + 4][::-1] for i in range(0, len(raw), 4))
        family = socket.AF_INET6 if len(raw) == 16 else socket.AF_INET
        return Listener(ipaddress.ip_address(socket.inet_ntop(family, raw)), int(port, 16))
    except ValueError:
        return None

"""Which addresses of the public web may be asked: pure arithmetic on their spelling and their numbers.

What is allowed is listed, not what is forbidden: of IPv6 the global unicast range alone, without its special blocks.
Sources: IANA's special-purpose address registries (RFC 6890), RFC 6052 (NAT64), RFC 5214 (ISATAP).
"""

import re
import sys
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from picoclaw.errors import ToolError
from picoclaw.records import NamedTuple
from picoclaw.text import pattern

Network = IPv4Network | IPv6Network

_NOT_PUBLIC = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "shared by a provider's customers",
    "127.0.0.0/8": "this board itself",
    "168.63.129.16/32": "a cloud's metadata",
    "169.254.0.0/16": "link-local, or a cloud's metadata",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "reserved",
    "192.52.193.0/24": "reserved",
    "192.88.99.0/24": "a tunnel",
    "192.168.0.0/16": "a private network",
    "192.175.48.0/24": "reserved",
    "198.18.0.0/15": "for measurements",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
    "2001::/23": "reserved, or a tunnel",
    "2001:db8::/32": "for documentation",
    "2002::/16": "a tunnel",
    "2620:4f:8000::/48": "reserved",
    "3ffe::/16": "reserved",
    "3fff::/20": "for documentation",
}
_SPECIAL_BLOCKS = tuple((ip_network(block), why) for block, why in _NOT_PUBLIC.items())
_GLOBAL_6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_MAPPED = IPv6Network("::ffff:0:0/96")
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})

_MAX_URL = 2048
_PORTS = frozenset({80, 443, 8000, 8080, 8443, 8888})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PARTS = pattern(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*)://(?P<where>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?:#.*)?")
_WHERE = pattern(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:]+)(?::(?P<port>[0-9]{0,5}))?")
_LABEL = pattern(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = pattern(r"[0-9]+|0x[0-9a-f]*")
_PRIVATE_SUFFIXES = frozenset(
    {"localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "corp", "private", "onion", "test"}
    | {"arpa", "invalid", "example"}
)


class WebAddress(NamedTuple):
    """A checked, normalized web address. `path` begins with a slash and includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.is_usual else f"{host}:{self.port}"

    @property
    def is_usual(self) -> bool:
        return self.port == _DEFAULT_PORTS[self.scheme]

    @property
    def url(self) -> str:
        return self.origin + self.path

    @property
    def is_number(self) -> bool:
        """Whether the host is an IP address."""
        return ":" in self.host or bool(_NUMBER.fullmatch(self.host.rpartition(".")[2]))


def parse_url(url: str, *, own: bool = False) -> WebAddress:
    """Parse and normalize an address; raises ToolError if it is malformed or never public.

    `own`: configured by the owner, so any host and port are accepted.
    """
    url = url.strip(" \t\r\n")
    if len(url) > _MAX_URL:
        raise ToolError(f"the address has {len(url)} characters; at most {_MAX_URL} are asked for")
    if any(not char.isprintable() or char.isspace() or char == "\\" for char in url):
        raise ToolError(f"the address {_quote(url)} holds a blank, a backslash or a character that cannot be seen")
    parts = _PARTS.fullmatch(url)
    if not parts or (scheme := parts["scheme"].lower()) not in _DEFAULT_PORTS:
        raise ToolError(f"the address {_quote(url)} must begin with http:// or https://")
    if "@" in parts["where"]:
        raise ToolError(f"the address {_quote(url)} holds a user's name before its host; leave that out")
    where = _WHERE.fullmatch(parts["where"])
    if not where:
        raise ToolError(f"the address {_quote(url)} has no host that can be read; write https://HOST/PATH")
    from urllib.parse import quote

    path = quote((parts["path"] or "/") + (parts["query"] or ""), safe="/?&=%#:@!$'()*+,;~[]|-._")
    port = int(where["port"] or _DEFAULT_PORTS[scheme])
    found = WebAddress(scheme, _normalize_host(where["host"]), port, path)
    if own:
        return found
    if port not in _PORTS:
        raise ToolError(f"port {port} is not one of the web's: {', '.join(map(str, sorted(_PORTS)))} are asked")
    if found.is_number:
        if why := explain_refusal(found.host):
            raise ToolError(f"{found.host} is not a public address ({why}); only the public web is read")
    elif "." not in found.host or found.host.rpartition(".")[2] in _PRIVATE_SUFFIXES:
        raise ToolError(f"{found.host} is a name of a private network; only the public web is read")
    return found


def explain_refusal(number: str, near: Iterable[Network] = ()) -> str:
    """Say why an IP address is not public, '' if it is; `near` are the board's own networks."""
    try:
        address = ip_address(number)
    except ValueError:
        return "no address"
    if isinstance(address, IPv6Address) and (address in _NAT64 or address in _MAPPED):
        address = IPv4Address(int(address) & 0xFFFFFFFF)  # the IPv4 address that it leads to
    if isinstance(address, IPv6Address):
        if address.scope_id or address not in _GLOBAL_6:
            return "not of the global range"
        if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
            return "a tunnel"
    if why := next((why for block, why in _SPECIAL_BLOCKS if address in block), ""):
        return why
    return "in this board's own network" if any(address in network for network in near) else ""


def _normalize_host(host: str) -> str:
    if host.startswith("["):
        try:
            return IPv6Address(host[1:-1]).compressed
        except ValueError:
            raise ToolError(f"{host} is no IPv6 address") from None
    if not host.isascii():
        import idna

        try:
            host = idna.encode(host, uts46=True).decode()
        except idna.IDNAError as error:
            raise ToolError(f"{_quote(host)} is no name of a host: {error}") from None
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ToolError(f"{_quote(host)} is no name of a host")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise ToolError(f"{host} is an oddly spelt number; write the host's name") from None
    return host


def _quote(text: str) -> str:
    """Quote the beginning of a bad address, without what precedes an @ (it may be a password)."""
    text = re.sub(r"//[^/@]*@", "//…@", text)
    return ascii(text[:80]) if not text.isprintable() else repr(text[:80])


# The networks that this board is in, by the kernel's routing tables. The IPv6 addresses of a home are global ones, so
# that no table of special addresses has its router and printer.

_GATEWAY = 0x0002
_LARGEST = 16  # bits; a VPN's halves of the whole world are no neighbourhood
_SITE = 56  # bits; what a provider gives a household at least (RIPE-690, section 4.2)


def list_local_networks() -> list[Network]:
    """The networks that are reached without a gateway."""
    found: list[Network] = []
    for path, parse in _ROUTE_PARSERS.items():
        with suppress(OSError):
            found += parse(path.read_text("ascii"))
    return found


def parse_routes_4(table: str) -> list[Network]:
    """Read /proc/net/route."""
    found: list[Network] = []
    for line in table.splitlines()[1:]:
        row = line.split()
        if len(row) > 7 and not int(row[3], 16) & _GATEWAY:
            destination, mask = (int.from_bytes(bytes.fromhex(row[i]), sys.byteorder) for i in (1, 7))
            if (bits := mask.bit_count()) >= _LARGEST:
                found.append(IPv4Network((destination, bits), strict=False))
    return found


def parse_routes_6(table: str) -> list[Network]:
    """Read /proc/net/ipv6_route; a global network is widened to a household's usual prefix."""
    found: list[Network] = []
    for line in table.splitlines():
        row = line.split()
        if len(row) > 4 and re.fullmatch("0+", row[4]) and row[0][0] in "23":
            bits = int(row[1], 16)
            if bits >= _SITE:
                found.append(IPv6Network((IPv6Address(bytes.fromhex(row[0])), _SITE), strict=False))
    return found


_ROUTE_PARSERS = {Path("/proc/net/route"): parse_routes_4, Path("/proc/net/ipv6_route"): parse_routes_6}


# Addresses in what a person wrote, what a search found, what a page links to.

_MOST_SESSIONS, _MOST_EACH = 32, 1000
_WRITTEN = pattern(r"(?:https?://)?[^\s<>\"'`|]{1,2048}", re.IGNORECASE)
_HOST_LIKE = pattern(r"(?:[\w-]+\.)+[^\W\d_]{2,}(?::\d+)?(?:[/?].*)?", re.IGNORECASE)
_AROUND = "([{<.,;:!?)]}>*_"


def normalize_url(url: str) -> str:
    """Normalize an address, with https if it names no scheme; raises ToolError."""
    return parse_url(url if "://" in url else f"https://{url.strip()}").url


def find_urls(texts: Iterable[str]) -> set[str]:
    """Find addresses in texts; one without http:// counts as both kinds."""
    found: set[str] = set()
    for word in (match[0] for text in texts for match in _WRITTEN.finditer(text)):
        for one in {word.strip(_AROUND), word}:
            whole = one.lower().startswith(("http://", "https://"))
            for url in (one,) if whole else (f"https://{one}", f"http://{one}") if _HOST_LIKE.fullmatch(one) else ():
                with suppress(ToolError):
                    found.add(parse_url(url).url)
    return found


class KnownUrls:
    """The newest addresses that each conversation has seen, in memory only."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    def add(self, session: str, urls: Iterable[str]) -> None:
        mine = self._of.setdefault(session, OrderedDict())
        self._of.move_to_end(session)
        mine.update(dict.fromkeys(urls))
        while len(mine) > _MOST_EACH:
            mine.popitem(last=False)
        while len(self._of) > _MOST_SESSIONS:
            self._of.popitem(last=False)

    def has(self, session: str, url: str) -> bool:
        return url in self._of.get(session, ())

"""The networks that this board is in, as the kernel's tables of routes tell them: nobody's web page lives there.

A flat's IPv6 addresses are global ones, so that no table of special addresses knows the router and the printer.
"""

import re
import sys
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from picoclaw.web.address import Network

_GATEWAY = 0x0002
_LARGEST = 16  # bits; a VPN's halves of the whole world are no neighbourhood
_SITE = 56  # bits; what a provider gives a household at least (RIPE-690, section 4.2)
_FILES = Path("/proc/net/route"), Path("/proc/net/ipv6_route")


def nearby() -> list[Network]:
    """List the networks that are reached without a gateway; none where the kernel does not tell."""
    four, six = (_text(path) for path in _FILES)
    return [*on_link_4(four), *on_link_6(six)]


def on_link_4(table: str) -> list[Network]:
    """Read /proc/net/route."""
    found: list[Network] = []
    for line in table.splitlines()[1:]:
        row = line.split()
        if len(row) > 7 and not int(row[3], 16) & _GATEWAY:
            destination, mask = (int.from_bytes(bytes.fromhex(row[i]), sys.byteorder) for i in (1, 7))
            if (bits := mask.bit_count()) >= _LARGEST:
                found.append(IPv4Network((destination, bits), strict=False))
    return found


def on_link_6(table: str) -> list[Network]:
    """Read /proc/net/ipv6_route; a global network is widened to what a household is given as a whole."""
    found: list[Network] = []
    for line in table.splitlines():
        row = line.split()
        if len(row) > 4 and re.fullmatch("0+", row[4]) and row[0][0] in "23":
            bits = int(row[1], 16)
            if bits >= _SITE:
                found.append(IPv6Network((IPv6Address(bytes.fromhex(row[0])), _SITE), strict=False))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except OSError:
        return ""

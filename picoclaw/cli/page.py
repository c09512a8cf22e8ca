"""`picoclaw page`: lets a browser in, and says where the page is and who has been let in."""

import argparse
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from picoclaw.channels.dashboard.login import CODE_LIFETIME_S, Logins, make_code
from picoclaw.cli.common import require_terminal
from picoclaw.config import load_config
from picoclaw.config.tables import PageConfig
from picoclaw.errors import ConfigError
from picoclaw.resources import get_home
from picoclaw.text import escape_unprintable
from picoclaw.workspace.pages import get_owner_time

_ANY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104 - only compared with


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    words = parser.add_subparsers(dest="act", metavar="ACT")
    words.add_parser("code", help="print a code that lets one browser in within ten minutes")
    words.add_parser("status", help="where the page is, and which browsers have been let in (the default)")
    words.add_parser("logout", help="forget every browser")


def run(given: argparse.Namespace) -> int:
    """Do it; exit code 1 when it could not be done, with the reason on stderr."""
    home = get_home(os.environ)
    return {"code": _print_code, "logout": _log_out_browsers}.get(given.act, _show_status)(home)


def _print_code(home: Path) -> int:
    require_terminal("a code is only given to a person at a terminal; over ssh, `ssh -t` makes one")
    if not home.is_dir():
        raise ConfigError(f"{home} is not there yet: `picoclaw init` makes it")
    page = load_config().page
    if not page.enabled:
        raise ConfigError(f"the page is off: write enabled = true below [page] in {home / 'config.toml'}")
    print(make_code(home))
    print(
        f"Enter it within {CODE_LIFETIME_S / 60:.0f} minutes at {' or '.join(_list_urls(page))}; it lets one browser in."
    )
    return 0


def _show_status(home: Path) -> int:
    page = load_config().page
    print(f"the page is {'at ' + ' or '.join(_list_urls(page)) if page.enabled else 'off'}")
    for login in Logins(home).listed():
        since, seen = (f"{get_owner_time(home, float(login[key])):%Y-%m-%d %H:%M}" for key in ("at", "seen"))
        print(escape_unprintable(f"let in {since}, last seen {seen}, from {login.get('from')}: {login.get('agent')}"))
    return 0


def _log_out_browsers(home: Path) -> int:
    print(f"forgotten: {Logins(home).forget()}")
    return 0


def _list_urls(page: PageConfig) -> Iterator[str]:
    """Name the addresses that a browser can be given."""
    if page.host in _ANY_ADDRESS:
        name = socket.gethostname().partition(".")[0]
        yield f"http://{name}.local:{page.port}/"
        if address := _get_own_address():
            yield f"http://{address}:{page.port}/"
    else:
        host = f"[{page.host}]" if ":" in page.host else page.host
        yield f"http://{host}:{page.port}/"


def _get_own_address() -> str:
    """The address that this board has in its network; nothing is sent to find that out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return ""

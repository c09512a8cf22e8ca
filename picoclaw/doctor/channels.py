"""The ways in: the daemon and what it says of itself, the Telegram bot, and who the page is open to."""

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import closing

from picoclaw.channels.line import asked, silent
from picoclaw.channels.telegram.api import Api, BadToken, Conflict
from picoclaw.channels.telegram.pairing import Pairing
from picoclaw.channels.telegram.poll import who
from picoclaw.config import Config
from picoclaw.doctor.exposed import loopback
from picoclaw.errors import ChannelDown, ChannelError, StoreError
from picoclaw.hw.health import Row

_ANSWER_S = 5.0
_TELEGRAM_S = 10.0
_TELEGRAM = "telegram"


def examine(config: Config, *, offline: bool) -> Iterator[Row]:
    """Look at each; `offline` asks only what runs on this machine."""
    yield from _daemon(config)
    yield from _page(config)
    if config.telegram_token:
        yield from _people(config)
        if not offline:
            yield _bot(config)


def _daemon(config: Config) -> Iterator[Row]:
    said = asked(config.home, {"do": "status"}, _ANSWER_S) or {}
    if not said and silent(config.home, _ANSWER_S):
        how = f"picoclaw runs on this home and gives no answer within {_ANSWER_S:.0f} s"
        yield Row(
            "bad", "daemon", how, "sudo systemctl restart picoclaw; without the service: picoclaw stop, and kill it"
        )
        return
    if not said.get("running"):
        yield Row("note", "daemon", "picoclaw does not run on this home", "picoclaw run, or picoclaw service install")
        return
    problems = said.get("problems") or []
    for problem in problems:
        yield Row("bad", "daemon", str(problem), "picoclaw status tells more")
    if not problems:
        yield Row("good", "daemon", f"it runs as process {said.get('pid')}, and nothing is wrong with it")


def _page(config: Config) -> Iterator[Row]:
    page = config.page
    if page.enabled and not _address(page.host):
        yield Row(
            "bad", "page", f"host {page.host!r} is no address, so there is none", 'host = "127.0.0.1" under [page]'
        )
    elif page.enabled and not _own(page.host):
        how = f"no interface has the address {page.host} now: nobody reaches the page until one has"
        yield Row("bad", "page", how, "ip addr shows what there is; then host under [page]")
    elif page.enabled and not loopback(page.host):
        how = f"it listens at {page.host}:{page.port}: the network sees its door, and can read what goes through"
        yield Row("note", "page", how, 'host = "127.0.0.1" under [page] keeps it to this machine')
    elif page.enabled:
        yield Row("good", "page", f"on this machine alone, at {page.host}:{page.port}")


def _address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _own(address: str) -> bool:
    """Tell whether this machine has an address; nothing is sent."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _people(config: Config) -> Iterator[Row]:
    try:
        with closing(Pairing(config.home, config.telegram.allow, config.telegram.owner)) as pairing:
            people = pairing.people()
    except StoreError:
        return  # state.db has its own row
    if not people:
        yield Row("note", _TELEGRAM, "nobody may talk to the bot yet", "picoclaw telegram pair")


def _bot(config: Config) -> Row:
    mends: dict[type[Exception], str] = {
        BadToken: "ask @BotFather for the token (/token), and put it into secrets.toml as telegram_token",
        Conflict: "stop the other program, or: picoclaw telegram unhook",
    }
    try:
        with closing(Api(config.telegram_token, config.telegram.api_url)) as api:
            name = who(api, _TELEGRAM_S).name
    except (ChannelDown, ChannelError) as error:
        return Row(
            "bad", _TELEGRAM, str(error), mends.get(type(error), "look at the network: ip route; resolvectl status")
        )
    return Row("good", _TELEGRAM, f"@{name} answers")

"""`picoclaw page`, `telegram`, `matrix` and `people`: who is let in, where, and as whom."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from picoclaw.channels.dashboard.login import CODE_LIFETIME_S, Logins, ProgramTokens, make_code
from picoclaw.cli.arguments import Options, Parser, UsageError
from picoclaw.cli.common import (
    add_person_option,
    check_person,
    format_minute,
    print_wrapped,
    read_secret,
    require_terminal,
)
from picoclaw.config import Config, load_config
from picoclaw.config.tables import PageConfig, PersonRole
from picoclaw.errors import ChannelError, ConfigError
from picoclaw.files import get_home
from picoclaw.maintenance import household
from picoclaw.records import NamedTuple
from picoclaw.text import format_json
from picoclaw.workspace import prepare_home

if TYPE_CHECKING:
    from picoclaw.channels.pairing import Pairing
    from picoclaw.store.database import Database

_ANY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104 - only compared with
_NO_BOT_TEXT = (
    "no Telegram bot is set up: ask @BotFather in Telegram for one, give its token to `picoclaw init`,"
    " then start or restart picoclaw"
)
_PAGE_OFF = "the page is off; `picoclaw init --page network` opens it to your network, --page local to this machine"


def add_page_options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "code": ("print a code that lets one browser in within ten minutes", _print_code),
            "status": ("show the page's address and the logged-in browsers (the default)", _show_page),
            "logout": ("log all browsers out", _log_out),
            "token": ("list, add or revoke tokens for programs that use the board as an OpenAI model", _run_token),
        },
        "status",
    )
    add_person_option(words["code"], "who will enter it")
    words["token"].add_argument("what", nargs="?", choices=("list", "add", "revoke"), default="list")
    words["token"].add_argument("name", "its name, such as ada or hall", nargs="?", default="")
    words["token"].add_argument("--owner", "its bearer counts as you in person, and may type /yes")


def _log_out(_: Options) -> int:
    print(f"forgotten: {Logins(get_home(os.environ)).forget()}")
    return 0


def _print_code(given: Options) -> int:
    config = _require_person("a code is only given to a person at a terminal; over ssh, `ssh -t` makes one")
    if not config.page.enabled:
        raise ConfigError(_PAGE_OFF)
    if role := check_person(config, given.person):
        print_wrapped(f"Whoever enters it is {given.person}, {household.ROLE_WORDS[role]}")
    print(make_code(config.home, given.person))
    urls = " or ".join(_list_urls(config.page))
    print_wrapped(f"Enter it within {CODE_LIFETIME_S / 60:.0f} minutes at {urls}; it lets one browser in.")
    return 0


def _require_person(why: str) -> Config:
    """Raise Denied, saying `why`, where nobody sits at a terminal, and ConfigError where there is no home."""
    require_terminal(why)
    home = get_home(os.environ)
    if not home.is_dir():
        raise ConfigError(f"{home} is not there yet: `picoclaw init` makes it")
    return load_config()


def _show_page(_: Options) -> int:
    config = load_config()
    print_wrapped(f"the page is at {' or '.join(_list_urls(config.page))}" if config.page.enabled else _PAGE_OFF)
    for login in Logins(config.home).listed():
        since, seen = (format_minute(config.home, float(login[key])) for key in ("at", "seen"))
        whose = f"{login['person']}, " if "person" in login else ""
        print_wrapped(f"{whose}let in {since}, last seen {seen}, from {login.get('from')}: {login.get('agent')}")
    return 0


def _run_token(given: Options) -> int:
    tokens = ProgramTokens(get_home(os.environ))
    if given.what == "list":
        for token in tokens.listed():
            whose = "the owner" if token.owner else "a guest"
            print_wrapped(f"{token.name}, {whose}, since {format_minute(get_home(os.environ), token.at)}")
        if not tokens.listed():
            print("no program has a token: `picoclaw page token add NAME` makes one")
        return 0
    if not given.name:
        raise UsageError(f"NAME is missing: picoclaw page token {given.what} NAME")
    if given.what == "revoke":
        if not tokens.revoke(given.name):
            raise ConfigError(f"there is no token {given.name!r}; `picoclaw page token` lists them")
        print(f"the token {given.name!r} counts no more")
        return 0
    page = _require_person("a token is only given to a person at a terminal; over ssh, `ssh -t` makes one").page
    print(tokens.add(given.name, owner=given.owner))
    print_wrapped("It is shown this once. A program takes it as its API key, and the model's name is picoclaw.")
    urls = " or ".join(f"{url}v1" for url in _list_urls(page)) if page.enabled else ""
    if not (page.enabled and page.openai):
        print_wrapped("Programs are not heard yet: write enabled = true and openai = true under [page], and restart.")
    elif urls:
        print_wrapped(f"The base URL is {urls}")
    return 0


def _list_urls(page: PageConfig) -> Iterator[str]:
    """Name the addresses that a browser can be given."""
    from picoclaw.hw import kernel

    if page.host not in _ANY_ADDRESS:
        host = f"[{page.host}]" if ":" in page.host else page.host
        yield f"http://{host}:{page.port}/"
        return
    yield from (f"http://{address}:{page.port}/" for address in kernel.list_addresses())


def add_people_options(parser: Parser) -> None:
    words = parser.add_words(
        {
            "list": ("list the people, their roles, and where they write from (the default)", _list_household),
            "add": ("add or change a person", _save_person),
            "edit": ("change a person", _save_person),
            "remove": ("remove a person; their notes are kept", _remove_person),
        },
        "list",
    )
    words["list"].add_argument("--json", "print JSON")
    for word in ("add", "edit", "remove"):
        words[word].add_argument("name", "small letters, digits and _, such as ada")
    for word in ("add", "edit"):
        words[word].add_argument("--role", "default: member", choices=get_args(PersonRole))
        words[word].add_argument("--telegram NUMBER", "their number at Telegram", type=int)
        words[word].add_argument("--matrix NAME", "their name at Matrix, such as @ada:example.org")
        words[word].add_argument("--terminal LOGIN", "their login name on this machine")
        words[word].add_argument("--agent KEY", "the agent that answers in a new chat of theirs")
        words[word].add_argument("--language LANGUAGE", "their language, such as de")
        zone = "their time zone, such as Europe/Berlin"
        words[word].add_argument("--zone ZONE", zone, dest="time_zone")


def _open_database(config: Config) -> "closing[Database]":
    from picoclaw.store.database import Database

    return closing(Database(config.home / "state.db"))


def _save_person(given: Options) -> int:
    config = load_config()
    values = given.select("role", "telegram", "matrix", "terminal", "agent", "language", "time_zone")
    is_new = None
    if given.word == "add":
        prepare_home(config.home)
    else:
        household.find_person(config, given.name)
        is_new = False
    with _open_database(config) as database:
        print_wrapped(*household.save_person(config, database, given.name, values, is_new=is_new))
    return 0


def _remove_person(given: Options) -> int:
    config = load_config()
    household.find_person(config, given.name)
    with _open_database(config) as database:
        print_wrapped(*household.remove_person(config, database, given.name))
    return 0


def _list_household(given: Options) -> int:
    from picoclaw.store.people import People

    config = load_config()
    ways: dict[str, list[str]] = {}
    if config.people:  # else there may be no home yet
        with _open_database(config) as database:
            ways = {name: People(config.people, database).list_ways(name) for name in config.people}
    people = config.people.items()
    if given.json:
        print(format_json([{"name": name, "role": one.role, "ways": ways[name]} for name, one in people]))
        return 0
    print_wrapped(*(f"{name}  {household.describe_person(name, one, ways[name])}" for name, one in people))
    if not people:
        print_wrapped("nobody but you, the owner: `picoclaw people add NAME` adds a person")
    return 0


# --- the board's accounts at chat services ---


class _Account(NamedTuple):
    """The board's account at a chat service: how it is reached, asked for its name, and spoken of by that, '' for none."""

    pairing: "Pairing"
    make_api: Callable[[], Any]
    identify: Callable[[Any], str]
    kind: str
    heading: Callable[[str], str]
    how_to_pair: Callable[[str], str]

    def ask_name(self) -> tuple[str, str]:
        """The account's name, and why there is none."""
        try:
            with closing(self.make_api()) as api:
                return self.identify(api), ""
        except ChannelError as error:
            return "", str(error)


_OpenAccount = Callable[[Config], _Account]
"""Raises ConfigError where the service is not set up."""


def _add_account_words(parser: Parser, open_account: _OpenAccount, service: str, called: str, user: str) -> None:
    pair, status, forget = (partial(act, open_account) for act in (_pair, _show_account, _forget))
    words = parser.add_words(
        {
            "pair": (f"print a code; whoever sends it to {called} may talk to it", pair),
            "status": (f"show whether {service} can be reached, and who has access", status),
            "forget": ("end a person's access", forget),
        }
    )
    words["status"].add_argument("--json", "print JSON")
    add_person_option(words["pair"], "who will send it")
    words["forget"].add_argument(f"user {user}", "as status prints it")


def _pair(open_account: _OpenAccount, given: Options) -> int:
    """Print a code; whoever sends it may talk to the board, and is the owner when nobody was before."""
    from picoclaw.channels.pairing import CODE_MINUTES

    config = load_config()
    account, role = open_account(config), check_person(config, given.person)
    prepare_home(config.home)
    with closing(account.pairing) as pairing:
        code, owner = pairing.offer(given.person), pairing.owner()
    name, error = account.ask_name()
    if error:
        print_wrapped(f"({error})")
    while_it_runs = f"within {CODE_MINUTES} minutes, while `picoclaw run` is running"
    print_wrapped(f"{account.how_to_pair(name)} {while_it_runs}:\n\n    {code[:4]}-{code[4:]}\n")
    what = "may talk to this board as a guest" if owner else "is the owner: may use this board as you do, and say yes"
    if role:
        what = f"is {given.person}, {household.ROLE_WORDS[role]}"
    print(f"Whoever sends it {what}. Five wrong tries, or a new code, end it.")
    return 0


def _show_account(open_account: _OpenAccount, given: Options) -> int:
    account = open_account(load_config())
    with closing(account.pairing) as pairing:
        owner, people = pairing.owner(), pairing.people()
        roles = {user: pairing.origin(user) for user in people}
    name, error = account.ask_name()
    if given.json:
        rows = [
            ({"number": int(user)} if account.kind == "bot" else {"user": user})
            | {"name": called, "owner": user == owner, "role": roles[user]}
            for user, called in people.items()
        ]
        print(format_json({account.kind: name, "error": error, "people": rows}))
        return 1 if error else 0
    print_wrapped(error or account.heading(name))
    for user, called in people.items():
        role = "the owner" if user == owner else f"{'an' if roles[user] == 'owner' else 'a'} {roles[user]}"
        print_wrapped(f"{user}  {called.removesuffix(f'({user})').strip() or '(from config.toml)'}, {role}")
    if not people:
        print(f"nobody may talk to it yet: `picoclaw {pairing.channel} pair`")
    return 1 if error else 0


def _forget(open_account: _OpenAccount, given: Options) -> int:
    with closing(open_account(load_config()).pairing) as pairing:
        if pairing.forget(given.user):
            print(f"{given.user} may no longer talk to the board by {pairing.channel.capitalize()}")
            return 0
        if given.user in pairing.people():
            raise ConfigError(f"{given.user} is in config.toml: take it out of allow under [{pairing.channel}]")
    raise ConfigError(f"{given.user} was not paired; `picoclaw {pairing.channel} status` shows who is")


def add_telegram_options(parser: Parser) -> None:
    _add_account_words(parser, _open_bot, "Telegram", "the bot", "NUMBER")
    parser.add_words({"unhook": ("remove a webhook that another program has set for the bot", _remove_webhook)})


def _open_bot(config: Config) -> _Account:
    from picoclaw.channels.telegram_api import TelegramApi, identify_bot, make_pairing

    if not config.telegram_token:
        raise ConfigError(_NO_BOT_TEXT)
    return _Account(
        make_pairing(config),
        partial(TelegramApi, config.telegram_token, config.telegram.api_url),
        lambda api: identify_bot(api, 10.0).name,
        kind="bot",
        heading=lambda name: f"the bot is @{name}, and Telegram answers",
        how_to_pair=lambda name: f"Send this to {f'@{name} (https://t.me/{name})' if name else 'your bot'}",
    )


def _remove_webhook(_: Options) -> int:
    with closing(_open_bot(load_config()).make_api()) as api:
        api.call("deleteWebhook", {})
    print("no webhook takes the bot's messages any more")
    return 0


def add_matrix_options(parser: Parser) -> None:
    login = parser.add_words({"login": ("log in to the board's account, and store the access token", _log_in)})["login"]
    login.add_argument("user", "the board's account: @pico:example.org")
    login.add_argument("--server URL", "its homeserver, if the domain does not say", default="")
    login.add_argument("--password-from FILE", "a file with its password; - for standard input")
    _add_account_words(parser, _open_matrix, "the server", "the board's account", "USER")


def _open_matrix(config: Config) -> _Account:
    from picoclaw.channels.matrix_api import MatrixApi, identify_account, make_pairing

    server = config.matrix.homeserver
    if not (config.matrix_token and server):
        raise ConfigError("Matrix is not set up: `picoclaw matrix login @NAME:SERVER` with an account for the board")
    unnamed = "the board's account"
    return _Account(
        make_pairing(config),
        partial(MatrixApi, config.matrix_token, server),
        lambda api: identify_account(api, 10.0),
        kind="account",
        heading=lambda name: f"the account is {name}, and {server} answers",
        how_to_pair=lambda name: f"Start a direct chat, without encryption, with {name or unnamed} and send this",
    )


def _log_in(given: Options) -> int:
    """Get an access token by the password, which is kept nowhere."""
    from getpass import getpass

    from picoclaw.channels.matrix_api import discover_server, is_user, log_in
    from picoclaw.maintenance import setup

    if not is_user(given.user):
        raise ConfigError(f"{given.user!r} is not a Matrix user: write it as @pico:example.org")
    server = given.server.rstrip("/") or discover_server(given.user)
    if not server.startswith(("http://", "https://")):
        raise ConfigError(f"{server!r} must begin with http:// or https://")
    password = read_secret(given.password_from) if given.password_from else getpass("Password: ")
    token = log_in(server, given.user, password, f"picoclaw on {os.uname().nodename}")
    config = load_config()
    prepare_home(config.home)
    print_wrapped(*setup.write_settings(config.home, setup.InitialSettings(matrix_server=server, matrix_token=token)))
    return 0

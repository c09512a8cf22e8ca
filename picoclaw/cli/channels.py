"""`picoclaw page`, `telegram`, `matrix` and `people`: who is let in, where, and as whom."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from picoclaw.cli.arguments import Options, Parser, UsageError
from picoclaw.cli.common import check_person, format_minute, print_wrapped, read_secret, require_terminal
from picoclaw.config import Config, load_config
from picoclaw.config.tables import PageConfig, PersonRole
from picoclaw.errors import ChannelError, ConfigError
from picoclaw.files import get_home
from picoclaw.text import format_json

if TYPE_CHECKING:
    from picoclaw.channels.pairing import Pairing
    from picoclaw.channels.polled import HttpApi

_Api = TypeVar("_Api", bound="HttpApi")

_ANY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104 - only compared with
_NO_BOT_TEXT = (
    "no Telegram bot is set up: ask @BotFather in Telegram for one, give its token to `picoclaw init`,"
    " then start or restart picoclaw"
)
_PAGE_OFF = "the page is off; `picoclaw init --page network` opens it to your network, --page local to this machine"


def add_page_options(parser: Parser) -> None:
    purposes = {
        "code": "print a code that lets one browser in within ten minutes",
        "status": "show the page's address and the logged-in browsers (the default)",
        "logout": "log all browsers out",
        "token": "list, add or revoke tokens for programs that use the board as an OpenAI model",
    }
    words = parser.add_words(purposes)
    words["code"].add_argument(
        "--as", dest="person", metavar="NAME", default="", help="who will enter it: a name of `picoclaw people`"
    )
    words["token"].add_argument("what", nargs="?", choices=("list", "add", "revoke"), default="list")
    words["token"].add_argument("name", nargs="?", default="", help="its name, such as ada or hall")
    words["token"].add_flag("--owner", help="its bearer counts as you in person, and may type /yes")


def run_page(given: Options) -> int:
    from picoclaw.channels.dashboard.login import CODE_LIFETIME_S, Logins, make_code

    home = get_home(os.environ)
    if given.act == "token":
        return _run_token(given, home)
    if given.act == "logout":
        print(f"forgotten: {Logins(home).forget()}")
        return 0
    if given.act == "code":
        require_terminal("a code is only given to a person at a terminal; over ssh, `ssh -t` makes one")
        if not home.is_dir():
            raise ConfigError(f"{home} is not there yet: `picoclaw init` makes it")
    config = load_config()
    page = config.page
    urls = " or ".join(_list_urls(page)) if page.enabled else ""
    if given.act == "code":
        if not page.enabled:
            raise ConfigError(_PAGE_OFF)
        if role := check_person(config, given.person):
            from picoclaw.maintenance.household import ROLE_WORDS

            print_wrapped(f"Whoever enters it is {given.person}, {ROLE_WORDS[role]}")
        print(make_code(home, given.person))
        print_wrapped(f"Enter it within {CODE_LIFETIME_S / 60:.0f} minutes at {urls}; it lets one browser in.")
        return 0
    print_wrapped(f"the page is at {urls}" if page.enabled else _PAGE_OFF)
    for login in Logins(home).listed():
        since, seen = (format_minute(home, float(login[key])) for key in ("at", "seen"))
        whose = f"{login['person']}, " if "person" in login else ""
        print_wrapped(f"{whose}let in {since}, last seen {seen}, from {login.get('from')}: {login.get('agent')}")
    return 0


def _run_token(given: Options, home: Path) -> int:
    from picoclaw.channels.dashboard.login import ProgramTokens

    tokens, page = ProgramTokens(home), load_config().page
    if given.what == "list":
        for token in tokens.listed():
            print_wrapped(
                f"{token.name}, {'the owner' if token.owner else 'a guest'}, since {format_minute(home, token.at)}"
            )
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
    require_terminal("a token is only given to a person at a terminal; over ssh, `ssh -t` makes one")
    if not home.is_dir():
        raise ConfigError(f"{home} is not there yet: `picoclaw init` makes it")
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
    purposes = {
        "list": "list the people, their roles, and where they write from (the default)",
        "add": "add or change a person",
        "edit": "change a person",
        "remove": "remove a person; their notes are kept",
    }
    words = parser.add_words(purposes)
    words["list"].add_flag("--json", help="print JSON")
    for word in ("add", "edit", "remove"):
        words[word].add_argument("name", help="small letters, digits and _, such as ada")
    for word in ("add", "edit"):
        words[word].add_argument("--role", choices=get_args(PersonRole), help="default: member")
        words[word].add_argument("--telegram", type=int, metavar="NUMBER", help="their number at Telegram")
        words[word].add_argument("--matrix", metavar="NAME", help="their name at Matrix, such as @ada:example.org")
        words[word].add_argument("--terminal", metavar="LOGIN", help="their login name on this machine")
        words[word].add_argument("--agent", metavar="KEY", help="the agent that answers in a new chat of theirs")
        words[word].add_argument("--language", help="their language, such as de")
        words[word].add_argument(
            "--zone", dest="time_zone", metavar="ZONE", help="their time zone, such as Europe/Berlin"
        )


def run_people(given: Options) -> int:
    from picoclaw.maintenance import household
    from picoclaw.store.database import Database
    from picoclaw.store.people import People
    from picoclaw.workspace import prepare_home

    config = load_config()
    values = {}
    if given.act in {"add", "edit"}:
        names = ("role", "telegram", "matrix", "terminal", "agent", "language", "time_zone")
        values = {name: value for name in names if (value := getattr(given, name)) is not None}
    if given.act in {"edit", "remove"}:
        household.find_person(config, given.name)
    listed = {}
    if given.act == "add":
        prepare_home(config.home)
    if config.people or given.act == "add":  # else there may be no home yet
        with closing(Database(config.home / "state.db")) as database:
            if given.act in {"add", "edit"}:
                is_new = None if given.act == "add" else False
                print_wrapped(*household.save_person(config, database, given.name, values, is_new=is_new))
                return 0
            if given.act == "remove":
                print_wrapped(*household.remove_person(config, database, given.name))
                return 0
            people = People(config.people, database)
            listed = {name: (person, people.list_ways(name)) for name, person in config.people.items()}
    if given.json:
        print(format_json([{"name": name, "role": one.role, "ways": ways} for name, (one, ways) in listed.items()]))
        return 0
    for name, (person, ways) in listed.items():
        print_wrapped(f"{name}  {household.describe_person(name, person, ways)}")
    if not listed:
        print_wrapped("nobody but you, the owner: `picoclaw people add NAME` adds a person")
    return 0


def add_telegram_options(parser: Parser) -> None:
    purposes = {
        "pair": "print a code; whoever sends it to the bot may talk to it",
        "status": "show whether Telegram can be reached, and who has access",
        "forget": "end a person's access",
        "unhook": "remove a webhook that another program has set for the bot",
    }
    words = parser.add_words(purposes, required=True)
    words["status"].add_flag("--json", help="print JSON")
    words["pair"].add_argument(
        "--as", dest="person", metavar="NAME", default="", help="who will send it: a name of `picoclaw people`"
    )
    words["forget"].add_argument("number", type=int, help="as status prints it")


def run_telegram(given: Options) -> int:
    from picoclaw.channels.telegram_api import TelegramApi, identify_bot, make_pairing
    from picoclaw.workspace import prepare_home

    config = load_config()
    if not config.telegram_token:
        raise ConfigError(_NO_BOT_TEXT)
    if given.act == "unhook":
        with closing(TelegramApi(config.telegram_token, config.telegram.api_url)) as api:
            api.call("deleteWebhook", {})
        print("no webhook takes the bot's messages any more")
        return 0
    if given.act == "pair":
        check_person(config, given.person)
        prepare_home(config.home)
    with closing(make_pairing(config)) as pairing:
        if given.act == "forget":
            return _forget(pairing, str(given.number), "the bot")
        make_api = partial(TelegramApi, config.telegram_token, config.telegram.api_url)
        name, error = _identify(make_api, lambda api: identify_bot(api, 10.0).name)
        if given.act == "pair":
            where = f"@{name} (https://t.me/{name})" if name else "your bot"
            return _pair(config, pairing, f"Send this to {where}", error, given.person)
        people = _list_people(pairing)
    if given.json:
        return _print_people({"bot": name}, error, [{"number": int(user), **about} for user, about in people.items()])
    return _show_people(pairing, f"the bot is @{name}, and Telegram answers", error, people)


def _identify(make_api: Callable[[], _Api], ask: Callable[[_Api], str]) -> tuple[str, str]:
    """Ask a service whose account it is; returns that, and why there is none."""
    try:
        with closing(make_api()) as api:
            return ask(api), ""
    except ChannelError as error:
        return "", str(error)


def _forget(pairing: "Pairing", user: str, what: str) -> int:
    if pairing.forget(user):
        print(f"{user} may no longer talk to {what}")
        return 0
    if user in pairing.people():
        raise ConfigError(f"{user} is in config.toml: take it out of allow under [{pairing.channel}]")
    raise ConfigError(f"{user} was not paired; `picoclaw {pairing.channel} status` shows who is")


def _list_people(pairing: "Pairing") -> dict[str, dict[str, Any]]:
    owner = pairing.owner()
    return {
        user: {"name": name, "owner": user == owner, "role": pairing.origin(user)}
        for user, name in pairing.people().items()
    }


def _print_people(account: dict[str, str], error: str, people: list[dict[str, Any]]) -> int:
    print(format_json(account | {"error": error, "people": people}))
    return 1 if error else 0


def _show_people(pairing: "Pairing", heading: str, error: str, people: dict[str, dict[str, Any]]) -> int:
    print_wrapped(error or heading)
    for user, about in people.items():
        name = about["name"].removesuffix(f"({user})").strip() or "(from config.toml)"
        role = about["role"]
        shown = "the owner" if about["owner"] else f"{'an' if role == 'owner' else 'a'} {role}"
        print_wrapped(f"{user}  {name}, {shown}")
    if not people:
        print(f"nobody may talk to it yet: `picoclaw {pairing.channel} pair`")
    return 1 if error else 0


def _pair(config: Config, pairing: "Pairing", how: str, error: str, person: str) -> int:
    """Print a code; whoever sends it may talk to the board, and is the owner when nobody was before."""
    from picoclaw.channels.pairing import CODE_MINUTES

    code, owner = pairing.offer(person), pairing.owner()
    if error:
        print_wrapped(f"({error})")
    shown = f"{code[:4]}-{code[4:]}"
    print_wrapped(f"{how} within {CODE_MINUTES} minutes, while `picoclaw run` is running:\n\n    {shown}\n")
    what = "may talk to this board as a guest" if owner else "is the owner: may use this board as you do, and say yes"
    if person:
        from picoclaw.maintenance.household import ROLE_WORDS

        what = f"is {person}, {ROLE_WORDS[config.people[person].role]}"
    print(f"Whoever sends it {what}. Five wrong tries, or a new code, end it.")
    return 0


def add_matrix_options(parser: Parser) -> None:
    purposes = {
        "login": "log in to the board's account, and store the access token",
        "pair": "print a code; whoever sends it to the board's account may talk to it",
        "status": "show whether the server can be reached, and who has access",
        "forget": "end a person's access",
    }
    words = parser.add_words(purposes, required=True)
    words["pair"].add_argument(
        "--as", dest="person", metavar="NAME", default="", help="who will send it: a name of `picoclaw people`"
    )
    words["login"].add_argument("user", help="the board's account: @pico:example.org")
    words["login"].add_argument(
        "--server", metavar="URL", default="", help="its homeserver, if the domain does not say"
    )
    words["login"].add_argument(
        "--password-from", metavar="FILE", help="a file with its password; - for standard input"
    )
    words["status"].add_flag("--json", help="print JSON")
    words["forget"].add_argument("user", help="as status prints it")


def run_matrix(given: Options) -> int:
    from picoclaw.channels.matrix_api import MatrixApi, identify_account, make_pairing
    from picoclaw.workspace import prepare_home

    config = load_config()
    if given.act == "login":
        return _log_in(given, config)
    if not (config.matrix_token and config.matrix.homeserver):
        raise ConfigError("Matrix is not set up: `picoclaw matrix login @NAME:SERVER` with an account for the board")
    if given.act == "pair":
        check_person(config, given.person)
        prepare_home(config.home)
    with closing(make_pairing(config)) as pairing:
        if given.act == "forget":
            return _forget(pairing, given.user, "the board")
        make_api = partial(MatrixApi, config.matrix_token, config.matrix.homeserver)
        account, error = _identify(make_api, lambda api: identify_account(api, 10.0))
        if given.act == "pair":
            where = account or "the board's account"
            how = f"Start a direct chat, without encryption, with {where} and send this"
            return _pair(config, pairing, how, error, given.person)
        people = _list_people(pairing)
    if given.json:
        return _print_people({"account": account}, error, [{"user": user, **about} for user, about in people.items()])
    return _show_people(pairing, f"the account is {account}, and {config.matrix.homeserver} answers", error, people)


def _log_in(given: Options, config: Config) -> int:
    """Get an access token by the password, which is kept nowhere."""
    from getpass import getpass

    from picoclaw.channels.matrix_api import discover_server, is_user, log_in
    from picoclaw.maintenance import setup
    from picoclaw.workspace import prepare_home

    if not is_user(given.user):
        raise ConfigError(f"{given.user!r} is not a Matrix user: write it as @pico:example.org")
    server = given.server.rstrip("/") or discover_server(given.user)
    if not server.startswith(("http://", "https://")):
        raise ConfigError(f"{server!r} must begin with http:// or https://")
    password = read_secret(given.password_from) if given.password_from else getpass("Password: ")
    token = log_in(server, given.user, password, f"picoclaw on {os.uname().nodename}")
    prepare_home(config.home)
    print_wrapped(*setup.write_settings(config.home, setup.InitialSettings(matrix_server=server, matrix_token=token)))
    return 0

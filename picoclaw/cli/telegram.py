"""`picoclaw telegram`: who may talk to the bot, and whether Telegram can be reached from here."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import closing

from picoclaw import workspace
from picoclaw.channels.telegram.api import TelegramApi
from picoclaw.channels.telegram.pairing import CODE_MINUTES, Pairing
from picoclaw.channels.telegram.updates import identify_bot
from picoclaw.config import Config, load_config
from picoclaw.errors import ChannelError, ConfigError
from picoclaw.text import escape_unprintable, format_json

_NO_BOT_TEXT = (
    "no Telegram bot is set up: ask @BotFather for one, put its token into {path} as"
    ' telegram_token = "..." (chmod 600), then start `picoclaw run`'
)


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's words."""
    words = parser.add_subparsers(dest="act", metavar="ACT", required=True)
    add = {name: words.add_parser(name, help=purpose, allow_abbrev=False) for name, purpose in _PURPOSES.items()}
    add["status"].add_argument("--json", action="store_true", help="print JSON")
    add["forget"].add_argument("number", type=int, metavar="NUMBER", help="as status prints it")


def run(given: argparse.Namespace) -> int:
    """Do it."""
    config = load_config()
    if not config.telegram_token:
        raise ConfigError(_NO_BOT_TEXT.format(path=config.home / "secrets.toml"))
    return _SUBCOMMANDS[given.act](config, given)


def _pair_user(config: Config, _given: argparse.Namespace) -> int:
    """Print a code; whoever sends it to the bot may talk to it, and is the owner when nobody was before."""
    workspace.prepare_home(config.home)
    with closing(_open_pairing(config)) as pairing:
        code, owner = pairing.offer(), pairing.owner()
    shown = f"{code[:4]}-{code[4:]}"
    try:
        with closing(TelegramApi(config.telegram_token, config.telegram.api_url)) as api:
            name = identify_bot(api, 10.0).name
    except ChannelError as error:
        print(escape_unprintable(f"({error})"))
        where = "your bot"
    else:
        where = f"@{name} (https://t.me/{name})"
    print(
        escape_unprintable(
            f"Send this to {where} within {CODE_MINUTES} minutes, while `picoclaw run` is running:\n\n    {shown}\n"
        )
    )
    what = "may talk to this board as a guest" if owner else "is the owner: may use this board as you do, and say yes"
    print(f"Whoever sends it {what}. Five wrong tries, or a new code, end it.")
    return 0


def _open_pairing(config: Config) -> Pairing:
    return Pairing(config.home, config.telegram.allow, config.telegram.owner)


def _show_status(config: Config, given: argparse.Namespace) -> int:
    """Say which bot it is, whether it can be reached from here, and who may talk to it."""
    error, name = "", ""
    try:
        with closing(TelegramApi(config.telegram_token, config.telegram.api_url)) as api:
            name = identify_bot(api, 10.0).name
    except ChannelError as failed:
        error = str(failed)
    with closing(_open_pairing(config)) as pairing:
        people, owner = pairing.people(), pairing.owner()
    if given.json:
        listed = [{"number": n, "name": name, "owner": n == owner} for n, name in people.items()]
        print(format_json({"bot": name, "error": error, "people": listed}))
    else:
        print(escape_unprintable(f"the bot is @{name}, and Telegram answers" if name else error))
        for number, person in people.items():
            what = "the owner" if number == owner else "a guest"
            print(escape_unprintable(f"{number}  {person or '(from config.toml)'}, {what}"))
        if not people:
            print("nobody may talk to it yet: `picoclaw telegram pair`")
    return 1 if error else 0


def _forget_user(config: Config, given: argparse.Namespace) -> int:
    """Let somebody talk to the bot no more."""
    with closing(_open_pairing(config)) as pairing:
        if pairing.forget(given.number):
            print(f"{given.number} may no longer talk to the bot")
            return 0
        listed = given.number in pairing.people()
    if listed:
        raise ConfigError(f"{given.number} is in config.toml: take it out of allow under [telegram]")
    raise ConfigError(f"{given.number} was not paired; `picoclaw telegram status` shows who is")


def _delete_webhook(config: Config, _given: argparse.Namespace) -> int:
    """Take the bot back from a webhook that an earlier program has left."""
    with closing(TelegramApi(config.telegram_token, config.telegram.api_url)) as api:
        api.call("deleteWebhook", {})
    print("no webhook takes the bot's messages any more")
    return 0


_PURPOSES = {
    "pair": "print a code; whoever sends it to the bot may talk to it",
    "status": "say whether Telegram answers, and who may talk to the bot",
    "forget": "let somebody talk to it no more",
    "unhook": "take the bot back from a webhook that another program has left",
}

_SUBCOMMANDS: Mapping[str, Callable[[Config, argparse.Namespace], int]] = {
    "pair": _pair_user,
    "status": _show_status,
    "forget": _forget_user,
    "unhook": _delete_webhook,
}

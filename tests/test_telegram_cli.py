"""`picoclaw telegram` by the real command: what it prints, and its exit codes."""

import json
import os

import pytest
import telegram_server as tg
from forked import STARTER
from telegram_server import OWNER, TOKEN, TelegramServer

from picoclaw.channels.pairing import Pairing
from picoclaw.config import load_config
from picoclaw.errors import ConfigError


@pytest.fixture
def server():
    with TelegramServer() as running:
        yield running


def telegram(home, *words, **environment):
    kept = {"PATH": os.environ["PATH"], "HOME": str(home), "PICOCLAW_HOME": str(home)} | environment
    done = STARTER.run(["telegram", *words], kept, "", 60)
    assert TOKEN not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def made(home, server, allow=()):
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'[telegram]\napi_url = "{server.url}"\nallow = {list(allow)}\n')
    secrets = home / "secrets.toml"
    secrets.touch(0o600)
    secrets.write_text(f'telegram_token = "{TOKEN}"\n')
    return home


def test_without_a_token_it_says_how_to_get_one(tmp_path):
    code, out, said = telegram(tmp_path, "pair")
    assert (code, out) == (1, "")
    assert "@BotFather" in said
    assert not (tmp_path / "state.db").exists()


def test_status_says_the_role_of_each(tmp_path, server):
    home = made(tmp_path / "home", server, [5])
    with (home / "config.toml").open("a") as config:
        config.write(
            '[people.bob]\ntelegram = 7\n[people.eve]\nrole = "owner"\ntelegram = 8\n[people.dan]\nrole = "guest"\ntelegram = 9\n'
        )
    code, out, _ = telegram(home, "status")
    roles = dict(line.split("  ", 1) for line in out.splitlines()[1:])
    assert (code, {number: role.rpartition(", ")[2] for number, role in roles.items()}) == (
        0,
        {"5": "a guest", "7": "a member", "8": "the owner", "9": "a guest"},
    )


def test_pairing_is_offered_and_shown_and_taken_back(tmp_path, server):
    home = made(tmp_path / "home", server, [5])
    code, out, _ = telegram(home, "pair")
    assert code == 0
    assert "@pico_bot" in out
    (shown,) = [line.strip() for line in out.splitlines() if line.startswith("    ")]
    pairing = Pairing("telegram", home, ["5"])
    assert pairing.redeem(shown, str(OWNER), "Ann\x1b[2J")
    code, out, _ = telegram(home, "status")
    assert code == 0
    assert "\x1b" not in out
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["5", str(OWNER)]
    code, out, _ = telegram(home, "status", "--json")
    assert json.loads(out)["people"][1] == {"number": OWNER, "name": "Ann\x1b[2J", "owner": False, "role": "guest"}
    assert telegram(home, "forget", str(OWNER))[0] == 0
    assert pairing.people() == {"5": ""}
    for number, word in ((5, "config.toml"), (OWNER, "not paired")):
        code, _, said = telegram(home, "forget", str(number))
        assert code == 1
        assert word in said
    pairing.close()


@pytest.mark.parametrize(
    ("fault", "word"), [(tg.UNAUTHORIZED, "@BotFather"), (tg.portal, "captive portal"), (tg.reset, "cannot be reached")]
)
def test_what_is_wrong_is_said(tmp_path, server, fault, word):
    home = made(tmp_path / "home", server)
    server.fail("getMe", fault, fault)
    code, out, _ = telegram(home, "status")
    assert code == 1
    assert word in out
    assert "nobody may talk to it yet" in out
    assert telegram(home, "pair")[0] == 0


def test_a_webhook_is_taken_off(tmp_path, server):
    code, out, _ = telegram(made(tmp_path / "home", server), "unhook")
    assert (code, out) == (0, "no webhook takes the bot's messages any more\n")
    assert server.called("deleteWebhook")


@pytest.mark.parametrize(
    ("environment", "credential", "secret", "token"),
    [
        ("1:env", "2:cred", "3:file", "1:env"),
        ("", "2:cred\n", "3:file", "2:cred"),
        ("", "", "3:file", "3:file"),
        ("", "", "", ""),
    ],
)
def test_where_the_token_comes_from(tmp_path, environment, credential, secret, token):
    (tmp_path / "cred").mkdir()
    if credential:
        (tmp_path / "cred/telegram_token").write_text(credential)
    secrets = tmp_path / "secrets.toml"
    secrets.touch(0o600)
    secrets.write_text(f"telegram_token = '{secret}'" if secret else "")
    given = {"PICOCLAW_HOME": str(tmp_path), "CREDENTIALS_DIRECTORY": str(tmp_path / "cred")}
    config = load_config(given | {"PICOCLAW_TELEGRAM_TOKEN": environment})
    assert config.telegram_token == token
    assert not token or token not in repr(config)


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ("allow = ['me']", "'allow[0]' must be a whole number"),
        ("allow = 5", "'allow' must be a list"),
        ("alow = [5]", "did you mean 'allow'?"),
        ("api_url = 'ftp://x'", "must begin with http"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, table, error):
    (tmp_path / "config.toml").write_text(f"[telegram]\n{table}\n")
    with pytest.raises(ConfigError) as told:
        load_config({"PICOCLAW_HOME": str(tmp_path)})
    assert error in str(told.value)

"""`picoclaw matrix` by the real command, and what init and the doctor say of it."""

import json
import os

import matrix_server as mx
import pytest
import telegram_server as tg
from forked import STARTER
from matrix_server import ANN, BOB, ME, TOKEN, MatrixServer

from picoclaw.channels.pairing import Pairing
from picoclaw.config import Config, load_config
from picoclaw.config.tables import MatrixConfig
from picoclaw.errors import ConfigError
from picoclaw.maintenance import doctor


@pytest.fixture
def server():
    with MatrixServer() as running:
        yield running


def picoclaw(home, *words, given="", **environment):
    kept = {"PATH": os.environ["PATH"], "HOME": str(home), "PICOCLAW_HOME": str(home)} | environment
    done = STARTER.run(words, kept, given, 60)
    assert TOKEN not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def matrix(home, *words, **more):
    return picoclaw(home, "matrix", *words, **more)


def made(home, server, allow=()):
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'[matrix]\nhomeserver = "{server.url}"\nallow = {json.dumps(list(allow))}\n')
    secrets = home / "secrets.toml"
    secrets.touch(0o600)
    secrets.write_text(f'matrix_token = "{TOKEN}"\n')
    return home


def test_without_an_account_it_says_how_to_get_one(tmp_path):
    for word in ("pair", "status"):
        code, out, said = matrix(tmp_path, word)
        assert (code, out) == (1, "")
        assert "picoclaw matrix login @NAME:SERVER" in said
    assert not (tmp_path / "state.db").exists()


def test_a_login_keeps_the_token_and_not_the_password(tmp_path, server):
    home = tmp_path / "home"
    code, out, said = matrix(home, "login", ME, "--server", server.url, "--password-from", "-", given="wrong\n")
    assert (code, out, "Invalid username or password" in said) == (1, "", True)
    assert not home.exists()
    code, out, _ = matrix(home, "login", ME, "--server", server.url, "--password-from", "-", given="open sesame\n")
    assert (code, "picoclaw matrix pair" in out) == (0, True)
    config = load_config({"PICOCLAW_HOME": str(home)})
    assert (config.matrix.homeserver, config.matrix_token) == (server.url, TOKEN)
    assert (home / "secrets.toml").stat().st_mode & 0o777 == 0o600
    assert "open sesame" not in (home / "secrets.toml").read_text() + (home / "config.toml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pico"], "is not a Matrix user"),
        (["@pico"], "is not a Matrix user"),
        ([ME, "--server", "matrix.example"], "must begin with http"),
        ([ME, "--server", "http://127.0.0.1:9"], "cannot be reached"),
    ],
)
def test_a_login_that_cannot_be_is_said_so(tmp_path, words, said):
    code, _, told = matrix(tmp_path, "login", *words, "--password-from", "-", given="x\n")
    assert (code, said in told) == (1, True)


def test_pairing_is_offered_and_shown_and_taken_back(tmp_path, server):
    home = made(tmp_path / "home", server, [BOB])
    code, out, _ = matrix(home, "pair")
    assert code == 0
    assert ME in out
    (shown,) = [line.strip() for line in out.splitlines() if line.startswith("    ")]
    pairing = Pairing("matrix", home, [BOB])
    assert pairing.redeem(shown, ANN, f"Ann\x1b[2J ({ANN})")
    code, out, _ = matrix(home, "status")
    assert code == 0
    assert "\x1b" not in out
    assert [line.split()[0] for line in out.splitlines()[1:]] == [BOB, ANN]
    code, out, _ = matrix(home, "status", "--json")
    assert json.loads(out)["account"] == ME
    assert [one["user"] for one in json.loads(out)["people"]] == [BOB, ANN]
    assert matrix(home, "forget", ANN)[0] == 0
    assert pairing.people() == {BOB: ""}
    for user, word in ((BOB, "config.toml"), (ANN, "not paired")):
        code, _, said = matrix(home, "forget", user)
        assert (code, word in said) == (1, True)
    pairing.close()


@pytest.mark.parametrize(
    ("fault", "word"),
    [(mx.UNKNOWN_TOKEN, "picoclaw matrix login"), (tg.portal, "a web page answered"), (tg.reset, "cannot be reached")],
)
def test_what_is_wrong_is_said(tmp_path, server, fault, word):
    home = made(tmp_path / "home", server)
    server.fail("whoami", fault, fault)
    code, out, _ = matrix(home, "status")
    assert (code, word in out) == (1, True)


@pytest.mark.parametrize(
    ("environment", "credential", "secret", "token"),
    [("", "", "a", "a"), ("", "b", "a", "b"), ("c", "b", "a", "c"), ("", "", "", "")],
)
def test_where_the_token_comes_from(tmp_path, environment, credential, secret, token):
    kept = {"PICOCLAW_HOME": str(tmp_path), "CREDENTIALS_DIRECTORY": str(tmp_path / "cred")}
    kept |= {"PICOCLAW_MATRIX_TOKEN": environment} if environment else {}
    (tmp_path / "cred").mkdir()
    if credential:
        (tmp_path / "cred/matrix_token").write_text(f"{credential}\n")
    if secret:
        (tmp_path / "secrets.toml").touch(0o600)
        (tmp_path / "secrets.toml").write_text(f'matrix_token = "{secret}"\n')
    assert load_config(kept).matrix_token == token


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ('allow = ["ann"]', "'ann' is not a Matrix user"),
        ('owner = "@me"', "'@me' is not a Matrix user"),
        ("allow = [7]", "'7' is not a Matrix user"),
        ('homeserver = "matrix.example.org"', "must begin with http"),
        ('homeserver = "https://a b"', "write it as https://HOST"),
        ('server = "x"', "server"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path, table, error):
    (tmp_path / "config.toml").write_text(f"[matrix]\n{table}\n")
    with pytest.raises(ConfigError, match=error):
        load_config({"PICOCLAW_HOME": str(tmp_path)})


def test_init_sets_it_up(tmp_path, server):
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    home = tmp_path / "home"
    code, out, _ = picoclaw(home, "init", "--matrix-server", f"{server.url}/", "--matrix-token-from", str(token))
    assert code == 0
    assert f"Matrix     {server.url}" in out
    assert "picoclaw matrix pair" in out
    config = load_config({"PICOCLAW_HOME": str(home)})
    assert (config.matrix.homeserver, config.matrix_token) == (server.url, TOKEN)


def rows(home, url, *, token=TOKEN, allow=(ANN,), offline=False):
    config = Config(home=home, matrix=MatrixConfig(url, list(allow)), matrix_token=token)
    found = [row for row in doctor.examine_channels(config, offline=offline) if row.name == "matrix"]
    return [(row.status, row.fix) for row in found]


def test_the_doctor_asks_the_server(tmp_path, server):
    assert rows(tmp_path, server.url) == [("good", "")]
    assert rows(tmp_path, server.url, allow=()) == [("note", "picoclaw matrix pair"), ("good", "")]
    assert rows(tmp_path, server.url, token="another") == [("bad", "picoclaw matrix login @NAME:SERVER")]
    assert rows(tmp_path, server.url, offline=True) == []
    assert rows(tmp_path, "http://matrix.example.org", offline=True) == [("bad", "https:// in [matrix]")]
    assert rows(tmp_path, "") == []
    server.fail("whoami", tg.portal)
    ((status, fix),) = rows(tmp_path, server.url)
    assert (status, "homeserver under [matrix]" in fix) == ("bad", True)

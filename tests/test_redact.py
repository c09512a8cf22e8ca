"""Secrets are taken out of texts wherever they stand, and nothing else is."""

import json
from datetime import UTC, datetime

import pytest
from person import Person, picoclaw
from rows import each_row

from picoclaw.messages import Message, Notice, Turn, Usage
from picoclaw.schedules import Plan
from picoclaw.security.redaction import MASK, Redactor
from picoclaw.store.conversations import History
from picoclaw.store.database import Database
from picoclaw.store.jobs import Job, Jobs

R = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"  # no scanner of repositories is to take a whole key for a real one
D = "0123456789abcdef" * 4
PEM = "-----BEGIN {0}PRIVATE KEY-----\nMIIE{1}\n{1}/+=\n-----END {0}PRIVATE KEY-----"
redact = Redactor()

MARKED = [
    *(f"{begins}{R}{R}" for begins in ("sk-", "sk-proj-", "sk-ant-api03-", "ghp_", "gho_", "hf_", "github_pat_")),
    *(f"{begins}{R}{R}" for begins in ("pypi-", "gsk_", "xai-", "npm_", "tvly-")),
    f"sk-or-v1-{D}",
    f"glpat-{R[:20]}",
    f"AIza{R}abc",
    f"sk_live_{R[:24]}",
    f"xoxb-123456789012-{R[:24]}",
    f"AKIA{R[:16].upper()}",
    f"123456789:AA{R}b",
    f"eyJhbGciOiJIUzI1NiJ9.eyJ{R}.{R}",
]
AROUND = ["{}", "it is {}.", "x={}\n", '"{}"', "({})", "https://a.example/{}/getMe", "curl -H 'X: {}' b", "a\n{}\nb"]
NAMED = [  # what is written, what of it has to go
    (f"Authorization: Bearer {R}", R),
    ("authorization: basic cGk6cmFzcGJlcnJ5", "cGk6cmFzcGJlcnJ5"),
    (f'{{"headers": {{"Authorization": "Bearer {R}"}}}}', R),
    ("mqtt://pi:hunter2@broker.example:1883", "hunter2"),
    ("https://:s3cr3t-t0ken@host/x", "s3cr3t-t0ken"),
    ("git clone https://me:correcthorse@git.example/x.git", "correcthorse"),
    ("OPENAI_API_KEY=abcd1234efgh", "abcd1234efgh"),
    ("export API_KEY='abcd1234efgh'", "abcd1234efgh"),
    ('{"api_key": "abcd1234efgh"}', "abcd1234efgh"),
    ('{\\"api_key\\": \\"abcd1234efgh\\"}', "abcd1234efgh"),
    ("apiKey: abcd1234efgh", "abcd1234efgh"),
    ("https://a.example/x?token=abcd1234efgh&page=2", "abcd1234efgh"),
    ("client_secret = zyxwvut98765", "zyxwvut98765"),
    ("password=swordfish", "swordfish"),
    ("[wifi]\npassword = swordfish\nband = 5", "swordfish"),
    ('psk="correct horse battery"', "correct horse battery"),
    ("DB_PASSWORD: Tr0ub4dor&3", "Tr0ub4dor"),
    ("MYSQL_PASSWORD='swordfish'", "swordfish"),
    ("aws_secret_access_key = wJalrXUtnFEMI7K7MDENGbPxRfiCYzzzz", "wJalrXUtnFEMI7K7MDENGbPxRfiCYzzzz"),
    *((PEM.format(kind, R * 2), R) for kind in ("", "RSA ", "EC ", "OPENSSH ")),
    (PEM.format("", R * 2).replace("\n", "\\n"), R),
    (f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00FF\n\n{R}\n{R}\n", R),
    (f"-----BEGIN PRIVATE KEY-----\n{R}", R),
]
HARMLESS = [
    "",
    D,
    f"sha256:{D}",
    "commit 6881bee12a72976e47c0526881bee12a72976e47 (HEAD)",
    "uuid 123e4567-e89b-12d3-a456-426614174000",
    "/dev/disk/by-partuuid/5a1c3e77-02",
    "     0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f\n70: -- -- -- -- -- -- 76 --",
    "28-0316a2795bff 21.437 °C; b8:27:eb:12:34:56; fe80::ba27:ebff:fe12:3456",
    "00 1a ff 3c 55 aa 01 02 03 04 05 06 07 08 09 0a",
    "the key: 0x76 is the address, the other key = value",
    "tokens: 4096, max_tokens=1024, prompt tokens=12345678",
    "the token is kept; token: required; secret: none; Password: required",
    "a password must have at least 12 characters: letters and digits",
    'password: "at least 12 characters, 3 of them digits"',
    "password=os.environ['DB_PASSWORD']; token = get_token(); api_key=config.key",
    "def f(password: str, token: str = '') -> None:",
    "PRIVATE_KEY=/etc/ssl/private/key1234.pem; pwd=/home/pi/code2",
    'api_key = "YOUR_API_KEY_123"; token=<token>; password=$PASSWORD; secret: ${SECRET_42}; api_key=xxxxxxxxxxxx',
    "Authorization: Bearer $TOKEN; Bearer <your token>; the bearer of good news; bearer misunderstandings",
    "http://127.0.0.1:8080/x@y https://host:443/ mqtt://user:password@broker ssh://git@github.com:22/x",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n-----END PUBLIC KEY-----",
    "a key begins with -----BEGIN PRIVATE KEY----- and ends with another line",
    "sk-learn-0.24, sk-fading-circle-9-animation-container, risk-averse-1234567890123456789012",
    "1234567890:30 meetings; 12:AA 3; 99999999:AAB",
    "task-ghp_short gha xoxo hf_1 npm_config_cache=/home/pi/.npm AKIA",
    "base64: aGVsbG8gd29ybGQsIHRoaXMgaXMgbm90IGEgc2VjcmV0",
    "picoclaw is [secret]; api_key=[secret]; password='[secret]'",
    "Passwort vergessen? token/s 3.2; 12 token=3",
    "secrets.toml, secret santa, keyboard: us, monkey: 12345678, turkey=87654321abc",
]  # fmt: skip


@each_row("secret", MARKED)
def test_what_has_a_vendors_mark_goes(secret: str) -> None:
    assert [redact(around.format(secret)) for around in AROUND] == [around.format(MASK) for around in AROUND]


@each_row(("text", "secret"), NAMED)
def test_what_stands_where_secrets_stand_goes(text: str, secret: str) -> None:
    done = redact(f"before\n{text}\nafter")
    assert secret not in done and MASK in done  # noqa: PT018 - the one without the other says nothing
    assert done.startswith("before\n")
    assert done.endswith("after")
    assert redact(done) == done


@each_row("text", HARMLESS)
def test_nothing_else_goes(text: str) -> None:
    assert redact(text) == text
    assert redact(f"{text}\n{text}") == f"{text}\n{text}"


@each_row("form", ["tangerine:42", "tangerine%3A42", "74616e676572696e653a3432", "dGFuZ2VyaW5lOjQy"])
def test_a_known_secret_goes_in_every_form(form: str) -> None:
    assert Redactor(["tangerine:42", "none", ""])(f"<{form}> none") == f"<{MASK}> none"


def test_of_two_known_ones_the_longer_goes_whole() -> None:
    assert Redactor(["abcdefgh", "abcdefgh-1234"])("abcdefgh-1234 abcdefgh") == f"{MASK} {MASK}"


def test_a_calls_arguments_go_by_their_names_as_well() -> None:
    given = {"password": "hunter22", "lines": ["ok", f"Bearer {R}"], "deep": {"api_key": "abcd1234efgh"}, "n": 3}
    assert redact.values(given) == {
        "password": MASK,
        "lines": ["ok", f"Bearer {MASK}"],
        "deep": {"api_key": MASK},
        "n": 3,
    }


def test_the_head_of_a_message_stays_as_it_was() -> None:
    head = "<moment>noon\nNoted lately:\nDB_PASSWORD=swordfish\n</moment>"
    assert redact.redact_message(f"{head}\npassword=swordfish") == f"{head}\npassword={MASK}"
    assert redact.redact_message("password=swordfish </moment>") == redact("password=swordfish </moment>")


# --- at the command line


@pytest.mark.parametrize("where", ["secrets", "further", "credential", "environment"])
def test_a_key_that_another_takes_the_place_of_is_masked_all_the_same(tmp_path, where):
    key, folder = "Zugspitze2962", tmp_path / "picoclaw"
    picoclaw(tmp_path, "tools")
    (folder / "workspace").mkdir(parents=True, exist_ok=True)
    (folder / "workspace" / "old.md").write_text(f"the one before was {key} until May\n")
    secrets = {"secrets": f'telegram_token = "{key}"\n', "further": f'[keys]\nunused = "{key}"\n'}
    if text := secrets.get(where):
        (folder / "secrets.toml").write_text(text)
        (folder / "secrets.toml").chmod(0o600)
    (tmp_path / "telegram_token").write_text(key if where == "credential" else "")
    more = {"PICOCLAW_API_KEY_ATTIC": key} if where == "environment" else {}
    more |= {"CREDENTIALS_DIRECTORY": str(tmp_path)} if where == "credential" else {}
    more |= {"PICOCLAW_TELEGRAM_TOKEN": "123456789:another"}
    found = picoclaw(tmp_path, "tool", "read_file", '{"path": "old.md"}', "--board", "sim", **more)
    assert (key in found.stdout, "the one before was [secret] until May" in found.stdout) == (False, True), found


@pytest.mark.parametrize(
    ("words", "char"),
    [(("cron", "list", "--json"), char) for char in "\x9b\x85\u202e\u2066\u200b\u2028\ufeff\U000e0041"]
    + [(words, "\u202e") for words in (("sessions", "show", "1", "--json"), ("sessions", "export", "--jsonl"))]
    + [(("sessions", "list", "--json"), "\u202e"), (("chat", "-m", "what is \u202etxt", "--json"), "\u202e")],
)
def test_json_shows_what_nobody_sees_as_an_escape(tmp_path, words, char):
    text = f"gr\u00fc\u00df dich {char}txt.exe"
    database = Database(tmp_path / "state.db")
    messages = (Message("user", text), Message("assistant", text))
    turn = Turn("", messages, 1, (), Usage(3, 4), "", "sim", Notice(""))
    History(database).keep("terminal", turn, datetime(2026, 7, 1, tzinfo=UTC))
    Jobs(database).add(Job(0, "terminal", text, Plan("at", "in an hour", anchor=2e9)))
    database.close()
    (tmp_path / "picoclaw").mkdir()
    (tmp_path / "state.db").rename(tmp_path / "picoclaw" / "state.db")
    found = picoclaw(tmp_path, *words)
    assert char not in found.stdout
    assert found.returncode == 0
    if words[0] != "chat":
        assert text in json.dumps([json.loads(line) for line in found.stdout.splitlines()], ensure_ascii=False)
        assert "gr\u00fc\u00df dich" in found.stdout


def test_the_lines_that_were_typed_are_remembered_without_secrets(tmp_path):
    picoclaw(tmp_path, "init", stdin="")
    with Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
        person.types("the bot token is 123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1\r")
        person.sees("> ")
        person.types("\x04")
        person.leaves()
    assert (tmp_path / "picoclaw" / "chat_history").read_text().strip() == "the bot token is [secret]"

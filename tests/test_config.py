"""The owner's settings: what is accepted, what is refused in which words, and where a key may go."""

import os
import re
from pathlib import Path

import pytest
from rights import ordinary_user

from picoclaw.config import Config, load_config
from picoclaw.config.files import OPENAI_URL, OPENROUTER_URL
from picoclaw.config.tables import ModelConfig, SensorConfig, redact_url
from picoclaw.errors import ConfigError
from picoclaw.files import find_shipped, get_home
from picoclaw.workspace import list_intent_files, prepare_home, read_intent_tables

ELSEWHERE = "https://elsewhere.example/v1"


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


def settings(home, text="", secrets=None, mode=0o600, **environment):
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    if secrets is not None:
        (home / "secrets.toml").write_text(secrets)
        (home / "secrets.toml").chmod(mode)
    return load_config({"PICOCLAW_HOME": str(home)} | environment)


def refusal(home, text="", **more):
    with pytest.raises(ConfigError) as caught:
        settings(home, text, **more)
    words = str(caught.value)
    assert "\n" not in words
    return words


# --- config.toml ---


def test_without_a_file_everything_has_its_default(home):
    assert load_config({"PICOCLAW_HOME": str(home)}) == Config(home)
    assert not home.exists()


def test_the_shipped_file_changes_no_default(home):
    assert settings(home, (find_shipped("templates") / "config.toml").read_bytes()) == Config(home)


def test_every_commented_line_of_the_shipped_file_is_valid(home):
    text = (find_shipped("templates") / "config.toml").read_text()
    config = settings(home, re.sub(r"^# (?=\w+ = |\[)", "", text, flags=re.MULTILINE))
    assert config.model.base_url
    assert config.model.name
    assert config.sensors == {"greenhouse": SensorConfig("bme280", 1, 0x76)}
    assert config.model.then == list(config.models) == ["lan"]


@pytest.mark.parametrize(
    ("text", "table", "key", "value"),
    [
        ("[model]\nbase_url = 'http://pi:8080/v1'", "model", "base_url", "http://pi:8080/v1"),
        ("[model]\nbase_url = 'http://pi:8080/v1/'", "model", "base_url", "http://pi:8080/v1"),
        ("[model]\ncontext_tokens = 4096", "model", "context_tokens", 4096),
        ("[model]\ncontext_tokens = '4096'", "model", "context_tokens", 4096),
        ("[model]\nidle_seconds = 30", "model", "idle_seconds", 30.0),
        ("[model]\nstream = false", "model", "stream", False),
        ("[model]\nstream = 'no'", "model", "stream", False),
        ("[model]\nretries = 0", "model", "retries", 0),
        ("[model]\napi = 'Anthropic'", "model", "api", "anthropic"),
        ("[model]\nimages = true", "model", "images", True),
        ("[limits]\nseconds = 86400", "limits", "seconds", 86_400.0),
        ("[memory]\nembeddings = 'Off'", "memory", "embeddings", "off"),
        ("[memory]\nembedding_url = 'http://pi:8080/v1/'", "memory", "embedding_url", "http://pi:8080/v1"),
        ("[memory]\nmessages = true", "memory", "messages", True),
        ("[memory]\nnotes_chars = 0", "memory", "notes_chars", 0),
        ("[memory]\ndream_hour = -1", "memory", "dream_hour", -1),
        ("[memory]\ndream_hour = '23'", "memory", "dream_hour", 23),
        ("[memory]\nreview_minutes = 0", "memory", "review_minutes", 0),
        ("[board]\nkind = 'SIM'", "board", "kind", "sim"),
        ("[tools]\nexec = 'ask'", "tools", "exec", "ask"),
        ("[tools]\nextra_folders = ['/srv', '~/x']", "tools", "extra_folders", ["/srv", "~/x"]),
    ],
)
def test_a_setting_is_taken(home, text, table, key, value):
    found = getattr(getattr(settings(home, text), table), key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("address", ["0x76", "118", "'0x76'", "118.0"])
def test_a_sensor_is_taken(home, address):
    config = settings(home, f"[sensors.porch]\npart = 'bme280'\naddress = {address}\n[sensors.attic]\npart = 'x'")
    assert config.sensors == {"porch": SensorConfig("bme280", None, 0x76), "attic": SensorConfig("x")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[modle]\nname = 'x'", "unknown table [modle]; did you mean 'model'?"),
        ("[sensor.porch]\npart = 'x'", "unknown table [sensor]; did you mean 'sensors'?"),
        ("[zigbee]", "unknown table [zigbee]; known: model, limits, prompt, memory, board, tools"),
        ("base_url = 'http://x'", "unknown table [base_url]"),
        ("[model]\nbaseurl = 'x'", "[model]: unknown 'baseurl'; did you mean 'base_url'?"),
        ("[model]\napi_key = 'x'", "[model]: unknown 'api_key'"),
        ("[limits]\nstep = 3", "[limits]: unknown 'step'; did you mean 'steps'?"),
        ("model = 'gpt'", "[model] must be a table, not 'gpt'"),
        ("sensors = 3", "[sensors] must hold one table for each sensor"),
        ("[sensors]\nporch = 'bme280'", "[sensors.porch] must be a table, not 'bme280'"),
        ("[sensors.porch]\nbus = 1", "[sensors.porch]: 'part' is missing: the driver's name, such as bme280"),
        ("[sensors.porch]\npart = 'x'\naddres = 8", "[sensors.porch]: unknown 'addres'; did you mean 'address'?"),
        ("[sensors.porch]\npart = 'x'\naddress = 0x78", "'address' is 120, outside 8 to 119; 7-bit address"),
        ("[sensors.porch]\npart = 'x'\naddress = 0", "'address' is 0, outside 8 to 119"),
        ("[model]\ncontext_tokens = 'many'", "[model]: 'context_tokens' must be a whole number, not \"many\""),
        ("[model]\ncontext_tokens = true", "'context_tokens' must be a whole number, not true"),
        ("[model]\ncontext_tokens = 1000.5", "'context_tokens' must be a whole number, not 1000.5"),
        ("[model]\ncontext_tokens = 1023", "'context_tokens' is 1023, outside 1024 to 10000000"),
        ("[model]\ncontext_tokens = 0x" + "f" * 9000, "'context_tokens' is something too large to show, outside"),
        ("[model]\ncontext_tokens = " + "9" * 9000, "is not valid TOML: a number in it has too many digits"),
        ("[model]\nidle_seconds = nan", "'idle_seconds' must be a number"),
        ("[model]\nidle_seconds = inf", "'idle_seconds' must be a number"),
        ("[model]\nname = 1979-05-27", "'name' must be text"),
        ("[model]\nname = ['a']", "'name' must be text"),
        ("[model]\nstream = 1", "'stream' must be true or false, not 1"),
        ("[memory]\nembeding_url = 'x'", "[memory]: unknown 'embeding_url'; did you mean 'embedding_url'?"),
        ("[memory]\nembeddings = 'openai'", "'embeddings' must be one of 'local', 'table', 'server', 'off', not \"openai\""),
        ("[memory]\ndream_hour = 24", "'dream_hour' is 24, outside -1 to 23"),
        ("[memory]\ndream_hour = 3.5", "'dream_hour' must be a whole number"),
        ("[memory]\npulse_chars = -1", "'pulse_chars' is -1, outside 0 to 150000"),
        ("[memory]\nembedding_key = 'sk-1'", "[memory]: unknown 'embedding_key'"),
        ("[memory]\nembedding_url = 'pi:8080'", "embedding_url 'pi:8080' must begin with http:// or https://"),
        ("[board]\nkind = 'arduino'", "'kind' must be one of 'auto', 'linux', 'sim', not \"arduino\""),
        ("[tools]\nextra_folders = 7", "'extra_folders' must be a list"),
        ("[tools]\nextra_folders = ['']", "[tools]: extra_folders: '' must be a whole path, such as"),
        ("[tools]\nextra_folders = ['.']", "extra_folders: '.' must be a whole path"),
        ("[tools]\nextra_folders = ['/srv', 'data']", "extra_folders: 'data' must be a whole path"),
        ('[tools]\nextra_folders = ["/srv\\u0000"]', "extra_folders: '/srv\\x00' must be a whole path"),
        ("[tools]\nextra_folders = ['~no-such-user/x']", "the ~ in '~no-such-user/x' stands for no known user"),
        ("[tools]\nextra_folders = [1979-05-27]", "'extra_folders[0]' must be text"),
        ("[model]\nbase_url = 'localhost:8080'", "base_url 'localhost:8080' must begin with http:// or https://"),
        ("[model]\nbase_url = 'file:///etc/passwd'", "must begin with http:// or https://"),
        ("[model]\napi = 'grpc'", "'api' must be one of 'openai', 'responses', 'anthropic', not \"grpc\""),
        ("[model]\nthen = 7", "'then' must be a list"),
        ("[model]\nthen = ['lan']", "[model]: 'then' names 'lan', and there is no [models.lan]; there is no [models.NAME]"),
        ("[model]\nthen = ['lann']\n[models.lan]", "no [models.lann]; did you mean 'lan'?"),
        ("[model]\nthen = ['intents']", "'then' without 'intents': the built-in matcher is always the last"),
        ("models = 3", "[models] must hold one table for each model, such as [models.NAME]"),
        ("[models]\nlan = 'x'", "[models.lan] must be a table, not 'x'"),
        ("[models.Lan]\nbase_url = 'http://x'", "[models.Lan]: a name is small letters, digits and _, and none of default"),
        ("[models.default]\nbase_url = 'http://x'", "[models.default]: a name is small letters"),
        ("[models.'a b']\nbase_url = 'http://x'", "[models.a b]: a name is small letters"),
        ("[models.lan]\nbase_url = 'http://x'\nthen = ['lan']", "[models.lan]: 'then' belongs under [model]"),
        ("[model]\nname = 'lan'\n[models.lan]\nbase_url = 'http://x'", "[models.lan]: [model] asks for a model of that name"),
        ("[models.lan]\nkey = 'sk-1'", "[models.lan]: unknown 'key'"),
        ("[models.lan]\nbase_url = 'pi:8080'", "[models.lan]: base_url 'pi:8080' must begin with http:// or https://"),
        ("[model\n", "is not valid TOML"),
        ("[model]\nname = 'a'\nname = 'b'", "is not valid TOML"),
        ("[model]\nname = qwen\n", "line 2, name: Invalid value; put a text in quotes"),
        ("[model]\nname: x\n", "line 2: Expected '='"),
        ("[model]\nname = 'a'\n[model]\n", "a table is there twice"),
        ("[voice]\nleast = 0,5\n", "line 2, least: Expected newline or end of document after a statement; one setting on each line"),
        ("x = " + "[" * 5000, "config.toml is not valid TOML: it is nested too deeply"),
        (b"[model]\nname = '\xff\xfe'", "is not valid TOML"),
        (b"\xef\xbb\xbf[model]\n", "is not valid TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(home, text, said):
    words = refusal(home, text)
    assert said in words
    assert "base_url" in said or "http://" in said or words.startswith(f"{home}/config.toml")


def test_a_config_that_cannot_be_read_is_named(home):
    (home / "config.toml").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"config\.toml cannot be read: it is a folder"):
        load_config({"PICOCLAW_HOME": str(home)})


# --- the environment ---


@pytest.mark.parametrize(
    ("text", "environment", "base_url", "name"),
    [
        ("", {}, "", ""),
        ("", {"PICOCLAW_BASE_URL": "http://pi:1/v1/"}, "http://pi:1/v1", ""),
        ("[model]\nbase_url = 'http://a'", {"PICOCLAW_BASE_URL": "http://b"}, "http://b", ""),
        ("[model]\nbase_url = 'http://a'", {"PICOCLAW_BASE_URL": ""}, "http://a", ""),
        ("[model]\nbase_url = 'http://a'", {"OPENAI_BASE_URL": "http://b"}, "http://b", ""),
        ("", {"OPENAI_BASE_URL": "http://b", "PICOCLAW_BASE_URL": "http://c"}, "http://c", ""),
        ("[model]\nname = 'small'", {"PICOCLAW_MODEL": "big", "OPENAI_API_KEY": "o"}, OPENAI_URL, "big"),
        ("[model]\nname = 'small'", {"OPENAI_API_KEY": "o", "OPENROUTER_API_KEY": ""}, OPENAI_URL, "small"),
        ("", {"PICOCLAW_MODEL": "big", "OPENROUTER_API_KEY": "r"}, OPENROUTER_URL, "big"),
        ("", {"PICOCLAW_MODEL": "big", "OPENROUTER_API_KEY": "r", "OPENAI_API_KEY": "o"}, OPENROUTER_URL, "big"),
        ("", {"PICOCLAW_MODEL": "big", "PICOCLAW_BASE_URL": "http://b"}, "http://b", "big"),
    ],
)
def test_the_environment_wins(home, text, environment, base_url, name):
    model = settings(home, text, **environment).model
    assert (model.base_url, model.name) == (base_url, name)


@pytest.mark.parametrize(
    "environment", [{}, {"OPENAI_API_KEY": "", "OPENROUTER_API_KEY": ""}, {"PICOCLAW_API_KEY": "sk-123"}]
)
def test_a_model_without_a_server_is_sent_to_nobody(home, environment):
    words = refusal(home, "[model]\nname = 'small'", **environment)
    assert words.startswith("there is no server for the model 'small': set base_url")


@pytest.mark.parametrize("name", ["PICOCLAW_HOME", "PICOCLAW_MODEL", "PICOCLAW_BASE_URL", "OPENAI_BASE_URL"])
def test_a_variable_that_is_not_text_is_named(home, name):
    given = {"PICOCLAW_HOME": str(home)} | {name: "/srv/" + os.fsdecode(b"h\xe9")}
    with pytest.raises(ConfigError, match=name) as caught:
        load_config(given)
    str(caught.value).encode()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://pi:8080/v1", "http://pi:8080/v1"),
        ("https://user:pass@pi/v1", "https://pi/v1"),
        ("https://pass@pi/v1", "https://pi/v1"),
        ("https://user:p@ss@pi/v1", "https://pi/v1"),
        ("https://user:p/ss@pi/v1", "https://pi/v1"),
        ("user:pass@pi/v1", "pi/v1"),
        ("https:/user:pass@pi/v1", "pi/v1"),
        ("", ""),
    ],
)
def test_a_password_in_the_address_is_not_shown(home, url, shown):
    assert redact_url(url) == ModelConfig(base_url=url).shown_url == shown
    if url and not url.startswith(("http://", "https://")):
        assert f"{shown!r} must begin with" in refusal(home, PICOCLAW_BASE_URL=url)


FURTHER = "[model]\nbase_url = 'http://a/v1'\nthen = ['lan']\n[models.lan]\nname = 'm'\n"


@pytest.mark.parametrize(
    ("text", "environment", "said"),
    [
        (FURTHER, {}, "there is no server for the model 'm': set base_url under [models.lan]"),
        (FURTHER, {"ANTHROPIC_API_KEY": "a"}, "there is no server for the model 'm'"),
        (FURTHER + "api = 'anthropic'", {"OPENAI_API_KEY": "o"}, "there is no server for the model 'm'"),
        ("[model]\nthen = ['lan']\n[models.lan]\nbase_url = 'http://b'", {}, "[model]: 'then' follows a model, and there is"),
    ],
    ids=["no server", "another vendor", "another format", "no first model"],
)  # fmt: skip
def test_a_further_model_needs_a_server_and_a_first(home, text, environment, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        settings(home, text, **environment)


@pytest.mark.parametrize(
    ("text", "secrets", "environment", "key"),
    [
        ("base_url = 'http://b/v1/'", "[keys]\nlan = ' sk-lan '", {}, "sk-lan"),
        ("base_url = 'http://b/v1'", "api_key = 'sk-first'", {}, ""),
        ("base_url = 'http://a/v1'", "api_key = 'sk-first'", {"PICOCLAW_API_KEY": "sk-env"}, ""),
        ("base_url = 'http://b/v1'", "[keys]\nlan = 'sk-file'", {"PICOCLAW_API_KEY_LAN": "sk-env"}, "sk-env"),
        ("base_url = 'http://b/v1'", "[keys]\nlocal = 'sk-other'", {"PICOCLAW_API_KEY_LOCAL": "sk-env"}, ""),
        ("base_url = 'https://api.openai.com/v1'", "", {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}, "o"),
        ("api = 'anthropic'", "", {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}, "a"),
        ("base_url = 'https://api.anthropic.com/v1'", "", {"ANTHROPIC_API_KEY": "a"}, "a"),
        ("base_url = 'https://api.anthropic.com.evil.example/v1'", "", {"ANTHROPIC_API_KEY": "a"}, ""),
        ("base_url = 'http://127.0.0.1:8080/v1'", "", {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a"}, ""),
    ],
)
def test_a_further_model_has_its_own_key_and_no_others(home, text, secrets, environment, key):
    config = settings(home, FURTHER + text, secrets=secrets, **environment)
    assert config.model_keys == {"lan": key}
    assert config.models["lan"].base_url.startswith("http")
    assert not config.models["lan"].base_url.endswith("/")
    assert "sk-" not in repr(config)


def test_a_credential_of_systemd_for_a_further_model(home, tmp_path):
    (tmp_path / "api_key").write_text("sk-first\n")
    (tmp_path / "api_key_lan").write_text("sk-lan\n")
    config = settings(home, FURTHER + "base_url = 'http://b'", CREDENTIALS_DIRECTORY=str(tmp_path))
    assert (config.api_key, config.model_keys) == ("sk-first", {"lan": "sk-lan"})


VENDORS = {"OPENAI_API_KEY": "openai-key", "OPENROUTER_API_KEY": "openrouter-key"}


@pytest.mark.parametrize(
    ("base_url", "environment", "key"),
    [
        (OPENAI_URL, VENDORS, "openai-key"),
        (OPENAI_URL + "/", VENDORS, "openai-key"),
        (OPENROUTER_URL, VENDORS, "openrouter-key"),
        (ELSEWHERE, VENDORS, ""),
        (ELSEWHERE, VENDORS | {"PICOCLAW_API_KEY": "ours"}, "ours"),
        (OPENAI_URL, VENDORS | {"PICOCLAW_API_KEY": "ours"}, "ours"),
        ("http://127.0.0.1:8080/v1", VENDORS, ""),
        ("http://api.openai.com/v1", VENDORS, ""),
        ("https://api.openai.com.evil.example/v1", VENDORS, ""),
        ("https://api.openai.com@evil.example/v1", VENDORS, ""),
        ("https://evil.example/https://api.openai.com/v1", VENDORS, ""),
        ("https://openrouter.ai.evil.example/api/v1", VENDORS, ""),
        (OPENAI_URL, {"OPENROUTER_API_KEY": "openrouter-key"}, ""),
        (OPENROUTER_URL, {"OPENAI_API_KEY": "openai-key"}, ""),
        ("", VENDORS | {"OPENAI_BASE_URL": ELSEWHERE}, "openai-key"),
        (OPENROUTER_URL, VENDORS | {"OPENAI_BASE_URL": ELSEWHERE}, "openai-key"),
        ("", VENDORS | {"OPENAI_BASE_URL": ELSEWHERE, "PICOCLAW_BASE_URL": "http://pi/v1"}, ""),
    ],
)
def test_a_vendors_key_goes_to_that_vendor_alone(home, base_url, environment, key):
    config = settings(home, f"[model]\nbase_url = '{base_url}'", **environment)
    assert config.api_key == key


@pytest.mark.parametrize(
    ("base_url", "embedding_url", "environment", "secrets", "key"),
    [
        (OPENAI_URL, "", VENDORS, "", "openai-key"),
        (OPENAI_URL, OPENAI_URL, {"PICOCLAW_API_KEY": "ours"}, "", "ours"),
        (ELSEWHERE, "https://elsewhere.example/embed", {}, "api_key = 'theirs'", "theirs"),
        (ELSEWHERE, "https://elsewhere.example:444/v1", {}, "api_key = 'theirs'", ""),
        (ELSEWHERE, "http://elsewhere.example/v1", {"PICOCLAW_API_KEY": "ours"}, "", ""),
        (ELSEWHERE, "http://pi:8080/v1", VENDORS | {"PICOCLAW_API_KEY": "ours"}, "api_key = 'theirs'", ""),
        (ELSEWHERE, OPENAI_URL, VENDORS | {"PICOCLAW_API_KEY": "ours"}, "api_key = 'theirs'", "openai-key"),
        (OPENROUTER_URL, OPENAI_URL, VENDORS, "", "openai-key"),
        ("", OPENAI_URL, VENDORS, "", "openai-key"),
        ("", "http://pi:8080/v1", {"PICOCLAW_API_KEY": "ours"}, "api_key = 'theirs'", ""),
        ("", "http://pi:8080/v1", VENDORS, "api_key = 'theirs'\nembedding_key = 'for pi'", "for pi"),
        (OPENAI_URL, OPENAI_URL, VENDORS, "embedding_key = 'for pi'", "openai-key"),
    ],
)
def test_the_embedding_servers_key_is_one_that_is_meant_for_it(
    home, base_url, embedding_url, environment, secrets, key
):
    text = f"[model]\nbase_url = '{base_url}'\n[memory]\nembeddings = 'server'\nembedding_url = '{embedding_url}'"
    assert settings(home, text, secrets=secrets, **environment).embedding_key == key


def test_without_an_embedding_server_there_is_no_key_for_one(home):
    assert not settings(home, f"[model]\nbase_url = '{OPENAI_URL}'", **VENDORS).embedding_key


# --- secrets ---


def test_the_key_comes_from_the_secrets_file(home):
    assert settings(home, secrets='api_key = " sk-123\\n"').api_key == "sk-123"


@pytest.mark.parametrize("secrets", ["", "# nothing yet\n", 'api_key = ""'])
def test_no_key_is_no_error(home, secrets):
    assert settings(home, secrets=secrets).api_key == ""


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o602, 0o660, 0o610])
def test_secrets_that_others_can_read_are_refused(home, mode):
    words = refusal(home, secrets='api_key = "sk-123"', mode=mode)
    assert f"{home}/secrets.toml can be read by others (mode {mode:04o}): chmod 600 {home}/secrets.toml" == words


@pytest.mark.parametrize(
    "secrets",
    [
        'api-key = "sk-123"',
        'key = "sk-123"',
        'api_key = "sk-123"\nother = "sk-123"',
        'api_key = ["sk-123"]',
        'api_key = { x = "sk-123" }',
        'keys = "sk-123"',
        '[keys]\nlan = ["sk-123"]',
        "api_key = sk-123",
        'api_key = "sk-123',
        'api_key = "sk-123\\u00e9"',
        'api_key = "sk-123\\nX-Header: x"',
    ],
)
def test_a_secrets_file_that_is_wrong_is_named_and_not_shown(home, secrets):
    words = refusal(home, secrets=secrets)
    assert "secrets.toml" in words or "API key" in words
    assert "sk-123" not in words


@pytest.mark.parametrize("name", ["config.toml", "secrets.toml"])
def test_a_pipe_in_place_of_a_file_is_named_and_not_waited_for(home, name):
    home.mkdir()
    os.mkfifo(home / name, 0o600)
    with pytest.raises(ConfigError, match=rf"{re.escape(name)} cannot be read: it is not a regular file"):
        load_config({"PICOCLAW_HOME": str(home)})


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.symlink_to("/dev/null")])
def test_secrets_that_are_no_file_are_named(home, make):
    home.mkdir()
    make(home / "secrets.toml")
    with pytest.raises(ConfigError, match=r"secrets\.toml cannot be read: (it is a folder|it is not a regular file)"):
        load_config({"PICOCLAW_HOME": str(home)})


def test_a_credential_of_systemd(home, tmp_path):
    (tmp_path / "api_key").write_text("sk-systemd\n")
    given = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert settings(home, secrets='api_key = "sk-file"', **given).api_key == "sk-systemd"
    assert settings(home, **given, PICOCLAW_API_KEY="sk-env").api_key == "sk-env"


def test_no_credential_of_systemd_is_no_error(home, tmp_path):
    given = {"CREDENTIALS_DIRECTORY": str(tmp_path / "missing")}
    assert settings(home, secrets='api_key = "sk-file"', **given).api_key == "sk-file"


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_credential_that_cannot_be_read_is_named(home, tmp_path, content):
    path = tmp_path / "api_key"
    path.mkdir() if content is None else path.write_bytes(content)
    assert refusal(home, CREDENTIALS_DIRECTORY=str(tmp_path)).startswith(f"{path} cannot be read: it is")


def test_a_printed_config_shows_no_key(home):
    config = settings(home, "[model]\nbase_url = 'http://pi/v1'", PICOCLAW_API_KEY="sk-123")
    assert config.api_key == "sk-123"
    assert "sk-123" not in repr(config) + str(config) + f"{config}"


# --- folders ---


def test_the_home_is_where_the_variable_says():
    user = Path.home()
    assert get_home({}) == get_home({"PICOCLAW_HOME": ""}) == user / ".picoclaw"
    assert get_home({"PICOCLAW_HOME": "~/claw"}) == user / "claw"
    assert get_home({"PICOCLAW_HOME": "/srv/claw"}) == Path("/srv/claw")
    assert get_home({"PICOCLAW_HOME": "claw"}) == Path.cwd() / "claw"


def test_a_home_of_nobody_is_an_error():
    with pytest.raises(ConfigError, match="~no-such-user"):
        load_config({"PICOCLAW_HOME": "~no-such-user/claw"})


def test_the_settings_are_made_on_request_and_never_overwritten(home):
    assert home / "config.toml" not in prepare_home(home).made
    assert home / "config.toml" in prepare_home(home, restore=True).made
    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "config.toml").stat().st_mode & 0o777 == 0o600
    (home / "config.toml").write_text("# mine\n")
    assert prepare_home(home, restore=True) == ([], "")
    assert (home / "config.toml").read_text() == "# mine\n"


def test_a_home_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file/home cannot be made: .*set PICOCLAW_HOME"):
        prepare_home(tmp_path / "file/home")


@pytest.mark.parametrize("closed", ["", "intents", "intents/en.toml"])
def test_intents_that_may_not_be_read_are_named(tmp_path, closed):
    owner = tmp_path / "owner"
    (owner / "intents").mkdir(parents=True)
    (owner / "intents/en.toml").write_text("")
    (owner / closed).chmod(0)
    with ordinary_user(), pytest.raises(ConfigError, match=r"intents(/en\.toml)? cannot be read: no permission"):
        read_intent_tables(list_intent_files(owner))
    (owner / closed).chmod(0o700)


def test_no_intents_of_the_owners_are_no_error(tmp_path):
    assert list_intent_files(tmp_path) == list_intent_files(tmp_path / "missing") != []

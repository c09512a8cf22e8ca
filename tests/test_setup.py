"""The set-up: a key of config.toml is changed and nothing else, by options or by a person who answers questions."""

import re
import tomllib
from pathlib import Path

import pytest
from model_server import ModelServer
from person import Person, picoclaw
from rows import each_row

from picoclaw.config import load_config
from picoclaw.config.files import set_value
from picoclaw.errors import ConfigError
from picoclaw.files import find_shipped
from picoclaw.maintenance import setup

TEMPLATE = (find_shipped("templates") / "config.toml").read_text()


@each_row(
    ("before", "table", "key", "value", "after"),
    [
        ("", "model", "name", "x", '\n[model]\nname = "x"\n'),
        ("a = 1", "model", "name", "x", 'a = 1\n\n[model]\nname = "x"\n'),
        ("a = 1\n", "model", "name", "x", 'a = 1\n\n[model]\nname = "x"\n'),
        ("[model]", "model", "name", "x", '[model]\nname = "x"\n'),
        ("[agents.a]\n[x]\n", "agents.a", "name", "x", '[agents.a]\nname = "x"\n[x]\n'),
        ("[model] # mine\n", "model", "name", "x", '[model] # mine\nname = "x"\n'),
        ('[model]\nname = "old" # mine\n', "model", "name", "x", '[model]\nname = "x" # mine\n'),
        ('[model]\n# name = "old"   # a remark\n', "model", "name", "x", '[model]\nname = "x"   # a remark\n'),
        ('[model]\n#name = "c"\nname = "old"\n', "model", "name", "x", '[model]\n#name = "c"\nname = "x"\n'),
        ('[page]\nname = "p"\n[model]\n', "model", "name", "x", '[page]\nname = "p"\n[model]\nname = "x"\n'),
        ("[model]\n[page]\n", "model", "name", 'a "b"\\', '[model]\nname = "a \\"b\\"\\\\"\n[page]\n'),
        ("[telegram]\nallow = [1, 2] # us\n", "telegram", "allow", [3], "[telegram]\nallow = [3] # us\n"),
        ("[page]\nport = 1\n", "page", "port", 8000, "[page]\nport = 8000\n"),
        ("", "", "api_key", "k", 'api_key = "k"\n'),
        ('api_key = "old"\n[x]\n', "", "api_key", "k", 'api_key = "k"\n[x]\n'),
        ('embedding_key = "e"\n', "", "api_key", "k", 'api_key = "k"\nembedding_key = "e"\n'),
    ],
)
def test_one_key_is_set_and_nothing_else(before, table, key, value, after):
    changed = set_value(before, table, key, value)
    assert changed == after
    assert set_value(changed, table, key, value) == changed


@each_row(
    "before",
    ['model = { name = "x" }\n', "[model]\nname = [\n 1]\n", '[model]\nname = """\nx"""\n', "[model\n", "[[model]]\n"],
)
def test_what_only_a_person_should_change_is_left(before):
    with pytest.raises(ConfigError, match=r"by hand|only a person"):
        set_value(before, "model", "name", "y")


@each_row(("table", "keys"), tomllib.loads(TEMPLATE).items())
def test_the_shipped_comments_are_where_values_go(table, keys):
    """Setting a key of the template puts it into the line that explains it."""
    assert keys == {}
    section = re.split(r"\n(?:# )?\[", TEMPLATE.split(f"\n[{table}]")[1])[0]
    commented = [line[2:].split(" = ")[0] for line in section.splitlines() if line.startswith("# ") and " = " in line]
    for key in commented:
        changed = set_value(TEMPLATE, table, key, "set")
        assert changed.count("\n") == TEMPLATE.count("\n")


def test_the_comments_of_another_table_stay():
    """Below [telegram] is a commented [mqtt]: its host is not the host of [telegram]."""
    changed = set_value(TEMPLATE, "telegram", "host", "x")
    assert tomllib.loads(changed)["telegram"] == {"host": "x"}
    assert set(TEMPLATE.splitlines()) <= set(changed.splitlines())


def test_options_set_what_they_name(tmp_path):
    key = tmp_path / "key"
    key.write_text("sk-0123456789abcdef\n")
    done = picoclaw(
        tmp_path, "init", "--model-url", "http://127.0.0.1:1/v1", "--model", "qwen", "--key-from", str(key),
        "--zone", "berlin", "--telegram-token-from", "-", "--telegram-allow", "42", "--telegram-allow", "7",
        "--page", "network", stdin="123456:abcdefghijklmnopqrstuvwxyz\n",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    config = load_config({"PICOCLAW_HOME": str(tmp_path / "picoclaw")})
    assert (config.model.base_url, config.model.name) == ("http://127.0.0.1:1/v1", "qwen")
    assert config.api_key == "sk-0123456789abcdef"
    assert (config.telegram.allow, config.telegram_token) == ([42, 7], "123456:abcdefghijklmnopqrstuvwxyz")
    assert (config.page.enabled, config.page.host) == (True, "0.0.0.0")
    assert "- Time zone: Europe/Berlin\n" in (config.home / "workspace/USER.md").read_text()
    assert (config.home / "secrets.toml").stat().st_mode & 0o777 == 0o600
    assert "sk-0123456789abcdef" not in done.stdout + (config.home / "config.toml").read_text()
    assert picoclaw(tmp_path, "init", "--page", "off").returncode == 0
    after = load_config({"PICOCLAW_HOME": str(tmp_path / "picoclaw")})
    assert (after.page.enabled, after.model.name) == (False, "qwen")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# mine\n[helpers] # two\nsteps = 3\n", "# mine\n[subagents] # two\nsteps = 3\n"),
        ("[page]\nport = 9000\n[ helpers ]\nsteps = 3", "[page]\nport = 9000\n[ subagents ]\nsteps = 3"),
        ("helpers = { steps = 3 }\n", None),
    ],
)
def test_a_table_with_its_old_name_is_renamed_once(tmp_path, before, after):
    home = tmp_path / "picoclaw"
    (home / "workspace/prompts").mkdir(parents=True)
    (home / "workspace/prompts/helper.md").write_text("Be brief. {content}\n")
    (home / "config.toml").write_text(before)
    assert load_config({"PICOCLAW_HOME": str(home)}).subagents.steps == 3
    first, second = (picoclaw(tmp_path, "chat", "-m", "hello") for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0)
    said = "renamed [helpers] to [subagents]" if after else "[helpers] is called [subagents] now: rename it by hand"
    assert said in first.stderr
    assert (second.stderr == "") is bool(after)
    assert (home / "config.toml").read_text() == (after or before)
    assert load_config({"PICOCLAW_HOME": str(home)}).subagents.steps == 3
    assert (home / "workspace/prompts/subagent.md").read_text() == "Be brief. {content}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model-url", "127.0.0.1:8080"], "must begin with http"),
        (["--zone", "Atlantis"], "--zone: "),
        (["--key-from", "/nonexistent"], "holds no key"),
        (["--key-from", "-", "--telegram-token-from", "-"], "standard input can hold one secret"),
        (["--ask"], "--ask takes a terminal"),
        (["--model-url", "http://[::1"], "is not an address"),
        (["--model-url", "http://a b/v1"], "is not an address"),
        (["--model-url", "http://x:1/v1", "--zone", "berlin", "--key-from", "BAD"], "holds a character that no key"),
        (["--diff", "--model", "qwen"], "--diff and --keep set nothing"),
        (["--keep", "--zone", "berlin"], "--diff and --keep set nothing"),
    ],
)
def test_a_setting_that_does_not_fit_leaves_the_files_as_they_were(tmp_path, words, said):
    picoclaw(tmp_path, "init")
    home = tmp_path / "picoclaw"
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    (tmp_path / "bad").write_bytes(b"sk-0123\x01456789")
    done = picoclaw(tmp_path, "init", *(str(tmp_path / "bad") if word == "BAD" else word for word in words))
    assert (done.returncode, said in done.stderr, done.stderr.count("\n")) == (1, True, 1)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


def test_a_linked_file_is_written_where_it_lies(tmp_path):
    picoclaw(tmp_path, "init")
    link, real = tmp_path / "picoclaw/config.toml", tmp_path / "dotfiles.toml"
    link.rename(real)
    link.symlink_to(real)
    assert picoclaw(tmp_path, "init", "--page", "local").returncode == 0
    assert link.is_symlink()
    assert "\nenabled = true" in real.read_text()


def test_a_person_is_led_through_a_new_home(tmp_path):
    with Person(tmp_path, "init") as person:
        person.sees("Model: none, ollama")
        person.types("somewhere\n")
        person.sees("write one of")
        person.types("other\n")
        person.sees("Its address")
        person.types("192.168.1.20:8080\n")
        person.sees("must begin with http")  # at once, not when everything has been answered
        person.types("http://192.168.1.20:8080/v1\n")
        person.sees("The model's name")
        person.types("qwen\n")
        person.sees("API key [none]")
        person.types("sk-0123456789abcdef\n")
        person.sees("Time zone")
        person.types("Atlantis\n")
        person.sees("is not a time zone")
        person.types("berlin\n")
        person.sees("Telegram bot's token")
        person.types("\n")
        person.sees("Page in a browser")
        person.types("local\n")
        shown = person.sees("Settings are in")
        assert person.leaves() == 0
    assert "sk-0123456789abcdef" not in shown
    config = load_config({"PICOCLAW_HOME": str(tmp_path / "picoclaw")})
    assert (config.model.name, config.api_key, config.page.enabled) == ("qwen", "sk-0123456789abcdef", True)
    with Person(tmp_path, "init") as person:  # a second time only what is missing is asked
        shown = person.sees("Telegram bot's token")
        assert not re.search("Model:|Time zone", shown)
        person.types("\n")
        assert "Page in a browser" not in person.sees("Settings are in")
        assert person.leaves() == 0


def test_a_home_that_a_chat_has_made_is_asked_about_as_well(tmp_path):
    assert picoclaw(tmp_path, "chat", "--board", "sim", "-m", "how warm is it?").returncode == 0
    with Person(tmp_path, "init") as person:
        person.sees("Model: none, ollama")
        person.types("none\n")
        person.sees("Time zone")
        person.types("tokyo\n")
        person.sees("Telegram bot's token")
        person.types("\n")
        person.sees("Page in a browser")
        person.types("\n")
        person.sees("Settings are in")
        assert person.leaves() == 0
    assert "- Time zone: Asia/Tokyo" in (tmp_path / "picoclaw/workspace/USER.md").read_text()
    with Person(tmp_path, "init") as person:  # a second time only what is missing is asked
        for question in ("Model: none, ollama", "Telegram bot's token", "Page in a browser"):
            assert "Time zone" not in person.sees(question)
            person.types("\n")
        person.sees("Settings are in")
        assert person.leaves() == 0


def test_asked_again_a_person_keeps_or_ends_what_there_is(tmp_path):
    picoclaw(tmp_path, "init", "--model-url", "http://127.0.0.1:1/v1", "--model", "qwen", "--page", "network")
    before = (tmp_path / "picoclaw/config.toml").read_text()
    for model, page, same in (("", "", True), ("none", "off", False)):
        with Person(tmp_path, "init", "--ask") as person:
            person.sees("[keep]")
            person.types(f"{model}\n")
            person.sees("Time zone")
            person.types("\n")
            person.sees("Telegram bot's token")
            person.types("\n")
            person.sees("[network]")
            person.types(f"{page}\n")
            person.sees("Settings are in")
            assert person.leaves() == 0
        assert ((tmp_path / "picoclaw/config.toml").read_text() == before) is same
    config = load_config({"PICOCLAW_HOME": str(tmp_path / "picoclaw")})
    assert (config.model.base_url, config.model.name, config.page.enabled) == ("", "", False)


def test_a_person_who_leaves_has_lost_nothing(tmp_path):
    with Person(tmp_path, "init", columns=300) as person:
        person.sees("Model: none")
        person.types("\x04")
        person.sees("`picoclaw init --ask` asks again")
        assert person.leaves() == 1
    assert (tmp_path / "picoclaw/config.toml").read_text() == TEMPLATE


def test_the_models_of_a_server_here_are_offered():
    with ModelServer([]) as server:
        assert setup.list_server_models(server.url) == ["scripted"]
    assert setup.list_server_models("http://127.0.0.1:9/v1") is None


@pytest.mark.parametrize(
    ("place", "zone"),
    [("Europe/Berlin", "Europe/Berlin"), ("Etc/UTC", ""), ("America/Indiana/Knox", "America/Indiana/Knox")],
)
def test_the_machines_zone_is_proposed(tmp_path, place, zone):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/localtime").symlink_to(f"/usr/share/zoneinfo/{place}")
    assert setup.get_machine_zone(tmp_path) == zone or not Path("/usr/share/zoneinfo").exists()

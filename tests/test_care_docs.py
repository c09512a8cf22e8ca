"""What the README and the pages about set-up, care and trouble show can be typed: commands, settings, links."""

import re
import shlex
import tomllib

import pytest
from person import ROOT

from picoclaw import cli
from picoclaw.config import load_config

PAGES = (
    "README.md",
    *(f"docs/{name}.md" for name in ("setup", "service", "telegram", "page")),
    *(f"docs/{name}.md" for name in ("local-models", "security", "troubleshooting")),
)
TEXTS = {name: (ROOT / name).read_text() for name in PAGES}


def commands():
    for text in TEXTS.values():
        blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
        inline = re.findall(r"`((?:sudo )?(?:-u picoclaw )?picoclaw [^`]+)`", text)
        yield from re.findall(r"^.*\bpicoclaw .*$", blocks, re.MULTILINE)
        yield from inline


def words_of(command):
    """What picoclaw is given: without sudo, comments and the other end of a pipe."""
    words = shlex.split(re.split(r" [|#] ?", command.removeprefix("sudo ").removeprefix("-u picoclaw "))[0])
    words = ["120" if word == "N" else word for word in words]
    return words[1:] if words[0] == "picoclaw" and words[1] != "--help" else []


GIVEN = sorted({tuple(words) for command in commands() if (words := words_of(command))})


@pytest.mark.parametrize("words", GIVEN, ids=" ".join)
def test_a_command_is_understood(words, monkeypatch, capsys):
    ran, typed = [], cli.run
    monkeypatch.setattr(cli, "run", typed)  # puts it back, once a verb of the same name has taken its place
    add_options, _ = cli.load_verb(words[0])
    monkeypatch.setattr(cli, "load_verb", lambda _: (add_options, lambda given: ran.append(given) or 0))
    assert typed(list(words)) == 0, capsys.readouterr().err
    assert len(ran) == 1


def test_the_commands_are_found():
    assert {words[0] for words in GIVEN} >= {
        "init",
        "doctor",
        "update",
        "backup",
        "restore",
        "uninstall",
        "service",
        "page",
    }


@pytest.mark.parametrize("name", PAGES)
def test_the_settings_fit(tmp_path, name):
    for block in re.findall(r"```toml\n(.*?)```", TEXTS[name], re.DOTALL):
        (tmp_path / "config.toml").write_text(block)
        assert tomllib.loads(block)
        load_config({"PICOCLAW_HOME": str(tmp_path)})


@pytest.mark.parametrize("name", PAGES)
def test_a_link_leads_somewhere(name):
    for target in re.findall(r"\]\(([^)#:]+)\)", re.sub(r"`[^`\n]*`", "", TEXTS[name])):
        assert ((ROOT / name).parent / target).exists(), target


@pytest.mark.parametrize(
    "option", sorted(set(re.findall(r"(?<=install\.sh )(--\w+)|(?<=`)(--wheels)", TEXTS["docs/setup.md"])))
)
def test_an_option_of_install_sh_exists(option):
    assert f"    {next(filter(None, option))})" in (ROOT / "install.sh").read_text()

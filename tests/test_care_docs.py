"""What the README and the pages of the guide show can be typed: commands and settings."""

import re
import shlex
import tomllib

import pytest
from person import ROOT

from picoclaw import cli
from picoclaw.config import load_config

PAGES = (
    "README.md",
    *(f"docs/{name}.md" for name in ("index", "start", "greenhouse", "safety", "troubleshooting", "reference/files")),
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs/howto").glob("*.md"))),
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
    words = shlex.split(re.split(r" [|#>] ?", command.removeprefix("sudo ").removeprefix("-u picoclaw "))[0])
    words = ["120" if word == "N" else word for word in words]
    return words[1:] if words[0] == "picoclaw" and words[1] != "--help" else []


GIVEN = sorted({tuple(words) for command in commands() if (words := words_of(command))})


@pytest.mark.parametrize("words", GIVEN, ids=" ".join)
def test_a_command_is_understood(words, monkeypatch, capsys):
    ran, typed = [], cli.run
    monkeypatch.setattr(cli, "run", typed)  # puts it back, once a verb of the same name has taken its place
    add_options, _ = cli.load_verb(words[0])
    monkeypatch.setattr(cli, "load_verb", lambda _: (add_options, lambda given: ran.append(given) or 0))
    done = typed(list(words))
    said = capsys.readouterr().err
    assert (done, len(ran)) == (0, 1) or re.search("is missing|needs a value", said), (
        said
    )  # a command that is only named


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


OTHER_FILES = {
    "outputs",
    "parts",
    "rules",
    "keys",
    "intents",
}  # test_docs.py, test_tutorial.py and test_chain.py have them


@pytest.mark.parametrize("name", PAGES)
def test_the_settings_fit(tmp_path, name):
    for block in re.findall(r"```toml\n(.*?)```", TEXTS[name], re.DOTALL):
        if not OTHER_FILES & set(tomllib.loads(block)):
            (tmp_path / "config.toml").write_text(block)
            load_config({"PICOCLAW_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    "option",
    sorted(
        set(
            re.findall(
                r"(?<=install\.sh )(--\w+)|(?<=`)(--wheels)", TEXTS["docs/start.md"] + TEXTS["docs/howto/updates.md"]
            )
        )
    ),
)
def test_an_option_of_install_sh_exists(option):
    assert f"    {next(filter(None, option))})" in (ROOT / "install.sh").read_text()

"""The owner's folders and files: made when first needed, seeded from templates, never overwritten."""

from pathlib import Path
from typing import Any

from picoclaw.disk import create, explain
from picoclaw.errors import ConfigError
from picoclaw.resources import shipped


def prepare(home: Path, *, seeds: bool = False) -> list[Path]:
    """Make the home (mode 0700) and the workspace where they are missing; returns what was made.

    `seeds` adds the commented config.toml; a home without it works, and starts faster.
    """
    made = []
    try:
        for folder in (home, home / "workspace", home / "workspace" / "memory"):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, parents=True)
                made.append(folder)
        config = home / "config.toml"
        if seeds and not config.exists() and create(config, (shipped("templates") / "config.toml").read_bytes()):
            made.append(config)
    except OSError as error:
        name = error.filename or home
        raise ConfigError(f"{name} cannot be made: {explain(error)}; or set PICOCLAW_HOME to another folder") from None
    return made


def intent_tables(home: Path) -> dict[str, dict[str, Any]]:
    """Read what the matcher knows: the shipped files, then the owner's in the home's `intents/`, by their path."""
    import tomllib

    folders = (shipped("templates") / "intents", home / "intents")
    tables = {}
    for path in (path for folder in folders for path in _toml_files(folder)):
        try:
            tables[str(path)] = tomllib.loads(path.read_bytes().decode())
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {explain(error)}") from None
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from None
    return tables


def _toml_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read: {explain(error)}") from None


class Prompts:
    """The owner's wording where there is one (`prompts/NAME.md` in the home), else the shipped one."""

    def __init__(self, home: Path) -> None:
        """Reads nothing yet."""
        self._folders = (home / "prompts", shipped("templates") / "prompts")

    def __getitem__(self, name: str) -> str:
        """Return a template's text; raises ConfigError when the file cannot be read."""
        for path in (folder / f"{name}.md" for folder in self._folders):
            try:
                if path.is_file():
                    return path.read_text(encoding="utf-8").rstrip("\n")
            except UnicodeDecodeError as error:
                raise ConfigError(f"{path} cannot be read as UTF-8 text: {error}") from None
            except OSError as error:
                raise ConfigError(f"{path} cannot be read: {explain(error)}") from None
        raise ConfigError(f"the prompt template {name}.md is missing; reinstall picoclaw")


MACHINE_OUTPUTS = Path("/etc/picoclaw/outputs.toml")
"""Wins entirely over the one in the home folder when it is there."""


def outputs_file(home: Path) -> Path:
    """Return the file that declares the outputs: the machine's, which root alone can write, or the home's."""
    return MACHINE_OUTPUTS if MACHINE_OUTPUTS.exists() else home / "outputs.toml"

"""The wording of everything that a model is told, each sentence a file that the owner may put another in place of."""

import re
from pathlib import Path

from picoclaw.disk import explain
from picoclaw.errors import ConfigError
from picoclaw.resources import shipped
from picoclaw.workspace.reading import Texts, uncommented

LARGEST = 64_000

_NAME = re.compile(r"[a-z_0-9]+")
_TOOL = re.compile(r"tool_[a-z_0-9]+\.md")


class Prompts:
    """The owner's wording where there is one (`prompts/NAME.md` in the workspace), else the shipped one.

    Comments are for people and left out. A file that changes is seen the next time it is asked for.
    """

    def __init__(self, workspace: Path, templates: Path | None = None) -> None:
        """Reads nothing yet. `templates` are others than the shipped ones."""
        self._folder = workspace / "prompts"
        self._source = templates or shipped("templates") / "prompts"
        self._own = Texts(self._folder, LARGEST, workspace, _wording)
        self._shipped = Texts(self._source, LARGEST, clean=_wording)

    def __getitem__(self, name: str) -> str:
        """Return a template's text; raises ConfigError when there is none, or it cannot be read."""
        found = self.get(name)
        if found is None:
            raise ConfigError(f"the prompt template {name}.md is missing; reinstall picoclaw")
        return found

    def get(self, name: str) -> str | None:
        """Return a template's text, None when there is none of that name; raises ConfigError."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be a prompt template's name; use small letters, digits and _")
        own = self._own.get(f"{name}.md")
        return self._shipped.get(f"{name}.md") if own is None else own

    def overridden(self) -> list[Path]:
        """List the owner's files; raises ConfigError when the folder cannot be read."""
        try:
            return sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be read: {explain(error)}") from None

    def unknown(self) -> list[Path]:
        """List those of the owner's files that nothing asks for, because no template has that name."""
        names = {path.name for path in self._source.iterdir()}
        return [path for path in self.overridden() if path.name not in names and not _TOOL.fullmatch(path.name)]


def _wording(text: str) -> str:
    return uncommented(text).strip("\n")

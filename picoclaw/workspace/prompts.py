"""The wording of everything that a model is told, each sentence a file that the owner may put another in place of."""

import re
from collections.abc import Collection
from pathlib import Path

from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_error
from picoclaw.markdown import remove_hidden
from picoclaw.resources import find_shipped
from picoclaw.workspace.reading import TextFiles

MAX_PROMPT_BYTES = 64_000

_NAME = re.compile(r"[a-z_0-9]+")
_TOOL = re.compile(r"tool_([a-z_0-9]+)\.md")


class Prompts:
    """The owner's wording where there is one (`prompts/NAME.md` in the workspace), else the shipped one.

    Comments are for people and left out. A file that changes is seen the next time it is asked for. In the place of one
    that cannot be read the shipped wording serves, so that no slip of the owner's ends a turn.
    """

    def __init__(self, workspace: Path, templates: Path | None = None) -> None:
        """Reads nothing yet. `templates` are others than the shipped ones."""
        self._folder = workspace / "prompts"
        self._source = templates or find_shipped("templates") / "prompts"
        self._own = TextFiles(self._folder, MAX_PROMPT_BYTES, workspace, _clean_prompt)
        self._shipped = TextFiles(self._source, MAX_PROMPT_BYTES, clean=_clean_prompt)
        self._problems: dict[str, str] = {}

    @property
    def problems(self) -> list[str]:
        """Why files of the owner's that were asked for are not used, as far as they still are not."""
        return list(self._problems.values())

    def __getitem__(self, name: str) -> str:
        """Return a template's text; raises ConfigError when there is none."""
        found = self.get(name)
        if found is None:
            raise ConfigError(f"the prompt template {name}.md is missing; reinstall picoclaw")
        return found

    def get(self, name: str) -> str | None:
        """Return a template's text, None when there is none of that name; raises ConfigError for what is no name."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} cannot be a prompt template's name; use small letters, digits and _")
        self._problems.pop(name, None)
        try:
            own = self._own.get(f"{name}.md")
        except ConfigError as error:
            own = None
            self._problems[name] = f"{error}; until then picoclaw's own wording is used"
        return self._shipped.get(f"{name}.md") if own is None else own

    def overridden(self) -> list[Path]:
        """List the owner's files; raises ConfigError when the folder cannot be read."""
        try:
            return sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be read: {explain_os_error(error)}") from None

    def unknown(self, tools: Collection[str] | None = None) -> list[Path]:
        """List those of the owner's files that nothing asks for: no template has that name, and none of the tools."""
        names = {path.name for path in self._source.iterdir()}
        others = [path for path in self.overridden() if path.name not in names]
        return [
            path
            for path in others
            if not (tool := _TOOL.fullmatch(path.name)) or (tools is not None and tool[1] not in tools)
        ]


def _clean_prompt(_: str, text: str) -> str:
    return remove_hidden(text, trusting=True).strip("\n")

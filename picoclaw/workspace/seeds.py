"""The pages that every workspace begins with: made once, never overwritten, and what has become of their templates."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from picoclaw.disk import create, explain, make_folder, sync_folder, write_atomic
from picoclaw.errors import ConfigError
from picoclaw.resources import shipped
from picoclaw.workspace.reading import WHOLE, raw, text, uncommented

SEEDS = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md", "memory/MEMORY.md")
MEETING = "BOOTSTRAP.md"
"""What the first meeting is held by; where it was, it never comes back by itself."""

LONGEST_MEETING = 64_000
_NO_END = b"\n\\ No newline at end of file\n"


class Sown(NamedTuple):
    """The files that were made, and what ended the making, '' if nothing did."""

    made: list[Path]
    problem: str


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds of one home, from one folder of templates.

    `seeds.json` in the home keeps the SHA-256 of the template that each page was seeded from: what it names is not
    seeded again, and a template that has changed since is offered.
    """

    home: Path
    templates: Path

    def waiting(self) -> list[str]:
        """Name the pages that were never seeded; raises ConfigError when that cannot be known."""
        known = self._known()
        return [name for name in SEEDS if name not in known]

    def fresh(self) -> bool:
        """Tell whether nobody has used this home yet."""
        pages = (self._page(name) for name in SEEDS)
        return not any(map(os.path.lexists, (*pages, self.home / "state.db", self._list)))

    def sow(self, names: Iterable[str]) -> Sown:
        """Make those of the pages whose name is not taken, up to the first that cannot be made."""
        made: list[Path] = []
        known = self._known_or_nothing()
        after, problem = dict(known), ""
        try:
            for name in names:
                path = self._page(name)
                if self._make(path, name):
                    made.append(path)
                    after[name] = self._digest(name)
                elif name not in known or self._own(name) == self._template(name):
                    after[name] = self._digest(name)
        except OSError as error:
            problem = f"{path} cannot be made: {explain(error)}"
        try:
            if after != known:
                write_atomic(self._list, json.dumps(after, indent=1).encode() + b"\n")
        except OSError as error:
            problem = problem or f"{self._list} cannot be written: {explain(error)}"
        return Sown(made, problem)

    def changed(self) -> list[str]:
        """Name the owner's pages whose template is another than they were seeded from; raises ConfigError."""
        known = self._known()
        seeded = [name for name in (*SEEDS, MEETING) if known.get(name, self._digest(name)) != self._digest(name)]
        return [name for name in seeded if self._own(name) not in {None, self._template(name)}]

    def diff(self, name: str) -> bytes:
        """Show what makes the newest template out of the owner's page, as `patch -p0` in the workspace takes it."""
        import difflib

        pages = (_lines(self._own(name) or b""), _lines(self._template(name)))
        shown = difflib.diff_bytes(difflib.unified_diff, *pages, name.encode(), name.encode())
        return b"".join(line if line.endswith(b"\n") else line + _NO_END for line in shown)

    @property
    def _list(self) -> Path:
        return self.home / "seeds.json"

    def _page(self, name: str) -> Path:
        return self.home / "workspace" / name

    def _template(self, name: str) -> bytes:
        return (self.templates / name).read_bytes()

    def _digest(self, name: str) -> str:
        import hashlib

        return hashlib.sha256(self._template(name)).hexdigest()

    def _own(self, name: str) -> bytes | None:
        """The owner's page as it is, None when there is none that could be compared."""
        try:
            return raw(self._page(name), WHOLE)
        except ConfigError:
            return None

    def _make(self, path: Path, name: str) -> bool:
        folder, workspace = path.parent, self.home / "workspace"
        if not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(workspace)):
            raise OSError(f"{folder} is a link that leads out of the workspace")
        make_folder(folder)
        return create(path, self._template(name))

    def _known(self) -> dict[str, str]:
        """The digests of what was seeded; raises ConfigError."""
        try:
            known = json.loads(raw(self._list, WHOLE) or b"{}")
        except (ValueError, RecursionError):
            known = None
        if not (isinstance(known, dict) and all(isinstance(digest, str) for digest in known.values())):
            raise ConfigError(f"{self._list} is damaged; `picoclaw init` writes it anew")
        return known

    def _known_or_nothing(self) -> dict[str, str]:
        try:
            return self._known()
        except ConfigError:
            return {}


def first_meeting(home: Path, *, tidy: bool = True, templates: Path | None = None) -> str:
    """Return what the first meeting is held by, '' when it is over. An empty page ends it, and is deleted by `tidy`.

    In a fresh home it is the template that will be seeded. A page that cannot be read is none.
    """
    workspace, source = home / "workspace", templates or shipped("templates") / "workspace"
    path = workspace / MEETING
    try:
        found = text(path, LONGEST_MEETING, workspace)
        if found is None and Seeds(home, source).fresh():
            found = text(source / MEETING, LONGEST_MEETING)
        elif found is not None and tidy and not found.strip():
            _delete(path)
    except ConfigError:
        return ""
    return uncommented(found or "").strip()


def _delete(path: Path) -> None:
    """Delete a page where the disk lets us; where it does not, an empty one says as much as none."""
    with suppress(OSError):
        path.unlink()
        sync_folder(path.parent)


def _lines(page: bytes) -> list[bytes]:
    """The lines as patch counts them, by nothing but line feeds."""
    *lines, last = page.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])

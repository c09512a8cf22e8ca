"""Which places the file tools may open, and what writing there does: a page that later turns are told is no mere file.

Names are compared as disks do that know no small letters, and files by what they are, so that no spelling goes past it.
"""

import os
import unicodedata
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from picoclaw import rooted
from picoclaw.errors import ToolError
from picoclaw.memory.index.files import FOLDER, ROOT_FILE
from picoclaw.rooted import Identity, Place
from picoclaw.sandbox.running import running
from picoclaw.trust.policy import Effect

CHECKLIST = "HEARTBEAT.md"

_PAGES = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md")
_FOREIGN = (Path("/etc/picoclaw"), Path("/proc"), Path(__file__).parents[1])
"""What is nobody's business besides the home: the machine's outputs, the kernel's files, and picoclaw itself."""


class Places:
    """The folders that file tools may use: the workspace, and those that the owner names."""

    def __init__(
        self,
        workspace: Path,
        extra: Sequence[str],
        told: Callable[[], Sequence[Path]],
        run: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """Touches nothing but links. `told` names the files, and folders of files, that instruct later turns.

        `run` gives the words of the commands that run by themselves: to write a file that one names is to run it.

        The folder that holds the workspace is picoclaw's own; nothing else in it is ever reached, whatever `extra` has.
        """
        self.workspace = os.path.realpath(workspace)
        self._home = Path(self.workspace).parent
        self._told, self._run = told, run
        pairs = [(str(workspace.absolute()), self.workspace), (self.workspace, self.workspace)]
        for folder in extra:
            named = str(Path(folder).expanduser().absolute())
            pairs += [(named, os.path.realpath(named)), (os.path.realpath(named),) * 2]
        self._named = {os.path.normpath(named): root for named, root in pairs if self._usable(root)}
        self.roots = tuple(dict.fromkeys(self._named.values()))

    def _usable(self, root: str) -> bool:
        path = Path(root)
        return path.is_relative_to(self.workspace) or not path.is_relative_to(self._home)

    def _shut(self, place: Place) -> bool:
        """Tell whether a place is shut by its name already: what is not there yet has nothing else to be known by."""
        shut = place.root != self.workspace and any(place.path.is_relative_to(top) for top in (self._home, *_FOREIGN))
        return shut and not place.path.is_relative_to(self.workspace)

    @property
    def never(self) -> frozenset[Identity]:
        """What is not entered from above, however it is spelt."""
        return rooted.identities([self._home, *_FOREIGN])

    def whole(self, path: str) -> str:
        """Make a whole path of one that may begin at the workspace, by its words alone."""
        if "\0" in path or not path:
            raise ToolError("path is empty or holds a NUL character")
        return os.path.normpath(os.path.join(self.workspace, path))  # noqa: PTH118 - Path keeps what is above by a link

    def find(self, path: str) -> Place:
        """Find a path in the folders that may be used; raises ToolError for one outside."""
        whole = self.whole(path)
        for name, root in self._named.items():
            if (found := rooted.below(name, whole)) and not self._shut(place := Place(root, found.parts)):
                return place
        raise ToolError(f"{path} is outside the workspace {self.workspace}; use a path below it")

    def holds(self, place: Place) -> bool:
        """Tell whether a place lies in a folder that may be written."""
        return any(rooted.below(root, str(place.path)) for root in self.roots)

    def in_workspace(self, place: Place) -> str:
        """Name a place as it lies in the workspace, '' when it does not."""
        found = rooted.below(self.workspace, str(place.path))
        return "/".join(found.parts) if found else ""

    def remembered(self, place: Place) -> bool:
        """Tell whether a place is a file of the memory."""
        name = _folded(self.in_workspace(place))
        return name == _folded(ROOT_FILE) or (name.startswith(f"{FOLDER}/") and name.endswith(".md"))

    def is_checklist(self, place: Place) -> bool:
        """Tell whether a place is the list of what is done unasked."""
        return _folded(self.in_workspace(place)) == _folded(CHECKLIST)

    def effect(self, place: Place) -> Effect:
        """Tell what it does to write there."""
        if self._is_among(place, [*self._told(), *self._hidden(place)]):
            return "instruct"
        pages = [Path(self.workspace, name) for name in _PAGES]
        if self._is_among(place, pages) or self.remembered(place) or self.is_checklist(place):
            return "remember"
        ran = {_folded(word.rpartition("/")[2]) for word in self._run()}
        busy = any(one.changes for one in list(running))  # a command that may run what is written now
        return "exec" if busy or _folded(place.path.name) in ran else "write"

    def is_page(self, place: Place) -> bool:
        """Tell whether a place is a page, a note or a skill: what no turn changes that has read others' words."""
        if not self.holds(place) or self.remembered(place) or self.is_checklist(place):
            return True
        whole = Place("/", place.path.parts[1:])
        return self._is_among(whole, [*self._told(), *(Path(self.workspace, name) for name in _PAGES)])

    @staticmethod
    def _is_among(place: Place, meant: Sequence[Path]) -> bool:
        """Tell whether a place is one of some files or lies in one of some folders, however either is spelt."""
        on_the_way = [Path(place.root, *place.parts[:end]) for end in range(1, len(place.parts) + 1)]
        named = {_folded(name) for path in meant for name in (str(path), os.path.realpath(path))}
        spelt = {_folded(str(path)) for path in on_the_way}
        return not (spelt.isdisjoint(named) and rooted.identities(on_the_way).isdisjoint(rooted.identities(meant)))

    def _hidden(self, place: Place) -> list[Path]:
        """What programs take their orders from: in the folders of others .bashrc, .ssh, .config/systemd; any .git."""
        hidden = any(name.startswith(".") for name in place.parts) and place.root != self.workspace
        repository = ".git" in map(_folded, place.parts)
        return [place.path] if hidden or repository else []


def _folded(name: str) -> str:
    """Spell a name as a disk may take it that knows no small letters, and only one form of each."""
    return unicodedata.normalize("NFKC", name).casefold()

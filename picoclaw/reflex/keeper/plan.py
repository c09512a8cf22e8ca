"""What is declared, armed and wired, as the files say it now."""

from collections.abc import Callable
from pathlib import Path

from picoclaw.reflex import declared
from picoclaw.reflex.declared import Declared, Output
from picoclaw.reflex.keeper import place
from picoclaw.reflex.keeper.wiring import Wiring
from picoclaw.workspace import outputs_file


class Plan:
    """The declarations of one home."""

    def __init__(self, home: Path, check: Callable[[Declared], Wiring]) -> None:
        """`check` looks at the wiring; nothing is read before `load`."""
        self._home = home
        self._check = check
        self._lock = place.inode(home)
        self._signature: tuple[object, ...] = ()
        self.declared = Declared(home, {})
        self.wiring = Wiring({}, frozenset())

    @property
    def changed(self) -> bool:
        """Whether outputs.toml is another than the one that was loaded."""
        return _signature(outputs_file(self._home)) != self._signature

    @property
    def lost(self) -> str:
        """Why the home is ours no longer, empty when it is."""
        return "" if place.inode(self._home) == self._lock else f"{self._home} was moved or replaced"

    def load(self) -> None:
        """Read outputs.toml, and look whether what it names is there."""
        path = outputs_file(self._home)
        self._signature = _signature(path)
        self.declared = declared.load(path)
        self.wiring = self._check(self.declared)

    def fault(self, name: str) -> str:
        """Say what is wrong with an output's place; it may have been plugged in since."""
        if name in self.wiring.faults:
            self.wiring = self._check(self.declared)
        return self.wiring.faults.get(name, "")

    def armed(self) -> dict[str, Output]:
        """Return the outputs whose declaration, as it is, a person has armed."""
        digests = declared.armed(self._home)
        return {n: output for n, output in self.declared.outputs.items() if digests.get(n) == output.digest}

    def usable(self) -> dict[str, Output]:
        """Return the armed outputs that are there: the others were never driven."""
        return {name: output for name, output in self.armed().items() if name not in self.wiring.faults}

    def undriven(self) -> str:
        """Say which outputs are left alone, because nobody has armed them."""
        return declared.undriven(self._home, self.declared.outputs)


def _signature(path: Path) -> tuple[object, ...]:
    try:
        found = path.stat()
        return (str(path), found.st_mtime_ns, found.st_size, found.st_ino)
    except OSError as error:
        return (str(path), error.errno)

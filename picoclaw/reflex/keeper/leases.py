"""The outputs that are away from their safe level: granted, written down, driven, and brought back.

On the way out: the watch is told the end, the marker and the intent are on the disk, then the output moves. On the
way back: the output moves first.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from picoclaw.disk import explain, write_atomic
from picoclaw.reflex import audit, declared
from picoclaw.reflex.declared import Output
from picoclaw.reflex.keeper.lines import Terminals
from picoclaw.reflex.keeper.place import LIVE
from picoclaw.reflex.rules import Spell, pruned

_RETRY_S = 1.0
_UNWRITTEN = 100


class Lease(NamedTuple):
    """A time away from the safe level that was granted; without a client it runs to its end by itself."""

    output: Output
    level: float
    ends: float
    client: int | None


class Leases:
    """The leases of one home, and what has happened before them."""

    def __init__(
        self,
        home: Path,
        terminals: Terminals,
        clock: Callable[[], float],
        promise: Callable[[float | None], bool],
    ) -> None:
        """`clock` gives boottime; `promise(moment)` tells the watch when it hears of us again at the latest.

        It returns False when there is no watch that hears it.
        """
        self._home = home
        self.kind = terminals.kind
        self.ours = True
        self._terminals = terminals
        self._clock = clock
        self._promise = promise
        self._unwritten: list[tuple[str, dict[str, Any]]] = []
        self.running: dict[str, Lease] = {}
        self.unsafe: dict[str, tuple[Output, float]] = {}
        self.history: audit.History = {}

    def begin(self, armed: Iterable[Output]) -> str:
        """Bring all of them to their safe level, and those that a keeper had left on; returns what is wrong."""
        left = marked(self._home).outputs
        for output in left:
            self.unsafe[output.name] = (output, self._clock())
        outputs = list(armed)
        self.safe_all(outputs)
        problem = ""
        try:
            self.history = audit.replay(self._home)
        except (OSError, ValueError, TypeError, KeyError, ArithmeticError) as error:
            problem = f"{self._home / audit.NAME} cannot be read back: {error}; move it aside"
        if not problem and not audit.files(self._home):
            self.history = {output.name: [_just_ended(output, self._clock())] for output in outputs}
        for spells in self.history.values():
            spells[:] = [s if s.ended is not None else Spell(s.began, self._clock()) for s in spells]
        self.note("start", left=[output.name for output in left])
        self._unmark()
        return problem

    def grant(self, lease: Lease, seconds: float, who: str, armed: Iterable[Output]) -> str:
        """Write it down and drive; returns what is wrong, and then it is at its safe level again.

        Raises OSError when it cannot be written down; then nothing has moved.
        """
        name, output, now = lease.output.name, lease.output, self._clock()
        before = self.running.get(name)
        heard = self._promise(min([lease.ends, *(other.ends for other in self.running.values())]))
        if problem := self._terminals.ready(output) if heard else "the keeper's watch does not hear it":
            self.note("refused", name=name, rule="hardware", why=problem, who=who)
            return problem
        try:
            self._mark(armed)
            self._write("renew" if before else "on", name=name, level=lease.level, seconds=seconds, who=who)
        except OSError:
            self._unmark()
            raise
        self.running[name] = lease
        if not before:
            self.history[name] = [*pruned(self.history.get(name, ()), output, now), Spell(now)]
        if problem := self._terminals.drive(output, lease.level):
            self.safe(output, "safe", f"it could not be driven: {problem}")
            return problem
        self.note("read", name=name, level=self._terminals.read(output))
        return ""

    def leave(self, client: int) -> None:
        """A client goes, and what it switched on stays until its end."""
        self.running = {n: x._replace(client=None) if x.client == client else x for n, x in self.running.items()}

    def safe(self, output: Output, act: str, why: str = "", who: str = "") -> str:
        """Bring one output to its safe level; returns what is wrong, and tries again later then.

        It is written down by `flush`, because a slow disk must not keep the next output, or the answer, waiting.
        """
        name = output.name
        problem = self._terminals.drive(output, output.safe_level)
        lease = self.running.pop(name, None)
        known = name in self.unsafe
        if problem:
            if lease or known:
                self.unsafe[name] = (output, self._clock() + _RETRY_S)
            if not known:
                self.later("unsafe", name=name, why=why, problem=problem)
            return f"{name} could not be brought to its safe level: {problem}"
        self.unsafe.pop(name, None)
        self._promise(min((other.ends for other in self.running.values()), default=None))
        spells = self.history.get(name, [])
        if spells and spells[-1].ended is None:
            spells[-1] = Spell(spells[-1].began, self._clock())
        if lease or known:
            self.later(act, name=name, level=output.safe_level, why=why, who=who)
        return ""

    def safe_all(self, others: Sequence[Output] = (), why: str = "") -> list[str]:
        """Bring back everything that is away, and drive the others safe as well; returns what is wrong."""
        away = [lease.output for lease in self.running.values()] + [output for output, _ in self.unsafe.values()]
        outputs = {output.name: output for output in [*others, *away]}
        return [problem for output in outputs.values() if (problem := self.safe(output, "safe", why))]

    def disown(self) -> None:
        """From now on nothing is written: what has our names in the home is no longer ours."""
        self.ours = False

    def release(self) -> None:
        """Let go of what is at its safe level, because its declaration may change."""
        self._terminals.close()

    def retry(self) -> None:
        """Try again what would not go safe."""
        for output, at in list(self.unsafe.values()):
            if self._clock() >= at:
                self.safe(output, "safe", "tried again")

    def note(self, act: str, **more: Any) -> None:
        """Write an act down now if the disk lets us; else it is kept for the next time."""
        self.later(act, **more)
        self.flush()

    def flush(self) -> None:
        """Write down what has been done."""
        if not self.ours:
            return
        with contextlib.suppress(OSError):
            self._write_all()
        del self._unwritten[_UNWRITTEN:]
        self._unmark()

    def later(self, act: str, **more: Any) -> None:
        """Write an act down with the next `flush`."""
        self._unwritten.append((act, {key: value for key, value in more.items() if value not in ("", None)}))

    def _write(self, act: str, **more: Any) -> None:
        """Write down what is to be done, and not keep it when that fails: it will not be done."""
        self.later(act, **more)
        try:
            self._write_all()
        except OSError:
            self._unwritten.pop()
            raise

    def _write_all(self) -> None:
        done = 0
        try:
            for what, with_more in self._unwritten:
                audit.write(self._home, what, self.history, **with_more)
                done += 1
        finally:
            del self._unwritten[:done]

    def _mark(self, armed: Iterable[Output]) -> None:
        if not (self._home / LIVE).exists():
            kept = {"board": self.kind, "outputs": [asdict(output) for output in armed]}
            write_atomic(self._home / LIVE, json.dumps(kept).encode())

    def _unmark(self) -> None:
        """Nobody needs to be told when nothing is away."""
        if self.ours and not self.running and not self.unsafe:
            with contextlib.suppress(OSError):
                (self._home / LIVE).unlink(missing_ok=True)


def _just_ended(output: Output, now: float) -> Spell:
    """Who has taken the audit away has not taken a rest away: it is as if the longest time had ended just now."""
    return Spell(now - output.longest_on_s, now)


class Marked(NamedTuple):
    """Outputs that may be away from their safe level, as they were declared then, and the board that they are on."""

    board: str = ""
    outputs: Sequence[Output] = ()


def marked(home: Path) -> Marked:
    """Return what the marker says; nothing where there is none, or where it cannot be read."""
    try:
        kept = json.loads(audit.content(home / LIVE))
    except (OSError, ValueError, RecursionError):
        return Marked()
    if not isinstance(kept, dict):
        return Marked()
    board = kept.get("board")
    return Marked(board if board in {"sim", "linux"} else "", declared.rebuilt(kept.get("outputs")))


def unwritable(error: OSError) -> str:
    """Say why nothing may be switched on that cannot be written down."""
    return f"it cannot be written down: {explain(error)}"

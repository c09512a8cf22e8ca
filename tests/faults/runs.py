"""Runs days and what comes after them, each in a process of its own: recorded, cut, killed, or with failing operations.

A cut is replayed from one recorded run; the disk that it leaves is made real in memory, and the house begins on it.
"""
# ruff: noqa: BLE001 - a child tells its parent of whatever has ended it

import errno
import gc
import json
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import day
from card import MODES, Card, Image, Mode, Step, written
from day import PHONE, TERMINAL, Event, Move
from player import House, Player
from promises import Case, Verdict, judge
from shim import Fault, Shim

from picoclaw.errors import PicoclawError

BASE = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
_TIRED_S, _HAND = 60, 8
AFTER = day.wish("T900", "note", "memory_store", text="T900 and on it goes")


class Outcome(NamedTuple):
    """What became of one cut, kill or failure; `what` can be given back to have it again."""

    kind: str
    what: str
    verdict: Verdict


@contextmanager
def model() -> Iterator[str]:
    """The model's server, in a process of its own; gives its address."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _serve(writer)
    os.close(writer)
    url = os.read(reader, 100).decode()
    os.close(reader)
    try:
        yield url
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _serve(writer: int) -> NoReturn:
    """Be the model's server until the parent has gone."""
    parent = os.getppid()
    try:
        with day.server() as server:
            os.write(writer, server.url.encode())
            os.close(writer)
            while os.getppid() == parent:
                time.sleep(0.5)
                server.requests.clear()
    finally:
        os._exit(0)


@contextmanager
def folder(prefix: str) -> Iterator[Path]:
    """A folder in memory, gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix=f"cuts-{prefix}-", dir=BASE))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def forked(do: Callable[[], Any]) -> Any:
    """Do something in a process of its own; returns what it gives, or the text of what went wrong."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(_TIRED_S)
        try:
            found = pickle.dumps(do())
        except BaseException:
            found = pickle.dumps(traceback.format_exc())
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(found)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read()
    status = os.waitpid(child, 0)[1]
    return pickle.loads(found) if found else f"it ended with status {status}"


def warm(url: str) -> None:
    """Import and compile in this process what each of its children will need."""
    with folder("warm") as root:
        after(root, url, (), day.DAY, power=True)
    gc.collect()
    gc.freeze()
    gc.disable()


def settled(root: Path) -> None:
    """Make this process one whose home is below the root."""
    os.environ.update(HOME=str(root), PICOCLAW_HOME=str(root / "picoclaw"))


def recorded(script: Sequence[Move], url: str) -> tuple[list[Step], list[str]]:
    """Play a script on an empty card; returns all that it did, and the kind of each operation that may fail.

    Raises RuntimeError.
    """

    def play() -> tuple[list[Step], list[str]]:
        with folder("day") as root:
            settled(root)
            shim = Shim(root)
            shim.begin()
            Player(root, shim.event, url).play(tuple(script))
            assert not (wrong := differs(shim.steps, root)), f"the record is not whole: {wrong}"
            return list(shim.steps), list(shim.kinds)

    match forked(play):
        case (steps, kinds):
            return steps, kinds
        case wrong:
            raise RuntimeError(wrong)


def differs(steps: Iterable[Step], root: Path) -> list[str]:
    """Name what of a folder is not as its record says."""
    card = Card()
    for step in steps:
        card.take(step)
    image = {name: data for name, (kind, data) in card.image("kept", random.Random(0)).items() if kind == "file"}
    real = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    real = {name: path for name, path in real.items() if not name.endswith("-shm")}
    same = {name for name in image.keys() & real.keys() if real[name].read_bytes() == image[name]}
    return sorted((image.keys() | real.keys()) - same)


def unsynced(steps: Iterable[Step], what: str) -> list[Step]:
    """Leave out the syncs of one kind from a record, as if picoclaw had not made them: what is lost then must show."""
    return [step for step in steps if step.do != "sync" or not SYNCED[what](step.name)]


SYNCED: dict[str, Callable[[str], bool]] = {
    "databases": lambda name: name.endswith(("-wal", ".db")),
    "files": lambda name: not name.endswith(("-wal", ".db")) and "." in name.rpartition("/")[2],
    "folders": lambda name: "." not in name.rpartition("/")[2],
}


def after(root: Path, url: str, before: Sequence[Event], script: Sequence[Move], *, power: bool) -> Verdict:
    """Begin again on what is left, live on for half an hour, and hold the promises against that."""
    settled(root)
    events: list[Event] = []
    skew = max((event[1] for event in before if event[0] == "skew"), default=0.0)
    try:
        house = House(root, url, events.append, skew + 5.0, "boot 2" if power else "boot 1")
        house.open()
        house.settle()
        for number, key, text in unacknowledged(before):
            house.post(number, key, text)
            house.settle()
        house.post(AFTER.token, TERMINAL, AFTER.text)  # the other chat has read a sub-agent's report: a note in it asks
        house.settle()
        house.pass_(1800, 1800)
        house.close()
        return judge(Case(script, before, events, root / "picoclaw"))
    except Exception:
        return Verdict(1, faults=(traceback.format_exc()[-1500:],))


def unacknowledged(before: Sequence[Event]) -> list[tuple[str, str, str]]:
    """What the other side sends again: what it has no word of, and the last thing, whose word may have been lost."""
    said = [(event[1], event[3], event[2]) for event in before if event[0] == "said" and event[3] == PHONE]
    known = {event[1] for event in before if event[0] == "accepted"}
    ended = any(event[0] in {"over", "ended"} for event in before)  # then it was told that the last one has come
    last = said[-1:] if said and not ended else []
    return [one for one in said if one[0] not in known or one in last]


class Failing(NamedTuple):
    """A disk that goes wrong: which operations fail, with what, from which on and how many."""

    name: str
    number: int
    kinds: frozenset[str]
    at: int = 0
    many: int = 1

    def fault(self) -> Fault:
        """What the shim asks."""
        count = 0

        def asked(kind: str, path: str) -> BaseException | str | None:
            nonlocal count
            count += 1
            if kind.removeprefix("sqlite ") not in self.kinds or not self.at <= count < self.at + self.many:
                return None
            if self.number == KILL:
                os.kill(os.getpid(), signal.SIGKILL)
            return "short" if self.number == SHORT else OSError(self.number, os.strerror(self.number), path)

        return asked


KILL, SHORT = -9, -1
_CHANGES = frozenset({"open", "create", "write", "rename", "link", "unlink", "mkdir", "size"})
ALL = _CHANGES | {"read", "sync", "connect"}
KILLED = Failing("kill -9", KILL, ALL)
DISKS: tuple[Failing, ...] = (
    Failing("full", errno.ENOSPC, frozenset({"create", "write", "mkdir", "link"})),
    Failing("over quota", errno.EDQUOT, frozenset({"create", "write", "mkdir", "link"})),
    Failing("read-only", errno.EROFS, _CHANGES),
    Failing("failing", errno.EIO, frozenset({"write", "sync", "read", "rename"})),
    Failing("without descriptors", errno.EMFILE, frozenset({"open", "read", "create"})),
    Failing("without a network", errno.ENETUNREACH, frozenset({"connect"})),
    Failing("short of room", SHORT, frozenset({"write"})),
)


def failed(script: Sequence[Move], url: str, failing: Failing) -> Outcome:
    """Play a script on a disk that goes wrong, or kill it; then begin again on what is left, with a good disk."""
    what = f"{failing.name} at {failing.at} for {failing.many}"
    kind = failing.name if failing.number == KILL else f"disk {failing.name}"
    with folder("fault") as base:
        root = base / "card"
        root.mkdir()
        events, wrong = played(root, script, url, failing)
        if wrong:
            return Outcome(kind, what, Verdict(1, faults=(wrong,)))
        found = forked(lambda: after(root, url, events, script, power=False))
    return Outcome(kind, what, judged(found))


def played(root: Path, script: Sequence[Move], url: str, failing: Failing) -> tuple[list[Event], str]:
    """Play a script with a fault; returns what the world has seen, and a traceback if there was one."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(_TIRED_S)
        settled(root)
        sys.excepthook = sys.unraisablehook = lambda *_: None  # where SQLite has no way to raise, apsw prints
        write = os.write

        def seen(event: Event) -> None:
            write(writer, json.dumps(event).encode() + b"\n")

        try:
            shim = Shim(root, failing.fault())
            shim.begin()
            Player(root, seen, url).play(tuple(script))
            seen(("over",))
        except PicoclawError as error:
            seen(("ended", str(error)))
        except BaseException:
            seen(("crashed", traceback.format_exc()[-1500:]))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        events = [tuple(json.loads(line)) for line in pipe]
    os.waitpid(child, 0)
    crashed = [str(event[1]) for event in events if event[0] == "crashed"]
    return events, "".join(crashed)


class Cut(NamedTuple):
    """Where a run is cut: before the step of that number, and what becomes of what was not synced."""

    at: int
    mode: Mode
    seed: int


def cuts(steps: Sequence[Step], count: int, seed: int) -> list[Cut]:
    """Spread so many cuts over a run: each step once, before any twice; what may be torn is torn more often.

    Also right before the world sees something: what is marked as done before it is, is lost there and nowhere else.
    """
    places = [*range(len(steps) + 1)]
    dice = random.Random(seed)
    found: list[Cut] = []
    while len(found) < count:
        some = dice.sample(places, min(len(places), count - len(found)))
        found += [Cut(at, dice.choice((*MODES, "torn", "ordered")), dice.getrandbits(32)) for at in some]
    return sorted(found)


def replayed(steps: Sequence[Step], some: Sequence[Cut], url: str, script: Sequence[Move]) -> Iterator[Outcome]:
    """Cut a recorded run at these places, in their order; a disk that is the same as another's is begun on once."""
    card, done, before = Card(), 0, list[Event]()
    known: dict[int, Verdict] = {}
    for cut in some:
        for step in steps[done : cut.at]:
            card.take(step)
            if step.do == "event":
                before.append(step.what)
                known.clear()
        done = cut.at
        image = card.image(cut.mode, random.Random(cut.seed))
        mark = hash(tuple(image.items()))
        if mark not in known:
            known[mark] = _begun_on(image, tuple(before), url, script)
        where = steps[cut.at] if cut.at < len(steps) else "the end"
        yield Outcome(f"power cut, unsynced {cut.mode}", f"{cut.at} {cut.mode} {cut.seed} before {where}", known[mark])


def _begun_on(image: Image, before: Sequence[Event], url: str, script: Sequence[Move]) -> Verdict:
    """Make a disk real, and begin on it."""

    def look() -> Verdict:
        with folder("cut") as base:
            written(image, base / "card")
            return after(base / "card", url, before, script, power=True)

    return judged(forked(look))


def judged(found: object) -> Verdict:
    """What a child has found; a text is what has ended it."""
    return found if isinstance(found, Verdict) else Verdict(1, faults=(str(found)[-1500:],))


def shared(work: Sequence[Any], do: Callable[[Sequence[Any]], Iterable[Outcome]], workers: int) -> list[Outcome]:
    """Share work among processes; returns what they found."""
    readers = []
    for place in range(workers):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                _work([one for number, one in enumerate(work) if number // _HAND % workers == place], do, pipe)
            os._exit(0)
        os.close(writer)
        readers.append(os.fdopen(reader, "rb"))
    found = [outcome for reader in readers for outcome in _outcomes(reader)]
    for _ in readers:
        os.wait()
    return found


def _work(work: Sequence[Any], do: Callable[[Sequence[Any]], Iterable[Outcome]], pipe: BinaryIO) -> None:
    try:
        for outcome in do(work):
            pipe.write(pickle.dumps(outcome))
            pipe.flush()
    except BaseException:
        pipe.write(pickle.dumps(Outcome("worker", "", Verdict(0, faults=(traceback.format_exc(),)))))


def _outcomes(reader: BinaryIO) -> Iterator[Outcome]:
    with reader:
        while True:
            try:
                yield pickle.load(reader)
            except EOFError:
                return

"""A memory card as a power cut leaves it: what was synced is there, what was not is dropped, kept or torn.

A recorded run is a list of steps. `Card` takes them one by one and knows at each moment what is durable and what is
pending; `image` gives one of the disks that a cut in that moment may leave. It believes nothing that POSIX does not
promise: a file's data is durable after fsync of the file, a name after fsync of its folder, and what is pending may
come in any order. (After "All File Systems Are Not Created Equal", OSDI 2014.)
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

SECTOR = 512
Mode = Literal["kept", "dropped", "ordered", "torn"]
MODES: tuple[Mode, ...] = ("kept", "dropped", "ordered", "torn")
"""What becomes of what is pending: all of it stays (a killed process), none, names in their order, anything."""


class Step(NamedTuple):
    """One thing that a run did, to a node (a file or a folder) by its number; `what` is an event for `event`."""

    do: Literal["new", "link", "unlink", "rename", "write", "size", "sync", "event"]
    node: int = 0
    name: str = ""
    other: int = 0
    to: str = ""
    at: int = 0
    data: bytes = b""
    what: Any = None

    def __str__(self) -> str:
        shown = f" {self.to}" if self.to else ""
        return f"{self.do} {self.name}{shown}" + (f" {len(self.data)} bytes" if self.data else "")


class Node:
    """A file, a folder or a pipe: what of it is durable, and the data that is not yet."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.data = bytearray()
        self.names: dict[str, int] = {}
        self.pending: list[Step] = []


Names = dict[int, dict[str, int]]
Image = dict[str, tuple[str, bytes]]
"""A disk: kind and content by path, folders before what is in them."""

ROOT = 0


class Card:
    """The disk of a run so far."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {ROOT: Node("folder")}
        self._pending: list[Step] = []

    def take(self, step: Step) -> None:
        """Let the next step of the run happen."""
        if step.do == "new":
            self.nodes[step.node] = Node(step.name)
        elif step.do in {"write", "size"}:
            self.nodes[step.node].pending.append(step)
        elif step.do in {"link", "unlink", "rename"}:
            self._pending.append(step)
        elif step.do == "sync":
            self._sync(step.node)

    def _sync(self, number: int) -> None:
        node = self.nodes[number]
        if node.kind != "folder":
            for step in node.pending:
                apply(node.data, step)
            node.pending.clear()
            return
        names = self._names()
        due = [step for step in self._pending if number in folders(step)]
        for step in due:
            rename(names, step)
        for folder in {number, *(one for step in due for one in folders(step))}:
            self.nodes[folder].names = names[folder]
        self._pending = [step for step in self._pending if step not in due]

    def _names(self) -> Names:
        return {number: dict(node.names) for number, node in self.nodes.items() if node.kind == "folder"}

    def image(self, mode: Mode, dice: random.Random) -> Image:
        """Return a disk that may be left by a cut now."""
        names = self._names()
        for step in chosen(self._pending, mode, dice):
            rename(names, step)
        return dict(self._walk(ROOT, "", names, mode, dice))

    def _walk(
        self, folder: int, path: str, names: Names, mode: Mode, dice: random.Random
    ) -> Iterator[tuple[str, tuple[str, bytes]]]:
        for name, number in sorted(names[folder].items()):
            node, here = self.nodes[number], f"{path}{name}"
            if node.kind == "folder":
                yield here, ("folder", b"")
                yield from self._walk(number, f"{here}/", names, mode, dice)
            else:
                yield here, (node.kind, self._content(node, mode, dice))

    @staticmethod
    def _content(node: Node, mode: Mode, dice: random.Random) -> bytes:
        if mode == "dropped" or not node.pending:
            return bytes(node.data)
        data = bytearray(node.data)
        for step in node.pending:
            apply(data, step if mode == "kept" else left_of(step, dice))
        return bytes(data)


def folders(step: Step) -> set[int]:
    """The folders whose names a step changes."""
    return {step.node, step.other} if step.do == "rename" else {step.node}


def rename(names: Names, step: Step) -> None:
    """Let a step on names happen to what is there of them; what never came to be is not missed."""
    if step.do == "link":
        names[step.node][step.name] = step.other
    elif step.do == "unlink":
        names[step.node].pop(step.name, None)
    else:
        names[step.node].pop(step.name, None)
        names[step.other][step.to] = step.what


def chosen(pending: list[Step], mode: Mode, dice: random.Random) -> list[Step]:
    """Which of the pending steps on names have reached the disk."""
    if mode == "kept":
        return pending
    if mode == "dropped":
        return []
    if mode == "ordered":
        return pending[: dice.randint(0, len(pending))]
    return [step for step in pending if dice.random() < 0.5]


def left_of(step: Step, dice: random.Random) -> Step | None:
    """What has reached the disk of a step on a file's data: all, nothing, the first sectors, or its length only."""
    luck = dice.random()
    if luck < 0.35:
        return step
    if luck < 0.65:
        return None
    if step.do == "write" and luck < 0.9:
        whole = (len(step.data) - 1) // SECTOR
        return step._replace(data=step.data[: SECTOR * dice.randint(0, whole)])
    if step.do == "write":
        return step._replace(do="size", at=-(step.at + len(step.data)))  # the place was taken, and holds zeros
    return step


def apply(data: bytearray, step: Step | None) -> None:
    """Let a step on a file's data happen. A negative size is one that the file has at least."""
    if step is None:
        return
    if step.do == "size":
        if step.at >= 0:
            del data[step.at :]
        data.extend(bytes(max(0, abs(step.at) - len(data))))
        return
    if step.data:
        data.extend(bytes(max(0, step.at - len(data))))
        data[step.at : step.at + len(step.data)] = step.data


def written(image: Image, root: Path) -> None:
    """Make a disk real, below a folder that is new."""
    root.mkdir(mode=0o700, parents=True)
    for name, (kind, data) in image.items():
        path = f"{root}/{name}"
        if kind == "folder":
            Path(path).mkdir(0o700)
        elif kind == "pipe":
            os.mkfifo(path, 0o600)
        else:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(handle, data)
            os.close(handle)

"""A template of sentences as a graph: what a sentence may begin with, and what may follow each place."""

from functools import cached_property
from typing import Any

from picoclaw.providers.sentence import Slot

Branches = tuple[tuple[Any, ...], ...]
"""Alternatives, each of words, slots and nested alternatives."""


class Edges(list[tuple[str | Slot, Any]]):
    """What may follow a place in a template: a word, an "@concept", a slot, or "" where the sentence may end."""

    @cached_property
    def sorted(self) -> tuple[dict[str, list["Edges"]], list[tuple[Slot, "Edges"]]]:
        """The words with what follows each, and the slots."""
        words: dict[str, list[Edges]] = {}
        slots: list[tuple[Slot, Edges]] = []
        for label, then in self:
            if isinstance(label, Slot):
                slots.append((label, then))
            else:
                words.setdefault(label, []).append(then)
        return words, slots


class Template:
    """One line of templates; most are never walked, so it is linked when it is."""

    def __init__(self, intent: str, branches: Branches) -> None:
        """`branches`: its alternatives."""
        self.intent, self.branches = intent, branches

    @cached_property
    def edges(self) -> Edges:
        """What it may begin with, and what may follow each."""
        return _link(self.branches, Edges([("", None)]))


def _link(branches: Branches, then: Edges) -> Edges:
    edges = Edges()
    for branch in branches:
        after = then
        for node in reversed(branch):
            after = _link(node, after) if type(node) is tuple else Edges([(node, after)])
        edges += after
    return edges


def firsts(branches: Branches) -> tuple[set[str], bool]:
    """Return the words that may come first, "" for a slot; and whether there may be none."""
    labels, empty = set[str](), False
    for branch in branches:
        for node in branch:
            more, none = firsts(node) if type(node) is tuple else ({node if isinstance(node, str) else ""}, False)
            labels |= more
            if not none:
                break
        else:
            empty = True
    return labels, empty

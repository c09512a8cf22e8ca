"""How tools are described to a model, written once for all the steps of a turn that show the same ones."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from picoclaw.measure import tool_bytes
from picoclaw.window import given_up

Definitions = tuple[dict[str, Any], ...]


class Described(Protocol):
    """A tool, as far as it is shown to a model."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def opens(self) -> Collection[str]:
        """The tools that are offered once it was called."""
        ...

    def definition(self, *, called: bool = True) -> dict[str, Any]:
        """Describe it: whole once it was called."""
        ...


class Descriptions:
    """Describes tools, and knows the last answer."""

    def __init__(self) -> None:
        """Nothing was described."""
        self._last: tuple[Any, Definitions] = None, ()

    def of(
        self,
        tools: Collection[Described],
        offered: Collection[str],
        called: Collection[str],
        most: int | None,
        wording: Mapping[str, str | None],
    ) -> Definitions:
        """Describe those that are offered, in their order; see Toolset.definitions."""
        key = frozenset(offered), frozenset(called), most, wording
        last = self._last
        if last[0] != key:
            last = self._last = key, _described(tools, offered, called, most, wording)
        return last[1]


def openers(tools: Iterable[Described], name: str) -> frozenset[str]:
    """Name the tools of which one has to be called before this one is offered; none for most."""
    return frozenset(tool.name for tool in tools if name in tool.opens)


def _described(
    tools: Collection[Described],
    offered: Collection[str],
    called: Collection[str],
    most: int | None,
    wording: Mapping[str, str | None],
) -> Definitions:
    kept = {name: by for name in offered if (by := openers(tools, name))}
    closed = {name for name, by in kept.items() if by.isdisjoint(called)}
    shown = [t.definition(called=t.name in called) for t in tools if t.name in offered and t.name not in closed]
    found = tuple(d | {"description": wording[d["name"]] or d["description"]} for d in shown)
    away = given_up({d["name"]: tool_bytes(d) for d in found}, most) if most is not None else ()
    return tuple(d for d in found if d["name"] not in away)

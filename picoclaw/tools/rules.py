"""The `rule` tool: what is to happen by itself, without a model, once the owner has agreed to it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from picoclaw.errors import ConfigError, ToolError
from picoclaw.messages import Caller
from picoclaw.reflex.bell import ring
from picoclaw.tools.toolset import tool
from picoclaw.trust.policy import Effect

if TYPE_CHECKING:
    from picoclaw.rules.book import Book

Measured = Callable[[], Mapping[str, Sequence[str]]]
_OPTIONS = (
    "lasts: 5 minutes; instead: 10 minutes if greenhouse.temperature max yesterday > 37;"
    " level, only_if, margin, cooldown, again, ask"
)


class Rules:
    """The rules of one home."""

    def __init__(self, home: Path, measured: Measured, zone: Callable[[], str] = lambda: "") -> None:
        """`measured()` names the sensors and what each measures; `zone()` the owner's time zone."""
        self._home = home
        self._measured = measured
        self._zone = zone

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        action = arguments["action"]
        if action == "list":
            return "read"
        try:
            if action == "add":
                self._made(arguments, datetime.now().astimezone())
            else:
                self._known(arguments["name"])
        except ConfigError as error:
            raise ToolError(f"the rule cannot be: {error}") from None
        return "instruct"

    def _means(self, arguments: Mapping[str, Any]) -> str:
        from picoclaw.rules import rule
        from picoclaw.tools import ruling

        now = datetime.now().astimezone()
        if arguments["action"] == "remove":
            name = self._known(arguments["name"])
            gone = self._found(now).rules.get(name)
            return f"no longer: {rule.explained(gone)}" if gone else f"{name}, which is not followed, goes"
        table = self._table(arguments)
        made = rule.made(self._new(arguments["name"], table), table, now, self._zone())
        return "\nbut ".join([rule.explained(made), *ruling.doubts_of(made, self._home, self._measured())])

    def _is_private(self, arguments: Mapping[str, Any]) -> bool:
        return bool(arguments.get("action", "list") == "list")

    @tool(effect=_effect, means=_means, private=_is_private)
    def rule(
        self,
        action: Literal["list", "add", "remove"],
        caller: Caller,
        name: str = "",
        when: Annotated[str, "greenhouse.temperature > 35 for 10 minutes; every day at 6:00"] = "",
        notify: Annotated[str, "what to tell"] = "",
        output: str = "",
        options: Annotated[dict[str, Any] | None, _OPTIONS] = None,
    ) -> str:
        """Have something done without a model."""
        from picoclaw.rules import book, rule
        from picoclaw.tools import ruling

        if action == "list":
            return "\n".join(ruling.numbered(self._found(caller.now))) or "no rules"
        try:
            if action == "remove":
                name = self._known(name)
                book.remove(self._home, name)
                ring(self._home)
                return f"rule {name} is removed"
            table = self._table({"when": when, "notify": notify, "output": output, "options": options})
            name = self._new(name, table)
            ruling.refuse_unmeasured(rule.made(name, table, caller.now, self._zone()), self._measured())
            made = book.add(self._home, name, table, caller.now, self._zone())
        except ConfigError as error:
            raise ToolError(str(error)) from None
        ring(self._home)
        doubts = "".join(f"\nbut {doubt}" for doubt in ruling.doubts_of(made, self._home, self._measured()))
        return f"the rule is kept: {rule.explained(made)}{doubts}"

    def _made(self, arguments: Mapping[str, Any], now: datetime) -> None:
        from picoclaw.rules import rule
        from picoclaw.tools import ruling

        table = self._table(arguments)
        name = self._new(arguments["name"], table)
        ruling.refuse_unmeasured(rule.made(name, table, now, self._zone()), self._measured())
        if name in self._names():
            raise ToolError(f"there is a rule {name!r} already: remove it first, or choose another name")

    def _table(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What is written of a call: the keys that say something; a quantity alone gets its only sensor."""
        from picoclaw.tools import ruling

        every = {key: given[key] for key in ("when", "notify", "output")} | (given["options"] or {})
        table = {key: value for key, value in every.items() if value is not None and value != ""}
        if isinstance(table.get("when"), str):
            table["when"] = ruling.with_sensor(table["when"], self._measured)
        return table

    def _new(self, name: str, table: Mapping[str, Any]) -> str:
        """The name that a rule is to have, made up where none is given."""
        from picoclaw.tools import ruling

        return name.strip() or ruling.new_name(table, self._names())

    def _known(self, name: str) -> str:
        """Find the rule that is meant, by its name or by its number in the list."""
        from picoclaw.tools import ruling

        names = self._names()
        if meant := ruling.meant(name, names):
            return meant
        raise ToolError(f"there is no rule {name.strip()!r}; there are: {', '.join(names) or 'none'}")

    def _names(self) -> list[str]:
        found = self._found(datetime.now().astimezone())
        return [name for name in (*found.rules, *found.problems) if name]

    def _found(self, now: datetime) -> "Book":
        from picoclaw.rules import book

        return book.load(self._home, now, self._zone())

"""The `output` tool: asks the keeper, which judges and drives; nothing here touches hardware."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from picoclaw.errors import ToolError
from picoclaw.messages import Caller
from picoclaw.reflex import outputs
from picoclaw.schema import Span
from picoclaw.tools import own_words
from picoclaw.tools.switch import declared_who
from picoclaw.tools.toolset import tool
from picoclaw.trust.policy import Effect


class Outputs:
    """The owner's outputs."""

    def __init__(self, client: outputs.Outputs) -> None:
        """`client` reaches the keeper when it is first needed."""
        self._client = client

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        if arguments["action"] != "set":
            return "read" if arguments["action"] == "list" else "safe"
        ask = self._client.wants_yes(self._client.meant(arguments["name"]), arguments["level"])
        return "actuate" if ask else "switch"

    def _vouched(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Tell whether the owner's newest message orders to switch it on, and for just this long."""
        is_on = arguments["action"] == "set" and arguments["level"].strip().lower() == "on"
        names = {arguments["name"], self._client.meant(arguments["name"])} if is_on else ()
        return any(own_words.ordered_output(name, arguments["seconds"], caller) for name in names)

    @tool(effect=_effect, vouched=_vouched)
    def output(
        self,
        action: Literal["list", "set", "off", "stop"],
        caller: Caller,
        name: str = "",
        level: Annotated[str, "on or percent"] = "on",
        seconds: Annotated[float, Span(0, 86_400), "0: its longest"] = 0,
    ) -> str:
        """Switch pumps, lights, valves. It goes off by itself after seconds. stop: all off until a person resumes."""
        if action == "list":
            return "\n".join(outputs.worded(self._client.list()))
        if action == "stop":
            return self._client.stop(declared_who(caller))
        if not name.strip():
            raise ToolError("name is missing: `list` tells the names")
        name = self._client.meant(name)
        if action == "off":
            return self._client.off(name, declared_who(caller))
        return self._client.set(name, level, seconds or None, declared_who(caller))

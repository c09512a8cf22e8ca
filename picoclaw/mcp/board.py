"""What this board serves over MCP: tools of the registry, and sensors and notes as resources.

Nothing is done twice here: each call, and each resource that is read, goes through the registry and its guard, with the
origin `mcp`. A yes is asked for through the client where that can ask its person, else kept for the owner.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from picoclaw.errors import ConfigError, HardwareError, PicoclawError, StoreError
from picoclaw.mcp import wire
from picoclaw.mcp.server import ClientState, Fault, PersonAnswer, PlannedCall
from picoclaw.memory.files import MemoryFiles
from picoclaw.messages import Caller, Stop, ToolCall
from picoclaw.records import replace
from picoclaw.security.guard import format_call_question
from picoclaw.security.policy import compute_digest, decide

if TYPE_CHECKING:
    from picoclaw.app import App

TOOLS = (
    *("sensor_list", "sensor_read", "sensor_history", "board_status", "output", "output_history", "rule", "cron"),
    *("memory_search", "memory_get", "memory_store", "memory_update", "memory_forget"),
)
"""What is served: to measure, to look back, to switch, to plan, to remember. No commands, files or pages."""
_SENSOR, _NOTE = "sensor://", "note://"
_SESSION = "mcp"
_INSTRUCTIONS = (
    "A board with sensors and outputs, run by picoclaw. What switches or changes something is asked about; a call that"
    " waits for the owner's yes has not been done."
)
_MAX_NOTE_LINES = 1000


class BoardBackend:
    """The board. One call runs at a time; `open_app` makes the app with the first of them."""

    def __init__(self, open_app: "Callable[[], App]", name: str) -> None:
        """`name` is the board's, which questions begin with."""
        self._open, self._name = open_app, name
        self._made: App | None = None
        self._lock = threading.Lock()
        self.instructions = _INSTRUCTIONS

    @property
    def _app(self) -> "App":
        if self._made is None:
            self._made = self._open()
        return self._made

    def list_tools(self) -> list[dict[str, Any]]:
        with self._lock:
            toolset = self._app.toolset
            return [
                {
                    "name": one["name"],
                    "description": one["description"],
                    "inputSchema": one["parameters"],
                    "annotations": {
                        "readOnlyHint": (reads := toolset.only_reads(one["name"])),
                        "destructiveHint": not reads,
                        "openWorldHint": False,
                    },
                }
                for one in toolset.definitions(frozenset(TOOLS) & toolset.names)
            ]

    def plan(self, name: str, arguments: dict[str, Any], peer: ClientState, stop: Stop) -> PlannedCall:
        with self._lock:
            app = self._app
            if name not in TOOLS or name not in app.toolset.names:
                raise Fault(wire.INVALID_PARAMS, f"there is no tool {name[:60]!r}")
            call, caller = ToolCall("mcp", name, arguments), self._make_caller(peer, stop)
            try:
                asked = app.toolset.asked(call, caller)
            except PicoclawError:
                return PlannedCall(call, caller)  # what is wrong with it is said when it is made
            if decide(app.rights.policy(), asked, caller.origin, caller.taints).verdict != "ask":
                return PlannedCall(call, caller)
            question = f"picoclaw on {self._name}: {format_call_question(asked)}"
            return PlannedCall(call, caller, question, compute_digest(asked))

    def run(self, planned: PlannedCall, answer: PersonAnswer) -> dict[str, Any]:
        with self._lock:
            app, caller = self._app, planned.caller
            if answer is not None:
                caller.agreed[planned.digest] = answer
            good, text = app.toolset.run(planned.call, caller)
            app.stores.settle(_SESSION)
            shown = f"{text}\n{app.mark}".strip() if good else text
            return {"content": [{"type": "text", "text": shown}], "isError": not good}

    def _make_caller(self, peer: ClientState, stop: Stop) -> Caller:
        return Caller(_SESSION, "mcp", self._app.now(), lambda _: None, stop=stop, who=f"mcp:{peer.client or 'client'}")

    def list_resources(self) -> list[dict[str, Any]]:
        with self._lock:
            found = []
            try:
                measured = self._app.wiring.measured()
            except (ConfigError, HardwareError):
                measured = {}
            for name, quantities in measured.items():
                text = f"measured when it is read: {', '.join(quantities)}"
                found.append(_describe(f"{_SENSOR}{quote(name)}", name, text))
            for _, sources in MemoryFiles(self._app.config.workspace).folders():
                found += [_describe(f"{_NOTE}{quote(one.path)}", one.path, "notes") for one in sources]
            return found

    def list_templates(self) -> list[dict[str, Any]]:
        sensor = {"uriTemplate": f"{_SENSOR}{{name}}", "name": "sensor", "description": "a sensor's values now"}
        note = {"uriTemplate": f"{_NOTE}{{+path}}", "name": "note", "description": "a file of notes"}
        return [one | {"mimeType": "text/plain"} for one in (sensor, note)]

    def read_resource(self, uri: str, peer: ClientState) -> list[dict[str, Any]]:
        kind = next((one for one in (_SENSOR, _NOTE) if uri.startswith(one)), "")
        name = unquote(uri.removeprefix(kind))
        call = ToolCall("mcp", "sensor_read", {"sensor": name})
        if kind == _NOTE:
            call = ToolCall("mcp", "memory_get", {"path": name, "lines": _MAX_NOTE_LINES})
        with self._lock:
            good, text = False, "there is no such resource"
            if kind and name:
                app = self._app
                good, text = app.toolset.run(call, self._make_caller(peer, Stop()))
                app.stores.settle(_SESSION)
                text = f"{text}\n{app.mark}".strip() if good and kind == _SENSOR else text
        if not good:
            code = wire.INVALID_PARAMS if peer.is_stateless else wire.RESOURCE_NOT_FOUND
            raise Fault(code, f"{uri[:200]} cannot be read: {text[:500]}", {"uri": uri[:200]})
        return [{"uri": uri, "mimeType": "text/plain", "text": text}]

    def close(self) -> None:
        """Let go of an app that shares its board with another."""
        with self._lock:
            if self._made is not None:
                try:
                    self._made.wiring.leave()
                    self._made.close_own()
                except StoreError:
                    pass  # nothing was promised that is not kept
                self._made = None


def share_board(app: "App") -> "Callable[[], App]":
    """Give what makes an app of its own on the board of another; it asks no other server and no other board."""
    from picoclaw.app import App

    config = replace(app.config, mcp={}, mqtt=replace(app.config.mqtt, fleet=False))
    return lambda: App(config, app.board, changed=app.changed)


def _describe(uri: str, name: str, text: str) -> dict[str, Any]:
    return {"uri": uri, "name": name, "description": text, "mimeType": "text/plain"}

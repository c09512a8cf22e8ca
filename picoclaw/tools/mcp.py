"""The tools of MCP servers, as their owner has agreed to them, and `mcp_list` and `mcp_read`.

A server's words are foreign, whoever it is. What its tools may do is decided by the walls that it runs in: where those
let nothing be changed and nobody be reached, a call only reads; else its own hint counts no more than for being asked
like another host, and without one each call is asked about.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

from picoclaw import mcp
from picoclaw.config import Config
from picoclaw.config.tables import McpConfig
from picoclaw.errors import ToolError
from picoclaw.mcp import McpError, clean_line, get_list, get_object, pins
from picoclaw.mcp.client import McpClient
from picoclaw.messages import Caller
from picoclaw.prompts import MCP_JOINT
from picoclaw.schema import Parameter, find_nearest
from picoclaw.security.policy import Effect
from picoclaw.tools.registry import Arguments, Effects, Tool, ToolGroup, ToolMark, tool

_LISTED = {"resources": "uri", "resourceTemplates": "uriTemplate", "prompts": "name"}
_MAX_RESULT_CHARS, _MAX_TOOLS = 2_000_000, 100


class McpServers:
    """The servers of one home. Their processes are shared by all who call them; nothing runs before it is called."""

    def __init__(self, home: Path, servers: Mapping[str, McpConfig], tokens: Mapping[str, str]) -> None:
        self.home, self.servers, self._tokens = home, servers, tokens
        self._clients: dict[str, McpClient] = {}
        self._lock = threading.Lock()

    def client(self, name: str) -> McpClient:
        """The client of a server, not connected yet. Raises ToolError for one that is not in config.toml."""
        if name not in self.servers:
            raise ToolError(f"there is no MCP server {name!r}{find_nearest(name, self.servers)}")
        with self._lock:
            if name not in self._clients:
                self._clients[name] = McpClient(name, self._open)
            return self._clients[name]

    def _open(self, client: McpClient) -> Any:
        config = self.servers[client.name]
        if config.url:
            from picoclaw.mcp.http import HttpTransport

            return HttpTransport(client, self.home, config, self._tokens.get(client.name, ""))
        from picoclaw.mcp.client import StdioTransport

        return StdioTransport(client, self.home, config)

    def read_offer(self, name: str, caller: Caller | None = None) -> pins.ServerOffer:
        """Ask a server what it offers. Raises McpError, TurnStopped."""
        client, stop = self.client(name), caller.stop if caller else None
        client.connect(stop)
        client.has_changed_tools = False
        tools = client.list_all("tools", stop=stop) if "tools" in client.capabilities else []
        if len(tools) > _MAX_TOOLS:  # which nobody could look through
            raise McpError(f"{name} has {len(tools)} tools, more than {_MAX_TOOLS}: name those you want in `tools`")
        return pins.ServerOffer(
            client.identity, client.version, tuple(tools), tuple(client.capabilities), client.instructions
        )

    def prepare(self, name: str, caller: Caller) -> McpClient:
        """Start a server if it does not run, and make sure that its tools are those that were agreed to.

        Raises McpError, TurnStopped.
        """
        client, wanted = self.client(name), self.servers[name].tools
        with client.lock:
            if not (client.connect(caller.stop) or client.has_changed_tools):
                return client
            offer, pin = self.read_offer(name, caller), pins.load_pin(self.home, name)
            if pin is None or pins.compute_offer_digest(offer, wanted) != pin.agreed:
                changes = list(pins.describe_changes(pin.offer if pin else None, offer, wanted))
                client.close()
                raise McpError(
                    f"the tools of {name} are not those that you have agreed to any more"
                    f" ({'; '.join(changes[:3]) or 'nothing was agreed to'}): picoclaw mcp agree {name}"
                )
        return client

    def close(self) -> None:
        """End all that run; may be called twice."""
        for client in list(self._clients.values()):
            client.close()


class RemoteTool(Tool):
    def __init__(self, servers: McpServers, server: str, pinned: pins.PinnedTool) -> None:
        config = servers.servers[server]
        self.group, self.name = servers, f"{server}.{pinned.name}"
        self._server, self._pinned = server, pinned
        self.effect_here = judge_effect(config, says_it_reads=pinned.says_it_reads)
        self.mark = ToolMark(self.effect_here, brings=True, means=self._explain, binds=self._bind, private=True)
        self.only_reads, self.wants_caller = self.effect_here == "read", True
        told = f"{pinned.description} (MCP)" if pinned.description else f"{pinned.name} of MCP server {server}"
        self.description = told
        self.says_foreign = config.descriptions == "shown"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self._pinned.parameters

    def _explain(self, _group: Any, _arguments: Arguments) -> str:
        hint = "says that it only reads" if self._pinned.says_it_reads else "may change something"
        return f"the MCP server {self._server} does what its tool {self._pinned.name} does; it {hint}"

    def _bind(self, _group: Any, _arguments: Arguments) -> Mapping[str, str]:
        pin = pins.load_pin(cast("McpServers", self.group).home, self._server)
        return {"as agreed": pin.agreed[:16] if pin else ""}

    def effects(self, arguments: Arguments) -> Effects:  # noqa: ARG002
        return (self.effect_here,)

    def is_private(self, arguments: Arguments) -> bool:  # noqa: ARG002
        return True

    def run(self, arguments: dict[str, Any], caller: Caller) -> str:
        servers = cast("McpServers", self.group)
        given = {name: value for name, value in arguments.items() if value is not None}
        client = servers.prepare(self._server, caller)
        seconds = servers.servers[self._server].seconds
        params = {"name": self._pinned.name, "arguments": given}
        headers = pins.fill_headers(self._pinned.headers, given)
        result = client.request("tools/call", params, stop=caller.stop, seconds=seconds, headers=headers)
        text = format_content(result)
        if result.get("isError") is True:
            raise ToolError(f"{self.name} failed: {text or 'it does not say why'}")
        return text or "done; it has said nothing"


def judge_effect(config: McpConfig, *, says_it_reads: bool) -> Effect:
    """What a call does to the world, as far as the walls vouch for it."""
    if config.is_contained:
        return "read"
    return "network" if says_it_reads and not config.write else "mcp_act"


class McpTools:
    """What servers have besides tools."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        config = self._servers.servers.get(arguments["server"])
        if config is None:
            raise ToolError(f"there is no MCP server {arguments['server']!r}")
        return judge_effect(config, says_it_reads=True)

    @tool(effect=_effect, brings=True, private=True)
    def mcp_list(self, server: str, caller: Caller) -> str:
        """Describe an MCP server's tools, resources and prompts in full."""
        client, config = self._servers.prepare(server, caller), self._servers.servers[server]
        pin = pins.load_pin(self._servers.home, server)
        rows = list(pins.format_offer(server, pin.offer, config, MCP_JOINT)) if pin else []
        rows += [f"instructions: {clean_line(client.instructions, 2000)}"] if client.instructions else []
        for what, key in _LISTED.items():
            if what.replace("resourceTemplates", "resources") in client.capabilities:
                rows += [f"{what}:", *self._describe(client, what, key, caller)]
        return "\n".join(rows)

    def _describe(self, client: McpClient, what: str, key: str, caller: Caller) -> list[str]:
        try:
            found = client.list_all(what, stop=caller.stop)
        except mcp.RpcError as error:
            return [f"  {error}"]
        rows = []
        for one in found:
            name = "" if key == "name" else clean_line(one.get("name", ""), 80)
            takes = ", ".join(clean_line(get_object(a).get("name"), 40) for a in get_list(one.get("arguments")))
            words = [name, f"takes {takes}" if takes else "", clean_line(one.get("description") or "", 200)]
            rows.append(f"  {clean_line(one.get(key), 200)}: {'; '.join(filter(None, words))}".rstrip(": "))
        return rows or ["  none"]

    @tool(effect=_effect, brings=True, private=True)
    def mcp_read(
        self,
        server: str,
        caller: Caller,
        uri: Annotated[str, "of a resource"] = "",
        prompt: Annotated[str, "or the name of a prompt"] = "",
        arguments: Annotated[dict[str, Any] | None, "of the prompt"] = None,
    ) -> str:
        """Read a resource or a prompt of an MCP server; mcp_list names them."""
        if bool(uri) == bool(prompt):
            raise ToolError("give either uri or prompt; mcp_list names them")
        client, seconds = self._servers.prepare(server, caller), self._servers.servers[server].seconds
        if uri:
            found = client.request("resources/read", {"uri": uri}, stop=caller.stop, seconds=seconds)
            return format_content(
                {"content": [{"type": "resource", "resource": c} for c in get_list(found.get("contents"))]}
            )
        given = {str(name): str(value) for name, value in (arguments or {}).items()}
        found = client.request("prompts/get", {"name": prompt, "arguments": given}, stop=caller.stop, seconds=seconds)
        said = [get_object(one) for one in get_list(found.get("messages"))]
        return "\n".join(
            f"{clean_line(m.get('role'), 20)}: {format_content({'content': [m.get('content')]})}" for m in said
        )


_OPEN: dict[Path, McpServers] = {}


def open_servers(home: Path, servers: Mapping[str, McpConfig], tokens: Mapping[str, str]) -> McpServers:
    """The servers of a home, shared by all of this process: those who work at once need no server each."""
    known = _OPEN.get(home)
    if known is None or known.servers != servers:
        if known is not None:
            known.close()
        known = _OPEN[home] = McpServers(home, servers, tokens)
    return known


def close_servers(home: Path) -> None:
    """End the servers of a home that run."""
    if known := _OPEN.pop(home, None):
        known.close()


def list_groups(config: Config) -> Iterator[ToolGroup]:
    """The tools of the servers that are configured and agreed to, in a fixed order; no server is started."""
    servers = open_servers(config.home, config.mcp, config.mcp_tokens)
    for name, table in config.mcp.items():
        if pinned := pins.list_pinned(config.home, name, table):
            names = tuple(f"{name}.{one.name}" for one in pinned)
            yield ToolGroup(names, partial(_make_remote_tools, servers, name, pinned))
    yield ToolGroup(("mcp_list", "mcp_read"), partial(McpTools, servers))


def _make_remote_tools(servers: McpServers, name: str, pinned: Iterable[pins.PinnedTool]) -> list[Tool]:
    return [RemoteTool(servers, name, one) for one in pinned]


def format_content(result: Mapping[str, Any]) -> str:
    """The text of a result; of pictures, sounds and files what they are."""
    import json

    parts: list[str] = []
    for one in map(get_object, get_list(result.get("content"))):
        kind, resource = one.get("type"), get_object(one.get("resource"))
        if kind == "text":
            parts.append(str(one.get("text", "")))
        elif kind == "resource" and isinstance(resource.get("text"), str):
            parts.append(resource["text"])
        elif kind == "resource_link":
            parts.append(f"[see {clean_line(one.get('uri'), 300)}]")
        else:
            data = one.get("data") or resource.get("blob") or ""
            what = clean_line(one.get("mimeType") or resource.get("mimeType") or kind, 60)
            parts.append(f"[{what}, {len(data) * 3 // 4 if isinstance(data, str) else 0} bytes, not shown]")
    if not parts and (plain := result.get("structuredContent")) is not None:
        parts = [json.dumps(plain, ensure_ascii=False)]
    return "\n".join(parts)[:_MAX_RESULT_CHARS]

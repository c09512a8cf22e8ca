"""Our client as the conformance suite runs it: `python mcp_conformance_client.py URL`, with the scenario in the environment."""

import json
import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from picoclaw.config.tables import McpConfig
from picoclaw.http_client import Client, Timeout
from picoclaw.mcp import McpError, pins
from picoclaw.mcp.client import AuthNeeded
from picoclaw.mcp.http import log_in
from picoclaw.tools.mcp import McpServers

CALLS = {"tools_call": ("add_numbers", {"a": 5, "b": 3}), "sse-retry": ("test_reconnection", {})}
MOST_LOGINS = 3


def open_link(link):
    """What a person does in a browser: the server sends it on at once."""
    with Client() as http, http.stream("GET", link, timeout=Timeout(10, 10)) as answer:
        return answer.headers.get("location", "")


def use(home, config, secret, scenario, calls=None):
    with closing(McpServers(home, {"it": config}, {"it": secret})) as servers:
        client = servers.client("it")
        client.connect()
        tools = {one["name"]: one for one in client.list_all("tools")}
        print(list(tools))
        for wanted in calls if calls is not None else []:
            one = pins.read_tool(tools[wanted["name"]])
            words = {"name": one.name, "arguments": wanted["arguments"]}
            client.request("tools/call", words, headers=pins.fill_headers(one.headers, wanted["arguments"]))
        if scenario == "http-invalid-tool-headers":
            for one in map(pins.read_tool, tools.values()):
                if not one.problem:
                    arguments = {p.name: "x" for p in one.parameters}
                    headers = pins.fill_headers(one.headers, arguments)
                    client.request("tools/call", {"name": one.name, "arguments": arguments}, headers=headers)
        if scenario == "http-standard-headers":
            client.request("tools/call", {"name": next(iter(tools)), "arguments": {}})
            for resource in client.list_all("resources"):
                client.request("resources/read", {"uri": resource["uri"]})
            for prompt in client.list_all("prompts"):
                client.request("prompts/get", {"name": prompt["name"]})
        if scenario in CALLS or scenario.startswith("auth/"):
            name, arguments = CALLS.get(scenario, ("test-tool", {}))
            print(client.request("tools/call", {"name": name, "arguments": arguments}))


def main():
    scenario, url = os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), sys.argv[-1]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    config, secret = McpConfig(url=url, client_id=context.get("client_id", "")), context.get("client_secret", "")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(MOST_LOGINS):
            try:
                use(Path(folder), config, secret, scenario, context.get("toolCalls"))
            except AuthNeeded as needed:
                log_in(Path(folder), "it", config, secret, open_link, needed.challenge)
            else:
                return
        raise McpError("it goes on asking for a login")


try:
    main()
except McpError as error:
    print(error, file=sys.stderr)
    sys.exit(1)

"""The SDK's client against a server: `python mcp_sdk_client.py MODE ANSWER URL TOKEN | COMMAND...`; prints JSON lines.

Runs with the Python that the `mcp` package is installed in (`make mcp`), not with ours.
"""

import json
import os
import sys

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

MODE, ANSWER, *WHERE = sys.argv[1:]


def say(**words):
    print(json.dumps(words), flush=True)


async def elicited(_context, params):
    say(asked=params.message)
    if ANSWER == "decline":
        return ElicitResult(action="decline")
    return ElicitResult(action="accept", content={"approve": ANSWER == "yes"})


async def main():
    if WHERE[0].startswith("http"):
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {WHERE[1]}"}, timeout=60)
        server = streamable_http_client(WHERE[0], http_client=http)
    else:
        server = StdioServerParameters(command=WHERE[0], args=WHERE[1:], env=dict(os.environ))
    callback = elicited if ANSWER != "none" else None
    async with Client(server, mode=MODE, elicitation_callback=callback) as client:
        tools = await client.list_tools()
        say(
            tools=[one.name for one in tools.tools], reads=[t.name for t in tools.tools if t.annotations.read_only_hint]
        )
        resources = await client.list_resources()
        say(resources=[str(one.uri) for one in resources.resources])
        read = await client.read_resource("sensor://greenhouse")
        say(sensor=read.contents[0].text)
        for name, arguments in (
            ("sensor_read", {"sensor": "greenhouse"}),
            ("sensor_read", {"sensor": "nowhere"}),
            ("output", {"action": "list"}),
            ("output", {"action": "set", "name": "pump", "level": "on", "seconds": 5}),
            ("memory_store", {"text": "The figs are thirsty."}),
            ("memory_search", {"query": "figs"}),
        ):
            done = await client.call_tool(name, arguments)
            say(called=name, error=bool(done.is_error), text=done.content[0].text)


anyio.run(main)

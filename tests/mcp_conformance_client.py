"""Our client as the conformance suite runs it: `python mcp_conformance_client.py URL`, with the scenario in the environment."""

import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from picoclaw.config.tables import McpConfig
from picoclaw.mcp.wire import McpError
from picoclaw.tools.mcp import McpServers

CALLS = {"tools_call": ("add_numbers", {"a": 5, "b": 3}), "sse-retry": ("test_reconnection", {})}


def main():
    scenario, url = os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), sys.argv[-1]
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(McpServers(Path(folder), {"it": McpConfig(url=url)}, {})) as it,
    ):
        client = it.client("it")
        client.connect()
        tools = client.list_all("tools")
        if scenario in CALLS:
            name, arguments = CALLS[scenario]
            print(client.request("tools/call", {"name": name, "arguments": arguments}))
        print([one["name"] for one in tools])


try:
    main()
except McpError as error:
    print(error, file=sys.stderr)
    sys.exit(1)

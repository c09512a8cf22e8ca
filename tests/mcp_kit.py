"""Homes with MCP servers in them, and the yes of their owner."""

from pathlib import Path

from picoclaw.config import Config
from picoclaw.config.tables import McpConfig
from picoclaw.hw.sim import SimBoard
from picoclaw.mcp import pins
from picoclaw.tools.mcp import open_servers
from picoclaw.workspace import prepare_home

BAD = (Path(__file__).parent / "mcp_bad_server.py").read_text()
PYTHON = "/usr/bin/python3"
"""The sandbox shows no home folder, where another Python may lie."""


def bad(mode, **more):
    """A table for a server that misbehaves in one way."""
    return McpConfig(command=[PYTHON, "-c", BAD, mode], **{"seconds": 1.0, **more})


def agree(home, name, table, offer=None):
    """What `picoclaw mcp agree` does after a yes."""
    servers = open_servers(home, {name: table}, {})
    offer = offer or servers.read_offer(name)
    pins.save_pin(home, name, pins.Pin(offer, pins.compute_offer_digest(offer, table.tools)))
    servers.close()
    return offer


def make_config(home, **servers):
    prepare_home(home)
    return Config(home, mcp=servers)


def sim():
    return SimBoard(sleep=lambda _: None)

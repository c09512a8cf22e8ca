"""MCP, the Model Context Protocol, both ways: other servers' tools for the agent, and this board for other programs.

Imported only where `[mcp.NAME]` is configured, or `picoclaw mcp` is run, or secrets.toml has `mcp_token`.
"""

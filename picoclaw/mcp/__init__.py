"""MCP, the Model Context Protocol: other servers' tools for the agent.

Imported only where `[mcp.NAME]` is configured, or `picoclaw mcp` is run.
"""

"""What the agent can do: typed methods with docstrings, grouped by what they depend on."""

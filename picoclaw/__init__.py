"""picoclaw: an AI agent for single-board computers. Importing it touches nothing."""

__version__ = "0.1.0"

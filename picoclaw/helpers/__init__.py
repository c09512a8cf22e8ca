"""Helpers: agents with one task each, beside the conversation or within a turn of it."""

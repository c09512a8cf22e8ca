"""Declared outputs: configuration, limits, client, audit."""

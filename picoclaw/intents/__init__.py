"""The built-in provider that needs no model."""

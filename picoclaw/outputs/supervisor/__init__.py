"""The process that alone drives outputs."""

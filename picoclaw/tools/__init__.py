"""The tools that a model can call: typed methods with docstrings, one module per group."""

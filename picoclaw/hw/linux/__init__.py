"""The real board: device files and kernel files, one module for each kind of bus."""

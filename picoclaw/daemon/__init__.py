"""The process that lives on the board, one for each home: queue, channels, and what goes on by itself."""

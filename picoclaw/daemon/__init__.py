"""The process that lives on the board: one for each home, with the desk, the channels and the clockwork."""

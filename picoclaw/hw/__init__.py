"""The door to all hardware: a board, real or simulated, and what can be read from it."""

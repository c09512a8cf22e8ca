"""The simulated board: ships in the package, behaves like the real one, and says everywhere that it is not."""

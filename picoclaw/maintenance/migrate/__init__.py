"""Moving in from another agent: `origins` reads its home, `plan` says what becomes of it, `journal` does it once."""

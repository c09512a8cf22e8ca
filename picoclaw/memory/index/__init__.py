"""An index of the notes that can be thrown away: chunks, their words and their vectors, in SQLite."""

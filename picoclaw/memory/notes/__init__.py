"""The notes as the owner can open them: entries, found, written, changed, forgotten."""

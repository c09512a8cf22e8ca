"""All durable state in SQLite: `database.py` opens `state.db` and `history.db` and makes their tables.

The other modules have a group of tables each.
"""

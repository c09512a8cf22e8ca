"""The door to durable state: one SQLite file, opened once, written in transactions."""

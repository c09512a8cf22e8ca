"""What several boards share: one store of agents, files, memory, conversations and costs, and its synchronisation.

`store.py` says what a store can do; `sqlite.py` and `postgres.py` are two. Which board may see which rows is decided by
PostgreSQL: `tables.py` has the tables and their row security, `postgres.py` gives a board its role. `home.py` turns a
home's files into rows and back, `sync.py` exchanges them.
"""

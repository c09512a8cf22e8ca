"""What several boards share: one store of agents, files, memory, conversations and costs, and its synchronisation.

`store.py` says what a store holds and can do; `sqlite.py` and `postgres.py` are two. Which board may see which rows is
decided by PostgreSQL: `store.py` has the row security of its tables, `postgres.py` gives a board its role. `home.py` turns
a home's files into rows and back, `sync.py` exchanges them.
"""

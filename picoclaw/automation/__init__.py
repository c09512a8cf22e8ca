"""Jobs, rules, sampling and heartbeats on the scheduler thread: no model, no network.

`scheduler.py` is the thread, and holds appointments back until the date can be trusted; `clock.py` decides whether it
can, also on a board whose clock was never set. `jobs.py` decides what becomes of a job, `rules.py` reads the owner's
rules and `rule_engine.py` follows them, `sampler.py` measures the sensors, `checklist.py` reads HEARTBEAT.md.
"""

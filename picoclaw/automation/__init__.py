"""Jobs, rules, sampling and heartbeats on the scheduler thread: no model, no network."""

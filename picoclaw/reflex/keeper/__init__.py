"""The keeper: the process that alone drives outputs, and that nothing can end without their going safe.

It is two processes. The hands serve requests and end leases; the watch only waits for the hands, ends them when they
do not keep their promises, and makes everything safe when they end in any way but a clean one. `python -m
picoclaw.reflex.keeper` starts both.
"""

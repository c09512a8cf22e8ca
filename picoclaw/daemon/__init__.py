"""The process that lives on the board, one for each home: `service.py` puts it together.

`queue.py` takes messages into the inbox and has them answered, `delivery.py` takes those of the outbox to people,
`socket.py` serves the terminals, `background.py` does what is due, `sampling.py` samples the sensors, `process.py` reports to systemd.
"""

"""What every test takes for granted of its process."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs the suite in the background ignores it

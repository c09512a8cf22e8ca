"""All hardware: a board, real (`linux/`) or simulated (`sim/`), and what can be read from it.

What a chip's bytes mean is in `tools/hw/`, a file for each chip: `bme280.py` has the registers of a BME280 and the
arithmetic of its temperature, pressure and humidity. `loader.py` loads these, `handles.py` is what they read through.
"""

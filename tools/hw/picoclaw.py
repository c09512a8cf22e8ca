"""Lets a file of this folder find picoclaw, beside `tools/`, when it is run by itself: `python3 tools/hw/bme280.py`.

Python looks in the script's folder first, so that `import picoclaw` comes here; the package takes this module's place.
"""

import importlib
import sys
from pathlib import Path

if __name__ == "picoclaw":
    _FOLDER = Path(__file__).resolve().parent
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != _FOLDER]  # serial.py is no pyserial
    sys.path.append(str(_FOLDER.parents[1]))
    del sys.modules["picoclaw"]
    importlib.import_module("picoclaw")

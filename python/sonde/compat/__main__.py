"""python3 -m sonde.compat: print the folder for PYTHONPATH."""

from . import directory

print(directory())

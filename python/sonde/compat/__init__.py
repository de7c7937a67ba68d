"""Modules under the names of other libraries, for programs that were written for those:
timing_utilities, centralized_metrics_collector, ipfs_kit_py, fsspec_benchmark.

They are not importable by themselves, so that they never hide the real ones. Put their folder into
the path of one program:

    PYTHONPATH=$(python3 -m sonde.compat) python3 program.py

or, before its imports:

    import sonde.compat; sonde.compat.install()
"""

from __future__ import annotations

import os
import sys


def directory() -> str:
    """The folder of the modules."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "names")


def install() -> str:
    """Put it at the end of sys.path, once: a real library of the same name goes before. Returns it."""
    folder = directory()
    if folder not in sys.path:
        sys.path.append(folder)
    return folder

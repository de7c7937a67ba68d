"""sonde: count, time and trace what a program does, for some ten nanoseconds a record.

    import sonde

    requests = sonde.counter("app_requests_total", "Requests answered.", ("route",))
    home = requests.labels("/")

    def answer():
        home.add()
        with sonde.span("render", template="home") as s:
            s["rows"] = render()

Records go to memory that is shared with the `sonde` agent, which shows, keeps and exports them; this
process starts no thread and opens no socket. Without such memory, or with SONDE_ENABLED=0, nothing is
recorded and nothing fails. docs/python.md has all of it.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._lazy import NAMES as _lazy_names
from ._native import (
    Counter,
    Gauge,
    Histogram,
    Pool,
    Span,
    TimedFunction,
    __version__,
    bandwidth,
    cache_access,
    counter,
    enable,
    enabled,
    gauge,
    histogram,
    open,
    operation,
    pool,
    scope,
    set_traceparent,
    snapshot,
    span,
    spans,
    throughput,
    trace_id,
    traceparent,
)
from .decorate import measure_throughput, time_block, time_function, track_resource_usage
from .kind import Kind
from .switch import disabled

__all__ = [  # without open: `from sonde import *` must not take a program's own
    "Counter", "Gauge", "Histogram", "Kind", "Pool", "Span", "TimedFunction", "__version__", "bandwidth",
    "cache_access", "counter", "disabled", "enable", "enabled", "gauge", "histogram",
    "measure_throughput", "operation", "pool", "scope", "set_traceparent", "snapshot", "span",
    "spans", "throughput", "time_block", "time_function", "trace_id", "traceparent",
    "track_resource_usage",
]


def __getattr__(name: str) -> Any:
    """What few programs need is imported when it is first used: see _lazy.py."""
    module = _lazy_names.get(name)
    if module is None:
        raise AttributeError(f"module 'sonde' has no attribute {name!r}")
    found = importlib.import_module(f"sonde.{module}")
    value = found if module == name else getattr(found, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_lazy_names})

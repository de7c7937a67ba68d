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
from typing import TYPE_CHECKING, Any

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


if TYPE_CHECKING:  # type checkers know them as if they had been imported: _lazy.py is the same list
    from . import ml as ml
    from .aiml import AIMLMetricsCollector as AIMLMetricsCollector
    from .collector import CentralizedMetricsCollector as CentralizedMetricsCollector
    from .collector import Metric as Metric
    from .collector import MetricsAggregator as MetricsAggregator
    from .collector import MetricsFilter as MetricsFilter
    from .collector import get_metric_stats as get_metric_stats
    from .collector import get_metrics_collector as get_metrics_collector
    from .collector import print_metrics_report as print_metrics_report
    from .collector import record_counter as record_counter
    from .collector import record_metric as record_metric
    from .collector import record_timing as record_timing
    from .performance import PerformanceMetrics as PerformanceMetrics
    from .profiling import ProfilingContext as ProfilingContext
    from .profiling import profile as profile
    from .run import Run as Run
    from .timing import PerformanceMonitor as PerformanceMonitor
    from .timing import Timer as Timer
    from .timing import benchmark_function as benchmark_function
    from .visualization import create_visualization as create_visualization
    from .wrap import wrap_fs as wrap_fs
    from .wrap import wrap_iter as wrap_iter
else:
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

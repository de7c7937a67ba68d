"""Timers and decorators, by sonde. Decorators take a name first, and collect_metrics: without it only
a span is recorded."""

from __future__ import annotations

from typing import Any

import sonde
from sonde import time_block, time_function
from sonde.timing import PerformanceMonitor, Timer, benchmark_function


def track_resource_usage(operation_name: str | None = None, collect_metrics: bool = True) -> Any:
    """CPU time, page faults, change of memory and wall time of every call."""
    if collect_metrics:
        return sonde.track_resource_usage(name=operation_name)
    return time_function(name=operation_name, collect_metrics=False)


def measure_throughput(operation_name: str | None = None, collect_metrics: bool = True,
                       items: Any = None) -> Any:
    """Items per second; of a call that returns something with a length, so many, else one."""
    if collect_metrics:
        return sonde.measure_throughput(name=operation_name, items=items)
    return time_function(name=operation_name, collect_metrics=False)


__all__ = ["PerformanceMonitor", "Timer", "benchmark_function", "measure_throughput", "time_block",
           "time_function", "track_resource_usage"]

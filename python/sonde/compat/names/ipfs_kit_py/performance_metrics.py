"""Operations, bandwidth, caches and reports, by sonde.performance."""

from sonde.performance import PerformanceMetrics
from sonde.profiling import ProfilingContext, profile

__all__ = ["PerformanceMetrics", "ProfilingContext", "profile"]

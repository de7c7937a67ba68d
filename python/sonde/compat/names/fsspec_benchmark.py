"""Reads of a file system by pattern, by sonde.access_patterns."""

from sonde.access_patterns import run_access_pattern_benchmark

__all__ = ["run_access_pattern_benchmark"]

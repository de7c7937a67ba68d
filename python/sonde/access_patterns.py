"""Reads of a file system by pattern: what a cache makes of them."""

from __future__ import annotations

import random
import time
from typing import Any, Iterator, Sequence

from .window import describe

PATTERNS = ("sequential", "random", "repeated")
_HOT_SHARE = 0.8    # of the reads of `repeated` go to one in five names: a hot spot
_SEED = 1           # the same reads each time, so that runs can be compared


def access_order(names: Sequence[Any], pattern: str, iterations: int) -> Iterator[Any]:
    """iterations times as many reads as there are names."""
    chance = random.Random(_SEED)
    hot = names[:max(1, len(names) // 5)]
    for _ in range(iterations):
        for name in names:
            if pattern == "sequential":
                yield name
            elif pattern == "random":
                yield chance.choice(names)
            else:
                yield chance.choice(hot if chance.random() < _HOT_SHARE else names)


def _tiers(fs: Any) -> dict[str, Any] | None:
    read = getattr(fs, "get_performance_metrics", None)
    return dict(read()["cache"]) if read else None


def run_access_pattern_benchmark(fs: Any, names: Sequence[Any], pattern: str, iterations: int = 5,
                                 ) -> dict[str, Any]:
    """Read every name by fs.cat(), in this pattern. Returns figures of the times in seconds
    (window.describe()), bytes, reads_per_second and bytes_per_second, and, if the file system counts
    accesses (sonde.wrap_fs), those of this run in `cache`. Errors of fs are passed on."""
    if pattern not in PATTERNS:
        raise ValueError(f"access pattern {pattern!r}: it is one of {', '.join(PATTERNS)}")
    names = list(names)
    if not names or iterations < 1:
        raise ValueError(f"{len(names)} names read {iterations} times: there is nothing to read")
    before = _tiers(fs)
    took, size = [], 0
    for name in access_order(names, pattern, iterations):
        started = time.perf_counter()
        content = fs.cat(name)
        took.append(time.perf_counter() - started)
        size += len(content)
    figures: dict[str, Any] = {"pattern": pattern, "iterations": iterations, "bytes": size,
                               **describe(took)}
    if figures["sum"] > 0:
        figures["reads_per_second"] = len(took) / figures["sum"]
        figures["bytes_per_second"] = size / figures["sum"]
    after = _tiers(fs)
    if before and after:
        figures["cache"] = {key: after[key] - before[key]
                            for key in ("total", "memory_hits", "disk_hits", "misses")
                            if key in after and key in before}
    return figures

"""Timers that are read by the program itself. What only has to be recorded is cheaper with
sonde.time_function, sonde.time_block and sonde.span."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, Sequence

from .afterfork import renew_after_fork
from .observe import check_seconds, operation_time
from .window import Windows, describe, window_size


class Timer:
    """Measures the time between start() and stop(), as often as wanted.

        with Timer("load") as timer:
            load()
        print(timer.elapsed)

    A timer belongs to one thread."""

    def __init__(self, name: str = "", collect_metrics: bool = False) -> None:
        self.name = name
        self.collect_metrics = collect_metrics
        self.elapsed = 0.0      # seconds, of the last time
        self.total = 0.0        # of all
        self.count = 0
        self._started: float | None = None

    @property
    def running(self) -> bool:
        return self._started is not None

    def start(self) -> "Timer":
        if self._started is not None:
            raise RuntimeError(f"timer {self.name!r} is running: stop() it first")
        self._started = time.perf_counter()
        return self

    def stop(self) -> float:
        now = time.perf_counter()
        if self._started is None:
            raise RuntimeError(f"timer {self.name!r} is not running: start() it first")
        self.elapsed = now - self._started
        self.total += self.elapsed
        self.count += 1
        self._started = None
        if self.collect_metrics:
            operation_time(self.name, self.elapsed)
        return self.elapsed

    def reset(self) -> None:
        self.__init__(self.name, self.collect_metrics)  # type: ignore[misc]

    def __enter__(self) -> "Timer":
        return self.start()

    def __exit__(self, *failed: object) -> None:
        self.stop()


class PerformanceMonitor:
    """Durations of several operations, with exact statistics over the last `max_history` of each.
    They are recorded by sonde as operations too, unless collect_metrics is False."""

    def __init__(self, max_history: int = 1000, collect_metrics: bool = True) -> None:
        self.max_history = window_size("max_history", max_history)
        self.collect_metrics = collect_metrics
        self._begin_anew()
        renew_after_fork(self)

    def _begin_anew(self) -> None:
        self._lock = threading.RLock()
        self._windows = Windows(self.max_history)
        self._running: dict[tuple[int, str], list[float]] = {}

    def record(self, name: str, seconds: float) -> None:
        seconds = check_seconds(f"operation {name!r}", seconds)
        with self._lock:
            self._windows.add(name, seconds)
        if self.collect_metrics:
            operation_time(name, seconds)

    record_timing = record

    def start(self, name: str) -> None:
        """Begin in this thread; the same name may be begun again inside."""
        key = (threading.get_ident(), name)
        with self._lock:
            self._running.setdefault(key, []).append(time.perf_counter())

    def stop(self, name: str) -> float:
        now = time.perf_counter()
        key = (threading.get_ident(), name)
        with self._lock:
            begun = self._running.get(key)
            if not begun:
                raise RuntimeError(f"operation {name!r} was not started in this thread")
            seconds = now - begun.pop()
            if not begun:
                del self._running[key]
        self.record(name, seconds)
        return seconds

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.record(name, time.perf_counter() - started)

    def get_stats(self, name: str) -> dict[str, float]:
        with self._lock:
            window = self._windows.by_name.get(name)
            window = window and window.copy()
        return window.describe() if window else {"count": 0}

    def get_all_stats(self) -> dict[str, dict[str, float]]:
        with self._lock:
            names = list(self._windows.by_name)
        return {name: self.get_stats(name) for name in names}

    def reset(self) -> None:
        with self._lock:
            self._windows = Windows(self.max_history)


def benchmark_function(function: Callable[..., Any], *, iterations: int = 100, warmup: int = 10,
                       args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
                       ) -> dict[str, Any]:
    """Call function `warmup` times, then `iterations` times with a clock read around each. Returns
    the statistics of these in seconds, and calls_per_second by their sum. What the clock itself takes,
    some 50 ns, is part of every call: to compare functions that are faster use sonde bench."""
    if iterations < 1 or warmup < 0:
        raise ValueError(f"iterations={iterations!r}, warmup={warmup!r}: at least 1 and 0")
    given = dict(kwargs or {})
    for _ in range(warmup):
        function(*args, **given)
    took = []
    for _ in range(iterations):
        started = time.perf_counter()
        function(*args, **given)
        took.append(time.perf_counter() - started)
    figures: dict[str, Any] = describe(took)
    total = figures["sum"]
    return {"function": getattr(function, "__qualname__", repr(function)),
            "iterations": iterations, "warmup": warmup,
            "calls_per_second": iterations / total if total else None, **figures}

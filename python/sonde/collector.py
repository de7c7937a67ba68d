"""One place for the metrics of a whole program: recorded by name, type and source, read as
statistics, reports and files.

    from sonde.collector import record_metric, get_metrics_collector
    record_metric("cpu_usage", 85.0, "percentage", "system_monitor")
    get_metrics_collector().get_metric_stats("cpu_usage")["p95"]

Every value goes two ways. It is recorded by sonde (families.py says under which series), so that the
agent, /metrics and reports have it; and the last `window_size` values of each name are kept here, so
that statistics are exact. Statistics of a name that was recorded elsewhere (by sonde.time_function,
say) are read from its histogram: counts and sums are exact, percentiles within 0.54 %, and `exact` is
False.

While recording is off (sonde.enable(False), SONDE_ENABLED=0) nothing is kept. Safe in threads; a
forked child begins with nothing.
"""

from __future__ import annotations

import fnmatch
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Iterable, TextIO

import sonde

from . import metrics_export
from .afterfork import renew_after_fork
from .escape import encodable
from .families import Families, Recorder, type_name
from .recorded import recorded_stats
from .window import NAMES_KEPT, Window, Windows, window_size as checked_size, within

METRICS_KEPT = 10_000   # single values, of all names together
VALUES_KEPT = 1_000     # of each name, for statistics


@dataclass(slots=True)
class Metric:
    """One value that was recorded."""

    name: str
    value: float
    type: str = "custom"
    source: str = ""
    timestamp: float = field(default_factory=time.time)  # seconds since 1970

    def __post_init__(self) -> None:
        self.type = type_name(self.type)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class MetricsFilter:
    """Chooses metrics by name, type and source. Patterns are globs (`cpu*`); a metric passes if of
    each sort that has patterns one matches. Upper and lower case differ."""

    def __init__(self) -> None:
        self._patterns: dict[str, list[str]] = {"name": [], "type": [], "source": []}

    def add_name_filter(self, pattern: str) -> "MetricsFilter":
        return self._add("name", pattern)

    def add_type_filter(self, pattern: object) -> "MetricsFilter":
        return self._add("type", str(getattr(pattern, "name", pattern)).lower())

    def add_source_filter(self, pattern: str) -> "MetricsFilter":
        return self._add("source", pattern)

    def _add(self, sort: str, pattern: str) -> "MetricsFilter":
        if not isinstance(pattern, str):
            raise TypeError(f"a filter by {sort} is a pattern, not {pattern!r}")
        self._patterns[sort].append(pattern)
        return self

    def matches(self, metric: Any) -> bool:
        """metric: a Metric, or a dictionary with the same keys."""
        of = metric.get if isinstance(metric, Mapping) else lambda key: getattr(metric, key)
        return all(not patterns or any(fnmatch.fnmatchcase(str(of(sort)), p) for p in patterns)
                   for sort, patterns in self._patterns.items())

    def apply(self, metrics: Iterable[Any]) -> list[Any]:
        return [m for m in metrics if self.matches(m)]


class MetricsAggregator:
    """Exact statistics over the last `window_size` values of each name, and nothing else: values are
    not recorded by sonde."""

    def __init__(self, window_size: int = VALUES_KEPT) -> None:
        self.window_size = checked_size("window_size", window_size)
        self._begin_anew()
        renew_after_fork(self)

    def _begin_anew(self) -> None:
        self._lock = threading.RLock()
        self._windows = Windows(self.window_size)

    def add_metric(self, name: str, value: float) -> None:
        value = float(value)
        with self._lock:
            self._windows.add(name, value)

    def get_stats(self, name: str) -> dict[str, float]:
        """Figures of window.describe(); {"count": 0} of an unknown name."""
        with self._lock:
            window = self._windows.by_name.get(name)
            window = window and window.copy()
        return window.describe() if window else {"count": 0}

    def get_all_stats(self) -> dict[str, dict[str, float]]:
        with self._lock:
            names = list(self._windows.by_name)
        return {name: self.get_stats(name) for name in names}

    def clear(self) -> None:
        with self._lock:
            self._windows = Windows(self.window_size)


class _Series:
    """What is kept of one name and type."""

    __slots__ = ("window", "kind", "by_source", "recorders", "first", "last")

    def __init__(self, kind: str, size: int, now: float) -> None:
        self.window = Window(size)
        self.kind = kind
        self.by_source: dict[str, list[float]] = {}   # count, sum and latest of each
        self.recorders: dict[str, Recorder] = {}
        self.first = self.last = now


class CentralizedMetricsCollector:
    """All metrics of the program. There is one: every call returns the same."""

    _only: "CentralizedMetricsCollector | None" = None
    _making = threading.RLock()

    def __new__(cls) -> "CentralizedMetricsCollector":
        if cls._only is not None:
            return cls._only
        with CentralizedMetricsCollector._making:
            if cls._only is None:
                made = super().__new__(cls)
                made.window_size = VALUES_KEPT
                made._begin_anew()
                renew_after_fork(made)
                cls._only = made
            return cls._only

    window_size: int

    def _begin_anew(self) -> None:
        # In a child of fork another thread of the parent may have held it.
        CentralizedMetricsCollector._making = threading.RLock()
        self._lock = threading.RLock()
        self._metrics: deque[Metric] = deque(maxlen=METRICS_KEPT)
        self._series: dict[tuple[str, str], _Series] = {}
        self._families = Families()
        self._total = 0
        self._names_dropped = 0
        self._first: float | None = None
        self._last: float | None = None

    # ---- Recording -------------------------------------------------------------------------------

    def record_metric(self, name: str, value: float, metric_type: object = "custom",
                      source: str = "") -> None:
        """Record a value. ValueError: a type that does not exist, a counter that would fall;
        TypeError: what is not a number. Values that are not finite are kept and counted, but are no
        part of statistics."""
        metric = Metric(encodable(str(name)), float(value), metric_type,  # type: ignore[arg-type]
                        encodable(str(source)))
        if metric.type == "counter" and metric.value < 0:
            raise ValueError(f"counter {name!r}: {value!r} would make it fall; "
                             "a value that may fall is of another type")
        if not sonde.enabled():
            return
        with self._lock:
            self._keep(metric)

    def record_timing(self, name: str, seconds: float, source: str = "") -> None:
        self.record_metric(name, seconds, "time", source)

    def record_counter(self, name: str, value: float = 1.0, source: str = "") -> None:
        self.record_metric(name, value, "counter", source)

    def _keep(self, metric: Metric) -> None:
        key = (metric.name, metric.type)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= NAMES_KEPT:
                self._names_dropped += 1
                return
            series = self._series[key] = _Series(metric.type, self.window_size, metric.timestamp)
        source = within(series.recorders, metric.source)
        recorder = series.recorders.get(source)
        if recorder is None:
            recorder = Recorder(self._families, metric.name, metric.type, source)
            series.recorders[source] = recorder
            series.by_source[source] = [0, 0.0, 0.0]
        recorder.record(metric.value)
        series.window.add(metric.value)
        of_source = series.by_source[source]
        if math.isfinite(metric.value):
            of_source[0] += 1
            of_source[1] += metric.value
        of_source[2] = metric.value
        series.last = self._last = metric.timestamp
        if self._first is None:
            self._first = metric.timestamp
        self._metrics.append(metric)
        self._total += 1

    # ---- Reading ---------------------------------------------------------------------------------

    def get_metrics(self, chosen: MetricsFilter | None = None) -> list[Metric]:
        """The last values, oldest first."""
        with self._lock:
            metrics = list(self._metrics)
        return chosen.apply(metrics) if chosen else metrics

    def get_metric_names(self) -> list[str]:
        with self._lock:
            return sorted({name for name, _ in self._series})

    def get_metric_stats(self, name: str, metric_type: object = None) -> dict[str, Any]:
        """Statistics of a name: see window.describe() for the figures. A name of several types needs
        metric_type; without it the one recorded last is meant."""
        kind = None if metric_type is None else type_name(metric_type)
        with self._lock:
            found = [s for (n, k), s in self._series.items() if n == name and kind in (None, k)]
        if found:
            return self._describe(name, max(found, key=lambda s: s.last))
        return recorded_stats(name)

    def _describe(self, name: str, series: _Series) -> dict[str, Any]:
        with self._lock:
            window = series.window.copy()
        return {"name": name, "type": series.kind, "exact": True,
                "sources": sorted(series.by_source), "first_time": series.first,
                "last_time": series.last, **window.describe()}

    def get_all_stats(self) -> list[dict[str, Any]]:
        """Of every name and type, in the order in which they were first recorded."""
        with self._lock:
            series = list(self._series.items())
        return [self._describe(name, s) for (name, _), s in series]

    def get_summary(self) -> dict[str, Any]:
        """What a report begins with."""
        with self._lock:
            return {"total_metrics": self._total, "kept_metrics": len(self._metrics),
                    "names": len(self._series), "names_dropped": self._names_dropped,
                    "first_time": self._first, "last_time": self._last}

    def clear(self) -> None:
        """Forget what was kept here. What sonde has recorded stays."""
        with self._lock:
            self._metrics.clear()
            for series in self._series.values():
                series.window = Window(self.window_size)
                series.by_source = {source: [0, 0.0, 0.0] for source in series.by_source}
            self._total = 0
            self._names_dropped = 0
            self._first = self._last = None

    # ---- Reports and files -----------------------------------------------------------------------

    def generate_report(self, top: int = 10, recent: int = 10) -> str:
        return metrics_export.report(self, top, recent)

    def export_to_json(self, path: str) -> None:
        metrics_export.write(path, metrics_export.to_json(self))

    def export_to_csv(self, path: str) -> None:
        metrics_export.write(path, metrics_export.to_csv(self))

    def export_to_prometheus(self, path: str) -> None:
        metrics_export.write(path, metrics_export.to_prometheus(self))

    def exposition(self) -> list[tuple[Any, str, str, str, list[float], dict[str, Any]]]:
        """Of every series: its family, name, type and source, count, sum and latest value of the
        source, statistics of the name. For metrics_export."""
        with self._lock:
            kept = [(name, kind, source, list(figures), series.window.copy())
                    for (name, kind), series in self._series.items()
                    for source, figures in series.by_source.items()]
        return [(self._families.of(name, kind), name, kind, source, figures, window.describe())
                for name, kind, source, figures, window in kept]


def get_metrics_collector() -> CentralizedMetricsCollector:
    return CentralizedMetricsCollector()


def record_metric(name: str, value: float, metric_type: object = "custom", source: str = "") -> None:
    get_metrics_collector().record_metric(name, value, metric_type, source)


def record_timing(name: str, seconds: float, source: str = "") -> None:
    get_metrics_collector().record_metric(name, seconds, "time", source)


def record_counter(name: str, value: float = 1.0, source: str = "") -> None:
    get_metrics_collector().record_metric(name, value, "counter", source)


def get_metric_stats(name: str, metric_type: object = None) -> dict[str, Any]:
    return get_metrics_collector().get_metric_stats(name, metric_type)


def print_metrics_report(file: TextIO | None = None, top: int = 10, recent: int = 10) -> None:
    print(get_metrics_collector().generate_report(top, recent), file=file or sys.stdout)


__all__ = ["CentralizedMetricsCollector", "Metric", "MetricsAggregator", "MetricsFilter",
           "get_metric_stats", "get_metrics_collector", "print_metrics_report", "record_counter",
           "record_metric", "record_timing"]

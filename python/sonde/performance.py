"""Operations, bandwidth, caches, errors and the machine: recorded, and read by the program itself.

    metrics = PerformanceMetrics()
    with metrics.track_operation("add_file") as tracking:
        tracking["file_size"] = store(path)
    metrics.get_operation_stats("add_file")["p95"]

Everything goes two ways. It is recorded by sonde under sonde_operation_*, sonde_bandwidth_* and
sonde_cache_*, so that the agent, /metrics and `sonde report` have it, over all processes. And each
PerformanceMetrics keeps what it was told itself: counts, sums and errors of all time, and the last
max_history durations of each operation and records of operations, so that its percentiles are exact.

While recording is off (sonde.enable(False), SONDE_ENABLED=0) nothing is kept. Safe in threads; a
forked child begins with nothing. No thread is started but for enable_logging.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from contextvars import ContextVar
from typing import Any, Literal

import sonde

from . import analysis, analysis_report
from .afterfork import renew_after_fork
from .escape import encodable
from .metrics_log import MetricsLog
from .observe import check_seconds, operation_time
from .rate import Rate
from .system import SystemUtilization
from .traces import in_trace
from .window import OTHERS, Windows, window_size, within

ERRORS_KEPT = 100         # single ones, for get_error_stats()["recent"]
ERROR_TYPES_KEPT = 100    # of one operation
_DIRECTIONS: dict[str, Literal["in", "out"]] = {
    "inbound": "in", "in": "in", "outbound": "out", "out": "out"}


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # the program's own error is what it has to see
        return ""


def outcome_of(error: BaseException | None) -> str:
    """The same word as sonde.operation() records."""
    if error is None:
        return "ok"
    if type(error).__name__ in ("CancelledError", "Cancelled") or isinstance(error, GeneratorExit):
        return "cancelled"
    return "timeout" if isinstance(error, TimeoutError) else "error"


class _Failures:
    """How often one operation failed, by outcome and by type of error."""

    __slots__ = ("outcomes", "types")

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.types: Counter[str] = Counter()

    def add(self, outcome: str, error_type: str) -> None:
        self.outcomes[outcome] += 1
        known = error_type in self.types or len(self.types) < ERROR_TYPES_KEPT
        self.types[error_type if known else OTHERS] += 1


class TrackedOperation(dict):  # type: ignore[type-arg]
    """What track_operation() gives: a context manager, and the dictionary of the operation's custom
    fields. They are kept in its record, and numbers and texts become attributes of its span."""

    __slots__ = ("_metrics", "_operation", "_correlation_id", "_trace", "_span", "_time", "_started")

    def __init__(self, metrics: "PerformanceMetrics", operation: str, correlation_id: str | None,
                 fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self._metrics = metrics
        self._operation = encodable(operation)
        self._correlation_id = correlation_id

    def __enter__(self) -> "TrackedOperation":
        if self._correlation_id is None:
            self._correlation_id = self._metrics.get_correlation_id()
        self._trace = in_trace(self._correlation_id) if self._correlation_id else None
        if self._trace:
            self._trace.__enter__()
        self._span = sonde.operation(self._operation)
        self._span.__enter__()
        self._time = time.time()
        self._started = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: Any) -> None:
        duration = time.perf_counter() - self._started
        if self:
            for key, value in self.items():
                if isinstance(value, (bool, int, float, str)):
                    self._span[str(key)] = value
        self._span.__exit__(kind, error, traceback)
        if self._trace:
            self._trace.__exit__(kind, error, traceback)
        self._metrics._finish(self._operation, duration, error, self._correlation_id, self._time,
                              dict(self))


class PerformanceMetrics:
    """max_history: how many durations of each operation, and records of all, are kept.
    enable_logging writes them to metrics_dir (metrics_log.py says how), every collection_interval
    seconds, with a snapshot of everything, and keeps the files for retention_days. Without
    track_system_resources the machine is read only when get_system_utilization() asks for it."""

    def __init__(self, max_history: int = 1000, metrics_dir: str | None = None,
                 collection_interval: float = 300, enable_logging: bool = False,
                 track_system_resources: bool = True, retention_days: float = 7) -> None:
        self.max_history = window_size("max_history", max_history)
        self.track_system_resources = track_system_resources
        self._correlation: ContextVar[str | None] = ContextVar("correlation_id", default=None)
        self._system = SystemUtilization() if track_system_resources else None
        self._begin_anew()
        renew_after_fork(self)
        self.log: MetricsLog | None = None
        if enable_logging:
            if metrics_dir is None:
                raise ValueError("enable_logging needs metrics_dir, the folder to write to")
            self.log = MetricsLog(metrics_dir, collection_interval, retention_days, self._snapshot)

    def _begin_anew(self) -> None:
        self._lock = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        now = time.monotonic()
        self._began = now
        self._windows = Windows(self.max_history)
        self._operations: deque[dict[str, Any]] = deque(maxlen=self.max_history)
        self._operation_rate, self._byte_rate = Rate(now), Rate(now)
        self._failures: dict[str, _Failures] = {}       # by operation
        self._errors_by: Counter[str] = Counter()       # by type
        self._errors: deque[dict[str, Any]] = deque(maxlen=ERRORS_KEPT)
        self._bandwidth: Counter[tuple[str, str]] = Counter()
        self._cache: dict[str, list[int]] = {}          # tier: hits, misses

    # ---- Recording -------------------------------------------------------------------------------

    def track_operation(self, operation: str, correlation_id: str | None = None,
                        **fields: Any) -> TrackedOperation:
        """A context manager around the operation; see TrackedOperation."""
        return TrackedOperation(self, operation, correlation_id, fields)

    def record_operation_time(self, operation: str, seconds: float,
                              correlation_id: str | None = None, error_type: str | None = None,
                              **fields: Any) -> None:
        """An operation that was timed elsewhere and has just ended; failed, with an error_type."""
        seconds = check_seconds(f"operation {operation!r}", seconds)
        operation = encodable(operation)
        operation_time(operation, seconds, error_type)
        self._keep(operation, seconds, "error" if error_type else "ok", error_type, "",
                   correlation_id or self.get_correlation_id(), time.time() - seconds, fields)

    def record_bandwidth_usage(self, direction: str, size_bytes: int, source: str = "") -> None:
        """Bytes that came in or went out: direction is inbound or outbound."""
        if direction not in _DIRECTIONS:
            raise ValueError(f"direction {direction!r}: it is inbound or outbound")
        size = int(size_bytes)
        if size < 0:
            raise ValueError(f"{size_bytes!r} bytes: they cannot be less than none")
        if not sonde.enabled():
            return
        source = encodable(source or "")
        sonde.bandwidth(_DIRECTIONS[direction], size, source)
        with self._lock:
            key = (_DIRECTIONS[direction], source)
            self._bandwidth[within(self._bandwidth, key, (key[0], OTHERS))] += size
            self._byte_rate.add(time.monotonic(), size)

    def record_cache_access(self, result: str | bool, tier: str | None = None) -> None:
        """result: "hit" or "miss"."""
        if result not in ("hit", "miss", True, False):
            raise ValueError(f"cache access {result!r}: it is hit or miss")
        hit = result in ("hit", True)
        if not sonde.enabled():
            return
        tier = encodable(tier or "default")
        sonde.cache_access(hit, tier)
        with self._lock:
            counts = self._cache.setdefault(within(self._cache, tier), [0, 0])
            counts[0 if hit else 1] += 1

    def _finish(self, operation: str, seconds: float, error: BaseException | None,
                correlation_id: str | None, start_time: float, fields: dict[str, Any]) -> None:
        if error is None:
            self._keep(operation, seconds, "ok", None, "", correlation_id, start_time, fields)
        else:
            self._keep(operation, seconds, outcome_of(error), type(error).__name__, _text_of(error),
                       correlation_id, start_time, fields)

    def _keep(self, operation: str, seconds: float, outcome: str, error_type: str | None, error: str,
              correlation_id: str | None, start_time: float, fields: dict[str, Any]) -> None:
        if not sonde.enabled():
            return
        record = {**fields, "operation": operation, "correlation_id": correlation_id,
                  "start_time": start_time, "duration": seconds, "success": error_type is None,
                  "error_type": error_type, "error": error, "thread": threading.get_ident(),
                  "fields": fields}
        with self._lock:
            if not self._windows.add(operation, seconds):
                return
            self._operations.append(record)
            self._operation_rate.add(time.monotonic())
            if error_type is not None:
                self._failures.setdefault(operation, _Failures()).add(outcome, error_type)
                self._errors_by[within(self._errors_by, error_type)] += 1
                self._errors.append(record)
        if self.log:
            self.log.put({"record": "operation", **record})

    # ---- Correlation -----------------------------------------------------------------------------

    def set_correlation_id(self, correlation_id: str | None) -> None:
        """For operations that begin from now on in this context: this thread, or this task of
        asyncio and those it starts. None ends it. A UUID, or 32 hexadecimal digits, is also the id
        of the operations' trace."""
        self._correlation.set(correlation_id)

    def get_correlation_id(self) -> str | None:
        return self._correlation.get()

    def get_correlated_operations(self, correlation_id: str) -> list[dict[str, Any]]:
        """Of those that are kept, in the order in which they began."""
        found = [r for r in self.get_operations() if r["correlation_id"] == correlation_id]
        return sorted(found, key=lambda r: r["start_time"])

    def get_operations(self) -> list[dict[str, Any]]:
        """The last max_history operations, in the order in which they ended."""
        with self._lock:
            return list(self._operations)

    def get_operation_pairs(self) -> list[dict[str, Any]]:
        """Which operation follows which under one correlation id: how often, and how long after the
        end of the first the second began, on average (below 0: they overlap). Most often first."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for record in self.get_operations():
            if record["correlation_id"]:
                groups.setdefault(record["correlation_id"], []).append(record)
        gaps: dict[tuple[str, str], list[float]] = {}
        for records in groups.values():
            records.sort(key=lambda r: r["start_time"])
            for first, second in zip(records, records[1:]):
                gap = second["start_time"] - first["start_time"] - first["duration"]
                gaps.setdefault((first["operation"], second["operation"]), []).append(gap)
        pairs = [{"first": first, "second": second, "count": len(found),
                  "avg_gap_seconds": sum(found) / len(found)}
                 for (first, second), found in gaps.items()]
        return sorted(pairs, key=lambda p: (-p["count"], p["first"], p["second"]))

    # ---- Reading ---------------------------------------------------------------------------------

    def get_operation_stats(self, operation: str | None = None) -> dict[str, Any]:
        """Exact figures of the last max_history (window.describe()), in seconds, and of all time:
        total_count, total_sum, errors, error_rate, outcomes, error_types. {"operation": …, "count":
        0} of one that was not seen. Without a name: those of all, by name."""
        if operation is not None:
            return self._stats(operation)
        with self._lock:
            names = list(self._windows.by_name)
        return {name: self._stats(name) for name in names}

    def _stats(self, operation: str) -> dict[str, Any]:
        with self._lock:
            window = self._windows.by_name.get(operation)
            if window is None:
                return {"operation": operation, "count": 0}
            window, failures = window.copy(), self._failures.get(operation, _Failures())
            outcomes, types = dict(failures.outcomes), dict(failures.types)
        errors = sum(outcomes.values())
        if errors < window.total_count:
            outcomes = {"ok": window.total_count - errors, **outcomes}
        return {"operation": operation, **window.describe(), "errors": errors,
                "error_rate": errors / window.total_count, "outcomes": outcomes,
                "error_types": types}

    def get_current_throughput(self) -> dict[str, float]:
        """Per second, over the last minute or the time since the start."""
        now = time.monotonic()
        with self._lock:
            return {"operations_per_second": self._operation_rate.per_second(now),
                    "bytes_per_second": self._byte_rate.per_second(now)}

    def get_system_utilization(self) -> dict[str, Any]:
        """system.SystemUtilization.read(): cpu, memory, disk, network."""
        if self._system is None:
            self._system = SystemUtilization()
        return self._system.read()

    def get_error_stats(self) -> dict[str, Any]:
        with self._lock:
            total = sum(w.total_count for w in self._windows.by_name.values())
            count = sum(self._errors_by.values())
            return {"count": count, "rate": count / total if total else 0.0,
                    "by_type": dict(self._errors_by),
                    "by_operation": {name: sum(f.outcomes.values())
                                     for name, f in self._failures.items()},
                    "recent": list(self._errors)}

    def get_cache_stats(self) -> dict[str, Any]:
        with self._lock:
            tiers = {tier: {"hits": hits, "misses": misses, "total": hits + misses,
                            "hit_rate": hits / (hits + misses)}
                     for tier, (hits, misses) in self._cache.items()}
        hits, misses = (sum(t[key] for t in tiers.values()) for key in ("hits", "misses"))
        figures: dict[str, Any] = {"total": hits + misses, "hits": hits, "misses": misses,
                                   "tiers": tiers}
        if hits + misses:
            figures["hit_rate"] = hits / (hits + misses)
        return figures

    def get_bandwidth_stats(self) -> dict[str, Any]:
        """Bytes in and out, in all and by source."""
        with self._lock:
            entries = sorted(self._bandwidth.items())
        sources: dict[str, dict[str, int]] = {}
        for (direction, source), size in entries:
            sources.setdefault(source, {"in": 0, "out": 0})[direction] = size
        return {"inbound_bytes": sum(s["in"] for s in sources.values()),
                "outbound_bytes": sum(s["out"] for s in sources.values()), "sources": sources}

    def analyze_metrics(self) -> dict[str, Any]:
        """Everything, a summary of it, and what to do about it: analysis.analyze()."""
        return analysis.analyze(self)

    def generate_report(self, output_format: str = "text") -> str:
        """text, markdown, html, or json: docs/report.schema.json, as `sonde report` writes it."""
        return analysis_report.render(self.analyze_metrics(), output_format)

    @property
    def names_dropped(self) -> int:
        """Operations that were not kept here, because there were too many names already."""
        return self._windows.names_dropped

    def elapsed(self) -> float:
        """Seconds since the first that is counted here."""
        return time.monotonic() - self._began

    def _snapshot(self) -> dict[str, Any]:
        return {"record": "snapshot", "time": time.time(), **self.analyze_metrics()}

    def reset(self) -> None:
        """Forget what was kept here. What sonde has recorded stays."""
        with self._lock:
            self._clear()

    def close(self) -> None:
        """Write what is left of the log and end its thread."""
        if self.log:
            self.log.close()

    def __enter__(self) -> "PerformanceMetrics":
        return self

    def __exit__(self, *failed: object) -> None:
        self.close()

"""What the figures of a PerformanceMetrics come to: a summary, and what to do about it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .performance import PerformanceMetrics

SEVERITIES = ("critical", "warning", "info")  # as findings of the agent have

# Cache efficiency: the word for a share of hits of at least this.
EFFICIENCY = ((0.9, "excellent"), (0.7, "good"), (0.5, "fair"), (0.0, "poor"))

# From where on something is worth saying, and after how many: a share of three says nothing.
BUSY_PERCENT = 80.0
FULL_PERCENT = 95.0
ERROR_RATE = 0.05
TAIL_RATIO = 5.0        # p95 against the median
TIME_SHARE = 0.5        # of the time of all operations
COUNT_MIN = 20


def efficiency(hit_rate: float) -> str:
    return next(word for least, word in EFFICIENCY if hit_rate >= least)


def _summary(metrics: "PerformanceMetrics", operations: dict[str, Any], cache: dict[str, Any],
             errors: dict[str, Any]) -> dict[str, Any]:
    """Only what is known: without operations there is no slowest one."""
    total = sum(s["total_count"] for s in operations.values())
    summary: dict[str, Any] = {
        "elapsed_seconds": metrics.elapsed(), "total_operations": total,
        "total_errors": errors["count"], "error_rate": errors["rate"],
        **metrics.get_current_throughput(),
    }
    if metrics.names_dropped:
        summary["names_dropped"] = metrics.names_dropped
    timed = [s for s in operations.values() if s["count"]]
    if timed:
        slowest = max(timed, key=lambda s: s["avg"])
        frequent = max(timed, key=lambda s: s["total_count"])
        summary["slowest_operation"] = {
            "operation": slowest["operation"], "avg_seconds": slowest["avg"],
            "p95_seconds": slowest["p95"], "count": slowest["total_count"]}
        summary["most_frequent_operation"] = {
            "operation": frequent["operation"], "count": frequent["total_count"]}
    if "hit_rate" in cache:
        summary["cache_hit_rate"] = cache["hit_rate"]
        summary["cache_efficiency"] = efficiency(cache["hit_rate"])
    return summary


def _advice(severity: str, category: str, subject: str, message: str,
            details: str) -> dict[str, str]:
    return {"severity": severity, "category": category, "subject": subject, "message": message,
            "details": details}


_RESOURCES = (
    ("cpu", "CPU usage is high", "Profile with `sonde record` to see what is computed; "
     "then compute less, or spread the work over more machines."),
    ("memory", "Memory usage is high", "See what holds it with `sonde record --heap`; make caches "
     "smaller, or add memory."),
    ("disk", "Disk space is low", "Remove what is not used, or add space."),
)


def _of_system(system: dict[str, Any]) -> list[dict[str, str]]:
    found = []
    for key, message, remedy in _RESOURCES:
        percent = system[f"{key}_percent"]
        if percent > BUSY_PERCENT:
            found.append(_advice("critical" if percent > FULL_PERCENT else "warning", key, "machine",
                                 message, f"{percent:.1f} % is in use. {remedy}"))
    return found


def _of_cache(cache: dict[str, Any]) -> list[dict[str, str]]:
    if cache["total"] < COUNT_MIN or efficiency(cache["hit_rate"]) not in ("fair", "poor"):
        return []
    worst = min(cache["tiers"].items(), key=lambda item: item[1]["hit_rate"])
    severity = "critical" if efficiency(cache["hit_rate"]) == "poor" else "warning"
    return [_advice(severity, "cache", worst[0], "Cache hit rate is low",
                    f"{cache['hits']} of {cache['total']} accesses were hits "
                    f"({cache['hit_rate']:.1%}); tier {worst[0]} has {worst[1]['hit_rate']:.1%}. "
                    "A larger cache helps if the same is asked for again later; otherwise look at "
                    "the access pattern.")]


def _of_operation(stats: dict[str, Any], share: float, others: bool) -> list[dict[str, str]]:
    name, count = stats["operation"], stats["total_count"]
    found = []
    if count >= COUNT_MIN and stats["error_rate"] > ERROR_RATE:
        found.append(_advice("critical", "errors", name, f"Operation {name} fails often",
                             f"{stats['errors']} of {count} failed ({stats['error_rate']:.1%}). "
                             "get_error_stats() has their types."))
    if stats["count"] >= COUNT_MIN and stats["p95"] > TAIL_RATIO * stats["median"] > 0:
        found.append(_advice("warning", "latency", name,
                             f"Operation {name} is sometimes much slower",
                             f"One in twenty takes {stats['p95']:.6f} s or longer, half take "
                             f"{stats['median']:.6f} s or less. `sonde why` says what the slow ones "
                             "wait for."))
    if others and share > TIME_SHARE:
        found.append(_advice("info", "latency", name, f"Operation {name} takes most of the time",
                             f"{share:.0%} of the time of all operations, {stats['avg']:.6f} s on "
                             "average. To make the program faster, begin here."))
    return found


def _rank(advice: dict[str, str]) -> int:
    return SEVERITIES.index(advice["severity"])


def _recommendations(operations: dict[str, Any], cache: dict[str, Any],
                     system: dict[str, Any] | None) -> list[dict[str, str]]:
    found = _of_system(system) if system else []
    found += _of_cache(cache)
    spent = sum(s["total_sum"] for s in operations.values())
    for stats in operations.values():
        share = stats["total_sum"] / spent if spent else 0.0
        found += _of_operation(stats, share, len(operations) > 1)
    return sorted(found, key=_rank)


def analyze(metrics: "PerformanceMetrics") -> dict[str, Any]:
    """What all reports are made of. system_utilization is only there if the machine is looked at."""
    operations = metrics.get_operation_stats()
    cache, errors = metrics.get_cache_stats(), metrics.get_error_stats()
    system = None
    result: dict[str, Any] = {"time": time.time()}
    if metrics.track_system_resources:
        read = metrics.get_system_utilization()
        system = {f"{key}_percent": read[key]["percent"] for key in ("cpu", "memory", "disk")}
        result["system_utilization"] = {**system, **read}
    result["summary"] = _summary(metrics, operations, cache, errors)
    result["operations"] = operations
    result["errors"] = {key: errors[key] for key in ("count", "rate", "by_type", "by_operation")}
    result["cache"] = cache
    result["bandwidth"] = metrics.get_bandwidth_stats()
    result["operation_pairs"] = metrics.get_operation_pairs()
    result["recommendations"] = _recommendations(operations, cache, system)
    return result

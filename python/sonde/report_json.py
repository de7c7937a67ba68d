"""The analysis of a PerformanceMetrics in the shape that all reports of sonde have as JSON:
docs/report.schema.json, with the sections of which one process knows something.

As `sonde report` writes them: a section of which nothing is known is left out, a figure that is not
known is null, and rates are by the whole time."""

from __future__ import annotations

import time
from typing import Any, Callable

from . import _native

Row = dict[str, Any]


def _share(part: float, whole: float) -> float | None:
    """To six decimals: more is noise."""
    return round(part / whole, 6) if whole else None


def _operation(program: str, stats: Row, seconds: float) -> Row:
    count = stats["total_count"]
    return {"program": program, "operation": stats["operation"], "count": count,
            "rate_per_s": count / seconds if seconds else None, "errors": stats["errors"],
            "error_ratio": _share(stats["errors"], count), "outcomes": stats["outcomes"],
            "seconds": stats["total_sum"], "mean_s": stats["total_sum"] / count,
            "p50_s": stats["p50"], "p95_s": stats["p95"], "p99_s": stats["p99"],
            "max_s": stats["max"]}


def _operations(program: str, analysis: Row, seconds: float) -> list[Row]:
    rows = [_operation(program, s, seconds) for s in analysis["operations"].values() if s["count"]]
    return sorted(rows, key=lambda row: -row["seconds"])


def _errors(program: str, analysis: Row, seconds: float) -> list[Row]:
    rows = [{"program": program, "operation": name, "type": kind, "count": count,
             "rate_per_s": count / seconds if seconds else None,
             "share": _share(count, stats["total_count"])}
            for name, stats in analysis["operations"].items()
            for kind, count in stats["error_types"].items()]
    return sorted(rows, key=lambda row: -row["count"])


def _caches(program: str, analysis: Row, seconds: float) -> list[Row]:
    tiers = sorted(analysis["cache"]["tiers"].items(), key=lambda item: -item[1]["total"])
    return [{"program": program, "tier": tier, "hits": s["hits"], "misses": s["misses"],
             "hit_ratio": _share(s["hits"], s["total"]),
             "rate_per_s": s["total"] / seconds if seconds else None} for tier, s in tiers]


def _bandwidth(program: str, analysis: Row, seconds: float) -> list[Row]:
    sources = sorted(analysis["bandwidth"]["sources"].items(),
                     key=lambda item: -item[1]["in"] - item[1]["out"])
    return [{"program": program, "source": source, "in_bytes": s["in"], "out_bytes": s["out"],
             "in_bytes_per_s": s["in"] / seconds if seconds else None,
             "out_bytes_per_s": s["out"] / seconds if seconds else None} for source, s in sources]


def _pairs(program: str, analysis: Row, seconds: float) -> list[Row]:
    return [{"program": program, "first": p["first"], "second": p["second"], "count": p["count"],
             "mean_gap_s": p["avg_gap_seconds"]} for p in analysis["operation_pairs"]]


_SECTIONS: tuple[tuple[str, Callable[[str, Row, float], list[Row]]], ...] = (
    ("operations", _operations), ("operation_errors", _errors), ("operation_pairs", _pairs),
    ("caches", _caches), ("bandwidth", _bandwidth))


def _once(value: float | None) -> Row | None:
    """What was read once, or is a mean of one interval: nothing less and nothing more is known."""
    return None if value is None else {"min": value, "mean": value, "max": value}


def _system(program: str, analysis: Row) -> Row | None:
    read = analysis.get("system_utilization")
    if not read:
        return None
    cpu, memory, disk, network, own = (
        read[key] for key in ("cpu", "memory", "disk", "network", "process"))
    percent = cpu["percent"] if cpu["over"] == "interval" else None  # since boot is another time
    return {
        "seconds": cpu["interval_seconds"],
        "cpu": {"percent": None if percent is None else round(percent, 2), "cpus": cpu["count"],
                "utilization_ratio": _once(None if percent is None else percent / 100),
                "load1": _once(cpu["load_1m"])},
        "memory": {"percent": round(memory["percent"], 2), "total_bytes": memory["total_bytes"],
                   "used_ratio": _once(memory["percent"] / 100),
                   "used_bytes": _once(memory["used_bytes"]),
                   "swap_used_bytes": _once(memory["swap_used_bytes"])},
        "disk": {"read_bytes_per_s": None, "written_bytes_per_s": None, "busy_ratio": None,
                 "percent": round(disk["percent"], 2), "used_bytes": disk["used_bytes"],
                 "total_bytes": disk["total_bytes"]},
        "network": {"received_bytes_per_s": _once(network["received_per_second"]),
                    "sent_bytes_per_s": _once(network["sent_per_second"])},
        "processes": [{"program": program, "pid": own["pid"], "cpu_ratio": _once(own["cpu_ratio"]),
                       "resident_bytes": _once(own["resident_bytes"]), "read_bytes_per_s": None,
                       "written_bytes_per_s": None, "context_switches_per_s": None,
                       "major_faults_per_s": None, "threads": _once(own["threads"]),
                       "open_files": _once(own["open_files"])}],
    }


def _summary(analysis: Row, sections: dict[str, list[Row]], system: Row | None,
             seconds: float) -> Row:
    total, errors = (analysis["summary"][key] for key in ("total_operations", "total_errors"))
    cache, moved = analysis["cache"], analysis["bandwidth"]
    size = moved["inbound_bytes"] + moved["outbound_bytes"]
    slowest = max(sections["operations"], key=lambda row: row["p95_s"], default=None)
    return {
        "duration_seconds": seconds, "operations": total,
        "operations_per_second": total / seconds if total and seconds else None, "errors": errors,
        "error_ratio": _share(errors, total),
        "slowest_operation": slowest and {
            key: slowest[key] for key in ("program", "operation", "count", "mean_s", "p95_s")},
        "cache_efficiency": cache.get("hit_rate"),
        "bytes_per_second": size / seconds if moved["sources"] and seconds else None,
        "requests": None, "requests_per_second": None, "tokens_per_second": None,
        "ttft_p95_s": None, "cpu_percent": system and system["cpu"]["percent"],
        "memory_percent": system and system["memory"]["percent"],
        "process_cpu_ratio": system and analysis["system_utilization"]["process"]["cpu_ratio"],
        "process_memory_peak_bytes":
            system and analysis["system_utilization"]["process"]["peak_resident_bytes"],
        "top_function": None, "findings": None,
    }


def _notes(analysis: Row) -> list[str]:
    notes = []
    cut = [s for s in analysis["operations"].values() if s["total_count"] > s["count"]]
    if cut:
        notes.append(f"of {len(cut)} of {len(analysis['operations'])} operations percentiles and "
                     f"max_s are of the last {max(s['count'] for s in cut)} times only")
    dropped = analysis["summary"].get("names_dropped")
    if dropped:
        notes.append(f"{dropped} operations are in no figure: too many names")
    return notes


def report(analysis: Row) -> Row:
    """Of analysis.analyze()."""
    program = _native._program()
    seconds, end = analysis["summary"]["elapsed_seconds"], analysis["time"]
    sections = {key: make(program, analysis, seconds) for key, make in _SECTIONS}
    system, notes = _system(program, analysis), _notes(analysis)
    began = time.gmtime(end - seconds)
    made: Row = {
        "profile_id": time.strftime("prof_%Y%m%d_%H%M%S", began), "duration_seconds": seconds,
        "program": program, "start": end - seconds, "end": end, "samples": 0,
        "summary": _summary(analysis, sections, system, seconds),
        "recommendations": [
            {"severity": r["severity"], "kind": r["category"], "subject": r["subject"],
             "message": r["message"], "details": r["details"]}
            for r in analysis["recommendations"]],
        **{key: rows for key, rows in sections.items() if rows},
    }
    if system:
        made["system"] = system
    if notes:
        made["notes"] = notes
    return made

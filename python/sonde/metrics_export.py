"""What a CentralizedMetricsCollector holds, as text, JSON, CSV and Prometheus' exposition."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import threading
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import sonde

from .escape import csv_cell, label_value, number, plain, to_json as as_json

if TYPE_CHECKING:
    from .collector import CentralizedMetricsCollector

JSON_VERSION = 1
_TIMED = ("sonde_operation_duration_seconds", "sonde_resource_wall_seconds")
CSV_COLUMNS = ("timestamp", "name", "type", "value", "source")


def write(path: str | os.PathLike[str], text: str) -> None:
    """Write a whole file or none: a reader never sees half of it."""
    path = os.path.expanduser(os.fspath(path))
    part = f"{path}.{os.getpid()}-{threading.get_ident()}.part"
    try:
        with open(part, "x", encoding="utf-8", newline="") as out:
            out.write(text)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise


def moment(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")


def to_json(collector: "CentralizedMetricsCollector") -> str:
    return as_json({
        "sonde_metrics": JSON_VERSION,
        "summary": collector.get_summary(),
        "statistics": collector.get_all_stats(),
        "metrics": [m.as_dict() for m in collector.get_metrics()],
        "recorded": sonde.snapshot(),
    }) + "\n"


def to_csv(collector: "CentralizedMetricsCollector") -> str:
    """RFC 4180; a text that a spreadsheet would run as a formula has a ' in front."""
    out = io.StringIO(newline="")
    rows = csv.writer(out)
    rows.writerow(CSV_COLUMNS)
    for m in collector.get_metrics():
        rows.writerow([repr(m.timestamp), csv_cell(m.name), m.type, repr(m.value),
                       csv_cell(m.source)])
    return out.getvalue()


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{label_value(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {number(value)}\n"


def _series(family: Any, labels: dict[str, str], figures: list[float], stats: dict[str, Any],
            sources: int) -> str:
    count, total, latest = figures
    if family.shape == "gauge":
        return _sample(family.name, labels, latest)
    if family.shape == "counter":
        return _sample(family.name, labels, total)
    text = ""
    if sources == 1 and stats["count"]:  # the window is that of the name: of one source, its own
        text = "".join(_sample(family.name, labels | {"quantile": str(q / 100)}, stats[f"p{q}"])
                       for q in (50, 90, 95, 99))
    return text + _sample(family.name + "_sum", labels, total) + _sample(
        family.name + "_count", labels, count)


def to_prometheus(collector: "CentralizedMetricsCollector") -> str:
    """Text format 0.0.4. Times are summaries: sums and counts of all values, quantiles of the window.
    Counters have their total, everything else its latest value."""
    types = {"histogram": "summary"}
    by_family: dict[str, list[str]] = {}
    series = collector.exposition()
    for family, name, kind, source, figures, stats in series:
        sources = sum(1 for s in series if s[1] == name and s[2] == kind)
        lines = by_family.setdefault(family.name, [])
        if not lines:
            of = "several metrics" if family.shared else name
            lines.append(f"# HELP {family.name} Recorded as {of} by the program.\n"
                         f"# TYPE {family.name} {types.get(family.shape, family.shape)}\n")
        lines.append(_series(family, family.labels(name, source), figures, stats, sources))
    return "".join(line for lines in by_family.values() for line in lines)


def report(collector: "CentralizedMetricsCollector", top: int, recent: int) -> str:
    """Total, time range, top metrics by average, recent activity."""
    summary = collector.get_summary()
    stats = [s for s in collector.get_all_stats() if s["count"]]
    stats.sort(key=lambda s: s["avg"], reverse=True)
    lines = ["Metrics report", "==============", "",
             f"Total metrics collected: {summary['total_metrics']}",
             f"Different names: {summary['names']}",
             f"Time range: {moment(summary['first_time'])} to {moment(summary['last_time'])}"]
    if summary["names_dropped"]:
        lines.append(f"Not kept, because there are too many names: {summary['names_dropped']}")
    lines += ["", f"Top metrics by average value (at most {top}):"]
    lines += [f"  {plain(s['name'])} ({s['type']}): avg {s['avg']:.6g}, count {s['total_count']}, "
              f"min {s['min']:.6g}, max {s['max']:.6g}, p95 {s['p95']:.6g}" for s in stats[:top]]
    lines += ["", f"Recent metrics (at most {recent}):"]
    lines += [f"  {moment(m.timestamp)} {plain(m.name)} = {m.value:.6g} ({m.type}"
              + (f", from {plain(m.source)}" if m.source else "") + ")"
              for m in list(reversed(collector.get_metrics()))[:recent]]
    timed = [s for s in sonde.snapshot() if s["name"] in _TIMED and s["count"]]
    if timed:
        lines += ["", "Timed by sonde (percentiles within 0.54 %):"]
        lines += [f"  {plain(' '.join(map(str, s['labels'].values())))}: count {s['count']}, "
                  f"avg {s['sum'] / s['count']:.6g} s, p95 {s['p95']:.6g} s" for s in timed]
    return "\n".join(lines)

"""The analysis of a PerformanceMetrics as a page: text, Markdown, JSON or HTML.

All but JSON (report_json.py) draw the same sections: a title, then a table or a list. Names that the
program chose are escaped by each (escape.py)."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Callable, NamedTuple, Sequence

from . import report_json
from .escape import markdown, markup, plain, to_json


class Section(NamedTuple):
    title: str
    columns: tuple[str, ...]            # the first is text, all others are figures
    rows: Sequence[tuple[str, ...]]


def seconds(value: float) -> str:
    """With a unit that leaves three digits."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(value) * factor >= 1:
            return f"{value * factor:.3g} {unit}" if abs(value) < 1000 else f"{value:.0f} s"
    return f"{value * 1e9:.3g} ns"


def size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _summary(analysis: dict[str, Any]) -> Section:
    s = analysis["summary"]
    rows = [("Time", seconds(s["elapsed_seconds"])),
            ("Operations", str(s["total_operations"])),
            ("Operations per second", f"{s['operations_per_second']:.2f}"),
            ("Bytes per second", size(s["bytes_per_second"])),
            ("Errors", f"{s['total_errors']} ({_percent(s['error_rate'])})")]
    if "slowest_operation" in s:
        slowest = s["slowest_operation"]
        rows.append(("Slowest operation",
                     f"{slowest['operation']}, {seconds(slowest['avg_seconds'])} on average"))
    if "cache_efficiency" in s:
        rows.append(("Cache efficiency",
                     f"{s['cache_efficiency']} ({_percent(s['cache_hit_rate'])} hits)"))
    return Section("Summary", ("Figure", "Value"), rows)


def _operations(analysis: dict[str, Any]) -> Section:
    rows = [(name, str(s["total_count"]), str(s["errors"]), seconds(s["avg"]), seconds(s["median"]),
             seconds(s["p95"]), seconds(s["p99"]), seconds(s["max"]))
            for name, s in analysis["operations"].items() if s["count"]]
    columns = ("Operation", "Count", "Errors", "Average", "Median", "p95", "p99", "Max")
    return Section("Operations", columns, rows)


def _errors(analysis: dict[str, Any]) -> Section:
    return Section("Errors", ("Type", "Count"),
                   [(kind, str(n)) for kind, n in analysis["errors"]["by_type"].items()])


def _caches(analysis: dict[str, Any]) -> Section:
    return Section("Caches", ("Tier", "Accesses", "Hits", "Misses", "Hit rate"),
                   [(tier, str(s["total"]), str(s["hits"]), str(s["misses"]),
                     _percent(s["hit_rate"])) for tier, s in analysis["cache"]["tiers"].items()])


def _bandwidth(analysis: dict[str, Any]) -> Section:
    return Section("Bandwidth", ("Source", "In", "Out"),
                   [(source or "-", size(s["in"]), size(s["out"]))
                    for source, s in analysis["bandwidth"]["sources"].items()])


def _pairs(analysis: dict[str, Any]) -> Section:
    return Section("Operation pairs", ("First", "Second", "Count", "Gap"),
                   [(p["first"], p["second"], str(p["count"]), seconds(p["avg_gap_seconds"]))
                    for p in analysis["operation_pairs"]])


def _system(analysis: dict[str, Any]) -> Section:
    system = analysis.get("system_utilization")
    rows = []
    if system:
        memory, disk = system["memory"], system["disk"]
        rows = [("CPU", f"{system['cpu_percent']:.1f} %", f"{system['cpu']['count']} CPUs"),
                ("Memory", f"{system['memory_percent']:.1f} %", f"{size(memory['used_bytes'])} of "
                 f"{size(memory['total_bytes'])}"),
                ("Disk", f"{system['disk_percent']:.1f} %", f"{size(disk['used_bytes'])} of "
                 f"{size(disk['total_bytes'])}")]
    return Section("System", ("Resource", "In use", "Of"), rows)


def _advice(analysis: dict[str, Any]) -> Section:
    return Section("Recommendations", ("Severity", "What", "Details"),
                   [(r["severity"].upper(), r["message"], r["details"])
                    for r in analysis["recommendations"]])


_SECTIONS: tuple[Callable[[dict[str, Any]], Section], ...] = (
    _summary, _operations, _errors, _caches, _bandwidth, _pairs, _system, _advice)


def sections(analysis: dict[str, Any]) -> list[Section]:
    """Those that have something in them."""
    return [s for s in (make(analysis) for make in _SECTIONS) if s.rows]


def _time(analysis: dict[str, Any]) -> str:
    when = datetime.fromtimestamp(analysis["time"], timezone.utc)
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")


def _text(analysis: dict[str, Any]) -> str:
    lines = ["Performance report", "==================", _time(analysis)]
    for section in sections(analysis):
        table = [section.columns] + [tuple(plain(c) for c in row) for row in section.rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(section.columns))]
        lines += ["", section.title, "-" * len(section.title)]
        lines += ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in table]
    return "\n".join(lines) + "\n"


def _markdown(analysis: dict[str, Any]) -> str:
    lines = ["# Performance report", "", _time(analysis)]
    for section in sections(analysis):
        rule = ["---"] + ["---:" if section.title not in ("Recommendations", "Summary") else "---"
                          ] * (len(section.columns) - 1)
        lines += ["", f"## {section.title}", ""]
        lines += ["| " + " | ".join(cells) + " |" for cells in (section.columns, rule)]
        lines += ["| " + " | ".join(markdown(c) for c in row) + " |" for row in section.rows]
    return "\n".join(lines) + "\n"


_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } caption { text-align: left; font-weight: 600; }
th, td { border-bottom: 1px solid #8884; padding: .25rem .75rem .25rem 0; text-align: left;
         vertical-align: top; overflow-wrap: anywhere; }
"""


def _html(analysis: dict[str, Any]) -> str:
    parts = ['<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
             '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
             f"<title>Performance report</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
             f"<h1>Performance report</h1>\n<p>{markup(_time(analysis))}</p>\n"]
    for section in sections(analysis):
        head = "".join(f'<th scope="col">{markup(c)}</th>' for c in section.columns)
        rows = "".join("<tr>" + "".join(f"<td>{markup(c)}</td>" for c in row) + "</tr>\n"
                       for row in section.rows)
        parts.append(f"<h2>{markup(section.title)}</h2>\n<table>\n<thead><tr>{head}</tr></thead>\n"
                     f"<tbody>\n{rows}</tbody>\n</table>\n")
    return "".join(parts) + "</body>\n</html>\n"


def _json(analysis: dict[str, Any]) -> str:
    return to_json(report_json.report(analysis)) + "\n"


FORMATS: dict[str, Callable[[dict[str, Any]], str]] = {
    "text": _text, "markdown": _markdown, "json": _json, "html": _html}


def render(analysis: dict[str, Any], output_format: str) -> str:
    make = FORMATS.get(output_format)
    if make is None:
        raise ValueError(f"output_format {output_format!r}: it is one of {', '.join(FORMATS)}")
    return make(analysis)

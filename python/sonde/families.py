"""Under which series a metric of the user's own is recorded.

A user's name becomes a family of its own where it may: `database_query_time` of type time is the
histogram `database_query_time_seconds{source}`, `api_requests` of type counter the counter
`api_requests_total{source}`, everything else a gauge under its own name. A name that Prometheus does
not allow, that sonde uses itself, or that is taken by another type goes to a family for all of these,
with the name as a label: `sonde_custom_seconds`, `_total` or `_value{metric,source}`. So no two names
ever add up to one series.
"""

from __future__ import annotations

import re
import threading
from typing import Any, NamedTuple

import sonde

TYPES = ("time", "throughput", "memory", "counter", "ratio", "percentage", "custom")

_KNOWN = frozenset(TYPES)
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,110}\Z")
_SHAPES = {"time": "histogram", "counter": "counter"}  # all others: gauge
_SUFFIXES = {"histogram": "_seconds", "counter": "_total", "gauge": ""}
_SHARED = {"histogram": "sonde_custom_seconds", "counter": "sonde_custom_total",
           "gauge": "sonde_custom_value"}
_HELP = "Recorded as {} by the program."


def type_name(value: object) -> str:
    """A metric's type, as text or as a member of sonde.Kind, checked."""
    if value in _KNOWN:
        return str(value)
    text = str(getattr(value, "name", value)).lower()
    if text not in TYPES:
        raise ValueError(f"metric type {value!r}: it is one of {', '.join(TYPES)}")
    return text


class Family(NamedTuple):
    """Where a metric of one name and type is recorded."""

    name: str
    shape: str      # histogram, counter or gauge
    shared: bool    # has the user's name as its label `metric`

    def labels(self, metric: str, source: str) -> dict[str, str]:
        return {"metric": metric, "source": source} if self.shared else {"source": source}


class Families:
    """Which family each name and type has; the first of a name keeps it."""

    def __init__(self) -> None:
        self._shapes: dict[str, str] = {}
        self._known: dict[tuple[str, str], Family] = {}
        self._lock = threading.RLock()

    def of(self, metric: str, kind: str) -> Family:
        key = (metric, kind)
        family = self._known.get(key)
        if family is None:
            with self._lock:
                family = self._known.setdefault(key, self._choose(metric, kind))
        return family

    def share(self, metric: str, kind: str) -> Family:
        """The family for all, from now on: the name's own turned out to be taken."""
        shape = _SHAPES.get(kind, "gauge")
        with self._lock:
            self._known[metric, kind] = family = Family(_SHARED[shape], shape, True)
        return family

    def _choose(self, metric: str, kind: str) -> Family:
        shape = _SHAPES.get(kind, "gauge")
        suffix = _SUFFIXES[shape]
        name = metric if metric.endswith(suffix) else metric + suffix
        if (not _NAME.match(metric) or metric.startswith("sonde_")
                or self._shapes.setdefault(name, shape) != shape):
            return Family(_SHARED[shape], shape, True)
        return Family(name, shape, False)


def _define(family: Family, kind: str, metric: str) -> Any:
    """The family as sonde has it. ValueError: another part of the program has the name."""
    label_names = ("metric", "source") if family.shared else ("source",)
    text = _HELP.format("several metrics" if family.shared else metric)
    member = getattr(sonde.Kind, kind.upper())
    if family.shape == "histogram":
        return sonde.histogram(family.name, text, label_names, unit="seconds", kind=member)
    make = sonde.counter if family.shape == "counter" else sonde.gauge
    return make(family.name, text, label_names, kind=member)


def bind(families: Families, metric: str, kind: str, source: str) -> Any:
    """The handle that values of this metric from this source are recorded by."""
    family = families.of(metric, kind)
    try:
        defined = _define(family, kind, metric)
    except ValueError:
        family = families.share(metric, kind)
        defined = _define(family, kind, metric)
    return defined.labels(**family.labels(metric, source))


class Recorder:
    """Passes the values of one metric and source on to sonde. Not locked: its owner does that."""

    __slots__ = ("_handle", "_shape", "_total", "_counted")

    def __init__(self, families: Families, metric: str, kind: str, source: str) -> None:
        self._handle = bind(families, metric, kind, source)
        self._shape = _SHAPES.get(kind, "gauge")
        self._total = 0.0   # counters: sonde's are whole numbers, the user's need not be
        self._counted = 0

    def record(self, value: float) -> None:
        if self._shape == "gauge":
            self._handle.set(value)
        elif value != value or value in (float("inf"), float("-inf")):
            return
        elif self._shape == "histogram":
            self._handle.record(max(value, 0.0))
        else:
            self._total += value
            whole = int(self._total)
            if whole > self._counted:
                self._handle.add(whole - self._counted)
                self._counted = whole

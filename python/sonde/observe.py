"""Records of operations that were measured by someone else: durations that are handed in, not spans
that are begun and ended. They go to the families of sonde.operation()."""

from __future__ import annotations

from typing import Any

import sonde

_families: dict[str, Any] = {}


def _family(name: str) -> Any:
    found = _families.get(name)
    if found is None:
        if name == "sonde_operation_errors_total":
            found = sonde.counter(name, "Operations that failed, by type.", ("operation", "type"))
        else:
            found = sonde.histogram(name, "Duration of operations.", ("operation", "outcome"),
                                    unit="seconds")
        _families[name] = found
    return found


def operation_time(operation: str, seconds: float, error_type: str | None = None) -> None:
    """An operation took this long, and failed if there is an error_type."""
    outcome = "error" if error_type else "ok"
    _family("sonde_operation_duration_seconds").labels(operation, outcome).record(seconds)
    if error_type:
        _family("sonde_operation_errors_total").labels(operation, error_type).add(1)


def check_seconds(what: str, seconds: object) -> float:
    """A duration as the user gave it. ValueError if it is none."""
    value = float(seconds)  # type: ignore[arg-type]
    if not 0 <= value < float("inf"):
        raise ValueError(f"{what} took {seconds!r} seconds: a duration is finite and not negative")
    return value

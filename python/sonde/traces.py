"""Correlation ids as trace ids.

A UUID has the 128 bits of a trace id. Operations under it are recorded as parts of that trace, so
that what other programs and the agent know about it is found by the same id. Other correlation ids
are only kept with the records of this process."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import Iterator

import sonde

_ID = re.compile(r"[0-9a-f]{32}\Z")


def trace_id_of(correlation_id: str | None) -> str | None:
    """32 hexadecimal digits, or None: it is not a trace id."""
    text = (correlation_id or "").replace("-", "").lower()
    return text if _ID.match(text) and text.strip("0") else None


@contextmanager
def in_trace(correlation_id: str | None) -> Iterator[None]:
    """What begins inside belongs to the trace of that id, if it is one."""
    trace_id = trace_id_of(correlation_id)
    if trace_id is None or sonde.trace_id() == trace_id:
        yield
        return
    # The span that all of it is part of: one for each correlation id, of nobody's in particular.
    parent = trace_id[16:] if trace_id[16:].strip("0") else trace_id[:16]
    before = sonde.traceparent() if sonde.trace_id() else None
    sonde.set_traceparent(f"00-{trace_id}-{parent}-01")
    try:
        yield
    finally:
        sonde.set_traceparent(before)

"""How a metric comes out of a pickle: it is defined in the process that reads it."""

from __future__ import annotations

from typing import Any

from . import _native


def metric(maker: str, name: str, help: str, labels: tuple[str, ...], unit: str, source: str,
           tags: tuple[str, ...], kind: int, scale: float, series_max: int,
           values: tuple[str, ...] | None) -> Any:
    family = getattr(_native, maker)(
        name, help, labels, unit, source=source, kind=kind, scale=scale,
        constant=dict(zip(tags[::2], tags[1::2])), series_max=series_max)
    return family.labels(*values) if labels and values is not None else family

"""Windows of the last values, and exact statistics over them.

A window holds the last `size` values of something and, beside them, what is cheap to know about all
values there ever were (count, sum, smallest, largest). Percentiles are those of the window, by
linear interpolation between the two nearest ranks: what numpy.percentile and
statistics.quantiles(method="inclusive") compute.

A value that is not a number (a loss that diverged) is counted in `not_finite` and is no part of any
figure: one of them would make a mean say nothing.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Iterable, Sequence

PERCENTILES = (50, 90, 95, 99)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value below which `percent` of `ordered` (ascending, not empty) lie."""
    if not ordered:
        raise ValueError("percentile of no values")
    if not 0 <= percent <= 100:
        raise ValueError(f"percentile {percent!r} is not between 0 and 100")
    at = (len(ordered) - 1) * percent / 100
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def deviation(values: Sequence[float], mean: float) -> float:
    """The sample standard deviation; 0 of fewer than two values."""
    if len(values) < 2:
        return 0.0
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def describe(values: Iterable[float]) -> dict[str, float]:
    """count, sum, avg, mean, min, max, std, median and percentiles of some finite values; of none,
    only a count of 0: there is no mean of nothing."""
    ordered = sorted(values)
    if not ordered:
        return {"count": 0}
    total = math.fsum(ordered)
    mean = total / len(ordered)
    figures: dict[str, float] = {
        "count": len(ordered),
        "sum": total,
        "avg": mean,
        "mean": mean,
        "min": ordered[0],
        "max": ordered[-1],
        "std": deviation(ordered, mean),
        "median": percentile(ordered, 50),
    }
    for percent in PERCENTILES:
        figures[f"p{percent}"] = percentile(ordered, percent)
    return figures


class Window:
    """The last `size` values of one thing. Not locked: its owner does that."""

    __slots__ = ("values", "total_count", "total_sum", "not_finite", "latest")

    def __init__(self, size: int) -> None:
        self.values: deque[float] = deque(maxlen=size)
        self.total_count = 0
        self.total_sum = 0.0
        self.not_finite = 0
        self.latest: float | None = None

    def add(self, value: float) -> None:
        self.latest = value
        if not math.isfinite(value):
            self.not_finite += 1
            return
        self.values.append(value)
        self.total_count += 1
        self.total_sum += value

    def copy(self) -> "Window":
        """As it is now: figures are computed from a copy, so that nobody waits for that to record."""
        same = Window(1)
        same.values = self.values.copy()
        same.total_count, same.total_sum = self.total_count, self.total_sum
        same.not_finite, same.latest = self.not_finite, self.latest
        return same

    def describe(self) -> dict[str, float]:
        """Figures of the window, and total_count, total_sum of all there ever was."""
        figures = describe(self.values)
        figures["total_count"] = self.total_count
        figures["total_sum"] = self.total_sum
        if self.latest is not None:
            figures["latest"] = self.latest
        if self.not_finite:
            figures["not_finite"] = self.not_finite
        return figures


def window_size(name: str, size: object) -> int:
    """A size as the user gave it, checked: a window has bounds."""
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 10_000_000:
        raise ValueError(f"{name} is {size!r}: it is a number of values, 1 to 10000000")
    return size


NAMES_KEPT = 2_000          # of anything that the program names: as many as sonde keeps series of a family
OTHERS = "(other)"          # and what all beyond that are called


def within(known: dict[Any, Any], name: Any, others: Any = OTHERS) -> Any:
    """name, or others if it is new and there are too many already."""
    return name if name in known or len(known) < NAMES_KEPT else others


class Windows:
    """A window for each name, of the first NAMES_KEPT. Not locked: its owner does that."""

    __slots__ = ("by_name", "names_dropped", "_size")

    def __init__(self, size: int) -> None:
        self.by_name: dict[str, Window] = {}
        self.names_dropped = 0      # values of names beyond those
        self._size = size

    def add(self, name: str, value: float) -> bool:
        """False: it is of a name too many, and was counted only as that."""
        window = self.by_name.get(name)
        if window is None:
            if len(self.by_name) >= NAMES_KEPT:
                self.names_dropped += 1
                return False
            window = self.by_name[name] = Window(self._size)
        window.add(value)
        return True

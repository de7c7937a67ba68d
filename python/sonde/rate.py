"""How much per second, over the last minute: counts in one slot a second, a fixed number of slots."""

from __future__ import annotations

import math

SLOTS = 60


class Rate:
    """Not locked: its owner does that. Times are seconds of a clock that does not go back."""

    __slots__ = ("_began", "_slots", "_seconds")

    def __init__(self, now: float) -> None:
        self._began = now
        self._slots = [0.0] * SLOTS
        self._seconds = [-1] * SLOTS    # which second each slot holds

    def add(self, now: float, amount: float = 1.0) -> None:
        second = int(now)
        slot = second % SLOTS
        if self._seconds[slot] != second:
            self._seconds[slot] = second
            self._slots[slot] = 0.0
        self._slots[slot] += amount

    def per_second(self, now: float) -> float:
        """By the time that the slots cover: less than a minute if it began later."""
        first = math.floor(now) - SLOTS + 1
        total = sum(amount for second, amount in zip(self._seconds, self._slots) if second >= first)
        covered = now - max(self._began, first)
        return total / covered if covered > 0 else 0.0

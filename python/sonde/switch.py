"""Spans, operations, scopes and timed functions switched off by name."""

from __future__ import annotations

import threading

from . import _native

_lock = threading.Lock()
_active: list[tuple[str, ...]] = []


def _apply() -> None:
    _native._switch_off(tuple(pattern for patterns in _active for pattern in patterns))


class disabled:
    """Do not record spans, operations, scopes and timed functions whose names match a pattern (as file
    names do: * ? [abc]), in all threads. From now on, until restore(); or for a block:

        sonde.disabled("cache.*")
        with sonde.disabled("render.*", "load"):
            ...
    """

    def __init__(self, *patterns: str) -> None:
        if not patterns:
            raise TypeError("disabled() takes patterns of names; sonde.enable(False) switches all off")
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise TypeError(f"a pattern is a str, not {pattern!r}")
        self.patterns = patterns
        with _lock:
            _active.append(self.patterns)
            _apply()

    def restore(self) -> None:
        """Record them again, unless they are switched off elsewhere too."""
        with _lock:
            for at, patterns in enumerate(_active):
                if patterns is self.patterns:
                    del _active[at]
                    break
            _apply()

    def __enter__(self) -> "disabled":
        return self

    def __exit__(self, *failed: object) -> None:
        self.restore()

"""What a forked child does with objects that belong to its parent: it begins anew.

A child of fork has one thread. Locks that others held stay locked in it for ever, and what the
parent counted is not the child's. Objects that are registered here have their `_begin_anew` called
in the child before any of its own code runs.

Locks of objects that record are RLocks: a signal handler runs in the middle of the main thread's code,
and may record as well.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Renewable(Protocol):
    def _begin_anew(self) -> None: ...


_known: dict[int, "weakref.ref[Renewable]"] = {}


def renew_after_fork(owner: Renewable) -> None:
    """Call owner._begin_anew() in every child made by fork, as long as owner lives."""
    key = id(owner)
    _known[key] = weakref.ref(owner, lambda gone: _known.pop(key, None))


def _renew_all() -> None:
    # A copy in one step: under the interpreter's lock no other thread is in the middle of it.
    for reference in list(_known.values()):
        owner = reference()
        if owner is not None:
            owner._begin_anew()


os.register_at_fork(after_in_child=_renew_all)

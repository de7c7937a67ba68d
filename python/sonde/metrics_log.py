"""Records as lines of JSON in one file a day and process, written by a thread of its own.

    DIR/metrics-2026-11-18-4711.jsonl

The program is never held up: what it logs goes to a queue of at most QUEUE_MAX records, and what
does not fit is dropped and counted. The thread wakes once per interval, and when the queue is half
full, writes what there is, and removes files of days that are past retention (by the day in their
name; other files are left alone). What the disk refuses is counted and its reason kept; nothing is
raised in the program.

There is no thread before the first record, and none in a forked child until its own first record,
which goes to a file of its own.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import re
import threading
import time
import weakref
from collections import deque
from datetime import date, datetime, timedelta, timezone
from typing import Any, Callable

from .afterfork import renew_after_fork
from .escape import json_safe

QUEUE_MAX = 10_000
_FILE = re.compile(r"metrics-(\d{4}-\d\d-\d\d)-\d+\.jsonl\Z")


def today() -> date:
    return datetime.now(timezone.utc).date()


_open: "weakref.WeakSet[MetricsLog]" = weakref.WeakSet()


class MetricsLog:
    """folder is made if it is not there (OSError if it cannot be). snapshot, if given, is a method
    that is called once per interval; what it returns is logged as well.

    close() writes what is left, and so does the end of the interpreter. Processes that end without it
    (os._exit, children of multiprocessing) call close() themselves."""

    _closed = True  # until it is made

    def __init__(self, folder: str, interval: float, retention_days: float,
                 snapshot: Callable[[], dict[str, Any]] | None = None) -> None:
        if not interval > 0:
            raise ValueError(f"collection_interval is {interval!r}: it is in seconds, above 0")
        if not retention_days > 0:
            raise ValueError(f"retention_days is {retention_days!r}: it is above 0")
        self.folder = os.path.abspath(os.path.expanduser(folder))
        os.makedirs(self.folder, exist_ok=True)
        self._interval = min(interval, threading.TIMEOUT_MAX)
        self._retention_days = retention_days
        self._snapshot = weakref.WeakMethod(snapshot) if snapshot else None
        self._begin_anew()
        renew_after_fork(self)
        _open.add(self)

    def _begin_anew(self) -> None:
        self._queue: deque[dict[str, Any]] = deque()
        self._wake = threading.Event()
        self._writing = threading.RLock()  # a signal handler may flush too
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._cleaned: date | None = None
        self._snapshot_due = time.monotonic() + self._interval
        self.dropped = 0        # did not fit into the queue
        self.written = 0        # lines
        self.failed = 0         # lines that the disk did not take
        self.last_error: str | None = None

    def put(self, record: dict[str, Any]) -> bool:
        """Never waits. False: the queue is full, or the log closed, and the record is dropped."""
        if self._closed or len(self._queue) >= QUEUE_MAX:
            self.dropped += 1
            return False
        self._queue.append(record)
        if self._thread is None:
            self._start()
        elif len(self._queue) == QUEUE_MAX // 2:
            self._wake.set()
        return True

    def flush(self) -> None:
        """Write what is in the queue now, in the calling thread."""
        with self._writing:
            self._write()

    def close(self) -> None:
        """Write what is left and stop the thread. Nothing is logged afterwards."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        self.flush()

    __del__ = close

    def path(self) -> str:
        """The file that this process writes today."""
        return os.path.join(self.folder, f"metrics-{today()}-{os.getpid()}.jsonl")

    def figures(self) -> dict[str, Any]:
        return {"folder": self.folder, "queued": len(self._queue), "written": self.written,
                "dropped": self.dropped, "failed": self.failed, "last_error": self.last_error}

    def _start(self) -> None:
        if not self._starting.acquire(blocking=False):
            return  # another thread is doing it
        try:
            if self._thread is None:
                thread = threading.Thread(target=_write_on, name="sonde-metrics-log", daemon=True,
                                          args=(weakref.ref(self), self._wake, self._interval))
                thread.start()
                self._thread = thread
        except RuntimeError as failed:  # no thread to be had, or the interpreter is ending
            self.last_error = str(failed)
        finally:
            self._starting.release()

    def _tick(self) -> None:
        snapshot = self._snapshot() if self._snapshot else None
        if snapshot and time.monotonic() >= self._snapshot_due:
            self._snapshot_due = time.monotonic() + self._interval
            try:
                self._queue.append(snapshot())
            except Exception as failed:  # a thread that ends would end all logging
                self.last_error = f"snapshot: {failed!r}"
        self.flush()

    def _write(self) -> None:
        lines = []
        while self._queue:
            record = self._queue.popleft()
            try:
                lines.append(json.dumps(json_safe(record), allow_nan=False))
            except Exception as failed:  # an object of the user's that has no text
                self.failed += 1
                self.last_error = f"a record that cannot be written: {failed!r}"
        if lines:
            # One write to a file opened for appending: whole lines, whoever else reads it.
            data = ("\n".join(lines) + "\n").encode()
            try:
                with open(self.path(), "ab", buffering=0) as out:
                    while data:
                        data = data[out.write(data):]
                self.written += len(lines)
            except OSError as failed:
                self.failed += len(lines)
                self.last_error = str(failed)
        if self._cleaned != today():
            self._clean()

    def _clean(self) -> None:
        """Remove files of days before the first that is kept: today is the last of them."""
        self._cleaned = today()
        first = self._cleaned - timedelta(days=math.ceil(self._retention_days) - 1)
        try:
            for name in os.listdir(self.folder):
                found = _FILE.match(name)
                if found and _day(found[1]) < first:
                    os.unlink(os.path.join(self.folder, name))
        except OSError as failed:
            self.last_error = str(failed)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return date.max  # of no day: not ours to remove


def _write_on(log_ref: "weakref.ref[MetricsLog]", wake: threading.Event, interval: float) -> None:
    """The thread: holds the log only while it writes, so that a log nobody has any more ends."""
    while True:
        wake.wait(interval)
        wake.clear()
        log = log_ref()
        if log is None or log._closed:
            return
        log._tick()
        del log


@atexit.register
def _close_all() -> None:
    for log in list(_open):
        log.close()

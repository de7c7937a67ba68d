"""What the machine and this process are doing: CPU, memory, disk, network; from /proc and statvfs.

CPU and network are counts since boot, so a share or a rate needs two readings. A SystemUtilization
holds the one before: its figures are of the time since then, `interval_seconds`. Where that time is
too short for the kernel's clock (it counts hundredths of a second), the figure before is given again,
and before there is any, the average since boot; `over` says which.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from .afterfork import renew_after_fork

_INTERVAL_MIN = 0.1  # seconds: ten ticks of each CPU, so that a share has one digit that means something


def cpu_ticks(text: str) -> tuple[int, int]:
    """Busy and all ticks of all CPUs, from the text of /proc/stat. Guests are part of user already;
    waiting for a disk is not work."""
    fields = text.split("\n", 1)[0].split()
    if len(fields) < 5 or fields[0] != "cpu":
        raise ValueError("/proc/stat does not begin with the ticks of all CPUs")
    ticks = [int(f) for f in fields[1:9]]
    idle = ticks[3] + (ticks[4] if len(ticks) > 4 else 0)
    return sum(ticks) - idle, sum(ticks)


def memory_figures(text: str) -> dict[str, Any]:
    """From the text of /proc/meminfo. Used is what is not available: caches that can be dropped are
    not in use."""
    kib = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            kib[key] = int(words[0])
    total, available = kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024
    swap = kib.get("SwapTotal", 0) * 1024
    return {"total_bytes": total, "available_bytes": available, "used_bytes": total - available,
            "percent": 100 * (total - available) / total if total else 0.0,
            "swap_total_bytes": swap, "swap_used_bytes": swap - kib.get("SwapFree", 0) * 1024}


def network_bytes(text: str) -> tuple[int, int]:
    """Received and sent by all interfaces but loopback, from the text of /proc/net/dev."""
    received = sent = 0
    for line in text.splitlines()[2:]:
        name, colon, rest = line.rpartition(":")
        fields = rest.split()
        if colon and name.strip() != "lo" and len(fields) >= 9:
            received += int(fields[0])
            sent += int(fields[8])
    return received, sent


def disk_figures(path: str) -> dict[str, Any]:
    """Of the file system that path is on, as df counts: what is kept for root is in no share."""
    fs = os.statvfs(path)
    used, free = (fs.f_blocks - fs.f_bfree) * fs.f_frsize, fs.f_bavail * fs.f_frsize
    return {"path": path, "total_bytes": fs.f_blocks * fs.f_frsize, "used_bytes": used,
            "free_bytes": free, "percent": 100 * used / (used + free) if used + free else 0.0}


def process_figures(text: str) -> dict[str, Any]:
    """From the text of /proc/self/status. A kernel thread has no memory, a process always has."""
    found = {}
    for line in text.splitlines():
        key, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[key] = int(words[0])
    return {"resident_bytes": found["VmRSS"] * 1024, "peak_resident_bytes": found["VmHWM"] * 1024,
            "threads": found["Threads"]}


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) - 1  # without the one that reads the folder


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as f:
        return f.read()


class _Reading:
    """Counts that only grow, and when they were read."""

    __slots__ = ("time", "busy", "ticks", "received", "sent", "own")

    def __init__(self) -> None:
        self.time = time.monotonic()
        self.own = time.process_time()
        self.busy, self.ticks = cpu_ticks(_read("/proc/stat"))
        self.received, self.sent = network_bytes(_read("/proc/net/dev"))


class SystemUtilization:
    """Reads the machine. Each call of read() is about the time since the one before, of any thread."""

    def __init__(self, disk_path: str = "/") -> None:
        self.disk_path = disk_path
        self._begin_anew()
        renew_after_fork(self)

    def _begin_anew(self) -> None:
        self._lock = threading.RLock()
        self._before = _Reading()
        self._figures: tuple[dict[str, Any], dict[str, Any], dict[str, Any]] | None = None

    def read(self) -> dict[str, Any]:
        """cpu, memory, disk, network and process (this one), each a dictionary of figures."""
        with self._lock:
            cpu, network, own = self._since()
        load = os.getloadavg()
        return {"time": time.time(),
                "cpu": {**cpu, "count": os.cpu_count(), "load_1m": load[0], "load_5m": load[1],
                        "load_15m": load[2]},
                "memory": memory_figures(_read("/proc/meminfo")),
                "disk": disk_figures(self.disk_path), "network": network,
                "process": {"pid": os.getpid(), **own, "open_files": _open_files(),
                            **process_figures(_read("/proc/self/status"))}}

    def _since(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        before, now = self._before, _Reading()
        seconds, ticks = now.time - before.time, now.ticks - before.ticks
        totals = {"received_bytes": now.received, "sent_bytes": now.sent}
        if seconds >= _INTERVAL_MIN and ticks > 0:
            self._before = now
            self._figures = (
                {"percent": min(100.0, max(0.0, 100 * (now.busy - before.busy) / ticks)),
                 "interval_seconds": seconds, "over": "interval"},
                {"received_per_second": max(0, now.received - before.received) / seconds,
                 "sent_per_second": max(0, now.sent - before.sent) / seconds},
                {"cpu_ratio": (now.own - before.own) / seconds})
        if self._figures:
            cpu, network, own = self._figures
            return dict(cpu), {**totals, **network}, dict(own)
        return ({"percent": 100 * now.busy / now.ticks if now.ticks else 0.0,
                 "interval_seconds": None, "over": "boot"},
                {**totals, "received_per_second": None, "sent_per_second": None},
                {"cpu_ratio": None})

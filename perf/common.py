"""common: what the parts of perf/run share: reading /proc, statistics, rows."""
import pathlib
import re
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def read(path, otherwise=""):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return otherwise


# ---- Other processes --------------------------------------------------------------------------

def cpu_ns(pid):
    """Time on a CPU of all threads, as the scheduler counts it: no rounding to ticks."""
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return sum(int(read(task / "schedstat").split()[0]) for task in tasks)


def memory_mb(pid, key):
    return int(re.search(rf"^{key}:\s*(\d+) kB", read(f"/proc/{pid}/status"), re.M).group(1)) / 1000


def watch(pid, seconds, each_second=lambda: None):
    """Percent of a core over that time; quartiles over its seconds."""
    samples, start, before = [], time.monotonic(), cpu_ns(pid)
    for second in range(1, seconds + 1):
        time.sleep(max(0.0, start + second - time.monotonic()))
        each_second()
        now = cpu_ns(pid)
        samples.append((now - before) / 1e7)
        before = now
    mean = sum(samples) / len(samples)
    return {**stats_of(samples, mean), "mean": mean}


# ---- Statistics and rows ----------------------------------------------------------------------

def stats_of(samples, value=None):
    """value: the figure, where it is not the least of the samples."""
    s = sorted(samples)
    n = len(s)
    out = {"min": s[0], "q1": s[n // 4], "median": s[n // 2], "q3": s[n * 3 // 4], "rounds": n,
           "discarded": 0}
    if value is not None:
        out["value"] = value
    return out


def named(name, stats):
    """As the report has it."""
    return {"name": name, **{k: round(v, 4) for k, v in stats.items()}}


def value_of(stats):
    """The figure: other load only adds, so it is the least of the rounds unless one is given."""
    return stats.get("value", stats["min"])


def row(row_id, group, figure, unit, ours, bare=None, peers=(), budget=0, note="", higher=False):
    return {"id": row_id, "group": group, "figure": figure, "unit": unit, "threads": 1,
            "ours": ours, "bare": bare, "peers": [p for p in peers if p], "budget": budget,
            "higher_is_better": higher, "note": note}

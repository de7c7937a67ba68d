"""What programs that use sonde bring along, in miniature: a clock, a store of content by id with a
cached file system, a memory pool. All of them count what they do: that is what figures are compared
with."""

import collections
import enum
import hashlib
import io
import itertools
import os
import stat
import sys
import textwrap
import threading


class Clock:
    """Stands for the module time: it goes on only when told to, by sleep()."""

    def __init__(self, now=1_800_000_000.0):
        self._began = now
        self._gone = 0.0
        self._lock = threading.Lock()

    def time(self):
        return self._began + self._gone

    def monotonic(self):
        return self._gone

    perf_counter = monotonic

    def sleep(self, seconds):
        with self._lock:
            self._gone += seconds


class TickingClock:
    """The same clock for what measures pieces of work: each is a tick long, from one look at
    perf_counter() to the next."""

    tick = 0.25

    def __init__(self, clock):
        self._clock = clock
        self.time = clock.time

    def perf_counter(self):
        now = self._clock.perf_counter()
        self._clock.sleep(self.tick)
        return now


class Kit:
    """Content by the hash of it. Each call takes the next of `costs` seconds of the clock."""

    costs = (0.010, 0.030, 0.015, 0.040, 0.005)

    def __init__(self, clock, **options):
        self.clock = clock
        self.options = options
        self.store = {}
        self.pins = set()
        self.took = collections.defaultdict(list)  # seconds of each call, by method
        self._costs = itertools.cycle(self.costs)
        self._lock = threading.Lock()

    def spend(self, method):
        with self._lock:
            seconds = next(self._costs)
            self.took[method].append(seconds)
        self.clock.sleep(seconds)

    def add(self, content):
        cid = "Qm" + hashlib.sha256(content).hexdigest()[:44]
        self.store[cid] = content
        return cid

    def ipfs_add_file(self, path):
        self.spend("add")
        with open(path, "rb") as source:
            content = source.read()
        return {"success": True, "cid": self.add(content), "size": len(content)}

    def ipfs_cat(self, cid):
        self.spend("cat")
        return self.store[cid]

    def ipfs_pin_add(self, cid):
        self.spend("pin_add")
        self.pins.add(cid)

    def ipfs_pin_ls(self):
        self.spend("pin_ls")
        return sorted(self.pins)

    def ipfs_pin_rm(self, cid):
        self.spend("pin_rm")
        self.pins.discard(cid)

    def some_operation(self, path):
        self.spend("some_operation")
        return {"path": path}

    def get_filesystem(self, cache_config=None, use_mmap=False):
        return FileSystem(self, cache_config or {}, use_mmap)


class FileSystem:
    """Two tiers before the kit: the last `memory_items` ids in memory, everything read on disk. It
    says where it has an id as caching file systems of fsspec do."""

    protocol = "ipfs"
    memory_items = 2
    storage = ["/var/cache/stand-in"]

    def __init__(self, kit, cache_config, use_mmap):
        self.kit, self.cache_config, self.use_mmap = kit, cache_config, use_mmap
        self.memory = collections.OrderedDict()
        self.disk = {}
        self.served = collections.Counter()  # by tier: the truth

    def _check_file(self, cid):
        if cid in self.memory:
            return f"/dev/shm/stand-in/{cid}"
        return f"{self.storage[-1]}/{cid}" if cid in self.disk else False

    def cat(self, cid):
        self.served["memory" if cid in self.memory else "disk" if cid in self.disk else "miss"] += 1
        if cid not in self.disk:
            self.disk[cid] = self.kit.ipfs_cat(cid)
        self.memory[cid] = self.disk[cid]
        self.memory.move_to_end(cid)
        if len(self.memory) > self.memory_items:
            self.memory.popitem(last=False)
        return self.disk[cid]

    def info(self, cid):
        return {"name": cid, "size": len(self.kit.store[cid]), "type": "file"}

    def ls(self, cid):
        return [self.info(cid)]

    def open(self, cid, mode="rb"):
        return io.BytesIO(self.cat(cid))


class TensorType(enum.Enum):
    KV_CACHE = "kv_cache"
    ACTIVATION = "activation"


class AdvancedMemoryPoolingSystem:
    """Pools that record what they do by the names of the collector, as the program it stands for."""

    def __init__(self):
        self.pools = collections.defaultdict(dict)

    def allocate(self, kind, size, name):
        import sonde
        from centralized_metrics_collector import record_counter, record_metric, record_timing
        from timing_utilities import Timer
        with Timer("allocate") as timer:
            block = self.pools[kind][name] = bytearray(size)
        record_timing("memory_pool_allocate_time", timer.elapsed, kind.value)
        record_counter("memory_pool_allocations", 1, kind.value)
        record_metric("memory_pool_bytes", self.size(kind), "memory", kind.value)
        sonde.pool(kind.value).set(self.size(kind))
        return block

    def size(self, kind):
        return sum(map(len, self.pools[kind].values()))

    def get_performance_metrics(self):
        from centralized_metrics_collector import get_metric_stats
        return {name: get_metric_stats(name) for name in
                ("memory_pool_allocate_time", "memory_pool_allocations", "memory_pool_bytes")}


# Checks what it is given as `sonde plot` does, and writes which series it saw.
PROGRAM = textwrap.dedent("""\
    import json, sys
    word, kind, source, o, target, *options = sys.argv[1:]
    data = json.load(open(source), parse_constant=lambda c: sys.exit(2))
    if word != "plot" or o != "-o" or data["sonde_plot"] != 1 or data["kind"] != kind:
        sys.exit("bad call")
    for series in data["series"]:
        if "x" in series and len(series["x"]) != len(series["y"]):
            sys.exit("x and y differ")
    if "broken" in data["title"]:
        sys.exit("sonde: plot: it is broken")
    json.dump({"kind": kind, "options": options, "series": data["series"]}, open(target, "w"))
    """)


def plot_of(folder):
    """A program that stands for sonde, in a folder."""
    path = os.path.join(folder, "sonde")
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"#!{sys.executable}\n{PROGRAM}")
    os.chmod(path, stat.S_IRWXU)
    return path

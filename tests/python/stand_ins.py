"""What programs that use sonde bring along, in miniature: a clock, a store of content by id with a
cached file system, a memory pool. All of them count what they do: that is what figures are compared
with."""

import collections
import enum
import hashlib
import io
import itertools
import threading


class Clock:
    """Stands for the module time: it goes on only when told to, by sleep()."""

    def __init__(self, now=1_800_000_000.0):
        self.now = now
        self._lock = threading.Lock()

    def time(self):
        return self.now

    monotonic = perf_counter = time

    def sleep(self, seconds):
        with self._lock:
            self.now += seconds


class Kit:
    """Content by the hash of it. Each call takes the next of `costs` seconds of the clock."""

    costs = (0.010, 0.020, 0.015, 0.040, 0.005)

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
    """Two tiers before the kit: the last `memory_items` ids in memory, everything read on disk."""

    protocol = "ipfs"
    memory_items = 2

    def __init__(self, kit, cache_config, use_mmap):
        self.kit, self.cache_config, self.use_mmap = kit, cache_config, use_mmap
        self.memory = collections.OrderedDict()
        self.disk = {}
        self.served = collections.Counter()  # by tier: the truth
        self.last_tier = None                # what sonde.wrap_fs asks for

    def cat(self, cid):
        if cid in self.memory:
            tier = "memory"
            self.memory.move_to_end(cid)
        elif cid in self.disk:
            tier = "disk"
        else:
            tier = None
            self.disk[cid] = self.kit.ipfs_cat(cid)
        self.memory[cid] = self.disk[cid]
        if len(self.memory) > self.memory_items:
            self.memory.popitem(last=False)
        self.served[tier or "miss"] += 1
        self.last_tier = tier
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

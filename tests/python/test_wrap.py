"""sonde.wrap_fs on Debian's fsspec, sonde.wrap_iter on iterators of all kinds: what they count against
what was done, and that they are otherwise what they wrap."""

import asyncio
import io
import os
import tempfile
import unittest
import warnings

import fsspec
from fsspec.implementations.cached import CachingFileSystem, SimpleCacheFileSystem, WholeFileCacheFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractBufferedFile

import sonde

from figures import recorded
from helpers import spans


def count(name, **labels):
    """A series' count or value; 0 if there is none yet."""
    try:
        found = recorded(name, **labels)
    except AssertionError:
        return 0
    return found.get("count", found.get("value"))


class Remote(fsspec.AbstractFileSystem):
    """One file, /big, of which ranges are fetched."""

    protocol = "remote-of-a-test"
    cachable = False

    def __init__(self, data):
        super().__init__()
        self.data, self.fetched = data, []

    def info(self, path, **_named):
        return {"name": "/big", "size": len(self.data), "type": "file"}

    def ls(self, path, detail=True, **_named):
        return [self.info(path)] if detail else ["/big"]

    def _open(self, path, mode="rb", block_size=None, autocommit=True, cache_options=None, **named):
        return RemoteFile(self, path, mode, block_size or "default", autocommit, **named)


class RemoteFile(AbstractBufferedFile):
    def _fetch_range(self, start, end):
        self.fs.fetched.append((start, end))
        return self.fs.data[start:end]


class Files(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.memory = MemoryFileSystem()
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]
        self.name = self.id().rpartition(".")[2]

    def path(self, *names):
        return os.path.join(self.scratch.name, *names)

    def test_operations_and_bytes(self):
        fs = sonde.wrap_fs(self.memory, name=self.name)
        fs.pipe("/a/x", b"0123456789")
        fs.pipe({"/a/y": b"abc", "/a/z": b"d"})
        self.assertEqual(fs.cat("/a/x"), b"0123456789")
        self.assertEqual(fs.cat(["/a/x", "/a/y"]), {"/a/x": b"0123456789", "/a/y": b"abc"})
        self.assertEqual(fs.cat_file("/a/x", start=2, end=5), b"234")
        self.assertEqual(sorted(fs.ls("/a", detail=False)), ["/a/x", "/a/y", "/a/z"])
        self.assertTrue(fs.exists("/a/x"))
        fs.get("/a/x", self.path("x"))
        fs.put(self.path("x"), "/a/copy")
        with open(self.path("x"), "rb") as file:
            self.assertEqual(file.read(), b"0123456789")
        figures = fs.get_performance_metrics()
        self.assertEqual({name: o["count"] for name, o in figures["operations"].items()},
                         {"pipe": 2, "cat": 2, "cat_file": 1, "ls": 1, "exists": 1, "get": 1, "put": 1})
        self.assertEqual(figures["bandwidth"], {"bytes_in": 10 + 13 + 3 + 10, "bytes_out": 14 + 10})
        for operation, times in (("cat", 2), ("pipe", 2), ("ls", 1)):
            self.assertEqual(count("sonde_operation_duration_seconds", operation=f"{self.name}.{operation}",
                                   outcome="ok"), times)
        self.assertEqual(count("sonde_bandwidth_bytes_total", direction="in", source=self.name), 36)
        self.assertEqual(count("sonde_bandwidth_bytes_total", direction="out", source=self.name), 24)
        cat = figures["operations"]["cat"]
        self.assertLessEqual(cat["min"], cat["p50"])
        self.assertLessEqual(cat["p99"], cat["max"])
        self.assertAlmostEqual(cat["mean"] * 2, cat["seconds"])

    def test_open_files(self):
        fs = sonde.wrap_fs(self.memory, name=self.name)
        with fs.open("/f", "wb") as file:
            self.assertEqual(file.write(b"one\ntwo\n"), 8)
            file.writelines([b"three\n", b"four\n"])
        with fs.open("/f", "rb") as file:
            self.assertEqual(file.readline(), b"one\n")
            self.assertEqual(next(file), b"two\n")
            file.seek(0)
            buffer = bytearray(3)
            self.assertEqual(file.readinto(buffer), 3)
            self.assertEqual(file.read(), b"\ntwo\nthree\nfour\n")
            self.assertEqual(file.read(), b"")
        with fs.open("/f", "r") as file:
            self.assertEqual(list(file), ["one\n", "two\n", "three\n", "four\n"])
        figures = fs.get_performance_metrics()
        self.assertEqual(figures["operations"]["open"]["count"], 3)
        self.assertEqual(figures["bandwidth"], {"bytes_in": 4 + 4 + 3 + 16 + 19, "bytes_out": 19})

    def test_errors_by_type(self):
        fs = sonde.wrap_fs(self.memory, name=self.name)
        for _ in range(3):
            with self.assertRaises(FileNotFoundError):
                fs.cat("/missing")
        with self.assertRaises(FileNotFoundError):
            fs.open("/missing")
        figures = fs.get_performance_metrics()["operations"]
        self.assertEqual(figures["cat"]["errors"], {"FileNotFoundError": 3})
        self.assertEqual(figures["open"]["errors"], {"FileNotFoundError": 1})
        self.assertEqual(count("sonde_operation_errors_total", operation=f"{self.name}.cat",
                               type="FileNotFoundError"), 3)

    def cached(self, kind, **options):
        self.memory.pipe({f"/d/{i}": b"x" * 100 for i in range(4)})
        return sonde.wrap_fs(kind(fs=self.memory, cache_storage=self.path("cache"), **options), name=self.name)

    def check_tiers(self, fs, tier):
        before = count("sonde_cache_accesses_total", tier=tier, result="hit")
        before_missed = count("sonde_cache_accesses_total", tier=tier, result="miss")
        for _ in range(3):
            for i in range(4):
                with fs.open(f"/d/{i}") as file:
                    self.assertEqual(file.read(), b"x" * 100)
        cache = fs.get_performance_metrics()["cache"]
        self.assertEqual((cache["total"], cache["misses"], cache[tier + "_hits"]), (12, 4, 8))
        self.assertAlmostEqual(cache["overall_hit_rate"], 8 / 12)
        self.assertAlmostEqual(cache["miss_rate"], 4 / 12)
        self.assertAlmostEqual(cache[tier + "_hit_rate"], 8 / 12)
        self.assertEqual(cache["tiers"], {tier: {"hits": 8, "misses": 4}})
        self.assertEqual(count("sonde_cache_accesses_total", tier=tier, result="hit") - before, 8)
        self.assertEqual(count("sonde_cache_accesses_total", tier=tier, result="miss") - before_missed, 4)

    def test_simplecache(self):
        self.check_tiers(self.cached(SimpleCacheFileSystem), "disk")

    def test_filecache(self):
        self.check_tiers(self.cached(WholeFileCacheFileSystem), "disk")

    def test_cat_of_a_filecache(self):
        fs = self.cached(WholeFileCacheFileSystem)
        fs.cat(["/d/0", "/d/1"])
        fs.cat(["/d/0", "/d/1", "/d/2"])
        self.assertEqual(fs.get_performance_metrics()["cache"]["tiers"], {"disk": {"hits": 2, "misses": 3}})

    def test_blockcache(self):
        remote = Remote(b"y" * 1000)
        fs = sonde.wrap_fs(CachingFileSystem(fs=remote, cache_storage=self.path("blocks"), check_files=False),
                           name=self.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)    # fsspec leaves its map of the file open
            for start in (0, 500, 0, 0):    # blocks of 500 bytes: the file is whole after two opens
                with fs.open("/big", block_size=500) as file:
                    file.seek(start)
                    self.assertEqual(file.read(100), b"y" * 100)
                del file
        self.assertEqual(remote.fetched, [(0, 500), (500, 1000)])
        self.assertEqual(fs.get_performance_metrics()["cache"]["tiers"], {"disk": {"hits": 2, "misses": 2}})

    def test_a_cache_in_memory_is_memory(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            self.memory.pipe({f"/d/{i}": b"x" * 100 for i in range(4)})
            self.check_tiers(sonde.wrap_fs(SimpleCacheFileSystem(fs=self.memory, cache_storage=folder),
                                           name=self.name), "memory")

    def test_memory_is_its_own_tier(self):
        fs = sonde.wrap_fs(self.memory, name=self.name)
        fs.pipe("/x", b"1")
        fs.cat("/x")
        with fs.open("/x"):
            pass
        with self.assertRaises(FileNotFoundError):
            fs.cat("/y")
        cache = fs.get_performance_metrics()["cache"]
        self.assertEqual((cache["memory_hits"], cache["misses"], cache["disk_hits"]), (2, 1, 0))

    def test_no_cache_no_accesses(self):
        fs = sonde.wrap_fs(LocalFileSystem(), name=self.name)
        fs.pipe(self.path("l"), b"local")
        self.assertEqual(fs.cat(self.path("l")), b"local")
        cache = fs.get_performance_metrics()["cache"]
        self.assertEqual((cache["total"], cache["tiers"], cache["overall_hit_rate"], cache["miss_rate"]), (0, {}, 0, 0))

    def test_is_what_it_wraps(self):
        fs = sonde.wrap_fs(self.memory)
        self.assertIsInstance(fs, MemoryFileSystem)
        self.assertIsInstance(fs, fsspec.AbstractFileSystem)
        self.assertEqual(fs, self.memory)
        self.assertEqual(hash(fs), hash(self.memory))
        self.assertEqual(fs.protocol, self.memory.protocol)
        self.assertIs(fs.store, self.memory.store)
        self.assertIs(sonde.wrap_fs(fs), fs)
        fs.some_setting = 3
        self.assertEqual(self.memory.some_setting, 3)
        with self.assertRaises(AttributeError):
            fs.unheard_of
        fs.pipe("/m/a", b"1")
        self.assertEqual(fs.get_mapper("/m")["a"], b"1")
        with self.assertRaisesRegex(TypeError, "dict is not a file system"):
            sonde.wrap_fs({})
        with fs.open("/m/a") as file:
            self.assertIsInstance(file, io.BytesIO)
            self.assertEqual(file.getbuffer().nbytes, 1)


class Loader:
    """As a DataLoader: iterated over anew each epoch, with a length and attributes."""

    def __init__(self, items):
        self.items, self.batch_size, self.passes = items, 2, 0

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        self.passes += 1
        yield from self.items


class Iterators(unittest.TestCase):
    def setUp(self):
        self.dataset = self.id().rpartition(".")[2]

    def check(self, items, passes):
        self.assertEqual(count("sonde_ml_dataset_items_total", dataset=self.dataset), items)
        self.assertEqual(count("sonde_ml_dataset_wait_seconds", dataset=self.dataset), items)
        self.assertEqual(count("sonde_ml_dataset_first_wait_seconds", dataset=self.dataset), passes)

    def test_a_loader(self):
        loader = Loader([1, 2, 3])
        wrapped = sonde.wrap_iter(loader, dataset=self.dataset)
        self.assertEqual(len(wrapped), 3)
        self.assertEqual(wrapped.batch_size, 2)
        for _ in range(4):
            self.assertEqual(list(wrapped), [1, 2, 3])
        self.assertEqual(loader.passes, 4)
        self.check(items=12, passes=4)
        self.assertEqual(count("sonde_ml_dataset_use_seconds", dataset=self.dataset), 12)
        stats = wrapped.stats()
        self.assertEqual((stats["items"], len(stats["first_wait_seconds"])), (12, 4))
        self.assertAlmostEqual(stats["wait_seconds"],
                               recorded("sonde_ml_dataset_wait_seconds", dataset=self.dataset)["sum"], delta=12e-9)
        wrapped.batch_size = 5
        self.assertEqual(loader.batch_size, 5)

    def test_a_loop_that_ends_early(self):
        wrapped = sonde.wrap_iter(range(10), dataset=self.dataset)
        for item in wrapped:
            if item == 3:
                break
        self.check(items=4, passes=1)
        self.assertEqual(count("sonde_ml_dataset_use_seconds", dataset=self.dataset), 3)

    def test_an_iterator_and_its_own_methods(self):
        def generator():
            got = yield 1
            yield got

        wrapped = iter(sonde.wrap_iter(generator(), dataset=self.dataset))
        self.assertEqual(next(wrapped), 1)
        self.assertEqual(wrapped.send("sent"), "sent")
        wrapped.close()
        self.check(items=1, passes=1)

    def test_what_the_iterator_raises(self):
        def generator(good):
            yield from range(good)
            raise KeyError("broken")

        with self.assertRaises(KeyError):
            list(sonde.wrap_iter(generator(1), dataset=self.dataset))
        self.check(items=1, passes=1)
        with self.assertRaises(KeyError):
            list(sonde.wrap_iter(generator(0), dataset=self.dataset))
        self.check(items=1, passes=1)
        self.assertEqual(spans("ml.data_wait")[-1]["outcome"], "error")
        self.assertIsNone(sonde.trace_id())

    def test_async(self):
        async def generator():
            for item in range(5):
                await asyncio.sleep(0)
                yield item

        async def consume(wrapped):
            return [item async for item in wrapped]

        async def both():
            return await asyncio.gather(*(consume(sonde.wrap_iter(generator(), dataset=self.dataset))
                                          for _ in range(3)))

        self.assertEqual(asyncio.run(both()), [[0, 1, 2, 3, 4]] * 3)
        self.check(items=15, passes=3)

    def test_fast_loops_have_few_spans(self):
        def waits():
            return len(spans("ml.data_wait"))

        before, wrapped = waits(), sonde.wrap_iter(range(2000), dataset=self.dataset)
        for _ in wrapped:
            pass
        stats = wrapped.stats()
        self.check(items=2000, passes=1)
        self.assertLessEqual(waits() - before, (stats["wait_seconds"] + stats["use_seconds"]) / 0.001 + 2)

    def test_waits_are_apart_from_work(self):
        def slow():
            for item in range(3):
                asyncio.run(asyncio.sleep(0.02))
                yield item

        wrapped = sonde.wrap_iter(slow(), dataset=self.dataset)
        list(wrapped)
        stats = wrapped.stats()
        self.assertGreaterEqual(stats["wait_seconds"], 0.06)
        self.assertAlmostEqual(stats["wait_share"],
                               stats["wait_seconds"] / (stats["wait_seconds"] + stats["use_seconds"]))

    def test_what_cannot_be_iterated(self):
        with self.assertRaisesRegex(TypeError, "int cannot be iterated over"):
            sonde.wrap_iter(5)
        wrapped = sonde.wrap_iter(iter([]), dataset=self.dataset)
        self.assertEqual(list(wrapped), [])
        with self.assertRaises(TypeError):
            len(wrapped)
        self.assertTrue(wrapped)
        self.assertEqual(wrapped.stats()["wait_share"], 0)


if __name__ == "__main__":
    unittest.main()

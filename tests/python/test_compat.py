"""The names of other libraries (sonde.compat), benchmarks of a kit, and a kit over HTTP."""

import contextlib
import http.server
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse
from unittest import mock

import sonde
import sonde.compat

sonde.compat.install()

import centralized_metrics_collector  # noqa: E402
import fsspec_benchmark  # noqa: E402
import timing_utilities  # noqa: E402
from ipfs_kit_py import (ai_ml_metrics, ai_ml_visualization, benchmark, ipfs_kit,  # noqa: E402
                         performance_metrics)
from sonde import _lazy  # noqa: E402
from sonde.access_patterns import access_order  # noqa: E402
from sonde.fs_kit import FileSystemKit  # noqa: E402
from sonde.kit_benchmark import FILE_BYTES, bytes_of, cid_of  # noqa: E402
from sonde.kubo import Kubo, KuboError  # noqa: E402

from figures import assert_figures, recorded  # noqa: E402
from seed_blocks import blocks_of  # noqa: E402
from stand_ins import Clock, Kit  # noqa: E402


class Names(unittest.TestCase):
    def test_all_are_there(self):
        for module, names in (
                (timing_utilities, "Timer PerformanceMonitor time_function time_block "
                 "track_resource_usage measure_throughput benchmark_function"),
                (centralized_metrics_collector, "record_metric record_timing record_counter Metric "
                 "get_metrics_collector print_metrics_report CentralizedMetricsCollector "
                 "MetricsAggregator MetricsFilter MetricType"),
                (performance_metrics, "PerformanceMetrics ProfilingContext profile"),
                (ai_ml_metrics, "AIMLMetricsCollector"), (ai_ml_visualization, "create_visualization"),
                (benchmark, "IPFSKitBenchmark"), (ipfs_kit, "ipfs_kit"),
                (fsspec_benchmark, "run_access_pattern_benchmark")):
            self.assertLessEqual(set(names.split()), set(dir(module)), module.__name__)

    def test_types_of_metrics(self):
        self.assertEqual({t.name for t in centralized_metrics_collector.MetricType},
                         {"TIME", "THROUGHPUT", "MEMORY", "COUNTER", "RATIO", "PERCENTAGE", "CUSTOM"})

    def test_the_folder_is_printed(self):
        done = subprocess.run([sys.executable, "-m", "sonde.compat"], check=True,
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), sonde.compat.directory())
        self.assertIn("ipfs_kit_py", os.listdir(sonde.compat.directory()))

    def test_not_there_without_being_asked_for(self):
        done = subprocess.run([sys.executable, "-c", "import sonde, timing_utilities"], check=False,
                              capture_output=True, text=True)
        self.assertIn("No module named 'timing_utilities'", done.stderr)

    def test_installed_once_and_last(self):
        self.assertEqual(sys.path.count(sonde.compat.install()), 1)

    def test_decorators(self):
        @timing_utilities.time_function("compat_timed", collect_metrics=True)
        def timed():
            return 1

        @timing_utilities.track_resource_usage("compat_resources", collect_metrics=True)
        def resources():
            return 2

        @timing_utilities.measure_throughput("compat_items", collect_metrics=True)
        def items():
            return [1, 2, 3]

        @timing_utilities.track_resource_usage("compat_silent", collect_metrics=False)
        def silent():
            return 4

        self.assertEqual((timed(), resources(), items(), silent()), (1, 2, [1, 2, 3], 4))
        self.assertEqual(recorded("sonde_operation_duration_seconds",
                                  operation="compat_timed")["count"], 1)
        self.assertEqual(recorded("sonde_resource_wall_seconds", scope="compat_resources")["count"], 1)
        self.assertEqual(recorded("sonde_throughput_items_total", scope="compat_items")["value"], 3)
        self.assertFalse([s for s in sonde.snapshot() if "compat_silent" in s["labels"].values()])
        stats = centralized_metrics_collector.get_metric_stats("compat_timed")
        self.assertEqual((stats["count"], stats["exact"]), (1, False))


class Documented(unittest.TestCase):
    def test_the_examples_of_the_page_run(self):
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                            "../../docs/python-metrics.md")
        with open(page, encoding="utf-8") as source:
            blocks = blocks_of(source.read())
        self.assertTrue(blocks)
        for heading, code in blocks:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, heading, "exec"), {})
            self.assertIn("| add\\_file | 1 | 0 |", out.getvalue())

    def test_names_are_found_on_first_use(self):
        mine = ("aiml", "collector", "performance", "profiling", "timing", "visualization")
        found = [name for name, module in _lazy.NAMES.items() if module in mine]
        self.assertEqual(len(found), 18)
        for name in found:
            self.assertIs(getattr(sonde, name), getattr(sys.modules[f"sonde.{_lazy.NAMES[name]}"],
                                                        name))


class Timed(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        for module in ("performance", "profiling", "kit_benchmark", "access_patterns"):
            patch = mock.patch(f"sonde.{module}.time", self.clock)
            patch.start()
            self.addCleanup(patch.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.kit = Kit(self.clock)

    def benchmark(self, **options):
        kit = ipfs_kit.ipfs_kit(kit=options.pop("kit", self.kit))
        return benchmark.IPFSKitBenchmark(metrics_dir=self.folder, kit=kit, **options)


class Benchmarks(Timed):
    def added(self):
        """How often sonde has recorded core_add_small in this process."""
        return sum(s["count"] for s in sonde.snapshot()
                   if s["labels"].get("operation") == "core_add_small" and "count" in s)

    def test_core_operations(self):
        before = self.added()
        results = self.benchmark(iterations=5, warmup=2).benchmark_core_operations()
        # Of each file 2 + 5 calls are made, then one more add for the id.
        took = self.kit.took["add"]
        for at, (name, size) in enumerate(FILE_BYTES.items()):
            first = at * 8 + 2
            found = results["add"][name]
            assert_figures(self, found, took[first:first + 5])
            self.assertEqual((found["bytes"], found["errors"]), (size, 0))
            self.assertAlmostEqual(found["bytes_per_second"], size / found["avg"])
        assert_figures(self, results["cat"]["small"], self.kit.took["cat"][2:7])
        assert_figures(self, results["pin_ls"], self.kit.took["pin_ls"][2:])
        self.assertEqual(self.kit.pins, set())
        self.assertNotIn("skipped", results)
        self.assertEqual(self.added() - before, 5)

    def test_a_kit_that_lacks_methods_or_lies(self):
        class Less:
            def __init__(self, kit):
                self.ipfs_add_file = kit.ipfs_add_file

            def ipfs_cat(self, cid):
                return b"something else"

        bench = self.benchmark(kit=Less(self.kit), iterations=3)
        with self.assertLogs("sonde.kit_benchmark", "WARNING"):
            results = bench.benchmark_core_operations()
        self.assertEqual(results["skipped"], ["ipfs_pin_add", "ipfs_pin_ls", "ipfs_pin_rm"])
        self.assertEqual(results["cat"]["small"]["errors"], 3)
        self.assertIn("WrongContent", results["cat"]["small"]["first_error"])
        with self.assertLogs("sonde.kit_benchmark", "WARNING"):
            every = bench.run_all_benchmarks()
        self.assertIn("get_filesystem", every["benchmarks"]["caching"]["error"])

    def test_caching(self):
        results = self.benchmark(iterations=4, warmup=1).benchmark_caching()
        for name in FILE_BYTES:
            self.assertEqual(results[name]["first"]["count"], 1)
            self.assertEqual(results[name]["again"]["count"], 4)
            self.assertEqual(results[name]["again"]["max"], 0.0)  # memory takes no time of this clock
        cache = results["cache"]
        reads = 3 * (1 + 1 + 4) + 3 * 3 * 4
        self.assertEqual((cache["total"], cache["misses"]), (reads, 3))
        self.assertEqual(results["patterns"]["sequential"]["cache"]["misses"], 0)

    def test_fsspec_operations(self):
        results = self.benchmark(iterations=3).benchmark_fsspec_operations()
        for method in ("cat", "info", "ls", "open"):
            self.assertEqual({n: f["count"] for n, f in results[method].items()},
                             dict.fromkeys(FILE_BYTES, 3))

    def test_parallel_operations(self):
        bench = self.benchmark(parallelism=3, iterations=2, warmup=1)
        found = bench.benchmark_parallel_operations()["parallel_cat"]
        self.assertEqual(list(found), [1, 2, 3])
        for workers, figures in found.items():
            self.assertEqual((figures["count"], figures["errors"]), (3 * 2 * workers, 0))
        # One at a time: the time that the kit took is all there is.
        took = self.kit.took["cat"][3:9]
        assert_figures(self, found[1], took)
        self.assertAlmostEqual(found[1]["requests_per_second"], 6 / sum(took))
        self.assertEqual(len(self.kit.took["cat"]), 3 * (3 + 2 * (1 + 2 + 3)))

    def test_results_are_saved(self):
        bench = self.benchmark(iterations=1, warmup=0)
        bench.run_all_benchmarks()
        path = bench.save_results("results.json")
        self.assertEqual(path, os.path.join(self.folder, "results.json"))
        with open(path, encoding="utf-8") as source:
            saved = json.load(source, parse_constant=self.fail)
        self.assertEqual(set(saved["benchmarks"]), {"core_operations", "caching",
                                                    "fsspec_operations", "parallel_operations"})
        self.assertEqual(saved["analysis"]["operations"]["core_add_large"]["count"], 1)
        self.assertEqual(saved["role"], "leecher")

    def test_bad_options_are_named(self):
        for options, word in (({"role": "boss"}, "boss"), ({"iterations": 0}, "iterations"),
                              ({"warmup": -1}, "warmup"), ({"parallelism": True}, "parallelism")):
            with self.assertRaisesRegex(ValueError, word):
                self.benchmark(**options)

    def test_answers_of_kits(self):
        self.assertEqual((cid_of({"Hash": "Qm"}), cid_of("Qm")), ("Qm", "Qm"))
        self.assertEqual((bytes_of({"data": "é"}), bytes_of(bytearray(b"a"))), ("é".encode(), b"a"))
        for call in (lambda: cid_of({"success": False}), lambda: bytes_of(None)):
            with self.assertRaises(ValueError):
                call()


class Patterns(Timed):
    def test_what_is_read(self):
        names = [f"n{i}" for i in range(10)]
        self.assertEqual(list(access_order(names, "sequential", 2)), names * 2)
        for pattern in ("random", "repeated"):
            order = list(access_order(names, pattern, 50))
            self.assertEqual(len(order), 500)
            self.assertEqual(order, list(access_order(names, pattern, 50)))
        self.assertGreater(sum(order.count(n) for n in names[:2]), 350)

    def test_figures(self):
        fs = ipfs_kit.ipfs_kit(kit=self.kit).get_filesystem(enable_metrics=True)
        cids = [self.kit.add(bytes([n]) * 100) for n in range(4)]
        found = fsspec_benchmark.run_access_pattern_benchmark(fs, cids, "sequential", iterations=3)
        self.assertEqual((found["count"], found["bytes"]), (12, 1200))
        self.assertAlmostEqual(found["sum"], sum(self.kit.took["cat"]))
        self.assertEqual(found["cache"], {"total": 12, "memory_hits": fs.served["memory"],
                                          "disk_hits": fs.served["disk"],
                                          "misses": fs.served["miss"]})
        self.assertEqual(fs.served["miss"], 4)
        for call in ((fs, cids, "sideways"), (fs, [], "random"), (fs, cids, "random", 0)):
            with self.assertRaises(ValueError):
                fsspec_benchmark.run_access_pattern_benchmark(*call)


class Daemon(http.server.BaseHTTPRequestHandler):
    """The part of Kubo's RPC interface that is used; its answers are those of its documentation."""

    store, pins = {}, set()

    def do_POST(self):
        url = urllib.parse.urlsplit(self.path)
        given = dict(urllib.parse.parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        command = url.path.removeprefix("/api/v0/")
        try:
            answer = getattr(self, "on_" + command.replace("/", "_"))(given, body)
            self.reply(200, answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        except KeyError as missing:
            self.reply(500, json.dumps({"Message": f"not found: {missing}", "Code": 0,
                                        "Type": "error"}).encode())

    def reply(self, status, data):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass

    def on_version(self, given, body):
        return {"Version": "0.0.0"}

    def on_add(self, given, body):
        boundary = re.search(r"boundary=(\w+)", self.headers["Content-Type"])[1].encode()
        part = body.split(b"--" + boundary)[1]
        content = part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
        cid = f"Qm{len(self.store)}"
        self.store[cid] = content
        return {"Name": "file", "Hash": cid, "Size": str(len(content))}

    def on_cat(self, given, body):
        return self.store[given["arg"]]

    def on_pin_add(self, given, body):
        self.pins.add(given["arg"])
        return {"Pins": [given["arg"]]}

    def on_pin_rm(self, given, body):
        self.pins.remove(given["arg"])
        return {"Pins": [given["arg"]]}

    def on_pin_ls(self, given, body):
        return {"Keys": {cid: {"Type": given["type"]} for cid in self.pins}}

    def on_files_stat(self, given, body):
        content = self.store[given["arg"].removeprefix("/ipfs/")]
        return {"Hash": given["arg"], "Size": len(content), "Type": "file"}

    def on_ls(self, given, body):
        return {"Objects": [{"Hash": given["arg"], "Links": [
            {"Name": "a", "Hash": given["arg"], "Size": len(self.store[given["arg"]])}]}]}


class OverHttp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Daemon)
        cls.port = cls.server.server_address[1]
        cls.thread = threading.Thread(target=cls.server.serve_forever, kwargs={"poll_interval": 0.01})
        cls.thread.start()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.thread.join()
        cls.server.server_close()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_content_is_the_same(self):
        kit = ipfs_kit.ipfs_kit(daemon_port=self.port)
        for content in (b"", b"--\r\n\r\n--", os.urandom(100_000)):
            path = os.path.join(self.folder, 'a "file"\n')
            with open(path, "wb") as out:
                out.write(content)
            cid = kit.ipfs_add_file(path)["cid"]
            self.assertEqual(kit.ipfs_cat(cid), content)
            fs = kit.get_filesystem()
            self.assertEqual(fs.info(cid)["size"], len(content))
            with fs.open(cid) as opened:
                self.assertEqual(opened.read(), content)
            self.assertEqual(fs.ls(cid)[0]["cid"], cid)
        with self.assertRaisesRegex(KuboError, "not found: 'Qmissing'"):
            kit.ipfs_cat("Qmissing")

    def run_program(self, *options):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
            [*filter(None, [os.environ.get("PYTHONPATH")]), sonde.compat.directory(),
             os.path.dirname(os.path.abspath(__file__))])}
        return subprocess.run([sys.executable, "-m", "ipfs_kit_py.benchmark", "--metrics-dir",
                               self.folder, *options], env=environment, check=False,
                              capture_output=True, text=True)

    def test_program(self):
        done = self.run_program("--daemon-port", str(self.port), "--role", "worker", "--parallelism",
                                "2", "--iterations", "2", "--warmup", "0")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("core_add_small", done.stdout)
        path = done.stdout.rsplit("results: ", 1)[1].strip()
        with open(path, encoding="utf-8") as source:
            saved = json.load(source)
        self.assertEqual(saved["benchmarks"]["core_operations"]["cat"]["large"]["errors"], 0)
        self.assertEqual(list(saved["benchmarks"]["parallel_operations"]["parallel_cat"]), ["1", "2"])
        self.assertEqual((saved["role"], saved["iterations"]), ("worker", 2))

    def test_a_file_system(self):
        store = os.path.join(self.folder, "store")
        done = self.run_program("--filesystem", f"file:{store}", "--iterations", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(done.stdout.rsplit("results: ", 1)[1].strip(), encoding="utf-8") as source:
            saved = json.load(source)["benchmarks"]
        self.assertEqual(saved["core_operations"]["skipped"],
                         ["ipfs_pin_add", "ipfs_pin_ls", "ipfs_pin_rm"])
        for part in (saved["core_operations"]["cat"], saved["fsspec_operations"]["open"]):
            self.assertEqual({n: (f["count"], f["errors"]) for n, f in part.items()},
                             dict.fromkeys(FILE_BYTES, (2, 0)))
        self.assertEqual(os.listdir(store), [])

    def test_one_benchmark(self):
        done = self.run_program("--daemon-port", str(self.port), "--benchmark", "caching",
                                "--iterations", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cache_first_small", done.stdout)
        self.assertNotIn("core_add", done.stdout)

    def test_what_is_wrong_is_named(self):
        with http.server.HTTPServer(("127.0.0.1", 0), Daemon) as closed:
            port = str(closed.server_address[1])
        for options, words in ((("--daemon-port", port), "no IPFS daemon answers"),
                               (("--iterations", "0"), "'0' is not a number"),
                               (("--role", "boss"), "boss"), (("--kit", "nowhere:make"), "nowhere"),
                               (("--kit", "json"), "'json'"),
                               (("--filesystem", "file"), "PROTOCOL:FOLDER"),
                               (("--filesystem", "nowhere:/x"), "nowhere"),
                               (("--filesystem", "file:/proc/nowhere/x"), "/proc/nowhere"),
                               (("--benchmark", "all of it"), "all of it")):
            done = self.run_program(*options)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)

    def test_options_are_those_documented(self):
        text = self.run_program("--help").stdout
        for option in ("--metrics-dir", "--role", "--daemon-port", "--parallelism", "--iterations",
                       "--warmup", "--benchmark"):
            self.assertIn(option, text)
        self.assertIn("{all,core,caching,fsspec,parallel}", text)


class FileSystems(unittest.TestCase):
    def test_cached(self):
        """A cache of fsspec's before a slower file system: what is read twice is a hit."""
        import fsspec
        with tempfile.TemporaryDirectory() as folder:
            target = fsspec.filesystem("memory")
            kit = FileSystemKit(target, "/compat-bench")
            names = []
            for number in range(5):
                path = os.path.join(folder, "file")
                with open(path, "wb") as out:
                    out.write(bytes([number]) * 1000)
                names.append(kit.ipfs_add_file(path)["cid"])
            fs = sonde.wrap_fs(fsspec.filesystem("filecache", fs=target,
                                                 cache_storage=os.path.join(folder, "cache")))
            found = fsspec_benchmark.run_access_pattern_benchmark(fs, names, "sequential", 3)
            self.assertEqual((found["count"], found["bytes"]), (15, 15000))
            self.assertEqual((found["cache"]["misses"], found["cache"]["disk_hits"]), (5, 10))
            kit.remove()
            self.assertEqual(target.ls("/compat-bench"), [])

    def test_what_is_none(self):
        with self.assertRaisesRegex(TypeError, "object cannot be measured: it has no pipe"):
            FileSystemKit(object(), "/x")


class Factory(unittest.TestCase):
    def test_use(self):
        made = []

        def make(**options):
            made.append(options)
            return Kit(Clock())

        ipfs_kit.use(make)
        self.addCleanup(ipfs_kit.use, None)
        self.assertIsInstance(ipfs_kit.ipfs_kit(role="worker").kit, Kit)
        self.assertEqual(made, [{"role": "worker"}])
        ipfs_kit.use(None)
        self.assertIsInstance(ipfs_kit.ipfs_kit().kit, Kubo)
        self.assertFalse(hasattr(ipfs_kit.ipfs_kit(), "ipfs_teleport"))
        self.assertTrue(inspect.isclass(ipfs_kit.ipfs_kit))


if __name__ == "__main__":
    unittest.main()

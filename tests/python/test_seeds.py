"""The examples of two documents about measuring programs in Python, run as they stand there.

    SONDE_SEEDS=FOLDER tests/python/test_seeds.py

FOLDER holds them as 002*.txt and 003*.txt; without it nothing is tested. Blocks run in order, in one
namespace a document. What they use but do not make is put there first: a kit, a model's memory, a
clock that only the kit moves, so that times are known exactly. Every block has a check of the figures
it promises; a block without one fails."""

import ast
import contextlib
import csv
import glob
import io
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
import types
import unittest
import uuid
from unittest import mock

import sonde
import sonde.compat
from sonde.aiml import MIB

import stand_ins
from figures import assert_conforms, assert_figures, recorded, truth
from seed_blocks import blocks_of

SEEDS = os.environ.get("SONDE_SEEDS")


def document(number):
    path, = glob.glob(os.path.join(SEEDS, f"{number}*.txt"))
    with open(path, encoding="utf-8") as source:
        return blocks_of(source.read())


def slug(heading):
    return re.sub(r"[^a-z0-9]+", "_", heading.lower()).strip("_")


@unittest.skipUnless(SEEDS, "SONDE_SEEDS is not set: the documents are not part of the repository")
class Document(unittest.TestCase):
    """Runs the blocks; a subclass has before_NAME_N (may) and after_NAME_N (must) for each, with N
    counting the blocks of a heading."""

    number = None

    def setUp(self):
        if self.number is None:
            self.skipTest("a base class")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.set_environment(HOME=folder.name)
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            self.set_environment(**{name: ""})
        sonde.compat.install()
        self.names = {"__name__": "example"}

    def set_environment(self, **variables):
        patch = mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)

    def run_blocks(self):
        counts = {}
        for heading, code in document(self.number):
            name = slug(heading)
            counts[name] = counts.get(name, 0) + 1
            step = f"{name}_{counts[name]}"
            getattr(self, f"before_{step}", lambda: None)()
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(code, f"{self.number} {heading} {counts[name]}", "exec"), self.names)
            check = getattr(self, f"after_{step}", None)
            self.assertIsNotNone(check, f"no check of block {step}")
            check(out.getvalue())
        return counts


class Metrics(Document):
    number = "002"

    def test_blocks(self):
        self.names["time"] = time
        self.assertEqual(sum(self.run_blocks().values()), 5)

    def after_example_usage_1(self, said):
        self.assertEqual(self.names["my_function"](), "result")
        self.names["resource_intensive_function"]()
        for name, least in (("my_operation", 0.1), ("critical_section", 0.05)):
            series = recorded("sonde_operation_duration_seconds", operation=name)
            self.assertEqual((series["count"], series["labels"]["outcome"]), (1, "ok"))
            self.assertGreaterEqual(series["sum"], least)
        self.assertEqual(recorded("sonde_resource_wall_seconds",
                                  scope="resource_intensive_func")["count"], 1)
        self.assertEqual(recorded("sonde_resource_cpu_seconds",
                                  scope="resource_intensive_func")["count"], 1)

    def after_example_usage_2(self, said):
        stats = self.names["stats"]
        assert_figures(self, stats, [85.0])
        self.assertEqual((stats["type"], stats["sources"]), ("percentage", ["system_monitor"]))
        self.assertEqual(recorded("cpu_usage", source="system_monitor")["value"], 85.0)
        self.assertEqual(recorded("database_query_time_seconds", source="database")["sum"], 0.025)
        self.assertEqual(recorded("api_requests_total", source="api_handler")["value"], 1)
        for words in ("Total metrics collected: 3", "Time range: ", "Top metrics by average value",
                      "cpu_usage (percentage): avg 85, count 1", "Recent metrics",
                      "api_requests = 1 (counter, from api_handler)", "my_operation"):
            self.assertIn(words, said)
        with open("metrics.json", encoding="utf-8") as source:
            found = {m["name"]: m["value"] for m in json.load(source)["metrics"]}
        want = {"cpu_usage": 85.0, "database_query_time": 0.025, "api_requests": 1.0}
        self.assertEqual(found, want)
        with open("metrics.csv", encoding="utf-8", newline="") as source:
            self.assertEqual({r["name"]: float(r["value"]) for r in csv.DictReader(source)}, want)
        from prometheus_client.parser import text_string_to_metric_families
        with open("metrics.prom", encoding="utf-8") as source:
            samples = {s.name: s.value for f in text_string_to_metric_families(source.read())
                       for s in f.samples if "quantile" not in s.labels}
        self.assertEqual(samples, {"cpu_usage": 85.0, "database_query_time_seconds_sum": 0.025,
                                   "database_query_time_seconds_count": 1.0,
                                   "api_requests_total": 1.0})

    def before_memory_pooling_system_1(self):
        module = types.ModuleType("advanced_memory_pooling_system")
        module.AdvancedMemoryPoolingSystem = stand_ins.AdvancedMemoryPoolingSystem
        module.TensorType = stand_ins.TensorType
        patch = mock.patch.dict(sys.modules, {module.__name__: module})
        patch.start()
        self.addCleanup(patch.stop)

    def after_memory_pooling_system_1(self, said):
        found = ast.literal_eval(said)
        self.assertEqual(found["memory_pool_allocations"]["sum"], 1)
        self.assertEqual(found["memory_pool_bytes"]["latest"], 1 << 20)
        self.assertEqual(found["memory_pool_allocate_time"]["count"], 1)
        self.assertEqual(len(self.names["block"]), 1 << 20)
        self.assertEqual(recorded("sonde_memory_pool_bytes", pool="kv_cache")["value"], 1 << 20)

    def before_filtering_metrics_1(self):
        from centralized_metrics_collector import Metric
        self.names["metrics_list"] = [
            Metric("cpu_time", 1.0, "time", "system_a"), Metric("cpu_time", 2.0, "time", "elsewhere"),
            Metric("cpu_load", 3.0, "ratio", "system_a"), Metric("disk_time", 4.0, "time", "system_a"),
            Metric("cpu_wait", 5.0, "time", "system_b")]

    def after_filtering_metrics_1(self, said):
        self.assertEqual([m.value for m in self.names["filtered_metrics"]], [1.0, 5.0])

    def after_custom_aggregation_1(self, said):
        assert_figures(self, self.names["stats"], [42.0])
        aggregator = self.names["aggregator"]
        for value in range(1500):
            aggregator.add_metric("my_metric", value)
        assert_figures(self, aggregator.get_stats("my_metric"), list(range(500, 1500)))


class Guide(Document):
    number = "003"

    def test_blocks(self):
        from ipfs_kit_py import ipfs_kit
        self.clock = stand_ins.Clock()
        for module in ("performance", "profiling", "analysis", "kit_benchmark", "access_patterns"):
            patch = mock.patch(f"sonde.{module}.time", self.clock)
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch("sonde.aiml.time", stand_ins.TickingClock(self.clock))
        patch.start()
        self.addCleanup(patch.stop)
        self.kit = stand_ins.Kit(self.clock)
        ipfs_kit.use(lambda **options: self.kit)
        self.addCleanup(ipfs_kit.use, None)
        with open("file", "wb") as out:
            out.write(bytes(5000))
        self.names.update(time=self.clock, os=os, uuid=uuid, kit=ipfs_kit.ipfs_kit(), path="file",
                          logger=logging.getLogger("example"))
        self.assertEqual(sum(self.run_blocks().values()), 22)

    # ---- The API ---------------------------------------------------------------------------------

    def after_initialization_1(self, said):
        self.metrics = self.names["metrics"]
        self.began = self.clock.perf_counter()
        self.addCleanup(self.metrics.close)
        self.assertEqual(self.metrics.max_history, 1000)
        self.assertEqual(self.metrics.log.folder, os.path.join(os.environ["HOME"], "metrics"))

    def after_context_managers_1(self, said):
        record = self.metrics.get_operations()[-1]
        self.assertEqual((record["operation"], record["file_size"], record["successful"]),
                         ("add_file", 5000, True))
        self.assertAlmostEqual(record["duration"], self.kit.took["add"][-1])
        span = [s for s in sonde.spans() if s["name"] == "add_file"][-1]
        self.assertEqual(span["attributes"]["file_size"], 5000)

    def after_context_managers_2(self, said):
        self.assertEqual(self.metrics.get_operation_stats("complex_operation")["count"], 1)
        with self.assertRaises(OSError):
            with self.names["ProfilingContext"](self.metrics, "complex_operation"):
                raise OSError("recorded")
        self.assertEqual(self.metrics.get_error_stats()["by_type"], {"OSError": 1})

    def after_decorators_1(self, said):
        self.assertIs(self.names["process_large_file"]("file"), self.names["result"])
        self.assertEqual(self.metrics.get_operation_stats("add_large_file")["count"], 1)

    def after_manual_tracking_1(self, said):
        self.assertEqual(self.metrics.get_operation_stats("add_file")["count"], 2)
        self.assertEqual(self.metrics.get_bandwidth_stats()["sources"],
                         {"add_file": {"in": 0, "out": 5000}})
        cache = self.metrics.get_cache_stats()
        self.assertEqual((cache["tiers"]["memory"]["hits"], cache["misses"], cache["total"]),
                         (1, 1, 2))
        self.assertEqual(recorded("sonde_bandwidth_bytes_total", direction="out",
                                  source="add_file")["value"], 5000)

    def after_correlation_tracking_1(self, said):
        correlation_id = self.names["correlation_id"]
        self.assertEqual([r["operation"] for r in self.names["operations"]],
                         ["operation1", "operation2"])
        self.assertEqual({r["correlation_id"] for r in self.names["operations"]}, {correlation_id})
        traces = {s["trace_id"] for s in sonde.spans() if s["name"] in ("operation1", "operation2")}
        self.assertEqual(traces, {correlation_id.replace("-", "")})
        with self.metrics.track_operation("operation3"):
            pass  # by the default that was set
        self.assertEqual(len(self.metrics.get_correlated_operations(correlation_id)), 3)

    def after_metrics_analysis_1(self, said):
        lines = dict(line.split(": ", 1) for line in said.splitlines())
        of = truth(self.kit.took["add"])
        self.assertEqual(lines["Average latency"], f"{of['avg']:.3f}s")
        self.assertEqual(lines["95th percentile"], f"{of['p95']:.3f}s")
        seconds = self.clock.perf_counter() - self.began
        operations = 2 + 2 + 1 + 3  # add_file, complex_operation, add_large_file, correlated
        self.assertEqual(lines["Operations/second"], f"{operations / seconds:.2f}")
        self.assertEqual(lines["Bandwidth"], f"{5000 / seconds / 1024:.2f} KB/s")
        self.assertEqual(lines["Total errors"], "1")
        system = self.names["system"]
        self.assertEqual(lines["CPU usage"], f"{system['cpu']['percent']:.1f}%")
        with open("/proc/meminfo", encoding="ascii") as source:
            self.assertEqual(system["memory"]["total_bytes"], int(source.readline().split()[1]) * 1024)
        self.assertEqual(lines["Memory usage"], f"{system['memory']['percent']:.1f}%")

    def after_metrics_analysis_2(self, said):
        lines = said.splitlines()
        self.assertEqual(lines[:2], ["Slowest operation: add_file", "Cache efficiency: fair"])
        advice = self.names["analysis"]["recommendations"]
        self.assertEqual(len(lines), 2 + 2 * len(advice))
        self.assertIn("INFO: Operation add_file takes most of the time", lines)

    def after_report_generation_1(self, said):
        self.assertTrue(said.startswith("Performance report\n"))
        self.assertRegex(said, r"(?m)^add_file +2 +0 ")
        with open("performance_report.md", encoding="utf-8") as source:
            self.assertRegex(source.read(), r"(?m)^\| add\\_file \| 2 \| 0 \|")
        with open("performance_report.json", encoding="utf-8") as source:
            found = json.load(source)
        assert_conforms(found, "report.schema.json")
        added, = (o for o in found["operations"] if o["operation"] == "add_file")
        self.assertAlmostEqual(added["mean_s"], truth(self.kit.took["add"])["avg"], places=6)

    # ---- Benchmarks ------------------------------------------------------------------------------

    def before_using_the_benchmark_module_1(self):
        self.kit.took.clear()

    def after_using_the_benchmark_module_1(self, said):
        names = self.names
        # 1 + 5 adds of the first file, then one for its id.
        assert_figures(self, names["core_results"]["add"]["small"], self.kit.took["add"][1:6])
        assert_figures(self, names["core_results"]["cat"]["small"], self.kit.took["cat"][1:6])
        self.assertEqual(names["cache_results"]["cache"]["misses"], 3)
        self.assertEqual(names["fsspec_results"]["cat"]["large"]["count"], 5)
        self.assertEqual(list(names["parallel_results"]["parallel_cat"]), [1, 2])
        self.assertEqual(names["all_results"]["benchmarks"]["core_operations"]["add"]["small"]["count"],
                         5)
        path = os.path.join(os.environ["HOME"], "benchmark_results", "benchmark_results.json")
        with open(path, encoding="utf-8") as source:
            saved = json.load(source)
        self.assertEqual((saved["role"], saved["iterations"], saved["warmup"]), ("leecher", 5, 1))
        self.assertEqual(len(saved["benchmarks"]), 4)

    def after_custom_benchmarks_1(self, said):
        custom = self.names["CustomBenchmark"]()
        results = custom.benchmark_custom_operation()
        self.assertEqual({n: r["size"] for n, r in results.items()},
                         {"small": 1 << 10, "medium": 64 << 10, "large": 1 << 20})
        self.assertIs(custom.results["benchmarks"]["custom_operation"], results)
        assert_figures(self, custom.metrics.get_operation_stats("custom_op_small"),
                       self.kit.took["some_operation"][:1])
        self.assertFalse(os.path.exists(results["small"]["result"]["path"]))

    # ---- File systems ----------------------------------------------------------------------------

    def before_enabling_metrics_1(self):
        self.kit.store["QmExampleCID"] = b"example"

    def after_enabling_metrics_1(self, said):
        self.assertEqual(self.names["content"], b"example")
        found = self.names["metrics"]
        self.assertEqual((found["cache"]["total"], found["cache"]["misses"]), (1, 1))
        self.assertEqual(found["operations"]["cat"]["count"], 1)
        self.assertEqual(found["bandwidth"]["bytes_in"], 7)

    def before_access_patterns_1(self):
        from fsspec_benchmark import run_access_pattern_benchmark
        self.names["run_access_pattern_benchmark"] = run_access_pattern_benchmark
        self.names["cids"] = [self.kit.add(bytes([n]) * 50) for n in range(6)]

    def after_access_patterns_1(self, said):
        found = [self.names[f"{p}_metrics"] for p in ("sequential", "random", "repeated")]
        for figures in found:
            self.assertEqual((figures["count"], figures["bytes"]), (30, 1500))
        served = self.names["fs"].served
        for key, tier in (("memory_hits", "memory"), ("disk_hits", "disk")):
            self.assertEqual(sum(f["cache"][key] for f in found), served[tier])
        self.assertEqual(sum(f["cache"]["misses"] for f in found), 6)
        # Six in turn never find themselves among the last two; a hot spot does.
        self.assertEqual(found[0]["cache"]["memory_hits"], 0)
        self.assertGreater(found[2]["cache"]["memory_hits"], 12)

    def after_cache_analysis_1(self, said):
        served = self.names["fs"].served
        total = sum(served.values())
        hits = served["memory"] + served["disk"]
        for line in (f"Total accesses: {total}",
                     f"Memory hits: {served['memory']} ({served['memory'] / total:.2%})",
                     f"Disk hits: {served['disk']} ({served['disk'] / total:.2%})",
                     f"Misses: {served['miss']} ({served['miss'] / total:.2%})",
                     f"Overall hit rate: {hits / total:.2%}"):
            self.assertIn(line, said.splitlines())
        self.assertEqual(total, 91)
        self.assertIn("Tier memory: 100.00% hit rate", said)

    # ---- Machine learning ------------------------------------------------------------------------

    def before_training_metrics_visualization_1(self):
        program = os.path.join(os.environ.get("SONDE_BUILD", "/nowhere"), "sonde")
        self.real = os.path.exists(program) and not subprocess.run(
            [program, "plot", "--list"], capture_output=True, check=False).returncode
        self.set_environment(
            SONDE_BINARY=program if self.real else stand_ins.plot_of(os.environ["HOME"]))

    def shown(self, said, *words):
        """The picture that was shown; it has these texts."""
        path = re.fullmatch(r"plot: (.+)\n", said)[1]
        with open(path, encoding="utf-8") as picture:
            text = picture.read()
        os.unlink(path)
        if self.real:
            self.assertIn("<svg", text)
        for word in words:
            self.assertIn(word, text)

    def after_training_metrics_visualization_1(self, said):
        training = self.names["metrics"].get_training_metrics("my_model")
        self.assertEqual(training, {"epochs": [0], "train_loss": [1.5], "val_loss": [1.7],
                                    "train_acc": [0.6], "val_acc": [0.55],
                                    "seconds": [stand_ins.TickingClock.tick], "num_samples": [1000]})
        self.assertEqual(recorded("sonde_ml_samples_total", model="my_model")["value"], 1000)
        span = [s for s in sonde.spans() if s["name"] == "ml.epoch"][-1]["attributes"]
        self.assertEqual((span["model"], span["epoch"], span["train_loss"], span["val_acc"]),
                         ("my_model", 0, 1.5, 0.55))
        self.shown(said, "train_loss", "val_acc")

    def after_inference_performance_analysis_1(self, said):
        found = self.names["metrics"].get_inference_metrics("my_model")
        self.assertEqual(list(found), [1, 2, 4, 8, 16])
        for batch_size, figures in found.items():
            assert_figures(self, figures, [stand_ins.TickingClock.tick])
            self.assertEqual(figures["items_per_second"], batch_size / stand_ins.TickingClock.tick)
            self.assertEqual(figures["values"]["memory_mb"]["max"], 1200)
        self.assertEqual(recorded("sonde_ml_inference_items_total", model="my_model")["value"], 31)
        self.shown(said, "my_model")

    def after_worker_utilization_visualization_1(self, said):
        found = self.names["metrics"].get_worker_metrics()
        self.assertEqual(list(found), ["worker-1", "worker-2", "worker-3"])
        for worker, values in found.items():
            self.assertEqual({n: p[-1][1] for n, p in values.items()},
                             {"utilization": 0.75, "memory_mb": 2500, "active_tasks": 5})
            self.assertEqual(recorded("sonde_ml_worker_memory_bytes", worker=worker)["value"],
                             2500 * MIB)
        self.shown(said, "worker-1", "worker-3")

    def after_comprehensive_dashboards_1(self, said):
        self.shown(said, "my_model", "worker-2")
        with open(self.names["report_path"], encoding="utf-8") as source:
            page = source.read()
        self.assertEqual(page.count("<img "), 3)
        self.assertIn("<td>my_model/epoch</td>", page)
        files = self.names["exported_files"]
        self.assertEqual(set(files), {"training_metrics", "inference_latency", "worker_utilization",
                                      "comprehensive_dashboard"})
        self.assertEqual(sorted(os.listdir("visualization_exports")),
                         sorted(f"{name}.{suffix}" for name in files
                                for suffix in ("png", "svg", "html", "json")))
        with open("visualization_exports/training_metrics.json", encoding="utf-8") as source:
            series = {s["name"]: s["y"] for s in json.load(source)["series"]}
        self.assertEqual((series["train_loss"], series["val_acc"]), ([1.5], [0.55]))

    # ---- Optimization ----------------------------------------------------------------------------

    def after_identifying_bottlenecks_1(self, said):
        lines = said.splitlines()
        self.assertEqual(lines[0], "Bottleneck identified: my_model/epoch - 0.250s")
        system = self.names["system"]
        said_of = {"CPU": "cpu", "Memory": "memory", "Disk": "disk"}
        for word, key in said_of.items():
            self.assertEqual(any(line.startswith(word) for line in lines[1:]),
                             system[f"{key}_percent"] > 80)

    def after_optimizing_caching_1(self, said):
        fs = self.names["fs"]
        self.assertEqual(fs.cache_config["memory_cache_size"], 500 << 20)
        self.assertTrue(fs.use_mmap)

    def before_scaling_with_parallelism_1(self):
        self.names["cids_to_retrieve"] = [*self.names["cids"], "QmMissing"]
        self.kit.took.clear()

    def after_scaling_with_parallelism_1(self, said):
        self.assertEqual(said, "Error retrieving QmMissing: 'QmMissing'\n")
        self.assertEqual(len(self.kit.took["cat"]), 7)

    def before_scaling_with_parallelism_2(self):
        self.kit.took.clear()

    def after_scaling_with_parallelism_2(self, said):
        took = self.kit.took["cat"][3:3 + 15]  # behind the warm-up of one worker
        self.assertEqual(said.splitlines()[:3], [
            "Workers: 1", f"  Requests per second: {15 / sum(took):.2f}",
            f"  Average latency: {truth(took)['avg']:.3f}s"])
        self.assertIn("Workers: 2", said)


if __name__ == "__main__":
    unittest.main()

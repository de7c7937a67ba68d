"""sonde.performance: what is recorded, read, analyzed, reported and logged. Times are those of a
clock that the tests move, so figures are exact."""

import asyncio
import html.parser
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import uuid
from datetime import timedelta
from unittest import mock

import sonde
from sonde import analysis, collector, escape, metrics_log
from sonde.metrics_log import MetricsLog
from sonde.performance import PerformanceMetrics
from sonde.profiling import ProfilingContext, profile
from sonde.rate import Rate
from sonde.system import SystemUtilization, cpu_ticks, disk_figures, memory_figures, network_bytes

from figures import assert_conforms, assert_figures, recorded
from stand_ins import Clock

HOSTILE = "<script>alert('x')</script> a|b `c` \x1b[1m [l](javascript:x) \n\"q\""


class Timed(unittest.TestCase):
    """self.clock is the time of sonde's modules."""

    def setUp(self):
        self.clock = Clock()
        for module in ("performance", "profiling", "analysis"):
            patch = mock.patch(f"sonde.{module}.time", self.clock)
            patch.start()
            self.addCleanup(patch.stop)
        self.metrics = PerformanceMetrics(max_history=50)

    def take(self, operation, seconds, **options):
        with self.metrics.track_operation(operation, **options) as tracking:
            self.clock.sleep(seconds)
        return tracking


class Operations(Timed):
    def test_figures(self):
        values = [0.25, 0.5, 0.125, 1.0]
        for seconds in values[:2]:
            self.take("perf_op", seconds)
        self.metrics.record_operation_time("perf_op", values[2])
        with ProfilingContext(self.metrics, "perf_op") as context:
            self.clock.sleep(values[3])
        self.assertEqual(context.duration, 1.0)
        stats = self.metrics.get_operation_stats("perf_op")
        assert_figures(self, stats, values)
        self.assertEqual((stats["errors"], stats["error_rate"]), (0, 0))
        series = recorded("sonde_operation_duration_seconds", operation="perf_op", outcome="ok")
        self.assertEqual(series["count"], 4)

    def test_only_the_last_are_kept(self):
        for number in range(120):
            self.metrics.record_operation_time("perf_many", number)
        stats = self.metrics.get_operation_stats("perf_many")
        assert_figures(self, stats, list(range(70, 120)))
        self.assertEqual((stats["total_count"], stats["total_sum"]), (120, sum(range(120))))
        self.assertEqual(len(self.metrics.get_operations()), 50)

    def test_names_beyond_bounds(self):
        with mock.patch("sonde.window.NAMES_KEPT", 2):
            for number in range(4):
                self.metrics.record_operation_time(f"perf_{number}", 1, error_type=f"E{number % 3}")
                self.metrics.record_cache_access("hit", tier=f"tier {number}")
                self.metrics.record_bandwidth_usage("inbound", 1, source=f"source {number}")
        self.assertEqual(list(self.metrics.get_operation_stats()), ["perf_0", "perf_1"])
        self.assertEqual(self.metrics.get_cache_stats()["tiers"]["(other)"]["hits"], 2)
        self.assertEqual(self.metrics.get_bandwidth_stats()["sources"]["(other)"]["in"], 2)
        self.assertEqual(self.metrics.get_error_stats()["count"], 2)
        self.assertEqual(self.metrics.analyze_metrics()["summary"]["names_dropped"], 2)

    def test_unknown_operation(self):
        self.assertEqual(self.metrics.get_operation_stats("perf_none"),
                         {"operation": "perf_none", "count": 0})

    def test_custom_fields_are_kept_and_attributes(self):
        with self.metrics.track_operation("perf_fields", stage="one") as tracking:
            tracking["file_size"] = 1234
            tracking["names"] = ["a"]
            tracking["duration"] = "mine"
        record = self.metrics.get_operations()[-1]
        self.assertEqual((record["file_size"], record["stage"], record["names"]), (1234, "one", ["a"]))
        self.assertEqual(record["duration"], 0.0)
        self.assertEqual(record["fields"]["duration"], "mine")
        span = [s for s in sonde.spans() if s["name"] == "perf_fields"][-1]
        self.assertEqual((span["attributes"]["file_size"], span["attributes"]["stage"]),
                         (1234, "one"))

    def test_errors_are_counted_and_passed_on(self):
        for error in (ValueError("v"), KeyError("k"), ValueError("w")):
            with self.assertRaises(type(error)):
                with self.metrics.track_operation("perf_fails"):
                    raise error
        self.take("perf_fails", 1)
        errors = self.metrics.get_error_stats()
        self.assertEqual((errors["count"], errors["rate"]), (3, 0.75))
        self.assertEqual(errors["by_type"], {"ValueError": 2, "KeyError": 1})
        self.assertEqual(errors["by_operation"], {"perf_fails": 3})
        stats = self.metrics.get_operation_stats("perf_fails")
        self.assertEqual(stats["outcomes"], {"ok": 1, "error": 3})
        self.assertEqual(stats["error_types"], errors["by_type"])
        self.assertEqual([r["error"] for r in errors["recent"]], ["v", "'k'", "w"])
        self.assertEqual(recorded("sonde_operation_errors_total", operation="perf_fails",
                                  type="ValueError")["value"], 2)
        self.metrics.record_operation_time("perf_told", 1, error_type="Timeout")
        self.assertEqual(recorded("sonde_operation_errors_total", operation="perf_told",
                                  type="Timeout")["value"], 1)

    def test_outcomes_are_those_that_are_recorded(self):
        class Cancelled(Exception):
            pass
        for error, outcome in ((asyncio.CancelledError, "cancelled"), (Cancelled, "cancelled"),
                               (GeneratorExit, "cancelled"), (TimeoutError, "timeout"),
                               (OSError, "error")):
            name = f"perf_{error.__name__}"
            with self.assertRaises(error):
                with self.metrics.track_operation(name):
                    raise error
            self.assertEqual(self.metrics.get_operation_stats(name)["outcomes"], {outcome: 1})
            self.assertEqual(recorded("sonde_operation_duration_seconds",
                                      operation=name)["labels"]["outcome"], outcome)

    def test_types_of_errors_beyond_bounds(self):
        with mock.patch("sonde.performance.ERROR_TYPES_KEPT", 2):
            for number in range(4):
                self.metrics.record_operation_time("perf_odd", 1, error_type=f"E{number}")
        self.assertEqual(self.metrics.get_operation_stats("perf_odd")["error_types"],
                         {"E0": 1, "E1": 1, "(other)": 2})

    def test_bandwidth_and_throughput(self):
        self.clock.sleep(4)
        self.metrics.record_bandwidth_usage("outbound", 3000, source="perf_up")
        self.metrics.record_bandwidth_usage("inbound", 1000, source="perf_up")
        self.metrics.record_bandwidth_usage("inbound", 500)
        for _ in range(8):
            self.metrics.record_operation_time("perf_quick", 0)
        found = self.metrics.get_current_throughput()
        self.assertEqual(found, {"operations_per_second": 2.0, "bytes_per_second": 1125.0})
        stats = self.metrics.get_bandwidth_stats()
        self.assertEqual((stats["inbound_bytes"], stats["outbound_bytes"]), (1500, 3000))
        self.assertEqual(stats["sources"]["perf_up"], {"in": 1000, "out": 3000})
        self.assertEqual(recorded("sonde_bandwidth_bytes_total", direction="out",
                                  source="perf_up")["value"], 3000)
        for call in (("sideways", 1), ("inbound", -1)):
            with self.assertRaises(ValueError):
                self.metrics.record_bandwidth_usage(*call)

    def test_rate_forgets_after_a_minute(self):
        rate = Rate(100.0)
        for second in range(100, 200):
            rate.add(second + 0.5, second)
        # 141 … 200 are covered, and the last of them has just begun.
        self.assertEqual(rate.per_second(200.0), sum(range(141, 200)) / 59)
        self.assertEqual(rate.per_second(1000.0), 0.0)
        self.assertEqual(Rate(5.0).per_second(5.0), 0.0)

    def test_caches(self):
        for _ in range(3):
            self.metrics.record_cache_access("hit", tier="perf_memory")
        self.metrics.record_cache_access("miss", tier="perf_memory")
        self.metrics.record_cache_access("miss")
        stats = self.metrics.get_cache_stats()
        self.assertEqual((stats["total"], stats["hits"], stats["misses"]), (5, 3, 2))
        self.assertEqual(stats["hit_rate"], 0.6)
        self.assertEqual(stats["tiers"]["perf_memory"]["hit_rate"], 0.75)
        self.assertEqual(recorded("sonde_cache_accesses_total", tier="perf_memory",
                                  result="hit")["value"], 3)
        with self.assertRaisesRegex(ValueError, "memory_hit"):
            self.metrics.record_cache_access("memory_hit")

    def test_names_that_utf8_does_not_have(self):
        name = "perf_\udc80\0x"
        self.take(name, 1, file=name)
        self.metrics.record_operation_time(name, 1, error_type="E")
        self.metrics.record_bandwidth_usage("inbound", 1, source=name)
        self.metrics.record_cache_access("hit", tier=name)
        self.assertEqual(list(self.metrics.get_operation_stats()), ["perf_??x"])
        self.assertEqual(recorded("sonde_cache_accesses_total", tier="perf_??x")["value"], 1)
        for output_format in ("text", "markdown", "json", "html"):
            self.metrics.generate_report(output_format).encode()
        with self.assertRaisesRegex(TypeError, "a name is a str, not None"):
            self.metrics.track_operation(None)

    def test_switched_off(self):
        sonde.enable(False)
        try:
            self.take("perf_off", 1)
            self.metrics.record_cache_access("hit")
            self.metrics.record_bandwidth_usage("inbound", 1)
        finally:
            sonde.enable(True)
        self.assertEqual(self.metrics.get_operations(), [])
        self.assertEqual(self.metrics.get_cache_stats()["total"], 0)

    def test_bad_configuration_is_named(self):
        for options, word in (({"max_history": 0}, "max_history"),
                              ({"enable_logging": True}, "metrics_dir")):
            with self.assertRaisesRegex(ValueError, word):
                PerformanceMetrics(**options)
        with self.assertRaisesRegex(ValueError, "finite"):
            self.metrics.record_operation_time("perf_op", float("nan"))

    def test_threads_lose_nothing(self):
        def work():
            for _ in range(300):
                with self.metrics.track_operation("perf_threads"):
                    pass
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.metrics.get_operation_stats("perf_threads")["total_count"], 1800)
        self.assertEqual(recorded("sonde_operation_duration_seconds",
                                  operation="perf_threads")["count"], 1800)

    def test_a_child_begins_anew(self):
        self.take("perf_parent", 1)
        pid = os.fork()
        if not pid:
            wrong = len(self.metrics.get_operations())
            self.take("perf_child", 1)
            wrong += self.metrics.get_operation_stats("perf_child")["count"] != 1
            os._exit(wrong)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(list(self.metrics.get_operation_stats()), ["perf_parent"])


class Forks(unittest.TestCase):
    def test_while_others_record(self):
        metrics, over = PerformanceMetrics(), threading.Event()
        collector.get_metrics_collector()

        def work():
            while not over.is_set():
                with metrics.track_operation("perf_storm"):
                    collector.record_metric("perf_storm", 1.0)
                    metrics.get_operation_stats()

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(25):
                pid = os.fork()
                if not pid:
                    signal.alarm(60)  # a lock that nobody holds any more ends it
                    with metrics.track_operation("perf_child"):
                        collector.record_metric("perf_child", 1.0)
                    wrong = list(metrics.get_operation_stats()) != ["perf_child"]
                    wrong |= collector.get_metrics_collector().get_metric_names() != ["perf_child"]
                    os._exit(wrong)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def test_a_signal_handler_may_record(self):
        metrics, came = PerformanceMetrics(), []

        def handler(*_):
            metrics.record_operation_time("perf_signal", 1)
            collector.record_metric("perf_signal", 1.0)
            came.append(1)

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        try:
            while len(came) < 20:
                metrics.record_operation_time("perf_main", 1)
                collector.record_metric("perf_main", 1.0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertEqual(metrics.get_operation_stats("perf_signal")["total_count"], len(came))


def shape(value):
    """Its keys, all the way down; of a list those of its first row."""
    if isinstance(value, dict):
        return {key: shape(v) for key, v in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


class Recorded(unittest.TestCase):
    """What the program sonde makes of it, and the program's own report: the same."""

    program = os.path.join(os.environ.get("SONDE_BUILD", "/nowhere"), "sonde")
    code = textwrap.dedent("""\
        import sys, sonde
        sonde.open(name="told")
        metrics = sonde.PerformanceMetrics()
        for number in range(10):
            try:
                with metrics.track_operation("whole", size=number):
                    if number < 3:
                        raise KeyError(number)
            except KeyError:
                pass
            metrics.record_operation_time("told", 0.5)
            metrics.record_cache_access("hit" if number else "miss", tier="t")
            metrics.record_bandwidth_usage("inbound", 100, source="s")
        with open(sys.argv[1], "w", encoding="utf-8") as target:
            target.write(metrics.generate_report("json"))
        """)

    def test_report(self):
        if not os.path.exists(self.program):
            self.skipTest("no sonde: set SONDE_BUILD")
        with tempfile.TemporaryDirectory() as folder:
            run, path = os.path.join(folder, "run"), os.path.join(folder, "own.json")
            subprocess.run([self.program, "record", "-o", run, "--", sys.executable, "-c", self.code,
                            path], check=True, capture_output=True)
            said = subprocess.run([self.program, "report", "--json", run], check=True,
                                  capture_output=True)
            with open(path, encoding="utf-8") as source:
                own = json.load(source)
        report = json.loads(said.stdout)
        assert_conforms(report, "report.schema.json")
        assert_conforms(own, "report.schema.json")
        self.check(report)
        self.check(own)
        for key in ("operations", "operation_errors", "caches", "bandwidth", "summary"):
            if key == "summary":  # what only the other knows is null in one
                self.assertEqual(report[key].keys(), own[key].keys())
            else:
                self.assertEqual(shape(report[key]), shape(own[key]), key)

    def check(self, report):
        self.assertEqual({o["program"] for o in report["operations"]}, {"told"})
        self.assertEqual((report["summary"]["operations"], report["summary"]["errors"],
                          report["summary"]["error_ratio"]), (20, 3, 0.15))
        self.assertEqual(report["summary"]["cache_efficiency"], 0.9)
        self.assertEqual(report["summary"]["slowest_operation"]["operation"], "told")
        operations = {o["operation"]: o for o in report["operations"]}
        self.assertEqual((operations["whole"]["count"], operations["whole"]["errors"]), (10, 3))
        self.assertEqual(operations["whole"]["outcomes"], {"ok": 7, "error": 3})
        self.assertEqual(operations["told"]["count"], 10)
        self.assertAlmostEqual(operations["told"]["seconds"], 5.0, places=6)
        self.assertEqual([(e["operation"], e["type"], e["count"])
                          for e in report["operation_errors"]], [("whole", "KeyError", 3)])
        cache, = report["caches"]
        self.assertEqual((cache["tier"], cache["hits"], cache["misses"]), ("t", 9, 1))
        moved, = report["bandwidth"]
        self.assertEqual((moved["source"], moved["in_bytes"]), ("s", 1000))


class Correlation(Timed):
    def test_operations_and_pairs(self):
        one, two = str(uuid.uuid4()), "order 7"
        for correlation_id in (one, two):
            self.metrics.set_correlation_id(correlation_id)
            self.take("perf_a", 1)
            self.clock.sleep(0.5)
            self.take("perf_b", 2)
        self.metrics.set_correlation_id(None)
        self.take("perf_c", 1)
        self.take("perf_c", 1, correlation_id=two)
        names = [r["operation"] for r in self.metrics.get_correlated_operations(two)]
        self.assertEqual(names, ["perf_a", "perf_b", "perf_c"])
        self.assertEqual(len(self.metrics.get_correlated_operations(one)), 2)
        pairs = self.metrics.get_operation_pairs()
        self.assertEqual(pairs[0], {"first": "perf_a", "second": "perf_b", "count": 2,
                                    "avg_gap_seconds": 0.5})
        self.assertEqual((pairs[1]["first"], pairs[1]["second"]), ("perf_b", "perf_c"))

    def test_a_uuid_is_the_trace(self):
        correlation_id = str(uuid.uuid4())
        self.take("perf_traced", 0, correlation_id=correlation_id)
        self.take("perf_traced", 0, correlation_id=correlation_id)
        self.take("perf_apart", 0)
        spans = {}
        for span in sonde.spans():
            spans.setdefault(span["name"], []).append(span)
        self.assertEqual({s["trace_id"] for s in spans["perf_traced"]},
                         {correlation_id.replace("-", "")})
        self.assertEqual(len({s["parent_id"] for s in spans["perf_traced"]}), 1)
        self.assertNotEqual(spans["perf_apart"][-1]["trace_id"], correlation_id.replace("-", ""))

    def test_tasks_have_their_own(self):
        async def request(number):
            self.metrics.set_correlation_id(f"request {number}")
            await asyncio.sleep(0)
            with self.metrics.track_operation("perf_task"):
                await asyncio.sleep(0)

        async def main():
            await asyncio.gather(*(request(n) for n in range(20)))

        asyncio.run(main())
        for number in range(20):
            self.assertEqual(len(self.metrics.get_correlated_operations(f"request {number}")), 1)
        self.assertIsNone(self.metrics.get_correlation_id())


class Decorated(Timed):
    def stats(self, name):
        return self.metrics.get_operation_stats(name)

    def test_functions(self):
        @profile(self.metrics, name="perf_function")
        def work(a, b=2):
            """Adds."""
            self.clock.sleep(0.5)
            if b == 0:
                raise ZeroDivisionError("b")
            return a + b

        self.assertEqual((work(1), work(1, b=3)), (3, 4))
        with self.assertRaises(ZeroDivisionError):
            work(1, b=0)
        self.assertEqual((work.__name__, work.__doc__), ("work", "Adds."))
        stats = self.stats("perf_function")
        self.assertEqual((stats["count"], stats["avg"], stats["errors"]), (3, 0.5, 1))

    def test_its_own_name(self):
        @profile(self.metrics)
        def perf_named():
            pass
        perf_named()
        self.assertIn("perf_named", next(iter(self.metrics.get_operation_stats())))

    def test_coroutines(self):
        @profile(self.metrics, name="perf_coroutine")
        async def work(seconds):
            self.clock.sleep(seconds)
            await asyncio.sleep(0)
            return seconds
        self.assertEqual(asyncio.run(work(0.25)), 0.25)
        self.assertEqual(self.stats("perf_coroutine")["sum"], 0.25)

    def test_generators_count_their_own_time(self):
        @profile(self.metrics, name="perf_generator")
        def work():
            self.clock.sleep(1)
            got = yield 1
            self.clock.sleep(1)
            try:
                yield got
            except KeyError:
                yield "caught"
            return "end"

        items = work()
        self.assertEqual(next(items), 1)
        self.clock.sleep(100)  # the consumer's
        self.assertEqual(items.send("sent"), "sent")
        self.assertEqual(items.throw(KeyError("k")), "caught")
        with self.assertRaises(StopIteration) as end:
            next(items)
        self.assertEqual(end.exception.value, "end")
        self.assertEqual(self.stats("perf_generator")["sum"], 2)

    def test_generators_that_are_left_or_fail(self):
        closed = []

        @profile(self.metrics, name="perf_left")
        def work(fail):
            try:
                yield 1
                if fail:
                    raise OSError("late")
            finally:
                closed.append(fail)

        items = work(False)
        next(items)
        items.close()
        self.assertEqual(closed, [False])
        self.assertEqual(self.stats("perf_left")["errors"], 0)
        with self.assertRaises(OSError):
            list(work(True))
        self.assertEqual((self.stats("perf_left")["count"], self.stats("perf_left")["errors"]),
                         (2, 1))

    def test_async_generators(self):
        @profile(self.metrics, name="perf_async_generator")
        async def work():
            for number in range(3):
                self.clock.sleep(1)
                await asyncio.sleep(0)
                yield number

        async def consume():
            found = []
            async for item in work():
                self.clock.sleep(10)
                found.append(item)
            left = work()
            await left.__anext__()
            await left.aclose()
            return found

        self.assertEqual(asyncio.run(consume()), [0, 1, 2])
        stats = self.stats("perf_async_generator")
        self.assertEqual((stats["count"], stats["sum"], stats["errors"]), (2, 4, 0))


class System(unittest.TestCase):
    def test_texts_of_the_kernel(self):
        stat = "cpu  100 5 50 800 40 1 3 1 7 2\ncpu0 1 2 3 4\n"
        self.assertEqual(cpu_ticks(stat), (160, 1000))
        memory = memory_figures("MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable: 250 kB\n"
                                "SwapTotal: 100 kB\nSwapFree: 40 kB\nHugePages_Total: 0\n")
        self.assertEqual((memory["percent"], memory["used_bytes"], memory["swap_used_bytes"]),
                         (75.0, 750 * 1024, 60 * 1024))
        dev = ("Inter-|   Receive |  Transmit\n face |bytes packets\n"
               "    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n"
               "  eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n"
               "  eth1:10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n")
        self.assertEqual(network_bytes(dev), (110, 220))
        with self.assertRaises(ValueError):
            cpu_ticks("intr 5")

    def test_two_readings(self):
        texts = {"/proc/stat": "cpu  100 0 0 100 0 0 0 0\n",
                 "/proc/net/dev": "a\nb\n e: 1000 0 0 0 0 0 0 0 2000 0\n",
                 "/proc/meminfo": "MemTotal: 4 kB\nMemAvailable: 1 kB\n",
                 "/proc/self/status": "Name:\tx\nVmHWM:\t 9 kB\nVmRSS:\t 8 kB\nThreads:\t3\n"}
        clock = Clock()
        clock.process_time = lambda: clock.monotonic() / 4
        with mock.patch("sonde.system._read", texts.__getitem__), \
                mock.patch("sonde.system.time", clock):
            system = SystemUtilization()
            first = system.read()
            self.assertEqual((first["cpu"]["percent"], first["cpu"]["over"]), (50.0, "boot"))
            self.assertIsNone(first["process"]["cpu_ratio"])
            texts["/proc/stat"] = "cpu  130 0 0 110 0 0 0 0\n"
            texts["/proc/net/dev"] = "a\nb\n e: 3000 0 0 0 0 0 0 0 2500 0\n"
            clock.sleep(2)
            second = system.read()
            self.assertEqual((second["cpu"]["percent"], second["cpu"]["over"]), (75.0, "interval"))
            self.assertEqual((second["network"]["received_per_second"],
                              second["network"]["sent_per_second"]), (1000, 250))
            own = second["process"]
            self.assertEqual((own["cpu_ratio"], own["resident_bytes"], own["peak_resident_bytes"],
                              own["threads"]), (0.25, 8192, 9216, 3))
            clock.sleep(0.01)  # too short: the figure before is given again
            self.assertEqual(system.read()["cpu"]["percent"], 75.0)

    def test_this_machine(self):
        found = PerformanceMetrics().get_system_utilization()
        for key in ("cpu", "memory", "disk"):
            self.assertTrue(0 <= found[key]["percent"] <= 100, key)
        fs = os.statvfs("/")
        self.assertEqual(found["disk"]["total_bytes"], fs.f_blocks * fs.f_frsize)
        self.assertEqual(disk_figures("/")["path"], "/")
        self.assertEqual((found["process"]["pid"], found["process"]["open_files"]),
                         (os.getpid(), len(os.listdir("/proc/self/fd")) - 1))
        with open("/proc/meminfo", encoding="ascii") as source:
            self.assertEqual(found["memory"]["total_bytes"], int(source.readline().split()[1]) * 1024)


class Analysis(Timed):
    def setUp(self):
        super().setUp()
        self.load = {"cpu": 10.0, "memory": 20.0, "disk": 30.0}

    def analyze(self):
        read = {key: {"percent": p, "used_bytes": 1, "total_bytes": 2, "count": 2}
                for key, p in self.load.items()}
        with mock.patch.object(self.metrics, "get_system_utilization", lambda: read):
            return self.metrics.analyze_metrics()

    def advice(self):
        return {(r["severity"], r["category"]) for r in self.analyze()["recommendations"]}

    def test_summary(self):
        self.take("perf_slow", 2)
        for _ in range(3):
            self.take("perf_fast", 0.5)
        for result in ("hit", "hit", "hit", "miss"):
            self.metrics.record_cache_access(result)
        found = self.analyze()
        self.assertEqual(found["summary"]["slowest_operation"]["operation"], "perf_slow")
        self.assertEqual(found["summary"]["slowest_operation"]["avg_seconds"], 2)
        self.assertEqual(found["summary"]["most_frequent_operation"],
                         {"operation": "perf_fast", "count": 3})
        self.assertEqual(found["summary"]["total_operations"], 4)
        self.assertEqual(found["summary"]["elapsed_seconds"], 3.5)
        self.assertEqual(found["summary"]["cache_efficiency"], "good")
        self.assertEqual(found["system_utilization"]["memory_percent"], 20.0)

    def test_nothing_known_nothing_said(self):
        self.metrics.track_system_resources = False
        found = self.metrics.analyze_metrics()
        for key in ("slowest_operation", "cache_efficiency"):
            self.assertNotIn(key, found["summary"])
        self.assertNotIn("system_utilization", found)
        self.assertEqual(found["recommendations"], [])

    def test_efficiency(self):
        for rate, word in ((1, "excellent"), (0.9, "excellent"), (0.89, "good"), (0.5, "fair"),
                           (0.49, "poor"), (0, "poor")):
            self.assertEqual(analysis.efficiency(rate), word)

    def test_advice(self):
        self.assertEqual(self.advice(), set())
        self.load = {"cpu": 81.0, "memory": 96.0, "disk": 80.0}
        self.assertEqual(self.advice(), {("warning", "cpu"), ("critical", "memory")})
        self.load = {"cpu": 1.0, "memory": 1.0, "disk": 99.0}
        for number in range(20):
            self.metrics.record_cache_access("hit" if number < 8 else "miss", tier="t")
            self.metrics.record_operation_time("perf_x", 10 if number > 17 else 0.1,
                                               error_type="E" if number < 2 else None)
        self.metrics.record_operation_time("perf_y", 0.1)
        found = self.analyze()["recommendations"]
        self.assertEqual([(r["severity"], r["category"]) for r in found],
                         [("critical", "disk"), ("critical", "cache"), ("critical", "errors"),
                          ("warning", "latency"), ("info", "latency")])
        self.assertIn("8 of 20 accesses were hits (40.0%)", found[1]["details"])
        self.assertIn("2 of 20 failed (10.0%)", found[2]["details"])

    def test_few_say_nothing(self):
        for _ in range(analysis.COUNT_MIN - 1):
            self.metrics.record_cache_access("miss")
            self.metrics.record_operation_time("perf_x", 1, error_type="E")
        self.assertEqual(self.advice(), set())


class Page(html.parser.HTMLParser):
    """The cells of all tables, and every tag."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self._cell = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("td", "th"):
            self._cell = ""

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cells.append(self._cell)
            self._cell = None

    def handle_data(self, data):
        if self._cell is not None:
            self._cell += data


class Reports(Timed):
    def setUp(self):
        super().setUp()
        for name in ("perf_plain", HOSTILE):
            with self.assertRaises(OSError):
                with self.metrics.track_operation(name, correlation_id=HOSTILE):
                    self.clock.sleep(0.25)
                    raise OSError
            self.metrics.record_cache_access("hit", tier=name)
            self.metrics.record_bandwidth_usage("inbound", 2048, source=name)

    def test_text(self):
        text = self.metrics.generate_report()
        self.assertNotIn("\x1b", text)
        row = next(line for line in text.splitlines() if line.startswith("perf_plain"))
        self.assertEqual(row.split(), ["perf_plain", "1", "1", *["250", "ms"] * 5])
        self.assertIn("2.0 KiB", text)

    def test_json_of_nothing(self):
        empty = PerformanceMetrics(track_system_resources=False)
        found = json.loads(empty.generate_report(output_format="json"))
        assert_conforms(found, "report.schema.json")
        for key in ("operations", "operation_errors", "caches", "bandwidth", "system", "notes"):
            self.assertNotIn(key, found)
        self.assertIsNone(found["summary"]["slowest_operation"])
        self.assertIsNone(found["summary"]["cache_efficiency"])

    def test_json(self):
        found = json.loads(self.metrics.generate_report(output_format="json"),
                           parse_constant=self.fail)
        assert_conforms(found, "report.schema.json")
        self.assertEqual((found["start"], found["end"], found["duration_seconds"]),
                         (1_800_000_000.0, 1_800_000_000.5, 0.5))
        self.assertEqual(found["profile_id"], "prof_20270115_080000")
        operation = next(o for o in found["operations"] if o["operation"] == HOSTILE)
        program = operation.pop("program")
        self.assertEqual(operation, {
            "operation": HOSTILE, "count": 1, "rate_per_s": 2.0, "errors": 1, "error_ratio": 1.0,
            "outcomes": {"error": 1}, "seconds": 0.25, "mean_s": 0.25, "p50_s": 0.25,
            "p95_s": 0.25, "p99_s": 0.25, "max_s": 0.25})
        self.assertIn({"program": program, "operation": HOSTILE, "type": "OSError", "count": 1,
                       "rate_per_s": 2.0, "share": 1.0}, found["operation_errors"])
        self.assertIn({"program": program, "tier": HOSTILE, "hits": 1, "misses": 0, "hit_ratio": 1.0,
                       "rate_per_s": 2.0}, found["caches"])
        self.assertIn({"program": program, "source": HOSTILE, "in_bytes": 2048, "out_bytes": 0,
                       "in_bytes_per_s": 4096.0, "out_bytes_per_s": 0.0}, found["bandwidth"])
        self.assertEqual(found["operation_pairs"],
                         [{"program": program, "first": "perf_plain", "second": HOSTILE, "count": 1,
                           "mean_gap_s": 0.0}])
        summary = found["summary"]
        self.assertEqual((summary["operations"], summary["operations_per_second"],
                          summary["errors"], summary["bytes_per_second"]), (2, 4.0, 2, 8192.0))

    def test_json_of_the_machine(self):
        figures = {"cpu": {"percent": 25.0, "interval_seconds": 2.0, "over": "interval", "count": 4,
                           "load_1m": 0.5},
                   "memory": {"percent": 90.0, "total_bytes": 1000, "used_bytes": 900,
                              "swap_used_bytes": 7},
                   "disk": {"percent": 30.0, "total_bytes": 100, "used_bytes": 30},
                   "network": {"received_per_second": 5.0, "sent_per_second": 6.0},
                   "process": {"pid": 12, "cpu_ratio": 0.75, "resident_bytes": 40,
                               "peak_resident_bytes": 50, "threads": 3, "open_files": 8}}
        with mock.patch.object(self.metrics, "get_system_utilization", lambda: figures):
            found = json.loads(self.metrics.generate_report("json"))
            figures["cpu"].update(over="boot", interval_seconds=None)
            early = json.loads(self.metrics.generate_report("json"))
        assert_conforms(found, "report.schema.json")
        assert_conforms(early, "report.schema.json")
        system, process = found["system"], found["system"]["processes"][0]
        self.assertEqual((system["cpu"]["percent"], system["cpu"]["utilization_ratio"]["mean"],
                          system["cpu"]["cpus"], system["seconds"]), (25.0, 0.25, 4, 2.0))
        self.assertEqual((system["memory"]["percent"], system["memory"]["used_bytes"]["max"],
                          system["disk"]["percent"]), (90.0, 900, 30.0))
        self.assertEqual((process["pid"], process["cpu_ratio"]["mean"],
                          process["resident_bytes"]["max"]), (12, 0.75, 40))
        self.assertEqual((found["summary"]["cpu_percent"], found["summary"]["process_cpu_ratio"],
                          found["summary"]["process_memory_peak_bytes"]), (25.0, 0.75, 50))
        advice, = found["recommendations"]
        self.assertEqual((advice["severity"], advice["kind"], advice["subject"]),
                         ("warning", "memory", "machine"))
        self.assertIsNone(early["summary"]["cpu_percent"])  # an average since boot is of other times

    def test_json_says_what_is_not_in_it(self):
        for number in range(60):
            self.metrics.record_operation_time("perf_many", number)
        found = json.loads(self.metrics.generate_report("json"))
        many = found["operations"][0]
        self.assertEqual((many["operation"], many["count"], many["mean_s"], many["max_s"]),
                         ("perf_many", 60, 29.5, 59))
        self.assertEqual(found["notes"], ["of 1 of 3 operations percentiles and max_s are of the last "
                                          "50 times only"])

    def test_markdown(self):
        text = self.metrics.generate_report(output_format="markdown")
        tables = re.findall(r"(?:^\|.*\n)+", text, re.M)
        self.assertGreaterEqual(len(tables), 5)
        for table in tables:
            rows = [re.findall(r"(?<!\\)\|", row) for row in table.splitlines()]
            self.assertEqual(len({len(bars) for bars in rows}), 1, table)
        self.assertNotIn("<script", text)
        self.assertNotRegex(text, r"(?<!\\)\[l")
        self.assertNotRegex(text, r"(?<!\\)`")

    def test_markdown_as_github_reads_it(self):
        program = shutil.which("cmark-gfm")
        if not program:
            self.skipTest("no cmark-gfm")
        text = self.metrics.generate_report(output_format="markdown")
        done = subprocess.run([program, "--unsafe", "-e", "table", "-e", "strikethrough", "-e",
                               "autolink"], input=text, check=True, capture_output=True, text=True)
        page = Page(done.stdout)
        self.assertLessEqual(set(page.tags), {"h1", "h2", "p", "table", "thead", "tbody", "tr", "th",
                                              "td"})
        for name in ("perf_plain", escape.plain(HOSTILE)):
            self.assertIn(name, page.cells)
        self.assertIn("250 ms", page.cells)

    def test_html(self):
        text = self.metrics.generate_report(output_format="html")
        page = Page(text)
        self.assertNotIn("script", page.tags)
        self.assertLessEqual(set(page.tags), {"html", "head", "meta", "title", "style", "body", "h1",
                                              "h2", "p", "table", "thead", "tbody", "tr", "th", "td"})
        self.assertTrue(any("<script>alert('x')</script>" in cell for cell in page.cells))
        self.assertIn("perf_plain", page.cells)

    def test_unknown_format(self):
        with self.assertRaisesRegex(ValueError, "'pdf'.*text, markdown, json, html"):
            self.metrics.generate_report(output_format="pdf")


class Logs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "new")

    def lines(self, log):
        with open(log.path(), encoding="utf-8") as source:
            return [json.loads(line) for line in source]

    def test_operations_are_written(self):
        with PerformanceMetrics(metrics_dir=self.folder, enable_logging=True,
                                collection_interval=3600) as metrics:
            with metrics.track_operation("log_op", size=5):
                pass
            self.assertEqual(metrics.log.dropped, 0)
        line, = self.lines(metrics.log)
        self.assertEqual((line["record"], line["operation"], line["size"], line["success"]),
                         ("operation", "log_op", 5, True))
        self.assertEqual(metrics.log.figures()["written"], 1)

    def test_the_thread_writes_operations_and_snapshots(self):
        metrics = PerformanceMetrics(metrics_dir=self.folder, enable_logging=True,
                                     collection_interval=0.01)
        self.addCleanup(metrics.close)
        self.assertIsNone(metrics.log._thread)  # nothing to write, no thread
        metrics.record_operation_time("log_op", 0.5)
        while metrics.log.written < 2:
            time.sleep(0.005)
        found = {line["record"]: line for line in self.lines(metrics.log)}
        self.assertEqual(found["operation"]["duration"], 0.5)
        self.assertEqual(found["snapshot"]["operations"]["log_op"]["total_count"], 1)

    def test_a_full_queue_drops_and_counts(self):
        log = MetricsLog(self.folder, 3600, 7)
        self.addCleanup(log.close)
        with mock.patch.object(log, "_start"):  # a thread that does not come to write
            for number in range(metrics_log.QUEUE_MAX + 5):
                log.put({"n": number})
        self.assertEqual((log.dropped, log.figures()["queued"]), (5, metrics_log.QUEUE_MAX))
        log.flush()
        self.assertEqual(len(self.lines(log)), metrics_log.QUEUE_MAX)

    def test_a_half_full_queue_wakes_the_thread(self):
        log = MetricsLog(self.folder, 3600, 7)
        self.addCleanup(log.close)
        for number in range(metrics_log.QUEUE_MAX // 2):
            log.put({"n": number})
        while not log.written:
            time.sleep(0.005)
        self.assertEqual(log.dropped, 0)

    def test_retention_is_by_day(self):
        os.makedirs(self.folder)
        days = {n: metrics_log.today() - timedelta(days=n) for n in (0, 1, 6, 7, 30)}
        names = {n: f"metrics-{day}-1.jsonl" for n, day in days.items()}
        others = ["metrics-2020-01-01-1.jsonl.bak", "notes-2020-01-01-1.jsonl",
                  "metrics-2020-13-45-1.jsonl"]
        for name in [*names.values(), *others]:
            with open(os.path.join(self.folder, name), "w", encoding="ascii"):
                pass
        log = MetricsLog(self.folder, 3600, retention_days=7)
        self.addCleanup(log.close)
        log.flush()
        self.assertEqual(set(os.listdir(self.folder)), {names[0], names[1], names[6], *others})

    def test_a_disk_that_refuses(self):
        log = MetricsLog(self.folder, 3600, 7)
        self.addCleanup(log.close)
        with mock.patch.object(log, "path", lambda: os.path.join(self.folder, "no", "file")):
            log.put({"n": 1})
            log.flush()
        self.assertEqual((log.failed, log.written), (1, 0))
        self.assertIn("No such file", log.last_error)

    def test_objects_of_any_kind(self):
        class Odd:
            def __str__(self):
                raise RuntimeError("no text")
        log = MetricsLog(self.folder, 3600, 7)
        self.addCleanup(log.close)
        log.put({"nan": float("nan"), "set": {1}, "object": object, 3: b"bytes"})
        log.put({"odd": Odd()})
        log.flush()
        line, = self.lines(log)
        self.assertEqual((line["nan"], line["set"], line["3"]), (None, [1], "b'bytes'"))
        self.assertEqual(log.failed, 1)

    def test_a_child_logs_to_its_own_file(self):
        metrics = PerformanceMetrics(metrics_dir=self.folder, enable_logging=True,
                                     collection_interval=3600)
        metrics.record_operation_time("log_parent", 1)
        pid = os.fork()
        if not pid:
            metrics.record_operation_time("log_child", 2)
            metrics.close()
            os._exit(0)
        os.waitpid(pid, 0)
        metrics.close()
        self.assertEqual([line["operation"] for line in self.lines(metrics.log)], ["log_parent"])
        with open(metrics.log.path().replace(f"-{os.getpid()}.", f"-{pid}."),
                  encoding="utf-8") as source:
            self.assertEqual([json.loads(line)["operation"] for line in source], ["log_child"])

    def test_one_that_nobody_has_is_written_and_ends(self):
        metrics = PerformanceMetrics(metrics_dir=self.folder, enable_logging=True,
                                     collection_interval=3600)
        metrics.record_operation_time("log_gone", 1)
        path, thread = metrics.log.path(), metrics.log._thread
        del metrics
        thread.join(60)
        self.assertFalse(thread.is_alive())
        with open(path, encoding="utf-8") as source:
            self.assertEqual(json.loads(source.read())["operation"], "log_gone")

    def test_bad_configuration_is_named(self):
        for options, word in (({"interval": 0}, "collection_interval"),
                              ({"retention_days": -1}, "retention_days")):
            with self.assertRaisesRegex(ValueError, word):
                MetricsLog(**{"folder": self.folder, "interval": 1, "retention_days": 1, **options})
        with self.assertRaises(OSError):
            MetricsLog("/proc/nowhere/metrics", 1, 1)


if __name__ == "__main__":
    unittest.main()

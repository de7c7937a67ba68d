"""sonde.collector, sonde.timing and what they export, read back by other parsers."""

import contextlib
import csv
import io
import json
import math
import os
import random
import tempfile
import threading
import unittest
from unittest import mock

import sonde
import sonde.collector as collector
from sonde.timing import PerformanceMonitor, Timer, benchmark_function
from sonde.window import percentile

from figures import assert_conforms, assert_figures, recorded, truth

HOSTILE = ['=cmd|"/c calc"!A1', "a,b", 'quo"te', "new\nline", "@SUM(A1)", "-1+1", "+1", "\ttab",
           "<script>alert(1)</script>", "a|b", "\x1b[31mred", "back\\slash", "{}", "\u202eturned",
           "snowman ☃", "sonde_operation_duration_seconds", "x" * 300, "1digit", ""]


class Fresh(unittest.TestCase):
    def setUp(self):
        self.collector = collector.get_metrics_collector()
        self.collector._begin_anew()


class Windows(unittest.TestCase):
    def test_percentiles_are_those_of_statistics(self):
        chance = random.Random(7)
        for count in (1, 2, 3, 10, 101, 1000):
            values = [chance.expovariate(1) for _ in range(count)]
            aggregator = collector.MetricsAggregator(window_size=1000)
            for value in values:
                aggregator.add_metric("m", value)
            assert_figures(self, aggregator.get_stats("m"), values)

    def test_only_the_last_are_in_the_window(self):
        aggregator = collector.MetricsAggregator(window_size=10)
        for value in range(100):
            aggregator.add_metric("m", value)
        stats = aggregator.get_stats("m")
        assert_figures(self, stats, list(range(90, 100)))
        self.assertEqual((stats["total_count"], stats["total_sum"]), (100, 4950))

    def test_what_is_not_finite_is_counted_and_in_no_figure(self):
        aggregator = collector.MetricsAggregator()
        for value in (1.0, math.nan, 3.0, math.inf):
            aggregator.add_metric("m", value)
        stats = aggregator.get_stats("m")
        assert_figures(self, stats, [1.0, 3.0])
        self.assertEqual(stats["not_finite"], 2)

    def test_nothing_has_no_mean(self):
        self.assertEqual(collector.MetricsAggregator().get_stats("m"), {"count": 0})

    def test_bad_sizes_and_percentiles(self):
        for size in (0, -1, True, 2.5, "10", 10**9):
            with self.assertRaisesRegex(ValueError, "window_size"):
                collector.MetricsAggregator(window_size=size)
        for given in (([], 50), ([1.0], 101), ([1.0], -1)):
            with self.assertRaises(ValueError):
                percentile(*given)


class Filters(unittest.TestCase):
    metrics = [collector.Metric(*m) for m in (
        ("cpu_time", 1.0, "time", "system_a"), ("cpu_time", 2.0, "time", "other"),
        ("cpu_use", 3.0, "percentage", "system_a"), ("disk_time", 4.0, "time", "system_b"))]

    def names(self, *patterns):
        chosen = collector.MetricsFilter()
        for sort, pattern in patterns:
            getattr(chosen, f"add_{sort}_filter")(pattern)
        return [m.value for m in chosen.apply(self.metrics)]

    def test_sorts_are_all_met_and_patterns_of_one_sort_any(self):
        self.assertEqual(self.names(), [1, 2, 3, 4])
        self.assertEqual(self.names(("name", "cpu*")), [1, 2, 3])
        self.assertEqual(self.names(("name", "cpu*"), ("type", "time"), ("source", "system*")), [1])
        self.assertEqual(self.names(("type", sonde.Kind.PERCENTAGE)), [3])
        self.assertEqual(self.names(("name", "disk*"), ("name", "*use")), [3, 4])
        self.assertEqual(self.names(("name", "CPU*")), [])

    def test_dictionaries_pass_too(self):
        chosen = collector.MetricsFilter().add_name_filter("disk*")
        self.assertEqual(chosen.apply([m.as_dict() for m in self.metrics]),
                         [self.metrics[3].as_dict()])

    def test_not_a_pattern(self):
        with self.assertRaises(TypeError):
            collector.MetricsFilter().add_name_filter(None)


class Recording(Fresh):
    def test_there_is_one(self):
        self.assertIs(collector.CentralizedMetricsCollector(), collector.get_metrics_collector())

    def test_statistics_and_series(self):
        values = [0.025, 0.050, 0.100]
        for value in values:
            collector.record_timing("rec_query_time", value, "database")
        collector.record_counter("rec_requests", 2.0, "api")
        collector.record_counter("rec_requests", 3, "api")
        collector.record_metric("rec_usage", 85.0, "percentage", "monitor")
        stats = collector.get_metric_stats("rec_query_time")
        assert_figures(self, stats, values)
        self.assertTrue(stats["exact"])
        self.assertEqual((stats["type"], stats["sources"]), ("time", ["database"]))
        series = recorded("rec_query_time_seconds", source="database")
        self.assertEqual(series["count"], 3)
        self.assertAlmostEqual(series["sum"], sum(values), places=9)
        self.assertEqual(recorded("rec_requests_total", source="api")["value"], 5)
        self.assertEqual(recorded("rec_usage", source="monitor")["value"], 85.0)
        self.assertEqual(recorded("rec_usage")["kind"], "percentage")

    def test_counters_of_parts(self):
        for _ in range(10):
            collector.record_counter("rec_parts", 0.25)
        self.assertEqual(recorded("rec_parts_total")["value"], 2)
        self.assertEqual(collector.get_metric_stats("rec_parts")["sum"], 2.5)

    def test_names_that_cannot_be_series_of_their_own_never_mix(self):
        for number, name in enumerate(HOSTILE):
            collector.record_metric(name, number, "custom", "hostile")
        for number, name in enumerate(HOSTILE):
            self.assertEqual(collector.get_metric_stats(name)["latest"], number)
        shared = {s["labels"]["metric"]: s["value"] for s in sonde.snapshot()
                  if s["name"] == "sonde_custom_value" and s["labels"]["source"] == "hostile"}
        self.assertEqual(len(shared), len(HOSTILE))
        self.assertEqual(shared["a,b"], 1)

    def test_a_name_of_another_type_is_taken(self):
        sonde.counter("rec_taken_total", "Somebody else's.").add(1)
        collector.record_metric("rec_taken_total", 7.0)
        self.assertEqual(recorded("sonde_custom_value", metric="rec_taken_total")["value"], 7.0)
        self.assertEqual(recorded("rec_taken_total")["value"], 1)

    def test_bad_input_is_named(self):
        for call, error, words in (
                (("m", 1, "weight"), ValueError, "weight"), (("m", "much"), ValueError, "much"),
                (("m", None), TypeError, ""), (("m", -1, "counter"), ValueError, "fall")):
            with self.assertRaisesRegex(error, words):
                collector.record_metric(*call)
        self.assertEqual(self.collector.get_summary()["total_metrics"], 0)

    def test_off_is_off(self):
        sonde.enable(False)
        try:
            collector.record_metric("rec_off", 1.0)
        finally:
            sonde.enable(True)
        self.assertEqual(self.collector.get_metrics(), [])

    def test_bounds(self):
        for number in range(collector.METRICS_KEPT + 10):
            collector.record_metric("rec_many", number)
        self.assertEqual(len(self.collector.get_metrics()), collector.METRICS_KEPT)
        summary = self.collector.get_summary()
        self.assertEqual(summary["total_metrics"], collector.METRICS_KEPT + 10)
        stats = collector.get_metric_stats("rec_many")
        assert_figures(self, stats, list(range(
            collector.METRICS_KEPT + 10 - collector.VALUES_KEPT, collector.METRICS_KEPT + 10)))

    def test_names_and_sources_beyond_bounds(self):
        with mock.patch("sonde.window.NAMES_KEPT", 3), mock.patch("sonde.collector.NAMES_KEPT", 3):
            for number in range(5):
                collector.record_counter("rec_sources", 1, f"source {number}")
                collector.record_metric(f"rec_name_{number}", number)
            aggregator = collector.MetricsAggregator()
            for number in range(5):
                aggregator.add_metric(f"m{number}", number)
        self.assertEqual(collector.get_metric_stats("rec_sources")["sources"],
                         ["(other)", "source 0", "source 1", "source 2"])
        self.assertEqual(recorded("rec_sources_total", source="(other)")["value"], 2)
        self.assertEqual(self.collector.get_summary()["names_dropped"], 3)
        self.assertEqual(list(aggregator.get_all_stats()), ["m0", "m1", "m2"])

    def test_threads_lose_nothing(self):
        def work():
            for _ in range(500):
                collector.record_counter("rec_threads", 1, "thread")
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(collector.get_metric_stats("rec_threads")["total_count"], 4000)
        self.assertEqual(recorded("rec_threads_total")["value"], 4000)

    def test_a_child_begins_anew(self):
        collector.record_metric("rec_parent", 1.0)
        pid = os.fork()
        if not pid:
            wrong = len(self.collector.get_metrics())
            collector.record_metric("rec_child", 2.0)
            wrong += collector.get_metric_stats("rec_child")["count"] != 1
            os._exit(wrong)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertEqual(self.collector.get_metric_names(), ["rec_parent"])

    def test_names_recorded_elsewhere_are_read_from_their_histogram(self):
        with sonde.operation("rec_elsewhere"):
            pass
        stats = collector.get_metric_stats("rec_elsewhere")
        self.assertEqual((stats["count"], stats["exact"]), (1, False))
        self.assertGreater(stats["p95"], 0)
        self.assertEqual(collector.get_metric_stats("rec_never")["count"], 0)


class Exports(Fresh):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for number, name in enumerate(HOSTILE):
            collector.record_metric(name, number + 0.5, "custom", name)
            collector.record_timing(name, number / 1000, name)
            collector.record_counter(name, number, name)
        collector.record_metric("exp_nan", math.nan, "ratio")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_json(self):
        self.collector.export_to_json(self.path("m.json"))
        with open(self.path("m.json"), encoding="utf-8") as source:
            found = json.load(source, parse_constant=self.fail)
        assert_conforms(found, "python-metrics.schema.json")
        self.assertEqual([m["name"] for m in found["metrics"][:-1:3]], HOSTILE)
        self.assertIsNone(found["metrics"][-1]["value"])
        self.assertEqual(found["summary"]["total_metrics"], 3 * len(HOSTILE) + 1)
        by = {(s["name"], s["type"]): s for s in found["statistics"]}
        self.assertEqual(by["a,b", "counter"]["sum"], 1)
        self.assertEqual(os.listdir(self.folder.name), ["m.json"])

    def test_csv(self):
        self.collector.export_to_csv(self.path("m.csv"))
        with open(self.path("m.csv"), encoding="utf-8", newline="") as source:
            rows = list(csv.DictReader(source, strict=True))
        self.assertEqual(len(rows), 3 * len(HOSTILE) + 1)
        for row, name in zip(rows[::3], HOSTILE):
            self.assertNotIn(row["name"][:1], tuple("=+-@\t\r"))
            self.assertEqual(row["name"].removeprefix("'"), name)
            self.assertEqual(row["source"].removeprefix("'"), name)
        self.assertEqual([float(r["value"]) for r in rows[:-1:3]],
                         [n + 0.5 for n in range(len(HOSTILE))])

    def test_prometheus(self):
        from prometheus_client.parser import text_string_to_metric_families
        self.collector.export_to_prometheus(self.path("m.prom"))
        with open(self.path("m.prom"), encoding="utf-8", newline="") as source:
            families = {f.name: f for f in text_string_to_metric_families(source.read())}
        values = {s.labels["metric"]: s.value for s in families["sonde_custom_value"].samples}
        self.assertEqual(values, {name: n + 0.5 for n, name in enumerate(HOSTILE)})
        totals = {s.labels["metric"]: s.value for s in families["sonde_custom"].samples}
        self.assertEqual(totals, {name: n for n, name in enumerate(HOSTILE)})
        sums = {s.labels["metric"]: s.value for s in families["sonde_custom_seconds"].samples
                if s.name.endswith("_sum")}
        self.assertEqual(sums, {name: n / 1000 for n, name in enumerate(HOSTILE)})
        self.assertEqual(families["sonde_custom_seconds"].type, "summary")
        self.assertTrue(math.isnan(families["exp_nan"].samples[0].value))

    def test_prometheus_quantiles(self):
        from prometheus_client.parser import text_string_to_metric_families
        values = [0.1, 0.2, 0.3, 0.4]
        for value in values:
            collector.record_timing("exp_time", value, "one")
        self.collector.export_to_prometheus(self.path("m.prom"))
        with open(self.path("m.prom"), encoding="utf-8") as source:
            family, = (f for f in text_string_to_metric_families(source.read())
                       if f.name == "exp_time_seconds")
        quantiles = {s.labels["quantile"]: s.value for s in family.samples if "quantile" in s.labels}
        of = truth(values)
        for key, quantile in (("p50", "0.5"), ("p90", "0.9"), ("p95", "0.95"), ("p99", "0.99")):
            self.assertAlmostEqual(quantiles[quantile], of[key], places=12)

    def test_prometheus_of_two_sources(self):
        from prometheus_client.parser import text_string_to_metric_families
        for source, value in (("one", 0.1), ("two", 0.2), ("two", 0.3)):
            collector.record_timing("exp_two", value, source)
        self.collector.export_to_prometheus(self.path("m.prom"))
        with open(self.path("m.prom"), encoding="utf-8") as source:
            family, = (f for f in text_string_to_metric_families(source.read())
                       if f.name == "exp_two_seconds")
        # The window is of the name: no quantile is of one of its sources.
        self.assertEqual({(s.name, s.labels["source"]): s.value for s in family.samples},
                         {("exp_two_seconds_sum", "one"): 0.1, ("exp_two_seconds_count", "one"): 1,
                          ("exp_two_seconds_sum", "two"): 0.5, ("exp_two_seconds_count", "two"): 2})

    def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(self):
        with self.assertRaisesRegex(OSError, "missing"):
            self.collector.export_to_json(self.path("missing/m.json"))
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_report(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            collector.print_metrics_report(top=3, recent=2)
        text = out.getvalue()
        self.assertIn(f"Total metrics collected: {3 * len(HOSTILE) + 1}", text)
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\u202e", text)
        top = text.split("Top metrics")[1].split("Recent metrics")[0].splitlines()[1:]
        self.assertEqual(len([line for line in top if line]), 3)
        self.assertIn(f"avg {len(HOSTILE) - 0.5:g}", top[0])


class Timing(unittest.TestCase):
    def test_timer(self):
        timer = Timer("t")
        with timer:
            self.assertTrue(timer.running)
        with timer:
            pass
        self.assertEqual(timer.count, 2)
        self.assertGreater(timer.elapsed, 0)
        self.assertGreaterEqual(timer.total, timer.elapsed)
        with self.assertRaisesRegex(RuntimeError, "'t' is not running"):
            timer.stop()
        timer.start()
        with self.assertRaisesRegex(RuntimeError, "'t' is running"):
            timer.start()

    def test_monitor(self):
        monitor = PerformanceMonitor(max_history=3)
        for seconds in (0.5, 0.1, 0.2, 0.3):
            monitor.record("mon_op", seconds)
        assert_figures(self, monitor.get_stats("mon_op"), [0.1, 0.2, 0.3])
        self.assertEqual(recorded("sonde_operation_duration_seconds", operation="mon_op")["count"], 4)
        monitor.start("mon_outer")
        monitor.start("mon_outer")
        inner, outer = monitor.stop("mon_outer"), monitor.stop("mon_outer")
        self.assertGreater(outer, inner)
        with monitor.measure("mon_block"):
            pass
        self.assertEqual(monitor.get_all_stats()["mon_block"]["count"], 1)
        with self.assertRaisesRegex(RuntimeError, "mon_outer"):
            monitor.stop("mon_outer")
        with self.assertRaisesRegex(ValueError, "negative"):
            monitor.record("mon_op", -1)

    def test_benchmark_function(self):
        calls = []
        figures = benchmark_function(calls.append, iterations=20, warmup=5, args=(1,))
        self.assertEqual((len(calls), figures["count"], figures["warmup"]), (25, 20, 5))
        self.assertAlmostEqual(figures["calls_per_second"], 20 / figures["sum"])
        with self.assertRaises(ValueError):
            benchmark_function(calls.append, iterations=0)


if __name__ == "__main__":
    unittest.main()

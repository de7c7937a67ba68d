"""Every call of the package, and what it recorded read back from this process's own segment."""

import contextlib
import copy
import functools
import gc
import inspect
import math
import pickle
import sys
import unittest
import weakref

import sonde
from helpers import run, series, span, spans


class Counters(unittest.TestCase):
    def test_adds(self):
        c = sonde.counter("core_adds_total", "Help text.", source="core")
        c.add()
        c.add(41)
        c.inc()
        c.add(True)
        self.assertEqual(c.value, 44)
        found = series("core_adds_total")
        self.assertEqual((found["value"], found["type"], found["kind"], found["help"], found["source"],
                          found["labels"]), (44, "counter", "counter", "Help text.", "core", {}))

    def test_same_name_is_the_same_counter(self):
        sonde.counter("core_same_total").add(2)
        sonde.counter("core_same_total").add(3)
        self.assertEqual(sonde.counter("core_same_total").value, 5)

    def test_all_of_64_bits(self):
        c = sonde.counter("core_wide_total")
        c.add(2**63)
        c.add(2**63 - 1)
        self.assertEqual(c.value, 2**64 - 1)

    def test_refuses_what_is_no_count(self):
        c = sonde.counter("core_refuses_total")
        for bad, error in ((-1, ValueError), (2**64, ValueError), (1.5, TypeError), ("1", TypeError),
                           (None, TypeError)):
            with self.assertRaises(error, msg=repr(bad)) as caught:
                c.add(bad)
            self.assertIn("core_refuses_total", str(caught.exception))
        with self.assertRaises(TypeError):
            c.add(1, 2)
        self.assertEqual(c.value, 0)

    def test_takes_what_is_an_index(self):
        class Index:
            def __index__(self):
                return 7

        c = sonde.counter("core_index_total")
        c.add(Index())
        self.assertEqual(c.value, 7)


class Gauges(unittest.TestCase):
    def test_set_and_add(self):
        g = sonde.gauge("core_now", unit="bytes")
        g.set(5)
        g.add(0.5)
        g.add(-2)
        self.assertEqual(g.value, 3.5)
        self.assertEqual(series("core_now")["kind"], "memory")
        g.set(-1)  # also what C functions return for an error
        self.assertEqual(g.value, -1)
        g.set(math.nan)
        self.assertTrue(math.isnan(g.value))
        with self.assertRaises(TypeError):
            g.set("x")


class Histograms(unittest.TestCase):
    def test_figures(self):
        h = sonde.histogram("core_figures_seconds")
        values = [i / 1000 for i in range(1, 1001)]
        for value in values:
            h.record(value)
        stats = h.stats()
        self.assertEqual(stats["count"], 1000)
        self.assertAlmostEqual(stats["sum"], sum(values), places=6)
        self.assertAlmostEqual(stats["mean"], 0.5005, places=9)
        for key, exact in (("min", 0.001), ("max", 1.0), ("p50", 0.5), ("p90", 0.9), ("p95", 0.95),
                           ("p99", 0.99)):
            self.assertLessEqual(abs(stats[key] - exact), 0.0055 * exact, key)
        self.assertLessEqual(abs(h.quantile(0.25) - 0.25), 0.0055 * 0.25)
        self.assertEqual({**stats}, {k: series("core_figures_seconds")[k] for k in stats})

    def test_nothing(self):
        stats = sonde.histogram("core_nothing_seconds").stats()
        self.assertEqual(stats["count"], 0)
        self.assertTrue(math.isnan(stats["p50"]))

    def test_units(self):
        for unit, value in (("bytes", 3), ("seconds", 1e-9), ("ratio", 0.25), ("things", 0.125)):
            h = sonde.histogram(f"core_unit_{unit}", unit=unit)
            h.record(value)
            self.assertAlmostEqual(h.stats()["sum"], value, delta=value * 1e-6)
        h = sonde.histogram("core_unit_scale", unit="", scale=0.5)
        h.record(2.6)
        self.assertEqual(h.stats()["sum"], 2.5)

    def test_what_cannot_be_held_is_counted_and_never_raises(self):
        h = sonde.histogram("core_dropped_seconds")
        for bad in (-1, -1.0, math.nan, math.inf, -math.inf, 1e300):
            h.record(bad)
        self.assertEqual(h.stats()["count"], 0)
        self.assertEqual(series("sonde_python_values_dropped_total", metric="core_dropped_seconds")["value"], 6)
        with self.assertRaises(TypeError):
            h.record("0.5")

    def test_times_a_block(self):
        h = sonde.histogram("core_timer_seconds")
        timer = h.time()
        with timer:
            pass
        with self.assertRaises(KeyError), timer:
            raise KeyError
        timer.__exit__(None, None, None)  # not running: nothing
        self.assertEqual(h.stats()["count"], 2)
        self.assertLess(h.stats()["max"], 60)


class Labels(unittest.TestCase):
    def test_by_position_and_name(self):
        c = sonde.counter("core_labels_total", labels=("route", "code"))
        c.labels("/", 200).add(2)
        c.labels(code=200, route="/").add(3)
        c.labels("/", code=404).add(4)
        self.assertIs(c.labels("/", "200"), c.labels(code=200, route="/"))
        self.assertEqual(series("core_labels_total", route="/", code="200")["value"], 5)
        self.assertEqual(series("core_labels_total", route="/", code="404")["value"], 4)

    def test_any_text(self):
        c = sonde.counter("core_texts_total", labels=["text"])
        for text in ("", "ünï☃", 'a"b\\c\n', "x" * 256, "\u202e", "\x00not the end"):
            c.labels(text).add(1)
        found = {s["labels"]["text"] for s in sonde.snapshot() if s["name"] == "core_texts_total"}
        self.assertIn("ünï☃", found)
        self.assertIn('a"b\\c\n', found)
        self.assertIn("x" * 256, found)

    def test_mistakes_are_named(self):
        c = sonde.counter("core_mistakes_total", labels=("route", "code"))
        for call in (lambda: c.labels("/"), lambda: c.labels("/", 1, 2), lambda: c.labels("/", rute=1),
                     lambda: c.labels(route="/", rute=1), c.inc, c.add, lambda: c.labels("/", 1).labels("/", 1)):
            with self.assertRaises(ValueError) as caught:
                call()
            self.assertIn("core_mistakes_total", str(caught.exception))
        with self.assertRaises(TypeError):
            sonde.counter("core_mistakes2_total", labels="route")
        with self.assertRaises(TypeError):
            sonde.counter("core_mistakes2_total", labels=(1,))
        for name, labels in (("core bad", ()), ("", ()), ("1x", ()), ("ok_total", ("a", "a")), ("ok_total", ("le",)),
                             ("ok_total", tuple(f"l{i}" for i in range(9)))):
            with self.assertRaises(ValueError, msg=(name, labels)):
                sonde.counter(name, labels=labels)
        for other in (lambda: sonde.gauge("core_mistakes_total"),
                      lambda: sonde.counter("core_mistakes_total", labels=("route",))):
            with self.assertRaises(ValueError) as caught:
                other()
            self.assertIn("already defined", str(caught.exception))

    def test_constant_labels(self):
        sonde.gauge("core_constant", constant={"zone": "a", "rack": 3}).set(1)
        self.assertEqual(series("core_constant")["labels"], {"zone": "a", "rack": "3"})

    def test_too_many_go_to_one_series(self):
        c = sonde.counter("core_many_total", labels=("k",), series_max=10)
        for i in range(100):
            c.labels(i).add(1)
        found = [s for s in sonde.snapshot() if s["name"] == "core_many_total"]
        self.assertEqual(len(found), 11)
        self.assertEqual([s["value"] for s in found if "overflow" in s["labels"]], [90])
        self.assertEqual(sum(s["value"] for s in found), 100)

    def test_kinds(self):
        for kind in sonde.Kind:
            sonde.gauge(f"core_kind_{kind.name.lower()}", kind=kind).set(1)
            self.assertEqual(series(f"core_kind_{kind.name.lower()}")["kind"], kind.name.lower())
        with self.assertRaises(ValueError):
            sonde.gauge("core_kind_x", kind=7)


class Spans(unittest.TestCase):
    def test_parent_and_trace(self):
        with sonde.span("core.outer") as outer:
            self.assertEqual(outer.trace_id, sonde.trace_id())
            self.assertTrue(outer.recording)
            with sonde.span("core.inner") as inner:
                self.assertEqual(sonde.traceparent(), f"00-{inner.trace_id}-{inner.span_id}-01")
            self.assertEqual(sonde.traceparent(), f"00-{outer.trace_id}-{outer.span_id}-01")
        self.assertIsNone(sonde.trace_id())
        self.assertFalse(outer.recording)
        a, b = span("core.outer"), span("core.inner")
        self.assertEqual((a["span_id"], a["trace_id"], a["parent_id"]), (outer.span_id, outer.trace_id, None))
        self.assertEqual((b["span_id"], b["trace_id"], b["parent_id"]), (inner.span_id, outer.trace_id, outer.span_id))
        self.assertGreaterEqual(a["duration"], b["duration"])
        self.assertLessEqual(a["start"], b["start"] + 1e-6)

    def test_siblings_have_traces_of_their_own(self):
        for _ in range(2):
            with sonde.span("core.sibling"):
                pass
        a, b = spans("core.sibling")
        self.assertNotEqual(a["trace_id"], b["trace_id"])

    def test_attributes(self):
        with sonde.span("core.attributes", model="m", n=3, x=0.5, big=2**80, flag=True, thing=None) as s:
            s["rows"] = -7
            s["text"] = "ü" * 30
            s["odd"] = "\ud800"
            with self.assertRaises(TypeError):
                s[1] = 1
            with self.assertRaises(TypeError):
                del s["rows"]
        s["late"] = 1  # nothing
        attributes = span("core.attributes")["attributes"]
        self.assertEqual(attributes["text"][:19], "ü" * 19)
        del attributes["text"]
        self.assertEqual(attributes, {"model": "m", "n": 3, "x": 0.5, "big": str(2**80), "flag": 1,
                                      "thing": "None", "rows": -7, "odd": "?"})

    def test_attribute_that_cannot_be_text(self):
        class Bad:
            def __str__(self):
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError), sonde.span("core.bad", bad=Bad()):
            self.fail("began")
        self.assertIsNone(sonde.trace_id())

    def test_outcomes(self):
        class Cancelled(BaseException):
            pass

        for error, outcome in ((KeyError, "error"), (TimeoutError, "timeout"), (Cancelled, "cancelled"),
                               (KeyboardInterrupt, "error")):
            with self.assertRaises(error), sonde.span(f"core.{error.__name__}"):
                raise error
            self.assertEqual(span(f"core.{error.__name__}")["outcome"], outcome)
            self.assertEqual(series("sonde_operation_errors_total", operation=f"core.{error.__name__}",
                                    type=error.__name__)["value"], 1)

    def test_operations(self):
        for i in range(3):
            with contextlib.suppress(KeyError), sonde.operation("core.op", i=i):
                if i == 2:
                    raise KeyError
        ok = series("sonde_operation_duration_seconds", operation="core.op", outcome="ok")
        failed = series("sonde_operation_duration_seconds", operation="core.op", outcome="error")
        self.assertEqual((ok["count"], failed["count"]), (2, 1))
        self.assertEqual(series("sonde_operation_errors_total", operation="core.op", type="KeyError")["value"], 1)
        self.assertEqual([s["attributes"] for s in spans("core.op")], [{"i": 0}, {"i": 1}, {"i": 2}])
        self.assertAlmostEqual(ok["sum"], sum(s["duration"] for s in spans("core.op")[:2]), delta=1e-3)

    def test_scope_measures(self):
        with self.assertRaises(KeyError), sonde.scope("core.scope"):
            data = bytearray(8 << 20)
            data[::4096] = b"x" * len(data[::4096])
            raise KeyError
        wall = series("sonde_resource_wall_seconds", scope="core.scope")
        self.assertEqual(wall["count"], 1)
        self.assertLessEqual(series("sonde_resource_cpu_seconds", scope="core.scope")["sum"], wall["sum"] + 0.01)
        self.assertGreaterEqual(series("sonde_resource_page_faults_total", scope="core.scope", kind="minor")["value"], 1)
        self.assertEqual(span("core.scope")["outcome"], "error")

    def test_throughput_counts(self):
        with sonde.throughput("core.rows") as t:
            t.add()
            t.add(9)
        self.assertEqual(series("sonde_throughput_items_total", scope="core.rows")["value"], 10)
        self.assertIsInstance(series("sonde_throughput_seconds_total", scope="core.rows")["value"], float)

    def test_used_again_and_in_itself(self):
        s = sonde.span("core.again")
        with s:
            with self.assertRaises(RuntimeError):
                s.__enter__()
        with s:
            pass
        self.assertEqual(len(spans("core.again")), 2)

    def test_by_the_context_manager_protocol(self):
        with contextlib.ExitStack() as stack:
            entered = stack.enter_context(sonde.span("core.stack"))
            self.assertIsInstance(entered, sonde.Span)
        s = sonde.span("core.by.hand")
        self.assertIs(s.__enter__(), s)
        self.assertIsNone(s.__exit__(None, None, None))
        self.assertIs(type(s).__enter__(s), s)
        type(s).__exit__(s, None, None, None)
        self.assertEqual(len(spans("core.stack")) + len(spans("core.by.hand")), 3)
        with self.assertRaises(TypeError):
            s(1)
        with self.assertRaises(TypeError):
            sonde.Span()
        with self.assertRaises(TypeError):
            sonde.span()
        with self.assertRaises(TypeError):
            sonde.span(3)

    def test_ends_out_of_order(self):
        a, b = sonde.span("core.a"), sonde.span("core.b")
        with sonde.span("core.root") as root:
            a.__enter__()
            b.__enter__()
            a.__exit__(None, None, None)
            with sonde.span("core.in.b"):
                pass
            b.__exit__(None, None, None)
        self.assertEqual(span("core.in.b")["parent_id"], b.span_id)
        self.assertEqual(span("core.root")["span_id"], root.span_id)
        sonde.set_traceparent(None)

    def test_traceparent(self):
        sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        sonde.set_traceparent(sent)
        with sonde.span("core.continued"):
            pass
        self.assertEqual(sonde.traceparent(), sent)
        sonde.set_traceparent(None)
        self.assertIsNone(sonde.trace_id())
        got = span("core.continued")
        self.assertEqual((got["trace_id"], got["parent_id"]), (sent[3:35], sent[36:52]))
        for bad in ("", "x", sent[:-1], sent.upper(), "00-" + "0" * 32 + sent[35:]):
            with self.assertRaises(ValueError):
                sonde.set_traceparent(bad)
        begun = sonde.traceparent()
        self.assertEqual(begun[3:35], sonde.trace_id())
        sonde.set_traceparent(None)

    def test_limit(self):
        for i in range(5):
            with sonde.span("core.limit", i=i):
                pass
        self.assertEqual([s["attributes"]["i"] for s in sonde.spans(limit=2)], [3, 4])
        self.assertEqual(sonde.spans(limit=0), [])
        with self.assertRaises(ValueError):
            sonde.spans(limit=-1)

    def test_made_up_names(self):
        for i in range(2000):  # more than the cache of names holds
            with sonde.span(f"core.made.up.{i}"):
                pass
        self.assertEqual(span("core.made.up.1999")["outcome"], "ok")


class Decorators(unittest.TestCase):
    def test_is_still_the_function(self):
        @sonde.time_function
        def load(path: str, mode="r") -> int:
            """Loads."""
            return len(path)

        self.assertEqual(load("abc"), 3)
        self.assertEqual(load(path="ab", mode="w"), 2)
        self.assertEqual((load.__name__, load.__doc__, load.__module__), ("load", "Loads.", __name__))
        self.assertEqual(str(inspect.signature(load)), "(path: str, mode='r') -> int")
        self.assertEqual(load.__wrapped__("abc"), 3)
        self.assertIn("load", repr(load))
        load.mark = 1
        self.assertEqual(load.mark, 1)
        self.assertIs(weakref.ref(load)(), load)
        name = load.__qualname__
        self.assertEqual(series("sonde_operation_duration_seconds", operation=name, outcome="ok")["count"], 2)
        self.assertEqual(len(spans(name)), 2)
        with self.assertRaises(TypeError):
            load()
        self.assertEqual(series("sonde_operation_errors_total", operation=name, type="TypeError")["value"], 1)

    def test_forms(self):
        @sonde.time_function("core.form.a")
        def a():
            pass

        @sonde.time_function(name="core.form.b", collect_metrics=False)
        def b():
            pass

        a()
        b()
        self.assertEqual((len(spans("core.form.a")), len(spans("core.form.b"))), (1, 1))
        with self.assertRaises(AssertionError):
            series("sonde_operation_duration_seconds", operation="core.form.b")
        with self.assertRaises(TypeError):
            sonde.time_function(3)

    def test_methods(self):
        class Thing:
            @sonde.time_function(name="core.method")
            def method(self, x):
                return (self, x)

            @sonde.time_function(name="core.method")
            @staticmethod
            def static(x):
                return x

            @classmethod
            @sonde.time_function(name="core.method")
            def made(cls, x):
                return (cls, x)

            @sonde.time_function(name="core.method")
            @classmethod
            def made2(cls, x):
                return (cls, x)

            @property
            @sonde.time_function(name="core.method")
            def prop(self):
                return 9

        t = Thing()
        self.assertEqual(t.method(1), (t, 1))
        bound = t.method
        self.assertEqual(bound(2), (t, 2))
        self.assertEqual(Thing.method(t, 3), (t, 3))
        self.assertEqual((t.static(4), Thing.static(5)), (4, 5))
        self.assertEqual((t.made(6), Thing.made2(7)), ((Thing, 6), (Thing, 7)))
        self.assertEqual(t.prop, 9)
        self.assertEqual(len(spans("core.method")), 8)

    def test_of_things_that_are_called(self):
        self.assertEqual(sonde.time_function(len, name="core.len")("abc"), 3)
        self.assertEqual(sonde.time_function(functools.partial(int, base=2), name="core.partial")("11"), 3)
        self.assertEqual(sonde.time_function(sonde.time_function(len, name="core.x"), name="core.y")("ab"), 2)
        self.assertEqual(span("core.x")["parent_id"], span("core.y")["span_id"])

    def test_resources_and_throughput(self):
        @sonde.track_resource_usage(name="core.tracked")
        def tracked():
            return 5

        @sonde.measure_throughput(name="core.measured")
        def measured(n):
            return [0] * n

        @sonde.measure_throughput(name="core.measured.by", items=lambda result: result * 2)
        def measured_by():
            return 21

        self.assertEqual((tracked(), len(measured(3)), len(measured(4)), measured_by()), (5, 3, 4, 21))
        self.assertEqual(series("sonde_resource_wall_seconds", scope="core.tracked")["count"], 1)
        self.assertEqual(series("sonde_throughput_items_total", scope="core.measured")["value"], 7)
        self.assertEqual(series("sonde_throughput_items_total", scope="core.measured.by")["value"], 42)

    def test_blocks(self):
        with sonde.time_block("core.block", rows=3):
            pass
        with sonde.time_block("core.block.span", collect_metrics=False):
            pass
        self.assertEqual(series("sonde_operation_duration_seconds", operation="core.block")["count"], 1)
        self.assertEqual(span("core.block")["attributes"], {"rows": 3})
        self.assertEqual(len(spans("core.block.span")), 1)


@sonde.time_function
def module_level(x):
    return x


class Pickles(unittest.TestCase):
    def test_functions_and_metrics(self):
        self.assertIs(pickle.loads(pickle.dumps(module_level)), module_level)
        self.assertIs(copy.deepcopy(module_level), module_level)
        c = sonde.counter("core_pickled_total", "h", ("a",), source="s", constant={"k": "v"})
        c.labels("1").add(3)
        self.assertEqual(pickle.loads(pickle.dumps(c.labels("1"))).value, 3)
        pickle.loads(pickle.dumps(c)).labels("1").add(1)
        self.assertEqual(c.labels("1").value, 4)
        h = sonde.histogram("core_pickled", unit="", scale=0.25)
        pickle.loads(pickle.dumps(h)).record(1)
        self.assertEqual(h.stats()["sum"], 1)


class ReadyMade(unittest.TestCase):
    def test_bandwidth_caches_pools(self):
        sonde.bandwidth("in", 100, "core")
        sonde.bandwidth("out", 7, source="core")
        sonde.cache_access(True, tier="core")
        sonde.cache_access(False, "core")
        sonde.cache_access(1, "core")
        kv = sonde.pool("core.kv")
        kv.set(100)
        kv.add(-30)
        self.assertEqual(series("sonde_bandwidth_bytes_total", direction="in", source="core")["value"], 100)
        self.assertEqual(series("sonde_bandwidth_bytes_total", direction="out", source="core")["value"], 7)
        self.assertEqual(series("sonde_cache_accesses_total", tier="core", result="hit")["value"], 2)
        self.assertEqual(series("sonde_cache_accesses_total", tier="core", result="miss")["value"], 1)
        self.assertEqual((kv.value, series("sonde_memory_pool_bytes", pool="core.kv")["value"]), (70, 70))
        with self.assertRaises(ValueError):
            sonde.bandwidth("sideways", 1)
        with self.assertRaises(TypeError):
            sonde.pool(3)


class Switches(unittest.TestCase):
    def test_by_pattern(self):
        @sonde.time_function(name="core.switch.function")
        def function():
            pass

        with sonde.disabled("core.switch.*"):
            with sonde.span("core.switch.a") as s:
                self.assertFalse(s.recording)
                self.assertIsNone(s.trace_id)
                s["x"] = 1
                with sonde.span("core.other"):
                    pass
            function()
            with sonde.span("core.switch.new"):
                pass
        with sonde.span("core.switch.a"):
            pass
        function()
        self.assertEqual(len(spans("core.switch.a")), 1)
        self.assertEqual(len(spans("core.switch.function")), 1)
        self.assertEqual(len(spans("core.switch.new")), 0)
        self.assertIsNone(span("core.other")["parent_id"])
        first, second = sonde.disabled("core.switch.a"), sonde.disabled("core.switch.?")
        first.restore()
        with sonde.span("core.switch.a"):
            pass
        self.assertEqual(len(spans("core.switch.a")), 1)
        second.restore()
        second.restore()
        with self.assertRaises(TypeError):
            sonde.disabled()
        with self.assertRaises(TypeError):
            sonde.disabled(1)

    def test_all(self):
        c = sonde.counter("core_switched_total")
        c.add(1)
        self.assertTrue(sonde.enabled())
        sonde.enable(False)
        try:
            self.assertFalse(sonde.enabled())
            c.add(1)
            late = sonde.counter("core_late_total")
            late.add(5)
            family = sonde.counter("core_late_labels_total", labels=("k",))
            child = family.labels("1")
            with sonde.span("core.off") as s:
                self.assertFalse(s.recording)
            self.assertEqual(c.value, 1)
        finally:
            sonde.enable()
        late.add(6)
        child.add(7)
        c.add(1)
        self.assertEqual((late.value, child.value, c.value), (6, 7, 2))
        self.assertEqual(spans("core.off"), [])

    def test_off_from_the_start(self):
        out = run("""
            import os, sonde
            c = sonde.counter("a_total", labels=("k",)).labels("v"); c.add(3)
            h = sonde.histogram("b_seconds"); h.record(0.5)
            sonde.gauge("g").set(1); sonde.pool("p").add(1); sonde.bandwidth("in", 1); sonde.cache_access(True)
            with sonde.span("x", a=1) as s, sonde.operation("y"), sonde.scope("z"), h.time(): s["k"] = 1
            sonde.time_function(print)("called")
            assert sonde.snapshot() == [] and sonde.spans() == [] and not sonde.enabled()
            assert c.value == 0 and h.stats()["count"] == 0 and s.trace_id is None
            assert sonde.open() == "recording is off", sonde.open()
            assert not os.listdir(os.environ["SONDE_DIR"]), "a segment"
            sonde.enable()
            c.add(2); h.record(1)
            assert c.value == 2 and h.stats()["count"] == 1
            print("end")
            """, SONDE_ENABLED="0", SONDE_DIR=self.empty())
        self.assertEqual(out.split(), ["called", "end"])

    def empty(self):
        import tempfile
        folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(folder.cleanup)
        return folder.name

    def test_nowhere_to_record_to(self):
        out = run("""
            import sonde
            why = sonde.open()
            sonde.counter("a_total").add(1)
            with sonde.span("x"): pass
            assert not sonde.enabled() and sonde.snapshot() == []
            print(why)
            """, SONDE_DIR="/proc/none")
        self.assertTrue(out.strip() and out.strip() != "None", out)

    def test_open_names_the_process(self):
        folder = self.empty()
        out = run("""
            import os, sonde
            assert not os.listdir(os.environ["SONDE_DIR"]), "importing has made a segment"
            assert sonde.open(name="trainer") is None
            sonde.counter("a_total").add(1)
            data = open(os.path.join(os.environ["SONDE_DIR"], [f for f in os.listdir(os.environ["SONDE_DIR"])
                                                                if f[0].isdigit()][0]), "rb").read(4096)
            print(b"trainer" in data)
            """, SONDE_DIR=folder)
        self.assertEqual(out.strip(), "True")
        run("""
            import sonde
            try:
                sonde.open(dir="/" + "x" * 1000)
            except ValueError:
                raise SystemExit(3)
            """, status=3)


class Module(unittest.TestCase):
    def test_imported_again(self):
        c = sonde.counter("core_again_total")
        c.add(1)
        import sonde._native as native
        del sys.modules["sonde._native"]
        try:
            import sonde._native as second
            self.assertIsNot(native, second)
            second.counter("core_again_total").add(1)
            self.assertIs(type(second.counter("core_again_total")), type(c))
            self.assertEqual(c.value, 2)
        finally:
            sys.modules["sonde._native"] = native
            del second
            gc.collect()
        with native.span("core.module.again"):
            pass

    def test_subinterpreter_is_refused(self):
        out = run("""
            import sonde
            try:
                import _xxsubinterpreters as interpreters
            except ModuleNotFoundError:
                import _interpreters as interpreters
            for _ in range(3):
                other = interpreters.create()
                interpreters.run_string(other, '''
            try:
                import sonde
                print("imported")
            except ImportError as error:
                print(error)
            ''')
                interpreters.destroy(other)
            sonde.counter("a_total").add(1)
            print(sonde.counter("a_total").value)
            """)
        lines = out.strip().splitlines()
        self.assertEqual(len(lines), 4)
        self.assertTrue(all("subinterpreter" in line for line in lines[:3]), out)
        self.assertEqual(lines[3], "1")

    def test_typed_and_documented(self):
        for name in sonde.__all__:
            value = getattr(sonde, name)
            if callable(value):
                self.assertTrue(value.__doc__, name)
        stub = (__import__("pathlib").Path(sonde.__file__).parent / "_native.pyi").read_text()
        import sonde._native as native
        for name in dir(native):
            if not name.startswith("_"):
                self.assertRegex(stub, rf"(def|class) {name}\b")


if __name__ == "__main__":
    unittest.main()

"""What can be decorated, and what type checkers see of it."""

import ast
import asyncio
import pathlib
import typing
import unittest

import sonde
from helpers import series, span, spans
from sonde import _lazy


class Classes(unittest.TestCase):
    def test_implicit_class_methods(self):
        """Python makes class methods of these two only if they are plain functions."""
        for way in (sonde.time_function(name="decorate.implicit"), sonde.track_resource_usage,
                    sonde.measure_throughput):
            class Base:
                known = []

                @way
                def __init_subclass__(cls, **more):
                    super().__init_subclass__(**more)
                    cls.known.append(cls)

                @way
                def __class_getitem__(cls, item):
                    return cls, item

                @way
                def __new__(cls, *args):
                    return super().__new__(cls)

            class Derived(Base):
                pass

            self.assertEqual(Base.known, [Derived])
            self.assertEqual(Derived[int], (Derived, int))
            self.assertIs(type(Derived(1)), Derived)
        self.assertEqual(len(spans("decorate.implicit")), 3)

    def test_classes_are_refused(self):
        """As a TimedFunction a class would have neither subclasses nor instances of it."""
        for way in (sonde.time_function, sonde.time_function(name="x"), sonde.track_resource_usage,
                    sonde.measure_throughput):
            with self.assertRaisesRegex(TypeError, "Some.*is a class: decorate its methods"):
                @way
                class Some:
                    pass

    def test_nothing_callable_is_refused(self):
        for way in (sonde.time_function, sonde.measure_throughput, sonde.track_resource_usage):
            for bad in (3, [], property(lambda self: 1)):
                with self.assertRaisesRegex(TypeError, "is not a function"):
                    way(bad)

    def test_throughput_of_methods(self):
        class Thing:
            @sonde.measure_throughput(name="decorate.methods")
            @classmethod
            def of_class(cls, n):
                return [cls] * n

            @sonde.measure_throughput(name="decorate.methods")
            @staticmethod
            def static(n):
                return [0] * n

        self.assertEqual((Thing.of_class(2), Thing().of_class(1), Thing.static(3)), ([Thing] * 2, [Thing], [0] * 3))
        self.assertEqual(series("sonde_throughput_items_total", scope="decorate.methods")["value"], 6)


class Surrogates(unittest.TestCase):
    """Names of files that are not UTF-8 are str with lone surrogates: nothing is raised because of one."""
    NAME, SHOWN = "decorate\udcff.bin", "decorate?.bin"

    def test_names_labels_attributes(self):
        sonde.counter("decorate_files_total", "x", ("file", "other")).labels(self.NAME, "é").add(2)
        again = sonde.counter("decorate_files_total", "x", ("file", "other")).labels(other="é", file=self.NAME)
        again.add()
        self.assertEqual(series("decorate_files_total", file=self.SHOWN, other="é")["value"], 3)
        with sonde.span(self.NAME, path=self.NAME) as s:
            s["other"] = self.NAME
        self.assertEqual(span(self.SHOWN)["attributes"], {"path": self.SHOWN, "other": self.SHOWN})
        with sonde.operation(self.NAME):
            pass
        self.assertEqual(series("sonde_operation_duration_seconds", operation=self.SHOWN)["count"], 1)

    def test_ready_made(self):
        sonde.bandwidth("in", 5, self.NAME)
        sonde.cache_access(True, self.NAME)
        sonde.pool(self.NAME).set(7)
        self.assertEqual(series("sonde_bandwidth_bytes_total", source=self.SHOWN)["value"], 5)
        self.assertEqual(series("sonde_cache_accesses_total", tier=self.SHOWN)["value"], 1)
        self.assertEqual(series("sonde_memory_pool_bytes", pool=self.SHOWN)["value"], 7)
        for bad in (lambda: sonde.bandwidth("in", 1, 3), lambda: sonde.cache_access(True, b"x"),
                    lambda: sonde.pool(None), lambda: sonde.bandwidth("in", 1, source=None)):
            with self.assertRaisesRegex(TypeError, "is a str, not"):
                bad()

    def test_exceptions_stay_what_they_are(self):
        """Whatever asking for the name of their type says."""
        for shown, asked in (("Odd?", lambda cls: "Odd\udcff"), ("Exception", lambda cls: 1 // 0)):
            odd = type("Meta", (type,), {"__name__": property(asked)})("Odd", (Exception,), {})
            with self.assertRaises(odd):
                with sonde.operation("decorate.odd"):
                    raise odd
            self.assertEqual(series("sonde_operation_errors_total", operation="decorate.odd", type=shown)["value"], 1)


class Generators(unittest.TestCase):
    def test_throughput(self):
        """What a generator yields is counted as it comes, and all of it is one span."""
        @sonde.measure_throughput(name="decorate.rows")
        def rows(n):
            got = []
            for i in range(n):
                got.append((yield "text"))
            return got

        @sonde.measure_throughput(name="decorate.batches", items=len)
        def batches():
            yield [1, 2]
            try:
                yield [3]
            except KeyError:
                yield [4, 5, 6]

        self.assertEqual(list(rows(4)), ["text"] * 4)
        steps = rows(2)
        self.assertEqual((next(steps), steps.send("a")), ("text", "text"))
        with self.assertRaises(StopIteration) as end:
            steps.send("b")
        self.assertEqual(end.exception.value, ["a", "b"])
        self.assertEqual(series("sonde_throughput_items_total", scope="decorate.rows")["value"], 6)
        steps = batches()
        next(steps), next(steps)
        self.assertEqual(steps.throw(KeyError), [4, 5, 6])
        self.assertEqual(list(steps), [])
        self.assertEqual(series("sonde_throughput_items_total", scope="decorate.batches")["value"], 6)
        self.assertEqual(span("decorate.batches")["outcome"], "ok")

    def test_throughput_async(self):
        @sonde.measure_throughput(name="decorate.async", items=2)
        async def rows(n):
            for i in range(n):
                await asyncio.sleep(0)
                yield i

        async def consume():
            found = [i async for i in rows(3)]
            steps = rows(5)
            found.append(await anext(steps))
            await steps.aclose()
            return found

        self.assertEqual(asyncio.run(consume()), [0, 1, 2, 0])
        self.assertEqual(series("sonde_throughput_items_total", scope="decorate.async")["value"], 8)
        self.assertEqual([s["outcome"] for s in spans("decorate.async")], ["ok", "cancelled"])


class Types(unittest.TestCase):
    """tests/peers/python_types.py has mypy look at all of it."""

    def test_decorators_keep_types(self):
        for decorator in (sonde.time_function, sonde.track_resource_usage, sonde.measure_throughput):
            ways = [typing.get_type_hints(way) for way in typing.get_overloads(decorator)]
            self.assertEqual(len(ways), 2)
            self.assertEqual([w["function"] == w["return"] for w in ways], [False, True], decorator)

    def test_lazy_names_are_known(self):
        tree = ast.parse(pathlib.Path(sonde.__file__).read_text(encoding="utf-8"))
        checked, = (node for node in tree.body if isinstance(node, ast.If) and
                    isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
        known = {alias.asname: node.module or alias.name for node in checked.body for alias in node.names}
        self.assertEqual(known, _lazy.NAMES)


if __name__ == "__main__":
    unittest.main()

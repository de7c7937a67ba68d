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

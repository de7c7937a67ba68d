"""Which span is the current one: in threads, tasks, generators and copied contexts."""

import asyncio
import concurrent.futures
import contextvars
import gc
import inspect
import itertools
import threading
import unittest

import sonde
from helpers import run, series, span, spans


def tree(prefix):
    """Spans whose names begin so, by id."""
    return {s["span_id"]: s for s in sonde.spans() if s["name"].startswith(prefix)}


class Threads(unittest.TestCase):
    def test_a_thread_begins_without(self):
        def work():
            with sonde.span("thread.inside"):
                pass

        with sonde.span("thread.outside"):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        self.assertIsNone(span("thread.inside")["parent_id"])
        self.assertNotEqual(span("thread.inside")["thread"], span("thread.outside")["thread"])

    def test_a_copied_context_carries_it(self):
        def work():
            with sonde.span("copied.inside"):
                return sonde.trace_id()

        with concurrent.futures.ThreadPoolExecutor(1) as pool, sonde.span("copied.outside") as outside:
            trace = pool.submit(contextvars.copy_context().run, work).result()
        self.assertEqual(trace, outside.trace_id)
        self.assertEqual(span("copied.inside")["parent_id"], outside.span_id)

    def test_many_at_once(self):
        def work(number):
            for i in range(200):
                with sonde.span("many.outer", number=number) as outer:
                    with sonde.span("many.inner", number=number, outer=outer.span_id):
                        pass

        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = tree("many.")
        inner = [s for s in found.values() if s["name"] == "many.inner"]
        self.assertEqual(len(inner), 16 * 200)
        for s in inner:
            self.assertEqual(s["parent_id"], s["attributes"]["outer"])
            self.assertEqual(found[s["parent_id"]]["trace_id"], s["trace_id"])


class Tasks(unittest.TestCase):
    def test_parents_are_of_the_task(self):
        async def work(number):
            with sonde.span("task.outer", number=number) as outer:
                await asyncio.sleep(0)
                with sonde.span("task.inner", number=number, outer=outer.span_id):
                    await asyncio.sleep(0)
                await asyncio.sleep(0)
                self.assertEqual(sonde.trace_id(), outer.trace_id)

        async def main():
            await asyncio.gather(*(work(n) for n in range(300)))

        asyncio.run(main())
        outer = {s["attributes"]["number"]: s for s in spans("task.outer")}
        inner = spans("task.inner")
        self.assertEqual((len(outer), len(inner)), (300, 300))
        self.assertEqual(len({s["trace_id"] for s in outer.values()}), 300)
        for s in inner:
            parent = outer[s["attributes"]["number"]]
            self.assertEqual((s["parent_id"], s["trace_id"]), (parent["span_id"], parent["trace_id"]))

    def test_ten_thousand(self):
        """More than the rings hold: every span says itself what it found."""
        out = run("""
            import asyncio, random, sonde

            wrong = 0
            seen = set()

            async def work(number, rng):
                global wrong
                assert sonde.trace_id() is None
                with sonde.span("outer") as outer:
                    seen.add(outer.trace_id)
                    for _ in range(3):
                        for _ in range(rng.randrange(3)):
                            await asyncio.sleep(0)
                        with sonde.span("inner") as inner:
                            for _ in range(rng.randrange(3)):
                                await asyncio.sleep(0)
                            wrong += inner.trace_id != outer.trace_id
                            wrong += sonde.traceparent() != f"00-{outer.trace_id}-{inner.span_id}-01"
                        wrong += sonde.traceparent() != f"00-{outer.trace_id}-{outer.span_id}-01"
                assert sonde.trace_id() is None

            async def main():
                rng = random.Random(1)
                await asyncio.gather(*(work(n, rng) for n in range(10000)))

            asyncio.run(main())
            print(wrong, len(seen))
            by_id = {s["span_id"]: s for s in sonde.spans()}
            known = [s for s in by_id.values() if s["name"] == "inner" and s["parent_id"] in by_id]
            assert len(known) > 1000, len(known)
            assert all(by_id[s["parent_id"]]["name"] == "outer" and
                       by_id[s["parent_id"]]["trace_id"] == s["trace_id"] for s in known)
            """)
        self.assertEqual(out.split(), ["0", "10000"])

    def test_a_task_has_the_span_it_was_started_in(self):
        async def late(event):
            await event.wait()
            with sonde.span("late.child"):
                pass

        async def main():
            event = asyncio.Event()
            with sonde.span("late.first") as first:
                task = asyncio.create_task(late(event))
            with sonde.span("late.second"):  # not its parent, though current when it goes on
                event.set()
                await task
            return first

        first = asyncio.run(main())
        self.assertEqual(span("late.child")["parent_id"], first.span_id)

    def test_a_task_that_was_started_after_a_span_is_not_in_it(self):
        async def child():
            with sonde.span("after.child"):
                await asyncio.sleep(0)

        async def main():
            with sonde.span("after.before"):
                pass
            await asyncio.create_task(child())

        asyncio.run(main())
        self.assertIsNone(span("after.child")["parent_id"])

    def test_under_a_span_of_the_thread(self):
        async def work():
            with sonde.span("under.task"):
                await asyncio.sleep(0)

        with sonde.span("under.thread") as thread:
            asyncio.run(work())
            with sonde.span("under.after"):
                pass
        for name in ("under.task", "under.after"):
            self.assertEqual(span(name)["parent_id"], thread.span_id)

    def test_to_thread_and_callbacks(self):
        def work():
            with sonde.span("call.thread"):
                pass

        def call(done):
            with sonde.span("call.soon"):
                done.set_result(None)

        async def main():
            with sonde.span("call.outer") as outer:
                await asyncio.to_thread(work)
                done = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(call, done)
                await done
            return outer

        outer = asyncio.run(main())
        self.assertEqual(span("call.thread")["parent_id"], outer.span_id)
        self.assertEqual(span("call.soon")["parent_id"], outer.span_id)

    def test_set_traceparent_is_of_the_task(self):
        async def serve(number):
            sonde.set_traceparent(f"00-{number:032x}-{number:016x}-01")
            await asyncio.sleep(0)
            with sonde.span("serve", number=number):
                await asyncio.sleep(0)

        async def main():
            await asyncio.gather(*(serve(n) for n in range(1, 100)))
            return sonde.trace_id()

        self.assertIsNone(asyncio.run(main()))
        for s in spans("serve"):
            self.assertEqual(int(s["trace_id"], 16), s["attributes"]["number"])
            self.assertEqual(int(s["parent_id"], 16), s["attributes"]["number"])

    def test_cancelled_and_timed_out(self):
        @sonde.time_function(name="cancel.function")
        async def forever():
            with sonde.span("cancel.inner"):
                await asyncio.Event().wait()

        async def main():
            task = asyncio.create_task(forever())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with self.assertRaises(TimeoutError), sonde.span("cancel.timeout"):
                async with asyncio.timeout(0):
                    await asyncio.Event().wait()

        asyncio.run(main())
        self.assertEqual(span("cancel.inner")["outcome"], "cancelled")
        self.assertEqual(span("cancel.function")["outcome"], "cancelled")
        self.assertEqual(span("cancel.timeout")["outcome"], "timeout")
        self.assertEqual(series("sonde_operation_errors_total", operation="cancel.function",
                                type="CancelledError")["value"], 1)

    def test_timed_functions_in_tasks(self):
        @sonde.time_function(name="plain.in.task")
        def plain():
            with sonde.span("plain.inner"):
                pass

        async def main():
            with sonde.span("plain.outer") as outer:
                plain()
                await asyncio.sleep(0)
                self.assertEqual(sonde.trace_id(), outer.trace_id)
            return outer

        outer = asyncio.run(main())
        self.assertEqual(span("plain.in.task")["parent_id"], outer.span_id)
        self.assertEqual(span("plain.inner")["parent_id"], span("plain.in.task")["span_id"])


class Coroutines(unittest.TestCase):
    def test_lives_and_runs(self):
        @sonde.time_function(name="co.lives")
        async def lives(event):
            """Doc."""
            with sonde.span("co.inner"):
                await event.wait()
            return 5

        async def main():
            event = asyncio.Event()
            task = asyncio.create_task(lives(event))
            await asyncio.sleep(0)
            self.assertIsNone(sonde.trace_id())
            await asyncio.sleep(0.05)
            event.set()
            return await task

        self.assertEqual(asyncio.run(main()), 5)
        self.assertTrue(inspect.iscoroutinefunction(lives))
        self.assertEqual((lives.__name__, lives.__doc__), ("lives", "Doc."))
        s = span("co.lives")
        self.assertGreaterEqual(s["duration"], 0.05)
        self.assertLess(s["attributes"]["running_seconds"], s["duration"])
        self.assertEqual(span("co.inner")["parent_id"], s["span_id"])
        self.assertEqual(series("sonde_operation_duration_seconds", operation="co.lives", outcome="ok")["count"], 1)

    def test_fails(self):
        @sonde.time_function(name="co.fails")
        async def fails():
            await asyncio.sleep(0)
            raise LookupError

        with self.assertRaises(LookupError):
            asyncio.run(fails())
        self.assertEqual(span("co.fails")["outcome"], "error")

    def test_never_awaited_and_thrown_into(self):
        @sonde.time_function(name="co.thrown")
        async def waits():
            try:
                await asyncio.sleep(1)
            except KeyError:
                return 7

        coroutine = waits()
        coroutine.close()
        self.assertEqual(spans("co.thrown"), [])

        async def main():
            coroutine = waits()
            coroutine.send(None)
            try:
                coroutine.throw(KeyError)
            except StopIteration as stop:
                return stop.value

        self.assertEqual(asyncio.run(main()), 7)
        self.assertEqual(span("co.thrown")["outcome"], "ok")

    def test_throughput_of_a_coroutine(self):
        @sonde.measure_throughput(name="co.rows")
        async def rows():
            await asyncio.sleep(0)
            return [1, 2, 3]

        self.assertEqual(asyncio.run(rows()), [1, 2, 3])
        self.assertEqual(series("sonde_throughput_items_total", scope="co.rows")["value"], 3)


class Generators(unittest.TestCase):
    def test_the_consumer_is_not_inside(self):
        @sonde.time_function(name="gen.count")
        def count(n):
            for i in range(n):
                with sonde.span("gen.step"):
                    got = yield i
            return got

        with sonde.span("gen.consumer") as consumer:
            counted = count(3)
            self.assertEqual(next(counted), 0)
            self.assertEqual(sonde.traceparent()[36:52], consumer.span_id)
            with sonde.span("gen.consume"):
                self.assertEqual(counted.send("a"), 1)
            self.assertEqual(next(counted), 2)
            with self.assertRaises(StopIteration) as stop:
                counted.send("last")
            self.assertEqual(stop.exception.value, "last")
            self.assertEqual(sonde.traceparent()[36:52], consumer.span_id)
        self.assertEqual(span("gen.consume")["parent_id"], consumer.span_id)
        made = span("gen.count")
        self.assertEqual(made["parent_id"], consumer.span_id)
        self.assertEqual({s["parent_id"] for s in spans("gen.step")}, {made["span_id"]})
        self.assertTrue(inspect.isgeneratorfunction(count))

    def test_left_alone(self):
        @sonde.time_function(name="gen.left")
        def endless():
            yield from itertools.count()

        for number in endless():
            if number == 2:
                break
        gc.collect()
        self.assertEqual(span("gen.left")["outcome"], "cancelled")
        unused = endless()
        del unused
        self.assertEqual(len(spans("gen.left")), 1)
        self.assertIsNone(sonde.trace_id())

    def test_a_span_in_a_generator_that_is_not_decorated(self):
        def numbers():
            with sonde.span("gen.bare"):
                yield 1
                yield 2

        one = numbers()
        next(one)
        with sonde.span("gen.bare.consumer") as consumer:
            list(one)
            self.assertEqual(sonde.traceparent()[36:52], consumer.span_id)
        self.assertEqual(span("gen.bare")["outcome"], "ok")
        sonde.set_traceparent(None)

    def test_collected_in_another_thread(self):
        def numbers():
            with sonde.span("gen.elsewhere"):
                yield 1

        held = [numbers()]
        next(held[0])

        def work():
            with sonde.span("gen.elsewhere.thread") as own:
                held.pop().close()
                self.assertEqual(sonde.traceparent()[36:52], own.span_id)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(span("gen.elsewhere")["outcome"], "cancelled")
        sonde.set_traceparent(None)

    def test_async_generators(self):
        @sonde.time_function(name="agen.count")
        async def count(n):
            for i in range(n):
                with sonde.span("agen.step"):
                    await asyncio.sleep(0)
                    try:
                        yield i
                    except KeyError:
                        yield "caught"

        async def main():
            with sonde.span("agen.consumer") as consumer:
                self.assertEqual([i async for i in count(3)], [0, 1, 2])
                counted = count(5)
                self.assertEqual(await counted.asend(None), 0)
                self.assertEqual(sonde.traceparent()[36:52], consumer.span_id)
                self.assertEqual(await counted.athrow(KeyError), "caught")
                await counted.aclose()
                with self.assertRaises(LookupError):
                    failing = count(2)
                    await failing.asend(None)
                    await failing.athrow(LookupError)
            return consumer

        consumer = asyncio.run(main())
        made = spans("agen.count")
        self.assertEqual([s["outcome"] for s in made], ["ok", "cancelled", "error"])
        self.assertEqual({s["parent_id"] for s in made}, {consumer.span_id})
        self.assertEqual({s["parent_id"] for s in spans("agen.step")}, {s["span_id"] for s in made})
        self.assertTrue(inspect.isasyncgenfunction(count))


class OtherContexts(unittest.TestCase):
    def test_nested_runs(self):
        def inner():
            with sonde.span("run.inner") as s:
                return s.span_id, contextvars.copy_context()

        with sonde.span("run.outer") as outer:
            _, copied = contextvars.copy_context().run(inner)
        self.assertEqual(span("run.inner")["parent_id"], outer.span_id)
        copied.run(lambda: sonde.span("run.later").__enter__().__exit__(None, None, None))
        self.assertEqual(span("run.later")["parent_id"], span("run.inner")["span_id"])

    def test_in_an_empty_context(self):
        def work():
            with sonde.span("empty.outer") as outer:
                with sonde.span("empty.inner"):
                    pass
                return outer.span_id

        outer = contextvars.Context().run(work)
        self.assertEqual(span("empty.inner")["parent_id"], outer)
        self.assertIsNone(span("empty.outer")["parent_id"])

    def test_environment(self):
        out = run("""
            import sonde, threading, contextvars
            def show(): print(sonde.trace_id())
            show()
            t = threading.Thread(target=show); t.start(); t.join()
            t = threading.Thread(target=contextvars.copy_context().run, args=(show,)); t.start(); t.join()
            with sonde.span("x") as s: pass
            assert sonde.spans()[0]["parent_id"] == "b7ad6b7169203331"
            """, TRACEPARENT="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        self.assertEqual(out.split(), ["0af7651916cd43dd8448eb211c80319c"] * 3)


if __name__ == "__main__":
    unittest.main()

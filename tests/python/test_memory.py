"""References and memory: what is made is given back. On Debian's Python by counting blocks, on its debug
build by the interpreter's own count of all references."""

import gc
import os
import sys
import tempfile
import textwrap
import tracemalloc
import unittest

import sonde
from helpers import build, run

DEBUG_PYTHON = "/usr/bin/python3-dbg"

# Everything that is made and thrown away, once.
ROUND = """
import asyncio, contextvars, pickle, sonde

counter = sonde.counter("memory_total")
family = sonde.counter("memory_labels_total", labels=("a", "b"))
gauge = sonde.gauge("memory_now")
histogram = sonde.histogram("memory_seconds")
pool = sonde.pool("memory")
ODD = "\\ud800"

@sonde.time_function
def plain(a, b=1):
    return a

@sonde.time_function
def fails():
    raise KeyError("x")

@sonde.time_function
def generator():
    with sonde.span("memory.in.generator"):
        yield 1
        yield 2

@sonde.time_function
async def coroutine():
    with sonde.span("memory.in.coroutine", n=1):
        await asyncio.sleep(0)
    plain(1)

@sonde.time_function
async def async_generator():
    yield 1
    yield 2

@sonde.measure_throughput
def rows():
    return [1, 2]

class Thing:
    @sonde.time_function
    def method(self, x):
        return x

async def main():
    await asyncio.gather(coroutine(), coroutine())
    async for _ in async_generator():
        break
    task = asyncio.create_task(coroutine())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

def attempt(call, *errors):
    try:
        call()
    except errors:
        pass
    else:
        raise AssertionError("no error")

def in_context():
    with sonde.span("memory.context", a=1), sonde.operation("memory.operation"):
        plain(1)
        list(generator())

def once(loop, pickles=False):
    counter.add(); counter.add(2**70 % 2**64); counter.inc(); gauge.set(1); gauge.add(2.5)
    histogram.record(0.5); histogram.record(-1); histogram.stats(); histogram.quantile(0.5)
    family.labels("1", 2).add(1); family.labels(a="1", b=2).add(1)
    pool.add(1); pool.set(2); sonde.bandwidth("in", 1, "x"); sonde.cache_access(True, "t")
    with histogram.time(), sonde.span("memory.span", a=1, b="x" * 100, c=2.5, d=None) as s:
        s["k"] = ODD; s["l"] = 2**90; s.trace_id, s.span_id, s.name, s.recording
        with sonde.scope("memory.scope"), sonde.throughput("memory.rows") as t:
            t.add(3)
        sonde.traceparent(); sonde.trace_id()
    sonde.set_traceparent(sonde.traceparent()); sonde.set_traceparent(None)
    plain(1, b=2); plain(a=1); attempt(fails, KeyError); attempt(plain, TypeError); rows()
    Thing().method(1); bound = Thing().method; bound(1); repr(plain); repr(counter); repr(family)
    list(generator())
    for _ in generator():
        break
    loop.run_until_complete(main())
    contextvars.copy_context().run(in_context)
    sonde.span("memory.never.begun", a=1)
    sonde.time_function(lambda: None, name="memory.lambda")()
    sonde.counter("memory_total"); sonde.histogram("memory_seconds", "help", unit="seconds", constant=None)
    for bad in (lambda: counter.add(-1), lambda: counter.add("1"), lambda: family.labels("1"), family.inc,
                lambda: sonde.gauge("memory_total"), lambda: sonde.counter("bad name"), lambda: sonde.span(1),
                lambda: sonde.counter("a_total", labels="x"), lambda: sonde.set_traceparent("x"),
                lambda: sonde.bandwidth("x", 1), lambda: sonde.spans(limit=-1), sonde.Span,
                lambda: histogram.record("x"), lambda: gauge.set("x"), lambda: sonde.counter("a_total", kind=99)):
        attempt(bad, TypeError, ValueError)
    if pickles:
        pickle.loads(pickle.dumps(family.labels("1", 2))); pickle.loads(pickle.dumps(histogram))
    sonde.snapshot(); sonde.spans(limit=5)
    with sonde.disabled("memory.span"), sonde.span("memory.span", a=1):
        pass
    sonde.enable(False)
    with sonde.span("memory.span", a=1):
        plain(1)
    sonde.enable(True)
"""


class Blocks(unittest.TestCase):
    def grow(self, rounds=20):
        """Blocks and bytes that were still there after so many rounds more."""
        space = {}
        exec(compile(ROUND, "round", "exec"), space)
        import asyncio
        loop = asyncio.new_event_loop()
        try:
            for _ in range(20):
                space["once"](loop)
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])
            blocks = sys.getallocatedblocks()
            for _ in range(rounds):
                space["once"](loop)
            gc.collect()
            blocks = sys.getallocatedblocks() - blocks
            after = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)])
            return blocks, sum(s.size_diff for s in after.compare_to(before, "filename")), after.compare_to(before, "lineno")[:5]
        finally:
            tracemalloc.stop()
            loop.close()

    def test_nothing_grows(self):
        blocks, size, where = self.grow()
        # A leak of one object in each of 20 rounds would be 20 blocks.
        self.assertLess(blocks, 20, where)
        self.assertLess(size, 10000, where)

    def test_references_of_what_is_shared(self):
        name, value = "memory.refs." + str(os.getpid()), object()
        counter = sonde.counter("memory_refs_total")

        def function():
            return value

        timed = sonde.time_function(function)
        with sonde.span(name, thing=value):
            timed()
        watched = [name, value, counter, function, timed, None, sonde.Span, sonde.Counter, type(timed)]
        before = [sys.getrefcount(o) for o in watched]
        for _ in range(1000):
            with sonde.span(name, thing=value) as s:
                s["thing"] = value
                timed()
                counter.add(1)
        del s
        after = [sys.getrefcount(o) for o in watched]
        for what, was, now in zip(watched, before, after):
            self.assertLess(abs(now - was), 20, what)

    def test_a_cycle_through_a_timed_function_is_collected(self):
        import weakref

        class Owner:
            pass

        owner = Owner()
        owner.function = sonde.time_function(lambda: owner)
        owner.function.owner = owner
        gone = weakref.ref(owner)
        owner.function()
        del owner
        gc.collect()
        self.assertIsNone(gone())


class DebugBuild(unittest.TestCase):
    def test_total_references(self):
        """The extension has to count too: it is built for that Python here."""
        if not os.path.exists(DEBUG_PYTHON):
            self.skipTest(f"{DEBUG_PYTHON} is not installed: apt-get install python3-dbg")
        package = tempfile.TemporaryDirectory(prefix="sonde-debug-")
        self.addCleanup(package.cleanup)
        build(package.name, python=DEBUG_PYTHON, cflags="-DPy_REF_DEBUG -O0")
        code = ROUND + textwrap.dedent("""
            import gc, sys
            loop = asyncio.new_event_loop()
            def measure(n):
                for _ in range(n): once(loop, pickles=True)
                gc.collect()
                return sys.gettotalrefcount()
            measure(10)
            totals = [measure(10) for _ in range(4)]
            loop.close()
            print(*[b - a for a, b in zip(totals, totals[1:])])
            """)
        out = run(code, python=DEBUG_PYTHON, PYTHONPATH=package.name)
        growth = [int(word) for word in out.split()]
        self.assertEqual(len(growth), 3)
        self.assertLess(min(growth), 10, f"a reference lost in each round would be 10 in each of {growth}")


if __name__ == "__main__":
    unittest.main()

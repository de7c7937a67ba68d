"""The Python package beside the current prometheus_client and OpenTelemetry's SDK, in one process.

usage: python_clients.py        with the Python of a venv that has both, PYTHONPATH with sonde, SONDE_DIR set

First an oracle: a program of tasks, threads and generators that begins a span of both at every place. Each of
ours must have the parent and the trace that theirs has. Then what a record costs, in turns; that is for
reading, and fails nothing.
"""
import asyncio
import contextlib
import random
import sys
import timeit

import prometheus_client
import sonde
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

TASKS = 400  # with three spans each, less than our rings hold

kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
tracer = provider.get_tracer("peers")


@contextlib.contextmanager
def both(key):
    with tracer.start_as_current_span(key), sonde.span("peers", key=key):
        yield


def in_thread(key):
    with both(key):
        pass


async def work(number, rng):
    with both(f"{number}.outer"):
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)
        child = asyncio.create_task(step(f"{number}.child", rng)) if number % 4 == 0 else None
        await step(f"{number}.inner", rng)
        if number % 10 == 0:
            await asyncio.to_thread(in_thread, f"{number}.thread")
    if child:
        await child


async def step(key, rng):
    for _ in range(rng.randrange(3)):
        await asyncio.sleep(0)
    with both(key):
        await asyncio.sleep(0)


async def tasks():
    rng = random.Random(7)
    await asyncio.gather(*(work(number, rng) for number in range(TASKS)))


def same_parents():
    with both("main"):
        asyncio.run(tasks())
    theirs = {s.context.span_id: s for s in kept.get_finished_spans()}
    ours = {s["span_id"]: s for s in sonde.spans() if s["name"] == "peers"}
    key_of = {identity: s["attributes"]["key"] for identity, s in ours.items()}
    found = {key_of[i]: (key_of.get(s["parent_id"]), s["trace_id"]) for i, s in ours.items()}
    wrong, traces = [], {}
    for s in theirs.values():
        parent = theirs[s.parent.span_id].name if s.parent else None
        mine = found.get(s.name)
        if not mine or mine[0] != parent or traces.setdefault(s.context.trace_id, mine[1]) != mine[1]:
            wrong.append((s.name, parent, mine))
    print(f"{len(theirs)} spans of tasks and threads, {len(found)} of ours, {len(wrong)} with another parent or trace")
    for line in wrong[:10]:
        print("  ", *line)
    return len(theirs) == len(found) and not wrong


def function():
    pass


def costs():
    quiet = TracerProvider().get_tracer("costs")
    meter = MeterProvider([InMemoryMetricReader()]).get_meter("costs")
    registry = prometheus_client.CollectorRegistry()
    their_histogram = prometheus_client.Histogram("h_seconds", "x", registry=registry)
    names = {"sonde": sonde, "counter": sonde.counter("c_total"), "histogram": sonde.histogram("h_seconds"),
             "timed": sonde.time_function(function), "function": function,
             "pc": prometheus_client.Counter("c_total", "x", registry=registry), "ph": their_histogram,
             "pt": their_histogram.time()(function), "oc": meter.create_counter("c"),
             "oh": meter.create_histogram("h"), "quiet": quiet,
             "ot": quiet.start_as_current_span("x")(function)}
    table = [
        ("counter", "counter.add(1)", "pc.inc()", "oc.add(1)"),
        ("histogram", "histogram.record(0.01)", "ph.observe(0.01)", "oh.record(0.01)"),
        ("with span", "with sonde.span('x'): pass", "with ph.time(): pass",
         "with quiet.start_as_current_span('x'): pass"),
        ("decorated call", "timed()", "pt()", "ot()"),
    ]
    print(f"{'ns':16}{'sonde':>10}{'prometheus_client':>20}{'OpenTelemetry':>16}")
    for name, *statements in table:
        timers = [timeit.Timer(statement, globals=names) for statement in statements]
        rounds = [[] for _ in timers]
        for _ in range(60):
            for timer, values in zip(timers, rounds):
                values.append(timer.timeit(200) / 200 * 1e9)
        ours, theirs, others = (min(values) for values in rounds)
        print(f"{name:16}{ours:10.0f}{theirs:20.0f}{others:16.0f}")


if __name__ == "__main__":
    good = same_parents()
    costs()
    sys.exit(0 if good else 1)

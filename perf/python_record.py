"""python_record: what a record costs in a Python program, in the interpreter that runs this: Debian's.

    python_record.py [--rounds N] [--no-peers]

Variants of one operation (sonde, the bare operation, prometheus_client) take turns in rounds of about a
millisecond; rounds in which the kernel took the CPU away are not counted as long as enough others remain.
Prints a JSON object: {figure: {variant: [nanoseconds of each round]}}.
"""
import argparse
import contextvars
import json
import resource
import threading
import timeit

import sonde

ROUND_S = 0.001


class Bare:
    """What anybody would write by hand, for one thread."""

    def __init__(self):
        self.n = 0


def function():
    pass


def figures(peers):
    """By figure: statements by variant, and the names in them."""
    bare, lock = Bare(), threading.Lock()
    counter = sonde.counter("perf_total")
    family = sonde.counter("perf_labels_total", labels=("route", "code"))
    gauge = sonde.gauge("perf_now")
    histogram = sonde.histogram("perf_seconds")
    timed = sonde.time_function(function)
    spanned = sonde.time_function(function, collect_metrics=False)
    names = {"sonde": sonde, "bare": bare, "lock": lock, "counter": counter, "family": family, "gauge": gauge,
             "histogram": histogram, "timed": timed, "spanned": spanned, "function": function, "v": 0.0123}
    out = {
        "counter": {"sonde": "counter.add(1)", "bare": "bare.n += 1"},
        "labels": {"sonde": "family.labels('/', '200').add(1)"},
        "gauge": {"sonde": "gauge.set(v)", "bare": "bare.n = v"},
        "histogram": {"sonde": "histogram.record(v)", "bare": "bare.n += v"},
        "span": {"sonde": "with sonde.span('x'): pass", "bare": "with lock: pass"},
        "operation": {"sonde": "with sonde.operation('y'): pass", "bare": "with lock: pass"},
        "decorator": {"sonde": "timed()", "bare": "function()"},
        "decorator_span": {"sonde": "spanned()", "bare": "function()"},
    }
    if peers:
        import prometheus_client
        registry = prometheus_client.CollectorRegistry()
        their_counter = prometheus_client.Counter("peer_total", "x", registry=registry)
        their_family = prometheus_client.Counter("peer_labels_total", "x", ["route", "code"], registry=registry)
        their_gauge = prometheus_client.Gauge("peer_now", "x", registry=registry)
        their_histogram = prometheus_client.Histogram("peer_seconds", "x", registry=registry)
        names |= {"their_counter": their_counter, "their_family": their_family, "their_gauge": their_gauge,
                  "their_histogram": their_histogram, "their_timed": their_histogram.time()(function)}
        for figure, statement in {"counter": "their_counter.inc()", "gauge": "their_gauge.set(v)",
                                  "labels": "their_family.labels('/', '200').inc()",
                                  "histogram": "their_histogram.observe(v)",
                                  "operation": "with their_histogram.time(): pass",
                                  "decorator": "their_timed()"}.items():
            out[figure]["prometheus_client"] = statement
    return out, names


def preempted():
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nivcsw + usage.ru_nvcsw


def take_turns(variants, names, rounds):
    timers = {}
    for variant, statement in variants.items():
        timer = timeit.Timer(statement, globals=names)
        once = min(timer.timeit(200) for _ in range(20)) / 200
        timers[variant] = timer, max(20, round(ROUND_S / once))
    kept, all_of = {v: [] for v in timers}, {v: [] for v in timers}
    for turn in range(rounds):
        order = list(timers.items())
        for variant, (timer, number) in order if turn % 2 else reversed(order):
            before = preempted()
            ns = timer.timeit(number) / number * 1e9
            all_of[variant].append(ns)
            if preempted() == before:
                kept[variant].append(ns)
    return {v: kept[v] if len(kept[v]) >= rounds // 4 else all_of[v] for v in timers}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    operations, names = figures(not options.no_peers)
    found = {"nothing": take_turns({"bare": "pass"}, names, options.rounds)}
    for figure, variants in operations.items():
        found[figure] = take_turns(variants, names, options.rounds)

    def in_a_task():
        for figure in ("span", "decorator"):
            ours = {v: s for v, s in operations[figure].items() if v in ("sonde", "bare")}
            found[f"{figure}_task"] = take_turns(ours, names, options.rounds)

    contextvars.copy_context().run(in_a_task)
    sonde.enable(False)
    for figure in ("counter", "histogram", "span", "decorator"):
        ours = {v: s for v, s in operations[figure].items() if v in ("sonde", "bare")}
        found[f"{figure}_off"] = take_turns(ours, names, options.rounds)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

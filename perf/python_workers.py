"""python_workers: forked workers that count, by sonde or by prometheus_client's multiprocess mode.

    python_workers.py sonde|prometheus_client WORKERS SERIES INCREMENTS [ROUNDS]

Each worker adds INCREMENTS to each of SERIES counters by label and records as many values in a histogram.
Then, with all of them alive, prints a line "ready TOTAL". prometheus_client: the scrape is timed here, as
its own process would do it: prints "scraped MILLISECONDS SUM LINES" for each round. Ends when its input
does."""
import os
import sys
import time

LIBRARY, WORKERS, SERIES, INCREMENTS = sys.argv[1], *map(int, sys.argv[2:5])
ROUNDS = int(sys.argv[5]) if len(sys.argv) > 5 else 0


def work_sonde():
    import sonde
    counter = sonde.counter("workers_total", labels=("series",))
    histogram = sonde.histogram("workers_seconds")
    return [counter.labels(i).add for i in range(SERIES)], histogram.record


def work_prometheus():
    import prometheus_client
    counter = prometheus_client.Counter("workers_total", "x", ["series"])
    histogram = prometheus_client.Histogram("workers_seconds", "x")
    return [counter.labels(i).inc for i in range(SERIES)], histogram.observe


def main():
    make = work_sonde if LIBRARY == "sonde" else work_prometheus
    done_read, done_write = os.pipe()
    end_read, end_write = os.pipe()
    children = []
    for _ in range(WORKERS):
        child = os.fork()
        if child == 0:
            os.close(end_write)
            adds, record = make()
            for i in range(INCREMENTS):
                for add in adds:
                    add(1)
                record(0.001 * i)
            os.write(done_write, b"x")
            os.read(end_read, 1)
            os._exit(0)
        children.append(child)
    left = WORKERS
    while left:
        left -= len(os.read(done_read, left))
    print("ready", WORKERS * SERIES * INCREMENTS, flush=True)
    for _ in range(ROUNDS):
        from prometheus_client import CollectorRegistry, generate_latest, multiprocess
        began = time.perf_counter()
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
        text = generate_latest(registry).decode()
        took = time.perf_counter() - began
        total = sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("workers_total{"))
        print("scraped", took * 1e3, round(total), text.count("\n"), flush=True)
    sys.stdin.read()
    os.close(end_write)
    for child in children:
        os.waitpid(child, 0)


main()

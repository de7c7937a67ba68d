"""python: what a record costs in Python beside bare Python and Debian's prometheus_client, and what it takes
to scrape forked workers."""
import json
import os
import re
import subprocess
import time
import urllib.request

from common import ROOT, named, row, say, stats_of

PYTHON = "/usr/bin/python3"
WORKERS, SERIES, INCREMENTS = 64, 50, 200
SCRAPES = 25


def environment(args, **more):
    """The package is the build's; without, one of the machine's would be measured."""
    package = args.build / "python"
    if not (package / "sonde").is_dir():
        raise RuntimeError(f"{package} has no package sonde: make python")
    return {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", **more}


# ---- Records ----------------------------------------------------------------------------------

FIGURES = [  # id, what it is, the most it may take
    ("counter", "counter.add(1)", 50),
    ("labels", "counter.labels(a, b).add(1)", 0),
    ("gauge", "gauge.set(v)", 0),
    ("histogram", "histogram.record(v)", 80),
    ("span", "with sonde.span('x'): pass", 200),
    ("span_task", "the same in a task's context", 0),
    ("operation", "with sonde.operation('x'): pass", 0),
    ("counter_off", "counter.add(1), switched off", 0),
    ("histogram_off", "histogram.record(v), switched off", 0),
    ("span_off", "with sonde.span('x'): pass, switched off", 0),
]
DECORATORS = [
    ("decorator", "@time_function, over the bare call", 250),
    ("decorator_span", "@time_function(collect_metrics=False), over it", 0),
    ("decorator_task", "@time_function in a task's context, over it", 0),
    ("decorator_off", "@time_function, switched off, over it", 0),
]


def over(samples, bare):
    """What a call takes more than the bare one: least by least."""
    least = min(bare)
    return {**stats_of([s - least for s in samples]), "value": min(samples) - least}


def measure_record(args, scratch):
    say("python: records")
    rounds = max(5, round(101 * args.effort))
    command = [PYTHON, str(ROOT / "perf/python_record.py"), "--rounds", str(rounds)]
    if not args.peers:
        command.append("--no-peers")
    done = subprocess.run(command, env=environment(args), stdout=subprocess.PIPE, text=True, check=True,
                          timeout=300)
    found = json.loads(done.stdout)
    rows = [row("python_loop", "python_record", "Python: a loop of nothing", "ns", None,
                named("bare", stats_of(found["nothing"]["bare"])))]
    of = lambda name, samples: named(name, stats_of(samples)) if samples else None
    for figure, what, budget in FIGURES:
        by = found[figure]
        rows.append(row(f"python_{figure}", "python_record", f"Python: {what}", "ns", of("sonde", by["sonde"]),
                        of("bare", by.get("bare")),
                        [of("prometheus_client", by.get("prometheus_client"))], budget))
    for figure, what, budget in DECORATORS:
        by = found[figure]
        peer = by.get("prometheus_client")
        rows.append(row(f"python_{figure}", "python_record", f"Python: {what}", "ns",
                        named("sonde", over(by["sonde"], by["bare"])), None,
                        [named("prometheus_client", over(peer, by["bare"])) if peer else None], budget,
                        note=f"the bare call: {min(by['bare']):.0f} ns"))
    return rows


# ---- Workers ----------------------------------------------------------------------------------

class Workers:
    """Forked workers that have counted and wait."""

    def __init__(self, library, env, rounds=0):
        self.process = subprocess.Popen([PYTHON, str(ROOT / "perf/python_workers.py"), library, str(WORKERS), str(SERIES),
                                         str(INCREMENTS), str(rounds)], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise RuntimeError(f"the workers of {library} did not come to work")
        self.total = int(words[1])

    def __enter__(self):
        return self

    def __exit__(self, *failed):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def scrape(url):
    began = time.perf_counter()
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    took = (time.perf_counter() - began) * 1e3
    total = sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("workers_total{"))
    return took, round(total), text.count("\n")


def agent_url(agent):
    while True:
        line = agent.stderr.readline()
        if not line:
            raise RuntimeError(f"sonde serve ended with status {agent.wait()}")
        found = re.search(r"http://\S+", line)
        if found:
            return found.group(0).rstrip("/")


def by_sonde(args, scrapes):
    """Milliseconds of each scrape that had it all, and lines; what the last had to be."""
    with Workers("sonde", environment(args)) as workers:
        agent = subprocess.Popen([args.build / "sonde", "serve", "--listen", "127.0.0.1:0", "--no-host"],
                                 stderr=subprocess.PIPE, text=True)
        try:
            url = agent_url(agent)
            deadline = time.monotonic() + 60
            while scrape(url)[1] != workers.total:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the agent has {scrape(url)[1]} of {workers.total}")
                time.sleep(0.1)
            found = [scrape(url) for _ in range(scrapes)]
        finally:
            agent.terminate()
            agent.wait()
            agent.stderr.close()
    if any(total != workers.total for _, total, _ in found):
        raise RuntimeError("a scrape was not exact")
    return [took for took, _, _ in found], found[-1][2]


def by_prometheus(args, scratch, scrapes):
    folder = scratch / "prometheus_multiproc"
    folder.mkdir()
    with Workers("prometheus_client", environment(args, PROMETHEUS_MULTIPROC_DIR=str(folder)), scrapes) as workers:
        found = [workers.process.stdout.readline().split() for _ in range(scrapes)]
    if any(int(total) != workers.total for _, _, total, _ in found):
        raise RuntimeError("a scrape of prometheus_client was not exact")
    return [float(took) for _, took, _, _ in found]


def measure_workers(args, scratch):
    say(f"python: {WORKERS} forked workers scraped")
    scrapes = max(3, round(SCRAPES * args.effort))
    ours, lines = by_sonde(args, scrapes)
    theirs = by_prometheus(args, scratch, max(3, scrapes // 3)) if args.peers else None
    return [row("python_workers", "python_workers", f"Python: {WORKERS} forked workers scraped, exactly", "ms",
                named("sonde serve", stats_of(ours)), None,
                [named("prometheus_client multiprocess", stats_of(theirs)) if theirs else None], 20,
                note=f"{SERIES} counters and a histogram in each; {lines} lines by HTTP, every process's own series; "
                     "prometheus_client's is the rendering alone, of sums over the processes")]


GROUPS = {"python_record": measure_record, "python_workers": measure_workers}

"""cpu: what the CPU profiler costs and what it gets, beside others.

    cpu_sample       a sample's cost, the rate, whole stacks, bytes; profilers take turns
    cpu_start        a recording of nothing
    cpu_always       sonde run at its usual rate, on and off in turns
    cpu_continuous   the same with a history of profiles in a store, at the rate of that
    cpu_python       a program in Python, with and without samples of its functions, in turns
    cpu_flamegraph   a large profile drawn

A sample's cost has two parts. What it takes from the program is what the program sees itself (see
burner.c), less what it sees without a profiler. What the profiler's own processes need is a
difference of their CPU time, between a recording of many samples and one of few: so the fixed part
of a recording (start, unwind tables, names) cancels out, and is a row of its own. Of the rounds the
least counts, since other load only adds.
"""
import os
import shutil
import subprocess
import time
import types

from common import ROOT, memory_mb, named, row, say, stats_of, watch
from profilers import Gperftools, Perf, Run, Sonde, burner_cpu

UNITS = 50000            # a second of work
RATE = 1000
# Seconds for the rounds of each group, so that all of it takes less than three minutes.
SECONDS = {"cpu_sample": 80, "cpu_start": 8, "cpu_always": 25, "cpu_continuous": 25, "cpu_python": 50,
           "cpu_flamegraph": 10}


def rounds_until(seconds):
    """Count rounds while there is time for another one like the last."""
    begin = last = time.monotonic()
    n = 0
    while True:
        now = time.monotonic()
        if n and now + (now - last) > begin + seconds:
            return
        last = now
        yield n
        n += 1


# ---- A sample -------------------------------------------------------------------------------

class Cost:
    """A profiler's rounds and what follows from them. bare: runs without one, as many a round."""

    def __init__(self, profiler, bare):
        self.profiler, self.bare, self.low, self.high = profiler, bare, [], []
        self.usual, self.share = None, 0

    def turn(self):
        self.low.append(self.profiler.run(*self.profiler.low))
        self.high.append(self.profiler.run(UNITS, self.profiler.high_rate))

    def once(self):
        """What is not worth a turn in every round; before them, since files are overwritten."""
        self.usual = self.profiler.run(UNITS, RATE)
        if self.profiler.high_rate == RATE:
            self.share = self.profiler.share(UNITS, RATE)

    def stats(self, figure):
        """figure(low, high, bare): of each round, and of the least of all rounds."""
        def least(runs):
            return types.SimpleNamespace(
                units=runs[0].units, tool=min(r.tool for r in runs), thread=runs[0].thread,
                lost=min(r.lost for r in runs), stacks=sum(r.stacks for r in runs) / len(runs))
        # Of the program alone there are several runs a round, taken here and there in it.
        each = len(self.bare) // len(self.high)
        rounds = [figure(low, high, least(self.bare[i * each:(i + 1) * each]))
                  for i, (low, high) in enumerate(zip(self.low, self.high))]
        return named(self.profiler.name,
                     stats_of(rounds, figure(least(self.low), least(self.high), least(self.bare))))

    @staticmethod
    def taken(low, high, bare):
        """Microseconds that a sample takes from the program."""
        return 1e6 * (high.lost - bare.lost * high.units / bare.units) / high.stacks

    @staticmethod
    def worked(low, high, bare):
        """Microseconds that the profiler works for a sample."""
        return 1e6 * (high.tool - low.tool) / (high.stacks - low.stacks)

    def target(self):
        return self.stats(self.taken)

    def total(self):
        return self.stats(lambda *runs: self.taken(*runs) + self.worked(*runs))

    def with_share(self):
        """Signals are too few for a difference: what the agent uses while it runs is divided."""
        return self.stats(lambda low, high, bare: self.taken(low, high, bare) +
                          1e6 * self.share * high.thread / high.stacks)

    def fixed(self):
        """Milliseconds of a recording, whatever number of samples it has."""
        return self.stats(lambda low, high, bare: 1e3 * (low.tool - bare.tool) -
                          self.worked(low, high, bare) / 1e3 * low.stacks)

    def honoured(self):
        """Percent of the rate asked for, over the program's CPU time."""
        share = 100 * self.profiler.weighed(self.usual) / (RATE * self.usual.process)
        return named(self.profiler.name, stats_of([share]))

    def whole(self):
        return named(self.profiler.name, stats_of([self.profiler.whole(self.high[-1])]))

    def bytes(self):
        """For each sample more: what a file holds anyway cancels out."""
        return named(self.profiler.name, stats_of([
            (high.bytes - low.bytes) / (high.stacks - low.stacks)
            for low, high in zip(self.low, self.high)]))


def sample_rows(costs, notes):
    def of(figure, *names):
        found = [getattr(costs[name], figure)() if name in costs else None for name in names]
        return found[0] if len(names) == 1 else found

    def one(row_id, text, unit, figure, budget, note, floor=True):
        """The engine that samples from outside."""
        missing = [notes[name] for name in ("sonde perf", *outside) if name in notes]
        return row(row_id, "cpu_sample", text, unit, of(figure, "sonde perf"),
                   of(figure, "perf, no stack") if floor else None, of(figure, *outside), budget,
                   "; ".join(filter(None, [note, *missing])), figure in ("honoured", "whole"))

    def timer(row_id, text, unit, figure, budget, note):
        """The one that samples from within."""
        missing = [notes[name] for name in ("sonde timer", "gperftools") if name in notes]
        return row(row_id, "cpu_sample", text, unit, of(figure, "sonde timer"), None,
                   [of(figure, "gperftools")], budget,
                   "; ".join(filter(None, [note, *missing])), figure in ("honoured", "whole"))

    outside = ("perf dwarf", "perf fp")
    last = costs["sonde perf"].high[-1] if "sonde perf" in costs else None
    whole_file = f"a file of {last.stacks:,} is {last.bytes / 1e3:.0f} KB in all" if last else ""
    return [
        one("cpu_sample", "CPU sample with its stack", "us", "total", 24,
            "perf only copies: unwinding, perf script's part, is not counted"),
        one("cpu_sample_target", "of it, taken from the program", "us", "target", 0, ""),
        one("cpu_fixed", "recording, fixed CPU time", "ms", "fixed", 0,
            "start, unwind tables, names, the end"),
        one("cpu_rate", f"rate honoured at {RATE} Hz", "%", "honoured", 99,
            "samples by the program's CPU time"),
        one("cpu_whole", "stacks that reach the thread's start", "%", "whole", 99.9, "", False),
        one("cpu_bytes", "bytes stored for a sample", "B", "bytes", 16,
            "for each sample more, with stacks, names and lines; " + whole_file),
        timer("cpu_signal", "timer engine: sample with its stack", "us", "with_share", 0,
              "a sample is a signal; at 1000 Hz it stands for four periods where ticks are 250 Hz"),
        timer("cpu_signal_target", "of it, taken from the program", "us", "target", 0, ""),
        timer("cpu_fixed_timer", "recording, fixed CPU time", "ms", "fixed", 0, ""),
        timer("cpu_rate_timer", f"rate honoured at {RATE} Hz", "%", "honoured", 99,
              "by weight: a signal carries the periods that it stands for"),
        timer("cpu_whole_timer", "stacks that reach the thread's start", "%", "whole", 99.9, ""),
    ]


def measure_sample(args, scratch):
    burner, sonde = args.build / "perf" / "bench_burner", args.build / "sonde"
    bare, costs, notes = [], {}, {}
    found = [Sonde("perf", sonde, burner, scratch), Sonde("timer", sonde, burner, scratch)]
    if args.peers:
        found += [Perf("", burner, scratch), Perf("fp", burner, scratch),
                  Perf("dwarf", burner, scratch), Gperftools(burner, scratch)]
    for profiler in found:
        why = profiler.missing()
        if why:
            notes[profiler.name] = f"{profiler.name} not measured: {why}"
            say(notes[profiler.name])
        else:
            costs[profiler.name] = Cost(profiler, bare)
            costs[profiler.name].once()
    for _ in rounds_until(args.effort * SECONDS["cpu_sample"]):
        for i, cost in enumerate(costs.values()):
            if i % 2 == 0:
                bare.append(Run([], str(burner), UNITS))
            cost.turn()
    return sample_rows(costs, notes)


# ---- A recording of nothing -----------------------------------------------------------------

def wall_ms(command):
    begin = time.monotonic()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=60)
    return 1e3 * (time.monotonic() - begin)


def take_turns(commands, seconds):
    """name: command, each once a round. Returns name: statistics of the milliseconds it took."""
    taken = {name: [] for name in commands}
    for _ in rounds_until(seconds):
        for name, command in commands.items():
            taken[name].append(wall_ms(command))
    return {name: named(name, stats_of(times)) for name, times in taken.items()}


def measure_start(args, scratch):
    out = str(scratch / "start.out")
    commands = {"true": ["true"],
                "sonde record": [str(args.build / "sonde"), "record", "-o", out, "--", "true"]}
    note = "wall time from start to end"
    if args.peers:
        perf = ["perf", "record", "-o", out, "true"]
        try:
            wall_ms(perf)
            commands["perf record"] = perf
        except (OSError, subprocess.CalledProcessError) as error:
            note += f"; perf record not measured: {error}"
    times = take_turns(commands, args.effort * SECONDS["cpu_start"])
    return [row("cpu_start", "cpu_start", "recording of `true`", "ms", times["sonde record"],
                times["true"], [times.get("perf record")], 50, note)]


# ---- Always on ------------------------------------------------------------------------------

def watch_agent(command, burner, seconds=5):
    """The agent's share of a core, its memory, and what of that is its own."""
    agent = subprocess.Popen([*command, burner, str(2 * seconds * UNITS), str(burner_cpu())],
                             stdout=subprocess.DEVNULL)
    try:
        time.sleep(3)  # tables and names are made by then
        return watch(agent.pid, seconds), memory_mb(agent.pid, "VmRSS"), memory_mb(agent.pid, "RssAnon")
    finally:
        agent.terminate()
        agent.wait()


def on_and_off(under, burner, seconds):
    """The burner alone and under a command, in turns: what that takes of it in percent, and a note."""
    off, on = [], []
    for n in rounds_until(seconds):
        # Each comes first as often as second.
        for command, runs in ((([], off), (under, on)) if n % 2 else ((under, on), ([], off))):
            runs.append(Run(command, burner, UNITS))
    lost = lambda run: 100 * run.lost / run.thread
    slower = sorted(100 * (b.thread / a.thread - 1) for a, b in zip(off, on))
    n = len(slower)
    pairs = (f"by the program's CPU time for the same work, in {n} pairs: median "
             f"{slower[n // 2]:+.2f} %, quartiles {slower[n // 4]:+.2f} and "
             f"{slower[n * 3 // 4]:+.2f}")
    return stats_of([lost(b) - lost(a) for a, b in zip(off, on)],
                    min(map(lost, on)) - min(map(lost, off))), pairs


def measure_always(args, scratch):
    """The burner alone and under sonde run, in turns; then the agent is watched."""
    burner, sonde = str(args.build / "perf" / "bench_burner"), str(args.build / "sonde")
    under = [sonde, "run", "--listen", "127.0.0.1:0", "--"]
    taken, pairs = on_and_off(under, burner, args.effort * SECONDS["cpu_always"])
    busy, rss, anonymous = watch_agent(under, burner)
    idle, _, _ = watch_agent([sonde, "run", "--no-cpu", *under[2:]], burner)
    rate = "99 Hz, one busy thread"
    return [
        row("cpu_always", "cpu_always", "always on, taken from the program", "%",
            named("sonde run", taken), None, [], 0.3, f"{rate}; {pairs}"),
        row("cpu_always_agent", "cpu_always", "always on, agent", "% core",
            named("sonde run", busy), named("sonde run --no-cpu", idle), [], 0,
            f"{rate}; bare: series of host and process alone, no samples; judged by the mean"),
        row("cpu_always_rss", "cpu_always", "always on, agent's memory", "MB",
            named("sonde run", stats_of([rss])), None, [], 32,
            f"of which {anonymous:.1f} MB are its own; the rest is code and rings of samples"),
    ]


def measure_continuous(args, scratch):
    """The same with profiles kept all the time: samples become minutes in a store."""
    burner, sonde = str(args.build / "perf" / "bench_burner"), str(args.build / "sonde")
    common = [sonde, "run", "--no-heap", "--listen", "127.0.0.1:0", "--store",
              str(scratch / "continuous.store")]
    under = [*common, "--rate", "19", "--continuous", "--"]
    taken, pairs = on_and_off(under, burner, args.effort * SECONDS["cpu_continuous"])
    busy, rss, anonymous = watch_agent(under, burner, 20)  # two writes
    idle, _, _ = watch_agent([*common, "--no-cpu", "--"], burner)
    rate = "19 Hz, one busy thread"
    return [
        row("cpu_continuous", "cpu_continuous", "continuous, taken from the program", "%",
            named("--continuous", taken), None, [], 0.1, f"{rate}; {pairs}"),
        row("cpu_continuous_agent", "cpu_continuous", "continuous, agent", "% core",
            named("--continuous", busy), named("store alone", idle), [], 0,
            f"{rate}; bare: a store of series, no samples; judged by the mean"),
        row("cpu_continuous_rss", "cpu_continuous", "continuous, agent's memory", "MB",
            named("--continuous", stats_of([rss])), None, [], 48,
            f"of which {anonymous:.1f} MB are its own"),
    ]


# ---- Python ---------------------------------------------------------------------------------

PYTHON = "/usr/bin/python3"
PYTHON_TURNS = 60
PYTHON_DEPTHS = (25, 100)


def python_turns(command, depth):
    """CPU time of each turn of the same work, in a process of its own, in ns, ascending."""
    burner = [PYTHON, str(ROOT / "perf" / "python_burner.py"), str(PYTHON_TURNS), str(depth)]
    done = subprocess.run([*command, *burner], check=True, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    return sorted(int(line) for line in done.stdout.split())


def python_row(args, scratch, depth):
    under = [str(args.build / "sonde"), "record", "-q", "-F", "99", "-o", str(scratch / "python.run"), "--"]
    off, on = [], []
    for n in rounds_until(args.effort * SECONDS["cpu_python"] / len(PYTHON_DEPTHS)):
        for command, runs in ((([], off), (under, on)) if n % 2 else ((under, on), ([], off))):
            runs.append(python_turns(command, depth))
    middle = lambda times: times[len(times) // 2]
    pairs = sorted(100 * (middle(b) / middle(a) - 1) for a, b in zip(off, on))
    note = (f"99 Hz, one busy thread; {len(pairs)} pairs of processes, quartiles "
            f"{pairs[len(pairs) // 4]:+.2f} and {pairs[len(pairs) * 3 // 4]:+.2f} %")
    return row(f"cpu_python_{depth}", "cpu_python", f"Python, {depth} functions deep, taken from the program", "%",
               named("sonde record", stats_of(pairs, pairs[len(pairs) // 2])), None, [], 1, note)


def measure_python(args, scratch):
    """A turn is as long as some periods, so that hardly one is without a sample: medians of a process
    are compared, those of neighbours in time."""
    return [python_row(args, scratch, depth) for depth in PYTHON_DEPTHS]


# ---- Flame graphs ---------------------------------------------------------------------------

FLAMEGRAPH_PL = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"
PL_SECONDS_MAX = 40


def flamegraph_pl(folded, out):
    """(milliseconds, megabytes, note) of the peer, which is given one turn: it takes long."""
    script = shutil.which("flamegraph.pl") or FLAMEGRAPH_PL
    begin = time.monotonic()
    try:
        with open(out, "w") as file:
            subprocess.run(["perl", script, folded], stdout=file, stderr=subprocess.DEVNULL,
                           check=True, timeout=PL_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return None, None, f"flamegraph.pl not measured: it took longer than {PL_SECONDS_MAX} s"
    except (OSError, subprocess.CalledProcessError):
        return None, None, "flamegraph.pl not measured: it is in Debian's libdevel-nytprof-perl"
    took = 1e3 * (time.monotonic() - begin)
    stats = [named("flamegraph.pl", stats_of([v])) for v in (took, os.path.getsize(out) / 1e6)]
    return *stats, "flamegraph.pl: one round"


def measure_flamegraph(args, scratch):
    folded = str((args.inputs or scratch) / "big.folded")
    if not os.path.exists(folded):
        subprocess.run(["node", ROOT / "tests" / "browser" / "sample.mjs", "big", folded], check=True)
    outs = {kind: str(scratch / f"big.{kind}") for kind in ("svg", "html")}
    times = take_turns({kind: [str(args.build / "sonde"), "flamegraph", folded, "-o", out]
                        for kind, out in outs.items()}, args.effort * SECONDS["cpu_flamegraph"])
    size = lambda kind: named(kind, stats_of([os.path.getsize(outs[kind]) / 1e6]))
    peer_ms, peer_mb, note = flamegraph_pl(folded, str(scratch / "peer.svg")) if args.peers else \
        (None, None, "no peers")
    what = f"200,000 unique stacks, {os.path.getsize(folded) / 1e6:.0f} MB of folded text; {note}"
    group = "cpu_flamegraph"
    return [
        row("cpu_flame_svg", group, "flame graph, 200,000 stacks, SVG", "ms", times["svg"], None,
            [peer_ms], 250, what),
        row("cpu_flame_html", group, "flame graph, 200,000 stacks, HTML", "ms", times["html"],
            None, [peer_ms], 300, what),
        row("cpu_flame_svg_size", group, "size of the SVG", "MB", size("svg"), None, [peer_mb], 5,
            note),
        row("cpu_flame_html_size", group, "size of the HTML", "MB", size("html"), None, [peer_mb],
            5, note),
    ]


GROUPS = {"cpu_sample": measure_sample, "cpu_start": measure_start, "cpu_always": measure_always,
          "cpu_continuous": measure_continuous, "cpu_python": measure_python,
          "cpu_flamegraph": measure_flamegraph}

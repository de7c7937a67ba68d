"""heap: what the heap profiler costs, beside others, on a program that does little but allocate.

    heap_sampled   one allocation in 512 KiB: as `sonde run` does
    heap_full      every allocation

The program (mallocs.c; storm.c for every allocation from hundreds of stacks) runs alone and under
each profiler in turns. Figures are ratios to the same
program with the same allocator and no profiler, in the same round; of the rounds the median counts,
since a ratio is disturbed both ways. CPU time is the program's and that of the profiler's own
processes together: on a machine with as many busy threads as CPUs that is what it costs. The time
to a report and its memory are those of the command that makes one.

Times of whole programs differ by a third on a machine that others use, which is more than samples
cost. So what they cost is also measured within one process, by pairs of short windows with and
without our malloc (malloc_pairs.c); the same without the profiler, which ought to be 1, is beside it
as "bare". That leaves out the agent, and what a larger program is slower by.
"""
import glob
import os
import resource
import shutil
import subprocess
import tempfile
import time

from common import named, row, say, stats_of

# A thread; peers take minutes for more.
CALLS = {"heap_sampled": 10_000_000, "heap_full": 1_000_000}
DEPTH = {"shallow": 0, "deep": 40}
STORM_BLOCKS = 250_000
SECONDS = {"heap_sampled": 60, "heap_full": 120}
TIMEOUT = 240


def library(name):
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    for line in cache.splitlines():
        if line.strip().startswith(name + " "):
            return line.split("=> ")[1].strip()
    return None


def children_cpu():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime


class Profiler:
    """before: the command in front of the program; env: added to its environment; base: name of
    the one it is compared with; report: command that makes a report of the file."""

    def __init__(self, name, before=(), env=None, base="plain", files=None, report=None):
        self.name, self.before, self.env, self.base = name, list(before), env or {}, base
        self.files, self.report = files, report

    def run(self, *command):
        """{wall, cpu (all processes), rss_kb of the program}"""
        for old in glob.glob(self.files) if self.files else ():
            os.unlink(old)
        before = children_cpu()
        with tempfile.TemporaryFile("w+", errors="replace") as stderr:
            done = subprocess.run([*self.before, *command],
                                  env={**os.environ, **self.env}, stdout=subprocess.PIPE, text=True,
                                  stderr=stderr, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
            stderr.seek(0)
            why = [l.strip() for l in stderr if l.strip()][-1:]
        line = [l for l in done.stdout.splitlines() if len(l.split()) == 3 and l[0].isdigit()]
        if done.returncode or not line:
            # heaptrack's interpreter may die of std::bad_alloc, and the program of SIGPIPE then.
            raise RuntimeError(": ".join([f"status {done.returncode}", *why]))
        wall, _, rss = line[0].split()
        return {"wall": float(wall), "cpu": children_cpu() - before, "rss": float(rss)}

    def size_mb(self):
        return sum(os.path.getsize(f) for f in glob.glob(self.files)) / 1e6 if self.files else None


def profilers(args, scratch, full):
    sonde = [str(args.build / "sonde"), "run", "-q", "--no-http", "--no-cpu"]
    run_file = str(scratch / "heap.run")
    mode = "full" if full else "524288"
    found = [Profiler("plain"),
             Profiler("sonde", [*sonde, f"--heap={mode}", "--record", run_file, "--"],
                      files=run_file, report=[str(args.build / "sonde"), "report", run_file])]
    notes = []
    if not args.peers:
        return found, notes
    jemalloc, tcmalloc = library("libjemalloc.so.2"), library("libtcmalloc.so.4")
    if jemalloc:
        every = "lg_prof_sample:0" if full else "lg_prof_sample:19"
        found += [Profiler("jemalloc", env={"LD_PRELOAD": jemalloc}, base="jemalloc"),
                  Profiler("jemalloc prof", base="jemalloc", files=str(scratch / "jeprof.*.heap"),
                           env={"LD_PRELOAD": jemalloc, "MALLOC_CONF":
                                f"prof:true,prof_final:true,prof_prefix:{scratch}/jeprof,{every}"})]
    else:
        notes.append("jemalloc not measured: it is in Debian's libjemalloc2")
    if full:
        if shutil.which("heaptrack"):
            out = str(scratch / "heaptrack")
            found.append(Profiler("heaptrack", ["heaptrack", "-o", out],
                                  files=out + "*", report=["heaptrack_print", "-f", out + ".zst"]))
        else:
            notes.append("heaptrack not measured: it is in Debian's heaptrack")
    if tcmalloc: # HEAPPROFILE keeps every allocation; samples are kept in memory only
        how = {"HEAPPROFILE": str(scratch / "tc")} if full else \
              {"TCMALLOC_SAMPLE_PARAMETER": "524288"}
        found += [Profiler("tcmalloc", env={"LD_PRELOAD": tcmalloc}, base="tcmalloc"),
                  Profiler("gperftools", env={"LD_PRELOAD": tcmalloc, **how}, base="tcmalloc",
                           files=str(scratch / "tc.*.heap") if full else None)]
    else:
        notes.append("tcmalloc not measured: it is in Debian's libgoogle-perftools4")
    return found, notes


def take_turns(found, work, seconds, notes):
    """name: {figure: [ratio a round]} for those that could run."""
    runs, begin, longest = {p.name: [] for p in found}, time.monotonic(), 0
    while not runs["plain"] or time.monotonic() + longest < begin + seconds:
        start = time.monotonic()
        for p in list(found):
            try:
                runs[p.name].append(p.run(*work))
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                found.remove(p)
                runs.pop(p.name)
                notes.append(f"{p.name} not measured: {error}")
                say(notes[-1])
        longest = max(longest, time.monotonic() - start)
    return {p.name: {k: [a[k] / b[k] for a, b in zip(runs[p.name], runs[p.base])]
                     for k in ("wall", "cpu", "rss")}
            for p in found if p.base != p.name and p.base in runs}


def median(name, samples):
    return named(name, stats_of(samples, sorted(samples)[len(samples) // 2]))


def pairs_rows(args, group, seconds):
    """What sampling adds to malloc and free."""
    sonde = [str(args.build / "sonde"), "run", "-q", "--no-http", "--no-cpu", "--heap=524288", "--"]
    rows = []
    for kind, depth in DEPTH.items():
        work = [str(args.build / "perf" / "bench_malloc_pairs"), "1000", "2000", str(depth)]
        got, begin = {"sonde": [], "without": []}, time.monotonic()
        while len(got["sonde"]) < 5 or time.monotonic() < begin + seconds / len(DEPTH):
            for name, before in (("sonde", sonde), ("without", [])):
                done = subprocess.run([*before, *work], capture_output=True, text=True, check=True,
                                      stdin=subprocess.DEVNULL, timeout=TIMEOUT)
                got[name].append(float(done.stdout.split()[0]))
        rows.append(row(f"{group}_{kind}_pairs", group, f"sampled heap, {kind} stacks: malloc and free",
                        "x", median("sonde", got["sonde"]), median("without", got["without"]), [],
                        1.03, "CPU time of pairs of windows of 1,000 calls in one process, 2,000 pairs "
                        f"in each of {len(got['sonde'])} processes"))
    return rows


def report_of(profiler):
    """(seconds, MB of memory) to a report; None where it makes none."""
    if not profiler.report:
        return None
    start = time.monotonic()
    child = subprocess.Popen(profiler.report, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    try:
        _, status, usage = os.wait4(child.pid, 0)
    finally:
        child.returncode = 0
    return (time.monotonic() - start, usage.ru_maxrss / 1e3) if status == 0 else None


def works(args, group, full):
    """(kind, what it is, command) of each program that is measured."""
    program = str(args.build / "perf" / "bench_mallocs")
    calls = CALLS[group]
    for kind, depth in DEPTH.items():
        yield (kind, f"two threads, {2 * calls:,} calls, {depth or 'no'} frames deep",
               [program, "2", str(calls), str(depth)])
    if full:
        yield ("storm", f"two threads, {2 * STORM_BLOCKS:,} blocks of 16 bytes to 64 KB, 256 stacks "
               "of 13 frames by chance",
               [str(args.build / "perf" / "bench_storm"), "2", str(STORM_BLOCKS)])


def budgets(kind, full):
    """Of wall time and of memory."""
    if kind == "storm":
        return 4, 1.2
    return (2.2 if kind == "shallow" else 2.5, 1.2) if full else (1.05, 1.05)


def measure(group, full):
    def measured(args, scratch):
        program = str(args.build / "perf" / "bench_mallocs")
        seconds = args.effort * SECONDS[group]
        rows = [] if full else pairs_rows(args, group, seconds / 2)
        found_works = list(works(args, group, full))
        for kind, what_it_is, command in found_works:
            found, notes = profilers(args, scratch, full)
            ratios = take_turns(found, command, seconds / len(found_works), notes)
            text = f"{'every allocation' if full else 'sampled heap'}, {kind} stacks"
            note = "; ".join([what_it_is, *notes])
            peers = [n for n in ratios if n != "sonde"]
            wall, memory = budgets(kind, full)
            for figure, unit, what, budget in (
                    ("wall", "x", "wall time", wall),
                    ("cpu", "x", "CPU time with the agent's", 0),
                    ("rss", "x", "memory of the program", memory)):
                rows.append(row(f"{group}_{kind}_{figure}", group, f"{text}: {what}", unit,
                                median("sonde", ratios["sonde"][figure]), None,
                                [median(n, ratios[n][figure]) for n in peers], budget, note))
            sizes = {p.name: p.size_mb() for p in found if p.name in ratios}
            size = lambda n: named(n, stats_of([sizes[n]]))
            rows.append(row(f"{group}_{kind}_file", group, f"{text}: file", "MB", size("sonde"),
                            None, [size(n) for n in peers if sizes[n] is not None], 0, note))
            reports = {p.name: report_of(p) for p in found if p.name in ratios}
            for i, (unit, what) in enumerate((("s", "time to a report"),
                                              ("MB", "memory for a report"))):
                of = lambda n: named(n, stats_of([reports[n][i]]))
                if reports["sonde"]:
                    rows.append(row(f"{group}_{kind}_report_{unit}", group, f"{text}: {what}", unit,
                                    of("sonde"), None, [of(n) for n in peers if reports[n]], 0,
                                    note))
        return rows + ([agent_row(args, scratch, program)] if full else [])
    return measured


def agent_row(args, scratch, program):
    """The agent's memory while 20 million calls from deep stacks are all recorded."""
    calls = CALLS["heap_sampled"]
    child = subprocess.Popen([str(args.build / "sonde"), "run", "-q", "--no-http", "--no-cpu",
                              "--heap=full", "--record", str(scratch / "heap.run"), "--", program,
                              "2", str(calls), str(DEPTH["deep"])], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    if status:
        raise RuntimeError(f"sonde ended with status {status}")
    return row("heap_full_agent", "heap_full", "every allocation: memory of the agent", "MB",
               named("sonde", stats_of([usage.ru_maxrss / 1e3])), None, [], 256,
               f"{2 * calls:,} calls, {DEPTH['deep']} frames deep; the program's own if that is more")


GROUPS = {"heap_sampled": measure("heap_sampled", 0), "heap_full": measure("heap_full", 1)}

#!/usr/bin/env python3
"""python_profiles: profiles of Python programs beside those of what people use today.

    python_profiles.py BUILD PEERS

BUILD is a build of sonde, PEERS the virtual environment in which tools/peers installed the others. A program of
which it is known where its time goes is run under `sonde record`, py-spy and scalene: shares against the program's
own count, and the CPU time of a round of its work; and one of which it is known what it allocates, under
`sonde record --heap` and memray. All take turns, in several rounds.

Checked is that sonde's shares are within two points of the truth and three standard deviations of as many samples
as the CPU time gave, that with --heap=full its bytes are memray's but for an arena or two, and that a heap profile
takes no more of the program's time than memray's of the same kind; the tables are for reading. The CPU time of all
processes has sonde's symbols in it: a few tenths of a second once, which native frames need and py-spy, which leaves
those out, does not.
"""
import json
import math
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

RATE_HZ, SECONDS, ROUNDS = 99, 5, 3
ARENA = 1 << 20     # of CPython's own allocator: which function meets the end of one is different in every run
NAMES = ("much", "some", "little")      # 60, 30 and 10 %

SPIN = r"""
import json, sys, threading, time
spent = {}
def much():
    x = 0
    for i in range(6000): x = (x * 3 + i) & 0xffff
    return x
def some():
    x = 0
    for i in range(3000): x = (x * 3 + i) & 0xffff
    return x
def little():
    x = 0
    for i in range(1000): x = (x * 3 + i) & 0xffff
    return x
def work(seconds):
    own = dict.fromkeys(("much", "some", "little", "rounds"), 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for f in (much, some, little):
            begin = time.thread_time_ns()
            f()
            own[f.__name__] += time.thread_time_ns() - begin
        own["rounds"] += 1
    for name, n in own.items(): spent[name] = spent.get(name, 0) + n
seconds, threads = float(sys.argv[1]), int(sys.argv[2])
others = [threading.Thread(target=work, args=(seconds,)) for _ in range(threads - 1)]
for t in others: t.start()
work(seconds)
for t in others: t.join()
print("TRUTH" + json.dumps(spent), flush=True)
"""

ALLOCATE = r"""
import json, sys, time
kept, asked = [], dict.fromkeys(("much", "some", "little"), 0)
def build(n):
    for i in range(n): yield 600 + (i & 1023)
def much(kept):
    for size in build(6144): kept.append(bytearray(size))
def some(kept):
    for size in build(3072): kept.append(bytearray(size))
def little(kept):
    for size in build(1024): kept.append(bytearray(size))
begin = time.process_time()
for turn in range(int(sys.argv[1])):
    for f in (much, some, little):
        kept.append([])
        f(kept[-1])
        asked[f.__name__] += sum(size + 1 for size in map(len, kept[-1]))
        if len(kept) > 8: kept.pop(0)
print("TRUTH" + json.dumps({**asked, "rounds": turn + 1}))
print("TOOK %.3f" % (time.process_time() - begin))
"""


def truth_of(text):
    found = json.loads(re.search(r"TRUTH(\{.*\})", text).group(1))
    return found, found.pop("rounds")


def run(command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, check=False,
                          **more)
    if done.returncode:
        raise SystemExit(f"python_profiles: {' '.join(map(str, command))[:200]} failed: {done.stderr[-2000:]}")
    return done.stdout


def added(weights, more):
    for name in NAMES:
        weights[name] = weights.get(name, 0) + more.get(name, 0)


def shares(weights):
    total = sum(weights.get(name, 0) for name in NAMES)
    return {name: weights.get(name, 0) / total if total else 0 for name in NAMES}


def folded(lines):
    """Weight under each of the three. `spin.much` is how sonde calls a function, `much (spin.py:4)` py-spy."""
    weights = {}
    for line in lines:
        stack, _, count = line.rpartition(" ")
        for name in NAMES:
            if re.search(rf"(^|[;.]){name}( \(|;|$)", stack):
                weights[name] = weights.get(name, 0) + float(count)
    return weights


# ---- CPU time -----------------------------------------------------------------------------------

def under_nothing(o, program, arguments):
    return run([o.python, program, *arguments]), None


def under_sonde(o, program, arguments):
    file = o.work / "sonde.run"
    return run([o.sonde, "record", "-q", "-F", RATE_HZ, "-o", file, "--", o.python, program, *arguments]), \
        lambda: folded(run([o.sonde, "export", "-f", "folded", file]).splitlines())


def under_py_spy(o, program, arguments):
    file = o.work / "py-spy.txt"
    return run([o.peers / "py-spy", "record", "-r", RATE_HZ, "-f", "raw", "-o", file, "--", o.python, program,
                *arguments]), lambda: folded(file.read_text().splitlines())


def under_scalene(o, program, arguments):
    def seen():
        weights = {}
        for source in json.loads(file.read_text())["files"].values():
            for row in source["functions"]:
                weights[row["line"]] = row["n_cpu_percent_python"] + row["n_cpu_percent_c"]
        return weights
    file = o.work / "scalene.json"
    return run([o.peers / "scalene", "run", "--cpu-only", "--cpu-sampling-rate", 1 / RATE_HZ, "-o", file, program,
                "---", *arguments], cwd=o.work), seen


class Row:
    """What one of them saw and cost in all rounds."""

    def __init__(self):
        self.seen, self.own, self.rounds, self.program_ns, self.all_s = {}, {}, 0, 0, 0.0


def profiles(o, program, threads):
    ways = {"plain": under_nothing, "sonde": under_sonde, "py-spy": under_py_spy, "scalene": under_scalene}
    rows = {name: Row() for name in ways}
    for turn in range(ROUNDS):
        for name in sorted(ways, key=lambda name: (list(ways).index(name) + turn) % len(ways)):
            row, before = rows[name], resource.getrusage(resource.RUSAGE_CHILDREN)
            text, seen = ways[name](o, program, [SECONDS, threads])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            own, rounds = truth_of(text)
            added(row.own, own)
            added(row.seen, seen() if seen else own)
            row.rounds += rounds
            row.program_ns += sum(own.values())
            row.all_s += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return rows


def check_profiles(o, program, threads, failures):
    rows = profiles(o, program, threads)
    plain = rows["plain"]
    print(f"\nCPU time, {threads} thread{'s' if threads > 1 else ''}, {RATE_HZ} Hz: shares in percent (the program's "
          "own count in brackets);\nCPU time of a round of its work beside the plain program's: inside it, and of all "
          "processes")
    for name, row in rows.items():
        seen, own = shares(row.seen), shares(row.own)
        inside = row.program_ns / row.rounds / (plain.program_ns / plain.rounds)
        everything = row.all_s / row.rounds / (plain.all_s / plain.rounds)
        print(f"  {name:10}" + "".join(f"{f} {100 * seen[f]:5.1f} ({100 * own[f]:4.1f})   " for f in NAMES) +
              f"{100 * inside - 100:+6.1f} %{100 * everything - 100:+8.1f} %", flush=True)
        samples = row.program_ns / 1e9 * RATE_HZ
        if name == "sonde" and any(abs(seen[f] - own[f]) > 0.02 + 3 * math.sqrt(own[f] * (1 - own[f]) / samples)
                                   for f in NAMES):
            failures.append(f"shares with {threads} threads are not those of the program")


# ---- Allocations --------------------------------------------------------------------------------

def bytes_by_memray(o):
    run([o.peers / "memray", "stats", "--json", "-n", 20, "-f", "-o", o.work / "m.json", o.work / "m.bin"])
    weights = {}
    for row in json.loads((o.work / "m.json").read_text())["top_allocations_by_size"]:
        name = row["location"].split(":")[0]
        weights[name] = weights.get(name, 0) + row["size"]
    return weights


def bytes_by_sonde(o):
    return folded(run([o.sonde, "export", "-f", "folded", "--type", "alloc", o.work / "h.run"]).splitlines())


def check_heaps(o, program, failures):
    sonde = lambda how: [o.sonde, "record", "-q", "--no-cpu", how, "-o", o.work / "h.run", "--", o.python]
    memray = [o.peers / "memray", "run", "-q", "-f", "-o", o.work / "m.bin"]
    ways = {"plain": ([o.python], None), "sonde --heap": (sonde("--heap"), bytes_by_sonde),
            "memray": (memray, bytes_by_memray), "sonde --heap=full": (sonde("--heap=full"), bytes_by_sonde),
            "memray --native": ([*memray, "--native"], bytes_by_memray)}
    least, seen, asked = {}, {}, {}
    for _ in range(ROUNDS):
        for name, (before, read) in ways.items():
            text = run([*before, program, 200])
            asked, _rounds = truth_of(text)
            took = float(re.search(r"TOOK ([0-9.]+)", text).group(1))
            least[name] = min(took, least.get(name, took))
            if read:
                seen[name] = read(o)
    print("\nallocations: MB of each function (asked for at least, in the first line); CPU time of the program, the "
          "least of three")
    for name in ways:
        found = seen.get(name, asked)
        print(f"  {name:18}" + "".join(f"{f} {found.get(f, 0) / 1e6:8.2f}   " for f in NAMES) +
              f"{least[name]:7.2f} s{least[name] / least['plain']:7.2f} times", flush=True)
    for f in NAMES:
        if abs(seen["sonde --heap=full"].get(f, 0) - seen["memray"].get(f, 0)) > 2 * ARENA:
            failures.append(f"{f}() allocated {seen['memray'].get(f)} bytes by memray, "
                            f"{seen['sonde --heap=full'].get(f)} by sonde --heap=full")
        if abs(shares(seen["sonde --heap"])[f] - shares(asked)[f]) > 0.05:
            failures.append(f"--heap: the share of {f}() is more than 5 points off")
    if least["sonde --heap"] > least["memray"]:
        failures.append("a sampled heap profile costs more than memray's")
    if least["sonde --heap=full"] > least["memray --native"]:
        failures.append("a heap profile of every allocation costs more than memray's with native frames")


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    class o:
        sonde = pathlib.Path(sys.argv[1]).resolve() / "sonde"
        peers = pathlib.Path(sys.argv[2]).resolve() / "bin"
        python = peers / "python3"
    failures = []
    with tempfile.TemporaryDirectory(prefix="sonde-peers-python-") as work:
        o.work = pathlib.Path(work)
        os.environ.update(SONDE_DIR=str(o.work / "segments"), PYTHONDONTWRITEBYTECODE="1")
        program = o.work / "spin.py"
        program.write_text(SPIN)
        for threads in (1, 2):
            check_profiles(o, program, threads, failures)
        program = o.work / "allocate.py"
        program.write_text(ALLOCATE)
        check_heaps(o, program, failures)
    for line in failures:
        print(f"python_profiles: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

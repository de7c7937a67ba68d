#!/usr/bin/env python3
"""python_profiles: profiles of Python programs beside those of what people use today.

    python_profiles.py BUILD PEERS

BUILD is a build of sonde, PEERS the virtual environment in which tools/peers installed the others. A program of
which it is known where its time goes is run under `sonde record`, py-spy and scalene: shares against the program's
own count, and how much slower the program became; and one that allocates, under `sonde record --heap` and memray.

Checked is that sonde is within 2 points of the truth and not dearer than any of the others; the tables are for reading.
"""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

RATE_HZ, SECONDS = 99, 8

SPIN = r"""
import json, sys, threading, time
spent = {}
def spin(n):
    x = 0
    for i in range(n): x = (x * 3 + i) & 0xffff
    return x
def much(): return spin(6000)
def some(): return spin(3000)
def little(): return spin(1000)
def work(seconds):
    own = dict.fromkeys(("much", "some", "little"), 0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for f in (much, some, little):
            begin = time.thread_time_ns()
            f()
            own[f.__name__] += time.thread_time_ns() - begin
        own["rounds"] = own.get("rounds", 0) + 1
    for name, ns in own.items(): spent[name] = spent.get(name, 0) + ns
seconds, threads = float(sys.argv[1]), int(sys.argv[2])
others = [threading.Thread(target=work, args=(seconds,)) for _ in range(threads - 1)]
for t in others: t.start()
work(seconds)
for t in others: t.join()
print("TRUTH" + json.dumps(spent), flush=True)
"""


ALLOCATE = r"""
import sys, time
begin = time.perf_counter()
kept = []
def build(n): return [bytearray(600 + (i & 1023)) for i in range(n)]
for turn in range(int(sys.argv[1])):
    kept.append(build(2000))
    if len(kept) > 8: kept.pop(0)
print("TOOK %.3f" % (time.perf_counter() - begin))
"""


def truth_of(text):
    spent = json.loads(re.search(r"TRUTH(\{.*\})", text).group(1))
    rounds = spent.pop("rounds")
    return {name: ns / sum(spent.values()) for name, ns in spent.items()}, rounds


def run(command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, check=False,
                          **more)
    if done.returncode:
        raise SystemExit(f"python_profiles: {' '.join(map(str, command))[:200]} failed: {done.stderr[-2000:]}")
    return done.stdout


def shares(weights):
    """Of the three functions, whatever was called below them."""
    total = sum(weights.get(name, 0) for name in ("much", "some", "little"))
    return {name: weights.get(name, 0) / total if total else 0 for name in ("much", "some", "little")}


def folded(lines):
    """Weight under each of the three, of folded stacks."""
    weights = {}
    for line in lines:
        stack, _, count = line.rpartition(" ")
        for name in ("much", "some", "little"):
            if re.search(rf"(^|[;.]){name}( \(|;|$)", stack):  # spin.much of ours, much (spin.py:9) of py-spy's
                weights[name] = weights.get(name, 0) + float(count)
    return shares(weights)


def under_sonde(o, program, arguments):
    file = o.work / "sonde.run"
    out = run([o.build / "sonde", "record", "-q", "-F", RATE_HZ, "-o", file, "--", o.python, program, *arguments])
    return out, folded(run([o.build / "sonde", "export", "--format", "folded", file]).splitlines())


def under_py_spy(o, program, arguments):
    file = o.work / "py-spy.txt"
    out = run([o.peers / "py-spy", "record", "-r", RATE_HZ, "-f", "raw", "-o", file, "--", o.python, program,
               *arguments])
    return out, folded(file.read_text().splitlines())


def under_scalene(o, program, arguments):
    file = o.work / "scalene.json"
    out = run([o.peers / "scalene", "run", "--cpu-only", "-o", file, program, "---", *arguments], cwd=o.work)
    weights = {}
    for source in json.loads(file.read_text())["files"].values():
        for row in source["functions"]:
            weights[row["line"]] = row["n_cpu_percent_python"] + row["n_cpu_percent_c"]
    return out, shares(weights)  # it has no callers: spin() is nobody's


def profiles(o, program, threads):
    """[(who, shares, rounds of work)], plain first and last, for how much the machine itself changed."""
    arguments = [SECONDS, threads]
    rows, truth = [], None
    for who, under in (("plain", None), ("sonde", under_sonde), ("py-spy", under_py_spy), ("scalene", under_scalene),
                       ("plain", None)):
        if not under:
            truth, rounds = truth_of(run([o.python, program, *arguments]))
            rows.append((who, truth, truth, rounds))
            continue
        try:
            out, seen = under(o, program, arguments)
        except SystemExit as error:
            print(f"  {who}: {error}")
            continue
        own, rounds = truth_of(out)
        rows.append((who, seen, own, rounds))
    return rows


def heaps(o, program):
    """[(who, seconds)]"""
    rows = []
    sonde = [o.build / "sonde", "record", "-q", "--heap", "-o", o.work / "h.run", "--"]
    memray = [o.peers / "memray", "run", "-q", "-f", "-o", o.work / "m.bin"]
    for who, before in (("plain", []), ("sonde", sonde), ("memray", memray),
                        ("memray --native", [*memray, "--native"]), ("plain", [])):
        command = [*before, program, 400] if who.startswith("memray") else [*before, o.python, program, 400]
        rows.append((who, float(re.search(r"TOOK ([0-9.]+)", run(command)).group(1))))
    return rows


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    class o:
        build = pathlib.Path(sys.argv[1]).resolve()
        peers = pathlib.Path(sys.argv[2]).resolve() / "bin"
        python = peers / "python3"
    failures = []
    with tempfile.TemporaryDirectory(prefix="sonde-peers-python-") as work:
        o.work = pathlib.Path(work)
        os.environ.update(SONDE_DIR=str(o.work / "segments"), PYTHONDONTWRITEBYTECODE="1")
        program = o.work / "spin.py"
        program.write_text(SPIN)
        for threads in (1, 2):
            print(f"\n{threads} thread{'s' if threads > 1 else ''}, shares in percent (the program's own count in "
                  "brackets), work done beside the plain run")
            rows = profiles(o, program, threads)
            plain = statistics.mean(row[3] for row in rows if row[0] == "plain")
            for who, seen, own, rounds in rows:
                print(f"  {who:10}" + "".join(f"{name} {100 * seen[name]:5.1f} ({100 * own[name]:4.1f})   "
                                              for name in seen) + f"{100 * rounds / plain:5.1f} %")
                if who == "sonde" and max(abs(seen[n] - own[n]) for n in seen) > 0.02:
                    failures.append(f"shares with {threads} threads are more than 2 points off")
        program = o.work / "allocate.py"
        program.write_text(ALLOCATE)
        rows = heaps(o, program)
        plain = statistics.mean(seconds for who, seconds in rows if who == "plain")
        print("\nallocations, time beside the plain run")
        for who, seconds in rows:
            print(f"  {who:18}{seconds:7.2f} s{seconds / plain:8.2f} times")
        if dict(rows)["sonde"] > dict(rows)["memray"]:
            failures.append("a heap profile costs more than memray's")
    for line in failures:
        print(f"python_profiles: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

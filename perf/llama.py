"""llama: what watching a real llama.cpp costs it, in tokens.

A server on the real library (tests/llama, one thread, a random model of 58 MB) serves the same
requests alone, alone once more, with the hooks in front of llama.cpp's functions, and with all that
`sonde run` can do: hooks, the CPU at 1000 Hz, the heap sampled. Beside that perf at 1000 Hz, without
stacks, which is what this machine's interrupts cost, and with as much of them as llama.cpp needs.
They take turns, each round in another order. Figures are percent of tokens a second that are missing against the run alone of the
same round, by the clock and by the server's own CPU time; of the rounds the median counts. The second
run alone, as "bare", says what such a figure is worth here: it ought to be 0.
"""
import json
import subprocess
import time

from common import ROOT, named, row, say, stats_of

SECONDS, ROUNDS_MIN, TIMEOUT = 150, 5, 300
# Half a second: many short rounds, so that a run and the one it is compared with are close in time.
WORK = ["--requests", "4", "--seqs", "2", "--prompt-tokens", "40", "--max-tokens", "16",
        "--end-bias", "-100", "--batch", "64"]
BUDGET = {"hooks": 0.5, "all": 2}


PEERS = {"perf": "perf, no stacks", "perf_dwarf": "perf, dwarf 48 KB"}


def ways(sonde, scratch):
    run = [sonde, "run", "-q", "--no-http"]
    perf = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1000", "-o", str(scratch / "perf.data")]
    return {"alone": [], "again": [], "hooks": [*run, "--no-cpu", "--no-heap", "--"],
            "all": [*run, "--rate", "1000", "--heap", "--"], "perf": [*perf, "--"],
            "perf_dwarf": [*perf, "--call-graph", "dwarf,49152", "--"]}


def serve(before, llama, scratch):
    """{wall, cpu}: tokens a second."""
    truth = scratch / "truth.json"
    subprocess.run([*before, str(llama / "llama_drive"), "--model", str(llama / "bench.gguf"), *WORK,
                    "--truth", str(truth)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=TIMEOUT)
    totals = json.loads(truth.read_text())["totals"]
    return {"wall": totals["tokens_per_second"],
            "cpu": totals["output_tokens"] / totals["cpu_seconds"]}


def take_turns(sonde, llama, scratch):
    """way: {figure: [percent that is missing, a round]}"""
    found, rounds, begin = ways(sonde, scratch), [], time.monotonic()
    names = list(found)
    while len(rounds) < ROUNDS_MIN or time.monotonic() < begin + SECONDS:
        turn = len(rounds) % len(names)
        rounds.append({name: serve(found[name], llama, scratch)
                       for name in names[turn:] + names[:turn]})
    return {name: {figure: [100 * (1 - r[name][figure] / r["alone"][figure]) for r in rounds]
                   for figure in ("wall", "cpu")} for name in names[1:]}


def median(name, samples):
    return named(name, stats_of(samples, sorted(samples)[len(samples) // 2]))


def measure(args, scratch):
    ready = subprocess.run([ROOT / "tests" / "llama" / "prepare", "--bench", args.build],
                           capture_output=True, text=True)
    if ready.returncode:
        say(ready.stderr.strip())
        return [row("llama", "llama", "a real llama.cpp", "%", None,
                    note="not measured: " + ready.stderr.strip())]
    lost = take_turns(str(args.build / "sonde"), args.build / "llama", scratch)
    rounds = len(lost["again"]["wall"])
    rows = []
    for name, text in (("hooks", "hooks alone"), ("all", "hooks, CPU at 1000 Hz, heap sampled")):
        for figure, what in (("wall", "fewer tokens/s"), ("cpu", "fewer tokens a second of its CPU")):
            rows.append(row(f"llama_{name}_{figure}", "llama", f"llama.cpp, {text}: {what}", "%",
                            median("sonde", lost[name][figure]),
                            median("alone again", lost["again"][figure]),
                            [median(label, lost[peer][figure]) for peer, label in PEERS.items()]
                            if name == "all" else [], BUDGET[name],
                            f"a thread, 2 sequences, model of 58 MB, {rounds} rounds"))
    return rows


GROUPS = {"llama": measure}

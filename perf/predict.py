#!/usr/bin/env python3
"""predict: what `sonde predict` said beside what was measured then.

    perf/predict.py BUILD [--llama SERVER MODEL] [--cycles N] [--seconds S] [--low RATIO] [--split-cache]

A server with one thread and four slots is loaded at a part of what it can hold, and recorded; of that
recording alone `sonde predict` says what 1.5 and 2 times the rate, and 2 and 8 slots, would do, and where
it saturates. Then these are measured. Sizes are drawn once and shuffled for every run, arrivals are
Poisson with the mean gap exactly that of the rate, so that runs differ in order and not in load. The
server has a CPU for itself where there are two, the clients and the recorder the other.

CPUs are kept from halting (awake.py): else a virtual machine's passes cost more at one load than at another.
A machine whose speed drifts spoils every single comparison (memory and caches are shared with others on the same
host: 10 to 20 % in some minutes are usual), and near the edge between requests that wait and those that do not a
percentile of TTFT moves ten times as far as the pace. So all of it is done in cycles: each records the low load
anew, predicts from that alone, and measures; what is judged is the median of the cycles' errors. What others used of
the CPUs is printed, and the time that the same requests take one at a time before and after each run: its pace.
Answers are not streamed: clients that wake for every token would be such a load, on machines whose two CPUs are one
core.

Every prediction is compared twice. Once as `sonde predict` makes it by default, with requests and arrivals at
random: then the two differ by chance as well. Once for the very requests of the run that it is compared with
(--load): what is left is the model's error and the machine's drift, and that is judged.

Figures are the server's own (arrival there to token), as the recording has them; the knee is what
leaves per second while the queue is never empty, by the clients' clocks.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

import awake

READY_S, STOP_S, RUN_S_MAX = 60, 60, 900
AT_ONCE = 64  # requests under way of a load that is all at once: many times the slots, fewer than a backlog
PACE_REQUESTS, PACE_PROMPT, PACE_ANSWER = 12, 96, 32
TOLERANCE = {"requests_per_s": 5, "output_tokens_per_s": 5, "ttft_p50_s": 15, "ttft_p90_s": 15, "knee": 10}
SHOWN = ["requests_per_s", "output_tokens_per_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "itl_p50_s",
         "itl_p90_s", "e2e_p50_s", "e2e_p90_s"]


def say(text):
    print(f"predict: {text}", file=sys.stderr, flush=True)


def pinned(cpu, command):
    """On a CPU of its own, before all others there if we may."""
    cpus = os.sched_getaffinity(0)
    return ((["nice", "-n", "-20"] if os.geteuid() == 0 else []) +
            (["taskset", "-c", str(cpu)] if cpus >= {0, 1} else []) + [str(part) for part in command])


# ---- Load -------------------------------------------------------------------------------------

def sizes_of(count, seed=7):
    """(tokens of the prompt, of the answer): long tails, as real ones have."""
    rng = random.Random(seed)
    return [(min(600, max(8, int(rng.lognormvariate(4.5, 0.6)))),
             min(120, max(4, int(rng.lognormvariate(3.3, 0.5))))) for _ in range(count)]


def schedule(rate, count, seed):
    """Seconds from the start. rate None: all at once."""
    if rate is None:
        return [0.0] * count
    rng = random.Random(seed)
    gaps = [rng.expovariate(1) for _ in range(count)]
    scale = count / rate / sum(gaps)
    at, out = 0.0, []
    for gap in gaps:
        out.append(at)
        at += gap * scale
    return out


WORDS = ["time", "model", "queue", "first", "token", "slot", "batch", "cache", "the", "of", "and", "river", "stone"]


def ask(port, prompt, answer, begin, ends, failures, turn=None):
    body = {"prompt": prompt, "max_tokens": answer, "n_predict": answer, "ignore_eos": True, "stream": False,
            "temperature": 0, "cache_prompt": False}
    try:
        if turn:
            turn.acquire()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=RUN_S_MAX)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        reply.read()
        connection.close()
        if reply.status != 200:
            raise OSError(f"status {reply.status}")
        ends.append(time.monotonic() - begin)
    except OSError as error:
        failures.append(str(error))
    finally:
        if turn:
            turn.release()


def pace(port, words):
    """Seconds that one request takes here and now, alone; the median of some."""
    rng, took, failures = random.Random(5), [], []
    for _ in range(PACE_REQUESTS):
        prompt = prompt_of(PACE_PROMPT, words, rng)
        ask(port, prompt, PACE_ANSWER, time.monotonic(), took, failures)
    if failures:
        raise SystemExit(f"predict: a request failed: {failures[0]}")
    return sorted(took)[len(took) // 2]


def prompt_of(size, words, rng):
    return " ".join(rng.choice(WORDS) for _ in range(size // 4)) if words else \
        [rng.randrange(300, 1000) for _ in range(size)]


def load(port, rate, count, seed, words=False):
    """When requests ended, sorted. words: llama.cpp's requests arrive when their text becomes tokens, so it
    gets text, which is some tokens a word; others get tokens."""
    rng = random.Random(1000 + seed)
    jobs = sizes_of(count)
    rng.shuffle(jobs)
    prompts = [prompt_of(size, words, rng) for size, _ in jobs]
    ends, failures, threads = [], [], []
    turn = None if rate else threading.Semaphore(AT_ONCE)
    begin = time.monotonic() + 0.1
    for at, (_, answer), prompt in zip(schedule(rate, count, seed), jobs, prompts):
        time.sleep(max(0.0, begin + at - time.monotonic()))
        threads.append(threading.Thread(target=ask, args=(port, prompt, answer, begin, ends, failures, turn)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"predict: {len(failures)} of {count} requests failed: {failures[0]}")
    return sorted(ends)


# ---- Other load -------------------------------------------------------------------------------

def machine_s():
    """CPU time of everybody, without idle and waiting."""
    fields = [int(x) for x in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def process_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Others:
    """What processes other than ours use, in percent of a CPU."""

    def __init__(self, pids):
        self.pids, self.begin = pids, time.monotonic()
        self.before = self.used()

    def used(self):
        own = os.times()
        return machine_s() - sum(process_s(pid) for pid in self.pids) - own.user - own.system

    def percent(self):
        return 100 * max(0.0, self.used() - self.before) / (time.monotonic() - self.begin)


def move(pid, cpus):
    """All threads of a process."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cpus)


# ---- Servers ----------------------------------------------------------------------------------

class Server:
    """sonde-engine, with a recorder beside it; or llama-server as the recorder's child, which hooks need."""

    def __init__(self, o, slots, out):
        self.o, self.out, self.recorder = o, out, None
        self.log = open(o.work / "server.log", "w+")
        record = [o.build / "sonde", "record", "-q", "-F", 10, "-o", out]
        self.record = record
        if o.llama:
            server, model = o.llama
            command = [*record, "--", server, "-m", model, "--host", "127.0.0.1", "--port", free_port(), "-t", 1,
                       "-tb", 1, "-np", slots, "-b", 256, "-ub", 256, "-c", 1024 * slots]
            # One cache for all slots, as where --parallel is not given: with one for each, llama.cpp cuts a pass by
            # which slots are neighbours, which a recording does not say.
            command += [] if o.split_cache else ["--kv-unified"]
        else:
            command = [o.build / "sonde-engine", "serve", "-m", o.work / "small.gguf", "-t", 1, "--slots",
                       slots, "--queue", 4096, "-l", "127.0.0.1:0"]
        self.process = subprocess.Popen(pinned(1, command), stdout=self.log, stderr=self.log,
                                        stdin=subprocess.DEVNULL)
        self.port = self.await_port()
        self.pid = self.engine_pid()
        if o.llama and os.sched_getaffinity(0) >= {0, 1}:
            # What computes, its main thread, has a CPU for itself; the recorder and the threads that read and
            # write HTTP would take from its passes, the more of them the higher the load.
            move(self.process.pid, {0})
            move(self.pid, {0})
            os.sched_setaffinity(self.pid, {1})

    def await_port(self):
        until = time.monotonic() + READY_S
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(r"listening on http://127.0.0.1:(\d+)", pathlib.Path(self.log.name).read_text())
            if found:
                return int(found.group(1))
            time.sleep(0.05)
        raise SystemExit("predict: the server did not start:\n" + pathlib.Path(self.log.name).read_text())

    def engine_pid(self):
        if not self.o.llama:
            return self.process.pid
        pid = self.process.pid
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def begin(self):
        """It is warm; (processes that are not others, when the recording counts from)."""
        if not self.o.llama:
            self.recorder = subprocess.Popen(pinned(0, [*self.record, "-p", self.pid]), stdin=subprocess.DEVNULL)
        time.sleep(2)  # also: llama.cpp's requests end by being silent
        return [self.pid, self.recorder.pid if self.recorder else self.process.pid]

    def stop(self):
        """The recording is written."""
        if self.recorder:
            time.sleep(1)
            self.recorder.send_signal(2)
            if self.recorder.wait(STOP_S):
                raise SystemExit(f"predict: recording failed with status {self.recorder.returncode}")
        else:
            time.sleep(2)
        os.kill(self.pid, 15)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- Runs -------------------------------------------------------------------------------------

class Run:
    """One load: where its recording is, what of it counts, and what disturbed it."""

    def __init__(self, o, rate, count, seed, slots):
        self.file = o.work / "attempt.run"
        server = Server(o, slots, self.file)
        try:
            load(server.port, None, 8, 99, o.llama)  # warm: its first passes touch the weights
            before = pace(server.port, o.llama)
            others = Others(server.begin() + o.spinners)
            self.begin = time.time()
            self.ends = load(server.port, rate, count, seed, o.llama)
            self.others = others.percent()
            self.end = time.time()
            if o.llama:
                time.sleep(2)  # its requests end by being silent
            after = pace(server.port, o.llama)
        finally:
            server.stop()
        self.pace, self.drift = (before + after) / 2, 100 * (after / before - 1)


def record(o, name, rate, count, seed, slots):
    run = Run(o, rate, count, seed, slots)
    run.file = run.file.replace(o.work / f"{name}.run")
    say(f"{name}: {count} requests, " + (f"{rate:.2f} per second" if rate else "at once") +
        f", {slots} slots; others used {run.others:.0f} % of a CPU, pace {1e3 * run.pace:.1f} ms, "
        f"{run.drift:+.1f} % in the run")
    return run


def predict(o, run, *options, ok=(0,)):
    """Its JSON. Requests at random are Poisson, those of --load come as they did."""
    command = [o.build / "sonde", "predict", run.file, "--format", "json", "--history", o.work / "history.jsonl",
               "--from", f"{run.begin:.3f}", "--to", f"{run.end:.3f}", *options]
    if "--load" not in options:
        command += ["--arrivals", "poisson"]
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode not in ok:
        raise SystemExit(f"predict: sonde predict failed: {done.stderr}")
    return json.loads(done.stdout)


def middle_rate(ends):
    low, high = len(ends) // 10, len(ends) - len(ends) // 10 - 1
    return (high - low) / (ends[high] - ends[low])


def value(name, v):
    return f"{v:10.2f}" if name in ("requests_per_s", "output_tokens_per_s", "knee") else f"{1e3 * v:7.2f} ms"


def compare(title, figures, measured, rows):
    """Figures of one cycle, kept for the medians."""
    for name in [n for n in SHOWN + ["knee"] if n in figures and n in measured]:
        said, seen = figures[name], measured[name]
        inside = said["low"] <= seen <= said["high"]
        rows.setdefault((title, name), []).append((said["value"], seen, 100 * (said["value"] / seen - 1), inside))


def middle(values):
    """Median."""
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def summary(rows):
    """Medians over the cycles; (judged, those that are off by more than their tolerance)."""
    missed, judged, last = [], 0, None
    for (title, name), seen in rows.items():
        if title != last:
            print(f"\n{title}\n  {'FIGURE':22}{'PREDICTED':>12}{'MEASURED':>12}{'ERROR':>9}   CYCLES")
            last = title
        error = middle([row[2] for row in seen])
        limit = None if title == "replayed" or "at random" in title else TOLERANCE.get(name)
        verdict = "" if limit is None else f"  within {limit} %" if abs(error) <= limit else f"  MORE than {limit} %"
        print(f"  {name:22}{value(name, middle([row[0] for row in seen])):>12}"
              f"{value(name, middle([row[1] for row in seen])):>12}{error:+8.1f}%   " +
              " ".join(f"{row[2]:+.1f}{'' if row[3] else '*'}" for row in seen) + verdict, flush=True)
        judged += limit is not None
        if limit is not None and abs(error) > limit:
            missed.append(f"{title}: {name} {error:+.1f} %")
    return judged, missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--llama", nargs=2, metavar=("SERVER", "MODEL"))
    parser.add_argument("--seconds", type=float, default=60, help="of each run, about (60)")
    parser.add_argument("--low", type=float, default=0.35, help="part of the capacity that is recorded (0.35)")
    parser.add_argument("--cycles", type=int, default=5, help="how often all of it is done (5)")
    parser.add_argument("--split-cache", action="store_true", help="llama-server with a KV cache for each slot")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for recordings (default a temporary one)")
    o = parser.parse_args()
    o.build = o.build.resolve()
    if os.geteuid() == 0:
        os.nice(-15)
    with tempfile.TemporaryDirectory(prefix="sonde-predict-") as work:
        o.work = o.keep.resolve() if o.keep else pathlib.Path(work)
        o.work.mkdir(exist_ok=True)
        os.environ["SONDE_DIR"] = str(o.work / "segments")
        (o.work / "segments").mkdir(exist_ok=True)
        if not o.llama:
            subprocess.run([str(o.build / "sonde-engine"), "make-model", "--size", "small", "--force", "-o",
                            str(o.work / "small.gguf")], check=True)
        with awake.Awake() as spinners:
            o.spinners = spinners.pids
            return measure(o)


def measure(o):
    rows = {}
    # Only how hard to load: nothing of it goes into the prediction.
    rate = o.low * middle_rate(Run(o, None, 60, 1, 4).ends)
    for number in range(o.cycles):
        say(f"cycle {number + 1} of {o.cycles}")
        beyond = cycle(o, rate, 10 * number, rows)
    judged, missed = summary(rows)
    print(f"\n1.3 times the knee: {beyond['verdict']}: {beyond['why']}")
    print(f"\nmedians of {o.cycles} cycles, * = outside of its interval; {judged - len(missed)} within their "
          f"tolerance, {len(missed)} not" + "".join(f"\n  {line}" for line in missed))
    return 1 if missed else 0


def cycle(o, rate, seed, rows):
    low = record(o, "low", rate, max(60, int(rate * o.seconds)), seed + 2, 4)
    said = predict(o, low, "--rate", "1x")
    compare("replayed", {n: {"value": v, "low": v, "high": v} for n, v in said["replayed"].items() if v},
            said["measured"], rows)
    plan = [("1.5 times the rate", 1.5, 4, []), ("twice the rate", 2, 4, []),
            ("1.5 times the rate, 2 slots", 1.5, 2, ["--slots", 2]),
            ("twice the rate, 8 slots", 2, 8, ["--slots", 8])]
    for at, (title, times, slots, options) in enumerate(plan, seed + 3):
        count = max(60, int(times * rate * o.seconds))
        answer = predict(o, low, "--rate", f"{times * rate}", "-n", min(2000, count), *options,
                         ok=(0, 1))["predictions"][0]
        run = record(o, title.replace(" ", "-").replace(",", ""), times * rate, count, at, slots)
        if "figures" not in answer:
            say(f"{title}: not predicted: {answer['why']}")
            continue
        compare(title + ", requests at random", answer["figures"], predict(o, run, "--check", ok=(0, 1))["measured"],
                rows)
        same = predict(o, low, "--load", run.file, "--slots", slots, ok=(0, 1))
        if "figures" in same["predictions"][0]:
            compare(title, same["predictions"][0]["figures"], same["load"]["measured"], rows)
    knee = said["predictions"][0]["knee"]
    full = record(o, "knee", None, max(100, int(knee["value"] * o.seconds)), seed + 8, 4)
    compare("saturated, 4 slots", {"knee": knee}, {"knee": middle_rate(full.ends)}, rows)
    return predict(o, low, "--rate", f"{1.3 * knee['value']}", ok=(1,))["predictions"][0]


if __name__ == "__main__":
    sys.exit(main())

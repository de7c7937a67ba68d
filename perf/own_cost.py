#!/usr/bin/env python3
"""own_cost.py: how often the interval of what sonde costs a program holds the truth.

    perf/own_cost.py [--build DIR] [--runs N] [--jobs N] [--pairs N] [--shares 0,0.01,0.05]
                     [--rate HZ] [--window SECONDS]

A real program (tests/programs/planted_cost.c) counts jobs and loses a planted share of its time
exactly while it is sampled, as the agent tells it through the file of SONDE_OWN_COST_FLAG. Each run
is `sonde run` of it, with the agent's usual switching in short windows, until there are so many
pairs; then /api/cost is asked once. What a sample really takes comes on top of what is planted, so
the rate is low. The windows are short for there to be many runs: 100 of each share take an hour of
one core. `ninja bench_own_cost` does just that.

Prints a line per run and a table of shares; exits 1 if fewer than 93 % of the intervals of one hold
it.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN_S = 300     # a run takes no longer


def ask(url):
    with urllib.request.urlopen(url + "/api/cost", timeout=30) as answer:
        return json.load(answer)


def wait_for(what, until):
    while time.monotonic() < until:
        got = what()
        if got:
            return got
        time.sleep(0.1)
    raise RuntimeError("a run did not come to its end")


def one_run(options, share):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        flag, log = os.path.join(folder, "flag"), os.path.join(folder, "log")
        pathlib.Path(flag).write_bytes(b"1")
        environment = dict(os.environ, SONDE_DIR=os.path.join(folder, "segments"),
                           SONDE_OWN_COST_FLAG=flag)
        settings = {"agent.interval_seconds": 0.05, "agent.host_metrics": "false",
                    "agent.process_metrics": "false", "cost.off_percent": 33,
                    "cost.window_seconds": options.window}
        command = [options.build / "sonde", "run", "--listen", "127.0.0.1:0", "--no-heap",
                   "--no-inference", "-v", "-F", str(options.rate), "--log", log]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        command += ["--", options.build / "programs" / "planted_cost", flag, str(share), str(RUN_S)]
        until = time.monotonic() + RUN_S
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            def find_url():
                text = pathlib.Path(log).read_text() if os.path.exists(log) else ""
                found = re.search(r"http://[\d.:]+", text)
                return found and found.group(0)
            url = wait_for(find_url, until)

            def find_pairs():
                answer = ask(url)
                return answer if answer.get("pairs", 0) >= options.pairs else None
            return wait_for(find_pairs, until)
        finally:
            process.terminate()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "dev")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--shares", default="0,0.01,0.05")
    parser.add_argument("--rate", type=float, default=5)
    parser.add_argument("--window", type=float, default=0.1)
    options = parser.parse_args()
    shares = [float(share) for share in options.shares.split(",")]
    table = {share: {"held": 0, "runs": 0, "half": 0.0, "mean": 0.0} for share in shares}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(one_run, options, share): share
                   for _ in range(options.runs) for share in shares}
        for future in concurrent.futures.as_completed(futures):
            share, answer = futures[future], future.result()
            row = table[share]
            held = answer["low"] <= share <= answer["high"]
            row["runs"] += 1
            row["held"] += held
            row["half"] += (answer["high"] - answer["low"]) / 2
            row["mean"] += answer["ratio"]
            print(f"{100 * share:g} %: {100 * answer['ratio']:.2f} ({100 * answer['low']:.2f} … "
                  f"{100 * answer['high']:.2f}) by {answer['measure']} of {answer['pairs']} pairs"
                  f"{'' if held else '  MISSED'}", flush=True)
    print("\nplanted    runs    held    mean    half an interval")
    for share, row in table.items():
        n = row["runs"]
        print(f"{100 * share:5g} % {n:8} {100 * row['held'] / n:6.1f} % "
              f"{100 * row['mean'] / n:6.2f} % {100 * row['half'] / n:10.2f} %")
    return 1 if any(row["held"] < 0.93 * row["runs"] for row in table.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

"""engine: the reference engine beside a real llama.cpp, and what its own instrumentation costs it.

Both evaluate the same tokens of the same file with one thread: a prompt of 512 in passes of 512, then 64
tokens one by one, llama.cpp as it is by default (weights repacked for this CPU, flash attention). They
take turns, each round in another order; the figure is the ratio of tokens per second of a round, and of
the rounds the median, so that a machine that is slower for a while is slower for both.

Instrumentation is measured in one process that switches recording on and off between the tokens of a
request (`sonde-engine bench --instrumentation`): by the clock, by the CPU time of the engine's thread,
and in instructions where the kernel counts them.

With its products on an OpenCL device the engine is measured beside itself on the CPU, in the same way. Where
the device is PoCL it is the same CPU, and limited to one thread too: a ratio to be watched, without a target.
"""
import json
import os
import subprocess
import time

from common import ROOT, named, row, say, stats_of

TYPES = ["F32", "F16", "Q8_0", "Q4_0", "TQ2_0"]
MODELS = [("small", t) for t in TYPES] + [("medium", "Q8_0"), ("medium", "Q4_0")]
PROMPT, ANSWER = 512, 64
ROUNDS_MIN, SECONDS_A_MODEL, TIMEOUT = 7, 15, 300
COST_SECONDS = 20
BUDGET = {"prefill": 0.5, "decode": 0.8, "cost": 0.3}


def run(*command, env=None):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=TIMEOUT, env=env).stdout


def ours(build, model, device="cpu", env=None):
    """{phase: tokens per second}"""
    told = json.loads(run(build / "sonde-engine", "bench", "-m", model, "--threads", 1, "-p", PROMPT, "-n",
                          ANSWER, "--batch", PROMPT, "--repeat", 1, "--json", "--device", device, env=env))
    return {phase: told[phase]["tokens_per_second"]["median"] for phase in ("prefill", "decode")}


def theirs(build, model):
    prefill, decode = map(float, run(build / "llama" / "llama_logits", "--model", model, "--bench",
                                     f"{PROMPT}:{ANSWER}", "--batch", PROMPT, "--repack").split())
    return {"prefill": PROMPT / prefill, "decode": ANSWER / decode}


def middle(samples):
    return sorted(samples)[len(samples) // 2]


def compare(one, other):
    """Rounds of what both return, in turns."""
    rounds, begin = [], time.monotonic()
    while len(rounds) < ROUNDS_MIN or time.monotonic() < begin + SECONDS_A_MODEL:
        if len(rounds) % 2:
            their, our = other(), one()
        else:
            our, their = one(), other()
        rounds.append((our, their))
    return rounds


def cost_rows(build, model, size, kind):
    told = json.loads(run(build / "sonde-engine", "bench", "-m", model, "--threads", 1, "-p", 64, "--repeat",
                          COST_SECONDS, "--instrumentation", "--json"))
    rows = []
    for key, text in (("time", "time"), ("cpu", "CPU time"), ("instructions", "instructions")):
        found = told[f"{key}_percent"]
        stats = found and {"min": found["q1"], **found, "rounds": told["turns"] // 4,
                           "discarded": told["discarded"] // 4,
                           "value": found["median"]}
        rows.append(row(f"engine_cost_{size}_{key}", "engine", f"instrumentation, {size} {kind}: {text}", "%",
                        named("sonde", stats) if stats else None, budget=BUDGET["cost"],
                        note=f"tokens of {told['turn_us']:.0f} µs" if stats else
                        "not measured: this machine does not count instructions"))
    return rows


def model_rows(build, model, size, kind):
    rounds = compare(lambda: ours(build, model), lambda: theirs(build, model))
    rows = []
    for phase in ("decode", "prefill"):
        ratios = [our[phase] / their[phase] for our, their in rounds]
        note = ", ".join(f"{name} {middle([r[i][phase] for r in rounds]):.0f} tokens/s"
                         for i, name in enumerate(("ours", "llama.cpp")))
        rows.append(row(f"engine_{phase}_{size}_{kind}", "engine",
                        f"engine, {phase}, {size} {kind}: of llama.cpp's tokens/s", "x",
                        named("sonde-engine", stats_of(ratios, middle(ratios))), budget=BUDGET[phase],
                        note=note, higher=True))
    return rows


def measure(args, scratch):
    ready = subprocess.run([ROOT / "tests" / "llama" / "prepare", args.build], capture_output=True, text=True)
    if ready.returncode:
        say(ready.stderr.strip())
        return [row("engine", "engine", "beside a real llama.cpp", "x", None,
                    note="not measured: " + ready.stderr.strip())]
    rows, costs = [], []
    for size, kind in MODELS:
        model = scratch / "model.gguf"
        run(args.build / "sonde-engine", "make-model", "--size", size, "--type", kind, "--force", "-o", model)
        rows += model_rows(args.build, model, size, kind)
        if kind == "Q8_0":
            costs += cost_rows(args.build, model, size, kind)
        model.unlink()
    return rows + costs


def opencl_rows(build, scratch, kind):
    model = scratch / "model.gguf"
    env = {**os.environ, "POCL_CACHE_DIR": str(scratch / "pocl"), "POCL_MAX_PTHREAD_COUNT": "1"}
    run(build / "sonde-engine", "make-model", "--size", "small", "--type", kind, "--force", "-o", model)
    rounds = compare(lambda: ours(build, model, "opencl", env), lambda: ours(build, model))
    model.unlink()
    rows = []
    for phase in ("decode", "prefill"):
        ratios = [device[phase] / cpu[phase] for device, cpu in rounds]
        note = ", ".join(f"{name} {middle([r[i][phase] for r in rounds]):.0f} tokens/s"
                         for i, name in enumerate(("opencl", "cpu")))
        rows.append(row(f"engine_opencl_{phase}_small_{kind}", "engine",
                        f"engine on OpenCL, {phase}, small {kind}: of the CPU's tokens/s", "x",
                        named("sonde-engine --device opencl", stats_of(ratios, middle(ratios))), note=note, higher=True))
    return rows


def measure_opencl(args, scratch):
    listed = run(args.build / "sonde-engine", "bench", "--device", "list")
    found = [line for line in listed.splitlines() if line.startswith("opencl:")]
    if not found:
        return [row("engine_opencl", "engine", "engine on OpenCL: of the CPU's tokens/s", "x", None,
                    note="not measured: " + listed.splitlines()[-1].removeprefix("opencl").strip())]
    return [r for kind in ("F16", "Q8_0", "Q4_0") for r in opencl_rows(args.build, scratch, kind)]


GROUPS = {"engine": measure, "engine_opencl": measure_opencl}

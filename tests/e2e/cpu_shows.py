#!/usr/bin/env python3
"""The programs of test_cpu_shows.sh, and what must be seen of each.

    cpu_shows.py SONDE PROGRAMS [NAME…]     in a folder of its own; NAME: only these
"""
import collections
import json
import os
import re
import subprocess
import sys
import time

SONDE, PROGRAMS = sys.argv[1:3]
ONLY = sys.argv[3:]
HANGS_S = 200  # nothing here takes a tenth of it
RUNS = 5       # figures that the machine can spoil are right in one of so many; faults are in all

# A part of a program, and the functions that time in it is in. perf prefers other names for them.
PARTS = {
    "alpha": {"alpha", "work::alpha", "__start_text_alpha"},
    "beta": {"beta_down", "work::beta", "__start_text_beta"},
    "gamma": {"gamma_sort", "gamma_compare", "work::Gamma::gamma", "__start_text_gamma"},
    "handler": {"handler"},
}
SHARES = ("alpha", "beta", "gamma")
BURN = ["burn", "--seconds", "1.5", "--turns", "100"]
PLUGIN = os.path.join(PROGRAMS, "burn_plugin.so")

# shares: parts whose shares the program knows. names: functions that must be there, with source
# file and line where it ends in *. stacks: patterns of folded ones that must be found; libraries
# need not have names.
Case = collections.namedtuple("Case", "name argv options engines shares names stacks folder")


def case(name, argv, engines="perf timer", options=(), shares=(), names="", stacks=(), folder=None):
    return Case(name, argv, list(options), engines.split(), shares, names.split(), stacks,
                folder or PROGRAMS)


CASES = [
    case("inlined helpers, recursion, qsort", BURN, shares=SHARES,
         names="alpha* beta_down* gamma_sort* spin* mix*",
         stacks=[";burn;run_part;run_turns;alpha;spin;mix$", "(;beta_down){61};spin",
                 ";gamma_sort;[^;]*(;[^;]*)*;gamma_compare;spin"]),
    case("exceptions", ["burn_throw", "1.5"], shares=SHARES,
         names="work::alpha* work::beta* work::Gamma::gamma* work::throw_for<3>*",
         stacks=[";work::burn;work::alpha;work::throw_for<3>", "(;work::beta){21}"]),
    case("a signal handler", ["burn", "--turns", "60", "--signal", "50"],
         shares=("alpha", "handler"), names="alpha* handler* main*",
         stacks=["main;in_handlers;alpha;spin;mix$", "main;in_handlers;.*;handler;spin;mix$"]),
    case("static-pie", ["burn_static_pie"] + BURN[1:], engines="perf", shares=SHARES,
         names="alpha* beta_down* gamma_sort* spin*",
         stacks=[";burn;run_part;run_turns;alpha;spin;mix$"]),
    case("a debug file apart", BURN, folder="apart", shares=SHARES,
         names="alpha* beta_down* gamma_sort* spin*",
         stacks=[";burn;run_part;run_turns;alpha;spin;mix$"]),
    case("dlopen and dlclose", ["burn", "--dlopen", "1500", PLUGIN],
         names="plugin_burn* load_and_unload*", stacks=["main;load_and_unload;plugin_burn"]),
    case("a thousand forks", ["burn", "--fork", "1000"], options=["--children"],
         names="child_work* fork_children*", stacks=["fork_children;child_work"]),
    case("exec of itself", ["burn", "--exec-self", "120"], names="alpha* exec_self*",
         stacks=["main;exec_self;alpha"]),
]

failures = []
plain_runs = {}  # of the table's programs: exit status and output


def fail(what, why):
    failures.append(what)
    print("%s: %s" % (what, why), file=sys.stderr)


def run(argv, **options):
    """Its exit status and output; a program that hangs is a failure of the test."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=HANGS_S, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, **options)
    return done.returncode, done.stdout


def record(engine, argv, *options, **how):
    """Its exit status and output, with the recording in x.run."""
    return run([SONDE, "record", "-q", "--engine", engine, "-o", "x.run", *options, "--", *argv],
               **how)


def sonde(*args):
    status, out = run([SONDE, *args])
    if status:
        raise RuntimeError("sonde %s: exit status %d" % (" ".join(args), status))
    return out


def same_always(out):
    """What a program prints in every run: not addresses, times, process ids."""
    return [line for line in out.splitlines() if not re.match(r"(range|truth|ready) ", line)]


def truth_of(out):
    return {m[1]: int(m[2]) for m in re.finditer(r"^truth (\S+) (\d+)$", out, re.M)}


def folded(path, *options):
    """[(frames, samples)] as `sonde export` has them."""
    lines = sonde("export", "--format", "folded", *options, path).splitlines()
    return [(line.rsplit(" ", 1)[0].split(";"), int(line.rsplit(" ", 1)[1])) for line in lines]


def report(path, *options):
    return json.loads(sonde("report", "--json", "--limit", "100000", *options, path))


# ---- What is looked at -------------------------------------------------------------------------


def off_shares(stacks, truth, parts):
    """By how many points shares differ from the truth, at most, and a text of them."""
    got = {p: sum(n for frames, n in stacks if PARTS[p].intersection(frames)) for p in parts}
    all_got, all_true = sum(got.values()) or 1, sum(truth[p] for p in parts)
    shares = {p: (100 * got[p] / all_got, 100 * truth[p] / all_true) for p in parts}
    text = ", ".join("%s %.1f %% (truth %.1f)" % (p, *shares[p]) for p in parts)
    return max(abs(a - b) for a, b in shares.values()), text


def check_names(what, names, r):
    functions = {f["name"]: f for f in r["functions"]}
    for name in names:
        f = functions.get(name.rstrip("*"), {})
        has_line = f.get("line") and re.search(r"\.c(pp)?$", f.get("file", ""))
        if not f:
            fail(what, "no function is named %s" % name.rstrip("*"))
        elif name.endswith("*") and not has_line:
            fail(what, "%s has no source line" % f["name"])


def check_whole(what, r):
    """99.9 % of the stacks reach the thread's start; three are forgiven where there are few. One of
    the timer engine's stands for many on a busy machine: for all the ticks that were missing."""
    forgiven = {"perf": 3, "timer": 40}[r["engine"]]
    if r["truncated_samples"] > forgiven + r["samples"] / 1000:
        fail(what, "%d of %d stacks are truncated" % (r["truncated_samples"], r["samples"]))
    if r["lost_records"] > r["samples"] / 100:
        fail(what, "%d records are lost" % r["lost_records"])


def check_run(what, c, path, out):
    """Returns whether shares are right, and what they are."""
    r, stacks = report(path), folded(path)
    check_whole(what, r)
    check_names(what, c.names, r)
    for pattern in c.stacks:
        if not any(re.search(pattern, ";".join(frames)) for frames, _ in stacks):
            fail(what, "no stack is like %s" % pattern)
    said = "%d samples, %.2f %% complete" % (r["samples"], 100 * r["complete"])
    if not c.shares:
        return True, said
    off, shares = off_shares(stacks, truth_of(out), c.shares)
    return off <= 2, said + ", " + shares


def show(c, engine):
    what = "%s, %s" % (c.name, engine)
    argv = [os.path.join(c.folder, c.argv[0])] + c.argv[1:]
    if c.name not in plain_runs:
        plain_runs[c.name] = run(argv)
    plain_status, plain = plain_runs[c.name]
    for _ in range(RUNS):
        status, out = record(engine, argv, *c.options)
        if status != plain_status:
            fail(what, "exit status %d, without us %d" % (status, plain_status))
        if same_always(out) != same_always(plain) or not same_always(out):
            fail(what, "not the same output:\n%s\nand without us:\n%s" % (out, plain))
        right, said = check_run(what, c, "x.run", out)
        print("%s: %s" % (what, said))
        if right or failures:
            return
    fail(what, "shares are more than 2 points off in each of %d runs" % RUNS)


# ---- More than a row of the table --------------------------------------------------------------


def attach_to_fifty():
    """Fifty threads were there, waiting, before anybody looked."""
    what = "attach to 50 threads, perf"
    argv = [os.path.join(PROGRAMS, "burn"), "--seconds", "0.05", "--attach", "50"]
    outputs = []
    for recorded in (False, True):
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = []
        while not first or not first[-1].startswith("ready"):
            first.append(p.stdout.readline())
        recorder = recorded and subprocess.Popen([SONDE, "record", "-q", "--engine", "perf", "-o",
                                                  "x.run", "-p", str(p.pid)])
        try:
            if recorder:
                wait_for(lambda: is_set_up(recorder.pid))
            out, _ = p.communicate("\n", timeout=HANGS_S)
            outputs.append(same_always("".join(first) + out))
            if p.returncode or (recorder and recorder.wait(HANGS_S)):
                fail(what, "exit status %d" % p.returncode)
        finally:
            p.kill()
            if recorder:
                recorder.kill()
    if outputs[0] != outputs[1]:
        fail(what, "not the same output: %s" % outputs)
    r = report("x.run")
    check_whole(what, r)
    check_names(what, ["alpha*", "beta_down*"], r)
    if r["threads_total"] < 50:
        fail(what, "only %d threads" % r["threads_total"])
    print("%s: %d samples of %d threads" % (what, r["samples"], r["threads_total"]))


def is_set_up(pid):
    """It has all the events it will have: one a thread at least, and no more after a while."""
    def events():
        fds = "/proc/%d/fd" % pid
        return sum("perf_event" in os.readlink(os.path.join(fds, fd)) for fd in os.listdir(fds))
    try:
        seen = set()
        for _ in range(4):
            seen.add(events())
            time.sleep(0.2)
        return len(seen) == 1 and min(seen) > 50
    except FileNotFoundError:  # one was closed meanwhile
        return False


def wait_for(true):
    end = time.monotonic() + HANGS_S
    while not true():
        if time.monotonic() > end:
            raise RuntimeError("waited too long")
        time.sleep(0.02)


def stripped():
    """No names at all: it says so, and functions are module+offset, but still functions."""
    what = "stripped, perf"
    record("perf", ["bare/burn", "--seconds", "0.5"])
    r, text = report("x.run"), sonde("report", "x.run")
    check_whole(what, r)
    ours = [f for f in r["functions"] if f.get("module") == "burn"]
    for f in ours:
        if not re.fullmatch(r"burn\+0x[0-9a-f]+", f["name"]):
            fail(what, "a name: %s" % f["name"])
    if not ours:
        fail(what, "nothing of the program")
    elif not 0.5 < ours[0]["self_share"] < 0.7:
        fail(what, "the first function has %g of the time, not 0.6" % ours[0]["self_share"])
    if not re.search(r"bare/burn .*no symbols: install its debug symbols", text):
        fail(what, "the report does not say that there are no symbols")
    print("%s: %s" % (what, ours[0]["name"]))


def spans(engine):
    """Nothing in a span's profile is from outside of it: each has other functions."""
    what = "spans, %s" % engine
    record(engine, [os.path.join(PROGRAMS, "burn"), "--spans", "--seconds", "0.7"])
    seen = 0
    others = PARTS["beta"] | PARTS["gamma"]
    for span, here, elsewhere in (("alpha", PARTS["alpha"], others),
                                  ("others", others, PARTS["alpha"])):
        for frames, n in folded("x.run", "--span", span):
            seen += n if here.intersection(frames) else 0
            # The span begins and ends in run_part.
            if elsewhere.intersection(frames) or "run_part" not in frames:
                fail(what, "in span %s: %s" % (span, ";".join(frames)))
    if seen < 100:
        fail(what, "only %d samples in spans" % seen)
    print("%s: %d samples inside, none from outside" % (what, seen))


def off_cpu():
    """300 ms asleep in one place, 700 ms blocked on a mutex in another."""
    what = "off-CPU, perf"
    for _ in range(RUNS):
        _, out = record("perf", [os.path.join(PROGRAMS, "burn"), "--sleep-mutex"], "--off-cpu")
        truth, r = truth_of(out), report("x.run", "--type", "off-cpu")
        total = {f["name"]: f["total"] for f in r["functions"]}
        ratio = {n: total.get(n + "_here", 0) / truth[n] for n in ("sleep", "lock")}
        print("%s: %s of the truth" % (what, ratio))
        if all(abs(v - 1) <= 0.05 for v in ratio.values()):
            return
    fail(what, "more than 5 % off")


def perf_script(argv, *options):
    """`perf record` of a program: its output, and perf script's. None: that is not allowed here."""
    program = [os.path.join(PROGRAMS, argv[0])] + argv[1:]
    try:
        status, out = run(["perf", "record", "-q", "-e", "cpu-clock:u", "-o", "perf.data", *options,
                           "--", *program], stderr=subprocess.DEVNULL)
    except FileNotFoundError:
        status = 1
    if status:
        print("perf record cannot run here: what it would show is left out")
        return None, None
    script = ["perf", "script", "-i", "perf.data", "--no-inline"]
    return out, run(script, stderr=subprocess.DEVNULL)[1]


def perf_by_frame_pointers():
    """The first program, as perf sees it by frame pointers: no stack is whole."""
    what = "perf --call-graph fp"
    _, text = perf_script(["burn", "--seconds", "0.5"], "-F", "999", "--call-graph", "fp")
    if text is None:
        return
    stacks = [s for s in text.split("\n\n") if re.search(r"\(.*burn\)", s)]
    whole = [s for s in stacks if re.search(r" (clone3?|__clone|start_thread|_start)(\+\S+)? ", s)]
    print("%s: %d of %d stacks are whole" % (what, len(whole), len(stacks)))
    if len(stacks) < 100 or len(whole) > len(stacks) / 100:
        fail(what, "that is not what it was")


def perf_import():
    """What perf script prints, imported, is as true as our own recording."""
    what = "perf script, imported"
    for _ in range(RUNS):
        out, text = perf_script(BURN, "-F", "499", "--call-graph", "dwarf")
        if text is None:
            return
        with open("perf.txt", "w", encoding="utf-8") as f:
            f.write(text)
        sonde("import", "-q", "perf.txt", "-o", "x.run")
        off, shares = off_shares(folded("x.run"), truth_of(out), SHARES)
        print("%s: %s" % (what, shares))
        if off <= 3:
            return
    fail(what, "shares are more than 3 points off in each of %d runs" % RUNS)


def allowed(engine):
    status, _ = record(engine, ["true"], stderr=subprocess.DEVNULL)
    if status:
        print("the %s engine cannot run here: what it would show is left out" % engine)
    return not status


def main():
    engines = [e for e in ("perf", "timer") if allowed(e)]
    shows = [(c.name, lambda c=c, e=e: show(c, e))
             for c in CASES for e in c.engines if e in engines]
    shows += [("spans", lambda e=e: spans(e)) for e in engines]
    if "perf" in engines:
        shows += [(f.__name__, f) for f in (attach_to_fifty, stripped, off_cpu)]
    shows += [(f.__name__, f) for f in (perf_by_frame_pointers, perf_import)]
    for name, f in shows:
        if ONLY and name not in ONLY:
            continue
        start = time.monotonic()
        try:
            f()
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            fail(name, str(e))
        print("    %.1f s" % (time.monotonic() - start))
    if not engines:
        fail("engines", "none can run")
    sys.exit(bool(failures))


main()

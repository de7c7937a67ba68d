#!/usr/bin/env python3
"""bench.py: does `sonde findings` name the cause?

    SONDE_BUILD=build/release python3 tests/findings/bench.py [--runs 200] [--seed 1] [--only NAME…]
    SONDE_BUILD=build/release python3 tests/findings/bench.py --short        every program once, for `make test`

Programs of bench.tsv, each with one planted cause, are recorded; then findings are asked for. A run is right
if the first finding has the planted kind and, where the row names a file, points into a function of it that
carries the comment PLANTED. Healthy programs (half as many runs) must have no finding of severity warning or
above; one in a hundred runs may. Prints kinds against findings, programs, and a summary; exit status 1 if
fewer than 95 % are right, 2 if it cannot be run at all.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ("program", "kinds", "place", "setup", "arguments", "notes")
SEVERE = ("warning", "critical")
DATA_MIB = 512
CPUS = len(os.sched_getaffinity(0))


class Skip(Exception):
    """A program that cannot be run here, and why."""


def rows_read(path):
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            if len(fields) != len(COLUMNS):
                sys.exit(f"{path}:{number}: {len(fields)} columns, wanted {len(COLUMNS)}")
            row = dict(zip(COLUMNS, fields))
            row["kinds"] = row["kinds"].split("|")
            row["setup"] = [] if row["setup"] == "-" else row["setup"].split()
            rows.append(row)
    return rows


def planted_ranges(path):
    """(first, last) line of every function of the file that has the word PLANTED in it."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    ranges = []
    for number, line in enumerate(lines, 1):
        if "PLANTED" not in line:
            continue
        first = number
        while first > 1 and not re.match(r"[A-Za-z_].*\(", lines[first - 1]):
            first -= 1
        last = number
        while last < len(lines) and not lines[last - 1].startswith("}"):
            last += 1
        ranges.append((first, last))
    if not ranges:
        sys.exit(f"{path}: no function is marked PLANTED")
    return ranges


# ---- What a program needs around it -----------------------------------------------------------------

def note(text):
    print(text, file=sys.stderr, flush=True)


class Quota:
    """A cgroup with so many CPUs, version 1 or 2; removed at the end."""

    def __init__(self, cpus):
        period = 100000
        name = f"sonde-findings-{os.getpid()}"
        for mount, version in (("/sys/fs/cgroup/cpu", 1), ("/sys/fs/cgroup", 2)):
            if version == 2 and not os.path.exists(mount + "/cgroup.controllers"):
                continue
            if not os.path.isdir(mount):
                continue
            self.folder = os.path.join(mount, name)
            try:
                os.makedirs(self.folder, exist_ok=True)
                if version == 1:
                    self.write("cpu.cfs_period_us", period)
                    self.write("cpu.cfs_quota_us", int(period * cpus))
                else:
                    self.write("cpu.max", f"{int(period * cpus)} {period}")
                return
            except OSError as error:
                self.remove()
                raise Skip(f"no cgroup with a CPU quota can be made in {mount}: {error.strerror}") from error
        raise Skip("no cgroup with a CPU controller is mounted")

    def write(self, name, value):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(str(value))

    def inside(self, command):
        return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', self.folder + "/cgroup.procs"] + command

    def remove(self):
        for _ in range(50):  # until the kernel has seen the last process off
            try:
                os.rmdir(self.folder)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.1)


def cpu_seconds():
    """CPU time of all processes of this machine since it started."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system = map(int, file.readline().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def steal_seconds():
    """Time that the hypervisor took from this machine since it started."""
    with open("/proc/stat", encoding="ascii") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def file_evict(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


class Place:
    """The build, and files that are made once in it."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.sonde = os.path.join(self.build, "sonde")
        self.programs = os.path.join(self.build, "findings")
        self.llama = os.path.join(self.build, "llama")
        self.llama_known = None
        for path in (self.sonde, self.programs):
            if not os.path.exists(path):
                sys.exit(f"bench.py: {path} is not there: build first, or set SONDE_BUILD")

    def data(self):
        path = os.path.join(self.programs, "data.bin")
        if not os.path.exists(path) or os.path.getsize(path) != DATA_MIB << 20:
            block = random.Random(1).randbytes((1 << 20) - 8)
            with open(path + ".new", "wb") as file:
                for i in range(DATA_MIB):
                    file.write(i.to_bytes(8, "little") + block)
            os.rename(path + ".new", path)
        return path

    def llama_prepare(self):
        if self.llama_known is None:
            done = subprocess.run([os.path.join(HERE, "../llama/prepare"), "--bench", self.build],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            self.llama_known = done.stdout.strip() or "prepare failed" if done.returncode else ""
        if self.llama_known:
            raise Skip(self.llama_known.splitlines()[-1])

    def model_prepare(self):
        path = os.path.join(self.llama, "cold.gguf")
        if os.path.exists(path):
            return
        note("makes a model of 1.4 GB")
        shape = dict(embd=1536, layers=20, heads=12, kv_heads=12, ff=6144)
        command = [sys.executable, os.path.join(HERE, "../llama/gguf.py"), "--preset", "bench", "--type", "f16"]
        for key, value in shape.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        subprocess.run(command + [path + ".new"], check=True)
        os.rename(path + ".new", path)


# ---- One run ------------------------------------------------------------------------------------------

class Run:
    """One program, recorded once: what was found, and whether that is right."""

    def __init__(self, place, row, seed, seconds, scratch):
        self.place, self.row, self.seed, self.scratch = place, row, seed, scratch
        self.seconds = seconds
        self.settings, self.environment, self.quota = [], dict(os.environ), None
        self.file = os.path.join(scratch, "bench.run")
        self.findings, self.error, self.skipped = [], None, None
        self.stolen = False  # the hypervisor took time meanwhile
        self.others = 0  # CPUs that other processes used meanwhile

    def set_up(self):
        """The command line."""
        row, place, extra = self.row, self.place, []
        words = {"seed": self.seed % 1000000, "llama": place.llama, "cpus": CPUS, "cpus2": 2 * CPUS}
        for word in row["setup"]:
            key, _, value = word.partition("=")
            value = value.format(**words)
            if word == "data":
                extra += ["--data", place.data()]
            elif word == "dir":
                extra += ["--dir", self.scratch]
            elif word == "llama":
                place.llama_prepare()
            elif word == "model":
                place.model_prepare()
            elif word == "place-optional":
                pass
            elif key == "duration":
                self.seconds = float(value)
            elif key == "cgroup":
                low, high = map(float, value.split("-"))
                self.quota = Quota(random.Random(self.seed).uniform(low, high))
            elif key == "cold":
                file_evict(value)
            elif key.startswith("env:"):
                self.environment[key[4:]] = value
            elif key.startswith("set:"):
                self.settings += ["--set", word[4:]]
            else:
                sys.exit(f"bench.tsv: {row['program']}: unknown setup {word!r}")
        if row["arguments"] == "-":
            command = [os.path.join(place.programs, row["program"]), "--seed", str(self.seed),
                       "--seconds", str(self.seconds + 30)] + extra
        else:
            command = row["arguments"].format(**words).split()
        return self.quota.inside(command) if self.quota else command

    def sonde(self, arguments, timeout):
        process = subprocess.Popen([self.place.sonde] + arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment, cwd=self.scratch, text=True,
                                   errors="replace", start_new_session=True)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise RuntimeError(f"sonde {arguments[0]} did not end in {timeout:.0f} s") from None
        return process.returncode, out, err

    def record(self):
        self.environment["SONDE_DIR"] = os.path.join(self.scratch, "segments")
        os.makedirs(self.environment["SONDE_DIR"], mode=0o700)
        command = self.set_up()
        before = steal_seconds()
        status, _, err = self.sonde(["record", "-q", "--off-cpu", "--heap", "-d", str(self.seconds), "--stop"] +
                                    self.settings + ["-o", self.file, "--"] + command, self.seconds + 60)
        self.stolen = steal_seconds() > before
        if not os.path.exists(self.file):
            raise RuntimeError(f"sonde record: exit status {status}: {err.strip()[-300:]}")

    def ask(self):
        status, out, err = self.sonde(["findings", self.file, "--format", "json"] + self.settings, 120)
        try:
            answer = json.loads(out)
        except json.JSONDecodeError:
            raise RuntimeError(f"sonde findings: exit status {status}: {(err or out).strip()[-300:]}") from None
        # That CPUs were stolen is true of the machine, whatever was planted in the program.
        self.findings = [x for x in answer["findings"] if x.get("kind") != "cpu_steal" or not self.stolen]

    def do(self, ask=True):
        began, used, own = time.monotonic(), cpu_seconds(), sum(os.times()[:4])
        try:
            self.record()
            if ask:
                self.ask()
        except Skip as why:
            self.skipped = str(why)
        except (RuntimeError, KeyError, TypeError) as why:
            self.error = str(why)
        finally:
            if self.quota:
                self.quota.remove()
            others = cpu_seconds() - used - (sum(os.times()[:4]) - own)
            self.others = max(0, others) / (time.monotonic() - began)

    # ---- judged

    def severe(self):
        return [f for f in self.findings if f.get("severity") in SEVERE]

    def first(self):
        if self.error:
            return "(error)"
        return self.findings[0].get("kind", "?") if self.findings else "(none)"

    def kind_right(self):
        if self.error:
            return False
        if "none" in self.row["kinds"] and not self.severe():
            return True
        return self.first() in self.row["kinds"]

    def place_right(self):
        """None = there is none to be right about."""
        file = self.row["place"]
        if file == "-" or self.error or not self.findings or self.first() not in self.row["kinds"]:
            return None
        found = self.findings[0]
        if "place-optional" in self.row["setup"] and not found.get("file"):
            return None
        if os.path.basename(found.get("file") or "") != file:
            return False
        line = found.get("line") or 0
        return any(a <= line <= b for a, b in planted_ranges(os.path.join(HERE, "programs", file)))

    def healthy(self):
        return self.row["kinds"] == ["healthy"]

    def right(self):
        if self.healthy():
            return not self.error and not self.severe()
        return self.kind_right() and self.place_right() is not False

    def story(self):
        """One line: what was found."""
        if self.skipped:
            return "skipped: " + self.skipped
        if self.error:
            return "ERROR: " + self.error
        shown = self.severe() if self.healthy() else self.findings[:1]
        text = "; ".join(f"{f.get('kind')} ({f.get('severity')}) {f.get('file') or ''}:{f.get('line') or ''} "
                         f"{f.get('text', '')}" for f in shown) or "nothing"
        return ("right: " if self.right() else "WRONG: ") + text

    def as_json(self):
        return {"program": self.row["program"], "seed": self.seed, "kinds": self.row["kinds"], "first": self.first(),
                "right": self.right(), "place_right": self.place_right(), "error": self.error,
                "skipped": self.skipped, "other_cpus": round(self.others, 3), "findings": self.findings}


# ---- Tables ----------------------------------------------------------------------------------------------

def table_print(rows, left=(0,)):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [str(cell).ljust(width) if i in left else str(cell).rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def confusion_print(runs):
    counts = collections.Counter((r.row["kinds"][0], r.first()) for r in runs)
    planted = list(dict.fromkeys(r.row["kinds"][0] for r in runs))
    found = [k for k in planted if any(counts[p, k] for p in planted)]
    found += sorted({k for _, k in counts} - set(found))
    marks = [chr(ord("A") + i) if i < 26 else "a" + chr(ord("a") + i - 26) for i in range(len(found))]
    print("Planted kinds (rows) against first findings (columns)\n")
    table_print([["planted"] + marks] +
                [[p] + [counts[p, k] or "." for k in found] for p in planted])
    print()
    for mark, kind in zip(marks, found):
        print(f"{mark:>3}  {kind}")
    print()


def programs_print(runs):
    print("Programs\n")
    rows = [["program", "runs", "kind", "place", "first findings that were wrong"]]
    for name in dict.fromkeys(r.row["program"] for r in runs):
        own = [r for r in runs if r.row["program"] == name]
        places = [r.place_right() for r in own if r.place_right() is not None]
        if own[0].healthy():
            wrong = collections.Counter(f.get("kind") for r in own for f in r.severe())
            right = sum(r.right() for r in own)
        else:
            wrong = collections.Counter(r.first() for r in own if not r.kind_right())
            right = sum(r.kind_right() for r in own)
        rows.append([name, len(own), right, f"{sum(places)}/{len(places)}" if places else "-",
                     ", ".join(f"{kind} {n}" for kind, n in wrong.most_common(4)) or "-"])
    table_print(rows, left=(0, 4))
    print()


def summary_print(runs, arguments):
    """True = all that was asked for holds."""
    planted = [r for r in runs if not r.healthy()]
    healthy = [r for r in runs if r.healthy()]
    good = True
    if planted:
        kinds = sum(r.kind_right() for r in planted)
        places = [r.place_right() for r in planted if r.place_right() is not None]
        right = sum(r.right() for r in planted)
        print(f"planted: {len(planted)} runs: right kind first in {kinds} ({100 * kinds / len(planted):.1f} %), "
              f"place right in {sum(places)} of {len(places)}, both in {right} ({100 * right / len(planted):.1f} %); "
              f"wanted {arguments.threshold:g} %")
        good = 100 * right >= arguments.threshold * len(planted)
    if healthy:
        severe = sum(len(r.severe()) for r in healthy)
        errors = sum(bool(r.error) for r in healthy)
        allowed = max(1, len(healthy) // 100) if arguments.healthy_allowed is None else arguments.healthy_allowed
        print(f"healthy: {len(healthy)} runs: {severe} findings of warning or above, at most {allowed} allowed"
              + (f"; {errors} runs failed" if errors else ""))
        good = good and severe <= allowed and not errors
    others = [r.others for r in runs]
    if sum(others) > 0.1 * len(runs):
        print(f"other processes used {sum(others) / len(runs):.2f} of {CPUS} CPUs meanwhile, at most {max(others):.2f}: "
              "a busy machine is a cause of its own")
    return good


# ---- All runs ----------------------------------------------------------------------------------------------

def options_read():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="of planted programs; half as many of healthy ones")
    parser.add_argument("--short", action="store_true", help="every program once, for `make test`")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="programs or kinds, also parts of names")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="of each recording (3; with --short 2)")
    parser.add_argument("--threshold", type=float, help="percent of planted runs that must be right (95; with --short 80)")
    parser.add_argument("--healthy-allowed", type=int, help="findings of healthy programs (1 in 100 runs)")
    parser.add_argument("--jobs", type=int, default=1, choices=[1], help="one at a time: programs compete for CPUs")
    parser.add_argument("--keep", metavar="DIR", help="keep run files of what was wrong")
    parser.add_argument("--record-only", action="store_true", help="record all, ask nothing; with --keep for reports by hand")
    parser.add_argument("--json", metavar="FILE", help="all findings of all runs")
    parser.add_argument("--list", action="store_true", help="print the programs")
    arguments = parser.parse_args()
    if arguments.threshold is None:
        arguments.threshold = 80 if arguments.short else 95
    if arguments.seconds is None:
        arguments.seconds = 2 if arguments.short else 3
    return arguments


def rows_choose(arguments):
    rows = rows_read(os.path.join(HERE, "bench.tsv"))
    if arguments.only:
        rows = [r for r in rows if any(word in r["program"] or word in r["kinds"] for word in arguments.only)]
        if not rows:
            sys.exit("bench.py: no program is called " + " or ".join(arguments.only))
    elif arguments.short:
        rows = [r for r in rows if "model" not in r["setup"]]
    return rows


def plan_make(rows, arguments):
    """(row, seed) of all runs: programs in turn, so that a run that is broken off has seen all of them."""
    plan = []
    for healthy, count in ((False, arguments.runs), (True, (arguments.runs + 1) // 2)):
        chosen = [r for r in rows if (r["kinds"] == ["healthy"]) == healthy]
        if chosen:
            count = len(chosen) if arguments.short else count
            plan += [(chosen[i % len(chosen)], arguments.seed * 100000 + i) for i in range(count)]
    return plan


def findings_there(place):
    done = subprocess.run([place.sonde, "findings", "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False)
    return done.returncode == 0


def main():
    arguments = options_read()
    rows = rows_choose(arguments)
    if arguments.list:
        table_print([[r["program"], "|".join(r["kinds"]), r["place"]] for r in rows], left=(0, 1, 2))
        return 0
    place = Place(os.environ.get("SONDE_BUILD", "build/release"))
    if not arguments.record_only and not findings_there(place):
        print("bench.py: this sonde has no command `findings`", file=sys.stderr)
        return 2
    runs, skipped = [], {}
    plan = plan_make(rows, arguments)
    if arguments.keep:
        os.makedirs(arguments.keep, exist_ok=True)
    for number, (row, seed) in enumerate(plan, 1):
        if row["program"] in skipped:
            continue
        scratch = os.path.join(place.programs, f"scratch-{os.getpid()}")
        os.makedirs(scratch)
        try:
            run = Run(place, row, seed, arguments.seconds, scratch)
            run.do(ask=not arguments.record_only)
            note(f"{number}/{len(plan)} {row['program']} {seed}: " +
                       (run.error or run.skipped or "recorded" if arguments.record_only else run.story()))
            if arguments.keep and os.path.exists(run.file) and (arguments.record_only or not run.right()):
                os.replace(run.file, os.path.join(arguments.keep, f"{row['program']}-{seed}.run"))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if run.skipped:
            skipped[row["program"]] = run.skipped
        else:
            runs.append(run)
    for name, why in skipped.items():
        print(f"not run: {name}: {why}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump([r.as_json() for r in runs], file, indent=1)
    if arguments.record_only or not runs:
        return 0 if all(not r.error for r in runs) else 1
    confusion_print(runs)
    programs_print(runs)
    return 0 if summary_print(runs, arguments) else 1


if __name__ == "__main__":
    sys.exit(main())

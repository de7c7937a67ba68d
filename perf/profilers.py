"""profilers: the CPU profilers that perf/cpu.py compares, and how to read what they wrote.

Each records bench_burner at a given rate into a file. A stack is whole if it holds `burn`, the
function of the burner's thread, and behind it exactly the two frames of libc that start a thread.
"""
import glob
import os
import re
import resource
import shutil
import sqlite3
import struct
import subprocess
import time

from common import watch

BURNER_LINE = re.compile(r"^(\d+) (\d+) (\d+) (\d+)$", re.M)
FRAMES_BEHIND_BURN = 2
# Timers on CPU time fire at ticks of the kernel: however many are asked for, they are CONFIG_HZ a
# second, mostly 250.
TIMER_LOW, TIMER_RATE = (25000, 25), 1000


def burner_cpu():
    """The burner has a CPU of its own if there are two; interrupts of devices favour the first."""
    return max(os.sched_getaffinity(0))


class Run:
    """The burner once, alone or under a profiler; times in seconds. lost: what interrupts and
    signals took from the burner's thread; tool: CPU time of all but that thread's."""

    def __init__(self, command, burner, units, env=None):
        cpus, cpu = os.sched_getaffinity(0), burner_cpu()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.sched_setaffinity(0, cpus - {cpu} or cpus)
        try:
            done = subprocess.run([*command, burner, str(units), str(cpu)], text=True, timeout=60,
                                  env={**os.environ, **(env or {})}, capture_output=True)
        finally:
            os.sched_setaffinity(0, cpus)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        line = BURNER_LINE.search(done.stdout)
        if done.returncode or not line:
            said = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise RuntimeError(f"{(command or [burner])[0]} ended with status {done.returncode}: "
                               f"{said}")
        self.units, self.tid, self.said = units, line.group(1), done.stderr
        self.lost, self.thread, self.process = (int(line.group(i)) / 1e9 for i in (2, 3, 4))
        used = sum(getattr(after, k) - getattr(before, k) for k in ("ru_utime", "ru_stime"))
        self.tool = used - self.thread
        self.stacks = self.bytes = 0


class Profiler:
    """low: units of work and rate of a recording of few samples, which costs what every recording
    does; high_rate: of one with many."""
    low, high_rate = (500, 1000), 4000

    def __init__(self, name, burner, scratch):
        self.name, self.burner = name, str(burner)
        self.out = str(scratch / (name.replace(" ", "-") + ".out"))

    def run(self, units, rate):
        command, env = self.command(rate)
        run = Run(command, self.burner, units, env)
        run.stacks, run.bytes = self.count(run), os.path.getsize(self.out)
        return run

    def share(self, units, rate):
        """Of a CPU, what processes of its own use while it samples; 0 = there are none."""
        return 0

    def missing(self):
        """Why it cannot be measured here; "" = it can."""
        try:
            self.run(*self.low)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return ""


# ---- sonde ------------------------------------------------------------------------------------

class Sonde(Profiler):
    low = (25000, 1000)  # half a second: names and tables of all that the burner uses are needed

    def __init__(self, engine, sonde, burner, scratch):
        super().__init__(f"sonde {engine}", burner, scratch)
        self.engine, self.sonde = engine, str(sonde)
        if engine == "timer":
            self.low, self.high_rate = TIMER_LOW, TIMER_RATE

    def command(self, rate):
        return [self.sonde, "record", "--engine", self.engine, "-F", str(rate), "-o", self.out,
                "--"], None

    def share(self, units, rate):
        command, _ = self.command(rate)
        agent = subprocess.Popen([*command, self.burner, str(4 * units), str(burner_cpu())],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(1)
            return watch(agent.pid, 3)["mean"] / 100
        finally:
            agent.terminate()
            agent.wait()

    def count(self, run):
        run_file = sqlite3.connect(f"file:{self.out}?immutable=1", uri=True)
        try:
            return run_file.execute("SELECT coalesce(sum(count), 0) FROM samples").fetchone()[0]
        finally:
            run_file.close()

    def weighed(self, run):
        """Samples with the periods that each stands for, as the summary has it."""
        return int(re.search(r": (\d+) samples at ", run.said).group(1))

    def whole(self, run):
        folded = subprocess.run([self.sonde, "export", "--format", "folded", "--thread", run.tid,
                                 self.out], check=True, capture_output=True, text=True).stdout
        stacks = whole = 0
        for line in folded.splitlines():
            frames, count = line.rsplit(" ", 1)
            stacks += int(count)
            if frames.split(";")[FRAMES_BEHIND_BURN:][:1] == ["burn"]:
                whole += int(count)
        return 100 * whole / max(1, stacks)


# ---- perf -------------------------------------------------------------------------------------

class Perf(Profiler):
    def __init__(self, graph, burner, scratch):
        super().__init__(f"perf {graph}" if graph else "perf, no stack", burner, scratch)
        self.graph = ["--call-graph", graph] if graph else []

    def command(self, rate):
        # Without --no-bpf-event perf waits most of a second for a thread of its own to end.
        return ["perf", "record", "--no-bpf-event", "-e", "cpu-clock", "-F", str(rate),
                *self.graph, "-o", self.out, "--"], None

    def missing(self):
        return super().missing() if shutil.which("perf") else "no perf (Debian: linux-perf)"

    def count(self, run):
        found = re.search(r"\((\d+) samples\)", run.said)
        if not found:
            raise RuntimeError("perf record does not say how many samples it took")
        return int(found.group(1))

    weighed = count

    def whole(self, run):
        script = subprocess.run(["perf", "script", "--no-inline", "--tid", run.tid, "-F",
                                 "tid,ip,sym", "-i", self.out], check=True, capture_output=True,
                                text=True).stdout
        stacks = whole = 0
        for sample in script.strip().split("\n\n"):
            # From the second line on an address and a name each, the innermost first.
            names = [line.split()[1:2] for line in sample.splitlines()[1:]]
            stacks += 1
            whole += names[-1 - FRAMES_BEHIND_BURN:][:1] == [["burn"]]
        return 100 * whole / stacks


# ---- gperftools -------------------------------------------------------------------------------

class Gperftools(Profiler):
    low, high_rate = TIMER_LOW, TIMER_RATE

    def __init__(self, burner, scratch):
        super().__init__("gperftools", burner, scratch)
        self.library = next(iter(glob.glob("/usr/lib/*/libprofiler.so.0")), None)

    def command(self, rate):
        return [], {"LD_PRELOAD": self.library, "CPUPROFILE": self.out,
                    "CPUPROFILE_FREQUENCY": str(rate)}

    def missing(self):
        if self.library:
            return super().missing()
        return "no libprofiler.so.0 (Debian: libgoogle-perftools4)"

    def stacks_of(self):
        """(count, addresses) each. The file is words: a header, then count, depth and addresses of
        each stack, up to one of count 0."""
        with open(self.out, "rb") as file:
            data = file.read()
        words = struct.unpack(f"{len(data) // 8}Q", data[:len(data) // 8 * 8])
        at = 2 + words[1]
        while words[at]:
            yield words[at], words[at + 2:at + 2 + words[at + 1]]
            at += 2 + words[at + 1]

    def count(self, run):
        return sum(count for count, _ in self.stacks_of())

    weighed = count

    def whole(self, run):
        symbols = subprocess.run(["nm", "-S", self.burner], check=True, capture_output=True,
                                 text=True).stdout
        start, size = (int(x, 16) for x in
                       re.search(r"^(\w+) (\w+) t burn$", symbols, re.M).groups())
        stacks = whole = 0
        for count, frames in self.stacks_of():
            stacks += count
            if len(frames) > FRAMES_BEHIND_BURN:
                whole += count * (start <= frames[-1 - FRAMES_BEHIND_BURN] < start + size)
        return 100 * whole / max(1, stacks)

#!/usr/bin/env python3
"""programs: servers, languages and tools that people use, under `sonde run`, and the CPU time that it
shows for each of their processes against /proc.

    programs.py BUILD [--only NAME,…] [--modes MODE,…] [--seconds N] [--keep]

Each program runs bare, then under `sonde run` in each mode: with perf events, with the timer engine,
with every allocation recorded, and, as an ordinary user, with what the kernel leaves to one. A
server gets real load from the client that its own people measure it with.

Checked: samples by process against utime and stime of /proc/PID/stat (of utime alone where the
kernel's time may not be seen), within 2 % and what the clocks can tell apart; the same in all; what
the program prints and writes, the client's count of errors, the exit status; that a success is not
claimed over nothing; that no segment is left. Told: how complete stacks are, and the CPU time per
unit of work beside that of the bare run.
"""
import argparse
import glob
import hashlib
import json
import math
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
KERNEL_TICK_S = 1.0 / 250   # by which utime and stime are told apart; rougher at 100 Hz
LOOK_S = 0.02               # between looks at /proc
ENOUGH_S = 1.0              # CPU time that a process must have used to be judged alone
SOME_S = 0.2                # … and to be counted as one that worked
COMPLETE_LEAST = 0.99

failures = []


def complain(text):
    failures.append(text)
    print("FAIL " + text, flush=True)


def note(text):
    print("     " + text, flush=True)


def wait_for(what, check, seconds=60.0, every=0.05):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = check()
        if got:
            return got
        time.sleep(every)
    raise RuntimeError("nothing after %d s: %s" % (seconds, what))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listens(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


def client(*argv, **kw):
    """A client's whole output; it must end well."""
    p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, timeout=300, **kw)
    if p.returncode:
        raise RuntimeError("%s: exit status %d: %s" % (argv[0], p.returncode, p.stdout[-400:]))
    return p.stdout


# ---- The oracle ----------------------------------------------------------------------------------


class Clock:
    """CPU time of the processes below root, as /proc had it at the last look before each ended."""

    def __init__(self, root, with_root):
        self.seen = {}      # pid: [utime, stime, comm, threads at most]
        self.files = {}     # pid: descriptor of its stat
        self.root, self.with_root = root, with_root
        self.stop = threading.Event()
        self.add(root)
        self.thread = threading.Thread(target=self.loop)
        self.thread.start()

    def add(self, pid):
        try:
            self.files[pid] = os.open("/proc/%d/stat" % pid, os.O_RDONLY)
        except OSError:
            pass

    def look(self):
        for pid in list(self.files):
            try:
                text = os.pread(self.files[pid], 1024, 0).decode(errors="replace")
                children = []
                for tid in os.listdir("/proc/%d/task" % pid):
                    with open("/proc/%d/task/%s/children" % (pid, tid)) as f:
                        children += map(int, f.read().split())
            except OSError:
                text, children = "", []
            if not text:
                os.close(self.files.pop(pid))
                continue
            at = text.rindex(")")
            field = text[at + 2:].split()
            had = self.seen.get(pid, (0, 0, "", 0))
            self.seen[pid] = (int(field[11]) * TICK_S, int(field[12]) * TICK_S,
                              text[text.index("(") + 1:at], max(int(field[17]), had[3]))
            for child in children:
                if child not in self.files:
                    self.add(child)

    def loop(self):
        try:  # of this thread: a look must not wait for the load
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            pass
        while not self.stop.wait(LOOK_S):
            self.look()

    def end(self):
        self.stop.set()
        self.thread.join()
        for fd in self.files.values():
            os.close(fd)
        if not self.with_root:
            self.seen.pop(self.root, None)
        return {pid: v for pid, v in self.seen.items() if v[2] != "sonde"}


# ---- Programs ------------------------------------------------------------------------------------


class Program:
    packages = ()           # of Debian, for those who lack them
    needs = ()              # programs that must be there
    processes = 1           # that must have enough CPU time to be judged
    inside = True           # libsonde_preload can come in, and write where it must
    why = "is linked statically"  # else
    complete = COMPLETE_LEAST
    user = None             # who runs it, sonde and all; None = whoever runs this
    hint = None             # what the report must advise
    stop_signal = signal.SIGTERM
    stop_status = 0
    server = False

    def __init__(self, dir, seconds):
        self.dir, self.seconds = dir, seconds
        self.units = 1      # of work that the last run did

    def prepare(self): pass
    def command(self): raise NotImplementedError
    def ready(self): return True
    def load(self): pass            # of a server
    def result(self, out): return b"" if self.server else out  # what must be the same bare and under sonde


class Nginx(Program):
    packages, needs = ("nginx-light", "wrk"), ("nginx", "wrk")
    processes = 2
    server = True

    def prepare(self):
        os.makedirs(self.dir + "/www", exist_ok=True)
        with open(self.dir + "/www/index.html", "w") as f:
            f.write("<p>" + "nginx " * 300)
        os.chmod(self.dir + "/www", 0o755)

    def command(self):
        self.port = free_port()
        with open(self.dir + "/nginx.conf", "w") as f:
            f.write("""%s worker_processes 2; daemon off; pid %s/nginx.pid; error_log stderr warn;
events { worker_connections 256; }
http { access_log off; client_body_temp_path %s/body; proxy_temp_path %s/proxy; fastcgi_temp_path %s/fcgi;
       uwsgi_temp_path %s/uwsgi; scgi_temp_path %s/scgi; gzip on; gzip_min_length 1; gzip_types text/html;
       server { listen 127.0.0.1:%d reuseport; root %s/www; } }
""" % (("user www-data;" if os.getuid() == 0 else "",) + (self.dir,) * 6 + (self.port, self.dir)))
        return ["nginx", "-c", self.dir + "/nginx.conf", "-e", "stderr"]

    def ready(self): return listens(self.port)

    def load(self):
        out = client("wrk", "-t1", "-c16", "-d%ds" % self.seconds, "-H", "Accept-Encoding: gzip",
                     "http://127.0.0.1:%d/" % self.port)
        self.units = int(re.search(r"(\d+) requests in", out).group(1))
        if re.search(r"Non-2xx|Socket errors", out):
            raise RuntimeError("wrk: " + out)


class Postgres(Program):
    packages, needs = ("postgresql",), ("pgbench",)
    processes = 3
    server = True
    stop_signal = signal.SIGINT     # fast shutdown
    user = "postgres" if os.getuid() == 0 else None

    def bin(self, name):
        return sorted(glob.glob("/usr/lib/postgresql/*/bin/" + name))[-1] if glob.glob(
            "/usr/lib/postgresql/*/bin/" + name) else name

    def as_user(self, argv):
        return (["setpriv", "--reuid=" + self.user, "--regid=" + self.user, "--clear-groups"] if self.user else []) + argv

    def prepare(self):
        self.data = self.dir + "/data"
        client(*self.as_user([self.bin("initdb"), "-D", self.data, "-A", "trust", "-U", "bench", "--no-sync"]),
               cwd=self.dir)

    def command(self):
        self.port = free_port()
        return [self.bin("postgres"), "-D", self.data, "-p", str(self.port), "-k", "", "-h", "127.0.0.1",
                "-c", "fsync=off", "-c", "log_min_messages=error"]

    def pgbench(self, *argv):
        return client("pgbench", "-h", "127.0.0.1", "-p", str(self.port), "-U", "bench", *argv, "postgres",
                      cwd="/")

    def ready(self):
        return subprocess.run([self.bin("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                              timeout=30).returncode == 0

    def load(self):
        self.pgbench("-i", "-q", "-s", "2")
        out = self.pgbench("-c", "3", "-j", "1", "-T", str(self.seconds))
        self.units = int(re.search(r"actually processed: (\d+)", out).group(1))
        if not re.search(r"failed transactions: 0 ", out):
            raise RuntimeError("pgbench: " + out)


class PostgresByRoot(Postgres):
    """sonde as root, the server as its own user below it, which may not write to root's segments."""
    user = None
    inside, why = False, "changes its user|only .* of CPU time that it used was sampled"

    def as_user(self, argv):
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *argv]

    def command(self): return self.as_user(Postgres.command(self))


class Redis(Program):
    packages, needs = ("redis-server", "redis-tools"), ("redis-server", "redis-benchmark")
    server = True

    def command(self):
        self.port = free_port()
        return ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self.dir,
                "--daemonize", "no", "--logfile", ""]

    def ready(self): return listens(self.port)

    def load(self):
        self.units = 0
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            out = client("redis-benchmark", "-p", str(self.port), "-n", "20000", "-c", "16", "-r", "10000", "-q",
                         "-t", "set,get,lpush,incr")
            if len(re.findall(r"requests per second", out)) != 4 or "rror" in out:
                raise RuntimeError("redis-benchmark: " + out)
            self.units += 80000
        # The snapshot is another process.
        client("redis-cli", "-p", str(self.port), "bgsave")
        wait_for("a snapshot", lambda: "rdb_bgsave_in_progress:0" in client(
            "redis-cli", "-p", str(self.port), "info", "persistence"))


class Ffmpeg(Program):
    packages, needs = ("ffmpeg",), ("ffmpeg",)
    complete = 0.3          # x264's assembly has no unwind tables, and no frame pointer

    def command(self):
        self.out = self.dir + "/out.mkv"
        return ["ffmpeg", "-nostdin", "-loglevel", "error", "-y", "-f", "lavfi", "-i",
                "testsrc2=size=640x360:rate=25", "-t", str(4 * self.seconds), "-c:v", "libx264", "-threads", "2",
                "-flags", "+bitexact", "-fflags", "+bitexact", self.out]

    def result(self, out):
        with open(self.out, "rb") as f:
            return out + hashlib.sha256(f.read()).hexdigest().encode()


class Script(Program):
    text = ""
    suffix = ""
    interpreter = ()

    def prepare(self):
        self.file = "%s/script%s" % (self.dir, self.suffix)
        with open(self.file, "w") as f:
            f.write(self.text)
        os.chmod(self.file, 0o755)

    def command(self): return [*self.interpreter, self.file]


class Node(Script):
    packages, needs, suffix, interpreter = ("nodejs",), ("node",), ".js", ("node",)
    processes = 2
    complete = 0.97         # leaves of V8's own assembly
    hint = "perf-basic-prof"
    text = r"""
const { fork } = require('child_process'), crypto = require('crypto');
function work(rounds) {
    let text = 'x', sum = 0;
    for (let i = 0; i < rounds; i++) {
        const list = Array.from({ length: 2000 }, (_, k) => ({ k, v: (k * 7919 + i) % 1009 }));
        list.sort((a, b) => a.v - b.v || a.k - b.k);
        sum = (sum + JSON.parse(JSON.stringify(list))[i % 2000].k) % 1000003;
        text = crypto.createHash('sha256').update(text + sum).digest('hex');
    }
    return text;
}
if (process.argv[2]) {
    process.send(work(Number(process.argv[2])));
} else {
    const child = fork(__filename, ['900']);
    child.on('message', text => { console.log('child', text); console.log('parent', work(1200)); });
}
"""


class Python(Script):
    needs, suffix, interpreter = ("python3",), ".py", ("python3",)
    processes = 4
    text = r"""
import multiprocessing, sys

def work(n):
    x = 0
    for i in range(n * 1000000): x = (x * 31 + i) & 0xffffffff
    return x

if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        print(pool.map(work, [9, 11, 13, 5, 6], 1))
    fresh = multiprocessing.get_context("spawn").Process(target=work, args=(12,))
    fresh.start()
    fresh.join()
    print(fresh.exitcode, work(2))
"""

    def command(self):
        # pyenv's python3 is a script that starts others.
        return ["/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3", self.file]


class Compiled(Program):
    """Two threads that compute, in another language or linked otherwise."""
    suffix = ".c"
    text = r"""
#include <stdio.h>
int main(void)
{
    unsigned long sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(2)
    for (long k = 0; k < 16; k++) {
        unsigned long x = (unsigned long)k;
        for (long i = 0; i < 250000000; i++) x = x * 31 + (unsigned long)i;
        sum += x;
    }
    printf("%lu\n", sum);
    return 3;
}
"""
    stop_status = 3

    def compiler(self): return ["gcc", "-O2", "-fopenmp"]

    def prepare(self):
        source = self.dir + "/main" + self.suffix
        with open(source, "w") as f:
            f.write(self.text)
        client(*self.compiler(), "-o", self.dir + "/program", source, cwd=self.dir)

    def command(self): return [self.dir + "/program"]


class OpenMp(Compiled):
    packages, needs = ("gcc",), ("gcc",)


class Static(OpenMp):
    inside = False
    def compiler(self): return ["gcc", "-O2", "-static"]


class Rust(Compiled):
    packages, needs, suffix = ("rustc",), ("rustc",), ".rs"
    text = r"""
fn work(k: u64) -> u64 { (0..2_000_000_000u64).fold(k, |x, i| x.wrapping_mul(31).wrapping_add(std::hint::black_box(i))) }
fn main() {
    let threads: Vec<_> = (0..2).map(|k| std::thread::spawn(move || work(k))).collect();
    let sum = threads.into_iter().fold(0u64, |s, t| s.wrapping_add(t.join().unwrap()));
    println!("{}", sum);
    std::process::exit(3);
}
"""
    def compiler(self): return ["rustc", "-O"]


class Go(Compiled):
    packages, needs, suffix = ("golang-go",), ("go",), ".go"
    inside = False
    text = r"""
package main

import ("fmt"; "os")

func work(k uint64, out chan uint64) {
	x := k
	for i := uint64(0); i < 2000000000; i++ { x = x*31 + i }
	out <- x
}

func main() {
	out := make(chan uint64)
	for k := uint64(0); k < 2; k++ { go work(k, out) }
	fmt.Println(<-out + <-out)
	os.Exit(3)
}
"""
    def compiler(self): return ["env", "CGO_ENABLED=0", "GOCACHE=" + self.dir + "/cache", "GOFLAGS=-mod=mod", "go", "build"]


PROGRAMS = {"nginx": Nginx, "postgres": Postgres, "postgres-by-root": PostgresByRoot, "redis": Redis,
            "ffmpeg": Ffmpeg, "node": Node, "python": Python,
            "openmp": OpenMp, "static": Static, "rust": Rust, "go": Go}
OPTIONAL = ("openmp", "static", "rust", "go")  # if there is a compiler

# ---- Running -------------------------------------------------------------------------------------

MODES = {"perf": ["-F", "997", "--engine", "perf"], "timer": ["-F", "997", "--engine", "timer"],
         "heap": ["-F", "997", "--heap=full"], "default": []}


class Run:
    pass


def left_behind(segments):
    """What stays. Helpers of a program may end after it, and then remove their own."""
    end = time.monotonic() + 5
    while True:
        left = [name for name in sorted(os.listdir(segments)) if name != "agent.lock"]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def run(program, build, mode, work):
    """One run, bare if mode is None."""
    r = Run()
    argv = program.command()
    segments, r.file = work + "/segments", work + "/run"
    env = dict(os.environ, SONDE_DIR=segments)
    if mode is not None:
        shutil.rmtree(segments, ignore_errors=True)
        os.mkdir(segments, 0o700)
        if os.path.exists(r.file):
            os.unlink(r.file)
        argv = [build + "/sonde", "run", "-v", "--listen", "127.0.0.1:0", *MODES[mode], "--record", r.file, "--", *argv]
    if program.user:
        who = pwd.getpwnam(program.user)
        if mode is not None:
            os.chown(segments, who.pw_uid, who.pw_gid)
        argv = ["setpriv", "--reuid=" + program.user, "--regid=" + program.user, "--clear-groups", *argv]
    with open(work + "/stdout", "wb") as out, open(work + "/stderr", "wb") as err:
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=program.dir)
    clock = Clock(p.pid, mode is None)
    begun = time.monotonic()
    try:
        if program.server:
            wait_for("%s that is ready" % argv[0], lambda: p.poll() is not None or program.ready())
            program.load()
            time.sleep(0.2)
            p.send_signal(program.stop_signal)
        r.status = p.wait(timeout=300)
    except (RuntimeError, subprocess.TimeoutExpired) as e:
        r.status = None
        p.send_signal(signal.SIGTERM)
        try:
            p.wait(timeout=20)
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
        complain("%s, %s: %s" % (program.name, mode or "bare", e))
    finally:
        r.cpu = clock.end()
    r.wall_s = time.monotonic() - begun
    r.units = program.units
    with open(work + "/stdout", "rb") as f:
        r.out = f.read()
    with open(work + "/stderr", "rb") as f:
        r.err = f.read().decode(errors="replace")
    r.said = [line[7:] for line in r.err.splitlines() if line.startswith("sonde: ")]
    r.own_err = [line for line in r.err.splitlines() if not line.startswith("sonde: ")]
    r.result = program.result(r.out) if r.status is not None else b""
    r.left = left_behind(segments) if mode is not None else []
    r.report = None
    if mode is not None and os.path.exists(r.file):
        got = subprocess.run([build + "/sonde", "report", "--json", "-n", "10000", r.file], env=env,
                             capture_output=True)
        if got.returncode == 0:
            r.report = json.loads(got.stdout)
        elif program.inside or mode != "timer":
            complain("%s, %s: sonde report: %s" % (program.name, mode, got.stderr.decode()[-300:]))
    return r


def tolerance_s(cpu_s, threads, period_s, user_only, all_s):
    """2 %, a period for each thread (its first and last are cut off), what /proc can tell apart and what
    it missed after the last look. utime is a share of ticks that fell into user code."""
    t = 0.02 * cpu_s + threads * period_s + 2 * TICK_S + LOOK_S
    if user_only and all_s > 0:
        p = cpu_s / all_s
        t += 4 * math.sqrt(all_s / KERNEL_TICK_S * p * (1 - p)) * KERNEL_TICK_S
    return t


def judge(program, mode, r, bare):
    """A row of the table."""
    where = "%s, %s" % (program.name, mode)
    if not program.inside and mode == "timer":
        # Nothing can be sampled, nothing may be claimed, and it must be said why.
        if not any(re.search(program.why, line) for line in r.said):
            complain("%s: it does not say why: %s" % (where, " | ".join(r.said)))
        if any(" 0 samples" in line and ("complete" in line or "none lost" in line) for line in r.said):
            complain("%s: success over nothing: %s" % (where, " | ".join(r.said)))
        if r.status != bare.status or r.result != bare.result:
            complain("%s: exit status %s, %r" % (where, r.status, r.result[-200:]))
        return None
    if r.report is None:
        complain("%s: there is no recording; %s" % (where, " | ".join(r.said[-4:])))
        return None
    rep = r.report
    user_only = any("in the kernel" in line for line in r.said)
    period_s = 1.0 / rep["rate_hz"]
    sampled = {p["pid"]: p["weight"] * 1e-9 for p in rep["processes"]}
    judged, worked, worst, proc_s, sonde_s, threads, all_s = 0, 0, 0.0, 0.0, 0.0, 0, 0.0
    for pid, (user, system, comm, count) in sorted(r.cpu.items()):
        want = user if user_only else user + system
        got = sampled.pop(pid, 0.0)
        proc_s += want
        sonde_s += got
        threads += count
        all_s += user + system
        worked += user + system >= SOME_S
        if user + system < ENOUGH_S:
            continue
        judged += 1
        off = (got - want) / want if want else 0.0
        worst = max(worst, abs(off))
        if abs(got - want) > tolerance_s(want, count, period_s, user_only, user + system):
            complain("%s: %s (%d): %.2f s of samples, %.2f s in /proc (%.2f user, %.2f system), %+.1f %%" %
                     (where, comm, pid, got, want, user, system, 100 * off))
    sonde_s += sum(sampled.values())   # gone between two looks
    if worked < program.processes:
        complain("%s: %d processes worked, not %d: %s" % (where, worked, program.processes, r.cpu))
    if abs(sonde_s - proc_s) > tolerance_s(proc_s, threads, period_s, user_only, all_s):
        complain("%s: in all %.2f s of samples, %.2f s in /proc" % (where, sonde_s, proc_s))
    if rep["complete"] < program.complete:
        complain("%s: %.2f %% of the stacks are complete" % (where, 100 * rep["complete"]))
    if r.status != bare.status:
        complain("%s: exit status %s, bare %s" % (where, r.status, bare.status))
    if r.result != bare.result:
        complain("%s: its output is not that of the bare run: %r, not %r" % (where, r.result[-200:], bare.result[-200:]))
    if not program.server and r.own_err != bare.own_err:
        complain("%s: on stderr %r, not %r" % (where, r.own_err[-3:], bare.own_err[-3:]))
    if r.left:
        complain("%s: left in the directory of segments: %s" % (where, r.left))
    if rep["lost_records"] + rep["dropped_samples"]:
        note("%s: %d samples were lost" % (where, rep["lost_records"] + rep["dropped_samples"]))
    if program.hint and not any(program.hint in m["advice"] for m in rep["modules_incomplete"]):
        complain("%s: the report does not advise '%s'" % (where, program.hint))
    cost = sum(u + s for u, s, _, _ in r.cpu.values()) / r.units
    cost_bare = sum(u + s for u, s, _, _ in bare.cpu.values()) / bare.units
    return (program.name, mode + (" (user)" if user_only else ""), judged, len(r.cpu), proc_s, sonde_s,
            100 * (sonde_s - proc_s) / proc_s if proc_s else 0, 100 * worst, 100 * rep["complete"], cost / cost_bare)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("build")
    a.add_argument("--only", default=",".join(PROGRAMS))
    a.add_argument("--modes", default=",".join(MODES))
    a.add_argument("--seconds", type=int, default=6)
    a.add_argument("--keep", action="store_true")
    a = a.parse_args()
    build = os.path.abspath(a.build)
    top = tempfile.mkdtemp(prefix="sonde-programs-")
    os.chmod(top, 0o755)
    rows = []
    for name in a.only.split(","):
        kind = PROGRAMS[name]
        missing = [n for n in kind.needs if not shutil.which(n)]
        if missing and name in OPTIONAL:
            note("%s: left out, there is no %s" % (name, ", ".join(missing)))
            continue
        if missing:
            complain("%s: %s is not there: apt install %s" % (name, ", ".join(missing), " ".join(kind.packages)))
            continue
        dir, work = "%s/%s" % (top, name), "%s/%s.work" % (top, name)
        os.mkdir(dir)
        os.mkdir(work)
        program = kind(dir, a.seconds)
        program.name = name
        for d in (dir, work):
            os.chmod(d, 0o777)
        program.prepare()
        bare = run(program, build, None, work)
        if bare.status != program.stop_status:
            complain("%s, bare: exit status %s: %s" % (name, bare.status, bare.err[-400:]))
            continue
        for mode in a.modes.split(","):
            r = run(program, build, mode, work)
            print("---- %s, %s" % (name, mode), flush=True)
            for line in r.said:
                note(line)
            row = judge(program, mode, r, bare)
            if row:
                rows.append(row)
                note("%-16s %-14s %d of %d judged: /proc %.2f s, sonde %.2f s (%+.2f %%, worst process %.2f %%), "
                     "%.2f %% complete, cost %.3f" % row)
            if a.keep and os.path.exists(r.file):
                shutil.copy(r.file, "%s/%s-%s.run" % (top, name, mode))
    print("\n%-17s %-16s %9s %8s %8s %7s %7s %9s %8s" % (
        "PROGRAM", "MODE", "PROCESSES", "/proc s", "sonde s", "DIFF %", "WORST %", "COMPLETE", "SLOWDOWN"))
    for row in rows:
        print("%-17s %-16s %4d/%-4d %8.2f %8.2f %+7.2f %7.2f %9.2f %8.3f" % row)
    if a.keep:
        print("kept: " + top)
    else:
        shutil.rmtree(top, ignore_errors=True)
    print("%d failures" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

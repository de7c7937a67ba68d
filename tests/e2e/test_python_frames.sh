#!/usr/bin/env bash
# Functions of Python in profiles of Debian's interpreter: shares of CPU time as the program counts them
# itself, names, files and lines; where memory is allocated; where threads wait, and for the GIL; and what
# is said where they cannot be seen.
. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
python=/usr/bin/python3
sonde=$SONDE_BUILD/sonde
work=$(mktemp -d)
trap 'rm -rf "$SONDE_DIR" "$work"' EXIT
cd "$work"
export PYTHONDONTWRITEBYTECODE=1

case $($python -c 'import sys; print(sys.version_info[:2])') in
"(3, 11)" | "(3, 12)" | "(3, 13)") ;;
*) echo "no interpreter here that sonde can read"; exit 0 ;;
esac

# ---- CPU: KIND SECONDS ------------------------------------------------------------------------
shares() {
    "$sonde" record -F 250 -o "$1.run" -- $python "$here/python_frames.py" "$1" "$2" >"$1.oracle" 2>"$1.said" ||
        complain "$1: recording failed:" "$(cat "$1.said")"
    grep -q 'engine timer' "$1.said" || complain "$1: not sampled inside the process:" "$(cat "$1.said")"
    "$sonde" export -f folded -o "$1.folded" "$1.run"
    $python "$here/python_shares.py" "$1.folded" "$1.oracle" >"$1.shares" ||
        complain "$1: shares are not what the program counted:" "$(cat "$1.shares")"
}
shares pure 4
shares c 4
shares threads 4
shares asyncio 4
shares shapes 4

# Frames in their order, native ones between; a generator's function in its lambda.
f=python_frames
grep -q ";$f.<module>;$f.main;$f.until;$f.counted.<locals>.count;[^;]*;.*;$f.Work.sixty;$f.spin" pure.folded ||
    complain "functions of Python are not in the order they call"
grep -q ";$f.sorts;.*;$f.negative" c.folded || complain "a function called from C is not there"
grep -q ";$f.ten;.*<lambda>;.*<genexpr>" pure.folded || complain "no lambda, or no generator in it"
grep -q "<lambda>;.*;$f.generator;$f.counted" shapes.folded || complain "no generator"
grep -q ";$f.task;$f.counted" asyncio.folded || complain "no coroutine"
grep -q ";threading.Thread._bootstrap;threading.Thread._bootstrap_inner;.*;$f.until;" threads.folded || complain "no thread"
# 900 deep: the outermost and the innermost are kept.
grep -q "^_start;.*;$f.deep;\[frames left out\];$f.deep;.*;$f.Work.sixty;$f.spin" shapes.folded ||
    complain "of a deep stack the ends are not there"

# Names, files and lines, as the source has them.
"$sonde" export -f speedscope -o pure.json pure.run
$python - "$here/python_frames.py" pure.json <<'END' || complain "files or lines are wrong"
import json, sys
source = open(sys.argv[1]).read().splitlines()
frames = [f for f in json.load(open(sys.argv[2]))["shared"]["frames"] if f.get("file", "").endswith("python_frames.py")]
at = {f["name"]: f.get("line") for f in frames}
for name, text in (("spin", "def spin"), ("Work.sixty", "@counted"), ("thirty", "@counted"), ("main", "def main")):
    line = at.get("python_frames." + name)
    if not line or text not in source[line - 1]:
        sys.exit(f"{name}: line {line}")
END

# Written for pprof and read again they are the same functions.
"$sonde" export -f pprof -o pure.pb.gz pure.run
"$sonde" export -f folded -o again.folded pure.pb.gz
grep -q ";$f.<module>;$f.main;.*;$f.Work.sixty;$f.spin" again.folded || complain "pprof: functions of Python are others"

# ---- The heap -----------------------------------------------------------------------------------
cat >heap.py <<'END'
keep = []
class Store:
    def fill(self):
        for _ in range(20):
            keep.append(bytearray(1 << 20))
def other():
    keep.append(bytearray(5 << 20))
Store().fill()
other()
END
"$sonde" record -q --no-cpu --heap=full -o heap.run -- $python heap.py
"$sonde" export -f folded --type alloc heap.run | $python -c '
import sys
bytes = {"heap.Store.fill": 0, "heap.other": 0}
for line in sys.stdin:
    frames, weight = line.rsplit(" ", 1)
    for name in bytes.keys() & set(frames.split(";")): bytes[name] += int(weight)
wanted = {"heap.Store.fill": 20 << 20, "heap.other": 5 << 20}
sys.exit(any(not wanted[n] <= bytes[n] < 1.01 * wanted[n] + 4096 for n in bytes) and str(bytes))
' || complain "allocations are not where they were made"

# ---- Waiting ------------------------------------------------------------------------------------
cat >waits.py <<'END'
import threading, time
lock = threading.Lock()
def naps():
    for _ in range(6): time.sleep(0.1)
def holds():
    with lock: time.sleep(0.5)
def waits():
    time.sleep(0.1)
    with lock: pass
def fights(s):
    n = 0
    while time.thread_time() < s: n += 1
for fs in ([(naps, ()), (holds, ()), (waits, ())], [(fights, (0.5,))] * 2):
    ts = [threading.Thread(target=f, args=a) for f, a in fs]
    for t in ts: t.start()
    for t in ts: t.join()
END
"$sonde" doctor >doctor 2>/dev/null || true
if grep -q 'off-CPU time are permitted' doctor; then
    "$sonde" record --off-cpu -F 250 -o waits.run -- $python waits.py 2>waits.said || complain "waits: recording failed"
    grep -q 'engine mixed' waits.said || complain "waits: not by both engines:" "$(cat waits.said)"
    "$sonde" export -f folded --type off-cpu -o waits.folded waits.run
    $python - waits.folded <<'END' || complain "waits are not where they were"
import sys
seconds = dict.fromkeys(("waits.naps", "waits.holds", "waits.waits", "waits.fights"), 0)
for line in open(sys.argv[1]):
    frames, ns = line.rsplit(" ", 1)
    for name in seconds.keys() & set(frames.split(";")): seconds[name] += int(ns) / 1e9
# Each waits for so long at least; what is shorter than a look from outside has native frames only.
wanted = {"waits.naps": 0.4, "waits.holds": 0.4, "waits.waits": 0.3, "waits.fights": 0.05}
sys.exit(any(seconds[n] < wanted[n] for n in wanted) and str(seconds))
END
    grep -q 'waits.fights;.*pthread_cond' waits.folded || complain "nobody waits for the GIL"
    "$sonde" export -f folded -o waits.cpu waits.run
    grep -q ';waits.fights' waits.cpu || complain "CPU samples lack functions of Python beside waits"
    # One that runs already: where its threads are blocked is seen from outside.
    $python -c 'import time
def slumber(): time.sleep(20)
slumber()' &
    pid=$!
    until_true grep -q nanosleep "/proc/$pid/wchan" 2>/dev/null || true
    "$sonde" record --off-cpu -d 1 -o attached.run -p $pid 2>attached.said || complain "cannot attach"
    kill $pid && wait $pid 2>/dev/null || true
    "$sonde" export -f folded --type off-cpu -o attached.folded attached.run
    grep -q ';<string>.slumber' attached.folded ||
        complain "a process that ran already: where it is blocked is not seen"
fi

# ---- Other interpreters ------------------------------------------------------------------------
# In a program of C: found when the first stack leads through it.
if command -v gcc >/dev/null && [ -e /usr/include/python3.11/Python.h ] &&
    [ -e /usr/lib/x86_64-linux-gnu/libpython3.11.so ]; then
    cat >embed.c <<'END'
#include <Python.h>
int main(void)
{
    Py_Initialize();
    const int rc = PyRun_SimpleString("import time\ndef inner():\n    s = 0\n    while time.thread_time() < 0.6: s += 1\n"
                                      "inner()\n");
    return Py_FinalizeEx() || rc;
}
END
    gcc -I/usr/include/python3.11 embed.c -o embed -lpython3.11
    "$sonde" record --engine timer -F 250 -o embed.run -- ./embed 2>embed.said || complain "embedded: recording failed"
    "$sonde" export -f folded -o embed.folded embed.run
    grep -q ';main;.*;<string>.<module>;<string>.inner' embed.folded || complain "embedded: functions are not seen"
fi
# One that says it is of a version that nobody knows, and one that has none: native frames and a word why.
if command -v gcc >/dev/null; then
    cat >stand_in.c <<'END'
#include <time.h>
#ifdef VERSION
const unsigned long Py_Version = VERSION;
#endif
int _PyEval_EvalFrameDefault(void)
{
    struct timespec t;
    int n = 0;
    do { n++; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); } while (!t.tv_sec && t.tv_nsec < 300000000);
    return n < 0;
}
int main(void) { return _PyEval_EvalFrameDefault(); }
END
    for row in '0x030f00f0:Python 3.15.0, of which only native frames are shown: its version is newer' \
        '0x030b02f0:Python 3.11.2, of which only native frames are shown: it does not export' \
        ':Python, of which only native frames are shown: it is older than 3.11'; do
        version=${row%%:*}
        gcc ${version:+-DVERSION=$version} -O1 -g -rdynamic stand_in.c -o stand_in
        "$sonde" record --engine timer -F 250 -o stand_in.run -- ./stand_in 2>stand_in.said ||
            complain "stand-in $version: recording failed"
        grep -q "is ${row#*:}" stand_in.said || complain "stand-in $version: no word why:" "$(cat stand_in.said)"
        "$sonde" export -f folded -o stand_in.folded stand_in.run
        grep -q ';main;_PyEval_EvalFrameDefault' stand_in.folded || complain "stand-in $version: no native frames"
    done
fi

# ---- The program comes first ---------------------------------------------------------------------
# Under a filter that kills for the call by which frames are copied there is another way.
if command -v gcc >/dev/null; then
    cat >filtered.c <<'END'
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog program = { 4, code };
    if (argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program)) return 1;
    return execv(argv[1], argv + 1);
}
END
    gcc filtered.c -o filtered
    "$sonde" record -q --engine timer -F 250 -o filtered.run -- ./filtered $python "$here/python_frames.py" pure 1 \
        >filtered.oracle || complain "under a filter: the program fails"
    "$sonde" export -f folded -o filtered.folded filtered.run
    grep -q ';python_frames.Work.sixty' filtered.folded || complain "under a filter: functions are not seen"
fi
# Code that comes and goes, deep and short calls, threads that end, forks, exceptions, daemons that are still at
# work when the interpreter ends: as it is without us.
cat >storm.py <<'END'
import asyncio, gc, hashlib, os, random, threading, time
end = time.time() + 2
def deep(n): return n and deep(n - 1)
def churn():
    while time.time() < end:
        names = {}
        exec(compile("def f(x): return g(x) if x else 0\ndef g(x): return f(x - 1)\n"
                     "class C:\n    def __del__(self): f(3)\n", "<%d>" % random.randrange(1000), "exec"), names)
        names["f"](random.randrange(200)); names["C"]()
def brief():
    while time.time() < end:
        t = threading.Thread(target=deep, args=(20,)); t.start(); t.join()
def forks():
    while time.time() < end:
        pid = os.fork()
        if not pid: deep(100); os._exit(0)
        os.waitpid(pid, 0)
def fails():
    while time.time() < end:
        try: deep(5000)
        except RecursionError: gc.collect(0)
async def nested(n):
    if n: await nested(n - 1)
    await asyncio.sleep(0)
async def many():
    while time.time() < end: await asyncio.gather(*[nested(20) for _ in range(5)])
def daemon():
    data = bytes(3_000_000)
    while True: hashlib.sha256(data).digest()
for _ in range(2): threading.Thread(target=daemon, daemon=True).start()
threads = [threading.Thread(target=f) for f in (churn, brief, forks, fails, lambda: asyncio.run(many()))]
for t in threads: t.start()
for t in threads: t.join()
print("as it was")
END
[ "$("$sonde" record -q -F 1000 --heap=4096 -o storm.run -- $python storm.py 2>storm.said)" = "as it was" ] ||
    complain "the program does not come to its end:" "$(tail -5 storm.said)"

finish

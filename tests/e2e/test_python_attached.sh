#!/usr/bin/env bash
# Functions of Python in CPU samples from outside, by perf events and BPF: processes that are attached to and
# those with --engine perf. Shares as the program counts them itself; threads and processes that begin later,
# fork, exec, end, wait, or are in a pid namespace; and what is said where the kernel does not permit it.
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
"$sonde" doctor >doctor 2>/dev/null || true
if ! grep -q '^ok *python ' doctor || ! grep -q 'perf_event_open works' doctor; then
    grep -q 'BPF' doctor || complain "doctor does not say why:" "$(cat doctor)"
    echo "the kernel permits no BPF programs here"
    finish
    exit 0
fi

# ---- Attached to: attach NAME COMMAND…: of which the last word is a file that it waits for -------
is_open() { find "/proc/$1/fd" -lname '*bpf-prog*' 2>/dev/null | grep -q .; }
attach() {
    local name=$1 pid
    shift
    "$@" "$work/$name.go" >"$name.oracle" &
    pid=$!
    until_true grep -q python "/proc/$pid/comm"
    record "$name" "$pid"
    wait "$pid" || complain "$name: the program failed"
}
record() { # NAME PID [OPTION…]: until it ends; NAME.go is made when it has begun
    local name=$1 pid=$2 recorder
    shift 2
    "$sonde" record -F 250 "$@" -o "$name.run" -p "$pid" 2>"$name.said" &
    recorder=$!
    until_true is_open "$recorder"
    touch "$name.go"
    wait "$recorder" || complain "$name: recording failed:" "$(cat "$name.said")"
    grep -q 'engine perf' "$name.said" || complain "$name: not by perf events:" "$(cat "$name.said")"
    ! grep -qi 'of python' "$name.said" || complain "$name: something is missing:" "$(cat "$name.said")"
    "$sonde" export -f folded -o "$name.folded" "$name.run"
}
shares() {
    $python "$here/python_shares.py" "$1.folded" "$2" >"$1.shares" ||
        complain "$1: shares are not what the program counted:" "$(cat "$1.shares")"
}
at_least() {
    $python - "$1.folded" "$2" "$3" <<'END_OF' || complain "$1: $2 is not there as often as it ran"
import sys
all = found = 0
for line in open(sys.argv[1]):
    frames, weight = line.rsplit(" ", 1)
    all += int(weight)
    found += int(weight) * (sys.argv[2] in frames.split(";"))
print(found, "of", all)
sys.exit(not all or found < float(sys.argv[3]) * all)
END_OF
}
for kind in pure c threads asyncio shapes; do
    attach $kind $python "$here/python_frames.py" $kind 4
    shares $kind $kind.oracle
done

f=python_frames
grep -q ";$f.<module>;$f.main;$f.until;$f.counted.<locals>.count;[^;]*;.*;$f.Work.sixty;$f.spin" pure.folded ||
    complain "functions of Python are not in the order they call"
grep -q ";$f.sorts;.*;$f.negative" c.folded || complain "a function called from C is not there"
grep -q "<lambda>;.*;$f.generator;$f.counted" shapes.folded || complain "no generator"
grep -q ";$f.task;$f.counted" asyncio.folded || complain "no coroutine"
grep -q ";threading.Thread._bootstrap;threading.Thread._bootstrap_inner;.*;$f.until;" threads.folded || complain "no thread"
grep -q "^_start;.*;$f.deep;\[frames left out\];$f.deep;.*;$f.Work.sixty;$f.spin" shapes.folded ||
    complain "of a deep stack the ends are not there"
"$sonde" export -f speedscope -o pure.json pure.run
$python - "$here/python_frames.py" pure.json <<'END_OF' || complain "files or lines are wrong"
import json, sys
source = open(sys.argv[1]).read().splitlines()
frames = [f for f in json.load(open(sys.argv[2]))["shared"]["frames"] if f.get("file", "").endswith("python_frames.py")]
at = {f["name"]: f.get("line") for f in frames}
for name, text in (("spin", "def spin"), ("Work.sixty", "@counted"), ("thirty", "@counted"), ("main", "def main")):
    line = at.get("python_frames." + name)
    if not line or text not in source[line - 1]:
        sys.exit(f"{name}: line {line}")
END_OF

# ---- Started under sonde, and sampled from outside ------------------------------------------------
"$sonde" record --engine perf -F 250 -o started.run -- $python "$here/python_frames.py" pure 4 >started.oracle 2>started.said ||
    complain "started: recording failed:" "$(cat started.said)"
"$sonde" export -f folded -o started.folded started.run
shares started started.oracle
# By a shell, which nobody knew would run it.
"$sonde" record --engine perf -F 250 -o shell.run -- sh -c "$python $here/python_frames.py pure 4; true" >shell.oracle 2>shell.said
"$sonde" export -f folded -o shell.folded shell.run
at_least shell python_frames.until 0.6

# ---- What comes and goes: WHAT FUNCTION SECONDS ----------------------------------------------------
cat >lives.py <<'END_OF'
import os, sys, threading, time
def wait():
    while not os.path.exists(sys.argv[2]): time.sleep(0.02)
def burn(s):
    end = time.thread_time() + s
    n = 0
    while time.thread_time() < end: n += 1
def fifty():
    for _ in range(2):
        threads = [threading.Thread(target=burn, args=(0.03,)) for _ in range(50)]
        for t in threads: t.start()
        for t in threads: t.join()
def child(): burn(1)
def forks():
    for _ in range(2):
        pid = os.fork()
        if not pid:
            child()
            os._exit(0)
        os.waitpid(pid, 0)
def execs():
    burn(0.5)
    os.execv(sys.executable, ["python3", "-c", """
import time
def after():
    n = 0
    while time.process_time() < 2.5: n += 1
after()"""])
def inner():
    try: import _xxsubinterpreters as interpreters
    except ImportError: import _interpreters as interpreters
    made = interpreters.create()
    interpreters.run_string(made, """
import time
end = time.thread_time() + 1
while time.thread_time() < end: pass""")
def subs():
    inner()
    burn(1)
def killed():
    threading.Thread(target=burn, args=(1,), daemon=True).start()
    burn(1)
    os.kill(os.getpid(), 9)
wait()
globals()[sys.argv[1]]()
END_OF
lives() { # KIND NAME SHARE: of the samples, function NAME has at least
    attach "$1" sh -c 'exec '"$python"' lives.py "$@" || true' sh "$1"
    at_least "$1" "$2" "$3"
}
# Some of it is the kernel's and the interpreter's own; the first moments of a forked or new process have no
# names.
lives fifty lives.burn 0.6
lives forks lives.child 0.6
lives execs '<string>.after' 0.5
lives subs lives.inner 0.35
at_least subs lives.burn 0.35

# Ended by a signal in the middle; and one that does nothing.
{ "$python" lives.py killed killed.go & } 2>/dev/null
pid=$!
until_true grep -q python "/proc/$pid/comm"
record killed $pid
! wait $pid 2>/dev/null || complain "killed: it was not"
at_least killed lives.burn 0.6
$python -c 'import time; time.sleep(60)' &
pid=$!
"$sonde" record -F 250 -d 1 -o idle.run -p $pid 2>idle.said || complain "idle: recording failed:" "$(cat idle.said)"
kill -0 $pid || complain "idle: it has ended"
kill $pid && wait $pid 2>/dev/null || true
grep -q 'it used 0' idle.said || complain "idle: no word on that:" "$(cat idle.said)"

# ---- Embedded, stripped, of no version that is known ------------------------------------------------
if command -v gcc >/dev/null && [ -e /usr/include/python3.11/Python.h ] &&
    [ -e /usr/lib/x86_64-linux-gnu/libpython3.11.so ]; then
    cat >embed.c <<'END_OF'
#include <Python.h>
int main(void)
{
    Py_Initialize();
    const int rc = PyRun_SimpleString("import time\ndef inner():\n    s = 0\n    while time.thread_time() < 2: s += 1\n"
                                      "inner()\n");
    return Py_FinalizeEx() || rc;
}
END_OF
    gcc -I/usr/include/python3.11 embed.c -o embed -lpython3.11
    "$sonde" record --engine perf -F 250 -o embed.run -- ./embed 2>embed.said || complain "embedded: recording failed"
    "$sonde" export -f folded -o embed.folded embed.run
    grep -q ';main;.*;<string>.<module>;<string>.inner' embed.folded || complain "embedded: functions are not seen"
    at_least embed '<string>.inner' 0.5
fi
if command -v strip >/dev/null; then
    strip -o python3-stripped "$(readlink -f $python)" # of dynamic symbols nothing goes
    "$sonde" record --engine perf -F 250 -o stripped.run -- ./python3-stripped "$here/python_frames.py" pure 3 >stripped.oracle \
        2>stripped.said || complain "stripped: recording failed"
    "$sonde" export -f folded -o stripped.folded stripped.run
    shares stripped stripped.oracle
fi
if command -v gcc >/dev/null; then
    cat >stand_in.c <<'END_OF'
#include <time.h>
#ifdef VERSION
const unsigned long Py_Version = VERSION;
#endif
char _PyRuntime[4096];
int main(void)
{
    struct timespec t;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); while (t.tv_sec < 1);
    return 0;
}
END_OF
    for row in '0x030f00f0:Python 3.15.0, of which only native frames are shown: its version is newer' \
        '0x030b02f0:Python 3.11.2, of which only native frames are shown: it does not export' \
        ':Python, of which only native frames are shown: it is older than 3.11'; do
        version=${row%%:*}
        gcc ${version:+-DVERSION=$version} -O1 -g -rdynamic stand_in.c -o python3-stand-in
        "$sonde" record --engine perf -F 250 -o stand_in.run -- ./python3-stand-in 2>stand_in.said ||
            complain "stand-in $version: recording failed"
        grep -q "is ${row#*:}" stand_in.said || complain "stand-in $version: no word why:" "$(cat stand_in.said)"
    done
fi

# ---- In a pid namespace ---------------------------------------------------------------------------
if unshare -pf --mount-proc true 2>/dev/null; then
    unshare -pf --mount-proc $python "$here/python_frames.py" pure 4 "$work/space.go" >space.oracle &
    unshare=$!
    until_true pgrep -P $unshare >/dev/null
    pid=$(pgrep -P $unshare)
    until_true grep -q python "/proc/$pid/comm"
    record space "$pid"
    wait $unshare
    shares space space.oracle
    # Where it is blocked, too.
    unshare -pf --mount-proc $python -c 'import time
def slumber():
    open("asleep.here", "w").close()
    time.sleep(60)
slumber()' &
    unshare=$!
    until_true [ -e asleep.here ]
    pid=$(pgrep -P $unshare)
    "$sonde" record --off-cpu -d 1 -o asleep.run -p "$pid" 2>asleep.said || complain "asleep: recording failed"
    kill "$pid" && wait $unshare 2>/dev/null || true
    "$sonde" export -f folded --type off-cpu -o asleep.folded asleep.run
    grep -q ';<string>.slumber' asleep.folded || complain "asleep: where it is blocked is not seen"
fi

# ---- Not permitted: native frames, and why ---------------------------------------------------------
if command -v setpriv >/dev/null && [ "$(id -u)" = 0 ]; then
    drop='setpriv --inh-caps=-bpf,-sys_admin --bounding-set=-bpf,-sys_admin'
    $drop "$sonde" record --engine perf -F 250 -o denied.run -- $python "$here/python_frames.py" pure 1 >denied.oracle 2>denied.said ||
        complain "denied: recording failed:" "$(cat denied.said)"
    grep -q 'functions of Python are not in CPU samples.*BPF.*CAP_BPF' denied.said ||
        complain "denied: no word why:" "$(cat denied.said)"
    "$sonde" export -f folded -o denied.folded denied.run
    grep -q '_PyEval_EvalFrameDefault' denied.folded || complain "denied: no native frames"
    $drop "$sonde" doctor >denied.doctor 2>/dev/null || true
    grep -q '^warn *python .*CAP_BPF' denied.doctor || complain "doctor does not say it:" "$(grep python denied.doctor)"
fi
finish

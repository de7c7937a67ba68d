#!/usr/bin/env bash
# Processes that a program starts, in whichever way, are recorded with it, and it notices nothing of
# that; programs that cannot have the library in them run as without sonde; nothing is shown as a
# success that is not one.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit 1
burn=$programs/burn
run=("$sonde" run --listen 127.0.0.1:0)

# ---- however they are started --------------------------------------------------------------------
cat >start.py <<'END'
import os, subprocess, sys
burn = sys.argv[1]
line = f"{burn} --seconds 0.06 >/dev/null"
argv = [burn, "--seconds", "0.06"]
quiet = os.open("/dev/null", os.O_WRONLY)
out = [(os.POSIX_SPAWN_DUP2, quiet, 1)]
code = os.waitstatus_to_exitcode
def child(call):
    pid = os.fork()
    if pid: return code(os.waitpid(pid, 0)[1])
    os.dup2(quiet, 1)
    call()
for how, call in {
    "system": lambda: code(os.system(line)),
    "popen": lambda: code(os.popen(line + "; exit 0").close() or 0),
    "quotes": lambda: code(os.system(f"exec {burn} --seconds '0.06' >'/dev/null' # it's")),
    "spawn": lambda: code(os.waitpid(os.posix_spawn(burn, argv, os.environ, file_actions=out), 0)[1]),
    "spawnp": lambda: code(os.waitpid(os.posix_spawnp("burn", argv, {}, file_actions=out), 0)[1]),
    "execv": lambda: child(lambda: os.execv(burn, argv)),
    "execvp": lambda: child(lambda: os.execvp("burn", argv)),
    "execve": lambda: child(lambda: os.execve(burn, argv, {})),
    "fexecve": lambda: child(lambda: os.execve(os.open(burn, os.O_RDONLY), argv, os.environ)),
    "subprocess": lambda: subprocess.run(argv, stdout=quiet, env={}).returncode,
    "shell": lambda: subprocess.run(line, shell=True).returncode,
}.items():
    print(how, call(), flush=True)
END
PATH=$programs:$PATH python3 start.py "$burn" >bare
engines=(timer)
"$sonde" record --engine perf -q -o can.run -- true 2>/dev/null && engines+=(perf)
for engine in "${engines[@]}"; do
    PATH=$programs:$PATH status 0 "$sonde" record -q --engine "$engine" -o child.run -- python3 start.py "$burn"
    same "$engine: what it prints" "$(cat bare)" "$(cat out)"
    "$sonde" report --json child.run >report.json
    same "$engine: a process each" 11 "$(python3 -c '
import json
print(sum(p["name"] == "burn" for p in json.load(open("report.json"))["processes"]))')"
done

# Scripts, and forks without exec.
printf '#!/bin/sh\n%s --seconds 0.06 >/dev/null\nenv | grep -cE "^(LD_PRELOAD|SONDE_(SAMPLER|HEAP|LLAMA))="\n' "$burn" >script
chmod +x script
for engine in "${engines[@]}"; do
    status 1 "$sonde" record -q --engine "$engine" --heap -o script.run -- ./script
    same "$engine: the environment of children is their own" 0 "$(cat out)"
    "$sonde" report script.run >report.txt
    has "$engine: a script" '^burn(-[0-9])? +[0-9]+ +' report.txt
    status 0 "$sonde" record -q --engine "$engine" -o multi.run -- python3 -c '
import multiprocessing, time
def work(n):
    end = time.process_time() + 0.3
    while time.process_time() < end: n += 1
    return 1
with multiprocessing.Pool(3) as pool: print(sum(pool.map(work, range(3), 1)))'
    same "$engine: a pool of processes" 3 "$(cat out)"
    "$sonde" report multi.run >report.txt
    has "$engine: a table of processes" '^PROCESS +PID' report.txt
    same "$engine: each of them" 3 "$(sed -n '/^PROCESS/,/^$/p' report.txt | grep -cE '^python3 +[0-9]+ .* [2-4][0-9][0-9] ms')"
done

# A function's time is that of its program, whatever functions of others are called.
cp "$burn" one && cp "$burn" two
for engine in "${engines[@]}"; do
    status 0 "$sonde" record -q --engine "$engine" -o two.run -- sh -c './one --seconds 0.1; ./two --seconds 0.4; :'
    "$sonde" report --json two.run >report.json
    same "$engine: a function of two programs" "one two" "$(python3 -c '
import json
rows = {f["module"]: f["total"] for f in json.load(open("report.json"))["functions"] if f["name"] == "spin"}
print(*sorted(rows, key=rows.get))')"
    "$sonde" flamegraph two.run -o two.svg
    same "$engine: a box for each" 2 "$(grep -o 'run_turns<' two.svg | wc -l)"
done

# By other programs, one behind the other, and detached from it.
for engine in "${engines[@]}"; do
    status 0 "$sonde" record -q --engine "$engine" -o ways.run -- sh -c '
env A=b "$0" --seconds 0.2 >/dev/null
nice -n 1 timeout 60 taskset -c "$(taskset -cp $$ | sed "s/.*: *//; s/[-,].*//")" "$0" --seconds 0.2 >/dev/null
nohup setsid -w "$0" --seconds 0.2 >/dev/null 2>&1
(exec -a other "$0" --seconds 0.2 >/dev/null) 2>/dev/null || "$0" --seconds 0.2 >/dev/null
echo --seconds 0.2 | xargs "$0" >/dev/null' "$burn"
    "$sonde" report --json ways.run >report.json
    same "$engine: however they are started" 5 "$(python3 -c '
import json
print(sum(0.3e9 < p["weight"] < 0.6e9 for p in json.load(open("report.json"))["processes"]))')"
done

# ---- not, if that is asked for -------------------------------------------------------------------
status 0 "$sonde" record --no-children -o none.run -- sh -c '"$0" --seconds 0.3 >/dev/null; true' "$burn"
has "what was left out" 'its children used .*s of CPU time and were not recorded \(--no-children\)' err
status 0 "${run[@]}" -v -- sh -c '"$0" --seconds 0.3 >/dev/null; true' "$burn"
has "run: by process" '^sonde: by process: |[1-9][0-9]* samples at .*none lost' err
status 0 "$sonde" record -o sleep.run -- sleep 0.5
has "one that sleeps" '(no|few) samples: it used .* of CPU time in .*, and slept 9[0-9]\.[0-9] % of the time' err
status 0 "$sonde" record -F 1 -o true.run -- true
has "one that is over at once" 'no samples: it used .* of CPU time' err
lacks "nothing is complete" 'complete|none lost' err

# ---- of a process that runs, with all that it has started before ---------------------------------
sh -c '(sh -c "\"$0\" --seconds 60 & echo \$! >>pids; wait" "$0" & "$0" --seconds 60 & echo $! >>pids; wait)' "$burn" >/dev/null 2>&1 &
tree=$!
until_true sh -c '[ "$(wc -l <pids)" = 2 ]'
mapfile -t burning <pids
started+=("${burning[@]}" "$tree")
status 0 "$sonde" record -d 1 -p $tree -o tree.run
"$sonde" report tree.run >report.txt
same "children that were there" 2 "$(sed -n '/^PROCESS/,/^$/p' report.txt | grep -c '^burn ')"
status 0 "$sonde" record --no-children -d 0.2 -p $tree -o alone.run
has "without them" '^sonde: alone.run: 0 samples' err
kill "${burning[@]}"
wait "$tree"

# ---- many short ones leave nothing behind, and have no segment in the first place ------------------
status 0 "${run[@]}" -v -- sh -c 'i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i + 1)); done'
same "no segment is left" "" "$(find "$SONDE_DIR" -name '[0-9]*')"
series=$(sed -n 's/^sonde: \([0-9]*\) series.*/\1/p' err)
[ "${series:-9999}" -lt 200 ] || complain "a hundred children that do nothing have $series series"
# A helper that ends when it notices that the program is gone, as Python's resource tracker does: it
# has left its segment to an agent that looks no more, or that has gone.
for _ in 1 2 3 4 5; do
    status 0 "${run[@]}" -q --heap=full -- python3 -c '
import os, subprocess, sys
r, w = os.pipe()
helper = subprocess.Popen([sys.executable, "-c", "import os, sys; os.read(int(sys.argv[1]), 1)", str(r)],
                          pass_fds=[r])
while not any(n.startswith(f"{helper.pid}.") for n in os.listdir(sys.argv[1])): pass
os._exit(0)' "$SONDE_DIR"
    until_true sh -c '[ -z "$(find "$SONDE_DIR" -name "[0-9]*")" ]'
done
# Those that allocate are in the profile.
status 0 "${run[@]}" -q --heap --record heap.run -- sh -c '"$0" -c "
blocks = [bytearray(100000) for i in range(200)]"; true' python3
"$sonde" report --type alloc heap.run >report.txt
has "the heap of a child" 'allocated +([5-9]|[1-9][0-9]+)(\.[0-9]+)? MiB' report.txt

# ---- programs that the library cannot come into --------------------------------------------------
printf '#include <stdlib.h>\n#include <string.h>\nint main(int argc, char **argv)\n{\n    (void)argc;\n    char *p = strdup(argv[0]);\n    free(p);\n    return 7;\n}\n' >seven.c
gcc -fsanitize=address seven.c -o asan
gcc -static seven.c -o static
kinds=(asan static)
if command -v musl-gcc >/dev/null; then
    musl-gcc seven.c -o musl && musl-gcc -static seven.c -o musl_static && kinds+=(musl musl_static)
fi
printf '#!%s/asan\n' "$scratch" >by_asan
chmod +x by_asan
for kind in "${kinds[@]}"; do
    status 7 "${run[@]}" -q -- "./$kind"
    same "$kind: nothing is printed" "" "$(cat out err)"
    # The exit status is the program's, and what it did not get is told, also with -q.
    status 7 "${run[@]}" -q --heap=full -- "./$kind"
    has "$kind: why there is no heap profile" "^sonde: the heap was not profiled: \./$kind is " err
    # Behind others that have the library in them.
    status 7 "${run[@]}" -q --heap -- sh -c "env ./$kind; exit \$?"
    same "$kind, behind others: nothing is printed" "" "$(cat out err)"
    status 7 "$sonde" record -q --engine timer -o kind.run -- python3 -c \
        'import os, sys; sys.exit(os.waitstatus_to_exitcode(os.system(sys.argv[1])))' "./$kind"
done
status 7 "${run[@]}" -q -- ./by_asan
status 7 "${run[@]}" -q -- sh -c './by_asan; exit $?'
# Deep in the tree they are called by name.
printf '#include <time.h>\nint main(void) { while (clock() < CLOCKS_PER_SEC / 2) { } return 0; }' | gcc -static -x c - -o busy
for engine in "${engines[@]}"; do
    status 0 "${run[@]}" -v --engine "$engine" -- sh -c 'env ./busy; exit $?'
    has "$engine: which program the library is not in" \
        'nothing is recorded from inside of some programs .*: busy \([0-9]+\), at least .*s of CPU time, is linked statically' err
done
# And so are those of a user who may not write to the directory of segments.
if [ "$(id -u)" -eq 0 ]; then
    printf '#include <time.h>\nint main(void) { while (clock() < CLOCKS_PER_SEC / 2) { } return 0; }' | gcc -x c - -o stranger
    chmod 755 stranger
    cp stranger /tmp/sonde-stranger.$$
    status 0 "${run[@]}" -v --engine timer -- setpriv --reuid 65534 --regid 65534 --clear-groups sh -c "/tmp/sonde-stranger.$$; exit \$?"
    rm -f /tmp/sonde-stranger.$$
    has "whose program it is" 'sonde-stranger.* is run by another user' err
    lacks "another reason" 'processes that end' err
fi
printf 'int main(void) { return 0; }' | gcc -static -x c - -o zero
status 0 "${run[@]}" -q --heap=full -- ./zero
has "in words" 'linked statically' err
status 0 "$sonde" record -q --heap -o zero.run -- ./zero
status 0 bash -c 'ulimit -f 100; exec "$@"' bash "${run[@]}" -q --heap -- true
has "a limit on files" '^sonde: the heap was not profiled: .*ulimit -f' err
finish

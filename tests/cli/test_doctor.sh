#!/usr/bin/env bash
# `sonde doctor`: each check says something, what does not work comes with advice.
. "$(dirname "$0")/common.sh"

status 0 "$sonde" doctor --listen 127.0.0.1:0
cp "$scratch/out" "$scratch/text"
for check in version config directory shm segments memory limits clock store http probes perf cpu heap sandbox ptrace gpu; do
    has "a line on $check" "^(ok|warn) +$check +[^ ]" "$scratch/text"
done
lacks "no colour on a pipe" $'\033' "$scratch/text"

status 0 "$sonde" doctor --json --listen 127.0.0.1:0
python3 - "$scratch/out" <<'END' || complain "JSON:" "$(cat "$scratch/out")"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["status"] in ("ok", "warn")
assert len(d["checks"]) >= 13
for c in d["checks"]:
    assert c["status"] in ("ok", "warn") and c["text"]
END

python3 -c '
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True)
time.sleep(60)' >"$scratch/port" &
holder=$!
started+=("$holder")
until_line '[0-9]' "$scratch/port"
status 0 "$sonde" doctor --listen "127.0.0.1:$(cat "$scratch/port")"
has "who holds the port" "^warn +http .*in use.*\b$holder\b" "$scratch/out"
status 1 "$sonde" doctor --listen 127.0.0.1
has "no port" '^fail +http .*cannot listen on "127\.0\.0\.1"' "$scratch/out"

chmod 777 "$SONDE_DIR"
status 1 "$sonde" doctor
has "others may write" '^fail +directory .*written to by others' "$scratch/out"
chmod 700 "$SONDE_DIR"
touch "$scratch/file"
status 1 "$sonde" doctor --dir "$scratch/file"
has "not a directory" '^fail +directory .*is not a directory' "$scratch/out"
status 0 "$sonde" doctor --dir "$scratch/new/sub"
has "to be created" '^ok +directory .*will be created' "$scratch/out"
[ ! -e "$scratch/new" ] || complain "doctor creates the directory"
status 1 "$sonde" doctor --dir /proc/none
has "cannot be created" '^fail +directory' "$scratch/out"
status 0 bash -c 'ulimit -f 1000000; exec "$@"' - "$sonde" doctor
has "limits" '^warn +limits +RLIMIT_FSIZE' "$scratch/out"
# llama.cpp: what a program is linked with, or has built in.
echo 'int llama_decode(void) { return 0; }' | cc -shared -fPIC -o "$scratch/libllama.so" -x c -
echo 'int llama_decode(void); int main(void) { return llama_decode(); }' |
    cc -o "$scratch/linked" -x c - -x none "$scratch/libllama.so" -Wl,-rpath,"$scratch"
echo 'int llama_decode(void) { return 0; } int main(void) { return llama_decode(); }' |
    cc -o "$scratch/built_in" -x c -
status 0 "$sonde" doctor --listen 127.0.0.1:0 "$scratch/linked"
has "the library" 'llama +.*/libllama.so: 1 of [0-9]+ functions that are watched$' "$scratch/out"
has "what is missing" 'libllama.so has no llama_tokenize, so this is not known: when requests arrive' "$scratch/out"
status 0 "$sonde" doctor --listen 127.0.0.1:0 "$scratch/built_in"
has "built in" 'built_in: 1 of .*; it is built in' "$scratch/out"
status 0 "$sonde" doctor --listen 127.0.0.1:0 $$
has "a process without" 'warn +llama +[0-9]+: no llama.cpp in it' "$scratch/out"
status 1 "$sonde" doctor --listen 127.0.0.1:0 "$scratch/none"
has "no such file" 'fail +llama +.*/none cannot be read: No such file' "$scratch/out"

# ---- programs that give up system calls --------------------------------------------------------
echo 'int main(void) { return 0; }' | cc -o "$scratch/plain" -x c -
echo '#include <sys/prctl.h>
int main(void) { return prctl(PR_SET_SECCOMP, 2, 0); }' | cc -o "$scratch/prctl" -x c -
echo 'int seccomp_load(void *c) { return !c; }' | cc -shared -fPIC -o "$scratch/libseccomp.so" -x c -
echo 'int seccomp_load(void *c); int main(void) { return seccomp_load(0); }' |
    cc -o "$scratch/seccomp" -x c - -x none "$scratch/libseccomp.so" -Wl,-rpath,"$scratch"
status 0 "$sonde" doctor --listen 127.0.0.1:0 "$scratch/plain"
has "it does not" '^ok +sandbox +.*/plain does not give up system calls itself' "$scratch/out"
status 0 "$sonde" doctor --listen 127.0.0.1:0 "$scratch/prctl"
has "it may" '^ok +sandbox +.*/prctl may give up system calls: it refers to prctl' "$scratch/out"
status 0 "$sonde" doctor --listen 127.0.0.1:0 "$scratch/seccomp"
has "it does" '^warn +sandbox +.*/seccomp gives up system calls, by libseccomp' "$scratch/out"
calls=$(sed -n 's/.*filter that kills should allow \(.*\) (docs.*/\1/p' "$scratch/out")
has "which calls" 'should allow rt_sigprocmask .* unlinkat \(docs/sandbox.md\)' "$scratch/out"
for call in $calls; do
    has "the docs list $call" "\`$call\`" "$SONDE_SOURCE/docs/sandbox.md"
done
status 0 "$sonde" doctor --listen 127.0.0.1:0 $$
has "a process" "^ok +sandbox +$$ has (no seccomp filter|given up)" "$scratch/out"
status 0 "$sonde" doctor --listen 127.0.0.1:0 "$0"
has "a script" '^ok +sandbox +.*test_doctor.sh is not a program of its own' "$scratch/out"

# ---- a store, and a clock that does not fit it -------------------------------------------------
store=$scratch/a.store
status 0 "$sonde" doctor --listen 127.0.0.1:0 --store "$store"
has "not there" '^ok +store +.*a.store is not there yet' "$scratch/out"
echo text >"$scratch/no.store"
status 1 "$sonde" doctor --listen 127.0.0.1:0 --store "$scratch/no.store"
has "no store" '^fail +store +.*no.store' "$scratch/out"
start_agent "$scratch/agent.log" --no-processes --store "$store"
stored() { "$sonde" runs --store "$store" --json | grep -q '"ticks":[1-9]'; }
until_true stored
kill -TERM "$agent"
wait "$agent"
status 0 "$sonde" doctor --listen 127.0.0.1:0 --store "$store"
has "a clock that fits" '^ok +store +.*a.store can be read \(1 runs\), and the clock fits' "$scratch/out"
echo '#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t)
{
    const int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (!rc && id == CLOCK_REALTIME) t->tv_sec += atol(getenv("AHEAD"));
    return rc;
}' | cc -shared -fPIC -o "$scratch/clock.so" -x c -
wrong() { env AHEAD="$1" LD_PRELOAD="$scratch/clock.so" "${@:2}"; }
status 0 wrong $((400 * 86400)) "$sonde" doctor --listen 127.0.0.1:0 --store "$store"
has "ahead" '^warn +store +the clock is (399|400).[0-9] days ahead of the newest' "$scratch/out"
status 0 wrong $((-400 * 86400)) "$sonde" doctor --listen 127.0.0.1:0 --store "$store"
has "behind" '^warn +store +the clock is (399|400).[0-9] days behind' "$scratch/out"
# An agent with such a clock deletes nothing, and says so; by order it does.
: >"$scratch/ahead.log"
AHEAD=$((400 * 86400)) LD_PRELOAD=$scratch/clock.so \
    "$sonde" serve --listen 127.0.0.1:0 --no-processes --store "$store" 2>"$scratch/ahead.log" >&2 &
agent=$!
started+=("$agent")
until_line 'the clock is (399|400).[0-9] days beyond what was recorded before' "$scratch/ahead.log"
kill -TERM "$agent"
wait "$agent"
runs() { "$sonde" runs --store "$store" --json | grep -o '"id":[0-9]*' | tr -d '\n'; }
same "both are there" '"id":2"id":1' "$(runs)"
status 0 wrong $((400 * 86400)) "$sonde" gc --store "$store"
same "gc leaves them" '"id":2"id":1' "$(runs)"
status 0 wrong $((400 * 86400)) "$sonde" gc --force --store "$store"
same "gc --force does not" '"id":2' "$(runs)"

# ---- nothing of it is left, also where another agent looks ----------------------------------------
start_agent "$scratch/agent.log"
status 0 "$sonde" doctor --listen 127.0.0.1:0
same "no segment, no directory" "agent.lock" "$(ls "$SONDE_DIR" | grep -v '^agent\.state')"
finish

#!/usr/bin/env bash
# `sonde run`: the command notices nothing, its end is ours, its records are shown.
. "$(dirname "$0")/common.sh"
run=("$sonde" run --listen 127.0.0.1:0)

# ---- the end ------------------------------------------------------------------------------
for code in 0 1 7 255; do
    status "$code" "${run[@]}" -- sh -c "exit $code"
    [ ! -s "$scratch/err" ] || complain "stderr is not the command's own:" "$(cat "$scratch/err")"
done
status 127 "${run[@]}" no-such-command-here
has "not found" 'no-such-command-here: command not found' "$scratch/err"
status 127 "${run[@]}" "$scratch/none"
status 126 "${run[@]}" "$scratch"
has "a folder" 'Permission denied' "$scratch/err"
echo 'echo script "$1"' >"$scratch/script" && chmod +x "$scratch/script"
status 0 "${run[@]}" "$scratch/script" --help
same "a script without #!, its own option" "script --help" "$(cat "$scratch/out")"

for sig in TERM KILL SEGV INT USR1; do
    got=$(python3 -c '
import subprocess, sys
print(subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode)' \
        "${run[@]}" -- sh -c "ulimit -c 0; kill -$sig \$\$" 2>/dev/null)
    same "death by $sig" "-$(kill -l "$sig")" "$got"
done

# ---- what the command inherits --------------------------------------------------------------
head -c 10000000 /dev/urandom >"$scratch/bytes"
"${run[@]}" -- cat <"$scratch/bytes" | cat >"$scratch/copy"
cmp "$scratch/bytes" "$scratch/copy" || complain "10 MB through stdin and stdout differ"
"${run[@]}" -- sh -c 'echo to-stderr >&2' 2>"$scratch/err"
same "stderr" "to-stderr" "$(cat "$scratch/err")"

inside() { # what a process sees of its surroundings
    python3 -c '
import os, resource, signal
print(sorted(os.listdir("/proc/self/fd")))
for line in open("/proc/self/status"):
    if line.startswith(("SigBlk", "SigIgn", "SigCgt", "SigPnd", "Umask")): print(line.strip())
print(os.getpgrp(), os.getsid(0), os.getcwd())
print([resource.getrlimit(i) for i in range(resource.RLIMIT_NOFILE + 1)])
print(sorted((k, v) for k, v in os.environ.items() if k not in ("_", "SHLVL")))' "$@"
}
export -f inside
export sonde
cat >"$scratch/compare" <<'END'
inside >"$1/plain"
"$sonde" run --listen 127.0.0.1:0 -- bash -c inside >"$1/under"
END
bash "$scratch/compare" "$scratch"
cmp "$scratch/plain" "$scratch/under" ||
    complain "the command finds another environment:" "$(diff "$scratch/plain" "$scratch/under")"
( trap '' INT PIPE HUP; bash "$scratch/compare" "$scratch" )
cmp "$scratch/plain" "$scratch/under" || complain "ignored signals are not passed on" \
    "$(diff "$scratch/plain" "$scratch/under")"
(exec 7</dev/null; bash "$scratch/compare" "$scratch")
has "descriptor 7" "'7'" "$scratch/under"
cmp -s "$scratch/plain" "$scratch/under" || complain "an open descriptor is not passed on"
(exec 0<&-; bash "$scratch/compare" "$scratch")
cmp -s "$scratch/plain" "$scratch/under" || complain "a closed stdin is not passed on" \
    "$(diff "$scratch/plain" "$scratch/under")"
python3 - "${run[@]}" -- sh -c 'exit 5' <<'END' || complain "ignored SIGCHLD loses the exit status"
import signal, subprocess, sys
code = subprocess.run(sys.argv[1:], preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)).returncode
sys.exit(code != 5)
END

mkdir -m 700 "$scratch/other"
"${run[@]}" --dir "$scratch/other" -- sh -c 'echo $SONDE_DIR' >"$scratch/out"
same "--dir is handed down" "$scratch/other" "$(cat "$scratch/out")"
(cd "$scratch" && "${run[@]}" --dir other -- sh -c 'cd / && echo $SONDE_DIR') >"$scratch/out"
same "--dir is handed down as an absolute path" "$scratch/other" "$(cat "$scratch/out")"
TRACEPARENT=00-11111111111111111111111111111111-2222222222222222-01 \
    "${run[@]}" -- sh -c 'echo $TRACEPARENT' >"$scratch/out"
same "TRACEPARENT" 00-11111111111111111111111111111111-2222222222222222-01 "$(cat "$scratch/out")"

# ---- what is shown ----------------------------------------------------------------------------
status 3 "${run[@]}" --log "$scratch/log" -- "$programs/recorder" 1000 0 3
same "stdout of the command" ready "$(cat "$scratch/out")"
[ ! -s "$scratch/err" ] || complain "stderr is not empty:" "$(cat "$scratch/err")"
has "start" 'info +http://127\.0\.0\.1:[0-9]+ shows process [0-9]+' "$scratch/log"
has "end" 'recorder ran .*, exit status 3' "$scratch/log"
has "summary" '[0-9]+ series, 1000 spans' "$scratch/log"
has "histogram" 'rec_wait_seconds\{.*\}: 1000 recorded, p50 (99[0-9] .s|1\.0[01] ms), p99 (99[0-9] .s|1\.0[01] ms)' "$scratch/log"
status 0 "${run[@]}" -v --no-http -- "$programs/recorder" 5
has "-v" 'sonde: .* series, 5 spans' "$scratch/err"
lacks "--no-http" 'http://' "$scratch/err"

"${run[@]}" --keep 60 --log "$scratch/keep.log" -- "$programs/recorder" 321 >"$scratch/out" &
keeper=$!
started+=("$keeper")
until_line 'for 60 s more' "$scratch/keep.log"
curl -sf "$(url_in "$scratch/keep.log")/metrics" >"$scratch/metrics"
has "nothing is lost at the end" '^rec_events_total\{.*\} 321$' "$scratch/metrics"
kill -TERM "$keeper"
wait "$keeper"
same "end of --keep" 0 "$?"

# ---- a program that has a name of its own -------------------------------------------------------
curl_has() { # PATTERN
    curl -sf "$(url_in "$scratch/named.log")/metrics" >"$scratch/metrics" && grep -qE "$1" "$scratch/metrics"
}
"${run[@]}" --keep 60 --log "$scratch/named.log" -- "$SONDE_BUILD/example_engine" --clients 1 --requests 2 \
    --decode-ms 0 --prefill-us 0 --tokens 2 >"$scratch/out" &
keeper=$!
started+=("$keeper")
until_line 'for 60 s more' "$scratch/named.log"
until_true curl_has '^sonde_infer_requests_total\{.*process="engine"'
has "its name on /metrics" '^sonde_infer_requests_total\{.*process="engine"' "$scratch/metrics"
lacks "the executable's" 'process="example_engine"' "$scratch/metrics"
curl -sf "$(url_in "$scratch/named.log")/api/processes" >"$scratch/out"
has "its name among processes" '"engine"' "$scratch/out"
status 0 "$sonde" ls
has "its name in ls" ' engine ' "$scratch/out"
kill -TERM "$keeper"
wait "$keeper"

# ---- ports ------------------------------------------------------------------------------------
python3 -c '
import socket, time
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); print(s.getsockname()[1], flush=True)
time.sleep(60)' >"$scratch/port" &
started+=("$!")
until_line '[0-9]' "$scratch/port"
status 2 "$sonde" run --listen "127.0.0.1:$(cat "$scratch/port")" -- touch "$scratch/ran"
has "a port that is taken" "$(cat "$scratch/port")" "$scratch/err"
[ ! -e "$scratch/ran" ] || complain "the command ran although --listen failed"
status 2 "$sonde" run --listen nonsense -- true

# ---- nested -----------------------------------------------------------------------------------
status 9 "${run[@]}" -- "${run[@]}" -- "$programs/recorder" 10 0 9
same "nested" ready "$(cat "$scratch/out")"

# ---- programs of a script, gone before the agent looks ------------------------------------------
"${run[@]}" --interval 5 -v -- sh -c '"$0" 5; (exec "$0" 7); sh -c "\"$0\" 11; true"; true' "$programs/recorder" \
    >"$scratch/out" 2>"$scratch/err"
has "records of short-lived grandchildren" ' series, 23 spans' "$scratch/err"
same "no segment is left behind" "" "$(find "$SONDE_DIR" -name '[0-9]*')"

# ---- a program that nothing may be loaded into --------------------------------------------------
echo 'int main(void) { return 7; }' | gcc -fsanitize=address -x c -o "$scratch/asan" -
status 7 "${run[@]}" -v --heap -- "$scratch/asan"
has "ASan comes first" 'AddressSanitizer, which must be loaded before' "$scratch/err"
has "so there is no heap" 'heap was not profiled: .*AddressSanitizer' "$scratch/err"

# ---- a grandchild that stays is not waited for ------------------------------------------------
status 0 timeout 20 "${run[@]}" -- sh -c 'sleep 60 >/dev/null 2>&1 & echo $!'
started+=("$(cat "$scratch/out")")
finish

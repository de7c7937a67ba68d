#!/usr/bin/env bash
# `make demo` without the building: it ends by itself and has shown what happened, it stops when it is
# told to, says what is wrong, and leaves nothing running.
. "$(dirname "$0")/../cli/common.sh"
[ -e "$SONDE_BUILD/libsonde_preload.so" ] || exit 0 # not under the sanitizers
cd "$SONDE_SOURCE" || exit
export SONDE_BUILD
unset CI DEMO_SECONDS
patience=60

# Processes whose command line has the model of this build in it: engine and agent.
left() { pgrep -f -- "serve -m $SONDE_BUILD/demo/" >"$scratch/left"; }

# A while, and then some figures.
DEMO_SECONDS=8 tools/demo >"$scratch/out" 2>"$scratch/err" </dev/null
same "exit status" 0 $?
[ -s "$scratch/err" ] && complain "stderr:" "$(cat "$scratch/err")"
has "where" 'http://127\.0\.0\.1:[0-9]+/profiling/dashboard' "$scratch/out"
has "a live line" '^[0-9]+ requests · [0-9]+ running · [0-9]+ tokens/s · TTFT p50 .* · [0-9]+ failed, [0-9]+ cancelled · ' "$scratch/out"
has "series" '^sonde_infer_requests_total\{.*route="/v1/chat/completions".*outcome="ok".*\} [1-9]' "$scratch/out"
has "devices" '^sonde_device_operation_seconds_count\{.*operation="matmul".*\} [1-9]' "$scratch/out"
has "pools" '^sonde_memory_pool_bytes\{.*pool="weights".*\} [1-9]' "$scratch/out"
has "the tokenizer" '^sonde_tokenizer_tokens_total\{.*\} [1-9]' "$scratch/out"
has "top" 'TTFT P50 ' "$scratch/out"
has "the end" '^Sent [0-9]+ requests: [1-9][0-9]* answered \([1-9][0-9]* tokens\)' "$scratch/out"
sent=$(grep -oE '^Sent [0-9]+' "$scratch/out" | cut -d ' ' -f 2)
has "all of them are known" "^sonde has seen $sent: " "$scratch/out"
left && complain "left running:" "$(cat "$scratch/left")"

# Until it is told to stop: an interrupt from the terminal goes to all of its group.
for signal in INT:130 TERM:143; do
    set -m
    tools/demo >"$scratch/out" 2>"$scratch/err" </dev/null &
    demo=$!
    set +m
    started+=("$demo")
    until_line '^[1-9][0-9]* requests ' "$scratch/out" || break
    kill "-${signal%:*}" -- "-$demo"
    wait "$demo"
    same "exit status after ${signal%:*}" "${signal#*:}" $?
    left && complain "left running after ${signal%:*}:" "$(cat "$scratch/left")"
done

# What cannot be.
for value in 3 x 10s; do
    status 2 env DEMO_SECONDS=$value tools/demo
    has "DEMO_SECONDS=$value" "5 or more, not '$value'" "$scratch/err"
done
finish

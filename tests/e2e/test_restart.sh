#!/usr/bin/env bash
# The agent is killed and started again under load: nothing is lost, nothing is counted twice. See
# restart.py. Two agents at once, and a state that is damaged, do no harm.
. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
agents=()
cleanup() {
    for pid in "${agents[@]}"; do
        { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
    done
    rm -rf "$SONDE_DIR" "$scratch"
}
trap cleanup EXIT
cd "$scratch"

# A machine that is so slow that rings overflow while programs stop cannot tell.
status=77
for _ in 1 2 3; do
    [ "$status" -eq 77 ] || break
    clear_segments
    status=0
    timeout 500 python3 "$here/restart.py" "$SONDE_BUILD/sonde" "$SONDE_BUILD/example_engine" \
        "$SONDE_BUILD/example_shop" "$programs/recorder" 20 || status=$?
done
[ "$status" -eq 0 ] || [ "$status" -eq 77 ] || complain "restart.py: status $status" "$(tail agent.log)"

serve() { # LOG
    "$SONDE_BUILD/sonde" serve -v --listen 127.0.0.1:0 2>"$1" &
    agent=$!
    agents+=("$agent")
    until_true grep -q 'listening on http' "$1"
    url=$(grep -oE 'http://[0-9.:]+' "$1" | head -n 1)
}
ended() { curl -s "$1/metrics" | grep -c '^sonde_infer_requests_total{.*outcome="ok".* 32$' >/dev/null; }

# Of two agents the first one keeps the state; the second one reads for itself.
clear_segments
serve first.log
first_url=$url
serve second.log
until_true grep -q 'another agent reads' second.log
"$SONDE_BUILD/example_engine" --clients 1 --requests 40 --decode-ms 0 --prefill-us 0 --tokens 2
until_true ended "$first_url"
until_true ended "$url"
for pid in "${agents[@]}"; do
    { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
done
serve third.log
until_true grep -q 'counts go on' third.log
until_true ended "$url"
{ kill -TERM "$agent" && wait "$agent"; } 2>/dev/null || true

# What rings did not hold while no agent ran is said, once. How long that takes depends on the machine.
clear_segments
"$SONDE_BUILD/example_engine" --clients 4 --requests 1000000 --decode-ms 0 --prefill-us 0 --tokens 8 >engine.out 2>&1 &
engine=$!
agents+=("$engine")
counted() { curl -s "$url/metrics" | grep -q '^sonde_infer_requests_total{.*outcome="ok"'; }
for pause in 1 2 4 8 16; do
    serve "before.log"
    until_true counted
    { kill -TERM "$agent" && wait "$agent"; } 2>/dev/null || true
    sleep "$pause"
    serve "after.log"
    until_true grep -q 'counts go on' after.log
    until_true counted
    { kill -TERM "$agent" && wait "$agent"; } 2>/dev/null || true
    said=$(grep -cE ' [1-9][0-9]* records of spans and requests were overwritten while no agent ran' after.log || true)
    [ "$said" -eq 0 ] || break
done
[ "$said" -eq 1 ] || complain "what was overwritten is said $said times" "$(cat after.log)"
{ kill -KILL "$engine" && wait "$engine"; } 2>/dev/null || true

# One that is damaged is not used, which is said.
printf 'x' | dd of="$SONDE_DIR/agent.state" bs=1 seek=100 conv=notrunc status=none
serve fourth.log
until_true grep -q 'agent.state is not used, it is damaged' fourth.log
finish

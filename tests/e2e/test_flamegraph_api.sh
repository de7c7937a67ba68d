#!/usr/bin/env bash
# Flame graphs by the agent: what /api/flamegraph has of a phase or request is what the commands have of
# the same recording; `sonde view` shows files; `sonde run` keeps profiles without being asked.
. "$(dirname "$0")/common.sh"
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null; rm -rf "$SONDE_DIR" "$work"' EXIT
cd "$work"
sonde=$SONDE_BUILD/sonde
engine=$SONDE_BUILD/example_engine

# count FILE OPTION…: samples, as the commands have it
count() {
    "$sonde" export -q --format folded -o folded "${@:2}" "$1" || complain "export ${*:2}"
    awk '{ n += $NF } END { print n + 0 }' folded
}

# counted QUERY: samples of the root, summed up from the nodes as a page does it; they must be those
# that the answer says it has
counted() {
    curl -sf "$url/api/flamegraph?$1" >answer || complain "$1: $(curl -s "$url/api/flamegraph?$1")"
    python3 - <<'PY'
import json
digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
answer = json.load(open("answer"))
numbers, value, shift = [], 0, 0
for c in answer["nodes"]:
    d = digits.index(c)
    value |= (d & 31) << shift
    shift += 5
    if d < 32:
        numbers.append(value)
        value = shift = 0
width = 7 if answer["baseTotal"] else 5
rows = [numbers[i:i + width] for i in range(0, len(numbers), width)]
samples = sum(r[4] for r in rows)
print(samples if samples == answer["about"]["samples"] else "nodes and about differ")
PY
}

ready() { [ -s out ] && url=$(sed -n 's|/profiling/.*||p;q' out) && curl -sf "$url/livez" >/dev/null; }

# ---- Files ----
"$sonde" record -q -o a.run -- "$engine" --clients 1 --slots 1 --requests 3 --tokens 800 --decode-ms 1 \
    --prompt 300 --prefill-us 400 >/dev/null
id=$("$sonde" requests --json a.run | python3 -c 'import json,sys; print(json.load(sys.stdin)["requests"][0]["id"])')
"$sonde" view --listen 127.0.0.1:0 a.run a.run >out 2>err &
server=$!
until_true ready
grep -q '/profiling/cpu?profile=a.run-2&base=a.run' out || complain "view: $(cat out)"
while read -r query options; do
    # shellcheck disable=SC2086
    want=$(count a.run $options)
    got=$(counted "profile=a.run&type=cpu$query")
    [ "$want" -gt 0 ] && [ "$want" = "$got" ] || complain "view $query: $got, export $options: $want"
done <<CASES
&nodes=5
&phase=prefill --phase prefill
&phase=decode --phase decode
&request=$id --request $id
&slowest=1 --slowest 1
&phase=decode&workers=1 --phase decode --workers
CASES
counted "profile=a.run-2&base_profile=a.run&type=cpu" >/dev/null
curl -s "$url/admin/profiles" | grep -q '"name":"a.run-2","kind":"file"' || complain "files are not listed"
[ "$(curl -s "$url/api/requests?state=done" | python3 -c 'import json,sys; print(json.load(sys.stdin)["total"])')" -eq 6 ] ||
    complain "requests of both files"
kill -INT "$server"
wait "$server" || complain "view: exit status $?"
server=

# ---- Without being asked ----
agent() { # OPTION…
    "$sonde" run -v --listen 127.0.0.1:0 --log log "$@" -- "$engine" --clients 2 --requests 100000 \
        --decode-ms 2 --tokens 32 >/dev/null 2>err &
    server=$!
    until_true grep -qsE 'http://127.0.0.1:[0-9]+' err log
    url=$(grep -hoE 'http://127.0.0.1:[0-9]+' err log | head -1)
}
sampled() { curl -sf "$url/api/flamegraph?phase=decode" >/dev/null; }
agent
until_true sampled
kill "$server"
wait "$server" || true
: >log
agent --no-continuous
until_true curl -sf "$url/livez" -o /dev/null
status=$(curl -s -o body -w '%{http_code}' "$url/api/flamegraph")
[ "$status" = 404 ] && grep -q 'continuous profiling was not on' body || complain "off: $status $(cat body)"
kill "$server"
wait "$server" || true
server=
finish

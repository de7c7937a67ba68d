#!/usr/bin/env bash
# `sonde serve --upstream` between real clients and a server with known delays: see
# front_client.py. Then the server is killed in the middle of a stream.
. "$(dirname "$0")/common.sh"
here=$(dirname "$0")
scratch=$(mktemp -d)
started=()
cleanup() {
    for pid in "${started[@]}"; do
        { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
    done
    rm -rf "$SONDE_DIR" "$scratch"
}
trap cleanup EXIT

python3 "$here/front_upstream.py" "$scratch/log" >"$scratch/port" &
upstream=$!
started+=("$upstream")
until_true test -s "$scratch/port"
# Without figures of host and processes, and without looks for findings, which hold a minute of requests
# for a moment: what grows is then the front's.
serve() {
    : >"$scratch/stderr" # here, not only by the one below, which may come after the first look
    "$SONDE_BUILD/sonde" serve --upstream "http://127.0.0.1:$(cat "$scratch/port")" --no-host \
        --no-processes --set bottleneck.auto_detect=false --listen 127.0.0.1:0 2>"$scratch/stderr" &
    sonde=$!
    started+=("$sonde")
    until_true grep -q 'the front of http://127' "$scratch/stderr"
    url=$(grep -oE 'http://[0-9.:]+' "$scratch/stderr" | head -n 1)
}
serve

timeout 300 python3 "$here/front_client.py" "${url##*:}" "$sonde" "$scratch/log" ||
    complain "clients: status $?"

# A stream is cut off when its server dies, and then there is no server.
curl -sN -o "$scratch/cut" -d '{"model":"killed"}' "$url/v1/chat/completions?tokens=1000&gap_ms=20" &
curl=$!
started+=("$curl")
until_true grep -qs 'token 1' "$scratch/cut"
{ kill -KILL "$upstream" && wait "$upstream"; } 2>/dev/null || true
status=0
wait "$curl" || status=$?
[ "$status" -eq 18 ] || complain "a stream whose server was killed: curl exited with $status, not 18"
curl -s -w '%{http_code}' -o "$scratch/refused" -d '{"model":"killed"}' "$url/v1/chat/completions" |
    grep -qx 502 || complain "no server: not 502"
grep -q '"type":"connect_refused"' "$scratch/refused" || complain "no server: $(cat "$scratch/refused")"
counted() { curl -s "$url/metrics" | grep -qE 'sonde_infer_requests_total\{model="killed".*"error"} 2$'; }
until_true counted

# An agent that is told to end breaks off what is under way, and the next one knows.
: >"$scratch/port"
python3 "$here/front_upstream.py" "$scratch/log" >"$scratch/port" &
started+=("$!")
until_true test -s "$scratch/port"
stop() {
    kill -TERM "$sonde"
    status=0
    wait "$sonde" || status=$?
    [ "$status" -eq 0 ] || complain "SIGTERM: exited with $status"
}
stop
serve
curl -sN -o "$scratch/stopped" -d '{"model":"stopped"}' \
    "$url/v1/chat/completions?tokens=100000&gap_ms=20" &
curl=$!
started+=("$curl")
until_true grep -qs 'token 1' "$scratch/stopped"
stop
wait "$curl" && complain "a stream whose front ended was whole"
serve
stopped() { curl -s "$url/metrics" | grep -E 'sonde_infer_requests_total\{model="stopped"'; }
until_true stopped >"$scratch/count"
grep -qE '"cancelled"} 1$' "$scratch/count" || complain "broken off by its end: $(cat "$scratch/count")"

stop
grep -v 'listening on' "$scratch/stderr" | grep . && complain "it said more than where it listens"
finish

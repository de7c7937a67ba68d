#!/usr/bin/env bash
# The load generator against a server whose log is the truth (load_truth.py): every API, counts that have
# to agree exactly, times that have to be in order; a stall of the server; and servers that do what none
# should. No time is asserted: perf/bench_http.py measures.
. "$(dirname "$0")/common.sh"
here=$(dirname "$0")
scratch=$(mktemp -d)
programs=$SONDE_BUILD/programs
started=()
cleanup() {
    for pid in "${started[@]}"; do
        { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null || true
    done
    rm -rf "$SONDE_DIR" "$scratch"
}
trap cleanup EXIT

# server OPTION…: starts it; its log is there when it has ended.
server() {
    : >"$scratch/port"
    "$programs/known_server" --log "$scratch/log" "$@" >"$scratch/port" &
    server=$!
    started+=("$server")
    until_true grep -q '^port' "$scratch/port"
    url=http://127.0.0.1:$(awk '$1 == "port" { print $2 }' "$scratch/port")
}
stop() {
    kill -TERM "$server"
    wait "$server" || complain "known_server exited with $?"
}
drive() { timeout 120 "$programs/load_drive" "$@" --records "$scratch/records" >"$scratch/result"; }
truth() {
    timeout 60 python3 "$here/load_truth.py" "$scratch/log" "$scratch/records" "$scratch/result" "$@" ||
        complain "$*: not as the server's log says"
}

# Every API, in both loops, with one thread and two.
for path in 'v1/chat/completions?tokens=9&reasoning=4' v1/completions completion api/chat api/generate generate_stream; do
    server --ttft-us 500 --itl-us 100 --tokens 9
    drive "$url/$path" --requests 60 --connections 6 --threads 2 --body '{"stream":true}' --keep-text ||
        complain "$path: exited with $?"
    stop
    truth "$path" --events 9 --requests 60
done
server --ttft-us 500 --itl-us 100 --tokens 5
drive "$url/v1/chat/completions" --rate 500 --poisson --requests 300 || complain "open: exited with $?"
stop
truth open --events 5 --requests 300
server
drive "$url/v1/chat/completions?stream=0" --rate 500 --requests 100 --no-keep-alive || complain "document: $?"
stop
truth document --events 0 --requests 100

# The same over TLS, by records, in both versions.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$scratch/key.pem" \
    -out "$scratch/cert.pem" -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null ||
    complain "no certificate"
secure() {
    server --cert "$scratch/cert.pem" --key "$scratch/key.pem" "$@"
    url=${url/http:/https:}
}
for version in '' --tls12; do
    secure --ttft-us 500 --itl-us 100 --tokens 9 $version
    drive "$url/v1/chat/completions" --requests 60 --connections 6 --threads 2 --body '{"stream":true}' \
        --cacert "$scratch/cert.pem" || complain "TLS: exited with $?"
    stop
    truth TLS --events 9 --requests 60
    secure --ttft-us 500 --itl-us 100 --tokens 5 $version
    drive "$url/v1/chat/completions" --rate 300 --requests 90 --no-keep-alive --cacert "$scratch/cert.pem" ||
        complain "open over TLS: exited with $?"
    stop
    truth "open over TLS" --events 5 --requests 90
    grep -q '"opened": 90,' "$scratch/result" || complain "TLS: $(cat "$scratch/result")"
done

# A stall: what is due meanwhile is sent, over new connections, and waits at the server, not here.
server --ttft-us 0 --itl-us 0 --tokens 2 --stall-at-ms 100 --stall-ms 600
drive "$url/v1/chat/completions" --rate 300 --requests 240 || complain "stall: exited with $?"
stop
truth stall --events 2 --requests 240 --stalled 600

# A limit on connections: the schedule is kept in the records, and who waited is counted.
server --ttft-us 20000 --itl-us 0 --tokens 1
drive "$url/v1/chat/completions" --rate 400 --requests 80 --connections 2 || complain "starved: exited with $?"
stop
truth starved --events 1 --requests 80 --starved

# What no server should do: each is what it is called, and the connection that broke takes no other with it.
# hostile OPTION…: paths and their outcomes from standard input
hostile() {
    while read -r path outcome; do
        case $path in stall*) limit_ms=300 ;; *) limit_ms=60000 ;; esac
        drive "$url/$path" --requests 12 --connections 4 --timeout-ms $limit_ms --body '{}' "$@" ||
            complain "$url/$path: exited with $?"
        grep -q "\"records\": 12, .*\"$outcome\": 12," "$scratch/result" ||
            complain "$url/$path: not $outcome: $(cat "$scratch/result")"
        kilobytes=$(grep -oE '"rss_max_kb": [0-9]+' "$scratch/result" | grep -oE '[0-9]+$')
        [ "$kilobytes" -lt 400000 ] || complain "$url/$path: $kilobytes kB"
    done
}
server
hostile <<'LIST'
reset-early reset
close-early truncated
stall timeout
reset reset
stall-mid timeout
stall-head timeout
half-utf8 ok
garbage protocol
wrong-length truncated
bad-chunk protocol
two-lengths protocol
no-done truncated
http10 ok
conn-close ok
continue ok
trailing ok
no-content ok
error-event error
status500 status
not-http protocol
stale ok
long-line too long
big-head too long
early-answer status
by-close ok
hang-up ok
nowhere status
LIST
stop
# And over TLS, where an end that was not announced is none.
secure
hostile --insecure <<'LIST'
reset-early reset
close-early truncated
stall timeout
reset reset
stall-mid timeout
wrong-length truncated
no-done truncated
conn-close ok
by-close ok
hang-up truncated
trailing ok
stale ok
long-line too long
early-answer status
LIST
stop
server
# A first token that does not come, a request that is broken off on purpose, a run that ends.
drive "$url/v1/chat/completions?ttft_us=60000000" --requests 4 --connections 4 --first-timeout-ms 100
grep -q '"timeout": 4,' "$scratch/result" || complain "no first token: $(cat "$scratch/result")"
drive "$url/v1/chat/completions?tokens=1000&itl_us=100" --requests 20 --connections 4 --cancel 1
grep -q '"cancelled": 20,' "$scratch/result" || complain "cancelled: $(cat "$scratch/result")"
drive "$url/v1/chat/completions?ttft_us=60000000" --connections 4 --duration-ms 1000
grep -q '"cancelled": 4,' "$scratch/result" || complain "ended: $(cat "$scratch/result")"
drive "$url/v1/chat/completions" --requests 4 --answer-max 100
grep -q '"too long": 4,' "$scratch/result" || complain "a long answer: $(cat "$scratch/result")"
stop
status=0
drive "$url/" --requests 3 --connections 1 || status=$?
[ "$status" -eq 0 ] || complain "no server: exited with $status"
grep -q '"connect": 3,' "$scratch/result" || complain "no server: $(cat "$scratch/result")"
finish

#!/usr/bin/env bash
# `sonde serve --upstream --ab` and `--mirror` between real clients and two servers, one of which is
# slower by a known time, stalls, breaks off or is gone: see front_ab.py.
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

upstream() { # NAME [QUERY]: a server; its log is NAME.log
    : >"$scratch/$1.port"
    : >"$scratch/$1.log"
    python3 "$here/front_upstream.py" "$scratch/$1.log" "${@:2}" >"$scratch/$1.port" &
    started+=("$!")
    until_true test -s "$scratch/$1.port"
}
address() { echo "http://127.0.0.1:$(cat "$scratch/$1.port")"; }
serve() { # OPTION…
    : >"$scratch/stderr"
    "$SONDE_BUILD/sonde" serve --upstream "$(address a)" --no-host --no-processes \
        --set bottleneck.auto_detect=false --set ab.block_seconds=0.05 --set ab.block_requests=4 \
        --listen 127.0.0.1:0 "$@" 2>"$scratch/stderr" &
    sonde=$!
    started+=("$sonde")
    until_true grep -q 'the front of http://127' "$scratch/stderr"
    url=$(grep -oE 'http://[0-9.:]+' "$scratch/stderr" | head -n 1)
}
stop() {
    kill -TERM "$sonde"
    status=0
    wait "$sonde" || status=$?
    [ "$status" -eq 0 ] || complain "SIGTERM: exited with $status"
    clear_segments # the next one counts from zero
}
clients() { # MODE
    PORT_A=$(cat "$scratch/a.port") PID=$sonde timeout 300 python3 "$here/front_ab.py" "$1" \
        "${url##*:}" "$scratch/a.log" "$scratch/b.log" || complain "$1 ${KIND:-}: status $?"
}

upstream a
upstream b first_ms=45
serve --ab "$(address b)" --share 50%
clients split
curl -s "$url/api/ab" >"$scratch/split.json"
stop

: >"$scratch/a.log"
: >"$scratch/b.log"
serve --mirror "$(address b)" --set ab.mirror_requests=4096 # however slow this machine is
clients mirror
stop

few=(--set ab.mirror_requests=8 --set ab.mirror_megabytes=2)
upstream stalled stall=1
serve --mirror "$(address stalled)" "${few[@]}"
KIND=stalled clients broken
stop
upstream reset crash=2
serve --mirror "$(address reset)" "${few[@]}"
KIND=reset clients broken
stop
# A port that is taken, so that nobody else gets it, and that nobody listens on.
python3 -c 'import socket, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(3600)' >"$scratch/dead.port" &
started+=("$!")
until_true test -s "$scratch/dead.port"
serve --mirror "$(address dead)" "${few[@]}"
KIND=dead clients broken
stop
# Split with it: its share is answered all the same.
serve --ab "$(address dead)" --share 100%
for _ in 1 2 3; do
    curl -s -o /dev/null -w '%{http_code}\n' -d '{"model":"m"}' "$url/v1/chat/completions" |
        grep -qx 200 || complain "b is gone: not answered"
done
fell_back() { curl -s "$url/api/ab" | grep -q '"failed":3,"cancelled":0,"fell_back":3'; }
until_true fell_back
curl -s "$url/api/ab" | grep -q '"connect_refused":1,"resting":2' ||
    complain "b is gone: $(curl -s "$url/api/ab")"
stop

# Without a second server there is nothing to compare.
serve
curl -s -w '%{http_code}' "$url/api/ab" | grep -q '404$' || complain "one server: not 404"
stop
bad() { # MESSAGE OPTION…
    status=0
    "$SONDE_BUILD/sonde" serve --listen 127.0.0.1:0 "${@:2}" 2>"$scratch/bad" || status=$?
    [ "$status" -eq 2 ] || complain "serve ${*:2}: exited with $status"
    grep -q -- "$1" "$scratch/bad" || complain "serve ${*:2}: $(cat "$scratch/bad")"
}
bad 'needs a first: --upstream' --ab "$(address b)"
bad 'needs a second server' --upstream "$(address a)" --share 10%
bad 'choose one' --upstream "$(address a)" --ab "$(address b)" --mirror "$(address b)"
bad "'110%' is not a share" --upstream "$(address a)" --ab "$(address b)" --share 110%
finish

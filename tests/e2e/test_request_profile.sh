#!/usr/bin/env bash
# A profile of one request while seven others run: through the front (X-Profile: true), and by the
# C API under `sonde run`. See request_profile.py for what is checked.
. "$(dirname "$0")/common.sh"
here=$(dirname "$0")
scratch=$(mktemp -d)
started=()
cleanup() {
    set +e
    local pid engines=
    # What `sonde run` has started outlives it when it is killed.
    [ -n "${run:-}" ] && read -r engines 2>/dev/null <"/proc/$run/task/$run/children"
    for pid in "${started[@]}" $engines; do
        { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null
    done
    rm -rf "$SONDE_DIR" "$scratch"
}
trap cleanup EXIT

# The engine under `sonde run`, which profiles its heap; its own agent answers as well.
"$SONDE_BUILD/sonde" run --log "$scratch/log" --listen 127.0.0.1:0 --rate 997 \
    -- "$programs/http_engine" >"$scratch/port" 2>"$scratch/engine.err" &
run=$!
started+=("$run")
until_true test -s "$scratch/port"
until_true grep -qs 'http://127' "$scratch/log"
engine=http://127.0.0.1:$(cat "$scratch/port")
agent=$(grep -oE 'http://[0-9.:]+' "$scratch/log" | head -n 1)

"$SONDE_BUILD/sonde" serve --upstream "$engine" --no-host --no-processes --listen 127.0.0.1:0 \
    2>"$scratch/stderr" &
sonde=$!
started+=("$sonde")
until_true grep -qs 'the front of http://127' "$scratch/stderr"
front=$(grep -oE 'http://[0-9.:]+' "$scratch/stderr" | head -n 1)
found() { curl -s "$front/api/processes" | grep -q http_engine; }
until_true found

timeout 240 python3 "$here/request_profile.py" "$front" "$engine" "$agent" "$scratch" ||
    complain "status $?"

kill -TERM "$sonde"
status=0
wait "$sonde" || status=$?
[ "$status" -eq 0 ] || complain "SIGTERM: the front exited with $status"
grep -v 'listening on' "$scratch/stderr" | grep . && complain "it said more than where it listens"
kill -TERM "$run"
wait "$run" || true
finish

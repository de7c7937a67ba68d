#!/usr/bin/env bash
# `sonde serve`: finds what records, survives a restart, ends when told.
. "$(dirname "$0")/common.sh"

serve() { # LOG
    start_agent "$1" --interval 0.1
}
metric() { curl -sf "$url/metrics" | grep -qE "$1"; }

serve "$scratch/first"
"$programs/recorder" 42 60 >"$scratch/out" &
recorder=$!
started+=("$recorder")
until_line ready "$scratch/out"
until_true metric '^rec_events_total\{.*\} 42$'

kill -HUP "$agent"
until_line 'SIGHUP: settings are read at the start only' "$scratch/first"
curl -sf -o /dev/null "$url/livez" || complain "SIGHUP ended it"

status 1 "$sonde" serve --listen "${url#http://}"
has "the port is taken" "${url##*:}" "$scratch/err"

kill -TERM "$agent"
wait "$agent"
same "SIGTERM" 0 "$?"

# The counts are in the segment, not in the agent.
serve "$scratch/second"
until_true metric '^rec_events_total\{.*\} 42$'
kill -KILL "$recorder"
wait "$recorder" 2>/dev/null
until_true sh -c 'curl -sf "$0/api/processes" | grep -q "\"killed\""' "$url"
until_true metric '^rec_events_total\{.*\} 42$'
kill -INT "$agent"
wait "$agent"
same "SIGINT" 0 "$?"

# The front is tested in tests/e2e/test_front.sh; here: what it refuses to be the front of.
status 2 "$sonde" serve --listen 127.0.0.1:0 --upstream https://127.0.0.1:1
has "https" 'speaks plain HTTP to it, not HTTPS' "$scratch/err"
status 2 "$sonde" serve --listen 127.0.0.1:0 --upstream 127.0.0.1:8000
has "no URL" 'use http://HOST:PORT' "$scratch/err"
status 2 "$sonde" serve --listen 0.0.0.0:0 --upstream http://127.0.0.1:8000
has "not loopback" 'listens on loopback' "$scratch/err"
SONDE_SERVER_UPSTREAM=http://nowhere.invalid status 1 "$sonde" serve --listen 127.0.0.1:0
has "no such host" 'cannot find the upstream.s host "nowhere.invalid"' "$scratch/err"

status 2 "$sonde" serve --listen 127.0.0.1:notaport
has "a bad port" 'notaport' "$scratch/err"
finish

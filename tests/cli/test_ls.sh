#!/usr/bin/env bash
# `sonde ls`: processes with segments, as a table and as JSON; refused files with the reason.
. "$(dirname "$0")/common.sh"

status 0 "$sonde" ls
[ ! -s "$scratch/out" ] || complain "something is listed in an empty directory"
has "empty" "no process has a segment in $SONDE_DIR" "$scratch/err"
status 0 "$sonde" ls -q
[ ! -s "$scratch/err" ] || complain "-q says something"
status 0 "$sonde" ls --json
same "empty, JSON" "{\"dir\":\"$SONDE_DIR\",\"processes\":[],\"refused\":[]}" "$(cat "$scratch/out")"

"$programs/recorder" 42 60 >"$scratch/ready" &
recorder=$!
started+=("$recorder")
until_line ready "$scratch/ready"
status 0 "$sonde" ls
has "titles" 'PID +PROGRAM +STATE +UPTIME +SERIES +SPANS +MEMORY +DROPPED' "$scratch/out"
has "row" "^ *$recorder +recorder +running +.* +42 +.* +0\$" "$scratch/out"
status 0 "$sonde" ls --json
python3 - "$recorder" "$scratch/out" <<'END' || complain "JSON:" "$(cat "$scratch/out")"
import json, sys
d = json.load(open(sys.argv[2]))
p, = d["processes"]
assert p["pid"] == int(sys.argv[1]) and p["program"] == "recorder" and p["state"] == "running"
assert p["series"] >= 3 and p["spans_seen"] == 42 and p["spans_lost"] == 0
assert p["segment_bytes"] > 0 and 0 <= p["uptime_s"] < 600 and sum(p["drops"].values()) == 0
assert d["refused"] == []
END
head -c 8192 /dev/urandom >"$SONDE_DIR/99999.1"
chmod 600 "$SONDE_DIR/99999.1"
status 0 "$sonde" ls
has "refused" 'refused .*/99999\.1: .' "$scratch/out"
has "the others are there" 'recorder +running' "$scratch/out"
status 0 "$sonde" ls --json
has "refused, JSON" '"refused":\[\{"path":"[^"]*/99999\.1","reason":"[^"]+' "$scratch/out"
status 0 "$sonde" doctor
has "doctor" '^warn +segments .*99999\.1 is refused' "$scratch/out"
finish

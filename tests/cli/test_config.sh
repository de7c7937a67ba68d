#!/usr/bin/env bash
# Settings: precedence of file, environment and flags; mistakes are named.
. "$(dirname "$0")/common.sh"

printf '{ "agent": { "dir": "%s/from-file" } }' "$scratch" >"$scratch/good.json"
printf '{ "agent": { "intervall_seconds": 1 } }' >"$scratch/key.json"
printf '{ "agent": { "interval_seconds": "soon" } }' >"$scratch/value.json"
printf '{ "agent": ' >"$scratch/broken.json"
for name in from-file from-env from-set from-flag; do mkdir -m 700 "$scratch/$name"; done

dir_of() {
    "$@" >"$scratch/out" 2>"$scratch/err" || complain "$*" "$(cat "$scratch/err")"
    sed 's/^{"dir":"\([^"]*\)".*/\1/' "$scratch/out"
}
same "default" "$SONDE_DIR" "$(dir_of "$sonde" ls --json)"
same "file" "$scratch/from-file" "$(dir_of "$sonde" ls --json --config "$scratch/good.json")"
same "file of the environment" "$scratch/from-file" \
    "$(SONDE_CONFIG=$scratch/good.json dir_of "$sonde" ls --json)"
same "environment over file" "$scratch/from-env" \
    "$(SONDE_AGENT_DIR=$scratch/from-env dir_of "$sonde" ls --json --config "$scratch/good.json")"
same "--set over environment" "$scratch/from-set" \
    "$(SONDE_AGENT_DIR=$scratch/from-env dir_of "$sonde" ls --json --set "agent.dir=$scratch/from-set")"
same "the last flag counts" "$scratch/from-flag" \
    "$(dir_of "$sonde" ls --json --set "agent.dir=$scratch/from-set" --dir="$scratch/from-flag")"

status 2 "$sonde" ls --config "$scratch/none.json"
has "missing file" 'none\.json' "$scratch/err"
status 2 "$sonde" ls --config "$scratch/key.json"
has "bad key" 'intervall_seconds' "$scratch/err"
status 2 "$sonde" ls --config "$scratch/value.json"
has "bad value" 'agent\.interval_seconds.*soon' "$scratch/err"
status 2 "$sonde" ls --config "$scratch/broken.json"
has "bad JSON" 'broken\.json' "$scratch/err"
mkfifo "$scratch/fifo"
status 2 timeout 60 "$sonde" ls --config "$scratch/fifo" # nobody ever writes to it
has "a FIFO" 'fifo: is a pipe or FIFO; only regular files' "$scratch/err"
status 2 "$sonde" ls --config "$scratch"
has "a folder" 'Is a directory; only regular files' "$scratch/err"
status 2 "$sonde" ls --config /dev/null
has "a device" '/dev/null: is not a file; only regular files' "$scratch/err"
status 2 "$sonde" ls --set agent.interval_seconds=0
has "range" '0\.05 to 3600' "$scratch/err"
status 2 "$sonde" ls --set agent
has "no value" "'agent' is not SECTION\.KEY=VALUE" "$scratch/err"
status 2 env SONDE_AGENT_INTERVAL_SECONDS=x "$sonde" ls
has "environment" 'SONDE_AGENT_INTERVAL_SECONDS' "$scratch/err"
status 2 "$sonde" run --config "$scratch/key.json" -- touch "$scratch/ran"
[ ! -e "$scratch/ran" ] || complain "run: the command ran in spite of bad settings"
status 2 "$sonde" ls --log "$scratch/no/such/folder/log"
has "log" 'no/such/folder/log' "$scratch/err"

# Help must work when the settings do not, and doctor must say what is wrong with them.
status 0 env SONDE_CONFIG="$scratch/key.json" "$sonde" help config
status 1 env SONDE_CONFIG="$scratch/key.json" "$sonde" doctor
has "doctor" '^fail +config .*intervall_seconds' "$scratch/out"
finish

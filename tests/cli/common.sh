# Sourced by the tests of the command: where it is, a private folder and segment directory that
# go away, checks, and processes that are ended when the test is.
# shellcheck shell=bash disable=SC2034
set -uo pipefail
: "${SONDE_BUILD:?run me with ctest, or set SONDE_BUILD to the build folder}"
export LC_ALL=C.UTF-8
unset SONDE_CONFIG NO_COLOR
sonde=$SONDE_BUILD/sonde
programs=$SONDE_BUILD/programs
scratch=$(mktemp -d)
export SONDE_DIR=$scratch/segments
mkdir -m 700 "$SONDE_DIR"
started=()
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"

cleanup() {
    for pid in "${started[@]}"; do
        { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null
    done
    rm -rf "$scratch"
}
trap cleanup EXIT

# same WHAT WANTED GOT
same() {
    [ "$2" = "$3" ] || complain "$1: wanted '$2', got '$3'"
}

# has WHAT PATTERN FILE: a line matches the extended regular expression
has() {
    grep -qE -- "$2" "$3" || complain "$1: no line matches '$2' in:" "$(cat "$3")"
}

# lacks WHAT PATTERN FILE
lacks() {
    ! grep -qE -- "$2" "$3" || complain "$1: a line matches '$2' in:" "$(cat "$3")"
}

# status WANTED COMMAND…: runs it with output in $scratch/out and $scratch/err
status() {
    local wanted=$1 got=0
    shift
    "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
    [ "$got" = "$wanted" ] ||
        complain "$*: wanted exit status $wanted, got $got" "$(cat "$scratch/out" "$scratch/err")"
}

# until_true COMMAND…: at most $patience seconds, looked at often; so no test depends on timing
patience=20
until_true() {
    local i
    for i in $(seq $((patience * 20))); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.05
    done
    complain "never came true: $*"
    return 1
}

# until_line PATTERN FILE
until_line() { until_true grep -qE -- "$1" "$2"; }

# The URL that a log or stderr of sonde names.
url_in() { grep -oE 'https?://[0-9.]+:[0-9]+' "$1" | head -n 1; }

# start_agent LOG OPTIONS…: `sonde serve` that writes to LOG; $agent is its process, $url where it is
start_agent() {
    local log=$1
    shift
    : >"$log" # what an earlier one wrote is not to be taken for this one's
    "$sonde" serve --listen 127.0.0.1:0 "$@" 2>"$log" &
    agent=$!
    started+=("$agent")
    until_line 'listening on http' "$log" || finish
    url=$(url_in "$log")
}

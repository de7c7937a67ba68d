# Sourced by the end-to-end tests: a private directory for segments, how to fail, tidying up.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
: "${SONDE_BUILD:?run me with ctest, or set SONDE_BUILD to the build folder}"
export LC_ALL=C
programs=$SONDE_BUILD/programs
SONDE_DIR=$(mktemp -d /dev/shm/sonde-e2e-XXXXXX)
export SONDE_DIR
unset SONDE_ENABLED TRACEPARENT
trap 'rm -rf "$SONDE_DIR"' EXIT
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"

# Names of segments, one a line.
segments() { find "$SONDE_DIR" -maxdepth 1 -type f -name '[1-9]*.*' -printf '%f\n' | sort; }
segments_count() { segments | wc -l; }
expect_segments() { # NUMBER WHAT
    [ "$(segments_count)" -eq "$1" ] ||
        complain "$2: expected $1 segments, found $(segments_count): $(segments | tr '\n' ' ')"
}
clear_segments() { rm -rf "${SONDE_DIR:?}"/*; }

# until_true COMMAND…: at most a minute, looked at often; so no test depends on timing or hangs.
until_true() {
    for _ in $(seq 6000); do
        "$@" && return
        sleep 0.01
    done
    complain "never came true: $*"
}

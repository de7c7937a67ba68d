#!/usr/bin/env bash
# The dashboard in Debian's Chromium, beyond how it looks (test_dashboard.sh): its figures are the API's,
# what can be done with it is done, files that it is saved to open from disk, names are text, and where
# there is nothing it says what to do (tests/browser/dashboard_*.test.mjs).
set -euo pipefail

: "${SONDE_BUILD:?set it to the build directory}"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in chromium node npm; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
unset SONDE_TOKEN SONDE_CONFIG

work=$SONDE_BUILD/browser
mkdir -p "$work/shots"
"$SONDE_SOURCE/tests/node_packages" "$SONDE_SOURCE/tests/browser" "$work"
cd "$work"
export SONDE_OUT=$work
# Most of it is waiting for an engine: two at a time.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
node --test dashboard_{figures,work}.test.mjs >"$log" 2>&1 &
first=$!
status=0
node --test dashboard_{file,states}.test.mjs || status=$?
wait $first || status=$?
cat "$log"
exit $status

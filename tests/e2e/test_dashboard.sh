#!/usr/bin/env bash
# The dashboard in Debian's Chromium, against a live agent and an engine that the test steers
# (tests/browser/dashboard.test.mjs). Screenshots are left in the build folder, browser/shots.
set -euo pipefail

: "${SONDE_BUILD:?set it to the build directory}"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in chromium node npm; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
unset SONDE_TOKEN SONDE_CONFIG

work=$SONDE_BUILD/browser
mkdir -p "$work/shots"
rm -f "$work"/shots/{page,failed}-*
"$SONDE_SOURCE/tests/node_packages" "$SONDE_SOURCE/tests/browser" "$work"
cd "$work"
SONDE_OUT=$work exec node --test dashboard.test.mjs

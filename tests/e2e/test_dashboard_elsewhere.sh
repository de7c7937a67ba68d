#!/usr/bin/env bash
# The dashboard in Debian's Firefox, of files (`sonde view`), and its elements in an OpenUI5 page of
# another origin.
set -euo pipefail

: "${SONDE_BUILD:?set it to the build directory}"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in chromium firefox-esr node npm; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
unset SONDE_TOKEN SONDE_CONFIG

work=$SONDE_BUILD/browser
export SONDE_OUT=$work SONDE_OPENUI5=$SONDE_BUILD/openui5
mkdir -p "$work/shots"
rm -f "$work"/shots/firefox-*
"$SONDE_SOURCE/tests/node_packages" "$SONDE_SOURCE/tests/browser" "$work"
"$SONDE_SOURCE/tests/node_packages" "$SONDE_SOURCE/tests/openui5" "$SONDE_OPENUI5"
cd "$work"
node --test firefox.test.mjs
node --test view.test.mjs
node --test openui5.test.mjs

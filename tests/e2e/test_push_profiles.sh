#!/usr/bin/env bash
# Profiles that are sent to an OTLP collector and to Pyroscope, and what they say once decoded; TLS.
set -euo pipefail
: "${SONDE_BUILD:?set it to the build directory}"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in node npm python3 go openssl; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
"$SONDE_SOURCE/tests/push/prepare" "$SONDE_BUILD"
timeout -k 10 580 python3 -B "$SONDE_SOURCE/tests/e2e/push_profiles.py"

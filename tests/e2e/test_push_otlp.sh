#!/usr/bin/env bash
# What the agent sends by OTLP, decoded with OpenTelemetry's own definitions: the same numbers as on
# /metrics, histograms bucket by bucket, every span once, whatever the collector does; and after the
# agent was killed.
set -euo pipefail
: "${SONDE_BUILD:?set it to the build directory}"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in node npm python3; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
"$SONDE_SOURCE/tests/push/prepare" "$SONDE_BUILD"
for part in behaving requests findings spooling; do
    echo "== $part"
    timeout -k 10 400 python3 -B "$SONDE_SOURCE/tests/e2e/push_otlp.py" $part
done

#!/usr/bin/env bash
# What the agent sends by remote write, in a real Prometheus and a real VictoriaMetrics.
set -euo pipefail
: "${SONDE_BUILD:?set it to the build directory}"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in prometheus victoria-metrics python3; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
for part in prometheus victoria native away; do
    echo "== $part"
    timeout -k 10 400 python3 -B "$SONDE_SOURCE/tests/e2e/push_remote_write.py" $part
done

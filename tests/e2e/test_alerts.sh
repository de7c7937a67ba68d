#!/usr/bin/env bash
# Alerts at a real HTTP server, at a program and at a real Alertmanager: each transition once and in order, through
# outages of the receiver and kill -9 of the agent; muting; what each form looks like.
set -euo pipefail
: "${SONDE_BUILD:?set it to the build directory}"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in python3 prometheus-alertmanager; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
for part in forms outage killed muting alertmanager; do
    echo "== $part"
    timeout -k 10 300 /usr/bin/python3 -B "$SONDE_SOURCE/tests/e2e/alerts.py" $part
done

#!/usr/bin/env bash
# /health: from what was recorded; what is bad is said, and a load balancer sees it by the status.
. "$(dirname "$0")/common.sh"

serve() { # LOG [OPTION…]
    start_agent "$@" --interval 0.5 # the window is a minute, but no more ticks than are kept
}
figure() { # EXPRESSION of the answer, which is `a`; 503 has one too
    curl -s "$url/health" | python3 -c 'import json, sys; a = json.load(sys.stdin); print('"$1"')'
}
is() { [ "$(figure "$2")" = "$1" ]; } # WANTED EXPRESSION
code() { curl -s -o /dev/null -w '%{http_code}' "$url/health"; }

serve "$scratch/first" --set health.max_memory_ratio=0 --store "$scratch/a.store"
until_true is ok 'a["status"]'
same "well" 200 "$(code)"
same "no GPU is a reason, not a number" "None no GPU is read on this machine" \
    "$(figure 'str(a["gpu"]["utilization_ratio"]) + " " + a["gpu"]["reason"]')"
same "nothing ended yet" None "$(figure 'a["latency"]["source"]')"
same "the store" ok "$(figure 'a["components"]["store"]["status"]')"
same "memory" True "$(figure '0 < a["memory"]["used_ratio"] < 1')"
"$programs/recorder" 42 600 >"$scratch/out" &
started+=($!)
until_true is "spans 42 0" '" ".join(str(v) for v in (a["latency"]["source"], int(a["errors"]["requests"]), int(a["errors"]["failed"])))'
same "percentiles" True "$(figure '0 <= a["latency"]["p50_s"] <= a["latency"]["p95_s"]')"
kill -TERM "$agent"
wait "$agent"

# Thresholds: whatever is in use is too much memory here.
serve "$scratch/second" --set health.max_memory_ratio=0.000001
until_true is degraded 'a["status"]'
same "degraded still serves" 200 "$(code)"
same "why" True "$(figure '"memory is in use" in a["reasons"][0]')"
same "no store" off "$(figure 'a["components"]["store"]["status"]')"
same "no front" off "$(figure 'a["components"]["front"]["status"]')"
kill -TERM "$agent"
wait "$agent"

# In front of a server that is not there.
serve "$scratch/third" --set health.max_memory_ratio=0 --upstream http://127.0.0.1:1 \
    --set server.own_health=true
until_true is ok 'a["status"]'
same "nobody has asked yet" "ok 0" "$(figure '" ".join((a["components"]["front"]["status"], str(int(a["components"]["front"]["requests"]))))')"
for _ in 1 2 3 4 5 6; do curl -s -o /dev/null "$url/v1/models"; done
until_true is failing 'a["status"]'
same "not served" 503 "$(code)"
same "why" True "$(figure 'any("not answered by the upstream" in r for r in a["reasons"])')"
same "who" "failing 6" "$(figure '" ".join((a["components"]["front"]["status"], str(int(a["components"]["front"]["not_answered"]))))')"
status 2 "$sonde" serve --listen 127.0.0.1:0 --set health.max_memory_ratio=2
has "a bad threshold" 'health.max_memory_ratio' "$scratch/err"
finish

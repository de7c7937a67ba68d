#!/usr/bin/env bash
# OpenTelemetry's SDK for JavaScript sends metrics and traces to the agent, in protobuf and JSON,
# cumulative and delta; and what is not right is refused as the protocol wants it.
set -uo pipefail
. "$(dirname "$0")/../cli/common.sh"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in node npm curl promtool; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done

work=$SONDE_BUILD/otlp
"$SONDE_SOURCE/tests/node_packages" "$SONDE_SOURCE/tests/otlp" "$work" || { complain "the SDK could not be installed"; finish; }

serve() { # OPTIONS…
    start_agent "$scratch/log" --no-host --no-processes "$@"
}
serve --store "$scratch/store.db"
until_true curl -sf "$url/readyz"
for encoding in proto http; do
    for temporality in cumulative delta; do
        node "$work/send.mjs" "$url" $encoding $temporality || complain "$encoding, $temporality"
    done
done
curl -s "$url/metrics" >"$scratch/metrics"
promtool check metrics <"$scratch/metrics" >"$scratch/lint" 2>&1 || complain "$(cat "$scratch/lint")"
curl -s "$url/api/spans?limit=100" >"$scratch/spans"
has "spans of others" '"program":"proto-delta"' "$scratch/spans"

# answer STATUS PATH HEADERS… with the body on standard input; the answer is in $scratch/out
answer() {
    local wanted=$1 path=$2 got args=()
    shift 2
    for header in "$@"; do args+=(-H "$header"); done
    got=$(curl -s -o "$scratch/out" -w '%{http_code} %{content_type}' --data-binary @- "${args[@]}" "$url$path")
    same "$path $*" "$wanted" "$got"
}
is_json='Content-Type: application/json' is_proto='Content-Type: application/x-protobuf'
point() { # KEYS: a metric with one cumulative sum
    printf '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","sum":{"aggregationTemporality":%s,"isMonotonic":true,"dataPoints":[{%s}]}}]}]}]}' \
        "${2:-2}" "$1"
}
point '"asInt":"5"' | answer '200 application/json' /v1/metrics "$is_json; charset=utf-8"
same "an empty answer" '{}' "$(cat "$scratch/out")"
answer '200 application/x-protobuf' /v1/metrics "$is_proto" </dev/null
same "an empty answer" 0 "$(stat -c %s "$scratch/out")"
point '"asInt":"5"' | gzip | answer '200 application/json' /v1/metrics "$is_json" 'Content-Encoding: gzip'
point '"flags":1' | answer '200 application/json' /v1/metrics "$is_json"
same "no recorded value" '{}' "$(cat "$scratch/out")"
point '' | answer '200 application/json' /v1/metrics "$is_json"
has "rejected" '"partialSuccess":\{"rejectedDataPoints":"1","errorMessage":"m_total: a data point without' "$scratch/out"
point '"asInt":1' 0 | answer '200 application/json' /v1/metrics "$is_json"
has "rejected" 'neither delta nor cumulative' "$scratch/out"
echo '{"resourceMetrics":7}' | answer '400 application/json' /v1/metrics "$is_json"
has "what is wrong" '"code":3,"message":"resourceMetrics must be an array"' "$scratch/out"
echo 'garbage' | answer '400 application/json' /v1/traces "$is_json"
printf '\xff\xff\xff' | answer '400 application/x-protobuf' /v1/metrics "$is_proto"
has "a status" 'not a request of OTLP for metrics' "$scratch/out"
echo '{}' | answer '415 application/json' /v1/metrics 'Content-Type: text/plain'
echo '{}' | answer '415 application/json' /v1/metrics "$is_json" 'Content-Encoding: zstd'
echo 'not gzip' | answer '400 application/json' /v1/metrics "$is_json" 'Content-Encoding: gzip'
head -c 100000000 /dev/zero | gzip -9 | answer '413 application/json' /v1/metrics "$is_json" 'Content-Encoding: gzip'
head -c 17000000 /dev/zero | answer '413 application/json' /v1/metrics "$is_json" 'Expect:'
echo '{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"x"}]}]}]}' | answer '200 application/json' /v1/traces "$is_json"
has "rejected" '"rejectedSpans":"1","errorMessage":"span \\"x\\": it has no trace id' "$scratch/out"
curl -s "$url/metrics?name=m_total" >"$scratch/metrics"
has "it is there" '^m_total 5$' "$scratch/metrics"
kill -TERM "$agent"
wait "$agent"
same "it ended in order" 0 $?

serve --set ingest.max_series=2
for i in 1 2 3; do
    point "\"asInt\":$i,\"attributes\":[{\"key\":\"n\",\"value\":{\"intValue\":$i}}]" |
        answer '200 application/json' /v1/metrics "$is_json"
done
has "too many" 'too many series \(ingest.max_series\)' "$scratch/out"
# What one agent scrapes and sends on arrives at another, the fractions of others' counters too.
python3 "$SONDE_SOURCE/tests/e2e/scrape_targets.py" >"$scratch/port" &
started+=("$!")
until_true test -s "$scratch/port" || finish
serve
receiver=$url
serve --scrape "http://127.0.0.1:$(cat "$scratch/port")/good" --otlp "$receiver" --set push.interval_seconds=1 \
    --set push.spool=none
arrived() { curl -s "$receiver/metrics" >"$scratch/metrics" && grep -qE "^$1\{.*\} $2\$" "$scratch/metrics"; }
until_true arrived good_seconds_total 0.30000000000000004
until_true arrived good_requests_total 12345678901
serve --set ingest.enabled=false
point '"asInt":"5"' | answer '404 application/json' /v1/metrics "$is_json"
SONDE_TOKEN=correct-horse-battery serve
point '"asInt":"5"' | answer '401 application/json' /v1/metrics "$is_json"
point '"asInt":"5"' | answer '200 application/json' /v1/metrics "$is_json" 'Authorization: Bearer correct-horse-battery'
finish

#!/usr/bin/env bash
# Real Prometheus scrapes a real agent that reads a program with known data: as text, as
# OpenMetrics with exemplars, and, with native histograms on, as protobuf. Everything that
# Prometheus then answers is compared with what the program knows.
set -euo pipefail

: "${SONDE_BUILD:?set it to the build directory}"
for tool in prometheus promtool curl python3; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done

work=$(mktemp -d)
pids=()
cleanup() {
    status=$?
    [ $status -eq 0 ] || tail -n 30 "$work"/*.log >&2 || true
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# wait_for WHAT COMMAND…: until it succeeds, two minutes at most.
wait_for() {
    local what=$1 end=$((SECONDS + 120))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "gave up waiting for $what" >&2; exit 1; }
        sleep 0.2
    done
}

mkdir "$work/segments"
export SONDE_DIR=$work/segments
"$SONDE_BUILD/programs/known_hist" >"$work/truth" 2>"$work/known_hist.log" &
pids+=($!)
wait_for "the program" grep -qs '^ready$' "$work/truth"

agent=127.0.0.1:$(free_port)
"$SONDE_BUILD/sonde" serve --listen "$agent" --dir "$SONDE_DIR" >"$work/agent.log" 2>&1 &
pids+=($!)
wait_for "the agent" curl -sf -o /dev/null "http://$agent/readyz"
agent_has_all() { curl -sf "http://$agent/metrics" | grep -q '^known_seconds_count{.*} 100000$'; }
wait_for "the program's series" agent_has_all

# promtool says nothing about a good exposition.
for target in /metrics '/api/export?format=prometheus'; do
    curl -sf "http://$agent$target" >"$work/metrics.txt"
    if ! lint=$(promtool check metrics <"$work/metrics.txt" 2>&1) || [ -n "$lint" ]; then
        printf 'promtool check metrics on %s:\n%s\n' "$target" "$lint" >&2
        exit 1
    fi
done

# start_prometheus NAME FEATURES CONFIG; sets $NAME to its address.
start_prometheus() {
    local address
    address=127.0.0.1:$(free_port)
    printf '%s\n' "$3" >"$work/$1.yml"
    prometheus --config.file="$work/$1.yml" --storage.tsdb.path="$work/$1.data" \
        --web.listen-address="$address" --enable-feature="$2" >"$work/$1.log" 2>&1 &
    pids+=($!)
    printf -v "$1" %s "$address"
}

start_prometheus classic exemplar-storage "
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs:
  - job_name: text
    metrics_path: /api/export
    params: { format: [prometheus] }
    static_configs: [ { targets: ['$agent'] } ]
  - job_name: openmetrics
    static_configs: [ { targets: ['$agent'] } ]"
start_prometheus native native-histograms "
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs:
  - job_name: native
    static_configs: [ { targets: ['$agent'] } ]"

python3 - "$work/truth" "http://$agent" "http://$classic" "http://$native" <<'PYTHON'
import json, math, sys, time, urllib.parse, urllib.request

truth_file, agent, classic, native = sys.argv[1:]
quantiles, below, single = {}, {}, {}
for line in open(truth_file):
    word = line.split()
    if word[0] == "quantile": quantiles[word[1]] = float(word[2])
    elif word[0] == "below": below[float(word[1])] = int(word[2])
    elif len(word) == 2: single[word[0]] = word[1]

def get(url):
    with urllib.request.urlopen(url, timeout=30) as r:
        return json.load(r)

def query(base, expression):
    answer = get(base + "/api/v1/query?query=" + urllib.parse.quote(expression))
    return [(r["metric"], r["value"][1] if "value" in r else r["histogram"])
            for r in answer["data"]["result"]]

def number(base, expression):
    result = query(base, expression)
    return float(result[0][1]) if len(result) == 1 else math.nan

def until(what, check):
    """What check returns once it is true. A server that is not up yet is only a reason to wait."""
    end = time.monotonic() + 120
    while True:
        try:
            result = check()
        except OSError as e:
            result, what_last = None, e
        else:
            what_last = result
        if result: return result
        if time.monotonic() > end: sys.exit(f"never true: {what}; last: {what_last}")
        time.sleep(0.3)

def equal(what, got, expected, tolerance=0.0):
    if not abs(got - expected) <= tolerance * abs(expected):
        sys.exit(f"{what}: {got!r}, expected {expected!r} (tolerance {tolerance})")
    print(f"{what}: {got!r} = {expected!r}")

count, total = int(single["count"]), float(single["sum"])

for job in ("text", "openmetrics"):
    sel = f'{{job="{job}"}}'
    until(f"{job} is scraped", lambda: number(classic, f"known_seconds_count{sel}") == count)
    equal(f"{job}: up", number(classic, f"up{sel}"), 1)
    equal(f"{job}: sum", number(classic, f"known_seconds_sum{sel}"), total, 1e-12)
    labels, value = query(classic, f"known_requests_total{sel}")[0]
    equal(f"{job}: counter", float(value), 12345)
    assert labels["path"] == '/a"b\\c\nd\u00e4', labels
    buckets = {float(m["le"]): int(v) for m, v in query(classic, f"known_seconds_bucket{sel}")}
    for bound, n in below.items():
        equal(f"{job}: le {bound}", buckets[bound], n)
    equal(f"{job}: le +Inf", buckets[math.inf], count)
    metadata = get(classic + "/api/v1/metadata?metric=known_seconds")["data"]["known_seconds"]
    assert metadata[0]["type"] == "histogram" and metadata[0]["help"] == "Known values.", metadata

def exemplars():
    now = time.time()
    data = get(f"{classic}/api/v1/query_exemplars?query=known_seconds_bucket"
               f"&start={now - 3600}&end={now + 60}")["data"]
    return [e for s in data for e in s["exemplars"]
            if e["labels"].get("trace_id") == single["trace"]]
e = until("the exemplar arrives", exemplars)
print("exemplar:", e[0])

until("protobuf is scraped", lambda: number(native, "histogram_count(known_seconds)") == count)
equal("native: sum", number(native, "histogram_sum(known_seconds)"), total, 1e-12)
for q, value in quantiles.items():
    equal(f"native: quantile {q}", number(native, f"histogram_quantile({q}, known_seconds)"),
          value, 0.006)
equal("native: counter", number(native, "known_requests_total"), 12345)

# The clock counter grows by 1000 a second, whoever is asked.
def near(v): return abs(v - 1000) <= 50
for base, job in ((classic, "text"), (classic, "openmetrics"), (native, "native")):
    until(f"{job}: rate", lambda: near(number(base,
          f'rate(known_clock_total{{job="{job}"}}[20s])')))
def own_rate():
    series = get(agent + "/api/query?name=known_clock_total&window=20")["series"]
    return len(series) == 1 and near(series[0]["rate"] or 0)
until("the agent's own rate", own_rate)
PYTHON
echo "prometheus: ok"

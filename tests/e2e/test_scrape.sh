#!/usr/bin/env bash
# The agent scrapes real exporters (Prometheus itself, node_exporter) and ones that behave badly.
# What it says of the real ones is compared with what they say; the bad ones harm nobody.
. "$(dirname "$0")/common.sh"
for tool in prometheus promtool prometheus-node-exporter curl python3; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
work=$(mktemp -d)
pids=()
cleanup() {
    status=$?
    [ $status -eq 0 ] || tail -n 30 "$work"/*.log >&2 || true
    for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work" "$SONDE_DIR"
    exit $status
}
trap cleanup EXIT

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
here=$(dirname "$0")
python3 "$here/scrape_targets.py" >"$work/port" 2>"$work/targets.log" &
pids+=($!)
until_true test -s "$work/port"
bad=127.0.0.1:$(cat "$work/port")

prom=127.0.0.1:$(free_port)
printf 'global: { scrape_interval: 1h }\n' >"$work/prom.yml"
prometheus --config.file="$work/prom.yml" --storage.tsdb.path="$work/data" \
    --web.listen-address="$prom" >"$work/prometheus.log" 2>&1 &
pids+=($!)
node=127.0.0.1:$(free_port)
prometheus-node-exporter --web.listen-address="$node" --collector.disable-defaults --collector.uname \
    --collector.meminfo --collector.filesystem --collector.time --web.disable-exporter-metrics \
    >"$work/node.log" 2>&1 &
pids+=($!)
answers() { curl -sf -o /dev/null --max-time 5 "$1"; }
until_true answers "http://$prom/-/ready"
until_true answers "http://$node/metrics"
until_true answers "http://$bad/ready"

agent=127.0.0.1:$(free_port)
printf 'sesame-open-now-please\n' >"$work/token"
target() { # PATH [MORE KEYS]
    printf '{"url":"http://%s/%s","job":"%s"%s}' "$bad" "$1" "$1" "${2:-}"
}
# What makes the peer work: not all the time. Nobody else fails for being slow.
rarely=',"interval_seconds":60,"timeout_seconds":60'
cat >"$work/config.json" <<JSON
{ "scrape": { "interval_seconds": 1, "timeout_seconds": 30, "max_series": 5000, "max_megabytes": 8,
  "targets": [ {"url":"http://$prom","job":"prom","interval_seconds":0.5,"labels":{"site":"here"}},
    {"url":"http://$node/metrics","job":"node"},
    $(target good), $(target packed), $(target open), $(target cut), $(target garbage),
    $(target short), $(target error), $(target hang ',"timeout_seconds":1'), $(target flaky),
    $(target loop), $(target bomb "$rarely"), $(target many "$rarely"), $(target endless "$rarely"),
    $(target secret ",\"bearer_token_file\":\"$work/token\""),
    {"url":"http://127.0.0.1:1/metrics","job":"nobody"},
    {"url":"http://$agent/metrics","job":"self"} ] } }
JSON
"$SONDE_BUILD/sonde" serve --config "$work/config.json" --listen "$agent" --dir "$SONDE_DIR" \
    --store "$work/store.db" >"$work/agent.log" 2>&1 &
agent_pid=$!
pids+=("$agent_pid")
until_true answers "http://$agent/readyz"

python3 - "http://$agent" "http://$prom" "http://$node" "http://$bad" <<'PYTHON'
import json, math, re, sys, time, urllib.request
agent, prom, node, bad = sys.argv[1:]

def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as r:
        return r.read().decode()

def series(text):
    """name and labels (as a sorted tuple) to value."""
    out = {}
    for line in text.splitlines():
        if not line or line.startswith("#"): continue
        m = re.match(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$', line)
        assert m, line
        labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m[2] or "")
        key = (m[1], tuple(sorted(labels)))
        assert key not in out, f"twice: {line}"
        out[key] = float(m[3])
    return out

def until(what, check):
    end = time.monotonic() + 120
    while True:
        try: result = check()
        except OSError as e: result = None
        if result: return result
        if time.monotonic() > end: sys.exit(f"never true: {what}")
        time.sleep(0.2)

def of_job(job, name=None):
    found = {}
    for (n, labels), v in series(get(agent + "/metrics")).items():
        l = dict(labels)
        if l.get("job") == job and name in (None, n): found[(n, labels)] = v
    return found

def up(job):
    return [v for (_, labels), v in of_job(job, "up").items() if "exported_job" not in dict(labels)]

for job in ("prom", "node", "good", "packed", "open", "flaky", "many", "secret", "self"):
    until(f"{job} is up", lambda: up(job) == [1])
for job in ("cut", "garbage", "short", "error", "hang", "bomb", "loop", "endless", "nobody"):
    until(f"{job} is down", lambda: up(job) == [0])
    own = {n for n, _ in of_job(job)}
    assert own == {"up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_series_kept",
                   "scrape_samples_left_out"}, (job, own)

# Every number that does not move is the same, and every series is there with its labels.
def compare(base, job, extra, stable):
    def same():
        theirs, ours = series(get(base + "/metrics")), of_job(job)
        instance = base.split("//")[1]
        for (name, labels), value in theirs.items():
            key = (name, tuple(sorted(list(labels) + [("job", job), ("instance", instance)] + extra)))
            if key not in ours: return None
            if stable(name) and not (ours[key] == value or math.isnan(value)): return None
        return len(theirs)
    print(job, until(f"{job}: what it says", same), "series")
compare(prom, "prom", [("site", "here")],
        lambda n: re.match("prometheus_(build_info|config|sd_|rule|tsdb_(blocks|head_series|retention))", n))
compare(node, "node", [], lambda n: re.match("node_(uname_info|memory_(MemTotal|SwapTotal)_bytes|filesystem_(size|files))", n))

good = {(n, tuple(l for l in labels if l[0] not in ("instance", "job"))): v
        for (n, labels), v in of_job("good").items()}
assert good[("good_requests_total", (("exported_job", "theirs"), ("path", '/a\\\\b\\"c\\nd')))] == 12345678901
assert good[("good_seconds_total", ())] == 0.30000000000000004
assert math.isnan(good[("good_level", ())])
assert good[("good_untyped", ())] == 1.5e-300
assert good[("good_size_bucket", (("le", "1"),))] == 1 and good[("good_size_sum", ())] == 7.25
assert "# TYPE good_size histogram" in get(agent + "/metrics")
assert list(of_job("open", "open_total").values()) == [5]
assert list(of_job("many", "scrape_samples_scraped").values()) == [60000]
assert list(of_job("many", "scrape_series_kept").values()) == [5000]
assert list(of_job("many", "scrape_samples_left_out").values()) == [55000]

# What one agent scrapes of another, or of itself, is what is its own.
assert of_job("self", "sonde_agent_series") and not of_job("self", "good_level")
assert "good_level" in get(agent + "/metrics")
assert "good_level" not in get(agent + "/metrics", **{"X-Sonde-Scrape": "1"})

# The API and the store have them too.
answer = json.loads(get(agent + "/api/query?name=good_requests_total&label=job:good"))
assert answer["series"][0]["value"] == 12345678901, answer
def stored():
    r = json.loads(get(agent + f"/api/query?name=good_seconds_total&label=job:good&from={time.time() - 600:.0f}"))
    return r["series"] and r["series"][0]["points"]
until("the store has it", stored)

# A target that fails has no series; when it is back, it has.
def post(url): urllib.request.urlopen(urllib.request.Request(url, data=b"", method="POST"), timeout=30).read()
post(bad + "/flaky/0")
until("flaky is down", lambda: up("flaky") == [0] and len(of_job("flaky")) == 5)
post(bad + "/flaky/1")
until("flaky is back", lambda: up("flaky") == [1] and len(of_job("flaky")) > 5)
PYTHON

# promtool says nothing about a good exposition.
curl -sf "http://$agent/metrics?name=prometheus_*&name=node_*&name=go_*&name=up&name=scrape_*&name=sonde_*" \
    >"$work/metrics.txt"
if ! lint=$(promtool check metrics <"$work/metrics.txt" 2>&1); then
    # Names that others gave are not ours to find fault with.
    grep -vE '^(prometheus|node|go|process)_' <<<"$lint" | grep -q . &&
        complain "promtool check metrics:" "$lint"
fi
kill -TERM "$agent_pid"
wait "$agent_pid" || complain "the agent ended with status $?"
for job in garbage short endless; do
    grep -q "scrape of http://$bad/$job: " "$work/agent.log" || complain "nothing was said of $job"
done

# Mistakes are told.
"$SONDE_BUILD/sonde" serve --scrape ftp://x 2>"$work/err" && complain "ftp is taken"
grep -q 'target 1 to scrape: "ftp://x" is not a URL' "$work/err" || complain "$(cat "$work/err")"
finish

#!/usr/bin/env bash
# Reports of a time that nobody recorded, of a store and of a running agent: the same sections and the
# same figures as a recording of that time, in all formats; two halves add up to the whole; and what
# such a time cannot have is said.
. "$(dirname "$0")/common.sh"
export PATH=/usr/bin:$PATH PYTHONPATH=$SONDE_SOURCE/tests/cli PYTHONDONTWRITEBYTECODE=1
cd "$scratch" || exit
check() { /usr/bin/python3 - "$sonde" "${@:2}" || complain "$1"; }

# ---- A recording, and an agent that keeps a store meanwhile ---------------------------------------
start_agent log --store s.store --set agent.interval_seconds=0.2
status 0 "$sonde" record -q -o activity.run -- "$programs/activity" 2
status 0 "$sonde" record -q -o train.run -- "$SONDE_BUILD/example_train" 20
status 0 "$sonde" record -q -o engine.run -- "$SONDE_BUILD/example_engine"
for name in activity train engine; do status 0 "$sonde" report -o "$name.json" "$name.run"; done

# What has to be the same: everything that counts since the programs began.
cat >same.py <<'END'
import json, math, sys
from report_formats import *
def parts(r):
    """What does not depend on which agent looked when."""
    def plain(x):
        if isinstance(x, dict):
            return {k: plain(v) for k, v in x.items() if not k.endswith("_per_s") and k not in
                    ("share", "pid", "histories", "history", "utilizations", "samples_per_s", "start",
                     "duration_s", "latest", "memory_last_bytes", "memory_sum_bytes", "last_per_s")}
        if isinstance(x, list):
            return [plain(v) for v in x]
        return float(f"{x:.9g}") if isinstance(x, float) else x
    return {k: plain(r[k]) for k in ("operations", "operation_errors", "caches", "bandwidth", "ml") if k in r}
def join(reports):
    out = {}
    for r in reports:
        for k, v in parts(r).items():
            out[k] = out[k] + v if isinstance(v, list) and k in out else v
    for v in out.values():
        if isinstance(v, list): v.sort(key=lambda x: json.dumps(x, sort_keys=True))
    return out
END
same_figures() { # WHAT FILE
    check "$1" "$2" <<'END'
import sys
sys.path.insert(0, ".")
from same import *
valid(sys.argv[1], sys.argv[2])
r = json.load(open(sys.argv[2]))
wanted = join(json.load(open(f"{n}.json")) for n in ("activity", "train"))
got = join([r])
for k in wanted:
    assert got.get(k) == wanted[k], (k, got.get(k), wanted[k])
e, g = json.load(open("engine.json"))["inference"], r["inference"]
assert g["requests"] == e["requests"] and g["tokens_in"] == e["tokens_in"], (g, e)
for m in e["measures"] if "measures" in e else ():
    for k, v in e["measures"][m].items(): # two agents read the clock to a nanosecond
        assert v == g["measures"][m][k] or math.isclose(v, g["measures"][m][k], rel_tol=1e-6), (m, k, g["measures"][m])
assert [m["model"] for m in g["models"]] == [m["model"] for m in e["models"]], g["models"]
assert {"summary", "findings", "system", "spans", "ml", "operations", "inference", "notes"} <= set(r), set(r)
assert any(n.startswith("functions: ") for n in r["notes"]) and any(n.startswith("memory: ") for n in r["notes"])
END
}
all_there() {
    "$sonde" report -o all.json s.store && /usr/bin/python3 - <<'END'
import json
r = json.load(open("all.json"))
assert sum(o["count"] for o in r["operations"]) == sum(o["count"] for o in json.load(open("activity.json"))["operations"])
assert r["ml"]["training"][0]["steps"] == 20 * 56 and len(r["ml"]["training"][0]["epochs"]) == 20
assert r["inference"]["requests"] == json.load(open("engine.json"))["inference"]["requests"]
assert r["spans_total"]
END
}
until_true all_there
same_figures "of the store" all.json
status 0 "$sonde" report -o url.json --from -600 "$url"
same_figures "of the agent" url.json
status 0 curl -sf "$url/api/report?from=1" -o http.json
same_figures "/api/report" http.json
status 0 curl -sf "$url/api/profile?from=1" -o http.json
same_figures "/api/profile" http.json
same "backwards" 400 "$(curl -s -o out -w '%{http_code}' "$url/api/report?from=20&to=10")"

# ---- Halves ---------------------------------------------------------------------------------------
status 0 curl -sf "$url/api/report?from=1" -o whole.json
check "halves" "$url" <<'END'
import json, sys, urllib.request
url = sys.argv[2]
def get(a, b): return json.load(urllib.request.urlopen(f"{url}/api/report?from={a}&to={b}"))
whole = json.load(open("whole.json"))
a, b = whole["start"], whole["end"]
for cut in (0.3, 0.55):
    m = round(a + cut * (b - a), 3)
    x, y = get(a, m), get(m, b)
    def sums(r): return (sum(o["count"] for o in r.get("operations", [])),
                         sum(o["errors"] for o in r.get("operations", [])),
                         sum(c["hits"] for c in r.get("caches", [])),
                         sum(t["steps"] for t in (r.get("ml") or {}).get("training", [])),
                         sum(sum(i["requests"].values()) for i in [r["inference"]]) if "inference" in r else 0)
    s, t, w = sums(x), sums(y), sums(get(a, b))
    assert tuple(p + q for p, q in zip(s, t)) == w, (s, t, w)
END

# ---- All formats, and a part of a recording ----------------------------------------------------------
for format in txt md csv pdf prom html; do
    status 0 "$sonde" report --from -600 -o "url.$format" "$url"
    [ -s "url.$format" ] || complain "url.$format is empty"
done
has "text" '^Notes$' url.txt
has "training in text" '^Training$' url.txt
has "Markdown" '^- functions: ' url.md
has "CSV" '^notes,.*,functions,' url.csv
has "Prometheus" '^sonde_operation_duration_seconds_bucket' url.prom
same "PDF" '%PDF' "$(head -c 4 url.pdf)"
status 0 "$sonde" report --from 0 --to 1000 --json activity.run
lacks "all of a recording is not a part" '"notes"' out
status 0 "$sonde" report --from 0.5 activity.run
has "a part has no findings" 'findings: rules look at figures of all of a recording' out
status 0 "$sonde" report --from -600 -o store.html s.store
has "a store's HTML" 'sonde_operation_duration_seconds|reserve|"load"' store.html
status 1 "$sonde" flamegraph -o none.svg s.store
has "why there are no samples" 'no samples: .*--continuous' err
status 2 "$sonde" report --from 1000000000 --to 1000000100 s.store
has "nothing of that time" 'nothing was recorded in that time; there is a history from' err
status 2 "$sonde" report --from 1000000200 --to 1000000100 s.store
has "backwards" 'ends before it begins' err
finish

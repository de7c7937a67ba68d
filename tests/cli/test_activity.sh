#!/usr/bin/env bash
# Operations, errors, caches and bandwidth in `sonde report`, against what programs know of
# themselves; and `sonde correlate`, of a run, a store and an agent.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit

# ---- A program that says what it did ----------------------------------------------------------
status 0 "$sonde" record -q -o a.run -- "$programs/activity"
cp "$scratch/out" truth.txt
status 0 "$sonde" report --json a.run
python3 - "$scratch/out" >got.txt <<'END'
import json, sys
r = json.load(open(sys.argv[1]))
ops = {o["operation"]: o for o in r["operations"]}
errors = {e["type"]: e["count"] for e in r["operation_errors"]}
caches = {c["tier"]: c for c in r["caches"]}
bytes_of = {b["source"]: b for b in r["bandwidth"]}
print("load", ops["load"]["count"], ops["load"]["errors"], "save", ops["save"]["count"],
      ops["save"]["errors"], *(f"{t} {errors[t]}" for t in ("io", "parse", "timeout", "cancelled")),
      *(f"{t} {caches[t]['hits']}/{caches[t]['misses']}" for t in ("l1", "l2")),
      *(f"{s} {bytes_of[s]['in_bytes']:.0f}/{bytes_of[s]['out_bytes']:.0f}" for s in ("disk", "net")))
assert len(ops) == 2 and len(errors) == 4 and len(caches) == 2 and len(bytes_of) == 2
o = ops["load"]
assert o["outcomes"] == {"ok": 20, "error": 7, "timeout": 1}, o
assert caches["l1"]["hit_ratio"] == 0.75 and caches["l2"]["hit_ratio"] == 0
assert 0.00099 <= o["p50_s"] <= o["p95_s"] <= o["p99_s"] <= o["max_s"] <= o["seconds"], o
assert abs(o["mean_s"] * 28 - o["seconds"]) < 1e-9
assert 0.02 <= 28 / o["rate_per_s"] < 60, o
END
same "figures of the program and of its report" "$(cat truth.txt)" "$(cat got.txt)"
status 0 "$sonde" report a.run
has "operations" '^load +28 +[0-9.]+ +8 +28\.6 %' "$scratch/out"
has "errors" '^load +io +5 ' "$scratch/out"
has "caches" '^l1 +1000 .*750 +250 +75\.0 %' "$scratch/out"
has "bandwidth" '^disk +1\.00 MiB ' "$scratch/out"
status 0 "$sonde" report --markdown a.run
has "a heading" '^## Caches' "$scratch/out"

# One that records none of these has no such parts.
status 0 "$sonde" record -q -o none.run -- "$SONDE_BUILD/example_hello"
status 0 "$sonde" report none.run
lacks "empty parts" '^(Operations|Errors by type|Caches|Bandwidth)' "$scratch/out"

# ---- The shop ---------------------------------------------------------------------------------
# An agent and a recording at once: three seconds of load by chance.
"$sonde" serve --listen 127.0.0.1:0 --set agent.interval_seconds=0.2 --store s.store >serve.txt 2>&1 &
agent=$!
started+=("$agent")
until_true grep -q 'http://127' serve.txt
url=$(grep -oE 'http://127[0-9.:]+' serve.txt | head -1)
"$programs/activity" 14 >/dev/null &
started+=($!)
status 0 "$sonde" record -q -o shop.run -- "$SONDE_BUILD/example_shop" --seconds 2
cp "$scratch/out" shop.txt
status 0 "$sonde" report --json shop.run
python3 - "$scratch/out" shop.txt <<'END' || complain "the shop's figures do not agree"
import json, re, sys
r = json.load(open(sys.argv[1]))
answered, failed = map(int, re.match(r"shop: (\d+) requests answered, (\d+)", open(sys.argv[2]).read()).groups())
caches = {c["tier"]: c for c in r["caches"]}
look_ups = lambda c: c["hits"] + c["misses"]
# What one's own cache does not have is looked up in the shared one.
assert caches["worker"]["misses"] == look_ups(caches["shared"]), caches
stock = {e["type"]: e["count"] for e in r.get("operation_errors", [])}.get("out_of_stock", 0)
op = next(o for o in r["operations"] if o["operation"] == "reserve stock")
assert op["errors"] == stock <= failed and op["count"] + look_ups(caches["worker"]) <= answered
spans = {s["name"]: s for s in r["spans"]}
assert spans["reserve stock"]["count"] == op["count"], (spans, op)
assert spans["load product"]["count"] == caches["shared"]["misses"]
END

# ---- Correlation ------------------------------------------------------------------------------
# The queue is as long as requests are many; a gauge of noise is beside it.
status 0 "$sonde" record -q -o c.run --set agent.interval_seconds=0.2 -- "$programs/activity" 12
status 0 "$sonde" correlate --with 'activity*' c.run
has "the target" '^activity_requests_total of activity [0-9]+, per second' "$scratch/out"
has "the queue" '^activity_queue_depth of activity [0-9]+ +correlated ' "$scratch/out"
status 0 "$sonde" correlate --format json --with '*queue*' c.run
python3 - "$scratch/out" <<'END' || complain "correlate --format json"
import json, sys
r = json.load(open(sys.argv[1]))
rows = {c["series"]["name"]: c for c in r["correlations"]}
assert len(rows) == r["pairs"] == 2, r
assert rows["activity_queue_depth"]["verdict"] == "correlated"
assert rows["activity_queue_depth"]["level"]["pearson"] > 0.3
assert 0.15 < r["step_s"] < 0.4 and r["points"] >= 30
END
status 2 "$sonde" correlate --target none c.run
has "no such target" "matches the target 'none'" "$scratch/err"
status 2 "$sonde" correlate
printf 'main;f 1\n' >x.folded
status 2 "$sonde" correlate x.folded
has "no series" 'has no series over time' "$scratch/err"
status 0 "$sonde" correlate a.run --target 'sonde_cache*'
has "too little" 'not known, at least 30 values in a row are needed' "$scratch/out"

# Of an agent: the same, at steps of a second; too short a time to know anything.
status 0 "$sonde" correlate --json --target activity_requests_total "$url"
has "from the agent" '"name":"activity_requests_total"' "$scratch/out"
status 0 "$sonde" correlate --target activity_requests_total "$url"
has "as text" '^activity_requests_total of activity' "$scratch/out"
status 2 "$sonde" correlate --from 5 "$url"
has "when" 'say -SECONDS ago' "$scratch/err"
status 1 "$sonde" correlate --target none "$url"
has "not there" "status 404: .*matches the target 'none'" "$scratch/err"
kill "$agent"
wait "$agent" 2>/dev/null
status 0 "$sonde" correlate --json --target activity_requests_total --from -30 s.store
has "from the store" '"name":"activity_requests_total"' "$scratch/out"
status 2 "$sonde" correlate --from -10 --to -20 s.store
has "order" 'from is not before --to' "$scratch/err"
finish

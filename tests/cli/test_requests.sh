#!/usr/bin/env bash
# What is shown of inference requests, live and of a recording, is what the engine measured itself.
. "$(dirname "$0")/common.sh"
engine=$SONDE_BUILD/example_engine

# truth FILE ID KEY: what the engine printed of one request
truth() { awk -v id="$2" -v key="$3" '$1 == id { for (i = 2; i <= NF; i++) { split($i, kv, "="); if (kv[1] == key) print kv[2] } }' "$1"; }

# compare JSON TRUTH WHAT: every request of a list against the engine's own figures. Between the
# engine's clock and the event there may be a time slice of another process: seldom, so of the
# differences of times the median is small, and each is less than a second.
compare() {
    python3 - "$1" "$2" <<'PY' || complain "$3: requests are not what the engine measured"
import json, sys
shown = {r["own_id"]: r for r in json.load(open(sys.argv[1]))["requests"]}
bad, apart = 0, {}
for line in open(sys.argv[2]):
    words = line.split()
    t = dict(w.split("=") for w in words[1:])
    r = shown.pop(words[0], None)
    if r is None:
        print("not shown:", words[0]); bad += 1; continue
    exact = {"outcome": t["outcome"], "tokens_in": int(t["prompt"]), "tokens_reused": int(t["reused"]),
             "tokens_out": int(t["tokens"])}
    for key, value in exact.items():
        if r[key] != value: print(words[0], key, r[key], "is not", value); bad += 1
    times = {"total_s": (r["total_s"], int(t["total_ns"]))}
    if int(t["tokens"]) > 0: times["ttft_s"] = (r["ttft_s"], int(t["ttft_ns"]))
    if int(t["tokens"]) > 1: times["itl"] = (r["itl"]["mean_s"], int(t["itl_ns"]))
    for key, (value, ns) in times.items():
        apart.setdefault(key, []).append(abs(value - ns * 1e-9))
    parts = sum(p["seconds"] for p in r["phases"].values())
    if parts > r["total_s"] * 1.01 + 1e-3: print(words[0], "phases take", parts); bad += 1
    tokens = sum(i["tokens"] for i in r["timeline"] or [] if i["name"] == "tokens")
    if r["timeline"] and tokens != int(t["tokens"]): print(words[0], tokens, "tokens in its timeline"); bad += 1
for key, differences in apart.items():
    differences.sort()
    if differences[len(differences) // 2] > 0.005 or differences[-1] > 1:
        print(key, "is apart by", differences); bad += 1
if shown: print("unknown to the engine:", sorted(shown)); bad += 1
sys.exit(bad > 0)
PY
}

# ---- Bad use ----------------------------------------------------------------------------------

status 1 "$sonde" requests http://127.0.0.1:1
has "no agent there" 'http://127.0.0.1:1' "$scratch/err"
status 1 env SONDE_SERVER_LISTEN=127.0.0.1:1 "$sonde" requests
has "no agent by default" 'start an agent there with `sonde serve` or `sonde run`; or name a FILE' "$scratch/err"
status 1 env SONDE_SERVER_LISTEN=127.0.0.1:1 "$sonde" requests servr.run
has "neither a file nor a request" "there is no file 'servr.run', so the agent was asked" "$scratch/err"
status 2 "$sonde" requests "$scratch/none.run"
has "no such file" 'none.run' "$scratch/err"
status 2 "$sonde" requests --sort fastest "$scratch/none.run"
has "sorts" 'slowest\|newest' "$scratch/err"
status 1 "$sonde" requests -d 0.1 $$
has "a process that tells of nothing" "process $$ tells of nothing" "$scratch/err"

# ---- A recording --------------------------------------------------------------------------------

status 0 "$sonde" record -q --set inference.slo_ttft_ms=10000 -o "$scratch/engine.run" -- "$engine" \
    --clients 4 --requests 6 --tokens 12 --truth
cp "$scratch/out" "$scratch/truth"
same "requests" 24 "$(wc -l <"$scratch/truth")"
"$sonde" requests --json -n 1000 "$scratch/engine.run" >"$scratch/json" || complain "no JSON"
compare "$scratch/json" "$scratch/truth" "the run file"
status 0 "$sonde" requests -w 80 -n 5 "$scratch/engine.run"
has "titles" '^REQUEST +OUTCOME +TOTAL +TTFT +ITL +TOK/S' "$scratch/out"
has "a bar" '^job-[0-9]+ .*[·█┼─]{6}' "$scratch/out"
has "cut" '^5 of 24; more with --limit' "$scratch/out"
[ "$(wc -L <"$scratch/out")" -le 80 ] || complain "wider than 80 columns"
lacks "no colour in a file" $'\033' "$scratch/out"
status 0 "$sonde" requests --outcome cancelled "$scratch/engine.run"
same "cancelled" "$(grep -c 'outcome=cancelled' "$scratch/truth")" "$(grep -c '^job-' "$scratch/out")"
status 0 "$sonde" requests --model 'no*' "$scratch/engine.run"
has "none" 'sonde requests: none' "$scratch/err"
status 0 "$sonde" requests "$scratch/engine.run" job-3
has "one request" "^output +$(truth "$scratch/truth" job-3 tokens) tokens" "$scratch/out"
has "its phases" '^prefill +[0-9.]+ ' "$scratch/out"
has "its attributes" '^attributes +temperature=0.7' "$scratch/out"
trace=$(python3 -c '
import json, sys, uuid
for r in json.load(open(sys.argv[1]))["requests"]:
    if r["own_id"] == "job-3": print(uuid.UUID(r["trace_id"]))' "$scratch/json")
for id in "$trace" "${trace//-/}"; do
    status 0 "$sonde" requests "$scratch/engine.run" "$id"
    has "by trace id $id" '^job-3$' "$scratch/out"
    status 0 "$sonde" report --request "$id" "$scratch/engine.run"
done
status 1 "$sonde" requests "$scratch/engine.run" job-99
has "no such request" "no request 'job-99'" "$scratch/err"

status 0 "$sonde" report "$scratch/engine.run"
has "report" "^  requests   24: $(grep -c outcome=ok "$scratch/truth") ok" "$scratch/out"
has "goodput" 'met all objectives: first token within 10.0 s' "$scratch/out"
has "models" '^tiny-llama on cpu +weights 512 MiB, kv 64.0 MiB, compute 24.0 MiB' "$scratch/out"
has "slowest" '^Slowest requests' "$scratch/out"
status 0 "$sonde" report --json "$scratch/engine.run"
same "report as JSON" 24 "$(python3 -c 'import json,sys; print(json.load(sys.stdin)["inference"]["requests_total"])' <"$scratch/out")"

status 0 "$sonde" export --format chrome -o "$scratch/trace.json" "$scratch/engine.run"
same "tracks of requests" 24 "$(python3 - "$scratch/trace.json" <<'PY'
import json, sys
open_, begun = {}, set()
for e in json.load(open(sys.argv[1]))["traceEvents"]:
    if e.get("cat") != "request": continue
    stack = open_.setdefault(e["id"], [])
    if e["ph"] == "b":
        if not stack and "-" not in e["id"]: begun.add(e["id"])
        stack.append(e["name"])
    elif e["ph"] == "e": assert stack.pop() == e["name"], e
assert not any(open_.values())
print(len(begun))
PY
)"

# ---- Live ---------------------------------------------------------------------------------------

"$sonde" run --listen 127.0.0.1:0 --keep 60 -v -- "$engine" --clients 4 --requests 6 --tokens 12 \
    --truth >"$scratch/truth" 2>"$scratch/err" &
started+=($!)
until_line 'serving http' "$scratch/err"
url=$(url_in "$scratch/err")
until_line '24 inference requests' "$scratch/err"
curl -sf "$url/api/requests?limit=1000" >"$scratch/json" || complain "no answer"
compare "$scratch/json" "$scratch/truth" "HTTP"
status 0 "$sonde" requests --json -n 1000 "$url"
compare "$scratch/out" "$scratch/truth" "sonde requests URL"
status 0 "$sonde" requests -w 100 "$url" job-3
has "one request by URL" '^job-3$' "$scratch/out"
for bad in sort=x state=x outcome=x source=x limit=x pid=x min_ms=x nonsense=1; do
    same "400 for $bad" 400 "$(curl -s -o "$scratch/answer" -w '%{http_code}' "$url/api/requests?$bad")"
    has "it names it" "${bad%=*}" "$scratch/answer"
done
same "404" 404 "$(curl -s -o /dev/null -w '%{http_code}' "$url/api/requests/job-99")"
same "400 for a window" 400 "$(curl -s -o /dev/null -w '%{http_code}' "$url/api/inference?window=x")"
curl -sf "$url/api/inference" >"$scratch/inference" || complain "no answer about inference"
python3 - "$scratch/inference" "$scratch/truth" <<'PY' || complain "/api/inference is not what the engine measured"
import json, sys
x = json.load(open(sys.argv[1]))
truth = [dict(w.split("=") for w in line.split()[1:]) for line in open(sys.argv[2])]
t, g, m = x["totals"], x["groups"][0], x["models"][0]
assert t["requests"]["ok"] == sum(r["outcome"] == "ok" for r in truth)
assert t["tokens_out"] == sum(int(r["tokens"]) for r in truth) == g["tokens_out"]
assert t["tokens_reused"] == sum(int(r["reused"]) for r in truth)
assert g["ttft"]["count"] == sum(int(r["tokens"]) > 0 for r in truth)
worst = max(int(r["ttft_ns"]) for r in truth) * 1e-9
assert abs(g["ttft"]["max"] - worst) < 1 + worst * 0.01, (g["ttft"], worst)
assert m["memory"]["weights"]["bytes"] == 536870912 and m["running"] == 0
assert m["kv"]["total"] == 65536
PY
same "reset" 200 "$(curl -s -o /dev/null -X POST -w '%{http_code}' "$url/api/inference/reset")"
same "totals anew" 0 "$(curl -s "$url/api/inference" | python3 -c 'import json,sys; print(json.load(sys.stdin)["totals"]["requests"]["ok"])')"
status 0 "$sonde" top --once --page inference -w 120 "$url"
has "the page" '^tiny-llama on cpu · KV ' "$scratch/out"
has "its list" '^job-[0-9]+ .*[·█┼─]{6}' "$scratch/out"
has "a screenful of it" '^20 of [0-9]+ requests' "$scratch/out"
same "no more than it says" 20 "$(grep -c '^job-' "$scratch/out")"

# ---- A process -----------------------------------------------------------------------------------

"$engine" --clients 4 --requests 100000 >/dev/null 2>&1 &
started+=($!)
pid=$!
until_true test -n "$(ls "$SONDE_DIR")"
some() { "$sonde" requests -q -d 1 "$pid" >"$scratch/out" && grep -q '^job-' "$scratch/out"; }
until_true some
finish

#!/usr/bin/env bash
# Profiles that are taken all the time: turned on as one would by curl, kept in a store, asked for as
# pictures and files of any time, in bursts, over restarts and kill -9, within a limit.
. "$(dirname "$0")/../cli/common.sh"

store=$scratch/history.db
body=$scratch/body

serve() { # OPTIONS…
    start_agent "$scratch/log" --no-host --store "$store" --set continuous.flush_seconds=0.5 "$@"
}

# post STATUS BODY: to the route; the answer is in $body
post() {
    local got
    got=$(curl -s -o "$body" -w '%{http_code}' -X POST "$url/admin/profile/continuous" --data "$2")
    [ "$got" = "$1" ] || complain "POST $2: wanted $1, got $got: $(cat "$body")"
}

# value EXPRESSION: of JSON on stdin, as x
value() { python3 -c 'import json, sys; x = json.load(sys.stdin); print('"$1"')'; }
state() { curl -s "$url/admin/profile/continuous" | value "$1"; }
# holds EXPRESSION: of the state
holds() { [ "$(state "$1" 2>/dev/null)" = True ]; }
samples() { # of the program, that the history has
    curl -s "$url/api/profiles?process=burn" | value 'sum(p["samples"] for p in x["parts"])'
}
more_than() { [ "$(samples 2>/dev/null || echo 0)" -gt "$1" ]; }
in_file() { # the same, from the store itself
    "$sonde" export --format folded "$store" 2>/dev/null | awk '{ n += $NF } END { print n + 0 }'
}

"$programs/burn" --seconds 3600 --spans --threads 1 >/dev/null 2>&1 &
started+=($!)

# ---- On, as the example has it ---------------------------------------------------------------------
serve
found() { curl -s "$url/api/processes" | grep -q burn; }
until_true found || finish
same "off at first" False "$(state 'x["enabled"]')"
curl -s -X POST "$url/admin/profile/continuous" \
  --data '{
    "enabled": true,
    "interval_seconds": 300,
    "cpu": true,
    "memory": true,
    "gpu": true
  }' >"$body"
same "what is in effect" "True 300 1" \
    "$(value 'x["enabled"], x["interval_seconds"], x["duty"]' <"$body" | tr -d '(),')"
has "no GPU, and why" '"gpu":\{"wanted":true,"active":false,"reason":"[^"]+"' "$body"
has "no heap, and why" '"memory":\{"wanted":true,"active":false,"reason":"[^"]*sonde run' "$body"

sampled() { holds 'x["cpu"]["processes"] == 1' || holds 'bool(x["cpu"]["note"])'; }
until_true sampled || finish
if ! holds 'x["cpu"]["active"]'; then
    echo "nothing may be sampled here: $(state 'x["cpu"]["reason"]')"
    exit 0
fi
until_true more_than 20 || finish

# ---- Asked for --------------------------------------------------------------------------------------
profile() { curl -sf "$url/api/profile?$1" -o "$2" || complain "GET /api/profile?$1"; }
now=$(date +%s)
profile "from=$((now - 3600))&to=$((now + 60))&process=burn&format=svg" "$scratch/a.svg"
has "a flame graph" '<svg' "$scratch/a.svg"
has "with what the program does" 'alpha' "$scratch/a.svg"
profile "format=folded" "$scratch/a.folded"
has "stacks" '^.*;alpha.* [0-9]+$' "$scratch/a.folded"
profile "format=run&type=cpu" "$scratch/a.run"
status 0 "$sonde" report "$scratch/a.run"
has "a report of it" 'alpha' "$scratch/out"
profile "" "$scratch/a.json"
value 'x' <"$scratch/a.json" >/dev/null || complain "the report is no JSON"
same "no such time" 404 \
    "$(curl -s -o "$body" -w '%{http_code}' "$url/api/profile?from=1000000000&to=1000000060")"
has "it says what there is" 'history from' "$body"
same "what took most" True \
    "$(curl -s "$url/api/profiles?limit=1" | value 'x["parts"][0]["top"]["ratio"] > 0.1')"
status 0 "$sonde" flamegraph --from -3600 "$url" -o "$scratch/b.svg"
has "from an agent's history" 'alpha' "$scratch/b.svg"
status 0 "$sonde" flamegraph --from -3600 "$store" -o "$scratch/c.html"
status 0 "$sonde" report "$store"
has "from the store" 'alpha' "$scratch/out"
status 2 "$sonde" report --to 1000000000 "$store"

# ---- Bursts, and what is not allowed --------------------------------------------------------------
post 200 '{"burst_seconds": 3600, "rate_hz": 997}'
until_true holds 'x["cpu"]["rate_hz"] == 997'
same "a burst" "True 997" "$(state 'x["burst"]["active"], x["burst"]["rate_hz"]' | tr -d '(),')"
post 200 '{"burst_seconds": 1, "rate_hz": 499}'
until_true holds 'not x["burst"]["active"] and x["cpu"]["rate_hz"] == 19'
post 400 '{"rate_hz": 0}'
has "it is named" 'rate_hz' "$body"
post 400 '{"intervall_seconds": 3}'
has "and what is meant" 'interval_seconds' "$body"
post 400 'nonsense'
post 400 '{"duration_seconds": 301}'
post 200 '{"interval_seconds": 2, "duration_seconds": 1}'
same "half of the time" 0.5 "$(state 'x["duty"]')"
more=$(samples)
until_true more_than "$more"
until_true holds 'x["cpu"]["active"] == False'
post 200 '{"duration_seconds": 0}'
until_true holds 'x["overhead"]["agent_cpu_ratio"] > 0'
curl -s "$url/metrics" >"$scratch/metrics"
for name in enabled samples_total writes_total agent_cpu_seconds_total agent_cpu_ratio; do
    has "metrics" "^sonde_continuous_$name [0-9.e-]+" "$scratch/metrics"
done

# ---- Killed, and started again ---------------------------------------------------------------------
before=$(samples)
kill -KILL "$agent"
wait "$agent" 2>/dev/null
[ "$(in_file)" -ge "$before" ] || complain "$(in_file) of $before samples survived kill -9"
serve --continuous=29
same "on from the start" "True 29" "$(state 'x["enabled"], x["rate_hz"]' | tr -d '(),')"
until_true more_than "$before"
post 200 '{"enabled": false}'
until_true holds 'x["cpu"]["active"] == False'
last=$(samples)
kill -TERM "$agent"
wait "$agent"
same "it ends in order" 0 $?
[ "$(in_file)" -ge "$last" ] || complain "$(in_file) of $last samples survived the end"

# ---- Within a limit --------------------------------------------------------------------------------
# Three megabytes of minutes long ago, of which one may stay.
python3 - "$store" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
row = db.execute("SELECT * FROM profiles WHERE kind = 'continuous' ORDER BY bytes DESC").fetchone()
names = [c[1] for c in db.execute("PRAGMA table_info(profiles)")]
for i in range(1, 3 * 2**20 // row[names.index("bytes")] + 2):
    copy = dict(zip(names, row))
    copy["id"] = None
    copy["start_ms"] -= 60000 * i
    copy["end_ms"] -= 60000 * i
    db.execute(f"INSERT INTO profiles VALUES({','.join('?' * len(names))})", list(copy.values()))
db.commit()
PY
serve --continuous --set continuous.keep_minutes=100000 --set continuous.max_megabytes=1
until_true holds 'x["history"]["bytes"] <= 2**20 and x["history"]["deleted"] > 0'
kill -TERM "$agent"
wait "$agent"

# ---- With a program of its own, and its heap -------------------------------------------------------
status 0 "$sonde" run --no-http --store "$scratch/run.db" --continuous --set continuous.interval_seconds=1 \
    --set continuous.flush_seconds=0.5 -- python3 -c '
import time
end, kept = time.time() + 4, []
while time.time() < end:
    kept.append(bytearray(1 << 20))
    if len(kept) > 32: kept.clear()
    sum(range(20000))'
status 0 "$sonde" report "$scratch/run.db"
if status 0 "$sonde" report --type live "$scratch/run.db"; then has "memory" 'MiB|MB' "$scratch/out"; fi
status 0 "$sonde" report --type alloc "$scratch/run.db"

# ---- Without a store: in memory -------------------------------------------------------------------
start_agent "$scratch/log" --no-host --continuous --set continuous.flush_seconds=0.5
has "it says so" 'in memory.*--store' "$scratch/log"
same "it says so here too" memory "$(state 'x["history"]["kept_in"]')"
until_true more_than 5
profile "format=folded" "$scratch/d.folded"
has "stacks from memory" ';burn;' "$scratch/d.folded"
status 2 "$sonde" serve --continuous=fast --store "$scratch/run.db" --listen 127.0.0.1:0
finish

#!/usr/bin/env bash
# What sonde costs a program, measured while it runs: a program that loses a planted share of its
# time exactly while it is sampled; what is said of it everywhere; that profiles stay right; and
# that nothing is switched where that is not wanted. How often the interval holds the truth is
# counted by perf/own_cost.py and tests/unit/agent/test_own_cost.c: here bounds are wide.
. "$(dirname "$0")/../cli/common.sh"
patience=120
flag=$scratch/flag

value() { python3 -c 'import json, sys; x = json.load(sys.stdin); print('"$1"')'; }
cost() { curl -s "$url/api/cost" | value "$1"; }
# measured PAIRS: there is an interval of so many pairs at least
measured() {
    [ "$(cost "x.get('method') == 'comparison' and x['pairs'] >= $1" 2>/dev/null)" = True ]
}

# run_planted SHARE OPTIONS…: `sonde run` of a program that loses so much; $agent, $url
run_planted() {
    local share=$1
    shift
    echo 1 >"$flag"
    : >"$scratch/log"
    SONDE_OWN_COST_FLAG=$flag "$sonde" run -v --listen 127.0.0.1:0 --no-heap --no-inference -F 49 \
        --log "$scratch/log" --set agent.interval_seconds=0.05 --set cost.window_seconds=0.1 \
        --set cost.off_percent=33 --set agent.host_metrics=false "$@" -- \
        "$programs/planted_cost" "$flag" "$share" 600 >/dev/null 2>&1 &
    agent=$!
    started+=("$agent")
    until_line 'http://' "$scratch/log" || finish
    url=$(url_in "$scratch/log")
}
stop_planted() {
    kill -TERM "$agent" 2>/dev/null
    wait "$agent" 2>/dev/null
}

# ---- A large share is found, and stands beside everything ------------------------------------
run_planted 0.4 --record "$scratch/a.run"
sampled() { curl -s "$url/admin/profile/continuous" | value 'x["cpu"]["active"]' | grep -q True; }
until_true sampled || finish
before=$(cost 'x["text"]')
[[ $before == *"not known yet"* || $before == *"costs this program"* ]] ||
    complain "before there are enough: $before"
until_true measured 14 || { curl -s "$url/api/cost" >&2; finish; }
curl -s "$url/api/cost" >"$scratch/cost"
same "the cost is about what was planted" True \
    "$(value '0.25 < x["ratio"] < 0.55 and x["low"] > 0.05 and x["high"] < 0.9' <"$scratch/cost")"
same "of which work" "planted_jobs_total" "$(value 'x["work"]' <"$scratch/cost")"
same "all of it" True "$(value 'x["enabled"] and x["covers"] == "cpu_sampling" and
    x["confidence"] == 0.95 and x["pairs_more"] == 0 and x["reason"] is None and
    x["off_seconds"] > 0 and 0 < x["off_ratio"] < 0.5 and x["rate_hz"] == 49 and
    x["measures"][0]["ratio"] == x["ratio"]' <"$scratch/cost")"
has "in words" \
    'sonde costs this program [0-9.]+ ± [0-9.]+ % \(.* planted_jobs_total; [0-9]+ pairs' \
    "$scratch/cost"
curl -s "$url/metrics" >"$scratch/metrics"
for name in sonde_cost_ratio sonde_cost_low_ratio sonde_cost_high_ratio; do
    has "a metric" "^$name\{measure=\"[a-z_]+\",work=\"planted_jobs_total\"\} 0\.[0-9]+" \
        "$scratch/metrics"
done
has "how many pairs" '^sonde_cost_pairs_total [1-9]' "$scratch/metrics"
has "and how long it was off" '^sonde_cost_off_seconds_total [0-9.]+' "$scratch/metrics"

# A profile that is asked for has every sample, and the cost stands in it.
curl -s -X POST "$url/admin/profile/start" --data '{"name": "s"}' >/dev/null
sleep 1
curl -s -X POST "$url/admin/profile/stop" --data '{"name": "s"}' >/dev/null
curl -s "$url/admin/profiles/s" >"$scratch/session"
has "a session's" '"own_cost":\{"text":"sonde costs this program' "$scratch/session"
history() { curl -s "$url/api/profile?process=planted_cost" | value 'x["own_cost"]["pairs"]'; }
until_true history
status 0 "$sonde" top --once "$url"
has "top" 'sonde costs [0-9.]+ ± [0-9.]+ %' "$scratch/out"

# ---- The run file has it, and its weights are those of the CPU time that was used ------------
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
child=$(pgrep -P "$agent" planted_cost)
used=$(ticks "$child")
stop_planted
has "the summary" 'sonde costs this program' "$scratch/log"
status 0 "$sonde" report "$scratch/a.run"
has "the report" 'own cost +sonde costs this program [0-9.]+ ± [0-9.]+ %' "$scratch/out"
has "how long nothing was sampled" 'not sampled +[0-9.]+ s' "$scratch/out"
status 0 "$sonde" report --json "$scratch/a.run"
weight=$(value 'x["weight"] / 1e9' <"$scratch/out")
same "weights of all ($used ticks, $weight s)" True \
    "$(python3 -c "u = $used / $(getconf CLK_TCK); print(0.8 * u < $weight < 1.2 * u + 1)")"
same "the cost of a run" True "$(value 'x["own_cost"]["method"] == "comparison" and
    x["own_cost"]["low"] < x["own_cost"]["ratio"] < x["own_cost"]["high"] and
    x["unsampled_seconds"] > 0' <"$scratch/out")"

# ---- Off is off ------------------------------------------------------------------------------
run_planted 0.4 --set cost.enabled=false
until_true sampled || finish
sleep 2
same "off" "False" "$(cost 'x["enabled"]')"
same "it was never switched" 1 "$(head -c 1 "$flag")"
curl -s "$url/metrics" >"$scratch/metrics"
lacks "no metrics" '^sonde_cost_' "$scratch/metrics"
stop_planted

# ---- What cannot be switched is said ---------------------------------------------------------
run_planted 0 --engine timer
refused() { cost 'x["reason"]' | grep -q 'timer engine samples inside the process'; }
until_true refused
same "it was not switched" 1 "$(head -c 1 "$flag")"
stop_planted

# ---- A program that counts nothing -----------------------------------------------------------
: >"$scratch/log"
"$sonde" run -v --listen 127.0.0.1:0 --no-heap --log "$scratch/log" \
    --set agent.interval_seconds=0.05 --set cost.window_seconds=0.1 -- \
    bash -c 'while :; do :; done' >/dev/null 2>&1 &
agent=$!
started+=("$agent")
until_line 'http://' "$scratch/log" || finish
url=$(url_in "$scratch/log")
nothing() { cost 'x["reason"]' | grep -q 'counts nothing that could be compared'; }
until_true nothing
estimated() { [ "$(cost "x['method']" 2>/dev/null)" = estimate ]; }
until_true estimated
same "an estimate has no interval" True "$(cost 'x["ratio"] > 0 and x["low"] is None and
    x["pairs"] == 0 and "an estimate" in x["text"]')"
stop_planted

# ---- Settings --------------------------------------------------------------------------------
status 2 "$sonde" run --set cost.off_percent=50 -- true
has "what is allowed" 'cost.off_percent' "$scratch/err"
status 2 "$sonde" run --set cost.window_seconds=0 -- true
finish

#!/usr/bin/env bash
# Profiling by curl, as its users write it: profiles on demand, one request, sessions before and after
# a change, of an example server, through the front on one port.
. "$(dirname "$0")/session_api.sh"

"$sonde" run -q --listen 127.0.0.1:0 --log run.log -- "$programs/http_engine" >port 2>engine.err &
started+=($!)
run=$!
until_true test -s port
engine=http://127.0.0.1:$(cat port)

serve front --upstream "$engine" --store store.db
until_true eval 'curl -s "$at/api/processes" | grep -q http_engine'

# benchmark REQUESTS MILLISECONDS: what each computes
benchmark() {
    curl -sS --max-time 300 -o /dev/null -X POST -H 'Content-Type: application/json' \
        -d '{"model": "burner", "messages": [{"role": "user", "content": "Hello"}]}' \
        "$at/v1/chat/completions?work=1&ms=$2&mb=1&n=[1-$1]" 2>benchmark.err ||
        complain "benchmark: $(cat benchmark.err)"
}
busy() { while :; do benchmark 5 20; done; }

# Collect profiles
busy &
started+=($!)
load=$!
# CPU profile
api 200 -X POST "$at/admin/profile/cpu?duration=1"
holds "CPU" "r['profile_id'].startswith('prof_') and r['cpu']['total_samples'] > 0 and r['id'] > 0"
holds "where" "any(f['name'] == 'work_1' and f['percent'] > 20 for f in r['cpu']['top_functions'])"
# Memory snapshot
api 200 -X POST "$at/admin/profile/memory"
holds "memory" "r['memory'] and r['id'] > 0"
# Generate flame graph
curl -s -X POST "$at/admin/profile/flamegraph" \
  -o flamegraph.svg
has "flame graph" 'on-demand-cpu' flamegraph.svg
has "flame graph" 'work_1' flamegraph.svg
# Get bottleneck report
api 200 "$at/admin/profile/bottlenecks?duration=1"
holds "bottlenecks" "r['bottlenecks'] or 'fewer than' in r['note']"
# Enough samples to be sure take as long as they take, beside others on a busy machine.
found() { curl -s "$at/admin/profile/bottlenecks?duration=3" | grep -q '"kind":"cpu_hot_spot".*"function":"work_1",'; }
until_true found
told() { curl -s "$at/admin/profile/bottlenecks?duration=3&format=text" | grep -q 'work_1 itself uses'; }
until_true told
kill -KILL "$load"
wait "$load" 2>/dev/null

# Example 1: profile one request
api 200 -X POST "$at/v1/chat/completions?work=2&ms=200" \
  -H "Content-Type: application/json" \
  -H "X-Profile: true" \
  -d '{
    "model": "llama-3-70b",
    "messages": [{"role": "user", "content": "Hello"}]
  }'
api 200 "$at/admin/profile/last"
holds "its functions" "any(f['name'] == 'work_2' for f in r['cpu']['functions'])"

# Example 2: before and after. On a machine that is busy with other things more is needed to be sure.
compare_pair() { # REQUESTS
    api 200 -X POST "$at/admin/profile/start" \
      --data '{"name": "baseline"}'
    holds "start" "r['name'] == 'baseline' and r['status'] == 'running' and r['kept_in'] == 'store'"
    benchmark "$1" 40
    until_true at_least requests "$1"
    api 200 -X POST "$at/admin/profile/stop"
    holds "stop" "r['name'] == 'baseline' and r['id'] > 0 and r['duration_seconds'] > 0"
    holds "report" "r['cpu']['total_samples'] > 0 and r['memory']['allocations'] >= 0 and r['requests'] >= $1"
    holds "bottlenecks" "any(b['function'] == 'work_1' for b in r['bottlenecks']) or 'bottlenecks_note' in r"

    api 200 -X POST "$at/admin/profile/start" \
      --data '{"name": "optimized"}'
    benchmark "$1" 10
    until_true at_least requests "$1"
    api 200 -X POST "$at/admin/profile/stop"

    api 200 "$at/admin/profile/compare?a=baseline&b=optimized"
}
for requests in 40 120 400; do
    compare_pair $requests
    faster 2>judged && break
    [ $requests != 400 ] || complain "baseline and optimized: $(tail -n 1 judged)"
done
cp answer compared.json
# b is the last one unless it is named: as when a shell cuts the URL at &.
api 200 "$at/admin/profile/compare?a=baseline"
faster 2>judged || complain "the last one: $(tail -n 1 judged)"
api 200 "$at/admin/profile/compare?a=baseline&b=optimized&format=text"
has "in words" 'optimized is .* (faster|less) than baseline' answer
api 200 "$at/admin/profile/compare?a=baseline&b=optimized&format=markdown"
has "as Markdown" '^\|' answer
api 200 "$at/admin/profile/compare?a=baseline&b=optimized&format=svg"
has "differential flame graph" 'work_1' answer
# By time: what is stored of these moments.
api 200 "$at/admin/profiles?kind=session&limit=2"
cp answer sessions.json
range() { python3 -c "
import json
p = [p for p in json.load(open('sessions.json'))['profiles'] if p['name'] == '$1'][0]
print('%.3f..%.3f' % (p['start'], p['end']))"; }
api 200 "$at/admin/profile/compare?a=$(range baseline)&b=$(range optimized)"
faster 2>judged || complain "by time: $(tail -n 1 judged)"

# The same on the command line, from the agent and from its store.
for base in "$at/admin/profiles/" store.db:; do
    status 0 "$sonde" diff "${base}baseline" "${base}optimized"
    has "sonde diff" '(faster|less) than .*baseline' out
    status 0 "$sonde" report "${base}baseline"
    has "sonde report" 'work_1' out
    status 0 "$sonde" flamegraph "${base}baseline" -o cli.svg
    has "sonde flamegraph" 'work_1' cli.svg
    status 0 "$sonde" export --format folded "${base}baseline"
    has "sonde export" ';work_1 [0-9]+$' out
done
status 2 "$sonde" report store.db:no-such
has "a name that is not there" 'store.db: there is no profile "no-such"' err

# What took the most is listed beyond the session
api 200 "$at/api/findings?kind=cpu_hot_spot"
holds "findings" "any(f['subject'] == 'work_1' and f['text'].startswith('baseline: ') and f['unit'] == 'seconds' for f in r['findings'])"

# What is kept, in every form
api 200 "$at/admin/profiles"
holds "list" "[p['name'] for p in r['profiles'][:2]] == ['optimized', 'baseline'] and r['kept_in'] == 'store'"
holds "newest first" "[p['id'] for p in r['profiles']] == sorted((p['id'] for p in r['profiles']), reverse=True)"
holds "all kinds" "{'session', 'cpu', 'memory'} <= {p['kind'] for p in r['profiles']}"
api 200 "$at/admin/profiles?name=base*&limit=1"
holds "filtered" "[p['name'] for p in r['profiles']] == ['baseline'] and r['total'] >= 1"
api 200 "$at/admin/profiles?kind=memory&program=http_*&to=1"
holds "before there was any" "r['profiles'] == [] and r['total'] == 0"
for format in json run pprof folded speedscope chrome report-json svg html text markdown; do
    api 200 "$at/admin/profiles/baseline?format=$format"
    cp answer "baseline.$format"
done
for format in run pprof folded; do
    status 0 "$sonde" report "baseline.$format"
    has "$format can be read" 'work_1' out
done
for format in speedscope chrome report-json svg html text markdown; do
    has "$format" 'work_1' "baseline.$format"
done
id=$(python3 -c 'import json; print(json.load(open("baseline.json"))["id"])')
api 200 "$at/admin/profiles/$id"
holds "by id" "r['name'] == 'baseline' and r['kind'] == 'session' and r['bottlenecks']"
api 200 "$at/admin/profiles/$(python3 -c 'import json; print(json.load(open("baseline.json"))["profile_id"])')"
holds "by the time it began" "r['profile_id']"
api 200 -X DELETE "$at/admin/profiles/$id"
holds "deleted" "r['deleted'] == $id"
api 404 "$at/admin/profiles/$id"
api 404 -X DELETE "$at/admin/profiles/$id"

# Status, and several at a time
api 200 "$at/admin/profile/status"
holds "nothing runs" "r['status'] == 'idle' and r['sessions'] == [] and r['last_id'] > 0"
api 200 -X POST "$at/admin/profile/start" --data '{"name": "one", "rate_hz": 50}'
api 200 -X POST "$at/admin/profile/start" --data '{"name": "two", "rate_hz": 200, "memory": false}'
api 200 "$at/admin/profile/status"
holds "two run" "[s['name'] for s in r['sessions']] == ['two', 'one']"
holds "one rate for both" "all(s['rate_hz'] == 200 for s in r['sessions'])"
api 409 -X POST "$at/admin/profile/start" --data '{"name": "one"}'
says "started twice" "runs already"
api 409 -X POST "$at/admin/profile/stop"
says "which of them" "one, two"
api 404 -X POST "$at/admin/profile/stop" --data '{"name": "three"}'
says "unknown" "three"
benchmark 10 20
until_true at_least samples 2
curl -s -X POST "$at/admin/profile/flamegraph" -o running.svg
has "a picture of the one that runs" 'two, so far' running.svg
has "a picture of the one that runs" 'work_1' running.svg
api 200 -X POST "$at/admin/profile/stop" --data '{"name": "two"}'
api 200 "$at/admin/profile/status"
holds "its rate goes with it" "[s['rate_hz'] for s in r['sessions']] == [50]"
api 200 -X POST "$at/admin/profile/stop"
api 200 -X POST "$at/admin/profile/flamegraph"
has "a picture of the last" '<svg' answer
api 200 -X POST "$at/admin/profile/start" --data '{"name": "short", "duration_seconds": 0.2}'
ended() { curl -s "$at/admin/profile/status" | grep -q '"status":"idle"'; }
until_true ended
until_true curl -sf -o answer "$at/admin/profiles/short"
api 409 -X POST "$at/admin/profile/stop" --data '{"name": "short"}'
says "it ended by itself" "has ended"

# Mistakes
api 409 -X POST "$at/admin/profile/stop"
says "stop without start" "no session runs"
api 400 -X POST "$at/admin/profile/start" --data '{"name": "a/b"}'
says "a name" "a/b"
api 400 -X POST "$at/admin/profile/start" --data '{"name": "x", "speed": 5}'
says "an unknown key" "speed"
api 400 -X POST "$at/admin/profile/start" --data '{"name": "x", "rate_hz": 0}'
says "a rate" "rate_hz"
api 400 -X POST "$at/admin/profile/start" --data 'name=x'
says "no JSON" "JSON"
api 413 -X POST "$at/admin/profile/start" --data "{\"name\": \"$(printf 'x%.0s' {1..5000})\"}"
api 400 "$at/admin/profile/compare"
says "a is missing" "a"
api 404 "$at/admin/profile/compare?a=optimized&b=no-such"
says "unknown" "no-such"
api 404 "$at/admin/profile/compare?a=1000000000..1000000001&b=optimized"
says "nothing of that time" "1000000000..1000000001"
api 400 "$at/admin/profile/compare?a=2..1&b=optimized"
says "no time" "2..1"
api 404 -X POST "$at/admin/profile/flamegraph?name=no-such"
api 404 "$at/admin/profiles/no-such?format=svg"
api 400 "$at/admin/profiles/optimized?format=gif"
api 405 "$at/admin/profile/start"
api 400 "$at/admin/profile/bottlenecks?limit=0"

# What runs when the agent ends is in its store.
api 200 -X POST "$at/admin/profile/start" --data '{"name": "left-open"}'
benchmark 10 20
stop_agent "$agent"
status 0 "$sonde" report store.db:left-open
has "left open" 'work_1' out

# Without a store sessions work as well, and say how long they last.
serve bare
until_true eval 'curl -s "$at/api/processes" | grep -q http_engine'
api 200 -X POST "$at/admin/profile/start" --data '{"name": "baseline"}'
holds "in memory" "r['kept_in'] == 'memory' and '--store' in r['kept_note']"
api 200 -X POST "$at/admin/profile/stop"
holds "a note" "any('--store' in n for n in r['notes']) and r['id'] == 1"
api 200 "$at/admin/profiles/baseline"
stop_agent "$agent"
kill -TERM "$run"
wait "$run" 2>/dev/null
finish

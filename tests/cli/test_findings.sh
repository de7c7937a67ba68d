#!/usr/bin/env bash
# `sonde findings`: of a recording and of a running agent, in text and JSON; muting, severity, and
# what is wrong with the command line. How well causes are found is tests/findings/bench.py's.
. "$(dirname "$0")/common.sh"
engine=$SONDE_BUILD/example_engine

# json EXPRESSION FILE: f is the list of findings, a all of the answer
json() { python3 -c 'import json, sys; a = json.load(open(sys.argv[2])); f = a["findings"]; print(eval(sys.argv[1]))' "$1" "$2"; }

# More clients than slots: requests wait.
status 0 "$sonde" record -q -F 200 -o "$scratch/e.run" -- "$engine" --clients 12 --requests 20
status 0 "$sonde" findings --json "$scratch/e.run"
cp "$scratch/out" "$scratch/all.json"
same "kinds" True "$(json '"queueing" in [x["kind"] for x in f]' "$scratch/all.json")"
same "the weightiest first" True \
    "$(json '[x["severity"] for x in f] == sorted((x["severity"] for x in f), key=["critical", "warning", "info"].index)' "$scratch/all.json")"
same "each has a sentence, evidence and a time" True \
    "$(json 'all(x["text"] and 0 <= x["impact"] <= 1 and x["since"] < x["until"] for x in f) and [x for x in f if x["kind"] == "queueing"][0]["evidence"][0]["link"].startswith("/profiling/requests?request=job-")' "$scratch/all.json")"

status 0 "$sonde" findings "$scratch/e.run"
has "text" '^(critical|warning) +Requests queue$' "$scratch/out"
has "advice" '^ +→ ' "$scratch/out"
status 0 "$sonde" report "$scratch/e.run"
has "at the top of a report" '^Findings$' "$scratch/out"
status 0 "$sonde" report --json "$scratch/e.run"
same "in the JSON of a report" True \
    "$(python3 -c 'import json, sys; print("queueing" in [x["kind"] for x in json.load(open(sys.argv[1]))["findings"]])' "$scratch/out")"

# Less of it.
status 0 "$sonde" findings --json --mute queueing --mute 'cpu_hot_spot:comp*' "$scratch/e.run"
same "muted" True "$(json '"queueing" not in [x["kind"] for x in f] and a["muted"] >= 1' "$scratch/out")"
status 0 "$sonde" findings --json --set bottleneck.mute=queueing "$scratch/e.run"
same "muted by a setting" True "$(json '"queueing" not in [x["kind"] for x in f]' "$scratch/out")"
status 0 "$sonde" findings --json --severity warning "$scratch/e.run"
same "by severity" True "$(json 'f and all(x["severity"] != "info" for x in f)' "$scratch/out")"
status 0 "$sonde" findings --kinds
has "kinds" '^queueing +Requests queue: ' "$scratch/out"

# What is wrong.
status 2 "$sonde" findings
has "no operand" 'FILE, URL or PID' "$scratch/err"
status 2 "$sonde" findings --mute nonsense "$scratch/e.run"
has "no such kind" "'nonsense'.*--kinds" "$scratch/err"
status 2 "$sonde" findings --severity bad "$scratch/e.run"
echo hello >"$scratch/not.run"
status 2 "$sonde" findings "$scratch/not.run"
has "not a profile" 'not.run' "$scratch/err"
status 2 "$sonde" serve --set bottleneck.mute=nonsense
has "a setting that mutes nothing" "'nonsense'" "$scratch/err"

# Names are other people's: nothing that a terminal would act on gets through.
printf 'main;evil\033[31mname 100\nmain;other 100\n' >"$scratch/evil.folded"
status 0 "$sonde" findings "$scratch/evil.folded"
lacks "no escapes" $'\033' "$scratch/out"

# Of a running agent.
"$sonde" run -v --listen 127.0.0.1:0 --set bottleneck.interval_seconds=1 -- "$engine" --clients 12 --requests 1000 >"$scratch/run.out" 2>"$scratch/run.err" &
run=$!
started+=("$run")
until_line 'http://127.0.0.1:[0-9]+' "$scratch/run.err"
url=$(url_in "$scratch/run.err")
waits() { "$sonde" findings --json --duration 1 "$url" >"$scratch/now.json" && [ "$(json '"queueing" in [x["kind"] for x in f]' "$scratch/now.json")" = True ]; }
until_true waits
goes_on() { curl -s "$url/api/findings" >"$scratch/active.json" && [ "$(json '"queueing" in [x["kind"] for x in a["active"]] and "queueing" in [x["kind"] for x in f]' "$scratch/active.json")" = True ]; }
until_true goes_on
same "since when, and not over" True "$(json '[x["until"] is None and x["since"] > 1e9 for x in a["active"] if x["kind"] == "queueing"][0]' "$scratch/active.json")"
status 0 "$sonde" top --once --page findings --width 100 "$url"
has "in the terminal" '^(critical|warning) +Requests queue ' "$scratch/out"
status 0 "$sonde" top --once --width 100 "$url"
has "on the first page of it" '^(critical|warning): .* · [0-9]+ findings? on page 6$' "$scratch/out"
status 2 "$sonde" findings --mute queueing "$url"
has "muting an agent" 'bottleneck.mute' "$scratch/err"
status 0 "$sonde" findings -d 0.5 "$url"
has "text of an agent" 'Requests queue' "$scratch/out"
kill -TERM "$run" # and the engine with it
wait "$run"
finish

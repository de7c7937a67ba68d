#!/usr/bin/env bash
# Without a store: the last hours can be asked for, in every agent that serves HTTP, and nothing is left of
# them when it ends, however it ends. Where they cannot be kept the agent works without.
. "$(dirname "$0")/common.sh"

figure() { # URL-PATH EXPRESSION: of the answer, which is `a`
    curl -sf "$url$1" | python3 -c 'import json, sys; a = json.load(sys.stdin); print('"$2"')'
}
is() { [ "$(figure "$2" "$3")" = "$1" ]; } # WANTED URL-PATH EXPRESSION
code() { curl -s -o "$scratch/answer" -w '%{http_code}' "$url$1"; }
nothing_left() { same "$1" "" "$(ls "$TMPDIR")"; }

mkdir "$scratch/tmp"
export TMPDIR=$scratch/tmp
before=$(($(date +%s) - 1000))

start_agent "$scratch/first" --interval 0.1
nothing_left "while it runs"
"$programs/recorder" 42 600 >"$scratch/out" &
recorder=$!
started+=("$recorder")
"$SONDE_BUILD/example_engine" --clients 2 --requests 6 >/dev/null 2>&1
until_true is 42 "/api/query?name=rec_events_total&from=$before&step=3600" 'a["series"][0]["last"]'
until_true is 42 "/api/spans?name=rec.step&limit=1000&from=$before" 'len(a["spans"])'
until_true is 12 "/api/requests?state=done&from=$before" 'a["total"]'
same "counted in a heat map" 12 "$(figure "/api/heatmap?metric=total&from=$before" 'a["counted"]')"
same "every reading" True "$(figure "/api/export?name=rec_events_total&from=$before&format=json" 'len(a) > 0')"
same "without a store there are no runs" "[] None" "$(figure /api/runs '"%s %s" % (a["runs"], a["store"])')"
same "nor one of them" 404 "$(code /api/runs/1)"
has "what it takes" 'start the agent with --store FILE' "$scratch/answer"
same "findings are none" 200 "$(code /api/findings)"
same "profiles are in memory" memory "$(figure /admin/profiles 'a["kept_in"]')"
kill -KILL "$agent"
wait "$agent" 2>/dev/null
nothing_left "after it was killed"

start_agent "$scratch/second" --interval 0.1
until_true is 42 "/api/query?name=rec_events_total&from=$before&step=3600" 'a["series"][0]["last"]'
kill -TERM "$agent"
wait "$agent"
same "ended" 0 $?
nothing_left "after it ended"

# Turned off, and not possible.
start_agent "$scratch/third" --set storage.recent_megabytes=0
same "no history" 400 "$(code "/api/query?from=$before&step=60")"
has "what to do" 'there is no history to read from; start the agent with --store FILE' "$scratch/answer"
same "what is in memory" 200 "$(code "/api/query?from=$before")"
same "of requests, too" 200 "$(code "/api/heatmap?from=$before")"
kill -TERM "$agent"
wait "$agent"
start_agent "$scratch/fourth" --set storage.recent_hours=0
same "no hours" 400 "$(code "/api/query?from=$before&step=60")"
kill -TERM "$agent"
wait "$agent"
TMPDIR=$scratch/none start_agent "$scratch/fifth"
same "no folder" 400 "$(code "/api/query?from=$before&step=60")"
same "is no trouble" 200 "$(code /healthz)"
has "it is logged" "the last hours are not kept: cannot make a folder in '.*/none'" "$scratch/fifth"
kill -TERM "$agent"
wait "$agent"

# A run has it, too.
"$sonde" run --listen 127.0.0.1:0 -v -- "$programs/recorder" 7 600 >"$scratch/out" 2>"$scratch/run" &
agent=$!
started+=("$agent")
until_line 'http://127' "$scratch/run"
url=$(grep -oE 'http://127[0-9.:]+' "$scratch/run" | head -1)
until_true is 7 "/api/query?name=rec_events_total&from=$before&step=3600" 'a["series"][0]["last"]'
nothing_left "while it runs"
kill -TERM "$agent"
wait "$agent"
nothing_left "of a run"
finish

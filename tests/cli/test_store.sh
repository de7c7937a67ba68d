#!/usr/bin/env bash
# The store of `sonde serve`: readings outlive the agent, `sonde runs` and `sonde gc` look after it.
. "$(dirname "$0")/common.sh"

store=$scratch/history.store
serve() { # LOG [OPTION…]
    start_agent "$@" --interval 0.1 --store "$store"
}
# points NAME FROM: how many readings of a series there are since then
points() {
    curl -sf "$url/api/query?name=$1&from=$2" | python3 -c '
import json, sys
a = json.load(sys.stdin)
print(sum(len(s["points"]) for s in a["series"]))'
}
more_than() { [ "$(points "$2" "$3")" -gt "$1" ]; }

before=$(date +%s)
serve "$scratch/first"
"$programs/recorder" 42 60 >"$scratch/out" &
recorder=$!
started+=("$recorder")
until_line ready "$scratch/out"
until_true more_than 10 rec_events_total $((before - 1000))

# Killed in the act: nothing that could be seen is lost, but for the last second.
seen=$(points sonde_agent_series $((before - 1000)))
kill -KILL "$agent"
wait "$agent" 2>/dev/null
serve "$scratch/second"
until_true more_than $((seen - 1)) sonde_agent_series $((before - 1000))
until_true more_than 10 rec_events_total $((before - 1000))

# Steps, of a time before this agent.
curl -sf "$url/api/query?name=rec_events_total&from=$((before - 1000))&step=3600" >"$scratch/answer"
has "the total of the counter" '"last":42' "$scratch/answer"
has "one or two points" '"points":\[\{"time":[0-9.]+,"value":[0-9.e+-]+,"count":' "$scratch/answer"
curl -sf "$url/api/runs" >"$scratch/answer"
has "both runs" '"id":2.*"live":true.*"id":1.*"live":false' "$scratch/answer"
same "a bad step" 400 "$(curl -s -o /dev/null -w '%{http_code}' "$url/api/query?step=never")"

# Another agent is refused, and says why.
status 1 "$sonde" serve --listen 127.0.0.1:0 --store "$store"
has "two agents" "is written by another sonde \(process $agent\)" "$scratch/err"

# Runs, while one is being recorded.
status 0 "$sonde" runs --store "$store"
has "the newest" '^ +2 .*recording' "$scratch/out"
has "the first" '^ +1 .*ended' "$scratch/out"
status 0 "$sonde" runs --store "$store" name 1 baseline
status 0 "$sonde" runs --store "$store" tag 1 "before the upgrade"
status 0 "$sonde" runs --store "$store"
has "name and tag" '^ +1 +baseline .*before the upgrade' "$scratch/out"
status 2 "$sonde" runs --store "$store" name 1 'a/b'
has "a bad name" "'a/b' is no name" "$scratch/err"
status 2 "$sonde" runs --store "$store" name 9 nine
has "no such run" 'there is no run 9' "$scratch/err"
status 1 "$sonde" runs --store "$store" delete 2
has "a run that is recorded" 'run 2 is being recorded' "$scratch/err"
status 0 "$sonde" runs --store "$store" copy 1 "$scratch/mail.store"
status 2 "$sonde" runs --store "$store" copy 1 "$scratch/mail.store"
has "it is there" 'is there already' "$scratch/err"
status 0 "$sonde" gc --store "$store"
status 0 "$sonde" runs --store "$store" delete 1
status 0 "$sonde" runs --store "$store"
lacks "deleted" baseline "$scratch/out"
until_true more_than 5 sonde_agent_series "$before"
kill -TERM "$agent"
wait "$agent"
same "SIGTERM" 0 "$?"
ls "$scratch"/history.store-wal 2>/dev/null && complain "the log was left behind"

# The copy is a store: one file, with one run.
store=$scratch/mail.store
status 0 "$sonde" runs --store "$store" --json
has "only that run" '\{"runs":\[\{"id":1,"name":"baseline"[^{]*\}\]' "$scratch/out"
serve "$scratch/third"
until_true more_than 10 rec_events_total $((before - 1000))
kill -TERM "$agent"
wait "$agent"
status 0 "$sonde" runs --store "$store" merge 1 2
status 0 "$sonde" runs --store "$store"
same "one run is left" 2 "$(wc -l <"$scratch/out")"

# `sonde run` keeps its readings too.
status 0 "$sonde" run --no-http --store "$scratch/run.store" --interval 0.1 -- "$programs/recorder" 7 0.5
status 0 "$sonde" runs --store "$scratch/run.store"
has "named after the program" ' recorder .*ended' "$scratch/out"

# Its profile too, with --record; out again it is the same file.
status 0 "$sonde" run --no-http --store "$scratch/run.store" --record "$scratch/a.run" -- \
    "$programs/burn" --seconds 0.3
status 0 "$sonde" runs --store "$scratch/run.store" profiles
has "the profile" '^ +1 +2 +burn .*burn ' "$scratch/out"
status 0 "$sonde" runs --store "$scratch/run.store" profile 1 "$scratch/b.run"
cmp "$scratch/a.run" "$scratch/b.run" || complain "another file came out of the store"
status 0 "$sonde" runs --store "$scratch/run.store" add "$scratch/b.run" again
status 0 "$sonde" runs --store "$scratch/run.store" profiles
has "added" '^ +2 +2 +again ' "$scratch/out"
status 2 "$sonde" runs --store "$scratch/run.store" profile 9 "$scratch/c.run"
has "no such profile" 'there is no profile 9' "$scratch/err"

# What is no store, or cannot be one.
printf 'not a database, but as long as one of the smallest would have to be.' >"$scratch/text"
: >"$scratch/empty"
mkdir "$scratch/folder"
status 2 "$sonde" runs --store "$scratch/nothing"
has "nothing there" "there is no store '.*nothing'" "$scratch/err"
for command in runs gc "serve --listen 127.0.0.1:0"; do
    for file in text empty folder; do
        [ "$command $file" = "serve --listen 127.0.0.1:0 empty" ] && continue # becomes a store
        # shellcheck disable=SC2086
        status 2 "$sonde" $command --store "$scratch/$file"
        has "$command: $file" "$scratch/$file'" "$scratch/err"
    done
done
grep -q '^not a database' "$scratch/text" || complain "a file that is no store was moved away"
status 2 "$sonde" runs
has "no store" 'say which store' "$scratch/err"
status 1 "$sonde" serve --listen 127.0.0.1:0 --store /nonexistent/a.store
has "no such folder" '/nonexistent/a.store' "$scratch/err"
finish

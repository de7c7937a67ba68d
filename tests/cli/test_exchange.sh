#!/usr/bin/env bash
# `sonde export STORE` and `sonde import`: what an agent recorded goes out in every format, comes back,
# and goes out the same.
. "$(dirname "$0")/common.sh"
store=$scratch/store.db

# Two lives of an agent over a program whose histogram and counters are known.
"$programs/known_hist" >"$scratch/truth" 2>/dev/null &
started+=("$!")
until_line '^ready$' "$scratch/truth" || finish
counted() { [ "$(sqlite3 "$store" "SELECT COUNT(*) FROM head WHERE run = $1")" -ge 5 ]; }
for life in 1 2; do
    "$sonde" serve --listen 127.0.0.1:0 --interval 0.1 --store "$store" 2>"$scratch/log$life" &
    agent=$!
    started+=("$agent")
    until_line 'listening on' "$scratch/log$life" || finish
    until_true counted $life || finish
    if [ $life = 2 ]; then # what the agent writes while it records, of the life before
        url=$(url_in "$scratch/log2")
        for format in json csv openmetrics prometheus; do
            status 0 "$sonde" export --format $format --to "$ended" -o "$scratch/live.$format" "$url"
        done
        status 2 "$sonde" export --format csv --from yesterday "$url"
        has "why" 'is not a unix time' "$scratch/err"
        status 1 "$sonde" export --format protobuf --from -60 "$url"
        has "why" 'with from or to json, csv, openmetrics and prometheus' "$scratch/err"
    fi
    kill -TERM "$agent"
    wait "$agent"
    [ $life = 2 ] || ended=$(date +%s.%N)
done

for format in json csv openmetrics prometheus; do
    status 0 "$sonde" export --format $format -o "$scratch/first.$format" "$store"
    has "$format: what was written" '^sonde: [0-9]+ points of [0-9]+ series$' "$scratch/err"
    written=$(cat "$scratch/err")
    status 0 "$sonde" import "$scratch/first.$format" -o "$scratch/$format.db"
    same "$format: all of it is read" "sonde: $scratch/$format.db: ${written#sonde: }" "$(head -n 1 "$scratch/err")"
    status 0 "$sonde" export --format $format -o "$scratch/second.$format" "$scratch/$format.db"
    cmp "$scratch/first.$format" "$scratch/second.$format" || complain "$format: it is not the same again"
done
has "full buckets" '^known_seconds_bucket\{.*le="[0-9.e-]+"\} [0-9]+ [0-9]+\.[0-9]{3}$' "$scratch/first.openmetrics"
has "counters" '^known_requests_total,.*,counter,.*,12345,' "$scratch/first.csv"
# What is in json alone is not lost on the way through a store made of it.
status 0 "$sonde" export --format csv -o "$scratch/third.csv" "$scratch/json.db"
cmp "$scratch/first.csv" "$scratch/third.csv" || complain "json and csv have different things"

# By the agent's URL it is the same, byte for byte.
for format in json csv openmetrics prometheus; do
    status 0 "$sonde" export --format $format --to "$ended" -o "$scratch/then.$format" "$store"
    has "$format: there is something" known "$scratch/then.$format"
    cmp "$scratch/live.$format" "$scratch/then.$format" || complain "$format: by URL it is another"
done
status 2 "$sonde" export --format csv --from -60
has "why" 'give a store, or the URL of an agent' "$scratch/err"

# A part of it.
status 0 "$sonde" export --format csv --name 'known_*' --type counter --from -86400 "$store"
lacks "other names" '^sonde_' "$scratch/out"
has "the ones" '^known_clock_total' "$scratch/out"
status 0 "$sonde" export --format csv --to 1000 "$store"
same "nothing so old" 1 "$(wc -l <"$scratch/out")"
for moment in yesterday 0x10 ' 10' inf nan ''; do
    status 2 "$sonde" export --format csv --from "$moment" "$store"
    has "$moment: why" "is not a unix time" "$scratch/err"
done
status 2 "$sonde" export --format csv --to 0x7fffffff "$store"
has "--to: why" "is not a unix time" "$scratch/err"
status 2 "$sonde" export --format protobuf "$store"
has "why" 'of a store json, csv, openmetrics and prometheus' "$scratch/err"

# Mistakes.
status 1 "$sonde" import "$scratch/nothing.csv" --format csv -o "$scratch/x.db"
printf 'name,type,time_ms,value\na,gauge,1,x\n' >"$scratch/bad.csv"
status 1 "$sonde" import "$scratch/bad.csv" -o "$scratch/x.db"
has "why" 'bad.csv: line 2: value is not a number' "$scratch/err"
[ ! -e "$scratch/x.db" ] || complain "a bad file left a store behind"
printf 'name,type,time_ms,value\na,gauge,1,2\n' >"$scratch/good.csv"
status 2 "$sonde" import "$scratch/good.csv" -o "$scratch/bad.csv"
has "why" 'is there and no store' "$scratch/err"
status 0 "$sonde" import - --format csv -o "$scratch/x.db" <"$scratch/good.csv"
finish

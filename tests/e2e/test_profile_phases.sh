#!/usr/bin/env bash
# Profiles of a phase, of a request and of the slowest ones, of an engine whose functions are known:
# prefill_pass, decode_pass and choose_token each work in one phase only.
. "$(dirname "$0")/common.sh"
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null; rm -rf "$SONDE_DIR" "$work"' EXIT
cd "$work"
sonde=$SONDE_BUILD/sonde
engine=$SONDE_BUILD/example_engine
# One after the other: no batch is of two phases. The second has twice the tokens of the others.
# Passes last as long by the clock however busy the machine is: each phase is long enough for samples
# even if the engine gets a quarter of a CPU.
alone=(--clients 1 --slots 1 --requests 3 --tokens 800 --decode-ms 1 --sample-us 400 --prompt 300
    --prefill-us 3000)

# functions FILE OPTION…: names of all functions that were sampled, a line each
functions() {
    "$sonde" export -q --format folded -o folded "${@:2}" "$1" || complain "export ${*:2}"
    sed 's/ [0-9]*$//; s/;/\n/g' folded | sort -u
}

# weight FILE OPTION…: of all samples
weight() {
    "$sonde" export -q --format folded -o folded "${@:2}" "$1" || complain "export ${*:2}"
    awk '{ n += $NF } END { print n + 0 }' folded
}

has() { grep -qxE -- "$2" "$3" || complain "$1: no line is '$2' in:" "$(cat "$3")"; }
lacks() { ! grep -qxE -- "$2" "$3" || complain "$1: a line is '$2' in:" "$(cat "$3")"; }

# says WHAT PATTERN COMMAND…: it fails and says why
says() {
    ! "${@:3}" >out 2>err || complain "$1: does not fail"
    grep -qE -- "$2" err || complain "$1: says" "$(cat err)"
}

# near WHAT A B ROOM
near() {
    awk -v a="$2" -v b="$3" -v room="$4" 'BEGIN { d = a - b; exit !(d <= room && -d <= room) }' ||
        complain "$1: $2 and $3"
}

for by in perf timer; do
    "$sonde" record -q --engine $by -o $by.run -- "$engine" "${alone[@]}" --truth >truth ||
        complain "$by: record"
    slowest=$(sed 's/ .*total_ns=/ /; s/ ttft.*//' truth | sort -rnk 2 | head -n 1 | cut -d ' ' -f 1)

    # ---- Phases ----------------------------------------------------------------------------------
    functions $by.run --phase prefill >names
    has "$by: prefill" 'prefill_pass' names
    lacks "$by: prefill" 'decode_pass|choose_token|encode' names
    functions $by.run --phase decode >names
    has "$by: decode" 'decode_pass' names
    lacks "$by: decode" 'prefill_pass|choose_token' names
    functions $by.run --phase sample >names
    has "$by: sample" 'choose_token' names
    lacks "$by: sample" 'prefill_pass|decode_pass' names
    "$sonde" flamegraph -q --phase prefill $by.run -o prefill.svg || complain "$by: flamegraph"
    grep -q 'prefill_pass' prefill.svg || complain "$by: no prefill_pass in the flame graph"
    ! grep -qE 'choose_token|decode_pass' prefill.svg || complain "$by: others in the flame graph"
    "$sonde" report -q --phase sample --json $by.run >report.json || complain "$by: report"
    grep -q '"choose_token"' report.json || complain "$by: no choose_token in the report"
    ! grep -q '"decode_pass"' report.json || complain "$by: decode_pass in the report"

    # ---- Requests --------------------------------------------------------------------------------
    functions $by.run --request job-1 >one
    has "$by: a request" 'prefill_pass' one
    has "$by: a request" 'decode_pass' one
    one=$(weight $by.run --slowest 1)
    [ "$one" = "$(weight $by.run --request "$slowest")" ] || complain "$by: $slowest is not the slowest"
    [ "$one" = "$(weight $by.run --slowest 20%)" ] || complain "$by: a fifth of three is not one"
    all=$(weight $by.run --slowest 100%)
    near "$by: requests add up" "$all" $(($(weight $by.run --request job-0) +
        $(weight $by.run --request job-1) + $(weight $by.run --request job-2))) 3
    phases=0
    for phase in encode prefill decode sample detokenize; do
        # Short ones may have no sample, which is an error.
        "$sonde" export -q --format folded --phase $phase -o folded $by.run 2>/dev/null || : >folded
        phases=$((phases + $(awk '{ n += $NF } END { print n + 0 }' folded)))
    done
    near "$by: phases add up" "$all" "$phases" 8
    functions $by.run --request job-1 --phase decode --thread '*' --from 0 >names
    has "$by: combined" 'decode_pass' names
    lacks "$by: combined" 'prefill_pass|choose_token' names
done

# ---- What was shared is divided ----------------------------------------------------------------------
"$sonde" record -q -o shared.run -- "$engine" --clients 3 --slots 3 --requests 1 --tokens 1000 \
    --decode-ms 1 || complain "record shared"
near "shared requests add up" "$(weight shared.run --slowest 3)" \
    $(($(weight shared.run --request job-0) + $(weight shared.run --request job-1) +
        $(weight shared.run --request job-2))) 4
"$sonde" diff -q --phase decode perf.run shared.run >diff.txt || complain "diff"
grep -q 'decode_pass' diff.txt || complain "diff: no decode_pass"
! grep -q 'choose_token' diff.txt || complain "diff: choose_token"

# ---- A pool of threads, which has no spans -------------------------------------------------------------
"$sonde" record -q -o pool.run -- "$engine" "${alone[@]}" --threads 2 || complain "record pool"
functions pool.run --phase prefill >names
has "own threads" 'prefill_pass' names
lacks "own threads" 'pool' names
functions pool.run --phase prefill --workers >names
has "with the pool" 'pool' names
has "with the pool" 'prefill_pass' names
lacks "with the pool" 'decode_pass|choose_token' names
"$sonde" report --phase prefill pool.run 2>err >out || complain "pool: report"
grep -qE '; [0-9.]+ m?s more on threads without a span of their own: --workers takes them in' err ||
    complain "pool: says" "$(cat err)"

# ---- Mistakes ----------------------------------------------------------------------------------------
says "phase" "no phase is named 'prefil'; did you mean 'prefill'\?; there are: .*decode" \
    "$sonde" report --phase prefil perf.run
says "request" "no request has the id 'jbo-1'; near it: job-1" "$sonde" report --request jbo-1 perf.run
says "beginning" "the ids of 3 requests begin with 'job': job-0, job-1, job-2" \
    "$sonde" report --request job perf.run
says "slowest" "--slowest: 'few' is neither" "$sonde" report --slowest few perf.run
says "both" "not both" "$sonde" report --slowest 1 --request job-1 perf.run
says "workers" "--workers goes with" "$sonde" report --workers perf.run
"$sonde" record -q -o other.run -- "$programs/burn" --seconds 0.2 >/dev/null || complain "record burn"
says "no phases" "no phases are known of it" "$sonde" report --phase prefill other.run
says "no requests" "no inference requests are known of it" "$sonde" report --slowest 1 other.run

# ---- An agent that runs --------------------------------------------------------------------------------
"$sonde" run -v --listen 127.0.0.1:0 -- "$engine" --clients 1 --slots 1 --requests 100000 --tokens 40 \
    --decode-ms 2 --prompt 100 --prefill-us 400 >/dev/null 2>log &
server=$!
until_true grep -q 'http://' log
url=$(grep -oE 'http://[0-9.]+:[0-9]+' log | head -n 1)
functions "$url" --duration 2 --phase prefill >names
has "live: prefill" 'prefill_pass' names
lacks "live: prefill" 'decode_pass|choose_token' names
"$sonde" report --duration 2 --slowest 100% "$url" >out 2>err || complain "live: slowest" "$(cat err)"
grep -qE '^sonde: [0-9]+ of [0-9]+ requests, [0-9.]+ m?s of CPU time' err || complain "live: says" "$(cat err)"
curl -s "$url/debug/pprof/profile?format=x" >out
grep -q 'is not one of pprof, run' out || complain "live: format" "$(cat out)"
kill "$server"
wait "$server" || true
server=
finish

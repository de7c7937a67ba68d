#!/usr/bin/env bash
# Critical paths against a program that logs its own parts (tests/programs/why_truth.c): parts add
# up, each is what the program's clocks say, the slow are told from the rest by what was planted, and
# a running agent answers the same questions.
. "$(dirname "$0")/common.sh"
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null; rm -rf "$SONDE_DIR" "$work"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
cd "$work"
sonde=$SONDE_BUILD/sonde

# says WHAT STATUS PATTERN COMMAND…: it fails so, and says why
says() {
    local status=0
    "${@:4}" >out 2>err || status=$?
    [ $status -eq "$2" ] || complain "$1: exit status $status"
    grep -qE -- "$3" err || complain "$1: says" "$(cat err)"
}

# ---- Against the log -----------------------------------------------------------------------------
# Where the kernel does not let us see switches nothing is known of waits.
"$sonde" record -q --off-cpu -o probe.run -- "$programs/why_truth" 1 >truth || complain "record"
if "$sonde" why --format json a0 probe.run | grep -q 'were not recorded'; then
    echo "off-CPU time cannot be sampled here: phases only"
else
    # What else runs on the machine may come between: five tries.
    for try in 1 2 3 4 5; do
        "$sonde" record -q --off-cpu -o truth.run -- "$programs/why_truth" 12 >truth ||
            complain "record"
        if python3 "$here/why_truth.py" truth "$sonde" truth.run >table 2>&1; then break; fi
        [ $try -lt 5 ] || complain "parts are not as logged:" "$(cat table)"
    done
    cat table

    # ---- The slow against the rest ---------------------------------------------------------------
    "$sonde" record -q --off-cpu -o slow.run -- "$programs/why_truth" 50 60 >truth ||
        complain "record slow"
    "$sonde" why --slowest 10% --format json slow.run >slow.json || complain "why --slowest"
    python3 - slow.json <<'EOF' || complain "the slow ones:" "$("$sonde" why --slowest 10% slow.run)"
import json, sys
j = json.load(open(sys.argv[1]))
rows = {(r['type'], r['name']): r for r in j['difference']['rows']}
lock = rows[('part', 'lock')]
assert lock['change'] > 0.1 and lock['p'] < 0.05 and lock['likelihood'] > 0.9, lock
wait = rows[('wait', 'locked')]
assert wait['kind'] == 'lock' and wait['file'].endswith('why_truth.c') and wait['line'], wait
for group in 'slow', 'rest':
    parts = sum(p['seconds'] for p in j[group]['parts'])
    assert abs(parts - j[group]['seconds']) < 1e-9, group
EOF
    "$sonde" why slow.run >text || complain "why"
    grep -q 'locked (why_truth.c:[0-9]*) in .*pthread_mutex_lock' text ||
        complain "no lock in" "$(cat text)"

    # ---- Another process -------------------------------------------------------------------------
    "$sonde" why --span call --format json slow.run >call.json || complain "why --span"
    python3 - call.json truth <<'EOF' || complain "call:" "$("$sonde" why --span call slow.run)"
import json, sys
j = json.load(open(sys.argv[1]))
slept = [int(line.split()[4]) for line in open(sys.argv[2]) if line.split()[:3:2] == ['s', 'sleep']]
count = j['slow']['count'] + j['rest']['count']
def mean(kind):
    return sum(p['seconds'] * j[g]['count'] for g in ('slow', 'rest') for p in j[g]['parts']
               if p['kind'] == kind) / count
assert count == len(slept), (count, len(slept))
assert abs(mean('sleep') - sum(slept) / count / 1e9) < 2e-4, (mean('sleep'), slept)
assert mean('network') > 0
EOF
    trace=$(python3 -c 'import json; print(json.load(open("call.json"))["slowest"][0]["trace_id"])')
    "$sonde" why --trace "$trace" slow.run >text || complain "why --trace"
    grep -q '^z sleeping' text || complain "the trace:" "$(cat text)"
fi

# ---- Without off-CPU samples ---------------------------------------------------------------------
"$sonde" record -q -o plain.run -- "$programs/why_truth" 3 >truth || complain "record plain"
"$sonde" why b1 plain.run >text || complain "why plain"
grep -q 'record with `sonde record --off-cpu`' text || complain "no advice in" "$(cat text)"
grep -q 'computing: prefill' text || complain "no prefill in" "$(cat text)"

# ---- What cannot be ------------------------------------------------------------------------------
says "no file" 2 'name a FILE' "$sonde" why
says "no such request" 1 "no request 'zzz'" "$sonde" why zzz plain.run
says "no such span" 1 "no span is named 'zzz'" "$sonde" why --span zzz plain.run
says "bad share" 2 "'x' is neither" "$sonde" why --slowest x plain.run
says "bad trace" 2 "'12' is not a trace id" "$sonde" why --trace 12 plain.run
says "two at once" 2 'leave out' "$sonde" why --trace "${trace:-$(printf '%032d' 1)}" --span a plain.run

# ---- An agent ------------------------------------------------------------------------------------
"$sonde" serve --listen 127.0.0.1:0 >log 2>&1 &
server=$!
until_true grep -q 'listening on' log
url=$(sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' log | head -n 1)
"$programs/why_truth" 8 >truth
known() { curl -s "$url/api/requests/c7/why" | grep -q '"kind":"request"'; }
until_true known
"$sonde" why c7 "$url" >text || complain "why of an agent"
grep -q 'computing for other requests' text || complain "the agent:" "$(cat text)"
"$sonde" why --slowest 25% --format json "$url" >agent.json || complain "why --slowest of an agent"
python3 - agent.json <<'EOF' || complain "the agent's slowest"
import json, sys
j = json.load(open(sys.argv[1]))
assert j['kind'] == 'requests' and j['count'] == 24 and j['slow']['count'] == 6, j['count']
EOF
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/api/why?slowest=x")" = 400 ] || complain "x"
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/api/why?span=zzz")" = 404 ] || complain "zzz"
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/api/requests/zzz/why")" = 404 ] || complain "id"
finish

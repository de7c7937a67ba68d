# Sourced by the tests of profiling sessions over HTTP: an agent, curl, and what its answers say.
# shellcheck shell=bash disable=SC2034
. "$(dirname "$0")/../cli/common.sh"
cd "$scratch" || exit
unset SONDE_TOKEN

cleanup() {
    local pid child=
    for pid in "${started[@]}"; do
        # What `sonde run` has started outlives it when it is killed.
        read -r child 2>/dev/null <"/proc/$pid/task/$pid/children"
        { kill -KILL "$pid" $child && wait "$pid"; } 2>/dev/null
        child=
    done
    rm -rf "$scratch"
}

patience=120 # a whole workload is waited for, beside others on a busy machine

# api WANTED CURL_ARGUMENTS…: the answer is in the file answer
api() {
    local wanted=$1 got
    shift
    got=$(curl -sS --max-time 120 -o answer -w '%{http_code}' "$@" 2>curl.err)
    same "curl $*: $(head -c 300 answer | tr -d '\0') $(cat curl.err)" "$wanted" "$got"
}
# holds WHAT PYTHON: of the JSON answer r
holds() {
    python3 -c "$json_once
r = json.load(open('answer'), object_pairs_hook=once)
sys.exit(not ($2))" || complain "$1: $2 does not hold in $(head -c 1000 answer)"
}
says() { holds "$1" "'error' in r and '$2' in r['error']"; }
number() { curl -s --max-time 20 "$at/admin/profile/status" | python3 -c "
import json, sys
print(sum(s['$1'] for s in json.load(sys.stdin)['sessions']))"; }
# at_least KEY NUMBER: sessions that run have seen so many
at_least() { local n; n=$(number "$1" 2>/dev/null) && [ "$n" -ge "$2" ]; }
# faster: the comparison that is the answer says that b is faster in requests or takes less CPU time for
# one, and is sure of it: that its interval is all on one side. Which of them depends on what else the
# machine does: times of requests are those of all that runs there.
faster() { python3 - <<'END'
import json
r = json.load(open("answer"))
told = [f for f in r["figures"] if f["verdict"] in ("faster", "less") and
        (f["group"] == "requests" or (f["group"], f["measure"]) == ("run", "cpu"))]
p50 = [f for f in r["figures"] if (f["group"], f["measure"]) == ("requests", "p50")][0]
assert r["verdict"] in ("faster", "less") and p50["after"] < p50["before"], (r["summary"], p50)
assert any(None not in (f["relative_low"], f["relative_high"]) and
           f["relative_low"] * f["relative_high"] > 0 for f in told), told
END
}
# watched PID: the agent knows that it runs
watched() { curl -s --max-time 20 "$at/api/processes" | python3 -c "
import json, sys
sys.exit(not any(p['pid'] == $1 and p['state'] == 'running' for p in json.load(sys.stdin)['processes']))"; }
# stop_agent: it ends in order
stop_agent() {
    kill -TERM "$1"
    local code=0
    wait "$1" || code=$?
    same "it ended in order" 0 "$code"
}

# serve NAME OPTIONS…: $at is where, as localhost; $agent who
serve() {
    local name=$1
    shift
    start_agent "$name.err" --no-host "$@"
    at=http://localhost:${url##*:}
}

#!/usr/bin/env bash
# A process that does nothing has a profile too: it says that there were no samples, and what is known
# all the same. And which profile is the last.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
code() { curl -s -o body -w '%{http_code}' "$@"; }
holds() { # WHAT EXPRESSION of r, the body
    python3 -c "$json_once"'
r = json.load(open("body"), object_pairs_hook=once)
sys.exit(0 if eval(sys.argv[1]) else 1)' "$2" ||
        complain "$1: not so: $2" "$(head -c 2000 body)"
}

# One allocation in 512 GiB is sampled: none.
"$sonde" run -v --heap=512G --listen 127.0.0.1:0 -- sleep 600 >/dev/null 2>log &
started+=($!)
until_line 'http://' log || finish
url=$(url_in log)
watched() { [ "$(code -X POST "$url/admin/profile/memory")" = 200 ]; }

same "no profile yet" 404 "$(code "$url/admin/profile/last")"
has "no profile yet" 'no profile has been captured yet' body
until_true watched
holds "memory" "r['samples'] == 0 and r['memory']['rss_bytes'] > 0 and r['memory']['allocated_bytes']['value'] == 0"
holds "memory" "r['memory']['pss_bytes'] > 0 and r['name'] == 'on-demand-memory'"
same "the last" 200 "$(code "$url/admin/profile/last")"
holds "the last is it" "r['kind'] == 'memory' and r['memory']['rss_mb'] > 0"
same "memory in use" 200 "$(code -X POST "$url/admin/profile/memory?type=live")"
holds "memory in use" "'memory' in r"
# Of another kind of samples there is nothing to say.
same "memory of a kind that is not there" 404 "$(code -X POST "$url/admin/profile/memory?type=temporary")"
same "memory as text" 200 "$(code -X POST -H 'Accept: text/plain' "$url/admin/profile/memory")"
has "memory as text" 'resident' body
same "memory as pprof" 200 "$(code -X POST -H 'Accept: application/octet-stream' "$url/admin/profile/memory")"

same "cpu" 200 "$(code -X POST "$url/admin/profile/cpu?duration=0.2")"
holds "cpu" "r['cpu']['total_samples'] == 0 and r['cpu']['top_functions'] == [] and 'nothing used the CPU' in r['cpu']['note']"
same "the last" 200 "$(code "$url/admin/profile/last")"
holds "the last is that" "r['kind'] == 'cpu' and r['cpu']['total_samples'] == 0"

same "memory again" 200 "$(code -X POST "$url/admin/profile/memory")"
same "the last" 200 "$(code "$url/admin/profile/last")"
holds "the last is that" "r['kind'] == 'memory'"

same "start" 200 "$(code -X POST -d '{"name":"idle"}' "$url/admin/profile/start")"
same "stop" 200 "$(code -X POST "$url/admin/profile/stop")"
holds "stop" "r['cpu']['total_samples'] == 0 and r['memory']['leaked_mb'] == 0 and r['bottlenecks'] == []"
holds "stop" "r['memory']['peak_mb'] == 0 and r['memory']['allocations'] == 0 and r['memory']['rss_mb'] > 0"
same "the last" 200 "$(code "$url/admin/profile/last")"
holds "the last is the session" "r['name'] == 'idle'"
# An id with dashes is the same 128 bits.
for id in 0af7651916cd43dd8448eb211c80319c 0af76519-16cd-43dd-8448-eb211c80319c; do
    same "spans of $id" 200 "$(code "$url/api/spans?trace=$id")"
    same "a profile of $id" 404 "$(code "$url/admin/profile/requests/$id")"
done
same "not an id" 400 "$(code "$url/api/spans?trace=0af76519-16cd-43dd-8448eb211c80319c")"
same "not an id" 400 "$(code "$url/admin/profile/requests/0af76519-16cd-43dd-8448eb211c80319c")"

# Health as one flat object.
healthy() { # an agent that does not get to read for seconds says that it is not
    [ "$(code "$url/health?format=flat")" = 200 ] && grep -q '"memory_usage_mb":[0-9.]*[1-9]' body
}
until_true healthy
holds "flat health" "r['status'] == 'healthy' and r['error_rate'] == 0"
holds "flat health" "sorted(r) == ['error_rate', 'gpu_utilization', 'latency_p50', 'latency_p95', 'memory_usage_mb', 'status']"
same "there is nothing to draw" 404 "$(code "$url/admin/profile/last?format=svg")"
finish

#!/usr/bin/env bash
# Heap profiles as commands show them, from a run file whose figures are known; and the options that
# profile the heap.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit

"$programs/heap_run" a.run || complain "heap_run failed"
"$programs/heap_run" b.run 2 || complain "heap_run failed"

# ---- report --------------------------------------------------------------------------------
status 0 "$sonde" report a.run
has "title" '^Memory in use of server$' out
has "in use" '^  in use +76\.4 MiB \(68\.8 MiB … 84\.1 MiB\) in 99\.1k \(.*\) allocations' out
has "peak" '^  peak +77\.2 MiB, 1\.89 min after the start$' out
has "leaks" '^Leaks: 1 place, 6\.51 KiB a second in all$' out
has "where" '^      session_open  src/server\.c:99$' out
has "site" ' 775 KiB +±10 % .* leak +6\.51 KiB .* session_open +src/server\.c:99' out
has "cache" ' cache filling .* cache_put +src/server\.c:77' out
has "pools" '^kv +15\.3 MiB$' out
has "curve" '  curve +▁.*█  up to 76\.3 MiB, 2\.00 min' out
status 0 "$sonde" report --markdown a.run
has "markdown" '^### Leaks: 1 place' out
status 0 "$sonde" report --json a.run
python3 - <<'END' || complain "report --json"
import json
m = json.load(open("out"))["memory"]
assert m["mode"] == "sampled" and m["leaks"] == 1 and m["peak_bytes"] == 81000000
assert m["in_use_bytes"]["low"] < m["in_use_bytes"]["value"] < m["in_use_bytes"]["high"]
leak = m["sites"][0]
assert leak["verdict"] == "leak" and leak["frames"][0]["line"] == 99
assert leak["bytes_per_second"]["low"] > 0
assert [s["verdict"] for s in m["sites"]].count("cache filling") == 1
END
status 0 "$sonde" report --type leaked a.run
has "leaked" '^Memory leaked of server$' out
has "leaked" ' session_open +src/server\.c:99$' out
status 1 "$sonde" report --type temporary a.run
has "no such samples" 'no samples of memory freed before the next allocation in it' err

# ---- flamegraph, export, diff --------------------------------------------------------------
for type in live leaked alloc; do
    status 0 "$sonde" flamegraph --type $type a.run -o $type.svg
    has "flamegraph $type" '<svg' $type.svg
    status 0 "$sonde" export --format folded --type $type a.run
    has "folded $type" 'session_open' out
done
status 0 "$sonde" export --format pprof-heap a.run -o heap.pb.gz
status 0 "$sonde" report --type alloc heap.pb.gz
has "all kinds in one file" '^Memory allocated' out
status 0 "$sonde" diff --type live a.run b.run
has "bytes are compared" '^memory in use: 76\.4 MiB before, 153 MiB after, \+76\.4 MiB$' out
has "of each function" '^ +13\.8 MiB +27\.7 MiB +\+13\.8 MiB' out

# ---- options -------------------------------------------------------------------------------
status 2 "$sonde" run --heap=some -- true
has "a bad amount" "'some' is neither 'full' nor a number of bytes" err
status 2 "$sonde" run --heap=0 -- true
status 2 "$sonde" run --heap=9999999999G -- true
status 2 "$sonde" run --heap --no-heap -- true
has "both" 'not both' err
status 2 "$sonde" run --no-heap --leak-check scan -- true
has "scan of nothing" 'add --heap' err
status 2 "$sonde" run --heap --leak-check=nonsense -- true
status 2 "$sonde" record --no-cpu -- true
has "nothing to record" 'add --heap' err
status 0 "$sonde" help run
has "an optional value" '--heap\[=BYTES\|full\]' out
# facts OPTION…: "mode mean scanned" of a short run
facts() {
    "$sonde" run "$@" --no-cpu --no-http --record f.run -- "$programs/heap_verdicts" 0.2 >out 2>err
    "$sonde" report --json f.run >report.json 2>err || { echo none; return; }
    python3 -c '
import json
m = json.load(open("report.json")).get("memory")
print(*((m["mode"], m["mean_bytes"], m["scanned"]) if m else ("none",)))'
}
same "as it is" "sampled 524288 False" "$(facts)"
same "so many bytes" "sampled 65536 False" "$(facts --heap=64K)"
same "a setting" "sampled 1048576 False" "$(facts --set memory.sample_rate=50)"
same "full" "full None False" "$(facts --heap=full)"
for off in --no-heap "--set memory.enabled=false" "--set memory.track_allocations=false"; do
    # shellcheck disable=SC2086
    same "$off" none "$(facts $off)"
done
same "no verdicts" "sampled 524288 False" "$(facts --set memory.leak_detection=false)"
status 1 "$sonde" report --type leaked f.run
status 0 "$sonde" record --heap=4K --no-cpu -o g.run -- "$programs/heap_verdicts" 0.2
has "record tells the file" 'g\.run: the heap' err
has "and the heap" 'heap: .* \(sampled, one in 4\.00 KiB\)' err

# ---- from outside --------------------------------------------------------------------------
python3 -c '
import time
open("grows", "w").close()
kept = []
for i in range(600):
    kept.append(bytearray(300000))
    time.sleep(0.1)' &
grower=$!
started+=("$grower")
until_true test -e grows # its libraries are there by then
status 0 "$sonde" attach -d 3 --no-http --no-cpu "$grower"
has "resident" 'memory: .* resident, .* at its peak.*; .* in 3\.[0-9]+ s.*: (not enough|grows|does not)' err
has "which mappings" 'memory that grew: \[(heap|anon)\] \+' err
status 0 "$sonde" attach -d 0.1 --no-http --no-cpu --no-heap "$grower"
lacks "--no-heap" 'memory' err
status 1 "$sonde" report --type live "$grower"
has "no heap" "process $grower was not started with the heap profiler" err
kill -TERM "$grower"

# ---- mark and profiles of an agent without a heap ------------------------------------------
status 2 "$sonde" mark nonsense
status 1 "$sonde" mark http://127.0.0.1:1
has "no agent" 'connect.*; start an agent there with `sonde serve` or `sonde run`' err
"$sonde" run --no-heap --listen 127.0.0.1:0 -v -- sleep 60 >log 2>&1 &
agent=$!
started+=("$agent")
until_line 'shows process' log
url=$(url_in log)
status 1 "$sonde" mark "$url"
has "nothing to mark" 'no heap is profiled: start the program with' err
status 1 "$sonde" report --type live "$url"
has "no heap" 'status 404: no heap is profiled' err
status 1 "$sonde" mark --pid 1 "$url"
has "of one" 'the heap of process 1 is not profiled' err
same "status" 400 "$(curl -s -o out -w '%{http_code}' -X POST "$url/admin/profile/memory?type=cpu")"
has "type" 'not one of live, peak' out
same "method" 405 "$(curl -s -o out -w '%{http_code}' "$url/admin/profile/mark")"
kill -TERM "$agent"
wait "$agent"
finish

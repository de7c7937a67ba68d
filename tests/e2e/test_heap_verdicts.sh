#!/usr/bin/env bash
# A program that leaks, caches, pools and recycles, under `sonde run`: each place gets its verdict,
# the leak with file and line; on HTTP while it runs, in the run file after.
. "$(dirname "$0")/../cli/common.sh"
cd "$scratch" || exit

"$sonde" run -v --heap=full --listen 127.0.0.1:0 --record heap.run -- \
    "$programs/heap_verdicts" 14 >program 2>told &
agent=$!
started+=("$agent")
until_line ready program
until_line 'shows process' told
url=$(url_in told)

# ---- while it runs -------------------------------------------------------------------------
# What is looked at first may be of the program's first moment: nothing is in the cache then.
in_use() {
    curl -s "$url/metrics" >metrics
    grep -qE '^sonde_heap_live_bytes\{.*\} [1-9]' metrics && grep -qE '^sonde_memory_pool_bytes\{pool="cache",.*\} [1-9]' metrics
}
until_true in_use || complain "no sonde_heap_live_bytes, or nothing in the cache, on /metrics"
has "counts" '^sonde_heap_allocations_total\{process="heap_verdicts",pid="[0-9]+"\} [0-9]+' metrics
has "pools" '^sonde_memory_pool_bytes\{pool="cache",' metrics
status 0 "$sonde" report --type live "$url"
has "a report by URL" '^  in use +[0-9.]+ MiB in [0-9.]+k? allocations, when last seen$' out
has "exact" '  method +every allocation: figures are exact' out
status 0 "$sonde" flamegraph --type alloc "$url" -o alloc.svg
has "a flame graph by URL" 'fill_cache' alloc.svg
curl -sf -o heap.pb.gz "$url/debug/pprof/heap" || complain "no /debug/pprof/heap"
status 0 "$sonde" export --format folded --type live heap.pb.gz
has "pprof" ';main;load;get [0-9]+$|main;load;get [0-9]+$' out
curl -sf -X POST "$url/admin/profile/memory" >memory.json || complain "no /admin/profile/memory"
python3 - <<'END' || complain "/admin/profile/memory:" "$(head -c 2000 memory.json)"
import json
m = json.load(open("memory.json"))["memory"]
assert m["mode"] == "full" and not m["ended"] and m["in_use_bytes"]["value"] > 4 << 20
places = [f["name"] for s in m["sites"] for f in s["frames"]]
assert "load" in places and "fill_cache" in places, places
END
status 0 "$sonde" top --once --page memory "$url"
has "top" ' heap_verd[^ ]* +[0-9.]+ MiB' out
has "its pool" '^cache +[0-9.]+ [KM]iB' out
wait "$agent"
same "exit status" 0 "$?"

# ---- after ---------------------------------------------------------------------------------
line=$(tail -n 1 program)
has "summary" 'heap: [0-9.]+ MiB in use at exit, [0-9.]+ MiB at the peak, .* \(all of them\)' told
has "the leak is told" "LEAK: .* a second, .*: leak +.*heap_verdicts\.c:$line\$" told
status 0 "$sonde" report --json --limit 100 heap.run
python3 - "$line" <<'END' || complain "verdicts:" "$(head -c 4000 out)"
import json, sys
m = json.load(open("out"))["memory"]
wanted = {"leak": ["leak"], "fill_cache": ["cache filling"], "use_pool": ["stable", "shrinking"],
          "push_ring": ["stable"], "load": ["stable"], "reply": ["stable"]}
seen = {}
for s in m["sites"]:
    for f in s["frames"][:2]:
        if f["name"] in wanted:
            seen[f["name"]] = s
for name, verdicts in wanted.items():
    assert seen[name]["verdict"] in verdicts, (name, seen[name]["verdict"])
assert m["leaks"] == 1 and m["sites"][0] is seen["leak"], m["leaks"]
leak = seen["leak"]
# All but what the last round did not come to.
assert 90000 <= leak["in_use_count"]["value"] <= 100000
assert leak["in_use_bytes"]["value"] == 8 * leak["in_use_count"]["value"]
assert leak["frames"][0]["file"].endswith("heap_verdicts.c")
assert leak["frames"][0]["line"] == int(sys.argv[1])
assert seen["reply"]["temporary_count"] == seen["reply"]["allocated_count"]["value"]
assert m["ended"] and m["leaks_bytes_per_second"] > 0
END
status 0 "$sonde" report --type alloc --span reply heap.run
has "by span" ' reply ' out
lacks "by span" 'fill_cache' out
finish

#!/usr/bin/env bash
# Profiles as files, judged by the tools that read and write them: google/pprof (built here from
# Debian's sources) shows the same self and total as we do, for our files, for a recording and for
# Go's; what it writes we read; speedscope's own schema accepts our JSON; what perf script prints is
# all there. What V8, jemalloc, Go and, where they are installed, gperftools and callgrind write of a
# program has the sums that they say it has.
set -euo pipefail

: "${SONDE_BUILD:?set it to the build directory}"
: "${SONDE_SOURCE:?set it to the source directory}"
for tool in go npm perf python3; do
    command -v $tool >/dev/null || { echo "$tool is missing: run tools/deps test" >&2; exit 1; }
done
here=$(cd "$(dirname "$0")" && pwd)
tool=$SONDE_BUILD/programs/profile_tool

work=$(mktemp -d)
cleanup() {
    status=$?
    chmod -R u+w "$work" 2>/dev/null || true
    rm -rf "$work"
    exit $status
}
trap cleanup EXIT

check() { python3 "$here/profile_formats.py" "$@"; }
say() { printf '== %s\n' "$*"; }

# ---- google/pprof --------------------------------------------------------------------------
say "building pprof"
export HOME=$work GOCACHE=$work/cache GO111MODULE=off GOPATH=/usr/share/gocode GOFLAGS=
go build -o "$work/pprof" github.com/google/pprof
pprof() { "$work/pprof" -symbolize=none -nodecount=1000000 -nodefraction=0 -edgefraction=0 "$@" 2>"$work/pprof.log"; }

say "our file in pprof"
check folded >"$work/known.folded"
"$tool" "$work/known.folded" pprof "$work/known.pb.gz"
"$tool" "$work/known.folded" flat >"$work/ours.flat"
pprof -top "$work/known.pb.gz" >"$work/theirs.top"
check top "$work/ours.flat" "$work/theirs.top"
check truth "$work/known.folded" "$work/ours.flat"

say "a recording, in our report and in pprof"
export SONDE_DIR=$work/segments
mkdir -m 700 "$SONDE_DIR"
sonde=$SONDE_BUILD/sonde
"$sonde" record -q -o "$work/burn.run" -- "$SONDE_BUILD/programs/burn" --seconds 0.7 >"$work/burn.out"
"$sonde" export -o "$work/burn.pb.gz" "$work/burn.run"
"$sonde" report --json --limit 1000000 "$work/burn.run" >"$work/burn.json"
pprof -top -unit=ns "$work/burn.pb.gz" >"$work/burn.top"
check report "$work/burn.json" "$work/burn.top"

say "pprof's file in ours"
pprof -proto -output "$work/again.pb.gz" "$work/known.pb.gz"
"$tool" "$work/again.pb.gz" flat >"$work/again.flat"
cmp "$work/ours.flat" "$work/again.flat"

say "folded in, folded out"
"$tool" "$work/known.folded" folded "$work/out.folded"
cmp <(LC_ALL=C sort "$work/known.folded") <(LC_ALL=C sort "$work/out.folded")
"$tool" "$work/known.pb.gz" folded "$work/out.folded"
cmp <(LC_ALL=C sort "$work/known.folded") <(LC_ALL=C sort "$work/out.folded")

say "Go's own profiles"
go run "$here/profile_formats.go" "$work/cpu.pb.gz" "$work/heap.pb.gz"
for name in cpu heap; do "$tool" "$work/$name.pb.gz" facts >"$work/$name.facts"; done
pprof -top -unit=ns -sample_index=cpu "$work/cpu.pb.gz" >"$work/cpu.top"
pprof -top -unit=B -sample_index=inuse_space "$work/heap.pb.gz" >"$work/live.top"
pprof -top -unit=B -sample_index=alloc_space "$work/heap.pb.gz" >"$work/alloc.top"
check total "$work/cpu.facts" cpu "$work/cpu.top"
check total "$work/heap.facts" live "$work/live.top"
check total "$work/heap.facts" alloc "$work/alloc.top"

say "all kinds of memory in one"
"$tool" "$work/heap.pb.gz" pprof-heap "$work/heap_ours.pb.gz"
pprof -top -unit=B "$work/heap_ours.pb.gz" >"$work/live.top" # what is in use is the default
pprof -top -unit=B -sample_index=alloc_space "$work/heap_ours.pb.gz" >"$work/alloc.top"
grep -q 'Type: inuse_space' "$work/live.top"
check total "$work/heap.facts" live "$work/live.top"
check total "$work/heap.facts" alloc "$work/alloc.top"

# ---- speedscope ----------------------------------------------------------------------------
say "speedscope's schema"
version=$(sed -n 's/.*"speedscope": "\(.*\)".*/\1/p' "$SONDE_SOURCE/tests/browser/package.json")
(cd "$work" && npm pack --silent --prefer-offline "speedscope@$version" >/dev/null && tar xzf speedscope-*.tgz)
"$tool" "$work/known.folded" speedscope "$work/known.speedscope.json"
"$tool" "$work/cpu.pb.gz" speedscope "$work/cpu.speedscope.json"
"$sonde" export -o "$work/burn.speedscope.json" "$work/burn.run"
for file in known cpu burn; do
    check schema "$work/package/dist/release/file-format-schema.json" "$work/$file.speedscope.json"
done
check speedscope "$work/known.folded" "$work/known.speedscope.json"

# ---- perf script ---------------------------------------------------------------------------
say "perf script"
if perf record -q -e cpu-clock -F 500 -g -o "$work/perf.data" -- \
    python3 -c 'sum(i * i for i in range(3000000))' >"$work/perf.log" 2>&1; then
    perf script -i "$work/perf.data" >"$work/perf.txt" 2>>"$work/perf.log"
    "$tool" "$work/perf.txt" facts >"$work/perf.facts"
    "$tool" "$work/perf.txt" folded "$work/perf.folded"
    check perf "$work/perf.txt" "$work/perf.facts" "$work/perf.folded"
    "$tool" "$work/perf.txt" chrome "$work/perf.trace.json"
    check trace "$work/perf.trace.json" "$work/perf.facts"
else
    echo "perf record is not allowed here: its part is left out"
fi

# ---- profiles of others ----------------------------------------------------------------------
sum_of() { "$sonde" export -q --format folded --type "$1" "$2" | awk '{ s += $NF } END { printf "%d", s }'; }
same() { [ "$2" = "$3" ] || { echo "$1: $2 is not $3" >&2; exit 1; }; }

say "our speedscope file in ours"
"$sonde" export --format folded "$work/burn.run" | LC_ALL=C sort >"$work/burn.folded"
"$sonde" export --format folded "$work/burn.speedscope.json" >"$work/again.folded"
same "functions" "$(sed 's/ [0-9]*$//' "$work/burn.folded" | sort -u)" "$(sed 's/ [0-9]*$//' "$work/again.folded" | sort -u)"

say "node's cpuprofile"
(cd "$work" && node --cpu-prof --cpu-prof-name=node.cpuprofile \
    -e 'function spin() { let s = 0; for (let i = 0; i < 2e7; i++) s += Math.sqrt(i); return s } spin()')
"$sonde" report --json --limit 1000000 "$work/node.cpuprofile" >"$work/node.json"
python3 - "$work/node.cpuprofile" "$work/node.json" <<'EOF'
import json, sys
theirs, ours = (json.load(open(f)) for f in sys.argv[1:])
names = {n["id"]: n["callFrame"]["functionName"] for n in theirs["nodes"]}
at, spin = theirs["startTime"], 0
times = []
for delta in theirs["timeDeltas"]:
    at += delta
    times.append(at)
times.append(theirs["endTime"])
assert times == sorted(times), "this node has samples out of order: look at it again"
for i, node in enumerate(theirs["samples"]):
    if names[node] == "spin": spin += times[i + 1] - times[i]
own = sum(f["self"] for f in ours["functions"] if f["name"] == "spin")
assert spin > 0 and abs(own - spin * 1000) < 1000, (own, spin)
EOF

say "jemalloc's heap profile"
jemalloc=$(ls /usr/lib/*/libjemalloc.so.2 | head -1)
(cd "$work" && MALLOC_CONF=prof:true,prof_final:true,lg_prof_sample:0,prof_prefix:je LD_PRELOAD=$jemalloc \
    python3 -c 'x = [bytes(5000) for i in range(100)]') 2>"$work/je.log"
heap=$(ls "$work"/je.*.heap | head -1)
same "jemalloc in use" "$(sed -n '2s/.*: *\([0-9]*\) \[.*/\1/p' "$heap")" "$(sum_of live "$heap")"

say "Go's heap profile as text"
cat >"$work/text.go" <<'EOF'
package main

import ("os"; "runtime"; "runtime/pprof")

var kept [][]byte

//go:noinline
func keep(n int) { kept = append(kept, make([]byte, n)) }

func main() {
	runtime.MemProfileRate = 1
	for i := 0; i < 100; i++ { keep(8192) }
	runtime.GC()
	pprof.Lookup("heap").WriteTo(os.Stdout, 1)
}
EOF
(cd "$work" && go run text.go >go.heap)
"$sonde" export -q --format folded --type live "$work/go.heap" >"$work/go.folded"
grep -q 'main.main;main.keep [0-9]' "$work/go.folded"
awk '/main.keep [0-9]/ { s += $NF } END { exit !(s >= 100 * 8192 && s < 101 * 8192 + 8192) }' "$work/go.folded"

if command -v valgrind >/dev/null; then
    say "callgrind's call graph"
    valgrind -q --tool=callgrind --callgrind-out-file="$work/callgrind.out" true
    same "callgrind's total" "$(sed -n 's/^\(totals\|summary\): *//p' "$work/callgrind.out" | head -1)" \
        "$(sum_of samples "$work/callgrind.out")"
fi
profiler=$(ls /usr/lib/*/libprofiler.so.0 2>/dev/null | head -1 || true)
if [ -n "$profiler" ]; then
    say "gperftools' CPU profile"
    CPUPROFILE=$work/cpu.prof LD_PRELOAD=$profiler "$SONDE_BUILD/programs/burn" --seconds 0.7 \
        >"$work/burn.out" 2>"$work/cpu.log"
    interrupts=$(sed -n 's/.*bytes = \([0-9]*\)\/.*/\1/p' "$work/cpu.log")
    same "gperftools' samples" "$interrupts" "$(sum_of cpu "$work/cpu.prof")"
fi
echo ok

#!/usr/bin/env bash
# bench.py itself, with a stand-in for sonde that says what it is told to: what is right, what is wrong, and
# what it does if it cannot know.
. "$(dirname "$0")/../cli/common.sh"
bench=$SONDE_SOURCE/tests/findings/bench.py
programs=$SONDE_SOURCE/tests/findings/programs
export SONDE_BUILD=$scratch/build
mkdir -p "$SONDE_BUILD/findings"
cd "$scratch" || exit
cat >"$SONDE_BUILD/sonde" <<'END'
#!/usr/bin/env python3
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
command, rest = sys.argv[1], sys.argv[2:]
if command == "record":
    program = os.path.basename(rest[rest.index("--") + 1])
    open(rest[rest.index("-o") + 1], "w").write(program)
elif rest == ["--help"]:
    sys.exit(0 if os.path.exists(here + "/answers") else 2)
else:
    print(open(os.path.join(here, "answers", open(rest[0]).read())).read())
END
chmod +x "$SONDE_BUILD/sonde"

# answer PROGRAM JSON: what `sonde findings` says of it
answer() { printf '%s' "$2" >"$SONDE_BUILD/answers/$1"; }
# finding KIND SEVERITY FILE LINE
finding() { printf '{"kind":"%s","severity":"%s","text":"t","file":"%s","line":%s}' "$@"; }

status 2 python3 "$bench" --only hot_function
has "no such command" 'has no command `findings`' err
mkdir "$SONDE_BUILD/answers"

line=$(grep -n PLANTED "$programs/hot_function.c" | cut -d : -f 1)
none='{"findings":[]}'
answer healthy_idle "$none"
answer hot_function "{\"findings\":[$(finding cpu_hot_spot warning /x/hot_function.c "$line"),$(finding leak critical x 1)]}"
bench_only() { status "$1" python3 "$bench" --short --seconds 0 --threshold 95 --only "${@:2}"; }
bench_only 0 hot_function healthy_idle
has "right" '^planted: 1 runs: right kind first in 1 \(100\.0 %\), place right in 1 of 1, both in 1' out
has "healthy" '^healthy: 1 runs: 0 findings of warning or above, at most 1 allowed' out
has "the matrix" '^cpu_hot_spot +1' out

# Another line of the same file; another file; another kind; nothing at all; not JSON.
for wrong in "$(finding cpu_hot_spot warning hot_function.c 1)" "$(finding cpu_hot_spot warning bench.h "$line")" \
        "$(finding leak warning hot_function.c "$line")" ""; do
    answer hot_function "{\"findings\":[$wrong]}"
    bench_only 1 hot_function
    has "wrong: $wrong" 'both in 0 \(0\.0 %\)' out
done
has "nothing" '^cpu_hot_spot +1' out
has "nothing" '^  A  \(none\)$' out
answer hot_function 'sonde: no'
bench_only 1 hot_function
has "an error" '^  A  \(error\)$' out

# One of two names, and nothing severe, are right for these; a finding of no weight is no alarm.
answer spin_lock "{\"findings\":[$(finding lock_contention critical spin_lock.c "$(grep -n PLANTED "$programs/spin_lock.c" | cut -d : -f 1)")]}"
answer cache_growth "{\"findings\":[$(finding cpu_hot_spot info x.c 1)]}"
answer healthy_compressor "{\"findings\":[$(finding cpu_hot_spot info deflate.c 1)]}"
bench_only 0 spin_lock cache_growth healthy_compressor
alarm="{\"findings\":[$(finding leak warning x.c 1)]}"
answer healthy_idle "$alarm"
bench_only 0 healthy_idle
answer healthy_compressor "$alarm"
bench_only 1 healthy_idle healthy_compressor
has "two alarms" '2 findings of warning or above, at most 1 allowed' out

# The plan: every program is there once, the marks of all are found, and runs are told apart by their seed.
python3 "$bench" --list >list || complain "--list fails"
[ "$(grep -c . list)" -ge 50 ] || complain "fewer than fifty programs" "$(cat list)"
[ "$(grep -c ' healthy ' list)" -ge 10 ] || complain "fewer than ten healthy programs"
while read -r _ _ file; do
    [ "$file" = - ] || grep -q PLANTED "$programs/$file" || complain "$file: nothing is marked PLANTED"
done <list
status 0 python3 "$bench" --runs 3 --seconds 0 --only healthy_idle --healthy-allowed 9
has "seeds" '^2/2 healthy_idle 100001: ' err
ls "$SONDE_BUILD"/findings/scratch-* >left 2>/dev/null && complain "left behind:" "$(cat left)"
finish

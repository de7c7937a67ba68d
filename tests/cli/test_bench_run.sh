#!/usr/bin/env bash
# sonde bench run, and the protocol of sonde/bench.h: benchmarks whose figures are known, those that go wrong,
# programs that are none. No time is asserted but from below.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
cases=$programs/bench_cases
few=(--min-processes 2 --max-processes 2 --samples 2 --sample-ms 1)
run=("$sonde" bench run "${few[@]}")

status 0 "$sonde" bench run --list "$cases"
has "a parameter" '^nap/200$' out
has "threads" '^together/threads:4$' out
same "order" "nap/200" "$(head -n 1 out)"
status 0 "$sonde" bench run --list "$cases" 'nap/*'
same "filter" $'nap/200\nnap/1000' "$(cat out)"

status 0 "${run[@]}" "$cases" nap --json
python3 - out <<'END' || complain "naps:" "$(head -c 3000 out)"
import json, sys
r = json.load(open(sys.argv[1]))
f = {x["name"]: x for x in r["figures"]}
assert r["kind"] == "run" and r["program"] == "bench_cases" and r["processes"] == 2
for us in (200, 1000):
    t = f["nap/%d.time_s" % us]
    assert t["value"] >= us * 1e-6 and len(t["parts"]) == 2 and t["low"] <= t["value"] <= t["high"], t
    assert abs(f["nap/%d.bytes_per_s" % us]["value"] * t["value"] - 1000) < 1e-6
    assert abs(f["nap/%d.items_per_s" % us]["value"] * t["value"] - 10) < 1e-6
c = r["cases"][0]
assert c["name"] == "nap/200" and c["iterations"] >= 1 and c["cpu_s"] < c["time_s"]["value"]
END

# What is paused is not in it: each iteration pauses for 200 ms.
status 0 "${run[@]}" --sample-ms 0.01 "$cases" paused --json
python3 -c '
import json
t = json.load(open("out"))["cases"][0]["time_s"]["value"]
assert 0 < t < 0.2, t' || complain "a pause is timed"

status 0 "${run[@]}" "$cases" together --json
python3 - out <<'END' || complain "threads:" "$(head -c 3000 out)"
import json, sys
r = json.load(open(sys.argv[1]))
assert [c["threads"] for c in r["cases"]] == [1, 2, 4] and not any(c["failed"] for c in r["cases"])
assert [s["name"] for s in r["scaling"]] == ["together"]
END

# Output of a benchmark is not taken for an answer.
status 0 "${run[@]}" "$cases" prints
lacks "output" 'this is output' out
status 0 "${run[@]}" --show-output -o table "$cases" prints
has "output" 'this is output' out
has "table" '^prints +[0-9]' table

status 0 "${run[@]}" --format markdown "$cases" nap/200
has "Markdown" '^\| `nap/200` \| .* ± ' out

# ---- benchmarks that go wrong --------------------------------------------------------------
status 0 "${run[@]}" "$cases" '[bn]a[dp]*'
has "fails" '^bad_fails: there is no  device ' out
has "without a loop" '^bad_loopless: it has no SONDE_BENCH_LOOP' out
has "break" '^bad_break: its loop was left by break' out
has "nothing is left of it" '^bad_empty: it takes no time: the compiler has removed it' out
status 1 "${run[@]}" "$cases" bad_fails
has "none" 'no benchmark could be measured' err
status 1 "${run[@]}" "$cases" worse_crash
has "crash" 'was ended by signal 6 .* while running worse_crash' err
status 1 "${run[@]}" "$cases" worse_exit
has "exit" 'ended with exit status 5 while running worse_exit' err
status 1 "${run[@]}" --timeout 0.2 "$cases" worse_hang
has "hang" 'has not answered for 0\.2 s while running worse_hang; --timeout' err

# ---- programs that are none ----------------------------------------------------------------
status 2 "${run[@]}"
status 2 "${run[@]}" /bin/true
has "none" 'is it a program with SONDE_BENCH_MAIN' err
status 2 "${run[@]}" ./nowhere
status 2 "${run[@]}" "$cases" no-such
has "no such benchmark" "is called 'no-such'; --list shows them" err
answers() {
    printf '#!/bin/sh\n%s\n' "$1" >liar
    chmod +x liar
    status "$2" "${run[@]}" --timeout "${4:-60}" ./liar
    has "$1" "$3" err
}
answers 'echo hello >&4; sleep 60' 2 'what is not a benchmark'
answers 'sleep 60' 2 'has not answered' 0.3
answers 'head -c 100000 /dev/zero >&4; sleep 60' 2 'a line of more than'
answers 'while echo "{\"case\":\"a\",\"threads\":1}" >&4; do :; done' 1 'more than 10000 benchmarks'
two='echo "{\"case\":\"a\",\"threads\":1}" >&4; echo "{\"end\":true}" >&4; read -r list <&3; read -r run <&3'
answers "$two; echo '{\"iterations\":7,\"real_ns\":1}' >&4; sleep 60" 1 'asked for 1 iterations, it made 7'
answers "$two; echo '{\"iterations\":' >&4; sleep 60" 1 'what is not a sample'

# ---- Ctrl-C --------------------------------------------------------------------------------
"$sonde" bench run --timeout 1000 "$cases" worse_hang >out 2>err &
pid=$!
started+=("$pid")
until_true pgrep -P "$pid"
child=$(pgrep -P "$pid")
kill -INT "$pid"
wait "$pid"
same "status after Ctrl-C" 1 $?
has "interrupted" 'interrupted' err
kill -0 "$child" 2>/dev/null && complain "the program is still running"

# ---- the program alone ---------------------------------------------------------------------
status 0 "$cases" nap
has "table" '^nap/200 .* ns .* MB/s .* items/s$' out
status 0 "$cases" --list
has "list" '^\{"case":"nap/200","name":"nap","param":200,"threads":1\}$' out
status 2 "$cases" no-such
status 2 "$cases" --no-such
status 1 "$cases" bad_fails

# Several files, C and C++, one main; and a range.
cat >one.c <<'END'
#include <sonde/bench.h>
SONDE_BENCH(same) { SONDE_BENCH_LOOP(state) { SONDE_BENCH_CLOBBER(); } }
SONDE_BENCH_RANGE(same, 1, 100, 8);
SONDE_BENCH_MAIN()
END
cat >two.cpp <<'END'
#include <sonde/bench.h>
SONDE_BENCH(other) { SONDE_BENCH_LOOP(state) { SONDE_BENCH_CLOBBER(); } }
SONDE_BENCH_THREADS(other, 1, 2)
;
END
strict=(-O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror "-I$SONDE_SOURCE/include")
gcc -std=c11 "${strict[@]}" -c one.c && g++ -std=c++11 "${strict[@]}" -c two.cpp && g++ one.o two.o -o both -pthread ||
    complain "two files do not compile or link"
status 0 "$sonde" bench run --list ./both
same "cases of both" $'other/threads:1\nother/threads:2\nsame/1\nsame/100\nsame/64\nsame/8' "$(sort out)"
finish

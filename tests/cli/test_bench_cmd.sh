#!/usr/bin/env bash
# sonde bench cmd: commands whose behaviour is known. How good its intervals are is tested by
# bench/cmd/test_rounds.c, processes that are measured by test_spawn.c. No time is asserted but from below.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
bench=("$sonde" bench cmd)

# ---- what it measures ----------------------------------------------------------------------
status 0 "${bench[@]}" -r 5 --shell none --json -n nap -n no 'sleep 0.05' true
python3 - out <<'END' || complain "two commands as JSON:" "$(head -c 3000 out)"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["kind"] == "cmd" and r["schema"] == 1 and r["verdict"]["valid"], r["verdict"]
f = {x["name"]: x for x in r["figures"]}
nap, no = f["nap.wall_s"], f["no.wall_s"]
assert len(nap["parts"]) == 5 and min(nap["parts"]) >= 0.05, nap
assert nap["low"] <= nap["value"] <= nap["high"] and nap["unit"] == "s" and nap["better"] == -1
assert abs(sum(nap["parts"]) / 5 - nap["value"]) < 1e-12
assert f["no.faults_minor"]["value"] > 10 and f["nap.switches_voluntary"]["value"] >= 1
assert ("no.instructions" in f) == r["counters"]["available"]
assert r["counters"]["available"] or len(r["counters"]["why_not"]) > 20
c = r["comparison"]
assert len(c) == 1 and {c[0]["reference"], c[0]["name"]} == {"no", "nap"} and c[0]["ratio"] >= 1, c
# On a machine that is too busy to know anything of the shorter one, there is no interval.
assert c[0]["low"] is None or c[0]["low"] <= c[0]["ratio"] <= c[0]["high"]
assert c[0]["verdict"] in ("slower", "no difference seen") and c[0]["smallest"] > 0
assert r["commands"][0]["parallel"][0]["wall_s"]["min"] >= 0.05
assert r["machine"]["cpus"] >= 1 and r["seed"] > 0
END

# A program that holds 64 MB, and one that holds little.
status 0 "${bench[@]}" -r 3 --json -n big -n small 'head -c 67108864 /dev/zero | tail -c 67108864' 'true | true'
python3 - out <<'END' || complain "memory and faults:" "$(head -c 3000 out)"
import json, sys
r = json.load(open(sys.argv[1]))
f = {x["name"]: x["value"] for x in r["figures"]}
assert 64 << 20 <= f["big.rss_bytes"] < 96 << 20, f
assert f.get("small.rss_bytes", 0) < 48 << 20
# What is not above the starting process is a bound, and no figure.
assert ("small.rss_bytes" in f) != r["commands"][1]["parallel"][0]["rss_is_upper_bound"]
assert r["shell_s"] > 0 and r["commands"][0]["shell"]
END

# What is as short as the shell's own start has no time of 0: it is said in words.
status 0 "${bench[@]}" -r 20 true
lacks "a time of nothing" '^true +0 s| 0 s …' out
has "in words" 'too short' out
has "and why" '^Below, too short: cannot be told from the time that the shell' out
# After --, words are an argument each, without a shell.
status 0 "${bench[@]}" -r 2 --show-output -o report -- printf '%s|' 'a b' '$HOME' '*'
same "words" 'a b|$HOME|*|a b|$HOME|*|' "$(cat out)"
has "the report" '^printf %s\| a b' report
status 0 "${bench[@]}" -r 2 --shell none --show-output -o report "printf '%s|' 'a b' \"c d\""
same "words without a shell" 'a b|c d|a b|c d|' "$(cat out)"
printf 'some input\n' >input
status 0 "${bench[@]}" -r 2 --input input --show-output -o report cat
same "input, twice from its beginning" $'some input\nsome input' "$(cat out)"
status 0 "${bench[@]}" -r 2 --show-output -o report 'read -r x || echo nothing'
same "no input" $'nothing\nnothing' "$(cat out)"
status 0 "${bench[@]}" -r 2 'echo said; echo said >&2'
lacks "output is dropped" '^said' out
lacks "output is dropped" '^said' err

# ---- rounds --------------------------------------------------------------------------------
status 0 "${bench[@]}" -r 12 -w 2 --seed 7 --shell none -p "sh -c 'echo p >>log'" -- sh -c 'echo a >>log'
python3 - <<'END' || complain "preparation before each run:" "$(cat log)"
lines = open("log").read().split()
assert lines == ["p", "a"] * 14, lines
END
rm -f log
status 0 "${bench[@]}" -r 30 --seed 7 'echo a >>log' 'echo b >>log' 'echo c >>log'
has "head" '^3 commands, 30 rounds in random order \(seed 7\)' out
python3 - <<'END' || complain "rounds:" "$(tr '\n' ' ' <log)"
lines = open("log").read().split()
rounds = ["".join(lines[i:i + 3]) for i in range(0, 90, 3)]
assert len(lines) == 90 and all(sorted(r) == ["a", "b", "c"] for r in rounds), rounds
assert len(set(rounds)) >= 4, rounds  # of six orders
END
cp log first
rm -f log
status 0 "${bench[@]}" -r 30 --seed 7 'echo a >>log' 'echo b >>log' 'echo c >>log'
cmp -s log first || complain "the same seed, another order"

# Copies that run at the same time meet: each waits until all have come.
cat >meet <<'END'
#!/bin/sh
: >met.$$
while [ "$(ls met.* | wc -l)" -lt "$1" ]; do sleep 0.01; done
END
chmod +x meet
status 0 "${bench[@]}" -r 1 --parallel 3 -p 'rm -f met.*' --timeout 60 -- ./meet 3
status 0 "${bench[@]}" -r 3 --parallel 1,2,4 --json -n nap -- sleep 0.02
python3 - out <<'END' || complain "scaling:" "$(head -c 3000 out)"
import json, sys
r = json.load(open(sys.argv[1]))
f = {x["name"]: x["value"] for x in r["figures"]}
for n in (1, 2, 4):
    assert f["nap.parallel_%d.wall_s" % n] >= 0.02
    assert abs(f["nap.parallel_%d.throughput_per_s" % n] * f["nap.parallel_%d.wall_s" % n] - n) < 1e-6
s = r["commands"][0]["scaling"]
assert 0 <= s["contention"]["value"] and 0 <= s["coherence"]["value"] and s["single_per_s"]["value"] <= 60
END
status 0 "${bench[@]}" -r 3 --parallel 1,2,4 -- true
has "scaling" 'contention .* coherence ' out

# It ends when enough is known, or with the most runs; and says when it was not enough.
status 0 "${bench[@]}" --until 100% --min-runs 4 --max-runs 5 --shell none --json true
python3 -c 'import json; r = json.load(open("out")); assert 4 <= r["commands"][0]["rounds"] <= 5' || complain "max-runs"
status 0 "${bench[@]}" --until 0.001% --max-runs 6 --shell none --json true
python3 -c '
import json
r = json.load(open("out"))
assert not r["verdict"]["valid"] and "not every mean" in r["verdict"]["reasons"][0] and r["commands"][0]["rounds"] == 6, r
' || complain "not enough"

# ---- formats -------------------------------------------------------------------------------
status 0 "${bench[@]}" -r 3 -o r.md 'true | true' true
has "Markdown" '^\| `true \\\| true` \| .* ± .* \|' r.md
has "Markdown" '\| 1\.00 \|$' r.md
status 0 "${bench[@]}" -r 3 -o r.json true true
python3 -c '
import json
assert [c["name"] for c in json.load(open("r.json"))["commands"]] == ["true", "true (2)"]' || complain "names of equal commands"
status 0 "${bench[@]}" -r 3 --strip --json 'true --secret'
lacks "strip" '"command":"true --secret"|"host":"[^"]' out
status 0 env LC_ALL=C "${bench[@]}" -r 3 true
LC_ALL=C grep -q '[^ -~]' out && complain "not ASCII:" "$(cat out)"

# ---- kept and checked ------------------------------------------------------------------------
export XDG_STATE_HOME=$scratch/state
status 0 "${bench[@]}" -r 3 --save nap -n nap -- sleep 0.01
status 0 "$sonde" bench compare nap nap
has "compared" '^nap\.wall_s ' out
status 3 "${bench[@]}" -r 3 --fail-on 'nap.wall_s>10ms' -n nap -- sleep 0.02
status 0 "${bench[@]}" -r 3 --fail-on 'nap.wall_s<10ms' -n nap -- sleep 0.02

# ---- failures ------------------------------------------------------------------------------
status 1 "${bench[@]}" -r 3 'exit 3'
has "exit status" "'exit 3' ended with exit status 3; --show-output .* --ignore-failure" err
status 1 "${bench[@]}" -r 3 --shell none -- sh -c 'kill -KILL $$'
has "signal" 'ended by signal 9' err
status 1 "${bench[@]}" -r 3 no-such-command-here
has "not found by the shell" 'exit status 127, the shell' err
status 0 "${bench[@]}" -i -r 3 --json 'exit 3'
has "told" "'exit 3' failed in 3 runs" out
status 1 "${bench[@]}" -r 3 -p 'exit 4' true
has "preparation" "the preparation 'exit 4' ended with exit status 4" err
status 1 "${bench[@]}" -r 3 --timeout 0.2 'sleep 100; true'
has "timeout" 'ran longer than 0\.2 s and was ended' err

for bad in "--parallel 0" "--parallel 1,1" "--parallel x" "--parallel 1,,2" "--parallel 9999" "--until 0" "--until x" \
    "--until 200%" "--shell fish" "--min-runs 9 --max-runs 4" "--runs 3 --until 2%" "--input nowhere" "--runs 0" \
    "--json --format markdown" "-n a -n b"; do
    # shellcheck disable=SC2086
    status 2 "${bench[@]}" $bad true
done
status 2 "${bench[@]}"
has "nothing to run" 'say what to run' err
status 2 "${bench[@]}" ''
status 2 "${bench[@]}" --shell none no-such-command-here
has "not found" "there is no program 'no-such-command-here' in PATH" err
status 2 "${bench[@]}" -- ./no-such
status 2 "${bench[@]}" --shell none 'a | b'
has "a pipe without a shell" 'needs a shell' err
status 1 "${bench[@]}" -r 2 -o nowhere/x.json true

# ---- Ctrl-C --------------------------------------------------------------------------------
# As soon as some rounds are over: what there is is shown, and the command is ended.
rm -f log
"${bench[@]}" -r 100000 --json -- sh -c 'echo $$ >>log; [ $(wc -l <log) -lt 8 ] || exec sleep 1000' >out 2>err &
pid=$!
started+=("$pid")
until_true eval '[ "$(wc -l <log)" -ge 8 ]'
kill -INT "$pid"
wait "$pid"
same "status after Ctrl-C" 1 $?
python3 - out <<'END' || complain "after Ctrl-C:" "$(cat out err)"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["commands"][0]["rounds"] == 7 and r["verdict"]["reasons"] == ["interrupted after 7 rounds"], r["verdict"]
END
kill -0 "$(tail -n 1 log)" 2>/dev/null && complain "the command is still running"
finish

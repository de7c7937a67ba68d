#!/usr/bin/env bash
# sonde ab: commands and servers whose difference is known. That equal ones are not called different
# is tested with simulated noise (analyze/test_sequential.c): a test on a real machine would be wrong
# now and then, as the level says. Here equal ones get so few pairs that nothing can be said of them.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
export XDG_STATE_HOME=$scratch/state

# ---- commands ----------------------------------------------------------------------------------
status 0 "$sonde" ab --shell none --a 'sleep 0.02' --b 'sleep 0.1' --seed 1 --json -o ab.json --save naps
python3 - <<'END' || complain "a planted difference" "$(head -c 3000 ab.json)"
import json
r = json.load(open("ab.json"))
ab = r["ab"]
assert r["kind"] == "ab" and ab["verdict"] == "a is better" and ab["stopped"] == "decided", ab
assert 7 <= ab["pairs"] <= 200 and len(ab["order"]) == ab["pairs"]
assert set(ab["order"]) <= {"ab", "ba"}
wall = ab["figures"][0]
assert wall["name"] == "wall_s" and wall["p"] <= 0.05 and 0 < wall["relative_low"] < wall["relative"]
f = {x["name"]: x for x in r["figures"]}
assert min(f["a.wall_s"]["parts"]) >= 0.02 and min(f["b.wall_s"]["parts"]) >= 0.1
assert len(f["b.wall_s"]["parts"]) == ab["pairs"]
END
status 0 "$sonde" ab --shell none --a 'sleep 0.1' --b 'sleep 0.02'
has "the other way" '^b is better: wall time of b was .* less' out
# The same command, so few pairs that no noise could decide: p >= 1/20 for any 6 pairs.
status 0 "$sonde" ab --shell none --a 'sleep 0.01' --b 'sleep 0.01' --max-runs 6
has "equal ones" '^undecided: .* after 6 pairs; stopped: as many pairs as --max-runs allows' out
status 0 "$sonde" ab --shell none --a 'sleep 0.01' --b 'sleep 0.01' --max-time 0.001
has "a limit of time" 'after 1 pair; stopped: as long as --max-time allows' out
status 0 "$sonde" ab --max-runs 2 --warmup 2 --prepare 'echo p >>log' --a 'echo a >>log' --b 'echo b >>log'
same "every run is prepared" "8 4 4" "$(grep -c p log) $(grep -c a log) $(grep -c b log)"
# Memory decides: what has 64 MB has more than what has none, each time.
status 0 "$sonde" ab --on rss_bytes --a 'head -c 67108864 /dev/zero | tail -c 67108864 >/dev/null' --b true
has "memory" '^b is better: peak memory of b was .* less' out
status 0 "$sonde" bench list
has "it is kept" '^naps +ab ' out

# ---- mistakes ----------------------------------------------------------------------------------
status 2 "$sonde" ab
status 2 "$sonde" ab --a true
status 2 "$sonde" ab --a true --b http://127.0.0.1:1
status 2 "$sonde" ab --a true --b true --detect x
status 2 "$sonde" ab --a true --b true --on nothing
has "which figures there are" 'there are wall_s, cpu_s' err
status 2 "$sonde" ab --a true --b true -c 4
status 2 "$sonde" ab --shell none --a true --b ./not-there
status 2 "$sonde" ab notaurl
status 1 "$sonde" ab --a true --b 'exit 3'
has "a command that fails" 'b .exit 3. ended with exit status 3' err
status 0 "$sonde" ab --max-runs 2 --ignore-failure --a true --b 'exit 3'
status 1 "$sonde" ab --timeout 0.1 --a true --b 'sleep 60'
has "a command that hangs" 'ran longer than 0.1 s' err
status 1 "$sonde" ab http://127.0.0.1:1

# ---- recordings --------------------------------------------------------------------------------
status 0 "$sonde" ab -q --shell none --max-runs 2 --record --record-runs 2 --json \
    --a "$programs/burn --seconds 0.1" --b "$programs/burn --seconds 0.1"
python3 - <<'END' || complain "recordings" "$(head -c 3000 out)"
import json
r = json.load(open("out"))
assert r["recordings"]["functions"], r["recordings"].keys()
END

# ---- servers -----------------------------------------------------------------------------------
serve() { # FILE OPTIONS…: $where is its URL
    "$programs/known_server" --itl-us 200 --no-spin "${@:2}" >"$1" &
    started+=($!)
    until_line '^port ' "$1"
    where=http://127.0.0.1:$(sed -n 's/^port //p' "$1")/v1/chat/completions
}
serve fast.log --ttft-us 2000
fast=$where
serve slow.log --ttft-us 40000
slow=$where
status 0 "$sonde" ab --a "$fast" --b "$slow" -n 3 --max-tokens 4 --on ttft_s --json
python3 - <<'END' || complain "two servers" "$(head -c 3000 out)"
import json
r = json.load(open("out"))
ab = r["ab"]
assert ab["verdict"] == "a is better" and ab["figure"] == "ttft_s", ab
f = {x["name"]: x for x in r["figures"]}
assert min(f["a.ttft_s"]["parts"]) >= 0.002 and min(f["b.ttft_s"]["parts"]) >= 0.04
assert max(f["a.error_ratio"]["parts"]) == 0
END
status 1 "$sonde" ab --a "$fast" --b http://127.0.0.1:1/v1/chat/completions
has "a server that is not there" '^sonde ab: --b: ' err
finish

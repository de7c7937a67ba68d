#!/usr/bin/env bash
# Results of benchmarks that are kept: saved, listed, shown, compared, drawn, put into a store and on
# an agent's charts. Values are written by the test, so that every answer is known.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
export XDG_STATE_HOME=$scratch/state

# result FILE MEAN…: a file of one run for each MEAN, whose parts are around it by a known noise
result() {
    python3 - "$@" <<'END'
import json, random, sys
random.seed(5)
with open(sys.argv[1], "w") as out:
    for i, mean in enumerate(map(float, sys.argv[2:])):
        parts = [mean * (1 + random.gauss(0, 0.02)) for _ in range(20)]
        value = sum(parts) / 20
        sd = (sum((p - value) ** 2 for p in parts) / 19) ** 0.5
        half = 2.093 * sd / 20 ** 0.5
        figures = [{"name": "e2e_s.p50", "unit": "s", "better": -1, "value": value,
                    "low": value - half, "high": value + half, "samples": 20, "parts": parts},
                   {"name": "requests_per_s", "unit": "1/s", "better": 1, "value": 10 / value,
                    "low": None, "high": None, "samples": 20, "parts": [10 / p for p in parts]}]
        out.write(json.dumps({"schema": 1, "kind": "http", "name": "x", "time_s": 1.7e9 + 86400 * i,
                              "sonde": "0.1.0", "seed": 1, "command": ["bench", "http"],
                              "machine": {"cpu": "c", "cpus": 2, "memory_bytes": 1 << 30,
                                          "load_before": 0, "stolen_ratio": 0},
                              "verdict": {"valid": True, "reasons": []},
                              "mine": {"kept": [1, 2]}, "figures": figures}) + "\n")
END
}

# ---- saving, listing, showing ------------------------------------------------------------------
status 0 "$sonde" bench list
has "nothing is kept yet" 'there is nothing in' err
for run in 1 2; do
    status 0 "$sonde" bench cmd -r 3 --shell none -n nap --save naps -- sleep 0.01
    has "it says where" "kept as 'naps', run $run" err
done
same "one line a run" 2 "$(wc -l <state/sonde/bench/naps.json)"
status 0 "$sonde" bench list
has "the list" '^naps +cmd +2 ' out
status 0 "$sonde" bench list --format json
python3 -c 'import json; r = json.load(open("out"))[0]; assert r["name"] == "naps" and r["runs"] == 2' ||
    complain "list as JSON" "$(cat out)"
status 0 "$sonde" bench show naps
has "figures" '^nap.wall_s ' out
has "history" '^ +2 +20' out
status 0 "$sonde" bench show naps@1 --format json
same "one of them" 1 "$(wc -l <out)"
status 2 "$sonde" bench show naps@7
has "no such run" 'has 2 runs, and no 7' err
status 2 "$sonde" bench show nothing
has "no such result" 'there is no result .nothing.' err
status 2 "$sonde" bench cmd --save '../up' -r 2 --save 'a b' true
status 0 "$sonde" bench cmd -r 2 --results other --save here true
[ -s other/here.json ] || complain "--results" "$(ls)"

# Two that save at once both come through.
for i in 1 2 3 4; do
    "$sonde" bench cmd -q -r 2 --shell none --save many -- true >/dev/null & started+=($!)
done
wait "${started[@]}"
same "writers at once" 4 "$(wc -l <state/sonde/bench/many.json)"

# ---- comparing ---------------------------------------------------------------------------------
result a.json 1.0
result b.json 1.1
result same.json 1.0
status 0 "$sonde" bench compare a.json b.json
has "slower" '^e2e_s.p50 .*\+10.* %.* worse$' out
has "fewer" '^requests_per_s .* worse$' out
has "one run each" 'one run each' out
status 0 "$sonde" bench compare a.json same.json
has "equal ones" '^e2e_s.p50 .*no difference seen \(seen from [0-9.]+ % on\)$' out
status 3 "$sonde" bench compare a.json b.json --fail-on 'e2e_s.p50>5%'
has "which limit" "fail-on 'e2e_s.p50>5%': e2e_s.p50 is" err
status 0 "$sonde" bench compare a.json b.json --fail-on 'e2e_s.p50>50%' --fail-on 'e2e_s.*>2s'
status 3 "$sonde" bench compare a.json b.json --fail-on 'requests_per_s<5%'
status 2 "$sonde" bench compare a.json b.json --fail-on 'e2e_s.p50>2'
status 2 "$sonde" bench compare a.json b.json --fail-on 'none>2%'
status 2 "$sonde" bench compare a.json b.json --fail-on 'nonsense'
status 0 "$sonde" bench compare a.json b.json --format json
python3 - <<'END' || complain "a comparison as JSON" "$(cat out)"
import json
r = json.load(open("out"))
f = {x["name"]: x for x in r["figures"]}["e2e_s.p50"]
assert f["verdict"] == "worse" and f["relative_low"] <= 0.1 <= f["relative_high"], f
assert abs(f["relative"] - 0.1) < 1e-9 and 0 < f["smallest"] < 0.1 and f["p"] < 1e-4, f
assert r["runs"] == [1, 1] and any("one run" in n for n in r["notes"])
END
status 0 "$sonde" bench compare a.json b.json --format markdown
has "markdown" '^\| e2e_s.p50 \|' out
# Sets of runs, by name with history and with --with.
result old.json 1 1.01 0.99 1.005 0.995
result new.json 1.2 1.21 1.19 1.205 1.195
status 0 "$sonde" bench compare old.json new.json
has "five runs each" 'old.json \(5 runs\)' out
has "by runs" '^e2e_s.p50 .* worse$' out
lacks "it is more than one run" 'one run each' out
status 0 "$sonde" bench compare old.json same.json --with new.json b.json
has "two of each" 'old.json and others \(6 runs\)' out
status 0 "$sonde" bench compare new.json@2 old.json@-1
status 0 "$sonde" bench compare new.json
has "the last against the earlier" 'earlier runs of new.json \(4 runs\)' out
status 2 "$sonde" bench compare a.json
status 2 "$sonde" bench compare a.json b.json same.json
status 2 "$sonde" bench compare a.json state/sonde/bench/naps.json
has "other kinds" 'cannot be compared' err
# Commands that are called after what they run.
status 0 "$sonde" bench cmd -q -r 3 --shell none --save one -- sleep 0.01
status 0 "$sonde" bench cmd -q -r 3 --shell none --save two -- sleep 0.011
status 0 "$sonde" bench compare one two
has "without the command's name" '^wall_s ' out

# ---- hostile files -----------------------------------------------------------------------------
printf '{"schema":1,"kind":"http","figures":[{"name":"\\u001b[2J","value":1}]}\n' >escape.json
status 0 "$sonde" bench show escape.json
lacks "escapes" "$(printf '\033')" out
head -c 100 a.json >half.json
echo '{"schema":9,"kind":"http"}' >future.json
: >empty.json
echo '[1,2,3]' >list.json
for file in half future empty list; do
    status 2 "$sonde" bench show $file.json
    has "what is wrong with $file" "'$file.json' is not a result that" err
    status 2 "$sonde" bench compare a.json $file.json
    status 2 "$sonde" bench plot $file.json -o x.svg
done
echo 'my notes' >state/sonde/bench/notes.json
status 2 "$sonde" bench cmd -r 2 --save notes true
same "notes stay" 'my notes' "$(cat state/sonde/bench/notes.json)"
status 2 "$sonde" bench list
has "the others are listed" '^naps ' out
rm state/sonde/bench/notes.json

# ---- pictures ----------------------------------------------------------------------------------
status 0 "$sonde" bench plot old.json new.json -o both.svg
python3 -c 'import xml.dom.minidom as x; d = x.parse("both.svg"); assert len(d.getElementsByTagName("circle")) > 40' ||
    complain "the picture is not XML, or has no points"
status 0 "$sonde" bench plot naps -o naps.html
has "a page" '^<!doctype html>' naps.html
status 0 "$sonde" bench plot a.json --figure requests_per_s -o one.svg
status 2 "$sonde" bench plot a.json --figure nothing -o one.svg
status 0 "$sonde" bench plot a.json -o one.png
status 2 "$sonde" bench plot a.json -o one.gif
status 2 "$sonde" bench plot

# ---- into a store, onto charts, limits ---------------------------------------------------------
for i in 1 2; do
    status 0 "$sonde" bench cmd -q -r 2 --shell none -n nap --store results.db --save stored -- sleep 0.01
done
status 0 "$sonde" export --format csv -o - results.db
same "points of a figure" 2 "$(grep -c 'sonde_bench_seconds.*figure=""nap.wall_s""' out)"
echo text >text.db
status 2 "$sonde" bench cmd -r 2 --store text.db true
status 3 "$sonde" bench cmd -q -r 2 --shell none -n nap --fail-on 'nap.wall_s>1ms' -- sleep 0.01
status 0 "$sonde" bench cmd -q -r 2 --shell none -n nap --fail-on 'nap.wall_s>60s' -- sleep 0.01
status 2 "$sonde" bench cmd -r 2 --fail-on 'nap.wall_s>5%' true
start_agent agent.log
status 0 "$sonde" bench cmd -q -r 2 --shell none --mark "$url" -- true
curl -sf "$url/api/events" >events || complain "no events"
has "begin" 'bench begins: true' events
has "end" 'bench ends: cmd' events
status 2 "$sonde" bench cmd -r 2 --mark nowhere true
finish

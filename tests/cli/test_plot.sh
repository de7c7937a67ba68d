#!/usr/bin/env bash
# `sonde plot`: every kind in every format, read by real parsers and held against the numbers that were drawn; of
# recordings against what `sonde report` says; empty, single, odd and hostile data; and what is refused.
. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$scratch" || exit
export TZ=UTC
python=/usr/bin/python3

# drawn STATUS BASE KIND INPUT…: in all formats, and looked at
drawn() {
    local wanted=$1 base=$2 format
    shift 2
    for format in json svg html png pdf; do
        status "$wanted" "$sonde" plot "$@" -o "$base.$format"
    done
    $python "$here/plot_check.py" "$base" >check.txt 2>&1 || complain "$base: $(tail -3 check.txt)"
}

# ---- Data files ---------------------------------------------------------------------------------
mkdir data
$python "$here/plot_data.py" data
kinds=$("$sonde" plot --list | awk 'NR > 1 { print $1 }')
same "kinds that are listed" 13 "$(wc -w <<<"$kinds")"
for kind in $kinds; do
    of=$kind
    [ "$kind" = heatmap ] && of=latency
    inputs=data/plain-$of.json
    [ "$kind" = comprehensive ] && inputs=$(echo data/plain-*.json)
    # shellcheck disable=SC2086
    drawn 0 "plain-$kind" "$kind" $inputs
    [ "$kind" = comprehensive ] && continue
    drawn 1 "none-$kind" "$kind" "data/none-$of.json"
    has "what is missing" 'It needs|Nothing to draw' "none-$kind.svg"
    for what in one odd hostile; do
        status 0 true
        for format in svg json; do
            "$sonde" plot "$kind" "data/$what-$of.json" -o "$what-$kind.$format" 2>err || {
                [ $? = 1 ] || complain "$what-$kind.$format: $(cat err)"
            }
        done
    done
done
# One of each is looked at in all formats: parsers, names, numbers.
for what in one odd hostile; do
    for kind in training latency cache compare memory; do
        "$sonde" plot "$kind" "data/$what-$kind.json" -o probe.json 2>/dev/null
        drawn $? "$what-$kind" "$kind" "data/$what-$kind.json"
    done
done
has "what was no number is counted" '5 values left out: not a finite number' odd-latency.svg

# What --format json writes is a data file again, of the same picture.
status 0 "$sonde" plot latency plain-latency.json --format json -o again.json
$python - plain-latency.json again.json <<'END' || complain "a data file does not survive"
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert a["series"] == b["series"] and a["charts"] == b["charts"]
END
status 0 "$sonde" plot auto - <data/plain-training.json
has "SVG by default" '^<svg ' "$scratch/out"
status 0 "$sonde" plot latency data/plain-latency.json --of 'tt*' --format json
has "only what was asked for" '"name":"TTFT"' "$scratch/out"
lacks "only what was asked for" '"name":"e2e"' "$scratch/out"
status 0 "$sonde" plot latency data/plain-latency.json --theme dark -o dark.svg
has "a dark picture" '#0f1217' dark.svg
lacks "a dark picture" 'prefers-color-scheme' dark.svg
status 0 "$sonde" plot latency data/plain-latency.json --width 500 --height 700 --scale 1 -o small.png
same "the size that was asked for" "500 700" "$($python -c '
import struct; print(*struct.unpack(">II", open("small.png", "rb").read()[16:24]))')"

# ---- Recordings ---------------------------------------------------------------------------------
status 0 "$sonde" record -q -F 50 -o engine.run -- "$SONDE_BUILD/example_engine"
status 0 "$sonde" record -q -F 50 -o activity.run -- "$programs/activity"
drawn 0 engine-latency latency engine.run
drawn 0 engine-comprehensive comprehensive engine.run
drawn 0 activity-cache cache activity.run
status 0 "$sonde" plot phases engine.run -o engine-phases.json
status 0 "$sonde" report --json engine.run
$python - "$scratch/out" engine-latency.json engine-phases.json activity-cache.json <<'END' || complain "not what the report says"
import json, sys
report, latency, phases, cache = (json.load(open(p)) for p in sys.argv[1:])
charts = {c["title"]: c for c in latency["charts"]}
for title, key in (("time to first token (TTFT)", "ttft_s"), ("time between tokens (ITL)", "itl_s"),
                   ("whole request (e2e)", "total_s")):
    rules = {r["label"].split()[0]: r["x"] for r in charts[title]["rules"]}
    said = report["inference"]["measures"][key]
    for q in ("p50", "p95", "p99"):
        assert abs(rules[q] - said[q]) < 1e-12, (title, q, rules, said)
    assert sum(p["y"] for p in charts[title]["series"][0]["points"]) == said["count"], said
bars = phases["charts"][0]
for p in bars["series"][0]["points"]:
    said = report["inference"]["phases"][bars["names"][int(p["x"])]]
    assert abs(p["y"] - said["seconds"]) < 1e-9, (bars["names"], p, said)
bars = {c["title"]: c for c in cache["charts"]}["look-ups by tier"]
hits, misses = (dict(zip(bars["names"], (p["y"] for p in s["points"]))) for s in bars["series"])
assert (hits["l1"], misses["l1"]) == (750, 250), (hits, misses)
END

# Two runs beside each other.
status 0 "$sonde" record -q -F 50 -o other.run -- "$SONDE_BUILD/example_engine"
drawn 0 both compare engine.run other.run
has "both are named" '>other.run<' both.svg
status 0 "$sonde" plot latency engine.run other.run -o two.svg
has "whose it is" 'TTFT\), other.run' two.svg

# Results of benchmarks.
status 0 "$sonde" bench cmd --results results --save naps --runs 3 --parallel 1,2,3 'sleep 0.01'
drawn 0 scaling scaling --results results naps
has "the law is fitted" 'contention' scaling.svg
drawn 0 kept compare --results results naps results/naps.json
status 0 "$sonde" bench plot --results results naps -o naps.pdf

# ---- What is refused ----------------------------------------------------------------------------
status 2 "$sonde" plot
status 2 "$sonde" plot latency
status 2 "$sonde" plot pie engine.run
has "what was meant" 'no kind of plot .pie' "$scratch/err"
status 2 "$sonde" plot latancy engine.run
has "what was meant" 'did you mean latency' "$scratch/err"
status 2 "$sonde" plot latency engine.run -o x.gif
status 2 "$sonde" plot latency engine.run --theme auto -o x.png
status 2 "$sonde" plot latency no-such.run -o x.png
has "what cannot be read" 'no-such.run' "$scratch/err"
status 2 "$sonde" plot latency "$here/test_plot.sh" -o x.png
echo '{"sonde_plot": 1, "series": [{"role": "rate", "name": "n", "x": [1], "y": [1, 2]}]}' >bad.json
status 2 "$sonde" plot throughput bad.json -o x.png
has "what is wrong with it" "bad.json: series 'n' has 2 values in y and 1 in x" "$scratch/err"
echo '{"sonde_plot": 1, "series": [' >bad.json
status 2 "$sonde" plot throughput bad.json -o x.png
status 2 "$sonde" plot latency data/plain-latency.json --scale 8 --width 8000 --height 8000 -o x.png
[ ! -e x.png ] || complain "a picture of nothing was written"

finish

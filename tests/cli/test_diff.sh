#!/usr/bin/env bash
# sonde diff: sets of runs, formats, limits, and what it says to mistakes. How good its verdicts are
# is tested elsewhere (analyze/test_compare.c, e2e/test_compare.sh).
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit

# Runs of three functions; b's is one third more parse.
for i in 1 2 3 4; do
    printf 'main;parse %d\nmain;send %d\nmain;idle 400\n' $((300 + i)) $((300 - i)) >a$i.folded
    printf 'main;parse %d\nmain;send %d\nmain;idle 400\n' $((400 + i)) $((200 - i)) >b$i.folded
done

# ---- one of each: files without times ------------------------------------------------------
status 0 "$sonde" diff a1.folded b1.folded
has "no verdict" '^it cannot be said whether b1\.folded is different from a1\.folded' out
has "what to do" 'sonde diff A1 A2 --with B1 B2$' out
status 3 "$sonde" diff a1.folded b1.folded --fail-on 'self:parse>5%'
has "cannot be tested" "'self:parse>5%': it is not known whether parse: " err
status 0 "$sonde" diff a1.folded b1.folded --fail-on 'self:parse>5%' --unknown-ok

# ---- sets ----------------------------------------------------------------------------------
status 0 "$sonde" diff a?.folded --with b?.folded
has "verdict" '^b1\.folded and 3 more differs from a1\.folded and 3 more: (parse|send) ' out
has "method" '^95 % intervals from 4 and 4 runs$' out
has "more" ' more +parse$' out
has "less" ' less +send$' out
has "same" ' not different +idle$' out
status 0 "$sonde" diff a1.folded a2.folded --with a3.folded a4.folded
has "the same" '^a3\.folded and 1 more is not different from a1\.folded and 1 more: ' out
status 2 "$sonde" diff --with a1.folded b1.folded
status 2 "$sonde" diff a1.folded b1.folded --with
status 2 "$sonde" diff a1.folded --with b1.folded --with b2.folded
has "twice" '\-\-with is given twice' err
status 2 "$sonde" diff a1.folded a2.folded b1.folded
has "which is which" 'Put --with between' err
status 2 "$sonde" diff a1.folded a2.folded --with b1.folded b2.folded --from 1
has "a range" 'one run on each side' err
status 2 "$sonde" diff a1.folded nowhere.folded --with b1.folded b2.folded
status 0 "$sonde" diff a?.folded --with b?.folded -o change.svg
has "a picture" '<svg' change.svg

# ---- formats -------------------------------------------------------------------------------
status 0 "$sonde" diff --format json a?.folded --with b?.folded
cp out 1.json
status 0 "$sonde" diff --json a?.folded --with b?.folded
same "--json" "$(cat 1.json)" "$(cat out)"
python3 - <<'END' || complain "diff --format json"
import json
r = json.load(open("1.json"))
assert r["verdict"] == "different" and r["parts"] == "runs" and r["runs"] == [4, 4], r["verdict"]
f = {(f["measure"], f.get("subject")): f for f in r["figures"]}
parse = f["self", "parse"]
assert parse["verdict"] == "more" and abs(parse["change"] - 0.1) < 0.001, parse
assert parse["change_low"] < 0.1 < parse["change_high"]
assert parse["relative_low"] < 1 / 3 < parse["relative_high"]
assert f["self", "idle"]["verdict"] == "not different"
assert r["headline"]["subject"] in ("parse", "send")
assert {g["name"] for g in r["functions"]} == {"main", "parse", "send", "idle"}
assert r["weight_before"] == 4000 and r["weight_after"] == 4000
END
status 0 "$sonde" diff --format markdown a?.folded --with b?.folded -o change.md
has "markdown" '^# Comparison$' change.md
has "markdown" '^\| .* \| more \| parse \|$' change.md
status 2 "$sonde" diff --format html a1.folded b1.folded
status 2 "$sonde" diff --format text --json a1.folded b1.folded
status 2 "$sonde" diff --format json a1.folded b1.folded -o change.svg

# ---- limits --------------------------------------------------------------------------------
status 3 "$sonde" diff a?.folded --with b?.folded --fail-on 'self:parse>5%'
has "told" "^sonde diff: --fail-on 'self:parse>5%': parse: by itself went from 30\.[0-9]* % to 40\.[0-9]* %" err
has "and shown" '^b1\.folded and 3 more differs' out
status 3 "$sonde" diff a?.folded --with b?.folded --fail-on 'self:idle>1%' --fail-on 'total:s*<10%'
same "only the broken one" 1 "$(wc -l <err)"
status 3 "$sonde" diff a?.folded --with b?.folded --fail-on 'self:parse>5%' -o change.svg
status 0 "$sonde" diff a?.folded --with b?.folded --fail-on 'self:parse>50%' --fail-on 'self:parse<5%'
status 0 "$sonde" diff a1.folded a2.folded --with a3.folded a4.folded --fail-on 'self:*>1%'
# Absolute: a share of 40 %, whatever it was before; also where a change could not be judged.
status 3 "$sonde" diff a1.folded b1.folded --fail-on 'self:parse>0.35'
has "absolute" "'self:parse>0.35': parse: by itself went from " err
status 0 "$sonde" diff a1.folded b1.folded --fail-on 'self:parse>0.45' --fail-on 'self:parse<0.35'
status 2 "$sonde" diff a1.folded b1.folded --fail-on 'self:parse>1GB'
has "another unit" 'self is measured in ratio, not in bytes' err
for bad in 'p95' 'p95>5 furlongs' 'p95>x%' 'what>5%' 'self>5%' 'peak:x>5%' 'p95>200' 'rss>1e9' ''; do
    status 2 "$sonde" diff a1.folded b1.folded --fail-on "$bad"
    has "names it" "'$bad'" err
    has "and the option" '^sonde diff: --fail-on: ' err
    same "'$bad': before anything is done" "" "$(cat out)"
done
status 2 "$sonde" diff a?.folded --with b?.folded --fail-on 'p95>5%'
has "no such figure" "'p95>5%': these runs have no such figure" err
status 2 "$sonde" diff a1.folded b1.folded --fail-on 'rss>1GB'
has "what to record with" "no such figure: memory .* \`sonde record --heap\`" err
status 2 "$sonde" diff a?.folded --with b?.folded --per request
has "no requests" '^sonde diff: --per request: .* there are none in what was before.* --span' err
status 2 "$sonde" diff a?.folded --with b?.folded --per second
status 0 "$sonde" diff a?.folded --with b?.folded --per run
finish

#!/usr/bin/env bash
# sonde baseline and sonde check: what is kept, listed and deleted, limits and exit statuses, formats,
# commands that are recorded, and what they say to mistakes. How good verdicts are is tested elsewhere
# (analyze/test_check.c, and with a real program by perf/check_aa).
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
export XDG_STATE_HOME=$scratch/state
baselines=$scratch/state/sonde/baselines

# Runs of three functions; b's is one third more parse.
for i in 1 2 3 4; do
    printf 'main;parse %d\nmain;send %d\nmain;idle 400\n' $((300 + i)) $((300 - i)) >a$i.folded
    printf 'main;parse %d\nmain;send %d\nmain;idle 400\n' $((400 + i)) $((200 - i)) >b$i.folded
done

# ---- keeping -------------------------------------------------------------------------------
status 0 "$sonde" baseline list
has "none" 'there is none' err
status 0 "$sonde" baseline save main a1.folded a2.folded --note 'before the change'
has "saved" '^sonde baseline: main: 2 runs, .* in .*/main\.baseline$' err
has "too few" 'takes three or more' err
status 2 "$sonde" baseline save main a3.folded
has "there is one" "there is a baseline 'main' .*--add adds to it, --force replaces it" err
status 0 "$sonde" baseline save --add main a3.folded a4.folded
same "one file" "main.baseline" "$(ls "$baselines")"
has "readable" '^sonde-baseline 1 [0-9]+$' "$baselines/main.baseline"
status 0 "$sonde" baseline list
has "a row" '^main +4 +20[0-9-]+ [0-9:]+ .* before the change$' out
status 0 "$sonde" baseline list --json
python3 - out <<'END' || complain "list --json"
import json, sys
b = json.load(open(sys.argv[1]))["baselines"]
assert len(b) == 1 and b[0]["name"] == "main" and b[0]["runs"] == 4, b
assert b[0]["note"] == "before the change" and b[0]["cpu"] is None and b[0]["bytes"] > 100
END
status 0 "$sonde" baseline show main
has "head" '^baseline main: 4 runs, the first saved on ' out
has "runs" '^ +4 .* a4\.folded$' out
status 0 "$sonde" baseline save ./mine.baseline a?.folded -q
same "by path" "" "$(cat err)"
status 0 "$sonde" baseline show ./mine.baseline --json
python3 -c 'import json; b = json.load(open("out")); assert len(b["run_list"]) == 4, b' || complain "show --json"
cp mine.baseline other.baseline
status 0 "$sonde" baseline delete ./other.baseline
[ ! -e other.baseline ] || complain "it is still there"

# ---- mistakes ------------------------------------------------------------------------------
for bad in ../x .x 'a b' -x ''; do
    status 2 "$sonde" baseline save -- "$bad" a1.folded
done
status 2 "$sonde" baseline
has "what" 'save, list, show or delete' err
status 2 "$sonde" baseline keep main
status 2 "$sonde" baseline save main
status 2 "$sonde" baseline save new nowhere.run
status 2 "$sonde" baseline save --add new a1.folded
has "no such" "there is no baseline 'new'" err
status 2 "$sonde" baseline show new
status 2 "$sonde" baseline delete new
status 2 "$sonde" baseline delete ./a1.folded
[ -e a1.folded ] || complain "deleted what is not a baseline"
status 2 "$sonde" baseline list main
status 2 "$sonde" baseline show main --note x
status 2 "$sonde" check a1.folded
has "which" 'say what to compare with: --baseline NAME' err
status 2 "$sonde" check --baseline main
status 2 "$sonde" check --baseline main a1.folded -- true
status 2 "$sonde" check --baseline new a1.folded
status 2 "$sonde" check --baseline ./a1.folded a1.folded
has "not one" "is not a baseline" err
head -c 200 mine.baseline >cut.baseline
status 2 "$sonde" check --baseline ./cut.baseline a1.folded
has "damaged" "cut.baseline' is damaged" err
status 2 "$sonde" check --baseline main nowhere.run
status 2 "$sonde" check --baseline main a1.folded --runs 3
for bad in 'p95' 'what>5%' 'rss>1e9'; do
    status 2 "$sonde" check --baseline main a1.folded --fail-on "$bad"
    has "names it" "'$bad'" err
done
for bad in x 0 -3% '' 3%%; do
    status 2 "$sonde" check --baseline main a1.folded --detect="$bad"
done
status 2 "$sonde" check --baseline main b?.folded --fail-on 'rss>1GB'
has "no such figure" 'no such figure: memory' err
status 2 "$sonde" --set baseline.max_megabytes=0 baseline list

# ---- limits --------------------------------------------------------------------------------
status 3 "$sonde" check --baseline main b?.folded --fail-on 'self:parse>5%' --fail-on 'self:idle>1%'
has "verdict" '^failed: parse: by itself changed by 33\.' out
has "a row" '^self:parse>5% .* changed: FAILED$' out
has "a row" '^self:idle>1% .* nothing to be seen$' out
has "no turns" 'cannot be recorded in turns' out
status 0 "$sonde" check --baseline main a?.folded --fail-on 'self:parse>5%'
has "passed" '^passed: parse: by itself: nothing to be seen' out
status 0 "$sonde" check --baseline main b?.folded --fail-on 'self:parse>50%' --fail-on 'self:parse>0.5'
has "within" 'within the limit' out
status 3 "$sonde" check --baseline main b?.folded --fail-on 'self:parse>0.35'
has "beyond" 'beyond the limit self:parse>0.35' out
# A single run: the baseline knows how much runs differ.
status 3 "$sonde" check --baseline main b1.folded --fail-on 'self:parse>5%'
has "borrowed" 'how much runs differ is that of the baseline' out
status 0 "$sonde" check --baseline main a1.folded --fail-on 'self:parse>5%'
# Of these runs no default limit is: a test that cannot be made does not pass.
status 3 "$sonde" check --baseline main b?.folded
has "undecided" '^failed: nothing can be said' out
status 0 "$sonde" check --baseline main b?.folded --unknown-ok

# ---- formats -------------------------------------------------------------------------------
status 3 "$sonde" check --baseline main b?.folded --fail-on 'self:parse>5%' --fail-on 'self:idle>1%' -o check.xml
has "told" '^sonde check: failed: parse' err
status 3 "$sonde" check --baseline main b?.folded --fail-on 'self:parse>5%' -o check.json --detect 3%
status 3 "$sonde" check --baseline main b?.folded --fail-on 'self:parse>5%' -o check.md -q
same "quiet" "" "$(cat err)"
has "markdown" '^\| LIMIT \| FIGURE ' check.md
status 3 "$sonde" check --baseline main b?.folded --format junit
cp out undecided.xml
python3 - <<'END' || complain "formats"
import json
import xml.etree.ElementTree as xml
suites = xml.parse("check.xml").getroot()
suite = suites.find("testsuite")
cases = suite.findall("testcase")
assert suites.tag == "testsuites" and len(cases) == 2, suites.attrib
for e in (suites, suite):
    assert (e.get("tests"), e.get("failures"), e.get("skipped")) == ("2", "1", "0"), e.attrib
assert cases[0].find("failure").get("type") == "changed" and cases[1].find("failure") is None
assert cases[0].get("name") == "self:parse>5%, parse: by itself"
undecided = xml.parse("undecided.xml").getroot()
assert undecided.get("failures") == "1" and undecided.find(".//failure") is not None
j = json.load(open("check.json"))
assert j["passed"] is False and j["verdict"] == "changed" and j["default_limits"] is False
row = j["limits"][0]
assert row["broken"] and row["detect"] == 0.03 and row["runs_more_each"] > 0
assert 0.03 < row["smallest"] < 0.3
assert abs(row["relative"] - 1 / 3) < 0.01 and j["comparison"]["runs"] == [4, 4]
END

# ---- a command -----------------------------------------------------------------------------
planted=$programs/planted
status 0 "$sonde" baseline save real --runs 4 --span request -- "$planted" 0 60
has "progress" '^sonde baseline: run 4 of 4$' err
has "its output" '^done requests 60 ' err
same "not in the way" "" "$(cat out)"
status 0 "$sonde" baseline show real
has "program" '^program: planted$' out
has "arguments" '^arguments: 0 60$' out
has "kernel" '^kernel: Linux ' out
has "CPU" '^CPUs: [0-9]+ CPU' out
has "build" '^build id: [0-9a-f]{8,}$' out
has "figures" '^CPU time a request +[0-9.]+ [mµ]s ' out
# Four times the work is seen however busy the machine is.
status 3 "$sonde" check --baseline real --fail-on 'cpu>1%' --runs 4 --runs-max 4 -- "$planted" 300 60
has "regressed" '^failed: CPU time a request regressed by ' out
has "arguments differ" "^warning: the arguments differ: '0 60' in the baseline, '300 60' now" out
has "same build" 'the same build as the baseline' out
status 1 "$sonde" check --baseline real -- false
has "it failed" 'false ended with exit status 1' err
status 1 "$sonde" check --baseline real -- ./nowhere
status 1 "$sonde" baseline save failing -- false
[ ! -e "$baselines/failing.baseline" ] || complain "kept what failed"
leftover=$(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'sonde-run-??????' -user "$(id -un)" -newer a1.folded -empty | wc -l)
same "nothing left behind" 0 "$leftover"

# ---- stripped ------------------------------------------------------------------------------
status 0 "$sonde" baseline save bare --strip --runs 2 -- "$planted" 0 20
status 0 "$sonde" baseline show bare --json
python3 - <<'END' || complain "stripped"
import json
b = json.load(open("out"))
assert b["host"] is None and b["arguments"] is None and b["kernel"].startswith("Linux"), b
assert "/" not in b["run_list"][0]["source"], b["run_list"]
END
finish

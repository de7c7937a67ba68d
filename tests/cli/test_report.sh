#!/usr/bin/env bash
# Commands that read profiles, on files whose truth is known: report, flamegraph, diff, import and
# export, from files of other tools and from run files; and files that are no profiles.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit

cat >before.folded <<'END'
main;handle;parse 30
main;handle;operator<< 60
main;idle 10
END
cat >after.folded <<'END'
main;handle;parse 60
main;handle;operator<< 60
main;idle 10
main;a&b"c</script> 70
END

# ---- report --------------------------------------------------------------------------------
status 0 "$sonde" report before.folded
has "self" '^ +60 +60\.0 % +60 +60\.0 % +operator<<$' out
has "total" '^ +0 +0\.0 % +100 +100\.0 % +main$' out
has "tree" '^ +90\.0 % +0\.0 %    handle$' out
has "complete" 'complete +100\.00 % of the stacks' out
status 0 "$sonde" report --limit 1 before.folded
lacks "limit" ' parse$' <(sed '/^Tree/,$d' out)
status 0 "$sonde" report --min-percent 20 before.folded
lacks "pruned" 'idle' <(sed '1,/^Tree/d; /^Threads/,$d' out)
status 0 "$sonde" report --markdown before.folded
has "markdown" '^\| 60 \| 60\.0 % \| 60 \| 60\.0 % \| operator\\<\\< \|' out
has "markdown" '^## Functions' out
status 0 "$sonde" report --json before.folded
python3 - <<'END' || complain "report --json"
import json
r = json.load(open("out"))
f = {f["name"]: f for f in r["functions"]}
assert r["weight"] == 100 and r["samples"] == 100 and r["complete"] == 1
assert f["operator<<"]["self"] == 60 and f["operator<<"]["self_share"] == 0.6
assert f["main"]["total"] == 100 and f["main"]["self"] == 0
assert [n["name"] for n in r["tree"] if n.get("parent") == 0] == ["main"]
END
status 0 "$sonde" report -o report.txt before.folded
has "-o" 'operator<<' report.txt
status 0 "$sonde" report - <before.folded
has "standard input" 'operator<<' out
status 2 "$sonde" report
has "nothing" 'say of what' err
status 2 "$sonde" report --json --markdown before.folded
status 2 "$sonde" report --type nonsense before.folded
has "type" "'nonsense' is not one of cpu" err
status 2 "$sonde" report --from soon before.folded
has "from" "'soon' is not a number of seconds" err
status 2 "$sonde" report --from 3 --to 2 before.folded
has "range" 'ends before it starts' err
status 2 "$sonde" report --trace 12 before.folded
has "trace" "'12' is not 32 hexadecimal digits" err
status 1 "$sonde" report --type off-cpu before.folded
has "another type" 'no samples of time blocked in it; there are some of' err
status 1 "$sonde" report --span request before.folded
has "no spans" 'has no spans' err
status 1 "$sonde" report --thread worker before.folded

# ---- import and run files ------------------------------------------------------------------
status 0 "$sonde" import before.folded -o a.run
same "no temporary file" '' "$(find . -name 'a.run.*')"
has "application id" 'SOND' a.run
"$sonde" report before.folded >1 && "$sonde" report a.run >2
same "the same report" "$(cat 1)" "$(cat 2)"
status 0 "$sonde" report - <a.run
same "a run from a pipe" "$(cat 1)" "$(cat out)"
status 0 "$sonde" import a.run -o b.run
"$sonde" report b.run >2
same "a copy" "$(cat 1)" "$(cat 2)"
status 2 "$sonde" import before.folded
has "import: no output" 'say where to' err
status 1 "$sonde" import before.folded -o no/where.run
has "import: no folder" "no/where.run" err
status 2 "$sonde" import before.folded -o /dev/null
has "import: no file" "is not a file" err
printf '1234' >there
status 1 bash -c 'ulimit -f 1; trap "" XFSZ; exec "$@"' - "$sonde" import before.folded -o there
same "no room: the old file stays" 1234 "$(cat there)"
same "no room: nothing is left" '' "$(find . -name 'there.*')"

# Files of others with something to say about them: it is said, and what is written can be read.
printf 'Warning: lost\r\nmain;f 3\r\nmain;g 4\r\n' >some.folded
status 0 "$sonde" import some.folded -o some.run
has "bad lines" '1 of 3 lines are no stacks and were passed over, the first is line 1' err
status 0 "$sonde" report some.run
python3 -c "print(';'.join('f%d' % (i % 9) for i in range(70000)) + ' 1\na;' + 'x' * 3000000 + ' 1')" >deep.folded
status 0 "$sonde" import deep.folded -o deep.run
has "shortened" '2 names longer than 65536 bytes or stacks deeper than 65535 frames were shortened' err
status 0 "$sonde" report deep.run
status 0 "$sonde" export --format folded -o deep.out deep.run
has "a stack that was cut" 'deeper frames left out' deep.out
python3 - <<'EOF'
import zlib
pack = zlib.compressobj(9, zlib.DEFLATED, 31)
with open("bomb.gz", "wb") as f:
    for _ in range(64): f.write(pack.compress(bytes(1 << 20)))
    f.write(pack.flush())
EOF
status 2 "$sonde" import bomb.gz -o x.run
has "gzip bomb" "bomb.gz': the gzip data unpacks to more than" err
cat >perf.txt <<'EOF'
# ========
a  1 1.5: 30 cycles:u:
	1 f (/b)
	2 main (/b)

a  1 1.6: 5 faults:
1 g (/b)
2 main (/b)

EOF
status 0 "$sonde" import perf.txt -o perf.run
has "several events" "the event is 'cycles:u'; 1 samples of 'faults'" err
status 0 "$sonde" import --event faults --periods perf.txt -o perf.run
"$sonde" export --format folded perf.run >out
same "--event, --periods" 'main;g 5' "$(cat out)"
status 2 "$sonde" import --event nothing perf.txt -o perf.run
has "no such event" "no samples of the event 'nothing'" err
status 2 "$sonde" import --format cpuprofile perf.txt -o perf.run
has "--format" "read as cpuprofile: line 1" err
status 2 "$sonde" import --format nothing perf.txt -o perf.run
has "--format nothing" "there is no 'nothing'" err
printf '[{"ph":"X","name":"work","ts":5,"dur":2.5,"pid":1,"tid":1}]' >trace.json
status 0 "$sonde" report --type wall trace.json
has "time from begin to end" 'Time from begin to end|time from begin to end' out

# ---- export --------------------------------------------------------------------------------
status 0 "$sonde" export --format folded a.run
sort before.folded >1 && sort out >2
same "folded" "$(cat 1)" "$(cat 2)"
for format in pprof folded speedscope report-json; do
    status 0 "$sonde" export --format $format -o exported.$format a.run
    [ -s exported.$format ] || complain "export --format $format: nothing written"
done
for file in exported.speedscope exported.report-json; do
    python3 -m json.tool "$file" >/dev/null || complain "$file is not JSON"
done
status 1 "$sonde" export --format chrome a.run
has "no times" 'no times' err
status 0 "$sonde" export -o again.pb.gz a.run
gzip -t again.pb.gz || complain "by suffix: not pprof"
status 0 "$sonde" export -o again.folded again.pb.gz
sort again.folded >2
same "through pprof and back" "$(cat 1)" "$(cat 2)"
status 0 "$sonde" export -o again.speedscope.json a.run
has "by suffix" speedscope again.speedscope.json
status 2 "$sonde" export --format perf-script a.run
has "read only" 'can be read, not written' err
status 2 "$sonde" export --format prometheus a.run
has "a file is a profile" 'is for series' err
status 2 "$sonde" export --format pprof
has "no target" 'give a FILE, URL or PID' err
status 2 "$sonde" export --format folded --name 'x*' a.run
status 2 "$sonde" export --type counter a.run
status 2 "$sonde" export --type cpu
has "type of samples" "is a type of samples" err

# ---- flamegraph ----------------------------------------------------------------------------
status 0 "$sonde" flamegraph after.folded -o a.svg
python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("a.svg")' || complain "a.svg is not XML"
has "svg" 'operator' a.svg
lacks "escaped" 'a&b"c</script>' a.svg
status 0 "$sonde" flamegraph after.folded -o a.html
has "html" '^<!DOCTYPE html>' <(head -n 1 a.html)
status 0 "$sonde" flamegraph after.folded
cmp -s out a.svg || complain "standard output: not the same SVG"
status 0 "$sonde" flamegraph --invert --icicle --by-thread --colors cold --min-width 5 --title 'Two & "three"' after.folded -o b.svg
python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("b.svg")' || complain "b.svg is not XML"
has "title" 'Two &amp; (&quot;|")three' b.svg
status 2 "$sonde" flamegraph after.folded -o a.png
has "suffix" "ends in neither .svg nor .html" err
status 2 "$sonde" flamegraph --colors blue after.folded -o a.svg
has "colours" "hot" err
status 1 "$sonde" flamegraph after.folded -o no/where.svg
status 2 "$sonde" flamegraph

# ---- diff ----------------------------------------------------------------------------------
status 0 "$sonde" diff before.folded after.folded
has "new" '^ +0\.00 +35\.00 +\+35\.00 +0\.00 +35\.00 +\+35\.00 +0 +70 +a&b"c</script>$' out
has "less" '^ +60\.00 +30\.00 +-30\.00 .*operator<<$' out
same "sorted by change" 'a&b"c</script> operator<< idle handle' \
    "$(sed '1,/ FUNCTION$/d' out | awk '{ print $NF }' | head -n 4 | xargs -d '\n')"
status 0 "$sonde" diff --json a.run after.folded
python3 - <<'END' || complain "diff --json"
import json
r = json.load(open("out"))
f = {f["name"]: f for f in r["functions"]}
assert r["weight_before"] == 100 and r["weight_after"] == 200
assert f["operator<<"]["self"] == {"before": 60, "after": 60, "share_before": 0.6, "share_after": 0.3, "share_change": -0.3}
assert f["parse"]["self"]["share_change"] == 0
END
status 0 "$sonde" diff before.folded after.folded -o change.svg
python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("change.svg")' || complain "change.svg is not XML"
status 0 "$sonde" diff before.folded after.folded -o change.html
status 2 "$sonde" diff before.folded
status 2 "$sonde" diff --json before.folded after.folded -o change.svg
status 2 "$sonde" diff --invert before.folded after.folded

# ---- What is no profile --------------------------------------------------------------------
echo 'this is no profile' >text
: >empty
head -c 3000 a.run >cut.run
{ cat a.run; } >newer.run
printf '\x00\x00\x00\x63' | dd of=newer.run bs=1 seek=60 conv=notrunc status=none
printf 'SQLite format 3\0 and then nothing' >not.run
head -c 200 again.pb.gz | head -c 60 >cut.pb.gz
for file in text empty cut.run newer.run not.run cut.pb.gz nowhere .; do
    for command in report "export --format folded" "diff before.folded" "flamegraph -o x.svg" "import -o x.run"; do
        # shellcheck disable=SC2086
        "$sonde" $command $file >out 2>err
        got=$?
        [ $got = 2 ] || [ "$command $file" = "export --format folded nowhere" ] ||
            complain "$command $file: exit status $got" "$(cat err)"
        same "$command $file: one line" 1 "$(wc -l <err)"
        has "$command $file: named" "$file|process id" err
        [ ! -s out ] || complain "$command $file: output"
    done
done
printf 'main;f 1\n' >one.folded
status 0 "$sonde" flamegraph one.folded -o one.svg
has "one sample" '<desc>1 sample</desc>' one.svg
"$sonde" report newer.run 2>err
has "newer" "of a newer sonde \(run format 99" err

# Damage anywhere: an answer, and no crash.
python3 - "$sonde" <<'END' || complain "damaged run files"
import random, subprocess, sys
data = open("a.run", "rb").read()
random.seed(7)
for i in range(40):
    bad = bytearray(data)
    for _ in range(random.randint(1, 6)):
        bad[random.randrange(len(bad))] = random.randrange(256)
    open("bad.run", "wb").write(bad[: random.choice([len(bad), random.randrange(len(bad))])])
    r = subprocess.run([sys.argv[1], "report", "bad.run"], capture_output=True)
    assert r.returncode in (0, 1, 2), (i, r.returncode, r.stderr)
END
finish

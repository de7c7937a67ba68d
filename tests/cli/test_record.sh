#!/usr/bin/env bash
# `sonde record`, `attach`, `run` and HTTP on a program whose truth is known: it burns in other
# functions inside a span than outside.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
burn=$programs/burn

"$sonde" doctor --json >doctor.json
if ! python3 -c 'import json, sys; sys.exit(not [c for c in json.load(open("doctor.json"))["checks"] if c["check"] == "cpu" and c["status"] == "ok"])'; then
    echo "the CPU cannot be sampled here: only what needs no samples is tested" >&2
    status 1 "$sonde" record -o x.run -- true
    [ -s err ] || complain "record: no reason told"
    status 0 "$sonde" run -- true
    finish
fi

# names FILE [OPTIONS…]: functions in the report
names() {
    local file=$1
    shift
    "$sonde" report --json --limit 100000 "$@" "$file" >names.json || complain "report $file $*"
    python3 -c 'import json; print(" ".join(sorted(f["name"] for f in json.load(open("names.json"))["functions"])))'
}
field() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }

# ---- a file that cannot be written ------------------------------------------------------------
status 2 "$sonde" record -o no/such/x.run -- touch ran
has "the folder is missing" "cannot create a file beside 'no/such/x.run': No such file" err
[ ! -e ran ] || complain "the command ran, and its recording was lost"
mkdir away elsewhere
status 1 env TMPDIR=elsewhere "$sonde" record -o away/x.run -- sh -c 'rmdir away; exec "$0" --seconds 0.3' "$burn"
has "the folder went away" "cannot create a file beside 'away/x.run'" err
status 0 "$sonde" report elsewhere/*-x.run

# ---- record a command -------------------------------------------------------------------------
status 0 "$sonde" record -o spans.run -- "$burn" --spans --seconds 2
has "the command's output is its own" '^truth alpha' out
lacks "the command's output is its own" 'sonde' out
has "summary" '^sonde: spans.run: [0-9]+ samples at [0-9.]+ of 1000 Hz, none lost, [0-9.]+ % of the stacks complete, [0-9]+ spans \(engine [a-z]+\)$' err
same "summary: functions" 5 "$(grep -c '^sonde: *[0-9.]* %  ' err)"

# One that ends before it is looked at is known by its arguments all the same.
status 0 "$sonde" record -q -o short.run -- "$SONDE_BUILD/programs/planted" 0 5
status 0 "$sonde" report short.run
has "arguments of a short program" '^ *command +.*/planted 0 5$' out

names spans.run >all
has "all" 'alpha' all
has "all" 'beta_down' all
has "all" 'gamma_sort' all
[ "$(field names.json samples)" -gt 500 ] || complain "too few samples: $(field names.json samples)"
names spans.run --span alpha >inside
has "inside" 'alpha' inside
lacks "inside: nothing from outside" 'beta|gamma|sort' inside
inside=$(field names.json samples)
names spans.run --span others >outside
has "outside" 'beta_down' outside
has "outside" 'gamma_sort' outside
lacks "outside: nothing from inside" 'alpha' outside
outside=$(field names.json samples)
names spans.run --span '*' >any
same "spans add up" $((inside + outside)) "$(field names.json samples)"
"$sonde" report --json --span alpha --thread burn-0 spans.run >one.json
"$sonde" report --json --span alpha --thread burn-1 spans.run >two.json
same "threads add up" "$inside" $(($(field one.json samples) + $(field two.json samples)))
"$sonde" report --json --to 0.5 spans.run >one.json
"$sonde" report --json --from 0.5 spans.run >two.json
"$sonde" report --json spans.run >three.json
same "times add up" "$(field three.json samples)" $(($(field one.json samples) + $(field two.json samples)))
status 1 "$sonde" report --span nothing spans.run
has "no such span" "no span is named 'nothing'" err
status 0 "$sonde" report spans.run
has "report" '^ +alpha +[0-9]+ +0 |^alpha +[0-9]+ +0 ' out
has "report" 'burn-0 ' out
has "report: file and line" 'burn.c:[0-9]+' out

# ---- views and formats of it --------------------------------------------------------------------
for f in a.svg a.html; do
    status 0 "$sonde" flamegraph --span alpha -o $f spans.run
    [ -s $f ] || complain "$f: empty"
done
has "flame graph" 'alpha' a.svg
lacks "flame graph" 'beta_down' a.svg
status 0 "$sonde" export --format folded --span others spans.run
has "folded" ';beta_down;' out
lacks "folded" 'alpha' out
status 0 "$sonde" export --format chrome -o a.trace.json spans.run
python3 - <<'END' || complain "chrome trace"
import json
t = json.load(open("a.trace.json"))
events = t["traceEvents"] if isinstance(t, dict) else t
assert any(e.get("name") == "alpha" for e in events)
END
status 0 "$sonde" export -o a.pb.gz spans.run
"$sonde" report --json a.pb.gz >pprof.json
same "the same weight through pprof" "$(field three.json weight)" "$(field pprof.json weight)"
status 0 "$sonde" import spans.run -o copy.run
"$sonde" report spans.run >1 && "$sonde" report copy.run >2
same "a copy" "$(cat 1)" "$(cat 2)"
status 0 "$sonde" diff spans.run copy.run
has "nothing changed" '\+0\.00 .*(spin|mix)$' out
lacks "nothing changed" ' [+-][0-9.]*[1-9][0-9.]* ' out

# ---- as if we were not there --------------------------------------------------------------------
status 7 "$sonde" record -q -o x.run -- bash -c 'echo "to stdout"; echo "to stderr" >&2; exit 7'
same "stdout" "to stdout" "$(cat out)"
same "stderr" "to stderr" "$(cat err)"
[ -s x.run ] || complain "no run of a command that fails"
status 143 "$sonde" record -q -o x.run -- bash -c 'kill -TERM $$; sleep 60'
[ -s x.run ] || complain "no run of a command that was killed"
status 127 "$sonde" record -o y.run -- ./no-such-command
has "no such command" 'no such file' err
[ ! -e y.run ] || complain "a run of a command that was not found"
status 2 "$sonde" record
status 2 "$sonde" record -p $$ -- true
status 2 "$sonde" record -F 20000 -- true
has "rate" "is not a number from 1 to 10000" err
status 2 "$sonde" record --engine magic -- true
status 1 "$sonde" record -p 4194303
has "no process" 'there is no process 4194303' err
status 0 "$sonde" record -q -- true
same "the default's name" 1 "$(find . -name 'sonde-true-*.run' | wc -l)"
status 0 "$sonde" record -q -d 0.3 -o cut.run -- "$burn" --seconds 1
has "goes on after -d" '^truth alpha' out
"$sonde" report --json cut.run >cut.json
python3 -c 'import json; r = json.load(open("cut.json")); exit(not r["end"] - r["start"] < 20)' || complain "-d: too long"

# ---- off-CPU ------------------------------------------------------------------------------------
status 0 "$sonde" record -q --off-cpu -o blocked.run -- "$burn" --sleep-mutex
"$sonde" report --json --type off-cpu --limit 1000 blocked.run >blocked.json || complain "no off-CPU samples"
python3 - <<'END' || complain "off-CPU: the wait is not there"
import json
r = json.load(open("blocked.json"))
assert r["unit"] == "nanoseconds" and r["weight"] > 500e6, r["weight"]
END

# ---- a process that runs ------------------------------------------------------------------------
"$burn" --seconds 60 --spans >burn.out &
target=$!
started+=("$target")
until_line '^range' burn.out || until_true test -e "/proc/$target"
status 0 "$sonde" record -q -p "$target" -d 1 -o attached.run
names attached.run >all
has "attached" 'alpha|beta_down' all
status 0 "$sonde" flamegraph -d 0.5 -o pid.svg "$target"
has "flame graph of a process" 'alpha|beta_down' pid.svg
status 0 "$sonde" export --format folded -d 0.5 "$target"
has "folded of a process" ';alpha|;beta_down' out
"$sonde" record -p "$target" -o interrupted.run 2>interrupted.err &
recorder=$!
started+=("$recorder")
until_true grep -q "TracerPid\|Sig" "/proc/$recorder/status"
sleep 0.5
kill -INT "$recorder"
wait "$recorder"
same "Ctrl-C is a good end" 0 $?
has "Ctrl-C: a run all the same" '^sonde: interrupted.run: ' interrupted.err
status 0 "$sonde" report interrupted.run

"$sonde" attach --listen 127.0.0.1:0 --record att.run "$target" 2>attach.err &
agent=$!
started+=("$agent")
until_line 'shows process' attach.err
url=$(url_in attach.err)
until_true curl -sf "$url/readyz"

# ---- HTTP ---------------------------------------------------------------------------------------
code() { curl -s -o body -w '%{http_code}' "$@"; }
same "pprof" 200 "$(code "$url/debug/pprof/profile?seconds=0.5")"
gzip -t body || complain "not pprof"
"$sonde" report --json body >http.json || complain "pprof of HTTP cannot be read"
same "report" 200 "$(code -X POST "$url/admin/profile/cpu?duration=0.5")"
python3 - <<'END' || complain "report of HTTP"
import json
r = json.load(open("body"))
assert r["program"] == "burn" and r["cpu"]["total_samples"] > 0 and r["cpu"]["top_functions"]
END
same "pprof by Accept" 200 "$(code -X POST -H 'Accept: application/octet-stream' "$url/admin/profile/cpu?duration=0.5")"
gzip -t body || complain "not pprof by Accept"
for bad in seconds=0 seconds=-1 seconds=x seconds= seconds=1e9 hz=5; do
    same "$bad" 400 "$(code "$url/debug/pprof/profile?$bad")"
done
same "GET of POST" 405 "$(code "$url/admin/profile/cpu")"
same "a page of elsewhere" 403 "$(code -X POST -H 'Origin: http://example.com' "$url/admin/profile/cpu?duration=0.1")"
# Several at a time.
curl -sf -o slow "$url/debug/pprof/profile?seconds=5" &
slow=$!
same "beside another" 200 "$(code -X POST "$url/admin/profile/cpu?duration=0.5")"
has "beside another" '"total_samples"' body
for i in 1 2 3 4 5 6 7 8; do
    same "others are answered meanwhile" 200 "$(code --max-time 4 "$url/livez")"
done
wait "$slow"
gzip -t slow || complain "the slow one"
for seconds in 0.5 2 8; do # on a busy machine it may hardly have run
    status 0 "$sonde" flamegraph -d $seconds -o url.svg "$url"
    grep -qE 'alpha|beta_down' url.svg && break
done
has "flame graph of a URL" 'alpha|beta_down' url.svg
for seconds in 0.5 2 8; do
    status 0 "$sonde" export --format folded -d $seconds "$url"
    grep -qE ';alpha|;beta_down' out && break
done
has "folded of a URL" ';alpha|;beta_down' out
# A person is told what takes its time; a file is not.
lacks "no progress" 'samples for' err
python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$sonde" report -d 0.2 "$url" </dev/null >tty
has "progress" "the agent at $url samples for 0\.2 s" tty
# One that is under way does not hold up the end.
curl -s -o cancelled "$url/debug/pprof/profile?seconds=600" &
cancelled=$!
sleep 0.5
kill -INT "$agent"
wait "$agent"
same "attach: Ctrl-C" 0 $?
wait "$cancelled"
has "attach: summary" 'samples at .* of 99 Hz' attach.err
status 0 "$sonde" report att.run

# ---- frames of the kernel that are not permitted, which doctor knows ------------------------------
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups env SONDE_DIR=)
open=$(mktemp -d)
chmod 777 "$open"
if "${nobody[@]}" "$sonde" doctor 2>/dev/null | grep -q '^ok *cpu  *perf.* no kernel frames'; then
    status 0 "${nobody[@]}" "$sonde" record --kernel -o "$open/k.run" -- true
    has "--kernel that is not permitted" 'no frames of the kernel, which does not permit' err
    # Nor is its time, which must be said, and not be taken for threads that were missed.
    status 0 "${nobody[@]}" "$sonde" record --engine perf -o "$open/k.run" -- \
        dd if=/dev/zero of=/dev/null bs=1M count=20000
    has "time in the kernel" 'time in the kernel is not in it, [0-9.]+ s of [0-9.]+ s: .*--engine timer' err
fi
rm -rf "$open"

# ---- code without tables that keeps a frame pointer, farther from its beginning than is looked ----
cat >far.c <<'END'
#include <time.h>
volatile long x;
#define FOUR(s) s s s s
#define MANY(s) FOUR(FOUR(FOUR(FOUR(s))))
__attribute__((noinline)) static long far(void)
{
    MANY(x++;)
    while (clock() < CLOCKS_PER_SEC / 2) for (long i = 0; i < 100000; i++) x += i;
    return x;
}
int main(void) { return far() == 1; }
END
gcc -O1 -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables far.c -o far
if "$sonde" doctor 2>/dev/null | grep -q 'perf events by'; then
    status 0 "$sonde" record -q --engine perf -o far.run -- ./far
    "$sonde" report --json far.run >far.json
    same "far from its beginning: complete" True "$(python3 -c '
import json
print(json.load(open("far.json"))["complete"] > 0.9)')"
fi

# A program is called as it was started, also by a link, in both engines.
ln -s "$burn" started-as
for engine in perf timer; do
    [ "$engine" = timer ] || "$sonde" doctor 2>/dev/null | grep -q 'perf events by' || continue
    status 0 "$sonde" record -q --engine "$engine" -F 997 -o link.run -- ./started-as --seconds 0.2
    status 0 "$sonde" report --json link.run
    has "$engine: named as started" '"program": *"started-as"' out
done

# ---- run ----------------------------------------------------------------------------------------
"$sonde" run -v --listen 127.0.0.1:0 --record ran.run -- "$burn" --seconds 1 >ran.out 2>ran.err
same "run" 0 $?
has "run: sampled" 'samples at [0-9.]+ of 99 Hz' ran.err
status 0 "$sonde" report ran.run
has "run: recorded" 'alpha' out
status 0 "$sonde" run -v --no-http --no-cpu -- true
lacks "run: not sampled" 'samples at' err
status 0 "$sonde" run -v --no-http --set cpu.enabled=false -- true
lacks "run: off by setting" 'samples at' err

{ kill -TERM "$target" && wait "$target"; } 2>/dev/null
status 1 "$sonde" attach 4194303
status 2 "$sonde" attach
status 2 "$sonde" attach here
finish

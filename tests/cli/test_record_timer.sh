#!/usr/bin/env bash
# `sonde record --engine timer`: as where the kernel forbids perf events.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
burn=$programs/burn

names() {
    local file=$1
    shift
    "$sonde" report --json --limit 100000 "$@" "$file" >names.json || complain "report $file $*"
    python3 -c 'import json; print(" ".join(sorted(f["name"] for f in json.load(open("names.json"))["functions"])))'
}

# ---- The same as with perf events ----------------------------------------------------------------
status 0 "$sonde" record --engine timer -o spans.run -- "$burn" --spans --seconds 2
has "the command's output is its own" '^truth alpha' out
has "summary" '^sonde: spans.run: [0-9]+ samples at [0-9.]+ of 1000 Hz, none lost, [0-9.]+ % of the stacks complete, [0-9]+ spans \(engine timer\)$' err
names spans.run >all
for function in alpha beta_down gamma_sort run_part; do has "all" "$function" all; done
names spans.run --span alpha >inside
has "inside" 'alpha' inside
lacks "inside: nothing from outside" 'beta|gamma|sort' inside
names spans.run --span others >outside
lacks "outside: nothing from inside" 'alpha' outside
names spans.run --thread burn-1 >thread
has "by thread" 'alpha' thread
status 0 "$sonde" report spans.run
has "report: file and line" 'burn.c:[0-9]+' out

# ---- The command notices nothing, and neither does what it starts ----------------------------------
status 0 "$sonde" record --engine timer -o env.run -- sh -c 'echo "[$LD_PRELOAD$SONDE_SAMPLER]"; env | grep -c SONDE_SAMPLER; true'
same "environment" "[]
0" "$(cat out)"
status 7 "$sonde" record --engine timer -o exit.run -- sh -c 'exit 7'

# ---- A script that becomes its program -------------------------------------------------------------
cat >start.sh <<END
#!/bin/sh
exec "$burn" --seconds 0.5
END
chmod +x start.sh
status 0 "$sonde" record --engine timer -o exec.run -- ./start.sh
names exec.run >all
has "exec" 'alpha' all

# ---- Any stack will do -----------------------------------------------------------------------------
# The program's own, with nothing that can be read on either side, are walked while others are known.
for mode in plain deep small own fibers alternate throw; do
    status 0 "$sonde" record --engine timer -o ways.run -- "$programs/ways" "$mode" 150000
    has "$mode: it ran to its end" '^site way_make' out
done

# ---- What it cannot do, it says --------------------------------------------------------------------
status 0 "$sonde" record --engine timer -o own.run -- "$programs/timer_host" own
has "own signal" 'is not sampled any more: the program handles the signal' err
status 0 "$sonde" record --engine timer -o static.run -- "$programs/unwind_steps_static"
has "static" 'statically' err
status 1 "$sonde" record --engine timer --off-cpu -o x.run -- true
has "off-cpu" 'needs perf events' err
SONDE_PRELOAD=/nowhere status 1 "$sonde" record --engine timer -o x.run -- true
has "no library" 'SONDE_PRELOAD names /nowhere' err
same "segments left" "" "$(ls "$SONDE_DIR" | grep '^[0-9]')"
finish

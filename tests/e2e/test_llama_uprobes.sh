#!/usr/bin/env bash
# llama.cpp seen from outside, by probes: in a process that runs, without anything put into it, and in
# a program that it is linked into and that exports nothing. Counts are those the programs know, and
# times too, beyond what a probe costs.
. "$(dirname "$0")/../cli/common.sh"
cd "$scratch" || exit

"$sonde" doctor --json --listen 127.0.0.1:0 >doctor.json 2>/dev/null
why=$(python3 -c '
import json
for c in json.load(open("doctor.json"))["checks"]:
    if c["check"] == "uprobes" and c["status"] != "ok": print(c["text"])')
[ -z "$why" ] || { echo "not tested: $why"; exit 0; }
"$SONDE_SOURCE/tests/llama/prepare" "$SONDE_BUILD" || exit 1
llama=$SONDE_BUILD/llama
model=$llama/tiny.gguf
# Copies: probes are in a file, and stop whoever else runs it.
mkdir lib
cp "$llama"/lib/libllama.* "$llama"/lib/libggml-base.* lib
export LD_LIBRARY_PATH=$scratch/lib

# Batches are read while they are computed. Where the machine is too busy for that, it says so, and
# the figures of requests cannot be compared.
too_late() { grep -q 'could not be read' "$1"; }
# Probes of the last agent are taken out after its end, one by one, and new ones wait for that: on a
# machine with many CPUs there are many.
taken_out() {
    local i
    for i in $(seq 1200); do
        ! grep -qsxE '[0-9]+ \(sonde-unprobe\) [^Z].*' /proc/[0-9]*/stat && return
        sleep 0.1
    done
}
until_probed() { # PATTERN FILE: two minutes at most
    local i
    for i in $(seq 1200); do
        grep -qE -- "$1" "$2" && return
        sleep 0.1
    done
    complain "never came: $1" "$(cat "$2")"
}

# compared WHAT COMMAND…: until nothing was too late, three times at most. COMMAND leaves err.
compared() {
    local what=$1 try
    shift
    for try in 1 2 3; do
        taken_out
        "$@"
        too_late err || return 0
        echo "$what: $(grep 'could not be read' err) (try $try)"
    done
    echo "$what: not compared, this machine is too busy"
    return 1
}

# ---- A server on the real library, which runs already ------------------------------------------

# spans FILE: how many batches there were, and for how long
spans() {
    python3 - "$1" <<'END'
import sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute(
    "SELECT count(*), sum(end_ns - start_ns) FROM spans JOIN strings ON strings.id = spans.name "
    "JOIN threads ON threads.id = spans.thread "
    "WHERE text IN ('prefill', 'decode') AND threads.tid > 0").fetchone()
print(rows[0], rows[1] or 0)
END
}

total() { python3 -c 'import json, sys; print(json.load(open("truth.json"))["totals"][sys.argv[1]])' "$1"; }

# attach_to NAME PROGRAM…: it waits for the file go, which is made when the probes are there
attach_to() {
    rm -f go ready truth.json
    "${@:2}" --ready-file ready --wait-for-file go --truth truth.json >out 2>drive.err &
    local pid=$!
    started+=("$pid")
    until_true test -s ready
    "$sonde" attach -v --no-http --no-cpu --no-heap --record "$1.run" "$pid" >attach.out 2>err &
    local agent=$!
    started+=("$agent")
    until_probed 'llama.cpp is watched by probes' err
    touch go
    wait "$pid" || complain "$1: exit status $?" "$(cat drive.err)"
    wait "$agent" || complain "$1: sonde: exit status $?" "$(cat err)"
}

# as_it_says NAME: the summary and the run against truth.json
as_it_says() {
    local batches ns
    has "$1: requests" "sonde: $(total requests) inference requests \(0 failed, 0 cancelled, 0 lost\)" err
    has "$1: tokens" ", $(total prompt_tokens) tokens in, $(total output_tokens) out" err
    read -r batches ns < <(spans "$1.run")
    same "$1: batches" "$(total passes)" "$batches"
    # The driver's clock is read outside of the call, with probes between the two.
    awk -v ours="$ns" -v theirs="$(total decode_call_ns)" -v name="$1" 'BEGIN {
        printf "%s: %.1f ms in llama_decode by probes, %.1f ms by the program\n", name, ours / 1e6, theirs / 1e6
        exit !(ours <= theirs * 1.5 + 100e6 && ours >= theirs * 0.5 - 20e6) }' ||
        complain "$1: other times"
    lacks "$1: nothing is lost" 'were lost' err
    # Its loading was seen, or its file is.
    "$sonde" requests --json -n 1 "$1.run" | grep -q '"model":"tiny"' || complain "$1: the model has no name"
}

drive=("$llama/llama_drive" --model "$model" --requests 24)
if compared apply attach_to apply "${drive[@]}"; then as_it_says apply; fi
if compared sample attach_to sample "${drive[@]}" --sampler sample --tokenize-thread; then
    as_it_says sample
fi

# ---- A library that is loaded while the agent watches --------------------------------------------

cat >late.py <<'END'
import ctypes, os, sys, time
open("waits", "w").write(str(os.getpid()))
while not os.path.exists("load"): time.sleep(0.01)
args = [a.encode() for a in ["drive"] + sys.argv[2:]]
main = ctypes.CDLL(sys.argv[1]).drive_main
sys.exit(main(len(args), (ctypes.c_char_p * (len(args) + 1))(*args, None)))
END
reads_probes() { grep -q sonde-uprobe "/proc/$1/task"/*/comm; }
late() {
    rm -f go ready truth.json load waits
    python3 late.py "$llama/drive.so" "${drive[@]:1}" --ready-file ready --wait-for-file go \
        --truth truth.json >out 2>drive.err &
    local pid=$!
    started+=("$pid")
    until_true test -s waits
    "$sonde" attach -v --no-http --no-cpu --no-heap --record late.run "$pid" >attach.out 2>err &
    local agent=$!
    started+=("$agent")
    until_true reads_probes "$agent"
    touch load
    until_probed "functions of llama.cpp are probed in $scratch/lib/libllama" err
    touch go
    wait "$pid" || complain "late: exit status $?" "$(cat drive.err)"
    wait "$agent" || complain "late: sonde: exit status $?" "$(cat err)"
}
if compared late late; then as_it_says late; fi

# ---- A program that has it built in ---------------------------------------------------------------

# shown NAME LABEL: the value of the one series of that name and label in the scrape
shown() { grep -E "^$1\\{[^}]*$2" metrics | awk '{ print $NF }'; }

run_static() {
    "$sonde" run --listen 127.0.0.1:0 --keep 60 -v -F 1000 --record static.run -- \
        "$programs/llama_stand_in" 12 >truth 2>err < <(echo) &
    local agent=$!
    started+=("$agent")
    until_probed 'serving http' err
    curl -sf "$(url_in err)/metrics" >metrics || complain "no metrics"
    kill -INT "$agent"
    wait "$agent" || complain "static: exit status $?" "$(cat err)"
}
if compared static run_static; then
    declare -A truth
    while read -r key value; do truth[$key]=$value; done <truth
    same "static: requests" "${truth[requests]}" "$(shown sonde_infer_requests_total 'outcome="ok"')"
    same "static: prompt" "${truth[prompt_tokens]}" "$(shown sonde_infer_tokens_total 'type="input"')"
    same "static: reused" "${truth[reused_tokens]}" "$(shown sonde_infer_tokens_total 'type="reused"')"
    same "static: output" "${truth[output_tokens]}" "$(shown sonde_infer_tokens_total 'type="output"')"
    same "static: batches" "${truth[batches]}" "$(shown sonde_infer_batch_tokens_count stand-in)"
    same "static: tokens in batches" "${truth[batch_tokens]}" "$(shown sonde_infer_batch_tokens_sum stand-in)"
    for kind in weights kv compute; do
        has "static: $kind" "^sonde_infer_memory_bytes\{.*kind=\"$kind\"" metrics
    done
    same "static: invalid events" "" "$(shown sonde_infer_invalid_events_total reason)"
    has "static: where it was seen" 'source="probe"' metrics
else
    finish
fi

# Probes take return addresses from stacks: they are put back, so that stacks are whole, and in the
# phases that they belong to.
for phase in prefill decode; do
    "$sonde" export --format folded --span $phase static.run 2>export.err || complain "$(cat export.err)"
done >folded
python3 - <<'END' || failures=$((failures + 1))
import re, sys
inside = outside = whole = 0
for line in open("folded"):
    stack, _, n = line.rpartition(" ")
    whole += int(n) * ("main" in stack.split(";"))
    inside += int(n) * ("llama_decode" in stack)
    outside += int(n) * bool(re.search("llama_sampler_apply|llama_tokenize", stack))
print("inside llama_decode: %d, elsewhere: %d, from main on: %d" % (inside, outside, whole))
if not inside or outside > 2 + 0.1 * inside or whole < 0.9 * inside:
    sys.exit("samples of phases are not those of llama_decode")
END
finish

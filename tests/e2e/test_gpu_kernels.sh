#!/usr/bin/env bash
# Commands of OpenCL, on PoCL: every one is there, with the times that the program's own events say,
# for whoever queued it; the program notices nothing; recording is switched on and off while it runs.
. "$(dirname "$0")/common.sh"
sonde=$SONDE_BUILD/sonde host=$programs/opencl_host
scratch=$(mktemp -d)
trap 'rm -rf "$SONDE_DIR" "$scratch"' EXIT
check=$(realpath "$(dirname "${BASH_SOURCE[0]}")")/gpu_kernels.py
cd "$scratch"
export SONDE_GPU_TRACK_KERNELS=1

# ---- Counts and times are the program's own, in each way to use a queue ---------------------------
for mode in in-order out-of-order threads unasked user-event failing spans; do
    "$host" $mode --n 12 --size 512 >plain || complain "$mode: exit status $?"
    "$sonde" record -o $mode.run -- "$host" $mode --n 12 --size 512 >out 2>err ||
        complain "$mode under sonde: exit status $?" "$(cat err)"
    diff <(grep ^same plain) <(grep ^same out) || complain "$mode: what the program is told changed"
    "$sonde" report --json --limit 1000 $mode.run >report.json || complain "report $mode.run"
    /usr/bin/python3 "$check" truth $mode out report.json || complain "$mode: not what the program did"
done

# ---- For whom ---------------------------------------------------------------------------------------
leaves() { "$sonde" export --type gpu --format folded -o - "$@" spans.run 2>/dev/null | sed 's/.*;//' | awk '{ print $1 }' | sort -u | tr '\n' ' '; }
[ "$(leaves --phase prefill)" = "matmul_f32 " ] || complain "prefill: $(leaves --phase prefill)"
[ "$(leaves --phase decode)" = "vec_add " ] || complain "decode: $(leaves --phase decode)"
[ "$(leaves --request first)" = "matmul_f32 vec_add " ] || complain "first: $(leaves --request first)"
"$sonde" flamegraph --phase prefill --type gpu -o prefill.svg spans.run 2>/dev/null || complain "no flame graph"
grep -q matmul_f32 prefill.svg || complain "no kernel in the flame graph"
"$sonde" export --type gpu --format folded -o stacks spans.run 2>/dev/null
grep -q 'main;spans;span_work;launch;matmul_f32 ' stacks || complain "the stack is not that of the launch" "$(cat stacks)"
for format in pprof speedscope chrome; do
    "$sonde" export --type gpu --format $format -o spans.$format spans.run 2>/dev/null || complain "export $format"
done
/usr/bin/python3 "$check" trace spans.chrome || complain "the trace has no track of the queue"
"$sonde" report spans.run >text 2>/dev/null
grep -q '^prefill ' text || complain "no GPU time by phase in the report"
grep -q '^second ' text || complain "no GPU time by request in the report"

# ---- What nobody waited for is counted --------------------------------------------------------------
"$sonde" record -o leave.run -- "$host" leave --n 12 >out 2>err || complain "leave: exit status $?"
"$sonde" report --json leave.run >report.json
/usr/bin/python3 "$check" left report.json || complain "leave: commands that were not read are not counted"

# ---- Programs that others wrote ---------------------------------------------------------------------
clinfo >plain 2>&1 && "$sonde" record -o clinfo.run -- clinfo >out 2>err
diff plain out >/dev/null || complain "clinfo says something else"
/usr/bin/python3 "$check" ctypes >plain || complain "ctypes: $?"
"$sonde" record -o ctypes.run -- /usr/bin/python3 "$check" ctypes >out 2>err || complain "ctypes under sonde: $?"
diff plain out || complain "ctypes: something else"
"$sonde" export --type gpu --format folded -o stacks ctypes.run 2>/dev/null
grep -q 'run_kernel.*;twice ' stacks || complain "no function of Python in the stack" "$(cat stacks 2>/dev/null)"
"$sonde" record -o env.run -- env >out 2>/dev/null
grep -q OPENCL_LAYERS out && complain "the variable of layers is in the environment"
OPENCL_LAYERS=/nowhere.so "$sonde" record -o env.run -- env >out 2>/dev/null
grep -q '^OPENCL_LAYERS=/nowhere.so$' out || complain "the program's own variable is gone"

# ---- On and off while it runs ------------------------------------------------------------------------
SONDE_GPU_TRACK_KERNELS=0 "$sonde" run -v --listen 127.0.0.1:0 -- "$host" wait --seconds 60 --size 512 >out 2>log &
agent=$!
url() { sed -n 's|.*\(http://127.0.0.1:[0-9]*\) shows process.*|\1|p' log | head -1; }
has_url() { [ -n "$(url)" ]; }
until_true has_url
metric() { curl -s "$(url)/metrics" | awk -v name="$1{" 'index($0, name) == 1 { sum += $NF } END { print sum + 0 }'; }
tracks() { curl -s "$(url)/metrics" | grep -q "^sonde_gpu_tracking{.*} $1\$"; }
until_true tracks 0
[ "$(metric sonde_gpu_commands_total)" = 0 ] || complain "commands are recorded though that is off"
echo 'nonsense on 1' >"$SONDE_DIR/agent.gpu"
curl -s -X POST "$(url)/admin/profile/gpu?duration=0" | grep -q '"error"' || complain "a duration of 0 is taken"
curl -s -X POST "$(url)/admin/profile/gpu?duration=3600" | grep -q '"enabled":true' || complain "it is not switched on"
until_true tracks 1
counts() { [ "$(metric sonde_gpu_commands_total)" -gt 100 ]; }
until_true counts
curl -s -X POST "$(url)/admin/profile/gpu?enabled=false&duration=3600" | grep -q '"enabled":false' || complain "it is not switched off"
until_true tracks 0
kill "$(sed -n 's/^pid //p' out)"
wait $agent || true
finish

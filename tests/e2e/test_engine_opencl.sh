#!/usr/bin/env bash
# The server on an OpenCL device (PoCL, where there is no other) under `sonde run`: many clients at a
# time get the very text that the CPU's portable kernels give, and the agent's counts of operations,
# by device, are those of the passes in the engine's own event log.
. "$(dirname "$0")/../cli/common.sh"
cd "$scratch" || exit
engine=$SONDE_BUILD/sonde-engine
export POCL_CACHE_DIR=$scratch/pocl SONDE_ENGINE_KERNEL=portable
patience=120
unset SONDE_SEED SONDE_DETERMINISTIC SONDE_BATCH_SIZE SONDE_NUM_THREADS SONDE_MEMORY_LIMIT SONDE_ENGINE_OPENCL

"$engine" make-model --size tiny --type Q4_0 -o model.gguf >made 2>&1 || { complain "make-model:" "$(cat made)"; finish; }

# ask URL FOLDER: 24 requests, 6 at a time; some of them sampled, with a seed. Before them one alone, whose
# prompt is longer than a pass
ask() {
    mkdir "$2"
    python3 - "$1" "$2" <<'END2' || complain "requests to $1: status $?"
import concurrent.futures, json, sys, urllib.request
url, folder = sys.argv[1:]
def one(i):
    body = {"prompt": f"Request {i} of some: " + "word and word, " * (i * 7 % 19), "max_tokens": 4 + i % 9, "ignore_eos": True,
            "temperature": 0 if i % 3 else 0.8, "seed": i}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["choices"][0]["text"]
alone = one(5)
with concurrent.futures.ThreadPoolExecutor(6) as pool:
    json.dump([alone, *pool.map(one, range(24))], open(folder + "/texts", "w"))
END2
}

# ---- The CPU ---------------------------------------------------------------------------------
"$engine" serve -m model.gguf --listen 127.0.0.1:0 --slots 3 --batch 48 >cpu.log 2>&1 &
started+=($!)
until_line 'listening on http' cpu.log || { cat cpu.log >&2; finish; }
ask "$(url_in cpu.log)" cpu
curl -sS --max-time 20 "$(url_in cpu.log)/health" >health
has "device of the CPU" '"device":"cpu"' health
kill -TERM "${started[-1]}"

# ---- The device, watched -----------------------------------------------------------------------
"$sonde" run -v --listen 127.0.0.1:0 --keep 120 -- "$engine" serve -m model.gguf --listen 127.0.0.1:0 \
    --slots 3 --batch 48 --device opencl --event-log events >printed 2>told &
started+=($!)
run=$!
until_line 'listening on http' printed || { cat told printed >&2; finish; }
at=$(url_in printed)
read -r child <"/proc/$run/task/$run/children"
cleanup_engine() { kill -KILL "$child" 2>/dev/null; cleanup; }
trap cleanup_engine EXIT
has "said at the start" '^device opencl0, .*: 15 of 15 matrices, [0-9.]+ MB$' printed
curl -sS --max-time 20 "$at/health" >health
has "device" '"device":"opencl0"' health

# While it serves: its memory is in use, and the backend is named.
agent=$(url_in told)
holds() { curl -sf --max-time 20 "$agent/metrics" >metrics && grep -qE -- "$1" metrics; }
for line in 'sonde_device_memory_bytes\{device="opencl0",state="used",.*\} [1-9]' \
    'sonde_memory_pool_bytes\{pool="opencl0.weights",.*\} [1-9]' \
    'sonde_memory_pool_bytes\{pool="opencl0.activations",.*\} [1-9]' 'sonde_[a-z_]+\{.*backend="opencl"'; do
    until_true holds "^$line"
done

ask "$at" opencl
cmp cpu/texts opencl/texts || complain "other texts than the CPU's:" "$(head -c 600 cpu/texts)" "$(head -c 600 opencl/texts)"

# ---- Counts --------------------------------------------------------------------------------------
kill -TERM "$child"
until_line 'serving http' told || { cat told >&2; finish; }
agent=$(grep -oE 'http://[0-9.]+:[0-9]+' told | tail -n 1)
curl -sS --max-time 60 -o answer "$agent/api/engine" || complain "/api/engine: $?"
python3 - <<'END2' || complain "counts:" "$(head -c 3000 answer)"
import json
# Where no request wants a token of a pass, it ends with the keys and values of the last layer.
passes = whole = sampled = 0
for line in open("events"):
    event = json.loads(line)["event"]
    if event == "batch":
        passes, sampled = passes + 1, 0
    elif event == "sample":
        whole, sampled = whole + (not sampled), 1
short = passes - whole
assert whole > 50 and short > 0, (whole, short)
devices = json.load(open("answer"))["devices"]
counts = {d["device"]: {o["operation"]: o["count"] for o in d["operations"] if o["count"]} for d in devices["list"]}
# tiny has two layers: 7 products each, and the output
assert counts["opencl0"] == {"matmul": 15 * whole + 9 * short, "copy": 25 * whole + 14 * short}, (counts, whole, short)
assert counts["cpu"] == {"quantize": 10 * whole + 5 * short, "attention": 2 * whole + short, "other": passes}, (counts, whole, short)
assert devices["gpu_operations"] == sum(counts["opencl0"].values()) and devices["fallbacks"] == 0, devices
END2
finish

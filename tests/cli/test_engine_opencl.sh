#!/usr/bin/env bash
# sonde-engine --device opencl (PoCL, where there is no other device): the tokens and logits of the
# CPU's portable kernels to the bit, for every type of weights; what does not fit its memory stays
# with the CPU; and all that sonde is told of it is what a count by hand gives.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
engine=$SONDE_BUILD/sonde-engine
export POCL_CACHE_DIR=$scratch/pocl
unset SONDE_SEED SONDE_NUM_THREADS SONDE_BATCH_SIZE SONDE_MEMORY_LIMIT SONDE_ENGINE_OPENCL

"$engine" run --device list >list.txt || complain "--device list"
has "the CPU" '^cpu  ' list.txt
has "a device" '^opencl:0 .* compute units, .* GB; .*OpenCL [0-9]' list.txt
if ! grep -q '^opencl:0 ' list.txt; then
    complain "there is no OpenCL device: tools/deps test installs one"
    finish
fi
for command in serve bench; do
    "$engine" $command --device list | cmp -s list.txt || complain "$command --device list"
done

# ---- What cannot be --------------------------------------------------------------------------
types='F32 F16 Q8_0 Q4_0 TQ2_0 I2_S'
for type in $types; do
    "$engine" make-model --size tiny --type "$type" -o "$type.gguf" >made 2>&1 || complain "make-model $type:" "$(cat made)"
done
refused() { # WORDS [VARIABLE=VALUE…] OPTIONS…
    local words=$1 set=()
    shift
    while [[ $1 == *=* ]]; do set+=("$1"); shift; done
    status 2 env "${set[@]}" "$engine" run -m Q8_0.gguf -p x "$@"
    grep -qF -- "$words" err || complain "$*: does not say '$words':" "$(cat err)"
}
refused "--device is 'cuda', but has to be cpu, opencl" --device cuda
refused "--device is 'opencl:x'" --device opencl:x
refused "there is no opencl:31" --device opencl:31
refused "--device-memory is '0'" --device opencl --device-memory 0
refused "has no room" --device opencl --device-memory 100KB
refused "OpenCL is not there (libNone.so" SONDE_ENGINE_OPENCL=libNone.so --device opencl
refused "ocl-icd-libopencl1" SONDE_ENGINE_OPENCL=libNone.so --device opencl
refused "has no function clGetPlatformIDs" SONDE_ENGINE_OPENCL=libm.so.6 --device opencl
refused "OpenCL has no device here" OCL_ICD_VENDORS="$scratch" --device opencl
status 2 "$engine" serve -m Q8_0.gguf --device opencl:31
grep -qF "there is no opencl:31" err || complain "serve:" "$(cat err)"
# Without OpenCL the CPU is as good as ever.
status 0 env SONDE_ENGINE_OPENCL=libNone.so "$engine" run -m Q8_0.gguf -p x -n 2 --device cpu

# ---- The same bits ---------------------------------------------------------------------------
prompt=$(seq -s ' ' 1 61)
# generate NAME OPTIONS…: NAME.ids and NAME.logits
generate() {
    local name=$1
    shift
    "$engine" run --ids -p "$prompt" -n 16 --ignore-end --logits "$name.logits" "$@" >"$name.ids" 2>"$name.err" ||
        complain "$name $*:" "$(cat "$name.err")"
}
same_bits() { # WHAT A B
    cmp "$2.ids" "$3.ids" || complain "$1: other tokens"
    cmp "$2.logits" "$3.logits" || complain "$1: other logits"
}
for type in $types; do
    SONDE_ENGINE_KERNEL=portable generate cpu -m $type.gguf
    SONDE_ENGINE_KERNEL=portable generate opencl -m $type.gguf --device opencl
    same_bits "$type" cpu opencl
    has "$type" '^sonde-engine run: opencl0, .*: 15 of 15 matrices, ' opencl.err
    SONDE_ENGINE_KERNEL=portable generate parts -m $type.gguf --device opencl:0 --batch 7 --threads 2
    same_bits "$type, in parts" cpu parts
done

# With the kernels that the CPU is best at for the rest: the same on every run, and near the CPU's.
for type in $types; do
    generate one -m $type.gguf --device opencl
    generate other -m $type.gguf --device opencl --batch 5
    same_bits "$type, again" one other
    generate cpu -m $type.gguf -n 0
    python3 - "$type" <<'END2' || complain "$type: logits are not near the CPU's"
import array, sys
ours, theirs = (array.array("f", open(name, "rb").read()) for name in ("one.logits", "cpu.logits"))
most = max(map(abs, theirs))
off = max(abs(a - b) for a, b in zip(ours, theirs))  # of the prompt: an answer may part where two are equal
print(f"{sys.argv[1]}: off by {off:.3g} of {most:.3g}")
sys.exit(len(theirs) == 0 or len(theirs) > len(ours) or not off <= 0.05 * most)
END2
done

# ---- What sonde is told ------------------------------------------------------------------------
# counted NAME KEPT: the report of NAME.run; so many of 15 matrices are on the device. A pass of this
# model of two layers is 15 products of 10 conversions; in the last layer only keys and values are of
# the whole prompt.
counted() {
    status 0 "$sonde" report --json "$1.run"
    python3 - "$2" <<'END2' || complain "$1: sonde was told otherwise:" "$(head -c 2000 "$scratch/out")"
import json, sys
kept, passes = int(sys.argv[1]), 10
devices = json.load(open("out"))["devices"]
by = {d["device"]: d for d in devices["list"]}
counts = {d: {o["operation"]: o["count"] for o in by[d]["operations"]} for d in by}
rest = (15 - kept) * passes
expected = {"quantize": 10 * passes, "attention": 2 * passes, "other": passes}
if rest:
    expected["matmul"] = rest
assert {k: v for k, v in counts["cpu"].items() if v} == expected, counts
assert counts["opencl0"]["matmul"] == kept * passes, counts
if kept == 15:  # a write for each conversion, a read for each product
    assert counts["opencl0"]["copy"] == 25 * passes, counts
assert by["opencl0"]["kind"] == "gpu" and by["opencl0"]["fallbacks"] == rest == devices["fallbacks"], devices
assert by["opencl0"]["fallback_reasons"] == ({"out_of_memory": rest} if rest else {}), by["opencl0"]
assert all(o["seconds"] > 0 for o in by["opencl0"]["operations"])
END2
}
status 0 "$sonde" record -o all.run -- "$engine" run -m Q8_0.gguf --ids -p "$prompt" -n 10 --ignore-end --device opencl
counted all 15
status 0 "$sonde" report --format prometheus all.run
# tiny is 256 wide, 64 of them keys and values, and 512 in the middle; results are floats, and a row of
# activations has a byte for each number and two times 64 bytes of scales and sums.
"$engine" bench -m Q8_0.gguf -p 1 -n 1 -r 1 --json >bench.json || complain "bench"
python3 - "$scratch/out" "$(wc -w <<<"$prompt")" <<'END2' || complain "bytes that were copied:" "$(grep opencl0 "$scratch/out")"
import json, re, sys
text, prompt, passes = open(sys.argv[1]).read(), int(sys.argv[2]), 10
rows = prompt + passes - 1  # of all passes; one of each goes through all of the last layer
vocab = json.load(open("bench.json"))["vocab"]
wide, middle = 256 + 128, 512 + 128
back = 4 * (rows * (256 + 64 + 64 + 256 + 2 * 512 + 256) + rows * 128 + passes * (256 + 256 + 2 * 512 + 256 + vocab))
there = rows * (3 * wide + middle) + rows * wide + passes * (3 * wide + middle + wide)
for direction, bytes in (("from_device", back), ("to_device", there)):
    told = re.search(rf'^sonde_engine_transfer_bytes_total\{{device="opencl0",direction="{direction}".*\}} (\S+)$', text, re.M)
    assert round(float(told[1])) == bytes, (direction, told[1], bytes)
peak = dict(re.findall(r'^sonde_memory_pool_peak_bytes\{pool="(opencl0\.\w+)".*\} (\S+)$', text, re.M))
assert int(peak["opencl0.weights"]) > 1e6 and int(peak["opencl0.activations"]) > 0, peak
END2

# A part of the model: the logits are still those of the CPU, where that has the portable kernels.
SONDE_ENGINE_KERNEL=portable generate cpu -m Q8_0.gguf --batch 64
SONDE_ENGINE_KERNEL=portable generate part -m Q8_0.gguf --batch 64 --device opencl --device-memory 1000KB
same_bits "a part" cpu part
kept=$(sed -n 's/.*: \([0-9]*\) of 15 matrices.*(out_of_memory)$/\1/p' part.err)
[ "${kept:-0}" -gt 0 ] && [ "$kept" -lt 15 ] || complain "a part:" "$(cat part.err)"
status 0 "$sonde" record -o part.run -- "$engine" run -m Q8_0.gguf --ids -p "$prompt" -n 10 --ignore-end \
    --batch 64 --device opencl --device-memory 1000KB
counted part "$kept"

# The device is gone in the fourth pass, after two launches at the start and three passes: said once, and
# the CPU goes on, with the same bits if it has the portable kernels.
gone=(env LD_PRELOAD="$programs/opencl_fails.so" OPENCL_FAILS_AT=52)
SONDE_ENGINE_KERNEL=portable "${gone[@]}" "$engine" run --ids -p "$prompt" -n 16 --ignore-end --logits gone.logits \
    -m Q8_0.gguf --batch 64 --device opencl >gone.ids 2>gone.err || complain "a device that is gone:" "$(cat gone.err)"
same_bits "a device that is gone" cpu gone
same "said once" 1 "$(grep -c 'failed: CL_OUT_OF_RESOURCES in clEnqueueNDRangeKernel (-5). From now on the CPU' gone.err)"
status 0 "$sonde" record -o gone.run -- "${gone[@]}" "$engine" run -m Q8_0.gguf --ids -p "$prompt" -n 10 --ignore-end \
    --batch 64 --device opencl
status 0 "$sonde" report --json gone.run
python3 - <<'END2' || complain "a device that is gone: sonde was told otherwise:" "$(head -c 2000 "$scratch/out")"
import json
by = {d["device"]: d for d in json.load(open("out"))["devices"]["list"]}
done = {d: next(o["count"] for o in by[d]["operations"] if o["operation"] == "matmul") for d in by}
assert 45 <= done["opencl0"] < 50 and done["cpu"] == 150 - done["opencl0"], done
assert by["opencl0"]["fallback_reasons"] == {"lost": done["cpu"]}, by["opencl0"]
END2

# bench says where it ran.
status 0 "$engine" bench -m Q8_0.gguf -p 20 -n 3 -r 1 --device opencl --json
python3 -c 'import json; assert json.load(open("out"))["device"] == "opencl0"' || complain "bench" "$(cat out)"
finish

#!/usr/bin/env bash
# A real llama.cpp generation does under the heap profiler what it does without: the same tokens, the
# same exit status; and the profile names weights, KV cache and compute buffers with their bytes.
. "$(dirname "$0")/../cli/common.sh"
"$SONDE_SOURCE/tests/llama/prepare" "$SONDE_BUILD" || exit 1
llama=$SONDE_BUILD/llama
cd "$scratch" || exit
work=(--model "$llama/tiny.gguf" --requests 24 --cancel 9 --truth truth.json)
status 0 "$llama/llama_drive" "${work[@]}"
mv out plain

# under NAME OPTIONS… -- COMMAND…: as without; NAME.run is the recording, NAME.json its report.
under() {
    local name=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    status 0 timeout -k 5 240 "$sonde" run -q --no-http "${options[@]}" --record "$name.run" -- "$@"
    cmp -s plain out || complain "$name: other tokens" "$(diff plain out | head -n 5)" "$(head -n 5 err)"
    [ ! -s err ] || complain "$name: it says" "$(head -n 5 err)"
    "$sonde" report --json --limit 1000000 "$name.run" >"$name.json" || complain "$name: no report"
}

drive=("$llama/llama_drive" "${work[@]}")
under sampled --no-cpu --heap -- "${drive[@]}"
under often --no-cpu --heap=16384 --leak-check=scan -- "${drive[@]}" --no-mmap
under full --no-cpu --heap=full -- "${drive[@]}"
under scanned --no-cpu --heap=full --leak-check=scan -- "${drive[@]}" --no-mmap
under plugin --no-cpu --heap=full --leak-check=scan -- "$llama/llama_host" "${drive[@]:1}"
under threads --heap --rate 1000 -- "${drive[@]}" --tokenize-thread

python3 - <<'END' || failures=$((failures + 1))
import json, sys
truth = json.load(open("truth.json"))["memory"]
memory = {n: json.load(open(n + ".json"))["memory"]
          for n in ("sampled", "often", "full", "scanned", "plugin", "threads")}
bad = []
def want(text, got):
    if not got: bad.append(text)

def under(m, function, figure="peak_bytes"):
    """Bytes of all places that this function is a caller of."""
    return sum(s[figure] for s in m["sites"] if any(function in f["name"] for f in s["frames"]))

page = 4096
for name, m in memory.items():
    full = name in ("full", "scanned", "plugin")
    want("%s: mode %s" % (name, m["mode"]), m["mode"] == ("full" if full else "sampled"))
    want("%s: leaks" % name, m["leaks"] == 0)
    want("%s: not seen: %s" % (name, m["not_seen"]), not any(m["not_seen"].values()))
    # All that is large was freed before the end.
    want("%s: in use at the end: %s" % (name, m["in_use_bytes"]), m["in_use_bytes"]["value"] < 2e6)
    want("%s: peak %s" % (name, m["peak_bytes"]),
         m["peak_bytes"] > truth["kv_bytes"] + truth["model_bytes"])
    if not full: continue
    mapped = name in ("full", "plugin")
    weights = under(m, "llama_mmap" if mapped else "load_tensors")
    want("%s: weights: %d, not %d" % (name, weights, truth["model_bytes"]),
         truth["model_bytes"] - page <= weights <= truth["model_bytes"] * 1.02 + 2 * page)
    kv = under(m, "ggml_backend_alloc_ctx_tensors_from_buft") - (0 if mapped else truth["model_bytes"])
    want("%s: KV cache: %d, not %d" % (name, kv, truth["kv_bytes"]),
         truth["kv_bytes"] <= kv <= truth["kv_bytes"] + page)
    compute = under(m, "ggml_gallocr_reserve_n_impl")
    logged = sum(b["bytes"] for b in truth["logged"] if b["what"].endswith("compute"))
    want("%s: compute: %d, not %d" % (name, compute, logged),
         abs(compute - logged) < 65536)
for name in ("often", "scanned", "plugin"):
    m = memory[name]
    want("%s: lost %s" % (name, m["lost_bytes"]), m["scanned"] and m["lost_bytes"] <= 65536)

# What is larger than the mean by far is in the samples for sure; the rest is hundreds of them.
exact, often = memory["scanned"], memory["often"]
for figure in ("peak_bytes", "allocated_bytes"):
    a, b = ((m[figure] if figure == "peak_bytes" else m[figure]["value"]) for m in (exact, often))
    want("%s: %d, estimated %d" % (figure, a, b), abs(a - b) < 0.25 * a)
want("weights in samples", under(often, "load_tensors") >= truth["model_bytes"])
want("sites of decoding", under(exact, "llama_decode", "peak_bytes") > 0)
for line in bad: print(line, file=sys.stderr)
sys.exit(bool(bad))
END

"$sonde" flamegraph --type peak -o peak.svg scanned.run || complain "no flame graph"
has "the flame graph has the weights" 'load_tensors' peak.svg
"$sonde" export --type alloc -o alloc.folded scanned.run || complain "no export"
has "the export has decoding" 'llama_decode;.* [0-9]+$' alloc.folded
finish

#!/usr/bin/env bash
# The reference engine chooses the tokens that the real llama.cpp chooses, for every type that both
# read; alone, in batches, with prefixes reused. What is shown where they cannot agree: engine_llama.py.
. "$(dirname "$0")/../cli/common.sh"
"$SONDE_SOURCE/tests/llama/prepare" "$SONDE_BUILD" || exit 1
cd "$scratch" || exit
export scratch

models=()
make_model() { # FILE OPTION…
    "$SONDE_BUILD/sonde-engine" make-model --size tiny -o "$1" "${@:2}" >/dev/null ||
        complain "make-model $*"
    models+=("$1")
}
for type in F32 F16 Q8_0 Q4_0 TQ2_0; do make_model "llama-$type.gguf" --type "$type"; done
make_model bitnet-TQ2_0.gguf --arch bitnet --type TQ2_0
[ "$failures" -eq 0 ] || finish

python3 "$SONDE_SOURCE/tests/e2e/engine_llama.py" "$SONDE_BUILD/sonde-engine" \
    "$SONDE_BUILD/llama/llama_logits" "$SONDE_BUILD/programs/engine_batch" "${models[@]}" ||
    complain "the engine and llama.cpp do not agree"
finish

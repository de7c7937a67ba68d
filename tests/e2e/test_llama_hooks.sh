#!/usr/bin/env bash
# The real llama.cpp under libsonde_preload, without a change to anything: what the agent says of its
# requests is what the program knows, and the program computes what it always does.
. "$(dirname "$0")/../cli/common.sh"
preload=$SONDE_BUILD/libsonde_preload.so
[ -e "$preload" ] || exit 0 # not under the sanitizers
"$SONDE_SOURCE/tests/llama/prepare" --bench "$SONDE_BUILD" || exit 1
llama=$SONDE_BUILD/llama
compare=$SONDE_SOURCE/tests/e2e/llama_compare.py
cd "$scratch" || exit

# watched WHAT [times] -- COMMAND…
watched() {
    local what=$1 times='' got=0
    shift
    [ "$1" = times ] && { times=times; shift; }
    shift
    rm -rf "$SONDE_DIR" truth.json
    mkdir -m 700 "$SONDE_DIR"
    status 0 env INFER_WATCH_PRELOAD="$preload" SONDE_LLAMA=children=0 "$programs/infer_watch" seen.json "$@" --truth truth.json
    mv out "$what.out"
    python3 "$compare" truth.json seen.json $times 2>bad || got=$?
    return $got
}
agrees() {
    watched "$@" || complain "$1:" "$(cat bad)"
}

drive=("$llama/llama_drive" --model "$llama/tiny.gguf" --requests 24 --cancel 7)
status 0 "${drive[@]}"
mv out plain
agrees apply -- "${drive[@]}"
agrees sample -- "${drive[@]}" --sampler sample
agrees threads -- "${drive[@]}" --tokenize-thread --no-mmap
agrees dlopen -- "$llama/llama_host" "${drive[@]:1}"
for what in apply sample threads dlopen; do
    cmp -s plain "$what.out" || complain "$what: other tokens" "$(diff plain "$what.out" | head -n 5)"
done
agrees get-one -- "${drive[@]}" --get-one --sampler greedy
agrees no-warmup -- "${drive[@]}" --no-warmup --seqs 1 --arrive 0

# Prefill and decode as llama.cpp itself measures them, within 1 %. Its clock starts inside of
# llama_decode, some 2 µs after ours: a model for which a token takes milliseconds. On a busy machine
# a thread may be kept from running between the two clocks: that is not the same twice. Few enough
# requests that all calls fit into a ring, even if the agent does not come to run meanwhile.
timed=("$llama/llama_drive" --model "$llama/bench.gguf" --requests 6 --seqs 1 --prompt-tokens 120 --max-tokens 30 --batch 256)
for try in 1 2 3 4 5 6; do
    got=0
    watched times times -- "${timed[@]}" || got=$?
    [ $got -eq 3 ] && [ $try -lt 6 ] && continue
    [ $got -eq 0 ] || complain "times:" "$(cat bad)"
    break
done

# Whose samples are whose: phases are spans of the thread that computes.
status 0 "$sonde" record -q -F 2000 -o run -- "${drive[@]}" --requests 60 --prompt-tokens 100
"$sonde" export --format folded --span prefill run >prefill || complain "no flame graph of prefill"
grep -q ';llama_decode;' prefill || complain "prefill does not compute"
grep -E ';llama_(sampler_apply|tokenize|token_to_piece)[; ]' prefill >wrong && complain "in prefill:" "$(head -n 3 wrong)"
"$sonde" export --format folded --span sample run >sample || complain "no flame graph of sampling"
grep ';llama_decode;' sample >wrong && complain "in sampling:" "$(head -n 3 wrong)"

# Switched off it is not there.
status 0 "$sonde" run -v --no-http --no-inference -- "${drive[@]}"
lacks "switched off" 'inference requests' err
status 0 "$sonde" run -v --no-http -- "${drive[@]}"
has "switched on" '24 inference requests \(0 failed' err
finish

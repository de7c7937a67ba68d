#!/usr/bin/env bash
# What stands in front of llama.cpp's functions passes everything on: arguments and results of all
# kinds, exceptions, longjmp, stacks; whether calls are recorded or not, and for plugins too.
. "$(dirname "$0")/../cli/common.sh"
preload=$SONDE_BUILD/libsonde_preload.so
[ -e "$preload" ] || exit 0 # not under the sanitizers
cd "$scratch" || exit

unnoticed() {
    local what=$1
    shift
    status 0 "$@"
    has "$what" '^as if nobody had been there$' out
}
unnoticed "without it" "$programs/thunk"
unnoticed "not asked for" env LD_PRELOAD="$preload" "$programs/thunk"
same "no segment" 0 "$(find "$SONDE_DIR" -type f | wc -l)"
unnoticed "recorded" env LD_PRELOAD="$preload" SONDE_LLAMA=children=0 "$programs/thunk"
unnoticed "bound at the start" env LD_PRELOAD="$preload" SONDE_LLAMA=children=0 LD_BIND_NOW=1 "$programs/thunk"
unnoticed "recorded and sampled" "$sonde" record -q --engine timer -F 4000 --heap -o thunk.run -- "$programs/thunk"
status 0 env LD_PRELOAD="$preload" SONDE_LLAMA=nonsense "$programs/thunk"

# Stacks go through it, whoever walks them.
for engine in perf timer; do
    if ! "$sonde" record -q --engine $engine -o burn.run -- "$programs/thunk" burn 0.5 2>err; then
        [ $engine = perf ] && grep -q perf_event err && continue # forbidden here
        complain "$engine: $(cat err)"
        continue
    fi
    "$sonde" export --format folded burn.run >folded || complain "$engine: no stacks"
    grep burn_below folded >below || complain "$engine: no samples below" "$(cat folded)"
    has "$engine: a whole stack" '^_start;.*main;(llama_free;)?burn_below' below
    bad=$(grep -cvE '^_start;.*;main;' below)
    same "$engine: stacks that are cut" 0 "$bad"
done

# A function that the library does not have: as the loader would have said.
echo 'void llama_detokenize(void) {}' | cc -shared -fPIC -o libgone.so -x c -
echo 'void llama_detokenize(void); int main(void) { llama_detokenize(); return 0; }' |
    cc -o missing -x c - -x none ./libgone.so -Wl,-z,lazy
status 0 env LD_PRELOAD="$preload" ./missing
echo 'int nothing;' | cc -shared -fPIC -o libgone.so -x c -
status 127 env LD_PRELOAD="$preload" ./missing
has "what is missing" 'symbol lookup error: undefined symbol: llama_detokenize' err
finish

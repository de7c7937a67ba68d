#!/usr/bin/env bash
# sonde-engine run and bench: what they print, and that a bad value is refused by its name.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
engine=$SONDE_BUILD/sonde-engine
"$engine" make-model --size tiny --type Q8_0 -o m.gguf >/dev/null || complain "make-model"

# refused STATUS WORDS COMMAND…: ends with this status and says so
refused() {
    local status=$1 words=$2 rc=0
    shift 2
    "$@" >out.txt 2>err.txt || rc=$?
    [ "$rc" -eq "$status" ] || complain "$*: status $rc, not $status"
    grep -qF -- "$words" err.txt || complain "$*: does not say '$words': $(cat err.txt)"
    [ -s out.txt ] && complain "$*: printed something"
    true
}
refused 2 "--threads is 'two'" "$engine" run -m m.gguf -p x --threads two
refused 2 "--threads is '0'" "$engine" run -m m.gguf -p x --threads 0
refused 2 "--temp is 'nan'" "$engine" run -m m.gguf -p x --temp nan
refused 2 "--top-p is '1.5'" "$engine" run -m m.gguf -p x --top-p 1.5
refused 2 "--min-p is '-0.1'" "$engine" run -m m.gguf -p x --min-p -0.1
refused 2 "--top-k is '3.5'" "$engine" run -m m.gguf -p x --top-k 3.5
refused 2 "--seed is '-1'" "$engine" run -m m.gguf -p x --seed -1
refused 2 "--tokens is '5x'" "$engine" run -m m.gguf -p x -n 5x
refused 2 "no option '--wat'" "$engine" run -m m.gguf -p x --wat
refused 2 "--ctx needs a value" "$engine" run -m m.gguf -p x --ctx
refused 2 "which model" "$engine" run -p x
refused 2 "either -p TEXT or -f FILE" "$engine" run -m m.gguf
refused 2 "not a token of this vocabulary" "$engine" run -m m.gguf --ids -p "1 99999999"
refused 2 "not a token of this vocabulary" "$engine" run -m m.gguf --ids -p "1 x"
refused 2 "SONDE_NUM_THREADS" env SONDE_NUM_THREADS=many "$engine" run -m m.gguf -p x
refused 2 "BITNET_SEED" env BITNET_SEED=x "$engine" bench -m m.gguf
refused 2 "--repeat is '0'" "$engine" bench -m m.gguf --repeat 0
refused 2 "leave nothing to measure" "$engine" bench -m m.gguf -p 0 -n 0
refused 2 "no-such.gguf" "$engine" run -m no-such.gguf -p x
refused 2 "does not fit a context of 4" "$engine" run -m m.gguf --ids -p "1 2 3 4 5" --ctx 4
refused 2 "memory limit" env SONDE_MEMORY_LIMIT=1MB "$engine" run -m m.gguf -p x
refused 2 "nothing/here" "$engine" run -m m.gguf -p x --logits nothing/here
head -c 1000 m.gguf >cut.gguf
refused 2 "cut.gguf" "$engine" run -m cut.gguf -p x
refused 2 "bench: cut.gguf: truncated" "$engine" bench -m cut.gguf
refused 2 'SONDE_ENGINE_KERNEL is "abacus"' env SONDE_ENGINE_KERNEL=abacus "$engine" run -m m.gguf -p x

# The same seed, the same text; however it is cut up and on however many threads; another seed another.
text() { "$engine" run -m m.gguf -p "A prompt of some words" -n 40 --ignore-end --temp 0.9 --top-k 50 "$@"; }
text --seed 7 >a.txt || complain "run fails"
[ "$(wc -c <a.txt)" -gt 40 ] || complain "little text: $(cat a.txt)"
text --seed 7 --threads 2 --batch 3 >b.txt
cmp a.txt b.txt || complain "another text with 2 threads"
SONDE_SEED=7 SONDE_NUM_THREADS=2 SONDE_BATCH_SIZE=5 text >b.txt
cmp a.txt b.txt || complain "another text with the seed from the environment"
text --seed 8 >b.txt
cmp -s a.txt b.txt && complain "the same text with another seed"
printf 'A prompt of some words' | text --seed 7 -f - >b.txt 2>/dev/null && complain "-p and -f together"
printf 'A prompt of some words' >p.txt
"$engine" run -m m.gguf -f p.txt -n 40 --ignore-end --temp 0.9 --top-k 50 --seed 7 >b.txt
cmp a.txt b.txt || complain "another text with the prompt from a file"

# A context that the memory limit makes smaller: said, and obeyed.
SONDE_MEMORY_LIMIT=8MB "$engine" run -m m.gguf -p x -n 4 --ctx 100000 --batch 8 >out.txt 2>err.txt ||
    complain "a memory limit that suffices: $(cat err.txt)"
grep -q "leaves room for [0-9]* positions" err.txt || complain "not said: $(cat err.txt)"

# Logits: a row for each token of the prompt and each but the last of the answer.
"$engine" run -m m.gguf --ids -p "5 6 7" -n 4 --ignore-end --logits l.bin >ids.txt || complain "logits"
[ "$(wc -l <ids.txt)" -eq 4 ] || complain "not 4 ids: $(cat ids.txt)"
[ "$(stat -c %s l.bin)" -eq $((6 * 4 * $("$engine" bench -m m.gguf -p 1 -n 1 -r 1 --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["vocab"])'))) ] || complain "size of l.bin"

# bench: figures, operations by layer that add up to less than the time, an object.
"$engine" bench -m m.gguf -p 70 -n 8 -r 3 --threads 1 --operations --json >b.json || complain "bench"
python3 - <<'END' || complain "bench --json"
import json
b = json.load(open("b.json"))
assert b["type"] == "Q8_0" and b["threads"] == 1, b
assert len(b["prefill"]["seconds"]) == len(b["decode"]["seconds"]) == 3
spent = sum(b["prefill"]["seconds"]) + sum(b["decode"]["seconds"])
told = sum(map(sum, b["operations"].values())) * 1e-9
assert 0 < told <= spent, (told, spent)
assert all(len(layers) == 3 for layers in b["operations"].values())
for name in ("prefill", "decode"):
    f = b[name]["tokens_per_second"]
    assert 0 < f["min"] <= f["median"] <= f["max"]
END
"$engine" bench -m m.gguf -p 16 -n 4 -r 1 --operations >out.txt || complain "bench"
grep -q "^attention " out.txt || complain "no table: $(cat out.txt)"
"$engine" bench -m m.gguf -p 8 -r 1 --instrumentation --threads 1 >out.txt || complain "bench --instrumentation"
grep -q "^time  *[+-][0-9.]* %" out.txt || complain "no figure: $(cat out.txt)"
grep -Eq "^instructions +([+-][0-9.]+ %|cannot be counted)" out.txt || complain "instructions: $(cat out.txt)"
finish

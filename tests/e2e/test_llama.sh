#!/usr/bin/env bash
# llama_drive itself, which others are judged by: the real library does what the driver says it did.
. "$(dirname "$0")/../cli/common.sh"
"$SONDE_SOURCE/tests/llama/prepare" "$SONDE_BUILD" || exit 1
llama=$SONDE_BUILD/llama
cd "$scratch" || exit

# check WHAT: of truth.json
check() {
    python3 - "$1" <<'END' || failures=$((failures + 1))
import json, sys
t = json.load(open("truth.json"))
bad = []
def want(text, got):
    if not got: bad.append(text)
reqs, passes, total = t["requests"], t["passes"], t["totals"]
for r in reqs:
    times = [r[k] for k in ("arrival_ns", "tokenized_ns", "started_ns", "first_pass_ns",
                            "prompt_done_ns", "first_token_ns")] + r["token_ns"] + [r["end_ns"]]
    want("request %d: times in order" % r["id"], times == sorted(times) and times[0] > 0)
    want("request %d: a time a token" % r["id"],
         len(r["token_ns"]) == len(r["tokens"]) == r["output_tokens"] > 0)
    want("request %d: part of the prompt is new" % r["id"],
         0 <= r["reused_tokens"] < r["prompt_tokens"])
want("passes in order", all(a["end_ns"] <= b["start_ns"] for a, b in zip(passes, passes[1:])))
computed = sum(p["prompt_tokens"] for p in passes)
fed = sum(p["decode_tokens"] for p in passes)
want("prompts are computed but for what is reused",
     computed == total["prompt_tokens"] - total["reused_tokens"])
# The last token of a request is sampled and never fed.
want("tokens fed", fed == total["output_tokens"] - len(reqs))
want("outputs", sum(p["outputs"] for p in passes) == total["output_tokens"])
# The library counts a pass of one token as generation and all others as prompts.
alone = sum(1 for p in passes if p["prompt_tokens"] + p["decode_tokens"] == 1)
want("tokens that the library counted: %s" % t["perf"],
     t["perf"]["eval_tokens"] == max(alone, 1) and
     t["perf"]["prompt_tokens"] == computed + fed - alone)
logged = {b["what"].split()[-1]: b["bytes"] for b in t["memory"]["logged"]}
for name, bytes_ in (("model", t["memory"]["model_bytes"]), ("KV", t["memory"]["kv_bytes"])):
    want("bytes of %s as logged: %s, not %s" % (name, logged.get(name), bytes_),
         abs(logged.get(name, 0) - bytes_) <= 0.01 * 2**20)
for line in bad:
    print("%s: %s" % (sys.argv[1], line), file=sys.stderr)
sys.exit(bool(bad))
END
}

drive=("$llama/llama_drive" --model "$llama/tiny.gguf" --requests 24 --cancel 7)
status 0 "${drive[@]}" --truth truth.json
check served
mv out plain
for outcome in stop length cancelled; do has "all outcomes" ", $outcome," plain; done
python3 -c '
import json
t = json.load(open("truth.json"))["totals"]
assert t["mixed_passes"] > 0 and t["reused_tokens"] > 0, t' || complain "no mixed batches, or no reuse"

# The same tokens whoever samples, tokenizes or loads, and however long it takes.
same_tokens() {
    local what=$1
    shift
    status 0 "$@" --truth truth.json
    check "$what"
    cmp -s plain out || complain "$what: other tokens" "$(diff plain out | head -n 5)"
}
same_tokens "again, slower" "${drive[@]}" --step-delay 1
same_tokens "llama_sampler_sample" "${drive[@]}" --sampler sample
same_tokens "a thread that tokenizes, weights in memory" "${drive[@]}" --tokenize-thread --no-mmap
same_tokens "by dlopen" "$llama/llama_host" "${drive[@]:1}"

status 0 "${drive[@]}" --get-one --sampler greedy --truth truth.json
check "batches without positions"

# Waits until it may serve; after SIGTERM the round is the last.
"${drive[@]}" --repeat 1000 --delay 20 --ready-file ready --wait-for-file go --truth truth.json >out 2>err &
started+=($!)
until_true test -s ready
same "pid in the file" "$!" "$(cat ready)"
touch go
kill -TERM "$!"
wait "$!" || complain "SIGTERM: exit status $?" "$(cat err)"
check "SIGTERM"
same "whole rounds" 0 $(($(grep -c '^request' out) % 24))

status 2 "$llama/llama_drive" --model "$llama/tiny.gguf" --requests none
has "what is wrong" '^llama_drive: --requests: not a number' err
status 1 "$llama/llama_drive" --model none.gguf
has "what is wrong" 'cannot load the model none.gguf' err
finish

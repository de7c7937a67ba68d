#!/usr/bin/env bash
# An engine that knows its own truth, under `sonde run`: what the agent says of its requests is that.
. "$(dirname "$0")/common.sh"
engine=$SONDE_BUILD/example_engine

# sums FILE: what the engine printed, added up as the agent's series are.
sums() {
    awk '{
        for (i = 2; i <= NF; i++) { split($i, kv, "="); v[kv[1]] = kv[2] }
        n[v["outcome"]]++
        input += v["prompt"]; reused += v["reused"]; output += v["tokens"]
        if (v["tokens"] > 0) { first++; ttft += v["ttft_ns"] }
        if (v["tokens"] > 1) { gaps += v["tokens"] - 1; itl += v["itl_ns"] * (v["tokens"] - 1) }
        if (v["outcome"] == "ok") total += v["total_ns"]
    } END {
        printf "ok %d\nerror %d\ncancelled %d\n", n["ok"], n["error"], n["cancelled"]
        printf "input %d\nreused %d\noutput %d\nfirst %d\ngaps %d\n", input, reused, output, first, gaps
        printf "ttft %.6f\nitl %.6f\ntotal %.6f\n", ttft / 1e9, itl / 1e9, total / 1e9
    }' "$1"
}

# shown NAME LABEL: the value of the one series of that name and label in the scrape
shown() { grep -E "^$1\\{[^}]*$2" "$scratch/metrics" | awk '{ print $NF }'; }

# near WHAT TRUTH SHOWN ROOM: at most ROOM seconds apart. Between the engine's clock and the event
# there may be a time slice of another process.
near() {
    awk -v a="$2" -v b="$3" -v room="$4" 'BEGIN { d = a - b; exit !(b != "" && d <= room && -d <= room) }' ||
        complain "$1: the engine measured $2, the agent shows '$3'"
}

"$sonde" run --listen 127.0.0.1:0 --keep 60 -v -- "$engine" --clients 5 --requests 8 --truth \
    >"$scratch/truth" 2>"$scratch/err" &
started+=($!)
until_line 'serving http' "$scratch/err"
url=$(url_in "$scratch/err")
curl -sf "$url/metrics" >"$scratch/metrics" || complain "no metrics"
declare -A truth
while read -r key value; do truth[$key]=$value; done < <(sums "$scratch/truth")

same "requests" 40 "$(wc -l <"$scratch/truth")"
for outcome in ok error cancelled; do
    same "$outcome" "${truth[$outcome]}" "$(shown sonde_infer_requests_total "outcome=\"$outcome\"")"
done
for type in input reused output; do
    same "tokens: $type" "${truth[$type]}" "$(shown sonde_infer_tokens_total "type=\"$type\"")"
done
same "first tokens" "${truth[first]}" "$(shown gen_ai_server_time_to_first_token_seconds_count tiny-llama)"
same "gaps" "${truth[gaps]}" "$(shown sonde_infer_inter_token_seconds_count tiny-llama)"
near "time to first token, in all" "${truth[ttft]}" \
    "$(shown gen_ai_server_time_to_first_token_seconds_sum tiny-llama)" 0.2
near "time between tokens, in all" "${truth[itl]}" \
    "$(shown sonde_infer_inter_token_seconds_sum tiny-llama)" 0.2
near "duration, in all" "${truth[total]}" \
    "$(grep -E '^gen_ai_server_request_duration_seconds_sum' "$scratch/metrics" | grep -v error_type | awk '{ print $NF }')" 0.2
same "lost events" "" "$(shown sonde_infer_invalid_events_total reason)"
same "memory" 536870912 "$(shown sonde_infer_memory_bytes 'kind="weights"')"
same "running" 0 "$(shown sonde_infer_requests_running tiny-llama)"
has "advised buckets" '^gen_ai_server_time_to_first_token_seconds_bucket\{.*le="0.06"\} ' "$scratch/metrics"
lacks "aliases" '^vllm:' "$scratch/metrics"
has "told at the end" '40 inference requests' "$scratch/err"
finish

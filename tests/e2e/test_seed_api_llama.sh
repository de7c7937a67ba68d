#!/usr/bin/env bash
# The same as test_seed_api.sh of a real llama.cpp, under `sonde run` beside an agent that stays.
. "$(dirname "$0")/session_api.sh"
"$SONDE_SOURCE/tests/llama/prepare" "$SONDE_BUILD" || exit 1
llama=$SONDE_BUILD/llama

serve llama --store llama.db
# session NAME REQUESTS OPTIONS…: of llama.cpp with these options, until so many requests are done
session() {
    local name=$1 requests=$2 driver
    shift 2
    "$sonde" run -q --listen 127.0.0.1:0 --log llama_run.log -- "$llama/llama_drive" \
        --model "$llama/tiny.gguf" --requests 8 --repeat 100000 --delay 1 --end-bias -100 \
        --ready-file ready "$@" >drive.out 2>drive.err &
    driver=$!
    started+=("$driver")
    until_true test -s ready
    until_true watched "$(cat ready)"
    rm ready
    api 200 -X POST "$at/admin/profile/start" \
      --data "{\"name\": \"$name\"}"
    until_true at_least requests "$requests"
    until_true at_least samples 20
    api 200 -X POST "$at/admin/profile/stop"
    kill -TERM "$driver"
    wait "$driver" 2>/dev/null
}
# Answers of 160 tokens, then of 8.
for requests in 60 200 600; do
    session baseline $requests --max-tokens 160
    session optimized $requests --max-tokens 8
    api 200 "$at/admin/profile/compare?a=baseline&b=optimized"
    faster 2>judged && break
    [ $requests != 600 ] || complain "llama.cpp: $(tail -n 1 judged)"
done
api 200 "$at/admin/profiles/optimized"
holds "its functions" "any('ggml' in f['name'] or 'ggml' in f.get('module', '') for f in r['cpu']['top_functions'])"
api 200 "$at/admin/profile/bottlenecks?name=baseline"
holds "phases" "any(b['kind'] == 'span' for b in r['bottlenecks'])"
curl -s -X POST "$at/admin/profile/flamegraph?name=optimized" \
  -o flamegraph.svg
has "flame graph of llama.cpp" 'ggml' flamegraph.svg
stop_agent "$agent"
finish

#!/usr/bin/env bash
# One request, seen three ways: a server on the real llama.cpp that tells sonde about its requests
# (tests/llama/llama_http.c), under `sonde run`, which puts hooks into llama.cpp, behind the front. All
# three know the same of it; see three_ways.py for what that means. They are three requests of one
# trace or one process, told apart by their source.
. "$(dirname "$0")/../cli/common.sh"
[ -e "$SONDE_BUILD/libsonde_preload.so" ] || exit 0 # not under the sanitizers
"$SONDE_SOURCE/tests/llama/prepare" "$SONDE_BUILD" || exit 1
llama=$SONDE_BUILD/llama
cd "$scratch" || exit

cc -std=gnu11 -D_GNU_SOURCE -g -O2 -Wall -Wextra -Wconversion -Wshadow -Werror -isystem "$llama/include" \
    -I"$SONDE_SOURCE/include" "-DLLAMA_LIBRARY=\"$llama/lib\"" "$SONDE_SOURCE/tests/llama/llama_http.c" -o llama_http \
    "$llama"/lib/libllama.v*.so "$llama"/lib/libggml.v*.so "$llama/lib/libggml-base.so" -Wl,-rpath,"$llama/lib" \
    "$SONDE_BUILD/libsonde.a" -pthread || exit 1

"$sonde" run --no-http -- ./llama_http "$llama/tiny.gguf" 20 >truth 2>run.err &
run=$!
started+=("$run")
until_line '^[0-9]+$' truth || { cat run.err >&2; finish; }
start_agent serve.log --upstream "http://127.0.0.1:$(head -n 1 truth)" --no-host

timeout 200 python3 "$SONDE_SOURCE/tests/e2e/three_ways.py" "$url" truth || complain "status $?"

# What has no label for it counts each request once a source, and nowhere twice.
curl -fsS "$url/metrics" >metrics
for source in api hook front; do
    grep "^sonde_infer_requests_total{.*source=\"$source\"" metrics >counted
    has "counted once by $source" 'outcome="ok".*\} 6$' counted
    has "counted once by $source" 'outcome="cancelled".*\} 1$' counted
done

kill -TERM "$run"
wait "$run" 2>/dev/null
finish

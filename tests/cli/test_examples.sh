#!/usr/bin/env bash
# The examples as a reader would try them: the build is installed to an empty prefix, hello.c is
# compiled by the README's line word for word, examples/cmake is configured against the prefix, and
# what sonde says of each run is what the programs did.
. "$(dirname "$0")/common.sh"
examples=$SONDE_SOURCE/examples
cd "$scratch" || exit
step() { "$@" >step.log 2>&1 || { complain "$*:" "$(tail -n 30 step.log)"; finish; }; }

step cmake --install "$SONDE_BUILD" --prefix "$scratch/prefix"
library=$(dirname "$(find "$scratch/prefix" -name libsonde.so)")
export PKG_CONFIG_PATH=$library/pkgconfig PATH=$scratch/prefix/bin:$PATH LD_LIBRARY_PATH=$library
[ -x "$scratch/prefix/bin/sonde" ] || { complain "sonde is not installed"; finish; }

# watched NAME PATTERN… -- COMMAND…: under `sonde run` of the prefix, whose agent stays until lines of its
# export match all patterns; then $NAME.out and $NAME.requests
watched() {
    local name=$1 patterns=() run url
    while shift && [ "$1" != -- ]; do patterns+=("$1"); done
    sonde run --listen 127.0.0.1:0 --log "$name.log" --keep 60 -- "${@:2}" >"$name.out" <"${input:-/dev/null}" &
    run=$!
    started+=("$run")
    until_line 'http://127' "$name.log" || finish
    url=$(url_in "$name.log")
    exported() {
        sonde export "$url" >"$name.metrics" || return
        for pattern in "${patterns[@]}"; do grep -qE "$pattern" "$name.metrics" || return; done
    }
    until_true exported || complain "$name:" "$(grep -E "^(${name}_|sonde_infer_)" "$name.metrics")"
    sonde requests --json -n 100 "$url" >"$name.requests"
    kill -TERM "$run"
    wait "$run" 2>/dev/null
}

# The README's program is this file, and its lines build and run it.
awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$SONDE_SOURCE/README.md" >readme.c
cmp -s readme.c "$examples/hello.c" || complain "README.md shows another program than examples/hello.c:" \
    "$(diff readme.c "$examples/hello.c")"
line=$(grep -oE '^gcc examples/hello\.c .* -o hello' "$SONDE_SOURCE/README.md")
same "the README's line" "gcc examples/hello.c \$(pkg-config --cflags --libs sonde) -o hello" "$line"
ln -s "$examples" examples
step bash -c "$line"
watched hello '^hello_requests_total\{.*\} 1000$' '^hello_request_duration_seconds_count\{.*\} 1000$' \
    '^sonde_span_duration_seconds_count\{span="compute",.*\} 1000$' -- ./hello
has "hello" '^1000 requests answered: [0-9]+$' hello.out

# A project of its own, both libraries, against the prefix.
printf 'one\ntwo two\nthree\n' >lines
step cmake -G Ninja -S "$examples/cmake" -B consumer -DCMAKE_PREFIX_PATH="$scratch/prefix"
step cmake --build consumer
for kind in static shared; do
    input=lines watched "$kind" '^consumer_lines_total\{.*\} 3$' '^consumer_line_bytes_sum\{.*\} 18$' -- \
        "consumer/consumer_$kind"
done
ldd consumer/consumer_static >static.ldd
lacks "consumer_static needs libsonde.so" 'libsonde' static.ldd
ldd consumer/consumer_shared >shared.ldd
has "consumer_shared" "$library/libsonde\.so" shared.ldd

# The loop of an engine: as many requests and tokens as it has, and it decides by what it reads. No
# time is under a thousandth of a microsecond, and none over an hour. Its events are fewer than a ring holds:
# none is lost, however late the agent comes.
loop() {
    watched "$1" '^sonde_infer_requests_total\{.*outcome="ok".*\} 29$' '^sonde_infer_requests_total\{.*outcome="cancelled".*\} 3$' \
        '^sonde_infer_tokens_total\{.*type="output".*\} 958$' '^sonde_infer_tokens_total\{.*type="input".*\} 790$' \
        '^sonde_tokenizer_tokens_total\{.*\} 790$' '^sonde_memory_pool_allocation_seconds_count\{.*pool="kv".*\} 32$' \
        '^sonde_memory_pool_bytes\{.*pool="kv".*\} 0$' '^sonde_device_operation_seconds_count\{.*operation="matmul".*\} 1716$' \
        -- "$SONDE_BUILD/example_engine_loop" "$2"
    has "engine_loop $2" "^32 requests, up to $3 in a pass at the end\$" "$1.out"
}
loop strict 0.001 1
loop easy 3600000000 8
for name in strict easy; do
    python3 - $name.requests <<'P' || failures=$((failures + 1))
import json, sys
got = {r["own_id"]: r for r in json.load(open(sys.argv[1]))["requests"]}
assert sorted(got) == sorted("loop-%d" % i for i in range(32)), sorted(got)
for i in range(32):
    r = got["loop-%d" % i]
    left = i % 9 == 8
    want = ("cancelled" if left else "ok", len("What is the square of %d?" % i), 10 if left else 32)
    assert (r["outcome"], r["tokens_in"], r["tokens_out"]) == want, (r, want)
    assert r["model"] == "loop" and r["route"] == "/loop" and r["backend"] == "cpu", r
P
done
finish

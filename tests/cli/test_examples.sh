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
ldd consumer/consumer_static | grep -q libsonde && complain "consumer_static needs libsonde.so"
ldd consumer/consumer_shared | grep -q "$library/libsonde.so" || complain "consumer_shared does not use $library"
finish

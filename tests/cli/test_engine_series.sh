#!/usr/bin/env bash
# What an engine tells of its devices, pools and tokenizer (sonde/engine.h): a report of a recording
# and of a running agent, /api/engine, /metrics, and top say exactly what it recorded.
. "$(dirname "$0")/common.sh"
here=$(realpath "$0")
cd "$scratch" || exit 1

# figures WHAT FILE [requests]: the JSON of a report or an answer
figures() {
    python3 "$(dirname "$here")/engine_figures.py" "${@:2}" >figures 2>&1 || complain "$1:" "$(cat figures)"
}

# ---- A recording ---------------------------------------------------------------------------------
status 0 "$sonde" record -o e.run -- "$programs/engine_series"
status 0 "$sonde" report --json e.run
figures "recording" out requests
status 0 "$sonde" report e.run
has "operations" '^  operations 400 on CPUs, 600 on GPUs, 4 fallbacks; 500 ms in all$' out
has "fallbacks" '^  fallbacks  3 from cuda0: out_of_memory$' out
has "a device" '^cuda0 +600 +150 ms +30.0 % +6.00 GiB +8.00 GiB +75.0 % +4$' out
has "an operation" '^cpu +matmul +300 +300 ms +60.0 % +1.00 ms ' out
lacks "an operation that was never done" never out
has "a pool" '^kv +4.00 MiB +6.00 MiB +8.00 MiB +3.00 MiB +50.0 % +25.0 % +0$' out
has "all pools" '^all +6.00 MiB +12.0 MiB +5.00 MiB +58.3 % +16.7 % +2$' out
has "times of a pool" '^kv +40 +2.00 µs +2.00 µs +10 +1.00 µs +1.00 µs$' out
has "encoded" '^  encoded    200 inputs, 14.8 KiB, 4000 tokens \(3.80 bytes each\); 105k tokens per second$' out
has "cache" '^  cache      25.0 % of 1440 look-ups were hits$' out
has "slowest" '^  slowest    1.00 ms, for an input of 257-1024 bytes$' out
has "advice" '^  advice     the cache had 25.0 % of 1440 look-ups; each of the 1080 misses took 7.4 merges' out
status 0 "$sonde" report --markdown e.run
has "Markdown" '^## Devices$' out
has "Markdown, pools" '^\| weights \| 2.00 MiB \|' out
status 0 "$sonde" report --format html -o e.html e.run
has "a page with the figures" '/api/engine' e.html

status 0 "$sonde" record --no-cpu --heap -o no_cpu.run -- "$programs/engine_series"
status 0 "$sonde" report --json no_cpu.run
figures "without samples" out requests

# A program that tells nothing of the kind has no such parts.
status 0 "$sonde" record -o none.run -- "$programs/engine_nothing"
status 0 "$sonde" report none.run
lacks "no parts" '^(Devices|Pools|Tokenizer)' out

# ---- A running agent -------------------------------------------------------------------------------
"$programs/engine_series" stay &
started+=($!)
start_agent log
told() { curl -sf "$url/api/engine" | grep -q '"decodes":{"count":50,'; }
until_true told
curl -sf "$url/api/engine" >answer || complain "no answer"
figures "/api/engine" answer
status 0 "$sonde" report --json --duration 1 "$url"
figures "report of an agent" out
curl -sf "$url/metrics" >metrics
has "an operation" '^sonde_device_operation_seconds_count\{device="cpu",operation="matmul",.*\} 300$' metrics
has "its time" '^sonde_device_operation_seconds_sum\{device="cpu",operation="matmul",.*\} 0.3$' metrics
has "a pool" '^sonde_memory_pool_free_block_bytes\{pool="kv",.*\} 2097152$' metrics
has "a length" '^sonde_tokenizer_encode_seconds_count\{tokenizer="bpe",length="257-1024",.*\} 20$' metrics
if command -v promtool >/dev/null; then
    promtool check metrics <metrics >out 2>&1 || complain "promtool:" "$(cat out)"
fi
status 0 "$sonde" top --once --page memory "$url"
has "top: fragmentation" 'kv +4.00 MiB.* 50.0 % +25.0 %' out
status 0 "$sonde" top --once --page inference "$url"
has "top: devices" 'cpu 400 ops, 350 ms' out
has "top: tokenizer" 'bpe 105k tokens/s' out
finish

#!/usr/bin/env bash
# sonde bench compress: real files, samples, forms, and files that are none, empty, tiny or hostile.
. "$(dirname "$0")/common.sh"
quick=(--time 0.01 --turns 2)

cat "$SONDE_SOURCE"/docs/*.md >"$scratch/docs"
bytes=$(stat -c %s "$scratch/docs")

# Sizes as the tools of the libraries make them, and all rows verified.
status 0 "$sonde" bench compress "$scratch/docs" "${quick[@]}" --codec zstd:1,3 --codec gzip:6,lz4,snappy,brotli:1 \
    --codec deflate:6 --codec lz4hc:9 --codec libdeflate:6 --json -o "$scratch/r.json"
python3 - "$scratch/r.json" "$scratch/docs" <<'END' >"$scratch/out" 2>&1 || complain "JSON:" "$(cat "$scratch/out")"
import json, sys, zlib
r, data = json.load(open(sys.argv[1])), open(sys.argv[2], "rb").read()
rows = {(x["codec"], x["level"]): x for x in r["rows"]}
assert r["kind"] == "compress" and r["verdict"]["valid"] and r["input_bytes"] == len(data), r["verdict"]
assert len(rows) == 10 and all(x["state"] == "measured" and x["verified"] for x in rows.values()), rows.keys()
z = zlib.compressobj(6, zlib.DEFLATED, -15)
assert rows["deflate", 6]["packed_bytes"] == len(z.compress(data) + z.flush())
assert rows["gzip", 6]["packed_bytes"] == rows["deflate", 6]["packed_bytes"] + 18
assert rows["none", None]["ratio"] == 1
assert rows["zstd", 3]["ratio"] > rows["zstd", 1]["ratio"] > rows["lz4", 1]["ratio"] > 1
for x in rows.values():
    for way in ("compress", "decompress"):
        assert x[way]["best_bytes_per_s"] >= x[way]["mean_bytes_per_s"] * 0.999 > 0, x
        assert x[way]["memory_bytes"] is not None, x
assert {x["use"] for x in r["recommendations"]} == {"fast path", "network", "archive"}
assert r["bandwidths"][-1]["from_bytes_per_s"] == 0
best = max(rows.values(), key=lambda x: x["ratio"])
assert best["compress"]["front"] and best["decompress"]["front"]
names = {f["name"] for f in r["figures"]}
assert "zstd:3.compress_bytes_per_s" in names and "zstd:3.ratio" in names, names
f = next(f for f in r["figures"] if f["name"] == "zstd:3.compress_bytes_per_s")
assert len(f["parts"]) == rows["zstd", 3]["turns"]
END
# The program of the same version makes as many bytes: neither adds a checksum when it measures.
version=$(grep -oE '"zstd [0-9.]+"' "$scratch/r.json" | head -n 1 | grep -oE '[0-9.]+')
if command -v zstd >/dev/null && zstd --version | grep -qF "v$version"; then
    wanted=$(zstd -b3 -i1 -q "$scratch/docs" 2>&1 | awk '$1 == "-3" { print $2 }')
    has "bytes of zstd -b3" "\"packed_bytes\":$wanted,\"" "$scratch/r.json"
fi

# Threads and blocks: as many rows, and blocks cost ratio.
status 0 "$sonde" bench compress "$scratch/docs" "${quick[@]}" -c zstd:1 -t 1,2 -b 4K,whole --format csv
same "rows" 9 "$(wc -l <"$scratch/out")"
has "csv" '^zstd:1,2\*,whole,' "$scratch/out"
status 0 "$sonde" bench compress "$scratch/docs" "${quick[@]}" -c lz4 --format markdown
has "markdown" '^\| lz4:1 \|' "$scratch/out"
status 0 "$sonde" bench compress "$scratch/docs" "${quick[@]}" -c lz4 --max-bytes 10000
has "head" 'the beginning of' "$scratch/out"
has "bytes" '9\.77 KiB' "$scratch/out"

# Samples: of every kind; the same seed, the same bytes.
for kind in kv weights activations embeddings text json; do
    status 0 "$sonde" bench compress --sample $kind --size 100K "${quick[@]}" -c zstd:1 --json -o "$scratch/a"
    status 0 "$sonde" bench compress --sample $kind --size 100K "${quick[@]}" -c zstd:1 --json -o "$scratch/b"
    same "$kind" "$(grep -o '"packed_bytes":[0-9]*' "$scratch/a")" "$(grep -o '"packed_bytes":[0-9]*' "$scratch/b")"
done
status 0 "$sonde" bench compress --sample weights --type q4_0 --size 50000 "${quick[@]}" -c lz4
has "made up" 'made up, q4_0' "$scratch/out"

# Small, empty and incompressible files are right results.
: >"$scratch/empty"
printf x >"$scratch/one"
head -c 100000 /dev/urandom >"$scratch/noise"
status 0 "$sonde" bench compress "$scratch/empty" "${quick[@]}" --levels 1
has "empty" 'the input is empty' "$scratch/out"
status 0 "$sonde" bench compress "$scratch/one" "${quick[@]}" --levels 1,9
lacks "one byte" 'FAILED' "$scratch/out"
status 0 "$sonde" bench compress "$scratch/noise" "${quick[@]}" --levels 1
has "noise" 'fast path: nothing that was measured saves 5 %' "$scratch/out"
has "noise" 'network: none' "$scratch/out"

# What cannot be measured is refused, at once.
mkfifo "$scratch/fifo"
ln -s nowhere "$scratch/broken"
refused() { # WORDS ARGUMENTS…
    local words=$1
    shift
    status 2 timeout 20 "$sonde" bench compress "$@"
    has "$*" "$words" "$scratch/err"
}
refused 'it is a directory' "$scratch"
refused 'it is a pipe' "$scratch/fifo"
refused 'No such file' "$scratch/broken"
refused 'it is a device' /dev/zero
refused 'say what to compress'
refused 'not both' --sample kv "$scratch/one"
refused "no codec 'zip'" -c zip "$scratch/one"
refused 'levels -100 to 22' -c zstd:23 "$scratch/one"
refused 'not a level' -c zstd:x "$scratch/one"
refused 'not a level' -c zstd:9-1 "$scratch/one"
refused 'snappy has no levels' -c snappy:1 "$scratch/one"
refused 'not a number from 1 to 256' -t 0 "$scratch/one"
refused "or whole" -b 1 "$scratch/one"
refused 'not a rate' --bandwidth fast "$scratch/one"
refused 'not a share' --until 300% "$scratch/one"
refused 'not a size' --max-bytes -1 "$scratch/one"
refused '\-\-type is for' --sample text --type f16
if [ "$(id -u)" != 0 ]; then
    chmod 000 "$scratch/noise"
    refused 'Permission denied' "$scratch/noise"
fi
# A file whose name would move the cursor.
evil=$scratch/$'a\e[2Jb'
printf 'some text' >"$evil"
status 0 "$sonde" bench compress "$evil" "${quick[@]}" -c lz4
lacks "escape" $'\e' "$scratch/out"
finish

#!/usr/bin/env bash
# sonde bench cache: a file, and an HTTP server whose own log is the truth; and sonde bench tokenizer.
. "$(dirname "$0")/common.sh"

head -c 4000000 /dev/urandom >"$scratch/file"
status 0 "$sonde" bench cache "$scratch/file" --duration 0.02 --block 4K,64K --json -o "$scratch/r.json"
python3 - "$scratch/r.json" <<'END' >"$scratch/out" 2>&1 || complain "JSON:" "$(cat "$scratch/out")"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["kind"] == "cache" and r["bytes"] == 4000000 and len(r["rows"]) == 18, r
for x in r["rows"]:
    if x["state"] == "warm":
        assert x["measured"] and x["reads"] > 0 and x["bytes"] == x["reads"] * x["block_bytes"], x
        assert x["hit_ratio"] in (None, 1) or x["hit_ratio"] > 0.9, x
    elif not x["measured"]:
        assert x["why"], x
    elif x["state"] == "cold":
        assert x["resident_before"] is None or x["resident_before"] <= 0.01, x
# Of single rows: what a disk has read ahead by the time it is asked for is a hit.
cold = [x for x in r["rows"] if x["state"] == "cold" and x["measured"]]
assert not cold or any(x["misses"] > 0 or x["hits"] == 0 for x in cold), cold
assert any(f["name"] == "warm.random.4096.bytes_per_s" for f in r["figures"])
END
status 0 "$sonde" bench cache "$scratch/file" --duration 0.01 --state warm --pattern zipf --threads 1,2 --format csv
same "rows" 7 "$(wc -l <"$scratch/out")"

# On tmpfs there is no cold.
if [ "$(stat -f -c %T /dev/shm)" = tmpfs ] && shm=$(mktemp -p /dev/shm); then
    cp "$scratch/file" "$shm"
    status 0 "$sonde" bench cache "$shm" --duration 0.01 --block 4K
    rm -f "$shm"
    has "tmpfs" 'cold cannot be had' "$scratch/out"
    has "tmpfs" '^cold .*left out: it is on tmpfs' "$scratch/out"
fi

refused() { # WORDS ARGUMENTS…
    local words=$1
    shift
    status 2 timeout 20 "$sonde" bench cache "$@"
    has "$*" "$words" "$scratch/err"
}
: >"$scratch/empty"
mkfifo "$scratch/fifo"
refused 'empty: nothing to read' "$scratch/empty"
refused 'it is a directory' "$scratch"
refused 'it is a pipe' "$scratch/fifo"
refused 'No such file' "$scratch/nothing"
refused 'say what to read'
refused 'not both' "$scratch/file" --url http://127.0.0.1:1/
refused "no 'lukewarm'" "$scratch/file" --state lukewarm
refused "no 'plain'" "$scratch/file" --state plain
refused "no 'diagonal'" "$scratch/file" --pattern random,diagonal
refused 'not the URL' --url file:///etc/passwd
status 1 "$sonde" bench cache --url http://127.0.0.1:1/x --duration 0.01
has "no server" 'cannot read http://127.0.0.1:1/x' "$scratch/err"

# ---- HTTP: what we count is what the server logged ------------------------------------------------
python3 "$SONDE_SOURCE/tests/cli/range_server.py" 1000000 >"$scratch/port" 2>"$scratch/server" &
started+=($!)
until_line '^[0-9]+$' "$scratch/port" || finish
base=http://127.0.0.1:$(cat "$scratch/port")
status 0 "$sonde" bench cache --url "$base/good" --duration 0.2 --block 10K --threads 2 --json -o "$scratch/h.json"
curl -sf "$base/log" >"$scratch/log" || complain "no log"
python3 - "$scratch/h.json" "$scratch/log" <<'END' >"$scratch/out" 2>&1 || complain "HTTP:" "$(cat "$scratch/out")"
import json, sys
r, log = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
rows = r["rows"]
assert r["verdict"]["valid"] and len(rows) == 9 and all(x["measured"] and not x["errors"] for x in rows), rows
by = lambda state, key: sum(x[key] for x in rows if x["state"] == state)
assert by("plain", "hits") + by("no-cache", "hits") == log["hit"], (rows, log)
# One more miss: the first look, which asks for one byte.
assert by("plain", "misses") + by("no-cache", "misses") == log["miss"] - 1, (rows, log)
assert by("no-cache", "hits") == 0
assert by("revalidate", "revalidated") == by("revalidate", "reads") == log["not_modified"]
# A connection for each thread of each row, one for the look, one for the log.
assert sum(x["connects"] for x in rows) == 18 and log["connections"] == 20, (rows, log)
assert by("plain", "bytes") == by("plain", "reads") * 10240
END
status 0 "$sonde" bench cache --url "$base/silent" --duration 0.05 --state plain --pattern random
has "hits are not known" 'random .* – ' "$scratch/out"
status 0 "$sonde" bench cache --url "$base/plain" --duration 0.05 --state plain --pattern sequential
has "no ranges" 'HTTP without ranges' "$scratch/out"
status 1 "$sonde" bench cache --url "$base/missing" --duration 0.05
has "404" 'status 404' "$scratch/err"
for bad in more short; do
    status 1 "$sonde" bench cache --url "$base/$bad" --duration 0.05 --state plain --pattern random
    has "$bad" 'requests were not answered as asked' "$scratch/out"
done

# ---- Tokenizer ------------------------------------------------------------------------------------
status 0 "$SONDE_BUILD/sonde-engine" make-model --size tiny -o "$scratch/model.gguf"
status 0 "$sonde" bench tokenizer "$scratch/model.gguf" --time 0.01 --turns 2 --lengths 50,2000 --json -o "$scratch/t.json"
python3 - "$scratch/t.json" <<'END' >"$scratch/out" 2>&1 || complain "tokenizer:" "$(cat "$scratch/out")"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["kind"] == "tokenizer" and len(r["rows"]) == 8, r
for x in r["rows"]:
    assert x["tokens"] > 0 and x["round_trips"] == x["inputs"] == x["round_trips_same"], x
assert len(r["figures"]) == 16 and all(f["value"] > 0 and len(f["parts"]) == 2 for f in r["figures"])
assert r["slowest"] and max(s["bytes"] for s in r["slowest"]) <= 2000
END
printf 'one two three, one two three' >"$scratch/words"
status 0 "$sonde" bench tokenizer "$scratch/model.gguf" --time 0.01 --input "$scratch/words" --lengths 10
has "input" '^input +10 ' "$scratch/out"
lacks "no text of the input" 'three' "$scratch/out"
status 2 "$sonde" bench tokenizer "$scratch/words"
has "not a model" 'is not a GGUF file' "$scratch/err"
status 2 "$sonde" bench tokenizer
status 2 "$sonde" bench tokenizer "$scratch/model.gguf" --lengths 0
status 1 "$sonde" bench tokenizer "$scratch/model.gguf" --engine /nowhere
finish

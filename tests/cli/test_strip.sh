#!/usr/bin/env bash
# --strip: a program from a folder and with an argument that nobody is to know of, and everything that
# comes out of recording it.
. "$(dirname "$0")/common.sh"
: "${SONDE_SOURCE:?set it to the source directory}"
cd "$scratch" || exit

secret=topsecret
mkdir -p "$secret-folder/src" plain stripped later live
cat >"$secret-folder/src/app.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void compute(void)
{
    for (int i = 0; i < 1000000; i++) sink += (unsigned long)i * i;
}

__attribute__((noinline)) static void *keep(size_t n) { return memset(malloc(n), 1, n); }

int main(int argc, char **argv)
{
    static void *kept[1000];
    const double seconds = argc > 1 ? atof(argv[1]) : 1;
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; ; i++) {
        compute();
        free(kept[i % 1000]);
        kept[i % 1000] = keep(100000);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)(now.tv_sec - from.tv_sec) > seconds) break;
    }
    return 0;
}
C
gcc -g -O1 -o "$secret-folder/app" "$PWD/$secret-folder/src/app.c" || complain "no program was made"
app=$PWD/$secret-folder/app
formats=(pprof folded speedscope chrome report-json)

found() { # FILE…: those that tell
    python3 "$SONDE_SOURCE/tests/cli/strip_find.py" "$secret" "$@"
}
# everything FOLDER FLAG…: a recording in all forms
everything() {
    local folder=$1 format
    shift
    for format in "${formats[@]}"; do
        status 0 "$sonde" export "$@" "$folder/rec.run" --format "$format" -o "$folder/$format.out"
    done
    for format in svg html; do
        status 0 "$sonde" flamegraph "$@" "$folder/rec.run" -o "$folder/flame.$format"
    done
    "$sonde" report "$@" "$folder/rec.run" >"$folder/report.txt" || complain "report $*"
    "$sonde" report "$@" --lines "$folder/rec.run" >"$folder/lines.txt" 2>/dev/null || true
}

# ---- recordings -------------------------------------------------------------------------------
status 0 "$sonde" record -q -o plain/rec.run -- "$app" 1 "$secret-argument"
everything plain
# If it were not in there, nothing below would say anything.
for file in rec.run pprof.out; do
    [ -n "$(found "plain/$file")" ] || complain "plain/$file does not hold it at all"
done
status 0 "$sonde" record -q --strip -o stripped/rec.run -- "$app" 1 "$secret-argument"
everything stripped
has "functions keep their names" 'compute' stripped/folded.out
has "files keep theirs" 'app' stripped/report.txt
python3 - stripped/rec.run <<'PY' || complain "base names, and nothing else"
import sqlite3, sys
texts = {r[0] for r in sqlite3.connect(sys.argv[1]).execute("SELECT text FROM strings")}
assert "app" in texts and "app.c" in texts, sorted(texts)[:50]
assert not any(t.startswith("/") for t in texts), [t for t in texts if t.startswith("/")]
PY
# One that was made without can be stripped when it is passed on.
cp plain/rec.run later/rec.run
everything later --strip
rm later/rec.run
same "what tells" "" "$(found stripped/* later/*)"

# ---- an agent ---------------------------------------------------------------------------------
"$sonde" run --strip --listen 127.0.0.1:0 --store store.db --log run.log -- "$app" 90 "$secret-argument" 2>run.err &
agent=$!
started+=("$agent")
until_line 'http://127' run.log
url=$(url_in run.log)
until_true curl -sf "$url/readyz"
until_true eval 'curl -sf "$url/api/processes" | grep -q "\"program\":\"app\""'
for path in "" metrics api/series api/query?history=10 api/processes api/spans api/requests api/inference \
    api/export api/export?format=csv api/runs api/openapi.json healthz admin/profile/requests \
    debug/pprof/profile?seconds=1 'debug/pprof/profile?seconds=1&format=run' \
    debug/pprof/heap 'debug/pprof/heap?format=run'; do
    same "$path" 200 "$(curl -s --max-time 60 -o "live/_$(tr -c 'a-z0-9\n' _ <<<"$path")" -w '%{http_code}' "$url/$path")"
done
curl -s --max-time 60 -o live/cpu_report -X POST "$url/admin/profile/cpu?duration=1"
curl -s --max-time 60 -o live/heap_report -X POST "$url/admin/profile/memory"
same "what an agent tells" "" "$(found live/*)"
name=$(uname -n)
if [ ${#name} -gt 6 ]; then
    same "nor the host's name" "" "$(python3 "$SONDE_SOURCE/tests/cli/strip_find.py" "$name" live/* stripped/*)"
fi
status 2 "$sonde" export --strip "$url" --format json
has "an agent is not stripped from outside" 'sonde serve --strip' err
kill -TERM "$agent"
wait "$agent"
finish

#!/usr/bin/env bash
# The benchmarks still compile against this tree. They are no part of `make test`'s builds, since
# their peers' packages are installed by `make bench` alone: so those parts are left out here.
. "$(dirname "$0")/common.sh"
cd "$SONDE_SOURCE"

count=0
for file in perf/*.c; do
    case $file in perf/peer_*) continue ;; esac
    count=$((count + 1))
    cc -std=gnu11 -Wall -Wextra -Werror -D_GNU_SOURCE -fsyntax-only -Iperf -Iinclude -Isrc -Itests "$file" \
        >"$scratch/out" 2>&1 || complain "$file does not compile:" "$(cat "$scratch/out")"
done
[ "$count" -ge 15 ] || complain "$count benchmarks in perf/: where are the others?"
finish

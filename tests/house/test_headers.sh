#!/usr/bin/env bash
# The public header compiles alone, without a warning, in every language it promises.
. "$(dirname "$0")/common.sh"

cat >"$scratch/use.c" <<'END'
#include <sonde/sonde.h>
#include <sonde/sonde.h> /* twice is fine */

int use(void);
int use(void)
{
    static struct sonde_counter c;
    uint64_t rows = 0;
    SONDE_SCOPE("use");
    SONDE_RESOURCE_SCOPE("use"); SONDE_THROUGHPUT_SCOPE("use", rows);
    {
        SONDE_SCOPE("inner");
        c = sonde_counter("a_total", "help");
        sonde_counter_add(c, 1);
        sonde_gauge_set(sonde_gauge("b", "help"), 1.5);
        sonde_hist_record_traced(sonde_hist("c_seconds", "help", 1e-9), sonde_ticks_ns(1));
    }
    return 0;
}
END
cp "$scratch/use.c" "$scratch/use.cpp"

strict=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only "-I$SONDE_SOURCE/include")
compile() {
    "$@" "${strict[@]}" >"$scratch/out" 2>&1 || complain "$*: sonde.h does not compile cleanly:" "$(cat "$scratch/out")"
}
for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    for standard in c11 gnu11 c17; do compile $compiler -std=$standard "$scratch/use.c"; done
    for standard in c++11 c++14 c++17 c++20; do compile $compiler -std=$standard "$scratch/use.cpp"; done
done
finish

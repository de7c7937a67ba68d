#!/usr/bin/env bash
# hot_banned.h: each name it bans is an error that says so, and code without them compiles.
. "$(dirname "$0")/common.sh"
header=$SONDE_SOURCE/src/base/hot_banned.h

sed -n 's/^#define \([a-z_]*\)(\.\.\.) SONDE__BANNED(\([a-z_]*\))$/\1 \2/p' "$header" >"$scratch/banned"
[ "$(wc -l <"$scratch/banned")" -ge 40 ] || complain "hot_banned.h: its list could not be read"
while read -r name said; do
    [ "$name" = "$said" ] || complain "hot_banned.h: $name says that it is $said"
done <"$scratch/banned"

cat >"$scratch/headers" <<'END'
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include "base/alloc.h"
#include "sonde/sonde.h"
#include "base/hot_banned.h"
void fine(char *to, const char *from);
void fine(char *to, const char *from) { memcpy(to, from, strlen(from)); }
END
compile() {
    "$1" -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only \
        "-I$SONDE_SOURCE/src" "-I$SONDE_SOURCE/include" "${@:3}" "$2" >"$scratch/out" 2>&1
}

cp "$scratch/headers" "$scratch/fine.c"
{
    cat "$scratch/headers"
    while read -r name _; do printf 'void use_%s(void);\nvoid use_%s(void) { %s(); }\n' "$name" "$name" "$name"; done <"$scratch/banned"
} >"$scratch/bad.c"
for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    unlimited=-fmax-errors=0
    [ $compiler = clang ] && unlimited=-ferror-limit=0
    compile $compiler "$scratch/fine.c" || complain "$compiler: harmless code does not compile:" "$(cat "$scratch/out")"
    compile $compiler "$scratch/bad.c" $unlimited && complain "$compiler: accepts what hot_banned.h bans"
    while read -r name _; do
        grep -q "error: .*sonde__banned_in_hot_code_$name\b" "$scratch/out" ||
            complain "$compiler: $name() is not an error after hot_banned.h"
    done <"$scratch/banned"
done
finish

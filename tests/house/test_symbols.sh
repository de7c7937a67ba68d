#!/usr/bin/env bash
# What libsonde.so needs and what it gives. It must need nothing but libc, and little of that;
# hot code must need next to nothing. A new name here is a decision: if it is right, add it to
# the list in this script, or to exports.txt with
#     tests/house/test_symbols.sh --update        (SONDE_SOURCE and SONDE_BUILD set)
. "$(dirname "$0")/common.sh"
library=$SONDE_BUILD/libsonde.so
exports=$SONDE_SOURCE/tests/house/exports.txt

# ---- Needs -----------------------------------------------------------------------------------
# No malloc, stdio, locale or thread creation: see "Hot and cold" in CONTRIBUTING.md.
allowed='
__cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable
__errno_location __progname program_invocation_short_name __register_atfork __stack_chk_fail
clock_gettime getauxval getenv geteuid getpgrp getpid getrlimit getrusage getuid sched_yield syscall sysconf
close flock fstat fstatat fstatvfs ftruncate linkat mkdir open openat posix_fallocate pread read
unlinkat madvise mmap munmap
memchr memcmp memcpy memmove memset strchr strcmp strcpy strlen strncmp strnlen strrchr strtoul strtoull
'
allowed_hot='
__errno_location __stack_chk_fail _GLOBAL_OFFSET_TABLE_ memcpy memset strnlen
'
undefined() { nm -u "$@" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u; }
words() { tr -s ' \n' '\n' <<<"$1" | sed '/^$/d' | sort -u; }

for name in $(comm -23 <(undefined -D "$library") <(words "$allowed")); do
    complain "libsonde.so needs $name(), which is not on the list of what it may use"
done
readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$scratch/needed"
for other in $(grep -vxE 'libc\.so\.6|ld-linux-x86-64\.so\.2|ld-linux-aarch64\.so\.1' "$scratch/needed"); do
    complain "libsonde.so depends on $other: only libc is allowed in the user's process"
done
while read -r object; do
    for name in $(comm -23 <(undefined "$object" | grep -v '^sonde_') <(words "$allowed_hot")); do
        complain "${object##*/} needs $name(): hot code may not (see hot_banned.h)"
    done
done < <(find "$SONDE_BUILD/CMakeFiles/sonde_objects.dir" -name '*_hot.c.o')

# ---- Gives -----------------------------------------------------------------------------------
# Versions and sizes are left out: the names are the interface.
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/exports"
[ "${1:-}" = --update ] && cp "$scratch/exports" "$exports"
diff -u --label exports.txt --label libsonde.so "$exports" "$scratch/exports" >"$scratch/diff" ||
    complain "libsonde.so's exported names changed:" "$(cat "$scratch/diff")"
for name in $(grep -v '^sonde_' "$scratch/exports"); do
    complain "libsonde.so exports $name: exported names begin with sonde_"
done
finish

#!/usr/bin/env bash
# What libsonde.so and libsonde_preload.so need and give. They must need nothing but libc, and
# little of that; hot code must need next to nothing. A new name here is a decision: if it is right,
# add it to the list in this script, or to exports.txt and exports_preload.txt with
#     tests/house/test_symbols.sh --update        (SONDE_SOURCE and SONDE_BUILD set)
. "$(dirname "$0")/common.sh"
# ---- What may be needed ------------------------------------------------------------------------
# No malloc, stdio, locale or thread creation: see "Hot and cold" in CONTRIBUTING.md.
allowed='
__cxa_finalize __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable
__errno_location __progname program_invocation_short_name __register_atfork __stack_chk_fail
clock_gettime dl_iterate_phdr getauxval geteuid getpgrp getpid getrlimit getrusage getuid kill lstat sched_yield secure_getenv
syscall sysconf
close fcntl flock fstat fstatat fstatfs fstatvfs ftruncate linkat mkdir open openat posix_fallocate pread pwrite read readlink stat
unlinkat madvise mincore mmap mprotect munmap pthread_setcancelstate
memchr memcmp memcpy memmove memset strchr strcmp strcpy strlen strncmp strnlen strrchr strspn strtoul strtoull
'
allowed_hot='
__errno_location __stack_chk_fail _GLOBAL_OFFSET_TABLE_ memcpy memset strnlen
'
# In front of libc's functions, so it has to find those; and in signal handlers, where
# _dl_find_object is the one way to ask for modules.
allowed_preload="$allowed __cxa_atexit
__environ environ __libc_stack_end _dl_find_object dlopen dlsym getcwd prctl
pthread_attr_destroy pthread_attr_getguardsize pthread_attr_getstack pthread_attr_getstacksize
pthread_attr_init pthread_key_create pthread_self pthread_setspecific sigaddset sigdelset stpcpy strstr
access clock_getres stat strcspn strspn
"
allowed_hot_preload="$allowed_hot
_dl_find_object memcmp strlen strncmp
"
undefined() { nm -u "$@" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u; }
words() { tr -s ' \n' '\n' <<<"$1" | sed '/^$/d' | sort -u; }

# ---- Needs: LIBRARY ALLOWED OBJECTS ALLOWED_HOT ---------------------------------------------------
needs() {
    local library=$SONDE_BUILD/$1 name other object
    for name in $(comm -23 <(undefined -D "$library") <(words "$2")); do
        complain "$1 needs $name(), which is not on the list of what it may use"
    done
    readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$scratch/needed"
    for other in $(grep -vxE 'libc\.so\.6|ld-linux-x86-64\.so\.2|ld-linux-aarch64\.so\.1' "$scratch/needed"); do
        complain "$1 depends on $other: only libc is allowed in the user's process"
    done
    while read -r object; do
        for name in $(comm -23 <(undefined "$object" | grep -v '^sonde_') <(words "$4")); do
            complain "${object##*/} needs $name(): hot code may not (see hot_banned.h)"
        done
    done < <(find "$SONDE_BUILD/CMakeFiles/$3.dir" -name '*_hot.c.o')
}

# ---- Gives: LIBRARY LIST PATTERN [--update] --------------------------------------------------------
# Versions and sizes are left out: the names are the interface.
gives() {
    local exports=$SONDE_SOURCE/tests/house/$2 name
    nm -D --defined-only "$SONDE_BUILD/$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$scratch/exports"
    [ "${4:-}" = --update ] && cp "$scratch/exports" "$exports"
    diff -u --label "$2" --label "$1" "$exports" "$scratch/exports" >"$scratch/diff" ||
        complain "$1's exported names changed:" "$(cat "$scratch/diff")"
    for name in $(grep -vE "$3" "$scratch/exports"); do
        complain "$1 exports $name: exported names are like $3"
    done
}

needs libsonde.so "$allowed" sonde_objects "$allowed_hot"
gives libsonde.so exports.txt '^sonde_' "${1:-}"
needs libsonde_preload.so "$allowed_preload" sonde_preload "$allowed_hot_preload"
gives libsonde_preload.so exports_preload.txt '^[^s]|^s[^o]' "${1:-}" # libc's names, none of ours
finish

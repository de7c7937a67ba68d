#!/usr/bin/env bash
# Programs do with libsonde_preload in them what they do without: same output, same end. Each mode
# of timer_host is something that a sampler inside of a program can break.
. "$(dirname "$0")/../cli/common.sh"
library=$SONDE_BUILD/libsonde_preload.so
sampler="session=1,period=1000000,depth=128,children=0"

# What must be the same: all but addresses and times.
output() { grep -vE '^(range|truth) ' "$1"; }

# compare WHAT COMMAND…
compare() {
    local what=$1 plain=0 sampled=0
    shift
    timeout 120 "$@" >"$scratch/plain" 2>&1 || plain=$?
    LD_PRELOAD=$library SONDE_SAMPLER=$sampler timeout -k 1 120 "$@" >"$scratch/sampled" 2>&1 || sampled=$?
    same "$what: exit status" "$plain" "$sampled"
    diff <(output "$scratch/plain") <(output "$scratch/sampled") >"$scratch/diff" ||
        complain "$what: not the same output:" "$(cat "$scratch/diff")"
}

# `timeout` is preloaded first and starts the program, so it has to hand the library on.
sampler=${sampler/children=0/children=1}
for mode in deep fork sleep own prof blocked sigwait handler tiny-stack alt-stack coroutine longjmp storm cancel few-timers; do
    compare "$mode" "$programs/timer_host" "$mode"
done
compare "exceptions" "$programs/timer_throw"
sampler=${sampler/children=1/children=0}

# Waiting in poll, nanosleep, epoll_wait, select and sem_timedwait is never cut short.
LD_PRELOAD=$library SONDE_SAMPLER=$sampler "$programs/timer_host" sleep 200 >"$scratch/out" 2>&1
has "sleep" '^interrupted 0$' "$scratch/out"

# The signal has its default action for whoever sends it.
status=0
{ LD_PRELOAD=$library SONDE_SAMPLER=$sampler "$programs/timer_host" raise; } >"$scratch/out" 2>&1 || status=$?
same "raise: exit status" 144 "$status"

# The environment is the program's own, and so are the entries of LD_PRELOAD that are not ours.
other=$(ldconfig -p 2>/dev/null | sed -n 's/.*libm\.so\.6 .*=> //p' | head -n 1)
LD_PRELOAD=$library SONDE_SAMPLER=$sampler "$programs/timer_host" env >"$scratch/out" 2>&1
same "environment" $'LD_PRELOAD -\nSONDE_SAMPLER -' "$(cat "$scratch/out")"
if [ -n "$other" ]; then
    LD_PRELOAD=$library:$other SONDE_SAMPLER=$sampler "$programs/timer_host" env >"$scratch/out" 2>&1
    same "environment with another library" "LD_PRELOAD $other" "$(head -n 1 "$scratch/out")"
fi
LD_PRELOAD=$library SONDE_SAMPLER=nonsense "$programs/timer_host" env >"$scratch/out" 2>&1
same "nonsense is nothing" $'LD_PRELOAD -\nSONDE_SAMPLER -' "$(cat "$scratch/out")"

# Children are left alone, however they are made.
LD_PRELOAD=$library SONDE_SAMPLER=$sampler "$programs/timer_host" spawn 9 >"$scratch/out" 2>&1
same "spawn" "spawned 10" "$(cat "$scratch/out")"

# A hundred runs each of fork and exec, with threads that burn at the same time; children of every
# second one are sampled too.
for mode in fork exec; do
    for i in $(seq 100); do
        status=0
        LD_PRELOAD=$library SONDE_SAMPLER=${sampler/children=0/children=$((i % 2))} \
            "$programs/timer_host" $mode 6 >"$scratch/out" 2>&1 || status=$?
        [ $status -eq 0 ] || { complain "$mode, run $i: exit status $status" "$(cat "$scratch/out")"; break; }
        case $mode in
        fork) same "fork, run $i" "children 6" "$(cat "$scratch/out")" ;;
        exec) same "exec, run $i" "exec 0" "$(cat "$scratch/out")" ;;
        esac
    done
done

# Nothing is left behind by programs that came to their end without an agent, but for those that
# were killed or replaced themselves.
rm -f "$SONDE_DIR"/*
LD_PRELOAD=$library SONDE_SAMPLER=$sampler "$programs/timer_host" longjmp 50 >"$scratch/out" 2>&1
same "files left" "" "$(ls "$SONDE_DIR")"
finish

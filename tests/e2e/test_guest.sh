#!/usr/bin/env bash
# What programs rely on stays as it is with libsonde_preload in them: see tests/programs/guest.c.
# Each mode is run plain, and with samples of the CPU, of the heap, with every allocation, and with
# calls of llama.cpp, alone and together, so that one to four variables are taken out again.
. "$(dirname "$0")/../cli/common.sh"
library=$SONDE_BUILD/libsonde_preload.so
cpu="SONDE_SAMPLER=session=1,period=1000000,depth=128,children=0"
heap="session=1,mean=4096,depth=128,children=0,scan=0,seed=1"
sampled="SONDE_HEAP=mode=sampled,$heap"
full="SONDE_HEAP=mode=full,$heap"
llama="SONDE_LLAMA=children=0"

# guest NAME MODE VARIABLE…: the library with these, compared to what is without.
guest() {
    local name="$2, $1" mode=$2 plain=0 got=0
    shift 2
    env "$programs/guest" "$mode" >"$scratch/plain" 2>&1 || plain=$? # env: for the shell's variable _
    env LD_PRELOAD="$library" "$@" "$programs/guest" "$mode" >"$scratch/got" 2>&1 || got=$?
    same "$name: exit status" "$plain" "$got"
    diff "$scratch/plain" "$scratch/got" >"$scratch/diff" ||
        complain "$name: not the same output:" "$(head -n 20 "$scratch/diff")"
}

for mode in auxv environ; do
    guest "cpu" $mode "$cpu"
    guest "cpu, llama" $mode "$cpu" "$llama"
    guest "heap, llama" $mode "$sampled" "$llama"
    guest "cpu, heap, llama" $mode "$cpu" "$full" "$llama"
done
guest "cpu, llama, another library" auxv "$cpu" "$llama" LD_PRELOAD="$library:libm.so.6"
guest "cpu" masks "$cpu"
guest "cpu" bottom "$cpu"
guest "cpu and heap" bottom-malloc "$cpu" "$sampled"
guest "sampled" bottom-malloc "$sampled"
guest "full" bottom-malloc "$full"
guest "sampled" float "$sampled"
guest "full" float "$full"
for mode in strict strict-prctl strict-seccomp; do
    env "$programs/guest" $mode >"$scratch/out" 2>&1
    same "$mode, plain: exit status" 0 $?
    guest "cpu" $mode "$cpu"
    guest "sampled" $mode "$sampled"
    guest "full" $mode "$full"
    guest "cpu and heap" $mode "$cpu" "$sampled"
done
scan="SONDE_HEAP=mode=full,${heap/scan=0/scan=1}"
for mode in filter filter-syscall; do
    env "$programs/guest" $mode >"$scratch/out" 2>&1
    same "$mode, plain: exit status" 5 $?
    guest "cpu" $mode "$cpu"
    guest "sampled" $mode "$sampled"
    guest "full" $mode "$full"
    guest "cpu, heap with a scan, llama" $mode "$cpu" "$scan" "$llama"
done
for variable in "$cpu" "$sampled" "$full"; do
    status 5 env LD_PRELOAD="$library" "$variable" "$programs/guest" filter-records
done
# A program that links libsonde, alone: its end takes no call either, and the file is swept later.
for mode in filter-counts filter-counts-syscall; do
    status 5 "$programs/guest" $mode
    status 0 "$sonde" ls
    has "$mode: it came to its end" ' guest +(ended|exited)' "$scratch/out"
    rm -f "$SONDE_DIR"/[0-9]*
    for variable in "$cpu" "$full"; do
        status 5 env LD_PRELOAD="$library" "$variable" "$programs/guest" $mode
    done
done
guest "cpu" exec-full "$cpu"
guest "cpu, heap, llama" exec-full "$cpu" "$sampled" "$llama"
finish

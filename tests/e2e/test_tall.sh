#!/usr/bin/env bash
# Frames of 100 KB to 1 MB at every level: the stacks of both engines are whole, and the right ones.
. "$(dirname "$0")/common.sh"
cd "$SONDE_DIR"
sonde=$SONDE_BUILD/sonde

# Folded stacks on stdin: each is one that the program can have, or the inner part of one. How many
# there are, and how many are truncated, into $all and $cut.
check_stacks() { # WHAT
    local words
    words=$(awk -v what="$1" '
        { count = $NF; sub(/ [0-9]+$/, ""); all += count }
        /^\[truncated\]/ { cut += count; sub(/^\[truncated\];/, ""); inner = 1 }
        !/spin_/ { next }
        {
            path = $0
            sub(/;cpu_s.*/, "", path)
            # libc without its debug symbols has no names for these two.
            thread = "((__)?clone3?|libc[^;]*);(start_thread|libc[^;]*)"
            outer = "^(_start;.*;main;work|" thread ";worker;work)"
            deep = ";deep_1;deep_2;deep_3;(deep_4;deep_5;deep_6;spin_deep|spin_back)$"
            sides = ";(left;middle;inner;spin_left|right;middle;inner;spin_right)$"
            holes = "^" thread ";hole_worker;hole_(left;hole;spin_left|right;hole;spin_right)$"
            if (!inner && path !~ outer deep && path !~ outer sides && path !~ holes) bad = bad " " path
            if (inner && path !~ "(deep_6;spin_deep|inner;spin_left|inner;spin_right|hole;spin_(left|right)|spin_back)$") bad = bad " " path
            inner = 0
        }
        END { print all + 0, cut + 0; if (bad) print what ": wrong stacks:" bad > "/dev/stderr" }
    ') || complain "$1: awk"
    read -r all cut <<<"$words"
}

# The sampler of the kernel may not be permitted here.
engines=timer
"$sonde" doctor 2>/dev/null | grep -q 'perf events by' && engines="perf timer"
for engine in $engines; do
    "$sonde" record -q --engine "$engine" -F 997 -o tall.run -- "$programs/tall" --seconds 2 --threads 1 >/dev/null
    check_stacks "$engine" < <("$sonde" export -f folded tall.run) 2>wrong
    [ ! -s wrong ] || complain "$(cat wrong)"
    [ "$all" -gt 1000 ] || complain "$engine: only $all samples in 4 s"
    # All of them on a quiet machine. On a busy one, frames that the program leaves between a sample
    # and the look at it are lost to us.
    [ "$cut" -le $((all / 200 + 4)) ] || complain "$engine: $cut of $all stacks are truncated: $("$sonde" report tall.run | grep truncated)"
done

# What changes far out all the time cannot be told from outside, and then it is not told.
for engine in $engines; do
    "$sonde" record -q --engine "$engine" -F 997 -o sides.run -- "$programs/tall" --seconds 1 --alternate >/dev/null
    check_stacks "$engine, alternating" < <("$sonde" export -f folded sides.run) 2>wrong
    [ ! -s wrong ] || complain "$(cat wrong)"
    [ "$engine" = perf ] || [ "$cut" -eq 0 ] || complain "$engine: $cut of $all stacks are truncated"
done

# A copy ends at a page that was never used, though it has room for the rest. It is used from then on.
for engine in $engines; do
    "$sonde" record -q --engine "$engine" -F 997 -o holes.run -- "$programs/tall" --seconds 2 --holes >/dev/null
    check_stacks "$engine, holes" < <("$sonde" export -f folded holes.run) 2>wrong
    [ ! -s wrong ] || complain "$(cat wrong)"
    [ "$all" -gt 500 ] || complain "$engine, holes: only $all samples in 2 s"
    [ "$cut" -le $((all / 20)) ] || complain "$engine: $cut of $all stacks with a hole are truncated"
done

# The share that was mended, and why others were not, is in the report and in its JSON.
if [[ $engines = perf* ]]; then
    "$sonde" record -q --engine perf -F 997 -o tall.run -- "$programs/tall" --seconds 1 >/dev/null
    "$sonde" report tall.run | grep -q '^  mended  *[0-9.]* % of the stacks' || complain "report: no share of mended stacks"
    "$sonde" report --json tall.run | grep -q '"mended_samples": *[1-9]' || complain "report --json: no mended_samples"
    "$sonde" report sides.run | grep -q 'of the stacks reach' || complain "report of sides.run"
fi
finish

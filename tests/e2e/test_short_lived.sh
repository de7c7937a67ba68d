#!/usr/bin/env bash
# Threads and processes that end long before a sampling period is over: there are as many samples as
# their CPU time says, or it is said that there are not.
. "$(dirname "$0")/common.sh"
# Not in SONDE_DIR: segments of two thousand processes may fill a small tmpfs for a moment.
scratch=$(mktemp -d)
trap 'rm -rf "$SONDE_DIR" "$scratch"' EXIT
cd "$scratch"
sonde=$SONDE_BUILD/sonde
rate=199
least=60

# Samples of all there should be, in percent, within a wide band: of some 400 samples, and with the
# tenth of a second that it takes to notice. least: a narrower one.
check_count() { # WHAT ENGINE ARGUMENTS…
    local what=$1 engine=$2
    shift 2
    "$sonde" record --children --engine "$engine" -F $rate -o s.run -- "$programs/short_lived" "$@" >out 2>err ||
        complain "$what: exit status $?"
    "$sonde" report --json s.run >report
    local share
    share=$(awk -v rate=$rate '
        FNR == NR && /^cpu / { cpu = $2 }
        FNR != NR && match($0, /"samples": *[0-9]+/) && !n { s = substr($0, RSTART, RLENGTH); sub(/.*: */, "", s); n = s }
        END { printf "%d", 100 * n / (cpu * rate) }' out report)
    if [ "$share" -lt "$least" ] && grep -qE "${says:-fewer samples than the CPU time says}" err; then
        echo "$what: $share % of the samples, and it is said"
    elif [ "$share" -lt "$least" ] || [ "$share" -gt 140 ]; then
        complain "$what: $share % of the samples that its CPU time says: $(cat out err)"
    fi
}

check_count "timer, threads" timer --threads
check_count "timer, threads at once" timer --threads --at-once 8
says='CPU time that it used was sampled: processes that end soon are missed in part'
check_count "timer, processes" timer --forks --us 1000 --count 2000
says=
if "$sonde" doctor 2>/dev/null | grep -q 'perf events by'; then
    check_count "perf, threads" perf --threads
    check_count "perf, threads at once" perf --threads --at-once 8
    check_count "perf, processes" perf --forks --us 1000 --count 2000
fi
# A few periods each: whole ones are seen, and so is the rest (without that 56 % and 79 %; with it 85 to
# 91 % and more).
least=75
check_count "timer, processes of 1.8 periods" timer --forks --us 18000 --count 150
if "$sonde" doctor 2>/dev/null | grep -q 'perf events by'; then
    check_count "perf, processes of 1.8 periods" perf --forks --us 9000 --count 300
    least=85
    check_count "perf, processes of 3.8 periods" perf --forks --us 19000 --count 150
fi
finish

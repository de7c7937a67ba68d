#!/usr/bin/env bash
# A program that leaves the CPU all the time is sampled at the end of its turns where perf events do it
# and timers are late: it is said, with the engine that does better.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit 1
cat >pingpong.c <<'EOF2'
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
    int a[2], b[2];
    char c = 0;
    if (pipe(a) || pipe(b)) return 1;
    if (fork() == 0) {
        while (read(a[0], &c, 1) == 1 && c == 0 && write(b[1], &c, 1) == 1) { }
        _exit(0);
    }
    while (clock() < CLOCKS_PER_SEC / 2 && write(a[1], &c, 1) == 1 && read(b[0], &c, 1) == 1) { }
    c = 1;
    return write(a[1], &c, 1) != 1;
}
EOF2
gcc -O1 pingpong.c -o pingpong || complain "no program"
says='left the CPU [0-9]* times a second .*\(--engine timer does not\)'
if "$sonde" doctor 2>/dev/null | grep -q 'perf events by'; then
    status 0 "$sonde" record --engine perf -o often.run -- ./pingpong
    has "it is said" "$says" err
    status 0 "$sonde" record --engine perf -o seldom.run -- \
        bash -c 'end=$((SECONDS + 2)); while [ $SECONDS -lt $end ]; do :; done'
    lacks "one that stays on the CPU" "$says" err
fi
status 0 "$sonde" record --engine timer -o timer.run -- ./pingpong
lacks "the timer engine" "$says" err
finish

#!/usr/bin/env bash
# A command that goes on after its recording: what is waited for is said, and --stop ends it. A flame
# graph of a command in one step.
. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$scratch" || exit 1
burn=$programs/burn

# ---- record -d ------------------------------------------------------------------------------------
mkfifo hold
sh -c 'exec "$@"' sh "$sonde" record -d 0.2 -o waits.run -- sh -c 'echo $$; read -r line <hold; exit 5' >out 2>err &
recording=$!
started+=("$recording")
until_line 'the recording is complete; waiting for sh \(process [0-9]+\) to end' err
has "it is written by then" 'waits.run: ' err
[ -s waits.run ] || complain "no run file while the command goes on"
echo >hold
wait "$recording"
same "and its exit status is the command's" 5 $?

status 0 "$sonde" record -d 0.2 --stop -o stopped.run -- sleep 1000
has "it is ended" 'the recording is complete: sleep \(process [0-9]+\) is asked to end' err
status 3 "$sonde" record -d 0.5 --stop -o own.run -- sh -c 'trap "exit 3" TERM; while :; do sleep 0.05; done'
status 0 "$sonde" record -q -d 10 --stop -o short.run -- true
status 2 "$sonde" record --stop -o x.run -- true
has "it needs a time" 'stop ends CMD after -d SECONDS' err
status 2 "$sonde" record --stop -d 1 -p $$

# What the command leaves behind is named: it goes on, and nothing of it is recorded.
cat >leaves.c <<'EOF'
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            for (int i = 0; i < 3; i++) close(i);
            sleep(5);
        }
        _exit(0);
    }
    wait(NULL);
    return 0;
}
EOF
gcc leaves.c -o leaves
status 0 "$sonde" record -o leaves.run -- ./leaves
has "it is named" '^sonde: 1 process that it started goes on and is not recorded any more: leaves \([0-9]+\)' err
status 0 "$sonde" record -d 0.5 --stop -o two.run -- sh -c 'sleep 5 & sleep 5'
has "both are" '^sonde: 2 processes that it started go on and are not recorded any more: sleep \([0-9]+\), sleep ' err
status 0 "$sonde" record -o ends.run -- sh -c 'true; true'
lacks "nothing goes on" 'not recorded any more' err

# ---- flamegraph -- CMD ----------------------------------------------------------------------------
status 4 "$sonde" flamegraph -o burn.svg -- sh -c 'echo said; "$0" --seconds 0.3 >/dev/null; exit 4' "$burn"
same "its output is its own" said "$(cat out)"
has "a picture" '<svg' burn.svg
has "of the program that it started" 'burn' burn.svg
status 0 "$sonde" flamegraph -d 0.5 --stop -o burn.html -- "$burn" --seconds 1000
has "a page" '<html|<!doctype' burn.html
status 0 "$sonde" flamegraph -o sleeps.svg -- sleep 0.01
has "a picture in any case" '<svg' sleeps.svg
status 3 "$sonde" flamegraph -o none.html -- sh -c 'exit 3'
status 0 "$sonde" flamegraph --help
has "where to, of a command" 'FILE must be given' out
status 2 "$sonde" flamegraph -- true
has "where to" 'say where to' err
status 2 "$sonde" flamegraph -o - -- true
has "not to its output" 'the standard output is that of true' err
status 127 "$sonde" flamegraph -o none.svg -- ./not-there
status 0 "$sonde" record -q -o burn.run -- "$burn" --seconds 0.2
status 2 "$sonde" flamegraph burn.run -o a.svg another
status 0 "$sonde" flamegraph burn.run -o file.svg
has "files as ever" '<svg' file.svg

# ---- what takes longer than a second says so -------------------------------------------------------
python3 "$here/progress.py" "$sonde" "$scratch" >progress.out 2>&1 || complain "progress:" "$(cat progress.out)"

# ---- what the library does itself is not the program's --------------------------------------------
status 0 "$sonde" record --heap=full -o own.run -- "$programs/mem_host" threads 40
"$sonde" report own.run >report.txt
lacks "none of its functions is shown" 'sonde__|mem_entry\.c' report.txt
finish

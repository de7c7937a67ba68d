#!/usr/bin/env bash
# Signals sent to `sonde run` reach the command once; the terminal's reach it once, too.
. "$(dirname "$0")/common.sh"

"$sonde" run --listen 127.0.0.1:0 -- "$programs/signals" >"$scratch/got" 2>"$scratch/err" &
pid=$!
started+=("$pid")
until_line ready "$scratch/got"
for sig in TERM HUP INT QUIT USR1 WINCH CONT; do
    kill -"$sig" "$pid"
    until_line "^$sig\$" "$scratch/got"
done
kill -USR2 "$pid"
wait "$pid"
same "exit status" 0 "$?"
same "each once" "ready TERM HUP INT QUIT USR1 WINCH CONT USR2" "$(tr '\n' ' ' <"$scratch/got" | sed 's/ $//')"

# The default action of a signal that was passed on ends both.
"$sonde" run --listen 127.0.0.1:0 --log "$scratch/log" -- sleep 60 &
pid=$!
started+=("$pid")
until_line 'shows process' "$scratch/log"
kill -TERM "$pid"
wait "$pid"
same "ended by TERM" 143 "$?"
has "the log says so" 'killed by signal 15 \(SIGTERM\)' "$scratch/log"

# A job that is stopped and continued. It gets a process group of its own, as a shell's jobs have:
# the kernel stops no group that is orphaned, and this test's may be.
set -m
"$sonde" run --listen 127.0.0.1:0 --log "$scratch/stop.log" -- sleep 60 &
pid=$!
set +m
started+=("$pid")
until_line 'shows process' "$scratch/stop.log"
child=$(grep -oE 'shows process [0-9]+' "$scratch/stop.log" | grep -oE '[0-9]+')
state() { [ "$(awk '/^State/ { print $2 }' "/proc/$1/status")" = "$2" ]; }
kill -TSTP "$pid"
until_true state "$child" T
until_true state "$pid" T
kill -CONT "$pid"
until_true state "$child" S
until_true state "$pid" S
# Somebody looks at the command alone: we go on serving.
kill -STOP "$child"
until_true state "$child" T
curl -sf -o /dev/null "$(url_in "$scratch/stop.log")/livez" || complain "stopped with its command"
kill -CONT "$child"
kill -KILL "$child"
wait "$pid" 2>/dev/null
same "the command was killed" 137 "$?"

# In a terminal. tmux gives us one; the summary on it is for people.
if command -v tmux >/dev/null; then
    tmux=(tmux -S "$scratch/tmux" -f /dev/null)
    "${tmux[@]}" new-session -d -x 120 -y 40 "exec bash --norc --noprofile -i"
    pane() { "${tmux[@]}" capture-pane -p; }
    in_pane() { pane | grep -qE -- "$1"; }
    "${tmux[@]}" send-keys "PS1='prompt> '; export SONDE_DIR=$SONDE_DIR" Enter
    "${tmux[@]}" send-keys "$sonde run --listen 127.0.0.1:0 -- $programs/signals >$scratch/tty" Enter
    until_line ready "$scratch/tty"
    until_true in_pane 'sonde: http://127\.0\.0\.1:[0-9]+ shows process'
    "${tmux[@]}" send-keys C-c
    until_line '^INT$' "$scratch/tty"
    "${tmux[@]}" send-keys 'C-\'
    until_line '^QUIT$' "$scratch/tty"
    child=$(pane | grep -oE 'shows process [0-9]+' | grep -oE '[0-9]+')
    kill -USR2 "$child"
    until_true in_pane 'exit status 0'
    same "Ctrl-C and Ctrl-\\ arrive once" "ready INT QUIT USR2" "$(tr '\n' ' ' <"$scratch/tty" | sed 's/ $//')"

    # Ctrl-Z gives the shell its prompt back, fg goes on.
    "${tmux[@]}" send-keys "$sonde run --listen 127.0.0.1:0 --log $scratch/tty.log -- sleep 60" Enter
    until_line 'shows process' "$scratch/tty.log"
    child=$(grep -oE 'shows process [0-9]+' "$scratch/tty.log" | grep -oE '[0-9]+')
    "${tmux[@]}" send-keys C-z
    until_true in_pane 'Stopped'
    until_true state "$child" T
    "${tmux[@]}" send-keys "fg" Enter
    until_true state "$child" S
    "${tmux[@]}" send-keys C-c
    until_true in_pane 'killed by signal 2 \(SIGINT\)'
    "${tmux[@]}" send-keys 'echo status=$?' Enter
    until_true in_pane 'status=130'
    "${tmux[@]}" kill-server
fi
finish

#!/usr/bin/env bash
# The directory of segments: what is not ours stays, also what cannot be judged from here; what is
# dead goes; another user's word is not believed.
. "$(dirname "$0")/common.sh"

# record SECONDS: a program that records; $recorder is its process, $segment its file
record() {
    : >"$scratch/ready"
    "$programs/recorder" 1 "$1" >"$scratch/ready" &
    recorder=$!
    started+=("$recorder")
    until_line ready "$scratch/ready"
    segment=$(echo "$SONDE_DIR/$recorder".*)
    [ -f "$segment" ] || complain "$recorder has no segment"
}

gone() { [ ! -e "$1" ]; }

kill_recorder() {
    { kill -KILL "$recorder" && wait "$recorder"; } 2>/dev/null
}

# ---- Files of others ----------------------------------------------------------------------------

foreign=(todo.txt tax 3.11 2026.11 1.2.3 notes.txt t2.345.tmp7 .sonde-0000000000000abc-42.tmp)
for name in "${foreign[@]}"; do
    echo mine >"$SONDE_DIR/$name"
    touch -d '1 hour ago' "$SONDE_DIR/$name"
done
all_there() {
    local name
    for name in "${foreign[@]}"; do
        [ -f "$SONDE_DIR/$name" ] || complain "$1 has removed $name"
    done
}
status 0 "$programs/recorder" 1 0
all_there "a program that records"

record 60
kill_recorder
[ -f "$segment" ] || complain "a killed program's segment is gone at once"
touch -d '1 hour ago' "$segment"
status 0 "$programs/recorder" 1 0
gone "$segment" || complain "an old segment of a killed process is not swept"

record 60
kill_recorder
killed=$segment
record 60
start_agent "$scratch/agent.log" --retain 1
until_true gone "$killed"
kill -TERM "$agent"
wait "$agent"
all_there "an agent"
[ -f "$segment" ] || complain "an agent has removed the segment of a live process"
kill_recorder
rm -f "${foreign[@]/#/$SONDE_DIR/}"

# ---- A setuid program ---------------------------------------------------------------------------

# Another user says where, with a /dev/shm of its own.
as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs none /dev/shm 2>/dev/null; then
    chmod 711 "$scratch"
    mkdir -m 755 "$scratch/roots"
    cp "$programs/recorder" "$scratch/suid"
    chmod 4755 "$scratch/suid"
    unshare -m sh -c "mount -t tmpfs none /dev/shm && SONDE_DIR=$scratch/roots/new ${as_nobody[*]} \
        $scratch/suid 1 0 && ls /dev/shm" >"$scratch/out" 2>&1 || complain "$(cat "$scratch/out")"
    gone "$scratch/roots/new" || complain "a setuid program records where its caller says"
    has "the user's whose rights it has" '^sonde-(0|65534)$' "$scratch/out" # the latter: nosuid
else
    echo "not tried: a setuid program (needs root and unshare)"
fi

# ---- Other namespaces ---------------------------------------------------------------------------

elsewhere=(unshare -m -p -f --kill-child --mount-proc)
if ! "${elsewhere[@]}" true 2>/dev/null; then
    echo "not tried: agents in other pid namespaces (unshare is not permitted)"
    finish
fi
rm -f "$SONDE_DIR"/[0-9]*
record 600
here=$recorder here_segment=$segment
"${elsewhere[@]}" "$programs/recorder" 1 600 >"$scratch/ready2" &
started+=("$!")
until_line ready "$scratch/ready2"
there_segment=$(echo "$SONDE_DIR"/1.*)
[ -f "$there_segment" ] || complain "no segment of the process in the other namespace"

status 0 "$sonde" ls
has "ours" "^ *$here +recorder +running " "$scratch/out"
has "theirs" '^ *1 +recorder +in another namespace +-' "$scratch/out"
"${elsewhere[@]}" "$sonde" ls >"$scratch/out" 2>&1
has "ours, seen from there" "^ *$here +recorder +in another namespace +-" "$scratch/out"
status 0 "$sonde" ls --json
has "theirs, JSON" '"pid":1,"program":"recorder","state":"in another namespace","uptime_s":null' "$scratch/out"

# An agent in each, over what lives and what was killed.
start_agent "$scratch/agent.log" --retain 1
"${elsewhere[@]}" "$sonde" serve --listen 127.0.0.1:0 --retain 1 2>"$scratch/agent2.log" &
there=$!
started+=("$there")
until_line 'listening on http' "$scratch/agent2.log"
for _ in 1 2 3; do
    record 600
    kill_recorder
    until_true gone "$segment"
done
# The one in the other namespace removes alone what it can see to be dead.
kill -TERM "$agent"
wait "$agent"
record 600
kill_recorder
until_true gone "$segment"
[ -f "$here_segment" ] || complain "the segment of a live process here is gone"
[ -f "$there_segment" ] || complain "the segment of a live process there is gone"
{ kill -KILL "$there" && wait "$there"; } 2>/dev/null
status 0 "$sonde" ls
has "ours, still" "^ *$here +recorder +running " "$scratch/out"
finish

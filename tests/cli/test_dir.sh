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

# Also if they are called like an agent's own.
for name in agent.lock agent.state agent.state.new; do
    rm -f "$SONDE_DIR"/agent.*
    echo mine >"$SONDE_DIR/$name"
    record 60
    start_agent "$scratch/agent.log" --no-processes
    seen() { curl -s "$url/api/processes" | grep -q recorder; }
    until_true seen
    kill -TERM "$agent"
    wait "$agent"
    kill_recorder
    same "$name stays" mine "$(cat "$SONDE_DIR/$name")"
    has "and it is said" "agent.lock .*left as it is|agent.state: .*not sonde's" "$scratch/agent.log"
done
# What two agents leave that wrote their process ids at the same instant is theirs.
rm -f "$SONDE_DIR"/agent.*
printf '99\n45\n' >"$SONDE_DIR/agent.lock"
start_agent "$scratch/agent.log" --no-processes
same "the lock names the agent" "$agent" "$(cat "$SONDE_DIR/agent.lock")"
kill -TERM "$agent"
wait "$agent"
lacks "nothing is said" 'left as it is' "$scratch/agent.log"
for name in agent.state agent.state.new; do
    rm -f "$SONDE_DIR"/agent.*
    mkfifo "$SONDE_DIR/$name"
    record 60
    start_agent "$scratch/agent.log" --no-processes
    until_true seen
    kill -TERM "$agent"
    wait "$agent"
    kill_recorder
    [ -p "$SONDE_DIR/$name" ] || complain "a FIFO $name is replaced"
done
rm -f "$SONDE_DIR"/*

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

# ---- The default directory is another user's ----------------------------------------------------

# squat WHAT…: in a /dev/shm and /run of its own; $1 makes the name, $2 is the user, $3 where it is
squat() {
    cat >"$scratch/squat.sh" <<END
mount -t tmpfs none /dev/shm && mount -t tmpfs -o mode=755 none /run && mkdir -p -m 755 /run/user &&
    install -d -m 700 -o 65534 /run/user/65534 || exit 1
unset SONDE_DIR
$1
as="setpriv --reuid \$2 --regid \$2 --clear-groups"
\$as "$programs/recorder" 1 600 >"$scratch/ready3" &
for _ in \$(seq 400); do grep -q ready "$scratch/ready3" && break; sleep 0.05; done
\$as "$sonde" ls --json
\$as "$sonde" doctor --listen 127.0.0.1:0
\$as timeout 1 "$sonde" serve --listen 127.0.0.1:0 2>&1
echo "serve: \$?"
rm -rf /dev/shm/sonde-\$2
\$as "$sonde" ls --json
kill -KILL \$(jobs -p)
END
    : >"$scratch/ready3"
    unshare -m bash "$scratch/squat.sh" squat "$2" >"$scratch/out" 2>&1
    same "$3: found before and after" 2 "$(grep -c "^{\"dir\":\"$3\",.*\"program\":\"recorder\"" "$scratch/out")"
    same "$3: and nothing else" 0 "$(grep -c '"program":"nobodys"' "$scratch/out")"
    has "$3: doctor" "^warn +directory +/dev/shm/sonde-$2 belongs to user [0-9]+: $3 is used instead" "$scratch/out"
    has "$3: an agent starts" '^serve: (0|124)$' "$scratch/out"
}
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs none /dev/shm 2>/dev/null &&
    "${as_nobody[@]}" "$sonde" help >/dev/null 2>&1; then
    chmod 711 "$scratch" # for the others to run and write
    touch "$scratch/ready3"
    cp "$programs/recorder" "$scratch/nobodys"
    # With a segment of his own in it, and the agent's lock held.
    squat "${as_nobody[*]} mkdir -m 755 /dev/shm/sonde-0
SONDE_DIR=/dev/shm/sonde-0 ${as_nobody[*]} $scratch/nobodys 1 30 &
${as_nobody[*]} flock -xF /dev/shm/sonde-0/agent.lock sleep 30 &
for _ in \$(seq 400); do ls /dev/shm/sonde-0/[0-9]* && break; sleep 0.05; done" 0 /run/sonde-0
    squat "ln -s /tmp /dev/shm/sonde-65534" 65534 /run/user/65534/sonde-65534
else
    echo "not tried: a directory that another user has made (needs root and unshare)"
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

#!/usr/bin/env bash
# When a segment's file comes and goes: by the way its process ends, with and without an agent, and
# what is swept when nobody is there to read it.
. "$(dirname "$0")/common.sh"
lifetime=$programs/lifetime

# run END…: its pid in $pid
run() { pid=$({ "$lifetime" "$@" || true; } 2>/dev/null); }

# expect_names WHAT NAME…: the segments there are, as <pid>[.<n>] without the start time
expect_names() {
    local what=$1 found wanted
    shift
    found=$(segments | sed -E 's/^([0-9]+)\.[0-9]+/\1/' | sort)
    wanted=$(printf '%s\n' "$@" | sort)
    [ "$found" = "$wanted" ] || complain "$what: expected:" "$wanted" "found:" "$found"
}

# ---- Without an agent ------------------------------------------------------------------------
for end in return exit fork; do
    run $end
    expect_names "$end"
done
for end in _exit abort kill; do
    run $end
    expect_names "$end" "$pid"
    clear_segments
done

# exec: each image has its own; those before stay for whoever reads them, the last is removed.
run exec 3
expect_names "exec 3" "$pid" "$pid.1" "$pid.2"
clear_segments
run exec-kill 2
expect_names "exec-kill 2" "$pid" "$pid.1" "$pid.2"
clear_segments

# ---- With an agent: it removes what it has read -------------------------------------------------
touch "$SONDE_DIR/agent.lock"
exec 9<"$SONDE_DIR/agent.lock"
flock -s 9
run return
first=$pid
expect_names "with an agent" "$first"
run exec 1
expect_names "exec with an agent" "$first" "$pid" "$pid.1"
exec 9<&-

# The lock's file alone is no agent; nor are many programs that look for one at the same time.
clear_segments
touch "$SONDE_DIR/agent.lock"
run return
expect_names "with an agent's old lock"
ends=()
for i in $(seq 40); do
    "$lifetime" return >/dev/null &
    ends+=($!)
done
for i in "${ends[@]}"; do wait "$i" || complain "lifetime return: exit code $?"; done
expect_names "forty that end at once"

# An agent that was here a moment ago is being started again: what ends meanwhile is for the next one.
clear_segments
touch "$SONDE_DIR/agent.lock" "$SONDE_DIR/agent.state"
run return
expect_names "an agent was here" "$pid"
clear_segments
touch -d '-5 minutes' "$SONDE_DIR/agent.state"
run return
expect_names "an agent was here once"
rm "$SONDE_DIR/agent.state"
ln -s . "$SONDE_DIR/agent.state"
run return
expect_names "a link for a state"
rm "$SONDE_DIR/agent.state"

# ---- Sweeping ----------------------------------------------------------------------------------------
clear_segments
run kill
dead=$(segments)
touch -d '-5 minutes' "$SONDE_DIR/$dead"
run return
expect_names "dead for five minutes" "${dead%%.*}"
touch -d '-11 minutes' "$SONDE_DIR/$dead"
echo keep >"$SONDE_DIR/notes"
echo keep >"$SONDE_DIR/1.notes"
echo keep >"$SONDE_DIR/1.2.3.4"
echo keep >"$SONDE_DIR/3.11"
echo keep >"$SONDE_DIR/t12.34.tmp56"
touch -d '-11 minutes' "$SONDE_DIR"/{notes,1.notes,1.2.3.4,3.11,t12.34.tmp56}
run return
for name in notes 1.notes 1.2.3.4 3.11 t12.34.tmp56; do
    [ -e "$SONDE_DIR/$name" ] || complain "swept $name, which is no segment"
    rm -f "$SONDE_DIR/$name"
done
expect_names "dead for eleven minutes"

# The living are left alone, however old.
clear_segments
exec 8> >("$lifetime" wait >"$SONDE_DIR/pid")
until_true test -s "$SONDE_DIR/pid"
living=$(cat "$SONDE_DIR/pid")
touch -d '-1 day' "$SONDE_DIR"/"$living".*
run return
expect_names "alive for a day" "$living"
exec 8>&-
no_segments() { [ -z "$(segments)" ]; }
until_true no_segments

# More than a few are too many, even if new.
clear_segments
for i in $(seq 20); do run kill; done
run return
[ "$(segments_count)" -eq 16 ] || complain "of 20 dead 16 stay, not $(segments_count)"

# What a process left that was killed while it made its segment, and a process's own images before
# an exec.
clear_segments
left=$SONDE_DIR/.sonde-0123456789abcdef-12.tmp used=$SONDE_DIR/.sonde-0123456789abcdef-78.tmp
printf '\xffsonde1\n' >"$left"
exec 9>"$used"
run return
[ ! -e "$left" ] || complain "a temporary file that nobody writes stays"
[ -e "$used" ] || complain "a temporary file that is being written is swept"
exec 9>&-
run return
[ ! -e "$used" ] || complain "an empty temporary file stays"
clear_segments
run exec-kill 100
count=$(segments_count)
[ "$count" -le 18 ] || complain "a process that starts over a hundred times leaves $count files"
ls "$SONDE_DIR" | grep -qx "$pid\.[0-9]*\.100" || complain "the last image's segment is not there"

# With an agent nothing is swept.
clear_segments
touch "$SONDE_DIR/agent.lock"
exec 9<"$SONDE_DIR/agent.lock"
flock -s 9
: >"$SONDE_DIR/4100001.1"
touch -d '-1 day' "$SONDE_DIR/4100001.1"
run return
expect_names "swept under an agent" 4100001 "$pid"
finish

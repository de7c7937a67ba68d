#!/usr/bin/env bash
# The directory of segments is on a tmpfs of 64 MB, as /dev/shm is in a container, and the program starts
# others all the time: what it writes to that tmpfs itself always fits, and what was not recorded is said.
. "$(dirname "$0")/common.sh"
sonde=$SONDE_BUILD/sonde
scratch=$(mktemp -d)
trap 'rm -rf "$SONDE_DIR" "$scratch"' EXIT
cd "$scratch"
if ! unshare -m true 2>/dev/null || ! unshare -m mount -t tmpfs none "$SONDE_DIR" 2>/dev/null; then
    echo "not tried: segments in a small tmpfs (needs root and unshare)"
    finish
fi
small() { # SIZE COMMAND…
    unshare -m bash -c 'mount -t tmpfs -o "size=$0,mode=700" none "$SONDE_DIR" || exit 99
        mkdir -m 700 "$SONDE_DIR/s"; export SONDE_DIR=$SONDE_DIR/s; exec "$@"' "$@"
}

# A quarter is for segments: 40 of 64 MB can be written at any time. Each loop does so between its
# processes, since what is left over from one of them must not be in the way of the next.
cat >forks <<'END'
for loop in 1 2 3 4; do
    (for i in 1 2 3 4 5 6 7 8 9 10; do
        for k in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true || echo "true: $?"; done
        head -c 10000000 /dev/zero >"$SONDE_DIR/../own.$loop" || echo "no room for what is the program's"
        used=$(du -sk "$SONDE_DIR" | cut -f1)
        [ "$used" -le 20480 ] || echo "segments take $used KiB"
    done) &
done
wait
END
for heap in '' --heap; do
    small 64m "$sonde" record --children --engine timer $heap -o x.run -- sh forks >out 2>err ||
        complain "record $heap: exit status $?: $(cat out err)"
    [ ! -s out ] || complain "record $heap: $(cat out)"
done
small 64m "$sonde" run --no-http -- sh forks >out 2>err || complain "run: exit status $?: $(cat out err)"
[ ! -s out ] || complain "run: $(cat out)"

# Processes that stay, so that more are there than a quarter has room for: the rest run all the same.
cat >stay <<'END'
i=0
while [ $i -lt 60 ]; do
    sleep 1000 &
    pids="$pids $!"
    i=$((i + 1))
done
until ls "$SONDE_DIR" | grep -q '^agent.missed$'; do sleep 0.05; done # those that had no room
"$1" doctor >doctor 2>&1
kill $pids || echo "not all of them were there"
wait
END
small 8m "$sonde" record --children --engine timer -o x.run -- sh stay "$sonde" >out 2>err ||
    complain "processes that stay: exit status $?: $(cat out err)"
[ ! -s out ] || complain "processes that stay: $(cat out)"
grep -qE '^sonde: [0-9]+ process(es)? recorded nothing from inside: segments may take a quarter' err ||
    complain "it is not said that some had no room: $(cat err)"
grep -qE '^warn .*[0-9]+ process(es)? recorded nothing: segments may take a quarter' doctor ||
    complain "doctor does not say that some had no room: $(cat doctor)"

# The program fills the tmpfs while it is sampled: the ring does not grow, the program does not die, and
# what is missing is said.
cat >fills <<'END'
head -c 100000000 /dev/zero >"$SONDE_DIR/../own" 2>/dev/null
i=0
while [ $i -lt "$1" ]; do i=$((i + 1)); done
END
small 64m "$sonde" record --engine timer -F 1000 -o x.run -- bash fills 2000000 >out 2>err ||
    complain "a full tmpfs: exit status $?: $(cat out err)"
grep -qE 'samples of process [0-9]+ are missing: there was no room for them in ' err ||
    complain "a full tmpfs: it is not said that samples are missing: $(cat err)"
finish

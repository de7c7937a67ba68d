#!/usr/bin/env bash
# No room: a full directory of segments and too few open files are told as what they are, and the
# program runs all the same.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
recorder=$programs/recorder

# ---- files that may be open ---------------------------------------------------------------------
few() { # COMMAND…
    bash -c 'ulimit -n 8; exec "$@"' - "$@"
}
status 0 few "$sonde" run --no-http -- true
has "run: the CPU" 'the CPU is not sampled: .*Too many open files \(ulimit -n\)' err
has "run: the heap" 'the heap is not profiled: .*Too many open files \(ulimit -n\)' err
status 3 few "$sonde" run --no-http -- sh -c 'exit 3'
status 1 few "$sonde" run --no-http --heap -- touch ran # asked for
has "run --heap" 'cannot start the heap profiler: Too many open files \(ulimit -n\)' err
[ ! -e ran ] || complain "run --heap: the command ran without"
status 1 few "$sonde" record -o x.run -- true
has "record" 'cannot start sampling: Too many open files \(ulimit -n\)' err
status 1 few "$sonde" serve --listen 127.0.0.1:0 --no-processes
has "serve" 'too few files may be open \(ulimit -n\)|Too many open files' err
lacks "nothing is an I/O error" '[Ii]nput/output' err

# ---- how large files may be ---------------------------------------------------------------------
small() { # KiB COMMAND…
    bash -c 'ulimit -f "$0"; exec "$@"' "$@"
}
for kib in 0 1 8; do
    status 3 small $kib "$sonde" run --no-http --no-heap --no-cpu -- sh -c 'exit 3'
    status 3 small $kib "$sonde" run --no-http -- sh -c 'exit 3'
    status 3 small $kib "$sonde" record -q -o small.run --heap -- sh -c 'exit 3'
    [ $kib = 0 ] || # what it says goes into a file here
        has "record, $kib KiB" "writing 'small.run' failed: (files may not be that large|File too large)" err
done
ignored() { # is SIGXFSZ?
    echo $((0x$(awk '/^SigIgn/ { print $2 }' "$1") >> 24 & 1))
}
status 0 "$sonde" run --no-http --no-heap -- cat /proc/self/status
same "SIGXFSZ is CMD's own" 0 "$(ignored out)"
status 0 sh -c 'trap "" XFSZ; exec "$@"' - "$sonde" run --no-http --no-heap -- cat /proc/self/status
same "also if it was ignored" 1 "$(ignored out)"

status 3 small 16384 "$sonde" run --no-http --heap -- sh -c 'exit 3'
has "16 MiB" 'the heap was not profiled: files may not be larger than 16384 KiB \(ulimit -f\)' err
status 3 bash -c 'ulimit -v 60000; exec "$@"' - "$sonde" run --no-http --heap -- sh -c 'exit 3'
has "address space" 'the heap was not profiled: .*\(ulimit -v\)' err
# What it comes to first depends on how many are open already.
for files in 10 12 14 16 18 20 22 24; do
    bash -c 'ulimit -n "$0"; exec "$@"' $files "$sonde" run --no-http --heap -- true >out 2>err
    lacks "$files: which another directory does not help" 'SONDE_DIR' err
done

# ---- small stacks -------------------------------------------------------------------------------
narrow() { # KiB COMMAND…
    bash -c 'ulimit -s "$0"; exec "$@"' "$@"
}
for kib in 64 96 256; do
    status 3 narrow $kib "$sonde" run --no-http --no-heap --no-cpu -- sh -c 'exit 3'
    status 3 narrow $kib "$sonde" run --listen 127.0.0.1:0 -- sh -c 'exit 3'
    status 3 narrow $kib "$sonde" record -q --heap -o narrow.run -- sh -c 'exit 3'
    status 0 narrow $kib "$sonde" report narrow.run
    status 0 narrow $kib "$sonde" run --no-http -- sh -c 'ulimit -s'
    same "the limit is CMD's own" $kib "$(cat out)"
done

# ---- FIFOs that nobody opens --------------------------------------------------------------------
mkfifo fifo
status 2 timeout -s KILL 20 "$sonde" run --no-http --log fifo -- true
has "--log" "--log: cannot write to 'fifo'" err
status 2 timeout -s KILL 20 "$sonde" serve --listen 127.0.0.1:0 --no-processes --store fifo
has "serve --store" "store 'fifo' cannot be opened: it is not a file" err
timeout -s KILL 20 "$sonde" runs --store fifo >out 2>err
[ $? != 137 ] || complain "runs --store hangs at a FIFO"
has "runs --store" "'fifo'" err
for device in /dev/zero /dev/urandom; do
    (ulimit -v 4000000; timeout -s KILL 20 "$sonde" report $device) >out 2>err
    has "report $device" "'$device' is a device that never ends" err
done

# ---- a full directory ---------------------------------------------------------------------------
if ! unshare -m true 2>/dev/null || ! unshare -m mount -t tmpfs none "$SONDE_DIR" 2>/dev/null; then
    echo "not tried: a full directory of segments (needs root and unshare)"
    finish
fi
full() { # COMMAND…
    unshare -m bash -c 'mount -t tmpfs -o size=8k,mode=700 none "$SONDE_DIR" || exit 99
        head -c 8192 /dev/zero >"$SONDE_DIR/filler"; exec "$@"' - "$@"
}
told="the directory of segments $SONDE_DIR is full: 0 KiB are left"
for quiet in '' -q; do
    status 0 full "$sonde" run $quiet --no-http --heap -- "$recorder" 1 0
    has "run $quiet --heap" "the heap was not profiled: $told" err
    lacks "run $quiet --heap" 'statically|libsonde_preload' err
done
status 0 full "$sonde" record --engine timer -o x.run -- "$recorder" 1 0
has "record --engine timer" "$told" err
lacks "record --engine timer" 'statically|libsonde_preload' err
status 1 full "$sonde" doctor --listen 127.0.0.1:0
has "doctor" '^fail +directory +.*No space left on device' out
has "doctor: the heap" "^warn +heap +.*is full: 0 KiB are left" out
lacks "doctor: what to do" 'install libsonde_preload' out
finish

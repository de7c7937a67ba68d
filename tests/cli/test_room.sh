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

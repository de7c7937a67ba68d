#!/usr/bin/env bash
# What the CPU profiler is for, shown on real programs with the built command: what each of them
# knows of itself is what the recording says, whole stacks, names and lines; and it does what it
# does without us. The table of programs is in cpu_shows.py; names of its rows may be given.
. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$SONDE_DIR" "$work"' EXIT
cd "$work"

# The same program without names, with its debug file apart and without any.
mkdir apart bare
cp "$programs/burn" apart/burn
cp "$programs/burn" bare/burn
objcopy --only-keep-debug apart/burn apart/burn.debug
strip apart/burn bare/burn
objcopy --add-gnu-debuglink=apart/burn.debug apart/burn

timeout -k 5 580 python3 "$here/cpu_shows.py" "$SONDE_BUILD/sonde" "$programs" "$@" ||
    complain "not all is shown"
expect_segments 0 "in the end"
finish

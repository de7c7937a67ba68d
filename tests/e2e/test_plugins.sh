#!/usr/bin/env bash
# Several copies of libsonde in one process: in the program, in plugins that come and go, and as
# libsonde.so. They share one segment, and every count is exact.
. "$(dirname "$0")/common.sh"

for mode in reload reload-beside together together-global forked exit-loaded exit-shared; do
    "$programs/plugin_host" $mode "$programs" || complain "plugin_host $mode: exit code $?"
    # The program's own copy, or libsonde.so, knows at exit that the process ends. Forked children
    # leave by _exit.
    left=0
    [ $mode = forked ] && left=6
    expect_segments $left "after plugin_host $mode"
    clear_segments
done
finish

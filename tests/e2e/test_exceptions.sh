#!/usr/bin/env bash
# C++ exceptions that leave a scope.
. "$(dirname "$0")/common.sh"
"$programs/exceptions" || complain "exceptions: exit code $?"
expect_segments 0 "after a normal end"
finish

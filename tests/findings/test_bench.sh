#!/usr/bin/env bash
# Every program of the findings bench once. Few seconds each on a machine that may be busy: a smaller share
# must be right than in the full bench, which is tests/findings/bench.py by hand.
. "$(dirname "$0")/../cli/common.sh"
python3 "$SONDE_SOURCE/tests/findings/bench.py" --short --threshold 80 --healthy-allowed 2 --keep "$scratch/wrong" ||
    complain "exit status $?"
finish

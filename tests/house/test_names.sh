#!/usr/bin/env bash
# Names say whose they are (CONTRIBUTING.md, "Names"), and what does not yet must not become more. Counted in src/:
#
#   static_names_shared     static functions named as another function is: not told apart in a stack trace
#   static_names_one_word   static functions like run() and take()
#   file_names_shared       files named as another is; a room (collect/perf/) is part of the name
#   tags_shared             struct, union and enum tags defined in another file too (with include/)
#   long_lines              lines of more than 100 columns (with include/ and engine/)
#
# names.txt holds how many there may be. A lower count fails as well, so that it is written down:
#     tests/house/test_names.sh --update          (SONDE_SOURCE and SONDE_BUILD set)
. "$(dirname "$0")/common.sh"
here=$SONDE_SOURCE/tests/house
kept=$here/names.txt
words='static_names_shared static_names_one_word file_names_shared tags_shared long_lines'
shown=10

count() { awk -F '\t' -v word="$2" '$1 == word { n++ } END { print n + 0 }' "$1"; }

if ! python3 "$here/names.py" "$SONDE_SOURCE" >"$scratch/now"; then
    complain "names.py failed"
    finish
fi

if [ "${1:-}" = --update ]; then
    {
        echo '# Written by test_names.sh --update; the counts may only fall.'
        for word in $words; do echo "$word $(count "$scratch/now" "$word")"; done
    } >"$kept"
fi

# Offenders that were not there when names.txt was written, without line numbers, which change. Without git: all.
newest() {
    local commit
    if [ ! -e "$scratch/then" ]; then
        : >"$scratch/then"
        commit=$(git -C "$SONDE_SOURCE" log -1 --format=%H -- tests/house/names.txt 2>/dev/null || true)
        if [ -n "$commit" ]; then
            mkdir "$scratch/tree"
            git -C "$SONDE_SOURCE" archive "$commit" src include engine | tar -x -C "$scratch/tree"
            python3 "$here/names.py" "$scratch/tree" >"$scratch/then"
        fi
    fi
    awk -F '\t' -v word="$1" '$1 != word { next } { key = $2; sub(/:[0-9]+$/, "", key); key = key FS $3 }
        FILENAME == ARGV[1] { had[key]++; next } had[key]-- <= 0 { print "    " $2 ": " $3 }' "$scratch/then" "$scratch/now" >"$scratch/new"
    head -n $shown "$scratch/new"
    [ -s "$scratch/new" ] || echo "    none since names.txt was committed: it does not fit its own commit"
}

for word in $words; do
    now=$(count "$scratch/now" "$word")
    may=$(awk -v word="$word" '$1 == word { print $2 }' "$kept")
    if [ -z "$may" ]; then
        complain "names.txt has no $word: run test_names.sh --update"
    elif [ "$now" -gt "$may" ]; then
        complain "$word: $now, and no more than $may may be. New:" "$(newest "$word")"
    elif [ "$now" -lt "$may" ]; then
        complain "$word: only $now are left of $may: write that down with test_names.sh --update"
    fi
done
finish

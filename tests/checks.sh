# Sourced by the shell tests' common.sh: how to fail, and go on.
# shellcheck shell=bash
failures=0

complain() {
    printf '%s\n' "$@" >&2
    failures=$((failures + 1))
}

# Python: json.load(…, object_pairs_hook=once) fails where an object has a key twice, of which json.load
# by itself, like other readers, takes one.
json_once='
import json, sys
def once(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"a key is there twice: {sorted(keys)}"
    return dict(pairs)
'

finish() {
    [ "$failures" -eq 0 ] && exit 0
    printf '%d checks failed\n' "$failures" >&2
    exit 1
}

# Sourced by the shell tests' common.sh: how to fail, and go on.
# shellcheck shell=bash
failures=0

complain() {
    printf '%s\n' "$@" >&2
    failures=$((failures + 1))
}

finish() {
    [ "$failures" -eq 0 ] && exit 0
    printf '%d checks failed\n' "$failures" >&2
    exit 1
}

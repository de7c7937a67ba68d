# Sourced by the house tests: where things are, how to fail, a private folder that goes away.
# shellcheck shell=bash disable=SC2034
set -euo pipefail
: "${SONDE_SOURCE:?run me with ctest, or set SONDE_SOURCE to the checkout}"
: "${SONDE_BUILD:?run me with ctest, or set SONDE_BUILD to the build folder}"
export LC_ALL=C
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
. "$(dirname "${BASH_SOURCE[0]}")/../checks.sh"

# Files of the repository, one a line; also right in a source tree without git.
repository_files() {
    if git -C "$SONDE_SOURCE" rev-parse --git-dir >/dev/null 2>&1; then
        git -C "$SONDE_SOURCE" ls-files --cached --others --exclude-standard
    else
        (cd "$SONDE_SOURCE" && find . -name build -prune -o -name .git -prune -o -type f -print) | sed 's,^\./,,'
    fi
}

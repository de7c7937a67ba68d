#!/usr/bin/env bash
# The server does what /api/openapi.json says: the description is valid, and each operation is called
# with parameters and bodies that it takes and that it does not.
set -uo pipefail
. "$(dirname "$0")/../cli/common.sh"
: "${SONDE_SOURCE:?set it to the source directory}"

work=$SONDE_BUILD/openapi
"$SONDE_SOURCE/tests/node_packages" "$SONDE_SOURCE/tests/openapi" "$work" || { complain "the validator could not be installed"; finish; }

start_agent "$scratch/log" --store "$scratch/store.db"
until_true curl -sf "$url/readyz"
node "$work/drive.mjs" "$url" || complain "the server does not do what it describes"
kill -TERM "$agent"
wait "$agent"
same "it ended in order" 0 $?

SONDE_TOKEN=correct-horse-battery start_agent "$scratch/log"
SONDE_TOKEN=correct-horse-battery node "$work/drive.mjs" "$url" correct-horse-battery ||
    complain "with a token it does not do what it describes"
finish

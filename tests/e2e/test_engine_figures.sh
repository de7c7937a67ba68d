#!/usr/bin/env bash
# The engine under `sonde run` with requests of all kinds: figures of every request equal those of the
# engine's own event log, counts exactly and times to a microsecond (engine_figures.py).
. "$(dirname "$0")/../cli/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$scratch" || exit
engine=$SONDE_BUILD/sonde-engine
patience=60

"$engine" make-model --size small -o model.gguf >made 2>&1 || { complain "make-model:" "$(cat made)"; finish; }
"$sonde" run -v --listen 127.0.0.1:0 --keep 120 -- "$engine" serve -m model.gguf --listen 127.0.0.1:0 \
    --slots 4 --batch 96 --event-log events --drain 60 >printed 2>told &
started+=($!)
run=$!
until_line 'listening on http' printed || { cat told >&2; finish; }
at=$(url_in printed)
cleanup_engine() { kill -KILL "$child" 2>/dev/null; cleanup; }
read -r child <"/proc/$run/task/$run/children"
trap cleanup_engine EXIT

timeout 240 python3 "$here/engine_load.py" "$at" 60 6 || complain "the load: status $?"
kill -TERM "$child"
until_line 'serving http' told || { cat told >&2; finish; }
agent=$(grep -oE 'http://[0-9.]+:[0-9]+' told | tail -n 1)
timeout 120 python3 "$here/engine_figures.py" events "$agent" || complain "figures: status $?"
finish

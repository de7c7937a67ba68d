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

# A request that asks for its own profile has it by the id that the answer names, in both accounts.
curl -sS --max-time 60 -D head -o answer -H 'X-Profile: true' "$at/v1/completions" \
    -d '{"prompt": "The profile of", "max_tokens": 40, "ignore_eos": true}' || complain "a profile: $?"
id=$(sed -n 's/^X-Profile-Id: \([0-9a-f]\{16\}\).*/\1/p' head)
until_true curl -sf -o profile "$(url_in told)/admin/profile/requests/$id"
python3 - "$id" <<'END' || complain "the profile of $id:" "$(head -c 1000 profile)" "$(head -c 1000 answer)"
import json, sys
answer, agent = json.load(open("answer")), json.load(open("profile"))
ours, theirs = answer["profile"], agent["requests"][0]
assert ours["id"] == agent["id"] == sys.argv[1] and theirs["own_id"] == answer["id"]
assert ours["passes"]["count"] == theirs["batches"] == 40
for phase in ("encode", "queue", "prefill", "decode", "sample", "detokenize"):
    seconds = theirs["phases"][phase]["seconds"]
    assert abs(ours[phase + "_ms"] / 1e3 - seconds) <= 1e-6, (phase, ours[phase + "_ms"], seconds)
END

timeout 240 python3 "$here/engine_load.py" "$at" 60 6 || complain "the load: status $?"
kill -TERM "$child"
until_line 'serving http' told || { cat told >&2; finish; }
agent=$(grep -oE 'http://[0-9.]+:[0-9]+' told | tail -n 1)
timeout 120 python3 "$here/engine_figures.py" events "$agent" || complain "figures: status $?"
finish

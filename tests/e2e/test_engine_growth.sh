#!/usr/bin/env bash
# A thousand requests of all kinds, every allocation seen by `sonde run --heap=full`: nothing grows, and
# when the engine has ended nothing of it is left.
. "$(dirname "$0")/../cli/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$scratch" || exit
engine=$SONDE_BUILD/sonde-engine
patience=60

"$engine" make-model --size tiny -o model.gguf >made 2>&1 || { complain "make-model:" "$(cat made)"; finish; }
"$sonde" run -v --listen 127.0.0.1:0 --heap=full --record heap.run -- \
    "$engine" serve -m model.gguf --listen 127.0.0.1:0 --threads 1 --slots 4 --event-log events \
    >printed 2>told &
started+=($!)
run=$!
until_line 'listening on http' printed || { cat told >&2; finish; }
read -r child <"/proc/$run/task/$run/children"
cleanup_engine() { kill -KILL "$child" 2>/dev/null; cleanup; }
trap cleanup_engine EXIT

# Verdicts need some twenty seconds to be sure.
timeout 240 python3 "$here/engine_load.py" "$(url_in printed)" 1000 8 24 || complain "the load: status $?"
kill -TERM "$child"
wait "$run" || complain "exit status $?"
same "requests" 1000 "$(grep -c '"event":"end"' events)"
lacks "a leak" '^LEAK|LEAK:' told
status 0 "$sonde" report --json --limit 1000 heap.run
python3 - <<'END' || complain "verdicts:" "$(cat told)"
import json
m = json.load(open("out"))["memory"]
assert m["mode"] == "full" and m["ended"]
leaks = [(s["verdict"], [f["name"] for f in s["frames"][:6]]) for s in m["sites"] if s["verdict"] == "leak"]
assert m["leaks"] == 0 and not leaks, leaks
assert any(s["verdict"] == "stable" for s in m["sites"]), "no verdicts: it did not run long enough"
# What the C library keeps of a thread's stack, to use it again, is its own.
places = [[f["name"] for f in s["frames"]] for s in m["sites"] if s["in_use_bytes"]["value"] > 0]
ours = [p for p in places if not any("pthread_create" in name for name in p) and
        set(p) & {"engine_create", "http_server_create", "http_server_on_request", "engine_thread"}]
assert not ours, ours[:5]
END
finish

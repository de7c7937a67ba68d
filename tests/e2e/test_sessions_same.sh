#!/usr/bin/env bash
# Sessions of the same program, compared over HTTP, are not different.
. "$(dirname "$0")/session_api.sh"

# 21 sessions in a row are 20 pairs. Shares of functions only: how fast the machine is changes from
# one moment to the next, and so do times.
serve same --store same.db
"$sonde" run -q --listen 127.0.0.1:0 --log run.log -- "$programs/two_parts" 3 2 600 >parts.out 2>parts.err &
started+=($!)
parts=$!
until_true eval 'curl -s "$at/api/processes" | grep -q two_parts'
different=0
for i in $(seq 0 20); do
    api 200 -X POST "$at/admin/profile/start" --data "{\"name\": \"s$i\", \"rate_hz\": 997, \"memory\": false}"
    until_true at_least samples 150
    api 200 -X POST "$at/admin/profile/stop"
    [ "$i" = 0 ] && continue
    api 200 "$at/admin/profile/compare?a=s$((i - 1))&b=s$i&type=cpu"
    python3 - <<'END' || different=$((different + 1))
import json, sys
r = json.load(open("answer"))
functions = [f for f in r["figures"] if f["group"] == "functions"]
assert len(functions) > 3 and all(f["verdict"] != "not known" for f in functions)
sys.exit(any(f["verdict"] != "not different" for f in functions))
END
done
echo "$different of 20 pairs of the same program called different"
[ "$different" -le 2 ] || complain "$different of 20 pairs of the same program are called different"
kill -TERM "$parts"
wait "$parts" 2>/dev/null
stop_agent "$agent"
finish

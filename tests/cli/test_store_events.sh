#!/usr/bin/env bash
# What happened, in the store: spans and requests outlive the agent and are there once; findings; a
# run with its settings; a store of an older sonde.
. "$(dirname "$0")/common.sh"

store=$scratch/history.store
serve() { # LOG [OPTION…]
    # What is in the rings comes at once when an agent starts: nothing of it is to be left out.
    start_agent "$@" --interval 0.1 --store "$store" --set storage.spans_per_second=100000 \
        --set storage.requests_per_second=100000
}
# figure URL-PATH EXPRESSION: of the answer, which is `a`
figure() {
    curl -sf "$url$1" | python3 -c 'import json, sys; a = json.load(sys.stdin); print('"$2"')'
}
is() { [ "$(figure "$2" "$3")" = "$1" ]; } # WANTED URL-PATH EXPRESSION
code() { curl -s -o "$scratch/answer" -w '%{http_code}' "$url$1"; }

before=$(($(date +%s) - 1000))
serve "$scratch/first"
"$programs/recorder" 42 600 >"$scratch/out" &
recorder=$!
started+=("$recorder")
"$SONDE_BUILD/example_engine" --clients 2 --requests 6 >/dev/null 2>&1
until_true is 42 "/api/spans?name=rec.step&limit=1000" 'len(a["spans"])'
until_true is 12 "/api/requests?state=done" 'a["total"]'
until_true is True "/api/runs" 'a["runs"][0]["spans"] >= 42 and a["runs"][0]["requests"] == 12'
figure "/api/requests?sort=newest" 'sorted(r["own_id"] or r["id"] for r in a["requests"])' >"$scratch/live"
kill -KILL "$agent"
wait "$agent" 2>/dev/null

# Another agent reads what the first one wrote, each once, though the program's ring still has it.
serve "$scratch/second"
until_true is True "/api/processes" 'any(p["spans_seen"] for p in a["processes"])'
until_true is 42 "/api/spans?name=rec.step&limit=1000&from=$before" 'len(a["spans"])'
same "that is from the store" True "$(figure "/api/spans?from=$before" 'a["stored"]')"
same "it says how many there were" True \
    "$(figure "/api/spans?from=$before&limit=100000" 'a["seen"] >= a["kept"] == len(a["spans"])')"
same "a limit" 5 "$(figure "/api/spans?from=$before&limit=5" 'len(a["spans"])')"
same "before all of it" 0 "$(figure "/api/spans?from=1&to=$before" 'len(a["spans"])')"
same "requests" 12 "$(figure "/api/requests?from=$before" 'a["total"]')"
figure "/api/requests?from=$before&sort=newest" \
    'sorted(r["own_id"] or r["id"] for r in a["requests"])' >"$scratch/stored"
cmp "$scratch/live" "$scratch/stored" || complain "other requests are stored than were shown"
id=$(figure "/api/requests?from=$before&sort=slowest" 'a["requests"][0]["id"]')
same "one of them" "$id" "$(figure "/api/requests/$id" 'a["id"]')"
same "with its timeline" True "$(figure "/api/requests/$id" 'len(a["timeline"]) > 0')"
same "filters" 0 "$(figure "/api/requests?from=$before&model=nobody" 'a["total"]')"
same "to before from" 400 "$(code "/api/requests?from=2&to=1")"
same "percentiles of a histogram" True "$(figure "/api/query?name=rec_wait_seconds&from=$before&step=3600" \
    'all(0.0009 < p[k] < 0.0011 for p in a["series"][0]["points"] if p["count"] for k in ("p50", "p90", "p95", "p99"))')"

# Runs and findings.
same "the settings of a run" 127.0.0.1:0 "$(figure "/api/runs/1" 'a["config"]["server.listen"]')"
same "its spans" True "$(figure "/api/runs/1" 'a["spans"] >= 42 and a["requests"] == 12')"
same "no such run" 404 "$(code "/api/runs/9")"
same "no number" 400 "$(code "/api/runs/x")"
same "no findings yet" 0 "$(figure "/api/findings" 'len(a["findings"])')"
python3 - "$store" "$before" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
for i in range(3):
    db.execute("INSERT INTO findings(run, time_ms, kind, subject, severity, value, unit, text)"
               " VALUES(1, ?, 'slow_phase', 'prefill', ?, 1.5, 's', 'It is slow.')",
               ((int(sys.argv[2]) + i) * 1000, i))
db.commit()
END
same "findings" 3 "$(figure "/api/findings" 'len(a["findings"])')"
same "newest first" critical "$(figure "/api/findings?limit=1" 'a["findings"][0]["severity"]')"
same "by severity" 2 "$(figure "/api/findings?severity=warning" 'len(a["findings"])')"
same "by time" 1 "$(figure "/api/findings?from=$((before + 1))&to=$((before + 1))&kind=slow*" 'len(a["findings"])')"
same "a severity that is none" 400 "$(code "/api/findings?severity=bad")"
kill -TERM "$agent"
wait "$agent"

# With their run they are copied, and gone.
status 0 "$sonde" runs --store "$store" copy 1 "$scratch/mail.store"
status 0 "$sonde" runs --store "$store" delete 1
same "nothing of it is left" 0 "$(python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print(sum(db.execute(f"SELECT count(*) FROM {table} WHERE run = 1").fetchone()[0]
          for table in ("spans", "requests", "findings", "blocks", "head")))' "$store")"
store=$scratch/mail.store
serve "$scratch/fourth"
same "copied" 12 "$(figure "/api/requests?from=$before" 'a["total"]')"
kill -TERM "$agent"
wait "$agent"

# A store of the first version of the file: nothing of it is lost, and it takes what is new.
store=$scratch/old.store
python3 - "$store" "$SONDE_SOURCE/tests/golden/store_v1.sql" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript(open(sys.argv[2]).read())
END
cp "$store" "$scratch/untouched.store"
chmod 400 "$scratch/untouched.store"
status 0 "$sonde" runs --store "$scratch/untouched.store" --json
has "it can be read" '"name":"golden"' "$scratch/out"
serve "$scratch/fifth" --set storage.retention_days=36500 --set storage.raw_hours=876000
read -r ticks since until < <(python3 - "$scratch/untouched.store" <<'END'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
ticks, to = db.execute("SELECT sum(ticks), max(to_ms) FROM blocks WHERE tier = 0").fetchone()
print(ticks, db.execute("SELECT min(from_ms) FROM gaps").fetchone()[0] / 1000, to / 1000)
END
)
range="from=$since&to=$until"
same "its points" "$ticks" \
    "$(figure "/api/query?name=sonde_agent_series&$range" 'sum(len(s["points"]) for s in a["series"])')"
same "its gap" 1 "$(figure "/api/query?name=none&$range" 'len(a["gaps"])')"
same "its runs" "golden, kept for ever" "$(figure "/api/runs/1" 'a["name"] + ", " + a["tags"]')"
status 0 "$sonde" runs --store "$store" profile 1 "$scratch/profile"
same "its profile" hello "$(cat "$scratch/profile")"
# What earlier agents have read is not read again, so something new has to happen.
"$programs/recorder" 42 600 >/dev/null &
started+=($!)
until_true is True "/api/spans?name=rec.step&from=$before" 'len(a["spans"]) > 0'
kill -TERM "$agent"
wait "$agent"
python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA user_version=99")' "$store"
status 2 "$sonde" serve --listen 127.0.0.1:0 --store "$store"
has "a newer one is refused" 'of a newer sonde \(format 99, this one knows up to 2\): update sonde' "$scratch/err"
finish

#!/usr/bin/env bash
# The live stream: by curl, with resuming, over TLS and with a token, behind the front, in a browser,
# by two hundred readers beside some that do not read; and that it ends when the agent does.
set -uo pipefail
. "$(dirname "$0")/../cli/common.sh"
: "${SONDE_SOURCE:?set it to the source directory}"
cd "$scratch" || exit

serve() { # OPTIONS…
    start_agent log --no-processes --interval 0.1 "$@"
}
end() {
    kill -TERM "$agent"
    wait "$agent"
    same "the agent ends in order" 0 $?
}
# listen FILE CURL-OPTIONS…: until it is ended
listen() {
    local file=$1
    shift
    : >"$file"
    curl -sN --max-time 120 -o "$file" "$@" &
    reader=$!
    started+=("$reader")
}
ids() { [ "$(grep -c '^id: ' "$1")" -ge "$2" ]; }

# ---- points -----------------------------------------------------------------------------------
start_agent log --store points.db
"$SONDE_BUILD/example_engine" --clients 2 --requests 100000 >/dev/null 2>&1 &
engine=$!
started+=("$engine")
for step in 1 2; do
    python3 "$SONDE_SOURCE/tests/e2e/stream_points.py" "$url" $step 3 >points 2>&1 ||
        complain "points of $step s:" "$(tail -n 3 points)"
done
kill "$engine"
same "a step that is none of a few" 400 \
    "$(curl -s -o answer -w '%{http_code}' "$url/api/stream?events=points&step=3")"
end

# ---- by curl ----------------------------------------------------------------------------------
serve --store store.db
listen events --compressed -D headers "$url/api/stream?name=sonde_agent_*&limit=2&events=series,processes,inference,store"
until_true ids events 3
kill "$reader"
has "its type" '^Content-Type: text/event-stream' headers
lacks "not compressed" '^Content-Encoding' headers
same "what comes first" 'retry: 2000' "$(head -n 1 events)"
for event in series processes inference store; do has "$event" "^event: $event\$" events; done
sed -n 's/^data: //p' events | python3 -c 'import json, sys
for line in sys.stdin.readlines()[:8]: json.loads(line)' || complain "not JSON:" "$(cat events)"
curl -sI --max-time 20 -o head "$url/api/stream" || complain "HEAD does not end"
has "HEAD" '^Content-Type: text/event-stream' head
same "an unknown event" 400 "$(curl -s -o body -w '%{http_code}' "$url/api/stream?events=series,all")"
same "a body" 413 "$(curl -s -o body -w '%{http_code}' -X GET -d x "$url/api/stream")"

# After a break: what came between is there.
first=$(sed -n 's/^id: //p' events | head -n 1)
listen again -H "Last-Event-ID: $first" "$url/api/stream?name=sonde_agent_*&limit=2&events=series,processes,inference,store"
until_true ids again 3
kill "$reader"
next=$(sed -n 's/^id: .*-//p' again | head -n 1)
# A machine that is busy may have skipped one, and says so.
[ "$next" = "$((${first#*-} + 1))" ] || has "what was missed is told" '^event: gap' again

# The agent ends, and so do its streams.
listen last "$url/api/stream"
until_true ids last 1
end
wait "$reader"
same "the stream ends in order" 0 $?

# ---- many, and some that do not read ----------------------------------------------------------
serve --set server.idle_seconds=2
python3 "$SONDE_SOURCE/tests/e2e/stream_readers.py" "${url#http://}" "$agent" >readers.out 2>&1 ||
    complain "many readers:" "$(cat readers.out)"
end
serve --set server.max_streams=2
listen one "$url/api/stream"
until_true ids one 1
listen two "$url/api/stream"
until_true ids two 1
same "one too many" 503 "$(curl -s --max-time 20 -o body -w '%{http_code}' "$url/api/stream")"
has "why" 'too many streams: 2 are open' body
end

# Seconds between ticks, more than a connection may be idle.
serve --interval 3 --set server.idle_seconds=1
listen slow "$url/api/stream"
until_true ids slow 3
end

# ---- TLS, a token, the front ------------------------------------------------------------------
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 2>/dev/null || complain "no certificate was made"
chmod 600 key.pem
SONDE_TOKEN=correct-horse-battery serve --set server.tls_certificate=cert.pem --set server.tls_key=key.pem
same "without the token" 401 "$(curl -s --cacert cert.pem -o body -w '%{http_code}' "$url/api/stream")"
listen tls --cacert cert.pem -H 'Authorization: Bearer correct-horse-battery' "$url/api/stream"
until_true ids tls 3
end
wait "$reader"
serve --upstream http://127.0.0.1:9
listen front "$url/api/stream"
until_true ids front 3
end

# ---- in a browser -----------------------------------------------------------------------------
work=$SONDE_BUILD/browser
"$SONDE_SOURCE/tests/node_packages" "$SONDE_SOURCE/tests/browser" "$work" >npm.out 2>&1 || complain "playwright could not be installed:" "$(cat npm.out)"
serve
timeout 120 node "$work/stream.mjs" "$url" >browser.out 2>&1 || complain "in a browser:" "$(cat browser.out)"
end
finish

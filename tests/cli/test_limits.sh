#!/usr/bin/env bash
# What a client may use: how many requests, how long for one, how large, and that others are answered
# whatever one does.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
: "${SONDE_SOURCE:?set it to the source directory}"

serve() { # OPTIONS…
    start_agent log --no-processes "$@"
}
end() {
    kill -TERM "$agent"
    wait "$agent"
    same "it ends in order" 0 $?
}
code() { curl -s --max-time 60 -o body -w '%{http_code}' "$@"; }
try() {
    local what
    for what; do
        python3 "$SONDE_SOURCE/tests/cli/limits.py" "${url#http://}" "$what" >"$what.out" 2>&1 ||
            complain "$what:" "$(cat "$what.out")"
        same "after $what" 200 "$(code "$url/livez")"
    done
}

# ---- how many ---------------------------------------------------------------------------------
serve --set server.rate_per_second=0.001 --set server.rate_burst=3
for i in 1 2 3; do same "request $i" 200 "$(code -H 'X-Forwarded-For: 10.0.0.1' "$url/api/series")"; done
same "one too many" 429 "$(code -D headers -H 'X-Forwarded-For: 10.0.0.1' "$url/api/series")"
has "when to try again" '^Retry-After: [0-9]+' headers
has "why" 'more than 0.001 requests per second' body
same "whatever it asks for" 429 "$(code -H 'X-Forwarded-For: 10.0.0.1' -X POST "$url/api/inference/reset")"
same "also with a body" 429 "$(code -H 'X-Forwarded-For: 10.0.0.1' -d x "$url/api/inference/reset")"
same "others are not held up" 200 "$(code -H 'X-Forwarded-For: 10.0.0.2' "$url/api/series")"
same "health is not counted" 200 "$(code -H 'X-Forwarded-For: 10.0.0.1' "$url/livez")"
for i in 1 2 3 4 5; do same "this machine is not counted" 200 "$(code "$url/api/series")"; done
end
status 2 "$sonde" serve --listen 127.0.0.1:0 --set server.rate_per_second=-1
has "a bad limit is named" 'server.rate_per_second' err
status 2 "$sonde" serve --listen 127.0.0.1:0 --set server.max_connections=1
has "alike" 'server.max_connections' err

# ---- how long ---------------------------------------------------------------------------------
serve --set server.idle_seconds=1 --set server.request_seconds=1
try silent slow_line slow_head slow_body
end

# ---- how large, and how odd -------------------------------------------------------------------
serve
try large_head large_line pipelined malformed
same "a body that nobody wants" 413 "$(head -c 100000 /dev/zero | code -X POST --data-binary @- "$url/api/inference/reset")"
end

# ---- for how long, when nobody waits ------------------------------------------------------------
"$programs/known_hist" >truth 2>/dev/null &
started+=("$!")
until_line '^ready$' truth || finish
serve
sees() { curl -s "$url/api/processes" | grep -q known_hist; }
until_true sees
try gone
end
finish

#!/usr/bin/env bash
# Who of this machine may ask: the agent's own user and root, others for metrics and health alone.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
chmod 755 "$scratch"

# A client of another user; it asks before anything of the answer is read.
other() { # PATH [CURL OPTIONS…]: the status; the body is in $scratch/body
    local path=$1
    shift
    : >body
    chmod 666 body
    setpriv --reuid=65534 --regid=65534 --clear-groups \
        curl -s -o body -w '%{http_code}' "$@" "$url$path"
}
own() { curl -s -o body -w '%{http_code}' "$@"; }
end() {
    kill -TERM "$agent"
    wait "$agent"
}

closed=(/api/series /api/processes /api/requests /api/openapi.json /admin/profile/status /admin/profiles
        /debug/pprof/heap /nothing)
open=(/metrics /livez /readyz /healthz /health / /profiling/dashboard /profiling/app.js /profiling/routes)

start_agent log --no-processes
until_true curl -sf "$url/readyz"
for path in / /api/processes /metrics /admin/profile/status; do
    same "$path of the same user" 200 "$(own "$url$path")"
done
if [ "$(id -u)" != 0 ]; then
    echo "not root: clients of another user are not tried"
else
    for path in "${closed[@]}"; do
        same "$path of another user" 403 "$(other "$path")"
        has "$path: what to do" 'is for root, and this is user 65534: .*token.*server.local_users=all' body
    done
    for path in "${open[@]}"; do same "$path of another user" 200 "$(other "$path")"; done
    same "POST of another user" 403 "$(other /admin/profile/start -X POST -d '{"name":"x"}')"
    same "OTLP of another user" 200 "$(other /v1/metrics -H 'Content-Type: application/json' -d '{}')"
    same "nothing was started" 200 "$(own "$url/admin/profile/status")"
    has "nothing was started" '"status":"idle"' body
    # In a user namespace it calls itself root, and is none.
    as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    if [ "$("${as_nobody[@]}" unshare -r id -u 2>/dev/null)" = 0 ]; then
        same "root of a namespace" 403 \
            "$("${as_nobody[@]}" unshare -r curl -s -o /dev/null -w '%{http_code}' "$url/api/processes")"
    else
        echo "not tried: a user namespace (not permitted)"
    fi
    mkdir -m 700 doctor && chown 65534 doctor
    status 0 setpriv --reuid=65534 --regid=65534 --clear-groups "$sonde" doctor --listen 127.0.0.1:0 --dir "$scratch/doctor"
    has "doctor of another user" 'ok +http +user 65534 and root may ask' out
    # Sent, and gone before it can be looked at: what is left of such a socket looks like root's.
    cat >gone.py <<'PY'
import os, socket, sys
"x".encode("idna") # before the modules of Python may be out of reach
os.setgid(65534); os.setuid(65534)
for i in range(20):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    s.sendall(b'POST /admin/profile/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{"name":"gone"}')
    s.close()
PY
    python3 gone.py "${url##*:}" || complain "no client could be sent"
    own "$url/admin/profile/status" >/dev/null
    has "one that is gone starts nothing" '"sessions":\[\]' body
fi
end

# An agent of another user lets root in, and nobody else.
if [ "$(id -u)" = 0 ]; then
    mkdir -m 700 theirs && chown 65533 theirs
    SONDE_DIR=$scratch/theirs setpriv --reuid=65533 --regid=65533 --clear-groups \
        "$sonde" serve --listen 127.0.0.1:0 --no-processes 2>theirs.log &
    agent=$!
    started+=("$agent")
    until_line 'listening on http' theirs.log || finish
    url=$(url_in theirs.log)
    same "root asks another's agent" 200 "$(own "$url/api/processes")"
    same "a third user does" 403 "$(other /api/processes)"
    has "who may" 'is for user 65533 and root, and this is user 65534' body
    end

    start_agent log --no-processes --set server.local_users=all
    same "all may" 200 "$(other /api/processes)"
    end

    SONDE_TOKEN=correct-horse-battery-staple start_agent log --no-processes
    same "with the token" 200 "$(other /api/processes -H 'Authorization: Bearer correct-horse-battery-staple')"
    same "without" 401 "$(other /api/processes)"
    end

    # Behind the front, requests for the upstream pass, and sonde's own paths follow the rule.
    start_agent log --no-processes --upstream http://127.0.0.1:1
    for i in 1 2; do
        same "own path, root, $i" 200 "$(own "$url/api/processes")"
        same "own path, another, $i" 403 "$(other /api/processes)"
        has "own path: what to do" 'this is user 65534' body
    done
    same "metrics of the front" 200 "$(other /metrics)"
    same "what is the upstream's" 502 "$(other /v1/models)"
    end
fi

# ---- pages from elsewhere ---------------------------------------------------------------------
start_agent log --no-processes
for path in /api/processes /metrics /livez; do
    same "$path for a script of another origin" 403 "$(own -H 'Origin: http://evil.example' "$url$path")"
    same "$path for its own pages" 200 "$(own -H "Origin: $url" -H 'Sec-Fetch-Site: same-origin' "$url$path")"
done
same "a link from elsewhere is followed" 200 "$(own -H 'Sec-Fetch-Site: cross-site' "$url/")"
for path in '/debug/pprof/profile?seconds=0.1' /debug/pprof/heap '/admin/profile/bottlenecks?duration=0.1'; do
    for site in cross-site same-site; do
        same "$path, $site" 403 "$(own -H "Sec-Fetch-Site: $site" "$url$path")"
        has "$path, $site: why" 'not for pages of another origin' body
    done
    for site in same-origin none; do
        got=$(own -H "Sec-Fetch-Site: $site" "$url$path")
        [ "$got" != 403 ] || complain "$path, $site: is refused"
    done
    [ "$(own "$url$path")" != 403 ] || complain "$path of curl: is refused"
done
same "POST from another site" 403 "$(own -X POST -H 'Sec-Fetch-Site: same-site' "$url/admin/profile/mark")"
end

# ---- doctor -----------------------------------------------------------------------------------
status 0 "$sonde" doctor --listen 127.0.0.1:0
has "doctor: same" 'http +.*root may ask for everything, other local users for /metrics and health' out
status 0 "$sonde" doctor --listen 127.0.0.1:0 --set server.local_users=all
has "doctor: all" 'warn +http +every local user may read profiles' out
SONDE_TOKEN=correct-horse-battery-staple status 0 "$sonde" doctor --listen 127.0.0.1:0
has "doctor: a token" 'ok +http +callers need the token' out
status 2 "$sonde" serve --set server.local_users=some
has "a bad value" 'one of same, all' err
finish

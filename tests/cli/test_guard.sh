#!/usr/bin/env bash
# Who may ask: tokens, names, TLS, and thousands of connections that say nothing.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit
token=correct-horse-battery-staple
printf '%s\n' "$token" >token
chmod 600 token

serve() { # LOG OPTIONS…
    start_agent "$@" --no-processes
}
end() {
    kill -TERM "$agent"
    wait "$agent"
}
code() { curl -sk -o body -w '%{http_code}' "$@"; }

# ---- a token ----------------------------------------------------------------------------------
serve log --set server.token_file=token
for path in /livez /healthz; do same "$path is open" 200 "$(code "$url$path")"; done
# Pages hold nothing that was measured: what they show, they ask for.
for path in / /profiling/dashboard /profiling/requests /profiling/app.js /profiling/elements.js /profiling/routes; do
    same "$path is open" 200 "$(code "$url$path")"
done
same "a browser is led there" 302 "$(code -H 'Accept: text/html' "$url/")"
for path in /health /metrics /api/series /api/openapi.json /api/stream /nothing; do
    same "$path without" 401 "$(code "$url$path")"
    has "$path: why" 'a token is needed' body
done
same "POST without" 401 "$(code -X POST "$url/admin/profile/mark")"
curl -s -D headers -o body "$url/api/series"
has "the scheme" '^WWW-Authenticate: Bearer' headers
same "a wrong one" 401 "$(code -H "Authorization: Bearer x$token" "$url/metrics")"
has "a wrong one: why" 'the token is wrong' body
same "a part of it" 401 "$(code -H "Authorization: Bearer ${token%?}" "$url/metrics")"
same "none after the scheme" 401 "$(code -H "Authorization: Bearer " "$url/metrics")"
same "another scheme" 401 "$(code -u "me:$token" "$url/metrics")"
same "in the address" 401 "$(code "$url/metrics?token=$token")"
same "the right one" 200 "$(code -H "Authorization: Bearer $token" "$url/metrics")"
same "another name for this machine" 403 "$(code -H "Authorization: Bearer $token" -H 'Host: evil.example' "$url/metrics")"
same "a page from elsewhere" 403 "$(code -X POST -H "Authorization: Bearer $token" -H 'Origin: http://evil.example' "$url/admin/profile/mark")"
status 1 "$sonde" export "$url" --format json
has "commands tell" 'a token is needed' err
SONDE_TOKEN=$token status 0 "$sonde" export "$url" --format json

# Guessing gets slow, and does not lock anybody out. One curl for all of them: a process each may take
# longer, on a machine that is busy, than it takes for a guess to be forgotten.
code -H 'Authorization: Bearer wrong-wrong-wrong-wrong' "$url/metrics?guess=[1-200]" >codes
grep -q 429 codes || complain "guesses are not slowed: $(cat codes)"
same "the right one is always taken" 200 "$(code -H "Authorization: Bearer $token" "$url/metrics")"
end

SONDE_TOKEN=$token serve log --set server.open_metrics=true --set server.hosts=probe.lan,other.lan
same "open metrics" 200 "$(code "$url/metrics")"
same "health is not" 401 "$(code "$url/health")"
same "the rest is not" 401 "$(code "$url/api/series")"
same "a name that is told" 200 "$(code -H 'Host: other.lan:1' "$url/metrics")"
end

SONDE_TOKEN=$token serve log --set server.open_health=true
same "open health" 200 "$(code "$url/health")"
same "metrics are not" 401 "$(code "$url/metrics")"
end

# ---- web pages of others ----------------------------------------------------------------------
# One whose host is named may read; what starts something it may do with a token alone.
page() { code -D headers -H "Origin: $1" "${@:2}"; }
header() { tr -d '\r' <headers | sed -n "s/^$1: //Ip"; }
preflight=(-X OPTIONS -H 'Access-Control-Request-Method: POST' -H 'Access-Control-Request-Headers: authorization')
serve log --set server.hosts=ui.lan,localhost:3000
for origin in http://ui.lan https://ui.lan:8443 http://localhost:3000; do
    for path in /api/series /metrics /profiling/elements.js; do
        same "$path for $origin" 200 "$(page "$origin" "$url$path")"
        same "$path for $origin: it may read" "$origin" "$(header Access-Control-Allow-Origin)"
        has "$path for $origin: caches" '^Vary: Origin' headers
    done
    same "errors are read too" 404 "$(page "$origin" "$url/nothing")"
    same "errors are read too" "$origin" "$(header Access-Control-Allow-Origin)"
    same "a preflight" 204 "$(page "$origin" "${preflight[@]}" "$url/api/series")"
    same "a preflight: origin" "$origin" "$(header Access-Control-Allow-Origin)"
    same "a preflight: methods" 'GET, POST, DELETE' "$(header Access-Control-Allow-Methods)"
    same "a preflight: headers" 'Authorization, Content-Type, Last-Event-ID' "$(header Access-Control-Allow-Headers)"
    for site in '' cross-site same-site; do
        same "it starts nothing" 403 "$(page "$origin" ${site:+-H "Sec-Fetch-Site: $site"} -X POST "$url/admin/profile/mark")"
        has "why" 'needs a token' body
        same "it samples nothing" 403 "$(page "$origin" ${site:+-H "Sec-Fetch-Site: $site"} "$url/debug/pprof/heap")"
    done
done
same "no Origin" 200 "$(code -D headers "$url/api/series")"
same "no Origin: none is named" '' "$(header Access-Control-Allow-Origin)"
has "no Origin: caches know" '^Vary: Origin' headers
for origin in http://evil.example http://ui.lan.evil null; do
    same "$origin" 403 "$(page "$origin" "$url/api/series")"
    same "$origin reads nothing" '' "$(header Access-Control-Allow-Origin)"
    same "$origin: a preflight" 405 "$(page "$origin" "${preflight[@]}" "$url/api/series")"
    same "$origin: a preflight" '' "$(header Access-Control-Allow-Origin)"
done
# Pages of this machine may be of other users: they read nothing unless they are named.
same "another port" 200 "$(page http://localhost:3001 "$url/api/series")"
same "another port reads nothing" '' "$(header Access-Control-Allow-Origin)"
end
SONDE_TOKEN=$token serve log --set server.hosts=ui.lan
same "without the token" 401 "$(page http://ui.lan "$url/api/series")"
same "without the token: it is told" http://ui.lan "$(header Access-Control-Allow-Origin)"
same "a preflight has none" 204 "$(page http://ui.lan "${preflight[@]}" "$url/admin/profile/mark")"
same "with it" 200 "$(page http://ui.lan -H "Authorization: Bearer $token" "$url/api/series")"
got=$(page http://ui.lan -H "Authorization: Bearer $token" -H 'Sec-Fetch-Site: cross-site' -X POST "$url/admin/profile/mark")
[ "$got" != 403 ] || complain "with the token it may not start anything: $(cat body)"
same "others may not" 403 "$(page http://evil.example -H "Authorization: Bearer $token" -X POST "$url/admin/profile/mark")"
end

# The front is known by the same names. Nobody listens where its upstream would be.
serve log --upstream http://127.0.0.1:1 --set server.hosts=probe.lan
for path in /metrics /v1/models; do
    same "$path by a name that is told" "$([ $path = /metrics ] && echo 200 || echo 502)" \
        "$(code -H 'Host: probe.lan' "$url$path")"
    same "$path by another" 403 "$(code -H 'Host: evil.example' "$url$path")"
done
end

chmod 644 token
status 2 "$sonde" serve --listen 127.0.0.1:0 --set server.token_file=token
has "others may read it" 'can be read by others: chmod 600' err
status 2 env SONDE_TOKEN=short "$sonde" serve --listen 127.0.0.1:0
has "too short" 'has 5 characters, it must have 16 to 256' err
status 2 "$sonde" serve --listen 127.0.0.1:0 --set server.token_file=nowhere
has "no such file" 'nowhere' err
status 2 "$sonde" serve --listen 0.0.0.0:0
has "not without a token" 'without a token only loopback addresses are allowed' err

# ---- TLS --------------------------------------------------------------------------------------
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=localhost \
    -addext subjectAltName=IP:127.0.0.1 2>/dev/null || complain "no certificate was made"
chmod 600 key.pem
serve log --set server.tls_certificate=cert.pem --set server.tls_key=key.pem
case $url in https://*) ;; *) complain "the URL is not https: $url" ;; esac
same "over TLS, checked" 200 "$(curl -s --cacert cert.pem -o body -w '%{http_code}' "$url/metrics")"
curl -s --max-time 5 -o body "http://${url#https://}/metrics" && complain "plain HTTP was answered: $(cat body)"
SSL_CERT_FILE=cert.pem status 0 "$sonde" export "$url" --format json
status 1 "$sonde" export "$url" --format json
has "whom to trust" 'certificate' err
end
status 2 "$sonde" serve --listen 127.0.0.1:0 --set server.tls_certificate=cert.pem
has "no key" 'server.tls_key' err
chmod 644 key.pem
status 2 "$sonde" serve --listen 127.0.0.1:0 --set server.tls_certificate=cert.pem --set server.tls_key=key.pem
has "others may read the key" 'chmod 600' err

# ---- thousands that say nothing, or half of something -------------------------------------------
serve log
same "before" 200 "$(code "$url/livez")"
python3 - "${url#http://}" >quiet.out 2>&1 <<'PY' || complain "while others keep quiet:" "$(cat quiet.out)"
import http.client, resource, socket, sys
host, port = sys.argv[1].split(":")
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
wanted = min(10000, hard - 100)
held = []
for i in range(wanted):
    s = socket.create_connection((host, int(port)), 20)
    if i % 2:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
    held.append(s)
    if i % 500 == 499:
        c = http.client.HTTPConnection(host, int(port), timeout=30)
        c.request("GET", "/livez")
        assert c.getresponse().status == 200
        c.close()
# Those that were sent away are the first ones.
held[0].settimeout(20)
assert held[0].recv(10) == b"", "the quietest is still there"
print(len(held), "connections")
PY
has "all were tried" '^[0-9]{3,} connections$' quiet.out
same "after" 200 "$(code "$url/livez")"
end
finish

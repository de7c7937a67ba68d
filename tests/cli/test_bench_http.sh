#!/usr/bin/env bash
# `sonde bench http` against a server whose times are known and against the reference engine: exact
# counts, JSON, both loops, all dialects, replays, chats, limits and exit statuses; with an agent the
# server's side. Nothing here depends on how long something takes.
. "$(dirname "$0")/common.sh"
here=$(dirname "$(realpath "$0")")
cd "$scratch" || exit 1
engine=$SONDE_BUILD/sonde-engine

# checked WHAT COMMAND…: bench_http.py has nothing to complain about
checked() {
    local what=$1
    shift
    python3 "$here/bench_http.py" "$@" >checked 2>&1 || complain "$what:" "$(cat checked)"
}
get() { python3 "$here/bench_http.py" get "$@"; }

"$programs/known_server" --log server.log --ttft-us 2000 --itl-us 300 --tokens 6 --no-spin >server.out &
server=$!
started+=("$server")
until_line '^port [0-9]+$' server.out || finish
known=http://127.0.0.1:$(awk '{ print $2; exit }' server.out)
chat=$known/v1/chat/completions
bench() { "$sonde" bench http --no-probe --no-agent --max-tokens 6 "$@"; }

# ---- A closed loop: what was sent is what the server has logged ----------------------------------
status 0 bench "$chat" -c 3 -n 120 -o r.json --records r.jsonl
checked "closed loop" counts r.json 120 120
checked "closed loop, JSON" schema r.json
same "loop" '"closed"' "$(get r.json schedule.loop)"
same "tokens" '"usage"' "$(get r.json tokens.counted_by)"
same "tokens of an answer" 6 "$(get r.json tokens.output_mean)"
same "seed" 1 "$(get r.json seed)"
kill -TERM "$server"
wait "$server"
checked "the server's log" log r.jsonl server.log 6

"$programs/known_server" --ttft-us 2000 --itl-us 300 --tokens 6 --no-spin >server.out &
server=$!
started+=("$server")
until_line '^port [0-9]+$' server.out || finish
known=http://127.0.0.1:$(awk '{ print $2; exit }' server.out)
chat=$known/v1/chat/completions

# ---- Open loops ----------------------------------------------------------------------------------
status 0 bench "$chat" --rate 200 --arrival constant -d 1s -f json
cp out r.json
checked "constant rate" counts r.json 200 200
checked "constant rate, JSON" schema r.json
same "planned" 200.0 "$(get r.json schedule.planned_per_s | awk '{ printf "%.1f", $1 }')"
status 0 bench "$chat" --stages 100:0.5s,50..150:1s --arrival burst:5 -o r.json
checked "stages" counts r.json 150 150
printf '{"timestamp":%d,"input_length":40,"output_length":6,"hash_ids":[1]}\n' 0 10 20 500 900 >trace.jsonl
status 0 bench "$chat" --replay trace.jsonl --speed 3x -o r.json
checked "replay" counts r.json 5 5
printf '{"messages":[{"role":"user","content":"hi"}]}\n{"prompt":"x"}\n' >prompts.jsonl
status 0 bench "$chat" --prompts prompts.jsonl -n 10 --no-stream -o r.json
checked "prompts" counts r.json 10 10
# The text report fits 100 columns.
status 0 bench "$chat" --rate 100 -n 60 --slo 'ttft<1s,e2e<5s'
has "verdict" '^verdict: ' out
has "latencies" '^time to first token +[0-9.]+ [mµ]?s' out
has "objectives" 'met the objectives$' out
[ "$(wc -L <out)" -le 100 ] || complain "wider than 100 columns:" "$(cat out)"

# ---- Dialects ------------------------------------------------------------------------------------
for path in /v1/completions /completion /api/chat /api/generate /generate_stream; do
    status 0 bench "$known$path" -n 8 -c 2 -o r.json
    checked "$path" counts r.json 8 8
    same "$path: tokens" 6 "$(get r.json tokens.output_mean)"
done

# ---- The client is the limit, and says so --------------------------------------------------------
status 0 bench "$chat" --rate 2000 --connections 1 -n 80 -o r.json
has "starved" 'the client was the limit: [0-9]+ of 80 requests waited for a free connection' r.json
checked "starved" counts r.json 80 80

# ---- What fails ----------------------------------------------------------------------------------
status 1 bench "$known/status500" --api openai-chat -n 9 -o r.json
has "why" 'no request succeeded: all 9 requests failed, most by: status' err
checked "all failed" counts r.json 9 0
checked "all failed, JSON" schema r.json
same "verdict" false "$(get r.json verdict.valid)"
same "by class" 9 "$(get r.json requests.by_status.5xx)"
for path in /reset /close-early /garbage /wrong-length /not-http /no-done; do
    status 1 bench "$known$path" --api openai-chat -n 4 -o r.json
    checked "$path" counts r.json 4 0
done
status 1 bench "$known/stall" --api openai-chat -n 2 -c 2 --timeout 200ms -o r.json
same "timeouts" 2 "$(get r.json requests.by_outcome.timeout)"
status 1 "$sonde" bench http http://127.0.0.1:1 -n 1
has "no server" 'http://127.0.0.1:1.*check that a server listens there' err

# ---- Limits --------------------------------------------------------------------------------------
status 3 bench "$chat" -n 80 --warmup 0 --fail-on 'ttft_p95>1us'
has "which limit" "ttft_s.p95>1us': ttft_s.p95 is " err
status 3 bench "$chat" -n 10 --fail-on 'e2e_p99>1h'   # too few requests to know it
status 0 bench "$chat" -n 80 --warmup 0 --fail-on 'ttft_p95>1h' --fail-on 'errors>1%' --fail-on 'requests_per_s<0.001'

# ---- Bad input: status 2, and the sentence names it ----------------------------------------------
bad() { # WHAT PATTERN OPTIONS…
    status 2 bench "${@:3}"
    has "$1" "$2" err
}
bad "no URL" 'which server'
bad "not a URL" "'ftp://x' is not the URL of a server" ftp://x
bad "two rates" 'give one of --rate' "$chat" --rate 1 --ramp 1..2
bad "both loops" '--concurrency is of a closed loop' "$chat" --rate 1 -c 2
bad "arrival" "'sometimes' is not an arrival process" "$chat" --rate 1 --arrival sometimes
bad "arrival of a closed loop" '--arrival says how regular' "$chat" --arrival poisson
bad "stages" "'5' is not a stage" "$chat" --stages 5
bad "ramp" "'7' is not a ramp" "$chat" --ramp 7
bad "length" "'many' is not a length" "$chat" --prompt-tokens many
bad "slo" "'ttft<5' is not an objective" "$chat" --slo 'ttft<5'
bad "file" 'line 1' "$chat" --prompts "$here/bench_http.py"
bad "no file" 'missing.jsonl' "$chat" --prompts missing.jsonl
bad "replay without times" 'without a time' "$chat" --replay prompts.jsonl
bad "key" 'the environment has no NO_SUCH_KEY' "$chat" --api-key-env NO_SUCH_KEY
bad "limit" 'nothing' "$chat" --fail-on 'nothing>1'
bad "share" "'200%' is not a share" "$chat" --until 200%
bad "find" '--find needs --slo' "$chat" --find max-rate
bad "sweep" "'x' is not a concurrency" "$chat" --sweep=x

# ---- HTTPS: what works, and what each kind of certificate and server is called ------------------------
# cert NAME NAMES [OPTION…]: NAME.pem and NAME.key, by itself
cert() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.pem" \
        -subj "/CN=$1" -addext "subjectAltName=$2" "${@:3}" 2>openssl.err || complain "no certificate:" "$(cat openssl.err)"
}
# tls_server CERTIFICATE OPTION…: $secure is where
tls_server() {
    : >tls.out
    "$programs/known_server" --cert "$1.pem" --key "$1.key" --log tls.log --ttft-us 2000 --itl-us 300 --tokens 6 --no-spin "${@:2}" >tls.out &
    tls=$!
    started+=("$tls")
    until_line '^port [0-9]+$' tls.out || finish
    secure=https://127.0.0.1:$(awk '{ print $2; exit }' tls.out)
}
tls_stop() {
    kill -TERM "$tls"
    wait "$tls" || complain "the TLS server exited with $?"
}
cert good 'IP:127.0.0.1,DNS:localhost' -days 30
cert other 'IP:127.0.0.2' -days 30
# Signed for days that are over: openssl req cannot, openssl ca is more than is needed.
openssl req -new -key good.key -subj /CN=old 2>/dev/null | openssl x509 -req -signkey good.key -days -1 \
    -extfile <(echo 'subjectAltName=IP:127.0.0.1') -out old.pem 2>/dev/null || complain "no expired certificate"
cp good.key old.key

tls_server good
status 0 "$sonde" bench http "$secure/v1/chat/completions" --no-agent --max-tokens 6 --cacert good.pem -c 3 -n 60 -o r.json --records r.jsonl
checked "HTTPS" counts r.json 60 60
checked "HTTPS, JSON" schema r.json
same "version" '"TLSv1.3"' "$(get r.json connections.tls.version)"
same "verified" true "$(get r.json connections.tls.verified)"
same "opened" 3 "$(get r.json connections.opened)"
python3 -c '
import json
c = json.load(open("r.json"))["connections"]
assert c["connect_p50_s"] > 0 and c["tls"]["handshake_p50_s"] > 0 and c["tls"]["why"] is None, c
r = [json.loads(x) for x in open("r.jsonl")]
opened = [x for x in r if x["tls_s"] > 0]
assert len(opened) == 3 and all(x["connect_s"] + x["tls_s"] <= x["sent_s"] - x["intended_s"] for x in opened), opened' ||
    complain "set-up of connections: $(get r.json connections)"
# The system's store is that of the environment; a name is looked up and verified as well.
status 0 env SSL_CERT_FILE="$PWD/good.pem" "$sonde" bench http "${secure/127.0.0.1/localhost}/v1/chat/completions" --no-agent --max-tokens 6 -n 10
has "text" '^TLSv1.3, TLS_[A-Z0-9_]+; certificate verified$' out
has "set-up" '^connections +1 opened; TCP .*, TLS .*, 0 resumed$' out
status 0 bench "$secure/v1/chat/completions" --insecure --no-keep-alive -n 6 -o r.json
same "not verified" false "$(get r.json connections.tls.verified)"
same "resumed" 5 "$(get r.json connections.tls.resumed)"
has "a remark" 'certificate was not verified' r.json
# An answer whose end only the connection's end says: TLS has to say it too.
status 0 bench "$secure/by-close" --api openai-chat --insecure -n 3 -o r.json
status 1 bench "$secure/hang-up" --api openai-chat --insecure -n 3 -o r.json
same "hung up" 3 "$(get r.json requests.by_outcome.truncated)"
# Who is not believed: before the load, and in it.
status 1 "$sonde" bench http "$secure" --no-agent -n 1
has "not trusted" 'certificate is not trusted \(self-signed certificate\); .*--cacert FILE' err
status 1 bench "$secure/v1/chat/completions" -n 3 -o r.json
same "class" 3 "$(get r.json 'connections.tls.failed.not trusted')"
same "outcome" 3 "$(get r.json requests.by_outcome.tls)"
has "why" 'no request succeeded: all 3 requests failed, most by: tls: .* not trusted \(self-signed' err
# Other commands that share it.
status 0 "$sonde" ab --a "$secure" --b "$secure" --cacert good.pem --max-tokens 6 -n 4 --max-runs 2
status 1 "$sonde" ab --a "$secure" --b "$secure" --max-tokens 6 -n 4 --max-runs 2
has "ab" 'certificate is not trusted' err
status 0 "$sonde" bench cache --url "$secure/fast" --cacert good.pem -d 0.01 --pattern sequential --state plain
status 1 "$sonde" bench cache --url "$secure/fast" -d 0.01
has "cache" 'certificate is not trusted \(self-signed certificate\)' err
tls_stop
tls_server good --tls12
status 0 bench "$secure/v1/chat/completions" --cacert good.pem -n 6 --no-keep-alive -o r.json
same "version" '"TLSv1.2"' "$(get r.json connections.tls.version)"
same "resumed" 5 "$(get r.json connections.tls.resumed)"
tls_stop
tls_server other
status 1 "$sonde" bench http "$secure" --no-agent -n 1 --cacert other.pem
has "wrong host" 'certificate is for another host' err
status 1 bench "$secure/v1/chat/completions" -n 2 --cacert other.pem -o r.json
same "wrong host" 2 "$(get r.json 'connections.tls.failed.wrong host')"
tls_stop
tls_server old
status 1 "$sonde" bench http "$secure" --no-agent -n 1 --cacert old.pem
has "expired" 'certificate has expired' err
status 1 bench "$secure/v1/chat/completions" -n 2 --cacert old.pem -o r.json
same "expired" 2 "$(get r.json connections.tls.failed.expired)"
tls_stop
status 1 "$sonde" bench http "${known/http:/https:}" --no-agent -n 1
has "not TLS" 'does not speak TLS on this port; use http://' err
status 1 bench "${chat/http:/https:}" -n 2 -o r.json
same "not TLS" 2 "$(get r.json 'connections.tls.failed.not TLS')"
same "plain" null "$(bench "$chat" -n 2 -f json >r.json; get r.json connections.tls)"
bad "trust without TLS" 'are for https:// URLs' "$chat" --insecure
bad "both" '--insecure verifies no certificate' "$secure" --insecure --cacert good.pem
bad "no such authorities" "--cacert: cannot use 'missing.pem': No such file" "$secure" --cacert missing.pem
bad "no authorities" "it holds no certificate in PEM" "$secure" --cacert trace.jsonl

# ---- Several loads -------------------------------------------------------------------------------
status 0 bench "$chat" --sweep=1,3 -n 40 -o r.json
same "points" 3 "$(get r.json sweep.points.1.load | cut -d. -f1)"
checked "sweep" schema r.json
status 0 bench "$chat" --sweep=1,2 -n 30
has "knee" '^knee: concurrency [12];' out
# Every answer is in time: doubled until the steps run out would take long, so it begins where two
# steps end it: nothing meets a microsecond.
status 0 bench "$chat" --find max-rate --slo 'e2e<1us' --rate 0.004 --requests 3 --arrival burst:3 -d 100ms -o r.json
same "no rate" null "$(get r.json find.max_rate)"
has "no rate, verdict" 'no rate was found' r.json

# ---- The reference engine, an agent before it ----------------------------------------------------
"$engine" make-model --size tiny --type Q8_0 -o tiny.gguf >/dev/null || complain "no model"
"$engine" serve -m tiny.gguf --listen 127.0.0.1:0 --threads 1 --slots 2 >engine.out 2>&1 &
started+=("$!")
until_line 'listening on http' engine.out || finish
served=$(url_in engine.out)
start_agent agent.log --upstream "$served"

status 0 "$sonde" bench http "$url" -c 2 -n 60 --max-tokens 5 --prompt-tokens 60 -o r.json
checked "engine" counts r.json 60 60
checked "engine, JSON" schema r.json
same "dialect" '"openai-chat"' "$(get r.json target.api)"
same "calibrated" true "$(get r.json target.calibrated)"
same "answers" 5 "$(get r.json tokens.output_mean)"
get r.json tokens.prompt_mean | awk '{ exit !($1 > 45 && $1 < 75) }' || complain "prompts of $(get r.json tokens.prompt_mean) tokens, not 60"
same "all joined" "$(get r.json server.measured)" "$(get r.json server.joined)"
same "by trace id" 0 "$(get r.json server.joined_by_time)"
get r.json server.ttft_parts | python3 -c '
import json, sys
p = json.load(sys.stdin)
whole = p.pop("ttft_from_schedule_mean_s")
parts = sum(v["mean_s"] for v in p.values())
sys.exit(not (abs(parts - whole) < 1e-9 and p["prefill"]["mean_s"] > 0 and p["network"]["mean_s"] >= 0))' ||
    complain "parts of the time to first token:" "$(get r.json server.ttft_parts)"
status 0 "$sonde" bench http "$served" --agent "$url" -n 20 --max-tokens 4
has "the server's side" "^server's side, from the agent at $url: [0-9]+ of [0-9]+ requests joined$" out
has "prefill" '^server: prefill ' out

# Chats: prompts grow by what was said, and their beginning is in the engine's cache.
status 0 "$sonde" bench http "$served" --no-agent --turns 3 -n 12 --max-tokens 4 -o r.json --records r.jsonl
checked "chats" counts r.json 12 12
python3 -c '
import json
r = [json.loads(x) for x in open("r.jsonl")]
t = [x["prompt_tokens"] for x in r]
assert all(t[i] < t[i + 1] < t[i + 2] for i in range(0, 12, 3)), t' || complain "turns do not grow"
# What the agent saw, again.
status 0 "$sonde" bench http "$served" --no-agent --replay "$url" --speed 50x -o r.json
get r.json requests.ok | awk '{ exit !($1 >= 80) }' || complain "replay of an agent: $(get r.json requests.ok)"
# A server that is no such thing refuses with its own words.
status 1 "$sonde" bench http "$served/v1/chat/completions" --no-agent -n 1 --model x -H 'Content-Type: text/plain' --api llama.cpp
has "its words" 'refuses a first request with status 4' err

# ---- Kept ----------------------------------------------------------------------------------------
status 0 bench "$chat" -n 10 --save first --results "$scratch/results" -H 'Authorization: Bearer secret'
[ -s results/first.json ] || complain "not kept"
lacks "a key" secret results/first.json
finish

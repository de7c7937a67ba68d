#!/usr/bin/env bash
# sonde-engine serve as its users start it: every route, streams, figures that add up, environment,
# same answers on every run, clients that go away, stopping, and what it says when it cannot start.
. "$(dirname "$0")/../cli/common.sh"
cd "$scratch" || exit
engine=$SONDE_BUILD/sonde-engine
patience=60
unset SONDE_SEED SONDE_DETERMINISTIC SONDE_BATCH_SIZE SONDE_NUM_THREADS SONDE_MEMORY_LIMIT

for size in tiny small; do
    "$engine" make-model --size $size -o $size.gguf >made 2>&1 || { complain "make-model:" "$(cat made)"; finish; }
done
model=tiny.gguf

# start NAME OPTIONS…: $at is where it listens, $server its process
start() {
    local name=$1
    shift
    : >"$name"
    "$engine" serve -m "$model" --listen 127.0.0.1:0 "$@" >"$name" 2>&1 &
    server=$!
    started+=("$server")
    until_line 'listening on http' "$name" || { cat "$name" >&2; finish; }
    at=$(url_in "$name")
}
stop() { # STATUS WANTED
    local code=0
    kill -TERM "$server"
    wait "$server" || code=$?
    same "exit status" "${1:-0}" "$code"
}
# ask WANTED PATH [CURL_ARGUMENTS…]: the answer is in the file answer
ask() {
    local wanted=$1 path=$2 got
    shift 2
    got=$(curl -sS --max-time 60 -o answer -D head -w '%{http_code}' "$@" "$at$path" 2>curl.err)
    same "$path $*: $(head -c 300 answer) $(cat curl.err)" "$wanted" "$got"
}
holds() { # WHAT PYTHON: of the JSON answer r
    python3 -c "$json_once
r = json.load(open('answer'), object_pairs_hook=once)
sys.exit(not ($2))" || complain "$1: $2 does not hold in $(head -c 1500 answer)"
}
health() { curl -s "$at/health" | grep -oE "\"$1\":[0-9]+" | cut -d: -f2; }

# ---- every route ---------------------------------------------------------------------------
start log --threads 2 --slots 2 --event-log events
ask 200 /health
holds "health" "r['status'] == 'ok' and r['slots'] == 2 and r['threads'] == 2"
ask 200 /v1/models
holds "models" "r['data'][0]['id'] == 'llama-tiny-F16' and r['data'][0]['object'] == 'model'"
ask 200 /tokenize -d '{"content": "Hello, world! 你好"}'
holds "tokenize" "len(r['tokens']) == r['count'] > 3"
python3 -c "import json; print(json.dumps({'tokens': json.load(open('answer'))['tokens']}))" >tokens
ask 200 /detokenize -d @tokens
holds "and back" "r['content'] == 'Hello, world! 你好'"
question='{"messages": [{"role": "user", "content": "Tell me of mutexes"}], "max_tokens": 12, "ignore_eos": true}'
ask 200 /v1/chat/completions -d "$question"
holds "chat" "r['object'] == 'chat.completion' and r['choices'][0]['message']['role'] == 'assistant'"
holds "text" "r['choices'][0]['message']['content'] and r['choices'][0]['finish_reason'] == 'length'"
holds "usage" "r['usage']['total_tokens'] == r['usage']['prompt_tokens'] + 12"
# timings: what is by token or by second follows from counts and times
near='abs(a - b) <= 1e-6 * max(abs(a), abs(b), 1)'
holds "timings" "(lambda t: all($near for a, b in (
    (t['prompt_per_token_ms'] * t['prompt_n'], t['prompt_ms']),
    (t['prompt_per_second'] * t['prompt_ms'], 1e3 * t['prompt_n']),
    (t['predicted_per_token_ms'] * t['predicted_n'], t['predicted_ms']),
    (t['predicted_per_second'] * t['predicted_ms'], 1e3 * t['predicted_n'])))
    and t['predicted_n'] == 12 and t['prompt_n'] + t['cache_n'] == r['usage']['prompt_tokens']
    and t['prompt_ms'] > 0 and t['predicted_ms'] > 0)(r['timings'])"
ask 200 /v1/chat/completions -d "$question"
holds "the prefix is reused" "r['timings']['cache_n'] == r['usage']['prompt_tokens'] - 1 ==
    r['usage']['prompt_tokens_details']['cached_tokens']"
has "request id" '^X-Request-Id: chatcmpl-[0-9a-f]{16}' head

# ---- streams, by a client that knows server-sent events ------------------------------------
cat >stream.py <<'END'
import json, sys
lines = [l[6:] for l in open(sys.argv[1], encoding="utf-8").read().split("\n") if l.startswith("data: ")]
assert lines[-1] == "[DONE]", lines[-1]
chunks = [json.loads(l) for l in lines[:-1]]
assert len({c["id"] for c in chunks}) == 1
assert all(c["object"] == "chat.completion.chunk" for c in chunks)
deltas = [c["choices"][0] for c in chunks if c["choices"]]
assert deltas[0]["delta"]["role"] == "assistant" and all("role" not in d["delta"] for d in deltas[1:])
assert [d["finish_reason"] for d in deltas[:-1]] == [None] * (len(deltas) - 1)
assert deltas[-1]["finish_reason"] == "length" and chunks[-1]["choices"] == []
assert chunks[-1]["usage"]["completion_tokens"] == chunks[-1]["timings"]["predicted_n"] == 12
assert "profile" in chunks[-1] and chunks[-1]["profile"]["passes"]["count"] >= 12
print("".join(d["delta"].get("content", "") for d in deltas))
END
with() { python3 -c "import json, sys; print(json.dumps({**json.loads(sys.argv[1]), **json.loads(sys.argv[2])}))" "$@"; }
streamed=$(with "$question" '{"stream": true, "stream_options": {"include_usage": true}, "seed": 3}')
ask 200 /v1/chat/completions -N -H 'X-Profile: true' -d "$streamed"
has "content type" '^Content-Type: text/event-stream' head
has "profile id" '^X-Profile-Id: [0-9a-f]{16}' head
python3 stream.py answer >text || complain "stream:" "$(cat answer)"
ask 200 /v1/chat/completions -d "$(with "$question" '{"seed": 3}')"
holds "the same, streamed or whole" "r['choices'][0]['message']['content'] + '\n' == open('text', encoding='utf-8').read()"

# ---- errors --------------------------------------------------------------------------------
ask 400 /v1/chat/completions -d '{"messages": []}'
holds "which field" "r['error']['param'] == 'messages' and r['error']['type'] == 'invalid_request_error'"
ask 400 /v1/completions -d "{\"prompt\": \"$(printf 'word %.0s' {1..6000})\"}"
holds "too long, in numbers" "r['error']['code'] == 'context_length_exceeded' and '4096' in r['error']['message']"
ask 404 /nothing
ask 405 /v1/models -d '{}'
has "allowed" '^Allow: GET, HEAD' head
head -c 5000000 /dev/zero >large
ask 413 /v1/completions --data-binary @large -H 'Expect:'

# ---- clients that go away: of a model that takes its time ------------------------------------
stop
model=small.gguf
start log --slots 2 --event-log events
long='{"prompt": "x", "max_tokens": 4000, "ignore_eos": true}'
cancelled=0
for stream in true false; do
    curl -s --max-time 60 -N -o /dev/null -d "$(with "$long" "{\"stream\": $stream}")" "$at/v1/completions" &
    client=$!
    until_true eval '[ "$(health running)" = 1 ]'
    kill -KILL "$client"
    wait "$client" 2>/dev/null
    cancelled=$((cancelled + 1))
    until_true eval '[ "$(health cancelled)" = "$cancelled" ]'
    until_true eval '[ "$(health running)" = 0 ]'
done

# ---- clients that do not read --------------------------------------------------------------
stop
start log --slots 4 --threads 1 --client-timeout 1
cat >silent.py <<'END'
import socket, sys, time
host, port = sys.argv[1].removeprefix("http://").split(":")
body = sys.argv[2].encode()
clients = []
for _ in range(4):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.connect((host, int(port)))
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    clients.append(s)
time.sleep(60)
END
python3 silent.py "$at" "$(with "$long" '{"stream": true}')" &
silent=$!
started+=("$silent")
until_true eval '[ "$(health cancelled)" = 4 ]'
ask 200 /v1/completions -d '{"prompt": "a", "max_tokens": 5}' # the others are served
{ kill -KILL "$silent" && wait "$silent"; } 2>/dev/null
stop
start log --slots 2 --event-log events2

# ---- stopping: what runs is answered first -------------------------------------------------
before=$(health tokens_out)
curl -s --max-time 60 -N -o last -d "$(with "$question" '{"stream": true, "max_tokens": 150}')" "$at/v1/chat/completions" &
client=$!
until_true eval '[ "$(health tokens_out)" -gt "$before" ]'
stop
wait "$client" || complain "the client in flight: $?"
has "its answer is complete" '^data: \[DONE\]' last
same "cancelled, in the event log" 2 "$(grep -c '"event":"end".*"outcome":"cancelled"' events)"
cat events2 >>events
python3 - <<'END' || complain "the event log"
import json
events = [json.loads(l) for l in open("events")]
assert any(e["event"] == "batch" and e["members"] for e in events)
arrived = {e["request"] for e in events if e["event"] == "arrival"}
ended = [e["request"] for e in events if e["event"] == "end"]
assert arrived == set(ended) and len(ended) == len(arrived), (len(arrived), len(ended))
for e in (e for e in events if e["event"] == "end"):
    assert e["tokens"] == sum(t["event"] == "token" and t["request"] == e["request"] for t in events)
END

# ---- the same answers, on any number of threads, alone or beside others --------------------
answers() { # one a line, of requests that are sent together
    local i
    for i in 1 2 3 4; do
        curl -s --max-time 60 -d "{\"prompt\": \"Question $i of\", \"max_tokens\": 16, \"ignore_eos\": true}" \
            "$at/v1/completions" -o "answer.$i" &
        pids[i]=$!
    done
    wait "${pids[@]}"
    python3 -c "
import json
for i in range(1, 5): print(json.dumps(json.load(open(f'answer.{i}'))['choices'][0]['text']))"
}
model=tiny.gguf
start log --deterministic --threads 1 --slots 1
answers >expected
stop
for options in '--threads 2 --slots 4' '--threads 1 --slots 4 --batch 7' '--threads 3 --slots 2'; do
    # shellcheck disable=SC2086
    start log --deterministic $options
    answers >got
    cmp -s expected got || complain "$options: other answers:" "$(diff expected got)"
    stop
done
BITNET_DETERMINISTIC=1 BITNET_NUM_THREADS=2 BITNET_BATCH_SIZE=3 start log
ask 200 /health
holds "environment" "r['threads'] == 2 and r['slots'] == 3"
answers >got
cmp -s expected got || complain "by the environment: other answers"
stop
SONDE_NUM_THREADS=2 SONDE_DETERMINISTIC=1 SONDE_SEED=7 start log --threads 1
ask 200 /health
holds "the command line is stronger" "r['threads'] == 1"
answers >got
cmp -s expected got && complain "another seed, and the same answers"
stop

# ---- a memory limit ------------------------------------------------------------------------
SONDE_MEMORY_LIMIT=8MB start log
has "it says what it means" 'the memory limit of 8.0 MB leaves [0-9.]+ MB for the KV cache' log
ask 200 /v1/completions -d '{"prompt": "a", "max_tokens": 5}'
stop

# ---- what it cannot do ---------------------------------------------------------------------
for bad in SONDE_NUM_THREADS=0 BITNET_NUM_THREADS=300 SONDE_BATCH_SIZE=x BITNET_MEMORY_LIMIT=much SONDE_SEED=-4 \
    BITNET_DETERMINISTIC=perhaps; do
    status 2 env "$bad" "$engine" serve -m tiny.gguf --listen 127.0.0.1:0
    has "$bad: names it" "${bad%%=*}.*\"${bad#*=}\"" err
done
status 2 "$engine" serve -m tiny.gguf --threads 0
has "threads" "--threads is '0'" err
status 2 "$engine" serve -m tiny.gguf --memory-limit lots
has "limit" "--memory-limit is 'lots'" err
status 2 "$engine" serve -m tiny.gguf --memory-limit 100KB
has "limit too small" 'the weights of tiny.gguf take' err
status 2 "$engine" serve --listen 127.0.0.1:0
has "no model" '-m FILE is needed' err
status 2 "$engine" serve -m missing.gguf
has "missing" 'missing.gguf' err
head -c 1000 tiny.gguf >cut.gguf
status 2 "$engine" serve -m cut.gguf --listen 127.0.0.1:0
status 2 "$engine" serve -m tiny.gguf --listen nowhere
has "address" '"nowhere" is not HOST:PORT' err
model=small.gguf
start log
status 2 "$engine" serve -m tiny.gguf --listen "${at#http://}"
has "port in use" 'cannot listen on .*in use' err

# ---- twice is at once ----------------------------------------------------------------------
curl -s --max-time 60 -N -o /dev/null -d "$(with "$long" '{"max_tokens": 4000}')" "$at/v1/completions" &
until_true eval '[ "$(health running)" = 1 ]'
kill -TERM "$server"
until_line 'once more to stop at once' log
kill -TERM "$server"
wait "$server"
same "ended by the second, or done by then" 1 "$(($? == 143 || $? == 0))"
finish

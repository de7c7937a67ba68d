"""engine_load.py URL REQUESTS CLIENTS [SECONDS]: requests of all kinds to an inference server, several at a
time, spread over so many seconds: chat turns that begin alike, long prompts, streams, answers as a whole,
errors, clients that go away. Fails if an answer is not what was asked for."""
import http.client
import json
import sys
import threading
import time
import urllib.parse

url = urllib.parse.urlsplit(sys.argv[1])
requests, clients = int(sys.argv[2]), int(sys.argv[3])
seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 0
started = time.monotonic()
SYSTEM = "You are a patient assistant who explains how computers work, one step after the other. "
wrong = []


def body_of(i):
    if i % 10 == 7:
        return "/v1/completions", {"prompt": "once upon a time " * 60, "max_tokens": 6}, 200
    if i % 10 == 4:
        return "/v1/completions", {"prompt": [3, 5, 8, 13, 21 + i % 50], "max_tokens": 9, "temperature": 0}, 200
    if i % 20 == 13:
        return "/v1/chat/completions", {"messages": []}, 400
    if i % 20 == 3:
        return "/v1/completions", {"prompt": "much too long " * 4000}, 400
    turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"What is number {i % 3}?"}]
    if i % 2:
        turns += [{"role": "assistant", "content": "It is a number."}, {"role": "user", "content": f"And {i}?"}]
    return "/v1/chat/completions", {"messages": turns, "max_tokens": 5 + i % 11}, 200


def ask(i):
    path, body, wanted = body_of(i)
    body["ignore_eos"] = True
    body["stream"] = i % 3 != 0
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=120)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if wanted == 200 and body["stream"] and i % 6 == 5:  # goes away
        answer.read(40)
        answer.close()
        connection.close()
        return
    text = answer.read().decode()
    connection.close()
    if answer.status != wanted:
        wrong.append((i, answer.status, text[:300]))
    elif wanted == 200 and body["stream"] and not text.endswith("data: [DONE]\n\n"):
        wrong.append((i, "cut", text[-200:]))
    elif wanted == 200 and not body["stream"] and json.loads(text)["usage"]["completion_tokens"] != body["max_tokens"]:
        wrong.append((i, "tokens", text[-300:]))


def client(first):
    for i in range(first, requests, clients):
        time.sleep(max(0, started + seconds * i / requests - time.monotonic()))
        ask(i)


threads = [threading.Thread(target=client, args=(c,)) for c in range(clients)]
for t in threads:
    t.start()
for t in threads:
    t.join()
for w in wrong[:10]:
    print(*w, file=sys.stderr)
sys.exit(bool(wrong))

"""Sends requests through the front and compares what hooks, API and front say of each.

usage: three_ways.py AGENT TRUTH

Counts are equal. Times are not, and need not be: each is measured at another place, and each place
encloses the next. So hook <= API <= front <= client, for time to first token and for the whole; that
holds however busy the machine is. That they also agree is asked of the middle of all requests: within
TOLERANCE_S, a fraction of what the server waits before its forward passes.
"""
import http.client, json, statistics, sys, time, urllib.parse, urllib.request

agent, truth_path = sys.argv[1:]
at = urllib.parse.urlparse(agent)
CLOCKS_S = 50e-6       # two clocks are put on one scale by the agent
TOLERANCE_S = 10e-3
WORDS = "the quick brown fox jumps over lazy dogs while old cats sleep near warm stones".split()
SHARED = " ".join(WORDS * 4)
bad = []


def want(what, ok, *values):
    if not ok:
        bad.append("%s: %s" % (what, " ".join(str(v) for v in values)))


def send(prompt, tokens, leave_after=None):
    """Time to the first piece of text and to the end, by the client's clock."""
    start, first, seen = time.monotonic(), None, 0
    connection = http.client.HTTPConnection(at.hostname, at.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(
        {"prompt": prompt, "max_tokens": tokens, "model": "tiny", "stream": True}, separators=(",", ":")))
    answer = connection.getresponse()
    assert answer.status == 200, answer.status
    for line in answer:
        if line.startswith(b'data: {"choices":[{'):
            seen += 1
            first = first or time.monotonic() - start
            if seen == leave_after:
                answer.close()
                break
    connection.close()
    return {"ttft_s": first, "total_s": time.monotonic() - start, "tokens_out": seen}


def requests_of(source, count):
    """Of one source, oldest first, when as many have ended."""
    for _ in range(600):
        with urllib.request.urlopen(agent + "/api/requests?sort=oldest&limit=100&state=done&source=" + source) as f:
            got = json.load(f)["requests"]
        if len(got) >= count:
            break
        time.sleep(0.1)
    want("requests of " + source, len(got) == count, len(got), "not", count)
    return got


plan = [(SHARED + " " + " ".join(WORDS[i:] * (i + 1)), 12 + 3 * i) for i in range(6)]
clients = [send(*p) for p in plan]
left = send(SHARED + " and away", 100, leave_after=5)
seen = {source: requests_of(source, 7) for source in ("hook", "api", "front")}
truths = []
for _ in range(600):  # the server notices that nobody reads when it writes
    truths = [json.loads(line) for line in open(truth_path).read().splitlines()[1:]]
    if len(truths) == 7:
        break
    time.sleep(0.1)
want("requests that the server knows of", len(truths) == 7, len(truths))
if bad:
    sys.exit("\n".join(bad))

differences = {}
for i, (client, truth) in enumerate(zip(clients, truths)):
    hook, api, front = (seen[s][i] for s in ("hook", "api", "front"))
    name = "request %d" % i
    want(name + ": own id", api["own_id"] == truth["id"], api["own_id"], truth["id"])
    want(name + ": one trace", api["trace_id"] == front["trace_id"], api["trace_id"], front["trace_id"])
    for field in ("outcome", "tokens_in", "tokens_reused", "tokens_out", "model"):
        values = [r[field] for r in (hook, api, front)] + ([truth[field]] if field in truth else [])
        want("%s: %s" % (name, field), len(set(values)) == 1, *values)
    want(name + ": tokens that the client saw", client["tokens_out"] == truth["tokens_out"], client, truth)
    for field in ("ttft_s", "total_s"):
        values = [hook[field], api[field], front[field], client[field]]
        want("%s: %s of hook, API, front, client" % (name, field),
             all(a <= b + CLOCKS_S for a, b in zip(values, values[1:])), *values)
    real = {"ttft_s": truth["ttft_ns"] * 1e-9, "total_s": truth["total_ns"] * 1e-9,
            "itl_s": truth["last_ns"] * 1e-9 / (truth["tokens_out"] - 1)}
    for source, r in (("hook", hook), ("api", api), ("front", front)):
        said = {"ttft_s": r["ttft_s"], "total_s": r["total_s"], "itl_s": r["itl"]["mean_s"]}
        for field in real:
            differences.setdefault((source, field), []).append(abs(said[field] - real[field]))

for (source, field), values in sorted(differences.items()):
    middle = statistics.median(values)
    want("%s of %s, against the server's clock" % (field, source), middle <= TOLERANCE_S, values)
    print("%-6s %-8s differs by %6.0f us in the middle, %6.0f at most" % (source, field, middle * 1e6, max(values) * 1e6))

# The client that went away: all three know, the hooks by the front.
for source in ("hook", "api", "front"):
    r = seen[source][6]
    want("the one that left, by " + source, r["outcome"] == "cancelled", r["outcome"])
    want("its tokens, by " + source, left["tokens_out"] <= r["tokens_out"] <= truths[6]["tokens_out"],
         left["tokens_out"], r["tokens_out"], truths[6]["tokens_out"])
want("reused", sum(t["tokens_reused"] for t in truths) > 0)
sys.exit("\n".join(bad) if bad else 0)

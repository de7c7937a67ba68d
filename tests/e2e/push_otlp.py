"""OTLP: the same numbers as the agent's, each span once, whatever the collector does."""
import collections, glob, math, os, struct, sys, time
from push import *

TRACES = 2  # signal, as the spool has it

def histograms_equal(agent, state):
    families = get_json(agent.url + "/api/export?format=json&name=known_seconds")["families"]
    ours, = families[0]["series"]
    theirs, = [m for m in state["metrics"].values() if m["name"] == "known_seconds"]
    equal("histogram: count", int(theirs["count"]), int(ours["value"]))
    equal("histogram: sum", theirs["sum"], ours["sum"])
    equal("histogram: scale", theirs["scale"], 6)
    mine = {round(math.log2(bound) * 64): n for bound, n in ours["buckets"]}
    decoded = {theirs["offset"] + i + 1: int(n) for i, n in enumerate(theirs["buckets"]) if int(n)}
    equal("histogram: buckets", len(decoded), len(mine))
    check("histogram: bucket by bucket", decoded == mine, f"{decoded} {mine}")
    equal("histogram: in buckets", sum(decoded.values()) + int(theirs["zero"]), 100000)
    check("exemplar", any(e["trace"] in open(known.log).read() for e in theirs["exemplars"]), str(theirs))
    equal("histogram: unit", theirs["unit"], "s")

def metrics_equal(agent, state):
    by_name = collections.defaultdict(list)
    for m in state["metrics"].values(): by_name[m["name"]].append(m)
    requests, = by_name["known_requests_total"]
    equal("counter", int(requests["int"]), 12345)
    equal("counter: labels", requests["labels"], {"path": '/a"b\\c\nd\u00e4'})
    equal("counter: service", requests["resource"]["service.name"], "known_hist")
    equal("counter: pid", requests["resource"]["process.pid"], known.pid)
    equal("counter: host", requests["resource"]["host.name"], os.uname().nodename)
    equal("counter: own label", requests["resource"]["team"], "tests")
    equal("counter: description", requests["description"], "Requests.")
    check("counter: cumulative, monotonic",
          requests["monotonic"] and requests["temporality"] in (2, "AGGREGATION_TEMPORALITY_CUMULATIVE"))
    check("counter: starts before it is read", 0 < int(requests["start"]) <= int(requests["time"]))
    equal("gauge", by_name["rec_level"][0]["double"], 2.5)
    equal("times only go on", sum(m["backwards"] for m in state["metrics"].values()), 0)
    names = {k[0] for k in agent.metrics()}
    for name in by_name:
        check_name = name if name in names else name + "_count" if name + "_count" in names else name + "_total"
        if check_name not in names: fail(f"{name} is sent, but not on /metrics")

def spans_once(state, name, count):
    ids = [s["id"] for s in state["spans"] if s["name"] == name]
    equal(f"spans {name}", len(ids), count)
    equal(f"spans {name}: each once", len(set(ids)), count)

def behaving(world):
    """A collector that is busy, refuses, hangs and takes parts; nothing is lost but what it refused."""
    global known
    receiver = Receiver(world)
    receiver.behave("503 429 reset hang 502")
    known = world.ready("known_hist", PROGRAMS + "/known_hist")
    recorder = world.ready("recorder", PROGRAMS + "/recorder", "2000", "600")
    headers = world.path("headers")
    with open(headers, "w") as f: f.write("# a comment\nX-Extra: from the file\n")
    agent = Agent(world, "--otlp", receiver.url + "/", "--set", "push.interval_seconds=0.5",
                  "--set", "push.timeout_seconds=2", "--set", "push.labels=team=tests",
                  "--set", "push.otlp_headers=" + headers, env={"SONDE_OTLP_TOKEN": "abc.def"})
    until("it is tried again until it works", lambda: agent.pushed("sent_total", "otlp") > 4)
    until("all spans came", lambda: sum(s["name"] == "rec.step" for s in receiver.state()["spans"]) >= 2000)
    # libcurl itself tries a kept connection that was reset once more on a new one.
    check("tries that failed are counted", agent.pushed("failed_total", "otlp") >= 4)
    log = receiver.state()["log"]
    equal("what it was told to do", [e["action"] for e in log[:5]], ["503", "429", "reset", "hang", "502"])
    check("Retry-After is honoured", log[1]["at"] - log[0]["at"] >= 900, str(log[:2]))
    equal("the oldest is sent first, again and again", len({e["path"] for e in log[:6]}), 1)
    equal("headers", (log[0]["type"], log[0]["encoding"], log[0]["authorization"], log[0]["extra"]),
          ("application/x-protobuf", "gzip", "Bearer abc.def", "from the file"))
    equal("nothing was dropped", sum(v for (n, l), v in agent.metrics().items()
                                     if n == "sonde_push_dropped_total"), 0)

    receiver.behave("partial")
    until("rejected points are counted", lambda: agent.pushed("rejected_total", "otlp") == 3)
    receiver.behave("400 404")
    until("refused batches are dropped", lambda: agent.pushed("dropped_total", "otlp", reason="refused") == 2)
    refusals = [e for e in receiver.state()["log"] if e["action"] in ("400", "404")]
    equal("refused batches are not tried again", len(refusals), 2)

    taken = agent.pushed("sent_total", "otlp")
    until("it goes on", lambda: agent.pushed("sent_total", "otlp") > taken + 1)
    recorder.kill()
    recorder.wait()
    state = receiver.state()
    metrics_equal(agent, state)
    histograms_equal(agent, state)
    spans_once(state, "rec.step", 2000)
    step = next(s for s in state["spans"] if s["name"] == "rec.step")
    equal("span: service", step["service"], "recorder")
    check("span: ids", len(step["trace"]) == 32 and len(step["id"]) == 16 and int(step["trace"], 16))
    check("span: times", int(step["end"]) >= int(step["start"]) > 1e18)
    equal("ends well", agent.stop(), 0)

def requests(world):
    """Inference requests have what is known of them, and their phases below them."""
    receiver = Receiver(world)
    agent = Agent(world, "--otlp", receiver.url, "--set", "push.interval_seconds=0.5")
    engine = world.start("engine", BUILD + "/example_engine", "--clients", "2", "--requests", "5")
    until("the engine ends", lambda: engine.poll() is not None)
    def came():
        return sum("gen_ai.request.model" in s["attributes"] for s in receiver.state()["spans"]) >= 10
    until("all requests came", came)
    equal("ends well", agent.stop(), 0)
    spans = receiver.state()["spans"]
    equal("spans: each once", len({s["id"] for s in spans}), len(spans))
    ours = [s for s in spans if "gen_ai.request.model" in s["attributes"]]
    equal("requests", len(ours), 10)
    equal("requests: no second span of the same", sum(s["name"] == "request" for s in spans), 0)
    for s in ours:
        a = s["attributes"]
        check("request", s["kind"] in (2, "SPAN_KIND_SERVER") and a["gen_ai.usage.input_tokens"] > 0 and
              a["gen_ai.operation.name"] in ("chat", "text_completion"), str(s))
        if a.get("gen_ai.usage.output_tokens"):
            check("first token", s["events"] == ["first token"] and
                  0 <= a["sonde.time_to_first_token_seconds"] * 1e9 <= int(s["end"]) - int(s["start"]) + 1000)
    ids = {s["id"]: s["trace"] for s in ours}
    below = [s for s in spans if s["parent"] in ids]
    check("phases are below their request, in its trace",
          below and all(ids[s["parent"]] == s["trace"] for s in below), str(len(below)))

def findings(world):
    """What is wrong with a program comes as a log record when it begins."""
    receiver = Receiver(world)
    agent = Agent(world, "--otlp", receiver.url, "--set", "push.interval_seconds=0.5",
                  "--set", "bottleneck.interval_seconds=1")
    # More clients than slots: requests wait, whatever the machine does beside.
    world.start("engine", BUILD + "/example_engine", "--clients", "12", "--requests", "100000")
    def came():
        return [r for r in receiver.state()["records"] if r["attributes"]["sonde.finding.kind"] == "queueing"]
    first = until("a finding came", came)[0]
    equal("scope", first["scope"], "sonde")
    equal("state", first["attributes"]["sonde.finding.state"], "began")
    check("severity", first["severity"] in (13, 17, "SEVERITY_NUMBER_WARN", "SEVERITY_NUMBER_ERROR") and
          first["attributes"]["sonde.finding.severity"] in ("warning", "critical"), str(first))
    check("text", "requests waited" in first["body"] and first["attributes"]["sonde.finding.advice"], str(first))
    check("time", int(first["time"]) > 1e18)
    active = get_json(agent.url + "/api/findings")["active"]
    check("the agent says the same", any(f["kind"] == "queueing" for f in active), str(active)[:500])
    equal("once", len(came()), 1)
    equal("ends well", agent.stop(), 0)

def spooling(world):
    """The collector is away, the agent is killed, a file of the spool is damaged."""
    port = free_port()
    options = ["--otlp", f"http://127.0.0.1:{port}", "--set", "push.interval_seconds=0.5",
               "--set", "push.timeout_seconds=2"]
    agent = Agent(world, *options)
    recorder = world.ready("recorder", PROGRAMS + "/recorder", "1500", "600")
    folder, = until("a folder for it", lambda: glob.glob(world.path("state/sonde/push/otlp-*")))

    def files():
        out = []
        for path in sorted(glob.glob(folder + "/*.batch")):
            with open(path, "rb") as f: head = f.read(40)
            out.append((path, *struct.unpack("<8sIIQIIQ", head)[2:5]))
        return out
    until("the spans are on disk", lambda: sum(f[3] for f in files() if f[1] == TRACES) >= 1500)
    until("so are metrics", lambda: sum(f[1] != TRACES for f in files()) >= 4)
    check("the folder is private", os.stat(folder).st_mode & 0o77 == 0)
    agent.kill()

    left = files()
    metrics = [f[0] for f in left if f[1] != TRACES]
    with open(metrics[1], "r+b") as f: # a bit of the body
        f.seek(-5, os.SEEK_END)
        byte = f.read(1)
        f.seek(-5, os.SEEK_END)
        f.write(bytes([byte[0] ^ 1]))
    os.truncate(metrics[2], 30)
    with open(folder + "/00000000000fffff.half", "wb") as f: f.write(b"half")
    with open(folder + "/README", "wb") as f: f.write(b"not ours")

    receiver = Receiver(world, port)
    agent = Agent(world, *options)
    until("what was left is sent", lambda: len(receiver.state()["log"]) >= len(left) - 2)
    until("damaged files are counted",
          lambda: agent.pushed("dropped_total", "otlp", reason="damaged") == 2)
    until("none is left", lambda: not set(f[0] for f in left) & set(f[0] for f in files()))
    recorder.kill()
    recorder.wait()
    equal("ends well", agent.stop(), 0)
    state = receiver.state()
    # The program's ring still has its spans, and the second agent read it from its beginning.
    spans_once(state, "rec.step", 1500)
    times = [m["backwards"] for m in state["metrics"].values()]
    equal("the oldest first", sum(times), 0)
    check("files of others stay", os.path.exists(folder + "/README"))
    check("half a file is gone", not os.path.exists(folder + "/00000000000fffff.half"))

with World() as world:
    {"behaving": behaving, "requests": requests, "findings": findings, "spooling": spooling}[sys.argv[1]](world)

"""Kills and starts the agent again, at random, while programs run that count for themselves; in the end
every counter on /metrics has to be what they counted.

    restart.py SONDE ENGINE SHOP RECORDER ROUNDS [--hard]

Some programs begin and end while there is no agent, and the engine ends so.

What an agent that is not there cannot read is overwritten in the rings after a while, and that is no
error. So the programs are stopped from when an agent was killed until the next one listens; with --hard
they are not."""
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request

sonde, engine_path, shop_path, recorder_path = sys.argv[1:5]
rounds = int(sys.argv[5])
hard = "--hard" in sys.argv
CLIENTS, REQUESTS = 4, 24 * rounds
PATIENCE = 120


def fail(text):
    sys.exit("restart.py: " + text)


class Agent:
    def __init__(self):
        self.log = open("agent.log", "ab")
        at = self.log.tell()
        self.process = subprocess.Popen([sonde, "serve", "--listen", "127.0.0.1:0", "--retain", "3600"],
                                        stderr=self.log)
        until = time.monotonic() + PATIENCE
        while True:
            with open("agent.log", "rb") as f:
                f.seek(at)
                found = re.search(rb"listening on (http://[0-9.:]+)", f.read())
            if found:
                self.url = found.group(1).decode()
                return
            if self.process.poll() is not None or time.monotonic() > until:
                fail("the agent does not start: " + open("agent.log").read()[-2000:])
            time.sleep(0.005)

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()
        self.log.close()

    def metrics(self):
        with urllib.request.urlopen(self.url + "/metrics", timeout=60) as r:
            return r.read().decode()


def total(text, name, **labels):
    """The sum over all series of that name that have the labels."""
    value = 0
    for line in text.splitlines():
        found = re.match(r"([a-zA-Z_:]+)(?:\{(.*)\})? ([^ ]+)", line)
        if not found or found.group(1) != name:
            continue
        has = dict(re.findall(r'([a-zA-Z_]+)="([^"]*)"', found.group(2) or ""))
        if all(has.get(k) == v for k, v in labels.items()):
            value += float(found.group(3))
    return value


def truth():
    """What the engine counted itself, by the names of the agent."""
    sums = {"jobs": 0, "input": 0, "reused": 0, "output": 0, "gaps": 0, "first": 0,
            "computed": 0, "ok": 0, "error": 0, "cancelled": 0}
    for line in open("truth"):
        found = re.match(r"job-\d+ outcome=(\w+) .* prompt=(\d+) reused=(\d+) tokens=(\d+)", line)
        if not found:
            continue
        tokens = int(found.group(4))
        sums["jobs"] += 1
        sums[found.group(1)] += 1
        sums["input"] += int(found.group(2))
        sums["reused"] += int(found.group(3))
        sums["output"] += tokens
        sums["gaps"] += max(tokens - 1, 0)
        sums["first"] += tokens > 0
        if tokens:
            sums["computed"] += int(found.group(2)) - int(found.group(3)) + tokens - 1
    return sums


def compare(text, recorded):
    """What disagrees. recorded: what the programs that began and ended without an agent counted."""
    t = truth()
    span = "sonde_span_duration_seconds_count"
    pairs = [("jobs", t["jobs"], CLIENTS * REQUESTS)]
    for outcome in "ok", "error", "cancelled":
        pairs.append((outcome, total(text, "sonde_infer_requests_total", outcome=outcome), t[outcome]))
        pairs.append(("span request " + outcome,
                      total(text, span, span="request", outcome=outcome, process="engine"), t[outcome]))
    for outcome in "lost", "timeout":
        pairs.append((outcome, total(text, "sonde_infer_requests_total", outcome=outcome), 0))
    for kind in "input", "reused", "output":
        pairs.append((kind, total(text, "sonde_infer_tokens_total", type=kind), t[kind]))
    pairs += [
        ("duration", total(text, "gen_ai_server_request_duration_seconds_count"), t["jobs"]),
        ("ttft", total(text, "gen_ai_server_time_to_first_token_seconds_count"), t["first"]),
        ("gaps", total(text, "sonde_infer_inter_token_seconds_count"), t["gaps"]),
        ("encode", total(text, span, span="encode"), t["jobs"]),
        ("sample", total(text, span, span="sample"), t["output"]),
        ("detokenize", total(text, span, span="detokenize"), t["output"]),
        ("computed", total(text, "sonde_infer_computed_tokens_total"), t["computed"]),
        ("batches", total(text, "sonde_infer_batch_requests_count"),
         total(text, span, span="prefill") + total(text, span, span="decode")),
        ("loads", total(text, "sonde_infer_model_loads_total", outcome="ok"), 1),
        ("memory", total(text, "sonde_infer_memory_bytes", kind="weights"), 512 << 20),
        ("invalid", total(text, "sonde_infer_invalid_events_total"), 0),
        # A span for each request, and a counter in the segment.
        ("shop", total(text, span, span="request", process="shop"),
         total(text, "shop_requests_total", process="shop")),
        ("recorder", total(text, "rec_events_total"), recorded),
        ("recorder's values", total(text, "rec_wait_seconds_count"), recorded),
        ("recorder's spans", total(text, span, span="rec.step"), recorded),
    ]
    return ["%s: the agent says %g, the program %g" % p for p in pairs if p[1] != p[2]]


def lost(text):
    return total(text, "sonde_spans_lost_total")


def send(programs, how):
    for p in programs:
        if p.poll() is None:
            p.send_signal(how)


def main():
    random.seed()
    agent = Agent()
    out = open("truth", "wb")
    # Prompts that differ in length, eight tokens or so each: some 20 ms a step, 1000 records a second.
    engine = subprocess.Popen([engine_path, "--truth", "--clients", str(CLIENTS), "--requests",
                               str(REQUESTS), "--decode-ms", "10", "--prefill-us", "5", "--tokens", "8"],
                              stdout=out)
    shop = subprocess.Popen([shop_path, "--rate", "100", "--threads", "1"], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    programs = [engine, shop]
    restarts = recorded = 0
    while restarts < rounds - 1 and truth()["jobs"] < CLIENTS * REQUESTS * 9 // 10:
        time.sleep(random.uniform(0, 1.0))
        agent.end(random.choice([signal.SIGKILL, signal.SIGTERM]))
        if not hard:
            send(programs, signal.SIGSTOP)
        count = random.randrange(1, 2000)
        subprocess.run([recorder_path, str(count)], stdout=subprocess.DEVNULL, check=True)
        recorded += count
        agent = Agent()
        restarts += 1
        send(programs, signal.SIGCONT)
    while truth()["jobs"] < CLIENTS * REQUESTS - 8 and engine.poll() is None:
        time.sleep(0.01)
    agent.end(random.choice([signal.SIGKILL, signal.SIGTERM]))
    engine.wait()
    agent = Agent()
    restarts += 1
    shop.terminate()
    shop.wait()
    wrong, until = ["nothing"], time.monotonic() + PATIENCE
    while wrong and time.monotonic() < until:
        time.sleep(0.3)
        text = agent.metrics()
        wrong = compare(text, recorded)
        if wrong and lost(text):
            break
    # Once more, when all programs have ended: nothing is read again.
    if not wrong:
        agent.end(signal.SIGKILL)
        agent = Agent()
        time.sleep(3)
        text = agent.metrics()
        wrong = compare(text, recorded)
    agent.end(signal.SIGTERM)
    print("%d restarts, %d requests, %d records overwritten, %d bytes of state" % (
        restarts, truth()["jobs"], lost(text), os.path.getsize(os.environ["SONDE_DIR"] + "/agent.state")))
    if wrong and lost(text):
        print("not compared: records were overwritten while there was no agent\n" + "\n".join(wrong))
        sys.exit(77)
    if wrong:
        open("metrics.txt", "w").write(text)
        fail("\n".join(wrong))


main()

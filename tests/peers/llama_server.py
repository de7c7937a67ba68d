#!/usr/bin/env python3
"""llama_server: a real llama-server under `sonde run`, and what is said of its requests against what
it answers itself.

    llama_server.py LLAMA_SERVER BUILD [--requests N] [--keep]

LLAMA_SERVER is a llama-server with its libraries beside it, BUILD a build of sonde. Four slots get
requests that are streamed and not, some cancelled, with idle gaps; a second reader (`sonde record
-p`) looks on twice, the second time when the rings have long wrapped, and a second agent (`sonde
serve`) is started, killed and started again in between.

Checked: every request has ended within 2 s of its last token (and its own longest pause); there are as many as were made, with as
many tokens; prompt and generation times agree with `timings` of the answers within 1 % (and 2 ms: a
thread may be kept from running between two clocks) for all but one in fifty; a recording holds the
requests of its time and no other, under the ids that the agent has, of the model's name. Told, not
checked here: how complete stacks are.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
END_WITHIN_S = 2.0
failures = []


def complain(text):
    failures.append(text)
    print("FAIL " + text, flush=True)


def note(text):
    print("     " + text, flush=True)


def wait_for(what, check, seconds=60.0, every=0.1):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = check()
        if got:
            return got
        time.sleep(every)
    raise SystemExit("llama_server: nothing after %d s: %s" % (seconds, what))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port, path, timeout=20):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        c.request("GET", path)
        r = c.getresponse()
        return r.status, r.read()
    except OSError:
        return 0, b""
    finally:
        c.close()


def get_json(port, path):
    status, body = get(port, path)
    if status != 200:
        raise SystemExit("llama_server: %s: status %d: %s" % (path, status, body[:200]))
    return json.loads(body)


class Answer:
    """What one request was, and what the server said of it."""

    def __init__(self, number):
        self.number = number
        self.timings = None
        self.cancelled = False
        self.done_s = 0.0


def prompt_of(number, words):
    draw = random.Random(number)
    return " ".join("".join(draw.choice("abcdefghij") for _ in range(4)) for _ in range(words))


def ask(port, number, stream, cancel_after, n_predict):
    a = Answer(number)
    body = json.dumps({
        "prompt": prompt_of(number, random.Random(number).randint(20, 60)), "n_predict": n_predict,
        "stream": stream, "cache_prompt": False, "ignore_eos": True, "seed": number}).encode()
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    c.request("POST", "/completion", body, {"Content-Type": "application/json"})
    r = c.getresponse()
    if not stream:
        a.timings = json.loads(r.read()).get("timings")
    else:
        pieces = 0
        while True:
            line = r.fp.readline()
            if not line:
                break
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            pieces += 1
            if event.get("timings"):
                a.timings = event["timings"]
            if cancel_after and pieces >= cancel_after:
                a.cancelled = True
                break
    c.close()
    a.done_s = time.time()
    return a


class Agent:
    """`sonde run` around the server, or another agent beside it."""

    def __init__(self, sonde, arguments, env, log):
        self.log = log
        self.file = open(log, "wb")
        self.process = subprocess.Popen([sonde] + arguments, env=env, stdin=subprocess.DEVNULL,
                                        stdout=self.file, stderr=self.file)

    def port(self):
        def look():
            if self.process.poll() is not None:
                raise SystemExit("llama_server: %s\n%s" % (self.process.args, open(self.log).read()))
            m = re.search(r"http://127\.0\.0\.1:(\d+)", open(self.log, errors="replace").read())
            return m and int(m.group(1))
        return wait_for("an agent that listens", look)

    def end(self, sig=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        self.process.wait(60)
        self.file.close()


def requests_of(port):
    return get_json(port, "/api/requests?source=hook&limit=1000&sort=newest")["requests"]


def counted(port):
    """Requests that were counted, however they ended."""
    lines = get(port, "/metrics")[1].decode(errors="replace").splitlines()
    return sum(float(x.split()[-1]) for x in lines if x.startswith("sonde_infer_requests_total{"))


def is_running(r):
    return r.get("state") == "running"


class Watch(threading.Thread):
    """Looks at the agent all the time: which requests run, and which ended when."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.stop, self.ended, self.slowest = port, threading.Event(), {}, 0.0

    def run(self):
        while not self.stop.wait(0.1):
            asked = time.time()
            status, body = get(self.port, "/api/requests?source=hook&limit=16&sort=newest")
            if status != 200:
                continue
            now = time.time()
            self.slowest = max(self.slowest, now - asked)
            for r in json.loads(body)["requests"]:
                if not is_running(r):
                    self.ended.setdefault(r["id"], (now, r))


def ends_within(watch):
    """How long after its last token a request was known to have ended."""
    late = []
    for seen_s, r in watch.ended.values():
        end_s = r["arrived"] + r["total_s"]
        if end_s is not None:
            # On a machine that is too busy a request pauses, and is given that much longer.
            late.append(seen_s - end_s - (r["itl"].get("max_s") or 0.0))
            if late[-1] > END_WITHIN_S:
                note("late by %.2f s: %s" % (late[-1], {k: r[k] for k in (
                    "id", "outcome", "arrived", "total_s", "ttft_s", "tokens_in", "tokens_out")}))
    return late


def check_times(answers, requests):
    """Pairs answers and requests in the order of their ends and by tokens, and compares times."""
    pool = list(requests)
    apart = []
    for a in answers:
        if not a.timings or a.timings["predicted_n"] < 20:
            continue
        t = a.timings
        best = None
        for r in pool:
            if r["tokens_out"] != t["predicted_n"] or abs(r["end_s"] - a.done_s) > 2:
                continue
            off = abs(r["gen_ms"] - t["predicted_ms"])
            if best is None or off < best[0]:
                best = (off, r)
        if best is None:
            complain("no request for answer %d (%d tokens)" % (a.number, t["predicted_n"]))
            continue
        pool.remove(best[1])
        apart.append((best[0], t["predicted_ms"], best[1]["gen_ms"]))
    bad = [x for x in apart if x[0] > 0.01 * x[1] + 2]
    if apart:
        note("generation time against timings: median %.3f ms apart, %d of %d further than 1 %%" %
             (statistics.median(x[0] for x in apart), len(bad), len(apart)))
    if len(bad) * 50 > len(apart):
        complain("times of %d of %d requests are more than 1 %% from timings: %s" %
                 (len(bad), len(apart), bad[:5]))


def flat(r):
    """What is compared, of a request as /api/requests has it."""
    out = {"id": r["id"], "model": r.get("model", ""), "tokens_in": r.get("tokens_in", 0),
           "tokens_out": r.get("tokens_out", 0), "total_s": r.get("total_s", 0.0)}
    arrived = r["arrived"]
    out["arrived_s"] = arrived
    out["end_s"] = arrived + out["total_s"]
    out["ttft_s"] = r.get("ttft_s")
    itl = r.get("itl") or {}
    out["gen_ms"] = 1e3 * (itl.get("mean_s") or 0.0) * max(out["tokens_out"] - 1, 0)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("llama_server")
    parser.add_argument("build")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--keep", action="store_true", help="keep the folder of logs and recordings")
    o = parser.parse_args()
    scratch = tempfile.mkdtemp(prefix="llama_server.")
    try:
        play(o, os.path.abspath(o.build), scratch)
    finally:
        if o.keep:
            note("logs are in " + scratch)
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    print("%s: %d failures" % ("FAILED" if failures else "passed", len(failures)))
    return 1 if failures else 0


def play(o, build, scratch):
    sonde = os.path.join(build, "sonde")
    model = os.path.join(scratch, "small.gguf")
    subprocess.run([sys.executable, os.path.join(HERE, "..", "llama", "gguf.py"), "--preset", "bench",
                    model], check=True)
    segments = os.path.join(scratch, "segments")
    os.mkdir(segments, 0o700)
    env = dict(os.environ, SONDE_DIR=segments)
    server_port = free_port()
    server_log = open(os.path.join(scratch, "server.log"), "wb")
    run = Agent(sonde, ["run", "-v", "--listen", "127.0.0.1:0", "--log",
                        os.path.join(scratch, "sonde.log"), "--",
                        os.path.abspath(o.llama_server), "-m", model, "--host", "127.0.0.1", "--port",
                        str(server_port), "-np", "4", "-t", "1", "-tb", "1", "-c", "8192",
                        "--no-webui"],
                env, os.path.join(scratch, "run.out"))
    second = None
    try:
        port = run.port()
        wait_for("a server that is ready", lambda: get(server_port, "/health")[0] == 200, 120)
        drive(o, sonde, env, scratch, port, server_port, run)
    finally:
        run.end()
        server_log.close()
        if second:
            second.end()
    tell(run)


def server_pid(port):
    for p in get_json(port, "/api/processes")["processes"]:
        if "llama" in p["program"]:
            return p["pid"]
    raise SystemExit("llama_server: the agent knows no llama-server")


def drive(o, sonde, env, scratch, port, server_port, run):
    pid = server_pid(port)
    watch = Watch(port)
    watch.start()
    answers = []

    def batch(numbers, tag):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            jobs = []
            for n in numbers:
                stream = n % 2 == 0
                cancel = 5 if n % 10 == 4 else 0
                jobs.append(pool.submit(ask, server_port, n, stream, cancel, 24 + n % 17))
            got = [j.result() for j in jobs]
        answers.extend(got)
        note("%s: %d requests" % (tag, len(got)))
        return got

    quarter = o.requests // 4
    batch(range(0, quarter), "alone")
    time.sleep(2)  # an idle gap: all have ended
    expect_ended(port, len(answers))

    first = record(sonde, env, scratch, pid, "first.run",
                   lambda: batch(range(quarter, 2 * quarter), "with a second reader"))
    time.sleep(2)
    expect_ended(port, len(answers))
    check_recording("first", first, requests_of(port))

    def agent(name):
        a = Agent(sonde, ["serve", "--listen", "127.0.0.1:0"], env, os.path.join(scratch, name))
        return a, a.port()

    second, second_port = agent("serve1.out")
    time.sleep(2)
    before = counted(second_port)
    agents = [second]

    def restart():
        agents[-1].end(signal.SIGKILL)
        agents.append(agent("serve2.out")[0])

    killer = threading.Timer(3, restart)
    killer.start()
    batch(range(2 * quarter, 3 * quarter), "with a second agent, killed and restarted meanwhile")
    killer.join()
    second = agents[-1]
    second_port = second.port()
    late = record(sonde, env, scratch, pid, "late.run",
                  lambda: batch(range(3 * quarter, o.requests), "restarted, and a late reader"))
    time.sleep(2)
    expect_ended(port, len(answers))
    ours = requests_of(port)
    check_recording("late", late, ours)
    roots(sonde, env, late["path"])

    known = {r["id"]: r for r in ours}
    theirs = requests_of(second_port)
    strange = [r["id"] for r in theirs if r["id"] not in known]
    if strange:
        complain("the second agent has ids that the first has not: %s" % strange[:5])
    wrong = [r["id"] for r in theirs if r["id"] in known and r.get("ttft_s") and
             known[r["id"]].get("ttft_s") and abs(r["ttft_s"] - known[r["id"]]["ttft_s"]) > 1e-3]
    if wrong:
        complain("the second agent has other times for %s" % wrong[:5])
    note("the second agent knows %d of them" % len(theirs))
    since = counted(second_port) - before
    if since != o.requests - 2 * quarter:
        complain("the second agent counted %d requests across its restart, not %d" %
                 (since, o.requests - 2 * quarter))
    second.end()

    watch.stop.set()
    watch.join()
    delays = ends_within(watch)
    if delays:
        note("known to have ended after: median %.2f s, at most %.2f s (an answer of the agent took "
             "%.2f s at most)" % (statistics.median(delays), max(delays), watch.slowest))
        if max(delays) > END_WITHIN_S:
            complain("a request was still running %.2f s after its last token" % max(delays))
    done = [flat(r) for r in ours]
    whole = [a for a in answers if not a.cancelled]
    tokens = sum(a.timings["predicted_n"] for a in whole)
    seen = sorted(r["tokens_out"] for r in done)
    if len(done) != len(answers):
        complain("%d requests were made, %d are known" % (len(answers), len(done)))
    note("%d tokens in whole answers, %d seen in all (%d were cancelled)" %
         (tokens, sum(seen), len(answers) - len(whole)))
    if sum(seen) < tokens:
        complain("fewer tokens were seen than answered")
    check_times(whole, done)
    nameless = [r["id"] for r in done if r["model"] != "small"]
    if nameless:
        complain("%d requests have not the model's name" % len(nameless))


def expect_ended(port, count):
    """All of them, 2 s after the last."""
    got = requests_of(port)
    running = [r["id"] for r in got if is_running(r)]
    if running:
        complain("still running after %g s: %s" % (END_WITHIN_S, running))
    if len(got) != count:
        complain("%d requests were made, %d are known" % (count, len(got)))


def record(sonde, env, scratch, pid, name, work):
    """A recording of the server while work() is done."""
    out = os.path.join(scratch, name)
    p = subprocess.Popen([sonde, "record", "-p", str(pid), "-o", out], env=env,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(1.5)
    begun = time.time()
    answers = work()
    time.sleep(2)
    p.send_signal(signal.SIGTERM)
    words = p.communicate(timeout=120)[1].decode(errors="replace")
    text = subprocess.run([sonde, "requests", "--json", "-n", "1000", out], env=env, check=True,
                          stdout=subprocess.PIPE).stdout
    return {"requests": json.loads(text)["requests"], "answers": answers, "begun": begun,
            "words": words, "path": out}


def check_recording(what, got, ours):
    known = {r["id"]: flat(r) for r in ours}
    requests = [flat(r) for r in got["requests"]]
    if len(requests) != len(got["answers"]):
        complain("%s recording: %d requests in its time, %d recorded" %
                 (what, len(got["answers"]), len(requests)))
    for r in requests:
        k = known.get(r["id"])
        if not k:
            complain("%s recording: id %s is not the agent's" % (what, r["id"]))
            return
        if r["end_s"] < got["begun"] - 2:
            complain("%s recording: %s ended before it" % (what, r["id"]))
            return
        if r["model"] != k["model"]:
            complain("%s recording: model '%s', not '%s'" % (what, r["model"], k["model"]))
            return
        if r["ttft_s"] and k["ttft_s"] and abs(r["ttft_s"] - k["ttft_s"]) > 1e-3:
            complain("%s recording: TTFT of %s is %.4f s, not %.4f s" %
                     (what, r["id"], r["ttft_s"], k["ttft_s"]))
            return
    note("%s recording: %d requests, TTFT P50 %.1f ms" %
         (what, len(requests), 1e3 * statistics.median(r["ttft_s"] or 0 for r in requests)
          if requests else 0))


def roots(sonde, env, path):
    """What flame graphs by phase are rooted in."""
    for phase in ("prefill", "decode", "sample"):
        folded = subprocess.run([sonde, "export", "--format", "folded", "--span", phase, path], env=env,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        share = {}
        for line in folded.decode(errors="replace").splitlines():
            stack, weight = line.rsplit(" ", 1)
            root = stack.split(";")[0]
            share[root] = share.get(root, 0.0) + float(weight)
        whole = sum(share.values())
        note("%s is rooted in: %s" % (phase, ", ".join(
            "%s %.1f %%" % (k, 100 * v / whole) for k, v in sorted(share.items(), key=lambda x: -x[1])[:3])
            or "nothing: no samples"))


def tell(run):
    text = open(run.log, errors="replace").read()
    for line in text.splitlines():
        if re.search(r"stacks|llama\.cpp counted|inference requests|lost", line):
            note(line)


if __name__ == "__main__":
    sys.exit(main())

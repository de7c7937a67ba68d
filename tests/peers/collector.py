"""A real OpenTelemetry Collector between the agent and a receiver that decodes what it passes on: the
same counts at both ends. usage: collector.py OTELCOL"""
import json, os, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from push import *

SPANS = 2000
CONFIG = """
receivers:
  otlp:
    protocols:
      http: {endpoint: "127.0.0.1:%d"}
exporters:
  otlphttp:
    endpoint: %s
    sending_queue: {block_on_overflow: true}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics: {receivers: [otlp], exporters: [otlphttp]}
    traces: {receivers: [otlp], exporters: [otlphttp]}
    profiles: {receivers: [otlp], exporters: [otlphttp]}
"""

def sonde(world, *args):
    return subprocess.run([SONDE, *args], env=world.env, check=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True, timeout=WAIT_S).stdout

def profiles(world, receiver, url):
    """A recording goes through it with every function's time as the report has it."""
    run = world.path("burn.run")
    sonde(world, "record", "-q", "-o", run, "--", PROGRAMS + "/burn", "--seconds", "1")
    sonde(world, "push", run, "--to", url)
    until("the profile came through it", lambda: receiver.state()["profiles"])
    report = json.loads(sonde(world, "report", "--json", "--limit", "1000000", run))
    profile, = [p for p in receiver.state()["profiles"] if p["type"] == "cpu"]
    equal("profile: CPU time", int(profile["total"]), report["weight"])
    named = {f["name"]: (f["self"], f["total"]) for f in report["functions"] if "+0x" not in f["name"]}
    got = {n: (int(profile["self"].get(n, 0)), int(total)) for n, total in profile["inclusive"].items()}
    check("profile: every function", len(named) > 3 and all(got.get(n) == v for n, v in named.items()),
          f"{got}\n{named}")

def main(otelcol):
    with World() as world:
        receiver = Receiver(world)
        port = free_port()
        with open(world.path("collector.yaml"), "w") as f: f.write(CONFIG % (port, receiver.url))
        collector = world.start("collector", otelcol, "--config", "file:" + world.path("collector.yaml"),
                                "--feature-gates=service.profilesSupport")
        until("the collector is ready", lambda: "Everything is ready" in open(collector.log).read())
        known = world.ready("known_hist", PROGRAMS + "/known_hist")
        world.ready("recorder", PROGRAMS + "/recorder", str(SPANS), "600")
        agent = Agent(world, "--otlp", f"http://127.0.0.1:{port}", "--set", "push.interval_seconds=0.5")
        until("all spans came through it",
              lambda: sum(s["name"] == "rec.step" for s in receiver.state()["spans"]) >= SPANS)
        until("and metrics", lambda: any(m["name"] == "known_requests_total"
                                         for m in receiver.state()["metrics"].values()))
        state = receiver.state()
        ids = [s["id"] for s in state["spans"] if s["name"] == "rec.step"]
        equal("spans", len(ids), SPANS)
        equal("spans, each once", len(set(ids)), SPANS)
        metrics = {m["name"]: m for m in state["metrics"].values() if m["resource"].get("process.pid") == known.pid}
        equal("counter", int(metrics["known_requests_total"]["int"]), 12345)
        equal("histogram: records", int(metrics["known_seconds"]["count"]), 100000)
        for what in ("dropped_total", "failed_total"):
            equal(what, sum(v for (n, _), v in agent.metrics().items() if n == "sonde_push_" + what), 0)
        profiles(world, receiver, f"http://127.0.0.1:{port}")
        log = open(collector.log).read()
        check("the collector complains of nothing", "error" not in log.lower(), log[-2000:])
        equal("the agent ends well", agent.stop(), 0)

main(*sys.argv[1:])

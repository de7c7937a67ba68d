"""A real OpenTelemetry Collector between the agent and a receiver that decodes what it passes on: the
same counts at both ends. usage: collector.py OTELCOL"""
import os, sys
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
"""

def main(otelcol):
    with World() as world:
        receiver = Receiver(world)
        port = free_port()
        with open(world.path("collector.yaml"), "w") as f: f.write(CONFIG % (port, receiver.url))
        collector = world.start("collector", otelcol, "--config", "file:" + world.path("collector.yaml"))
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
        log = open(collector.log).read()
        check("the collector complains of nothing", "error" not in log.lower(), log[-2000:])
        equal("the agent ends well", agent.stop(), 0)

main(*sys.argv[1:])

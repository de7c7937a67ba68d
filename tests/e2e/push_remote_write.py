"""Remote write into a real Prometheus and a real VictoriaMetrics: all series of programs that rest
have the numbers that /metrics has; what is gone ends at once."""
import sys
from push import *

def prometheus(world, *more):
    port = free_port()
    with open(world.path("prometheus.yml"), "w") as f: f.write("global: { scrape_interval: 1h }\n")
    world.start("prometheus", "prometheus", "--config.file=" + world.path("prometheus.yml"),
                "--storage.tsdb.path=" + world.path("prometheus.data"), "--web.enable-remote-write-receiver",
                f"--web.listen-address=127.0.0.1:{port}", *more)
    url = f"http://127.0.0.1:{port}"
    until("prometheus is ready", lambda: get(url + "/-/ready"))
    return url

def victoria(world):
    port = free_port()
    world.start("victoria", "victoria-metrics", "-storageDataPath=" + world.path("victoria.data"),
                f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=1", "-loggerLevel=ERROR",
                "-search.latencyOffset=0s", "-search.disableCache")
    url = f"http://127.0.0.1:{port}"
    until("victoria-metrics is ready", lambda: get(url + "/health"))
    return url

def query(url, expression):
    answer = get_json(url + "/api/v1/query?nocache=1&query=" + urllib.parse.quote(expression))
    return {tuple(sorted((k, v) for k, v in r["metric"].items() if k not in ("job", "instance"))):
            r["value"][1] if "value" in r else r["histogram"] for r in answer["data"]["result"]}

def ours(agent, pid):
    """All series of a process, as they are on /metrics, without those that change by themselves."""
    out = {}
    for (name, labels), value in agent.metrics().items():
        d = dict(labels)
        if d.get("pid") != str(pid) or not re.match("known_(seconds|requests)|rec_", name): continue
        d = {k: v for k, v in d.items() if v}
        out[tuple(sorted(dict(d, __name__=name).items()))] = value
    return out

def compare(world, url, kind):
    known = world.ready("known_hist", PROGRAMS + "/known_hist")
    recorder = world.ready("recorder", PROGRAMS + "/recorder", "500", "600")
    agent = Agent(world, "--remote-write", url, "--set", "push.interval_seconds=1", "--retain", "1",
                  "--set", "push.labels=team=tests,pid=0")
    until("something is taken", lambda: agent.pushed("sent_total", "remote_write") > 1)
    until("the programs' series", lambda: len(ours(agent, known.pid)) > 10 and len(ours(agent, recorder.pid)) > 4)
    # push.labels has a pid, but every series of a process has its own, which stays.
    def with_team(d): return tuple(sorted(dict(d, team="tests").items()))
    for program, names in ((known, "known_seconds.*|known_requests_total"), (recorder, "rec_.*")):
        wanted = {with_team(k): v for k, v in ours(agent, program.pid).items()}
        def look():
            got = query(url, f'{{__name__=~"{names}",pid="{program.pid}"}}')
            return {k: float(v) for k, v in got.items()} == wanted
        until(f"{kind}: {len(wanted)} series of {names} are equal", look)
        print(f"ok: {kind}: {len(wanted)} series of {names} are equal")
    job, = {dict(k).get("job") for k in
            [tuple(r["metric"].items()) for r in get_json(url + "/api/v1/query?query=rec_level")["data"]["result"]]}
    equal("job", job, "sonde")
    equal("histograms are whole", query(url, 'known_seconds_bucket{le="+Inf"}').popitem()[1], "100000")
    recorder.kill()
    recorder.wait()
    until(f"{kind}: series of a program that is gone end", lambda: not query(url, "rec_level"))
    check("others go on", query(url, "known_requests_total"))
    equal("nothing was refused", agent.pushed("dropped_total", "remote_write", reason="refused"), 0)
    equal("ends well", agent.stop(), 0)

def native(world):
    url = prometheus(world, "--enable-feature=native-histograms")
    known = world.ready("known_hist", PROGRAMS + "/known_hist")
    agent = Agent(world, "--remote-write", url + "/api/v1/write", "--set", "push.interval_seconds=1",
                  "--set", "push.native_histograms=true")
    until("the native histogram came", lambda: query(url, "histogram_count(known_seconds)"))
    equal("native: count", query(url, "histogram_count(known_seconds)").popitem()[1], "100000")
    truth = dict(l.split()[1:] for l in open(known.log) if l.startswith("quantile"))
    for q, value in truth.items():
        got = float(query(url, f"histogram_quantile({q}, known_seconds)").popitem()[1])
        check(f"native: quantile {q}", abs(got - float(value)) <= 0.006 * float(value), f"{got} {value}")
    equal("classic ones too", query(url, 'known_seconds_bucket{le="+Inf"}').popitem()[1], "100000")
    equal("ends well", agent.stop(), 0)

def away(world):
    """It is away for a while; what was read meanwhile is there afterwards, in order."""
    port = free_port()
    recorder = world.ready("recorder", PROGRAMS + "/recorder", "500", "600")
    agent = Agent(world, "--remote-write", f"http://127.0.0.1:{port}", "--set", "push.interval_seconds=0.5")
    until("batches wait on disk", lambda: agent.pushed("spooled_total", "remote_write") >= 6)
    with open(world.path("prometheus.yml"), "w") as f: f.write("global: { scrape_interval: 1h }\n")
    world.start("prometheus", "prometheus", "--config.file=" + world.path("prometheus.yml"),
                "--storage.tsdb.path=" + world.path("data"), "--web.enable-remote-write-receiver",
                f"--web.listen-address=127.0.0.1:{port}")
    url = f"http://127.0.0.1:{port}"
    until("all of it was taken", lambda: agent.pushed("sent_total", "remote_write") >= 7 and
          agent.pushed("queue_batches", "remote_write") <= 1)
    equal("none was refused, so all came in order",
          agent.pushed("dropped_total", "remote_write", reason="refused"), 0)
    points = int(float(query(url, "count_over_time(rec_level[10m])").popitem()[1]))
    check("points of the time it was away", points >= 6, str(points))
    equal("ends well", agent.stop(), 0)

with World() as world:
    if sys.argv[1] == "prometheus": compare(world, prometheus(world), "prometheus")
    elif sys.argv[1] == "victoria": compare(world, victoria(world), "victoria")
    else: {"native": native, "away": away}[sys.argv[1]](world)

"""Profiles that are pushed: decoded, they say what the run they are of says."""
import subprocess
from push import *

def sonde(world, *args, status=0, env={}):
    p = subprocess.run([SONDE, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=WAIT_S, env=dict(world.env, **env))
    if p.returncode != status: fail(f"sonde {' '.join(args)}: {p.returncode}, {p.stdout} {p.stderr}")
    return p

def report(world, file):
    r = json.loads(sonde(world, "report", "--json", "--limit", "1000000", file).stdout)
    return r["weight"], {f["name"]: (f["self"], f["total"]) for f in r["functions"]}

def otlp(world, receiver, run):
    sonde(world, "push", run, "--to", receiver.url)
    state = receiver.state()
    equal("where to", state["log"][-1]["path"], "/v1development/profiles")
    p, = [p for p in state["profiles"] if p["type"] == "cpu"]
    weight, functions = report(world, run)
    equal("otlp: total", int(p["total"]), weight)
    equal("otlp: unit", p["unit"], "nanoseconds")
    equal("otlp: period", int(p["period"]), 1000000)
    got = {n: (int(p["self"].get(n, 0)), int(total)) for n, total in p["inclusive"].items()}
    # Code without a symbol is shown by its place in the report.
    named = {n: v for n, v in functions.items() if "+0x" not in n}
    check("otlp: every function", len(named) > 3 and all(got.get(n) == v for n, v in named.items()),
          f"{got}\n{functions}")
    equal("otlp: service", p["resource"]["service.name"], "burn")
    equal("otlp: the string 0 is empty", p["first"], "")
    check("otlp: threads", sum(int(v) for k, v in p["threads"].items() if k.startswith("thread.id=")) == weight)
    # As a file it is the same but for the resource.
    sonde(world, "export", "--format", "otlp-profile", "-o", world.path("burn.otlp"), run)
    check("otlp: as a file", os.path.getsize(world.path("burn.otlp")) > 1000)

def pyroscope(world, receiver, run):
    sonde(world, "push", "--kind", "pyroscope", "--set", "push.labels=env=test", run,
          "--to", receiver.url)
    ingest = receiver.state()["ingests"][-1]
    q = ingest["query"]
    equal("pyroscope: name", q["name"], "burn{host=%s,env=test}" % os.uname().nodename)
    check("pyroscope: no format, which would say that the body is no form", "format" not in q, str(q))
    check("pyroscope: times", 1 <= int(q["until"]) - int(q["from"]) <= 300 and int(q["from"]) > 1e9, str(q))
    check("pyroscope: what its values are", ingest["config"]["cpu"]["units"] == "nanoseconds", str(ingest))
    equal("pyroscope: what it got is the run's", report(world, ingest["file"]), report(world, run))
    # Since 1.25 Go compiles pprof when it is first asked for, a minute of CPU time: once per build folder.
    top = subprocess.run(["go", "tool", "pprof", "-raw", ingest["file"]], capture_output=True, text=True,
                         timeout=4 * WAIT_S, env=dict(world.env, HOME=world.dir, GOCACHE=BUILD + "/push/go"))
    check("pyroscope: go tool pprof reads it", "cpu/nanoseconds" in top.stdout, top.stdout[:300] + top.stderr)

def after_a_run(world, receiver):
    """`sonde run` sends its profile when the command has ended."""
    before = len(receiver.state()["ingests"])
    sonde(world, "run", "--no-http", "-F", "500", "--pyroscope", receiver.url, "--otlp", receiver.url, "--",
          PROGRAMS + "/burn", "--seconds", "0.5")
    def came():
        state = receiver.state()
        return (any(i["query"]["name"].startswith("burn{") for i in state["ingests"][before:]) and
                len(state["profiles"]) >= 2 and
                any(m["resource"]["service.name"] == "burn" for m in state["metrics"].values()))
    def sent():
        if came(): return True
        # It has some seconds at its end; what is left is sent by the next one.
        sonde(world, "run", "--no-http", "--no-cpu", "--pyroscope", receiver.url, "--otlp", receiver.url, "--",
              "true")
        return came()
    until("run: Pyroscope and the collector got its profile, and metrics", sent)

def all_the_time(world, receiver):
    """Continuous profiling: each minute of a program is sent when it is over, or the agent ends."""
    before = len(receiver.state()["ingests"])
    agent = Agent(world, "--store", world.path("store.db"), "--continuous", "--pyroscope", receiver.url)
    burn = world.start("burn", PROGRAMS + "/burn", "--spans", "--seconds", "600")
    # On a machine where a process cannot be sampled from outside this never comes true.
    end, state = time.monotonic() + 60, {}
    while time.monotonic() < end and not (state and state["history"]["samples"]):
        time.sleep(0.3)
        state = get_json(agent.url + "/admin/profile/continuous")
    burn.kill()
    burn.wait()
    equal("continuous: ends well", agent.stop(), 0)
    if not state["history"]["samples"]:
        check("continuous: nothing can be sampled here", not state["cpu"]["active"], str(state))
        return
    def came():
        return any(i["query"]["name"].startswith("burn{") for i in receiver.state()["ingests"][before:])
    if not came(): # there was no time for it at the end: the next agent sends it
        agent = Agent(world, "--pyroscope", receiver.url)
        until("continuous: what was left is sent", came)
        agent.stop()
    print("ok: continuous: its minutes came")

def refused(world, receiver, run):
    receiver.behave("400")
    p = sonde(world, "push", run, "--to", receiver.url, status=1)
    check("the reason is told", "HTTP 400: told to say so" in p.stderr, p.stderr)
    p = sonde(world, "push", run, "--to", f"http://127.0.0.1:{free_port()}", status=1)
    check("nobody is there", "onnect" in p.stderr, p.stderr)
    for url, says in (("ftp://x", "not a URL"), ("http://u:p@x", "credentials"), ("http://x?a=b", "no ?")):
        p = sonde(world, "push", run, "--to", url, status=2)
        check(f"{url} is a mistake", says in p.stderr, p.stderr)
    p = sonde(world, "push", run, status=2)
    with open(world.path("bad"), "w") as f: f.write("no header\n")
    p = sonde(world, "push", "--set", "push.otlp_headers=" + world.path("bad"), run, "--to", receiver.url, status=2)
    check("a header that is none", "line 1" in p.stderr, p.stderr)

def tls(world, run):
    key, certificate = world.path("key.pem"), world.path("cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-days", "2", "-keyout", key, "-out", certificate, "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True, timeout=WAIT_S)
    receiver = Receiver(world, certificate=certificate, key=key)
    p = sonde(world, "push", run, "--to", receiver.url, status=1, env={"SSL_CERT_FILE": ""})
    check("a certificate that nobody vouches for", "certificate" in p.stderr, p.stderr)
    sonde(world, "push", run, "--to", receiver.url, env={"SSL_CERT_FILE": certificate})
    print("ok: with a certificate that is trusted")

with World() as world:
    run = world.path("burn.run")
    sonde(world, "record", "-q", "-o", run, "--", PROGRAMS + "/burn", "--seconds", "0.7")
    receiver = Receiver(world)
    otlp(world, receiver, run)
    pyroscope(world, receiver, run)
    after_a_run(world, receiver)
    all_the_time(world, receiver)
    refused(world, receiver, run)
    tls(world, run)

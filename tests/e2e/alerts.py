"""Alerts at real receivers: alerts.py PART. A program has a gauge that the test sets; what arrives at an
HTTP server of the test's is compared with what the gauge did."""
import http.server, json, os, random, socket, subprocess, sys, threading, time
import jsonschema
from push import Agent, PROGRAMS, SONDE, World, check, equal, fail, free_port, get, get_json, until

# Alertmanager's api/v2/openapi.yaml: postableAlerts.
POSTABLE_ALERTS = {
    "type": "array", "minItems": 1, "items": {
        "type": "object", "required": ["labels"], "additionalProperties": False,
        "properties": {
            "labels": {"type": "object", "minProperties": 1, "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"},
                       "additionalProperties": {"type": "string", "minLength": 1}},
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
            "generatorURL": {"type": "string", "format": "uri", "pattern": "^https?://"},
            "startsAt": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"},
            "endsAt": {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}}}}

# What Slack's incoming webhooks take, of what we send.
SLACK = {
    "type": "object", "required": ["text"], "additionalProperties": False, "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 40000},
        "attachments": {"type": "array", "maxItems": 100, "items": {
            "type": "object", "additionalProperties": False, "required": ["fallback"], "properties": {
                "color": {"type": "string", "pattern": "^(good|warning|danger|#[0-9a-f]{6})$"},
                "fallback": {"type": "string"}, "title": {"type": "string"},
                "title_link": {"type": "string", "pattern": "^https?://"}, "footer": {"type": "string", "maxLength": 300},
                "ts": {"type": "integer", "minimum": 1},
                "fields": {"type": "array", "items": {"type": "object", "required": ["title", "value"],
                           "additionalProperties": False, "properties": {"title": {"type": "string"},
                           "value": {"type": "string"}, "short": {"type": "boolean"}}}}}}}}}

GENERIC = {
    "type": "object", "additionalProperties": False,
    "required": ["id", "state", "kind", "severity", "summary", "value", "labels", "started", "fired", "resolved", "time"],
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9a-f]{16}-[0-9a-f]+-(firing|resolved)$"},
        "state": {"enum": ["firing", "resolved"]}, "kind": {"type": "string"},
        "severity": {"enum": ["info", "warning", "critical"]}, "summary": {"type": "string", "minLength": 1},
        "value": {"type": ["number", "null"]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "started": {"type": "number"}, "fired": {"type": "number"}, "resolved": {"type": ["number", "null"]},
        "time": {"type": "number"}, "host": {"type": ["string", "null"]}, "link": {"type": ["string", "null"]},
        "agent": {"type": "string"}}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, text=""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.status.pop(0) if self.server.status else 200
        with self.server.lock:
            self.server.log.append((self.path, json.loads(body), dict(self.headers), status))
        if self.server.gate: self.server.gate.wait(60)
        try:
            self.answer(status, "said so" if status >= 300 else "")
        except OSError:
            pass  # the agent was killed meanwhile


class Server(http.server.ThreadingHTTPServer):
    """A receiver; may be away."""
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, port=0, log=None):
        self.connections = []
        super().__init__(("127.0.0.1", port), Handler)
        self.status, self.gate, self.lock = [], None, threading.Lock()
        self.log = [] if log is None else log
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # agents are killed here

    def get_request(self):
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def away(self):
        """Like a server that was killed: connections that are kept end, too."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already


class Scene(World):
    def __init__(self):
        super().__init__()
        self.hook = Server()
        self.agent = None
        self.gauge = subprocess.Popen([PROGRAMS + "/gauge_set"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True, bufsize=1, env=self.env)
        self.children.append(self.gauge)

    def show(self, value):
        self.gauge.stdin.write(f"{value}\n")
        if self.gauge.stdout.readline() != "set\n": fail("the program with the gauge has ended")

    def settings(self, **more):
        port = self.hook.port
        alerts = {
            "webhook": f"http://127.0.0.1:{port}/hook", "for_seconds": 0, "keep_seconds": 0, "log": False,
            "state": self.path("alerts.state"), "timeout_seconds": 30,
            "rules": [{"name": "high", "series": "shown", "above": 10, "severity": "critical"}]}
        alerts.update(more)
        path = self.path("config.json")
        json.dump({"alerts": alerts, "agent": {"host_metrics": False}}, open(path, "w"))
        return path

    def start_agent(self, **more):
        self.agent = Agent(self, "--config", self.settings(**more), "--interval", "0.1")
        return self.agent

    def alerts(self):
        return get_json(self.agent.url + "/api/alerts")

    def states(self):
        return [a["state"] for a in self.alerts()["alerts"]]

    def turn(self, value):
        """Sets the gauge and waits until the agent has drawn its conclusion."""
        self.show(value)
        wanted = "firing" if value > 10 else "resolved"
        until(f"{wanted} at {value}", lambda: self.states() == [wanted])

    def came(self, path="/hook", all_tries=False):
        with self.hook.lock:
            return [b for p, b, _, status in self.hook.log if p == path and (all_tries or status < 300)]

    def arrived(self, count, path="/hook"):
        until(f"{count} at {path}", lambda: len(self.came(path)) >= count)
        return self.came(path)

    def hook_away(self):
        self.hook.away()

    def hook_back(self):
        self.hook = Server(self.hook.port, self.hook.log)


def ids_once(what, bodies):
    ids = [b["id"] for b in bodies]
    equal(f"{what}: each id once", len(ids), len(set(ids)))


def alternate(what, bodies):
    """firing, resolved, firing, …; each pair of one episode, in order of time."""
    equal(f"{what}: order", [b["state"] for b in bodies], ["firing", "resolved"] * (len(bodies) // 2) +
          ["firing"] * (len(bodies) % 2))
    for firing, resolved in zip(bodies[::2], bodies[1::2]):
        if firing["started"] != resolved["started"]: fail(f"{what}: {firing} and {resolved} are not of one episode")
        if not firing["fired"] <= resolved["resolved"]: fail(f"{what}: resolved before it fired: {resolved}")


def forms(scene):
    """Bodies of all forms, and a command; firing and resolved, in order."""
    out = scene.path("command.out")
    open(scene.path("headers"), "w").write("Authorization: Bearer secret-1\n# a comment\n")
    port = scene.hook.port
    open(scene.path("slack.url"), "w").write(f"http://127.0.0.1:{port}/services/T0/B0/secret-2\n")
    program = scene.path("program")
    open(program, "w").write('#!/bin/sh\nread -r line\nprintf "%s %s\\n" "$SONDE_ALERT_STATE" "$line" >>' + out + "\n")
    os.chmod(program, 0o755)
    agent = scene.start_agent(headers=scene.path("headers"), url="http://sonde.example:6060", receivers=[
        {"kind": "slack", "url_file": scene.path("slack.url")},
        {"kind": "alertmanager", "url": f"http://127.0.0.1:{port}", "name": "am"},
        {"kind": "command", "command": [program, "; touch " + scene.path("shell")]}])
    until("it is seen", lambda: scene.alerts()["rules"][0]["values"] == 1)
    equal("nothing below the limit", scene.alerts()["alerts"], [])
    equal("check: nothing fires", subprocess.run([SONDE, "alerts", "check", "-q", agent.url]).returncode, 0)
    scene.turn(50)
    scene.arrived(1)
    equal("check: one fires", subprocess.run([SONDE, "alerts", "check", "-q", agent.url]).returncode, 3)
    scene.turn(3)
    bodies = scene.arrived(2)
    for b in bodies: jsonschema.validate(b, GENERIC)
    alternate("generic", bodies)
    equal("the value", [b["value"] for b in bodies], [50, 3])
    equal("the link", bodies[0]["link"], "http://sonde.example:6060/api/query?name=shown")
    with scene.hook.lock: headers = [h for p, _, h, _ in scene.hook.log if p == "/hook"]
    equal("the token", {h.get("Authorization") for h in headers}, {"Bearer secret-1"})
    equal("the key", [h.get("Idempotency-Key") for h in headers], [b["id"] for b in bodies])
    slack = scene.arrived(2, "/services/T0/B0/secret-2")
    for b in slack: jsonschema.validate(b, SLACK)
    equal("Slack", [b["attachments"][0]["color"] for b in slack], ["danger", "good"])
    am = scene.arrived(2, "/api/v2/alerts")
    for b in am: jsonschema.validate(b, POSTABLE_ALERTS)
    equal("Alertmanager: one alert by its labels", am[0][0]["labels"], am[-1][0]["labels"])
    check("Alertmanager: ends later, then now", am[0][0]["endsAt"] > am[-1][0]["endsAt"])
    until("the command", lambda: os.path.exists(out) and len(open(out).read().splitlines()) == 2)
    lines = [line.split(" ", 1) for line in open(out).read().splitlines()]
    equal("the command: environment", [l[0] for l in lines], ["firing", "resolved"])
    equal("the command: input", [json.loads(l[1])["id"] for l in lines], [b["id"] for b in bodies])
    check("never a shell", not os.path.exists(scene.path("shell")))
    shown = get(agent.url + "/api/alerts") + open(agent.process.log).read()
    check("no secrets are shown", "secret" not in shown)
    for name in ("webhook", "slack", "am", "command"):
        key = ("sonde_alert_notifications_total", tuple(sorted({"receiver": name, "outcome": "sent"}.items())))
        until(f"{name} has counted", lambda: agent.metrics().get(key) == 2)
    # By hand: all receivers, then one that refuses.
    run = subprocess.run([SONDE, "alerts", "test", agent.url], capture_output=True, text=True)
    equal("test: all arrive", (run.returncode, [l.split()[0] for l in run.stdout.splitlines()]), (0, ["ok"] * 4))
    scene.hook.status = [401]
    run = subprocess.run([SONDE, "alerts", "test", "--config", scene.settings()], capture_output=True, text=True)
    equal("test: refused", run.returncode, 1)
    check("test: what to do", "HTTP 401" in run.stdout and "token" in run.stdout, run.stdout)
    agent.stop()


def outage(scene):
    """A receiver that is away, and one that says later: everything in order, once each."""
    agent = scene.start_agent()
    scene.turn(50)
    scene.arrived(1)
    scene.hook_away()
    for value in (3, 60, 4, 70, 5): scene.turn(value)
    until("it fails", lambda: scene.alerts()["receivers"][0]["failed"] > 0)
    equal("what waits", scene.alerts()["receivers"][0]["queued"], 5)
    scene.hook_back()
    bodies = scene.arrived(6)
    alternate("after the outage", bodies)
    ids_once("after the outage", bodies)
    scene.hook.status = [503, 429, 500]
    scene.turn(80)
    bodies = scene.arrived(7)
    tries = [b["id"] for b in scene.came(all_tries=True)][-4:]
    equal("tries have one id", len(set(tries)), 1)
    scene.hook.status = [400]
    scene.turn(6)
    until("refused", lambda: scene.alerts()["receivers"][0]["refused"] == 1)
    scene.turn(90)
    bodies = scene.arrived(8)
    equal("goes on after a refusal", bodies[-1]["value"], 90)
    # An alert that fires over restarts is not told again.
    agent.stop()
    scene.start_agent()
    until("it is known", lambda: scene.states() == ["firing"])
    until("it was looked at", lambda: scene.alerts()["rules"][0]["values"] == 1)
    scene.turn(7)
    bodies = scene.arrived(9)
    equal("one more, its resolution", (len(bodies), bodies[-1]["state"], bodies[-1]["started"]),
          (9, "resolved", bodies[-2]["started"]))
    ids_once("all", bodies)
    scene.agent.stop()


def killed(scene):
    """kill -9: with notifications that wait, in the middle of one, and at random."""
    scene.start_agent()
    scene.turn(50)
    scene.arrived(1)
    scene.hook_away()
    for value in (3, 60): scene.turn(value)
    until("it was tried", lambda: scene.alerts()["receivers"][0]["failed"] > 0)
    scene.agent.kill()
    scene.hook_back()
    scene.start_agent()
    bodies = scene.arrived(3)
    alternate("queue of one that was killed", bodies)
    ids_once("queue of one that was killed", bodies)
    # The receiver has it, the agent does not know: it comes again under the same id.
    scene.hook.gate = threading.Event()
    scene.show(4)
    until("it is being sent", lambda: len(scene.came()) == 4)
    scene.agent.kill()
    scene.hook.gate.set()
    scene.hook.gate = None
    scene.start_agent()
    bodies = scene.arrived(5)
    equal("twice, with one id", bodies[3]["id"], bodies[4]["id"])
    equal("and one text", bodies[3], bodies[4])
    # At random moments, and a receiver that comes and goes.
    seed = int(os.environ.get("SONDE_TEST_SEED", "1"))
    print("seed", seed)
    dice = random.Random(seed)
    for i in range(12):
        if i % 4 == 1: scene.hook_away()
        scene.show(20 + i if i % 2 == 0 else 1)
        time.sleep(dice.uniform(0, 0.6))
        scene.agent.kill()
        if i % 4 == 3: scene.hook_back()
        scene.start_agent()
    scene.turn(99)
    last = lambda: scene.came() and scene.came()[-1]
    until("the last is known", lambda: last()["state"] == "firing" and
          scene.alerts()["receivers"][0]["queued"] == 0)
    scene.turn(2)
    until("the last is over", lambda: last()["state"] == "resolved" and last()["value"] == 2)
    once = {}
    for b in scene.came():
        if b != once.setdefault(b["id"], b): fail(f"two notifications are {b['id']}: {b} {once[b['id']]}")
    alternate("all that was told", list(once.values()))
    print(f"{len(scene.came())} came, {len(once)} by id, {len(once) // 2} episodes")
    scene.agent.stop()


def muting(scene):
    agent = scene.start_agent()
    def mute(*options):
        run = subprocess.run([SONDE, "alerts", "mute", *options, agent.url], capture_output=True, text=True)
        if run.returncode: fail(run.stderr)
        return run.stdout.split()[1]
    mute("--label", "kind=other*")
    number = mute("--label", "kind=hi*", "--label", "severity=critical", "--for", "3600", "--comment", "test")
    scene.turn(50)
    a = scene.alerts()["alerts"][0]
    equal("listed as muted", (a["state"], a["muted"], a["muted_by"]), ("firing", True, int(number)))
    equal("check does not count it", subprocess.run([SONDE, "alerts", "check", "-q", agent.url]).returncode, 0)
    scene.turn(5)
    scene.turn(60)
    # Mutes outlive the agent.
    agent.kill()
    agent = scene.start_agent()
    until("still muted", lambda: [a["muted"] for a in scene.alerts()["alerts"]] == [True])
    equal("nothing came", scene.came(), [])
    equal("unmute", subprocess.run([SONDE, "alerts", "unmute", number, agent.url]).returncode, 0)
    bodies = scene.arrived(1)
    equal("what still fires is told then", (bodies[0]["state"], bodies[0]["value"]), ("firing", 60))
    scene.turn(6)
    alternate("after the mute", scene.arrived(2))
    bad = subprocess.run([SONDE, "alerts", "mute", "--weekly", "Mondays", agent.url], capture_output=True, text=True)
    check("a bad mute is refused", bad.returncode != 0 and "weekly" in bad.stderr, bad.stderr)
    agent.stop()


def alertmanager(scene):
    """The real one, which forwards to the test's server."""
    port, cluster = free_port(), scene.path("am")
    open(scene.path("am.yml"), "w").write(
        "route: {receiver: hook, group_wait: 0s, group_interval: 1s, repeat_interval: 1h}\n"
        f"receivers: [{{name: hook, webhook_configs: [{{url: 'http://127.0.0.1:{scene.hook.port}/from-am'}}]}}]\n")
    am = scene.start("alertmanager", "prometheus-alertmanager", "--config.file=" + scene.path("am.yml"),
                     "--storage.path=" + cluster, f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=")
    url = f"http://127.0.0.1:{port}"
    until("Alertmanager is ready", lambda: get(url + "/-/ready") or am.poll() is None)
    scene.start_agent(webhook=url, form="alertmanager", url="http://sonde.example:6060")
    scene.turn(50)
    alert = until("it has the alert", lambda: get_json(url + "/api/v2/alerts"))[0]
    equal("its name", (alert["labels"]["alertname"], alert["labels"]["severity"], alert["status"]["state"]),
          ("high", "critical", "active"))
    check("its text", "shown" in alert["annotations"]["summary"])
    equal("its link", alert["generatorURL"], "http://sonde.example:6060/api/query?name=shown")
    scene.turn(5)
    until("it has told both", lambda: [b["status"] for b in scene.came("/from-am")][-1:] == ["resolved"])
    equal("firing came first", scene.came("/from-am")[0]["status"], "firing")
    until("it has no alert any more", lambda: get_json(url + "/api/v2/alerts") == [])
    equal("nothing failed", [scene.alerts()["receivers"][0][k] for k in ("failed", "refused", "dropped")], [0, 0, 0])
    scene.agent.stop()


with Scene() as scene:
    globals()[sys.argv[1]](scene)

"""What test_push_*.sh share: programs that are started and surely ended, an agent, a collector."""
import json, os, re, signal, socket, subprocess, sys, tempfile, time, urllib.parse, urllib.request
import shutil

BUILD = os.environ["SONDE_BUILD"]
SONDE = BUILD + "/sonde"
PROGRAMS = BUILD + "/programs"
WAIT_S = 120

def fail(text):
    raise SystemExit("FAILED: " + text)

def check(what, ok, detail=""):
    if not ok: fail(f"{what} {detail}")
    print("ok:", what)

def equal(what, got, wanted):
    if got != wanted: fail(f"{what}: {got!r}, expected {wanted!r}")
    print(f"ok: {what}: {str(got)[:100]}")

def until(what, look):
    """What look returns once it is true. Somebody who does not answer yet is a reason to wait."""
    end = time.monotonic() + WAIT_S
    while True:
        last = None
        try:
            last = look()
        except (OSError, ValueError) as e:
            last, error = None, e
            if time.monotonic() > end: fail(f"never true: {what}; last: {error}")
        if last: return last
        if time.monotonic() > end: fail(f"never true: {what}")
        time.sleep(0.1)

def get(url, timeout=30):
    with urllib.request.urlopen(url, timeout=timeout) as r:
        return r.read().decode()

def get_json(url):
    return json.loads(get(url))

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]

class World:
    """A folder, the programs in it, and their end."""
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="sonde-push-")
        self.children = []
        self.count = 0
        os.mkdir(self.path("segments"), 0o700)
        self.env = dict(os.environ, SONDE_DIR=self.path("segments"),
                        XDG_STATE_HOME=self.path("state"), LC_ALL="C.UTF-8")
        for name in list(self.env):
            if name.startswith("OTEL_") or name.lower().endswith("_proxy") or name == "SONDE_TOKEN":
                del self.env[name]

    def path(self, name):
        return os.path.join(self.dir, name)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for child in reversed(self.children):
            if child.poll() is None: child.kill()
            child.wait()
        if kind:
            for name in sorted(os.listdir(self.dir)):
                if name.endswith(".log"):
                    print(f"---- {name}", open(self.path(name)).read()[-3000:], sep="\n", file=sys.stderr)
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, name, *command, env={}):
        self.count += 1
        log = self.path(f"{self.count}-{name}.log")
        child = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, env=dict(self.env, **env))
        child.log = log
        self.children.append(child)
        return child

    def ready(self, name, *command, line="ready"):
        """Start a program and wait until it says so."""
        child = self.start(name, *command)
        until(f"{name} is {line}", lambda: re.search(f"^{line}$", open(child.log).read(), re.M))
        return child

class Agent:
    def __init__(self, world, *options, env={}):
        self.process = world.start("agent", SONDE, "serve", "--listen", "127.0.0.1:0", "--interval", "0.5",
                                   *options, env=env)
        self.url = until("the agent listens", lambda: self.listens()).group()

    def listens(self):
        if self.process.poll() is not None:
            fail("the agent ended: " + open(self.process.log).read())
        return re.search(r"http://[0-9.]+:[0-9]+", open(self.process.log).read())

    def metrics(self):
        """All samples of /metrics: {(name, labels): value}"""
        out = {}
        for line in get(self.url + "/api/export?format=prometheus").splitlines():
            m = re.match(r'([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$', line)
            if not m: continue
            labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m.group(2) or "")
            plain = {k: v.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\") for k, v in labels}
            out[m.group(1), tuple(sorted(plain.items()))] = float(m.group(3))
        return out

    def pushed(self, name, destination, **labels):
        """One of its own figures; 0 before it is there."""
        wanted = tuple(sorted(dict(labels, destination=destination).items()))
        return self.metrics().get(("sonde_push_" + name, wanted), 0)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            fail("the agent does not end")

    def kill(self):
        self.process.kill()
        self.process.wait()

class Receiver:
    """tests/push/receiver.mjs"""
    def __init__(self, world, port=0, certificate=None, key=None):
        world.count += 1
        self.folder = world.path(f"receiver-{world.count}")
        os.mkdir(self.folder)
        file = self.folder + "/port"
        tools = BUILD + "/push"
        more = [certificate, key] if certificate else []
        self.process = world.start("receiver", "node", tools + "/receiver.mjs", tools + "/protos", file,
                                   self.folder, str(port), *more)
        def listens():
            if self.process.poll() is not None: fail("the receiver ended: " + open(self.process.log).read())
            return os.path.exists(file)
        until("the receiver listens", listens)
        self.port = int(open(file).read())
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}"

    def state(self):
        s = get_json(self.url + "/state")
        for entry in s["log"]:
            if entry.get("error"): fail(f"{entry['path']} cannot be decoded: {entry['error']}")
        return s

    def behave(self, words):
        urllib.request.urlopen(self.url + "/behave", data=words.encode(), timeout=30).read()

    def stop(self):
        self.process.kill()
        self.process.wait()

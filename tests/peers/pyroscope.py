"""A real Pyroscope takes the profile that `sonde push` sends, and its query answers with the run's own
weights. usage: pyroscope.py PYROSCOPE"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from push import *

CONFIG = """
server: {http_listen_address: 127.0.0.1, http_listen_port: %d, grpc_listen_address: 127.0.0.1, grpc_listen_port: %d, log_level: error}
memberlist: {bind_addr: [127.0.0.1], advertise_addr: 127.0.0.1, bind_port: %d}
distributor: {ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
ingester: {lifecycler: {address: 127.0.0.1, ring: {kvstore: {store: inmemory}, replication_factor: 1}}}
query_scheduler: {ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
store_gateway: {sharding_ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
compactor: {sharding_ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}}
frontend: {address: 127.0.0.1}
storage: {backend: filesystem, filesystem: {dir: %s}}
pyroscopedb: {data_path: %s}
self_profiling: {disable_push: true}
analytics: {reporting_enabled: false}
"""

def sonde(world, *args):
    p = subprocess.run([SONDE, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=WAIT_S, env=world.env)
    if p.returncode: fail(f"sonde {' '.join(args)}: {p.returncode}, {p.stdout} {p.stderr}")
    return p.stdout

def main(pyroscope):
    with World() as world:
        port = free_port()
        with open(world.path("pyroscope.yaml"), "w") as f:
            f.write(CONFIG % (port, free_port(), free_port(), world.path("blocks"), world.path("db")))
        url = f"http://127.0.0.1:{port}"
        world.start("pyroscope", pyroscope, "-config.file=" + world.path("pyroscope.yaml"))
        until("Pyroscope is ready", lambda: "ready" in get(url + "/ready"))
        run = world.path("burn.run")
        sonde(world, "record", "-q", "-o", run, "--", PROGRAMS + "/burn", "--seconds", "2")
        sonde(world, "push", "--kind", "pyroscope", run, "--to", url)
        report = json.loads(sonde(world, "report", "--json", run))
        query = urllib.parse.urlencode({
            "query": 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="burn"}',
            "from": "now-1h", "until": "now", "format": "json"})
        def rendered():
            r = get_json(f"{url}/pyroscope/render?{query}")
            return r if r.get("flamebearer", {}).get("numTicks") else None
        bearer = until("it answers for the profile", rendered)["flamebearer"]
        equal("CPU time", bearer["numTicks"], report["weight"])
        functions = {f["name"] for f in report["functions"][:5]}
        check("its functions", functions <= set(bearer["names"]), f"{functions} {bearer['names']}")

main(*sys.argv[1:])

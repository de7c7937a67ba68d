#!/usr/bin/env bash
# The dashboard as one file: of files of others, of a run, of an agent; what is in it is what other
# commands and the agent say, whatever names hold.
. "$(dirname "$0")/common.sh"
cd "$scratch" || exit

cat >data.py <<'PY'
import base64, hashlib, json, re, sys
def load(path):
    text = open(path, encoding="utf-8", newline="").read()
    head, rest = text.split('<script type="application/json" id="sonde-data">', 1)
    data, rest = rest.split("</script>", 1)
    script = re.fullmatch(r"\n<script>(.*)</script>\n</body>\n</html>\n", rest, re.S).group(1)
    style = re.search(r"<style>(.*?)</style>", head, re.S).group(1)
    for kind, inside in (("script", script), ("style", style)):
        sha = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{sha}'" in head, kind
    assert "default-src 'none'" in head and "unsafe" not in head and " src=" not in head and "@import" not in style
    assert len(text) - len(data) <= 1 << 20, len(text) - len(data)
    return json.loads(data)
PY

# ---- a file of another tool, with names that try to get out -------------------------------------
printf 'main;handle;parse 30\nmain;a&b"c</script><script>alert(1)</script> 60\nmain;\xe2\x80\xaeevil\xe2\x80\xa8\xf0\x9f\x94\xa5 10\n' >hostile.folded
status 0 "$sonde" report --format html -o hostile.html hostile.folded
python3 - <<'PY' || complain "a hostile file"
from data import load
d = load("hostile.html")
assert d["version"] == 1 and d["pages"][0] == "cpu" and d["source"] == "hostile.folded", d["pages"]
(key,) = [k for k in d["answers"] if k.startswith("/api/flamegraph?")]
graph = d["answers"][key]
assert key.endswith("&type=samples") and d["query"] in key.replace("?", "&"), (key, d["query"])
names = graph["strings"]
assert 'a&b"c</script><script>alert(1)</script>' in names, names
assert any("evil" in n for n in names)
assert graph["about"]["samples"] == 100
PY
status 0 "$sonde" report -o suffix.html hostile.folded
has "by the suffix" '^<!doctype html>' suffix.html
status 0 "$sonde" report --format text -o text.html hostile.folded
lacks "the format goes first" '<!doctype' text.html
for format in text markdown json; do
    "$sonde" report --format $format hostile.folded >1
    "$sonde" report $([ $format = text ] || echo --$format) hostile.folded >2
    same "--format $format" "$(cat 2)" "$(cat 1)"
done
status 2 "$sonde" report --format html --json hostile.folded
has "two formats" 'one of them' err
status 2 "$sonde" report --format html --phase decode hostile.folded
has "chosen in the file" 'is chosen in' err
status 2 "$sonde" report --format yaml hostile.folded
: >empty
status 2 "$sonde" report --format html -o x.html empty
[ ! -e x.html ] || complain "a file of nothing was written"

# ---- a run of an engine -------------------------------------------------------------------------
status 0 "$sonde" record -o engine.run -- "$SONDE_BUILD/example_engine" --clients 2 --requests 20 --decode-ms 1 --tokens 8
status 0 "$sonde" report --format html -o engine.html engine.run
"$sonde" requests --json --limit 1000 engine.run >requests.json
python3 - <<'PY' || complain "a run of an engine"
import json
from data import load
d = load("engine.html")
a, requests = d["answers"], json.load(open("requests.json"))["requests"]
assert "requests" in d["pages"] and "/api/inference" in a, d["pages"]
(key,) = [k for k in a if k.startswith("/api/requests?")]
assert sorted(a[key]["requests"], key=lambda r: r["id"]) == sorted(requests, key=lambda r: r["id"])
assert a[key]["total"] == len(requests)
totals = a["/api/inference"]["totals"]
assert totals["tokens_out"] == sum(r["tokens_out"] for r in requests)
assert sum(totals["requests"].values()) == len(requests)
(group,) = a["/api/inference"]["groups"]
ttft = sorted(r["ttft_s"] for r in requests if r["ttft_s"] is not None)
assert group["ttft"]["count"] == len(ttft) and abs(group["ttft"]["max"] - ttft[-1]) < 1e-9
assert abs(group["ttft"]["p50"] - ttft[-(-len(ttft) // 2) - 1]) < 1e-9
(model,) = a["/api/inference"]["models"]
assert model["model"] == group["model"] and model["batches"] > 0
if "cpu" in d["pages"]:
    (cpu,) = [v for k, v in a.items() if k.startswith("/api/flamegraph?from=") and k.endswith("type=cpu") and "phase" not in k and "request" not in k and "slowest" not in k]
    assert cpu["kind"] == "cpu"
PY

# ---- an agent -----------------------------------------------------------------------------------
start_agent log --no-processes --store "$scratch/store.db"
until_true curl -sf "$url/readyz"
status 0 "$sonde" report --format html -o agent.html --from -60 "$url"
python3 - "$url" <<'PY' || complain "an agent"
import json, sys, urllib.request
from data import load
d = load("agent.html")
a = d["answers"]
assert d["pages"][0] == "dashboard" and d["source"] == sys.argv[1], d["pages"]
assert {"/api/inference", "/health", "/api/processes", "/api/series"} <= set(a), list(a)
there = json.load(urllib.request.urlopen(sys.argv[1] + "/api/series"))
assert {f["name"] for f in a["/api/series"]["families"]} <= {f["name"] for f in there["families"]}
first, last = (int(p.split("=")[1]) for p in d["query"].split("&"))
assert last - first == 60
PY
status 2 "$sonde" report --format html --from 5 -o x.html "$url"
has "a time" 'SECONDS ago, or unix time' err
status 2 "$sonde" report --format html --strip -o x.html "$url"
has "--strip" 'decided when it is started' err
kill -TERM "$agent"
wait "$agent"
status 1 "$sonde" report --format html -o x.html "$url"
has "no agent" 'start an agent there' err
cat >other.py <<'PY'
import http.server
class Other(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Other)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 other.py >port &
started+=($!)
until_true test -s port
status 1 "$sonde" report --format html -o other.html "http://127.0.0.1:$(cat port)"
has "another server" 'not as an agent does' err
[ ! -e other.html ] || complain "a report of another server was written"
# One that begins like an agent and then drips: it is given up, not waited for at each question.
cat >drip.py <<'PY'
import http.server, time
class Drip(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.path == "/api/inference":
            self.wfile.write(b'{"time":1794800000,"models":[]}')
            return
        try:
            while True:
                self.wfile.write(b" ")
                time.sleep(0.2)
        except OSError:
            pass
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Drip)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 drip.py >port_drip &
started+=($!)
until_true test -s port_drip
status 1 timeout 300 "$sonde" report --format html -o drip.html "http://127.0.0.1:$(cat port_drip)"
has "which" "http://127.0.0.1:$(cat port_drip)/api/" err
has "what to do" 'stalled or is too busy.*try again later' err
[ ! -e drip.html ] || complain "half a report was written"
SONDE_TOKEN=correct-horse-battery-staple start_agent log --no-processes --store "$scratch/store2.db"
until_true curl -sf "$url/readyz"
status 1 "$sonde" report --format html -o x.html "$url"
has "no token" 'a token is needed' err
SONDE_TOKEN=correct-horse-battery-staple status 0 "$sonde" report --format html -o x.html "$url"
finish

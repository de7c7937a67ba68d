"""Exporters that behave badly, each at a path of its own; prints its port. /good is one that does
not, and /flaky one that can be told to: POST /flaky/0 or /flaky/1."""
import gzip, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GOOD = b"""# HELP good_requests_total Requests.
# TYPE good_requests_total counter
good_requests_total{path="/a\\\\b\\"c\\nd",job="theirs"} 12345678901
# TYPE good_seconds_total counter
good_seconds_total 0.30000000000000004
# TYPE good_level gauge
good_level NaN
good_untyped 1.5e-300
# TYPE good_size histogram
good_size_bucket{le="1"} 1
good_size_bucket{le="+Inf"} 3
good_size_sum 7.25
good_size_count 3
"""
OPEN = b"""# TYPE open counter
open_total 5 # {trace_id="abc"} 1.0
# EOF
"""
flaky = [True]

class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args): pass

    def reply(self, body, kind="text/plain; version=0.0.4", encoding=None, length=None, status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if encoding: self.send_header("Content-Encoding", encoding)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        flaky[0] = self.path.endswith("1")
        self.reply(b"")

    def do_GET(self):
        try: getattr(self, "path_" + self.path.strip("/"))()
        except OSError: pass

    def path_ready(self): self.reply(b"ready\n")
    def path_good(self): self.reply(GOOD)
    def path_packed(self): self.reply(gzip.compress(GOOD), encoding="gzip")
    def path_open(self): self.reply(OPEN, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    def path_cut(self): self.reply(OPEN[:-6], "application/openmetrics-text; version=1.0.0")
    def path_garbage(self): self.reply(bytes(range(256)) * 100)
    def path_short(self): self.reply(GOOD, length=len(GOOD) + 1000); self.close_connection = True
    def path_error(self): self.reply(b"no\n", status=500)
    def path_hang(self): time.sleep(3600)
    def path_flaky(self): self.reply(GOOD if flaky[0] else b"x", status=200 if flaky[0] else 503)
    def path_bomb(self): self.reply(gzip.compress(b"# " + b"x" * (20 << 20) + b"\n"), encoding="gzip")
    def path_loop(self):
        self.send_response(302)
        self.send_header("Location", "/loop")
        self.send_header("Content-Length", "0")
        self.end_headers()
    def path_secret(self):
        if self.headers.get("Authorization") == "Bearer sesame-open-now-please": self.reply(b"secret 1\n")
        else: self.reply(b"", status=401)
    def path_many(self):
        self.reply(b"".join(b'many{n="%d"} %d\n' % (i, i) for i in range(60000)))
    def path_endless(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        n = 0
        while True:
            self.wfile.write(b"".join(b'endless{n="%d"} 1\n' % (n + i) for i in range(10000)))
            n += 10000

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()

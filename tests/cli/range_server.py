"""range_server.py BYTES: an HTTP server with a cache that says what it did, for test_bench_cache.sh.

Prints its port. /good has ranges, an ETag and X-Cache: a range is a MISS the first time and a HIT from then on, unless
no-cache is asked for. /silent says nothing of caches, /plain knows no ranges, /more sends more than it was asked for,
/short less, /missing is not there. /log: what was answered on /good, as JSON."""
import http.server
import json
import sys
import threading

DATA = bytes(i * 7 % 251 for i in range(int(sys.argv[1])))
ETAG = '"abc"'
lock = threading.Lock()
seen = set()
log = {"hit": 0, "miss": 0, "not_modified": 0, "connections": 0}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        with lock:
            log["connections"] += 1

    def log_message(self, *args):
        pass

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 304:
            self.wfile.write(body)

    def cached(self, key):
        with lock:
            hit = key in seen and "no-cache" not in self.headers.get("Cache-Control", "")
            seen.add(key)
            log["hit" if hit else "miss"] += 1
        return "HIT" if hit else "MISS"

    def do_GET(self):
        if self.path == "/log":
            return self.answer(200, json.dumps(log).encode())
        if self.path == "/missing":
            return self.answer(404, b"no")
        if self.path == "/plain":
            return self.answer(200, DATA)
        if self.path == "/good" and self.headers.get("If-None-Match") == ETAG:
            with lock:
                log["not_modified"] += 1
            return self.answer(304, b"", [("ETag", ETAG)])
        asked = self.headers.get("Range", "bytes=0-%d" % (len(DATA) - 1))
        first, last = (int(n) for n in asked.removeprefix("bytes=").split("-"))
        headers = [("Content-Range", "bytes %d-%d/%d" % (first, last, len(DATA)))]
        body = DATA[first:last + 1]
        if self.path == "/good":
            headers += [("ETag", ETAG), ("X-Cache", self.cached(asked) + " from test")]
        if self.path == "/more" and first + last:
            body += b"more"
        if self.path == "/short" and first + last:
            body = body[:-1]
        return self.answer(206, body, headers)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()

"""examples/python/asgi.py: by a runner of ASGI in this process, and as a server, read by the agent."""

import asyncio
import http.client
import os
import subprocess
import sys
import tempfile
import unittest

import sonde
from helpers import SOURCE, exported, series, spans

sys.path.insert(0, str(SOURCE / "examples/python"))
import asgi  # noqa: E402

TRACEPARENT = "00-{:032x}-{:016x}-01"


async def ask(app, path, traceparent=None, body=b""):
    """The smallest runner that the specification allows."""
    sent = []
    headers = [(b"traceparent", traceparent.encode())] if traceparent else []
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    await app({"type": "http", "method": "GET", "path": path, "headers": headers}, receive, send)
    return sent


class InProcess(unittest.TestCase):
    def test_requests_at_once_keep_their_traces(self):
        app = asgi.Sonde(asgi.application)

        async def main():
            return await asyncio.gather(*(asyncio.create_task(ask(app, "/hello/you", TRACEPARENT.format(n, n), b"x" * n))
                                          for n in range(1, 101)))

        for n, sent in enumerate(asyncio.run(main()), 1):
            self.assertEqual(sent[0]["status"], 200)
            self.assertEqual(sent[1]["body"], b"hello " + b"x" * n + b"\n")
            self.assertEqual(int(dict(sent[0]["headers"])[b"traceresponse"][3:35], 16), n)
        requests = {s["span_id"]: s for s in spans("GET /hello")}
        self.assertEqual(len(requests), 100)
        for s in requests.values():
            self.assertEqual(s["trace_id"][16:], s["parent_id"])
            self.assertEqual(s["attributes"], {"method": "GET", "status": 200})
        inside = [s for s in spans("work") if s["parent_id"] in requests]
        self.assertEqual(len(inside), 100)
        for s in inside:
            self.assertEqual(requests[s["parent_id"]]["trace_id"], s["trace_id"])
        self.assertEqual(series("http_answers_total", route="GET /hello", status="200")["value"], 100)
        self.assertEqual(series("sonde_bandwidth_bytes_total", direction="in", source="GET /hello")["value"], 5050)
        self.assertEqual(series("sonde_bandwidth_bytes_total", direction="out", source="GET /hello")["value"], 5050 + 700)
        self.assertEqual(series("http_requests_running")["value"], 0)

    def test_failures(self):
        app = asgi.Sonde(asgi.application, route_of=lambda scope: "failing")
        with self.assertRaises(RuntimeError):
            asyncio.run(ask(app, "/fail", "not a traceparent"))
        self.assertEqual(series("sonde_operation_errors_total", operation="failing", type="RuntimeError")["value"], 1)
        self.assertEqual(series("http_requests_running")["value"], 0)

    def test_other_than_http_passes(self):
        seen = []

        async def app(scope, receive, send):
            seen.append(scope)

        asyncio.run(asgi.Sonde(app)({"type": "lifespan"}, None, None))
        self.assertEqual(seen, [{"type": "lifespan"}])


class Served(unittest.TestCase):
    def test_what_the_agent_reads(self):
        folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(folder.cleanup)
        server = subprocess.Popen([sys.executable, SOURCE / "examples/python/asgi.py", "0"], stdout=subprocess.PIPE,
                                  text=True, env={**os.environ, "SONDE_DIR": folder.name})
        try:
            address = server.stdout.readline().strip().removeprefix("http://")
            for path, status in (("/hello", 200), ("/hello/x", 200), ("/nothing", 404), ("/fail", 500)):
                connection = http.client.HTTPConnection(address, timeout=30)
                connection.request("GET", path)
                self.assertEqual(connection.getresponse().status, status)
                connection.close()
            answered = exported("http_answers_total", folder=folder.name)[0]
            self.assertEqual(answered[(("route", "GET /hello"), ("status", "200"))], 2)
            self.assertEqual(answered[(("route", "GET /nothing"), ("status", "404"))], 1)
            self.assertEqual(exported("sonde_operation_errors_total", folder=folder.name)[0][(("operation", "GET /fail"),
                                                                          ("type", "RuntimeError"))], 1)
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()


if __name__ == "__main__":
    unittest.main()

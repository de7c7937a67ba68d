"""ASGI middleware: every request is an operation, traced, with what it answered and moved.

    app = Sonde(app)                        # FastAPI: app.add_middleware(Sonde)

A request continues the trace of its `traceparent` header, and its answer says which one that is. Names are
routes, not paths: `/users/7` would be another operation for every user. What the framework knows of routes is
in scope["route"] after it has answered; without that, `route_of` decides.

    /usr/bin/python3 examples/python/asgi.py                # serves a small application on 127.0.0.1:8000
    curl http://127.0.0.1:8000/hello
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Awaitable, Callable

import sonde

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

answers = sonde.counter("http_answers_total", "Answers by route and status.", ("route", "status"))
running = sonde.gauge("http_requests_running", "Requests that are being answered.")


class Sonde:
    """Wraps an ASGI application. route_of(scope) names a request; by default by its method and the first part of
    its path."""

    def __init__(self, app: App, route_of: Callable[[Scope], str] | None = None) -> None:
        self.app = app
        self.route_of = route_of or (lambda scope: f"{scope['method']} /{scope['path'].split('/')[1]}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        route = self.route_of(scope)
        headers = dict(scope["headers"])
        try:  # of this task alone: each request has one of its own
            sonde.set_traceparent(headers[b"traceparent"].decode("latin-1"))
        except (KeyError, ValueError):
            sonde.set_traceparent(None)
        running.add(1)
        try:
            with sonde.operation(route, method=scope["method"]) as span:
                await self.app(scope, self.counted(receive, route), self.answered(send, route, span))
        finally:
            running.add(-1)

    def counted(self, receive: Receive, route: str) -> Receive:
        async def counting() -> dict[str, Any]:
            message = await receive()
            sonde.bandwidth("in", len(message.get("body", b"")), route)
            return message

        return counting

    def answered(self, send: Send, route: str, span: sonde.Span) -> Send:
        async def answering(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                span["status"] = message["status"]
                answers.labels(route, message["status"]).add(1)
                if span.trace_id:
                    message["headers"] = [*message.get("headers", []), (b"traceresponse", sonde.traceparent().encode())]
            elif message["type"] == "http.response.body":
                sonde.bandwidth("out", len(message.get("body", b"")), route)
            await send(message)

        return answering


# ---- An application, and a server of the standard library to run it ------------------------------------------


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    with sonde.span("work"):
        await asyncio.sleep(0.001)
    if scope["path"] == "/fail":
        raise RuntimeError("as asked")
    status = 200 if scope["path"].startswith("/hello") else 404
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello " + body + b"\n"})


async def serve_one(app: App, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A request of HTTP/1.1 on a connection of its own."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        method, path, _ = head[0].decode("latin-1").split(" ", 2)
        fields = (line.partition(b":") for line in head[1:] if line)
        headers = [(name.strip().lower(), value.strip()) for name, _, value in fields]
        body = await reader.readexactly(int(dict(headers).get(b"content-length", b"0")))
        scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
        begun = False

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                lines = [f"HTTP/1.1 {message['status']} -".encode(), b"connection: close",
                         *(name + b": " + value for name, value in message["headers"])]
                writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
            else:
                writer.write(message.get("body", b""))
                await writer.drain()

        try:
            await app(scope, receive, send)
        except Exception:
            if not begun:
                writer.write(b"HTTP/1.1 500 -\r\nconnection: close\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        pass
    finally:
        writer.close()


async def serve(app: App, port: int) -> None:
    server = await asyncio.start_server(lambda reader, writer: serve_one(app, reader, writer), "127.0.0.1", port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    sonde.open(name="asgi")
    try:
        asyncio.run(serve(Sonde(application), int(sys.argv[1]) if len(sys.argv) > 1 else 8000))
    except KeyboardInterrupt:
        pass

"""front_upstream.py LOG [QUERY]: an inference server for tests of the front. Says its port on stdout.

What it does is asked for in the query: POST …?tokens=5&first_ms=20&gap_ms=5&split=1; QUERY is
what it does whatever it is asked for. stall=1: it never answers. Of every
stream it writes a line of JSON to LOG when it is over: its id, when the request was there, when each token
was sent (CLOCK_MONOTONIC, ns), and how it ended. Sockets are fed by hand, so that pieces are cut
where the test wants them to be."""
import asyncio
import json
import re
import sys
import time
import urllib.parse
import zlib

LOG = open(sys.argv[1], "a", buffering=1)
ALWAYS = dict(urllib.parse.parse_qsl(sys.argv[2])) if len(sys.argv) > 2 else {}
TEXT = "é€😀 token"


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


async def flush(writer):
    await writer.drain()
    while writer.transport.get_write_buffer_size():
        await asyncio.sleep(0)


async def send_cut(writer, data, times):
    """One piece ends inside a UTF-8 sequence, one inside a line, one inside the chunk's frame. The
    token is sent when the last byte of its event is."""
    middle = data.find("é".encode()) + 1
    cuts = [0, 2, data.find(b"choices"), middle, len(data) - 3, len(data)]
    for begin, end in zip(cuts, cuts[1:]):
        if end == len(data):
            times.append(time.monotonic_ns())
        writer.write(data[begin:end])
        await flush(writer)


async def stream(reader, writer, query, model):
    number = lambda name, otherwise: float(query.get(name, otherwise))
    log = {"model": model, "id": query.get("id", model), "received": time.monotonic_ns(), "sent": [], "end": "gone"}
    gone = asyncio.ensure_future(reader.read(1))  # ends when the other side closes
    try:
        if "stall" in query:
            await gone
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")
        writer.write(chunk(b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'))
        tokens = int(number("tokens", 5))
        for i in range(tokens):
            pause = number("first_ms", 0) if i == 0 else number("gap_ms", 0)
            done, _ = await asyncio.wait([gone], timeout=pause / 1000)
            if done:
                return
            if i == int(number("crash", -1)):
                log["end"] = "crashed"
                writer.transport.abort()
                return
            event = {"choices": [{"delta": {"content": f"{TEXT} {i}"}}]}
            data = chunk(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
            if "split" in query:
                await send_cut(writer, data, log["sent"])
            else:
                log["sent"].append(time.monotonic_ns())
                writer.write(data)
                await flush(writer)
        usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens,
                                          "prompt_tokens_details": {"cached_tokens": 3}}}
        writer.write(chunk(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode()))
        writer.write(b"0\r\n\r\n")
        await flush(writer)
        log["end"] = "done"
    except ConnectionError:
        pass
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        LOG.write(json.dumps(log) + "\n")


async def read_body(reader, fields):
    """All of it as (length, sum), or the bytes themselves if they are few."""
    left, total, crc, kept = int(fields.get("content-length", 0)), 0, 0, b""
    while left:
        data = await reader.read(min(left, 1 << 18))
        if not data:
            raise ConnectionError
        left -= len(data)
        total += len(data)
        crc = zlib.crc32(data, crc)
        kept = kept + data if len(kept) < 4096 else kept
    return total, crc, kept


async def download(writer, size):
    block = bytes(range(256)) * 256
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    for at in range(0, size, len(block)):
        writer.write(block[:size - at])
        await writer.drain()


def answer(writer, value):
    body = json.dumps(value).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                 % (len(body), body))


async def serve(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *rest = head.split("\r\n")[:-2]
            fields = {k.lower(): v.strip() for k, v in (f.split(":", 1) for f in rest)}
            url = urllib.parse.urlsplit(line.split(" ")[1])
            query = {**dict(urllib.parse.parse_qsl(url.query)), **ALWAYS}
            if fields.get("expect"):
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            total, crc, body = await read_body(reader, fields)
            if url.path == "/v1/chat/completions":
                await stream(reader, writer, query, re.search(rb'"model": ?"([^"]*)"', body)[1].decode())
                if LOG.closed or writer.is_closing() or reader.at_eof():
                    return
            elif url.path == "/down":
                await download(writer, int(query["bytes"]))
            elif fields.get("upgrade") == "echo":
                writer.write(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\n")
                while data := await reader.read(4096):
                    writer.write(data)
                return
            else:
                answer(writer, {"line": line, "fields": fields, "bytes": total, "crc": crc})
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=512, limit=1 << 18)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())

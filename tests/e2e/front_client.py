"""front_client.py PORT PID LOG: clients of the front at PORT, whose process is PID; LOG is what the
upstream wrote. Exits with 1 and says what is wrong.

Nothing here asserts how fast something is. When the front saw a token is compared with when the
upstream sent it and when the client got it: it must lie between the two."""
import asyncio
import json
import os
import re
import sys
import time
import zlib

PORT, PID, LOG = int(sys.argv[1]), sys.argv[2], sys.argv[3]
WAIT_S = 60
failures = []


def check(what, holds):
    if not holds:
        failures.append(what)


async def until(what, condition):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return
        await asyncio.sleep(0.02)
    check(f"never came true: {what}", False)


# ---- HTTP -------------------------------------------------------------------------------------

async def dial():
    return await asyncio.open_connection("127.0.0.1", PORT, limit=1 << 18)


def request(method, target, body=b"", version="1.1", fields=""):
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return (f"{method} {target} HTTP/{version}\r\nHost: 127.0.0.1:{PORT}\r\n{fields}{length}\r\n"
            .encode() + body)


async def read_head(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *rest = head.split("\r\n")[:-2]
    fields = {k.lower(): v.strip() for k, v in (f.split(":", 1) for f in rest)}
    return int(line.split(" ")[1]), fields


async def read_answer(reader):
    status, fields = await read_head(reader)
    body = await reader.readexactly(int(fields["content-length"]))
    return status, fields, body


async def get(target, method="GET", body=b"", fields=""):
    reader, writer = await dial()
    writer.write(request(method, target, body, fields=fields + "Connection: close\r\n"))
    answer = await read_answer(reader)
    writer.close()
    return answer


async def metrics():
    return (await get("/metrics"))[2].decode()


def value(text, name, **labels):
    """Sum of the series that have these labels."""
    total = 0
    for found in re.finditer(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.M):
        have = dict(re.findall(r'(\w+)="([^"]*)"', found.group(1) or ""))
        if all(have.get(k) == v for k, v in labels.items()):
            total += float(found.group(2))
    return total


# ---- Streams ----------------------------------------------------------------------------------

class Stream:
    """One streamed completion: when it was asked for, when each token came, and all its bytes."""

    def __init__(self, model, query):
        self.model, self.query = model, query
        self.got, self.text, self.whole = [], b"", False

    async def run(self, stop_after=None):
        reader, writer = await dial()
        body = json.dumps({"model": self.model, "stream": True, "max_tokens": 100}).encode()
        self.asked = time.monotonic_ns()
        writer.write(request("POST", f"/v1/chat/completions?{self.query}", body))
        self.status, self.fields = await read_head(reader)
        while data := await reader.read(1 << 16):
            now = time.monotonic_ns()
            self.text += data
            tokens = self.text.count(b'"}}]}\n\n') - self.text.count(b'"content":""')
            self.got += [now] * (tokens - len(self.got))
            self.whole = self.text.endswith(b"0\r\n\r\n")
            if self.whole or (stop_after is not None and len(self.got) >= stop_after):
                break
        writer.close()
        return self


def logged():
    """The upstream's lines that are whole, by id, which is the model unless the query says another."""
    with open(LOG) as lines:
        return {entry["id"]: entry for entry in map(json.loads, (line for line in lines if line[-1] == "\n"))}


async def truth_of(ids):
    """Of streams that are over for their clients; the upstream may not have written of them yet."""
    ids = set(ids)
    await until("the upstream has logged all streams", lambda: ids <= set(logged()))
    return logged()


def gaps_least(stream, sent):
    """Tokens that come with the first, on a machine that is busy, have no gap before them. Those that
    were sent when the client had the first cannot have come with it."""
    return sum(t > stream.got[0] for t in sent)


async def between(streams, text):
    """Times that the front reports, against those of both ends. Returns how far from the truth."""
    truth, off = await truth_of(s.model for s in streams), []
    for s in streams:
        sent = truth[s.model]["sent"]
        ttft = value(text, "gen_ai_server_time_to_first_token_seconds_sum",
                     gen_ai_request_model=s.model) * 1e9
        low, high = sent[0] - truth[s.model]["received"], s.got[0] - s.asked
        check(f"{s.model}: first token after {ttft:.0f} ns, not {low} to {high}",
              low - 1 <= ttft <= high + 1)
        off.append(abs(ttft - (sent[0] - s.asked)))
        gaps = value(text, "sonde_infer_inter_token_seconds_sum", model=s.model) * 1e9
        low, high = sent[-1] - s.got[0], s.got[-1] - sent[0]
        check(f"{s.model}: {gaps:.0f} ns between tokens, not {low} to {high}",
              low - 1 <= gaps <= high + 1)
        off.append(abs(gaps - (sent[-1] - sent[0])) / max(1, len(sent) - 1))
        count = value(text, "sonde_infer_inter_token_seconds_count", model=s.model)
        check(f"{s.model}: {count} gaps", gaps_least(s, sent) <= count <= len(sent) - 1)
    return sorted(off)


async def test_times():
    """One after the other, then eight at a time; pieces cut everywhere for every other one."""
    streams = [Stream(f"time-{i}", "tokens=6&first_ms=30&gap_ms=10" + "&split=1" * (i % 2))
               for i in range(24)]
    for s in streams[:8]:
        await s.run()
    await asyncio.gather(*(s.run() for s in streams[8:16]))
    await asyncio.gather(*(s.run() for s in streams[16:]))
    await until("all requests counted", lambda: ended(24))
    off = await between(streams, await metrics())
    print(f"times of {len(streams)} streams: off by {off[len(off) // 2] / 1e3:.0f} us (median), "
          f"{off[-1] / 1e3:.0f} us (most)")
    for s in streams:
        check(f"{s.model}: not whole", s.whole and s.status == 200)
        check(f"{s.model}: tokens", s.text.decode().count("é€😀 token") == 6)
        check(f"{s.model}: traceresponse", s.fields.get("traceresponse", "")[:3] == "00-")


async def ended(n):
    return value(await metrics(), "sonde_infer_requests_total", route="chat") >= n


async def test_many():
    """Two hundred streams at a time."""
    before = await metrics()
    streams = [Stream("many", f"tokens=10&first_ms=100&gap_ms=40&split=1&id=many-{i}") for i in range(200)]
    await asyncio.gather(*(s.run() for s in streams))
    wanted = value(before, "sonde_infer_requests_total", route="chat") + 200
    await until("all requests counted", lambda: ended(wanted))
    text = await metrics()
    check("200 streams: not all whole", all(s.whole for s in streams))
    check("200 streams: not all the same", len({s.text for s in streams}) == 1)
    for n, name, labels in [
            (200, "gen_ai_server_time_to_first_token_seconds_count", {"gen_ai_request_model": "many"}),
            (2000, "sonde_infer_tokens_total", {"model": "many", "type": "output"}),
            (1400, "sonde_infer_tokens_total", {"model": "many", "type": "input"}),
            (600, "sonde_infer_tokens_total", {"model": "many", "type": "reused"})]:
        got = value(text, name, source="front", **labels)
        check(f"200 streams: {name} {labels} is {got}, not {n}", got == n)
    truth = await truth_of(f"many-{i}" for i in range(200))
    least = sum(gaps_least(s, truth[f"many-{i}"]["sent"]) for i, s in enumerate(streams))
    gaps = value(text, "sonde_infer_inter_token_seconds_count", model="many", source="front")
    check(f"200 streams: {gaps} gaps, not {least} to 1800", least <= gaps <= 1800)
    check("200 streams: in flight", value(text, "sonde_front_in_flight") == 0)


async def test_disconnects():
    streams = [Stream(f"gone-{i}", "tokens=1000&gap_ms=20") for i in range(10)]
    await asyncio.gather(*(s.run(stop_after=2) for s in streams))
    names = {s.model for s in streams}
    await until("the upstream hears of all disconnects",
                lambda: sum(e["end"] == "gone" for m, e in logged().items() if m in names) == 10)

    async def counted():
        text = await metrics()
        return sum(value(text, "sonde_infer_requests_total", model=name, outcome="cancelled")
                   for name in names) == 10
    await until("disconnects are counted", counted)


async def test_crashes():
    streams = [Stream("crash", f"tokens=9&gap_ms=2&crash={i}") for i in range(1, 6)]
    await asyncio.gather(*(s.run() for s in streams))
    for i, s in enumerate(streams):
        check(f"crash: whole {s.whole}, {len(s.got)} tokens, not {i + 1}",
              not s.whole and s.status == 200 and len(s.got) == i + 1)

    async def counted():
        return value(await metrics(), "sonde_infer_errors_total", model="crash",
                     type="closed_early") == 5
    await until("crashes are counted", counted)
    check("crashes by kind", value(await metrics(), "sonde_front_errors_total",
                                   error="closed_early") == 5)


# ---- Other requests ---------------------------------------------------------------------------

async def test_one_connection():
    """Sonde's own answers and the upstream's, one after the other, asked for at once."""
    reader, writer = await dial()
    writer.write(request("GET", "/metrics") + request("GET", "/v1/models?x=y") +
                 request("GET", "/api/series") + request("POST", "/api/tags", b"{}") +
                 request("GET", "/admin/nothing"))
    answers = [await read_answer(reader) for _ in range(5)]
    writer.close()
    check("own: statuses", [a[0] for a in answers] == [200, 200, 200, 200, 404])
    check("own: /metrics", b"sonde_front_in_flight" in answers[0][2])
    check("own: no Via", "via" not in answers[0][1])
    seen = json.loads(answers[1][2])
    check("passed on: line", seen["line"] == "GET /v1/models?x=y HTTP/1.1")
    check("passed on: fields", seen["fields"]["x-forwarded-for"] == "127.0.0.1" and
          seen["fields"]["traceparent"][:3] == "00-" and "sonde" in seen["fields"]["via"])
    check("Ollama's /api is passed on", json.loads(answers[3][2])["line"].startswith("POST /api/tags"))
    status, head, body = await get("/profiling/dashboard", fields="Origin: http://127.0.0.1\r\n")
    check("the dashboard is ours", status == 200 and b"app.js" in body and
          "default-src 'none'" in head["content-security-policy"])
    status, _, body = await get("/", fields="Origin: http://127.0.0.1\r\n")
    check("the index is the upstream's", status == 200 and b"GET / HTTP/1.1" in body)


async def test_old_and_odd():
    reader, writer = await dial()
    writer.write(b"POST /v1/chat/completions?tokens=2 HTTP/1.0\r\nContent-Length: 13\r\n\r\n"
                 b'{"model":"o"}')
    text = await reader.read(-1)
    writer.close()
    check("HTTP/1.0", text.startswith(b"HTTP/1.1 200") and b"chunked" not in text and
          text.endswith(b"data: [DONE]\n\n"))
    reader, writer = await dial()
    writer.write(request("POST", "/x", b"", fields="Expect: 100-continue\r\nContent-Length: 4\r\n"))
    check("100", (await read_head(reader))[0] == 100)
    writer.write(b"body")
    check("after 100", json.loads((await read_answer(reader))[2])["bytes"] == 4)
    writer.write(request("GET", "/ws", fields="Connection: Upgrade\r\nUpgrade: echo\r\n"))
    check("101", (await read_head(reader))[0] == 101)
    for text in (b"ping", b"\0\xff" * 50000):
        writer.write(text)
        check("tunnel", await reader.readexactly(len(text)) == text)
    writer.close()


def resident():
    with open(f"/proc/{PID}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors():
    return len(os.listdir(f"/proc/{PID}/fd"))


async def test_large():
    """100 MB each way; the front may not hold more than its buffers."""
    size, block = 100_000_000, bytes(range(256)) * 256
    before = most = resident()
    reader, writer = await dial()
    writer.write(f"POST /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode())
    crc = 0
    for at in range(0, size, len(block)):
        piece = block[:size - at]
        crc = zlib.crc32(piece, crc)
        writer.write(piece)
        await writer.drain()
        most = max(most, resident())
    seen = json.loads((await read_answer(reader))[2])
    check("up: content", seen["bytes"] == size and seen["crc"] == crc)
    writer.write(request("GET", f"/down?bytes={size}"))
    status, fields = await read_head(reader)
    got, total = 0, 0
    while total < size:
        data = await reader.read(1 << 18)
        if not data:
            break
        got, total = zlib.crc32(data, got), total + len(data)
        most = max(most, resident())
    writer.close()
    check("down: content", status == 200 and total == size and got == crc)
    grown = most - before
    print(f"100 MB up and down: {grown / 1e6:.2f} MB of memory more at the most")
    check(f"100 MB: memory grew by {grown} bytes", grown < 8_000_000)


async def requests(connections, each):
    async def one():
        reader, writer = await dial()
        for _ in range(each):
            writer.write(request("GET", "/v1/models"))
            check("many requests: status", (await read_answer(reader))[0] == 200)
        writer.close()
    await asyncio.gather(*(one() for _ in range(connections)))


async def settled():
    """No connection is left, but for the one that asks."""
    text = await metrics()
    return (value(text, "sonde_front_connections", side="client") <= 1 and
            value(text, "sonde_front_connections", side="upstream") <= 1)


async def test_no_leak():
    await requests(20, 50)
    await until("connections close", settled)
    memory_before, descriptors_before = resident(), descriptors()
    await requests(20, 450)
    await requests(20, 50)
    await until("connections close", settled)
    grown = resident() - memory_before
    print(f"10,000 requests: {grown / 1e6:.2f} MB and {descriptors() - descriptors_before} "
          f"descriptors more")
    check(f"10,000 requests: memory grew by {grown} bytes", grown < 2_000_000)
    check("10,000 requests: descriptors", descriptors() <= descriptors_before + 2)


async def main():
    for test in (test_times, test_many, test_disconnects, test_crashes, test_one_connection,
                 test_old_and_odd, test_large, test_no_leak):
        begun = time.monotonic()
        await test()
        print(f"{test.__name__}: {time.monotonic() - begun:.1f} s")
    for failure in failures[:20]:
        print(failure, file=sys.stderr)
    return bool(failures)


sys.exit(asyncio.run(main()))

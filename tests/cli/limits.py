"""limits.py HOST:PORT CHECK…: requests that no well-behaved client sends, over bare sockets."""
import select
import socket
import sys
import time

host, port = sys.argv[1].split(":")


def connect():
    s = socket.create_connection((host, int(port)), 60)
    return s


def rest(s):
    """All that comes until the end."""
    out = b""
    try:
        while True:
            data = s.recv(65536)
            if not data:
                return out
            out += data
    except ConnectionResetError:
        return out


def drip(head, byte):
    """head, then a byte now and then: the server gives up. It may answer first."""
    s = connect()
    s.sendall(head)
    s.settimeout(0.2)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            s.sendall(byte)
            if not s.recv(1000):
                return
        except socket.timeout:
            continue
        except OSError:
            return
    raise SystemExit("the server still waits")


def slow_head():
    drip(b"GET /api/series HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", b"a")


def slow_line():
    drip(b"GET /", b"a")


def slow_body():
    drip(b"POST /admin/profile/mark HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", b"a")


def silent():
    s = connect()
    s.settimeout(90)
    assert rest(s) == b""


def large_head():
    s = connect()
    try:
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"a" * 100000 + b"\r\n\r\n")
    except OSError:
        pass
    out = rest(s)
    assert out == b"" or out.split(b" ")[1] in (b"400", b"413", b"414", b"431"), out[:100]


def large_line():
    s = connect()
    try:
        s.sendall(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    except OSError:
        pass
    out = rest(s)
    assert out == b"" or out.split(b" ")[1] in (b"400", b"413", b"414", b"431"), out[:100]


def pipelined():
    """Fifty requests at once are answered one after the other, and none twice."""
    s = connect()
    one = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    s.sendall(one * 49 + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    out = rest(s)
    assert out.count(b"HTTP/1.1 200") == 50, out.count(b"HTTP/1.1 200")
    assert out.count(b"ok\n") == 50


def malformed():
    """Nothing of this is answered with success, and the server lives on."""
    for text in (b"\r\n\r\n\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
                 b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
                 b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                 b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                 b"POST /api/inference/reset HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                 b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                 b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                 b"GET /admin/profile/requests/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: localhost\r\n"
                 b"Connection: close\r\n\r\n"):
        s = connect()
        try:
            s.sendall(text)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        out = rest(s)
        assert not out.startswith(b"HTTP/1.1 2") and b"root:" not in out, (text, out[:200])


def status_of(request):
    s = connect()
    s.sendall(request + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    return rest(s).split(b" ")[1]


def gone():
    """Who asks for a profile of an hour and goes away leaves nothing behind: as many as there may be
    at a time, so that nothing else that is slow is answered while they are there."""
    held, stop = [], b"POST /admin/profile/stop"
    deadline = time.monotonic() + 90
    while status_of(stop) != b"503":
        assert time.monotonic() < deadline, "there is room for any number"
        held.append(connect())
        held[-1].sendall(b"GET /debug/pprof/profile?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for s in select.select(held, [], [], 0.05)[0]:
            line = s.recv(100)
            if b" 503 " not in line:
                print("there is no sampling here:", line)
                return
            held.remove(s)
    for s in held:
        s.close()
    deadline = time.monotonic() + 90
    while status_of(stop) == b"503":
        assert time.monotonic() < deadline, "they are still there"
        time.sleep(0.1)


for check in sys.argv[2:]:
    globals()[check]()

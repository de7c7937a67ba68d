"""stream_readers.py HOST:PORT AGENT_PID: two hundred streams, and some that do not read."""
import http.client
import os
import selectors
import socket
import sys
import time

host, port = sys.argv[1].split(":")
pid = sys.argv[2]
WANTED = 5  # ticks that every reader must see


def ask(path, receive=None):
    s = socket.socket()
    if receive:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    s.settimeout(60)
    s.connect((host, int(port)))
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return s


def rss_kb():
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def connections():
    fds = f"/proc/{pid}/fd"
    count = 0
    for fd in os.listdir(fds):
        try:
            count += os.readlink(f"{fds}/{fd}").startswith("socket:")
        except FileNotFoundError:
            pass
    return count


before = connections()
# Those that never read ask for the most there is.
stalled = [ask("/api/stream?history=60&limit=10000", 4096) for _ in range(4)]
readers = {}
chosen = selectors.DefaultSelector()
for i in range(200):
    s = ask(f"/api/stream?name=sonde_agent_*&limit={i % 3 + 1}")
    s.setblocking(False)
    readers[s] = b""
    chosen.register(s, selectors.EVENT_READ)
early_kb = rss_kb()
deadline = time.monotonic() + 120
while any(text.count(b"\nid: ") < WANTED for text in readers.values()):
    assert time.monotonic() < deadline, sorted(t.count(b"\nid: ") for t in readers.values())
    for key, _ in chosen.select(5):
        data = key.fileobj.recv(65536)
        assert data, readers[key.fileobj][:300]
        readers[key.fileobj] += data
for text in readers.values():
    assert text.startswith(b"HTTP/1.1 200"), text[:100]
    assert b"event: gap" not in text or b'"after"' in text

# Others are answered meanwhile.
c = http.client.HTTPConnection(host, int(port), timeout=60)
c.request("GET", "/livez")
assert c.getresponse().status == 200
c.close()
grown_kb = rss_kb() - early_kb
assert grown_kb < 64 << 10, f"the agent grew by {grown_kb} kB"

# Whoever does not read is dropped; the others read on.
deadline = time.monotonic() + 120
while connections() > before + len(readers):
    assert time.monotonic() < deadline, f"{connections()} connections"
    for key, _ in chosen.select(1):
        assert key.fileobj.recv(65536)
for s in stalled:
    try:
        while s.recv(65536):
            pass
    except ConnectionResetError:
        pass
print(f"{len(readers)} readers, {grown_kb} kB more")

"""bench_http: the load generator on one core, beside wrk and beside the log of a server whose times are known
(tests/programs/known_server.c), which has another core. Both are kept awake (awake.py).

    load           requests/s beside wrk in turns, events/s of streams, memory of 10,000 open streams
    load_tls       the same over TLS, and what a connection takes to be opened
    load_truth     when requests were sent, and what was measured of them, against the schedule and the log
"""
import contextlib
import json
import os
import re
import resource
import signal
import subprocess

import awake
from common import named, row, say, stats_of

STREAMS = 10000
STALL_MS = 2000


def pinned(core, command):
    """On one of two cores, if there are two."""
    cores = sorted(os.sched_getaffinity(0))
    return ["taskset", "-c", str(cores[core]), *command] if len(cores) > 1 else command


@contextlib.contextmanager
def server(args, log=None, **options):
    command = [str(args.build / "perf" / "bench_known_server")]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    if log:
        command += ["--log", str(log)]
    process = subprocess.Popen(pinned(0, command), stdout=subprocess.PIPE, text=True)
    try:
        yield "http://127.0.0.1:" + process.stdout.readline().split()[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def certificate(scratch):
    """For 127.0.0.1, by itself: (certificate, key)."""
    cert, key = scratch / "cert.pem", scratch / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                    "-out", cert], check=True, capture_output=True)
    return cert, key


def drive(args, url, **options):
    command = [str(args.build / "perf" / "bench_load"), url]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    done = subprocess.run(pinned(1, command), capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def wrk(url, connections, seconds):
    """Requests/s, and CPU time of each in µs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(pinned(1, ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", url]), capture_output=True,
                          text=True, timeout=60, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    requests = int(re.search(r"(\d+) requests in", done.stdout).group(1))
    return float(re.search(r"Requests/sec:\s*([\d.]+)", done.stdout).group(1)), cpu_s / requests * 1e6


def rounds_of(args, usual):
    return max(1, round(usual * args.effort))


def measure_load(args, scratch):
    say("load: one core beside wrk, streams as fast as they come")
    with awake.Awake():
        return load_rows(args)


def load_rows(args):
    ours, theirs, events = [], [], []
    with server(args) as url:
        for _ in range(rounds_of(args, 5)):
            ours.append(drive(args, f"{url}/fast", connections=32, duration_ms=2000)["requests_per_s"])
            if args.peers:
                theirs.append(wrk(f"{url}/fast", 32, 2)[0])
            events.append(drive(args, f"{url}/flood?tokens=200000", connections=8, duration_ms=2000,
                                drain_ms=5000)["events_per_s"] / 1e6)
    with server(args, ttft_us=4000000, itl_us=500000, tokens=4) as url:
        open_streams = drive(args, f"{url}/v1/chat/completions", rate=5000, requests=STREAMS, connections=STREAMS)
    if open_streams["ok"] != STREAMS:
        raise RuntimeError(f"{open_streams['ok']} of {STREAMS} streams ended well")
    rows = [
        row("load_requests", "load", "requests/s, one core, not streamed", "1/s",
            named("sonde", stats_of(ours, max(ours))),
            peers=[named("wrk", stats_of(theirs, max(theirs)))] if theirs else [], higher=True,
            note="32 connections, in turns; the most of each"),
        row("load_events", "load", "SSE events/s, one core", "M/s", named("sonde", stats_of(events, max(events))),
            budget=1.5, higher=True, note="chat chunks of 180 bytes, 8 connections"),
        row("load_memory", "load", f"resident with {STREAMS:,} open streams", "MB",
            named("sonde", stats_of([open_streams["rss_max_kb"] / 1000])), budget=200),
    ]
    if theirs:
        ratios = sorted(a / b for a, b in zip(ours, theirs))
        rows.append(row("load_requests_ratio", "load", "requests/s, of wrk's", "x",
                        named("sonde", stats_of(ratios, ratios[len(ratios) // 2])), budget=0.8, higher=True,
                        note="median of rounds"))
    return rows


def measure_tls(args, scratch):
    say("load: one core over TLS beside wrk, streams, connections")
    with awake.Awake():
        return tls_rows(args, *certificate(scratch))


def tls_rows(args, cert, key):
    """The server encrypts on the other core and may be the limit of both: so CPU time of a request is beside it."""
    ours, theirs, ours_us, theirs_us, events, opened = [], [], [], [], [], []
    with server(args, cert=cert, key=key) as url:
        url = url.replace("http:", "https:")
        for _ in range(rounds_of(args, 5)):
            r = drive(args, f"{url}/fast", connections=32, duration_ms=2000, cacert=cert)
            ours.append(r["requests_per_s"])
            ours_us.append(r["client"]["cpu_s"] / r["ok"] * 1e6)
            if args.peers:
                rate, cpu_us = wrk(f"{url}/fast", 32, 2)
                theirs.append(rate)
                theirs_us.append(cpu_us)
            events.append(drive(args, f"{url}/flood?tokens=200000", connections=8, duration_ms=2000, drain_ms=5000,
                                cacert=cert)["events_per_s"] / 1e6)
            opened.append(drive(args, f"{url}/fast", connections=1, requests=300, no_keep_alive=True, insecure=True))
    with server(args, ttft_us=20000000, itl_us=500000, tokens=4, cert=cert, key=key) as url:
        url = url.replace("http:", "https:")
        streams = drive(args, f"{url}/v1/chat/completions", rate=1000, requests=STREAMS, connections=STREAMS, cacert=cert)
    if streams["ok"] != STREAMS:
        raise RuntimeError(f"{streams['ok']} of {STREAMS} streams over TLS ended well")
    peers = [named("wrk", stats_of(theirs, max(theirs)))] if theirs else []
    peers_us = [named("wrk", stats_of(theirs_us, min(theirs_us)))] if theirs else []
    return [
        row("load_tls_requests", "load_tls", "requests/s over TLS, one core, not streamed", "1/s",
            named("sonde", stats_of(ours, max(ours))), peers=peers, higher=True,
            note="32 connections, in turns; the most of each"),
        row("load_tls_cpu", "load_tls", "CPU time of a request over TLS", "us",
            named("sonde", stats_of(ours_us, min(ours_us))), peers=peers_us, note="the least of each"),
        row("load_tls_events", "load_tls", "SSE events/s over TLS, one core", "M/s",
            named("sonde", stats_of(events, max(events))), budget=0.8, higher=True,
            note="chat chunks of 180 bytes, 8 connections"),
        row("load_tls_resumed", "load_tls", "a TLS handshake, resumed, median", "us",
            named("sonde", stats_of([r["tls_us"] for r in opened])), note="both sides of it"),
        row("load_tls_memory", "load_tls", f"resident with {STREAMS:,} open streams over TLS", "MB",
            named("sonde", stats_of([streams["rss_max_kb"] / 1000])), budget=350,
            note=f"{streams['resumed']:,} of the connections resumed"),
    ]


def joined(records, log):
    """(what the client recorded, what the server logged) of each request."""
    served = {}
    for line in open(log):
        trace, *fields = line.rstrip("\n").split("\t")
        served[trace] = dict(zip(("arrived", "first", "last", "end"), map(int, fields[:4])))
    for line in open(records):
        trace, *fields = line.rstrip("\n").split("\t")
        client = dict(zip(("intended", "sent", "head", "first", "content", "last", "end"), map(int, fields[:7])))
        if fields[14] == "ok":
            yield client, served[trace]


def median(values):
    values = sorted(values)
    return values[len(values) // 2]


def measure_truth(args, scratch):
    say("load: sent when due, and measured as the server's log says")
    with awake.Awake():
        return truth_rows(args, scratch)


def truth_rows(args, scratch):
    records, log = scratch / "load_records", scratch / "load_log"
    sends, ttft, gap = [], [], []
    for _ in range(rounds_of(args, 3)):
        with server(args) as url:
            sends.append(drive(args, f"{url}/fast", rate=10000, duration_ms=4000, drain_ms=5000)["send_error_us"]["p99"])
        with server(args, log, ttft_us=3000, itl_us=2000, tokens=2, spin_always=True) as url:
            drive(args, f"{url}/v1/chat/completions", rate=1000, poisson=True, duration_ms=4000, drain_ms=5000,
                  records=records)
        pairs = list(joined(records, log))
        ttft.append(median(abs((c["first"] - c["sent"]) - (s["first"] - s["arrived"])) / 1e3 for c, s in pairs))
        gap.append(median(abs((c["last"] - c["first"]) - (s["last"] - s["first"])) / 1e3 for c, s in pairs))
    with server(args, log, ttft_us=1000, itl_us=0, tokens=1, stall_at_ms=1000, stall_ms=STALL_MS) as url:
        drive(args, f"{url}/v1/chat/completions", rate=1000, poisson=True, duration_ms=5000, drain_ms=10000,
              records=records)
    pairs = [(c, s) for c, s in joined(records, log) if s["end"] - c["intended"] > STALL_MS * 1e6 / 10]
    off = sorted((c["end"] - s["end"]) / (s["end"] - c["intended"]) * 100 for c, s in pairs)
    sent = sorted((c["sent"] - c["intended"]) / 1e3 for c, _ in pairs)
    return [
        row("load_send_error", "load_truth", "sent too late at 10,000/s, p99", "us",
            named("sonde", stats_of(sends)), budget=100),
        row("load_ttft_error", "load_truth", "TTFT against the log at 1,000/s, median", "us",
            named("sonde", stats_of(ttft)), budget=100, note="from sending, with both ways through the kernel"),
        row("load_itl_error", "load_truth", "ITL against the log at 1,000/s, median", "us",
            named("sonde", stats_of(gap)), budget=100),
        row("load_stall_sent", "load_truth", "sent too late in a stall of 2 s, p99", "us",
            named("sonde", stats_of([sent[len(sent) * 99 // 100]])), note=f"{len(pairs)} requests met it"),
        row("load_stall", "load_truth", "latency from the schedule through it, off by, p99", "%",
            named("sonde", stats_of([off[len(off) * 99 // 100]])), budget=5,
            note="against the server's log; the answers come all at once"),
    ]


GROUPS = {"load": measure_load, "load_tls": measure_tls, "load_truth": measure_truth}

"""dashboard: the dashboard in Debian's Chromium, by the browser's own figures (perf/dashboard.mjs), and
what open pages cost the agent. Flame graphs stand beside speedscope with the same file.

There is no GPU here: everything that the browser draws is drawn by the CPU, and counts.
"""
import base64
import json
import os
import re
import shutil
import subprocess
import time

from common import ROOT, memory_mb, named, row, say, stats_of, watch

ROUNDS = 7
SERIES = 714           # of which 500 are counters, see writer.c
CHARTS = 70
SERIES_S = int(os.environ.get("SONDE_BENCH_SERIES_SECONDS", "600"))
PAGES = 10
OPEN_S, OPEN_ROUNDS = 30, 5
INTERACTIONS = 100
PEER_S = 240


def prepare(args):
    """The folder with playwright-core and speedscope; the packages of the browser tests."""
    for tool in ("chromium", "node", "npm"):
        if not shutil.which(tool):
            raise RuntimeError(f"{tool} is missing: run tools/deps test")
    folder = args.build / "browser"
    subprocess.run([ROOT / "tests" / "node_packages", ROOT / "tests" / "browser", folder], check=True,
                   stdout=subprocess.DEVNULL)
    return folder


def browse(folder, *words, timeout=1800):
    command = ["node", ROOT / "perf" / "dashboard.mjs", folder / "node_modules", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as done:
        try:
            done.stdout_text, done.stderr_text = done.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            done.terminate()  # it closes its browser
            raise
    if done.returncode:
        raise RuntimeError(f"{words[0]}: {done.stderr_text.strip()[-500:]}")
    return json.loads(done.stdout_text)


def peer(name, measure):
    """None where it gives up on the file, as it may."""
    try:
        return measure()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        say(f"dashboard: {name} gave up: {str(error)[:200]}")
        return None


class Agent:
    """`sonde serve` with what it watches."""

    def __init__(self, args, *programs):
        self.children = [subprocess.Popen(p, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL) for p in programs]
        self.process = subprocess.Popen([args.build / "sonde", "serve", "--listen", "127.0.0.1:0"],
                                        stderr=subprocess.PIPE, text=True)
        self.pid, self.url = self.process.pid, None
        while self.url is None:
            line = self.process.stderr.readline()
            if not line:
                raise RuntimeError(f"sonde serve ended with status {self.process.wait()}")
            found = re.search(r"http://[0-9.:]+", line)
            self.url = found and found.group(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in [self.process, *self.children]:
            child.terminate()
            child.wait()


def mean_of(name, samples):
    return named(name, stats_of(samples, sorted(samples)[len(samples) // 2]))


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# ---- Pages that are live ----------------------------------------------------------------------

def open_pair(agent, folder):
    """The agent's share of a core with pages that are open, and without."""
    bare = watch(agent.pid, OPEN_S)
    browser = subprocess.Popen(["node", ROOT / "perf" / "dashboard.mjs", folder / "node_modules", "open",
                                f"{agent.url}/profiling/dashboard", str(PAGES), str(OPEN_S + 10)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        if not browser.stderr.readline().startswith("open"):
            raise RuntimeError("the pages did not open")
        with_pages = watch(agent.pid, OPEN_S)
    finally:
        browser.wait()
    return with_pages["mean"], bare["mean"]


def live_rows(args, folder):
    engine = [args.build / "example_engine", "--clients", "3", "--requests", "1000000", "--decode-ms", "3",
              "--prefill-us", "50", "--tokens", "32"]
    writer = [args.build / "perf" / "bench_writer", str(SERIES), "10", str(SERIES_S + 1200)]
    rows = []
    with Agent(args, engine) as agent:
        say("dashboard: first paint")
        got = browse(folder, "paint", f"{agent.url}/profiling/dashboard", ROUNDS)
        rows.append(row("dashboard_paint", "dashboard", "dashboard, first contentful paint", "ms",
                        mean_of("sonde", got["first_paint"]), budget=1000, note="median of new, cold contexts"))
        rows.append(row("dashboard_figures", "dashboard", "dashboard, first figures shown", "ms",
                        mean_of("sonde", got["figures"])))
        say(f"dashboard: {PAGES} open pages")
        pairs = [open_pair(agent, folder) for _ in range(OPEN_ROUNDS)]
        rows.append(row("dashboard_agent", "dashboard", f"agent, for {PAGES} open dashboards", "% core",
                        mean_of("sonde serve", [with_pages - bare for with_pages, bare in pairs]), budget=1,
                        note="median of " + ", ".join(f"{w - b:.2f} ({w:.2f} with them, {b:.2f} without)" for w, b in pairs)))
    with Agent(args, writer) as agent:
        say(f"dashboard: 500 series for {SERIES_S} s")
        got = browse(folder, "series", f"{agent.url}/profiling/dashboard", CHARTS, SERIES_S)
        rows.append(row("dashboard_series_cpu", "dashboard", f"browser, {got['lines']} series at 1 s", "% core",
                        named("Chromium", stats_of([got["cpu_percent"]])), budget=10,
                        note=f"{CHARTS} charts, {SERIES_S} s, all of the browser's processes, drawn by the CPU"))
        rows.append(row("dashboard_series_heap", "dashboard", "its JavaScript heap, last by first", "ratio",
                        named("Chromium", stats_of([got["heap_mb"][-1] / got["heap_mb"][0]])), budget=1.1,
                        note=f"{got['heap_mb'][0]:.1f} MB after a minute, {got['heap_mb'][-1]:.1f} MB at the end"))
    return rows


# ---- Flame graphs -----------------------------------------------------------------------------

def speedscope_page(folder, scratch, profile):
    """As its own command line opens a file."""
    script = scratch / "speedscope.js"
    text = base64.b64encode(profile.read_bytes()).decode()
    script.write_text(f"speedscope.loadFileFromBase64({json.dumps(profile.name)}, {json.dumps(text)})")
    return f"file://{folder}/node_modules/speedscope/dist/release/index.html#localProfilePath={script}"


class View:
    """`sonde view FILE`: reads it, then serves it."""

    def __init__(self, args, path):
        began = time.monotonic()
        self.process = subprocess.Popen([args.build / "sonde", "view", "--listen", "127.0.0.1:0", path],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()
        self.read_s = time.monotonic() - began
        if not self.url:
            raise RuntimeError(f"sonde view ended with status {self.process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def huge_rows(args, folder, scratch, drawn, p95):
    say("dashboard: 400 MB of folded stacks through the agent")
    folded = scratch / "huge.folded"
    subprocess.run(["node", folder / "sample.mjs", "huge", folded], check=True)
    size_mb = folded.stat().st_size / 1e6
    with View(args, folded) as view:
        rows = [row("dashboard_huge_read", "dashboard", f"{size_mb:.0f} MB of folded stacks, read by sonde view", "s",
                    named("sonde", stats_of([view.read_s])),
                    note=f"once; agent {memory_mb(view.process.pid, 'VmRSS'):.0f} MB"),
                row("dashboard_huge", "dashboard", "the same, first drawn", "ms", drawn("sonde", view.url), budget=1500,
                    note="speedscope's users report that it gives up at 375 MB"),
                row("dashboard_huge_interaction", "dashboard", "the same, zoom in and out, p95", "ms",
                    p95("sonde", view.url), budget=50, note="boxes that stand for many are loaded meanwhile")]
    folded.unlink()
    return rows


def flame_rows(args, folder, scratch):
    say("dashboard: a profile of 200,000 stacks")
    folded, html = scratch / "big.folded", scratch / "big.html"
    subprocess.run(["node", folder / "sample.mjs", "big", folded], check=True)
    subprocess.run([args.build / "sonde", "flamegraph", "-o", html, folded], check=True, stderr=subprocess.DEVNULL)
    ours, theirs = f"file://{html}", speedscope_page(folder, scratch, folded)
    def drawn(name, url, rounds=ROUNDS, **options):
        return mean_of(name, browse(folder, "drawn", url, rounds, **options)["drawn"])

    def p95(name, url, **options):
        durations = browse(folder, "interact", url, name, INTERACTIONS, **options)["durations"]
        return named(name, stats_of(durations, percentile(durations, 0.95)))

    other = peer("speedscope", lambda: drawn("speedscope", theirs, 3, timeout=PEER_S))
    rows = [row("dashboard_flame", "dashboard", "200,000 stacks, first drawn", "ms", drawn("sonde", ours),
                peers=[other], budget=1500,
                note="the same folded file; sonde's cut by `sonde flamegraph`"
                     + ("" if other else f"; speedscope drew nothing within {PEER_S} s"))]
    say("dashboard: clicks and keys on it")
    rows.append(row("dashboard_interaction", "dashboard", "zoom in and out, input to paint, p95", "ms",
                    p95("sonde", ours),
                    peers=[other and peer("speedscope", lambda: p95("speedscope", theirs, timeout=PEER_S))], budget=50,
                    note=f"{INTERACTIONS} clicks and keys by the browser's Event Timing, which counts from 16 ms on"))
    return rows + huge_rows(args, folder, scratch, drawn, p95)


def measure(args, scratch):
    folder = prepare(args)
    return live_rows(args, folder) + flame_rows(args, folder, scratch)


GROUPS = {"dashboard": measure}

"""agent: what `sonde serve` costs with a thousand series, and while it is scraped."""
import re
import subprocess
import time
import urllib.request

from common import memory_mb, named, row, stats_of, watch

SERIES = 1000


def scrape(url):
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
        return answer.read().decode()


def wait_for_series(url, deadline):
    while time.monotonic() < deadline:
        if scrape(url).count("\nbench_writer_total{") >= SERIES * 7 // 10:
            return
        time.sleep(0.2)
    raise RuntimeError("the writer's series did not appear on /metrics")


def measure(args, scratch):
    sonde, writer = args.build / "sonde", args.build / "perf" / "bench_writer"
    seconds = args.agent_seconds
    processes = []
    try:
        processes.append(subprocess.Popen([writer, str(SERIES), "10", str(4 * seconds + 60)]))
        agent = subprocess.Popen([sonde, "serve", "--listen", "127.0.0.1:0"],
                                 stderr=subprocess.PIPE, text=True)
        processes.append(agent)
        url = None
        while url is None:
            line = agent.stderr.readline()
            if not line:
                raise RuntimeError(f"sonde serve ended with status {agent.wait()}")
            found = re.search(r"http://\S+", line)
            url = found.group(0).rstrip("/") if found else None
        wait_for_series(url, time.monotonic() + 30)
        quiet = watch(agent.pid, seconds)
        rss, anonymous = memory_mb(agent.pid, "VmRSS"), memory_mb(agent.pid, "RssAnon")
        scraped = watch(agent.pid, seconds, lambda: scrape(url))
        lines = sum(1 for line in scrape(url).splitlines() if not line.startswith("#"))
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    with_host = f"{SERIES} series of a program, and those of host and processes"
    of = lambda stats: named("sonde serve", stats)
    return [
        row("agent_cpu", "agent", f"agent, {SERIES:,} series at 1 Hz", "% core", of(quiet),
            budget=1, note=f"{with_host}; judged by the mean"),
        row("agent_cpu_scraped", "agent", "agent, and scraped every second", "% core", of(scraped),
            note=f"{lines} lines a scrape; judged by the mean"),
        row("agent_rss", "agent", f"agent, memory, {SERIES:,} series", "MB", of(stats_of([rss])),
            budget=64, note=f"of which {anonymous:.1f} MB are its own; the rest is code and mapped "
                            "segments"),
    ]


GROUPS = {"agent": measure}

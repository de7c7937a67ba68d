"""store: what a point takes on disk, what a day of one series takes to ask for, and whether a day's
load stays under its limit, beside plain rows in SQLite (perf/store.c).

The data is recorded here: an agent with its store, the host, and two example programs under load.
Everything is in memory (the scratch folder is on tmpfs where there is one), so the times are those
of the work and not of somebody's disk.
"""
import json
import signal
import subprocess
import time

from common import named, row, say, stats_of

RECORD_S = 40
INTERVAL_S = 0.25


def record(args, path):
    """A store with what an agent reads of two programs and the host."""
    say(f"store: recording for {RECORD_S} s")
    agent = subprocess.Popen(
        [args.build / "sonde", "serve", "--listen", "127.0.0.1:0", "--quiet", "--interval",
         str(INTERVAL_S), "--store", path], stderr=subprocess.DEVNULL)
    programs = [subprocess.Popen([args.build / name], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
                for name in ("example_shop", "example_engine")]
    try:
        time.sleep(RECORD_S)
    finally:
        for program in programs:
            program.kill()
            program.wait()
        agent.send_signal(signal.SIGTERM)
        agent.wait(30)


def measure(args, scratch):
    recorded, folder = (args.inputs or scratch) / "recorded.store", scratch / "store"
    if not recorded.exists():
        record(args, recorded)
    folder.mkdir()
    done = subprocess.run([args.build / "perf" / "bench_store", recorded, folder],
                          capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    got = {line["figure"]: line for line in map(json.loads, done.stdout.splitlines())}
    size, day, keep = got["size"], got["day"], got["retention"]

    def figure(name, value):
        return named(name, stats_of([value]))

    return [
        row("store_point", "store", "stored point, 1,000 series", "bytes",
            figure("sonde", size["bytes_a_point"]),
            peers=[figure("SQLite rows", size["plain_a_point"])], budget=1.5,
            note=f"{size['points']} points from {size['recorded_series']} recorded series"),
        row("store_point_day", "store", "stored point, a day with roll-ups", "bytes",
            figure("sonde", day["bytes_a_point"]), budget=1.5),
        row("store_day_minutes", "store", "a day of one series, by the minute", "ms",
            figure("sonde", day["minutes_s"] * 1e3),
            peers=[figure("SQLite rows", day["plain_s"] * 1e3)], budget=5),
        row("store_day", "store", "a day of one series, every point", "ms",
            figure("sonde", day["every_s"] * 1e3),
            peers=[figure("SQLite rows", day["plain_s"] * 1e3)]),
        row("store_limit", "store", "largest under a limit of 8.39 MB", "MB",
            figure("sonde", keep["largest"] / 1e6), budget=keep["limit"] / 1e6,
            note=f"a day of {keep['series']} series: {keep['written']:.0f} points"),
        row("store_append", "store", "longest append of a tick", "ms",
            figure("sonde", keep["append_s_max"] * 1e3), budget=50),
        row("store_step", "store", "longest step that points wait for", "ms",
            figure("sonde", max(keep["step_s_max"], keep["commit_s_max"],
                                keep["checkpoint_s_max"]) * 1e3), budget=50),
        row("store_step_cpu", "store", "the same, in the writer's CPU time", "ms",
            figure("sonde", keep["step_cpu_s_max"] * 1e3), budget=50),
    ]


GROUPS = {"store": measure}

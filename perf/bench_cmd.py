"""bench_cmd: `sonde bench cmd` beside hyperfine, in turns, on the same commands: the means that each finds, and whether
they differ by more than their turns do."""
import json
import math
import shutil
import subprocess

from common import named, row, say, stats_of

RUNS = 20
TURNS = 12
# What is run, whether by a shell, and what it cannot take less than.
COMMANDS = [
    ("true", False, 0.0),
    ("sleep 0.01", False, 0.01),
    ("sleep 0.01 | cat", True, 0.01),
    ("sha256sum {file}", False, 0.0),
]


def by_sonde(args, command, shell, out):
    line = [args.build / "sonde", "bench", "cmd", "-q", "-r", str(RUNS), "-w", "1", "--shell", "sh" if shell else "none",
            "--format", "json", "-o", out, command]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, timeout=300)
    return json.loads(out.read_text())["commands"][0]["parallel"][0]["wall_s"]["mean"]


def by_hyperfine(command, shell, out):
    line = ["hyperfine", "-r", str(RUNS), "-w", "1", "--style", "none", "--export-json", out, command]
    if not shell:
        line.insert(1, "-N")
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
    return json.loads(out.read_text())["results"][0]["mean"]


def mean_of(values):
    """Mean, and half of its 95 % interval; 2.2 is Student's t of 11 degrees of freedom."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, math.inf
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return mean, 2.2 * spread / math.sqrt(len(values))


def measure(args, scratch):
    turns = max(3, round(TURNS * args.effort))
    peer = args.peers and shutil.which("hyperfine")
    data = scratch / "data"
    data.write_bytes(bytes(range(256)) * 40000)
    rows = []
    for command, shell, least_s in COMMANDS:
        line, ours, theirs = command.format(file=data), [], []
        say(f"bench cmd: {command}")
        for turn in range(turns):
            tools = [lambda: ours.append(by_sonde(args, line, shell, scratch / "sonde.json"))]
            if peer:
                tools.append(lambda: theirs.append(by_hyperfine(line, shell, scratch / "hyperfine.json")))
            for tool in tools if turn % 2 else reversed(tools):
                tool()
        mean, _ = mean_of(ours)
        note = f"at least {least_s * 1e3:g} ms" if least_s else ""
        if theirs:
            apart, half = mean_of([a - b for a, b in zip(ours, theirs)])
            note = f"{note + '; ' if note else ''}{apart * 1e6:+.0f} ± {half * 1e6:.0f} µs to hyperfine: " + \
                ("no difference" if abs(apart) <= half else "they differ")
        peers = [named("hyperfine", stats_of([v * 1e3 for v in theirs], mean_of(theirs)[0] * 1e3))] if theirs else []
        rows.append(row(f"bench_cmd_{command.split()[0]}{'_shell' if shell else ''}", "bench_cmd",
                        f"{command.format(file='10 MB')}{', by a shell' if shell else ''}", "ms",
                        named("sonde", stats_of([v * 1e3 for v in ours], mean * 1e3)), peers=peers, note=note))
    return rows


GROUPS = {"bench_cmd": measure}

"""What several tests need: series and spans by name, code in a process of its own, the agent."""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

import sonde

BUILD = pathlib.Path(os.environ["SONDE_BUILD"])
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent


def series(name, **labels):
    """The one series of this process with that name and these labels."""
    found = [s for s in sonde.snapshot() if s["name"] == name
             and all(s["labels"].get(k) == v for k, v in labels.items())]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} series {name} {labels}")
    return found[0]


def spans(name):
    return [s for s in sonde.spans() if s["name"] == name]


def span(name):
    found = spans(name)
    if len(found) != 1:
        raise AssertionError(f"{len(found)} spans {name}")
    return found[0]


def run(code, *, python=sys.executable, status=0, timeout=120, **env):
    """Run code in a process of its own; what it printed. env: None takes a variable away."""
    full = {**os.environ, **{k: v for k, v in env.items() if v is not None}}
    for key in [k for k, v in env.items() if v is None]:
        full.pop(key, None)
    done = subprocess.run([python, "-X", "faulthandler", "-c", textwrap.dedent(code)], env=full, text=True,
                          capture_output=True, timeout=timeout)
    if done.returncode != status:
        raise AssertionError(f"status {done.returncode}, not {status}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def build(folder, *, python=sys.executable, cflags="", ldflags=""):
    """Build the package into a folder, another way than the one that is tested otherwise."""
    env = {**os.environ, "CFLAGS": cflags, "LDFLAGS": ldflags}
    env.pop("PYTHONPATH", None)
    done = subprocess.run([python, "setup.py", "-q", "build", "--build-temp", f"{folder}/temp", "--build-lib",
                           folder], cwd=SOURCE / "python", env=env, text=True, capture_output=True, timeout=300)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)


def exported(name, suffix="", folder=None):
    """What the agent reads from the segments: the values of every series of that name, summed over
    processes, by its labels other than process and pid; and from how many processes. suffix: _count or
    _sum of a histogram."""
    done = subprocess.run([BUILD / "sonde", "export", "--name", name], capture_output=True, text=True,
                          check=True, timeout=120,
                          env={**os.environ, "SONDE_DIR": folder or os.environ["SONDE_DIR"]})
    totals, pids = {}, set()
    for line in done.stdout.splitlines():
        match = re.fullmatch(re.escape(name + suffix) + r"\{(.*)\} (\S+)", line)
        if match:
            labels = dict(re.findall(r'(\w+)="((?:[^"\\\\]|\\\\.)*)"', match[1]))
            pids.add(labels.pop("pid"))
            labels.pop("process")
            key = tuple(sorted(labels.items()))
            totals[key] = totals.get(key, 0) + float(match[2])
    return totals, len(pids)

"""groups: all that perf/run and perf/beside can measure.

What is measured is a program, which may hold several groups (perf/harness.h), or a group in Python:
`measure(args, scratch)` that returns rows. They look at these of args:
    build          the build folder whose programs are measured
    only           glob of groups, or None
    rounds         of the programs
    peers          whether others are measured as well; without them only ours and the bare operation
    effort         of the time that a group in Python usually takes for its rounds; each has one at least
    agent_seconds  how long an agent is watched
    inputs         folder of what is made once and measured often, or None: in scratch each time
"""
import contextlib
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import agent
import bench_cmd
import bench_http
import compress
import cpu
import dashboard
import engine
import heap
import llama
import python
import store

PROGRAMS = ["process", "record", "shared", "render", "front", "probe"]
GROUPS = {**agent.GROUPS, **cpu.GROUPS, **heap.GROUPS, **llama.GROUPS, **engine.GROUPS, **store.GROUPS,
          **dashboard.GROUPS, **bench_cmd.GROUPS, **bench_http.GROUPS, **compress.GROUPS,
          **python.GROUPS}
SCRATCH_BYTES = 400e6
FAILURES = (RuntimeError, OSError, subprocess.SubprocessError)  # of a group; others go on


def chosen(only):
    """Names of the groups in Python that the glob means."""
    return [name for name in GROUPS if not only or fnmatch.fnmatch(name, only)]


def scratch_parent():
    """Memory, so that no disk is measured, where it has room for what perf writes."""
    shm = "/dev/shm"
    return shm if os.access(shm, os.W_OK) and shutil.disk_usage(shm).free > SCRATCH_BYTES else None


@contextlib.contextmanager
def scratch_folder():
    """A folder to write in, with a place for segments that everything started meanwhile uses."""
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="sonde-bench-", dir=scratch_parent()))
    (scratch / "segments").mkdir(mode=0o700)
    os.environ["SONDE_DIR"] = str(scratch / "segments")
    os.environ.pop("SONDE_ENABLED", None)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run_program(name, args, scratch, quiet=False):
    """Rows of those of its groups that args.only means. quiet: it does not say which it is at."""
    program = args.build / "perf" / f"bench_{name}"
    out = scratch / f"{name}.jsonl"
    command = [program, "--out", out, "--rounds", str(args.rounds)]
    if args.only:
        command += ["--only", args.only]
    done = subprocess.run(command, stderr=subprocess.PIPE if quiet else None, text=True)
    if done.returncode:
        said = (done.stderr or "").strip().splitlines()[-1:]
        raise RuntimeError(": ".join([f"{program.name} ended with status {done.returncode}", *said]))
    return [json.loads(line) for line in out.read_text().splitlines()]

"""progress.py SONDE FOLDER: work that takes longer than a second says so, on a terminal alone. The work
is reading from a pipe that stays open until the line was seen, or never is."""
import os
import pty
import select
import subprocess
import sys

sonde, folder = sys.argv[1:]
os.chdir(folder)


def run(args, terminal, seen):
    """What the command wrote to its stderr; seen: the input ends when this is in it."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    child = subprocess.Popen([sonde] + args, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    child.stdin.write(b"main;f 3\n")
    child.stdin.flush()
    got, ended = b"", False
    while True:
        if not ended and (seen is None or seen in got):
            child.stdin.close()
            ended = True
        if not select.select([ours], [], [], 60)[0]:
            child.kill()
            sys.exit(f"{args}: nothing more after {got!r}")
        try:
            more = os.read(ours, 4096)
        except OSError:  # a terminal that nobody has any more
            more = b""
        if not more:
            break
        got += more
    os.close(ours)
    assert child.wait(60) == 0, (args, got)
    return got


def lives(args):
    got = run(args, True, b", 2 s")
    assert b"\rsonde: reading the standard input, 1 s" in got, got
    assert b"\r\x1b[K" in got.split(b", 2 s")[-1], got  # gone before anything else is said
    return got


got = lives(["import", "-", "-o", "a.run"])
assert b"a.run: 1 samples of" in got or b"a.run: 3 samples of" in got, got
lives(["report", "-"])
lives(["flamegraph", "-", "-o", "a.svg"])
for quiet in (["import", "-q", "-", "-o", "b.run"], ["report", "-"]):
    for terminal in (True, False):
        if quiet[0] == "report" and terminal:
            continue
        got = run(quiet, terminal, None)
        assert b"reading" not in got and b"\x1b" not in got, got

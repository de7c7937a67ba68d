#!/usr/bin/env python3
"""Programs in Python whose shares are known: each function adds up the CPU time that it used itself, by
the thread's clock. Run under the profiler; prints "oracle NAME NANOSECONDS" for each. They take turns of
some periods each, so that how often one is met differs from what it used by less than chance would have it.

usage: python_frames.py KIND SECONDS [FILE]     SECONDS of CPU time (of each thread), when FILE is there
"""
import asyncio
import hashlib
import os
import sys
import threading
import time

spent = {}


def counted(function):
    def count(*args):
        begin = time.thread_time_ns()
        result = function(*args)
        name = "python_frames." + function.__qualname__
        spent[name] = spent.get(name, 0) + time.thread_time_ns() - begin
        return result
    return count


def spin(n):
    s = 0
    for i in range(n):
        s += i * i % 7
    return s


# ---- Pure Python: a method, a function, a generator in a lambda --------------------------------

class Work:
    @counted
    def sixty(self):
        return spin(900_000)


@counted
def thirty():
    return spin(450_000)


@counted
def ten():
    return (lambda n: sum(i * i % 7 for i in range(n)))(120_000)


# ---- C called from Python -----------------------------------------------------------------------

DATA = bytes(500_000)
NUMBERS = list(range(3000, 0, -1))


@counted
def hashes():
    for _ in range(60):
        hashlib.sha256(DATA).digest()


@counted
def sorts():
    for _ in range(40):
        sorted(NUMBERS, key=negative)


@counted
def copies():
    for _ in range(60):
        bytearray(DATA).translate(bytes(range(256)))


def negative(x):
    return -x


# ---- Deep, generated, asynchronous ------------------------------------------------------------

def deep(n, leaf):
    return deep(n - 1, leaf) if n else leaf()


def generator():
    while True:
        yield thirty()


async def task(function, times):
    for _ in range(times):
        function()
        await asyncio.sleep(0)


def until(seconds, *functions):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for function in functions:
            function()


async def tasks(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        await asyncio.gather(task(Work().sixty, 1), task(thirty, 1), task(ten, 1))


def main(kind, seconds):
    if kind == "pure":
        until(seconds, Work().sixty, thirty, ten)
    elif kind == "c":
        until(seconds, hashes, sorts, copies)
    elif kind == "threads":
        threads = [threading.Thread(target=until, args=(seconds * share, f))
                   for f, share in ((Work().sixty, 0.6), (thirty, 0.3), (ten, 0.1))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    elif kind == "asyncio":
        asyncio.run(tasks(seconds))
    elif kind == "shapes":
        sys.setrecursionlimit(2000)
        made = generator()
        code = compile("thirty()", "<generated>", "exec")
        until(seconds, lambda: deep(900, Work().sixty), lambda: next(made), lambda: exec(code),
              lambda: [ten() for _ in range(1)])


if __name__ == "__main__":
    while sys.argv[3:] and not os.path.exists(sys.argv[3]):
        time.sleep(0.02)
    main(sys.argv[1], float(sys.argv[2]))
    for name, ns in spent.items():
        print("oracle", name, ns)

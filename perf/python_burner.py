"""The same work again and again, some functions of Python deep: prints the CPU time of each turn, in ns.

    python_burner.py TURNS DEPTH
"""
import sys
import time


def burn(n):
    s = 0
    for i in range(n):
        s += i * i % 7
    return s


def deep(depth, n):
    return deep(depth - 1, n) if depth else burn(n)


def main(turns, depth):
    for _ in range(turns):
        begin = time.thread_time_ns()
        deep(depth, 200_000)
        print(time.thread_time_ns() - begin)


main(int(sys.argv[1]), int(sys.argv[2]))

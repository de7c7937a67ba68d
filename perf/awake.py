"""awake: CPUs that never halt while something is measured.

A virtual CPU that halts is given away, and comes back hundreds of microseconds after it is needed, sometimes
milliseconds: so a load that leaves pauses runs slower than one that leaves none, and what is fitted at one does not hold
at the other. (Measured on the machines that docs/benchmarks.md names: with a CPU busy 30 % of the time 6 % of it were
stolen, with one that was always busy 1 %.) A spinning process on each CPU, of the scheduling class that runs only where
nothing else wants to, keeps them: what `idle=poll` does for a machine that one may boot.

    with awake.Awake() as spinners: ...      spinners.pids are theirs
"""
import os
import subprocess
import sys


class Awake:
    def __init__(self):
        self.processes, self.pids = [], []

    def __enter__(self):
        for cpu in sorted(os.sched_getaffinity(0)):
            self.processes.append(subprocess.Popen([sys.executable, __file__, str(cpu), str(os.getpid())]))
        self.pids = [process.pid for process in self.processes]
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def spin(cpu, parent):
    """Until whoever started it is gone."""
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while os.getppid() == parent:
        for _ in range(200000):
            pass


if __name__ == "__main__":
    spin(int(sys.argv[1]), int(sys.argv[2]))

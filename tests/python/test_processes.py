"""Threads, fork, spawn and the end of the interpreter: totals are exact, read back by the agent, and
nothing crashes or hangs whatever state the process ends in."""

import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import unittest

import sonde
from helpers import exported, run, series, spans


def child_adds(name, n):
    sonde.counter(name, labels=("who",)).labels("child").add(n)


def child_counts(counter, histogram, n, ready, go):
    """Top level, so that spawn finds it; metrics come by pickle."""
    for _ in range(n):
        counter.add(1)
        histogram.record(0.25)
    ready.put(counter.value)
    go.wait()


class Threads(unittest.TestCase):
    def test_nothing_is_lost(self):
        counter = sonde.counter("threads_total")
        gauge = sonde.gauge("threads_now")
        histogram = sonde.histogram("threads_seconds")

        def work():
            for _ in range(5000):
                counter.add(1)
                gauge.add(1)
                histogram.record(0.001)
                with sonde.operation("threads.op"):
                    pass

        threads = [threading.Thread(target=work) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(counter.value, 100000)
        self.assertEqual(gauge.value, 100000)
        self.assertEqual(histogram.stats()["count"], 100000)
        self.assertEqual(series("sonde_operation_duration_seconds", operation="threads.op")["count"], 100000)

    def test_threads_come_and_go(self):
        counter = sonde.counter("comers_total")
        for _ in range(300):
            thread = threading.Thread(target=lambda: counter.add(1))
            thread.start()
            thread.join()
        self.assertEqual(counter.value, 300)


class Fork(unittest.TestCase):
    def private(self):
        folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(folder.cleanup)
        return folder.name

    def test_a_child_begins_anew_with_the_same_handles(self):
        counter = sonde.counter("fork_total", labels=("who",)).labels("x")
        counter.add(7)
        pid = os.fork()
        if pid == 0:
            ok = counter.value == 0
            counter.add(1)
            with sonde.span("fork.child"):
                pass
            ok = ok and counter.value == 1 and len(spans("fork.child")) == 1
            os._exit(0 if ok else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(counter.value, 7)

    def test_forked_inside_of_a_span(self):
        with sonde.span("fork.parent") as parent:
            pid = os.fork()
            if pid == 0:
                with sonde.span("fork.inside"):
                    pass
                inside = spans("fork.inside")[0]
                good = inside["parent_id"] == parent.span_id and inside["trace_id"] == parent.trace_id
                os._exit(0 if good else 1)
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(len(spans("fork.parent")), 1)

    def test_workers_are_read_exactly(self):
        """Sixty-four workers, alive while the agent reads."""
        code = """
            import os, sys, sonde
            requests = sonde.counter("workers_requests_total", labels=("route",))
            latency = sonde.histogram("workers_seconds")
            read_end, write_end = os.pipe()
            go_read, go_write = os.pipe()
            for worker in range(64):
                if os.fork() == 0:
                    os.close(go_write)
                    for i in range(100 + worker):
                        requests.labels("/a" if i % 2 else "/b").add(1)
                        latency.record(0.5)
                    os.write(write_end, b"x")
                    os.read(go_read, 1)
                    os._exit(0)
            os.close(go_read)
            left = 64
            while left:
                left -= len(os.read(read_end, left))
            sys.path.insert(0, os.environ["TESTS"])
            import helpers
            print(*helpers.exported("workers_requests_total"), sep="|")
            print(*helpers.exported("workers_seconds", "_count"), sep="|")
            """
        out = run(code, SONDE_DIR=self.private(), TESTS=os.path.dirname(os.path.abspath(__file__)))
        requests, latency = (line.split("|") for line in out.strip().splitlines())
        total = sum(100 + w for w in range(64))
        odd = sum((100 + w) // 2 for w in range(64))
        self.assertEqual(eval(requests[0]), {(("route", "/a"),): odd, (("route", "/b"),): total - odd})
        self.assertGreaterEqual(int(requests[1]), 64)
        self.assertEqual(eval(latency[0]), {(): total})

    def test_storm(self):
        """Forks from several threads, in the middle of what others record."""
        out = run("""
            import os, threading, sonde
            counter = sonde.counter("storm_total")
            stop = threading.Event()
            bad = []

            def record():
                i = 0
                while not stop.is_set():
                    counter.add(1)
                    with sonde.span(f"storm.{i % 50}"): pass
                    sonde.counter("storm_labels_total", labels=("k",)).labels(i % 20).add(1)
                    i += 1

            def forker():
                for _ in range(25):
                    pid = os.fork()
                    if pid == 0:
                        before = counter.value
                        for _ in range(100): counter.add(1)
                        with sonde.span("storm.child"): pass
                        sonde.counter("storm_labels_total", labels=("k",)).labels("child").add(1)
                        names = [s["name"] for s in sonde.spans()]
                        os._exit(0 if before == 0 and counter.value == 100 and names == ["storm.child"] else 1)
                    if os.waitpid(pid, 0)[1]: bad.append(pid)

            recorders = [threading.Thread(target=record) for _ in range(3)]
            forkers = [threading.Thread(target=forker) for _ in range(4)]
            for t in recorders + forkers: t.start()
            for t in forkers: t.join()
            stop.set()
            for t in recorders: t.join()
            print(len(bad))
            """, SONDE_DIR=self.private())
        self.assertEqual(out.split()[0], "0", out)

    def test_multiprocessing(self):
        for method in ("fork", "spawn", "forkserver"):
            name = f"mp_{method}_total"
            counter = sonde.counter(name, labels=("who",)).labels("all")
            histogram = sonde.histogram(f"mp_{method}_seconds")
            context = multiprocessing.get_context(method)
            ready, go = context.Queue(), context.Event()
            workers = [context.Process(target=child_counts, args=(counter, histogram, 50 + i, ready, go))
                       for i in range(3)]
            for worker in workers:
                worker.start()
            try:
                self.assertEqual(sorted(ready.get(timeout=60) for _ in workers), [50, 51, 52])
                self.assertEqual(exported(name)[0], {(("who", "all"),): 153}, method)
                self.assertEqual(exported(f"mp_{method}_seconds", "_count")[0], {(): 153}, method)
            finally:
                go.set()
                for worker in workers:
                    worker.join()
                ready.close()
                ready.join_thread()
            self.assertEqual([worker.exitcode for worker in workers], [0, 0, 0])
            self.assertEqual(counter.value, 0)

    def test_pool_of_processes(self):
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            pool.starmap(child_adds, [("mp_pool_total", i) for i in range(5)])


class Ends(unittest.TestCase):
    """The interpreter ends in every state."""

    def end(self, code, status=0, **env):
        folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(folder.cleanup)
        out = run(code, status=status, SONDE_DIR=folder.name, **env)
        self.assertNotIn("Fatal", out)
        self.assertNotIn("Exception ignored", out)
        return out

    def test_span_open(self):
        for begin in ("sonde.span('x').__enter__()", "s = sonde.span('x'); s.__enter__()",
                      "sonde.scope('x').__enter__()", "import builtins; builtins.s = sonde.operation('x').__enter__()"):
            self.end(f"import sonde\n{begin}")

    def test_in_atexit_and_teardown(self):
        out = self.end("""
            import atexit, sonde, sys
            counter = sonde.counter("a_total")
            @atexit.register
            def last():
                counter.add(1)
                with sonde.span("last"): pass
                print(counter.value, len(sonde.spans()))
            class Late:
                counter, span, h = counter, sonde.span, sonde.histogram("h_seconds")
                def __del__(self):
                    self.counter.add(1); self.h.record(1)
                    with self.span("late"): pass
            late = Late()
            sys.late = Late()
            """)
        self.assertEqual(out.strip(), "1 1")

    def test_daemon_threads_record(self):
        self.end("""
            import sonde, threading, time
            counter = sonde.counter("a_total")
            begun = threading.Barrier(5)
            def record():
                begun.wait()
                while True:
                    counter.add(1)
                    with sonde.span("x", n=1): sonde.snapshot()
            for _ in range(4): threading.Thread(target=record, daemon=True).start()
            begun.wait()
            """)

    def test_generators_and_tasks_left(self):
        self.end("""
            import asyncio, sonde
            @sonde.time_function
            def gen():
                with sonde.span("in"): yield 1
            g = gen(); next(g)
            async def forever():
                with sonde.span("task"): await asyncio.Event().wait()
            loop = asyncio.new_event_loop()
            task = loop.create_task(forever())
            loop.run_until_complete(asyncio.sleep(0))
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
            loop.close()
            """)

    def test_hard_ends(self):
        self.end("import os, sonde\nsonde.counter('a_total').add(1)\nos._exit(0)")
        self.end("import sonde, sys\nwith sonde.span('x'): sys.exit(3)", status=3)
        self.end("import sonde\nwith sonde.span('x'): raise SystemExit(4)", status=4)
        self.end("import os, signal, sonde\nwith sonde.span('x'): os.kill(os.getpid(), signal.SIGKILL)",
                 status=-signal.SIGKILL)

    def test_module_taken_apart(self):
        self.end("""
            import sonde, sys, gc
            c = sonde.counter("a_total"); f = sonde.time_function(len)
            for name in [n for n in sys.modules if n.split(".")[0] == "sonde"]: del sys.modules[name]
            del sonde
            gc.collect()
            c.add(1); f("x")
            import sonde
            assert sonde.counter("a_total").value == 1
            """)

    def test_the_segment_is_left_for_an_agent(self):
        """However it ends, as that of a C program is."""
        for end, status in (("", 0), ("os._exit(0)", 0), ("os.kill(os.getpid(), 9)", -9)):
            folder = tempfile.TemporaryDirectory(dir="/dev/shm")
            self.addCleanup(folder.cleanup)
            run(f"import os, sonde\nsonde.counter('outlives_total').add(3)\n{end}", status=status,
                SONDE_DIR=folder.name)
            kept = [name for name in os.listdir(folder.name) if name[0].isdigit()]
            self.assertEqual(len(kept), 1, end)


class Preloaded(unittest.TestCase):
    """Under `sonde run` libsonde_preload has a copy of libsonde too: both write to one segment."""

    def test_one_segment(self):
        folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(folder.cleanup)
        import subprocess
        from helpers import BUILD
        code = ("import os, sonde; sonde.counter('preloaded_total').add(5)\n"
                "with sonde.span('preloaded'): pass\n"
                "names = [n for n in os.listdir(os.environ['SONDE_DIR']) if n.startswith(f'{os.getpid()}.')]\n"
                "maps = open('/proc/self/maps').read()\n"
                "print('segments', len(names), 'preload', 'libsonde_preload' in maps,\n"
                "      'mappings', sum(names[0] in line and 'rw-s' in line for line in maps.splitlines()) > 0)\n")
        script = os.path.join(folder.name, "program.py")
        out = os.path.join(folder.name, "out.prom")
        code += f"import subprocess; subprocess.run([{str(BUILD / 'sonde')!r}, 'export', '-n', 'preloaded_total', '-o', {out!r}])\n"
        with open(script, "w") as file:
            file.write(code)
        done = subprocess.run([BUILD / "sonde", "run", "--", sys.executable, script], text=True,
                              capture_output=True, timeout=120, env={**os.environ, "SONDE_DIR": folder.name})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("segments 1 preload True mappings True", done.stdout)
        with open(out) as file:
            self.assertRegex(file.read(), r"preloaded_total\{.*\} 5\n")


if __name__ == "__main__":
    unittest.main()

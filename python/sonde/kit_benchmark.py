"""Benchmarks of a store of content by id: adding, reading, pinning, caches, threads.

A *kit* is any object with these methods; those that it lacks are left out and listed in `skipped`:

    ipfs_add_file(path) -> {"cid": …}       ipfs_cat(cid) -> bytes, or {"data": bytes}
    ipfs_pin_add(cid), ipfs_pin_ls(), ipfs_pin_rm(cid)
    get_filesystem() -> with cat(cid) and perhaps ls, info, open, as fsspec has them

Every call that is timed is an operation of `metrics` (and of sonde, under core_add_small and so on);
warm-up calls are not. What was read is compared with what was added: a kit that answers quickly and
wrongly has failed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import random
import shutil
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from .access_patterns import PATTERNS, run_access_pattern_benchmark
from .escape import to_json
from .metrics_export import write
from .performance import PerformanceMetrics
from .profiling import ProfilingContext
from .window import describe

logger = logging.getLogger("sonde.kit_benchmark")

RESULTS_VERSION = 1
FILE_BYTES = {"small": 1 << 10, "medium": 64 << 10, "large": 1 << 20}
ROLES = ("master", "worker", "leecher")

Files = dict[str, tuple[str, bytes]]


class WrongContent(Exception):
    """What was read is not what was added."""


def cid_of(answer: Any) -> Any:
    """The id in what ipfs_add_file() returned."""
    if isinstance(answer, dict):
        for key in ("cid", "Hash", "hash"):
            if answer.get(key):
                return answer[key]
        raise ValueError(f"ipfs_add_file() returned {answer!r}: there is no cid in it")
    return answer


def bytes_of(answer: Any) -> bytes:
    """The content in what ipfs_cat() returned."""
    if isinstance(answer, dict):
        answer = answer.get("data")
    if isinstance(answer, str):
        return answer.encode()
    if not isinstance(answer, (bytes, bytearray, memoryview)):
        raise ValueError(f"ipfs_cat() returned {type(answer).__name__}: it is not content")
    return bytes(answer)


class KitBenchmark:
    """kit: what is measured. metrics_dir: where save_results() writes; made if it is not there.
    role is that of the node, and only noted. iterations: timed calls of each; warmup: untimed ones
    before them; parallelism: threads at the most."""

    def __init__(self, kit: Any, metrics_dir: str | None = None, role: str = "leecher",
                 parallelism: int = 2, iterations: int = 5, warmup: int = 1) -> None:
        if role not in ROLES:
            raise ValueError(f"role {role!r}: it is one of {', '.join(ROLES)}")
        for name, value, least in (("parallelism", parallelism, 1), ("iterations", iterations, 1),
                                   ("warmup", warmup, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}: it is a number, at least {least}")
        self.kit = kit
        self.metrics_dir = os.path.expanduser(metrics_dir) if metrics_dir else None
        if self.metrics_dir:
            os.makedirs(self.metrics_dir, exist_ok=True)
        self.role, self.parallelism = role, parallelism
        self.iterations, self.warmup = iterations, warmup
        self.metrics = PerformanceMetrics(max_history=100_000)
        self.correlation_id = str(uuid.uuid4())
        self.results: dict[str, Any] = {
            "sonde_kit_benchmark": RESULTS_VERSION, "correlation_id": self.correlation_id,
            "time": time.time(), "role": role, "parallelism": parallelism,
            "iterations": iterations, "warmup": warmup,
            "system": {"python": platform.python_version(), "machine": platform.machine(),
                       "kernel": platform.release(), "cpus": os.cpu_count()},
            "benchmarks": {}}

    # ---- Test files ------------------------------------------------------------------------------

    def _create_test_files(self) -> Files:
        """By name: path and content; random, so that nothing can be compressed or known already."""
        folder = tempfile.mkdtemp(prefix="sonde-benchmark-")
        files = {}
        for name, size in FILE_BYTES.items():
            path, content = os.path.join(folder, name), random.randbytes(size)
            with open(path, "wb") as out:
                out.write(content)
            files[name] = (path, content)
        return files

    def _cleanup_test_files(self, files: Files) -> None:
        for folder in {os.path.dirname(path) for path, _ in files.values()}:
            shutil.rmtree(folder, ignore_errors=True)

    # ---- Measuring -------------------------------------------------------------------------------

    def _timed(self, operation: str, call: Callable[[], Any], took: list[float],
               failed: list[Exception]) -> Any:
        """One call that counts."""
        context = ProfilingContext(self.metrics, operation, self.correlation_id)
        try:
            with context:
                return call()
        except Exception as error:
            failed.append(error)
        finally:
            took.append(context.duration or 0.0)

    def _figures(self, operation: str, took: list[float], failed: list[Exception],
                 size: int = 0) -> dict[str, Any]:
        """Of these calls only, however often the benchmark is run. The first error is told."""
        figures: dict[str, Any] = {"operation": operation, **describe(took), "errors": len(failed)}
        if size:
            figures["bytes"] = size
            if figures["avg"] > 0:
                figures["bytes_per_second"] = size / figures["avg"]
        if failed:
            figures["first_error"] = f"{type(failed[0]).__name__}: {failed[0]}"
            logger.warning("%s: %s", operation, figures["first_error"])
        return figures

    def _measure(self, operation: str, call: Callable[[], Any], size: int = 0) -> dict[str, Any]:
        """Figures of `iterations` calls."""
        took: list[float] = []
        failed: list[Exception] = []
        for _ in range(self.warmup):
            with contextlib.suppress(Exception):  # it fails again when it counts
                call()
        for _ in range(self.iterations):
            self._timed(operation, call, took, failed)
        return self._figures(operation, took, failed, size)

    def _has(self, names: list[str], results: dict[str, Any], of: Any = None) -> set[str]:
        """Which of these methods there are; the others are noted as skipped."""
        of = self.kit if of is None else of
        found = {name for name in names if callable(getattr(of, name, None))}
        missing = [name for name in names if name not in found]
        if missing:
            results["skipped"] = missing
        return found

    def _expect(self, answer: Any, content: bytes) -> None:
        got = bytes_of(answer)
        if got != content:
            raise WrongContent(f"{len(got)} bytes were read, not the {len(content)} added")

    def _filesystem(self) -> Any:
        get = getattr(self.kit, "get_filesystem", None)
        if not callable(get):
            raise ValueError("the kit has no get_filesystem(): caching and fsspec need it")
        fs = get()
        if fs is None or not callable(getattr(fs, "cat", None)):
            raise ValueError(f"get_filesystem() returned {fs!r}, which has no cat()")
        return fs

    # ---- Benchmarks ------------------------------------------------------------------------------

    def benchmark_core_operations(self) -> dict[str, Any]:
        """Adding, reading and pinning, by size."""
        logger.info("core operations")
        results: dict[str, Any] = {}
        has = self._has(["ipfs_add_file", "ipfs_cat", "ipfs_pin_add", "ipfs_pin_ls", "ipfs_pin_rm"],
                        results)
        files = self._create_test_files()
        try:
            for name, (path, content) in files.items():
                size = len(content)
                if "ipfs_add_file" not in has:
                    break
                results.setdefault("add", {})[name] = self._measure(
                    f"core_add_{name}", lambda: self.kit.ipfs_add_file(path), size)
                cid = cid_of(self.kit.ipfs_add_file(path))
                if "ipfs_cat" in has:
                    results.setdefault("cat", {})[name] = self._measure(
                        f"core_cat_{name}", lambda: self._expect(self.kit.ipfs_cat(cid), content),
                        size)
                for method in ("ipfs_pin_add", "ipfs_pin_rm"):
                    if method in has:
                        short = method.removeprefix("ipfs_")
                        results.setdefault(short, {})[name] = self._measure(
                            f"core_{short}_{name}", lambda: getattr(self.kit, method)(cid))
            if "ipfs_pin_ls" in has:
                results["pin_ls"] = self._measure("core_pin_ls", self.kit.ipfs_pin_ls)
        finally:
            self._cleanup_test_files(files)
        self.results["benchmarks"]["core_operations"] = results
        return results

    def benchmark_caching(self) -> dict[str, Any]:
        """The first read of each file and the reads after it, and reads by pattern."""
        logger.info("caching")
        fs = self._filesystem()
        results: dict[str, Any] = {}
        files = self._create_test_files()
        try:
            cids = []
            for name, (path, content) in files.items():
                cid = cid_of(self.kit.ipfs_add_file(path))
                cids.append(cid)
                took: list[float] = []
                failed: list[Exception] = []
                self._timed(f"cache_first_{name}", lambda: self._expect(fs.cat(cid), content), took,
                            failed)
                once = self._figures(f"cache_first_{name}", took, failed, len(content))
                again = self._measure(f"cache_again_{name}", lambda: fs.cat(cid), len(content))
                results[name] = {"first": once, "again": again}
                if again["avg"] > 0:
                    results[name]["speedup"] = once["avg"] / again["avg"]
            results["patterns"] = {
                pattern: run_access_pattern_benchmark(fs, cids, pattern, self.iterations)
                for pattern in PATTERNS}
            counted = getattr(fs, "get_performance_metrics", None)
            if counted:
                results["cache"] = counted()["cache"]
        finally:
            self._cleanup_test_files(files)
        self.results["benchmarks"]["caching"] = results
        return results

    def benchmark_fsspec_operations(self) -> dict[str, Any]:
        """cat, info, ls and reading an open file."""
        logger.info("file system operations")
        fs = self._filesystem()
        results: dict[str, Any] = {}
        has = self._has(["cat", "info", "ls", "open"], results, fs)
        files = self._create_test_files()
        try:
            for name, (path, content) in files.items():
                cid = cid_of(self.kit.ipfs_add_file(path))

                def read_open() -> None:
                    with fs.open(cid, "rb") as opened:
                        self._expect(opened.read(), content)

                calls: dict[str, Callable[[], Any]] = {
                    "cat": lambda: self._expect(fs.cat(cid), content),
                    "info": lambda: fs.info(cid), "ls": lambda: fs.ls(cid), "open": read_open}
                for method, call in calls.items():
                    if method in has:
                        size = len(content) if method in ("cat", "open") else 0
                        results.setdefault(method, {})[name] = self._measure(
                            f"fsspec_{method}_{name}", call, size)
        finally:
            self._cleanup_test_files(files)
        self.results["benchmarks"]["fsspec_operations"] = results
        return results

    def _worker_counts(self) -> list[int]:
        counts = [1 << i for i in range(self.parallelism.bit_length()) if 1 << i < self.parallelism]
        return counts + [self.parallelism]

    def benchmark_parallel_operations(self) -> dict[str, Any]:
        """Reads by 1, 2, 4 … parallelism threads: parallel_cat has requests_per_second and figures
        of latency for each number."""
        logger.info("parallel operations")
        files = self._create_test_files()
        by_workers: dict[int, dict[str, Any]] = {}
        try:
            known = [(cid_of(self.kit.ipfs_add_file(path)), content)
                     for path, content in files.values()]
            for workers in self._worker_counts():
                by_workers[workers] = self._parallel(workers, known)
        finally:
            self._cleanup_test_files(files)
        results = {"parallel_cat": by_workers}
        self.results["benchmarks"]["parallel_operations"] = results
        return results

    def _parallel(self, workers: int, known: list[tuple[Any, bytes]]) -> dict[str, Any]:
        operation = f"parallel_cat_{workers}"
        took: list[float] = []      # appending is atomic
        failed: list[Exception] = []

        def warm(item: tuple[Any, bytes]) -> None:
            with contextlib.suppress(Exception):
                self.kit.ipfs_cat(item[0])

        def read(item: tuple[Any, bytes]) -> None:
            self._timed(operation, lambda: self._expect(self.kit.ipfs_cat(item[0]), item[1]), took,
                        failed)

        work = known * self.iterations * workers
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(warm, known * self.warmup))
            started = time.perf_counter()
            list(pool.map(read, work))
            seconds = time.perf_counter() - started
        figures = self._figures(operation, took, failed)
        figures |= {"workers": workers, "requests": len(work), "seconds": seconds}
        if seconds > 0:
            figures["requests_per_second"] = (len(work) - len(failed)) / seconds
        return figures

    def run_all_benchmarks(self) -> dict[str, Any]:
        """All of them. One that this kit cannot do has its reason as `error`."""
        for name, run in self.benchmarks().items():
            try:
                run()
            except Exception as error:
                logger.warning("%s: %r", name, error)
                self.results["benchmarks"][name] = {"error": f"{type(error).__name__}: {error}"}
        self.results["analysis"] = self.metrics.analyze_metrics()
        return self.results

    def benchmarks(self) -> dict[str, Callable[[], dict[str, Any]]]:
        return {"core_operations": self.benchmark_core_operations,
                "caching": self.benchmark_caching,
                "fsspec_operations": self.benchmark_fsspec_operations,
                "parallel_operations": self.benchmark_parallel_operations}

    def save_results(self, path: str | None = None) -> str:
        """As JSON; a name without a folder is in metrics_dir, if there is one. Returns the path."""
        path = os.path.expanduser(path or f"benchmark-{int(self.results['time'])}.json")
        if self.metrics_dir and not os.path.dirname(path):
            path = os.path.join(self.metrics_dir, path)
        write(path, to_json(self.results) + "\n")
        return path

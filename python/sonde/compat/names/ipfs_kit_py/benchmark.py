"""Benchmarks of an IPFS node, by sonde.kit_benchmark; also as a program:

    python3 -m ipfs_kit_py.benchmark --benchmark caching
"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from typing import Any

from sonde.fs_kit import open_kit
from sonde.kit_benchmark import ROLES, KitBenchmark
from sonde.profiling import ProfilingContext

from .ipfs_kit import ipfs_kit

CHOICES = {"core": "core_operations", "caching": "caching", "fsspec": "fsspec_operations",
           "parallel": "parallel_operations"}


class IPFSKitBenchmark(KitBenchmark):
    """Without a kit: what ipfs_kit() makes, for this role and port."""

    def __init__(self, metrics_dir: str | None = None, role: str = "leecher", parallelism: int = 2,
                 iterations: int = 5, warmup: int = 1, daemon_port: int | None = None,
                 kit: Any = None) -> None:
        if kit is None:
            kit = ipfs_kit(daemon_port=daemon_port, role=role)
        super().__init__(kit, metrics_dir, role, parallelism, iterations, warmup)


def _count(least: int) -> Any:
    def count(text: str) -> int:
        if not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {least}")
        return int(text)
    return count


def _kit(text: str) -> Any:
    """MODULE:FACTORY, called without arguments."""
    module, _, factory = text.partition(":")
    try:
        return getattr(importlib.import_module(module), factory)()
    except (ImportError, AttributeError, ValueError) as failed:
        raise argparse.ArgumentTypeError(f"{text!r}: {failed}") from failed


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m ipfs_kit_py.benchmark",
        description="Measure an IPFS node: adding, reading, pinning, caches, threads.")
    add = parser.add_argument
    add("--metrics-dir", metavar="DIR", help="directory to store metrics and results")
    add("--role", choices=ROLES, default="leecher", help="IPFS node role, as a note (%(default)s)")
    add("--daemon-port", type=_count(1), metavar="PORT", help="IPFS daemon API port (5001)")
    add("--parallelism", type=_count(1), default=2, metavar="N",
        help="number of parallel operations (%(default)s)")
    add("--iterations", type=_count(1), default=5, metavar="N",
        help="number of iterations for each benchmark (%(default)s)")
    add("--warmup", type=_count(0), default=1, metavar="N",
        help="number of warmup iterations before timing (%(default)s)")
    add("--benchmark", choices=["all", *CHOICES], default="all",
        help="which benchmark to run (%(default)s)")
    of = parser.add_mutually_exclusive_group()
    of.add_argument("--kit", type=_kit, metavar="MODULE:FACTORY",
                    help="measure what this function makes, not the daemon")
    of.add_argument("--filesystem", metavar="PROTOCOL:FOLDER",
                    help="measure a file system of fsspec's: file:/tmp/bench")
    add("--verbose", action="store_true", help="log what is measured")
    return parser


def main(argv: list[str] | None = None) -> int:
    given = arguments().parse_args(argv)
    logging.basicConfig(level=logging.INFO if given.verbose else logging.ERROR, stream=sys.stderr)
    try:
        kit = open_kit(given.filesystem) if given.filesystem else given.kit
        benchmark = IPFSKitBenchmark(given.metrics_dir, given.role, given.parallelism,
                                     given.iterations, given.warmup, given.daemon_port, kit)
        if kit is None:
            benchmark.kit.ipfs_version()  # a daemon that is not there is an error now, not later
        try:
            if given.benchmark == "all":
                benchmark.run_all_benchmarks()
            else:
                benchmark.benchmarks()[CHOICES[given.benchmark]]()
        finally:
            if given.filesystem:
                kit.remove()
        path = benchmark.save_results()
    except (OSError, ValueError) as failed:
        print(f"benchmark: {failed}", file=sys.stderr)
        return 2
    print(benchmark.metrics.generate_report("text"), end="")
    print(f"\nresults: {path}")
    failed_ones = [name for name, found in benchmark.results["benchmarks"].items()
                   if "error" in found]
    for name in failed_ones:
        print(f"benchmark: {name}: {benchmark.results['benchmarks'][name]['error']}",
              file=sys.stderr)
    return 1 if failed_ones else 0


__all__ = ["IPFSKitBenchmark", "ProfilingContext", "main"]

if __name__ == "__main__":
    sys.exit(main())

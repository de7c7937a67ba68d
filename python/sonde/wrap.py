"""File systems and iterators that are measured: wrap_fs, wrap_iter.

    fs = sonde.wrap_fs(fsspec.filesystem("simplecache", target_protocol="s3"))
    data = fs.cat("bucket/part-0")              # operation simplecache.cat, bytes in, hit or miss
    fs.get_performance_metrics()["cache"]       # hits by tier

    for batch in sonde.wrap_iter(loader, dataset="digits"):
        train(batch)                            # waiting for a batch apart from working on it
"""

from __future__ import annotations

import os
import threading
from collections import deque
from time import perf_counter_ns
from typing import Any, AsyncIterator, Callable, Iterable, Iterator

import sonde

from .ml import SPAN_SECONDS, series

__all__ = ["FileSystem", "Iterated", "wrap_fs", "wrap_iter"]

LATENCIES_KEPT = 1000   # of each operation, for percentiles of get_performance_metrics()


# ---- What they moved ---------------------------------------------------------------------------------

def _bytes_in(data: Any) -> int:
    if isinstance(data, (bytes, bytearray, memoryview)):
        return memoryview(data).nbytes
    if isinstance(data, str):
        return len(data.encode("utf-8", "surrogatepass"))
    if isinstance(data, dict):
        return sum(map(_bytes_in, data.values()))
    if isinstance(data, (list, tuple)):
        return sum(map(_bytes_in, data))
    return 0


def _files_bytes(paths: Any) -> int:
    """Of local files, or all files of a folder; 0 for what cannot be told."""
    if isinstance(paths, (list, tuple)):
        return sum(map(_files_bytes, paths))
    if not isinstance(paths, (str, os.PathLike)):
        return 0
    try:
        if os.path.isdir(paths):
            return sum(os.path.getsize(os.path.join(folder, name))
                       for folder, _, names in os.walk(paths) for name in names)
        return os.path.getsize(paths)
    except OSError:
        return 0


# How each method is measured: which way its bytes go, how they are told of (args, named, result), and whether
# it reads what a cache may hold. args are those behind self.
_Bytes = Callable[[tuple[Any, ...], dict[str, Any], Any], int]


def _argument(at: int, name: str) -> "Callable[[tuple[Any, ...], dict[str, Any]], Any]":
    return lambda args, named: args[at] if len(args) > at else named.get(name)


def _of_result(args: tuple[Any, ...], named: dict[str, Any], result: Any) -> int:
    return _bytes_in(result)


def _of_argument(at: int, name: str, count: Callable[[Any], int]) -> _Bytes:
    get = _argument(at, name)
    return lambda args, named, result: count(get(args, named))


def _of_pipe(args: tuple[Any, ...], named: dict[str, Any], result: Any) -> int:
    path, value = _argument(0, "path")(args, named), _argument(1, "value")(args, named)
    return _bytes_in(path) if isinstance(path, dict) else _bytes_in(value)


_METHODS: dict[str, tuple[str, _Bytes | None, bool]] = {
    "cat": ("in", _of_result, True),
    "cat_file": ("in", _of_result, True),
    "cat_ranges": ("in", _of_result, False),
    "head": ("in", _of_result, True),
    "tail": ("in", _of_result, True),
    "read_block": ("in", _of_result, True),
    "read_bytes": ("in", _of_result, True),
    "read_text": ("in", _of_result, True),
    "get": ("in", _of_argument(1, "lpath", _files_bytes), False),
    "get_file": ("in", _of_argument(1, "lpath", _files_bytes), False),
    "download": ("in", _of_argument(1, "lpath", _files_bytes), False),
    "put": ("out", _of_argument(0, "lpath", _files_bytes), False),
    "put_file": ("out", _of_argument(0, "lpath", _files_bytes), False),
    "upload": ("out", _of_argument(0, "lpath", _files_bytes), False),
    "pipe": ("out", _of_pipe, False),
    "pipe_file": ("out", _of_argument(1, "value", _bytes_in), False),
    "write_bytes": ("out", _of_argument(1, "value", _bytes_in), False),
    "write_text": ("out", _of_argument(1, "value", _bytes_in), False),
    "ls": ("", None, False),
    "info": ("", None, False),
    "exists": ("", None, False),
    "find": ("", None, False),
    "glob": ("", None, False),
    "rm": ("", None, False),
    "copy": ("", None, False),
    "mv": ("", None, False),
    "mkdir": ("", None, False),
    "makedirs": ("", None, False),
}


# ---- Figures of one file system ----------------------------------------------------------------------

class _Operation:
    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.min = self.max = 0.0
        self.errors: dict[str, int] = {}
        self.latencies: deque[float] = deque(maxlen=LATENCIES_KEPT)

    def add(self, seconds: float, error: BaseException | None) -> None:
        self.min = min(self.min, seconds) if self.count else seconds
        self.max = max(self.max, seconds)
        self.count += 1
        self.seconds += seconds
        self.latencies.append(seconds)
        if error is not None:
            kind = type(error).__name__
            self.errors[kind] = self.errors.get(kind, 0) + 1

    def figures(self) -> dict[str, Any]:
        ordered = sorted(self.latencies)

        def quantile(q: float) -> float:
            return ordered[min(int(q * len(ordered)), len(ordered) - 1)]

        return {"count": self.count, "seconds": self.seconds, "mean": self.seconds / self.count, "min": self.min,
                "max": self.max, "p50": quantile(0.5), "p95": quantile(0.95), "p99": quantile(0.99),
                "errors": dict(self.errors)}


class _Figures:
    """What get_performance_metrics() tells; series of the process have it too, of all file systems."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.operations: dict[str, _Operation] = {}
        self.bytes = {"in": 0, "out": 0}
        self.tiers: dict[str, dict[str, int]] = {}
        self.misses = 0         # that no tier had

    def operation(self, name: str, seconds: float, error: BaseException | None) -> None:
        with self.lock:
            self.operations.setdefault(name, _Operation()).add(seconds, error)

    def moved(self, direction: str, count: int) -> None:
        with self.lock:
            self.bytes[direction] += count

    def access(self, tier: str, hit: bool) -> None:
        with self.lock:
            self.tiers.setdefault(tier, {"hits": 0, "misses": 0})["hits" if hit else "misses"] += 1
            self.misses += not hit

    def cache(self) -> dict[str, Any]:
        hits = sum(tier["hits"] for tier in self.tiers.values())
        total = hits + self.misses

        def rate(count: int) -> float:
            return count / total if total else 0.0

        out: dict[str, Any] = {"total": total, "misses": self.misses, "miss_rate": rate(self.misses),
                               "overall_hit_rate": rate(hits)}
        for tier in {"memory": 0, "disk": 0, **self.tiers}:     # these two are always there
            count = self.tiers.get(tier, {}).get("hits", 0)
            out[tier + "_hits"] = count
            out[tier + "_hit_rate"] = rate(count)
        out["tiers"] = {tier: dict(counts) for tier, counts in self.tiers.items()}
        return out

    def all(self) -> dict[str, Any]:
        with self.lock:
            return {"operations": {name: operation.figures() for name, operation in self.operations.items()},
                    "bandwidth": {"bytes_in": self.bytes["in"], "bytes_out": self.bytes["out"]},
                    "cache": self.cache()}


# ---- Tiers -------------------------------------------------------------------------------------------

def _protocol(fs: Any) -> str:
    # The class's own: a caching file system answers for its target otherwise.
    protocol = getattr(type(fs), "protocol", None) or "fs"
    return str(protocol if isinstance(protocol, str) else next(iter(protocol), "fs"))


def _is_caching(fs: Any) -> bool:
    """blockcache, filecache, simplecache …: they know by _check_file what they hold."""
    return callable(getattr(type(fs), "_check_file", None)) and hasattr(fs, "storage")


def _storage_tier(fs: Any, place: str) -> str:
    return "memory" if os.path.realpath(place).startswith("/dev/shm/") else "disk"


def _look_up(fs: Any, path: str) -> tuple[str, bool] | None:
    """The tier that is asked first for a path, and whether it has it; None = there is no cache."""
    if _is_caching(fs):
        try:
            found = fs._check_file(path)
        except Exception:   # what it asks of its target may fail; the operation itself will say so
            found = False
        detail, place = found if isinstance(found, tuple) else ({}, found)
        if not found:
            return _storage_tier(fs, fs.storage[-1]), False
        complete = not isinstance(detail, dict) or detail.get("blocks", True) is True
        return _storage_tier(fs, str(place)), complete  # a file of which blocks are missing is fetched
    if _protocol(fs) == "memory":
        return "memory", bool(fs.exists(path))
    return None


# ---- Files -------------------------------------------------------------------------------------------

class _File:
    """An open file whose bytes are counted; in all else it is that file."""

    def __init__(self, file: Any, moved: Callable[[str, int], None]) -> None:
        self.__dict__["_file"] = file
        self.__dict__["_moved"] = moved

    @property
    def __class__(self) -> type:    # type: ignore[override]
        return type(self._file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._file, name, value)

    def _in(self, data: Any) -> Any:
        count = _bytes_in(data)
        if count:
            self._moved("in", count)
        return data

    def read(self, *args: Any, **named: Any) -> Any:
        return self._in(self._file.read(*args, **named))

    def read1(self, *args: Any) -> Any:
        return self._in(self._file.read1(*args))

    def readline(self, *args: Any) -> Any:
        return self._in(self._file.readline(*args))

    def readlines(self, *args: Any) -> Any:
        return self._in(self._file.readlines(*args))

    def readinto(self, buffer: Any) -> Any:
        count = self._file.readinto(buffer)
        if count:
            self._moved("in", count)
        return count

    def readuntil(self, *args: Any, **named: Any) -> Any:
        return self._in(self._file.readuntil(*args, **named))

    def write(self, data: Any) -> Any:
        count = self._file.write(data)
        self._moved("out", _bytes_in(data))
        return count

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)

    def __iter__(self) -> "_File":
        return self

    def __next__(self) -> Any:
        return self._in(next(self._file))

    def __enter__(self) -> "_File":
        self._file.__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        return self._file.__exit__(kind, error, traceback)


# ---- File systems ------------------------------------------------------------------------------------

class FileSystem:
    """What wrap_fs returns: the file system, measured. Attributes, isinstance, == and hash are its own;
    async methods (_cat_file …) and what it calls itself are not measured."""

    def __init__(self, fs: Any, name: str | None) -> None:
        self.__dict__["_wrapped"] = fs
        self.__dict__["_measured_as"] = name or _protocol(fs)
        self.__dict__["_figures"] = _Figures()

    @property
    def __class__(self) -> type:    # type: ignore[override]
        return type(self._wrapped)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if name in _METHODS and callable(found):
            return _measured(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._wrapped, name, value)

    def __eq__(self, other: object) -> bool:
        return self._wrapped == (other.__dict__["_wrapped"] if type(other) is FileSystem else other)

    def __hash__(self) -> int:
        return hash(self._wrapped)

    def __repr__(self) -> str:
        return f"<measured {self._wrapped!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return wrap_fs, (self._wrapped, self._measured_as)

    def get_performance_metrics(self) -> dict[str, Any]:
        """operations: latency and errors of each; bandwidth: bytes in and out; cache: total,
        memory_hits, memory_hit_rate, disk_hits, disk_hit_rate, misses, miss_rate, overall_hit_rate, and
        tiers with hits and misses of each."""
        return self._figures.all()

    def open(self, path: Any, mode: str = "rb", *args: Any, **named: Any) -> Any:
        """The file, whose bytes are counted as they are read and written."""
        _note_access(self, path if "r" in mode else None)
        file = _timed(self, "open", lambda: self._wrapped.open(path, mode, *args, **named))
        return _File(file, lambda direction, count: _note_bytes(self, direction, count))


def _note_bytes(fs: FileSystem, direction: str, count: int) -> None:
    if count:
        fs._figures.moved(direction, count)
        sonde.bandwidth(direction, count, source=fs._measured_as)


def _note_access(fs: FileSystem, paths: Any) -> None:
    for path in paths if isinstance(paths, (list, tuple)) else [paths]:
        found = _look_up(fs._wrapped, path) if isinstance(path, str) else None
        if found:
            fs._figures.access(*found)
            sonde.cache_access(found[1], tier=found[0])


def _timed(fs: FileSystem, name: str, call: Callable[[], Any]) -> Any:
    start, failure = perf_counter_ns(), None
    try:
        with sonde.operation(f"{fs._measured_as}.{name}"):
            return call()
    except BaseException as error:
        failure = error
        raise
    finally:
        fs._figures.operation(name, (perf_counter_ns() - start) / 1e9, failure)


def _measured(fs: FileSystem, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    direction, count, reads = _METHODS[name]

    def measured(*args: Any, **named: Any) -> Any:
        if reads:
            _note_access(fs, _argument(0, "path")(args, named) or named.get("fn"))
        result = _timed(fs, name, lambda: method(*args, **named))
        if count is not None:
            _note_bytes(fs, direction, count(args, named, result))
        return result

    measured.__name__ = name
    measured.__doc__ = method.__doc__
    return measured


def wrap_fs(fs: Any, name: str | None = None) -> Any:
    """A file system of fsspec's kind, measured. name: under which its operations and bytes are found;
    None = its protocol."""
    if type(fs) is FileSystem:
        return fs
    for method in ("open", "ls"):
        if not callable(getattr(fs, method, None)):
            raise TypeError(f"{type(fs).__name__} is not a file system: it has no {method}()")
    return FileSystem(fs, name)


# ---- Iterators ---------------------------------------------------------------------------------------

class _Pass:
    """One pass over an iterable: when it waited, and when the caller worked."""

    def __init__(self, of: "Iterated") -> None:
        self.of = of
        self.first = True
        self.given = 0      # ns at which the caller got the last item; 0 = it has none
        self.asked = 0
        self.span: Any = None

    def ask(self) -> None:
        self.asked = now = perf_counter_ns()
        if self.given:
            self.of._use((now - self.given) / 1e9)
            self.given = 0
        if self.of._loop is not None:
            self.of._loop._asked()
        self.span = None
        if now >= self.of._span_due:    # fast loops would fill the ring of spans with their waits
            self.of.__dict__["_span_due"] = now + int(SPAN_SECONDS * 1e9)
            self.span = sonde.span("ml.data_wait")
            self.span.__enter__()

    def got(self) -> None:
        if self.span is not None:
            self.span.__exit__(None, None, None)
        self.given = perf_counter_ns()
        self.of._wait((self.given - self.asked) / 1e9, self.first)
        self.first = False
        if self.of._loop is not None:
            self.of._loop._got()

    def failed(self, error: BaseException) -> None:
        if self.of._loop is not None:
            self.of._loop._got()
        ended = isinstance(error, (StopIteration, StopAsyncIteration, GeneratorExit))
        if self.span is not None:
            self.span.__exit__(*((None, None, None) if ended else (type(error), error, None)))


class _Iterator:
    def __init__(self, of: "Iterated", inner: Iterator[Any]) -> None:
        self._inner = inner
        self._pass = _Pass(of)

    def __iter__(self) -> "_Iterator":
        return self

    def __next__(self) -> Any:
        self._pass.ask()
        try:
            item = next(self._inner)
        except BaseException as error:
            self._pass.failed(error)
            raise
        self._pass.got()
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _AsyncIterator:
    def __init__(self, of: "Iterated", inner: AsyncIterator[Any]) -> None:
        self._inner = inner
        self._pass = _Pass(of)

    def __aiter__(self) -> "_AsyncIterator":
        return self

    async def __anext__(self) -> Any:
        self._pass.ask()
        try:
            item = await self._inner.__anext__()
        except BaseException as error:
            self._pass.failed(error)
            raise
        self._pass.got()
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Iterated:
    """What wrap_iter returns: the iterable, measured each time it is iterated over. len() and
    attributes (batch_size, dataset …) are its own."""

    def __init__(self, iterable: Any, dataset: str, loop: Any) -> None:
        self.__dict__.update(
            _iterable=iterable, _loop=loop, _dataset=dataset, _items=0, _waited=0.0, _used=0.0,
            _first_waits=deque(maxlen=1000), _span_due=0,
            _series=tuple(series(f"sonde_ml_dataset_{what}", dataset)
                          for what in ("items_total", "wait_seconds", "use_seconds", "first_wait_seconds")))

    def __iter__(self) -> Iterator[Any]:
        return _Iterator(self, iter(self._iterable))

    def __aiter__(self) -> AsyncIterator[Any]:
        return _AsyncIterator(self, self._iterable.__aiter__())

    def __len__(self) -> int:
        return len(self._iterable)

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: Any) -> Any:
        return self._iterable[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterable, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._iterable, name, value)

    def _wait(self, seconds: float, first: bool) -> None:
        items, waits, _, first_waits = self._series
        items.add(1)
        waits.record(seconds)
        if first:
            first_waits.record(seconds)
            self._first_waits.append(seconds)
        self.__dict__["_items"] += 1
        self.__dict__["_waited"] += seconds

    def _use(self, seconds: float) -> None:
        self._series[2].record(seconds)
        self.__dict__["_used"] += seconds

    def stats(self) -> dict[str, Any]:
        """items; wait_seconds and use_seconds, summed; wait_share of both; first_wait_seconds, of the
        first item of each pass (the last 1000), which the others' mean would hide."""
        both = self._waited + self._used
        return {"dataset": self._dataset, "items": self._items, "wait_seconds": self._waited,
                "use_seconds": self._used, "wait_share": self._waited / both if both else 0.0,
                "first_wait_seconds": list(self._first_waits)}


def wrap_iter(iterable: Any, dataset: str = "default", loop: Any = None) -> Any:
    """An iterable, an iterator or their async kin, measured: items of the dataset, the time that was
    waited for each, and the time until the next was asked for. loop: a sonde.ml.Loop that it feeds;
    see Loop.batches."""
    if not hasattr(iterable, "__iter__") and not hasattr(iterable, "__aiter__") and not hasattr(iterable, "__getitem__"):
        raise TypeError(f"{type(iterable).__name__} cannot be iterated over")
    return Iterated(iterable, str(dataset) or "default", loop)

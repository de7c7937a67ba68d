"""Operations of a PerformanceMetrics around blocks and functions."""

from __future__ import annotations

import functools
import inspect
import time
from typing import Any, AsyncGenerator, Callable, Generator, TypeVar, cast

from .performance import PerformanceMetrics

Function = TypeVar("Function", bound=Callable[..., Any])


class ProfilingContext:
    """An operation around a block, as track_operation(); what it yields is this object. Errors are
    recorded by type and passed on."""

    def __init__(self, metrics: PerformanceMetrics, operation: str,
                 correlation_id: str | None = None) -> None:
        self.metrics = metrics
        self.operation = operation
        self.correlation_id = correlation_id
        self.duration: float | None = None      # seconds, once it has ended
        self.error: BaseException | None = None

    def __enter__(self) -> "ProfilingContext":
        self._tracked = self.metrics.track_operation(self.operation, self.correlation_id)
        self._tracked.__enter__()
        self._started = time.perf_counter()
        return self

    def __setitem__(self, key: str, value: Any) -> None:
        """A custom field."""
        self._tracked[key] = value

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: Any) -> None:
        self.duration = time.perf_counter() - self._started
        self.error = error
        self._tracked.__exit__(kind, error, traceback)


class _Meter:
    """Adds up the time inside a generator; its end is the end of the operation. A generator that is
    closed early (GeneratorExit) has not failed."""

    def __init__(self, metrics: PerformanceMetrics, operation: str,
                 correlation_id: str | None) -> None:
        self._metrics = metrics
        self._operation = operation
        self._correlation_id = correlation_id
        self._spent = 0.0

    def inside(self) -> "_Meter._Inside":
        return _Meter._Inside(self)

    class _Inside:
        def __init__(self, meter: "_Meter") -> None:
            self._meter = meter

        def __enter__(self) -> None:
            self._started = time.perf_counter()

        def __exit__(self, *failed: object) -> None:
            self._meter._spent += time.perf_counter() - self._started

    def __enter__(self) -> "_Meter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: Any) -> None:
        failed = kind is not None and not issubclass(kind, GeneratorExit)
        self._metrics.record_operation_time(
            self._operation, self._spent, self._correlation_id,
            kind.__name__ if failed and kind else None)


def _function(function: Callable[..., Any], begin: Callable[[], Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with begin():
            return function(*args, **kwargs)
    return run


def _coroutine(function: Callable[..., Any], begin: Callable[[], Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        with begin():
            return await function(*args, **kwargs)
    return run


def _generator(function: Callable[..., Any], begin: Callable[[], _Meter]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        items = function(*args, **kwargs)
        step, given = items.send, None
        with begin() as meter:
            while True:
                try:
                    with meter.inside():
                        item = step(given)
                except StopIteration as end:
                    return end.value
                try:
                    given = yield item
                    step = items.send
                except GeneratorExit:
                    with meter.inside():
                        items.close()
                    raise
                except BaseException as thrown:
                    step, given = items.throw, thrown
    return run


def _async_generator(function: Callable[..., Any],
                     begin: Callable[[], _Meter]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        items = function(*args, **kwargs)
        step, given = items.asend, None
        with begin() as meter:
            while True:
                try:
                    with meter.inside():
                        item = await step(given)
                except StopAsyncIteration:
                    return
                try:
                    given = yield item
                    step = items.asend
                except GeneratorExit:
                    with meter.inside():
                        await items.aclose()
                    raise
                except BaseException as thrown:
                    step, given = items.athrow, thrown
    return run


def profile(metrics: PerformanceMetrics, name: str | None = None,
            correlation_id: str | None = None) -> Callable[[Function], Function]:
    """A decorator: each call is an operation. Of a coroutine the time until it is done counts; of a
    generator, synchronous or not, the time that it ran itself, not that of who consumes it."""

    def decorate(function: Function) -> Function:
        operation = name or function.__qualname__
        track = functools.partial(metrics.track_operation, operation, correlation_id)
        meter = functools.partial(_Meter, metrics, operation, correlation_id)
        if inspect.isasyncgenfunction(function):
            run = _async_generator(function, meter)
        elif inspect.isgeneratorfunction(function):
            run = _generator(function, meter)
        elif inspect.iscoroutinefunction(function):
            run = _coroutine(function, track)
        else:
            run = _function(function, track)
        return cast(Function, run)

    return decorate

"""Operations of a PerformanceMetrics around blocks and functions."""

from __future__ import annotations

import functools
import inspect
import time
from typing import Any, AsyncGenerator, Callable, Generator, TypeVar

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


def profile(metrics: PerformanceMetrics, name: str | None = None,
            correlation_id: str | None = None) -> Callable[[Function], Function]:
    """A decorator: each call is an operation. Of a coroutine the time until it is done counts; of a
    generator, synchronous or not, the time that it ran itself, not that of who consumes it."""

    def decorate(function: Function) -> Function:
        operation = name or function.__qualname__

        if inspect.isasyncgenfunction(function):
            async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
                meter = _Meter(metrics, operation, correlation_id)
                items = function(*args, **kwargs)
                step, given = items.asend, None
                with meter:
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
        elif inspect.isgeneratorfunction(function):
            def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                meter = _Meter(metrics, operation, correlation_id)
                items = function(*args, **kwargs)
                step, given = items.send, None
                with meter:
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
        elif inspect.iscoroutinefunction(function):
            async def run(*args: Any, **kwargs: Any) -> Any:
                with metrics.track_operation(operation, correlation_id):
                    return await function(*args, **kwargs)
        else:
            def run(*args: Any, **kwargs: Any) -> Any:
                with metrics.track_operation(operation, correlation_id):
                    return function(*args, **kwargs)
        return functools.wraps(function)(run)  # type: ignore[return-value]

    return decorate


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

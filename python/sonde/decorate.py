"""Decorators. Plain functions become a C object that adds some hundred nanoseconds to a call;
coroutines and generators are driven step by step here.

A coroutine or generator is one span from its first step to its end. What runs between its steps
(other tasks, the consumer of a generator) is not inside of that span, and not part of its attribute
running_seconds.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sized
from typing import Any, TypeVar, overload

from . import _native

# What is decorated is of the same type afterwards, for type checkers.
_F = TypeVar("_F", bound="Callable[..., Any] | classmethod[Any, ..., Any] | staticmethod[..., Any]")

# As enum live_kind of native.h.
_SPAN, _OPERATION, _RESOURCE, _THROUGHPUT = range(4)
_MAKERS = (_native.span, _native.operation, _native.scope, _native.throughput)


class _Steps:
    """An awaitable, or an iterator's steps, whose span is current only while it runs."""

    __slots__ = ("_inner", "_span")

    def __init__(self, inner: Any, span: _native.Span) -> None:
        self._inner = inner
        self._span = span

    def __await__(self) -> "_Steps":
        return self

    def __iter__(self) -> "_Steps":
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        self._span.resume()
        try:
            return self._inner.send(value)
        finally:
            self._span.suspend()

    def throw(self, *failure: Any) -> Any:
        self._span.resume()
        try:
            return self._inner.throw(*failure)
        finally:
            self._span.suspend()

    def close(self) -> None:
        self._span.resume()
        try:
            self._inner.close()
        finally:
            self._span.suspend()


def _coroutine(function: Callable[..., Any], begin: Callable[[], _native.Span]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def timed(*args: Any, **kwargs: Any) -> Any:
        with begin() as span:
            span.suspend()
            return await _Steps(function(*args, **kwargs).__await__(), span)

    return timed


_Seen = Callable[[_native.Span, Any], None]


class _Counted(_Steps):
    """Steps of a generator, whose values are seen."""

    __slots__ = ("_seen",)

    def __init__(self, inner: Any, span: _native.Span, seen: _Seen) -> None:
        super().__init__(inner, span)
        self._seen = seen

    def send(self, value: Any) -> Any:
        item = super().send(value)
        self._seen(self._span, item)
        return item

    def throw(self, *failure: Any) -> Any:
        item = super().throw(*failure)
        self._seen(self._span, item)
        return item


def _generator(function: Callable[..., Any], begin: Callable[[], _native.Span],
               seen: _Seen | None = None) -> Callable[..., Any]:
    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        with begin() as span:
            span.suspend()
            inner = function(*args, **kwargs)
            return (yield from (_Counted(inner, span, seen) if seen else _Steps(inner, span)))

    return timed


def _async_generator(function: Callable[..., Any], begin: Callable[[], _native.Span],
                     seen: _Seen | None = None) -> Callable[..., Any]:
    @functools.wraps(function)
    async def timed(*args: Any, **kwargs: Any) -> Any:
        with begin() as span:
            span.suspend()
            inner = function(*args, **kwargs)
            step = inner.asend(None)
            while True:
                try:
                    item = await _Steps(step.__await__(), span)
                except StopAsyncIteration:
                    return
                if seen:
                    seen(span, item)
                try:
                    step = inner.asend((yield item))
                except GeneratorExit:
                    await _Steps(inner.aclose().__await__(), span)
                    raise
                except BaseException as failure:
                    step = inner.athrow(failure)

    return timed


def _name_of(function: Callable[..., Any], name: str | None) -> str:
    if name is not None:
        return name
    return getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)


def _unwrapped(function: Any, again: Callable[[Any], Any]) -> Any:
    """Class and static methods: what they hold is decorated. None: it is neither."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(again(function.__func__))
    if isinstance(function, type):  # it would be no class any more: no subclasses, no isinstance()
        raise TypeError(f"{function!r} is a class: decorate its methods")
    if not callable(function):
        raise TypeError(f"{function!r} is not a function")
    return None


def _bound(function: Any, decorated: Any) -> Any:
    """These two are class methods without saying so, but only as plain functions."""
    if isinstance(function, types.FunctionType) and function.__name__ in ("__init_subclass__", "__class_getitem__"):
        return classmethod(decorated)
    return decorated


def _wrap(function: Any, name: str | None, kind: int) -> Any:
    held = _unwrapped(function, lambda inner: _wrap(inner, name, kind))
    if held is not None:
        return held
    label = _name_of(function, name)
    begin = functools.partial(_MAKERS[kind], label)
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, begin)
    if inspect.iscoroutinefunction(function):
        return _coroutine(function, begin)
    if inspect.isgeneratorfunction(function):
        return _generator(function, begin)
    return _bound(function, functools.update_wrapper(_native._timed(function, label, kind), function))


def _decorator(function: Any, name: str | None, kind: int) -> Any:
    if isinstance(function, str):  # @time_function("name")
        function, name = None, function
    if function is None:
        return lambda decorated: _wrap(decorated, name, kind)
    return _wrap(function, name, kind)


@overload
def time_function(function: str | None = None, /, *, name: str | None = None,
                  collect_metrics: bool = True) -> Callable[[_F], _F]: ...
@overload
def time_function(function: _F, /, *, name: str | None = None, collect_metrics: bool = True) -> _F: ...
def time_function(function: Any = None, /, *, name: str | None = None, collect_metrics: bool = True) -> Any:
    """Time every call of a function, as an operation: sonde_operation_duration_seconds{operation,outcome}
    and a span, errors counted by type. With collect_metrics=False it is a span only.

        @sonde.time_function
        @sonde.time_function("load")
        @sonde.time_function(name="load", collect_metrics=False)
    """
    return _decorator(function, name, _OPERATION if collect_metrics else _SPAN)


@overload
def track_resource_usage(function: str | None = None, /, *, name: str | None = None) -> Callable[[_F], _F]: ...
@overload
def track_resource_usage(function: _F, /, *, name: str | None = None) -> _F: ...
def track_resource_usage(function: Any = None, /, *, name: str | None = None) -> Any:
    """Time every call, and measure its CPU time, page faults and change of resident memory:
    sonde_resource_*{scope}. Of a coroutine, CPU time and faults are the thread's while it lived."""
    return _decorator(function, name, _RESOURCE)


def _items_of(result: Any, items: int | Callable[[Any], int] | None) -> int:
    if callable(items):
        return int(items(result))
    if items is not None:
        return items
    return len(result) if isinstance(result, Sized) and not isinstance(result, (str, bytes)) else 1


@overload
def measure_throughput(function: str | None = None, /, *, name: str | None = None,
                       items: int | Callable[[Any], int] | None = None) -> Callable[[_F], _F]: ...
@overload
def measure_throughput(function: _F, /, *, name: str | None = None,
                       items: int | Callable[[Any], int] | None = None) -> _F: ...
def measure_throughput(function: Any = None, /, *, name: str | None = None,
                       items: int | Callable[[Any], int] | None = None) -> Any:
    """Count what a function handles: sonde_throughput_*{scope}. items: how many a call handles, or a
    function that tells it from the result; by default the result's length, or 1 if it has none. Of a
    generator each value that it yields is a result, and 1 by default."""
    if isinstance(function, str):
        function, name = None, function
    if function is None:
        return lambda decorated: measure_throughput(decorated, name=name, items=items)
    held = _unwrapped(function, lambda inner: measure_throughput(inner, name=name, items=items))
    if held is not None:
        return held
    label = _name_of(function, name)
    if inspect.iscoroutinefunction(function):
        @functools.wraps(function)
        async def timed(*args: Any, **kwargs: Any) -> Any:
            with _native.throughput(label) as span:
                span.suspend()
                result = await _Steps(function(*args, **kwargs).__await__(), span)
                span.add(_items_of(result, items))
                return result
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        each = 1 if items is None else items
        begin = functools.partial(_native.throughput, label)
        wrap = _generator if inspect.isgeneratorfunction(function) else _async_generator
        return wrap(function, begin, lambda span, item: span.add(_items_of(item, each)))
    else:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with _native.throughput(label) as span:
                result = function(*args, **kwargs)
                span.add(_items_of(result, items))
                return result
    return _bound(function, timed)


def time_block(name: str, collect_metrics: bool = True, **attributes: Any) -> _native.Span:
    """A context manager: the block is an operation, or with collect_metrics=False a span only."""
    return (_native.operation if collect_metrics else _native.span)(name, **attributes)

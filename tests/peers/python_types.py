"""python_types: what most programs use of the package, for `mypy --strict`, which has to find nothing wrong here;
what is decorated has its own type. Lines that are wrong on purpose say so, and mypy whether they are."""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, assert_type

import sonde

c = sonde.counter("t_total", "Help.", ("a", "b"))
c0 = sonde.counter("t0_total", "Help.")
c0.add()
c0.add(2)
c0.inc()
child = c.labels("x", 1)
child.add()
g = sonde.gauge("t_g", "Help.")
g.set(1.5)
g.add(-1)
h = sonde.histogram("t_seconds", "Help.")
h.record(0.1)
with h.time():
    pass
with sonde.span("x", n=1) as s:
    s["k"] = 1
    assert_type(s.trace_id, str | None)
with sonde.operation("o"):
    pass
with sonde.scope("o"):
    pass
with sonde.throughput("rows") as t:
    t.add(10)
with sonde.time_block("b"):
    pass

@sonde.time_function
def f(a: int, b: str = "x") -> float:
    """Doc."""
    return float(a)

f(1, b=2)  # type: ignore[arg-type]
assert_type(f(1), float)

@sonde.time_function("named")
def f2(a: int) -> int:
    return a
assert_type(f2(1), int)

@sonde.time_function(name="named2")
async def co(a: int) -> str:
    return str(a)


@sonde.time_function
def gen(n: int) -> Iterator[int]:
    yield from range(n)
assert_type(gen(1), Iterator[int])

@sonde.time_function
async def agen(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i
assert_type(agen(1), AsyncIterator[int])

@contextmanager
@sonde.time_function
def cm() -> Iterator[int]:
    yield 1

class A:
    @sonde.time_function
    def m(self, x: int) -> int:
        return x
    @classmethod
    @sonde.time_function
    def k(cls, x: int) -> int:
        return x
    @sonde.time_function
    @classmethod
    def k2(cls, x: int) -> int:
        return x
    @staticmethod
    @sonde.time_function
    def st(x: int) -> int:
        return x
    @sonde.time_function
    @staticmethod
    def st2(x: int) -> int:
        return x
    @property
    @sonde.time_function
    def p(self) -> int:
        return 3
class B(A):
    @sonde.time_function
    def m(self, x: int) -> int:
        return super().m(x) + 1
for found in (A().m(1), A.k(1), A().p, B().m(1), A.k2(1), A.st(1), A.st2(1)):
    assert_type(found, int)

@sonde.track_resource_usage
def tr() -> int:
    return 1
@sonde.measure_throughput
def mt() -> list[int]:
    return [1]
@sonde.measure_throughput(items=lambda result: len(result))
def mt2() -> list[int]:
    return [1]
assert_type(tr(), int)
assert_type(mt(), list[int])
assert_type(sonde.traceparent(), str)
sonde.set_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
sonde.bandwidth("in", 1, "s")
sonde.cache_access(True, "memory")
sonde.pool("kv").set(3)
sonde.enable(False)
sonde.enable()
with sonde.disabled("cache.*"):
    pass
for row in sonde.snapshot():
    assert_type(row, dict[str, Any])
for one in sonde.spans(limit=3):
    assert_type(one, dict[str, Any])
loop = sonde.ml.Loop("m")
with loop.epoch(0) as e:
    for batch in loop.batches([1, 2]):
        with loop.step(samples=1) as st:
            with st.phase("forward"):
                pass
    e.record(loss=1.0)
with sonde.ml.track_inference("m", 3):
    pass
for item in sonde.wrap_iter([1, 2, 3], "d"):
    print(item)
m = sonde.PerformanceMetrics()
with m.track_operation("add") as tracking:
    tracking["file_size"] = 1
assert_type(m.get_operation_stats("add"), dict[str, Any])
sonde.record_metric("x", 1.0, "time", "s")
print(sonde.Kind.TIME, h.stats()["p99"], c0.value, h.quantile(0.5))
assert_type(asyncio.run(co(1)), str)
sonde.no_such_name  # type: ignore[attr-defined]

"""Machine learning: training loops, inference, models, data, workers.

    loop = sonde.ml.Loop("resnet")
    for epoch in range(10):
        with loop.epoch(epoch) as e:
            for batch in loader:                       # until the step begins: data_wait
                with loop.step(samples=len(batch)) as step:
                    with step.phase("forward"):
                        loss = model(batch)
                    with step.phase("backward"):
                        loss.backward()
                    with step.phase("optimizer"):
                        optimizer.step()
            e.record(train_loss=mean_loss, val_loss=validate())

Series and spans are those of <sonde/ml.h> (docs/ml.md has the list), so reports and plots show a
program in C and one in Python alike. Phases share their step, and with data_wait and what is named
between steps their epoch, without a gap: one clock reading ends a phase and begins the next.

Nothing here waits for a device or copies from one. Values are taken as they are if they are numbers;
one that would have to be fetched (a tensor, a function) is kept as it is and resolved only at the end
of its epoch, and only if resolve=True asks for that.

A Loop is of one thread at a time; series of one name are shared by all threads and processes.
"""

from __future__ import annotations

import numbers
import sys
import warnings
from time import perf_counter_ns
from typing import Any, Callable, Iterable

import sonde

__all__ = [
    "Epoch", "LightningCallback", "Loop", "PHASES", "Step", "TransformersCallback", "communication",
    "dataset_load", "distributed_task", "preprocess", "track_inference", "track_model_init",
    "track_model_load", "track_step", "track_training_epoch", "worker_utilization",
]

PHASES = ("data_wait", "transfer", "forward", "backward", "optimizer", "checkpoint", "validation", "other")

SPAN_SECONDS = 0.001
VALUES_MAX = 10     # names of values that an epoch keeps as attributes of its span, as in C

# ---- Series ------------------------------------------------------------------------------------------

_SERIES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "sonde_ml_model_load_seconds": ("histogram", ("model", "stage"), "Time to load a model, and to initialize it."),
    "sonde_ml_model_bytes": ("gauge", ("model",), "Memory that a model takes."),
    "sonde_ml_inference_seconds": ("histogram", ("model", "batch_size"), "Time of a batch of inference, by its size."),
    "sonde_ml_inference_items_total": ("counter", ("model",), "Items inferred."),
    "sonde_ml_epoch_seconds": ("histogram", ("model",), "Time of training epochs."),
    "sonde_ml_step_seconds": ("histogram", ("model",), "Time of training steps."),
    "sonde_ml_first_step_seconds": ("histogram", ("model",), "Time of the first step of each epoch."),
    "sonde_ml_phase_seconds": ("histogram", ("model", "phase"), "Time of training, by phase."),
    "sonde_ml_samples_total": ("counter", ("model",), "Samples trained on."),
    "sonde_ml_steps_total": ("counter", ("model",), "Training steps."),
    "sonde_ml_epoch": ("gauge", ("model",), "Number of the newest epoch."),
    "sonde_ml_value": ("gauge", ("model", "name"),
                       "Values that training reports (loss, accuracy, learning rate, …), the newest."),
    "sonde_ml_dataset_load_seconds": ("histogram", ("dataset", "format"), "Time to load a dataset, or a part of it."),
    "sonde_ml_dataset_bytes_total": ("counter", ("dataset",), "Bytes of datasets loaded."),
    "sonde_ml_dataset_items_total": ("counter", ("dataset",), "Items of datasets loaded."),
    "sonde_ml_dataset_wait_seconds": ("histogram", ("dataset",), "Time that a loop waited for an item of a dataset."),
    "sonde_ml_dataset_use_seconds": ("histogram", ("dataset",), "Time that a loop worked on an item of a dataset."),
    "sonde_ml_dataset_first_wait_seconds": ("histogram", ("dataset",), "The first wait of each pass over a dataset."),
    "sonde_ml_preprocess_seconds": ("histogram", ("operation",), "Time of preprocessing, by operation."),
    "sonde_ml_task_seconds": ("histogram", ("task", "worker", "outcome"), "Time of tasks, by worker and outcome."),
    "sonde_ml_communication_seconds": ("histogram", ("operation", "worker"), "Time of communication between workers."),
    "sonde_ml_communication_bytes_total": ("counter", ("operation", "worker"), "Bytes between workers."),
    "sonde_ml_worker_utilization_ratio": ("gauge", ("worker",), "How busy a worker is."),
    "sonde_ml_worker_memory_bytes": ("gauge", ("worker",), "Memory that a worker takes."),
    "sonde_ml_worker_active_tasks": ("gauge", ("worker",), "Tasks that a worker has at hand."),
}

_families: dict[str, Any] = {}


def series(name: str, *labels: object) -> Any:
    """The series of that name with these values of its labels, to be kept where it is used often."""
    family = _families.get(name)
    if family is None:
        shape, label_names, text = _SERIES[name]
        make: Callable[..., Any] = getattr(sonde, shape)
        family = _families[name] = make(name, text, labels=label_names)
    return family.labels(*map(str, labels))


def _name(name: Any) -> str:
    return str(name) if name is not None and str(name) else "default"


def _seconds(ns: int) -> float:
    return ns / 1e9


def _whole(value: Any) -> int:
    """A count that is told: 0 if it is not a number, or negative."""
    return max(int(value), 0) if isinstance(value, numbers.Real) and value == value and abs(value) < 2 ** 63 else 0


# ---- Values ------------------------------------------------------------------------------------------

def number(value: Any) -> float | None:
    """value as a float if it is a number already; None if it would have to be fetched, or is none."""
    return float(value) if isinstance(value, numbers.Real) else None


def is_lazy(value: Any) -> bool:
    """Whether value is something that a number can be got from, at a price."""
    return callable(value) or callable(getattr(value, "item", None))


def resolve(value: Any) -> float | None:
    """Get it, whatever it costs; None if it is no single number."""
    plain = number(value)
    if plain is not None:
        return plain
    item = getattr(value, "item", None)
    got = item() if callable(item) else value() if callable(value) else None
    plain = number(got)
    return plain if plain is not None or not callable(getattr(got, "item", None)) else number(got.item())


_warned: set[tuple[str, str]] = set()


def _warn_once(key: tuple[str, str], text: str) -> None:
    if key not in _warned:
        _warned.add(key)
        warnings.warn(text, RuntimeWarning, stacklevel=4)


# ---- Training ----------------------------------------------------------------------------------------

class Loop:
    """The training of one model: epochs, steps and phases. resolve: get values that are not numbers
    (tensors, functions) at the end of their epoch; for one value, epoch.record(…, resolve=True).
    span_seconds: steps that begin sooner after one that has spans have none, so that fast loops do not
    push out the spans of their epochs; series count all of them."""

    def __init__(self, model: str = "default", resolve: bool = False, span_seconds: float = SPAN_SECONDS) -> None:
        self.model = _name(model)
        self.resolve = resolve
        self.span_seconds = span_seconds
        self._spanned = True                # what is going on has spans
        self._span_due = {"step": 0, "gap": 0}  # ns from which on the next one has
        self.current: Epoch | None = None   # the epoch that is open
        self.running: Step | None = None    # the step that is open
        self._phases: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        self._phase = "data_wait"           # what is going on, since _since
        self._since = 0                     # ns; 0 = nothing: in no step, and none was before
        self._span: Any = None
        self._epoch_seconds = series("sonde_ml_epoch_seconds", self.model)
        self._step_seconds = series("sonde_ml_step_seconds", self.model)
        self._first_step_seconds = series("sonde_ml_first_step_seconds", self.model)
        self._samples = series("sonde_ml_samples_total", self.model)
        self._steps = series("sonde_ml_steps_total", self.model)
        self._epoch_number = series("sonde_ml_epoch", self.model)

    def __reduce__(self) -> tuple[Any, ...]:
        return Loop, (self.model, self.resolve, self.span_seconds)  # handles are of one process

    def epoch(self, number: int, num_samples: int | None = None) -> "Epoch":
        """An epoch, to be entered. num_samples: of all of it; None = what its steps say."""
        return Epoch(self, number, num_samples)

    def step(self, samples: int = 0, phase: str = "other") -> "Step":
        """A step, to be entered; it begins in that phase."""
        return Step(self, samples, phase)

    def value(self, name: str, value: float) -> None:
        """A value as it is now, of no epoch in particular."""
        gauge = self._values.get(name)
        if gauge is None:
            gauge = self._values[name] = series("sonde_ml_value", self.model, name)
        gauge.set(value)

    def phase(self, name: str) -> "Phase":
        """What is done from here on, in a step or between steps of an epoch (validation, a checkpoint):
        until the next phase begins, or the end of the with block if it is used as one."""
        self._switch(name, True)
        return Phase(self)

    def cut(self, name: str) -> None:
        """What was done since the last step or phase is called that, and it is over: for what is
        known only afterwards."""
        if self._since:
            self._phase = name
            self._switch("other" if self.running else "data_wait", False)

    def batches(self, iterable: Any, dataset: str | None = None) -> Any:
        """sonde.wrap_iter of iterable for this loop: data_wait is then the time that it is really waited
        for, and what else is done between two steps is other."""
        from .wrap import wrap_iter
        return wrap_iter(iterable, dataset=dataset or self.model, loop=self)

    def _asked(self) -> None:
        """From here on it is waited for a batch."""
        if self._since and self.running is None:
            if self._phase == "data_wait":
                self._phase = "other"
            self._switch("data_wait", False)

    def _got(self) -> None:
        if self._since and self.running is None:
            self._switch("other", False)

    def _switch(self, name: str, span: bool) -> int:
        """One clock reading ends what is going on and begins this; the reading."""
        now = perf_counter_ns()
        if self._since:
            seconds = self._phases.get(self._phase)
            if seconds is None:
                seconds = self._phases[self._phase] = series("sonde_ml_phase_seconds", self.model, self._phase)
            seconds.record(_seconds(now - self._since))
        if self._span is not None:
            self._span.__exit__(None, None, None)
            self._span = None
        self._phase = name
        self._since = now
        if span:
            if self.running is None:
                self._spanned = self._due("gap", now)
            if self._spanned:
                self._phase_span()
        return now

    def _due(self, what: str, now: int) -> bool:
        if now < self._span_due[what]:
            return False
        self._span_due[what] = now + int(self.span_seconds * 1e9)
        return True

    def _phase_span(self) -> None:
        self._span = sonde.span("ml." + self._phase)
        self._span.__enter__()

    def _step_begin(self, step: "Step") -> int:
        if self.running is not None:
            self.running.__exit__(None, None, None)
        self.running = step
        now = self._switch(step.first_phase, False)
        self._spanned = self._due("step", now)
        return now

    def _step_end(self, step: "Step", ns_start: int) -> None:
        ns = self._switch("data_wait", False) - ns_start
        self.running = None
        self._step_seconds.record(_seconds(ns))
        self._steps.add(1)
        if step.samples:
            self._samples.add(step.samples)
        if self.current is not None:
            self.current._count(step.samples, ns)


class Phase:
    """What Loop.phase and Step.phase return: as a with block it ends with that."""

    __slots__ = ("_loop",)

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def __enter__(self) -> "Phase":
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        loop = self._loop
        if loop._since:
            loop._switch("other" if loop.running else "data_wait", False)


class Step:
    """One step of a Loop, as a with block."""

    def __init__(self, loop: Loop, samples: int, phase: str) -> None:
        self.loop = loop
        self.samples = _whole(samples)
        self.first_phase = phase
        self._start = 0
        self._span: Any = None

    def __enter__(self) -> "Step":
        self._start = self.loop._step_begin(self)
        if self.loop._spanned:
            self._span = sonde.span("ml.step")
            self._span.__enter__()
            if self.first_phase != "other":
                self.loop._phase_span()
        return self

    def phase(self, name: str) -> Phase:
        """The phase that begins here, until the next one, or the end of the with block."""
        return self.loop.phase(name)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self.loop.running is not self:
            return      # ended by the next one
        self.loop._step_end(self, self._start)
        if self._span is not None:
            if self.samples:
                self._span["num_samples"] = self.samples
            self._span.__exit__(kind, error, traceback)


class Epoch:
    """One epoch of a Loop, as a with block. Values: epoch.record(train_loss=0.3), epoch["val_loss"] = 0.4."""

    def __init__(self, loop: Loop, epoch: int, num_samples: int | None = None) -> None:
        self.loop = loop
        self.epoch = int(epoch)
        self.num_samples = None if num_samples is None else _whole(num_samples)
        self.values: dict[str, float] = {}
        self.unresolved: tuple[str, ...] = ()   # at its end: values that nobody asked to resolve
        self.steps = 0
        self.samples = 0                        # that its steps said
        self.step_seconds = self.first_step_seconds = 0.0
        self.duration = 0.0                     # seconds, at its end
        self._lazy: dict[str, tuple[Any, bool]] = {}
        self._start = 0
        self._span: Any = None

    def __enter__(self) -> "Epoch":
        loop = self.loop
        if loop.current is not None:
            loop.current.__exit__(None, None, None)
        if loop._span is not None or loop._since:
            loop._since = 0     # what was before is of no epoch
        loop.current = self
        loop._epoch_number.set(self.epoch)
        self._span = sonde.span("ml.epoch")
        self._span.__enter__()
        self._start = loop._switch("data_wait", False)
        return self

    def step(self, samples: int = 0, phase: str = "other") -> Step:
        return self.loop.step(samples, phase)

    def phase(self, name: str) -> Phase:
        return self.loop.phase(name)

    def record(self, values: dict[str, Any] | None = None, /, resolve: bool | None = None, **named: Any) -> None:
        """Values of this epoch; the last of each name is kept. resolve: get those that are not numbers
        at its end; None = as the loop does."""
        wanted = self.loop.resolve if resolve is None else resolve
        for name, value in {**(values or {}), **named}.items():
            plain = number(value)
            if plain is not None:
                self._lazy.pop(name, None)
                self.values[name] = plain
                self.loop.value(name, plain)
            elif is_lazy(value):
                self._lazy[name] = (value, wanted)
            else:
                raise TypeError(f"{name}: {type(value).__name__} is not a number")

    def __setitem__(self, name: str, value: Any) -> None:
        self.record({name: value})

    def _count(self, samples: int, ns: int) -> None:
        if not self.steps:
            self.first_step_seconds = _seconds(ns)
            self.loop._first_step_seconds.record(self.first_step_seconds)
        self.steps += 1
        self.samples += samples
        self.step_seconds += _seconds(ns)

    def _resolve(self) -> None:
        left = []
        for name, (value, wanted) in self._lazy.items():
            if not wanted:
                left.append(name)
                _warn_once((self.loop.model, name),
                           f"{name} of {self.loop.model} is a {type(value).__name__}, not a number, and is not "
                           "recorded: pass resolve=True to have it fetched at the end of the epoch")
                continue
            try:    # one that fails takes no other with it
                got = resolve(value)
            except Exception as error:
                got = None
                _warn_once((self.loop.model, name), f"{name} of {self.loop.model} could not be had: {error!r}")
            if got is None:
                left.append(name)
            else:
                self.values[name] = got
                self.loop.value(name, got)
        self._lazy.clear()
        self.unresolved = tuple(left)

    def _attributes(self) -> dict[str, Any]:
        attributes: dict[str, Any] = {
            "model": self.loop.model, "epoch": self.epoch,
            "num_samples": self.samples if self.num_samples is None else self.num_samples,
            "steps": self.steps, "step_seconds": self.step_seconds,
        }
        if self.steps:
            attributes["first_step_seconds"] = self.first_step_seconds
        for name in list(self.values)[:VALUES_MAX]:
            attributes[name] = self.values[name]
        return attributes

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        loop = self.loop
        if loop.current is not self:
            return
        if loop.running is not None:
            loop.running.__exit__(kind, error, traceback)
        if loop._phase == "data_wait":
            loop._phase = "other"   # what is behind the last step is no wait for a next one
        ns = loop._switch("data_wait", False) - self._start
        loop._since = 0
        loop.current = None
        self.duration = _seconds(ns)
        loop._epoch_seconds.record(self.duration)
        if self.num_samples is not None and self.num_samples > self.samples:
            loop._samples.add(self.num_samples - self.samples)
        self._resolve()
        # At its end: an agent keeps only so many attributes that wait for their span.
        for name, value in self._attributes().items():
            self._span[name] = value
        self._span.__exit__(kind, error, traceback)


def track_training_epoch(model: str, epoch: int, num_samples: int | None = None, resolve: bool = False) -> Epoch:
    """An epoch of a model, with a loop of its own: epoch.step(), epoch.phase(), epoch.record()."""
    return Loop(model, resolve).epoch(epoch, num_samples)


def track_step(model: str, samples: int = 0, phase: str = "other") -> Step:
    """A step outside of a Loop: what is between two such is not known."""
    return Loop(model).step(samples, phase)


# ---- Models, inference, data, workers ----------------------------------------------------------------

class Timed:
    """A with block that is a span and a value of a histogram. scope["key"] = value: an attribute."""

    __slots__ = ("_name", "_attributes", "_done", "_start", "_span", "seconds", "failed")

    def __init__(self, name: str, attributes: dict[str, Any], done: Callable[["Timed"], None]) -> None:
        self._name = name
        self._attributes = attributes
        self._done = done
        self._start = 0
        self._span: Any = None
        self.seconds = 0.0      # once it has ended
        self.failed = False

    def __enter__(self) -> "Timed":
        self._span = sonde.span(self._name, **self._attributes)
        self._span.__enter__()
        self._start = perf_counter_ns()
        return self

    def __setitem__(self, key: str, value: Any) -> None:
        self._span[key] = value

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.seconds = _seconds(perf_counter_ns() - self._start)
        self.failed = kind is not None
        self._done(self)
        self._span.__exit__(kind, error, traceback)


def track_model_load(model: str, bytes: int = 0) -> Timed:
    """Loading a model. bytes: what it takes in memory, if it is known."""
    name = _name(model)

    def done(scope: Timed) -> None:
        series("sonde_ml_model_load_seconds", name, "load").record(scope.seconds)
        if bytes and not scope.failed:
            series("sonde_ml_model_bytes", name).set(bytes)

    return Timed("ml.model_load", {"model": name, **({"bytes": bytes} if bytes else {})}, done)


def track_model_init(model: str) -> Timed:
    """What comes before or after loading: building it, moving it to a device."""
    name = _name(model)
    return Timed("ml.model_init", {"model": name},
                 lambda scope: series("sonde_ml_model_load_seconds", name, "init").record(scope.seconds))


def track_inference(model: str, batch_size: int = 1) -> Timed:
    """The inference of one batch."""
    name, size = _name(model), _whole(batch_size)

    def done(scope: Timed) -> None:
        series("sonde_ml_inference_seconds", name, size).record(scope.seconds)
        if not scope.failed:
            series("sonde_ml_inference_items_total", name).add(size)

    return Timed("ml.inference", {"model": name, "batch_size": size}, done)


class DatasetLoad(Timed):
    """dataset_load's: what is known only while it loads is told by add()."""

    __slots__ = ("items", "bytes")

    def add(self, items: int = 0, bytes: int = 0) -> None:
        self.items += _whole(items)
        self.bytes += _whole(bytes)


def dataset_load(dataset: str, format: str = "", items: int = 0, bytes: int = 0) -> DatasetLoad:
    """Loading a dataset, or a part of it."""
    name = _name(dataset)

    def done(scope: Timed) -> None:
        assert isinstance(scope, DatasetLoad)
        series("sonde_ml_dataset_load_seconds", name, format).record(scope.seconds)
        for counted, what in ((scope.items, "items"), (scope.bytes, "bytes")):
            if counted:
                series(f"sonde_ml_dataset_{what}_total", name).add(counted)
                scope["num_samples" if what == "items" else what] = counted

    load = DatasetLoad("ml.dataset_load", {"dataset": name, "format": format}, done)
    load.items = load.bytes = 0
    load.add(items, bytes)
    return load


def preprocess(operation: str) -> Timed:
    """An operation that makes data ready."""
    name = _name(operation)
    return Timed("ml.preprocess", {"operation": name},
                 lambda scope: series("sonde_ml_preprocess_seconds", name).record(scope.seconds))


def distributed_task(task: str, worker: str = "default") -> Timed:
    """A task that a worker does."""
    name, who = _name(task), _name(worker)
    return Timed("ml.task", {"task": name, "worker": who},
                 lambda scope: series("sonde_ml_task_seconds", name, who,
                                      "error" if scope.failed else "ok").record(scope.seconds))


def communication(operation: str, worker: str = "default", bytes: int = 0) -> Timed:
    """Communication with another worker: an allreduce, a broadcast …"""
    name, who = _name(operation), _name(worker)

    def done(scope: Timed) -> None:
        series("sonde_ml_communication_seconds", name, who).record(scope.seconds)
        if _whole(bytes):
            series("sonde_ml_communication_bytes_total", name, who).add(_whole(bytes))

    return Timed("ml.communication", {"operation": name, "worker": who, **({"bytes": bytes} if bytes else {})}, done)


def worker_utilization(worker: str, utilization: float | None = None, memory_bytes: float | None = None,
                       active_tasks: float | None = None) -> None:
    """How a worker is now: busy (0 … 1), memory, tasks at hand. None = not told."""
    for name, value in (("utilization_ratio", utilization), ("memory_bytes", memory_bytes),
                        ("active_tasks", active_tasks)):
        if value is not None and value >= 0:
            series("sonde_ml_worker_" + name, _name(worker)).set(float(value))


# ---- Callbacks ---------------------------------------------------------------------------------------

def __getattr__(name: str) -> Any:
    # Made when they are asked for: their bases are the frameworks', if those are there, and importing
    # sonde.ml must not import them.
    if name in ("LightningCallback", "TransformersCallback"):
        from . import ml_callbacks
        made = getattr(ml_callbacks, "make_" + name)()
        setattr(sys.modules[__name__], name, made)
        return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> Iterable[str]:
    return sorted({*globals(), *__all__})

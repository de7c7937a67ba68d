"""Training, inference and workers, told by path, read by model: AIMLMetricsCollector.

    metrics = AIMLMetricsCollector()
    with metrics.track_training_epoch("resnet", epoch=0, num_samples=50_000):
        train()
        metrics.record_metric("resnet/epoch/0/train_loss", 1.5)

It records the series and spans of machine learning (sonde_ml_*, ml.epoch, ml.inference …), so that
reports and plots of sonde have them, and keeps the figures of this process: the values of each epoch,
the last max_history latencies of each batch size, the last max_history values of each worker. It is a
PerformanceMetrics as well: an epoch of resnet is the operation resnet/epoch, and so on.

Paths:

    MODEL/epoch/N/NAME          a value of an epoch: train_loss, val_acc, learning_rate …
    MODEL/inference/NAME        a value of the inference that runs, or of the last: memory_mb …
    workers/WORKER/NAME         utilization (0 … 1), memory_mb, active_tasks
    anything else               a value of that name

memory_mb is in MiB (2^20 bytes), as programs compute it.
"""

from __future__ import annotations

import re
import time
from collections import deque
from contextvars import ContextVar
from typing import Any, Callable

import sonde

from . import ml
from .escape import encodable
from .observe import check_seconds
from .performance import PerformanceMetrics
from .window import Window

MODELS_KEPT = 1_000
MIB = 2 ** 20

_EPOCH = re.compile(r"(?P<model>.+)/epoch/(?P<epoch>\d{1,15})/(?P<name>.+)\Z", re.S)
_INFERENCE = re.compile(r"(?P<model>.+)/inference/(?P<name>.+)\Z", re.S)
_WORKER = re.compile(r"workers/(?P<worker>.+)/(?P<name>[^/]+)\Z", re.S)

_WORKER_VALUES: dict[str, tuple[str, float]] = {   # as worker_utilization() calls them
    "utilization": ("utilization", 1),
    "memory_mb": ("memory_bytes", MIB),
    "active_tasks": ("active_tasks", 1),
}

_running: "ContextVar[tuple[Scope, ...]]" = ContextVar("sonde_aiml_scopes", default=())


class Scope:
    """A context manager around one piece of work: what sonde.ml records of it, and what its collector
    keeps. Fields that are set are attributes of its span: scope["train_loss"] = 1.5."""

    def __init__(self, metrics: "AIMLMetricsCollector", operation: str, inner: Any,
                 fields: dict[str, Any], done: "Callable[[Scope], None]") -> None:
        self.metrics = metrics
        self.operation = operation
        self.fields = dict(fields)
        self.duration = 0.0     # seconds, once it has ended
        self._inner = inner
        self._done = done

    def __setitem__(self, key: str, value: Any) -> None:
        self.fields[key] = value
        self._inner[key] = value

    def __enter__(self) -> "Scope":
        _running.set((*_running.get(), self))
        self._inner.__enter__()
        self._time = time.time()
        self._started = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: Any) -> None:
        self.duration = time.perf_counter() - self._started
        self._inner.__exit__(kind, error, traceback)
        _running.set(tuple(scope for scope in _running.get() if scope is not self))
        if sonde.enabled():
            self._done(self)
        self.metrics._finish(self.operation, self.duration, error,
                             self.metrics.get_correlation_id(), self._time, dict(self.fields))


class _DatasetScope(Scope):
    """Items and bytes are known only while it loads."""

    def add(self, items: int = 0, bytes: int = 0) -> None:
        self.fields["items"] = self.fields.get("items", 0) + items
        self.fields["bytes"] = self.fields.get("bytes", 0) + bytes
        self._inner.add(items, bytes)


class AIMLMetricsCollector(PerformanceMetrics):
    """See the head of this file; the arguments are those of PerformanceMetrics."""

    def _clear(self) -> None:
        super()._clear()
        self._epochs: dict[str, dict[int, dict[str, float]]] = {}
        self._inference: dict[str, dict[int, dict[str, Any]]] = {}
        self._datasets: dict[str, dict[str, Any]] = {}
        self._workers: dict[str, dict[str, deque[tuple[float, float]]]] = {}
        self._values: dict[str, float] = {}

    def _innermost(self, operation: str, **fields: Any) -> Scope | None:
        """Of this thread, or this task of asyncio."""
        for scope in reversed(_running.get()):
            if (scope.metrics is self and scope.operation == operation
                    and all(scope.fields.get(k) == v for k, v in fields.items())):
                return scope
        return None

    # ---- Recording -------------------------------------------------------------------------------

    def track_training_epoch(self, model_id: str, epoch: int, num_samples: int = 0) -> Scope:
        model_id = encodable(model_id)
        return Scope(self, f"{model_id}/epoch", ml.track_training_epoch(model_id, epoch, num_samples),
                     {"model": model_id, "epoch": int(epoch), "num_samples": int(num_samples)},
                     self._epoch_done)

    def track_inference(self, model_id: str, batch_size: int = 1) -> Scope:
        model_id = encodable(model_id)
        return Scope(self, f"{model_id}/inference", ml.track_inference(model_id, batch_size),
                     {"model": model_id, "batch_size": int(batch_size)}, self._inference_done)

    def track_model_load(self, model_id: str, bytes: int = 0) -> Scope:
        """bytes: the memory that the model takes."""
        model_id = encodable(model_id)
        return Scope(self, f"{model_id}/load", ml.track_model_load(model_id, bytes),
                     {"model": model_id}, lambda scope: None)

    def track_model_init(self, model_id: str) -> Scope:
        model_id = encodable(model_id)
        return Scope(self, f"{model_id}/init", ml.track_model_init(model_id), {"model": model_id},
                     lambda scope: None)

    def track_dataset_load(self, dataset_id: str, format: str = "", items: int = 0,
                           bytes: int = 0) -> _DatasetScope:
        """scope.add(items=…, bytes=…): what was loaded, if that is known only then."""
        dataset_id = encodable(dataset_id)
        scope = _DatasetScope(self, f"{dataset_id}/load", ml.dataset_load(dataset_id, format),
                              {"dataset": dataset_id, "format": format}, self._dataset_done)
        scope.add(items, bytes)
        return scope

    def record_metric(self, path: str, value: float) -> None:
        """A value, by its path; see the head of this file. Values that are not finite are kept as
        they are: a loss that diverged is a finding, not a mistake."""
        value, path = float(value), encodable(path)
        if not sonde.enabled():
            return
        if found := _EPOCH.match(path):
            self._epoch_value(found["model"], int(found["epoch"]), found["name"], value)
        elif found := _WORKER.match(path):
            self._worker_value(found["worker"], found["name"], value)
        elif found := _INFERENCE.match(path):
            self._inference_value(found["model"], found["name"], value)
        else:
            ml.series("sonde_ml_value", "", path).set(value)
            with self._lock:
                if path in self._values or len(self._values) < MODELS_KEPT:
                    self._values[path] = value

    def record_inference_time(self, model_id: str, batch_size: int, seconds: float) -> None:
        """Inference that was timed elsewhere: by the device, or by a server."""
        seconds, model_id = check_seconds(f"inference of {model_id!r}", seconds), encodable(model_id)
        if sonde.enabled():
            ml.series("sonde_ml_inference_seconds", model_id, batch_size).record(seconds)
            ml.series("sonde_ml_inference_items_total", model_id).add(int(batch_size))
            self._keep_inference(model_id, int(batch_size), seconds)
            self._finish(f"{model_id}/inference", seconds, None, self.get_correlation_id(),
                         time.time() - seconds, {"model": model_id, "batch_size": batch_size})

    def _epoch_of(self, model: str, epoch: int) -> dict[str, float]:
        """Under the lock; one that is not kept if there are too many."""
        epochs = self._epochs.get(model)
        if epochs is None:
            epochs = {} if len(self._epochs) >= MODELS_KEPT else self._epochs.setdefault(model, {})
        values = epochs.setdefault(epoch, {})
        if len(epochs) > self.max_history:
            del epochs[min(epochs)]
        return values

    def _epoch_value(self, model: str, epoch: int, name: str, value: float) -> None:
        scope = self._innermost(f"{model}/epoch", epoch=epoch)
        if scope:
            scope[name] = value
        else:
            ml.series("sonde_ml_value", model, name).set(value)
        with self._lock:
            self._epoch_of(model, epoch)[name] = value

    def _epoch_done(self, scope: Scope) -> None:
        model, epoch, samples = (scope.fields[k] for k in ("model", "epoch", "num_samples"))
        with self._lock:
            values = self._epoch_of(model, epoch)
            values["seconds"] = scope.duration
            values["num_samples"] = samples

    def _keep_inference(self, model: str, batch: int, seconds: float) -> None:
        with self._lock:
            self._batch_of(model, batch)["window"].add(seconds)

    def _batch_of(self, model: str, batch: int) -> dict[str, Any]:
        """Under the lock."""
        batches = self._inference.get(model)
        if batches is None:
            full = len(self._inference) >= MODELS_KEPT
            batches = {} if full else self._inference.setdefault(model, {})
        if batch not in batches and len(batches) < MODELS_KEPT:
            batches[batch] = {"window": Window(self.max_history), "values": {}}
        return batches.get(batch) or {"window": Window(1), "values": {}}

    def _inference_done(self, scope: Scope) -> None:
        self._keep_inference(scope.fields["model"], scope.fields["batch_size"], scope.duration)

    def _inference_value(self, model: str, name: str, value: float) -> None:
        ml.series("sonde_ml_value", model, name).set(value)
        scope = self._innermost(f"{model}/inference")
        with self._lock:
            if scope:
                batch = scope.fields["batch_size"]
            else:
                batch = next(reversed(self._inference.get(model, {})), 0)
            self._batch_of(model, batch)["values"].setdefault(name, Window(self.max_history)).add(
                value)
        if scope:
            scope[name] = value

    def _dataset_done(self, scope: Scope) -> None:
        dataset = scope.fields["dataset"]
        with self._lock:
            if dataset not in self._datasets and len(self._datasets) >= MODELS_KEPT:
                return
            kept = self._datasets.setdefault(
                dataset, {"window": Window(self.max_history), "items": 0, "bytes": 0})
            kept["window"].add(scope.duration)
            kept["items"] += scope.fields["items"]
            kept["bytes"] += scope.fields["bytes"]

    def _worker_value(self, worker: str, name: str, value: float) -> None:
        if name in _WORKER_VALUES:
            known_as, factor = _WORKER_VALUES[name]
            ml.worker_utilization(worker, **{known_as: value * factor})
        else:
            ml.series("sonde_ml_value", f"workers/{worker}", name).set(value)
        with self._lock:
            if worker not in self._workers and len(self._workers) >= MODELS_KEPT:
                return
            values = self._workers.setdefault(worker, {})
            values.setdefault(name, deque(maxlen=self.max_history)).append((time.time(), value))

    # ---- Reading ---------------------------------------------------------------------------------

    def get_models(self) -> list[str]:
        with self._lock:
            return sorted({*self._epochs, *self._inference})

    def get_training_metrics(self, model_id: str) -> dict[str, Any]:
        """{"epochs": [0, 1 …], NAME: [a value for each, None where it has none] …}; seconds and
        num_samples are among the names."""
        with self._lock:
            epochs = sorted(self._epochs.get(model_id, {}).items())
            names = list(dict.fromkeys(name for _, values in epochs for name in values))
            return {"epochs": [epoch for epoch, _ in epochs],
                    **{name: [values.get(name) for _, values in epochs] for name in names}}

    def get_inference_metrics(self, model_id: str) -> dict[int, dict[str, Any]]:
        """By batch size: exact figures of the last latencies in seconds (window.describe()),
        `latencies` themselves, items_per_second, and the statistics of each value in `values`."""
        with self._lock:
            result = {}
            for batch, kept in sorted(self._inference.get(model_id, {}).items()):
                figures: dict[str, Any] = kept["window"].describe()
                if figures["count"] and figures["avg"] > 0:
                    figures["items_per_second"] = batch / figures["avg"]
                figures["latencies"] = list(kept["window"].values)
                figures["values"] = {n: w.describe() for n, w in kept["values"].items()}
                result[batch] = figures
            return result

    def get_dataset_metrics(self) -> dict[str, dict[str, Any]]:
        """By dataset: figures of load times, `latencies` themselves, items and bytes in all."""
        with self._lock:
            return {name: {**kept["window"].describe(), "latencies": list(kept["window"].values),
                           "items": kept["items"], "bytes": kept["bytes"]}
                    for name, kept in self._datasets.items()}

    def get_worker_metrics(self) -> dict[str, dict[str, list[tuple[float, float]]]]:
        """By worker and name: times (seconds since 1970) and values, oldest first."""
        with self._lock:
            return {worker: {name: list(points) for name, points in values.items()}
                    for worker, values in self._workers.items()}

    def get_values(self) -> dict[str, float]:
        """The newest of each path that is of no epoch, inference or worker."""
        with self._lock:
            return dict(self._values)

"""Callbacks for Lightning and Transformers, made of the hooks that they document.

Neither framework is imported unless it is installed, and then only its base class of callbacks;
without it the callbacks answer every hook by name, so that any trainer which calls these hooks in this
order can use them. Values that a trainer holds as tensors are kept as they are: see resolve in sonde.ml.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Mapping, Sequence

from .ml import Epoch, Loop, Step, number


def _base(places: Sequence[tuple[str, str]]) -> type:
    """The framework's base class, of the one that is in use, or else of the first that is installed."""
    def there(module: str) -> bool:
        return importlib.util.find_spec(module.partition(".")[0]) is not None

    used = [place for place in places if place[0].partition(".")[0] in sys.modules]
    for module, name in [*used, *(place for place in places if there(place[0]))]:
        try:
            base = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        return base
    return _AnyHook


class _AnyHook:
    """Stands in for a base class: hooks that are not defined do nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return _nothing
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _nothing(*_args: Any, **_named: Any) -> None:
    return None


def batch_size(batch: Any) -> int:
    """How many samples a batch has, by its shape or length; 0 = it cannot be told. Looks at no data."""
    shape = getattr(batch, "shape", None)
    if shape is not None and not callable(shape):
        return int(shape[0]) if len(shape) else 1
    if isinstance(batch, Mapping):
        return batch_size(next(iter(batch.values()))) if batch else 0
    if isinstance(batch, (list, tuple)) and batch:
        first = batch[0]
        if hasattr(first, "shape") or isinstance(first, (list, tuple, Mapping)):
            return batch_size(first)
        return len(batch)
    return 0


class _Training:
    """What both callbacks do: a loop, its epoch and its step."""

    def __init__(self, model: str | None, resolve: bool) -> None:
        self.model = model
        self.resolve = resolve
        self.loop: Loop | None = None
        self.epoch: Epoch | None = None
        self.step: Step | None = None

    def begin(self, model: Any) -> Loop:
        if self.loop is None:
            self.loop = Loop(self.model or type(model).__name__, self.resolve)
        return self.loop

    def epoch_begin(self, model: Any, epoch: int) -> None:
        self.epoch_end(None)
        self.epoch = self.begin(model).epoch(epoch)
        self.epoch.__enter__()

    def epoch_end(self, error: BaseException | None) -> None:
        self.step_end(0, error)
        if self.epoch is not None:
            self.epoch.__exit__(type(error) if error else None, error, None)
            self.epoch = None

    def step_begin(self, model: Any, phase: str) -> None:
        self.step_end(0, None)
        self.step = self.begin(model).step(phase=phase)
        self.step.__enter__()

    def step_end(self, samples: int, error: BaseException | None) -> None:
        if self.step is not None:
            self.step.samples = samples
            self.step.__exit__(type(error) if error else None, error, None)
            self.step = None

    def phase(self, name: str) -> None:
        if self.loop is not None and (self.step is not None or self.epoch is not None):
            self.loop.phase(name)

    def cut(self, name: str) -> None:
        if self.loop is not None and self.step is None:
            self.loop.cut(name)

    def record(self, values: Mapping[str, Any]) -> None:
        """Values of the epoch; between epochs those that are numbers are values of the moment."""
        for name, value in values.items():
            plain = number(value)
            if self.epoch is not None and (plain is not None or callable(getattr(value, "item", None))):
                self.epoch.record({name: value})
            elif self.loop is not None and plain is not None:
                self.loop.value(name, plain)


# ---- Lightning ---------------------------------------------------------------------------------------

def make_LightningCallback() -> type:
    base = _base((("lightning.pytorch.callbacks", "Callback"), ("pytorch_lightning.callbacks", "Callback")))

    class LightningCallback(base):  # type: ignore[misc, valid-type]
        """Trainer(callbacks=[sonde.ml.LightningCallback()])

        Steps have the phases forward (training_step), backward, optimizer and other; between them are
        data_wait and validation. What trainer.callback_metrics holds at the end of an epoch are its
        values: numbers as they are, tensors only with resolve=True, which fetches them then."""

        def __init__(self, model: str | None = None, resolve: bool = False) -> None:
            super().__init__()
            self.training = _Training(model, resolve)

        # A checkpoint of the trainer's has nothing of ours.
        @property
        def state_key(self) -> str:
            return "sonde.ml.LightningCallback"

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            return None

        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            return None

        def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
            self.training.epoch_end(None)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.training.begin(pl_module)

        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            self.training.epoch_begin(pl_module, int(getattr(trainer, "current_epoch", 0)))

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int,
                                 *_unused: Any) -> None:
            self.training.step_begin(pl_module, "forward")

        def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
            self.training.phase("backward")

        def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
            self.training.phase("other")

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any,
                                     *_opt_idx: Any) -> None:
            self.training.phase("optimizer")
            groups = getattr(optimizer, "param_groups", None)
            if groups and number(groups[0].get("lr")) is not None:
                self.training.record({"learning_rate": groups[0]["lr"]})

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int,
                               *_unused: Any) -> None:
            self.training.step_end(batch_size(batch), None)

        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            if not getattr(trainer, "sanity_checking", False):
                self.training.phase("validation")

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            if not getattr(trainer, "sanity_checking", False):
                self.training.cut("validation")

        # Nobody says when it is written: it lasts until the next hook.
        def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
            self.training.phase("checkpoint")

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            self.training.step_end(0, None)
            self.training.record(dict(getattr(trainer, "callback_metrics", None) or {}))
            self.training.epoch_end(None)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.training.epoch_end(None)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self.training.epoch_end(exception)

    LightningCallback.__module__ = "sonde.ml"
    LightningCallback.__qualname__ = "LightningCallback"
    return LightningCallback


# ---- Transformers ------------------------------------------------------------------------------------

_LOGGED = {"loss": "train_loss", "epoch": None}


def _logged_name(name: str) -> str | None:
    if name in _LOGGED:
        return _LOGGED[name]
    return "val_" + name[len("eval_"):] if name.startswith("eval_") else name


def make_TransformersCallback() -> type:
    base = _base((("transformers", "TrainerCallback"),))

    class TransformersCallback(base):  # type: ignore[misc, valid-type]
        """Trainer(callbacks=[sonde.ml.TransformersCallback()])

        Forward and backward are one phase, forward_backward: no hook is between them; optimizer follows
        where the trainer says so. What is logged is numbers already: loss is train_loss, eval_x is val_x.
        An epoch lasts until the next begins, so that its evaluation, which comes behind on_epoch_end,
        is its own."""

        def __init__(self, model: str | None = None, resolve: bool = False) -> None:
            super().__init__()
            self.training = _Training(model, resolve)

        def _model(self, named: Mapping[str, Any]) -> Any:
            model = named.get("model")
            return model if model is not None else self

        def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self.training.begin(self._model(named))

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self.training.epoch_begin(self._model(named), int(getattr(state, "epoch", None) or 0))

        def on_step_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self.training.step_begin(self._model(named), "forward_backward")

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self.training.phase("optimizer")

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self.training.phase("other")

        def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            samples = number(getattr(args, "train_batch_size", 0)) or 0
            parts = number(getattr(args, "gradient_accumulation_steps", 1)) or 1
            self.training.step_end(int(samples * parts), None)

        # Hooks that are called behind what they are about.
        def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None,
                   **named: Any) -> None:
            logs = logs or {}
            values = {_logged_name(name): value for name, value in logs.items()}
            values.pop(None, None)
            self.training.record(values)  # type: ignore[arg-type]
            self.training.cut("validation" if any(name.startswith("eval_") for name in logs) else "other")

        def on_evaluate(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self.training.cut("validation")

        def on_save(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self.training.cut("checkpoint")

        def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
            self.training.epoch_end(None)

    TransformersCallback.__module__ = "sonde.ml"
    TransformersCallback.__qualname__ = "TransformersCallback"
    return TransformersCallback

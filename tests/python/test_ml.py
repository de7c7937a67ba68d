"""sonde.ml: counts of known loops, phases that add up, values that are not fetched, callbacks driven by
stand-ins which call the documented hooks in the documented order."""

import asyncio
import contextlib
import copy
import math
import pickle
import threading
import types
import unittest
import warnings

import sonde
import sonde.ml as ml

from figures import recorded as series
from helpers import run, spans

NS = 1e-9


def fresh(test):
    """A model's name that no other test has."""
    return test.id().rpartition(".")[2]


def phase(model, name):
    return series("sonde_ml_phase_seconds", model=model, phase=name)


def phases(model):
    return {s["labels"]["phase"]: s for s in sonde.snapshot()
            if s["name"] == "sonde_ml_phase_seconds" and s["labels"]["model"] == model}


def epochs(model):
    return [s for s in spans("ml.epoch") if s["attributes"].get("model") == model[:40]]   # what is kept of a text


def inside(parent):
    return [s for s in sonde.spans() if s["parent_id"] == parent["span_id"]]


class Tensor:
    """Fetching its value is what must not happen."""

    def __init__(self, value, fetched, name="tensor"):
        self.value, self.fetched, self.name = value, fetched, name

    def item(self):
        self.fetched.append(self.name)
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


class Known(unittest.TestCase):
    def train(self, loop, epochs=3, steps=5):
        for number in range(epochs):
            with loop.epoch(number) as epoch:
                for _ in range(steps):
                    with loop.step(samples=4) as step:
                        with step.phase("forward"):
                            sum(range(100))
                        with step.phase("backward"):
                            sum(range(200))
                        step.phase("optimizer")
                with loop.phase("validation"):
                    sum(range(50))
                epoch.record(train_loss=1 / (number + 1), val_loss=2 / (number + 1))
                epoch["learning_rate"] = 0.5

    def test_counts_and_sums(self):
        model = fresh(self)
        self.train(ml.Loop(model))
        step = series("sonde_ml_step_seconds", model=model)
        epoch = series("sonde_ml_epoch_seconds", model=model)
        self.assertEqual(step["count"], 15)
        self.assertEqual(epoch["count"], 3)
        self.assertEqual(series("sonde_ml_first_step_seconds", model=model)["count"], 3)
        self.assertEqual(series("sonde_ml_steps_total", model=model)["value"], 15)
        self.assertEqual(series("sonde_ml_samples_total", model=model)["value"], 60)
        self.assertEqual(series("sonde_ml_epoch", model=model)["value"], 2)
        self.assertEqual(series("sonde_ml_value", model=model, name="train_loss")["value"], 1 / 3)
        found = phases(model)
        for name in ("forward", "backward", "optimizer"):
            self.assertEqual(found[name]["count"], 15)
        self.assertEqual(found["validation"]["count"], 3)
        self.assertEqual(found["data_wait"]["count"], 18)     # before each step and each validation
        # Phases share epochs without a gap: what is recorded are whole nanoseconds.
        records = sum(s["count"] for s in found.values())
        self.assertAlmostEqual(sum(s["sum"] for s in found.values()), epoch["sum"], delta=records * NS)

    def test_phases_of_a_step_add_up_to_it(self):
        model = fresh(self)
        loop = ml.Loop(model)
        for _ in range(20):     # no epoch: nothing but steps and the waits between them
            with loop.step(phase="forward") as step:
                sum(range(100))
                step.phase("backward")
                sum(range(200))
                with step.phase("optimizer"):
                    sum(range(50))
        found = phases(model)
        self.assertEqual(found.pop("data_wait")["count"], 19)
        self.assertEqual({name: s["count"] for name, s in found.items()},
                         {"forward": 20, "backward": 20, "optimizer": 20, "other": 20})
        self.assertAlmostEqual(sum(s["sum"] for s in found.values()),
                               series("sonde_ml_step_seconds", model=model)["sum"], delta=100 * NS)
        self.assertEqual([s["count"] for s in sonde.snapshot() if s["name"] == "sonde_ml_first_step_seconds"
                          and s["labels"]["model"] == model], [0])
        self.assertIsNone(sonde.trace_id())     # nothing stays open

    def test_spans(self):
        model = fresh(self)
        self.train(ml.Loop(model, span_seconds=0), epochs=2, steps=3)
        found = epochs(model)
        self.assertEqual([s["attributes"]["epoch"] for s in found], [0, 1])
        for number, epoch in enumerate(found):
            attributes = epoch["attributes"]
            self.assertEqual((attributes["num_samples"], attributes["steps"]), (12, 3))
            self.assertEqual(attributes["train_loss"], 1 / (number + 1))
            self.assertEqual(attributes["val_loss"], 2 / (number + 1))
            self.assertEqual(attributes["learning_rate"], 0.5)
            self.assertLess(attributes["first_step_seconds"], attributes["step_seconds"])
            children = inside(epoch)
            self.assertEqual([s["name"] for s in children], ["ml.step"] * 3 + ["ml.validation"])
            for step in children[:3]:
                parts = inside(step)
                self.assertEqual([s["name"] for s in parts], ["ml.forward", "ml.backward", "ml.optimizer"])
                self.assertLessEqual(sum(s["duration"] for s in parts), step["duration"])
            self.assertLessEqual(sum(s["duration"] for s in children), epoch["duration"])

    def test_waiting_for_batches_apart_from_what_else_is_between_steps(self):
        model = fresh(self)
        loop = ml.Loop(model)
        gate = threading.Event()
        batches = loop.batches([1, 2, 3], dataset=model)
        with loop.epoch(0) as epoch:
            for _ in batches:
                with loop.step(phase="forward"):
                    pass
                gate.wait(0.02)     # not the loader's fault
        found = phases(model)
        self.assertEqual(found["data_wait"]["count"], 4)    # three batches, and that there is no fourth
        self.assertGreaterEqual(found["other"]["sum"], 0.06)
        self.assertEqual(series("sonde_ml_dataset_items_total", dataset=model)["value"], 3)
        records = sum(s["count"] for s in found.values())
        self.assertAlmostEqual(sum(s["sum"] for s in found.values()), epoch.duration, delta=records * NS)

    def test_fast_loops_do_not_push_out_their_epochs(self):
        model = fresh(self)
        loop = ml.Loop(model)
        for number in range(3):
            with loop.epoch(number) as epoch:
                for _ in range(3000):
                    with loop.step() as step, step.phase("forward"):
                        pass
        self.assertEqual([s["attributes"]["steps"] for s in epochs(model)], [3000] * 3)
        self.assertEqual(series("sonde_ml_step_seconds", model=model)["count"], 9000)
        steps = [s for s in inside(epochs(model)[-1]) if s["name"] == "ml.step"]
        self.assertLessEqual(len(steps), epoch.duration / 0.001 + 1)
        self.assertEqual(len([s for step in steps for s in inside(step)]), len(steps))

    def test_the_first_step_is_apart(self):
        model = fresh(self)
        loop = ml.Loop(model)
        gate = threading.Event()
        with loop.epoch(0) as epoch:
            for number in range(10):
                with loop.step():
                    if number == 0:     # as one that waits for workers to start
                        gate.wait(0.05)
        first = series("sonde_ml_first_step_seconds", model=model)
        self.assertEqual(first["count"], 1)
        self.assertGreaterEqual(first["sum"], 0.05)
        self.assertGreaterEqual(epoch.first_step_seconds, 0.05)

    def test_epoch_and_step_by_themselves(self):
        model = fresh(self)
        with ml.track_training_epoch(model, epoch=7, num_samples=1000) as epoch:
            with epoch.step(samples=10), epoch.phase("forward"):
                pass
            epoch.record({"val acc": 0.5})
        with ml.track_step(model, samples=5):
            pass
        self.assertEqual(epochs(model)[0]["attributes"]["num_samples"], 1000)
        self.assertEqual(series("sonde_ml_samples_total", model=model)["value"], 1005)
        self.assertEqual(epochs(model)[0]["attributes"]["val acc"], 0.5)

    def test_what_fails_says_so(self):
        model = fresh(self)
        loop = ml.Loop(model)
        with self.assertRaises(KeyError), loop.epoch(0) as epoch:
            with loop.step() as step, step.phase("forward"):
                raise KeyError("x")
        found = epochs(model)[0]
        self.assertEqual(found["outcome"], "error")
        self.assertEqual(inside(found)[0]["outcome"], "error")
        self.assertEqual(epoch.steps, 1)
        self.assertIsNone(loop.current)
        self.assertIsNone(loop.running)

    def test_out_of_order(self):
        model = fresh(self)
        loop = ml.Loop(model)
        first = loop.epoch(0).__enter__()
        step = loop.step().__enter__()
        loop.epoch(1).__enter__()   # ends both
        step.__exit__(None, None, None)
        first.__exit__(None, None, None)
        loop.step().__enter__()
        with loop.step():           # ends that
            pass
        loop.current.__exit__(None, None, None)
        self.assertEqual(series("sonde_ml_step_seconds", model=model)["count"], 3)
        self.assertEqual(series("sonde_ml_epoch_seconds", model=model)["count"], 2)
        self.assertIsNone(sonde.trace_id())

    def test_off_records_nothing_and_fails_nothing(self):
        run("""
            import sonde, sonde.ml as ml
            loop = ml.Loop("off")
            with loop.epoch(0) as epoch, loop.step(samples=3) as step, step.phase("forward"):
                epoch.record(loss=1.0)
            with ml.track_inference("off", 3):
                pass
            list(sonde.wrap_iter([1, 2]))
            assert epoch.values == {"loss": 1.0} and epoch.steps == 1
            assert not [s for s in sonde.snapshot() if s.get("count") or s.get("value")], sonde.snapshot()
        """, SONDE_ENABLED="0")

    def test_threads_lose_nothing(self):
        model = fresh(self)

        def train():
            loop = ml.Loop(model)
            for _ in range(20):
                self.train(loop, epochs=1, steps=10)

        threads = [threading.Thread(target=train) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(series("sonde_ml_step_seconds", model=model)["count"], 800)
        self.assertEqual(phase(model, "backward")["count"], 800)
        self.assertEqual(series("sonde_ml_samples_total", model=model)["value"], 3200)

    def test_tasks_of_asyncio(self):
        model = fresh(self)

        async def one(number):
            loop = ml.Loop(f"{model}{number}", span_seconds=0)
            with loop.epoch(number):
                for _ in range(3):
                    with loop.step():
                        await asyncio.sleep(0)

        async def several():
            await asyncio.gather(*(one(number) for number in range(10)))

        asyncio.run(several())
        for number in range(10):
            epoch, = epochs(f"{model}{number}")
            self.assertEqual([s["name"] for s in inside(epoch)], ["ml.step"] * 3)

    def test_forked_worker(self):
        run("""
            import os, sonde, sonde.ml as ml
            loop = ml.Loop("forked")
            with loop.epoch(0), loop.step():
                pass
            pid = os.fork()
            if not pid:
                with loop.epoch(1), loop.step():
                    pass
                found = [s for s in sonde.snapshot() if s["name"] == "sonde_ml_step_seconds"]
                os._exit(0 if found[0]["count"] in (1, 2) else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        """)

    def test_pickled_and_copied(self):
        loop = ml.Loop("copied", resolve=True)
        for other in (pickle.loads(pickle.dumps(loop)), copy.deepcopy(loop)):
            self.assertEqual((other.model, other.resolve), ("copied", True))


class Values(unittest.TestCase):
    def test_a_tensor_is_not_fetched_unless_asked(self):
        model, fetched = fresh(self), []
        loop = ml.Loop(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number in range(2):
                with loop.epoch(number) as epoch:
                    epoch.record(train_loss=Tensor(1.0, fetched), plain=2)
            self.assertEqual(fetched, [])
            self.assertEqual(epoch.unresolved, ("train_loss",))
            self.assertEqual(epoch.values, {"plain": 2.0})
            self.assertEqual(len(caught), 1)    # once, not once an epoch
            self.assertIn("resolve=True", str(caught[0].message))

    def test_asked_for_it_is_fetched_at_the_end_and_once(self):
        model, fetched = fresh(self), []
        with ml.Loop(model).epoch(0) as epoch:
            for number in range(5):     # the last of each name
                epoch.record(resolve=True, loss=Tensor(float(number), fetched, f"loss{number}"))
            epoch.record(resolve=True, late=lambda: fetched.append("late") or 7)
            self.assertEqual(fetched, [])
        self.assertEqual(fetched, ["loss4", "late"])
        self.assertEqual(epoch.values, {"loss": 4.0, "late": 7.0})
        self.assertEqual(epochs(model)[0]["attributes"]["loss"], 4.0)
        self.assertEqual(series("sonde_ml_value", model=model, name="late")["value"], 7)

    def test_one_that_fails_takes_no_other_with_it(self):
        model = fresh(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with ml.Loop(model, resolve=True).epoch(0) as epoch:
                epoch.record(bad=Tensor(ValueError("device lost"), []), good=Tensor(3, []), odd=lambda: "text",
                             again=lambda: Tensor(4, []))
        self.assertEqual(epoch.values, {"good": 3.0, "again": 4.0})
        self.assertEqual(set(epoch.unresolved), {"bad", "odd"})

    def test_numbers_of_all_kinds(self):
        from decimal import Decimal
        from fractions import Fraction
        with ml.Loop(fresh(self)).epoch(0) as epoch:
            epoch.record(a=1, b=True, c=Fraction(1, 4), nan=math.nan, inf=-math.inf)
            with self.assertRaisesRegex(TypeError, "d: str is not a number"):
                epoch.record(d="0.5")
            with self.assertRaises(TypeError):
                epoch.record(e=Decimal("0.5"))
        self.assertEqual((epoch.values["a"], epoch.values["b"], epoch.values["c"]), (1.0, 1.0, 0.25))
        attributes = epochs(fresh(self))[0]["attributes"]
        self.assertTrue(math.isnan(attributes["nan"]))
        self.assertEqual(attributes["inf"], -math.inf)

    def test_more_values_than_attributes(self):
        model = fresh(self)
        with ml.Loop(model).epoch(0) as epoch:
            epoch.record({f"v{i}": i for i in range(15)})
        self.assertEqual(len(epoch.values), 15)
        attributes = epochs(model)[0]["attributes"]
        self.assertEqual([i for i in range(15) if f"v{i}" in attributes], list(range(ml.VALUES_MAX)))
        self.assertEqual(series("sonde_ml_value", model=model, name="v14")["value"], 14)


class Scopes(unittest.TestCase):
    def test_models_and_inference(self):
        model = fresh(self)
        with ml.track_model_load(model, bytes=1 << 20):
            pass
        with ml.track_model_init(model):
            pass
        for size in (1, 8, 8):
            with ml.track_inference(model, batch_size=size):
                pass
        with contextlib.suppress(OSError), ml.track_inference(model, batch_size=100):
            raise OSError
        for stage in ("load", "init"):
            self.assertEqual(series("sonde_ml_model_load_seconds", model=model, stage=stage)["count"], 1)
        self.assertEqual(series("sonde_ml_model_bytes", model=model)["value"], 1 << 20)
        self.assertEqual(series("sonde_ml_inference_seconds", model=model, batch_size="8")["count"], 2)
        self.assertEqual(series("sonde_ml_inference_seconds", model=model, batch_size="100")["count"], 1)
        self.assertEqual(series("sonde_ml_inference_items_total", model=model)["value"], 17)  # that went well
        found = [s for s in spans("ml.inference") if s["attributes"]["model"] == model]
        self.assertEqual([s["attributes"]["batch_size"] for s in found], [1, 8, 8, 100])
        self.assertEqual(found[-1]["outcome"], "error")

    def test_data(self):
        dataset = fresh(self)
        with ml.dataset_load(dataset, format="csv", items=10) as load:
            load.add(items=90, bytes=5000)
            load["note"] = "text"
        with ml.preprocess(dataset):
            pass
        self.assertEqual(series("sonde_ml_dataset_load_seconds", dataset=dataset, format="csv")["count"], 1)
        self.assertEqual(series("sonde_ml_dataset_items_total", dataset=dataset)["value"], 100)
        self.assertEqual(series("sonde_ml_dataset_bytes_total", dataset=dataset)["value"], 5000)
        self.assertEqual(series("sonde_ml_preprocess_seconds", operation=dataset)["count"], 1)
        found = [s for s in spans("ml.dataset_load") if s["attributes"]["dataset"] == dataset][0]
        self.assertEqual((found["attributes"]["num_samples"], found["attributes"]["note"]), (100, "text"))

    def test_workers(self):
        with ml.distributed_task("shard", worker="w0"):
            pass
        with contextlib.suppress(ValueError), ml.distributed_task("shard", worker="w0"):
            raise ValueError
        with ml.communication("allreduce", worker="w1", bytes=4096):
            pass
        ml.worker_utilization("w0", 0.75, memory_bytes=1e9, active_tasks=3)
        ml.worker_utilization("w0", active_tasks=2, memory_bytes=-1)
        for outcome in ("ok", "error"):
            self.assertEqual(series("sonde_ml_task_seconds", task="shard", worker="w0", outcome=outcome)["count"], 1)
        self.assertEqual(series("sonde_ml_communication_seconds", operation="allreduce", worker="w1")["count"], 1)
        self.assertEqual(series("sonde_ml_communication_bytes_total", worker="w1")["value"], 4096)
        self.assertEqual(series("sonde_ml_worker_utilization_ratio", worker="w0")["value"], 0.75)
        self.assertEqual(series("sonde_ml_worker_memory_bytes", worker="w0")["value"], 1e9)
        self.assertEqual(series("sonde_ml_worker_active_tasks", worker="w0")["value"], 2)


# ---- Stand-ins for trainers --------------------------------------------------------------------------

class Shaped:
    def __init__(self, *shape):
        self.shape = shape


class LightningTrainer:
    """Calls the hooks of a callback as Lightning 2 does with automatic optimization, all of them by
    name: getattr(callback, hook)(trainer, module, …)."""

    def __init__(self, callback, epochs, batches, fail_at=None):
        self.callback, self.epochs, self.batches, self.fail_at = callback, epochs, batches, fail_at
        self.current_epoch, self.sanity_checking, self.callback_metrics = 0, False, {}
        self.module = type("Net", (), {})()

    def call(self, hook, *args):
        getattr(self.callback, hook)(self, self.module, *args)

    def validate(self):
        self.call("on_validation_start")
        self.call("on_validation_epoch_start")
        self.call("on_validation_batch_start", None, 0)
        self.call("on_validation_batch_end", None, None, 0)
        self.call("on_validation_epoch_end")
        self.call("on_validation_end")

    def fit(self):
        self.callback.setup(self, self.module, stage="fit")
        self.call("on_fit_start")
        self.sanity_checking = True
        self.call("on_sanity_check_start")
        self.validate()
        self.call("on_sanity_check_end")
        self.sanity_checking = False
        self.call("on_train_start")
        try:
            for self.current_epoch in range(self.epochs):
                self.epoch()
        except Exception as error:
            self.call("on_exception", error)
            raise
        self.call("on_train_end")
        self.call("on_fit_end")
        self.callback.teardown(self, self.module, stage="fit")

    def epoch(self):
        optimizer = types.SimpleNamespace(param_groups=[{"lr": 0.1 / (self.current_epoch + 1)}])
        self.call("on_train_epoch_start")
        for index in range(self.batches):
            batch = [Shaped(8, 3), Shaped(8)]
            self.call("on_train_batch_start", batch, index)
            if self.fail_at == (self.current_epoch, index):
                raise RuntimeError("out of memory")
            self.call("on_before_zero_grad", optimizer)
            self.call("on_before_backward", object())
            self.call("on_after_backward")
            self.call("on_before_optimizer_step", optimizer)
            self.call("on_train_batch_end", {"loss": object()}, batch, index)
        self.validate()
        self.call("on_save_checkpoint", {})
        self.call("on_train_epoch_end")


class Lightning(unittest.TestCase):
    def test_hooks_in_order(self):
        model, fetched = fresh(self), []
        callback = ml.LightningCallback(model=model, resolve=True)
        trainer = LightningTrainer(callback, epochs=2, batches=4)
        trainer.callback_metrics = {"train_loss": Tensor(0.25, fetched, "loss"), "val_acc": 0.5}
        trainer.fit()
        self.assertEqual(fetched, ["loss", "loss"])     # at the end of each epoch, and nowhere else
        self.assertEqual(series("sonde_ml_step_seconds", model=model)["count"], 8)
        self.assertEqual(series("sonde_ml_samples_total", model=model)["value"], 64)
        self.assertEqual({name: s["count"] for name, s in phases(model).items()},
                         {"forward": 8, "backward": 8, "other": 8, "optimizer": 8, "data_wait": 12,
                          "validation": 2, "checkpoint": 2})
        records = sum(s["count"] for s in phases(model).values())
        self.assertAlmostEqual(sum(s["sum"] for s in phases(model).values()),
                               series("sonde_ml_epoch_seconds", model=model)["sum"], delta=records * NS)
        attributes = [s["attributes"] for s in epochs(model)]
        self.assertEqual([a["epoch"] for a in attributes], [0, 1])
        self.assertEqual([a["learning_rate"] for a in attributes], [0.1, 0.05])
        self.assertEqual([(a["train_loss"], a["val_acc"]) for a in attributes], [(0.25, 0.5)] * 2)

    def test_tensors_stay_where_they_are(self):
        model, fetched = fresh(self), []
        trainer = LightningTrainer(ml.LightningCallback(model=model), epochs=1, batches=1)
        trainer.callback_metrics = {"train_loss": Tensor(0.25, fetched)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.fit()
        self.assertEqual(fetched, [])
        self.assertNotIn("train_loss", epochs(model)[0]["attributes"])

    def test_an_exception_ends_it(self):
        model = fresh(self)
        with self.assertRaisesRegex(RuntimeError, "out of memory"):
            LightningTrainer(ml.LightningCallback(model=model), 3, 4, fail_at=(1, 2)).fit()
        self.assertEqual([s["outcome"] for s in epochs(model)], ["ok", "error"])
        self.assertEqual(series("sonde_ml_step_seconds", model=model)["count"], 7)
        self.assertIsNone(sonde.trace_id())

    def test_named_after_the_module(self):
        LightningTrainer(ml.LightningCallback(), 1, 1).fit()
        self.assertEqual(series("sonde_ml_step_seconds", model="Net")["count"], 1)

    def test_is_one_of_theirs_if_they_are_there(self):
        print_bases = """
            import sys, types
            for name in ("lightning", "lightning.pytorch", "lightning.pytorch.callbacks", "transformers"):
                sys.modules[name] = module = types.ModuleType(name)
                module.__path__ = []
                module.__spec__ = types.SimpleNamespace(name=name)
            class Callback:
                def on_fit_start(self, trainer, module): print("theirs")
            sys.modules["lightning.pytorch.callbacks"].Callback = Callback
            sys.modules["transformers"].TrainerCallback = type("TrainerCallback", (), {})
            import sonde.ml
            made = sonde.ml.LightningCallback()
            assert isinstance(made, Callback) and made.state_dict() == {}
            made.on_fit_start(None, None)
            assert isinstance(sonde.ml.TransformersCallback(), sys.modules["transformers"].TrainerCallback)
        """
        self.assertEqual(run(print_bases), "theirs\n")

    def test_importing_sonde_ml_imports_neither(self):
        self.assertEqual(run("""
            import sys, sonde.ml
            print([name for name in ("lightning", "transformers", "torch", "sonde.ml_callbacks") if name in sys.modules])
        """), "[]\n")

    def test_sizes_of_batches(self):
        from sonde.ml_callbacks import batch_size
        for batch, size in ((Shaped(5, 2), 5), ([Shaped(4), Shaped(4, 9)], 4), ({"x": Shaped(3, 1)}, 3),
                            ({"x": {"y": Shaped(2)}}, 2), ([1, 2, 3], 3), ((["a", "b"], [0, 1]), 2), (Shaped(), 1),
                            ({}, 0), ([], 0), ("text", 0), (None, 0), (7, 0)):
            self.assertEqual(batch_size(batch), size)


class TransformersTrainer:
    """Calls events as transformers.Trainer does: evaluation, its log and saving come behind
    on_epoch_end, and on_log, on_evaluate and on_save behind what they are about."""

    def __init__(self, callback, epochs, steps):
        self.callback, self.epochs, self.steps = callback, epochs, steps
        self.args = types.SimpleNamespace(train_batch_size=4, gradient_accumulation_steps=2)
        self.state = types.SimpleNamespace(epoch=0.0, global_step=0)
        self.model = type("Bert", (), {})()

    def event(self, name, **named):
        control = object()
        getattr(self.callback, name)(self.args, self.state, control, model=self.model, optimizer=None, **named)

    def train(self):
        self.event("on_train_begin")
        for number in range(self.epochs):
            self.state.epoch = float(number)
            self.event("on_epoch_begin")
            for _ in range(self.steps):
                self.event("on_step_begin")
                self.event("on_substep_end")
                self.event("on_pre_optimizer_step")
                self.event("on_optimizer_step")
                self.state.global_step += 1
                self.event("on_step_end")
                self.event("on_log", logs={"loss": 1 / self.state.global_step, "learning_rate": 0.01,
                                           "epoch": self.state.epoch})
            self.state.epoch = float(number + 1)
            self.event("on_epoch_end")
            self.event("on_prediction_step")
            self.event("on_log", logs={"eval_loss": 2 / (number + 1), "eval_accuracy": 0.5, "epoch": self.state.epoch})
            self.event("on_evaluate", metrics={})
            self.event("on_save")
        self.event("on_log", logs={"train_runtime": 1.0, "train_loss": 0.125, "epoch": self.state.epoch})
        self.event("on_train_end")


class Transformers(unittest.TestCase):
    def test_events_in_order(self):
        model = fresh(self)
        TransformersTrainer(ml.TransformersCallback(model=model), epochs=2, steps=3).train()
        self.assertEqual(series("sonde_ml_step_seconds", model=model)["count"], 6)
        self.assertEqual(series("sonde_ml_samples_total", model=model)["value"], 48)
        found = phases(model)
        self.assertEqual({name: found[name]["count"] for name in ("forward_backward", "optimizer", "validation",
                                                                  "checkpoint")},
                         {"forward_backward": 6, "optimizer": 6, "validation": 4, "checkpoint": 2})
        records = sum(s["count"] for s in found.values())
        self.assertAlmostEqual(sum(s["sum"] for s in found.values()),
                               series("sonde_ml_epoch_seconds", model=model)["sum"], delta=records * NS)
        attributes = [s["attributes"] for s in epochs(model)]
        self.assertEqual([a["epoch"] for a in attributes], [0, 1])
        self.assertEqual([a["val_loss"] for a in attributes], [2.0, 1.0])     # of its own evaluation
        self.assertEqual([a["train_loss"] for a in attributes], [1 / 3, 0.125])
        self.assertEqual(attributes[0]["val_accuracy"], 0.5)
        self.assertIsNone(sonde.trace_id())

    def test_named_after_the_model(self):
        TransformersTrainer(ml.TransformersCallback(), 1, 1).train()
        self.assertEqual(series("sonde_ml_steps_total", model="Bert")["value"], 1)

    def test_other_events_are_nothing(self):
        callback = ml.TransformersCallback()
        self.assertIsNone(callback.on_push_begin(None, None, None))
        with self.assertRaises(AttributeError):
            callback.unheard


if __name__ == "__main__":
    unittest.main()

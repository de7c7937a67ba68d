"""sonde.aiml and sonde.visualization: what a training loop tells, read back, and what is handed to
`sonde plot`. With SONDE_BUILD the pictures are drawn by the program itself as well."""

import base64
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from html.parser import HTMLParser
from unittest import mock

import sonde
from sonde.aiml import MIB, AIMLMetricsCollector
from sonde.visualization import PlotError, create_visualization

from figures import assert_figures, recorded
from stand_ins import Clock, plot_of


class Timed(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        for module in ("performance", "aiml"):
            patch = mock.patch(f"sonde.{module}.time", self.clock)
            patch.start()
            self.addCleanup(patch.stop)
        self.metrics = AIMLMetricsCollector(max_history=100)

    def train(self, model, epochs):
        for epoch in range(epochs):
            with self.metrics.track_training_epoch(model, epoch=epoch, num_samples=1000):
                self.clock.sleep(2 + epoch)
                self.metrics.record_metric(f"{model}/epoch/{epoch}/train_loss", 1.5 / (epoch + 1))
                self.metrics.record_metric(f"{model}/epoch/{epoch}/val_acc", 0.5 + epoch / 10)


class Training(Timed):
    def test_epochs(self):
        self.train("aiml_a", 3)
        found = self.metrics.get_training_metrics("aiml_a")
        self.assertEqual(found["epochs"], [0, 1, 2])
        self.assertEqual(found["train_loss"], [1.5, 0.75, 0.5])
        self.assertEqual(found["val_acc"], [0.5, 0.6, 0.7])
        self.assertEqual(found["seconds"], [2, 3, 4])
        self.assertEqual(recorded("sonde_ml_epoch_seconds", model="aiml_a")["count"], 3)
        self.assertEqual(recorded("sonde_ml_samples_total", model="aiml_a")["value"], 3000)
        self.assertEqual(recorded("sonde_ml_epoch", model="aiml_a")["value"], 2)
        self.assertEqual(recorded("sonde_ml_value", model="aiml_a", name="train_loss")["value"], 0.5)
        spans = [s["attributes"] for s in sonde.spans() if s["name"] == "ml.epoch"
                 and s["attributes"].get("model") == "aiml_a"]
        self.assertEqual([(a["epoch"], a["num_samples"], a["train_loss"]) for a in spans],
                         [(0, 1000, 1.5), (1, 1000, 0.75), (2, 1000, 0.5)])

    def test_values_outside_of_an_epoch_and_gaps(self):
        self.metrics.record_metric("org/aiml_b/epoch/0/train_loss", 2.0)
        self.metrics.record_metric("org/aiml_b/epoch/1/val_loss", math.nan)
        found = self.metrics.get_training_metrics("org/aiml_b")
        self.assertEqual(found["train_loss"], [2.0, None])
        self.assertIsNone(found["val_loss"][0])
        self.assertTrue(math.isnan(found["val_loss"][1]))
        self.assertEqual(self.metrics.get_training_metrics("nobody"), {"epochs": []})

    def test_an_epoch_that_fails(self):
        with self.assertRaises(FloatingPointError):
            with self.metrics.track_training_epoch("aiml_c", epoch=0):
                raise FloatingPointError("diverged")
        self.assertEqual(self.metrics.get_error_stats()["by_operation"], {"aiml_c/epoch": 1})

    def test_it_is_a_performance_metrics(self):
        self.train("aiml_d", 2)
        self.metrics.track_system_resources = False
        summary = self.metrics.analyze_metrics()["summary"]
        self.assertEqual(summary["slowest_operation"]["operation"], "aiml_d/epoch")
        self.assertEqual(summary["slowest_operation"]["avg_seconds"], 2.5)

    def test_old_epochs_go(self):
        metrics = AIMLMetricsCollector(max_history=5)
        for epoch in range(20):
            metrics.record_metric(f"aiml_e/epoch/{epoch}/train_loss", epoch)
        self.assertEqual(metrics.get_training_metrics("aiml_e")["epochs"], [15, 16, 17, 18, 19])

    def test_off(self):
        sonde.enable(False)
        try:
            self.train("aiml_off", 1)
        finally:
            sonde.enable(True)
        self.assertEqual(self.metrics.get_models(), [])


class Inference(Timed):
    def test_by_batch_size(self):
        took = {1: [0.1, 0.2], 4: [0.4, 0.8, 0.6]}
        for batch_size, seconds in took.items():
            for value in seconds:
                with self.metrics.track_inference("inf_a", batch_size=batch_size):
                    self.clock.sleep(value)
                    self.metrics.record_metric("inf_a/inference/memory_mb", 100 * batch_size)
        found = self.metrics.get_inference_metrics("inf_a")
        for batch_size, seconds in took.items():
            assert_figures(self, found[batch_size], seconds)
            self.assertEqual(found[batch_size]["values"]["memory_mb"]["max"], 100 * batch_size)
            self.assertEqual(recorded("sonde_ml_inference_seconds", model="inf_a",
                                      batch_size=str(batch_size))["count"], len(seconds))
        self.assertAlmostEqual(found[4]["items_per_second"], 4 / 0.6)
        self.assertEqual(recorded("sonde_ml_inference_items_total", model="inf_a")["value"], 14)

    def test_timed_elsewhere(self):
        self.metrics.record_inference_time("inf_b", 2, 0.5)
        self.assertEqual(self.metrics.get_inference_metrics("inf_b")[2]["sum"], 0.5)
        with self.assertRaises(ValueError):
            self.metrics.record_inference_time("inf_b", 2, -1)

    def test_threads(self):
        def work(batch_size):
            for _ in range(50):
                with self.metrics.track_inference("inf_c", batch_size=batch_size):
                    self.metrics.record_metric("inf_c/inference/memory_mb", batch_size)
        threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for batch_size, found in self.metrics.get_inference_metrics("inf_c").items():
            memory = found["values"]["memory_mb"]
            self.assertEqual((found["count"], memory["min"], memory["max"]),
                             (50, batch_size, batch_size))


class Others(Timed):
    def test_workers(self):
        for number, use in enumerate((0.25, 0.75)):
            self.clock.sleep(1)
            self.metrics.record_metric("workers/w-1/utilization", use)
            self.metrics.record_metric("workers/w-1/memory_mb", 2500)
            self.metrics.record_metric("workers/w-1/active_tasks", number)
        found = self.metrics.get_worker_metrics()["w-1"]
        self.assertEqual([v for _, v in found["utilization"]], [0.25, 0.75])
        self.assertEqual(found["utilization"][1][0] - found["utilization"][0][0], 1)
        for name, value in (("utilization_ratio", 0.75), ("memory_bytes", 2500 * MIB),
                            ("active_tasks", 1)):
            self.assertEqual(recorded(f"sonde_ml_worker_{name}", worker="w-1")["value"], value)

    def test_datasets_and_models(self):
        with self.metrics.track_dataset_load("digits", format="csv") as load:
            self.clock.sleep(3)
            load.add(items=10, bytes=4096)
        with self.metrics.track_model_load("net", bytes=1 << 20):
            self.clock.sleep(1)
        with self.metrics.track_model_init("net"):
            pass
        found = self.metrics.get_dataset_metrics()["digits"]
        self.assertEqual((found["sum"], found["items"], found["bytes"]), (3, 10, 4096))
        self.assertEqual(recorded("sonde_ml_dataset_bytes_total", dataset="digits")["value"], 4096)
        self.assertEqual(recorded("sonde_ml_model_bytes", model="net")["value"], 1 << 20)
        self.assertEqual(self.metrics.get_operation_stats("net/load")["avg"], 1)

    def test_any_other_value(self):
        self.metrics.record_metric("global_step", 7)
        self.assertEqual(self.metrics.get_values(), {"global_step": 7})
        self.assertEqual(recorded("sonde_ml_value", name="global_step")["value"], 7)

    def test_a_child_begins_anew(self):
        self.train("aiml_parent", 1)
        pid = os.fork()
        if not pid:
            os._exit(len(self.metrics.get_models()))
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


class Pictures(Timed):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.use(plot_of(self.folder))
        self.train("viz", 2)
        for batch_size in (1, 2):
            with self.metrics.track_inference("viz", batch_size=batch_size):
                self.clock.sleep(batch_size / 10)
                self.metrics.record_metric("viz/inference/memory_mb", 1200)
        self.metrics.record_metric("workers/w/utilization", 0.75)
        self.metrics.record_metric("viz/epoch/1/val_loss", math.nan)
        self.viz = create_visualization(self.metrics, theme="dark", interactive=False)

    def use(self, program):
        patch = mock.patch.dict(os.environ, {"SONDE_BINARY": program})
        patch.start()
        self.addCleanup(patch.stop)

    def drawn(self, picture):
        return json.loads(picture.data)

    def test_training(self):
        found = self.drawn(self.viz.plot_training_metrics(model_id="viz"))
        self.assertEqual((found["kind"], found["options"]), ("training", ["--theme", "dark"]))
        by_name = {s["name"]: s for s in found["series"]}
        self.assertEqual(by_name["train_loss"], {"role": "epoch", "name": "train_loss",
                                                 "group": "viz", "x": [0, 1], "y": [1.5, 0.75]})
        self.assertEqual(by_name["val_loss"]["y"], [None, None])
        self.assertEqual(by_name["seconds"]["y"], [2, 3])

    def test_inference(self):
        found = self.drawn(self.viz.plot_inference_latency(model_id="viz"))["series"]
        batch, = (s for s in found if s["role"] == "batch")
        self.assertEqual(batch["x"], [1, 2])
        self.assertEqual([round(y, 6) for y in batch["y"]], [0.1, 0.2])
        self.assertEqual([s["y"] for s in found if s["role"] == "memory"], [[1200 * MIB]] * 2)

    def test_workers_and_dashboard(self):
        worker, = self.drawn(self.viz.plot_worker_utilization())["series"]
        self.assertEqual((worker["role"], worker["name"], worker["y"]), ("worker", "w", [0.75]))
        page = self.drawn(self.viz.plot_comprehensive_dashboard(figsize=(15, 12)))
        self.assertEqual({s["role"] for s in page["series"]},
                         {"epoch", "batch", "latency", "memory", "worker"})
        self.assertEqual(page["options"][2:], ["--width", "1440"])
        curves = self.drawn(self.viz.plot_training_metrics(figsize=(5, 4)))
        self.assertEqual(curves["options"][2:], ["--width", "480", "--height", "384"])

    def test_files(self):
        path = os.path.join(self.folder, "curves.png")
        picture = self.viz.plot_training_metrics("viz", output_file=path)
        self.assertEqual((picture.path, picture.format), (path, "png"))
        with open(path, "rb") as written:
            self.assertEqual(written.read(), picture.data)
        files = self.viz.export_visualizations(os.path.join(self.folder, "out"), ["png", "json"])
        self.assertEqual(set(files), {"training_metrics", "inference_latency", "worker_utilization",
                                      "comprehensive_dashboard"})
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "out"))),
                         sorted(os.path.basename(f) for made in files.values() for f in made))

    def test_report(self):
        path = os.path.join(self.folder, "report.html")
        self.assertEqual(self.viz.generate_html_report(path), path)
        found = []
        parser = HTMLParser()
        parser.handle_starttag = lambda tag, attrs: found.append((tag, dict(attrs)))
        with open(path, encoding="utf-8") as page:
            parser.feed(page.read())
        images = [attrs for tag, attrs in found if tag == "img"]
        self.assertEqual([i["alt"] for i in images], ["Training", "Inference", "Workers"])
        kinds = [json.loads(base64.b64decode(i["src"].split(",", 1)[1]))["kind"] for i in images]
        self.assertEqual(kinds, ["training", "comprehensive", "comprehensive"])

    def test_show_says_where_it_is(self):
        with mock.patch.dict(os.environ), mock.patch("builtins.print") as said:
            for name in ("DISPLAY", "WAYLAND_DISPLAY"):
                os.environ.pop(name, None)
            picture = self.viz.plot_worker_utilization(show_plot=True)
        self.addCleanup(os.unlink, picture.path)
        said.assert_called_once_with(f"plot: {picture.path}")

    def test_show_in_a_notebook(self):
        shown = []
        display = types.ModuleType("IPython.display")
        display.display = shown.append
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: object()
        with mock.patch.dict(sys.modules, {"IPython": ipython, "IPython.display": display}):
            picture = self.viz.plot_worker_utilization(show_plot=True)
        self.assertEqual(shown, [picture])
        self.assertEqual(list(picture._repr_mimebundle_()), ["image/svg+xml"])
        picture.format = "html"
        self.assertIn("&quot;worker&quot;", picture._repr_mimebundle_()["text/html"])

    def test_what_is_wrong_is_named(self):
        for call, error, words in (
                (lambda: create_visualization(self.metrics, theme="pink"), ValueError, "pink"),
                (lambda: self.viz.plot_training_metrics("nobody"), PlotError, "'nobody'"),
                (lambda: self.viz.plot_training_metrics(output_file="x.bmp"), ValueError, "bmp"),
                (lambda: self.viz.export_visualizations(self.folder, ["gif"]), ValueError, "gif")):
            with self.assertRaisesRegex(error, words):
                call()
        with mock.patch.object(self.viz, "pictures", lambda model: {
                "training_metrics": {"sonde_plot": 1, "kind": "training", "title": "broken",
                                     "series": []}}):
            with self.assertRaisesRegex(PlotError, "it is broken"):
                self.viz.plot_training_metrics()
        with mock.patch.dict(os.environ, {"SONDE_BINARY": "/nowhere/sonde"}):
            with self.assertRaisesRegex(PlotError, "/nowhere/sonde"):
                self.viz.plot_training_metrics()
        with mock.patch.dict(os.environ, {"PATH": self.folder + "/empty"}):
            del os.environ["SONDE_BINARY"]
            with self.assertRaisesRegex(PlotError, "make install"):
                self.viz.plot_training_metrics()

    def test_the_program_itself(self):
        program = os.path.join(os.environ.get("SONDE_BUILD", "/nowhere"), "sonde")
        if not os.path.exists(program) or subprocess.run([program, "plot", "--list"], check=False,
                                                         capture_output=True).returncode:
            self.skipTest("no sonde that plots: set SONDE_BUILD")
        self.use(program)
        files = self.viz.export_visualizations(self.folder, ["svg", "png", "html", "json"])
        for made in files.values():
            for path in made:
                with open(path, "rb") as picture:
                    begins = picture.read(256).lstrip()
                want = {"svg": (b"<?xml", b"<svg"), "png": (b"\x89PNG",), "json": (b"{",),
                        "html": (b"<!doctype", b"<!DOCTYPE")}[path.rsplit(".", 1)[1]]
                self.assertTrue(begins.startswith(want), path)
        with open(files["training_metrics"][3], encoding="utf-8") as data:
            loss, = (s for s in json.load(data)["series"] if s["name"] == "train_loss")
        self.assertEqual(loss["y"], [1.5, 0.75])


if __name__ == "__main__":
    unittest.main()

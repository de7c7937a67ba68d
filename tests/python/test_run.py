"""sonde.Run on recordings of the examples: what they printed is what it reads back, and the notebook's
cells run. Figures come through the segment, the agent, the run file and the report."""

import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from contextlib import redirect_stdout
from unittest import mock

import sonde
from sonde.run import RunError, columns

from helpers import BUILD

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SONDE = str(BUILD / "sonde")
EPOCHS = 4


def record(folder, name, *command):
    """A recording of command, and what it printed."""
    path = os.path.join(folder, name)
    done = subprocess.run([SONDE, "record", "-o", path, "--", *map(str, command)], capture_output=True, text=True,
                          timeout=120)
    if done.returncode:
        raise AssertionError(f"sonde record: {done.stderr}")
    return path, done.stdout


def printed(text):
    found = re.findall(r"^epoch (\d+) train_loss (\S+) val_loss (\S+)$", text, re.M)
    return {"epoch": [int(f[0]) for f in found], "train_loss": [float(f[1]) for f in found],
            "val_loss": [float(f[2]) for f in found]}


class Recorded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        patch = mock.patch.dict(os.environ, {"SONDE_BINARY": SONDE})
        patch.start()
        cls.addClassCleanup(patch.stop)
        cls.python, text = record(cls.scratch.name, "python.run", sys.executable,
                                  SOURCE / "examples/python/train.py", EPOCHS)
        cls.python_said = printed(text)
        cls.c, text = record(cls.scratch.name, "c.run", BUILD / "example_train", EPOCHS)
        cls.c_said = printed(text)

    def runs(self):
        return ((sonde.Run(self.python), self.python_said, 20), (sonde.Run(self.c), self.c_said, 56))

    def test_training_is_what_was_printed(self):
        for run, said, steps in self.runs():
            self.assertEqual(said["epoch"], list(range(EPOCHS)))
            self.assertEqual(said["train_loss"], sorted(said["train_loss"], reverse=True))  # it learns
            table = run.training()["ring"]
            self.assertEqual(table["epoch"], said["epoch"])
            self.assertEqual(table["steps"], [steps] * EPOCHS)
            for name in ("train_loss", "val_loss"):
                for value, truth in zip(table[name], said[name], strict=True):
                    self.assertTrue(math.isclose(value, truth, rel_tol=1e-9), (value, truth))
            self.assertEqual({len(column) for column in table.values()}, {EPOCHS})
            self.assertTrue(all(first <= second for first, second in zip(table["start"], table["start"][1:])))

    def test_phases_share_the_epochs(self):
        for run, _, steps in self.runs():
            phases = run.phases()["ring"]
            counts = dict(zip(phases["phase"], phases["count"]))
            for name in ("forward", "backward", "optimizer"):
                self.assertEqual(counts[name], steps * EPOCHS)
            self.assertEqual(counts["validation"], EPOCHS)
            epochs = run.report()["ml"]["training"][0]["epoch"]
            self.assertEqual(epochs["count"], EPOCHS)
            self.assertAlmostEqual(sum(phases["seconds"]), epochs["seconds"], delta=1e-9 * sum(phases["count"]))
            self.assertAlmostEqual(sum(phases["share"]), 1, delta=1e-5)

    def test_inference_and_datasets(self):
        inference = sonde.Run(self.python).inference()
        self.assertEqual(dict(zip(inference["batch_size"], inference["count"])), {"1": 5, "4": 5, "16": 5, "64": 5})
        datasets = sonde.Run(self.c).datasets()
        self.assertEqual((datasets["dataset"], datasets["items"], datasets["count"]), (["ring"], [2048], [1]))
        self.assertEqual(sonde.Run(self.c).workers(), {})

    def test_series(self):
        for run, said, _ in self.runs():
            values = run.series("sonde_ml_value")
            last = dict(zip(values["label_name"], values["value"]))
            self.assertTrue(math.isclose(last["val_loss"], said["val_loss"][-1], rel_tol=1e-6))     # floats
            self.assertEqual(set(values["model"]), {"ring"})
            self.assertEqual({len(column) for column in values.values()}, {len(values["time"])})
            self.assertEqual(run.series("no_such_series"), {})

    def test_what_there_is_not(self):
        run = sonde.Run(self.c)
        for rows in (run.operations(), run.errors(), run.caches(), run.bandwidth(), run.requests()):
            self.assertEqual(rows, {})

    def test_plots(self):
        run = sonde.Run(self.python)
        for dark in (False, True):
            plot = run.plot("training", dark=dark)
            root = xml.fromstring(plot._repr_svg_())
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            self.assertIn("train", plot.svg)
        plot.save(os.path.join(self.scratch.name, "p.svg"))
        with open(os.path.join(self.scratch.name, "p.svg"), encoding="utf-8") as file:
            self.assertEqual(file.read(), plot.svg)
        with self.assertRaisesRegex(RunError, "no_such_kind"):
            run.plot("no_such_kind")

    def test_plots_side_by_side(self):
        """Style sheets of pictures in a notebook are in force in all of it: none changes another picture."""
        rules = {}
        for dark in (False, True):
            sheet = re.search("<style>(.*?)</style>", sonde.Run(self.python).plot("training", dark=dark).svg).group(1)
            for number, part in enumerate(sheet.split("@media")):   # where viewers like it dark
                for selector, what in re.findall(r"([^{}]+)\{([^{}]+)\}", part):
                    self.assertEqual(rules.setdefault((number, selector), what), what, selector)
        self.assertGreater(len(rules), 20)

    def test_notebook(self):
        notebook = json.loads((SOURCE / "examples/python/notebook.ipynb").read_text(encoding="utf-8"))
        self.assertEqual((notebook["nbformat"], notebook["nbformat_minor"]), (4, 5))
        self.assertEqual(len({cell["id"] for cell in notebook["cells"]}), len(notebook["cells"]))
        names, said, shown = {}, io.StringIO(), []
        with mock.patch.dict(os.environ, {"SONDE_RUN": self.python}), redirect_stdout(said):
            for cell in notebook["cells"]:
                self.assertEqual(set(cell) - {"outputs", "execution_count"}, {"cell_type", "id", "metadata", "source"})
                source = "".join(cell["source"])
                if cell["cell_type"] == "code":
                    self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None))
                    try:    # as a notebook does: what the last line is worth is shown
                        shown.append(eval(compile(source, cell["id"], "eval"), names))
                    except SyntaxError:
                        exec(compile(source, cell["id"], "exec"), names)
        self.assertEqual(said.getvalue().count("ring epoch"), EPOCHS)
        self.assertIn(f"train {self.python_said['train_loss'][0]:.4f}", said.getvalue())
        self.assertEqual([type(one).__name__ for one in shown], ["Plot", "Plot"])
        self.assertTrue(shown[0]._repr_svg_().startswith("<svg"))


class Bad(unittest.TestCase):
    def test_sources(self):
        with self.assertRaisesRegex(FileNotFoundError, "no such run.*'/no/such.run'"):
            sonde.Run("/no/such.run")
        with tempfile.NamedTemporaryFile() as file, mock.patch.dict(os.environ, {"SONDE_BINARY": SONDE}):
            file.write(b"not a run at all\n" * 100)
            file.flush()
            run = sonde.Run(pathlib.Path(file.name))
            for asked in (run.report, lambda: run.series("x"), lambda: run.plot("training")):
                with self.assertRaisesRegex(RunError, re.escape(os.path.basename(file.name))):
                    asked()
        with self.assertRaisesRegex(RunError, "does not answer as an agent does"):
            sonde.Run("http://127.0.0.1:1").series("x")

    def test_commands(self):
        with mock.patch.dict(os.environ, {"SONDE_BINARY": "/no/such/sonde"}):
            with self.assertRaisesRegex(RunError, "/no/such/sonde"):
                sonde.Run("/dev/null").report()
        with mock.patch.dict(os.environ, {"PATH": "/nowhere"}):
            os.environ.pop("SONDE_BINARY", None)
            with self.assertRaisesRegex(RunError, "not in PATH"):
                sonde.Run("/dev/null").report()

    def test_columns(self):
        self.assertEqual(columns([{"a": 1, "b": {"c": 2}}, {"a": 3, "d": [1], "e": [{"f": 1}]}]),
                         {"a": [1, 3], "b.c": [2, None], "d": [None, [1]]})
        self.assertEqual(columns([]), {})


if __name__ == "__main__":
    unittest.main()

"""Pictures of what an AIMLMetricsCollector holds, drawn by the program `sonde` (`sonde plot`).

    viz = create_visualization(metrics, theme="light")
    viz.plot_training_metrics("my_model", output_file="curves.png")

A picture is what sonde draws of the same data from a recording; here it is of this process, now. In a
notebook a picture shows itself.
"""

from __future__ import annotations

import base64
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import webbrowser
from typing import Any, Sequence

from . import analysis_report
from .aiml import MIB, AIMLMetricsCollector
from .escape import markup, to_json
from .metrics_export import write

FORMATS = ("png", "svg", "pdf", "html", "json")
THEMES = ("light", "dark", "auto")
_POINTS = 96                # of an inch, as browsers count them
_PLOT_SECONDS_MAX = 120


class PlotError(RuntimeError):
    """A picture could not be drawn; the message says why and what to do."""


def find_program() -> str:
    """The program sonde: $SONDE_BINARY, else the one in PATH."""
    named = os.environ.get("SONDE_BINARY")
    found = shutil.which(named or "sonde")
    if found:
        return found
    if named:
        raise PlotError(f"SONDE_BINARY is {named!r}, which cannot be run")
    raise PlotError("plots are drawn by the program `sonde`, which is not in PATH: install it "
                    "(`make install` in sonde's source tree), or set SONDE_BINARY to its path")


class Picture:
    """One drawing: data, its format, and the file it is in, if any."""

    def __init__(self, data: bytes, format: str, path: str | None) -> None:
        self.data = data
        self.format = format
        self.path = path

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """For notebooks."""
        if self.format == "svg":
            return {"image/svg+xml": self.data.decode()}
        if self.format == "html":
            return {"text/html": f'<iframe style="width:100%;height:40em;border:0" '
                                 f'srcdoc="{markup_raw(self.data.decode())}"></iframe>'}
        if self.format == "png":
            return {"image/png": base64.b64encode(self.data).decode()}
        return {"text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<Picture {self.format}, {len(self.data)} bytes, {self.path or 'in memory'}>"

    def show(self) -> None:
        """In a notebook: below the cell. On a desktop: in the browser. Otherwise its path is said."""
        ipython = sys.modules.get("IPython")
        if ipython is not None and ipython.get_ipython() is not None:
            importlib.import_module("IPython.display").display(self)
            return
        if self.path is None:
            fd, self.path = tempfile.mkstemp(prefix="sonde-plot-", suffix="." + self.format)
            with os.fdopen(fd, "wb") as out:
                out.write(self.data)
        if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            webbrowser.open("file://" + os.path.abspath(self.path))
        else:
            print(f"plot: {self.path}")


def markup_raw(text: str) -> str:
    """A whole page as an attribute's value."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def draw(data: dict[str, Any], format: str, theme: str,
         size: Sequence[float] | None = None) -> bytes:
    """data: a data file of `sonde plot`, with its kind. PlotError if it cannot be drawn."""
    with tempfile.TemporaryDirectory(prefix="sonde-plot-") as folder:
        source, target = os.path.join(folder, "data.json"), os.path.join(folder, "out." + format)
        with open(source, "w", encoding="utf-8") as out:
            out.write(to_json(data, indent=None))
        command = [find_program(), "plot", data["kind"], source, "-o", target]
        if format != "json":
            command += ["--theme", theme]
        if size:
            command += ["--width", f"{size[0] * _POINTS:.0f}"]
            if data["kind"] != "comprehensive":  # which is as high as what is on it needs
                command += ["--height", f"{size[1] * _POINTS:.0f}"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=_PLOT_SECONDS_MAX, check=False)
        except (OSError, subprocess.TimeoutExpired) as failed:
            raise PlotError(f"{command[0]} plot: {failed}") from failed
        # 1: the picture is there and says what is missing in the data.
        if done.returncode not in (0, 1) or not os.path.exists(target):
            said = done.stderr.strip() or f"exit status {done.returncode}"
            raise PlotError(f"{command[0]} plot {data['kind']}: {said}")
        with open(target, "rb") as picture:
            return picture.read()


class AIMLVisualization:
    """Draws one collector. Every plot_ method returns a Picture, writes it to output_file if one is
    given (its suffix says the format) and shows it if show_plot is set. Without a file the format is
    html if interactive (values on hover), else svg."""

    def __init__(self, metrics: AIMLMetricsCollector, theme: str = "light",
                 interactive: bool = True) -> None:
        if theme not in THEMES:
            raise ValueError(f"theme {theme!r}: it is one of {', '.join(THEMES)}")
        self.metrics = metrics
        self.theme = theme
        self.interactive = interactive

    # ---- What is drawn ---------------------------------------------------------------------------

    def _training(self, model_id: str | None) -> list[dict[str, Any]]:
        found = []
        for model in [model_id] if model_id else self.metrics.get_models():
            training = self.metrics.get_training_metrics(model)
            epochs = training.pop("epochs")
            training.pop("num_samples", None)
            found += [{"role": "epoch", "name": name, "group": model, "x": epochs, "y": values}
                      for name, values in training.items()]
        return found

    def _inference(self, model_id: str | None, by_batch: bool) -> list[dict[str, Any]]:
        """by_batch: a distribution of latencies for each batch size, not one for all."""
        found: list[dict[str, Any]] = []
        for model in [model_id] if model_id else self.metrics.get_models():
            batches = self.metrics.get_inference_metrics(model)
            points = [(size, s) for size, b in batches.items() for s in b["latencies"]]
            if points:
                found.append({"role": "batch", "name": model, "x": [p[0] for p in points],
                              "y": [p[1] for p in points]})
                if not by_batch:
                    found.append({"role": "latency", "name": model, "y": [p[1] for p in points]})
            for size, batch in batches.items():
                name = f"{model}, batch {size}"
                if by_batch and batch["latencies"]:
                    found.append({"role": "latency", "name": name, "y": batch["latencies"]})
                if batch["values"].get("memory_mb", {}).get("count"):
                    found.append({"role": "memory", "name": name,
                                  "y": [batch["values"]["memory_mb"]["max"] * MIB]})
        return found

    def _workers(self) -> list[dict[str, Any]]:
        found = []
        for worker, values in self.metrics.get_worker_metrics().items():
            for name, role, factor in (("utilization", "worker", 1), ("memory_mb", "memory", MIB)):
                points = values.get(name)
                if points:
                    found.append({"role": role, "name": worker, "x": [t for t, _ in points],
                                  "y": [v * factor for _, v in points]})
        return found

    def _datasets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name, figures in self.metrics.get_dataset_metrics().items():
            found.append({"role": "load", "name": name, "y": figures["latencies"]})
            if figures["bytes"]:
                found.append({"role": "bytes", "name": name, "y": [figures["bytes"]]})
        return found

    def _caches(self) -> list[dict[str, Any]]:
        return [{"role": role, "name": tier, "y": [figures[role]]}
                for tier, figures in self.metrics.get_cache_stats()["tiers"].items()
                for role in ("hits", "misses")]

    def pictures(self, model_id: str | None = None) -> dict[str, dict[str, Any]]:
        """The data files of all pictures that there is data for, by name."""
        groups = {
            "training_metrics": ("training", "Training", self._training(model_id)),
            "inference_latency": ("comprehensive", "Inference", self._inference(model_id, True)),
            "worker_utilization": ("comprehensive", "Workers", self._workers()),
            "dataset_load": ("dataset", "Datasets", self._datasets()),
            "cache": ("cache", "Caches", self._caches()),
        }
        files = {name: {"sonde_plot": 1, "kind": kind, "title": title, "series": series}
                 for name, (kind, title, series) in groups.items() if series}
        files["comprehensive_dashboard"] = {
            "sonde_plot": 1, "kind": "comprehensive", "title": "Performance",
            "series": [s for name, (_, _, series) in groups.items() for s in
                       (self._inference(model_id, False) if name == "inference_latency" else series)]}
        return files

    def _plot(self, name: str, model_id: str | None, output_file: str | None, show_plot: bool,
              figsize: Sequence[float] | None = None) -> Picture:
        data = self.pictures(model_id).get(name)
        if data is None:
            of = f" of {model_id!r}" if model_id else ""
            raise PlotError(f"{name}: nothing{of} was recorded that it could show")
        format = _format_of(output_file) if output_file else "html" if self.interactive else "svg"
        picture = Picture(draw(data, format, self.theme, figsize), format, None)
        if output_file:
            picture.path = os.path.expanduser(output_file)
            _write(picture.path, picture.data)
        if show_plot:
            picture.show()
        return picture

    # ---- Plots -----------------------------------------------------------------------------------

    def plot_training_metrics(self, model_id: str | None = None, show_plot: bool = False,
                              output_file: str | None = None,
                              figsize: Sequence[float] | None = None) -> Picture:
        """Loss, accuracy, learning rate and time by epoch; of all models without a model_id."""
        return self._plot("training_metrics", model_id, output_file, show_plot, figsize)

    def plot_inference_latency(self, model_id: str | None = None, show_plot: bool = False,
                               output_file: str | None = None,
                               figsize: Sequence[float] | None = None) -> Picture:
        """Latency and items per second by batch size, distributions, memory."""
        return self._plot("inference_latency", model_id, output_file, show_plot, figsize)

    def plot_worker_utilization(self, show_plot: bool = False, output_file: str | None = None,
                                figsize: Sequence[float] | None = None) -> Picture:
        return self._plot("worker_utilization", None, output_file, show_plot, figsize)

    def plot_comprehensive_dashboard(self, figsize: Sequence[float] | None = None,
                                     show_plot: bool = False,
                                     output_file: str | None = None) -> Picture:
        """All of it on one page. figsize: width and height in inches; the page is as high as it needs
        to be."""
        return self._plot("comprehensive_dashboard", None, output_file, show_plot, figsize)

    def generate_html_report(self, path: str) -> str:
        """One file that needs nothing else: every picture, and the tables of generate_report().
        Returns the path."""
        figures = "".join(
            f'<h2>{markup(data["title"])}</h2>\n<img alt="{markup(data["title"])}" '
            'style="max-width:100%" src="data:image/svg+xml;base64,'
            + base64.b64encode(draw(data, "svg", self.theme)).decode() + '">\n'
            for name, data in self.pictures().items() if name != "comprehensive_dashboard")
        page = analysis_report.render(self.metrics.analyze_metrics(), "html")
        write(path, page.replace("</body>", figures + "</body>", 1))
        return path

    def export_visualizations(self, export_dir: str = ".",
                              formats: Sequence[str] = ("png", "svg", "html", "json"),
                              ) -> dict[str, list[str]]:
        """Every picture in every format; the files that were written, by the picture's name."""
        wrong = [f for f in formats if f not in FORMATS]
        if wrong:
            raise ValueError(f"format {wrong[0]!r}: it is one of {', '.join(FORMATS)}")
        folder = os.path.expanduser(export_dir)
        os.makedirs(folder, exist_ok=True)
        files: dict[str, list[str]] = {}
        for name, data in self.pictures().items():
            for format in formats:
                path = os.path.join(folder, f"{name}.{format}")
                _write(path, draw(data, format, self.theme))
                files.setdefault(name, []).append(path)
        return files


def _format_of(path: str) -> str:
    suffix = os.path.splitext(path)[1][1:].lower()
    if suffix not in FORMATS:
        raise ValueError(f"{path!r}: its suffix is none of {', '.join(FORMATS)}")
    return suffix


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as out:
        out.write(data)


def create_visualization(metrics: AIMLMetricsCollector, theme: str = "light",
                         interactive: bool = True) -> AIMLVisualization:
    return AIMLVisualization(metrics, theme, interactive)

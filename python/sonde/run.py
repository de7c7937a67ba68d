"""Runs: a recording or a live agent, read by the `sonde` command.

    run = sonde.Run("train.run")            # or "http://127.0.0.1:9100"
    run.training()                          # {"resnet": {"epoch": [0, 1, …], "train_loss": [1.5, 0.9, …], …}}
    pandas.DataFrame(run.operations())      # dictionaries of lists, as DataFrame takes them
    run.plot("training")                    # a picture in a notebook

Nothing is computed here: the figures are those of `sonde report` and `sonde export`, whatever shows them.
"""

from __future__ import annotations

import array
import contextlib
import fnmatch
import gzip
import html
import json
import os
import re
import shutil
import sqlite3
import subprocess
import urllib.parse
import urllib.request
from typing import Any, Iterable, Mapping

__all__ = ["Plot", "Run", "RunError"]

BINARY = "SONDE_BINARY"     # environment: the command to call; otherwise `sonde` in PATH
SECONDS_MAX = 300


class RunError(RuntimeError):
    """What `sonde` said, if it did not do what it was asked."""


def _binary() -> str:
    named = os.environ.get(BINARY)
    found = named if named else shutil.which("sonde")
    if not found:
        raise RunError(f"the command sonde is not in PATH: install it, or name it in {BINARY}")
    return found


def _call(arguments: list[str], none_is_fine: bool = False) -> bytes:
    """What it writes. none_is_fine: an answer that is there counts, even if it is that there is nothing."""
    binary = _binary()
    try:
        done = subprocess.run([binary, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS_MAX,
                              env={**os.environ, "SONDE_ENABLED": "0"})
    except FileNotFoundError:
        raise RunError(f"there is no command {binary!r} ({BINARY})") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"{binary} {arguments[0]} did not answer within {SECONDS_MAX} seconds") from None
    if done.returncode and not (none_is_fine and done.stdout):
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
        raise RunError(f"sonde {arguments[0]}: {said}")
    return done.stdout


def columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as a dictionary of lists of one length; None where a row has no such field. Fields that are
    dictionaries become fields of their own, a.b; lists of dictionaries are left out."""
    flat = [dict(_flat(row)) for row in rows]
    names = dict.fromkeys(name for row in flat for name in row)
    return {name: [row.get(name) for row in flat] for name in names}


def _flat(row: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif not (isinstance(value, list) and value and isinstance(value[0], Mapping)):
            yield before + name, value


class Plot:
    """A picture, which a notebook shows; save() writes it to a file."""

    def __init__(self, svg: str, kind: str) -> None:
        self.svg = svg
        self.kind = kind

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div role="img" aria-label="{html.escape(self.kind)}">{self.svg}</div>'

    def __repr__(self) -> str:
        return f"<Plot {self.kind}, {len(self.svg)} bytes of SVG>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """The SVG, to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


class Run:
    """A run file, or the URL of an agent."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        self.source = os.fspath(source)
        self.is_agent = self.source.startswith(("http://", "https://"))
        if not self.is_agent and not os.path.exists(self.source):
            raise FileNotFoundError(2, "there is no such run", self.source)
        self._report: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Run({self.source!r})"

    def report(self, fresh: bool = False) -> dict[str, Any]:
        """All that `sonde report` has to tell. Of an agent it is asked again if fresh."""
        if self._report is None or fresh:
            self._report = json.loads(_call(["report", "--format", "json", self.source]))
        return self._report

    def _rows(self, *path: str) -> list[dict[str, Any]]:
        found: Any = self.report()
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, list) else []

    def operations(self) -> dict[str, list[Any]]:
        """Operations with their latency, outcomes and errors."""
        return columns(self._rows("operations"))

    def errors(self) -> dict[str, list[Any]]:
        return columns(self._rows("errors"))

    def caches(self) -> dict[str, list[Any]]:
        return columns(self._rows("caches"))

    def bandwidth(self) -> dict[str, list[Any]]:
        return columns(self._rows("bandwidth"))

    def requests(self) -> dict[str, list[Any]]:
        """Inference requests, one each, as far as they are known."""
        answer = json.loads(_call(["requests", "--json", "--limit", "1000", self.source], none_is_fine=True))
        return columns(answer.get("requests", []))

    def training(self) -> dict[str, dict[str, list[Any]]]:
        """Epochs of each model: number, start, duration, samples, steps, and a list for each value
        (train_loss, val_loss …), None where an epoch has none."""
        out: dict[str, dict[str, list[Any]]] = {}
        for model in self._rows("ml", "training"):
            epochs = model.get("epochs") or []
            values = dict.fromkeys(name for epoch in epochs for name in epoch.get("values", {}))
            table = columns({k: v for k, v in epoch.items() if k != "values"} for epoch in epochs)
            table.update({name: [epoch.get("values", {}).get(name) for epoch in epochs] for name in values})
            out[_free_name(out, model.get("model", ""))] = table
        return out

    def phases(self) -> dict[str, dict[str, list[Any]]]:
        """Phases of the training of each model: seconds, share, count, percentiles."""
        out: dict[str, dict[str, list[Any]]] = {}
        for model in self._rows("ml", "training"):
            out[_free_name(out, model.get("model", ""))] = columns(model.get("phases") or [])
        return out

    def inference(self) -> dict[str, list[Any]]:
        """Inference of each model by batch size."""
        return columns({"model": model.get("model"), **batch}
                       for model in self._rows("ml", "inference") for batch in model.get("batches") or [])

    def datasets(self) -> dict[str, list[Any]]:
        return columns(self._rows("ml", "datasets"))

    def workers(self) -> dict[str, list[Any]]:
        return columns(self._rows("ml", "workers"))

    def series(self, name: str) -> dict[str, list[Any]]:
        """Series over time, by name or glob: name, program, pid, time, value, and a column for each
        label; a row for each value. Of a run: gauges as they were, counters as increase per second,
        histograms as NAME_count and NAME_sum per second. Of an agent: its last minute."""
        return columns(_agent_series(self.source, name) if self.is_agent else _file_series(self.source, name))

    def plot(self, kind: str = "training", dark: bool = False) -> Plot:
        """A picture as `sonde plot` draws it; `sonde plot --list` has the kinds."""
        theme = ["--theme", "dark"] if dark else []
        svg = _call(["plot", kind, self.source, *theme, "--format", "svg", "-o", "-"]).decode("utf-8")
        return Plot(svg[max(svg.find("<svg"), 0):], kind)


def _free_name(taken: Mapping[str, Any], name: str) -> str:
    """Two programs may train models of one name."""
    return name if name not in taken else next(
        made for i in range(2, len(taken) + 3) if (made := f"{name}~{i}") not in taken)


# ---- Series over time --------------------------------------------------------------------------------

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_COLUMNS = ("name", "program", "pid", "time", "value")


def _row(name: str, program: Any, pid: Any, labels: Mapping[str, str], time: float, value: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(_COLUMNS, (name, program, pid, time, value)))
    for label, text in labels.items():
        row["label_" + label if label in _COLUMNS else label] = text
    return row


def _labels(text: str) -> dict[str, str]:
    def plain(value: str) -> str:
        return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value, flags=re.S)

    return {name: plain(value) for name, value in _LABEL.findall(text)}


def _file_series(path: str, glob: str) -> Iterable[dict[str, Any]]:
    """A run file is an SQLite database; src/store/run/track.c has the two tables that are read here."""
    quoted = urllib.parse.quote(os.path.abspath(path))
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quoted}?mode=ro&immutable=1", uri=True)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'tracks'").fetchone():
                return
            texts = dict(database.execute("SELECT id, text FROM strings"))
            times = [end for end, in database.execute("SELECT end_s FROM track_ticks ORDER BY id")]
            rows = database.execute("SELECT family, labels, program, pid, data FROM tracks ORDER BY id").fetchall()
    except sqlite3.Error as error:
        raise RunError(f"{path!r} is not a run: {error}") from None
    for family, labels, program, pid, data in rows:
        name = texts.get(family, "")
        if not fnmatch.fnmatchcase(name, glob):
            continue
        values = array.array("f", gzip.decompress(data))
        named = _labels(texts.get(labels, ""))
        for time, value in zip(times, values):
            if value == value:      # NaN: it was not there
                yield _row(name, texts.get(program, ""), pid, named, time, value)


def _agent_series(url: str, glob: str) -> Iterable[dict[str, Any]]:
    asked = urllib.parse.urlencode({"name": glob, "history": 60, "limit": 1000})
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/api/query?{asked}", timeout=30) as answer:
            found = json.load(answer)
    except (OSError, ValueError) as error:
        raise RunError(f"{url} does not answer as an agent does: {error}") from None
    for one in found["series"]:
        labels = {name: text for name, text in one["labels"].items() if name not in ("process", "pid")}
        for time, value in reversed(one["history"]):
            yield _row(one["name"], one.get("process"), one.get("pid"), labels, time, value)

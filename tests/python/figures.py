"""Oracles: figures computed another way than sonde does."""

import json
import os
import statistics

import jsonschema

import sonde


def truth(values):
    """What window.describe() says of these."""
    percentiles = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else (
        [values[0]] * 99)
    return {"count": len(values), "sum": sum(values), "avg": statistics.fmean(values),
            "mean": statistics.fmean(values), "min": min(values), "max": max(values),
            "std": statistics.stdev(values) if len(values) > 1 else 0.0,
            "median": statistics.median(values), "p50": percentiles[49], "p90": percentiles[89],
            "p95": percentiles[94], "p99": percentiles[98]}


def assert_figures(test, figures, values):
    for key, value in truth(values).items():
        test.assertAlmostEqual(figures[key], value, places=9, msg=key)


def recorded(name, /, **labels):
    """The one series that sonde has recorded under this name and labels."""
    found = [s for s in sonde.snapshot() if s["name"] == name
             and all(s["labels"].get(k) == v for k, v in labels.items())]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} series {name} {labels}")
    return found[0]


def assert_conforms(found, schema):
    """found is what docs/SCHEMA describes."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs", schema)
    with open(path, encoding="utf-8") as source:
        checker = jsonschema.Draft202012Validator(json.load(source))
    checker.check_schema(checker.schema)
    checker.validate(found)

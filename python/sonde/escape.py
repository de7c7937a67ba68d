"""Names that others chose, as part of a text of ours: nothing in them can become more than text."""

from __future__ import annotations

import html
import json
import math
import unicodedata
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\`*_{}[]()#+!|~$"} |
                          {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def encodable(text: str) -> str:
    """A name without what libsonde's texts do not have: what UTF-8 cannot say (file names of bytes come
    as lone surrogates), and NUL, where they would end."""
    if not isinstance(text, str):
        raise TypeError(f"a name is a str, not {text!r}")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\0", "?") if "\0" in text else text


def plain(value: object) -> str:
    """One line for a terminal: control characters and what turns text around are written out."""
    text = str(value)
    if text.isascii() and text.isprintable():
        return text
    return "".join(_written_out(c) if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029"
                   else c for c in text)


def _written_out(c: str) -> str:
    return f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}"


def markdown(value: object) -> str:
    """A cell of a Markdown table."""
    return plain(value).translate(_MARKDOWN)


def markup(value: object) -> str:
    """Text or an attribute's value in HTML."""
    return html.escape(plain(value), quote=True)


def csv_cell(value: object) -> str:
    """A cell of a CSV file. Spreadsheets run what begins as a formula; a ' in front stops them."""
    text = str(value)
    return "'" + text if text.startswith(_FORMULA) else text


def label_value(value: object) -> str:
    """A label's value in Prometheus' text format, without its quotes."""
    text = encodable(str(value))
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def number(value: float) -> str:
    """A value in Prometheus' text format: as exact as it was, and what is not finite by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))


def json_safe(value: Any) -> Any:
    """The same with only what JSON has: keys are text, what is not finite is null, others' objects
    are their text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {json_safe(str(k)): json_safe(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_safe(v) for v in value]
    return json_safe(str(value))


def to_json(value: Any, indent: int | None = 2) -> str:
    return json.dumps(json_safe(value), indent=indent, allow_nan=False, ensure_ascii=False)

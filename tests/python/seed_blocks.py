"""Examples of documents: the fenced blocks of Python in a Markdown file, ready to be run."""

import re

_FENCE = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
_HEADING = re.compile(r"^#+ +(.*)$", re.M)


def blocks_of(text):
    """(heading above it, code), in the order of the document."""
    headings = [(m.start(), m[1].strip()) for m in _HEADING.finditer(_without_code(text))]
    return [([h for at, h in headings if at < m.start()][-1], completed(m[1]))
            for m in _FENCE.finditer(text)]


def _without_code(text):
    """The same with blocks of any language blanked: comments in them look like headings."""
    return re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M | re.S)


def completed(code):
    """Examples leave bodies out: `with …:` and then only a comment. They get a `pass`."""
    lines = code.splitlines()
    result = []
    for at, line in enumerate(lines):
        result.append(line)
        if not line.split("#")[0].rstrip().endswith(":"):
            continue
        indent = len(line) - len(line.lstrip())
        body = next((l for l in lines[at + 1:] if l.strip() and not l.lstrip().startswith("#")), "")
        if len(body) - len(body.lstrip()) <= indent or not body:
            result.append(" " * (indent + 4) + "pass")
    return "\n".join(result) + "\n"

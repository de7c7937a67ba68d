"""The samples of docs/python.md run."""

import re
import unittest

from helpers import SOURCE


class Samples(unittest.TestCase):
    def test_run(self):
        text = (SOURCE / "docs/python.md").read_text()
        samples = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
        self.assertGreaterEqual(len(samples), 2)
        for number, sample in enumerate(samples):
            exec(compile(sample, f"docs/python.md, sample {number}", "exec"), {"print": lambda *values: None})


if __name__ == "__main__":
    unittest.main()

"""The other tests with the extension, and libsonde in it, built for AddressSanitizer and UBSan."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from helpers import build

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -g -O1"


def library(name):
    return subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()


class Sanitized(unittest.TestCase):
    def test_all_calls(self):
        package = tempfile.TemporaryDirectory(prefix="sonde-asan-")
        self.addCleanup(package.cleanup)
        build(package.name, cflags=FLAGS, ldflags=FLAGS)
        env = {**os.environ, "SONDE_PYTHON_PACKAGE": package.name, "PYTHONMALLOC": "malloc",
               "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
               # The interpreter keeps what it made at the end: leaks are test_memory's.
               "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:abort_on_error=1"}
        done = subprocess.run(["bash", HERE / "run", "test_core.py", "test_context.py"], env=env, text=True,
                              capture_output=True, timeout=500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("Sanitizer", done.stdout + done.stderr)
        self.assertIn("OK", done.stderr)


if __name__ == "__main__":
    unittest.main()

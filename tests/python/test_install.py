"""The package installed by pip from the tree, without network; and its figures from there."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from helpers import SOURCE, run


def state():
    """Files of the source tree that are not tracked: installing must leave none."""
    return {path for path in (SOURCE / "python").rglob("*") if path.name not in ("__pycache__",)
            and path.suffix != ".pyc"}


class Pip(unittest.TestCase):
    def test_from_the_tree(self):
        folder = tempfile.TemporaryDirectory(prefix="sonde-pip-")
        self.addCleanup(folder.cleanup)
        target = pathlib.Path(folder.name) / "site"
        before = state()
        env = {**os.environ, "PIP_CONFIG_FILE": "/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
               "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
        env.pop("PYTHONPATH", None)
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-index",
                               "--no-compile", "--root-user-action", "ignore", "--target", target, SOURCE / "python"],
                              env=env, text=True, capture_output=True, timeout=300, cwd=folder.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual({p.relative_to(SOURCE) for p in state() - before}, set())
        installed = {path.name for path in (target / "sonde").iterdir()}
        self.assertLessEqual({"_native.abi3.so", "_native.pyi", "py.typed", "__init__.py", "decorate.py"}, installed)
        wheel = next(target.glob("sonde-*.dist-info/WHEEL")).read_text()
        self.assertIn("Tag: cp311-abi3-linux_", wheel)
        metadata = next(target.glob("sonde-*.dist-info/METADATA")).read_text()
        self.assertNotIn("Requires-Dist", metadata)
        out = run("""
            import sonde
            sonde.counter("installed_total").add(3)
            print(sonde.counter("installed_total").value, sonde.__file__)
            """, PYTHONPATH=str(target))
        self.assertEqual(out.split(), ["3", str(target / "sonde/__init__.py")])
        needed = subprocess.run(["readelf", "-d", target / "sonde/_native.abi3.so"], text=True, capture_output=True)
        self.assertEqual([line.split("[")[1].rstrip("]") for line in needed.stdout.splitlines() if "NEEDED" in line],
                         ["libc.so.6"])


if __name__ == "__main__":
    unittest.main()

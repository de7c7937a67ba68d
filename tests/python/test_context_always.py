"""test_context.py as on an interpreter where the place of a thread's context was not found: the context
variable is set for every span."""

import unittest

import sonde
from sonde import _native

from test_context import *  # noqa: F403 - its tests


def setUpModule():
    _native._context_always(True)


def tearDownModule():
    _native._context_always(False)


class Place(unittest.TestCase):
    def test_is_found_on_this_python(self):
        self.assertTrue(_native._context_always(True))
        with sonde.span("place") as s:
            self.assertEqual(sonde.trace_id(), s.trace_id)


if __name__ == "__main__":
    unittest.main()

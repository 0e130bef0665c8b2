"""How a handler wants to be called, and what is said when that can't be."""

import functools
import unittest

import paths  # noqa: F401
from _sless.load import LoadError, describe


def one(event):
    """Takes the event alone."""


def two(event, context):
    """Takes both."""


async def later(event, context=None):
    """Async."""


async def generated(event):
    """An async generator."""
    yield event


class Callable:
    """An object with an async __call__."""

    async def __call__(self, event, context):
        """Takes both."""


class Handlers(unittest.TestCase):
    def test_shapes(self):
        for function, wants_context, is_async in (
            (one, False, False),
            (two, True, False),
            (later, True, True),
            (generated, False, True),
            (Callable(), True, True),
            (lambda *args: None, True, False),
            (lambda event, **more: None, False, False),
            (functools.partial(two, context=1), False, False),
            (print, True, False),
        ):
            handler = describe(function, "handle", "handler.py")
            self.assertEqual((handler.wants_context, handler.is_async), (wants_context, is_async), function)

    def test_refused(self):
        for function in (lambda: None, lambda a, b, c: None, lambda event, *, needed: None):
            with self.assertRaisesRegex(LoadError, r"handle in handler.py must take \(event\) or \(event, context\)"):
                describe(function, "handle", "handler.py")


if __name__ == "__main__":
    unittest.main()

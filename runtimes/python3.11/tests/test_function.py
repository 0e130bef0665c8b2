"""The function as the server keeps it, with a worker that is only played."""

import asyncio
import unittest

import paths  # noqa: F401
from slessd.function import Function
from slessd.settings import Settings


class Loading(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.function = Function(Settings.read({}), "unused")
        self.worker = self.function._loading = object()

    async def test_serves_once_loaded(self):
        self.assertFalse(self.function.serving)
        self.function.loaded(self.worker)
        self.assertTrue(self.function.serving)
        self.assertEqual(await self.function.first_load, "")

    async def test_never_serves_when_the_first_load_failed(self):
        self.function.ended(self.worker, "no module handler")
        self.assertEqual(await self.function.first_load, "no module handler")
        self.assertFalse(self.function.serving)
        self.assertEqual(self.function.load_error, "no module handler")


if __name__ == "__main__":
    unittest.main()

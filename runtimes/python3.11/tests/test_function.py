"""The function as the server keeps it, with a worker that is only played."""

import asyncio
import unittest
from unittest import mock

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


class Starting(unittest.IsolatedAsyncioTestCase):
    async def start(self, start):
        """Starts a function whose worker's process is played by `start`."""
        worker = mock.Mock()
        with mock.patch("slessd.function.Worker", side_effect=lambda owner, loop: worker):
            function = Function(Settings.read({}), "unused")
            worker.start = lambda program: start(function, worker)
            await function.start()
        return function

    async def test_serves_when_loading_ends_before_starting_does(self):
        async def loaded_at_once(function, worker):
            function.loaded(worker)

        function = await self.start(loaded_at_once)
        self.assertTrue(function.serving)

    async def test_says_when_no_process_can_be_started(self):
        async def refused(function, worker):
            raise BlockingIOError("no more processes")

        function = await self.start(refused)
        self.assertFalse(function.serving)
        self.assertTrue(function.first_load.done())
        self.assertEqual(await function.first_load, "start the function's process: no more processes")


if __name__ == "__main__":
    unittest.main()

"""Taking a call back from the thread that runs it."""

import threading
import unittest

import paths  # noqa: F401
from _sless.context import Context, Function, Interruptible, RequestCancelled


class Interrupts(unittest.TestCase):
    def test_a_running_step_is_interrupted(self):
        target, began, ended = Interruptible(), threading.Event(), []

        def step():
            began.set()
            while True:
                pass

        def run():
            try:
                target.run(step)
            except RequestCancelled:
                ended.append("cancelled")

        thread = threading.Thread(target=run)
        thread.start()
        began.wait()
        target.interrupt()
        thread.join()
        self.assertEqual(ended, ["cancelled"])

    def test_the_next_step_is_refused(self):
        target = Interruptible()
        self.assertEqual(target.run(int, "7"), 7)
        target.interrupt()
        with self.assertRaises(RequestCancelled):
            target.run(int, "7")

    def test_nothing_arrives_outside_a_step(self):
        # Interrupts that come just as a step ends must not hit what the thread does next.
        outside = []

        def run(target, go):
            go.wait()
            try:
                for _ in range(200):
                    target.run(int)
            except RequestCancelled:
                pass
            try:
                for _ in range(2000):
                    pass
            except RequestCancelled:
                outside.append(1)

        for _ in range(100):
            target, go = Interruptible(), threading.Event()
            thread = threading.Thread(target=run, args=(target, go))
            thread.start()
            go.set()
            target.interrupt()
            thread.join()
        self.assertEqual(outside, [])

    def test_time_runs_out(self):
        self.assertEqual(Context("id", Function(timeout_seconds=0)).get_remaining_time_in_millis(), 0)
        self.assertGreater(Context("id", Function(timeout_seconds=1000)).get_remaining_time_in_millis(), 0)


if __name__ == "__main__":
    unittest.main()

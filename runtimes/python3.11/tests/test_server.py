"""The small parts of the server: settings, last words, and ending processes."""

import json
import os
import subprocess
import sys
import time
import unittest

import paths  # noqa: F401
from slessd import leftovers
from slessd.settings import BadSetting, Settings
from slessd.termination import LIMIT, RESULT_LIMIT, error_message, result_message


class Environment(unittest.TestCase):
    def test_defaults(self):
        settings = Settings.read({})
        self.assertEqual((settings.port, settings.timeout_seconds, settings.concurrency, settings.root), (8080, 60, 0, "/function"))
        self.assertEqual(settings.termination_log, "/dev/termination-log")

    def test_a_job_may_take_a_day(self):
        self.assertEqual(Settings.read({"SLESS_TIMEOUT_SECONDS": "86400"}).timeout_seconds, 86400)

    def test_bad(self):
        for name, value in (("PORT", "0"), ("PORT", "x"), ("SLESS_TIMEOUT_SECONDS", "1.5"), ("SLESS_TIMEOUT_SECONDS", "86401"), ("SLESS_TIMEOUT_SECONDS", "٣"), ("SLESS_CONCURRENCY", "-1")):
            with self.assertRaisesRegex(BadSetting, f"{name} is '{value}'"):
                Settings.read({name: value})


class LastWords(unittest.TestCase):
    def test_result(self):
        self.assertEqual(result_message(b'{"a":1}'), '{"result":{"a":1},"truncated":false}')
        exact = json.dumps("x" * (RESULT_LIMIT - 2)).encode()
        self.assertFalse(json.loads(result_message(exact))["truncated"])
        for text in ("x" * 5000, "ü" * 5000, '"' * 5000, "\x00" * 5000, "😀" * 2000):
            result = json.dumps(text, ensure_ascii=False).encode()
            message = result_message(result)
            got = json.loads(message)
            self.assertTrue(got["truncated"])
            self.assertLessEqual(len(message.encode()), LIMIT)
            self.assertTrue(result.decode().startswith(got["result"]))
            self.assertGreater(len(message.encode()), RESULT_LIMIT - 100)

    def test_error(self):
        self.assertEqual(json.loads(error_message("grüße")), {"error": "grüße"})
        for text in ("ü" * 5000, "\n" * 5000, "\ud800" * 10):
            self.assertLessEqual(len(error_message(text).encode("utf-8", "replace")), LIMIT)


class Leftovers(unittest.TestCase):
    def test_everything_that_descends_is_ended(self):
        # A child in a session of its own, one without the mark in its environment, and an orphan.
        script = "setsid sleep 1000 & echo $!; env -i sleep 1000 & echo $!; (setsid sleep 1000 & echo $!); echo; exec sleep 1000"
        leader = subprocess.Popen(
            ["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True, env={**os.environ, leftovers.MARK: "m1"}
        )
        pids = [int(line) for line in iter(leader.stdout.readline, "\n")]
        other = subprocess.Popen(["sleep", "1000"], env={**os.environ, leftovers.MARK: "m2"})
        try:
            leftovers.kill("m1", leader.pid)
            leader.wait()
            deadline = time.monotonic() + 60
            while any(map(alive, pids)) and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertEqual([pid for pid in pids if alive(pid)], [])
            self.assertIsNone(other.poll())
        finally:
            other.kill()
            other.wait()
            leader.stdout.close()


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


class Isolation(unittest.TestCase):
    def test_the_worker_imports_the_standard_library_alone(self):
        program = "import sys; sys.path.insert(0, sys.argv[1]); import _sless.main; print('\\n'.join(sys.modules))"
        worker = os.path.join(paths.SLESS, "worker")
        out = subprocess.run([sys.executable, "-S", "-c", program, worker], capture_output=True, text=True, check=True)
        names = {name.partition(".")[0] for name in out.stdout.split()}
        self.assertEqual({n for n in names if n not in sys.stdlib_module_names and n not in ("_sless", "__main__")}, set())


if __name__ == "__main__":
    unittest.main()

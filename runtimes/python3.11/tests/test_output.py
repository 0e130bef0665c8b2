"""Whose lines are whose in the log."""

import io
import os
import subprocess
import sys
import tempfile
import unittest

import paths
from _sless.output import Origin, Stream, of


class Streams(unittest.TestCase):
    """A stream over a file, written to by two requests and by nobody."""

    def setUp(self):
        self.file = tempfile.TemporaryFile()
        self.addCleanup(self.file.close)
        self.stream = Stream(self.file)
        self.text = io.TextIOWrapper(self.stream, encoding="utf-8", write_through=True)
        self.a, self.b = Origin("a"), Origin("b")

    def log(self):
        self.file.seek(0)
        return self.file.read().decode()

    def check(self, writes, want):
        for origin, text in writes:
            if origin is None:
                self.text.write(text)
                continue
            with of(origin):
                self.text.write(text)
        self.assertEqual(self.log(), want)

    def test_every_line_has_the_id(self):
        self.check([(self.a, "one\ntwo\n\nthree\n")], "[a] one\n[a] two\n[a] \n[a] three\n")

    def test_lines_in_pieces_do_not_mix(self):
        self.check([(self.a, "he"), (self.b, "wor"), (self.a, "llo"), (self.b, "ld\n"), (self.a, "\n")], "[b] world\n[a] hello\n")

    def test_json_stays_json(self):
        self.check(
            [(self.a, '{"m": 1}\n{"m": 2} \r\n{}\n[1]\n{\n')],
            '{"sless_request_id":"a","m": 1}\n{"sless_request_id":"a","m": 2} \r\n[a] {}\n[a] [1]\n[a] {\n',
        )

    def test_nobodys_lines_are_as_they_are(self):
        self.check([(None, 'one\n[2026-01-01 x] two\n{"a":1}\n')], 'one\n[2026-01-01 x] two\n{"a":1}\n')

    def test_nobody_can_seem_to_be_a_request(self):
        self.check([(None, '[a] one\n{"sless_request_id":"a"}\n')], '[-] [a] one\n[-] {"sless_request_id":"a"}\n')

    def test_a_request_can_not_seem_to_be_another(self):
        self.check(
            [(self.a, 'x\n[b] forged\n{"sless_request_id":"b","m":1}\n')],
            '[a] x\n[a] [b] forged\n{"sless_request_id":"a","sless_request_id":"b","m":1}\n',
        )

    def test_a_flushed_beginning_is_ended_by_whoever_is_next(self):
        with of(self.a):
            print("half", end="", flush=True, file=self.text)
        self.assertEqual(self.log(), "[a] half")
        self.check([(self.b, "whole\n"), (self.a, "rest\n")], "[a] half\n[b] whole\n[a] rest\n")

    def test_a_flushed_beginning_goes_on(self):
        with of(self.a):
            for word in ("one", " two", " three\n"):
                print(word, end="", flush=True, file=self.text)
        self.assertEqual(self.log(), "[a] one two three\n")

    def test_the_end_of_a_call_ends_its_line(self):
        self.check([(self.a, "no newline")], "")
        self.stream.flush_all(self.a, b"\n")
        self.stream.flush_all(self.a, b"\n")
        self.check([(self.b, "next\n")], "[a] no newline\n[b] next\n")
        with of(self.b):
            print("flushed", end="", flush=True, file=self.text)
        self.stream.flush_all(self.b, b"\n")
        self.check([(self.a, "last\n")], "[a] no newline\n[b] next\n[b] flushed\n[a] last\n")

    def test_a_long_beginning_is_not_kept(self):
        part = "x" * 5000
        self.check([(self.a, part), (self.a, part), (self.a, part + "\n")], "[a] " + 3 * part + "\n")


# What a worker does, in a process of its own: the threads and files of this one belong to the tests.
_WORK = """
import asyncio, concurrent.futures, os, subprocess, sys, threading
from _sless import output
output.install()
pool = concurrent.futures.ThreadPoolExecutor(1)
shared = concurrent.futures.ThreadPoolExecutor(1)

def work(name):
    print(name, "main")
    threading.Thread(target=print, args=(name, "thread")).start()
    threading.Timer(0, print, (name, "timer")).run()
    pool.submit(print, name, "pool").result()
    os.write(1, f"{name} below\\n".encode())
    sys.stdout.buffer.write(f"{name} buffer\\n".encode())
    print(name, "error", file=sys.stderr)
    print(name, "original", file=sys.__stdout__)
    child = os.fork()
    if child == 0:
        print(name, "fork")
        os._exit(0)
    os.waitpid(child, 0)

async def work_async(name):
    with output.of(output.Origin(name)):
        print(name, "task")
        await asyncio.to_thread(print, name, "to_thread")
        await asyncio.get_running_loop().run_in_executor(None, print, name, "executor")
        await asyncio.create_task(asyncio.to_thread(print, name, "child task"))

for name in "a", "b":
    with output.of(output.Origin(name)):
        work(name)

async def both():
    await asyncio.gather(work_async("c"), work_async("d"))
asyncio.run(both())
pool.submit(print, "nobody").result()

sys.setswitchinterval(1e-6)
with output.of(output.Origin("e")):
    def many(number):
        for i in range(200):
            print("line", number, i)
    threads = [threading.Thread(target=many, args=(n,)) for n in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
"""


class Work(unittest.TestCase):
    def test_the_id_follows_the_work(self):
        env = {**os.environ, "PYTHONPATH": os.path.join(paths.SLESS, "worker")}
        done = subprocess.run([sys.executable, "-X", "utf8", "-c", _WORK], env=env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertIn("[a] a error", done.stderr.splitlines())
        self.assertIn("[b] b error", done.stderr.splitlines())
        for name in "a", "b":
            for what in "main", "thread", "timer", "pool", "buffer", "original", "fork":
                self.assertEqual(lines.count(f"[{name}] {name} {what}"), 1, f"{name} {what} in {lines[:40]}")
            self.assertIn(f"{name} below", lines)
        for name in "c", "d":
            for what in "task", "to_thread", "executor", "child task":
                self.assertEqual(lines.count(f"[{name}] {name} {what}"), 1, f"{name} {what} in {lines[:40]}")
        self.assertIn("nobody", lines)
        for number in range(4):
            for i in range(200):
                self.assertIn(f"[e] line {number} {i}", lines)


if __name__ == "__main__":
    unittest.main()

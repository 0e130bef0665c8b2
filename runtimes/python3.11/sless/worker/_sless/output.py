"""What is printed, each line with the id of the request that it is printed for.

An id follows where work is started: into tasks, threads and the steps of thread pools. What goes past sys.stdout and
sys.stderr to the files below them (child processes, native code) goes past this module too.
"""

import contextlib
import io
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Callable, Iterator, TextIO

# The beginning of a line is kept back, until its end comes or it is flushed, up to this size.
_LONGEST_BEGINNING = 8 << 10
_LOOKS_MARKED = re.compile(rb'\[[!-~]+\] |\{"sless_request_id":')


class Origin:
    """Whom lines come from: a request."""

    def __init__(self, request_id: str, context: dict[str, str] | None = None) -> None:
        self.context = context or {}  # of its trace: headers of the requests it makes
        self._text = f"[{request_id}] ".encode()
        self._json = f'{{"sless_request_id":"{request_id}",'.encode()
        # Of lines that are not at their end, by stream and thread: print writes a line in pieces. Guarded by the stream's lock.
        self.beginnings: dict[tuple[Stream, int], bytes] = {}

    def mark(self, line: bytes) -> bytes:
        """The line with the id: before it, or as the first member when it looks like a JSON object."""
        if line.startswith(b'{"') and line.rstrip().endswith(b"}"):
            return self._json + line[1:]
        return self._text + line


class _Nobody(Origin):
    """The origin of lines that come from no request; one that looks as if it had an id gets a mark that says that it has none."""

    def __init__(self) -> None:
        super().__init__("-")

    def mark(self, line: bytes) -> bytes:
        return self._text + line if _LOOKS_MARKED.match(line) else line


_NOBODY = _Nobody()
_current: ContextVar[Origin] = ContextVar("sless_origin", default=_NOBODY)


class Stream(io.BufferedIOBase):
    """The bytes below sys.stdout or sys.stderr. Lines of different origins never share a line of the log."""

    def __init__(self, plain: TextIO) -> None:
        self._plain = plain  # kept: it closes its file when it goes
        self._file = plain.fileno()
        self.name = plain.name
        self._unfinished: Origin | None = None  # whose line stands in the log without its end
        self._renew_lock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        # Guards the order of lines. Reentrant: a destructor that runs within a write may print as well.
        self._lock = threading.RLock()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file

    def isatty(self) -> bool:
        return os.isatty(self._file)

    def write(self, data: Any) -> int:
        data, origin, key = bytes(data), _current.get(), (self, threading.get_ident())
        with self._lock:
            text = origin.beginnings.pop(key, b"") + data
            end = len(text) if len(text) > _LONGEST_BEGINNING else text.rfind(b"\n") + 1
            if end < len(text):
                origin.beginnings[key] = text[end:]
            self._put(origin, text[:end])
        return len(data)

    def flush(self) -> None:
        """Writes the beginning of a line that this thread has for the current origin."""
        origin = _current.get()
        if origin.beginnings:
            with self._lock:
                self._put(origin, origin.beginnings.pop((self, threading.get_ident()), b""))

    def flush_all(self, origin: Origin, end: bytes = b"") -> None:
        """Writes the beginnings that all threads have for an origin; `end` ends its line if it is not at its end."""
        with self._lock:
            for key in [key for key in origin.beginnings if key[0] is self]:
                self._put(origin, origin.beginnings.pop(key) + end)
            if self._unfinished is origin:
                self._put(origin, end)

    def _put(self, origin: Origin, data: bytes) -> None:
        if not data:
            return
        pieces = []
        goes_on = self._unfinished is origin
        if self._unfinished is not None and not goes_on:
            pieces.append(b"\n")
        *lines, rest = data.split(b"\n")
        for line in lines:
            pieces += (line if goes_on else origin.mark(line), b"\n")
            goes_on = False
        if rest:
            pieces.append(rest if goes_on else origin.mark(rest))
        self._unfinished = origin  # until all is written, should the handler be interrupted meanwhile
        left = memoryview(b"".join(pieces))
        while left:
            left = left[os.write(self._file, left) :]
        self._unfinished = origin if rest else None


_streams: list[Stream] = []


def install() -> None:
    """Puts itself below sys.stdout and sys.stderr, and ids into threads and pools."""
    for name in ("stdout", "stderr"):
        plain = getattr(sys, name)
        plain.flush()
        stream = Stream(plain)
        _streams.append(stream)
        # write_through: otherwise a text file of its own would gather what different origins write.
        marked = io.TextIOWrapper(stream, encoding=plain.encoding, errors="backslashreplace", write_through=True)
        setattr(sys, name, marked)
        setattr(sys, f"__{name}__", marked)
    threading.Thread.start = _starting(threading.Thread.start)
    ThreadPoolExecutor.submit = _submitting(ThreadPoolExecutor.submit)


def current() -> Origin:
    """The origin of what runs now."""
    return _current.get()


@contextlib.contextmanager
def of(origin: Origin) -> Iterator[None]:
    """What is printed within is of this origin."""
    before = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(before)


def flush(origin: Origin) -> None:
    """Writes the beginnings of lines that an origin has."""
    for stream in _streams:
        stream.flush_all(origin)


def finish(origin: Origin) -> None:
    """Ends the lines that an origin has not ended."""
    for stream in _streams:
        stream.flush_all(origin, b"\n")


def _starting(start: Callable) -> Callable:
    def start_of_origin(thread: threading.Thread) -> None:
        origin, run = _current.get(), thread.run

        def run_of_origin() -> None:
            _current.set(origin)
            run()

        if origin is not _NOBODY:
            thread.run = run_of_origin
        start(thread)

    return start_of_origin


def _submitting(submit: Callable) -> Callable:
    def submit_of_origin(pool: ThreadPoolExecutor, step: Callable, /, *args: Any, **kwargs: Any) -> Any:
        return submit(pool, _step_of, _current.get(), step, *args, **kwargs)

    return submit_of_origin


def _step_of(origin: Origin, step: Callable, /, *args: Any, **kwargs: Any) -> Any:
    with of(origin):
        return step(*args, **kwargs)
